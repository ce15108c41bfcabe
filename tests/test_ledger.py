"""The ledger, walked both ways: what it names exists, what exists is in it, and the tests that it names bite."""

import ast
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gma_ref import reference
from gma_ref.equations import EQUATIONS
from gma_ref.proofs import claims

ROOT = Path(__file__).parent.parent
ROWS = {row.label: row for row in EQUATIONS}
PAGES = sorted((ROOT / "book").rglob("*.md"))
every_row = pytest.mark.parametrize("row", EQUATIONS, ids=ROWS.keys())

# Public names without a row of their own, and the equations that they belong to
WITHOUT_A_ROW = {
    "GaussianMixture": "Eq. (2)",
    "Memory": "Eq. (5)",
    "update_memory": "Eq. (5b)",
    "projection_cost": "Eq. (4)",
    "write_memory_vjp": "(G6)",
    "background_bound": "B6",
}


def test_labels_are_unique():
    assert len(ROWS) == len(EQUATIONS)


@every_row
def test_status_is_one_of_three(row):
    assert row.status in ("given", "inferred", "ours")
    # the book's own labels start with a letter, the paper's with a number
    assert (row.status == "ours") == row.label[0].isalpha()


@every_row
def test_functions_of_the_row_exist(row):
    for name in filter(None, (row.function, row.proof, row.pytorch)):
        assert callable(pkgutil.resolve_name(name)), name


@every_row
def test_proof_of_the_row_is_one_of_its_claims(row):
    own = [one.build for one in claims() if one.row == row.label]
    assert own == [] if row.proof is None else pkgutil.resolve_name(row.proof) in own


@every_row
def test_test_of_the_row_exists(row):
    path, _, name = row.test.partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert name in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize("row", [row for row in EQUATIONS if row.chapter], ids=lambda row: row.label)
def test_page_of_the_row_shows_its_equation(row):
    page, _, anchor = row.chapter.partition("#")
    assert anchor == f"eq-{row.label.lower()}"
    assert (anchor, row.label) in equations((ROOT / f"{page}.md").read_text(encoding="utf-8"))


def equations(text):
    r"""Return (anchor, label) of each ``(anchor)=`` that stands directly above a formula with a ``\tag``."""
    equation = r"^\(([\w-]+)\)=\n\$\$(?:(?!\$\$).)*?\\tag\{([^}]*)\}\s*\$\$"
    return re.findall(equation, text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_numbered_equation_of_the_book_is_in_the_ledger(page):
    text = page.read_text(encoding="utf-8")
    numbered = equations(text)
    assert sorted(re.findall(r"\\tag\*?\{([^}]*)\}", text)) == sorted(label for _, label in numbered)
    here = page.relative_to(ROOT).with_suffix("").as_posix()
    for anchor, label in numbered:
        assert ROWS[label].chapter == f"{here}#{anchor}"


def test_every_numbered_equation_stands_in_one_place():
    labels = [label for page in PAGES for _, label in equations(page.read_text(encoding="utf-8"))]
    assert labels, "the book has no numbered equation"
    assert len(labels) == len(set(labels))


@pytest.mark.parametrize("name", reference.__all__)
def test_public_functions_say_their_source_and_stand_in_the_ledger(name):
    function = getattr(reference, name)
    assert "Source: " in inspect.getdoc(function)
    if name in WITHOUT_A_ROW:
        assert WITHOUT_A_ROW[name] in inspect.getdoc(function)
    else:
        rows = [row for row in EQUATIONS if pkgutil.resolve_name(row.function) is function]
        assert rows
        for row in rows:
            assert row.status == "ours" or f"({row.label})" in inspect.getdoc(function), row.label


def test_names_without_a_row_have_none():
    functions = [pkgutil.resolve_name(row.function) for row in EQUATIONS]
    assert not [name for name in WITHOUT_A_ROW if getattr(reference, name) in functions]


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_every_perturbed_function_fails_its_test():
    done = run("-m", "tools.perturb")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NOT CAUGHT" not in done.stdout
    for row in EQUATIONS:
        assert re.search(rf"^caught +{row.label} +result off by a thousandth", done.stdout, flags=re.MULTILINE)
    assert re.search(rf"^{len(EQUATIONS)} rows, \d+ perturbations, 0 not caught$", done.stdout, flags=re.MULTILINE)


@pytest.mark.slow
def test_perturbation_that_no_test_sees_is_reported():
    # a row whose test asks for shapes alone
    done = run(
        "-c",
        "from dataclasses import replace; import tools.perturb as tool; "
        "row = next(row for row in tool.EQUATIONS if row.label == '9'); "
        "test = 'tests/reference/test_shapes.py::test_sequence_without_tokens_is_empty'; "
        "tool.EQUATIONS = (replace(row, test=test),); tool.main()",
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^NOT CAUGHT +9 +result off by a thousandth", done.stdout, flags=re.MULTILINE)
    assert re.search(r"^NOT CAUGHT +9 +sign \d+ of attention_weights", done.stdout, flags=re.MULTILINE)
