"""What cannot be meant is refused, in one sentence: which argument, what came, what was expected."""

import re
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import gma_ref
from tests.examples import draw, draw_responsibilities

GAMMA_Q, GAMMA_K, VALUES = draw_responsibilities()
Q, K, V, MIXTURE = draw()
PARAMETERS = {"mu": MIXTURE.mu, "omega": MIXTURE.mu, "alpha": MIXTURE.log_prior}
MEMORY = gma_ref.write_memory(GAMMA_K, VALUES)
WEIGHTS = {"w_q": np.ones((2, 3, 2)), "w_k": np.ones((2, 3, 2)), "w_v": np.ones((2, 3, 4))}

# Each public function of arrays: valid arguments, and the names of the trailing axes of each array
CALLS = {
    "GaussianMixture": (
        gma_ref.GaussianMixture,
        {name: getattr(MIXTURE, name) for name in MIXTURE.AXES},
        {"mu": "K d_r", "variance": "K d_r", "log_prior": "K"},
    ),
    "from_unconstrained": (
        gma_ref.GaussianMixture.from_unconstrained,
        PARAMETERS,
        {"mu": "K d_r", "omega": "K d_r", "alpha": "K"},
    ),
    "log_density": (gma_ref.log_density, {"x": Q, "mixture": MIXTURE}, {"x": "N d_r"}),
    "scores": (gma_ref.scores, {"x": Q, "mixture": MIXTURE}, {"x": "N d_r"}),
    "responsibilities": (gma_ref.responsibilities, {"x": Q, "mixture": MIXTURE}, {"x": "N d_r"}),
    "project": (
        gma_ref.project,
        {"x": Q} | WEIGHTS,
        {"x": "N d_model", "w_q": "d_model d_r", "w_k": "d_model d_r", "w_v": "d_model d_v"},
    ),
    "write_memory": (gma_ref.write_memory, {"gamma_k": GAMMA_K, "v": VALUES}, {"gamma_k": "N_k K", "v": "N_k d_v"}),
    "prefix_memory": (gma_ref.prefix_memory, {"gamma_k": GAMMA_K, "v": VALUES}, {"gamma_k": "N_k K", "v": "N_k d_v"}),
    "update_memory": (
        gma_ref.update_memory,
        {"memory": MEMORY, "gamma_k": GAMMA_K, "v": VALUES},
        {"gamma_k": "N_k K", "v": "N_k d_v"},
    ),
    "read_memory": (gma_ref.read_memory, {"gamma_q": GAMMA_Q, "memory": MEMORY}, {"gamma_q": "N_q K"}),
    "affinity": (
        gma_ref.affinity,
        {"gamma_q": GAMMA_Q, "gamma_k": GAMMA_K},
        {"gamma_q": "N_q K", "gamma_k": "N_k K"},
    ),
    "attention_weights": (
        gma_ref.attention_weights,
        {"gamma_q": GAMMA_Q, "gamma_k": GAMMA_K},
        {"gamma_q": "N_q K", "gamma_k": "N_k K"},
    ),
    "gaussian_mixture_attention": (
        gma_ref.gaussian_mixture_attention,
        {"q": Q, "k": K, "v": V, "mixture": MIXTURE},
        {"q": "N_q d_r", "k": "N_k d_r", "v": "N_k d_v"},
    ),
    "scaled_dot_product_attention": (
        gma_ref.scaled_dot_product_attention,
        {"q": Q, "k": K, "v": V},
        {"q": "N_q d_k", "k": "N_k d_k", "v": "N_k d_v"},
    ),
}
# Axes that a container fixes, beside those that two arrays share
FIXED_BY_CONTAINER = {"mixture": {"d_r"}, "memory": {"K", "d_v"}}
ARRAYS = [(function, name) for function, (_, _, axes) in CALLS.items() for name in axes]
every_array = pytest.mark.parametrize(("function", "name"), ARRAYS)


def call(function, **changes):
    callable_, arguments, _ = CALLS[function]
    return callable_(**arguments | changes)


@pytest.mark.parametrize("function", CALLS)
def test_the_arguments_from_which_the_refused_ones_differ_are_accepted(function):
    call(function)


@every_array
@pytest.mark.parametrize("dtype", [complex, object, bool, str, "datetime64[s]"])
def test_arrays_of_no_real_numbers_are_refused(function, name, dtype):
    array = np.ones_like(CALLS[function][1][name]).astype(int).astype(dtype)
    with pytest.raises(TypeError, match=rf"^{name} must hold real numbers, got dtype {re.escape(str(array.dtype))}$"):
        call(function, **{name: array})


@every_array
def test_masked_arrays_are_refused(function, name):
    array = np.ma.masked_invalid(CALLS[function][1][name])
    with pytest.raises(TypeError, match=rf"^{name} must be an ordinary array, got a masked array \(key_mask says"):
        call(function, **{name: array})


@every_array
def test_rows_of_different_lengths_are_refused(function, name):
    with pytest.raises(ValueError, match=f"^{name} must be an array, got rows of different lengths$"):
        call(function, **{name: [[1.0, 2.0], [3.0]]})


@every_array
def test_arrays_with_too_few_axes_are_refused(function, name):
    axes = CALLS[function][2][name].split()
    expected = re.escape(f"{name} must have shape (..., {', '.join(axes)}), got shape ")
    for ndim in range(len(axes)):
        with pytest.raises(ValueError, match=f"^{expected}"):
            call(function, **{name: np.ones((2,) * ndim)})


@pytest.mark.parametrize("function", CALLS)
def test_axes_of_one_name_must_have_one_size(function):
    _, arguments, axes = CALLS[function]
    shared = [axis for names in axes.values() for axis in names.split()]
    shared = {axis for axis in shared if shared.count(axis) > 1}
    for container in FIXED_BY_CONTAINER.keys() & arguments.keys():
        shared |= FIXED_BY_CONTAINER[container]
    refused = 0
    for name, names in axes.items():
        for position, axis in enumerate(names.split()):
            if axis in shared:
                array = np.repeat(arguments[name], 2, axis=position - len(names.split()))
                sizes = {arguments[name].shape[position - len(names.split())], array.shape[position - len(names.split())]}
                message = rf"^\S+ must have shape \(\.\.\..*\) with {axis} = (\d+) as in \S+, got shape \(.*\)$"
                with pytest.raises(ValueError, match=message) as error:
                    call(function, **{name: array})
                assert int(re.match(message, str(error.value)).group(1)) in sizes
                refused += 1
    assert refused > 0


@every_array
def test_leading_axes_must_broadcast(function, name):
    _, arguments, axes = CALLS[function]
    array = np.repeat(arguments[name][:1], 3, axis=0)
    if len(arguments) == 1:
        return
    with pytest.raises(ValueError, match=r"^\S+ must have leading axes that broadcast with \(\d,\), got shape \(\d, "):
        call(function, **{name: array})


@pytest.mark.parametrize("function", [f for f, (_, arguments, _) in CALLS.items() if "mixture" in arguments])
@pytest.mark.parametrize("mixture", [None, (1, 2, 3), MIXTURE.mu, gma_ref.GaussianMixture], ids=repr)
def test_mixture_must_be_a_mixture(function, mixture):
    came = type(mixture).__name__
    with pytest.raises(TypeError, match=rf"^mixture must be a gma_ref\.GaussianMixture, got {came}$"):
        call(function, mixture=mixture)


@pytest.mark.parametrize("function", ["read_memory", "update_memory"])
@pytest.mark.parametrize("memory", [None, tuple(MEMORY), MEMORY.V_tilde, MIXTURE], ids=lambda m: type(m).__name__)
def test_memory_must_be_a_memory(function, memory):
    with pytest.raises(TypeError, match=rf"^memory must be a gma_ref\.Memory, got {type(memory).__name__}$"):
        call(function, memory=memory)


def test_memory_must_hold_arrays_that_fit():
    with pytest.raises(TypeError, match=r"^memory\.Z must hold real numbers, got dtype complex128$"):
        call("read_memory", memory=MEMORY._replace(Z=MEMORY.Z.astype(complex)))
    with pytest.raises(ValueError, match=r"^memory\.Z must have shape \(\.\.\., K\) with K = 4"):
        call("read_memory", memory=MEMORY._replace(Z=MEMORY.Z[:, :3]))
    with pytest.raises(ValueError, match=r"^memory\.V_tilde must have shape \(\.\.\., K, d_v\), got shape \(4,\)$"):
        call("read_memory", memory=MEMORY._replace(V_tilde=np.ones(4)))


STABILIZED = [
    ("read_memory", "eps"),
    ("attention_weights", "eps"),
    ("gaussian_mixture_attention", "eps"),
    ("from_unconstrained", "eps_sigma"),
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
    assert_array_equal(getattr(result, "variance", result), getattr(expected, "variance", expected))


CAUSAL = ["attention_weights", "gaussian_mixture_attention", "scaled_dot_product_attention"]


@pytest.mark.parametrize("function", CAUSAL)
@pytest.mark.parametrize("value", [1, 0, None, "yes", 1.0, np.array(True)], ids=repr)
def test_causal_is_true_or_false(function, value):
    with pytest.raises(TypeError, match=f"^causal must be True or False, got {type(value).__name__}$"):
        call(function, causal=value)


@pytest.mark.parametrize("function", CAUSAL)
@pytest.mark.parametrize("value", [False, True])
def test_causal_may_be_a_numpy_bool(function, value):
    assert_array_equal(call(function, causal=np.bool_(value)), call(function, causal=value))


@pytest.mark.parametrize("function", CAUSAL)
def test_options_are_given_by_name(function):
    callable_, arguments, _ = CALLS[function]
    with pytest.raises(TypeError, match="too many positional arguments"):
        callable_(*arguments.values(), True)


@pytest.mark.parametrize("function", ["write_memory", "attention_weights", "gaussian_mixture_attention"])
def test_masks_are_ordinary_arrays(function):
    with pytest.raises(ValueError, match="^key_mask must be an array, got rows of different lengths$"):
        call(function, key_mask=[[True], [True, False]])
    with pytest.raises(TypeError, match="^key_mask must be an ordinary array, got a masked array"):
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
    with pytest.raises(ValueError, match="^log_prior must have priors that sum to 1"):
        gma_ref.GaussianMixture(np.zeros((2, 1)), np.ones((2, 1)), [np.log([0.5, 0.5]), log_prior])


@pytest.mark.parametrize("excess", [0.9e-5, -0.9e-5])
def test_priors_may_sum_to_one_as_closely_as_float32_can_say(excess):
    log_prior = np.log([0.5, 0.5]) + excess
    mixture = gma_ref.GaussianMixture(np.zeros((2, 1)), np.ones((2, 1)), log_prior)
    assert_array_equal(mixture.log_prior, log_prior)


def test_mixture_has_a_component_and_a_dimension():
    with pytest.raises(ValueError, match=r"^mu must have at least one component and one dimension, got shape \(0, 2\)$"):
        gma_ref.GaussianMixture(np.zeros((0, 2)), np.ones((0, 2)), np.zeros(0))
    with pytest.raises(ValueError, match=r"^mu must have at least one component and one dimension, got shape \(2, 0\)$"):
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
