"""Figures of the book: one palette, one style.

The drawings, :func:`workflow` and :func:`compare_paths`, need nothing but NumPy. What moves, :class:`Moving` and the
functions that make one, loads Plotly when it is called, and the rest matplotlib.
"""

from gma_ref.plots.components import alignment_matrix, top_token_bars, usage_histogram
from gma_ref.plots.curves import draw_curves, draw_roofline
from gma_ref.plots.diagnostics import four_diagnostics
from gma_ref.plots.diagram import workflow
from gma_ref.plots.heatmaps import memory_heatmap, responsibility_heatmap
from gma_ref.plots.moving import Moving
from gma_ref.plots.moving_attention import moving_memory, moving_weights
from gma_ref.plots.moving_maps import moving_matrices, moving_regions, moving_triangle
from gma_ref.plots.moving_mixture import moving_components
from gma_ref.plots.moving_spectrum import moving_spectrum
from gma_ref.plots.palette import PALETTE, Shades
from gma_ref.plots.paths import compare_paths
from gma_ref.plots.style import book_style, colour_map, use_book_style
from gma_ref.plots.surprise import surprise_text
from gma_ref.plots.text import text_heatmap
from gma_ref.plots.training import draw_scores, draw_trends

__all__ = [
    "PALETTE",
    "Moving",
    "Shades",
    "alignment_matrix",
    "book_style",
    "colour_map",
    "compare_paths",
    "draw_curves",
    "draw_roofline",
    "draw_scores",
    "draw_trends",
    "four_diagnostics",
    "memory_heatmap",
    "moving_components",
    "moving_matrices",
    "moving_memory",
    "moving_regions",
    "moving_spectrum",
    "moving_triangle",
    "moving_weights",
    "responsibility_heatmap",
    "surprise_text",
    "text_heatmap",
    "top_token_bars",
    "usage_histogram",
    "use_book_style",
    "workflow",
]
