"""Leading axes broadcast, memory orders do not matter, and what is divided is covered once."""

import numpy as np
import pytest
import torch

from gma_ref.pytorch import blocked_pieces
from tests.pytorch.blocked_examples import (
    assert_is_the_reference,
    attend,
    draw_mask,
    draw_problem,
    make_blocks_small,
    reference,
    tensors,
)

both_modes = pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])

SHAPES = {  # leading axes of q, k, v, mixture, mask
    "one mixture": ((2, 3), (2, 3), (2, 3), (), (2, 3)),
    "one mixture per head": ((2, 3), (2, 3), (2, 3), (3,), (2, 1)),
    "one mixture per batch": ((2, 3), (2, 3), (2, 3), (2, 1), (1, 3)),
    "one mixture each": ((2, 3), (2, 3), (2, 3), (2, 3), (2, 3)),
    "no leading axes": ((), (), (), (), ()),
    "several mixtures, one sequence": ((), (), (), (4,), ()),
    "keys shared by heads": ((2, 3), (2, 1), (2, 1), (3,), (2, 1)),
    "queries shared": ((1, 3), (2, 3), (2, 3), (1, 3), (2, 3)),
    "values alone have an axis": ((), (), (2,), (), ()),
    "three leading axes": ((2, 1, 3), (2, 2, 3), (2, 1), (2, 1, 3), (2, 2, 3)),
    "empty batch": ((0, 3), (0, 3), (0, 3), (3,), (0, 3)),
}


@both_modes
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES.keys())
def test_leading_axes_broadcast_and_gradients_are_summed_over_them(monkeypatch, shapes, causal):
    make_blocks_small(monkeypatch)
    rng = np.random.default_rng(0)
    widths = ((11, 3), (11, 3), (11, 5))
    arrays = [rng.normal(size=(*lead, *width)) for lead, width in zip(shapes[:3], widths, strict=True)]
    arrays += [rng.normal(size=(*shapes[3], *own)) for own in ((4, 3), (4, 3), (4,))]
    mask = draw_mask((*shapes[4], 11))
    output = reference(arrays, causal=causal, key_mask=mask)
    assert attend(*tensors(arrays), causal=causal, key_mask=mask)[0].shape == output.shape
    assert_is_the_reference(arrays, rng.normal(size=output.shape), causal=causal, key_mask=mask)


@both_modes
def test_the_three_arrays_of_a_mixture_may_have_different_leading_axes(causal):
    arrays, upstream = draw_problem(N=7, batch=(2, 3), heads=(3,))
    arrays[4], arrays[5] = arrays[4][0], arrays[5][:, :]
    arrays[5] = np.stack([arrays[5], arrays[5][::-1]])  # a prior per batch and head
    assert_is_the_reference(arrays, upstream, causal=causal)


@both_modes
@pytest.mark.parametrize("N", [3, 16, 21])
def test_outputs_in_other_memory_orders_and_of_other_strides(monkeypatch, N, causal):
    make_blocks_small(monkeypatch)
    arrays, upstream = draw_problem(N=N)
    plain = tensors(arrays, requires_grad=True)
    odd = []
    for n, tensor in enumerate(plain):
        detached = tensor.detach()
        wide = torch.zeros(*tensor.shape[:-1], 2 * tensor.shape[-1], dtype=tensor.dtype)
        wide[..., ::2] = detached
        strided = detached.mT.contiguous().mT if n % 2 and tensor.ndim > 1 else wide[..., ::2]
        assert not strided.is_contiguous()
        odd.append(strided.requires_grad_())
    upstream = torch.tensor(upstream)
    expected, found = (attend(*given, causal=causal)[0] for given in (plain, odd))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
    for g in (upstream.mT.contiguous().mT, torch.stack([upstream, upstream], -1)[..., 0], upstream.contiguous()):
        a, b = (torch.autograd.grad(o, t, g, retain_graph=True) for o, t in ((expected, plain), (found, odd)))
        for one, other in zip(a, b, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-13)
    ones = torch.autograd.grad(found.sum(), odd)  # an upstream gradient expanded from one number
    for one, other in zip(ones, torch.autograd.grad(expected, plain, torch.ones_like(expected)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-13)


@both_modes
def test_output_is_contiguous_for_batch_and_heads(causal):
    arrays, _ = draw_problem(batch=(2, 3), heads=(3,))
    assert attend(*tensors(arrays), causal=causal)[0].is_contiguous()


@pytest.mark.parametrize("N", [0, 1, 7, 8, 9, 63, 64, 65, 511, 512, 513, 1025])
@pytest.mark.parametrize("K", [1, 64, 300])
@both_modes
def test_pieces_cover_each_token_once_and_memories_have_room(N, K, causal):
    found = blocked_pieces.pieces(N, K, causal)
    assert [t for i, j, _ in found for t in range(i, j)] == list(range(N))
    if causal:
        assert all((j - i) % chunk == 0 for i, j, chunk in found)
        assert len(found) <= blocked_pieces.num_pieces(N, K, causal)


@pytest.mark.parametrize(("G", "S"), [(1, 1), (3, 5), (4, 1), (1, 9), (7, 2), (0, 3), (3, 0)])
@pytest.mark.parametrize("N", [1, 100, 5000])
def test_tiles_cover_each_sequence_once(G, S, N):
    for device in ("cpu", "cuda"):
        tiles = blocked_pieces.tiles(G, S, N, 64, torch.device(device))
        covered = np.zeros((G, S), int)
        for g, s in tiles:
            covered[g, s] += 1
        assert (covered == 1).all()
        assert device == "cpu" or len(tiles) <= 1  # a device with thousands of threads works on all at once


@pytest.mark.parametrize("causal", [False, True])
def test_mixtures_along_two_of_three_leading_axes(causal):
    arrays, upstream = draw_problem(N=5, batch=(2, 3, 4), heads=(3, 4))
    assert_is_the_reference(arrays, upstream, causal=causal)
