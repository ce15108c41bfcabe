"""What can be said of the site from its files alone: links, notebooks, weight, foreign hosts."""

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import yaml
from bs4 import BeautifulSoup, Tag

LIMIT = 1_000_000  # bytes of a page and the images that only it shows
# What an element loads. An href is followed by the reader in these, and loaded by all others.
LOADS = ("src", "poster", "data", "background", "href", "xlink:href")
FOLLOWED = ("a", "area")
NEIGHBOURS = {"canonical", "prev", "next", "search"}  # where a reader may go by a <link>, not what the page loads
SEVERAL = ("srcset", "imagesrcset")
CANDIDATE = re.compile(r"[\s,]*([^\s,](?:\S*[^\s,])?)(?:\s[^,]*)?(?:,|$)")  # an address, and for which screens it is


@cache
def parse(path: Path) -> BeautifulSoup:
    """Return the parsed page."""
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def pages(site: Path) -> list[Path]:
    """Return the HTML files of the site, theme parts left out."""
    return [path for path in sorted(site.rglob("*.html")) if "_static" not in path.relative_to(site).parts]


def articles(site: Path) -> list[Path]:
    """Return the pages that hold text of the book: not the index, nor the search, nor a redirect."""
    return [path for path in pages(site) if (site / "_sources" / path.relative_to(site).with_suffix(".md")).exists()]


def is_foreign(url: str) -> bool:
    """Tell whether the address names another host."""
    return bool(urlsplit(url).netloc)


def local_target(page: Path, url: str) -> tuple[Path, str]:
    """Return the file and the anchor that a relative address leads to."""
    parts = urlsplit(url)
    path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    return (path / "index.html" if path.is_dir() else path), unquote(parts.fragment)


def loaded(page: Path) -> list[str]:
    """Return the addresses that the page itself loads."""
    urls = [url for element in parse(page).find_all(True) for url in loaded_by(element)]
    return [url for url in urls if urlsplit(url).scheme != "data"]


def loaded_by(element: Tag) -> list[str]:
    """Return the addresses that one element loads."""
    if element.name in FOLLOWED or NEIGHBOURS & set(element.get("rel", ())):
        return []
    urls = [element[name] for name in LOADS if name in element.attrs]
    return urls + [url for name in SEVERAL for url in CANDIDATE.findall(element.get(name, ""))]


def links(page: Path) -> list[str]:
    """Return the addresses that the page leads to, by a link or by itself."""
    soup = parse(page)
    refresh = [meta["content"].split("url=", 1)[1] for meta in soup.select('meta[http-equiv="Refresh"]')]
    return refresh + [link["href"] for link in soup.select("a[href], link:is([rel=prev], [rel=next], [rel=search])")]


def foreign_hosts(site: Path, page: Path) -> list[str]:
    """Report what the page would fetch, or connect to, outside the site."""
    return [f"asks another host for {url}" for url in loaded(page) if is_foreign(url)]


def dead_links(site: Path, page: Path) -> list[str]:
    """Report the links within the site, and what the page loads, that lead nowhere."""
    faults = []
    for url in loaded(page) + links(page):
        if is_foreign(url) or urlsplit(url).scheme:
            continue
        path, anchor = local_target(page, url)
        if not path.is_relative_to(site.resolve()) or not path.exists():
            faults.append(f"links to {url}, which does not exist")
        elif anchor and path.suffix == ".html" and not parse(path).find(id=anchor):
            faults.append(f"links to {url}, where there is no such anchor")
    return sorted(set(faults))


def weight(site: Path, page: Path) -> list[str]:
    """Report a page that is too heavy without what all pages share."""
    files = {local_target(page, url)[0] for url in loaded(page) if not is_foreign(url) and "_static/" not in url}
    size = sum(path.stat().st_size for path in [page, *files] if path.is_file())
    return [f"weighs {size / 1e6:.2f} MB without what all pages share"] if size > LIMIT else []


def notebook_fault(path: Path) -> str | None:
    """Return what is wrong with a notebook's file, or None."""
    if not path.is_file():
        return "does not exist"
    try:
        nbformat.validate(nbformat.read(path, as_version=4))
    except Exception as error:
        return f"is no notebook ({type(error).__name__})"
    return None


def notebooks(site: Path, page: Path, repository: Path) -> list[str]:
    """Report a chapter with code whose Colab and download buttons do not give the committed notebook."""
    soup = parse(page)
    if not soup.select_one("article .cell"):
        return []
    source = page.relative_to(site).with_suffix(".ipynb")
    colab = [link["href"] for link in soup.select('a[href^="https://colab.research.google.com/"]')]
    downloads = [link["href"] for link in soup.select(".btn-download-notebook-button[href]")]
    faults = [f"has no {name} button" for name, urls in (("Colab", colab), ("download", downloads)) if not urls]
    for url in colab:
        opens = re.fullmatch(r"/github/[^/]+/[^/]+/blob/[^/]+/(.+)", urlsplit(url).path)
        if not opens or opens[1] != source.as_posix():
            faults.append(f"opens {url} on Colab, not its own notebook")
        elif fault := notebook_fault(repository / opens[1]):
            faults.append(f"opens {opens[1]} on Colab, which {fault}")
    for url in downloads:
        offered, _ = local_target(page, url)
        if fault := notebook_fault(offered):
            faults.append(f"offers {url}, which {fault}")
        elif (repository / source).exists() and offered.read_bytes() != (repository / source).read_bytes():
            faults.append(f"offers {url}, which is not the committed notebook")
    return faults


def repository_links(page: Path, repository: Path) -> list[str]:
    """Report links to files and folders of the book's own repository, on any branch, that are not there."""
    settings = yaml.safe_load((repository / "_config.yml").read_text(encoding="utf-8"))["repository"]
    kind, branch = r"(?:blob|tree|raw|edit|blame|commits)", re.escape(settings["branch"])
    leads = re.compile(rf"{re.escape(settings['url'])}/{kind}/(?:{branch}|[^/]+)/([^?#]+)")
    paths = [unquote(match[1]) for url in links(page) if (match := leads.match(url))]
    missing = sorted({path for path in paths if not (repository / path).exists()})
    return [f"links to {path} in the repository, which does not exist" for path in missing]


def complaints(page: Path) -> list[str]:
    """Report what cells wrote to stderr, such as warnings, and readers see."""
    outputs = parse(page).select("article .output.stderr")
    return [f"shows what a cell wrote to stderr: {' '.join(output.get_text().split())[:80]}" for output in outputs]


def check(site: Path, repository: Path) -> list[str]:
    """Return all faults of the site's files, each with the page where it stands."""
    parse.cache_clear()
    faults = []
    for page in pages(site):
        found = foreign_hosts(site, page) + dead_links(site, page) + weight(site, page)
        found += notebooks(site, page, repository) + repository_links(page, repository)
        found += complaints(page)
        faults += [f"{page.relative_to(site)}: {fault}" for fault in found]
    return faults
