import numpy as np
import pytest

import gma_ref
from gma_ref.counting import Counted, counted, tally


def test_each_operation_is_counted_once_and_its_value_is_right():
    x = counted([3.0])
    cases = [
        (lambda: x * 2, "multiply", 6),
        (lambda: 2 * x, "multiply", 6),
        (lambda: x * x, "multiply", 9),
        (lambda: x**2, "multiply", 9),
        (lambda: np.float64(2) * x, "multiply", 6),
        (lambda: x + 1, "add", 4),
        (lambda: 1 + x, "add", 4),
        (lambda: x - 1, "add", 2),
        (lambda: 1 - x, "add", -2),
        (lambda: x / 2, "divide", 1.5),
        (lambda: 6 / x, "divide", 2),
        (lambda: np.exp(x), "exp", np.exp(3.0)),
        (lambda: np.log(x), "log", np.log(3.0)),
        (lambda: np.sqrt(x), "sqrt", np.sqrt(3.0)),
    ]
    for function, kind, value in cases:
        result, operations = tally(function)
        assert operations == {kind: 1}
        assert type(result[0]) is Counted
        assert result[0] == value


def test_signs_and_comparisons_are_free():
    x = counted([3.0, 1.0])
    assert tally(lambda: (-x).max())[1] == {}
    assert (-x).tolist() == [-3, -1]


def test_products_of_matrices_count_what_three_loops_do():
    a, b, c = 2, 3, 4
    left, right = np.arange(6.0).reshape(a, b), np.arange(12.0).reshape(b, c)
    result, operations = tally(np.matmul, counted(left), counted(right))
    assert operations == {"multiply": a * b * c, "add": a * (b - 1) * c}
    assert np.array_equal(result.astype(float), left @ right)


def test_each_tally_counts_its_own_call():
    x = counted(np.ones(5))

    def outer():
        return tally(np.multiply, x, x)[1], x + x

    (inner, _), operations = tally(outer)
    assert inner == {"multiply": 5}
    assert operations == {"multiply": 5, "add": 5}
    assert tally(outer)[1] == operations


def test_functions_of_the_package_run_without_their_checks():
    gamma, v = np.full((3, 2), 0.5), np.ones((3, 4))
    memory, operations = tally(gma_ref.write_memory, counted(gamma), v=counted(v))
    assert operations["multiply"] == 3 * 2 * (4 + 1)
    assert np.array_equal(memory.V_tilde.astype(float), gma_ref.write_memory(gamma, v).V_tilde)
    with pytest.raises(TypeError, match=r"^gamma_k must hold real numbers"):
        gma_ref.write_memory(counted(gamma), v)


def test_powers_without_a_fixed_number_of_products_are_refused():
    with pytest.raises(ValueError, match=r"got 3$"):
        counted([2.0]) ** 3


def test_what_a_float_refuses_is_refused():
    with pytest.raises(TypeError):
        Counted(1) * [1.0]
