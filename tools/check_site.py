"""Check the built site as a reader meets it: ``python -m tools.check_site [_build/html]``.

The site is served under a sub-path, as GitHub Pages does, and each page is opened in a browser, light and dark, wide
and on a phone. All faults are reported; any fault makes the program fail.
"""

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import quote, urlsplit

from playwright.sync_api import BrowserContext, sync_playwright

from tools import browser, site_files, site_memory, site_pages

SUB_PATH = "/some/path/"
PATIENCE = 120_000  # milliseconds: a busy machine is not a fault of the page
# A desk and a phone. Pages load in the first theme, and change to the second.
SCREENS = (
    ({"width": 1280, "height": 900}, ("light", "dark")),
    ({"width": 390, "height": 844}, ("dark", "light")),
)


class Handler(SimpleHTTPRequestHandler):
    """Serve the site under the sub-path, and nothing beside it."""

    protocol_version = "HTTP/1.1"  # keeps connections open

    def translate_path(self, path):
        """Strip the sub-path."""
        outside = not path.startswith(SUB_PATH)
        return "/nonexistent" if outside else super().translate_path("/" + path.removeprefix(SUB_PATH))

    def end_headers(self):
        """Let the browser keep what all pages share."""
        self.send_header("Cache-Control", "max-age=600")
        super().end_headers()

    def log_message(self, *_):
        """Stay silent: the browser reports what fails."""


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Serve the site on this machine, and give its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{SUB_PATH}"
    finally:
        server.shutdown()
        server.server_close()


def listen(page, base: str, faults: list[str]) -> None:
    """Note what goes wrong while the page loads."""

    def on_request(request):
        if urlsplit(request.url).scheme in ("http", "https") and not request.url.startswith(base):
            faults.append(f"asks another host for {request.url}")

    def on_response(response):
        if response.status >= 400:
            faults.append(f"asks for {response.url.removeprefix(base)}, which gives {response.status}")

    def on_failed(request):
        if request.url.startswith(base) and request.failure != "net::ERR_ABORTED":
            faults.append(f"asks for {request.url.removeprefix(base)}, which fails: {request.failure}")

    def on_console(message):
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            faults.append(f"logs an error: {message.text}")

    page.on("request", on_request)
    page.on("response", on_response)
    page.on("requestfailed", on_failed)
    page.on("console", on_console)
    page.on("pageerror", lambda error: faults.append(f"throws an error: {error}"))


def visit(context: BrowserContext, base: str, name: str, themes: tuple[str, ...]) -> list[str]:
    """Open one page in the first theme, and look at it in both."""
    faults: list[str] = []
    page = context.new_page()
    listen(page, base, faults)
    page.goto(base + quote(name))
    site_pages.settle(page)
    for check in site_pages.CHECKS:
        faults += check(page)
    faults += site_pages.barriers(page, themes)
    page.close()
    return faults


def look(base: str, names: list[str], screen: dict, themes: tuple[str, ...]) -> list[tuple[str, str]]:
    """Open the pages one after the other on one screen; they load in the first theme. Return (page, fault) pairs."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser.obtain(), args=browser.ARGUMENTS)
        context = chromium.new_context(viewport=screen, color_scheme=themes[0])
        context.set_default_timeout(PATIENCE)
        faults = [(name, fault) for name in names for fault in visit(context, base, name, themes)]
        chromium.close()
    return [(name, f"at {screen['width']} px: {fault}") for name, fault in faults]


def words(page: Path) -> set[str]:
    """Return the long plain words of a page's text."""
    article = site_files.parse(page).find("article")
    return set(re.findall(r"\b[a-z]{7,}\b", article.get_text(" ") if article else ""))


def search(base: str, site: Path) -> list[str]:
    """Search for each page of text by the word that the fewest other pages have; report those not found."""
    vocabulary = {page: words(page) for page in site_files.articles(site)}
    spread = Counter(word for found in vocabulary.values() for word in found)
    faults = [] if vocabulary else ["the site has no page of text"]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser.obtain(), args=browser.ARGUMENTS)
        tab = chromium.new_page()
        tab.set_default_timeout(PATIENCE)
        for page, found in vocabulary.items():
            name = page.relative_to(site).as_posix()
            word = min(found, key=lambda each: (spread[each], each), default=name)
            tab.goto(f"{base}search.html?q={word}")
            tab.wait_for_function("document.querySelector('#search-results h2')?.innerText === 'Search Results'")
            if not tab.locator(f'#search-results a[href*="{name}"]').count():
                faults.append(f"{name} is not found by searching for {word!r}")
        chromium.close()
    return faults


def check(site: Path, repository: Path) -> list[str]:
    """Return all faults of the site; a page that looks as it did when no fault was found is not opened again."""
    faults = site_files.check(site, repository)
    pages = [*site_files.articles(site), site / "search.html"]
    now = site_memory.fingerprints(site, [page.relative_to(site).as_posix() for page in pages])
    before = site_memory.recall(site)
    names = [name for name, fingerprint in now.items() if before.get(name) != fingerprint]
    with served(site) as base, ThreadPoolExecutor() as pool:
        search_job = pool.submit(search, base, site)
        jobs = [pool.submit(look, base, names, screen, themes) for screen, themes in SCREENS]
        seen = [fault for job in jobs for fault in job.result()]
        faults += [f"{name} {fault}" for name, fault in seen] + search_job.result()
    site_memory.note(site, {name: now[name] for name in now.keys() - {name for name, _ in seen}})
    print(f"Opened {len(names)} of {len(now)} pages: the others have not changed since they were found without fault.")
    return list(dict.fromkeys(faults))


def main(argv: list[str] | None = None) -> None:
    """Check the site, print its faults, and fail if there are any."""
    parser = argparse.ArgumentParser(prog="python -m tools.check_site", description=__doc__.split("\n")[0])
    parser.add_argument("site", type=Path, nargs="?", default=Path("_build/html"))
    site = parser.parse_args(argv).site.resolve()
    if not (site / "index.html").exists():
        sys.exit(f"No site at {site}: build it first.")
    start = time.perf_counter()
    browser.obtain()  # once, before several threads want one
    faults = check(site, repository=site.parents[1])
    for fault in faults:
        print(fault, file=sys.stderr)
    count = len(site_files.articles(site))
    print(f"Checked {count} pages in {time.perf_counter() - start:.0f} s: {len(faults)} faults.", flush=True)
    if faults:
        sys.exit(1)


if __name__ == "__main__":
    main()
