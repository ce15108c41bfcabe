"""Arrays that cannot be meant are refused, in one sentence: which argument, what came, what was expected."""

import re

import numpy as np
import pytest

import gma_ref
from tests.calls import CALLS, MEMORY, MIXTURE, call

# Axes that a container fixes, beside those that two arrays share
FIXED_BY_CONTAINER = {"mixture": {"d_r"}, "memory": {"K", "d_v"}, "memory_bar": {"K", "d_v"}}
ARRAYS = [(function, name) for function, (_, _, axes) in CALLS.items() for name in axes]
every_array = pytest.mark.parametrize(("function", "name"), ARRAYS)


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
    with pytest.raises(ValueError, match=f"^{name} must be an array, got what NumPy cannot read: .*inhomogeneous"):
        call(function, **{name: [[1.0, 2.0], [3.0]]})


@every_array
def test_arrays_with_too_few_axes_are_refused(function, name):
    axes = CALLS[function][2][name].split()
    expected = re.escape(f"{name} must have shape (..., {', '.join(axes)}), got shape ")
    for ndim in range(len(axes)):
        with pytest.raises(ValueError, match=f"^{expected}"):
            call(function, **{name: np.ones((2,) * ndim)})


def shared_axes(function):
    """Return the names of the axes that two arguments have."""
    _, arguments, axes = CALLS[function]
    names = [axis for names in axes.values() for axis in names.split()]
    shared = {axis for axis in names if names.count(axis) > 1}
    for container in FIXED_BY_CONTAINER.keys() & arguments.keys():
        shared |= FIXED_BY_CONTAINER[container] & set(names)
    return shared


@pytest.mark.parametrize("function", list(filter(shared_axes, CALLS)))
def test_axes_of_one_name_must_have_one_size(function):
    _, arguments, axes = CALLS[function]
    shared = shared_axes(function)
    refused = 0
    for name, names in axes.items():
        for position, axis in enumerate(names.split()):
            if axis in shared:
                trailing = position - len(names.split())
                array = np.repeat(arguments[name], 2, axis=trailing)
                sizes = {arguments[name].shape[trailing], array.shape[trailing]}
                message = rf"^\S+ must have shape \(\.\.\..*\) with {axis} = (\d+) as in \S+, got shape \(.*\)$"
                with pytest.raises(ValueError, match=message) as error:
                    call(function, **{name: array})
                assert int(re.match(message, str(error.value)).group(1)) in sizes
                refused += 1
    assert refused > 0


@every_array
def test_leading_axes_must_broadcast(function, name):
    _, arguments, _ = CALLS[function]
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


@pytest.mark.parametrize("function", ["read_memory", "update_memory", "slot_means", "read_memory_vjp"])
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
