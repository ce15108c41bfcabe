"""How much memory training takes on a long sequence, as resident size of a fresh process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc"),
]

# A short call first, so that what PyTorch loads on the way is not counted.
PEAK = """
import sys
import torch
from gma_ref.pytorch.blocked import blocked_attention

def megabytes(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(field))

def step(N):
    given = [t[:, :N] for t in tokens] + mixture
    given = [t.detach().requires_grad_() for t in given]
    output = blocked_attention(*given, causal=causal, eps=1e-6)[0]
    gradients = torch.autograd.grad(output, given, upstream[:, :N])
    assert all(gradient.sum().isfinite() for gradient in gradients)  # isfinite of all would copy them
    return sum(t.nbytes for t in (output, *gradients)) / 2**20

N, causal = int(sys.argv[1]), sys.argv[2] == "causal"
H, width = 4, 64
torch.set_num_threads(1)
tokens = [torch.randn(H, N, width) for _ in range(3)]
mixture = [torch.randn(H, width, width), 8 * torch.rand(H, width, width) + 4, torch.full((H, width), -4.2)]
upstream = torch.randn(H, N, width)
step(2000)
before = megabytes("VmRSS:")
results = step(N)
print((megabytes("VmHWM:") - before - results) / (tokens[0].nbytes / 2**20))
"""


def peak(N, mode):
    """Return what forward and backward take beyond inputs, output and gradients, in sizes of q."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PEAK, str(N), mode]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.parametrize("mode", ["bidirectional", "causal"])
def test_forward_and_backward_take_less_than_half_the_queries_beyond_what_comes_in_and_out(mode):
    # q has 64 MB here; an array of N·K numbers would have 64 MB too, one of N·K·d_v 4 GB
    assert peak(65_536, mode) < 0.5
