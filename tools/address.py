"""Set the address of the book: ``python -m tools.address https://github.com/OWNER/REPOSITORY``.

Writes ``repository.url``, and with ``--branch`` the branch that Colab opens notebooks from, in ``_config.yml``. Every
link to Colab and the first cell of every notebook follow from them. Where the README and the pages name the address in
their text, it is replaced there too.
"""

import argparse
import re
import sys
from pathlib import Path

import yaml

from tools.notebook_install import PLACEHOLDER

ROOT = Path(__file__).resolve().parents[1]
NOBODY = PLACEHOLDER.split("/")[-2]
# Old accounts may end in a hyphen or hold two in a row, and those that a company manages hold an underscore.
ADDRESS = re.compile(rf"https://github\.com/(?!{NOBODY}/)[\w-]+/(?!\.\.?$)[\w.-]{{1,100}}(?<!\.git)", re.ASCII)
BRANCH = re.compile(r"(?![-/.])(?!.*(?:\.\.|//|/\.|\.lock$))[\w./-]+(?<![/.])", re.ASCII)


def set_value(config: str, key: str, value: str) -> str:
    """Return the text of ``_config.yml`` with ``repository.<key>`` set, and all else as it was."""
    pattern = rf"^(repository:[ \t]*(?:#.*)?\n(?:[ \t]+.*\n|[ \t]*\n|#.*\n)*?[ \t]+{key}:[ \t]*)[^\s#]+"
    new, count = re.subn(pattern, lambda match: match[1] + value, config, count=1, flags=re.MULTILINE)
    if not count:
        raise ValueError(f"_config.yml has no repository.{key}")
    return new


def get_url(config: str) -> str:
    """Return ``repository.url`` from the text of ``_config.yml``."""
    return yaml.safe_load(config)["repository"]["url"]


def replace_url(root: Path, old: str, new: str) -> None:
    """Put the new address where the README and the pages of the book have the old one."""
    address = re.compile(re.escape(old) + r"(?![\w-]|\.\w)")  # not the beginning of a longer name
    for page in [root / "README.md", *sorted((root / "book").rglob("*.md"))]:
        text = page.read_text(encoding="utf-8") if page.exists() else ""
        if address.search(text):
            page.write_text(address.sub(lambda _: new, text), encoding="utf-8", newline="\n")


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Set the address; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", help="https://github.com/OWNER/REPOSITORY")
    parser.add_argument("--branch", help="branch that Colab opens notebooks from")
    given = parser.parse_args(arguments)
    if not ADDRESS.fullmatch(given.url):
        print(f"not of the form https://github.com/OWNER/REPOSITORY: {given.url}", file=sys.stderr)
        return 1
    if given.branch is not None and not BRANCH.fullmatch(given.branch):
        print(f"not the name of a branch: {given.branch}", file=sys.stderr)
        return 1
    path = root / "_config.yml"
    try:
        before = path.read_text(encoding="utf-8")
        config = set_value(before, "url", given.url)
        config = set_value(config, "branch", given.branch) if given.branch else config
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    path.write_text(config, encoding="utf-8", newline="\n")
    replace_url(root, get_url(before), given.url)
    return 0


if __name__ == "__main__":
    sys.exit(main())
