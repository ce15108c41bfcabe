"""What is installed where: for the jobs of the workflows, for the book, for JupyterLab."""

import ast
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points, metadata, packages_distributions
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OURS = {"gma_ref", "tests", "tools"}


def jobs(workflow):
    return yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"].values()


def package_tests():
    return [path for path in (ROOT / "tests").rglob("*.py") if "book" not in path.relative_to(ROOT / "tests").parts]


def constants(nodes):
    return [node.value if isinstance(node, ast.Constant) else None for node in nodes]


def used_by(path):
    """Return the modules that a file imports or runs with ``-m``, and the programs that it looks for."""
    modules, programs = set(), set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        words = []
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules.add(node.module)
        elif isinstance(node, ast.Call):
            words = constants(node.args)
            if ast.unparse(node.func) == "shutil.which":
                programs.add(words[0])
        elif isinstance(node, ast.List | ast.Tuple):
            words = constants(node.elts)
        modules.update(after for word, after in pairwise(words) if word == "-m" and after)
    return modules, programs


def distributions_used(paths):
    """Return the distributions without which the files would not run."""
    provided = packages_distributions()
    used = set()
    for path in paths:
        modules, programs = used_by(path)
        for module in modules:
            name = module.partition(".")[0]
            if name == "tools":
                used |= distributions_used([ROOT / f"{module.replace('.', '/')}.py"])
            elif name not in OURS and name not in sys.stdlib_module_names:
                used.update(provided[name])
        for program in programs:
            (script,) = entry_points(group="console_scripts", name=program)
            used.add(script.dist.name)
    return {canonicalize_name(name) for name in used}


def installed_by(step, matrix):
    """Return the distributions that a step asks pip for, those of the package's extras among them."""
    asked = set()
    for word in shlex.split(step.replace("\\\n", " ")):
        if extras := re.fullmatch(r"\.\[(.+)\]", word):
            asked.update(PROJECT["dependencies"])
            asked.update(line for extra in extras[1].split(",") for line in PROJECT["optional-dependencies"][extra])
        elif variable := re.fullmatch(r"\$\{\{ matrix\.(\w+) \}\}", word):
            asked.add(matrix[variable[1]][0])
        elif re.fullmatch(r"[A-Za-z][\w-]*", word):
            asked.add(word)
    return {canonicalize_name(Requirement(line).name) for line in asked}


def test_jobs_without_the_pins_install_what_the_tests_of_the_package_use():
    (job,) = (job for job in jobs(ROOT / ".github" / "workflows" / "ci.yml") if "strategy" in job)
    pip = "\n".join(step["run"] for step in job["steps"] if "pip install" in step.get("run", ""))
    used = distributions_used(package_tests())
    assert {"scikit-learn", "markdown-it-py", "import-linter", "torch"} <= used
    assert used - installed_by(pip, job["strategy"]["matrix"]) - {"pip"} == set()


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_fetch_the_whole_history(workflow):
    """A copy of a shallow clone cannot serve pip's partial clone, and the notebooks are checked from a copy."""
    steps = [step for job in jobs(workflow) for step in job["steps"] if "actions/checkout" in step.get("uses", "")]
    assert steps
    assert [step.get("with", {}).get("fetch-depth") for step in steps] == [0] * len(steps)


def test_every_pin_can_be_installed_with_the_oldest_python():
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").split()
    pins = [line.split("==")[0] for line in lines if "==" in line]
    assert len(pins) > 100
    oldest = PROJECT["requires-python"].removeprefix(">=") + ".0"
    wants = {name: metadata(name).get("Requires-Python") or "" for name in pins}
    assert {name: wanted for name, wanted in wants.items() if not SpecifierSet(wanted).contains(oldest)} == {}


def test_jupyterlab_is_installed_beside_the_pins():
    commands = subprocess.run(["make", "-n", "lab"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (line,) = (line for line in commands.splitlines() if "jupyterlab" in line)
    assert "-r requirements.txt" in line
