"""Write each chapter's notebook beside it: ``python -m tools.notebooks``.

``--check`` writes nothing and names the notebooks that are not what their chapters say.
"""

import argparse
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools.notebook_blocks import ChapterError
from tools.notebook_book import Book
from tools.notebook_install import install_cell, texts_requirements
from tools.notebook_markdown import Cell, Chapter

ROOT = Path(__file__).resolve().parents[1]
METADATA = {
    "colab": {"provenance": [], "toc_visible": True},
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def export(book: Book, path: str) -> str:
    """Return the notebook of the chapter at `path`, as the text of a file."""
    cells = Chapter(book, path).cells()
    code = "\n\n".join(cell.text for cell in cells if cell.kind == "code")
    try:
        install = install_cell(book.url, code, texts_requirements(book.root))
    except SyntaxError as error:
        raise ChapterError(path, 1, f"a code cell is not Python: {error.text or error}") from error
    cells.insert(0, Cell("code", install, "install", folded=True))
    notebook = new_notebook(cells=[as_notebook_cell(cell) for cell in cells], metadata=METADATA)
    nbformat.validate(notebook)
    return nbformat.writes(notebook) + "\n"


def as_notebook_cell(cell: Cell):
    """Return `cell` as nbformat has it."""
    if cell.kind == "markdown":
        return new_markdown_cell(cell.text, id=cell.name)
    metadata = {"tags": list(cell.tags)} if cell.tags else {}
    if cell.folded:  # as JupyterLab has it, and as Colab has it
        metadata |= {"jupyter": {"source_hidden": True}, "cellView": "form"}
    return new_code_cell(cell.text, id=cell.name, metadata=metadata)


def export_all(root: Path) -> dict[Path, str]:
    """Return the notebook of every chapter under `root`/book that has code cells, by its path."""
    book = Book(root)
    return {(root / path).with_suffix(".ipynb"): export(book, path) for path in sorted(book.notebooks)}


def orphans(root: Path, wanted: dict[Path, str]) -> list[Path]:
    """Return the notebooks under `root`/book that no chapter makes."""
    found = sorted(root.glob("book/**/*.ipynb"))
    return [path for path in found if path not in wanted and ".ipynb_checkpoints" not in path.parts]


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Write or check the notebooks; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a notebook is out of date")
    check = parser.parse_args(arguments).check
    try:
        wanted = export_all(root)
    except ChapterError as error:
        print(error, file=sys.stderr)
        return 1
    stale = {
        path: text for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    extra = orphans(root, wanted)
    for path in [*stale, *extra]:
        what = "no chapter makes this notebook" if path in extra else "not what its chapter says"
        print(f"{path.relative_to(root)}: {what if check else 'removed' if path in extra else 'written'}")
    if check:
        return 1 if stale or extra else 0
    for path, text in stale.items():
        path.write_text(text, encoding="utf-8", newline="\n")
    for path in extra:
        path.unlink()
    print(f"{len(wanted)} notebooks, {len(stale)} of them changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
