"""The annotations in the signatures are checked while the tests run, so they cannot go stale."""

import inspect
import sys

import numpy as np
import pytest

import gma_ref
from gma_ref.reference import mixture as mixture_module
from tests.conftest import SHAPE_CHECKS
from tests.examples import draw

pytestmark = pytest.mark.skipif(not SHAPE_CHECKS, reason="shape checks are switched off")


def test_result_of_another_shape_is_caught(monkeypatch):
    import jaxtyping

    q, _, _, mixture = draw()
    monkeypatch.setattr(mixture_module, "softmax", lambda scores: scores[..., 0])
    with pytest.raises(
        jaxtyping.TypeCheckError, match=r"return value of gma_ref\.reference\.mixture\.responsibilities"
    ):
        gma_ref.responsibilities(q, mixture)


def test_result_of_another_dtype_is_caught(monkeypatch):
    import jaxtyping

    q, _, _, mixture = draw()
    monkeypatch.setattr(mixture_module, "softmax", lambda scores: scores > 0)
    with pytest.raises(
        jaxtyping.TypeCheckError, match=r"return value of gma_ref\.reference\.mixture\.responsibilities"
    ):
        gma_ref.responsibilities(q, mixture)


def test_array_functions_say_the_shape_of_each_array():
    for name in gma_ref.__all__:
        function = getattr(gma_ref, name)
        if inspect.isfunction(function) and "ndarray" in (function.__doc__ or ""):
            annotations = inspect.unwrap(function).__annotations__
            assert "Float[Array" in annotations["return"] or "Bool[Array" in annotations["return"], name
            for parameter in ("x", "q", "k", "v", "gamma_q", "gamma_k", "w_q", "w_k", "w_v"):
                assert "Float[Array" in annotations.get(parameter, "Float[Array"), (name, parameter)


def test_attributes_of_a_mixture_have_the_shapes_that_it_says():
    import jaxtyping

    mixture = draw()[3]
    with jaxtyping.jaxtyped("context"):
        for name, annotation in gma_ref.GaussianMixture.__annotations__.items():
            if name in mixture.AXES:
                declared = eval(annotation, vars(sys.modules[gma_ref.GaussianMixture.__module__]))
                assert isinstance(getattr(mixture, name), declared)
                assert not isinstance(np.float64(0), declared)
