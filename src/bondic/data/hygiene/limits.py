"""Ends: a time limit that was recorded as a termination, and episodes that are missing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bondic.data._arrays import FloatArray, IntArray
from bondic.data.hygiene.chance import poisson_surprise
from bondic.data.hygiene.consecutive import ConsecutiveRows, EpisodeIndex
from bondic.data.hygiene.findings import Finding
from bondic.data.hygiene.marks import Marks, state_marks

FEWEST = 5
"""Episodes of one and the same length before that length is taken for a limit."""
_LONG = 10
_RARE = float(np.log(1e4))
"""Beside shorter episodes a limit is at least so long, and reached more often than chance would in one of 10 000 logs."""
_MIN_IDS = 10
_MAX_STATES = 100_000


class LimitCheck:
    """Keeps where rows that go on are, and where the longest episodes end: ranges of columns, and discrete states."""

    def __init__(self) -> None:
        self._inside: tuple[FloatArray, FloatArray] | None = None
        self._at_end: tuple[FloatArray, FloatArray] | None = None
        self._longest = 0
        self._discrete = True
        self._going_on: Marks = np.zeros(0, dtype=np.uint64)
        self._final: Marks = np.zeros(0, dtype=np.uint64)

    def add(self, part: ConsecutiveRows, episodes: EpisodeIndex) -> None:
        rows = part.rows.take(part.fresh)
        self._discrete &= part.discrete and self._going_on.size < _MAX_STATES
        goes_on = rows.observations[~rows.terminated]
        if goes_on.shape[0]:
            self._inside = widened(self._inside, goes_on)
            if self._discrete:
                self._going_on = np.union1d(self._going_on, state_marks(goes_on))
        if not rows.terminated.any():
            return
        longest = int(episodes.lengths[episodes.ends == 1].max(initial=0))
        if longest > self._longest:
            self._longest, self._at_end, self._final = longest, None, self._final[:0]
        ids = episodes.ids[(episodes.ends == 1) & (episodes.lengths == longest)]
        here = rows.terminated & np.isin(rows.ids, ids)
        if here.any():
            self._at_end = widened(self._at_end, rows.observations[here])
            if self._discrete:
                self._final = np.union1d(self._final, state_marks(rows.observations[here]))

    def findings(self, episodes: EpisodeIndex, *, gamma: float | None, horizon: int | None) -> Iterator[Finding]:
        """`gamma` and `horizon` of the question: with gamma = 0, or a horizon that ends there, such a limit is natural."""
        lengths = episodes.lengths[episodes.ends == 1]
        if lengths.size < FEWEST or (episodes.ends == 2).any() or gamma == 0:
            return
        limit = int(lengths.max())
        at_limit = int((lengths == limit).sum())
        if limit < 2 or int(episodes.lengths.max()) > limit or (horizon is not None and horizon <= limit):
            return
        always = at_limit == lengths.size
        if not (always or self._stands_out(lengths, limit, at_limit)) or self._shown_by_state():
            return
        row = int(episodes.first_rows[(episodes.ends == 1) & (episodes.lengths == limit)][0])
        which = f"All {at_limit}" if always else f"{at_limit} of {lengths.size}"
        yield Finding(
            "time-limit", "warn", at_limit, row,
            f"{which} terminated episodes end after exactly {limit} steps, none later, and no row is truncated (first: the "
            f"episode of row {row}). A time limit that is recorded as a termination says that nothing is earned after it, and "
            "the interval is too low or too high by what would have been earned.",
            f"Mark such rows as truncated, with the state that followed; pass horizon={limit} (--horizon {limit}) if only these "
            "steps count.",
        )  # fmt: skip

    @staticmethod
    def _stands_out(lengths: IntArray, limit: int, at_limit: int) -> bool:
        """Against a Poisson number of ends with the mean of the lengths before."""
        near = int(((2 * lengths >= limit) & (lengths < limit)).sum())
        mean = (near + 1) / (limit - limit // 2)
        return limit >= _LONG and at_limit >= FEWEST and poisson_surprise(at_limit, mean) > _RARE

    def _shown_by_state(self) -> bool:
        """Whether the state knows that it is over: discrete states that never go on, or a column at its very end."""
        if self._discrete and self._final.size and not np.isin(self._final, self._going_on).any():
            return True
        if self._inside is None or self._at_end is None:
            return False
        low, high = self._at_end
        return bool(((low == high) & ((low > self._inside[1]) | (high < self._inside[0]))).any())


def widened(known: tuple[FloatArray, FloatArray] | None, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The range of every column, these rows included."""
    low, high = values.min(axis=0), values.max(axis=0)
    return (low, high) if known is None else (np.minimum(known[0], low), np.maximum(known[1], high))


def missing_episodes(episodes: EpisodeIndex) -> Iterator[Finding]:
    """Running numbers with holes; numbers of which more than half are not there are names, and are not judged."""
    if not episodes.has_ids or episodes.ids.size < _MIN_IDS:
        return
    ids = np.sort(episodes.ids)
    span = int(ids[-1]) - int(ids[0]) + 1
    missing = span - ids.size
    if not 0 < missing < ids.size:
        return
    hole = int(ids[np.flatnonzero(np.diff(ids) > 1)[0]])
    row = int(episodes.first_rows[episodes.ids == hole][0])
    yield Finding(
        "missing-episodes", "warn", missing, row,
        f"Episode numbers run from {ids[0]} to {ids[-1]}, and {missing} of them are missing (first: {hole + 1}, after the "
        f"episode of row {row}). If episodes were left out because of what happened in them, the interval is wrong.",
        "Put the missing episodes back.",
    )  # fmt: skip
