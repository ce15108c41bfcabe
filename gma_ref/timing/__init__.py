"""Timing that can be trusted: warm, in turns, checked for correctness first, and written down with where it was run.

`interleave` times callables in turns, `peak_memory` measures a call in a fresh process or on a GPU, `write` and `read`
keep measurements as JSON, `record_of` gives the book's own, `curve` and `gains` what they say against length. The
comparison of the book is ``python -m gma_ref.timing``; its methods and targets are in ``gma_ref.timing.bench`` and
``gma_ref.timing.targets``, and ``gma_ref.timing.traffic`` counts what a call moves: these need PyTorch. The models of
the book are measured by ``python -m gma_ref.timing.models``, which needs what they need as well.
"""

from .clock import Times, interleave, median_and_quartiles, ratio
from .curves import curve, gains
from .load import BusyError, Watch, require_quiet, watch_for
from .memory import PeakMemory, peak_memory
from .record import measurements, read, record_of, select, write

__all__ = [
    "BusyError",
    "PeakMemory",
    "Times",
    "Watch",
    "curve",
    "gains",
    "interleave",
    "measurements",
    "median_and_quartiles",
    "peak_memory",
    "ratio",
    "read",
    "record_of",
    "require_quiet",
    "select",
    "watch_for",
    "write",
]
