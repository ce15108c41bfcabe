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
        its largest distance between the point and a corner; where all of them are within the rounding of the numbers
        themselves, they count as equal.

    Notes
    -----
    The least of :math:`\|\sum_i\lambda_i a_i\|^2 + (\sum_i\lambda_i - 1)^2` over :math:`\lambda \ge 0`, with
    :math:`a_i` the corners seen from the point: it is :math:`\delta^2/(1+\delta^2)` at a distance δ from the hull.
    """
    seen = corners - point
    rounding = 4 * np.finfo(seen.dtype).eps * np.abs(point)
    seen = np.where(np.abs(seen) <= rounding, 0, seen)
    seen = ratio(seen, np.abs(seen).max(axis=0))
    matrix = np.vstack([seen.T, np.ones(len(corners))])
    target = np.eye(len(matrix))[-1]
    weights = nonnegative_least_squares(matrix, target)
    distance = np.linalg.norm(matrix @ weights - target)
    return weights / weights.sum(), distance


def in_hull(point, corners):
    """Tell whether a point lies in the convex hull of corners, to within 1e-9 of the units of `hull_weights`."""
    return hull_weights(point, corners)[1] <= 1e-9


def nonnegative_least_squares(matrix, target):
    r"""Return the :math:`\lambda \ge 0` with the least :math:`\|A\lambda - b\|`, for a target of length 1.

    Notes
    -----
    Source: C. L. Lawson and R. J. Hanson, *Solving Least Squares Problems*, 1974, chapter 23: grow the set of positive
    weights by the one that helps most and fit anew, as long as this lowers the residual. A weight that promised to
    help and did not, by rounding, is left out until another one has helped. The count is a guard against rounding.
    """
    weights, residual = np.zeros(matrix.shape[1]), target
    useless = np.zeros(len(weights), bool)
    for _ in range(10 * len(weights)):
        length = np.linalg.norm(residual)
        gain = np.where(useless | (weights > 0), -np.inf, matrix.T @ residual)
        # a residual of rounding errors points nowhere
        if length <= 1e-13 or gain.max() <= 1e-11 * length:
            break
        entering = np.arange(len(weights)) == gain.argmax()
        trial = fit_inside(matrix, target, weights, (weights > 0) | entering)
        left = target - matrix @ trial
        if np.linalg.norm(left) < length:
            weights, residual, useless = trial, left, np.zeros_like(useless)
        else:
            useless = useless | entering
    return weights


def fit_inside(matrix, target, weights, positive):
    """Fit the positive weights without bounds, stepping back to where the first one would turn negative."""
    while True:
        free = np.zeros_like(weights)
        free[positive] = np.linalg.lstsq(matrix[:, positive], target, rcond=None)[0]
        blocking = positive & (free <= 0)
        if not blocking.any():
            return free
        steps = np.where(blocking, ratio(weights, weights - free), np.inf)
        positive = positive & (steps > steps.min())
        weights = np.where(positive, weights + steps.min() * (free - weights), 0)
