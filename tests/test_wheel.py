"""The package as a reader gets it: a wheel in an empty environment, with the newest NumPy and with the oldest."""

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from tests.examples import readme_example

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow

# The modules of tests/reference and tests/diagnostics that need more than NumPy and pytest
WITH_OTHER_LIBRARIES = {
    "test_categories.py",
    "test_coincidence.py",
    "test_gradients_against_autograd.py",
    "test_hull.py",
    "test_information.py",
    "test_libraries.py",
    "test_permutations.py",
    "test_properties.py",
    "test_shape_checks.py",
    "test_stability_bounds.py",
}


def run(*command, folder, **variables):
    """Run a command in a folder, away from this checkout; return what it prints."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def plant_checkpoint_and_log(models):
    """Save a small model and a log among those that come with the package, to see whether they do."""
    from gma_ref.models import checkpoints, experiments
    from gma_ref.models.config import Config
    from gma_ref.models.transformer import Transformer

    model = Transformer(Config(vocabulary=5, num_layers=1, d_model=8, num_heads=2))
    checkpoints.save("planted", model, command="python", metrics={"validation": 1.0}, folder=models / "trained")
    name = experiments.log_name(experiments.runs_of("recall-rates")[0])
    (models / "logs" / "recall-rates").mkdir(parents=True, exist_ok=True)
    (models / "logs" / "recall-rates" / f"{name}.json").write_text('{"name": "planted"}', encoding="utf-8")


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Build the source archive, and the wheel from it, from a copy: the build leaves nothing in this checkout."""
    source = tmp_path_factory.mktemp("source") / "gma-book"
    made = shutil.ignore_patterns(".*", "_build", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, source, ignore=made)
    plant_checkpoint_and_log(source / "gma_ref" / "models")
    run(sys.executable, "-m", "build", "--outdir", "dist", ".", folder=source)
    return source / "dist"


@pytest.fixture(scope="module")
def wheel(archives):
    (built,) = archives.glob("*.whl")
    return built


@pytest.fixture
def environment(tmp_path):
    """Make an empty environment; return a function that installs into it and one that runs its Python."""
    venv.create(tmp_path / "venv", symlinks=True)
    python = str(tmp_path / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    folder = tmp_path / "empty"
    folder.mkdir()

    def install(*packages):
        run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *packages, folder=folder)

    def execute(*arguments, **variables):
        return run(python, *arguments, folder=folder, **variables)

    execute.folder = folder
    return install, execute


def test_wheel_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {"gma_ref", wheel.name.partition("-py3")[0] + ".dist-info"}
    sources = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "gma_ref").rglob("*.*")
        if path.suffix in (".py", ".c", ".h")
    }
    assert sources | {"gma_ref/py.typed"} <= set(names)
    measured = {path.name for path in (ROOT / "book" / "speed" / "measurements").glob("*.json")}
    assert {f"gma_ref/timing/measurements/{name}" for name in measured} == {
        name for name in names if name.startswith("gma_ref/timing/measurements/")
    }


def test_source_archive_holds_the_package_and_its_licences_but_no_part_of_its_tests(archives):
    (built,) = archives.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"gma_ref/__init__.py", "gma_ref/py.typed", "pyproject.toml", "LICENSE", "LICENSE-TEXT"} <= names
    rest = {name for name in names if name.split("/")[0] in ("book", "tests", "tools") and not name.endswith(".json")}
    assert rest <= {"book", "book/speed", "book/speed/measurements"}  # the folders of the measurements


def test_example_of_the_readme_runs_in_an_empty_environment(wheel, environment):
    install, execute = environment
    install(str(wheel))
    names = "from importlib.metadata import distributions; print(*(one.name for one in distributions()))"
    listed = execute("-c", names)
    assert set(listed.split()) == {"gma-ref", "numpy"}
    execute("-W", "error", "-c", readme_example())
    assert str(execute.folder.parent / "venv") in execute("-c", "import gma_ref; print(gma_ref.__file__)")


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="NumPy 1.26 has no wheel for this Python")
def test_reference_and_diagnostics_work_with_the_oldest_numpy(wheel, environment):
    install, execute = environment
    install("numpy==1.26.0", f"pytest=={pytest.__version__}", str(wheel))
    execute("-W", "error", "-c", readme_example())
    shutil.copytree(ROOT / "tests", execute.folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    tests = [path for room in ("reference", "diagnostics") for path in (ROOT / "tests" / room).glob("test_*.py")]
    files = sorted(str(path.relative_to(ROOT)) for path in tests if path.name not in WITH_OTHER_LIBRARIES)
    options = ["-q", "--import-mode=importlib", "-p", "no:cacheprovider", "-W", "error::DeprecationWarning"]
    printed = execute("-m", "pytest", *options, *files, GMA_REF_SHAPE_CHECKS="0")
    assert " passed" in printed
    assert "skipped" not in printed


def test_checkpoint_and_logs_load_from_the_wheel_without_the_repository(wheel, tmp_path):
    """Every file that the package needs is in the wheel, so that it works unpacked anywhere."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    (tmp_path / "empty").mkdir()
    code = (
        "import gma_ref, torch; from gma_ref.models import checkpoints, experiments\n"
        "assert experiments.logs('recall-rates')[0] == {'name': 'planted'}\n"
        "model = checkpoints.load('planted')\n"
        "logits = model(torch.tensor([[0, 1, 4]]))\n"
        "print(gma_ref.__file__, tuple(logits.shape), checkpoints.card('planted')['metrics'], checkpoints.available())"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path / "empty", env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path / "site"))
    assert "(1, 3, 5) {'validation': 1.0}" in done.stdout
    assert "'planted'" in done.stdout.rpartition("[")[2]
