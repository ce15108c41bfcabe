"""Key masks: True means that a key takes part; and what no key reaches is 0."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from gma_ref import pytorch as gmt
from tests.examples import draw_problem
from tests.pytorch.problems import (
    NAMES,
    assert_same,
    attend,
    both_modes,
    every_implementation,
    gradients,
    leaves,
    run,
    run_reference,
)

MASK = np.array([True, False, True, True, False, True])
ONE = gmt.GaussianMixture(torch.zeros(1, 1), torch.ones(1, 1), torch.zeros(1))  # every output is a mean


@every_implementation
@both_modes
def test_true_keeps_a_key_in_values_and_in_the_normaliser(causal, implementation):
    x, v = torch.zeros(4, 1), torch.tensor([[1.0], [2], [3], [4]])
    mask = torch.tensor([True, True, False, False])
    before = [tensor.clone() for tensor in (x, v, mask)]
    options = {"causal": causal, "eps": 0, "key_mask": mask, "implementation": implementation}
    output = gmt.gaussian_mixture_attention(x, x, v, ONE, **options)
    assert output[:, 0].tolist() == ([1, 1.5, 1.5, 1.5] if causal else [1.5] * 4)
    for tensor, old in zip((x, v, mask), before, strict=True):
        assert torch.equal(tensor, old)


@every_implementation
@both_modes
@pytest.mark.parametrize("held", [np.nan, np.inf, -np.inf])
def test_masked_keys_write_nothing_and_get_nothing_whatever_they_hold(held, causal, implementation):
    arrays, upstream = draw_problem()
    options = {"causal": causal, "key_mask": MASK}
    expected_output, expected = run_reference(arrays, upstream, **options)
    for array in arrays[1:3]:
        array[:, ~MASK] = held
    output, found = run(arrays, upstream, implementation=implementation, **options)
    assert_allclose(output, expected_output, rtol=1e-11)
    assert_same(found, expected)
    assert not found["k"][:, ~MASK].any()
    assert not found["v"][:, ~MASK].any()
    k, v, *parameters = (torch.as_tensor(array) for array in arrays[1:])
    mixture = gmt.GaussianMixture.from_unconstrained(*parameters)
    options = {"key_mask": torch.tensor(MASK), "return_state": True, "implementation": implementation}
    _, state = gmt.gaussian_mixture_attention(k, k, v, mixture, causal=causal, **options)
    assert_allclose(state.Z.sum(dim=-1), MASK.sum(), rtol=1e-12)
    assert torch.isfinite(state.V_tilde).all()


@every_implementation
@both_modes
@pytest.mark.parametrize("equal", [False, True], ids=["", "one covariance"])
def test_masked_keys_so_large_that_products_overflow_do_nothing_either(equal, causal, implementation):
    arrays, upstream = draw_problem()
    arrays[4] *= not equal
    options = {"causal": causal, "key_mask": MASK, "implementation": implementation}
    expected_output, expected = run(arrays, upstream, **options)
    for which in (1, 2):
        large = [array.copy() for array in arrays]
        large[which][:, ~MASK] = 1e308
        output, found = run(large, upstream, **options)
        assert_allclose(output, expected_output, rtol=1e-11)
        assert_same(found, expected)


@every_implementation
@both_modes
@pytest.mark.parametrize("eps", [0.0, 1e-6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_row_that_no_key_reaches_is_zero_with_gradients_of_zero(dtype, eps, causal, implementation):
    # one sequence of the batch is masked altogether: it must not spoil what all sequences share
    arrays, upstream = draw_problem(heads=())
    mask = np.array([[True], [False]]) & MASK
    options = {"causal": causal, "eps": eps, "key_mask": mask}
    output, found = run(arrays, upstream, dtype=dtype, implementation=implementation, **options)
    assert not output[1].any()
    assert not any(found[name][1].any() for name in "qkv")
    rounding = 100 * torch.finfo(dtype).eps
    assert_same(found, run_reference(arrays, upstream, **options)[1], rtol=rtol_of(dtype), scale=10 * rounding)
    alone = [array[:1] for array in arrays[:3]] + arrays[3:]
    _, expected = run(
        alone, upstream[:1], dtype=dtype, causal=causal, eps=eps, key_mask=MASK, implementation=implementation
    )
    for name in NAMES[3:]:
        assert_allclose(found[name], expected[name], rtol=rtol_of(dtype), atol=rounding)


@every_implementation
@both_modes
def test_row_that_no_key_reaches_is_zero_whatever_the_values_hold(causal, implementation):
    q, k = torch.tensor([[100.0], [0]]), torch.tensor([[100.0], [100]])
    mixture = gmt.GaussianMixture(torch.tensor([[0.0], [100]]), torch.full((2, 1), 0.01), torch.zeros(2))
    options = {"causal": causal, "eps": 0, "implementation": implementation}
    output = gmt.gaussian_mixture_attention(q, k, torch.full((2, 1), torch.nan), mixture, **options)
    assert output[0].isnan()
    assert output[1] == 0


def rtol_of(dtype):
    return 1e-3 if dtype == torch.float32 else 1e-10


@every_implementation
@both_modes
def test_all_keys_masked_is_as_no_keys(causal, implementation):
    arrays, upstream = draw_problem()
    tensors = leaves(arrays)
    nobody = torch.zeros(6, dtype=torch.bool)
    options = {"causal": causal, "return_state": True, "implementation": implementation}
    output, state = attend(tensors, key_mask=nobody, **options)
    assert not output.any()
    assert not state.V_tilde.any()
    assert not state.Z.any()
    assert not any(gradient.any() for gradient in gradients(output, upstream, tensors).values())
    lost = torch.full_like(state.V_tilde, torch.nan)
    assert not any(gradient.any() for gradient in gradients(state.V_tilde, lost, tensors).values())


@every_implementation
def test_mask_of_the_keys_alone_holds_for_every_batch(implementation):
    arrays, upstream = draw_problem(batch=(2, 3))
    expected, by = run(arrays, upstream, key_mask=MASK, implementation=implementation)
    for shape in ((1, 1, 6), (2, 1, 6), (1, 3, 6), (2, 3, 6)):
        other = np.broadcast_to(MASK, shape).copy()
        output, found = run(arrays, upstream, key_mask=other, implementation=implementation)
        assert_allclose(output, expected, rtol=1e-13)
        assert_same(found, by, rtol=1e-12)


@every_implementation
@pytest.mark.parametrize(("B", "H"), [(2, 2), (2, 1), (3, 2)])
def test_mask_per_batch_against_heads_is_refused_and_accepted_with_an_axis(B, H, implementation):
    (q, k, v, *parameters), _ = draw_problem(batch=(B, H), heads=())
    tensors = [torch.as_tensor(array) for array in (q, k, v, *parameters)]
    mask = torch.ones(B, 6, dtype=torch.bool)
    mask[:, 4:] = False
    with pytest.raises(ValueError, match=r"^key_mask must have shape \(6,\), or 3 axes .* try key_mask\[:, None\]\)$"):
        attend(tensors, key_mask=mask, implementation=implementation)
    output = attend(tensors, key_mask=mask[:, None], implementation=implementation)
    assert output.shape == (B, H, 6, 5)
    shorter = [tensors[0], tensors[1][..., :4, :], tensors[2][..., :4, :], *tensors[3:]]
    assert_allclose(output, attend(shorter, implementation=implementation), rtol=1e-12)
