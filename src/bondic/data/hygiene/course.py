"""The course of a log: rewards and actions that drift, rows or episodes that are sorted, episode numbers out of order.

A log is cut into stretches of equal length, 128 to 256 of them where it has so many rows. With y_j the mean of stretch j, Y_k
that of group k of g_k stretches, and s^2 half the mean squared difference of neighbors (von Neumann: a drift hardly enters
it), sum g_k (Y_k - Y)^2 / s^2 is about chi-square with K - 1 degrees of freedom where nothing changes. Units are rows where
every row is an episode, else episodes: rows of one episode depend on one another. It is a test of a suspicion, no part of a
proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bondic.data._arrays import FloatArray, IntArray
from bondic.data.hygiene.findings import Finding, bars
from bondic.data.hygiene.propensities import logged_propensities

if TYPE_CHECKING:
    from bondic.data.hygiene.consecutive import EpisodeIndex
    from bondic.data.transitions import Transitions

MOVES = "The log does not stand still"
"""How the warning about drift begins."""
_EIGHTHS = 8
_MOST = 256
_FEWEST = 64
_FINE = 32
"""Groups of a second look, where there are four stretches for each: cycles, and users one after the other."""
_ACTIONS = 64
_LARGEST_WEIGHT = 10.0
"""Rarer actions count like those of probability 1/10: one row must not hide a drift."""
_EVENTS = 20
"""Stretches that are not like most of them: of fewer events a few that come together are no surprise."""
_SURE = 4.5
"""Standard deviations of a normal variable: 3e-6 for each of the few series that are looked at."""
_SORTED_BY = {"mean": "their reward", "share": "their action", "return": "their return", "length": "their length"}
_WORLD = "The interval is about all of this log together; another time, and what comes next, may differ from it."
_BEHAVIOR = (
    "The behavior changed: propensities have to be those of the moment, and today's value is an average over the log."
)
_OFF = 4.0
"""Standard deviations from which on a mean of ratios is called wrong, once the log was rejected."""
_RUNNING = 10
"""Fewer episode numbers are not judged."""


class Course:
    """Sums over stretches of rows: (stretches, rows + reward + weighted reward + actions); ups and downs of neighbors."""

    def __init__(self) -> None:
        self._length, self._rows, self._sums = 1, 0, np.zeros((_MOST, 2 + _ACTIONS))
        self._turns = np.zeros((2, 2), dtype=np.int64)  # of reward and action: neighbors that go up, that go down
        self._last = np.zeros((0, 2))
        self._ratios, self._noise = np.zeros((_MOST, _ACTIONS)), np.zeros(_ACTIONS)  # 1/b by stretch, (1 - b)/b^2
        self._weighted = False

    def add(self, part: Transitions) -> None:
        """The next rows of the log."""
        n, discrete = len(part), part.discrete_actions
        probs = logged_propensities(part) if discrete else None
        self._weighted = probs is not None
        weights = 1.0 if probs is None else np.minimum(1.0 / np.maximum(probs, 1e-300), _LARGEST_WEIGHT)
        while self._rows + n > _MOST * self._length:
            for sums in (self._sums, self._ratios):
                sums[: _MOST // 2] = sums[::2] + sums[1::2]
                sums[_MOST // 2 :] = 0.0
            self._length *= 2
        place = (self._rows + np.arange(n)) // self._length
        self._sums[:, 0] += np.bincount(place, minlength=_MOST)
        self._sums[:, 1] += np.bincount(place, weights=part.rewards * weights, minlength=_MOST)
        if discrete:
            few = part.actions < _ACTIONS
            cells = place[few] * _ACTIONS + part.actions[few]
            self._sums[:, 2:] += np.bincount(cells, minlength=_MOST * _ACTIONS).reshape(_MOST, _ACTIONS)
            if probs is not None:
                b = np.maximum(probs[few], 1e-150)
                self._ratios += np.bincount(cells, 1 / b, _MOST * _ACTIONS).reshape(_MOST, _ACTIONS)
                self._noise += np.bincount(part.actions[few], (1 - b) / b**2, _ACTIONS)
        codes = part.actions if discrete else np.zeros(n)
        run = np.concatenate([self._last, np.column_stack([part.rewards, codes])])
        step = np.sign(np.diff(run, axis=0))
        self._turns += np.stack([(step > 0).sum(axis=0), (step < 0).sum(axis=0)], axis=1)
        self._last, self._rows = run[-1:], self._rows + n

    def contradicted(self, name: Callable[[int], str]) -> str:
        """Which propensities do not fit the actions, and where; 1[a = k]/b has mean 1 where b is right. "" if all fit."""
        eighths = np.array_split(np.arange(-(-self._rows // self._length)), _EIGHTHS)
        rows = np.array([self._sums[part, 0].sum() for part in eighths])[:, None]
        ratios = np.array([self._ratios[part].sum(axis=0) for part in eighths])
        off = (ratios - rows) / np.sqrt(np.maximum(rows * self._noise / max(self._rows, 1), 1e-300))
        off[:, self._noise == 0] = 0.0
        when, action = (int(k) for k in np.unravel_index(np.abs(off).argmax(), off.shape))
        if abs(off[when, action]) < _OFF:
            return ""
        means, stops = ratios[:, action] / np.maximum(rows[:, 0], 1), np.cumsum(rows[:, 0]).astype(int)
        return (
            f"The logged propensities do not fit the logged actions: 1/propensity of {name(action)}, 0 where another was "
            f"taken, has a mean of 1 if they are right, and {means[when]:.3g} in rows {stops[when] - int(rows[when, 0])} to "
            f"{stops[when] - 1} (eighths of the log: {bars(means.tolist())}, from {means.min():.3g} to {means.max():.3g}). Look "
            "at how these were logged, and whether that action could be taken in all of these rows."
        )

    def findings(self, episodes: EpisodeIndex | None) -> Iterator[Finding]:
        """`episodes` of a log whose rows follow each other; None where every row is an episode."""
        if episodes is not None:
            yield from _out_of_order(episodes) or _judged(_of_episodes(episodes), "episodes", episodes.ids.size)
            return
        sums, rows = self._sums[: self._rows // self._length], self._rows
        name = "reward" + ", weighted by 1/propensity," * self._weighted
        arms = max(int(sums[:, 2:].any(axis=0).sum()), 1) if self._weighted else 1
        found = {
            f"the mean {name}": (
                _drift(sums[:, 1] / (arms * self._length), self._length),
                bool(self._turns[0].min() == 0),
            )
        }
        for k in np.flatnonzero(sums[:, 2:].any(axis=0)):
            drift = _drift(sums[:, 2 + k] / self._length, self._length)
            found[f"the share of action {k}"] = drift, bool(self._turns[1].min() == 0)
        yield from _judged(found, "rows", rows)


@dataclass(frozen=True)
class _Drift:
    """Means of the eighths, and where they end."""

    means: FloatArray
    stops: IntArray


def _drift(y: FloatArray, length: int) -> _Drift | None:
    """Means of stretches of `length` units each; None where chance explains how they differ, or where they are few."""
    if y.size < _FEWEST or np.count_nonzero(y != np.median(y)) < _EVENTS:
        return None
    noise, surest = float((np.diff(y) ** 2).mean() / 2), 0.0
    for groups in (_EIGHTHS, _FINE) if y.size >= 4 * _FINE else (_EIGHTHS,):
        chi = sum(part.size * (part.mean() - y.mean()) ** 2 for part in np.array_split(y, groups)) / noise
        scale = 2 / (9 * (groups - 1))
        surest = max(surest, ((chi / (groups - 1)) ** (1 / 3) - 1 + scale) / scale**0.5)  # Wilson and Hilferty
    if surest <= _SURE:
        return None
    parts = np.array_split(y, _EIGHTHS)
    return _Drift(np.array([part.mean() for part in parts]), length * np.cumsum([part.size for part in parts]))


def _of_episodes(episodes: EpisodeIndex) -> dict[str, tuple[_Drift | None, bool]]:
    """Drift of returns, lengths and actions of episodes, and whether they are sorted."""
    count, lengths = episodes.ids.size, episodes.lengths.astype(np.float64)
    size = max(1, -(-count // _MOST))
    full, found = count // size, dict[str, tuple[_Drift | None, bool]]()
    for name, values in (("return", episodes.returns), ("length", lengths), ("share", episodes.acts / lengths)):
        steps, means = np.diff(values), values[: full * size].reshape(full, size).mean(axis=1)
        of = "of an episode" if name != "share" else "of later actions in an episode, by their mean number,"
        found[f"the {name} {of}"] = _drift(means, size), bool((steps >= 0).all() or (steps <= 0).all())
    return found


def _judged(found: Mapping[str, tuple[_Drift | None, bool]], units: str, count: int) -> Iterator[Finding]:
    """One finding at most: what is sorted, else the first that drifts."""
    moved = [(name, drift, ordered) for name, (drift, ordered) in found.items() if drift is not None]
    if not moved:
        return
    name, drift, ordered = max(moved, key=lambda item: item[2])
    if ordered:
        yield Finding(
            "sorted", "warn", count, 0,
            f"The {count} {units} are sorted by {_SORTED_BY[name.split()[1]]}. The guarantee needs them in the order in "
            "which they were made: sorted by what came out it does not hold, and sorted by action rows of one time are not "
            "beside each other.",
            "Write the log in the order of time.",
        )  # fmt: skip
        return
    high, low = (
        f"{drift.means[k]:.3g} in {units} {drift.stops[k - 1] if k else 0} to {drift.stops[k] - 1}"
        for k in (int(drift.means.argmax()), int(drift.means.argmin()))
    )
    yield Finding(
        "drift", "warn", count, -1,
        f"{MOVES}: {name} is {high} and {low} (eighths of the log: {bars(drift.means.tolist())}). "
        f"{_BEHAVIOR if name.startswith('the share') else _WORLD}",
        "Check that rows are in the order of time; for a decision about tomorrow look at the latest rows by themselves.",
    )  # fmt: skip


def _out_of_order(episodes: EpisodeIndex) -> list[Finding]:
    """Running numbers of episodes that go back; ids of which more than half are not there are names, and are not judged."""
    ids = episodes.ids
    back = np.flatnonzero(np.diff(ids) < 0) + 1
    if not (episodes.has_ids and back.size and ids.size >= _RUNNING and int(ids.max()) - int(ids.min()) < 2 * ids.size):
        return []
    first = int(back[0])
    found = Finding(
        "sorted", "warn", int(back.size), int(episodes.first_rows[first]),
        f"Episode numbers go back {back.size} times (first: {ids[first]} after {ids[first - 1]}), although they are running "
        "numbers: episodes are probably not in the order in which they were made, which the guarantee needs.",
        "Sort the log by the times at which episodes began.",
    )  # fmt: skip
    return [found]
