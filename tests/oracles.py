"""The equations once more, as slow loops over Python numbers, to compare the package with.

Written from the equations and from nothing else: one loop for each index, and for each Σ one correctly rounded sum
(`math.fsum`). Each function takes one head; `np.vectorize` runs it over leading axes.
"""

from functools import partial
from math import exp, fsum, inf, log, pi, sqrt

import numpy as np


def over_heads(signature):
    """Run a loop over one head once for each index of the leading axes."""

    def decorate(function):
        def run(*arrays, **keywords):
            loop = np.vectorize(partial(function, **keywords), signature=signature)
            return loop(*(np.asarray(array) for array in arrays))

        return run

    return decorate


@over_heads("(n,d),(k,d),(k,d)->(n,k)")
def log_density(x, mu, variance):
    """Eq. (2)."""
    n, K, d = len(x), len(mu), x.shape[1]
    density = np.empty((n, K))
    for i in range(n):
        for k in range(K):
            terms = [log(2 * pi * variance[k, m]) + (x[i, m] - mu[k, m]) ** 2 / variance[k, m] for m in range(d)]
            density[i, k] = -0.5 * fsum(terms)
    return density


def scores(x, mu, variance, log_prior):
    """Eq. (16)."""
    return np.asarray(log_prior)[..., None, :] + log_density(x, mu, variance)


def responsibilities(x, mu, variance, log_prior):
    """Eq. (3)."""
    return softmax(scores(x, mu, variance, log_prior))


@over_heads("(n,k)->(n,k)")
def softmax(s):
    """Exponentials of each row over their sum."""
    rows = []
    for row in s.tolist():
        exponentials = [exp(score - max(row)) for score in row]
        rows.append([e / fsum(exponentials) for e in exponentials])
    return np.array(rows).reshape(s.shape)


@over_heads("(n,k),(n,d),(n)->(k,d),(k)")
def write(gamma_k, v, takes_part):
    """Eqs. (5) and (6)."""
    K, d_v = gamma_k.shape[1], v.shape[1]
    keys = [j for j in range(len(v)) if takes_part[j]]
    V_tilde, Z = np.empty((K, d_v)), np.empty(K)
    for k in range(K):
        Z[k] = fsum(gamma_k[j, k] for j in keys)
        for c in range(d_v):
            V_tilde[k, c] = fsum(gamma_k[j, k] * v[j, c] for j in keys)
    return V_tilde, Z


@over_heads("(n,k),(k,d),(k)->(n,d)")
def read(gamma_q, V_tilde, Z, *, eps):
    """Eqs. (7) and (8)."""
    (n, K), d_v = gamma_q.shape, V_tilde.shape[1]
    output = np.zeros((n, d_v))
    for i in range(n):
        reached = fsum(gamma_q[i, k] * Z[k] for k in range(K)) + eps
        for c in range(d_v):
            if reached:
                output[i, c] = fsum(gamma_q[i, k] * V_tilde[k, c] for k in range(K)) / reached
    return output


@over_heads("(m,k),(n,k)->(m,n)")
def affinity(gamma_q, gamma_k):
    """Eq. (11)."""
    K = gamma_q.shape[1]
    overlap = np.empty((len(gamma_q), len(gamma_k)))
    for i in range(len(gamma_q)):
        for j in range(len(gamma_k)):
            overlap[i, j] = fsum(gamma_q[i, k] * gamma_k[j, k] for k in range(K))
    return overlap


@over_heads("(m,k),(n,k),(n)->(m,n)")
def weights(gamma_q, gamma_k, takes_part, *, causal, eps):
    """Eqs. (9) and (9b)."""
    overlap = affinity(gamma_q, gamma_k)
    result = np.zeros(overlap.shape)
    for i in range(len(gamma_q)):
        keys = [j for j in range(len(gamma_k)) if takes_part[j] and (j <= i or not causal)]
        reached = fsum(overlap[i, j] for j in keys) + eps
        for j in keys:
            if reached:
                result[i, j] = overlap[i, j] / reached
    return result


@over_heads("(m,n),(n,d)->(m,d)")
def combine(weights, v):
    """Eqs. (10) and (10b): each output as a weighted sum of the values."""
    output = np.empty((len(weights), v.shape[1]))
    for i in range(len(weights)):
        for c in range(v.shape[1]):
            output[i, c] = fsum(weights[i, j] * v[j, c] for j in range(len(v)))
    return output


def gaussian_mixture_attention(q, k, v, mixture, *, causal=False, eps=1e-6, takes_part=None):
    """Eqs. (3), (9), (10) in turn: every weight of the N × N matrix, then the sum over the keys."""
    parameters = mixture.mu, mixture.variance, mixture.log_prior
    takes_part = np.ones(np.shape(k)[-2], bool) if takes_part is None else takes_part
    gamma_q, gamma_k = responsibilities(q, *parameters), responsibilities(k, *parameters)
    return combine(weights(gamma_q, gamma_k, takes_part, causal=causal, eps=eps), v)


@over_heads("(m,d),(n,d),(n,e)->(m,e)")
def dot_product_attention(q, k, v, *, causal):
    """Eq. (1)."""
    similarity = np.full((len(q), len(k)), -inf)
    for i in range(len(q)):
        for j in range(i + 1 if causal else len(k)):
            similarity[i, j] = fsum(q[i, m] * k[j, m] for m in range(q.shape[1])) / sqrt(q.shape[1])
    return combine(softmax(similarity), v)


@over_heads("(n,d),(d,e)->(n,e)")
def product(x, w):
    """One projection of Eq. (4)."""
    result = np.empty((len(x), w.shape[1]))
    for i in range(len(x)):
        for c in range(w.shape[1]):
            result[i, c] = fsum(x[i, m] * w[m, c] for m in range(len(w)))
    return result
