"""Causality is exact: what comes after a token changes nothing before it, not by a bit, not even as NaN."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from tests.examples import draw_problem
from tests.pytorch.problems import (
    NAMES,
    as_mask,
    assert_same,
    attend,
    both_modes,
    every_implementation,
    gradients,
    leaves,
    run,
    run_reference,
)

LATER = [1e3, 0.0, np.nan, np.inf, -np.inf]
every_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)


@every_implementation
@every_dtype
@pytest.mark.parametrize("masked", [False, True], ids=["", "masked"])
@pytest.mark.parametrize("N", [19, 150, 700])
def test_later_tokens_change_no_earlier_output_by_a_bit(N, masked, dtype, implementation):
    arrays, _ = draw_problem(N=N, d_v=4)
    mask = as_mask(np.arange(N) % 3 > 0) if masked else None
    tensors = [tensor.detach() for tensor in leaves(arrays, dtype)]
    options = {"causal": True, "key_mask": mask, "implementation": implementation}
    output = attend(tensors, **options)
    assert output.dtype == dtype
    for t in range(N) if N < 20 else (0, 1, 62, 63, 64, 127, 128, N - 2):
        for later in LATER:
            changed = [tensor.clone() for tensor in tensors]
            for tensor in changed[:3]:
                tensor[:, t + 1 :] = later
            assert torch.equal(attend(changed, **options)[:, : t + 1], output[:, : t + 1])


@every_implementation
@pytest.mark.parametrize("which", ["q", "k", "v"])
@pytest.mark.parametrize("held", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("position", [0, 7, 18])
def test_one_non_finite_token_is_felt_only_where_it_is_read(position, held, which, implementation):
    arrays, _ = draw_problem(N=19, d_v=4)
    tensors = [tensor.detach() for tensor in leaves(arrays)]
    options = {"causal": True, "return_state": True, "implementation": implementation}
    before, memory = attend(tensors, **options)
    tensors[NAMES.index(which)][:, position] = held
    after, changed = attend(tensors, **options)
    felt = torch.zeros(19, dtype=torch.bool)
    felt[position : position + 1 if which == "q" else None] = True
    assert torch.equal(before[:, ~felt], after[:, ~felt])
    assert not torch.isfinite(after[:, felt]).any()
    if which == "v":
        assert_array_equal(after[:, felt], np.full((2, 19 - position, 4), held))
        assert_array_equal(changed.V_tilde, np.full((2, 4, 4), held))
        assert torch.equal(changed.Z, memory.Z)
    if which == "k":
        assert torch.isnan(changed.V_tilde).all()
        assert torch.isnan(changed.Z).all()
    if which == "q":
        assert torch.equal(changed.V_tilde, memory.V_tilde)


@every_implementation
def test_one_column_that_is_not_finite_leaves_the_others(implementation):
    arrays, _ = draw_problem(N=19, d_v=4)
    tensors = [tensor.detach() for tensor in leaves(arrays)]
    before = attend(tensors, causal=True, implementation=implementation)
    tensors[2][:, 7, 1] = torch.nan
    after = attend(tensors, causal=True, implementation=implementation)
    felt = torch.zeros(19, 4, dtype=torch.bool)
    felt[7:, 1] = True
    assert torch.equal(before[:, ~felt], after[:, ~felt])
    assert torch.isnan(after[:, felt]).all()


@every_implementation
@both_modes
@pytest.mark.parametrize("which", ["q", "k", "v", "all"])
@pytest.mark.parametrize("held", [np.nan, np.inf])
def test_what_a_loss_leaves_out_sends_nothing_backwards(held, which, causal, implementation):
    # causally a key that is not finite reaches the outputs from its own on, and the loss leaves these out; else only a
    # query can be left out alone
    arrays, upstream = draw_problem(N=9)
    first = 5
    upstream[:, first:] = 0
    for name in NAMES[:3] if which == "all" else which:
        if causal or name == "q":
            arrays[NAMES.index(name)][:, first:] = held
    _, expected = run_reference(arrays, upstream, causal=causal)
    assert all(np.isfinite(gradient).all() for gradient in expected.values())
    _, found = run(arrays, upstream, causal=causal, implementation=implementation)
    assert_same(found, expected)


@every_implementation
@both_modes
@pytest.mark.parametrize("held", [np.nan, np.inf])
def test_key_that_is_not_finite_is_seen_where_no_other_key_reaches(held, causal, implementation):
    arrays, upstream = draw_problem(N=3)
    arrays[1][:, 0] = held
    key_mask = np.array([True, False, False])
    expected, _ = run_reference(arrays, upstream, causal=causal, eps=0, key_mask=key_mask)
    assert np.isnan(expected).all()
    found, _ = run(arrays, upstream, causal=causal, eps=0, key_mask=key_mask, implementation=implementation)
    assert np.isnan(found).all()


@every_implementation
@both_modes
def test_query_that_is_not_finite_is_seen_in_the_gradients_of_a_loss_that_reads_it(causal, implementation):
    arrays, upstream = draw_problem(N=9)
    arrays[0][:, 5] = np.nan
    _, found = run(arrays, upstream, causal=causal, implementation=implementation)
    assert all(np.isnan(found[name]).any() for name in ("k", "v", "mu", "omega", "alpha"))
    tensors = leaves(arrays)
    _, state = attend(tensors, causal=causal, return_state=True, implementation=implementation)
    state = type(state)(*(part.detach().requires_grad_() for part in state))
    output = attend(tensors, causal=causal, state=state, implementation=implementation)
    for gradient in torch.autograd.grad(output, state, torch.ones_like(output)):
        assert gradient.isnan().all()


@every_implementation
@both_modes
@pytest.mark.parametrize("held", [np.nan, np.inf])
def test_state_that_is_not_finite_is_felt_and_sends_nothing_back_to_who_asks_nothing(held, causal, implementation):
    arrays, upstream = draw_problem(N=6, batch=(2,), heads=())
    upstream[0] = 0  # the loss leaves the first sequence out, whose state is spoilt
    tensors = leaves(arrays)
    _, state = attend(tensors, causal=causal, return_state=True, implementation=implementation)
    V_tilde, Z = (part.detach().clone() for part in state)
    clean = attend(tensors, causal=causal, state=type(state)(V_tilde, Z), implementation=implementation)
    expected = gradients(clean, upstream, tensors)
    V_tilde[0, 1, 2] = held
    spoilt = attend(tensors, causal=causal, state=type(state)(V_tilde, Z), implementation=implementation)
    assert torch.equal(spoilt[1], clean[1])
    assert not torch.isfinite(spoilt[0, :, 2]).any()
    assert_same(gradients(spoilt, upstream, tensors), expected)


@every_implementation
@pytest.mark.parametrize("position", [0, 63, 99_999])
def test_step_far_along_equals_the_full_forward(position, implementation):
    arrays, _ = draw_problem(N=position + 1, batch=(), K=5, d_r=3, d_v=4)
    q, k, v, *parameters = (tensor.detach() for tensor in leaves(arrays))
    options = {"causal": True, "implementation": implementation}
    whole = attend([q, k, v, *parameters], **options)
    _, state = attend([x[:-1] for x in (q, k, v)] + parameters, return_state=True, **options)
    step = attend([x[-1:] for x in (q, k, v)] + parameters, state=state, **options)
    np.testing.assert_allclose(step[0], whole[-1], rtol=1e-10)
