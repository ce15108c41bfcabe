"""The table of equations: a directive that sets the ledger of the package, with a link in every cell."""

import ast
from functools import lru_cache
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging

from gma_ref import equations
from gma_ref.proofs import claims

LOGGER = logging.getLogger(__name__)
STATUS = {"given": "paper", "inferred": "inferred", "ours": "ours"}


class LedgerDirective(Directive):
    """Set ``gma_ref.equations.EQUATIONS`` as a table: equation, origin of its number, function, test, proof."""

    def run(self) -> list:
        """Build the table; a column that no row fills is left out."""
        self.env = self.state.document.settings.env
        self.env.note_dependency(equations.__file__)
        columns = [
            ("Equation", self.equation),
            ("Number", lambda row: nodes.Text(STATUS[row.status])),
            ("What it says", lambda row: nodes.Text(row.name)),
            ("Function", lambda row: self.function(row.function)),
            ("Checked by", lambda row: self.test(row.test)),
        ]
        if any(row.proof or row.by_hand for row in equations.EQUATIONS):
            columns.append(("Established", self.established))
        if any(row.pytorch for row in equations.EQUATIONS):
            columns.append(("In PyTorch", lambda row: row.pytorch and self.function(row.pytorch)))
        heads = [nodes.Text(head) for head, _ in columns]
        rows = [[cell(row) for _, cell in columns] for row in equations.EQUATIONS]
        return [table(heads, rows)]

    def equation(self, row) -> nodes.Node:
        """Return the label, linked to the equation where its chapter is written."""
        text = nodes.Text(f"({row.label})")
        return text if row.chapter is None else self.reference("std", "ref", row.chapter.split("#")[1], text)

    def function(self, name: str) -> nodes.Node:
        """Return the function's name, linked to its entry on the API page."""
        return self.reference("py", "obj", name, nodes.literal(text=name.removeprefix("gma_ref.").split(".", 2)[-1]))

    def reference(self, domain: str, kind: str, target: str, text: nodes.Node) -> nodes.Node:
        """Return a link that Sphinx resolves, or warns about."""
        xref = addnodes.pending_xref(
            "",
            refdomain=domain,
            reftype=kind,
            reftarget=target,
            refexplicit=True,
            refwarn=True,
            refdoc=self.env.docname,
        )
        xref += nodes.inline("", "", text)
        return xref

    def test(self, node_id: str) -> nodes.Node:
        """Return the test's claim in words, linked to its source on GitHub."""
        path, name = node_id.split("::", 1)
        name = name.split("[")[0]
        return self.source(path, name, name.removeprefix("test_").replace("_", " "))

    def established(self, row) -> nodes.Node:
        """Say how far the proofs of a row reach, each linked to its source, and what its page proves in words."""
        cell = nodes.inline()
        for text, build in reached(row):
            cell += [nodes.Text("; ")] if cell.children else []
            path = build and build.__module__.replace(".", "/") + ".py"
            cell += self.source(path, build.__name__, text) if build else nodes.Text(text)
        return cell

    def source(self, path: str, name: str, text: str) -> nodes.Node:
        """Return a link to a function's source on GitHub."""
        line = lines_of_functions(Path(self.env.srcdir) / path).get(name)
        if line is None:
            LOGGER.warning("the ledger names what does not exist: %s in %s", name, path, location=self.env.docname)
        url = f"{self.env.config.html_theme_options['repository_url']}/blob/HEAD/{path}#L{line}"
        return nodes.reference("", text, refuri=url, internal=False)


def reached(row) -> list:
    """Return what establishes a row: words, and the function that states the proof where a machine decides it."""
    found = [one for one in claims() if one.row == row.label]
    parts = [(f"{one.label}: {one.reach()}" if len(found) > 1 else one.reach(), one.build) for one in found]
    if row.by_hand:
        parts.append((f"proved by hand on its page: {row.by_hand}", None))
    return parts or [("checked numerically", None)]


@lru_cache
def lines_of_functions(path: Path) -> dict[str, int]:
    """Return the line of each function of a Python file."""
    if not path.exists():
        return {}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name: node.lineno for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def table(heads: list, rows: list) -> nodes.table:
    """Return a table with a head line."""
    group = nodes.tgroup(cols=len(heads))
    group += [nodes.colspec(colwidth=1) for _ in heads]
    group += nodes.thead("", line(heads))
    group += nodes.tbody("", *map(line, rows))
    return nodes.table("", group, classes=["ledger"])


def line(cells: list) -> nodes.row:
    """Return one line of a table."""
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", *([cell] if cell else []))) for cell in cells))


def setup(app: Sphinx) -> dict:
    """Register the directive."""
    app.add_directive("ledger", LedgerDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
