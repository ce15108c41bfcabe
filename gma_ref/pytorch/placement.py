"""Components placed by data: k-means for the means, then variances and priors that leave the routing soft."""

from __future__ import annotations

import math

import torch

ROUNDS = 50  # of Lloyd's algorithm; it has mostly settled by then, and need not be exact
LEAST_VARIANCE = 1e-4  # within a cluster, as a share of the data's: clusters of one point have none
WIDEST = 1e6  # factor on the variances
HALVINGS = 25  # of the interval of factors, by their logarithms


def place(points, num_components, entropy, generator=None):
    r"""Return means (K, d), variances (d,) and log priors (K,) for `points` (N, d).

    Coordinates are first scaled to unit variance, so that their units do not matter. The variances are those within the
    clusters, widened by the least factor at which responsibilities have the mean entropy `entropy` · log K. Priors
    lie half way between the clusters' shares and even ones: a cluster of one far point is to be of some use.
    """
    scale = points.std(dim=0, correction=0)
    scale = torch.where(scale > 0, scale, 1)
    centre = points.mean(dim=0)
    whitened = (points - centre) / scale
    means, labels = k_means(whitened, num_components, generator)
    within = (whitened - means[labels]).square().mean(dim=0).clamp_min(LEAST_VARIANCE)
    distances = squared_distances(whitened / within.sqrt(), means / within.sqrt())
    share = torch.bincount(labels, minlength=num_components) / len(points)
    log_prior = ((share + 1 / num_components) / 2).log().to(points.dtype)
    factor = widening(distances, log_prior, entropy)
    return means * scale + centre, within * factor * scale.square(), log_prior


def k_means(points, num_components, generator=None):
    """Return centres (K, d) and each point's label (N,), by Lloyd's algorithm from k-means++ seeds.

    An empty cluster moves to the point that is farthest from its centre. The draws come from the generator's own
    device, so a seed means the same for points on any device.
    """
    means = spread_seeds(points, num_components, generator)
    labels = None
    for _ in range(ROUNDS):
        distances = squared_distances(points, means)
        nearest, previous = distances.argmin(dim=-1), labels
        counts = torch.bincount(nearest, minlength=num_components)
        empty = (counts == 0).nonzero()[:, 0]
        far = distances.amin(dim=-1).topk(len(empty)).indices
        labels = nearest.index_copy(0, far, empty)
        if previous is not None and torch.equal(labels, previous):
            break
        members = torch.nn.functional.one_hot(labels, num_components).to(points.dtype)
        sizes = members.sum(dim=0)[:, None]
        means = torch.where(sizes > 0, members.mT @ points / sizes.clamp_min(1), means)
    return means, labels


def spread_seeds(points, num_components, generator=None):
    """Choose K points, each with a probability in proportion to its squared distance from those chosen before."""
    device = "cpu" if generator is None else generator.device
    draws = torch.rand(num_components, generator=generator, device=device, dtype=torch.float64).to(points)
    remaining = torch.ones_like(points[:, 0])
    chosen = []
    for draw in draws:
        cumulative = remaining.cumsum(dim=0)
        if not cumulative[-1] > 0:
            raise ValueError(
                f"x must hold at least as many different points as there are components, {num_components}, "
                f"got {len(chosen)} different points"
            )
        chosen.append((cumulative > draw * cumulative[-1]).int().argmax())
        distances = squared_distances(points, points[chosen[-1]][None])[:, 0]
        remaining = distances if len(chosen) == 1 else torch.minimum(remaining, distances)
    return points[torch.stack(chosen)]


def squared_distances(points, means):
    """Return (N, K) squared distances, from differences: expanded, they would cancel."""
    exact = "donot_use_mm_for_euclid_dist"
    return torch.cdist(points, means, compute_mode=exact).square()


def widening(distances, log_prior, entropy):
    """Return the least factor ≥ 1 on all variances at which the mean entropy is `entropy` · log K."""
    goal = entropy * math.log(len(log_prior))
    if mean_entropy(distances, log_prior) >= goal:
        return 1.0
    low, high = 0.0, math.log(WIDEST)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if mean_entropy(distances / math.exp(middle), log_prior) >= goal:
            high = middle
        else:
            low = middle
    return math.exp(high)


def mean_entropy(distances, log_prior):
    """Return the mean entropy of responsibilities, in nats; the distances are in standard deviations, squared."""
    gamma = torch.softmax(log_prior - distances / 2, dim=-1)
    return float(torch.special.entr(gamma).sum(dim=-1).mean())
