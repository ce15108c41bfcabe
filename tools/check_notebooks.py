"""Run each notebook alone, as on Colab: ``python -m tools.check_notebooks [NAME ...]``.

What is committed is what runs: the notebooks of HEAD, unmodified, each in its own empty folder, in an environment
that has what Colab has but neither gma_ref nor the plays. The first cell of each must fetch those from the address
of the book, which is redirected to a copy of this repository. numpy, torch and everything else must stay as they were.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
import yaml
from nbclient.exceptions import CellExecutionError, CellTimeoutError

from tools.notebook_colab import FETCHED, Colab

ROOT = Path(__file__).resolve().parents[1]


def git(*arguments: str, root: Path) -> str:
    """Return what git says about the repository at `root`, within five minutes."""
    done = subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True, timeout=300)
    return done.stdout


def redirect(url: str, clone: Path) -> dict[str, str]:
    """Return variables that make git read `clone` where it is asked for `url`, after any settings already made so."""
    number = int(os.environ.get("GIT_CONFIG_COUNT", "0"))
    return {
        "GIT_CONFIG_COUNT": str(number + 1),
        f"GIT_CONFIG_KEY_{number}": f"url.{clone.as_uri()}.insteadOf",
        f"GIT_CONFIG_VALUE_{number}": url,
    }


def check(colab: Colab, path: str, text: str, folder: Path) -> str | None:
    """Run one notebook in `folder`; return what is wrong with it, or None."""
    before = colab.empty()
    copy = folder / Path(path).name
    copy.write_text(text, encoding="utf-8")
    notebook = nbformat.read(copy, as_version=4)
    first = notebook.cells[0].source

    elsewhere = colab.call("-c", first, cwd=folder)
    if elsewhere.stdout.count("\n") != 1 or "pip install" not in elsewhere.stdout or elsewhere.stderr:
        return f"without gma_ref, the first cell says:\n{elsewhere.stdout}{elsewhere.stderr}"
    if colab.installed() != before:
        return "the first cell installs something where it is not on Colab"

    try:
        colab.run(notebook, folder)
    except (CellExecutionError, CellTimeoutError, RuntimeError) as error:
        done = sum(cell.get("execution_count") is not None for cell in notebook.cells)
        return f"code cell {done}: {error}"
    finally:
        nbformat.write(notebook, copy)

    after = colab.installed()
    if changed := {name for name in before.keys() | after if before.get(name) != after.get(name)} - set(FETCHED):
        return f"it changed the versions of {', '.join(sorted(changed))}"
    if again := colab.call("-c", first, cwd=folder).stdout:
        return f"with gma_ref installed, the first cell says:\n{again}"
    return None


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Run the notebooks; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="chapters to run, such as latent_memory (default: all)"
    )
    parser.add_argument("--keep", action="store_true", help="keep the folders with the executed notebooks")
    given = parser.parse_args(arguments)

    # pip asks the copy for a part of its history, and where that is missing git asks again and again.
    if git("rev-parse", "--is-shallow-repository", root=root).strip() == "true":
        print("the notebooks need a clone with its whole history: git fetch --unshallow", file=sys.stderr)
        return 1
    committed = git("ls-tree", "-r", "--name-only", "HEAD", "book", root=root).split("\n")
    paths = [path for path in committed if path.endswith(".ipynb")]
    unknown = set(given.names) - {Path(path).stem for path in paths}
    if unknown or not paths:
        print(f"no notebook is committed for {', '.join(sorted(unknown)) or 'any chapter'}", file=sys.stderr)
        return 1
    if changes := git("status", "--porcelain", root=root).splitlines():
        print(f"{len(changes)} changes are not committed, and so not tested")

    work = Path(tempfile.mkdtemp(prefix="notebooks-"))
    clone = work / "book.git"
    git("clone", "--quiet", "--bare", str(root), str(clone), root=root)

    def read(path):
        return git("show", f"HEAD:{path}", root=clone)

    url = yaml.safe_load(read("_config.yml"))["repository"]["url"]
    colab = Colab(root / "_build" / "colab-env", read("requirements.txt"), redirect(url, clone))
    started = time.perf_counter()
    if colab.make():
        print(f"made an environment like Colab's in {time.perf_counter() - started:.0f} s", flush=True)

    failures = 0
    for path in paths:
        if given.names and Path(path).stem not in given.names:
            continue
        folder = work / Path(path).with_suffix("")
        folder.mkdir(parents=True)
        started = time.perf_counter()
        wrong = check(colab, path, read(path), folder)
        print(f"{path:45} {'FAILED' if wrong else 'ok':6} {time.perf_counter() - started:6.1f} s", flush=True)
        if wrong:
            failures += 1
            print(wrong, file=sys.stderr, flush=True)
    if given.keep:
        print(f"executed notebooks: {work}")
    else:
        shutil.rmtree(work)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
