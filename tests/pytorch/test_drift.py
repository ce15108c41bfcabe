"""How far a state drifts from exact sums in a million steps: in float32, in float64, and with compensated sums."""

import math

import numpy as np
import pytest
import torch

from gma_ref.pytorch import LearnedGaussianMixture, Memory, read_memory, responsibilities, update_memory

K, D_V, STEPS, PIECE = 16, 8, 1_000_000, 10_000


def stream():
    """Yield responsibilities and values of 10,000 tokens at a time, in float32."""
    torch.manual_seed(0)
    mixture = LearnedGaussianMixture(K, 8)()
    for _ in range(STEPS // PIECE):
        yield responsibilities(torch.randn(PIECE, 8), mixture).detach(), torch.randn(PIECE, D_V)


def additions(gamma, v):
    """Return what each step adds to the state, as rows of K · (d_v + 1) numbers."""
    return torch.cat([(gamma[:, :, None] * v[:, None, :]).flatten(1), gamma], dim=1).numpy()


def as_memory(row):
    """Return such a row as a memory."""
    V_tilde, Z = torch.as_tensor(row).split([K * D_V, K])
    return Memory(V_tilde.reshape(K, D_V), Z)


def compensated(total, lost, terms):
    """Add rows one by one in float32, and keep in a second row what rounding takes away (Kahan's summation)."""
    for term in terms:
        corrected = term - lost
        grown = total + corrected
        lost = (grown - total) - corrected
        total = grown
    return total, lost


def test_running_sum_of_numpy_is_what_steps_compute():
    gamma, v = next(stream())
    memory = Memory(torch.zeros(K, D_V), torch.zeros(K))
    for i in range(300):
        memory = update_memory(memory, gamma[i : i + 1], v[i : i + 1])
    rows = np.add.accumulate(additions(gamma[:300], v[:300]), axis=0, dtype=np.float32)
    for one, other in zip(memory, as_memory(rows[-1]), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.slow
def test_state_after_a_million_steps():
    width = K * (D_V + 1)
    single, kahan, lost = (np.zeros(width, np.float32) for _ in range(3))
    double = np.zeros(width)
    pieces = Memory(torch.zeros(K, D_V), torch.zeros(K))
    of_first_slot = []
    for gamma, v in stream():
        of_first_slot += gamma[:, 0].tolist()
        terms = additions(gamma, v)
        single = np.add.accumulate(np.vstack([single, terms]), axis=0, dtype=np.float32)[-1]
        kahan, lost = compensated(kahan, lost, terms)
        double = np.add.accumulate(np.vstack([double, terms]), axis=0)[-1]
        pieces = update_memory(pieces, gamma, v)
    true = math.fsum(of_first_slot)
    assert abs(double[K * D_V] - true) < 1e-12 * true  # a state in float64 is exact for all that follows
    exact, query = as_memory(double), gamma[:100]
    expected = read_memory(query.double(), exact)

    def errors(memory):
        """Return the largest relative error in Z, and the largest error of an output, in units of outputs."""
        of_z = ((memory.Z - exact.Z) / exact.Z).abs().max()
        of_output = (
            read_memory(query.double(), memory.to(torch.float64)) - expected
        ).abs().max() / expected.abs().max()
        return float(of_z), float(of_output)

    found = {
        "float32, steps": errors(as_memory(single)),
        "float32, pieces of 10,000": errors(pieces),
        "float32, compensated steps": errors(as_memory(kahan)),
    }
    print(found)
    assert 1e-5 < found["float32, steps"][0] < 1e-3
    assert found["float32, pieces of 10,000"][0] < 1e-5
    assert found["float32, compensated steps"][0] < 2e-7
    assert found["float32, compensated steps"][1] < 1e-5
