"""What a model that sees one symbol reaches: the mark that every trained model must pass."""

import torch
from torch import Tensor

__all__ = ["bigram_loss"]


def bigram_loss(train: Tensor, evaluated: Tensor, size: int, smoothing: float = 1.0) -> float:
    r"""Return the exact loss of a bigram model, in nats a symbol.

    .. math:: p(b \mid a) = \frac{n(a, b) + s}{\sum_c n(a, c) + s\,V}

    Parameters
    ----------
    train : Tensor, (T,)
        Token numbers from which the pairs are counted.
    evaluated : Tensor, (M,)
        Token numbers of which each but the first is predicted from the one before it.
    size : int
        V, the size of the vocabulary.
    smoothing : float
        s, added to every count.

    Returns
    -------
    float
        The mean of :math:`-\log p(b \mid a)`; divided by :math:`\log 2`, bits.

    Raises
    ------
    ValueError
        If there are fewer than two tokens, or more than one axis.

    Notes
    -----
    Source: additive smoothing of counts, Lidstone's rule; with s = 1 it is Laplace's.
    """
    for name, tokens in (("train", train), ("evaluated", evaluated)):
        if tokens.ndim != 1 or len(tokens) < 2:
            raise ValueError(f"{name} must hold at least two tokens in one axis, got shape {tuple(tokens.shape)}")
    log_probability = (_pairs(train, size).double() + smoothing).log()
    log_probability -= log_probability.logsumexp(dim=1, keepdim=True)
    counts = _pairs(evaluated, size).double()
    # where a pair does not occur it counts 0 times, also at s = 0, where its logarithm is infinite
    return -(counts * log_probability)[counts > 0].sum().item() / (len(evaluated) - 1)


def _pairs(tokens, size):
    """Count how often each symbol follows each, (V, V)."""
    return torch.bincount(tokens[:-1] * size + tokens[1:], minlength=size * size).view(size, size)
