"""Linear attention in chunks, its features, and FAVOR+'s directions."""

import pytest
import torch

from gma_ref.models import linear_attention as linear


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def of_all_pairs(phi_q, phi_k, v, causal):
    """Return the weighted means of the values by the weights of all pairs of tokens."""
    weights = phi_q @ phi_k.mT
    weights = weights.tril() if causal else weights
    return weights @ v / (weights.sum(dim=-1, keepdim=True) + 1e-6)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("tokens", [1, 2, 15, 127, 128, 129, 300, 2049])
def test_chunks_give_what_all_pairs_give_with_their_gradients(tokens, causal):
    phi_q, phi_k, v = (draw(2, 3, tokens, width, seed=width).requires_grad_() for width in (5, 5, 4))
    upstream = draw(2, 3, tokens, 4, seed=9)
    found = linear.linear_attention(phi_q.exp(), phi_k.exp(), v, causal=causal)
    expected = of_all_pairs(phi_q.exp(), phi_k.exp(), v, causal)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    inputs = phi_q, phi_k, v
    pairs = zip(*(torch.autograd.grad((upstream * y).sum(), inputs) for y in (found, expected)), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("causal", [True, False])
def test_without_tokens_there_are_no_outputs_and_the_state_stays(causal):
    phi, v = draw(2, 0, 5), draw(2, 0, 4)
    assert linear.linear_attention(phi, phi, v, causal=causal).shape == (2, 0, 4)
    before = draw(2, 5, 5)
    _, after = linear.linear_attention(phi, phi, v, causal=causal, state=before, return_state=True)
    assert torch.equal(after, before)


@pytest.mark.parametrize("causal", [True, False])
def test_a_state_stands_for_the_keys_that_made_it(causal):
    phi_q, phi_k, v = draw(2, 300, 5).exp(), draw(2, 300, 5, seed=1).exp(), draw(2, 300, 4, seed=2)
    _, state = linear.linear_attention(phi_q[:, :170], phi_k[:, :170], v[:, :170], causal=causal, return_state=True)
    after, state = linear.linear_attention(
        phi_q[:, 170:], phi_k[:, 170:], v[:, 170:], causal=causal, state=state, return_state=True
    )
    torch.testing.assert_close(after, of_all_pairs(phi_q, phi_k, v, causal)[:, 170:], rtol=1e-10, atol=1e-10)
    total = phi_k.mT @ torch.cat([v, torch.ones(2, 300, 1, dtype=v.dtype)], dim=-1)
    torch.testing.assert_close(state, total, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("large", [1e9, float("inf")])
def test_a_large_value_leaves_nothing_of_itself_in_earlier_outputs(large):
    # what a chunk has written does not cancel if it is taken from the sums again
    phi, v = torch.ones(1, 256, 1), torch.full((1, 256, 1), 0.3)
    v[:, 255] = large
    y = linear.linear_attention(phi, phi, v, causal=True)
    torch.testing.assert_close(y[:, :128], v[:, :128], rtol=1e-5, atol=0)
    if large < torch.inf:  # an infinite one still meets the zeros of its own chunk, which the mixers see to
        torch.testing.assert_close(y[:, :255], v[:, :255], rtol=1e-5, atol=0)


def test_elu_features_keep_their_digits_far_below_0():
    x = torch.linspace(-80, 20, 401, requires_grad=True)
    exact = torch.where(x > 0, x.double() + 1, x.double().exp())
    features = linear.elu_features(x)
    torch.testing.assert_close(features.double(), exact, rtol=1e-5, atol=0)
    torch.testing.assert_close(features, torch.nn.functional.elu(x) + 1, rtol=1e-5, atol=1e-6)
    (slope,) = torch.autograd.grad(features.sum(), x)
    torch.testing.assert_close(slope.double(), torch.where(x > 0, 1.0, x.double().exp()), rtol=1e-5, atol=0)


def test_products_of_favor_features_are_the_softmax_kernel_on_average():
    generator = torch.Generator().manual_seed(0)
    x, y = 0.4 * torch.randn(2, 5, 8, generator=generator, dtype=torch.float64)
    directions = linear.orthogonal_directions(40_000, 8, generator).double()
    phi_x = linear.favor_features(x, directions, query=True, eps=0.0)
    phi_y = linear.favor_features(y, directions, query=False, eps=0.0)
    # what was subtracted from the exponents goes back in
    scale = 8**-0.25
    back_x = (scale * x @ directions.mT).amax(dim=-1, keepdim=True)
    back_y = (scale * y @ directions.mT).amax()
    kernel = (phi_x @ phi_y.mT) * torch.exp(back_x + back_y)
    torch.testing.assert_close(kernel, torch.exp(x @ y.mT / 8**0.5), rtol=0.02, atol=0)


def test_directions_are_orthogonal_with_the_lengths_of_gaussian_vectors():
    directions = linear.orthogonal_directions(1000, 16, torch.Generator().manual_seed(1)).double()
    block = directions[:16] / directions[:16].norm(dim=-1, keepdim=True)
    torch.testing.assert_close(block @ block.mT, torch.eye(16, dtype=torch.float64), rtol=0, atol=1e-5)
    assert directions.square().sum(dim=-1).mean().item() == pytest.approx(16, rel=0.05)


def test_favor_features_are_those_of_the_library():
    library = pytest.importorskip("performer_pytorch.performer_pytorch", reason="performer-pytorch is an extra")
    x = torch.randn(2, 3, 50, 16, generator=torch.Generator().manual_seed(2))
    directions = linear.orthogonal_directions(44, 16, torch.Generator().manual_seed(3))
    for query in (True, False):
        theirs = library.softmax_kernel(x, projection_matrix=directions, is_query=query)
        torch.testing.assert_close(linear.favor_features(x, directions, query=query), theirs)


def test_causal_features_of_a_key_depend_on_no_other_key():
    directions = linear.orthogonal_directions(40, 8, torch.Generator().manual_seed(1)).double()
    x, changed = draw(2, 9, 8), draw(2, 9, 8)
    changed[:, 5] *= 30
    given, other = (linear.favor_features(one, directions, query=False, causal=True) for one in (x, changed))
    rest = [0, 1, 2, 3, 4, 6, 7, 8]
    assert torch.equal(given[:, rest], other[:, rest])
    given, other = (linear.favor_features(one, directions, query=False) for one in (x, changed))
    assert not torch.equal(given[:, rest], other[:, rest])


def test_causal_features_have_an_expectation_of_1_before_their_scale():
    directions = linear.orthogonal_directions(200_000, 4, torch.Generator().manual_seed(2)).double()
    features = linear.favor_features(draw(5, 4) / 2, directions, query=False, causal=True, eps=0.0)
    torch.testing.assert_close(features.sum(-1) / 200_000**0.5, torch.ones(5, dtype=torch.float64), rtol=0.02, atol=0)


def test_features_of_the_key_that_is_worst_for_them_do_not_overflow():
    directions = linear.orthogonal_directions(300, 256, torch.Generator().manual_seed(3))
    worst = 256**0.25 * directions[directions.norm(dim=-1).argmax()][None]  # its exponent is half a squared length
    features = linear.favor_features(worst, directions, query=False, causal=True)
    assert torch.isfinite((1e6 * features).sum())
    assert features.max() > 1
