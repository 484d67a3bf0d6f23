"""Rewards in another unit from some row on: c r where r was written before, at the same states and actions.

A behavior that learns earns more and more, and that is no fault. What the environment pays at (s, a) does not depend on when:
take two rows i, k on one side of the change and a row j on the other, all at one (s, a). Their rewards are exchangeable, so
|log |r_j / r_i|| exceeds |log |r_k / r_i|| with probability 1/2 at most. Of N disjoint triples, x or more do so (and in one
direction) with probability at most exp(-N KL(x/N, 1/2)) (Chernoff); all change points are allowed for (union bound). Continuous
states are hardly met twice: j and k are then the rows nearest to i, and j must not be farther from it than k.

A change of unit is reported, no other change: the triples must agree on one factor c, by which r_j has to be divided to be like
r_k again. Rewards of 0 have no unit, and are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bondic.data._arrays import FloatArray, IntArray
from bondic.data.hygiene.chance import RARE, surprise
from bondic.data.hygiene.findings import Finding
from bondic.data.hygiene.marks import fingerprints, mixed

if TYPE_CHECKING:
    from bondic.data.transitions import Transitions

Triples = tuple[IntArray, IntArray, IntArray]

UNIT = 10.0
"""Units that are mistaken for each other (cents, thousands, seconds, hours) differ by this factor or more."""
_WORK = 2e8
"""Differences of two numbers that may be computed: the log is thinned out, evenly, to as many rows as this allows."""
_BLOCK = 256
_ROUNDING = 1e-9


class ScaleCheck:
    """Keeps some rows with a reward, evenly spread over the log: all of a short one."""

    def __init__(self) -> None:
        self._kept: FloatArray = np.zeros((0, 0))  # row, reward, state, action
        self._stride, self._seen = 1, 0
        self._discrete_actions = True

    def add(self, part: Transitions, first_row: int) -> None:
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
        before, after = np.arange(change), np.arange(change, size.size)
        # what is compared may lie on either side of the change: no reward decides on which
        sides = [(self._triples(before, after), 1.0), (self._triples(after, before), -1.0)]
        (other, center, control), sign = max(sides, key=lambda side: side[0][0].size)
        moved, usual = sign * (size[other] - size[center]), np.abs(size[control] - size[center]) + _ROUNDING
        factor = float(np.exp(np.median(moved))) if moved.size else 1.0
        larger = factor > 1
        needed = RARE + float(np.log(2 * size.size))  # any change point, up or down
        changed = _beyond_half(moved > usual if larger else moved < -usual)
        rescaled = _beyond_half(np.abs(moved - np.log(factor)) > usual)
        if max(factor, 1 / factor) >= UNIT * (1 - _ROUNDING) and changed > needed > rescaled:
            yield _finding(int(self._kept[change, 0]), factor if larger else 1 / factor, moved.size, larger=larger)

    def _triples(self, here: IntArray, there: IntArray) -> Triples:
        points = self._kept[:, 2:] + 0.0
        if 2 * np.unique(fingerprints(points)).size <= points.shape[0]:
            return _equal(points, here, there)  # states are met again and again
        return _nearest(points, here, there, same_action=self._discrete_actions)


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


def _equal(points: FloatArray, here: IntArray, there: IntArray) -> Triples:
    """Rows at one (s, a): two of `here`, and one of `there`, that no other triple has."""
    group = np.unique(mixed(fingerprints(points)), return_inverse=True)[1].astype(np.int64)
    mine, theirs = _places(group[here]), _places(group[there])
    roles = ((there, theirs, theirs >= 0), (here, mine // 2, mine % 2 == 0), (here, mine // 2, mine % 2 == 1))
    found = [(group[rows[chosen]] * group.size + place[chosen], rows[chosen]) for rows, place, chosen in roles]
    common = np.intersect1d(np.intersect1d(found[0][0], found[1][0]), found[2][0])
    other, center, control = (rows[np.argsort(keys)][np.searchsorted(np.sort(keys), common)] for keys, rows in found)
    return other, center, control


def _places(group: IntArray) -> IntArray:
    """How many rows of its group stand before each row."""
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    place = np.empty(group.size, dtype=np.int64)
    place[order] = np.arange(group.size) - np.repeat(starts, np.diff(np.append(starts, group.size)))
    return place


def _nearest(points: FloatArray, here: IntArray, there: IntArray, *, same_action: bool) -> Triples:
    """For rows in one half of `here` the nearest of `there` and of the other half, where the first is not farther.

    Halves, so that no row is compared with the next ones of its own episode, which are nearer than any other.
    """
    spread = points.std(axis=0)
    scaled = points / np.where(spread > 0, spread, 1.0)
    center, rest = here[: here.size // 2], here[here.size // 2 :]
    if not center.size or not there.size:
        return here[:0], here[:0], here[:0]
    other, distance = _closest(scaled, center, there, same_action=same_action)
    control, distance_limit = _closest(scaled, center, rest, same_action=same_action)
    order = np.flatnonzero(np.isfinite(distance_limit) & (distance <= distance_limit))
    for used in (other, control):  # every row is in one triple
        order = order[np.unique(used[order], return_index=True)[1]]
    return other[order], center[order], control[order]


def _closest(scaled: FloatArray, of: IntArray, among: IntArray, *, same_action: bool) -> tuple[IntArray, FloatArray]:
    """The nearest row of `among` for every row `of`, and its squared distance; inf where none has the same action."""
    found, distances = np.zeros(of.size, dtype=np.int64), np.zeros(of.size)
    for top in range(0, of.size, _BLOCK):
        rows, part = of[top : top + _BLOCK], slice(top, top + _BLOCK)
        square = np.zeros((rows.size, among.size))
        for column in scaled.T:
            square += (column[rows, None] - column[None, among]) ** 2
        if same_action:
            square[scaled[rows, -1, None] != scaled[None, among, -1]] = np.inf
        best = np.argmin(square, axis=1)
        found[part], distances[part] = among[best], square[np.arange(rows.size), best]
    return found, distances


def _beyond_half(hits: npt.NDArray[np.bool_]) -> float:
    return surprise(int(hits.sum()), hits.size, 0.5)


def _finding(row: int, factor: float, pairs: int, *, larger: bool) -> Finding:
    return Finding(
        "reward-scale", "warn", pairs, row,
        f"From about row {row} on rewards are about {factor:.3g} times as {'large' if larger else 'small'} as before at the same "
        f"states and actions ({pairs} comparisons across it): another unit, perhaps (cents for dollars). The "
        "interval takes them for one unit, and is wrong if they are not.",
        "Write all rewards in one unit, and state the reward range in it.",
    )  # fmt: skip
