import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from nbclient.exceptions import CellExecutionError

from tools import check_notebooks, notebook_colab, notebooks

SAMPLE = Path(__file__).parent / "fixtures" / "sample"
URL = "https://github.com/ann-example/sample-book"
MEND = "To mend it: pip install x\n"


class FakeColab:
    """Stands in for an environment: what is installed, and what a run and the first cell do to it."""

    def __init__(self, *_, says=(MEND, ""), after=None, fails=None, installs_elsewhere=False):
        self.versions = {"numpy": "2.0", "torch": "2.13.0"}
        self.says, self.after, self.fails = list(says), after or {}, fails
        self.installs_elsewhere = installs_elsewhere
        self.ran = []

    def make(self):
        return False

    def empty(self):
        return dict(self.versions)

    def installed(self):
        return dict(self.versions)

    def call(self, *_, cwd):
        if self.installs_elsewhere:
            self.versions["gma-ref"] = "0.1.0"
        return SimpleNamespace(stdout=self.says.pop(0), stderr="")

    def run(self, notebook, folder):
        self.ran.append("\n".join(cell.source for cell in notebook.cells))
        assert [path.suffix for path in folder.iterdir()] == [".ipynb"]
        self.versions |= {"gma-ref": "0.1.0", **self.after}
        if self.fails:
            notebook.cells[0].execution_count = 1
            raise self.fails


@pytest.fixture(scope="module")
def text():
    return notebooks.export_all(SAMPLE)[SAMPLE / "book/part/first.ipynb"]


@pytest.fixture
def repository(tmp_path):
    """The sample book as a repository, its notebooks committed."""
    root = shutil.copytree(SAMPLE, tmp_path / "repository")
    (root / "requirements.txt").write_text("numpy\n-e .\n")
    notebooks.main([], root)
    commit(root, "init", "--quiet")
    commit(root, "add", "--all")
    commit(root, "commit", "--quiet", "--message", "All")
    return root


def commit(root, *arguments):
    who = {f"GIT_{role}_{part}": "x@example.org" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    subprocess.run(["git", *arguments], cwd=root, check=True, env={**os.environ, **who}, capture_output=True)


def test_a_notebook_that_does_all_it_should_passes(text, tmp_path):
    assert check_notebooks.check(FakeColab(), "book/first.ipynb", text, tmp_path) is None


@pytest.mark.parametrize(
    ("world", "message"),
    [
        ({"says": ["", ""]}, "without gma_ref, the first cell says"),
        ({"says": [MEND + "and more\n", ""]}, "without gma_ref, the first cell says"),
        ({"says": [MEND, MEND]}, "with gma_ref installed, the first cell says"),
        ({"installs_elsewhere": True}, "installs something where it is not on Colab"),
        ({"after": {"numpy": "1.26"}}, "changed the versions of numpy"),
        ({"after": {"torch": "2.4", "scipy": "1.0"}}, "changed the versions of scipy, torch"),
        ({"fails": CellExecutionError("the traceback", "NameError", "x")}, "code cell 1: the traceback"),
    ],
)
def test_whatever_goes_wrong_is_said(text, tmp_path, world, message):
    assert message in check_notebooks.check(FakeColab(**world), "book/first.ipynb", text, tmp_path)


def test_the_address_leads_to_the_clone_and_other_settings_stay(repository, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "user.name")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "Somebody")
    environ = {**os.environ, **check_notebooks.redirect(URL, repository), "GIT_TERMINAL_PROMPT": "0"}
    head = subprocess.run(["git", "ls-remote", URL, "HEAD"], env=environ, capture_output=True, text=True, check=True)
    assert head.stdout.split()[0] == check_notebooks.git("rev-parse", "HEAD", root=repository).strip()
    name = subprocess.run(["git", "config", "user.name"], env=environ, capture_output=True, text=True, check=True)
    assert name.stdout.strip() == "Somebody"


def test_what_is_committed_runs_and_the_rest_is_mentioned(repository, monkeypatch, capsys):
    worlds = []
    monkeypatch.setattr(check_notebooks, "Colab", lambda *_: worlds.append(FakeColab(says=[MEND, ""] * 2)) or worlds[0])
    path = repository / "book/part/first.ipynb"
    committed = path.read_text()
    path.write_text(committed.replace("one = 1", "one = 'not committed'"))
    assert check_notebooks.main([], repository) == 0
    printed = capsys.readouterr().out
    assert "1 changes are not committed, and so not tested" in printed
    assert "book/part/first.ipynb" in printed
    assert "book/part/sample.ipynb" in printed
    assert len(worlds[0].ran) == 2
    assert "one = 1" in worlds[0].ran[0]
    assert "not committed" not in "".join(worlds[0].ran)


def test_one_failure_fails_the_run_and_the_others_still_run(repository, monkeypatch, capsys):
    colab = FakeColab(says=["", MEND, ""])
    monkeypatch.setattr(check_notebooks, "Colab", lambda *_: colab)
    assert check_notebooks.main([], repository) == 1
    captured = capsys.readouterr()
    assert "without gma_ref" in captured.err
    assert len(colab.ran) == 1


def test_names_choose_chapters(repository, monkeypatch):
    colab = FakeColab()
    monkeypatch.setattr(check_notebooks, "Colab", lambda *_: colab)
    assert check_notebooks.main(["sample"], repository) == 0
    assert len(colab.ran) == 1
    assert "A memory of two slots" in colab.ran[0]


def test_a_name_without_a_notebook_is_an_error(repository, capsys):
    assert check_notebooks.main(["sample", "nothing"], repository) == 1
    assert "no notebook is committed for nothing" in capsys.readouterr().err


def test_a_repository_without_notebooks_is_an_error(repository, capsys):
    commit(repository, "rm", "--quiet", "book/part/first.ipynb", "book/part/sample.ipynb")
    commit(repository, "commit", "--quiet", "--message", "None")
    assert check_notebooks.main([], repository) == 1
    assert "no notebook is committed" in capsys.readouterr().err


def test_a_shallow_clone_is_refused_in_one_line(repository, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(check_notebooks, "Colab", lambda *_: pytest.fail("it went on"))
    (repository / "more").touch()
    commit(repository, "add", "--all")
    commit(repository, "commit", "--quiet", "--message", "More")
    commit(tmp_path, "clone", "--quiet", "--depth", "1", repository.as_uri(), "shallow")
    assert check_notebooks.main([], tmp_path / "shallow") == 1
    assert capsys.readouterr().err == "the notebooks need a clone with its whole history: git fetch --unshallow\n"


def test_a_command_that_does_not_end_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(notebook_colab, "SECONDS_A_COMMAND", 0.5)
    colab = notebook_colab.Colab(tmp_path, "", {})
    colab.python = sys.executable
    with pytest.raises(subprocess.TimeoutExpired):
        colab.call("-c", "import time; time.sleep(30)")


def test_git_is_not_waited_for_without_end(repository, monkeypatch):
    waits = []
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *given, **how: waits.append(how.get("timeout")) or run(*given, **how))
    check_notebooks.git("status", root=repository)
    assert waits == [300]
