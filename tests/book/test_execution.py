"""Chapters run again when anything that their outputs depend on has changed."""

import importlib.util
from pathlib import Path

import pytest

import gma_ref

ROOT = Path(__file__).parents[2]


@pytest.fixture
def execution():
    spec = importlib.util.spec_from_file_location("book_execution", ROOT / "book" / "_ext" / "book_execution.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of two modules in two folders, in place of ours."""
    for folder in ("one", "two"):
        (tmp_path / "package" / folder).mkdir(parents=True)
        (tmp_path / "package" / folder / "module.py").write_text(f"{folder!r}")
    (tmp_path / "requirements.txt").write_text("numpy==2.0")
    monkeypatch.setattr(gma_ref, "__file__", str(tmp_path / "package" / "__init__.py"))
    return tmp_path / "package"


def test_the_state_stays_while_nothing_changes(execution, package):
    assert execution.state_of_the_world(package.parent) == execution.state_of_the_world(package.parent)


def test_the_state_changes_when_a_file_moves_to_another_folder(execution, package):
    before = execution.state_of_the_world(package.parent)
    (package / "two").rename(package / "three")
    assert execution.state_of_the_world(package.parent) != before


def test_the_state_changes_with_the_requirements(execution, package):
    before = execution.state_of_the_world(package.parent)
    (package.parent / "requirements.txt").write_text("numpy==2.1")
    assert execution.state_of_the_world(package.parent) != before


@pytest.mark.parametrize("name", ["numpy", "scipy", "scikit-learn", "matplotlib", "plotly"])
def test_the_state_changes_with_the_version_of_a_library(execution, package, monkeypatch, name):
    before = execution.state_of_the_world(package.parent)
    version = execution.version
    monkeypatch.setattr(execution, "version", lambda asked: "99.0" if asked == name else version(asked))
    assert execution.state_of_the_world(package.parent) != before


def test_a_library_may_be_missing(execution, package, monkeypatch):
    monkeypatch.setattr(execution, "LIBRARIES", ("numpy", "no-such-library"))
    assert execution.state_of_the_world(package.parent)
