from pathlib import Path

import pytest

from tools import sources
from tools.notebook_blocks import ChapterError

ROOT = Path(__file__).resolve().parents[2]

MODULE = '''\
"""A module that cannot be imported: sources are read, not run."""

import no_such_module


@no_such_module.accepts(x="N d")
@no_such_module.twice
def shift(
    x: "Float[Array, '*batch N d']",
    /,
    by: float = 1e-6,  # in keys
    *rest: int,
    scale: "Array | None" = None,
    label=": (a, b)",
    **more: dict[str, int],
) -> "Float[Array, '*batch N d']":
    r"""Shift `x`.

    Several lines: of text.
    """
    # Comments of the body stay,
    # all of them.
    y = x + by  # (1)

    if scale is None:
        return y
    return  (y *
             scale)   # layout stays


def bare(a: int) -> int:
    # Not a docstring.
    return a


class Box:
    @classmethod
    def make(cls, width: int = 3):
        """Make one."""
        return cls(width)

    class Lid:
        def close(self):
            return True


def only_text():
    """Nothing but words."""


def one_line(x): return x


def annotated():
    total: int = 0
    return total


def nested():
    def inner(x: int):
        return x
    return inner


def long():
    """Fourteen lines are the most."""
{long}


def too_long():
    """One more."""
{too_long}


variable = 3
'''


@pytest.fixture
def root(tmp_path):
    lines = {name: "\n".join(f"    x{i} = {i}" for i in range(n)) for name, n in {"long": 14, "too_long": 15}.items()}
    package = tmp_path / "toy" / "room"
    package.mkdir(parents=True)
    (package / "tools.py").write_text(MODULE.replace("{long}", lines["long"]).replace("{too_long}", lines["too_long"]))
    (tmp_path / "book").mkdir()
    return tmp_path


def chapter(name, body=""):
    return f"# A\n\n```{{code-cell}} ipython3\n:tags: [source]\n# source: {name}\n{body}```\n\nText.\n"


SHIFT = """\
def shift(x, /, by=1e-6, *rest, scale=None, label=": (a, b)", **more):
    # Comments of the body stay,
    # all of them.
    y = x + by  # (1)

    if scale is None:
        return y
    return  (y *
             scale)   # layout stays"""


def test_annotations_decorators_and_docstring_go_and_all_else_stays(root):
    assert sources.show("toy.room.tools.shift", root) == SHIFT


def test_what_is_shown_is_python():
    for name in ("memory.write_memory", "memory.read_memory", "attention.gaussian_mixture_attention"):
        compile(sources.show(f"gma_ref.reference.{name}"), name, "exec")


def test_a_function_without_docstring_keeps_its_first_comment(root):
    assert sources.show("toy.room.tools.bare", root) == "def bare(a):\n    # Not a docstring.\n    return a"


def test_methods_are_found_by_their_class(root):
    assert sources.show("toy.room.tools.Box.make", root) == "def make(cls, width=3):\n    return cls(width)"
    assert sources.show("toy.room.tools.Box.Lid.close", root) == "def close(self):\n    return True"


def test_a_wide_signature_takes_a_line_of_its_own():
    first, second, third, *_ = sources.show("gma_ref.reference.attention.gaussian_mixture_attention").split("\n")
    assert first == "def gaussian_mixture_attention("
    assert second == "    q, k, v, mixture, *, causal=False, eps=1e-6, key_mask=None"
    assert third == "):"


def test_a_signature_too_wide_for_a_line_takes_two():
    _, second, third, fourth, *_ = sources.show("gma_ref.diagnostics.vital.vital_signs").split("\n")
    assert second == "    gamma_q, gamma_k, *, causal=False, eps=1e-6, query_mask=None,"
    assert third == "    key_mask=None"
    assert fourth == "):"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("toy.room.tools.missing", "no module defines a function"),
        ("toy.room.tools.variable", "no module defines a function"),
        ("toy.room.tools.Box", "no module defines a function"),
        ("toy.elsewhere.shift", "no module defines a function"),
        ("shift", "no module defines a function"),
        ("toy.room.tools.only_text", "no lines below its signature"),
        ("toy.room.tools.one_line", "no lines below its signature"),
        ("toy.room.tools.annotated", "annotates names in its body"),
        ("toy.room.tools.nested", "annotates names in its body"),
        ("toy.room.tools.too_long", "has 15 lines, and a page has room for 14"),
    ],
)
def test_what_cannot_be_shown_is_an_error_that_says_why(root, name, message):
    with pytest.raises(ValueError, match=message):
        sources.show(name, root)


def test_fourteen_lines_fit(root):
    assert sources.show("toy.room.tools.long", root).count("\n") == 14


def test_writing_fills_the_cell_and_check_then_finds_nothing(root, capsys):
    path = root / "book" / "a.md"
    path.write_text(chapter("toy.room.tools.shift", "left = 'over'\n") + chapter("toy.room.tools.bare"))
    assert sources.main(["--check"], root) == 1
    assert capsys.readouterr().out.splitlines() == [
        "book/a.md:3: toy.room.tools.shift is not the source of the package",
        "book/a.md:12: toy.room.tools.bare is not the source of the package",
    ]
    assert "left = 'over'" in path.read_text()

    assert sources.main([], root) == 0
    bare = "def bare(a):\n    # Not a docstring.\n    return a\n"
    assert path.read_text() == chapter("toy.room.tools.shift", f"{SHIFT}\n") + chapter("toy.room.tools.bare", bare)
    assert sources.main(["--check"], root) == 0


def test_a_changed_function_is_drift(root, capsys):
    path = root / "book" / "a.md"
    path.write_text(chapter("toy.room.tools.bare"))
    sources.main([], root)
    module = root / "toy" / "room" / "tools.py"
    module.write_text(module.read_text().replace("    return a\n", "    return -a\n"))
    assert sources.main(["--check"], root) == 1
    assert "toy.room.tools.bare" in capsys.readouterr().out
    sources.main([], root)
    assert "return -a" in path.read_text()


@pytest.mark.parametrize(
    "text",
    [
        "```{code-cell} ipython3\n# source: toy.room.tools.bare\n```\n",
        "```{code-cell} ipython3\n:tags: [source]\nx = 1\n```\n",
    ],
)
def test_tag_and_first_line_go_together(text):
    with pytest.raises(ChapterError, match=r"^a\.md:1: a cell tagged source begins with"):
        sources.update(text, "a.md")


def test_an_error_names_file_and_line(root, capsys):
    (root / "book" / "a.md").write_text(chapter("toy.room.tools.too_long"))
    assert sources.main([], root) == 1
    assert capsys.readouterr().err.startswith("book/a.md:3: toy.room.tools.too_long has 15 lines")


def test_the_book_shows_the_source_of_the_package(capsys):
    assert sources.main(["--check"]) == 0, capsys.readouterr().out
