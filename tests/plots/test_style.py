"""One style for the book, loaded only when it is used."""

import subprocess
import sys

import matplotlib as mpl
import pytest

from gma_ref import plots
from gma_ref.diagnostics import top_tokens
from gma_ref.plots.palette import CARD, PALETTE


def test_importing_plots_loads_no_matplotlib():
    program = "import sys, gma_ref.plots; gma_ref.plots.workflow(); assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    "call",
    [
        plots.use_book_style,
        plots.book_style,
        lambda: plots.colour_map("key"),
        lambda: plots.responsibility_heatmap([[1.0]]),
        lambda: plots.memory_heatmap([[1.0]]),
        lambda: plots.usage_histogram([1.0]),
        lambda: plots.alignment_matrix([[1.0]], ["a"]),
        lambda: plots.text_heatmap([[1.0]], "a"),
        lambda: plots.surprise_text({"a": [1.0]}, "a"),
        lambda: plots.top_token_bars(top_tokens([[1.0]], "a")),
    ],
)
def test_without_matplotlib_the_message_says_what_to_install(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'needs matplotlib: pip install "gma-ref\[plots\]"'):
        call()


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
        nbformat.v4.new_code_cell("plots.use_book_style(vector=True)"),
        nbformat.v4.new_code_cell("plt.plot([1, 2]);"),
    ]
    nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    [figure] = notebook.cells[1].outputs
    size = figure["metadata"]["image/png"]
    assert 400 < size["width"] < 640
    [drawing] = notebook.cells[2].outputs
    assert drawing["data"]["image/svg+xml"] == str(plots.workflow("read"))
    [figure] = notebook.cells[4].outputs
    assert "image/svg+xml" in figure["data"]
    assert "image/png" not in figure["data"]
