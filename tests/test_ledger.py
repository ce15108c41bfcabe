"""The ledger, walked both ways: what it names exists, what exists is in it, and the tests that it names bite."""

import ast
import importlib.util
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gma_ref import diagnostics, pytorch, reference
from gma_ref.equations import EQUATIONS
from gma_ref.proofs import claim, claims

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


@pytest.fixture(scope="module")
def ledger():
    spec = importlib.util.spec_from_file_location("book_ledger", ROOT / "book" / "_ext" / "book_ledger.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# What the column *Established* says where less than the whole row is proved
ESTABLISHED = {
    "2": "proved for one coordinate: that its mass is 1",
    "5": "checked numerically",
    "11": "proved for any size",
    "B5": "algebra proved for any size: two scores along a ray; proved by hand on its page: both directions",
    "B6": "algebra proved for any size: the squares of one pair; "
    "proved by hand on its page: the exact constant for K = 2",
    "B6b": "proved by hand on its page: for one broadest component",
    "G7": "G7: proved for any size: diagonal covariance, fixed weights; "
    "G7b: proved for any size: diagonal covariance, weights computed anew; "
    "G7d: algebra proved for any size: full covariance, fixed weights; "
    "G7c: proved for d_r = 2 and any number of tokens: full covariance, fixed weights",
}


@pytest.mark.parametrize("label", ESTABLISHED)
def test_ledger_says_how_much_is_established(ledger, label):
    assert "; ".join(text for text, _ in ledger.reached(ROWS[label])) == ESTABLISHED[label]


def test_proof_of_the_affinity_is_about_the_affinity():
    statement = claim("11").statement
    assert str(statement.right.base) == r"{\tilde A}"
    assert pkgutil.resolve_name(ROWS["11"].proof) is claim("11").build


@every_row
def test_what_is_proved_by_hand_stands_in_a_proof_on_the_page(row):
    if row.by_hand:
        page = (ROOT / row.chapter.partition("#")[0]).with_suffix(".md").read_text(encoding="utf-8")
        assert "```{prf:proof}" in page
        assert f"({row.label})" in page


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


@pytest.mark.parametrize("name", sorted(set(pytorch.__all__) & set(reference.__all__) - set(WITHOUT_A_ROW)))
def test_functions_of_both_rooms_stand_side_by_side(name):
    function, own = getattr(pytorch, name), getattr(reference, name)
    rows = [row for row in EQUATIONS if pkgutil.resolve_name(row.function) is own]
    assert rows
    assert [row.label for row in rows if not row.pytorch or pkgutil.resolve_name(row.pytorch) is not function] == []


@pytest.mark.parametrize("name", pytorch.__all__)
def test_public_names_of_the_pytorch_room_say_their_source(name):
    assert "Source: " in " ".join(inspect.getdoc(getattr(pytorch, name)).split()) + " "


@pytest.mark.parametrize("name", sorted(diagnostics.__all__))
def test_functions_of_the_diagnostics_say_their_source(name):
    function = getattr(diagnostics, name)
    assert inspect.isclass(function) or "Source: " in " ".join(inspect.getdoc(function).split()) + " "


def test_formulas_of_the_models_room_say_their_source():
    """They are other people's, so that they have no number in the book and no row."""
    said = {}
    for path in (ROOT / "gma_ref" / "models").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                docstring = ast.get_docstring(node) or ""
                if ".. math::" in docstring:
                    said[node.name] = "Source: " in docstring
    assert {"Mamba", "ShortConvolution", "bigram_loss", "favor_features", "linear_attention"} <= set(said)
    assert [name for name, has_source in said.items() if not has_source] == []


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
