"""How fast responsibilities change: L1-L6, where they are tight, and which mixtures stay Lipschitz everywhere (B5)."""

import math
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gma_ref
from gma_ref.reference.stability import score_difference_bound, score_gradient_bound
from tests import oracles
from tests.examples import draw, draw_problem


def mixture_of(mu, variance, prior=None):
    """Return a mixture of given means and variances, with equal priors unless others are given."""
    mu, variance = np.float64(mu), np.float64(variance)
    prior = np.full(mu.shape[:-1], 1 / mu.shape[-2]) if prior is None else np.float64(prior)
    with np.errstate(divide="ignore"):
        return gma_ref.GaussianMixture(mu, variance, np.log(prior))


def slopes(mixture, x):
    """Return u_k(x) of every component, one vector (K, d_r), as the definition has it."""
    return -(x - mixture.mu) / mixture.variance


# The Jacobian


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)], ids=str)
def test_responsibility_jacobian_is_the_change_of_the_responsibilities(batch):
    x, _, _, mixture = draw(N=3, batch=batch)
    parameters = mixture.mu, mixture.variance, mixture.log_prior
    jacobian = gma_ref.responsibility_jacobian(x, mixture)
    assert jacobian.shape == (*batch, 3, 4, 3)
    for m in range(3):
        step = 1e-5 * np.eye(3)[m]
        change = oracles.responsibilities(x + step, *parameters) - oracles.responsibilities(x - step, *parameters)
        assert_allclose(jacobian[..., m], change / 2e-5, rtol=1e-7, atol=1e-9)
    assert_allclose(jacobian.sum(axis=-2), 0, atol=1e-15)


def test_jacobian_is_the_softmax_jacobian_times_that_of_the_scores():
    (x, _, _, mu, omega, alpha), _ = draw_problem()
    mixture = gma_ref.GaussianMixture.from_unconstrained(mu, omega, alpha)
    by_score = gma_ref.softmax_jacobian(gma_ref.responsibilities(x, mixture))
    by_x = gma_ref.score_jacobians(x, mu, omega, alpha)["x"]
    expected = np.einsum("bijk,bikm->bijm", by_score, by_x)
    assert_allclose(gma_ref.responsibility_jacobian(x, mixture), expected, rtol=1e-10, atol=1e-14)


def test_jacobian_far_away_is_finite_and_that_of_a_component_of_prior_zero_is_zero():
    mixture = mixture_of([[0.0], [1], [2]], [[1.0], [1], [2]], [0.5, 0, 0.5])
    jacobian = gma_ref.responsibility_jacobian([[0.3], [1e4], [1e150]], mixture)
    assert np.isfinite(jacobian).all()
    assert_array_equal(jacobian[:, 1], 0)


# The bounds, from their definitions


def definitions(mixture, radius):
    """L1-L5 of one mixture, in loops."""
    used = [k for k in range(len(mixture.mu)) if mixture.log_prior[k] > -math.inf]
    M = max(math.hypot(*mixture.mu[k]) for k in used)
    B = (radius + M) / min(mixture.variance[k].min() for k in used)
    D = 2 * B if len(used) > 1 else 0
    sharp = 0
    for k, j in combinations(used, 2):
        P, other = 1 / mixture.variance[k], 1 / mixture.variance[j]
        spectral = max(abs(a - b) for a, b in zip(P, other, strict=True))
        sharp = max(sharp, radius * spectral + math.hypot(*(P * mixture.mu[k] - other * mixture.mu[j])))
    return {
        "score_gradient": B,
        "component": D / 4,
        "l1": D / 2,
        "l2": D / 2 / math.sqrt(2),
        "l2_sharp": sharp / 2 / math.sqrt(2),
    }


@pytest.mark.parametrize("radius", [0.0, 1.0, 50.0])
def test_bounds_are_those_of_the_definitions(radius):
    _, _, _, mixture = draw(batch=(2, 3))
    prior = np.exp(mixture.log_prior)
    prior[1, 1, 2], prior[0, 2, 1:] = 0, 0  # and one with a single component
    # the component without a prior would set every bound
    mu, variance = mixture.mu.copy(), mixture.variance.copy()
    mu[1, 1, 2], variance[1, 1, 2] = 100, 1e-3
    mixture = mixture_of(mu, variance, prior / prior.sum(axis=-1, keepdims=True))
    bounds = gma_ref.lipschitz_bounds(mixture, radius)
    names = ["score_gradient", "component", "l1", "l2", "l2_sharp", "l2_global"]
    assert list(bounds) == names
    for b in np.ndindex(2, 3):
        one = gma_ref.GaussianMixture(mixture.mu[b], mixture.variance[b], mixture.log_prior[b])
        for name, expected in definitions(one, radius).items():
            assert_allclose(bounds[name][b], expected, rtol=1e-13, err_msg=name)
            assert_allclose(gma_ref.lipschitz_bounds(one, radius)[name], expected, rtol=1e-13, err_msg=name)
    # unequal variances: nowhere global, but where one component is left
    assert_array_equal(bounds["l2_global"], [[math.inf, math.inf, 0], [math.inf, math.inf, math.inf]])


@pytest.mark.parametrize("shared", ["mu", "variance", "log_prior"])
def test_bounds_of_mixtures_that_share_a_parameter_are_those_of_their_expanded_twins(shared):
    _, _, _, mixture = draw(batch=(3,))
    parts = {name: getattr(mixture, name) for name in mixture.AXES}
    parts[shared] = parts[shared][0]
    whole = gma_ref.GaussianMixture(**parts | {shared: np.stack([parts[shared]] * 3)})
    expected = gma_ref.lipschitz_bounds(whole, 2.0)
    for name, bound in gma_ref.lipschitz_bounds(gma_ref.GaussianMixture(**parts), 2.0).items():
        assert_array_equal(np.broadcast_to(bound, 3), expected[name])


def ball(rng, n, d, radius):
    """Return points on and within a sphere."""
    x = rng.normal(size=(n, d))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    return radius * x * rng.choice([1, 1, 0.5, 0.01], size=(n, 1))


@pytest.mark.parametrize("seed", range(10))
def test_no_score_changes_faster_than_its_bound(seed):
    rng = np.random.default_rng(seed)
    _, _, _, mixture = draw(seed, batch=())
    B, D = score_gradient_bound(mixture, 2.0), score_difference_bound(mixture, 2.0)
    for x in ball(rng, 200, 3, 2.0):
        u = slopes(mixture, x)
        assert np.linalg.norm(u, axis=-1).max() <= B
        assert max(np.linalg.norm(a - b) for a, b in combinations(u, 2)) <= D


def test_bound_of_the_score_is_reached_opposite_to_a_narrow_component():
    mixture = mixture_of([[3.0, 4.0], [0, 0]], [[0.5, 0.5], [2, 2]])
    assert_allclose(score_gradient_bound(mixture, 2.0), np.linalg.norm(slopes(mixture, [-1.2, -1.6])[0]), rtol=1e-14)


def test_bound_of_the_difference_is_reached_where_the_widest_gap_pulls_as_the_means_do():
    mixture = mixture_of([[1.0, 0.0], [-1, 0]], [[0.5, 2], [1, 1.5]])
    u = slopes(mixture, [-2.0, 0.0])
    assert_allclose(score_difference_bound(mixture, 2.0), np.linalg.norm(u[0] - u[1]), rtol=1e-14)


# Tightness, and the counterexample


@pytest.mark.parametrize("seed", range(5))
def test_bounds_are_reached_by_two_components_of_equal_covariance_at_the_midpoint(seed):
    rng = np.random.default_rng(seed)
    mu, variance = rng.normal(size=(2, 3)), np.exp(rng.normal(size=3))
    mixture = mixture_of(mu, np.stack([variance, variance]))
    D = np.linalg.norm((mu[0] - mu[1]) / variance)
    jacobian = gma_ref.responsibility_jacobian(mu.mean(axis=0, keepdims=True), mixture)[0]
    assert_allclose(np.linalg.norm(jacobian, axis=-1), D / 4, rtol=1e-12)
    direction = jacobian[0] / np.linalg.norm(jacobian[0])
    assert_allclose(np.abs(jacobian @ direction).sum(), D / 2, rtol=1e-12)
    assert_allclose(np.linalg.norm(jacobian @ direction), D / math.sqrt(8), rtol=1e-12)
    assert_allclose(gma_ref.lipschitz_bounds(mixture, 7.0)["l2_sharp"], D / math.sqrt(8), rtol=1e-12)
    assert_allclose(gma_ref.lipschitz_bounds(mixture, 7.0)["l2_global"], D / math.sqrt(8), rtol=1e-12)


def test_responsibilities_of_the_counterexample_change_ever_faster():
    mu, variance = np.zeros((2, 2)), np.array([[1.0, 0.25], [0.25, 1]])
    mixture = mixture_of([mu, mu, mu], [variance, variance[::-1], variance])
    t = np.array([0.5, 1.0, 10, 1e3, 1e6])
    x = np.stack([t, t], axis=-1)
    jacobian = gma_ref.responsibility_jacobian(x, mixture)
    assert_allclose(gma_ref.responsibilities(x, mixture), 0.5)
    expected = np.array([[0.75, -0.75], [-0.75, 0.75]]) * t[:, None, None]
    assert_allclose(jacobian, np.stack([expected, -expected, expected]), rtol=1e-12)
    assert_allclose(np.linalg.norm(jacobian[0, :, 0], axis=-1), 3 * math.sqrt(2) / 4 * t, rtol=1e-12)
    assert not gma_ref.is_globally_lipschitz(mixture).any()
    assert_array_equal(gma_ref.lipschitz_bounds(mixture, 1.0)["l2_global"], math.inf)


@pytest.mark.parametrize("seed", range(5))
def test_equal_covariances_keep_their_bound_everywhere(seed):
    rng = np.random.default_rng(seed)
    mu, variance = rng.normal(size=(4, 3)), np.exp(rng.normal(size=3))
    mixture = mixture_of(mu, np.stack([variance] * 4), rng.dirichlet(np.ones(4)))
    bound = gma_ref.lipschitz_bounds(mixture, 1.0)["l2_global"]
    assert_allclose(gma_ref.lipschitz_bounds(mixture, 1e6)["l2_sharp"], bound, rtol=1e-12)  # no R in it
    for radius in (1.0, 1e2, 1e4):
        found = steepest(mixture, radius, rng)
        assert found <= bound * (1 + 1e-9)
    assert steepest(mixture, 1.0, rng) > bound / 10


# All of space: B5


def steepest(mixture, radius, rng, n=200):
    """Return the largest spectral norm of the Jacobian found at a distance, where two components tie.

    Along segments between points of a sphere, some of them with coordinates of 0, the leading component changes; there
    the responsibilities change fastest.
    """
    start, stop = rng.normal(size=(2, n, mixture.routing_dim))
    start *= rng.random(start.shape) < 0.5
    start, stop = radius * start, radius * (start + stop)
    steps = np.concatenate([[0], np.logspace(-7, 0, 71)])
    at = start[:, None] + steps[:, None] * (stop - start)[:, None]
    leader = gma_ref.scores(at, mixture).argmax(axis=-1)
    segment, i = np.nonzero(np.diff(leader))
    if not len(segment):
        return 0.0
    low, high, before = steps[i], steps[i + 1], leader[segment, i]
    for _ in range(60):
        middle = (low + high) / 2
        x = start[segment] + middle[:, None] * (stop - start)[segment]
        same = gma_ref.scores(x, mixture).argmax(axis=-1) == before
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return np.linalg.norm(gma_ref.responsibility_jacobian(x, mixture), 2, axis=(-2, -1)).max()


GLOBAL = {
    "one component": mixture_of([[0.0, 0]], [[1.0, 2]]),
    "equal covariances": mixture_of([[0.0, 0], [1, 0], [0, 3]], [[1.0, 2]] * 3),
    "isotropic": mixture_of([[0.0, 0], [1, 0], [0, 3]], [[1.0, 1], [2, 2], [3, 3]]),
    "one coordinate": mixture_of([[0.0], [1], [2]], [[1.0], [0.1], [3]]),
    "one broadest": mixture_of([[0.0, 0], [1, 0], [0, 3]], [[5.0, 5], [1, 4], [4, 1]]),
    "as broad in one, with the same mean there": mixture_of([[1.0, 0], [1, 4]], [[2.0, 2], [2, 1]]),
    "as broad in one, mean between": mixture_of([[-1.0, 0], [1, 0], [0.3, 4]], [[2.0, 2], [2, 2], [2, 1]]),
    "as broad in one, mean at the end": mixture_of([[-1.0, 0], [1, 0], [1, 4]], [[2.0, 2], [2, 2], [2, 1]]),
    "crossing, but of prior 0": mixture_of([[0.0, 0], [0, 0], [1, 0]], [[1.0, 4], [4, 1], [4, 4]], [0.5, 0, 0.5]),
    "as broad in two, mean in the triangle": mixture_of(
        [[0.0, 0, 0], [4, 0, 0], [0, 4, 0], [1, 1, 7]], [[1.0, 1, 1]] * 3 + [[1, 1, 0.5]]
    ),
}
LOCAL = {
    "crossing": mixture_of([[0.0, 0], [0, 0]], [[1.0, 4], [4, 1]]),
    "crossing, whatever the priors": mixture_of([[0.0, 0], [0, 0]], [[1.0, 4], [4, 1]], [1e-9, 1 - 1e-9]),
    "as broad in one, with another mean there": mixture_of([[1.0, 0], [1.1, 0]], [[2.0, 2], [2, 1]]),
    "as broad in one, mean outside": mixture_of([[-1.0, 0], [1, 0], [1.2, 4]], [[2.0, 2], [2, 2], [2, 1]]),
    "background of prior 0": mixture_of([[0.0, 0], [0, 0], [1, 1]], [[1.0, 4], [4, 1], [5, 5]], [0.5, 0.5, 0]),
    "background that is not strictly broadest": mixture_of([[0.0, 0], [3, 0], [1, 1]], [[1.0, 5], [4, 1], [5, 5]]),
    "as broad in two, mean outside the triangle": mixture_of(
        [[0.0, 0, 0], [4, 0, 0], [0, 4, 0], [2.5, 2.5, 7]], [[1.0, 1, 1]] * 3 + [[1, 1, 0.5]]
    ),
}


@pytest.mark.parametrize("name", GLOBAL)
def test_mixtures_with_a_broadest_component_are_lipschitz_everywhere(name):
    mixture = GLOBAL[name]
    answer = gma_ref.is_globally_lipschitz(mixture)
    assert answer.dtype == bool
    assert answer.shape == ()
    assert answer
    bound, rng = gma_ref.background_bound(mixture), np.random.default_rng(0)
    assert np.isfinite(bound)
    for radius in (1.0, 1e2, 1e4):
        found = steepest(mixture, radius, rng)
        assert found <= bound * (1 + 1e-6)
        assert not found > gma_ref.lipschitz_bounds(mixture, 1.0)["l2_global"] * (1 + 1e-6)  # which may be nan


@pytest.mark.parametrize("name", LOCAL)
def test_mixtures_without_are_not(name):
    mixture = LOCAL[name]
    assert not gma_ref.is_globally_lipschitz(mixture)
    assert gma_ref.background_bound(mixture) == math.inf
    assert gma_ref.lipschitz_bounds(mixture, 1.0)["l2_global"] == math.inf
    rng = np.random.default_rng(0)
    near, far = steepest(mixture, 1e3, rng), steepest(mixture, 1e7, rng)
    assert far > 20 * near  # as the root of the distance, or as the distance


def test_global_answers_come_for_each_mixture():
    _, _, _, mixture = draw(batch=(2, 3))
    assert_array_equal(gma_ref.is_globally_lipschitz(mixture), np.zeros((2, 3), bool))
    broad = mixture.variance.copy()
    broad[0, :, 1] = broad.max(axis=-2)[0] + 0.1
    mixture = mixture_of(mixture.mu, broad)
    assert_array_equal(gma_ref.is_globally_lipschitz(mixture), [[True] * 3, [False] * 3])
    assert_array_equal(np.isfinite(gma_ref.background_bound(mixture)), [[True] * 3, [False] * 3])
    assert_array_equal(np.isnan(gma_ref.lipschitz_bounds(mixture, 1.0)["l2_global"]), [[True] * 3, [False] * 3])
    none = mixture_of(np.zeros((0, 2, 1)), np.ones((0, 2, 1)))
    assert gma_ref.is_globally_lipschitz(none).shape == gma_ref.background_bound(none).shape == (0,)


def test_global_constants_are_those_of_the_formula():
    # B6 for K = 2 (one slope), for three nested components, for equal covariances, and where it says nothing
    def bound(mixture):
        return gma_ref.lipschitz_bounds(mixture, 1.0)["l2_global"]

    mu, variance, prior = np.array([[0.0, 0], [1, 2], [-1, 1]]), np.array([[4.0, 5], [2, 1], [1, 0.5]]), [0.2, 0.3, 0.5]
    delta = np.linspace(-30, 30, 600_001)
    beta, c = pair(mu, variance, prior, 0, 1)
    slope = np.sqrt(2 * beta * np.maximum(delta - c, 0)) / (4 * np.cosh(delta / 2) ** 2)
    two = mixture_of(mu[:2], variance[:2], np.array([0.4, 0.6]))
    assert_allclose(bound(two), math.sqrt(2) * slope.max(), rtol=1e-8)

    betas, cs = np.transpose([pair(mu, variance, prior, k, j) for k, j in ((0, 1), (0, 2), (1, 2))])
    A, B = (2 * betas * np.maximum(-cs, 0)).max(), 2 * betas.max()
    w = 0.46305551336554884  # w e^w = 2/e
    assert_allclose(w * math.exp(w), 2 / math.e, rtol=1e-12)
    three = mixture_of(mu, variance, prior)
    assert_allclose(bound(three), math.sqrt(((1 - 1 / 3) * A / 2 + B * w) / 2), rtol=1e-12)

    batch = mixture_of([mu, mu], [variance, [[4.0, 5], [2, 6], [1, 0.5]]], [prior, prior])
    assert_allclose(bound(batch), [bound(three), math.inf], rtol=1e-14)
    with_background = mixture_of([[0.0, 0]] * 3, [[1.0, 2], [2, 1], [9, 9]])
    assert np.isnan(bound(with_background))
    assert np.isfinite(gma_ref.background_bound(with_background))


def test_bound_with_a_background_is_that_of_the_formula():
    # B6b: component 0 is broader than the three others, which cannot be compared with each other
    mu, prior = np.array([[0.0, 0], [1, 2], [-1, 1], [5, 0]]), [0.1, 0.2, 0.3, 0.4]
    variance = np.array([[4.0, 5], [2, 1], [1, 2], [0.5, 4]])
    betas, cs = np.transpose([pair(mu, variance, prior, 0, j) for j in (1, 2, 3)])
    w = 0.603545739535836  # w e^w = 3/e
    assert_allclose(w * math.exp(w), 3 / math.e, rtol=1e-12)
    in_1_norm = math.sqrt((2 * betas * np.maximum(-cs, 0)).max() + 2 * betas.max() * w)
    assert_allclose(gma_ref.background_bound(mixture_of(mu, variance, prior)), in_1_norm / math.sqrt(2), rtol=1e-11)

    # two broadest ones, and one as broad in the first coordinate, where its mean lies between theirs
    mixture = mixture_of([[-2.0, 0], [2, 0], [1, 3]], [[4.0, 4], [4, 4], [4, 1]], [0.2, 0.3, 0.5])
    c = 0.25 * math.log(0.2) + 0.75 * math.log(0.3) - math.log(0.5)
    c += 0.5 * math.log(1 / 4) - (4 - 1) / 8 - 0.5 * (1 / 4) * 9 / (1 - 1 / 4)
    w = 0.46305551336554884
    bound = (math.sqrt(1.5 * -c + 1.5 * w) + 1) / math.sqrt(2)  # the two are 1 apart in units of the gradients
    assert_allclose(gma_ref.background_bound(mixture), bound, rtol=1e-11)


def pair(mu, variance, prior, k, j):
    """Return β and c of B6 for component k, the broader, and component j."""
    p, narrow = 1 / variance[k], 1 / variance[j]
    c = math.log(prior[k] / prior[j]) + 0.5 * np.log(p / narrow).sum()
    c -= 0.5 * (p * narrow * (mu[k] - mu[j]) ** 2 / (narrow - p)).sum()
    return (narrow - p).max(), c


def test_variances_that_differ_in_the_last_digit_are_different():
    variance = np.array([[2.0, 2], [2, 1]])
    mu = [[1.0, 0], [1.1, 0]]
    assert not gma_ref.is_globally_lipschitz(mixture_of(mu, variance))
    variance[0, 0] = np.nextafter(2, 3)
    assert gma_ref.is_globally_lipschitz(mixture_of(mu, variance))


@pytest.mark.parametrize("seed", range(8))
def test_a_background_component_makes_any_mixture_lipschitz_everywhere(seed):
    rng = np.random.default_rng(seed)
    K, d = rng.integers(2, 5), rng.integers(2, 4)
    mu, variance = rng.normal(size=(K, d)), np.exp(rng.normal(size=(K, d)))
    assert (
        not gma_ref.is_globally_lipschitz(mixture_of(mu, variance)) or (variance == variance.max(axis=0)).all(1).any()
    )
    mixture = mixture_of(np.vstack([mu, mu.mean(axis=0)]), np.vstack([variance, 1.3 * variance.max(axis=0)]))
    assert gma_ref.is_globally_lipschitz(mixture)
    bound = gma_ref.background_bound(mixture)
    for radius in (1.0, 10.0, 1e3, 1e5):
        assert steepest(mixture, radius, rng) <= bound
