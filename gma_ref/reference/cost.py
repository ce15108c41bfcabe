"""The paper's counts of operations and of stored numbers, term by term: Eq. (12)."""

from .checks import as_count, as_flag


def routing_cost(num_queries, num_keys, num_components, routing_dim, value_dim):
    r"""Operations of one head and one sequence, Eq. (12), as the paper counts them.

    .. math:: (N_q + N_k) K d_r + (N_q + N_k) K + N_k K d_v + N_k K + N_q K d_v + N_q K + N_q d_v

    For N queries and N keys this is :math:`2NKd_r + 2NK + 2NKd_v + 2NK + Nd_v`.

    Parameters
    ----------
    num_queries, num_keys, num_components, routing_dim, value_dim : int
        :math:`N_q, N_k, K, d_r, d_v`.

    Returns
    -------
    dict of int
        One entry a term, in the order of the computation, and their ``total``.

    Notes
    -----
    The projections are left out, see `projection_cost`. Source: Huang & Raza (2026); the number (12) is inferred.
    """
    n_q = as_count("num_queries", num_queries)
    n_k = as_count("num_keys", num_keys)
    K = as_count("num_components", num_components)
    d_r = as_count("routing_dim", routing_dim)
    d_v = as_count("value_dim", value_dim)
    return _with_total(
        density=(n_q + n_k) * K * d_r,
        normalization=(n_q + n_k) * K,
        write=n_k * K * d_v,
        key_mass=n_k * K,
        read=n_q * K * d_v,
        denominator=n_q * K,
        division=n_q * d_v,
    )


def projection_cost(num_tokens, model_dim, routing_dim, value_dim):
    r"""Operations of the three projections of Eq. (4), :math:`N d_{model} (2 d_r + d_v)`.

    Parameters
    ----------
    num_tokens, model_dim, routing_dim, value_dim : int
        :math:`N, d_{model}, d_r, d_v`.

    Returns
    -------
    dict of int
        ``queries``, ``keys``, ``values`` and their ``total``.

    Notes
    -----
    Source: Huang & Raza (2026), after Eq. (12).
    """
    N = as_count("num_tokens", num_tokens)
    d_model = as_count("model_dim", model_dim)
    d_r = as_count("routing_dim", routing_dim)
    d_v = as_count("value_dim", value_dim)
    return _with_total(queries=N * d_model * d_r, keys=N * d_model * d_r, values=N * d_model * d_v)


def routing_storage(num_queries, num_keys, num_components, routing_dim, value_dim, *, causal=False):
    r"""Numbers stored by one head and one sequence, projections aside (R2), as the paper counts them.

    .. math:: (N_q + N_k) K + K d_v + K + N_q d_v

    Parameters
    ----------
    num_queries, num_keys, num_components, routing_dim, value_dim : int
        :math:`N_q, N_k, K, d_r, d_v`; :math:`d_r` does not enter.
    causal : bool
        Count the memory after every token, :math:`N_k K (d_v + 1)` numbers, as cumulative sums need it.

    Returns
    -------
    dict of int
        One entry a term and their ``total``.

    Notes
    -----
    The causal count is that of the paper's implementation; this package's causal forms hold one memory at a time.
    Source: Huang & Raza (2026), after Eq. (12).
    """
    n_q = as_count("num_queries", num_queries)
    n_k = as_count("num_keys", num_keys)
    K = as_count("num_components", num_components)
    as_count("routing_dim", routing_dim)
    d_v = as_count("value_dim", value_dim)
    memories = n_k if as_flag("causal", causal) else 1
    return _with_total(
        responsibilities=(n_q + n_k) * K,
        memory=memories * K * d_v,
        normalizer=memories * K,
        output=n_q * d_v,
    )


def _with_total(**terms):
    return terms | {"total": sum(terms.values())}
