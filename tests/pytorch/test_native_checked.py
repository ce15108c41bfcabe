"""The C program leaves nothing to chance: compiled so that it stops at what C leaves undefined, it runs to its end."""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gma_ref.pytorch import native
from gma_ref.pytorch.native import library
from tests.pytorch.blocked_examples import attend, draw_mask, draw_problem, tensors
from tests.pytorch.test_native import needs_compiler

CHECKS = "-fsanitize=undefined -fsanitize-undefined-trap-on-error"


@needs_compiler
def test_it_does_nothing_that_c_leaves_undefined(tmp_path, monkeypatch):
    monkeypatch.setenv("GMA_REF_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", f"{library.compiler()} {CHECKS}")
    try:
        native.build()
    except RuntimeError:
        pytest.skip("the C compiler has no such checks")
    finally:
        native.built.cache_clear()
    code = f"from {__name__} import run_sizes; run_sizes()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, cwd=Path(__file__).parents[2])


def run_sizes():
    """Run both passes on a few tokens, of ordinary mixtures and of sharp ones, in odd sizes and in round ones."""
    assert native.built() is not None
    sizes = ({"N": 1, "K": 1, "d_r": 1, "d_v": 1}, {"N": 37, "K": 9, "d_r": 5, "d_v": 7}, {"N": 64, "K": 8, "d_r": 8})
    for size, causal, spread, masked in itertools.product(sizes, (False, True), (1, 1e3), (False, True)):
        arrays, _ = draw_problem(batch=(2,), heads=(), **size)
        arrays[3] *= spread
        mask = draw_mask((2, size["N"])) if masked else None
        given = tensors(arrays, torch.float32, requires_grad=True)
        attend(*given, causal=causal, key_mask=mask, program="native")[0].sum().backward()
