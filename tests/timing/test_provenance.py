"""Where numbers come from is said, and nothing that says whose machine it was."""

import getpass
import json
import os
import platform
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

import gma_ref
from gma_ref import _provenance
from gma_ref._provenance import provenance

ROOT = Path(__file__).parents[2]


def test_versions_are_those_of_what_is_installed():
    made = provenance(("numpy", "no-such-library"))
    assert made["versions"] == {"gma-ref": gma_ref.__version__, "numpy": np.__version__, "no-such-library": None}
    assert made["python"].endswith(platform.python_version())
    assert 1 <= made["processors"] <= os.cpu_count()
    assert abs(datetime.now(UTC) - datetime.fromisoformat(made["date"])).total_seconds() < 60


def test_neither_host_nor_user_nor_path_is_told(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("OMP_TOOL_LIBRARIES", "/home/somebody/tool.so")
    monkeypatch.setenv("HOME_OF_SOMEBODY", "secret")
    told = json.dumps(provenance())
    assert '"OMP_NUM_THREADS": "3"' in told
    assert '"OMP_TOOL_LIBRARIES": "set"' in told
    assert "secret" not in told
    for private in (platform.node(), str(Path.home()), str(ROOT), "somebody"):
        assert private not in told, private
    assert f'"{getpass.getuser()}"' not in told


def checkout(folder):
    """Put a copy of the module into a repository of its own, and return a function that asks it for its commit."""
    package = folder / "gma_ref"
    package.mkdir()
    shutil.copy(_provenance.__file__, package)
    code = "import json, _provenance; print(json.dumps(_provenance._commit()))"

    def ask():
        done = subprocess.run([sys.executable, "-c", code], cwd=package, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def git(*command):
        identity = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
        done = subprocess.run(["git", *identity, *command], cwd=folder, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    return ask, git


def test_commit_is_that_of_the_checkout_which_tracks_the_package(tmp_path):
    ask, git = checkout(tmp_path)
    assert ask() == [None, None]
    git("init", "-q")
    assert ask() == [None, None]  # installed in somebody's repository, which does not track it
    git("add", ".")
    git("commit", "-qm", "First")
    assert ask() == [git("rev-parse", "HEAD"), False]
    with open(tmp_path / "gma_ref" / "_provenance.py", "a", encoding="utf-8") as file:
        file.write("\n# changed\n")
    assert ask() == [git("rev-parse", "HEAD"), True]
