"""Find a Chromium for the checks, or get one: ``python -m tools.browser`` prints its path."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# Names of other hosts do not resolve, whoever asks: a page, a style sheet, or the browser itself.
ARGUMENTS = ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]


def find() -> str | None:
    """Return the path of a browser: $CHROMIUM, one on the PATH, or the one that Playwright keeps."""
    named = os.environ.get("CHROMIUM")
    if named:
        if not shutil.which(named):
            raise SystemExit(f"$CHROMIUM is {named!r}, and no program is there.")
        return shutil.which(named)
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found:
        return found
    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


def obtain() -> str:
    """Return a browser, installing one where none is found; say what is done, and what to do if it fails."""
    path = find()
    if path:
        return path
    attempts = [[sys.executable, "-m", "playwright", "install", "chromium"]]
    if shutil.which("apt-get") and os.geteuid() == 0:
        attempts += [["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "chromium"]]
    for command in attempts:
        print("No browser found. Trying:", " ".join(command), file=sys.stderr, flush=True)
        subprocess.run(command, check=False, stdout=sys.stderr)
        path = find()
        if path:
            return path
    raise SystemExit(
        "No browser to check the site with. Install Chromium or Chrome (on Debian: apt-get install chromium),\n"
        "or set CHROMIUM to the path of one."
    )


if __name__ == "__main__":
    print(obtain())
