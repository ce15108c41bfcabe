"""Exponentials that neither overflow nor underflow into nonsense."""

import numpy as np


def softmax(scores):
    r"""Softmax over the last axis.

    .. math:: \operatorname{softmax}(s)_k = \exp(s_k) / \sum_\ell \exp(s_\ell)

    The largest score is subtracted first, which changes nothing but the range of the exponentials. A score may be
    :math:`-\infty`; a row without entries stays empty.
    """
    largest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - largest)
    return weights / weights.sum(axis=-1, keepdims=True)


@np.errstate(over="ignore")  # two logits can lie further apart than the largest float
def log_softmax(scores):
    r"""Logarithm of the softmax over the last axis, :math:`s_k - \log\sum_\ell \exp(s_\ell)`."""
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def softplus(omega):
    r"""Softplus, :math:`\log(1 + e^\omega)`, for arguments of any size."""
    return np.logaddexp(0, omega)
