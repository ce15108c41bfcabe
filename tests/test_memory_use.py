"""How much memory attention takes on a long sequence, as resident size of a fresh process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc"),
]

# VmHWM is the peak of this program alone; ru_maxrss would start at the size of the process that launched it.
PEAK = """
import sys
import numpy as np
import gma_ref

def megabytes(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(field))

N, width = int(sys.argv[1]), 64
rng = np.random.default_rng(0)
q, k, v = (rng.standard_normal((N, width), np.float32) for _ in range(3))
mu, ones = rng.standard_normal((width, width), np.float32), np.ones((width, width), np.float32)
mixture = gma_ref.GaussianMixture(mu, 8 * ones, np.full(width, -np.log(np.float32(width))))
before = megabytes("VmRSS:")
"""
ATTENTION = """
output = gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal={causal})
assert output.dtype == np.float32 and np.isfinite(output).all()
print(megabytes("VmHWM:") - before - output.nbytes / 2**20)
"""
BACKWARD = """
alpha = np.zeros(width, np.float32)
upstream = rng.standard_normal((N, width), np.float32)
before = megabytes("VmRSS:")
gradients = gma_ref.gaussian_mixture_attention_vjp(q, k, v, mu, 8 * ones, alpha, upstream, causal={causal})
assert all(gradient.dtype == np.float32 and np.isfinite(gradient).all() for gradient in gradients.values())
print(megabytes("VmHWM:") - before - sum(gradient.nbytes for gradient in gradients.values()) / 2**20)
"""
PREFIXES = """
memory = gma_ref.prefix_memory(gma_ref.responsibilities(k, mixture), v)
print(megabytes("VmHWM:") - before)
"""


def peak(code, N):
    """Return what a fresh process takes for the code beyond its inputs and its output, in MB."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PEAK + code, str(N)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_on_100_000_tokens_takes_under_500_megabytes(causal):
    assert peak(ATTENTION.format(causal=causal), 100_000) < 500


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_on_50_000_tokens_take_under_300_megabytes(causal):
    # an array of N·K numbers is 12 MB here, one of N·K·d_v would be 780 MB
    assert peak(BACKWARD.format(causal=causal), 50_000) < 300


def test_memory_of_every_prefix_is_seen_by_the_same_measure():
    # N·K·(d_v + 1) numbers: 2,000 · 64 · 65 · 4 bytes = 32 MB, and a temporary of the same size
    assert 32 < peak(PREFIXES, 2000) < 100
    assert peak(PREFIXES, 16_000) > 500
