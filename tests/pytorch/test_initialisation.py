"""Where a layer starts: its routing of tokens of unit variance, through its own projections, is neither hard nor flat."""

import math

import pytest
import torch

from gma_ref.pytorch import GaussianMixtureAttention, LearnedGaussianMixture, responsibilities
from gma_ref.pytorch.learned_mixture import initial_variance

HEADS, TOKENS = 8, 128


def routing(d_r, K, d_model, seed=0, **options):
    """Return the responsibilities (H, N, K) that a new layer gives to queries and keys of unit-normal tokens."""
    torch.manual_seed(seed)
    layer = GaussianMixtureAttention(
        d_model, num_components=K, num_heads=HEADS, routing_dim=d_r, value_dim=1, **options
    )
    q, k, _ = layer.project(torch.randn(TOKENS, d_model))
    return responsibilities(torch.cat([q, k], dim=-2), layer.mixture()).detach()


def entropy(gamma):
    """Return the entropy of rows that sum to 1, in nats."""
    return torch.special.entr(gamma).sum(dim=-1)


@pytest.mark.parametrize("d_r", [1, 2, 4, 16, 64, 256])
@pytest.mark.parametrize("K", [2, 3, 8, 64, 1024])
def test_start_has_at_least_half_of_the_largest_entropy(d_r, K):
    for d_model in (16, 128, 1024):
        for options in ({}, {"qk_norm": True}, {"shared_mixture": True}):
            gamma = routing(d_r, K, d_model, **options)
            share = entropy(gamma).mean(dim=-1) / math.log(K)
            assert share.mean() > 0.6, (d_model, options)
            assert share.min() > 0.5 - 0.1 * (K < 4), (d_model, options)  # two means may lie far apart by chance
            # not flat either: components differ in what they take
            assert share.mean() < 0.99, (d_model, options)


@pytest.mark.parametrize("d_r", [1, 16, 256])
@pytest.mark.parametrize("K", [8, 64, 1024])
def test_start_uses_most_of_the_slots(d_r, K):
    gamma = routing(d_r, K, 128)
    assert (entropy(gamma.mean(dim=-2)).exp() > 0.5 * K).all()


@pytest.mark.parametrize("K", [16, 64, 256])
def test_entropy_is_what_theory_says(K):
    # B8, wide vectors: scores spread by τ² = d_r (s_x² s_μ² + s_μ⁴ / 2) / σ⁴, and H = log K − τ² / 2
    d_r = 256
    gamma = routing(d_r, K, 1024)
    spread = d_r * 1.5 / initial_variance(K, d_r) ** 2
    assert abs(float(entropy(gamma).mean()) - (math.log(K) - spread / 2)) < 0.15


def test_variances_are_equal_at_the_start():
    mixture = LearnedGaussianMixture(16, 8, 3)()
    assert torch.equal(mixture.variance, mixture.variance[:1, :1, :1].expand_as(mixture.variance))
    assert float(mixture.variance.mean()) == pytest.approx(initial_variance(16, 8), rel=1e-5)


def test_hazard_of_one_hot_responsibilities_in_high_dimension():
    # variances of 1 are the fault that this start avoids
    torch.manual_seed(0)
    module = LearnedGaussianMixture(16, 64)
    x = torch.randn(500, 64)
    with torch.no_grad():
        share = entropy(responsibilities(x, module())).mean() / math.log(16)
        module.omega.fill_(math.log(math.e - 1))
        hard = entropy(responsibilities(x, module())).mean() / math.log(16)
    assert hard < 0.2
    assert share > 0.6


def test_projections_keep_unit_variance():
    torch.manual_seed(0)
    layer = GaussianMixtureAttention(256, num_components=4, num_heads=4, bias=True)
    for vectors in layer.project(torch.randn(500, 256)):
        assert float(vectors.var()) == pytest.approx(1, abs=0.05)
    assert all(not getattr(layer, name).bias.any() for name in ("w_q", "w_k", "w_v", "w_o"))
