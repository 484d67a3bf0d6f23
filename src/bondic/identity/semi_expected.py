"""Semi-expected loss: the loss with each residual replaced by its conditional mean, where the model is known."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bondic.identity.loss import kernel_bellman_loss
from bondic.kernels.base import Kernel
from bondic.rounding import Enclosure
from bondic.rows import Batch

FloatArray = npt.NDArray[np.float64]


def semi_expected_loss(problem: Batch, kernel: Kernel, expected_residuals: FloatArray) -> Enclosure:
    """L*_W(q) = sqrt( (1/n^2) sum_ij Rq(x_i) k(x_i, x_j) Rq(x_j) ), Rq(x) = E[ R^q | x ]; 0 for q = q*."""
    return kernel_bellman_loss(problem, kernel, expected_residuals)


def noise_width(problem: Batch, lowest: float, highest: float) -> float:
    """Conditional range of R^q(x, y) given x for any q with values in [lowest, highest].

    R^q - Rq = -(r + gamma q(x') - its mean), so the range is at most r_hi - r_lo + gamma (highest - lowest), with 0
    added to the values of q when a transition may end. Then |L_W(q) - L*_W(q)| <= eps for that width, for one q
    fixed beforehand, by the argument of (9).
    """
    low, high = problem.terms.reward_range
    ends = problem.terms.may_terminate or problem.terms.horizon is not None
    if ends:
        lowest, highest = min(lowest, 0.0), max(highest, 0.0)
    return (high - low) + problem.gamma * (highest - lowest)
