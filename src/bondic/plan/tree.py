"""A regression tree, grown best-first: every step splits the leaf where Σ (y − leaf mean)² falls most.

Split number j cuts one leaf in two: the left part (x < threshold) keeps the leaf's code, the right part gets the code
j + 1.
Several targets are split together: their squares are added, so their scales are their weights.

A column is chosen by sums over at most `BINS` quantile bins (those of the larger half are parent minus smaller half),
its threshold among all values: a cliff is cut where it is. With `BINS` distinct values or fewer the search is exhaustive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BINS = 128
_NO_GAIN = 1e-9
"""Share of Σ y² below which a gain is rounding, and the leaf is left whole."""


@dataclass(frozen=True)
class RegressionTree:
    """Splits (column, threshold, code of the leaf that is cut) in the order in which they were made, on `width` columns."""

    splits: tuple[tuple[int, float, int], ...]
    width: int

    @property
    def leaves(self) -> int:
        return len(self.splits) + 1

    def codes(self, inputs: Floats) -> Ints:
        """The leaf of every row, 0 … G − 1."""
        assert inputs.shape[1:] == (self.width,)
        members: list[Ints] = [np.arange(len(inputs))]
        for column, threshold, parent in self.splits:
            rows = members[parent]
            right = inputs[rows, column] >= threshold
            members[parent] = rows[~right]
            members.append(rows[right])
        codes = np.zeros(len(inputs), dtype=np.int64)
        for code, rows in enumerate(members[1:], start=1):
            codes[rows] = code
        return codes

    def describe(self, names: Sequence[str]) -> tuple[str, ...]:
        """Every leaf in words, as in "0.1 ≤ angle < 0.4 and speed < 3.2"; columns in the order of their first split."""
        assert len(names) == self.width
        bounds: list[dict[int, tuple[float, float]]] = [{}]
        for column, threshold, parent in self.splits:
            low, high = bounds[parent].get(column, (-np.inf, np.inf))
            bounds.append({**bounds[parent], column: (threshold, high)})
            bounds[parent] = {**bounds[parent], column: (low, threshold)}
        return tuple(
            " and ".join(_range_in_words(names[column], *ends) for column, ends in leaf.items()) or "all rows"
            for leaf in bounds
        )


def _range_in_words(name: str, low: float, high: float) -> str:
    if low == -np.inf:
        return f"{name} < {_digits(high)}"
    return f"{name} ≥ {_digits(low)}" if high == np.inf else f"{_digits(low)} ≤ {name} < {_digits(high)}"


def _digits(number: float) -> str:
    """All digits of the number, and no more: a description decides like the tree."""
    return short if float(short := f"{number:g}") == number else repr(number)


def grow(inputs: Floats, targets: Floats, *, leaves: int, min_rows: int) -> RegressionTree:
    """The tree on `inputs` (n, d) with at most `leaves` leaves of at least `min_rows` rows, for `targets` (n,) or (n, K)."""
    outputs = targets.reshape(len(inputs), -1).T
    search = _Search(_binned(inputs), outputs - outputs.mean(axis=1, keepdims=True), max(1, min_rows))
    nodes = [search.node(np.arange(len(inputs)))]
    splits: list[tuple[int, float, int]] = []
    while len(nodes) < leaves:
        parent = max(range(len(nodes)), key=lambda leaf: nodes[leaf].gain)
        node = nodes[parent]
        if node.gain <= _NO_GAIN * search.scale:
            break
        x = inputs[node.rows, node.column]
        splits.append((node.column, search.threshold(node, x), parent))
        nodes[parent], new = search.halves(node, x >= splits[-1][1])
        nodes.append(new)
    return RegressionTree(tuple(splits), inputs.shape[1])


@dataclass(frozen=True, eq=False)
class LeafMeans:
    """Means (leaves, K) over the leaves of a tree: (m, K) of inputs (m, d)."""

    tree: RegressionTree
    means: Floats

    def __call__(self, inputs: Floats) -> Floats:
        return np.asarray(self.means[self.tree.codes(inputs)])


def leaf_means(inputs: Floats, targets: Floats, *, leaves: int, min_rows: int) -> LeafMeans:
    """Means of the targets (n, K) over the leaves of a tree that is grown on them."""
    tree = grow(inputs, targets, leaves=leaves, min_rows=min_rows)
    codes = tree.codes(inputs)
    sums = np.stack([np.bincount(codes, own, minlength=tree.leaves) for own in targets.T], axis=1)
    return LeafMeans(tree, sums / np.bincount(codes, minlength=tree.leaves)[:, None])


def shortest_between(low: float, high: float) -> float:
    """The decimal with the fewest digits in (low, high], near the middle: thresholds are read by people."""
    middle = low / 2 + high / 2
    candidates = (float(f"{middle:.{digits}g}") for digits in range(1, 18))
    return next((number for number in candidates if low < number <= high), float(high))


@dataclass(frozen=True)
class _Node:
    """A leaf, the sums of its bins, and the fall of Σ (y − mean)² by its best split, with the column of that split."""

    rows: Ints
    sums: Floats  # (K + 1, d, bins): rows per bin, then Σ y for each of the K targets
    gain: float = 0.0
    column: int = 0


class _Search:
    """Best splits of nodes: the column from sums over bins, then the threshold from all values of that column."""

    def __init__(self, bins: NDArray[np.intp], outputs: Floats, min_rows: int) -> None:
        self.bins, self.outputs, self.min_rows = bins, outputs, min_rows
        self.count = int(bins.max()) + 1
        self.scale = float((outputs**2).sum())

    def node(self, rows: Ints, sums: Floats | None = None) -> _Node:
        sums = self._sums(rows) if sums is None else sums
        gains = self._gains(sums.cumsum(axis=2)[:, :, :-1], sums[:, 0].sum(axis=1)[:, None, None])
        if gains.max(initial=0.0) <= 0:
            return _Node(rows, sums)
        return _Node(rows, sums, float(gains.max()), int(np.argmax(gains)) // gains.shape[1])

    def threshold(self, node: _Node, x: Floats) -> float:
        order = np.argsort(x, kind="stable")
        ordered, outputs = x[order], self.outputs[:, node.rows[order]]
        left = np.vstack([np.arange(1, len(x) + 1), outputs.cumsum(axis=1)])
        gains = self._gains(left[:, :-1], left[:, -1:])
        best = int(np.argmax(np.where(np.diff(ordered) > 0, gains, -np.inf)))
        return shortest_between(ordered[best], ordered[best + 1])

    def _gains(self, left: Floats, total: Floats) -> Floats:
        """Fall of Σ (y − mean)² for counts and sums on the left of every split; −∞ where a side is too small."""
        right = total - left
        parts = ((part[1:] ** 2).sum(axis=0) / np.maximum(part[0], 1) for part in (left, right, total))
        gains = next(parts) + next(parts) - next(parts)
        return np.where(np.minimum(left[0], right[0]) >= self.min_rows, gains, -np.inf)

    def halves(self, node: _Node, right: NDArray[np.bool_]) -> tuple[_Node, _Node]:
        parts = node.rows[~right], node.rows[right]
        small = int(len(parts[1]) < len(parts[0]))
        sums = self._sums(parts[small])
        both = (sums, node.sums - sums) if small == 0 else (node.sums - sums, sums)
        return self.node(parts[0], both[0]), self.node(parts[1], both[1])

    def _sums(self, rows: Ints) -> Floats:
        outputs = self.outputs[:, rows]
        sums = np.empty((len(outputs) + 1, len(self.bins), self.count))
        for column, all_bins in enumerate(self.bins):
            bins = all_bins[rows]
            sums[0, column] = np.bincount(bins, minlength=self.count)
            for k, output in enumerate(outputs, start=1):
                sums[k, column] = np.bincount(bins, weights=output, minlength=self.count)
        return sums


def _binned(inputs: Floats) -> NDArray[np.intp]:
    """(d, n): the bin of every value. Bins begin at distinct values; at quantiles where there are more than `BINS`."""
    bins = np.empty(inputs.shape[::-1], dtype=np.intp)
    for column, values in enumerate(inputs.T):
        ordered = np.sort(values)
        first = np.flatnonzero(np.diff(ordered)) + 1
        if len(first) >= BINS:
            at = np.arange(1, BINS) * len(ordered) // BINS
            starts = np.unique(ordered[at])
            starts = starts[starts > ordered[0]]
        else:
            starts = ordered[first]
        bins[column] = np.searchsorted(starts, values, side="right")
    return bins
