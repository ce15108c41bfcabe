"""Inputs for the tests: the exact cases, and drawn ones of any size."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import gma_ref


def load(path):
    """Return one exact case with its lists as arrays."""
    case = json.loads(path.read_text(encoding="utf-8"))

    def arrays(value):
        if isinstance(value, dict):
            return SimpleNamespace(**{name: arrays(entry) for name, entry in value.items()})
        return np.array(value) if isinstance(value, list) else value

    return arrays(case)


CASES = {path.stem: load(path) for path in sorted((Path(__file__).parent / "cases").glob("*.json"))}

# Marks that run a test on each case, and on each that has a causal answer (all but the one with N_q ≠ N_k)
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
CAUSAL = {name: case for name, case in CASES.items() if hasattr(case, "causal")}
every_causal_case = pytest.mark.parametrize("case", CAUSAL.values(), ids=CAUSAL.keys())


def mixture_of(case):
    """Return the mixture of an exact case."""
    given = case.inputs
    return gma_ref.GaussianMixture.from_unconstrained(given.mu, given.omega, given.alpha, given.eps_sigma)


def key_mask_of(case):
    """Return the mask of an exact case, or None."""
    return getattr(case.inputs, "key_mask", None)


def draw_mixture(rng, K=4, d_r=3, batch=()):
    """Return a mixture of components that overlap, with unequal priors."""
    mu, omega = rng.normal(size=(2, *batch, K, d_r))
    alpha = rng.normal(size=(*batch, K))
    return gma_ref.GaussianMixture.from_unconstrained(mu, omega, alpha)


def draw(seed=0, *, N=6, N_k=None, K=4, d_r=3, d_v=5, batch=(2,), heads=None):
    """Return queries, keys, values and a mixture, no two axes of one size."""
    rng = np.random.default_rng(seed)
    N_k = N if N_k is None else N_k
    q, k, v = (rng.normal(size=(*batch, *shape)) for shape in ((N, d_r), (N_k, d_r), (N_k, d_v)))
    return q, k, v, draw_mixture(rng, K, d_r, batch if heads is None else heads)


def draw_responsibilities(seed=0, *, N=6, N_k=None, K=4, d_v=5, batch=(2,)):
    """Return two routings and values, drawn without a mixture: rows of positive numbers that sum to 1."""
    rng = np.random.default_rng(seed)
    N_k = N if N_k is None else N_k
    gamma_q, gamma_k = (rng.dirichlet(np.ones(K), size=(*batch, n)) for n in (N, N_k))
    return gamma_q, gamma_k, rng.normal(size=(*batch, N_k, d_v))


def readme_example(number=0):
    """Return a Python block of the README: 0 is the one for NumPy, 1 the one for PyTorch."""
    readme = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", readme, flags=re.MULTILINE | re.DOTALL)[number]


def draw_problem(seed=0, *, N=6, N_k=None, K=4, d_r=3, d_v=5, batch=(2,), heads=None):
    """Return the six arrays that have a gradient, q, k, v, mu, omega and alpha, and an upstream gradient."""
    rng = np.random.default_rng(seed)
    N_k = N if N_k is None else N_k
    heads = batch if heads is None else heads
    q, k, v = (rng.normal(size=(*batch, *shape)) for shape in ((N, d_r), (N_k, d_r), (N_k, d_v)))
    mu, omega = rng.normal(size=(2, *heads, K, d_r))
    alpha = rng.normal(size=(*heads, K))
    return [q, k, v, mu, omega, alpha], rng.normal(size=(*batch, N, d_v))
