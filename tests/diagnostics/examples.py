"""Responsibilities that the tests of the diagnostics share."""

import numpy as np


def draw(*shape, concentration=0.5, seed=0):
    """Draw responsibilities (..., N, K) from a Dirichlet distribution."""
    return np.random.default_rng(seed).dirichlet(np.full(shape[-1], concentration), size=shape[:-1])


def hard(labels, count=None):
    """Return one-hot responsibilities of component numbers (N,)."""
    labels = np.asarray(labels, dtype=int)
    return np.eye(labels.max(initial=-1) + 1 if count is None else count)[labels]
