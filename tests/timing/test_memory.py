"""Planted allocations are measured: in a fresh process, beyond its inputs, with what it returns counted apart."""

from pathlib import Path

import pytest

from gma_ref.timing import PeakMemory, peak_memory
from tests.timing import planted

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="elsewhere it is an upper bound")


@pytest.mark.parametrize(("megabytes", "kept"), [(120, 40), (300, 0)])
def test_planted_allocation_is_measured(megabytes, kept):
    found = peak_memory(planted.allocate, megabytes, kept)
    assert found.peak / planted.MEGABYTE == pytest.approx(megabytes, abs=4)
    assert found.held == kept * planted.MEGABYTE
    assert found.over / planted.MEGABYTE == pytest.approx(megabytes - kept, abs=4)


def test_what_the_inputs_took_before_does_not_count():
    found = peak_memory(planted.allocate, 60, 0, 400)
    assert found.peak / planted.MEGABYTE == pytest.approx(60, abs=4)


def test_what_this_process_holds_does_not_count():
    import numpy as np

    held = np.ones(200 * planted.MEGABYTE, np.uint8)
    assert peak_memory(planted.allocate, 30, 0).peak / planted.MEGABYTE == pytest.approx(30, abs=4)
    assert held[0] == 1


def test_failure_of_the_fresh_process_is_told():
    with pytest.raises(RuntimeError, match="the fresh process failed: ValueError: planted failure"):
        peak_memory(planted.fail)


def test_results_of_any_nesting_are_counted():
    import numpy as np
    import torch

    from gma_ref.timing.memory import _bytes

    nested = (np.ones(3, np.float32), [torch.ones(2), None], {"a": torch.ones(5, dtype=torch.float64)})
    assert _bytes(nested) == 12 + 8 + 40
    assert PeakMemory(100, 60).over == 40
