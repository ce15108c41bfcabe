"""The learning rate over a run: it rises in a straight line and falls along a cosine."""

import math

__all__ = ["learning_rate_factor"]

_START = 0.01  # the first step moves the weights too


def learning_rate_factor(progress: float, warmup: float = 0.05, final: float = 0.0) -> float:
    """Return by what the highest learning rate is multiplied.

    Parameters
    ----------
    progress : float
        How much of the budget is used, from 0 to 1.
    warmup : float
        The part of the budget in which the rate rises, from 0.01 to 1.
    final : float
        Where it ends.
    """
    progress = min(max(progress, 0.0), 1.0)
    if progress < warmup:
        return _START + (1 - _START) * progress / warmup
    falling = (progress - warmup) / (1 - warmup)
    return final + (1 - final) * (1 + math.cos(math.pi * falling)) / 2
