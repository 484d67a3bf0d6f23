"""Collect what a gauge may know from the statements of a problem."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bondic.concentration.gauge import NoiseFacts
from bondic.concentration.value_range import discounted_steps, row_widths, value_range
from bondic.kernels.base import Kernel
from bondic.kernels.normal_form import Layout, normal_form
from bondic.rounding import U

FloatArray = npt.NDArray[np.float64]


def noise_facts(
    kernel: Kernel,
    layout: Layout,
    points: FloatArray,
    slots: npt.NDArray[np.int64],
    *,
    gamma: float,
    reward_range: tuple[float, float],
    may_terminate: bool,
    horizon: int | None,
    times: npt.NDArray[np.int64] | None,
    fixed_count: int | None = None,
) -> NoiseFacts:
    """K_max, the diagonal k(x_i, x_i), the widths B_i and the paper's r_max / (1 - gamma)."""
    diagonal = np.zeros(points.shape[0])
    for term in normal_form(kernel, layout):
        squares = np.einsum("ij,ij->i", term.embedding, term.embedding)[slots]
        diagonal += term.diag(points) * squares
        size, error = term.bounds(points, points)
        diagonal += (error + 8 * U * (term.embedding.shape[1] + 2) * size) * squares
    sup = kernel.sup_diag
    widths = row_widths(
        gamma, reward_range, may_terminate=may_terminate, horizon=horizon, times=times, count=points.shape[0]
    )
    return NoiseFacts(
        count=points.shape[0],
        fixed_count=points.shape[0] if fixed_count is None else fixed_count,
        sup_diag=sup,
        diagonal=np.minimum(diagonal, sup * (1 + 64 * U)),
        widths=widths,
        largest_width=value_range(gamma, reward_range, may_terminate=may_terminate, horizon=horizon).width,
        largest_reward=max(abs(reward_range[0]), abs(reward_range[1])),
        reach=discounted_steps(gamma, horizon).upper,
    )


def counted_facts(
    kernel: Kernel,
    time_counts: dict[int, int] | None,
    *,
    count: int,
    fixed_count: int,
    gamma: float,
    reward_range: tuple[float, float],
    may_terminate: bool,
    horizon: int | None,
) -> NoiseFacts:
    """The same from the number of rows at each time alone, with K_max in place of every k(x_i, x_i)."""
    repeats = np.array([count] if time_counts is None else list(time_counts.values()))
    times = None if time_counts is None else np.array(list(time_counts), dtype=np.int64)
    statements = {"may_terminate": may_terminate, "horizon": horizon}
    sup = kernel.sup_diag
    return NoiseFacts(
        count=count,
        fixed_count=fixed_count,
        sup_diag=sup,
        diagonal=np.full(repeats.size, sup * (1 + 64 * U)),
        widths=row_widths(gamma, reward_range, times=times, count=repeats.size, **statements),  # type: ignore[arg-type]
        largest_width=value_range(gamma, reward_range, **statements).width,  # type: ignore[arg-type]
        largest_reward=max(abs(reward_range[0]), abs(reward_range[1])),
        reach=discounted_steps(gamma, horizon).upper,
        repeats=repeats.astype(np.float64),
    )
