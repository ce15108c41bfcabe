"""Causality is exact, to the bit; what is not finite reaches only what reads it."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from tests.pytorch.blocked_examples import (
    NAMES,
    attend,
    draw_mask,
    draw_problem,
    gradients,
    make_blocks_small,
    reference,
    tensors,
)

N = 21
LATER = [1e3, 0.0, np.nan, np.inf, -np.inf]
both_modes = pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
each_input = pytest.mark.parametrize("which", [0, 1, 2], ids=["q", "k", "v"])


@pytest.mark.parametrize("masked", [False, True], ids=["", "masked"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_later_tokens_change_no_earlier_output_by_a_bit(monkeypatch, dtype, masked):
    make_blocks_small(monkeypatch)
    arrays, _ = draw_problem(N=N, batch=(2, 2), heads=(2,))
    check_causality(tensors(arrays, dtype), draw_mask(N) if masked else None, range(N))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_later_tokens_change_no_earlier_output_of_real_blocks(dtype):
    arrays, _ = draw_problem(N=700, K=17, d_r=9, d_v=10, batch=())
    check_causality(tensors(arrays, dtype), None, [0, 1, 62, 63, 64, 127, 400, 510, 511, 512, 639, 640, 698])


def check_causality(given, mask, positions):
    output = attend(*given, causal=True, key_mask=mask)[0]
    for t in positions:
        for later in LATER:
            for changed in ((0, 1, 2), (0,), (1,), (2,)):
                other = [x.clone() for x in given]
                for n in changed:
                    other[n][..., t + 1 :, :] = later
                again = attend(*other, causal=True, key_mask=mask)[0]
                assert torch.equal(output[..., : t + 1, :], again[..., : t + 1, :]), (t, later, changed)


@both_modes
@each_input
@pytest.mark.parametrize("held", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 6, 7, 8, 20])
def test_a_non_finite_token_is_felt_where_the_reference_feels_it(monkeypatch, at, held, which, causal):
    make_blocks_small(monkeypatch)
    arrays, _ = draw_problem(N=N)
    arrays[which][1, at, 1] = held
    with np.errstate(invalid="ignore"):
        expected = reference(arrays, causal=causal)
    output = attend(*tensors(arrays), causal=causal)[0].numpy()
    assert_array_equal(np.isfinite(output), np.isfinite(expected))
    np.testing.assert_allclose(output, expected, rtol=1e-10, atol=1e-13)  # infinities in the same places too


@both_modes
@pytest.mark.parametrize("held", [np.nan, np.inf, -np.inf, 1e300])
def test_masked_keys_write_nothing_and_have_no_gradient_whatever_they_hold(monkeypatch, held, causal):
    make_blocks_small(monkeypatch)
    arrays, upstream = draw_problem(N=N)
    mask = draw_mask((2, N))
    expected = attend(*tensors(arrays), causal=causal, key_mask=mask)
    clean = gradients(arrays, upstream, causal=causal, key_mask=mask)
    arrays[1][~mask], arrays[2][~mask] = held, held
    for one, other in zip(attend(*tensors(arrays), causal=causal, key_mask=mask), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)
    found = gradients(arrays, upstream, causal=causal, key_mask=mask)
    for name in NAMES:
        np.testing.assert_allclose(found[name], clean[name], rtol=1e-10, atol=1e-13)
        assert name not in "kv" or not found[name][~mask].any()


@both_modes
@pytest.mark.parametrize("eps", [0.0, 1e-6])
@pytest.mark.parametrize("held", [np.nan, np.inf, -np.inf, 1e300])
def test_queries_without_upstream_gradient_send_nothing_whatever_they_hold(monkeypatch, held, eps, causal):
    make_blocks_small(monkeypatch)
    arrays, upstream = draw_problem(N=N)
    upstream[:, [3, 4, 9, 20]] = 0
    clean = gradients(arrays, upstream, causal=causal, eps=eps)
    arrays[0][:, [3, 4, 9, 20]] = held
    found = gradients(arrays, upstream, causal=causal, eps=eps)
    for name in NAMES:
        np.testing.assert_allclose(found[name], clean[name], rtol=1e-10, atol=1e-13)
    assert_array_equal(found["q"][:, [3, 4, 9, 20]], 0)


@pytest.mark.parametrize("held", [np.nan, np.inf, -np.inf, 1e300])
def test_causally_padding_at_the_end_needs_no_mask(monkeypatch, held):
    make_blocks_small(monkeypatch)
    arrays, upstream = draw_problem(N=N)
    upstream[:, 13:] = 0
    alone = [a[:, :13] for a in arrays[:3]] + arrays[3:]
    expected = gradients(alone, upstream[:, :13], causal=True)
    for array in arrays[:3]:
        array[:, 13:] = held
    found = gradients(arrays, upstream, causal=True)
    for name in NAMES:
        gradient = found[name]
        if name in "qkv":
            assert_array_equal(gradient[:, 13:], 0)
            gradient = gradient[:, :13]
        np.testing.assert_allclose(gradient, expected[name], rtol=1e-10, atol=1e-13)


@both_modes
@pytest.mark.parametrize("which", [0, 1, 2, 3], ids=["q", "k", "v", "upstream"])
def test_gradients_are_not_finite_where_those_of_the_reference_are_not(monkeypatch, which, causal):
    import gma_ref

    make_blocks_small(monkeypatch)
    arrays, upstream = draw_problem(N=N)
    [*arrays[:3], upstream][which][1, 9, 2] = np.nan
    mask = draw_mask((2, N))
    mask[:, 9] = True
    with np.errstate(invalid="ignore"):
        expected = gma_ref.gaussian_mixture_attention_vjp(*arrays, upstream, causal=causal, key_mask=mask)
    found = gradients(arrays, upstream, causal=causal, key_mask=mask)
    for name in NAMES:
        assert_array_equal(np.isnan(found[name]), np.isnan(expected[name]), err_msg=name)
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-9, atol=1e-10, err_msg=name)


@both_modes
def test_where_looking_would_wait_every_piece_is_handled_with_care(monkeypatch, causal):
    """What CUDA does for every block, done here: the same outputs and gradients."""
    from gma_ref.pytorch import blocked_backward, blocked_forward

    make_blocks_small(monkeypatch)
    arrays, upstream = draw_problem(N=N, batch=(2, 2), heads=(2,))
    mask = draw_mask((2, 2, N))
    expected = attend(*tensors(arrays), causal=causal, key_mask=mask)[0]
    clean = gradients(arrays, upstream, causal=causal, key_mask=mask)
    for module in (blocked_forward, blocked_backward):
        monkeypatch.setattr(module, "needs_care", lambda *_: True)
    assert torch.equal(attend(*tensors(arrays), causal=causal, key_mask=mask)[0], expected)
    for name, gradient in gradients(arrays, upstream, causal=causal, key_mask=mask).items():
        np.testing.assert_allclose(gradient, clean[name], rtol=1e-12, atol=1e-14)


@both_modes
@pytest.mark.parametrize("held", [np.nan, np.inf])
def test_masked_keys_have_no_gradient_whatever_that_of_the_memory_holds(held, causal):
    given = tensors(draw_problem(N=9)[0], requires_grad=True)
    mask = draw_mask((2, 9))
    memory = attend(*given, causal=causal, key_mask=mask)[1:]
    found = torch.autograd.grad(memory, given[1:3], [torch.full_like(m, held) for m in memory])
    for gradient in found:
        assert not gradient[~torch.as_tensor(mask)].any()
        assert not gradient[torch.as_tensor(mask)].isfinite().all()
