"""Every implementation on the exact cases, forwards and backwards, in float64."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from gma_ref import pytorch as gmt
from tests.examples import CASES, key_mask_of
from tests.pytorch.problems import NAMES, assert_same, every_device, every_implementation, leaves, run

MODES = [(name, mode) for name, case in CASES.items() for mode in ("bidirectional", "causal") if hasattr(case, mode)]
every_mode = pytest.mark.parametrize(("name", "mode"), MODES)


@every_device
@every_implementation
@every_mode
def test_output_and_gradients_are_the_exact_ones(name, mode, implementation, device):
    given, exact = CASES[name].inputs, getattr(CASES[name], mode)
    options = {"eps": given.eps, "eps_sigma": given.eps_sigma, "key_mask": key_mask_of(CASES[name])}
    options |= {"causal": mode == "causal", "implementation": implementation, "device": device}
    output, found = run([getattr(given, one) for one in NAMES], exact.upstream, **options)
    # the CPU decides by the mixture how to take the scores; on a GPU the square is always expanded
    rtol = 1e-10 if device == "cpu" else 1e-8
    assert_allclose(output, exact.output, rtol=rtol, atol=1e-15)
    # what is nearly 0 beside the other entries may be off by a few of their roundings
    assert_same(found, vars(exact.gradients), rtol=10 * rtol, scale=1e-5 * rtol)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_each_equation_gives_the_exact_numbers(case):
    given = case.inputs
    q, k, v, *parameters = (tensor.detach() for tensor in leaves(getattr(given, name) for name in NAMES))
    mask = key_mask_of(case)
    mask = None if mask is None else torch.tensor(mask)
    mixture = gmt.GaussianMixture.from_unconstrained(*parameters, given.eps_sigma)
    gamma_q, gamma_k = gmt.responsibilities(q, mixture), gmt.responsibilities(k, mixture)
    pairs = [
        (mixture.variance, case.variance),
        (mixture.log_prior, case.log_prior),
        (gmt.log_density(q, mixture), case.log_density_q),
        (gmt.scores(q, mixture), case.scores_q),
        (gamma_q, case.bidirectional.gamma_q),
        (gamma_k, case.bidirectional.gamma_k),
        (gmt.attention_weights(gamma_q, gamma_k, eps=given.eps, key_mask=mask), case.bidirectional.weights),
        (gmt.read_memory(gamma_q, gmt.write_memory(gamma_k, v, mask), given.eps), case.bidirectional.output),
    ]
    if hasattr(case, "causal"):
        memory = gmt.prefix_memory(gamma_k, v, mask)
        causal = gmt.read_memory(gamma_q[..., None, :], memory, given.eps)[..., 0, :]
        weights = gmt.attention_weights(gamma_q, gamma_k, causal=True, eps=given.eps, key_mask=mask)
        pairs += [(weights, case.causal.weights), (causal, case.causal.output)]
    for found, exact in pairs:
        assert_allclose(np.asarray(found), exact, rtol=1e-11, atol=1e-15)
