"""Where the log supports the policy: the weights ω_i over the columns that explain them best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.bounds.part_sums import weights_at_rows
from bondic.data.spread import spread_rows
from bondic.functions.functions import Function
from bondic.kernels.normal_form import Layout
from bondic.report.bins import FEWEST_ROWS, Bins, round_bins
from bondic.rows import Batch, Rows

FloatArray = npt.NDArray[np.float64]

_SAMPLED_ROWS = 20_000
_LISTED_ROWS = 10
_GROUPS = 16


@dataclass(frozen=True)
class HeavyRow:
    """A row of the log that carries much of the bound."""

    row: int
    values: tuple[float, ...]  # of all columns
    reward: float
    weight: float
    share: float  # of the sum of |ω_i|


@dataclass(frozen=True, eq=False)
class Support:
    """Mean weights on a grid, and how evenly the weight is spread."""

    names: tuple[str, ...]  # of all columns
    axes: tuple[int, int]  # the columns shown
    explained: tuple[float, float]  # share of the variance of ω that each explains
    bins: tuple[Bins, Bins]
    counts: FloatArray  # (x bins, y bins) rows
    sums: FloatArray  # (x bins, y bins) sum of ω_i
    shares: tuple[tuple[float, float], ...]  # (share of rows, share of the weight that the heaviest of them carry)
    suppressed: int  # cells that were left out because they are thin
    heavy: tuple[HeavyRow, ...]  # empty when rows are withheld


def column_names(layout: Layout, given: Sequence[str] = ()) -> tuple[str, ...]:
    """Names of the columns of `_columns`: observations as given, then time and actions."""
    names = [*given[: layout.observation_dim]]
    names += [f"state {k}" for k in range(len(names), layout.observation_dim)]
    names += ["time"] if layout.has_time else []
    return (*names, *([f"action {k}" for k in range(layout.action_dim)] if layout.action_dim else ["action"]))


def _columns(part: Batch) -> FloatArray:
    """Points as columns; the slot of a discrete action is the last one."""
    return np.column_stack([part.logged, part.slots]) if part.layout.discrete else part.logged


def find_support(question: Rows, omega: Function | None, *, names: Sequence[str], no_rows: bool) -> Support:
    """Two passes over the rows: a sample picks the columns and bins, all rows fill the grid."""
    values, weights = _sample(question, omega)
    explained = [_explained(values[:, k], weights) for k in range(values.shape[1])]
    # a column that hardly varies comes last without rows: its name may be the value of a few ("diagnosis=...")
    plain = [no_rows and _hardly_varies(values[:, k]) for k in range(values.shape[1])]
    order = sorted(range(len(explained)), key=lambda k: (plain[k], -explained[k]))
    x, y = (order[0], order[1]) if len(order) > 1 else (0, 0)
    if question.layout.discrete and x == len(order) - 1:
        x, y = y, x  # a discrete action reads best as a line of its own
    fewest = FEWEST_ROWS if no_rows else 1
    bins = (round_bins(values[:, x], fewest=fewest), round_bins(values[:, y], fewest=fewest))
    counts, sums = np.zeros((len(bins[0]), len(bins[1]))), np.zeros((len(bins[0]), len(bins[1])))
    heavy: list[HeavyRow] = []
    total = 0.0
    for part in question.batches():
        rows, _ = weights_at_rows(part, omega)
        points = _columns(part)
        cell = bins[0].of(points[:, x]) * len(bins[1]) + bins[1].of(points[:, y])
        counts += np.bincount(cell, minlength=counts.size).reshape(counts.shape)
        sums += np.bincount(cell, weights=rows, minlength=counts.size).reshape(counts.shape)
        total += float(np.abs(rows).sum())
        if not no_rows:
            heavy = _heaviest(heavy, part, points, rows)
    thin = (counts > 0) & (counts < FEWEST_ROWS) if no_rows else np.zeros(counts.shape, dtype=bool)
    counts[thin], sums[thin] = 0.0, 0.0
    listed = tuple(
        HeavyRow(item.row, item.values, item.reward, item.weight, abs(item.weight) / total if total else 0.0)
        for item in heavy
    )
    shares = _concentration(weights, fewest)
    shown = (explained[x], explained[y])
    return Support(tuple(names), (x, y), shown, bins, counts, sums, shares, int(thin.sum()), listed)


def _sample(question: Rows, omega: Function | None) -> tuple[FloatArray, FloatArray]:
    """Evenly spread rows: their columns and weights."""
    share = min(1.0, _SAMPLED_ROWS / len(question))
    found = []
    for part in question.batches():
        some = part.pick(spread_rows(len(part), max(1, round(share * len(part)))))
        found.append((_columns(some), weights_at_rows(some, omega)[0]))
    return np.concatenate([points for points, _ in found]), np.concatenate([rows for _, rows in found])


def _hardly_varies(column: FloatArray) -> bool:
    """Whether all but a few rows share one value."""
    return column.size - int(np.unique(column, return_counts=True)[1].max()) < FEWEST_ROWS


def _explained(column: FloatArray, weights: FloatArray) -> float:
    """Correlation ratio: variance of the group means of ω over its variance, 16 groups of the column."""
    spread = float(weights.var())
    if spread == 0:
        return 0.0
    cuts = np.unique(np.quantile(column, np.linspace(0, 1, _GROUPS + 1)[1:-1]))
    group = np.searchsorted(cuts, column, side="right")
    counts = np.bincount(group)
    means = np.bincount(group, weights=weights) / np.maximum(counts, 1)
    return float(np.average((means - weights.mean()) ** 2, weights=counts)) / spread


def _concentration(weights: FloatArray, fewest: int) -> tuple[tuple[float, float], ...]:
    """How much of sum |ω_i| the heaviest 1, 10 and 50 percent of the rows carry, where these are `fewest` or more."""
    sizes = np.sort(np.abs(weights))[::-1]
    total = float(sizes.sum())
    if total == 0:
        return ()
    heads = [(part, round(part * sizes.size)) for part in (0.01, 0.1, 0.5)]
    return tuple((part, float(sizes[:count].sum()) / total) for part, count in heads if count >= fewest)


def _heaviest(known: list[HeavyRow], part: Batch, points: FloatArray, rows: FloatArray) -> list[HeavyRow]:
    top = np.argsort(-np.abs(rows), kind="stable")[:_LISTED_ROWS]
    new = [
        HeavyRow(int(part.log_rows[k]), tuple(float(v) for v in points[k]), float(part.rewards[k]), float(rows[k]), 0.0)
        for k in top
        if rows[k] != 0
    ]
    return sorted([*known, *new], key=lambda item: (-abs(item.weight), item.row))[:_LISTED_ROWS]
