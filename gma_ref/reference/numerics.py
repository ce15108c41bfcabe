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


def ratio(numerator, denominator):
    r"""Quotient :math:`a / b`, and 0 where b is 0: of nothing there is no share."""
    nonzero = denominator != 0
    quotient = numerator / np.where(nonzero, denominator, 1)
    return np.where(nonzero, quotient, 0)


def sum_to(array, shape):
    """Sum a gradient over the leading axes along which what it belongs to, of the given shape, was broadcast."""
    array = np.broadcast_to(array, np.broadcast_shapes(array.shape, shape))
    own = (1,) * (array.ndim - len(shape)) + shape
    stretched = [axis for axis, size in enumerate(own) if size == 1 != array.shape[axis]]
    return array.sum(axis=tuple(stretched)).reshape(shape)


def lambert_w(z):
    r"""Return Lambert's function, the :math:`w \ge 0` with :math:`w e^w = z \ge 0`, by Newton's steps."""
    w = np.log1p(z)
    for _ in range(20):
        w = w - (w - z * np.exp(-w)) / (1 + w)
    return w
