"""The log against a stated value range: the return G_i of every row must lie in [v_lo, v_hi].

G_i = r_i at a last row, G_i = r_i + gamma G_j where row j follows row i, and some number of [v_lo, v_hi] takes the place of
G_j where the log does not show what follows. What the rows before row j leave for G_j is an interval,

    A_j = [v_lo, v_hi] at the first row,    A_j = (A_i - r_i) / gamma  cut to [v_lo, v_hi],

and the log contradicts the statement where nothing is left. One pass, in batches of any size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.data.transitions import Transitions
from bondic.errors import InvalidInput
from bondic.rows.frame import Frame
from bondic.terms import Terms

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_TOLERANCE = 1e-9
"""Returns may leave the range by this share of its size: sums of rewards such as 0.1 are off in their last digits. What is
left grows by 1 / gamma at every step as rounding errors do, so this pays for those of the walk as well."""


@dataclass(frozen=True, slots=True)
class _Limit:
    """One end of A_j: it stems from the statement about the return from `row`, `steps` rows ago."""

    value: float
    row: int | None = None  # None: the row that comes next
    steps: int = 0

    def at(self, row: int) -> _Limit:
        return self if self.row is not None else replace(self, row=row)


@dataclass(frozen=True, eq=False)
class _Keys:
    """What tells whether a row follows another; one entry per row."""

    goes_on: BoolArray
    leads_to: FloatArray  # next observations
    episodes: npt.NDArray[Any] | None
    times: IntArray | None

    def last(self) -> _Keys:
        return _Keys(*(None if column is None else column[-1:].copy() for column in self._columns()))  # type: ignore[arg-type]

    def shifted(self, first: _Keys | None) -> _Keys:
        """The row before each row; before the first one stands `first` (itself, where nothing is known)."""
        ahead = self._columns() if first is None else first._columns()
        pairs = zip(ahead, self._columns(), strict=True)
        moved = (None if c is None or a is None else np.concatenate([a[:1], c[:-1]]) for a, c in pairs)
        return _Keys(*moved)  # type: ignore[arg-type]

    def _columns(self) -> tuple[npt.NDArray[Any] | None, ...]:
        return self.goes_on, self.leads_to, self.episodes, self.times


class ReturnCheck:
    """Feed it the rows in order; it raises InvalidInput at the first contradiction."""

    def __init__(self, terms: Terms) -> None:
        assert terms.value_range is not None
        self._terms, (low, high) = terms, terms.value_range
        scale = max(abs(low), abs(high), *map(abs, terms.reward_range))
        self._low, self._high = low - _TOLERANCE * scale, high + _TOLERANCE * scale
        self._last: _Keys | None = None
        self._left: tuple[_Limit, _Limit] | None = None  # of the next row, if it follows; None: all of the range

    def feed(self, log: Transitions, frame: Frame, first_row: int = 0, order: IntArray | None = None) -> None:
        """Rows of `log` that count, in their order or that of `order`; `first_row` is where they stand in a longer log."""
        rows = np.flatnonzero(frame.kept)
        continues = frame.continues
        if order is not None:
            place = np.argsort(order[rows], kind="stable")
            rows, continues = rows[place], continues[place]
        if rows.size:
            self._check(log.rewards[rows], continues, self._follows(log, rows, continues), rows + first_row)

    def _follows(self, log: Transitions, rows: IntArray, continues: BoolArray) -> BoolArray:
        """Whether a row follows the one before it: next time in the same episode, or the state it led to."""
        assert log.truncations is not None
        now = _Keys(
            goes_on=continues & ~log.truncations[rows],
            leads_to=log.next_observations[rows],
            episodes=None if log.episode_ids is None else np.asarray(log.episode_ids)[rows],
            times=None if log.timesteps is None else log.timesteps[rows],
        )
        before = now.shifted(self._last)
        follows = before.goes_on
        if now.episodes is not None:
            follows = follows & (now.episodes == before.episodes)
        if now.times is not None and before.times is not None:
            follows = follows & (now.times == before.times + 1)
        if now.episodes is None or now.times is None:
            follows = follows & (log.observations[rows] == before.leads_to).all(axis=1)
        if self._last is None:
            follows[0] = False
        self._last = now.last()
        return np.asarray(follows)

    def _check(self, rewards: FloatArray, continues: BoolArray, follows: BoolArray, rows: IntArray) -> None:
        """Walk along the rows at which less than the whole range is left; the others say nothing."""
        gamma, low, high = self._terms.gamma, self._low, self._high
        narrows = (rewards + gamma * low < low) | (rewards + gamma * high > high)
        starts = np.flatnonzero(np.where(continues, narrows, (rewards > high) | (rewards < low)))
        k, left = 0, self._left if follows[0] else None
        while k < rewards.size:
            if left is None:
                at = int(np.searchsorted(starts, k))
                if at == starts.size:
                    break
                k = int(starts[at])
                left = _Limit(low), _Limit(high)
            left = self._step(left, float(rewards[k]), bool(continues[k]), int(rows[k]))
            k += 1
            if k < rewards.size and not follows[k]:
                left = None
        self._left = left if k == rewards.size else None

    def _step(
        self, left: tuple[_Limit, _Limit], reward: float, goes_on: bool, row: int
    ) -> tuple[_Limit, _Limit] | None:
        """What is left for the return from the next row; None if that is the whole range."""
        gamma, lowest, highest = self._terms.gamma, left[0].at(row), left[1].at(row)
        if not goes_on or gamma == 0.0:
            if not lowest.value <= reward <= highest.value:
                limit = lowest if reward < lowest.value else highest
                raise self._contradiction(limit, row, reward, goes_on=False)
            return None
        low = (lowest.value - reward) / gamma
        high = (highest.value - reward) / gamma
        if low > self._high:
            raise self._contradiction(lowest, row, reward + gamma * self._high, goes_on=True)
        if high < self._low:
            raise self._contradiction(highest, row, reward + gamma * self._low, goes_on=True)
        if low <= self._low and high >= self._high:
            return None
        return (
            _Limit(self._low) if low <= self._low else _Limit(low, lowest.row, lowest.steps + 1),
            _Limit(self._high) if high >= self._high else _Limit(high, highest.row, highest.steps + 1),
        )

    def _contradiction(self, limit: _Limit, row: int, value: float, *, goes_on: bool) -> InvalidInput:
        """`value` is the return from `row` closest to the range; that from `limit.row` is as far outside, discounted."""
        assert self._terms.value_range is not None
        low, high = self._terms.value_range
        outside = value - limit.value
        end = high if outside > 0 else low
        found = end + outside * self._terms.gamma**limit.steps
        what = f"The discounted return from row {limit.row} is {found:.6g}"
        if goes_on:
            direction = "at least" if outside > 0 else "at most"
            what = f"Whatever follows row {row}, the discounted return from row {limit.row} is {direction} {found:.6g}"
        return InvalidInput(
            f"{what}, outside the stated `value_range` [{low}, {high}]. The interval is valid only if every return from any "
            "state-action pair is inside; pass a wider range, or leave it out."
        )


def check_returns(log: Transitions, frame: Frame, terms: Terms) -> None:
    """A log in memory, episode by episode, also where rows of several episodes alternate."""
    if terms.value_range is None:
        return
    order = None
    if log.episode_ids is not None:
        _, order = np.unique(np.asarray(log.episode_ids), return_inverse=True)
        order = order.reshape(-1)
    ReturnCheck(terms).feed(log, frame, 0, order)
