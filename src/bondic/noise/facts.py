"""Collect what a gauge may know from the statements of a problem and its logged pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.kernels.base import Kernel
from bondic.kernels.normal_form import Layout, normal_form
from bondic.noise.bound import BLOCK, NoiseFacts, charge_of
from bondic.rounding import Enclosure, U
from bondic.terms import Terms, discounted_steps, largest_width, row_widths

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Rows = tuple[FloatArray, IntArray, IntArray | None]  # logged points, slots, times


def noise_facts(
    kernel: Kernel,
    layout: Layout,
    points: FloatArray,
    slots: IntArray,
    terms: Terms,
    *,
    times: IntArray | None,
    fixed_count: int | None = None,
) -> NoiseFacts:
    """K_max, the diagonal k(x_i, x_i), the widths B_i and the paper's r_max / (1 - gamma)."""
    count = points.shape[0]
    parts = [diagonal(kernel, layout, block) for block in blocks([(points, slots, times)])]
    return NoiseFacts(
        count=count,
        fixed_count=count if fixed_count is None else fixed_count,
        sup_diag=kernel.sup_diag,
        diagonal=np.concatenate(parts) if parts else np.zeros(0),
        widths=row_widths(terms, times, count),
        **_stated(terms),
    )


def counted_facts(
    kernel: Kernel,
    layout: Layout,
    rows: Callable[[], Iterable[Rows]],
    terms: Terms,
    time_counts: dict[int, int] | None,
    count: int,
    *,
    fixed_count: int,
) -> NoiseFacts:
    """The same for rows that are read in batches, by `rows`, and only if the gauge asks for the diagonal."""
    repeats = np.array([count] if time_counts is None else list(time_counts.values()))
    times = None if time_counts is None else np.array(list(time_counts), dtype=np.int64)

    def charge() -> Enclosure:
        pairs = (
            (row_widths(terms, block[2], block[0].shape[0]), diagonal(kernel, layout, block))
            for block in blocks(rows())
        )
        return charge_of(pairs)

    return NoiseFacts(
        count=count,
        fixed_count=fixed_count,
        sup_diag=kernel.sup_diag,
        diagonal=None,
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


def blocks(parts: Iterable[Rows]) -> Iterator[Rows]:
    """The same rows, in order, BLOCK at a time and the rest at the end, however they were cut before."""
    held: list[Rows] = []
    count = 0
    for part in parts:
        while count + part[0].shape[0] >= BLOCK:
            cut = BLOCK - count
            yield _joined([*held, _cut(part, slice(0, cut))])
            held, count, part = [], 0, _cut(part, slice(cut, None))
        held, count = [*held, part], count + part[0].shape[0]
    if count:
        yield _joined(held)


def _cut(rows: Rows, where: slice) -> Rows:
    points, slots, times = rows
    return points[where], slots[where], None if times is None else times[where]


def _joined(parts: list[Rows]) -> Rows:
    points, slots, times = zip(*parts, strict=True)
    together = None if any(part is None for part in times) else np.concatenate(times)
    return np.concatenate(points), np.concatenate(slots), together


def diagonal(kernel: Kernel, layout: Layout, rows: Rows) -> FloatArray:
    """k(x_i, x_i), rounded up, and never more than K_max."""
    points, slots, _ = rows
    total = np.zeros(points.shape[0])
    for term in normal_form(kernel, layout):
        squares = np.einsum("ij,ij->i", term.embedding, term.embedding)[slots]
        total += term.diag(points) * squares
        size, error = term.bounds(points, points)
        total += (error + 8 * U * (term.embedding.shape[1] + 2) * size) * squares
    return np.asarray(np.minimum(total, kernel.sup_diag * (1 + 64 * U)))
