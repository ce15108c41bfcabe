"""Figures of the book: one palette, one style."""

from gma_ref.plots.palette import PALETTE, Shades

__all__ = ["PALETTE", "Shades"]
