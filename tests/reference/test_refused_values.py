"""Values that cannot be meant are refused: stabilizers, flags, masks, parameters of a mixture, counts."""

import inspect
import re
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import gma_ref
from tests.calls import CALLS, call

STABILIZED = [
    ("read_memory", "eps"),
    ("attention_weights", "eps"),
    ("gaussian_mixture_attention", "eps"),
    ("gaussian_mixture_attention_vjp", "eps"),
    ("read_memory_vjp", "eps"),
    ("slot_means", "eps"),
    ("from_unconstrained", "eps_sigma"),
    ("gaussian_mixture_attention_vjp", "eps_sigma"),
    ("score_jacobians", "eps_sigma"),
    ("score_vjp", "eps_sigma"),
    ("lipschitz_bounds", "radius"),
    ("batch_mahalanobis", "ridge"),
]


@pytest.mark.parametrize(("function", "name"), STABILIZED)
@pytest.mark.parametrize("value", [-1e-6, -1, np.nan, np.inf, -np.inf, np.float32(-1)], ids=repr)
def test_stabilizers_are_finite_and_not_negative(function, name, value):
    with pytest.raises(ValueError, match=f"^{name} must be finite and at least 0, got "):
        call(function, **{name: value})


@pytest.mark.parametrize(("function", "name"), STABILIZED)
@pytest.mark.parametrize("value", [True, np.False_, "1e-6", None, 1j, np.array(1e-6), [1e-6]], ids=repr)
def test_stabilizers_are_real_numbers(function, name, value):
    came = type(value).__name__
    with pytest.raises(TypeError, match=f"^{name} must be a real number, got {came}$"):
        call(function, **{name: value})


@pytest.mark.parametrize(("function", "name"), STABILIZED)
@pytest.mark.parametrize("value", [0, 1, 0.5, np.float32(0.5), np.float64(0.5), np.int64(1), Fraction(1, 2)], ids=repr)
def test_stabilizers_may_be_any_kind_of_real_number(function, name, value):
    result, expected = call(function, **{name: value}), call(function, **{name: float(value)})
    for array, other in zip(arrays_of(result), arrays_of(expected), strict=True):
        assert_array_equal(array, other)


def arrays_of(result):
    """Return the arrays of a result, whatever holds them."""
    if isinstance(result, gma_ref.GaussianMixture):
        return [result.variance]
    if isinstance(result, dict):
        return list(result.values())
    return [array for part in result for array in arrays_of(part)] if isinstance(result, tuple) else [result]


CAUSAL = [
    "attention_weights",
    "gaussian_mixture_attention",
    "gaussian_mixture_attention_vjp",
    "scaled_dot_product_attention",
]


@pytest.mark.parametrize("function", CAUSAL)
@pytest.mark.parametrize("value", [1, 0, None, "yes", 1.0, np.array(True)], ids=repr)
def test_causal_is_true_or_false(function, value):
    with pytest.raises(TypeError, match=f"^causal must be True or False, got {type(value).__name__}$"):
        call(function, causal=value)


@pytest.mark.parametrize("function", CAUSAL)
@pytest.mark.parametrize("value", [False, True])
def test_causal_may_be_a_numpy_bool(function, value):
    result, expected = call(function, causal=np.bool_(value)), call(function, causal=value)
    for array, other in zip(arrays_of(result), arrays_of(expected), strict=True):
        assert_array_equal(array, other)


@pytest.mark.parametrize("function", CAUSAL)
def test_options_are_given_by_name(function):
    callable_, arguments, _ = CALLS[function]
    with pytest.raises(TypeError, match="too many positional arguments"):
        callable_(*arguments.values(), True)


@pytest.mark.parametrize(
    "function", ["write_memory", "write_memory_vjp", "attention_weights", "gaussian_mixture_attention_vjp"]
)
def test_masks_are_ordinary_arrays(function):
    with pytest.raises(ValueError, match=r"^key_mask must be an array, got what NumPy cannot read: .*inhomogeneous"):
        call(function, key_mask=[[True], [True, False]])
    with pytest.raises(TypeError, match=r"^key_mask must be an ordinary array, got a masked array"):
        call(function, key_mask=np.ma.masked_array(np.ones(6, bool), mask=np.ones(6, bool)))


# Values of a mixture


@pytest.mark.parametrize("value", [0.0, -1.0, -0.0])
def test_variances_must_be_positive(value):
    with pytest.raises(ValueError, match=f"^variance must be positive, got {value}$"):
        gma_ref.GaussianMixture([[0.0, 1.0]], [[1.0, value]], [0.0])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_means_variances_and_omegas_must_be_finite(value):
    with pytest.raises(ValueError, match=f"^mu must be finite, got {value}$"):
        gma_ref.GaussianMixture([[0.0, value]], [[1.0, 1.0]], [0.0])
    with pytest.raises(ValueError, match=f"^variance must be finite, got {value}$"):
        gma_ref.GaussianMixture([[0.0, 1.0]], [[1.0, value]], [0.0])
    with pytest.raises(ValueError, match=f"^mu must be finite, got {value}$"):
        gma_ref.GaussianMixture.from_unconstrained([[0.0, value]], [[1.0, 1.0]], [0.0])
    with pytest.raises(ValueError, match=f"^omega must be finite, got {value}$"):
        gma_ref.GaussianMixture.from_unconstrained([[0.0, 1.0]], [[1.0, value]], [0.0])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_chain_rule_refuses_what_a_mixture_refuses(value):
    x, delta = [[0.0]], [[0.1, -0.1]]
    with pytest.raises(ValueError, match=f"^mu must be finite, got {value}$"):
        gma_ref.score_vjp(x, [[0.0], [value]], [[0.0], [0.0]], delta)
    with pytest.raises(ValueError, match=f"^omega must be finite, got {value}$"):
        gma_ref.score_vjp(x, [[0.0], [1.0]], [[value], [0.0]], delta)


def test_the_chain_rule_refuses_variances_and_mixtures_of_nothing():
    with pytest.raises(ValueError, match=r"^variance must be positive, got 0\.0$"):
        gma_ref.score_vjp([[0.0]], [[0.0], [1.0]], [[-800.0], [0.0]], [[0.1, -0.1]], 0.0)
    for K, d_r in ((0, 1), (2, 0)):
        message = rf"^mu must have at least one component and one dimension, got shape \({K}, {d_r}\)$"
        with pytest.raises(ValueError, match=message):
            gma_ref.score_vjp(np.zeros((3, d_r)), np.zeros((K, d_r)), np.zeros((K, d_r)), np.zeros((3, K)))


def test_score_gradient_of_no_components_is_empty():
    assert gma_ref.score_gradient(np.zeros((2, 0)), np.zeros((2, 0))).shape == (2, 0)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_priors_must_be_numbers(value):
    mu, ones = np.zeros((2, 1)), np.ones((2, 1))
    with pytest.raises(ValueError, match=r"^log_prior must not hold NaN or \+inf"):
        gma_ref.GaussianMixture(mu, ones, [0.0, value])
    with pytest.raises(ValueError, match=r"^alpha must not hold NaN or \+inf"):
        gma_ref.GaussianMixture.from_unconstrained(mu, ones, [0.0, value])


def test_some_prior_must_be_positive():
    mu, ones = np.zeros((2, 2, 1)), np.ones((2, 2, 1))
    one_head = [[0.0, -np.inf], [-np.inf, -np.inf]]
    message = "must be finite for at least one component, got -inf for all$"
    with pytest.raises(ValueError, match=f"^log_prior {message}"):
        gma_ref.GaussianMixture(mu, ones, one_head)
    with pytest.raises(ValueError, match=f"^alpha {message}"):
        gma_ref.GaussianMixture.from_unconstrained(mu, ones, one_head)


@pytest.mark.parametrize("excess", [1.1e-5, -1.1e-5, 1.0, -1.0])
def test_priors_must_sum_to_one(excess):
    log_prior = np.log([0.5, 0.5]) + excess
    with pytest.raises(ValueError, match=r"^log_prior must have priors that sum to 1, got logsumexp of size [\d.e-]+$"):
        gma_ref.GaussianMixture(np.zeros((2, 1)), np.ones((2, 1)), log_prior)
    # one head that does not is enough
    with pytest.raises(ValueError, match=r"^log_prior must have priors that sum to 1"):
        gma_ref.GaussianMixture(np.zeros((2, 1)), np.ones((2, 1)), [np.log([0.5, 0.5]), log_prior])


@pytest.mark.parametrize("excess", [0.9e-5, -0.9e-5])
def test_priors_may_sum_to_one_as_closely_as_float32_can_say(excess):
    log_prior = np.log([0.5, 0.5]) + excess
    mixture = gma_ref.GaussianMixture(np.zeros((2, 1)), np.ones((2, 1)), log_prior)
    assert_array_equal(mixture.log_prior, log_prior)


def test_mixture_has_a_component_and_a_dimension():
    message = "^mu must have at least one component and one dimension, got shape "
    with pytest.raises(ValueError, match=message + re.escape("(0, 2)")):
        gma_ref.GaussianMixture(np.zeros((0, 2)), np.ones((0, 2)), np.zeros(0))
    with pytest.raises(ValueError, match=message + re.escape("(2, 0)")):
        gma_ref.GaussianMixture(np.zeros((2, 0)), np.ones((2, 0)), np.log([0.5, 0.5]))


# Counts

COUNTS = {
    gma_ref.routing_cost: ["num_queries", "num_keys", "num_components", "routing_dim", "value_dim"],
    gma_ref.routing_storage: ["num_queries", "num_keys", "num_components", "routing_dim", "value_dim"],
    gma_ref.projection_cost: ["num_tokens", "model_dim", "routing_dim", "value_dim"],
}
every_count = pytest.mark.parametrize(("function", "name"), [(f, n) for f, names in COUNTS.items() for n in names])


@every_count
@pytest.mark.parametrize("value", [1.0, "1", None, True, np.True_, np.array([1, 2])], ids=repr)
def test_counts_are_integers(function, name, value):
    arguments = dict.fromkeys(COUNTS[function], 2) | {name: value}
    with pytest.raises(TypeError, match=f"^{name} must be an integer, got {type(value).__name__}$"):
        function(**arguments)


@every_count
def test_counts_are_not_negative(function, name):
    arguments = dict.fromkeys(COUNTS[function], 2) | {name: -1}
    with pytest.raises(ValueError, match=f"^{name} must be at least 0, got -1$"):
        function(**arguments)


@every_count
def test_counts_may_be_numpy_integers(function, name):
    plain = dict.fromkeys(COUNTS[function], 2)
    cost = function(**plain | {name: np.int32(2)})
    assert cost == function(**plain)
    assert {type(count) for count in cost.values()} == {int}


@pytest.mark.parametrize("value", [1, 0, None, "yes", 1.0], ids=repr)
def test_causal_storage_is_true_or_false(value):
    with pytest.raises(TypeError, match=f"^causal must be True or False, got {type(value).__name__}$"):
        gma_ref.routing_storage(1, 2, 3, 4, 5, causal=value)


DOCUMENTED = {"eps": 1e-6, "eps_sigma": 1e-6, "causal": False, "key_mask": None, "ridge": 0.0}


@pytest.mark.parametrize("function", CALLS)
def test_defaults_are_the_documented_ones(function):
    parameters = inspect.signature(CALLS[function][0]).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    assert defaults == {name: DOCUMENTED[name] for name in defaults}


def test_a_stabiliser_beyond_the_floats_is_refused():
    with pytest.raises(ValueError, match=r"^eps must be finite and at least 0, got inf$"):
        call("read_memory", eps=10**400)


def test_a_missing_argument_is_refused_with_the_functions_name():
    with pytest.raises(TypeError, match=r"^affinity: missing a required argument: 'gamma_k'$"):
        gma_ref.affinity([[1.0]])


def test_a_mixture_without_components_is_refused():
    with pytest.raises(
        ValueError, match=r"^mu must have at least one component and one dimension, got shape \(0, 2\)$"
    ):
        gma_ref.GaussianMixture(np.ones((0, 2)), np.ones((0, 2)), np.ones(0))
    with pytest.raises(ValueError, match=r"^alpha must have at least one component, got shape \(0,\)$"):
        gma_ref.GaussianMixture.from_unconstrained(np.ones((0, 2)), np.ones((0, 2)), np.ones(0))
