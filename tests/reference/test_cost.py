"""The paper's counts: Eq. (12) and the storage (R2)."""

from itertools import product

import numpy as np

import gma_ref

SIZES = [(3, 5, 2, 4, 6), (5, 3, 2, 4, 6), (1, 1, 1, 1, 1), (0, 4, 2, 3, 5), (4, 0, 2, 3, 5)]


def test_cost_counts_the_operations_of_a_slow_loop():
    for n_q, n_k, K, d_r, d_v in SIZES:
        counts = dict.fromkeys(("density", "normalization", "write", "key_mass", "read", "denominator", "division"), 0)
        for n in (n_q, n_k):  # responsibilities of the queries, then of the keys
            for _ in product(range(n), range(K)):
                counts["density"] += sum(1 for _ in range(d_r))
                counts["normalization"] += 1
        for _ in product(range(n_k), range(K)):
            counts["write"] += sum(1 for _ in range(d_v))
            counts["key_mass"] += 1
        for _ in range(n_q):
            for _ in range(K):
                counts["read"] += sum(1 for _ in range(d_v))
                counts["denominator"] += 1
            counts["division"] += sum(1 for _ in range(d_v))
        expected = counts | {"total": sum(counts.values())}
        assert gma_ref.routing_cost(n_q, n_k, K, d_r, d_v) == expected


def test_cost_of_equal_lengths_is_the_papers_formula():
    N, K, d_r, d_v = 100, 8, 16, 32
    cost = gma_ref.routing_cost(N, N, K, d_r, d_v)
    assert cost["total"] == (2 * N * K * d_r + 2 * N * K) + (N * K * d_v + N * K) + (N * K * d_v + N * K) + N * d_v


def test_cost_is_linear_in_the_number_of_tokens():
    one, two = (gma_ref.routing_cost(n, n, 8, 16, 32)["total"] for n in (1000, 2000))
    assert two == 2 * one


def test_projection_cost_counts_three_products():
    cost = gma_ref.projection_cost(10, 7, 3, 5)
    assert cost == {"queries": 210, "keys": 210, "values": 350, "total": 770}
    assert cost["total"] == 10 * 7 * (2 * 3 + 5)


def test_storage_counts_the_arrays():
    for n_q, n_k, K, d_r, d_v in SIZES:
        gamma_q, gamma_k, v, output = (np.zeros(s) for s in ((n_q, K), (n_k, K), (n_k, d_v), (n_q, d_v)))
        for causal in (False, True):
            memory = gma_ref.prefix_memory(gamma_k, v) if causal else gma_ref.write_memory(gamma_k, v)
            expected = {
                "responsibilities": gamma_q.size + gamma_k.size,
                "memory": memory.V_tilde.size,
                "normalizer": memory.Z.size,
                "output": output.size,
            }
            expected["total"] = sum(expected.values())
            assert gma_ref.routing_storage(n_q, n_k, K, d_r, d_v, causal=causal) == expected


def test_counts_are_exact_beyond_the_range_of_int64():
    assert gma_ref.routing_cost(2**40, 2**40, 2**20, 2**10, 2**10)["density"] == 2**71
