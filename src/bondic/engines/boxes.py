"""Points in the order of a kd-tree, and proved lower bounds of the distance between two boxes of them.

For boxes [l, h] around points, any x in box a and y in box b satisfy

    sum_axis ((x - y) / s)^2 >= sum_axis ( max(0, l_b - h_a, l_a - h_b) / s )^2 .

Box corners are coordinates of points, so they carry no rounding; differences come before scaling, as in the kernel.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bondic.engines.compiled import compiled
from bondic.rounding import U

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class Tree(NamedTuple):
    """Leaf i holds the points order[i * size : (i + 1) * size]; nodes in preorder, a left child right after its parent.

    Node t covers the leaves first[t], ..., last[t] - 1; the next node outside its subtree is skip[t]. (A named tuple,
    because compiled code reads it.)
    """

    size: int
    order: IntArray  # (N,)
    low: FloatArray  # (nodes, d), smallest coordinates
    high: FloatArray  # (nodes, d), largest coordinates
    first: IntArray  # (nodes,)
    last: IntArray  # (nodes,)
    skip: IntArray  # (nodes,)
    leaves: IntArray  # (leaves,), node of every leaf


def build(points: FloatArray, scales: FloatArray, size: int) -> Tree:
    """Halve along the longest scaled side until `size` points are left; every leaf but the last is full."""
    count, dimension = points.shape
    leaves = -(-count // size)
    low, high = np.empty((2 * leaves - 1, dimension)), np.empty((2 * leaves - 1, dimension))
    first, last = np.empty(2 * leaves - 1, dtype=np.int64), np.empty(2 * leaves - 1, dtype=np.int64)
    order, moved = np.arange(count), points.copy()
    waiting, node = [(0, leaves)], 0
    while waiting:
        begin, end = waiting.pop()
        part = slice(begin * size, min(end * size, count))
        low[node], high[node] = moved[part].min(axis=0), moved[part].max(axis=0)
        first[node], last[node] = begin, end
        if end - begin > 1:
            middle = (begin + end) // 2
            with np.errstate(over="ignore"):
                axis = int(np.argmax((high[node] - low[node]) / scales))
            halves = np.argpartition(moved[part, axis], (middle - begin) * size)
            order[part], moved[part] = order[part][halves], moved[part][halves]
            waiting += [(middle, end), (begin, middle)]
        node += 1
    single = last - first == 1
    return Tree(size, order, low, high, first, last, np.arange(node) + 2 * (last - first) - 1, np.flatnonzero(single))


@compiled
def square_gap(tree, a, b, inverse):  # type: ignore[no-untyped-def]
    """A lower bound of sum ((x - y) / s)^2 over all x in box a and y in box b (Lemma 22); inverse = fl(1 / s)."""
    low, high = tree.low, tree.high
    total = 0.0
    for axis in range(inverse.size):
        gap = max(low[b, axis] - high[a, axis], low[a, axis] - high[b, axis])
        if gap > 0.0:
            total += (gap * inverse[axis]) * (gap * inverse[axis])
    return _lowered(total, inverse.size)


@compiled
def point_gaps(points, top, height, tree, b, inverse, squares):  # type: ignore[no-untyped-def]
    """The same between box b and each of the points top..top+height-1 (by axis), into squares."""
    for i in range(height):
        squares[i] = 0.0
    for axis in range(inverse.size):
        below, above, scale = tree.low[b, axis], tree.high[b, axis], inverse[axis]
        row = points[axis, top : top + height]
        for i in range(height):
            gap = max(max(below - row[i], row[i] - above), 0.0)
            squares[i] += (gap * scale) * (gap * scale)
    for i in range(height):
        squares[i] = _lowered(squares[i], inverse.size)


@compiled
def _lowered(total, dimension):  # type: ignore[no-untyped-def]
    """Rounding of the sum undone; squares that underflow may have been rounded up, so tiny sums count as nothing."""
    return total * (1.0 - (dimension + 32) * U) if total > 1e-290 else 0.0
