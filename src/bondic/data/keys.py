"""Keys of a log that is read in parts: an episode may go on in a later part, but not backwards and not after its end."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from bondic.data import _arrays
from bondic.data.hygiene.marks import fingerprints
from bondic.data.transitions import Transitions
from bondic.errors import InvalidInput, ValidityWarning

IntArray = npt.NDArray[np.int64]

_MOST_FINGERPRINTS = 30_000_000


class KeyCheck:
    """The checks of one log in memory, with a few numbers per episode carried from part to part."""

    def __init__(self) -> None:
        self._copies = _Copies()
        self._ids: IntArray = np.zeros(0, dtype=np.int64)  # sorted
        self._last: IntArray = np.zeros((0, 3), dtype=np.int64)  # last row, its timestep, whether it is terminated

    def add(self, part: Transitions, first_row: int) -> None:
        """Check the next rows of the log."""
        with _arrays.counting_from(first_row):
            part._check_keys()
        if part.episode_ids is None or part.timesteps is None:
            self._copies.add(part, first_row)
        if part.episode_ids is None:
            return
        episodes = np.asarray(part.episode_ids)
        ids, first = np.unique(episodes, return_index=True)
        # the last row of each episode is the first one from behind
        last = episodes.size - 1 - np.unique(episodes[::-1], return_index=True)[1]
        place = np.searchsorted(self._ids, ids)
        known = np.zeros(ids.size, dtype=bool)
        inside = place < self._ids.size
        known[inside] = self._ids[place[inside]] == ids[inside]
        self._compare(part, first[known], self._last[place[known]], first_row)
        times = np.zeros(episodes.size, dtype=np.int64) if part.timesteps is None else part.timesteps
        entries = np.column_stack([last + first_row, times[last], part.terminations[last].astype(np.int64)])
        self._last[place[known]] = entries[known]
        self._ids = np.insert(self._ids, place[~known], ids[~known])
        self._last = np.insert(self._last, place[~known], entries[~known], axis=0)

    @staticmethod
    def _compare(part: Transitions, first: IntArray, before: IntArray, first_row: int) -> None:
        """The first row here of every episode that began earlier, against its last row there."""
        if (bad := _arrays.first(before[:, 2] == 1)) is not None:
            row, end = first[bad] + first_row, before[bad, 0]
            raise InvalidInput(
                f"Row {row} follows row {end} in the same episode, but row {end} is terminated. Nothing follows a "
                "termination: drop the rows after it, or give the new episode its own id."
            )
        if part.timesteps is None:
            return
        now = part.timesteps[first]
        if (bad := _arrays.first(now <= before[:, 1])) is not None:
            row, end = first[bad] + first_row, before[bad, 0]
            what = "the same key as" if now[bad] == before[bad, 1] else "an earlier timestep than"
            raise InvalidInput(
                f"Row {row} (timestep {now[bad]}) carries {what} row {end} (timestep {before[bad, 1]}) of the same episode, "
                "further up in the log. Row order is the order of time, and a copied row is not new data: sort each episode "
                "by timestep and keep each event once."
            )


class _Copies:
    """Rows that equal a row of an earlier batch, by 64-bit fingerprints: 8 bytes a row, for logs without keys only."""

    def __init__(self) -> None:
        self._seen: npt.NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)
        self._warned = False

    def add(self, part: Transitions, first_row: int) -> None:
        if self._warned or part.discrete_observations or self._seen.size > _MOST_FINGERPRINTS:
            return
        marks = fingerprints(part.row_matrix())
        copied = np.isin(marks, self._seen)
        if copied.any():
            self._warned = True
            warnings.warn(
                f"Row {first_row + int(np.flatnonzero(copied)[0])} and {int(copied.sum()) - 1} more of its batch equal rows "
                "further up in every value although observations are continuous. If they are the same events logged twice "
                "the interval is not valid: add episode_ids and timesteps, or remove them. They are kept.",
                ValidityWarning,
                stacklevel=4,
            )
        self._seen = np.union1d(self._seen, marks)
