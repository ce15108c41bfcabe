"""One style for the book, loaded only when it is used."""

import subprocess
import sys

import matplotlib as mpl
import pytest

from gma_ref import plots
from gma_ref.plots.palette import CARD, PALETTE


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


def test_importing_plots_loads_no_matplotlib():
    done = run("import sys, gma_ref.plots; gma_ref.plots.workflow(); assert 'matplotlib' not in sys.modules")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "call",
    [
        "use_book_style()",
        "book_style()",
        "colour_map('key')",
        "responsibility_heatmap([[1.0]])",
        "memory_heatmap([[1.0]])",
    ],
)
def test_without_matplotlib_the_message_says_what_to_install(call):
    done = run(f"import sys; sys.modules['matplotlib'] = None; import gma_ref.plots as plots; plots.{call}")
    assert 'ImportError: This figure needs matplotlib: pip install "gma-ref[plots]"' in done.stderr


def test_the_style_holds_inside_its_context_only():
    before = dict(mpl.rcParams)
    with plots.book_style():
        assert mpl.rcParams["figure.facecolor"] == CARD
        assert mpl.rcParams["font.size"] >= 11
    assert dict(mpl.rcParams) == before


def test_lines_differ_in_hue_and_in_dashes():
    with mpl.rc_context():
        plots.use_book_style()
        cycle = list(mpl.rcParams["axes.prop_cycle"])
        width, _ = mpl.rcParams["figure.figsize"]
    assert [line["color"] for line in cycle] == [PALETTE[symbol].light for symbol in ("query", "key", "val", "mem")]
    assert len({str(line["linestyle"]) for line in cycle}) == len(cycle)
    assert width <= 6.4


def test_a_notebook_gets_twice_the_pixels_and_the_card():
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [
        nbformat.v4.new_code_cell("import matplotlib.pyplot as plt\nfrom gma_ref import plots\nplots.use_book_style()"),
        nbformat.v4.new_code_cell("plt.plot([1, 2]);"),
        nbformat.v4.new_code_cell("plots.workflow('read')"),
    ]
    nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    [figure] = notebook.cells[1].outputs
    size = figure["metadata"]["image/png"]
    assert 400 < size["width"] < 640
    [drawing] = notebook.cells[2].outputs
    assert drawing["data"]["image/svg+xml"] == str(plots.workflow("read"))
