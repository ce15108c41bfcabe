"""The blocked form is the reference: outputs and gradients, at every block boundary, for every shape."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import gma_ref
from gma_ref.pytorch import blocked_pieces
from tests.examples import every_case, key_mask_of
from tests.pytorch.blocked_examples import (
    NAMES,
    assert_is_the_reference,
    attend,
    draw_mask,
    draw_problem,
    gradients,
    make_blocks_small,
    reference,
    tensors,
)

both_modes = pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
SMALL = [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 24, 25]
LARGE = [1, 63, 64, 65, 127, 511, 512, 513, 1025]


@both_modes
@pytest.mark.parametrize("masked", [False, True], ids=["", "masked"])
@pytest.mark.parametrize("N", SMALL)
def test_outputs_and_gradients_at_every_boundary_of_small_blocks(monkeypatch, N, masked, causal):
    make_blocks_small(monkeypatch)
    arrays, upstream = draw_problem(N=N, K=3, batch=(2, 3), heads=(3,))
    mask = draw_mask((2, 3, N)) if masked else None
    assert_is_the_reference(arrays, upstream, causal=causal, key_mask=mask)


@both_modes
@pytest.mark.parametrize("N", LARGE)
def test_outputs_and_gradients_at_the_boundaries_of_real_blocks(N, causal):
    arrays, upstream = draw_problem(N=N, batch=())
    assert_is_the_reference(arrays, upstream, causal=causal)


@both_modes
@pytest.mark.parametrize(("K", "d_r", "d_v"), [(1, 3, 5), (2, 1, 1), (3, 7, 2), (17, 2, 9), (24, 5, 3)])
def test_any_number_of_components_and_any_widths(monkeypatch, K, d_r, d_v, causal):
    make_blocks_small(monkeypatch)
    arrays, upstream = draw_problem(N=57, K=K, d_r=d_r, d_v=d_v)
    assert_is_the_reference(arrays, upstream, causal=causal)


@pytest.mark.parametrize(("N", "N_k"), [(1, 30), (30, 1), (9, 0), (0, 9), (13, 21)])
def test_queries_and_keys_of_different_number(monkeypatch, N, N_k):
    make_blocks_small(monkeypatch)
    assert_is_the_reference(*draw_problem(N=N, N_k=N_k))


@both_modes
def test_a_row_that_no_key_reaches_is_0_with_zero_gradient(causal):
    arrays, upstream = draw_problem(N=9)
    mask = np.arange(9) > 4
    found = gradients(arrays, upstream, causal=causal, eps=0.0, key_mask=mask)
    assert all(np.isfinite(gradient).all() for gradient in found.values())
    if causal:
        assert_array_equal(attend(*tensors(arrays), causal=True, eps=0.0, key_mask=mask)[0][:, :5], 0)
        assert_array_equal(found["q"][:, :5], 0)
    assert_is_the_reference(arrays, upstream, causal=causal, eps=0.0, key_mask=mask)
    for gradient in gradients(arrays, upstream, causal=causal, eps=0.0, key_mask=np.zeros(9, bool)).values():
        assert_array_equal(gradient, 0)


@every_case
def test_exact_cases_forwards(case):
    given = case.inputs
    arrays = [given.q, given.k, given.v, given.mu, given.omega, given.alpha]
    options = {"eps": given.eps, "eps_sigma": given.eps_sigma, "key_mask": key_mask_of(case)}
    for mode in ("bidirectional", "causal"):
        if hasattr(case, mode):
            output = attend(*tensors(arrays), causal=mode == "causal", **options)[0]
            assert_allclose(output, getattr(case, mode).output, rtol=1e-10, atol=1e-10)


@every_case
@both_modes
def test_exact_cases_backwards(case, causal):
    if causal and not hasattr(case, "causal"):
        pytest.skip("queries and keys are not the same tokens")
    given, exact = case.inputs, case.causal if causal else case.bidirectional
    arrays = [given.q, given.k, given.v, given.mu, given.omega, given.alpha]
    options = {"causal": causal, "eps": given.eps, "eps_sigma": given.eps_sigma, "key_mask": key_mask_of(case)}
    for name, found in gradients(arrays, exact.upstream, **options).items():
        expected = getattr(exact.gradients, name)
        size = np.abs(expected).max(initial=0)
        assert_allclose(found, expected, rtol=1e-9, atol=1e-10 * size + 1e-12, err_msg=name)


@both_modes
def test_arguments_stay_as_they_are(causal):
    arrays, upstream = draw_problem(N=9)
    mask, state = torch.tensor(draw_mask(9)), tensors([np.ones((2, 4, 5)), np.ones((2, 4))])
    given = tensors(arrays, requires_grad=True)
    before = [t.detach().clone() for t in (*given, mask, *state)]
    output = attend(*given, causal=causal, key_mask=mask, state=state)[0]
    output.backward(torch.tensor(upstream))
    for tensor, was in zip((*given, mask, *state), before, strict=True):
        assert torch.equal(tensor.detach(), was)


@both_modes
def test_no_result_holds_what_memory_held_before(monkeypatch, causal):
    make_blocks_small(monkeypatch)
    call = blocked_pieces.Room.__call__
    monkeypatch.setattr(blocked_pieces.Room, "__call__", lambda *a, **o: call(*a, **o).fill_(torch.nan))
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.utils.deterministic.fill_uninitialized_memory
        assert torch.empty(3).isnan().all()
        arrays, upstream = draw_problem(N=21, batch=(3, 2), heads=(2,))
        mask = draw_mask((3, 2, 21))
        assert_is_the_reference(arrays, upstream, causal=causal, key_mask=mask)
        for result in attend(*tensors(arrays), causal=causal, key_mask=mask):
            assert result.isfinite().all()
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("seed", range(30))
def test_problems_of_any_scale(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    if seed % 2:
        make_blocks_small(monkeypatch)
    arrays, upstream = draw_problem(seed, N=int(rng.integers(1, 40)), K=int(rng.integers(1, 9)))
    for n in (0, 1, 3):
        arrays[n] *= 10 ** rng.uniform(-1, 1.5)
    arrays[4] += rng.uniform(-6, 4)
    arrays[5] *= rng.choice([0, 1, 20])
    options = {"causal": seed % 3 > 0, "eps": rng.choice([0, 1e-6, 1.0]), "key_mask": draw_mask(arrays[1].shape[:2])}
    assert_allclose(attend(*tensors(arrays), **options)[0], reference(arrays, **options), rtol=1e-9, atol=1e-11)
    expected = gma_ref.gaussian_mixture_attention_vjp(*arrays, upstream, **options)
    for name, found in gradients(arrays, upstream, **options).items():
        # near certainty a gradient all but vanishes: it is right to a rounding of what it is a difference of
        assert_allclose(found, expected[name], atol=1e-9 * np.abs(expected[name]).max() + 1e-11, rtol=0, err_msg=name)


def test_one_head_alone_is_that_head():
    for H, N in ((5, 3), (4, 4)):
        arrays, _ = draw_problem(N=N, batch=(2, H), heads=(H,))
        for causal in (False, True):
            output = attend(*tensors(arrays), causal=causal)[0]
            for h in range(H):
                alone = [a[:, h] for a in arrays[:3]] + [a[h] for a in arrays[3:]]
                torch.testing.assert_close(output[:, h], attend(*tensors(alone), causal=causal)[0])


@both_modes
def test_without_variation_of_the_values_nothing_but_they_has_a_gradient(causal):
    arrays, _ = draw_problem(N=40)
    arrays[2][:] = 1
    upstream = np.ones((2, 40, 5))
    for name, gradient in gradients(arrays, upstream, causal=causal, eps=1e-12).items():
        assert name == "v" or np.abs(gradient).max() < 1e-10


def test_names_are_those_of_the_reference():
    arrays, upstream = draw_problem()
    assert set(NAMES) == set(gma_ref.gaussian_mixture_attention_vjp(*arrays, upstream))
