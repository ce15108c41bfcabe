"""Build the book and check it in a browser: ``python -m tools.book`` (``make book``).

It fails if a cell fails, a reference does not resolve, Sphinx warns, or a page has a fault, and it fails the second
time as it did the first: every page is read anew, only the outputs of unchanged chapters come from a cache.
"""

import argparse
import shutil
import sys
import time
from pathlib import Path

from jupyter_book.sphinx import build_sphinx

from tools import check_site


def build(root: Path) -> bool:
    """Execute the chapters of the book at `root` and write ``_build/html``; return whether all went well."""
    site = root / "_build" / "html"
    shutil.rmtree(site, ignore_errors=True)  # or pages that were renamed would stay
    result = build_sphinx(
        root,
        site,
        noconfig=True,  # there is no conf.py: the settings are in _config.yml
        path_config=root / "_config.yml",
        confoverrides={
            "external_toc_path": str(root / "_toc.yml"),
            "latex_individualpages": False,
            "nitpicky": True,
        },
        freshenv=True,
        keep_going=True,
        warningiserror=True,
        quiet=True,
    )
    return not result


def main() -> None:
    """Build, check, and say how long each took."""
    parser = argparse.ArgumentParser(prog="python -m tools.book", description=__doc__.split("\n")[0])
    parser.add_argument("root", type=Path, nargs="?", default=Path(), help="where _config.yml lies")
    parser.add_argument("--no-check", action="store_true", help="do not open the site in a browser")
    arguments = parser.parse_args()
    root = arguments.root.resolve()

    start = time.perf_counter()
    if not build(root):
        sys.exit("The book was not built: see above.")
    print(f"Built in {time.perf_counter() - start:.0f} s: {root / '_build' / 'html' / 'index.html'}", flush=True)
    if not arguments.no_check:
        check_site.main([str(root / "_build" / "html")])


if __name__ == "__main__":
    main()
