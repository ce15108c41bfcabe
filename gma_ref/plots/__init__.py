"""Figures of the book: one palette, one style."""

from gma_ref.plots.diagram import workflow
from gma_ref.plots.palette import PALETTE, Shades
from gma_ref.plots.paths import compare_paths

__all__ = ["PALETTE", "Shades", "compare_paths", "workflow"]
