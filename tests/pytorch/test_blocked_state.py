"""A sequence in pieces is the sequence: outputs, memories, and gradients through the state."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import gma_ref
from tests.pytorch.blocked_examples import attend, draw_mask, draw_problem, make_blocks_small, tensors

both_modes = pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
N = 37


def in_pieces(arrays, cuts, state=None, mask=None, **options):
    """Attend piece by piece, handing on the state; also return the last state."""
    outputs = []
    for i, j in zip([0, *cuts], [*cuts, N], strict=True):
        piece = [a[:, i:j] for a in arrays[:3]]
        own = None if mask is None else mask[:, i:j]
        output, *state = attend(*piece, *arrays[3:], causal=True, state=state, key_mask=own, **options)
        outputs.append(output)
    return torch.cat(outputs, dim=1), *state


@given(st.lists(st.integers(0, N), max_size=6).map(sorted), st.booleans(), st.sampled_from([0.0, 1e-6, 0.5]))
def test_pieces_of_any_length_give_outputs_memory_and_gradients_of_the_whole(cuts, masked, eps):
    with pytest.MonkeyPatch.context() as monkeypatch:
        make_blocks_small(monkeypatch)
        arrays, _ = draw_problem(N=N)
        mask = draw_mask((2, N)) if masked else None
        given_tensors = tensors(arrays, requires_grad=True)
        results = [f(given_tensors) for f in (
            lambda t: attend(*t, causal=True, key_mask=mask, eps=eps), lambda t: in_pieces(t, cuts, mask=mask, eps=eps)
        )]  # fmt: skip
        upstream = [torch.from_numpy(np.random.default_rng(1).normal(size=r.shape)) for r in results[0]]
        for whole, pieces in zip(*results, strict=True):
            torch.testing.assert_close(pieces, whole, rtol=1e-10, atol=1e-12)
        whole, pieces = (torch.autograd.grad(r, given_tensors, upstream) for r in results)
        for one, other in zip(pieces, whole, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def test_token_by_token_is_the_whole():
    arrays = tensors(draw_problem(N=N)[0])
    for one, other in zip(in_pieces(arrays, range(1, N)), attend(*arrays, causal=True), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@both_modes
def test_memory_is_that_of_the_reference(monkeypatch, causal):
    make_blocks_small(monkeypatch)
    arrays, _ = draw_problem(N=N)
    mask = draw_mask((2, N))
    mixture = gma_ref.GaussianMixture.from_unconstrained(*arrays[3:])
    expected = gma_ref.write_memory(gma_ref.responsibilities(arrays[1], mixture), arrays[2], mask)
    _, V_tilde, Z = attend(*tensors(arrays), causal=causal, key_mask=mask)
    np.testing.assert_allclose(V_tilde, expected.V_tilde, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(Z, expected.Z, rtol=1e-11)
    np.testing.assert_allclose(Z.sum(-1), mask.sum(-1), rtol=1e-12)


def test_bidirectionally_a_state_is_memory_added_to_that_of_the_keys():
    arrays, _ = draw_problem(N=N)
    q, *tokens, mu, omega, alpha = tensors(arrays)
    k, v = tokens
    _, *state = attend(q, k[:, :20], v[:, :20], mu, omega, alpha)
    results = attend(q, k[:, 20:], v[:, 20:], mu, omega, alpha, state=state)
    for one, other in zip(results, attend(q, k, v, mu, omega, alpha), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-13)


@both_modes
def test_without_keys_the_state_is_read_and_comes_back(causal):
    arrays = tensors(draw_problem(N=5)[0])
    state = attend(*arrays)[1:]
    none = [a[:, :0] for a in arrays[:3]]
    for one, other in zip(attend(*none, *arrays[3:], causal=causal, state=state)[1:], state, strict=True):
        assert torch.equal(one, other)
        assert one.data_ptr() != other.data_ptr()
    if not causal:
        expected = attend(*arrays)[0]
        output = attend(arrays[0], *none[1:], *arrays[3:], state=state)[0]
        torch.testing.assert_close(output, expected, rtol=1e-12, atol=1e-14)


def test_a_state_has_two_continuations():
    arrays = tensors(draw_problem(N=N)[0])
    _, *state = attend(*(a[:, :20] for a in arrays[:3]), *arrays[3:], causal=True)
    kept = [s.clone() for s in state]
    rest = [a[:, 20:] for a in arrays[:3]]
    first = attend(*rest, *arrays[3:], causal=True, state=state)[0]
    attend(*(a.flip(1) for a in rest), *arrays[3:], causal=True, state=state)
    assert torch.equal(attend(*rest, *arrays[3:], causal=True, state=state)[0], first)
    assert all(torch.equal(s, k) for s, k in zip(state, kept, strict=True))


@pytest.mark.parametrize("pieces", [[3], [3, 4]])
def test_f1_continues(pieces):
    # K = 1: each output is a mean
    v = torch.tensor([1.0, 2, 3, 4, 5])[:, None]
    zeros = torch.zeros(5, 1)
    mixture = torch.zeros(1, 1), torch.zeros(1, 1), torch.zeros(1)
    whole, outputs, state = [0, *pieces, 5], [], None
    for i, j in itertools.pairwise(whole):
        o, *state = attend(zeros[i:j], zeros[i:j], v[i:j], *mixture, causal=True, eps=0.0, state=state)
        outputs += o[:, 0].tolist()
    assert outputs == [1, 1.5, 2, 2.5, 3]


@both_modes
@pytest.mark.parametrize("lead", [(2, 3), (3,), (1, 3), ()])
def test_leading_axes_of_a_state_broadcast_and_its_gradient_is_summed(monkeypatch, lead, causal):
    make_blocks_small(monkeypatch)
    arrays, _ = draw_problem(N=9, batch=(2, 3), heads=(3,))
    rng = np.random.default_rng(2)
    state = tensors([rng.normal(size=(*lead, 4, 5)), rng.random(size=(*lead, 4))], requires_grad=True)
    wide = [s.detach().expand(2, 3, *s.shape[len(lead) :]).clone().requires_grad_() for s in state]
    outputs = [attend(*tensors(arrays), causal=causal, state=s) for s in (state, wide)]
    upstream = [torch.from_numpy(rng.normal(size=o.shape)) for o in outputs[0]]
    narrow = torch.autograd.grad(outputs[0], state, upstream)
    for found, full in zip(narrow, torch.autograd.grad(outputs[1], wide, upstream), strict=True):
        torch.testing.assert_close(found, full.sum_to_size(found.shape), rtol=1e-11, atol=1e-12)


@both_modes
def test_a_float64_state_goes_with_float32_scores(monkeypatch, causal):
    make_blocks_small(monkeypatch)
    given_tensors = tensors(draw_problem(N=N)[0], torch.float32, requires_grad=True)
    state = torch.full((2, 4, 5), 1e9, dtype=torch.float64), torch.ones(2, 4, dtype=torch.float64)
    for s in state:
        s.requires_grad_()
    output, V_tilde, Z = attend(*given_tensors, causal=causal, state=state)
    assert (output.dtype, V_tilde.dtype, Z.dtype) == (torch.float32, torch.float64, torch.float64)
    written = attend(*given_tensors)[1]
    torch.testing.assert_close(V_tilde - 1e9, written.double(), rtol=1e-4, atol=1e-4)  # float32 would lose it in 1e9
    found = torch.autograd.grad((output.double() / 1e9).sum() + V_tilde.sum() + Z.sum(), [*given_tensors, *state])
    assert [g.dtype for g in found] == [t.dtype for t in (*given_tensors, *state)]
    assert all(g.isfinite().all() for g in found)


def test_a_narrow_state_is_summed_in_float32():
    given_tensors = tensors(draw_problem(N=N)[0], torch.float32)
    state = torch.ones(2, 4, 5, dtype=torch.bfloat16), torch.ones(2, 4, dtype=torch.bfloat16)
    assert [t.dtype for t in attend(*given_tensors, causal=True, state=state)] == [torch.float32] * 3
