"""The log against a stated value range: the return G_i of every row must lie in [v_lo, v_hi].

G_i = r_i at a last row, G_i = r_i + gamma G_j where row j follows row i, and some number of [v_lo, v_hi] takes the place of
G_j where the log does not show what follows. What the rows before row j leave for G_j is an interval,

    A_j = [v_lo, v_hi] at the first row,    A_j = (A_i - r_i) / gamma  cut to [v_lo, v_hi],

and the log contradicts the statement where nothing is left. One pass, in batches of any size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bondic.core.errors import InvalidInput
from bondic.core.terms import Terms
from bondic.data._arrays import BoolArray, FloatArray, IntArray
from bondic.data.transitions import Transitions
from bondic.rows.batch import Frame

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


@dataclass(frozen=True, slots=True)
class _Open:
    """An episode that may go on in later rows, with less than the whole range left."""

    left: tuple[_Limit, _Limit]
    leads_to: FloatArray  # its next observation
    time: int | None


class ReturnCheck:
    """Feed it the rows in order, in any cut; it raises InvalidInput at the first contradiction.

    Rows of several episodes may alternate. Only episodes of which less than the whole range is left are remembered.
    """

    def __init__(self, terms: Terms) -> None:
        assert terms.value_range is not None
        self._terms, (low, high) = terms, terms.value_range
        scale = max(abs(low), abs(high), *map(abs, terms.reward_range))
        self._low, self._high = low - _TOLERANCE * scale, high + _TOLERANCE * scale
        self._open: dict[int, _Open] = {}

    def feed(self, log: Transitions, frame: Frame, first_row: int = 0) -> None:
        """Rows of `log` that count, episode by episode; `first_row` is where they stand in a longer log."""
        rows, continues = np.flatnonzero(frame.kept), frame.continues
        ids = np.zeros(rows.size, np.int64) if log.episode_ids is None else np.asarray(log.episode_ids)[rows]
        place = np.argsort(ids, kind="stable")
        rows, continues, ids = rows[place], continues[place], ids[place]
        if not rows.size:
            return
        first = np.concatenate([[True], ids[1:] != ids[:-1]])
        assert log.truncations is not None
        goes_on = continues & ~log.truncations[rows]
        follows = np.concatenate([[False], self._follows(log, rows[:-1], rows[1:]) & goes_on[:-1]]) & ~first
        tops = np.flatnonzero(first)
        entries = {int(k): left for k in tops if (left := self._resumed(log, int(rows[k]), int(ids[k]))) is not None}
        after = self._check(log.rewards[rows], continues, follows, rows + first_row, entries)
        for k in [*(tops[1:] - 1).tolist(), rows.size - 1]:
            if k in after and goes_on[k]:
                time = None if log.timesteps is None else int(log.timesteps[rows[k]])
                self._open[int(ids[k])] = _Open(after[k], log.next_observations[rows[k]].copy(), time)

    @staticmethod
    def _follows(log: Transitions, earlier: IntArray, later: IntArray) -> BoolArray:
        """Whether rows of one episode follow each other: next time, or the state that the earlier one led to."""
        follows = np.ones(earlier.size, dtype=bool)
        if log.timesteps is not None:
            follows &= log.timesteps[later] == log.timesteps[earlier] + 1
        if log.episode_ids is None or log.timesteps is None:
            follows &= (log.observations[later] == log.next_observations[earlier]).all(axis=1)
        return follows

    def _resumed(self, log: Transitions, row: int, episode: int) -> tuple[_Limit, _Limit] | None:
        """What earlier rows of the episode leave for this one, if it follows the last of them."""
        before = self._open.pop(episode, None)
        if before is None or (log.timesteps is not None and log.timesteps[row] != (before.time or 0) + 1):
            return None
        by_state = log.episode_ids is None or log.timesteps is None
        if by_state and not np.array_equal(log.observations[row], before.leads_to):
            return None
        return before.left

    def _check(
        self,
        rewards: FloatArray,
        continues: BoolArray,
        follows: BoolArray,
        rows: IntArray,
        entries: dict[int, tuple[_Limit, _Limit]],
    ) -> dict[int, tuple[_Limit, _Limit]]:
        """The range of the remaining return after stretches of rows, where it is less than the whole range."""
        gamma, low, high = self._terms.gamma, self._low, self._high
        narrows = (rewards + gamma * low < low) | (rewards + gamma * high > high)
        narrow = np.where(continues, narrows, (rewards > high) | (rewards < low))
        narrow[list(entries)] = True
        starts = np.flatnonzero(narrow)
        k, left, after = 0, None, {}
        while k < rewards.size:
            if left is None:
                at = int(np.searchsorted(starts, k))
                if at == starts.size:
                    break
                k = int(starts[at])
                left = entries.get(k, (_Limit(low), _Limit(high)))
            left = self._step(left, float(rewards[k]), bool(continues[k]), int(rows[k]))
            k += 1
            if left is not None and (k == rewards.size or not follows[k]):
                after[k - 1], left = left, None
        return after

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
