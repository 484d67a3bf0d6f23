"""Collect what a gauge may know from the statements of a problem and its logged pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.kernels.base import Kernel
from bondic.kernels.normal_form import Layout, normal_form
from bondic.noise.bound import NoiseFacts, charge_of
from bondic.rounding import Enclosure, U
from bondic.terms import Terms, discounted_steps, largest_width, row_widths

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Logged = tuple[FloatArray, IntArray, IntArray | None]  # points, slots and times of some rows


def noise_facts(
    kernel: Kernel,
    layout: Layout,
    terms: Terms,
    rows: Callable[[], Iterable[Logged]],
    *,
    count: int,
    fixed_count: int | None = None,
    time_counts: dict[int, int] | None = None,
) -> NoiseFacts:
    """K_max, the widths B_i and the paper's r_max / (1 - gamma); `rows` are gone through only if a gauge asks for k(x_i, x_i).

    `time_counts` says how many rows there are at each time before a finite horizon.
    """
    repeats = np.array([count] if time_counts is None else list(time_counts.values()))
    times = None if time_counts is None else np.array(list(time_counts), dtype=np.int64)

    def charge() -> Enclosure:
        return charge_of(
            (row_widths(terms, batch[2], batch[0].shape[0]), diagonal(kernel, layout, batch)) for batch in rows()
        )

    return NoiseFacts(
        count=count,
        fixed_count=count if fixed_count is None else fixed_count,
        sup_diag=kernel.sup_diag,
        widths=row_widths(terms, times, repeats.size),
        repeats=repeats.astype(np.float64),
        read_charge=charge,
        **_stated(terms),
    )


def _stated(terms: Terms) -> dict[str, Any]:
    low, high = terms.reward_range
    stated = terms.value_range
    return {
        "largest_width": largest_width(terms),
        "largest_reward": max(abs(low), abs(high)),
        "reach": discounted_steps(terms.gamma, terms.horizon).upper,
        "stated_value": float("inf") if stated is None else max(abs(stated[0]), abs(stated[1])),
    }


def diagonal(kernel: Kernel, layout: Layout, rows: Logged) -> FloatArray:
    """k(x_i, x_i), rounded up, and never more than K_max."""
    points, slots, _ = rows
    total = np.zeros(points.shape[0])
    for term in normal_form(kernel, layout):
        squares = np.einsum("ij,ij->i", term.embedding, term.embedding)[slots]
        total += term.diag(points) * squares
        size, error = term.bounds(points, points)
        total += (error + 8 * U * (term.embedding.shape[1] + 2) * size) * squares
    return np.asarray(np.minimum(total, kernel.sup_diag * (1 + 64 * U)))
