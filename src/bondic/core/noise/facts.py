"""What a noise bound may know about the rows, from the statements of a problem and its logged pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import Enclosure, U, certified_dot, upper_sum
from bondic.core.functions import FeatureMap, term_feature_bounds, term_features
from bondic.core.kernels.base import Kernel
from bondic.core.kernels.normal_form import Layout, Term, normal_form
from bondic.core.noise.information import Information, Weighted, read_information
from bondic.core.terms import Terms, discounted_steps, largest_width, row_widths

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Logged = tuple[FloatArray, IntArray, IntArray | None]  # points, slots and times of some rows

_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class NoiseFacts:
    """Nothing here depends on rewards or next states of the rows."""

    count: int  # n: rows that carry weight
    fixed_count: int  # rows of the stretch, fixed beforehand; dropped ones count as rows of weight 0
    sup_diag: float  # K_max
    widths: FloatArray  # B_i, one entry for all rows that share it
    repeats: FloatArray  # how many rows share each of them
    largest_width: float  # B over all times
    largest_reward: float  # r_max = max |r|
    steps: float  # s_H, or 1 / (1 - gamma), rounded up
    read_charge: Callable[[], Enclosure]  # goes through the rows for `charge`
    read_feature_charges: Callable[[], FloatArray]  # goes through the rows for `feature_charges`
    read_information: Callable[[], Information]  # goes through the rows for `information`
    stated_value: float = math.inf  # max |v| of a stated value range

    @property
    def total_width(self) -> float:
        """sum_i B_i, rounded up."""
        return upper_sum(self.widths * self.repeats)

    @property
    def largest_value(self) -> Enclosure:
        """The paper's bound of |q*|: r_max s_H, or max |v| of a stated value range where that is smaller."""
        size = Enclosure(self.largest_reward) * self.steps
        return Enclosure(self.stated_value) if self.stated_value < size.upper else size

    @cached_property
    def charge(self) -> Enclosure:
        """sum_i B_i^2 k(x_i, x_i)."""
        return self.read_charge()

    @cached_property
    def feature_charges(self) -> FloatArray:
        """sum_i B_i^2 phi_j(x_i)^2 for every feature of W's kernel, rounded up; InvalidInput if it has no list of features."""
        return self.read_feature_charges()

    @cached_property
    def information(self) -> Information:
        """V = sum_i B_i^2 phi_i phi_i^T, phi_i = k(x_i, .), as far as it is known."""
        return self.read_information()


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
    """K_max, the widths B_i and the paper's r_max / (1 - gamma); `rows` are gone through only if a bound asks for charges.

    `time_counts` says how many rows there are at each time before a finite horizon.
    """
    repeats = np.array([count] if time_counts is None else list(time_counts.values()))
    times = None if time_counts is None else np.array(list(time_counts), dtype=np.int64)

    def with_widths() -> Iterable[tuple[Logged, FloatArray]]:
        return ((batch, row_widths(terms, batch[2], batch[0].shape[0])) for batch in rows())

    def charge() -> Enclosure:
        total = Enclosure(0.0)
        for batch, widths in with_widths():
            total = total + certified_dot(widths * widths * (1 + 1e-15), diagonal(kernel, layout, batch))
        return total

    def feature_charges() -> FloatArray:
        features = FeatureMap(kernel, layout)
        total = np.zeros(features.dimension)
        for (points, slots, _), widths in with_widths():
            for top in range(0, points.shape[0], _BLOCK):
                some = slice(top, top + _BLOCK)
                squares = [_squares(term, points[some], slots[some], widths[some]) for term in features.terms]
                total = (total + np.concatenate(squares)) * (1 + 2 * U)
        return total

    def weighted() -> Iterable[Weighted]:
        return ((points, slots, widths) for (points, slots, _), widths in with_widths())

    return NoiseFacts(
        count=count,
        fixed_count=count if fixed_count is None else fixed_count,
        sup_diag=kernel.sup_diag,
        widths=row_widths(terms, times, repeats.size),
        repeats=repeats.astype(np.float64),
        read_charge=charge,
        read_feature_charges=feature_charges,
        read_information=lambda: read_information(kernel, layout, weighted, count, charge),
        **_stated(terms),
    )


def _stated(terms: Terms) -> dict[str, Any]:
    low, high = terms.reward_range
    stated = terms.value_range
    return {
        "largest_width": largest_width(terms),
        "largest_reward": max(abs(low), abs(high)),
        "steps": discounted_steps(terms.gamma, terms.horizon).upper,
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


def _squares(term: Term, points: FloatArray, slots: IntArray, widths: FloatArray) -> FloatArray:
    """sum_i B_i^2 phi_j(x_i)^2 for the features of a term, in the order of their coordinates, rounded up."""
    error, _ = term_feature_bounds(term, points)
    sizes = (np.abs(term_features(term, points)) + error) * widths[:, None]
    columns = term.embedding[slots]
    count = points.shape[0]
    total = (sizes * sizes).T @ (columns * columns)
    # count additions and a handful of products, each with its half ulp; what underflows is far below 1e-300
    return np.asarray(total.ravel() * (1 + 2 * (count + 16) * U) + 1e-300 * count)
