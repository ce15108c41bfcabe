"""How a point is mixed from corners: membership in a convex hull, by non-negative least squares."""

import numpy as np

from .numerics import ratio


def hull_weights(point, corners):
    r"""Return the weights, with sum 1, that come nearest to mixing the point from the corners, and how near that is.

    Parameters
    ----------
    point : ndarray, (d,)
    corners : ndarray, (n, d)
        At least one.

    Returns
    -------
    weights : ndarray, (n,)
    distance : float
        0, up to rounding, if and only if the point lies in the convex hull. Measured with each coordinate in units of
        its largest distance between the point and a corner.

    Notes
    -----
    The least of :math:`\|\sum_i\lambda_i a_i\|^2 + (\sum_i\lambda_i - 1)^2` over :math:`\lambda \ge 0`, with
    :math:`a_i` the corners seen from the point: it is :math:`\delta^2/(1+\delta^2)` at a distance δ from the hull.
    """
    seen = corners - point
    seen = ratio(seen, np.abs(seen).max(axis=0))
    matrix = np.vstack([seen.T, np.ones(len(corners))])
    target = np.eye(len(matrix))[-1]
    weights = nonnegative_least_squares(matrix, target)
    distance = np.linalg.norm(matrix @ weights - target)
    return weights / weights.sum(), distance


def nonnegative_least_squares(matrix, target):
    r"""Return the :math:`\lambda \ge 0` with the least :math:`\|A\lambda - b\|`.

    Notes
    -----
    Source: C. L. Lawson and R. J. Hanson, *Solving Least Squares Problems*, 1974, chapter 23: grow the set of positive
    weights by the one that helps most, solve without bounds, and step back to where the first weight would turn
    negative. Each round lowers the residual, so sets do not come back; the count is a guard against rounding.
    """
    weights = np.zeros(matrix.shape[1])
    positive = np.zeros(matrix.shape[1], bool)
    for _ in range(10 * len(weights)):
        residual = target - matrix @ weights
        gain = np.where(positive, -np.inf, matrix.T @ residual)
        if gain.max() <= 1e-11 * np.linalg.norm(residual):
            break
        positive[gain.argmax()] = True
        while True:
            free = np.zeros_like(weights)
            free[positive] = np.linalg.lstsq(matrix[:, positive], target, rcond=None)[0]
            blocking = positive & (free <= 0)
            if not blocking.any():
                break
            step = (weights[blocking] / (weights[blocking] - free[blocking])).min()
            weights = weights + step * (free - weights)
            positive &= weights > 1e-15
        weights = free
    return weights
