"""The build is green only if all went well: faults are planted in a tiny book, and each must turn it red."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from tests.book.tiny_book import PAGE, REPOSITORY, build, make_book

pytestmark = pytest.mark.slow

# Little to run, so that each build is quick.
START = PAGE[: PAGE.index("# Every construct")]
SHORT = f"""{START}# A short page

(eq-5)=
$$
1 + 1 = 2 \\tag{{5}}
$$

```{{code-cell}} ipython3
from gma_ref import Memory, read_memory

print("read:", read_memory([[1.0]], Memory([[1e-6]], [1e-6])).item())
```
"""


def test_failing_cell_fails_the_build_and_shows_its_traceback(tmp_path):
    make_book(tmp_path, SHORT + "\n```{code-cell} ipython3\nslots = 0\n7 / slots\n```\n")
    green, said = build(tmp_path)
    assert not green
    assert "book/page" in said
    assert "7 / slots" in said
    assert "ZeroDivisionError" in said


def test_broken_reference_fails_every_build_until_it_is_mended(tmp_path):
    page = make_book(tmp_path, SHORT + "\nSee [Eq. (99)](#eq-99).\n") / "book" / "page.md"
    for _ in range(2):
        green, said = build(tmp_path)
        assert not green
        assert "eq-99" in said
    page.write_text(SHORT, encoding="utf-8")
    green, said = build(tmp_path)
    assert green, said


def test_without_make_a_broken_reference_fails_every_build_too(tmp_path):
    """By the line that the README gives."""
    make_book(tmp_path, SHORT + "\nSee [Eq. (99)](#eq-99).\n")
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^jupyter-book build [^#\n]*", readme, re.MULTILINE)
    program, *arguments = shlex.split(line)
    command = [shutil.which(program, path=os.path.dirname(sys.executable)), *arguments]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    for _ in range(2):
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode != 0
        assert "eq-99" in done.stdout + done.stderr


def test_moving_picture_without_words_fails_the_build(tmp_path):
    cell = "from gma_ref.plots import Moving\n\nMoving([{'type': 'scatter', 'y': [0]}], [[{}]], ['a'], 'step')\n"
    make_book(tmp_path, SHORT + f"\n```{{code-cell}} ipython3\n{cell}```\n")
    green, said = build(tmp_path)
    assert not green
    assert "a moving picture needs mystnb.image.alt" in said


def test_duplicate_label_fails_the_build(tmp_path):
    make_book(tmp_path, SHORT + "\n(eq-5)=\n$$\n2 + 2 = 4 \\tag{5}\n$$\n")
    green, said = build(tmp_path)
    assert not green
    assert "eq-5" in said


def test_changed_package_changes_the_page_although_the_cache_is_warm(tmp_path):
    memory = make_book(tmp_path, SHORT) / "gma_ref" / "reference" / "memory.py"
    page = tmp_path / "_build" / "html" / "book" / "page.html"
    assert build(tmp_path)[0]
    assert "read: 0.5\n" in page.read_text(encoding="utf-8")

    green, said = build(tmp_path)
    assert green
    assert "from the cache" in said

    text = memory.read_text(encoding="utf-8")
    changed = text.replace("eps: float = 1e-6", "eps: float = 3e-6")
    assert changed != text
    memory.write_text(changed, encoding="utf-8")
    green, said = build(tmp_path)
    assert green
    assert "from the cache" not in said
    assert "read: 0.25\n" in page.read_text(encoding="utf-8")


def test_slow_chapter_is_named(tmp_path):
    execution = make_book(tmp_path, SHORT) / "book" / "_ext" / "book_execution.py"
    text = execution.read_text(encoding="utf-8")
    assert "LIMIT = 60 " in text
    for limit in ("60 ", "0 "):  # the second time the outputs come from the cache
        execution.write_text(text.replace("LIMIT = 60 ", f"LIMIT = {limit}"), encoding="utf-8")
        green, said = build(tmp_path)
        assert green
        assert ("A chapter may take" in said) == (limit == "0 ")
    assert re.search(r"book/page ran for \d+ s", said)
