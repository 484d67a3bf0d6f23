"""Rewards in another unit from some row on: c r where r was written before, at the same states and actions.

A behavior that learns earns more and more, and that is no fault. What the environment pays at (s, a) does not depend on when:
take one row j after the change and two rows i, k before it, at one (s, a). Their rewards are exchangeable, so |log |r_j / r_i||
exceeds |log |r_k / r_i|| with probability 1/2 at most. Of N disjoint triples, x or more do so (and in one direction) with
probability at most exp(-N KL(x/N, 1/2)) (Chernoff); all change points are allowed for (union bound). Continuous states are not
met twice: i is then the row nearest to j, and j has to be nearer to i than k is.

A change of unit is reported, no other change: the triples must agree on one factor c, by which r_j has to be divided to be like
r_k again. Rewards of 0 have no unit, and are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bondic.data.hygiene.chance import RARE, surprise
from bondic.data.hygiene.findings import Finding
from bondic.data.hygiene.marks import fingerprints, mixed

if TYPE_CHECKING:
    from bondic.data.transitions import Transitions

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Triples = tuple[IntArray, IntArray, IntArray]

UNIT = 10.0
"""Units that are mistaken for each other (cents, thousands, seconds, hours) differ by this factor or more."""
_WORK = 2e8
"""Differences of two numbers that may be computed: the log is thinned out, evenly, to as many rows as this allows."""
_ROUNDING = 1e-9


class ScaleCheck:
    """Keeps some rows with a reward, evenly spread over the log: all of a short one."""

    def __init__(self) -> None:
        self._kept: FloatArray = np.zeros((0, 0))  # row, reward, state, action
        self._stride, self._seen = 1, 0
        self._discrete = self._discrete_actions = True

    def add(self, part: Transitions, first_row: int) -> None:
        self._discrete &= bool(part.discrete_observations)
        self._discrete_actions = part.discrete_actions
        paid = np.flatnonzero(part.rewards)
        order = self._seen + np.arange(paid.size)
        self._seen += paid.size
        paid = paid[order % self._stride == 0]
        actions = np.asarray(part.actions, dtype=np.float64).reshape(len(part), -1)
        more = np.column_stack([first_row + paid, part.rewards[paid], part.observations[paid], actions[paid]])
        self._kept = np.concatenate([self._kept.reshape(-1, more.shape[1]), more])
        while self._kept.shape[0] > np.sqrt(_WORK / self._kept.shape[1]):
            self._kept, self._stride = self._kept[::2], 2 * self._stride

    def findings(self) -> Iterator[Finding]:
        size = np.log(np.abs(self._kept[:, 1])) if self._kept.size else np.zeros(0)
        change = _change_point(size)
        if change is None:
            return
        points = self._kept[:, 2:] + 0.0
        after, near, control = (
            _equal(points, change) if self._discrete else _nearest(points, change, self._discrete_actions)
        )
        moved, usual = size[after] - size[near], np.abs(size[control] - size[near]) + _ROUNDING
        needed = RARE + float(np.log(2 * size.size))  # any change point, up or down
        factor = float(np.exp(np.median(moved))) if moved.size else 1.0
        larger = factor > 1
        changed = _beyond(moved > usual if larger else moved < -usual)
        rescaled = _beyond(np.abs(moved - np.log(factor)) > usual)
        if max(factor, 1 / factor) >= UNIT * (1 - _ROUNDING) and changed > needed > rescaled:
            yield _finding(int(self._kept[change, 0]), factor if larger else 1 / factor, moved.size, larger=larger)


def _change_point(size: FloatArray) -> int | None:
    """Where the ranks of the sizes change most, if they change at all."""
    m = size.size
    _, inverse, counts = np.unique(size, return_inverse=True, return_counts=True)
    if counts.size < 2:
        return None
    rank = (np.cumsum(counts) - (counts - 1) / 2)[inverse] - (m + 1) / 2
    k = np.arange(1, m)
    z = np.abs(np.cumsum(rank)[:-1]) / np.sqrt(rank.var() * k * (m - k) / m)
    best = int(np.argmax(z))
    return best + 1 if z[best] ** 2 / 2 > RARE else None


def _equal(points: FloatArray, change: int) -> Triples:
    """Rows at one (s, a): the k-th after the change with two before it that nobody else has."""
    group = np.unique(mixed(fingerprints(points)), return_inverse=True)[1]
    before, after = _places(group[:change]), _places(group[change:])
    roles = [(before, 0, 2), (before, 1, 2), (after, 0, 1)]  # every other row before the change is a control
    first: list[IntArray] = []
    keys: list[IntArray] = []
    for (label, place), offset, step in roles:
        rows = np.flatnonzero(place % step == offset)
        keys.append(label[rows] * points.shape[0] + place[rows] // step)
        first.append(rows)
    common = np.intersect1d(np.intersect1d(keys[0], keys[1]), keys[2])
    near, control, later = (
        rows[np.argsort(key)][np.searchsorted(np.sort(key), common)] for rows, key in zip(first, keys, strict=True)
    )
    return change + later, near, control


def _places(group: npt.NDArray[np.intp]) -> tuple[IntArray, IntArray]:
    """The group of every row, and how many rows of it stand before."""
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    sizes = np.diff(np.append(starts, group.size))
    place = np.empty(group.size, dtype=np.int64)
    place[order] = np.arange(group.size) - np.repeat(starts, sizes)
    return group.astype(np.int64), place


def _nearest(points: FloatArray, change: int, discrete_actions: bool) -> Triples:
    """For every row after the change the nearest before it; kept where that one's own nearest is not nearer."""
    spread = points.std(axis=0)
    scaled = points / np.where(spread > 0, spread, 1.0)
    halves = np.arange(0, change, 2), np.arange(1, change, 2)
    later = np.arange(change, points.shape[0])
    if not halves[1].size:
        return later[:0], later[:0], later[:0]
    near, distance = _closest(scaled, later, halves[0], discrete_actions)
    control, reach = _closest(scaled, near, halves[1], discrete_actions)
    fits = np.isfinite(reach) & (distance <= reach)
    order = np.flatnonzero(fits)[np.argsort(distance[fits], kind="stable")]
    for used in (near, control):  # every row is in one triple
        order = order[np.sort(np.unique(used[order], return_index=True)[1])]
    return later[order], near[order], control[order]


def _closest(scaled: FloatArray, of: IntArray, among: IntArray, discrete_actions: bool) -> tuple[IntArray, FloatArray]:
    """The nearest row of `among` for every row `of`, and its squared distance; inf where none has the same discrete action."""
    found, distances = np.zeros(of.size, dtype=np.int64), np.zeros(of.size)
    for top in range(0, of.size, 256):
        rows = of[top : top + 256]
        square = np.zeros((rows.size, among.size))
        for column in scaled.T:
            square += (column[rows, None] - column[None, among]) ** 2
        if discrete_actions:
            square[scaled[rows, -1, None] != scaled[None, among, -1]] = np.inf
        best = np.argmin(square, axis=1)
        found[top : top + 256], distances[top : top + 256] = among[best], square[np.arange(rows.size), best]
    return found, distances


def _beyond(hits: npt.NDArray[np.bool_]) -> float:
    return surprise(int(hits.sum()), hits.size, 0.5)


def _finding(row: int, factor: float, pairs: int, *, larger: bool) -> Finding:
    return Finding(
        "reward-scale", "warn", pairs, row,
        f"From about row {row} on rewards are about {factor:.3g} times as {'large' if larger else 'small'} as before at the same "
        f"states and actions ({pairs} rows compared with earlier ones): another unit, perhaps (cents for dollars). The "
        "interval takes them for one unit, and is wrong if they are not.",
        "Write all rewards in one unit, and state the reward range in it.",
    )  # fmt: skip
