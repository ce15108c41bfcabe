"""The mixture is an immutable container of its own copies; a memory is a named tuple."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import gma_ref
from tests.examples import draw, draw_responsibilities

COPIES = {
    "itself": lambda mixture: mixture,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda mixture: pickle.loads(pickle.dumps(mixture)),
    "replace": dataclasses.replace,
}


@pytest.mark.parametrize("again", COPIES.values(), ids=COPIES.keys())
def test_mixture_and_its_copies_are_immutable(again):
    original = draw()[3]
    mixture = again(original)
    for name in ("mu", "variance", "log_prior", "anything"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(mixture, name, 0)
    for name in mixture.AXES:
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(mixture, name)
        array = getattr(mixture, name)
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
        assert_array_equal(array, getattr(original, name))
        assert array.dtype == getattr(original, name).dtype


def test_mixture_keeps_copies_of_its_arrays():
    arrays = [np.array([[0.0, 1.0]]), np.array([[1.0, 2.0]]), np.array([0.0])]
    mixture = gma_ref.GaussianMixture(*arrays)
    for array in arrays:
        array += 100
    for name, expected in {"mu": [[0, 1]], "variance": [[1, 2]], "log_prior": [0]}.items():
        assert_array_equal(getattr(mixture, name), expected)
        assert not any(np.shares_memory(getattr(mixture, name), array) for array in arrays)
    assert all(array.flags.writeable for array in arrays)


def test_unconstrained_mixture_keeps_copies_of_its_arrays():
    mu = np.zeros((1, 2))
    mixture = gma_ref.GaussianMixture.from_unconstrained(mu, np.zeros((1, 2)), np.zeros(1))
    mu += 100
    assert_array_equal(mixture.mu, 0)


def test_mixture_says_its_sizes():
    mixture = draw(K=4, d_r=3)[3]
    assert (mixture.num_components, mixture.routing_dim) == (4, 3)
    assert repr(mixture) == "GaussianMixture(K=4, d_r=3, mu.shape=(2, 4, 3))"


def test_mixtures_can_be_compared_and_kept_in_sets():
    mixture, other = draw()[3], draw()[3]
    assert mixture == mixture
    assert mixture != other  # equality of arrays is not one truth value: mixtures are equal only to themselves
    assert len({mixture, other, mixture}) == 2


def test_memory_is_a_named_tuple():
    _, gamma_k, v = draw_responsibilities()
    memory = gma_ref.write_memory(gamma_k, v)
    V_tilde, Z = memory
    assert memory._fields == ("V_tilde", "Z")
    assert memory.V_tilde is V_tilde
    assert memory.Z is Z
    for again in (copy.deepcopy(memory), pickle.loads(pickle.dumps(memory))):
        assert isinstance(again, gma_ref.Memory)
        assert_array_equal(again.V_tilde, V_tilde)
        assert_array_equal(again.Z, Z)
