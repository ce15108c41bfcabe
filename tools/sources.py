"""Keep the package's own source on the page: ``python -m tools.sources``.

A code cell tagged ``source`` begins with a line such as ``# source: gma_ref.reference.memory.write_memory``. What
follows is generated: that function without decorators, annotations and docstring. ``--check`` writes nothing and
names the cells that differ.
"""

import argparse
import ast
import re
import sys
import textwrap
from pathlib import Path

from tools.notebook_blocks import ChapterError, find_blocks

ROOT = Path(__file__).resolve().parents[1]
LONGEST_BODY = 14
WIDEST_SIGNATURE = 76


def show(name: str, root: Path = ROOT) -> str:
    """Return the source of the function `name` as a chapter shows it.

    Parameters
    ----------
    name : str
        Dotted name, from the module that defines the function; a method's includes its class.
    root : Path
        Folder that holds the package.

    Raises
    ------
    ValueError
        If there is no such function, or it is too long for a page, or annotates names in its body.
    """
    source, node = find_function(name, root)
    lines = source.splitlines()
    statements = node.body[1:] if ast.get_docstring(node) is not None else node.body
    if not statements or statements[0].lineno == node.lineno:
        raise ValueError(f"{name} has no lines below its signature to show")
    start = statements[0].lineno - 1
    while lines[start - 1].lstrip().startswith(("#", "@")):  # a comment, or a decorator, above the first statement
        start -= 1
    body = textwrap.dedent("\n".join(lines[start : node.end_lineno]))
    if (length := body.count("\n") + 1) > LONGEST_BODY:
        raise ValueError(f"{name} has {length} lines, and a page has room for {LONGEST_BODY}")
    if any(getattr(part, "annotation", None) for statement in node.body for part in ast.walk(statement)):
        raise ValueError(f"{name} annotates names in its body, which a page cannot show")
    return f"def {node.name}{signature(source, node)}:\n{textwrap.indent(body, '    ')}"


def find_function(name: str, root: Path) -> tuple[str, ast.FunctionDef]:
    """Return the text of the module that defines `name`, and the function's node in it."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        path = root.joinpath(*parts[:cut]).with_suffix(".py")
        if path.is_file():
            source = path.read_text(encoding="utf-8")
            node = ast.parse(source)
            for part in parts[cut:]:
                named = [child for child in getattr(node, "body", []) if getattr(child, "name", None) == part]
                node = named[-1] if named else None
            if isinstance(node, ast.FunctionDef):
                return source, node
            break
    raise ValueError(f"no module defines a function {name}")


def signature(source: str, node: ast.FunctionDef) -> str:
    """Write the arguments of a function without annotations, defaults as they stand."""
    arguments = node.args

    def write(argument, default):
        return argument.arg if default is None else f"{argument.arg}={ast.get_source_segment(source, default)}"

    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    names = [write(*pair) for pair in zip(positional, defaults, strict=True)]
    if arguments.posonlyargs:
        names.insert(len(arguments.posonlyargs), "/")
    if arguments.vararg or arguments.kwonlyargs:
        names.append(f"*{arguments.vararg.arg}" if arguments.vararg else "*")
    names += [write(*pair) for pair in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    if arguments.kwarg:
        names.append(f"**{arguments.kwarg.arg}")
    inside = ", ".join(names)
    if len(f"def {node.name}({inside}):") <= WIDEST_SIGNATURE:
        return f"({inside})"
    lines = textwrap.fill(inside, WIDEST_SIGNATURE - 4, break_long_words=False, break_on_hyphens=False)
    return f"(\n{textwrap.indent(lines, '    ')}\n)"


def update(text: str, path: str, root: Path = ROOT) -> tuple[str, list[str]]:
    """Return a chapter with its source cells generated anew, and ``file:line: name`` of those that changed."""
    lines, changed = text.split("\n"), []
    for block in reversed(find_blocks(text, 1, path)[0]):
        if block.name != "code-cell":
            continue
        marked = re.match(r"\s*# source: *(\S+) *(?:\n|$)", block.text)
        if ("source" in (block.options.get("tags") or [])) != bool(marked):
            message = "a cell tagged source begins with the line `# source: NAME`, and only such a cell does"
            raise ChapterError(path, block.start + 1, message)
        if marked:
            try:
                wanted = f"# source: {marked[1]}\n{show(marked[1], root)}"
            except ValueError as error:
                raise ChapterError(path, block.start + 1, str(error)) from error
            if block.text.strip("\n") != wanted:
                changed.insert(0, f"{path}:{block.start + 1}: {marked[1]}")
            lines[block.body_line - 1 : block.end - 1] = wanted.split("\n")
    return "\n".join(lines), changed


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Write or check the source cells of all chapters; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a cell is out of date")
    check = parser.parse_args(arguments).check
    found = []
    for path in sorted(root.glob("book/**/*.md")):
        text = path.read_text(encoding="utf-8")
        try:
            new, changed = update(text, path.relative_to(root).as_posix(), root)
        except ChapterError as error:
            print(error, file=sys.stderr)
            return 1
        if changed and not check:
            path.write_text(new, encoding="utf-8", newline="\n")
        found += changed
    for cell in found:
        print(f"{cell} {'is not the source of the package' if check else 'written'}")
    return 1 if check and found else 0


if __name__ == "__main__":
    sys.exit(main())
