"""Every implementation equals the reference: any shape, mask and mode, any way to broadcast, any split in pieces."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import gma_ref
from gma_ref import pytorch as gmt
from tests.examples import draw_problem, draw_responsibilities
from tests.pytorch.problems import (
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


@st.composite
def problems(draw):
    """Six arrays, an upstream gradient and options; axes of the batch are there, of size 1, or missing."""
    N, K, d_r, d_v = (draw(st.integers(low, high)) for low, high in ((0, 9), (1, 6), (1, 4), (0, 4)))
    causal = draw(st.booleans())
    N_k = N if causal else draw(st.integers(0, 9))
    full = draw(st.lists(st.integers(1, 3), max_size=3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))

    def array(*own):
        axes = full[draw(st.integers(0, len(full))) :]
        batch = [size if draw(st.booleans()) else 1 for size in axes]
        return rng.normal(size=(*batch, *own))

    arrays = [array(N, d_r), array(N_k, d_r), array(N_k, d_v), array(K, d_r), array(K, d_r), array(K)]
    batch = np.broadcast_shapes(*(a.shape[:-2] for a in arrays[:5]), arrays[5].shape[:-1])
    mask = draw(st.sampled_from([None, "keys", "full"]))
    if mask:
        shape = (N_k,) if mask == "keys" else arrays[1].shape[:-1]
        mask = rng.random(shape) < draw(st.sampled_from([0.0, 0.6]))
    options = {"causal": causal, "eps": draw(st.sampled_from([0.0, 1e-6, 0.3])), "key_mask": mask}
    return arrays, rng.normal(size=(*batch, N, d_v)), options


@every_implementation
@given(problem=problems())
def test_output_and_gradients_are_those_of_the_reference(implementation, problem):
    arrays, upstream, options = problem
    expected_output, expected = run_reference(arrays, upstream, **options)
    output, found = run(arrays, upstream, implementation=implementation, **options)
    assert_allclose(output, expected_output, rtol=1e-10, atol=1e-13)
    assert_same(found, expected, rtol=1e-9)


@every_implementation
@both_modes
@pytest.mark.parametrize("N", [1, 2, 15, 16, 17, 63, 64, 65, 127, 300])
def test_any_length_and_width_is_that_of_the_reference(N, causal, implementation):
    for K, d_r, d_v in ((1, 2, 3), (2, 3, 1), (3, 1, 2), (17, 2, 3), (24, 5, 2)):
        arrays, upstream = draw_problem(N, N=N, K=K, d_r=d_r, d_v=d_v, batch=())
        expected_output, expected = run_reference(arrays, upstream, causal=causal)
        output, found = run(arrays, upstream, causal=causal, implementation=implementation)
        assert_allclose(output, expected_output, rtol=1e-10, atol=1e-13)
        assert_same(found, expected)


@every_implementation
@both_modes
@pytest.mark.parametrize(("B", "N", "H"), [(2, 5, 3), (2, 4, 4)])
def test_each_head_equals_itself_alone(B, N, H, causal, implementation):
    arrays, upstream = draw_problem(N=N, batch=(B, H), heads=(H,))
    output, found = run(arrays, upstream, causal=causal, implementation=implementation)
    for h in range(H):
        own = [array[:, h] for array in arrays[:3]] + [array[h] for array in arrays[3:]]
        alone, by_own = run_reference(own, upstream[:, h], causal=causal)
        assert_allclose(output[:, h], alone, rtol=1e-10)
        assert_same({n: g[:, h] if n in "qkv" else g[h] for n, g in found.items()}, by_own)


@pytest.mark.parametrize("batch", [(), (2,), (3, 2)], ids=str)
def test_each_function_equals_that_of_the_reference(batch):
    gamma_q, gamma_k, v = draw_responsibilities(batch=batch)
    mask = np.array([True, False, True, True, False, True])
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(7, width)) for width in (3, 3, 5)]
    x = rng.normal(size=(*batch, 6, 7))
    calls = {
        "project": (x, *weights),
        "affinity": (gamma_q, gamma_k),
        "write_memory": (gamma_k, v, mask),
        "prefix_memory": (gamma_k, v, mask),
        "scaled_dot_product_attention": (gamma_q, gamma_k, v),
    }
    results = {}
    for name, arguments in calls.items():
        results[name] = getattr(gmt, name)(*map(torch.as_tensor, arguments))
        expected = getattr(gma_ref, name)(*arguments)
        for one, other in zip(*(r if isinstance(r, tuple) else (r,) for r in (results[name], expected)), strict=True):
            assert_allclose(np.asarray(one), other, rtol=1e-12, atol=1e-13, err_msg=name)
    memory, reference_memory = results["write_memory"], gma_ref.write_memory(gamma_k, v, mask)
    gamma_k, v = torch.as_tensor(gamma_k), torch.as_tensor(v)
    updated = gmt.update_memory(memory, gamma_k, v)
    expected = gma_ref.update_memory(reference_memory, gamma_k.numpy(), v.numpy())
    for one, other in zip(updated, expected, strict=True):
        assert_allclose(np.asarray(one), other, rtol=1e-12)
    for eps in (0, 1e-6, 0.5):
        assert_allclose(gmt.slot_means(memory, eps), gma_ref.slot_means(reference_memory, eps), rtol=1e-12)
        read = gmt.read_memory(torch.as_tensor(gamma_q), memory, eps)
        assert_allclose(read, gma_ref.read_memory(gamma_q, reference_memory, eps), rtol=1e-12)
        for causal in (False, True):
            options = {"causal": causal, "eps": eps}
            weights = gmt.attention_weights(torch.as_tensor(gamma_q), gamma_k, key_mask=torch.tensor(mask), **options)
            expected = gma_ref.attention_weights(gamma_q, gamma_k.numpy(), key_mask=mask, **options)
            assert_allclose(weights, expected, rtol=1e-12)


@pytest.mark.parametrize("N", [0, 5])
@both_modes
def test_dot_product_attention_broadcasts_and_returns_zeros_without_keys(causal, N):
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(2, 1, N, 3)), rng.normal(size=(4, N, 3)), rng.normal(size=(N, 2))
    found = gmt.scaled_dot_product_attention(*map(torch.as_tensor, (q, k, v)), causal=causal)
    assert found.shape == (2, 4, N, 2)
    assert_allclose(found, gma_ref.scaled_dot_product_attention(q, k, v, causal=causal), rtol=1e-12)
    nothing = gmt.scaled_dot_product_attention(torch.ones(3, 2), torch.ones(0, 2), torch.ones(0, 4))
    assert torch.equal(nothing, torch.zeros(3, 4))


# Pieces of a sequence, and memory that comes from other keys


@st.composite
def splits(draw):
    N = draw(st.integers(1, 40))
    cuts = sorted(draw(st.lists(st.integers(0, N), max_size=4)))
    return N, [0, *cuts, N], draw(st.booleans()), draw(st.integers(0, 2**32))


@every_implementation
@given(split=splits())
def test_pieces_of_a_sequence_give_the_outputs_and_gradients_of_the_whole(implementation, split):
    N, cuts, masked, seed = split
    arrays, upstream = draw_problem(seed, N=N, batch=(2, 3), heads=(3,))
    mask = np.random.default_rng(seed).random((2, 1, N)) < 0.7 if masked else None
    expected_output, expected = run_reference(arrays, upstream, causal=True, key_mask=mask)
    tensors = leaves(arrays)
    q, k, v, *parameters = tensors
    state, outputs = None, []
    for start, stop in pairwise(cuts):
        piece = [x[..., start:stop, :] for x in (q, k, v)]
        own_mask = as_mask(mask if mask is None else mask[..., start:stop])
        options = {"causal": True, "state": state, "return_state": True, "implementation": implementation}
        output, state = attend([*piece, *parameters], key_mask=own_mask, **options)
        assert isinstance(state, gmt.Memory)
        assert state.V_tilde.shape == (2, 3, 4, 5)
        assert state.Z.shape == (2, 3, 4)
        outputs.append(output)
    output = torch.cat(outputs, dim=-2)
    assert_allclose(output.detach(), expected_output, rtol=1e-10, atol=1e-13)
    assert_same(gradients(output, upstream, tensors), expected, rtol=1e-9)
    kept = N if mask is None else mask.sum(axis=-1)
    assert_allclose(state.Z.detach().sum(dim=-1), np.broadcast_to(kept, (2, 3)), rtol=1e-12)


@every_implementation
@both_modes
def test_state_and_its_gradients_are_those_of_the_equations(causal, implementation):
    # the state enters and leaves with gradients: compared with the functions of the memory, one by one
    arrays, upstream = draw_problem(N=7)
    rng = np.random.default_rng(1)
    state = leaves([rng.normal(size=(4, 5)), rng.random((2, 4))])
    tensors = leaves(arrays)
    upstreams = [torch.as_tensor(a) for a in (upstream, rng.normal(size=(2, 4, 5)), rng.normal(size=(2, 4)))]
    output, after = attend(
        tensors, causal=causal, state=gmt.Memory(*state), return_state=True, implementation=implementation
    )
    found = torch.autograd.grad((output, *after), [*tensors, *state], upstreams)

    q, k, v, *parameters = tensors
    mixture = gmt.GaussianMixture.from_unconstrained(*parameters)
    gamma_q, gamma_k = gmt.responsibilities(q, mixture), gmt.responsibilities(k, mixture)
    overlap = gamma_q @ gamma_k.mT
    overlap = overlap.tril() if causal else overlap
    numerator = gamma_q @ state[0] + overlap @ v
    denominator = (gamma_q * state[1][:, None]).sum(-1) + overlap.sum(-1) + 1e-6
    expected = [
        numerator / denominator[..., None],
        state[0] + gamma_k.mT @ v,
        state[1] + gamma_k.sum(dim=-2),
    ]
    for one, other in zip((output, *after), expected, strict=True):
        assert_allclose(one.detach(), other.detach(), rtol=1e-10)
    expected = torch.autograd.grad(expected, [*tensors, *state], upstreams)
    for one, other in zip(found, expected, strict=True):
        assert_allclose(one, other, rtol=1e-9, atol=1e-11)


@every_implementation
def test_keys_written_in_two_parts_are_read_as_one(implementation):
    arrays, _ = draw_problem(N=5, N_k=9)
    q, k, v, *parameters = (tensor.detach() for tensor in leaves(arrays))
    whole = attend([q, k, v, *parameters], implementation=implementation)
    options = {"return_state": True, "implementation": implementation}
    _, state = attend([q, k[:, :4], v[:, :4], *parameters], **options)
    output, state = attend([q, k[:, 4:], v[:, 4:], *parameters], state=state, **options)
    assert_allclose(output, whole, rtol=1e-12)
    again = attend([q, k[:, :0], v[:, :0], *parameters], state=state, implementation=implementation)
    assert_allclose(again, whole, rtol=1e-12)
