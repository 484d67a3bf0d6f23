"""Keys of a log, whole or in parts: an episode may go on in a later part, but not backwards and not after its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bondic.core.errors import InvalidInput
from bondic.data import _arrays
from bondic.data._arrays import IntArray
from bondic.data.episodes import Episodes

if TYPE_CHECKING:
    from bondic.data.transitions import Transitions


_ROW, _TIME, _ENDED = 0, 1, 2


class OutOfOrder(InvalidInput):
    """A row comes before an earlier one of its episode."""


def out_of_order(row: int, time: int, before: int, time_before: int) -> OutOfOrder:
    return OutOfOrder(
        f"Row {row} (timestep {time}) comes after row {before} (timestep {time_before}) of the same episode. Row order is the "
        "order of time, and a copied row is not new data: sort the rows by episode and timestep before building the log, and "
        "keep each event once."
    )


class KeyCheck:
    """Feed it the rows in order; the last row of every episode is carried from part to part."""

    def __init__(self) -> None:
        self._ids: IntArray = np.zeros(0, dtype=np.int64)
        self._last: IntArray = np.zeros((0, 3), dtype=np.int64)  # last row, its timestep, whether it is terminated

    def add(self, part: Transitions, first_row: int = 0) -> None:
        """Check the next rows of the log."""
        if part.episode_ids is not None:
            self._check(part, np.asarray(part.episode_ids), first_row)

    def _check(self, part: Transitions, episodes: IntArray, first_row: int) -> None:
        times = np.zeros(episodes.size, dtype=np.int64) if part.timesteps is None else part.timesteps
        fresh = np.column_stack([np.arange(episodes.size) + first_row, times, part.terminations])
        known = np.isin(self._ids, episodes)
        ids, rows = np.concatenate([self._ids[known], episodes]), np.concatenate([self._last[known], fresh])
        if part.timesteps is not None:
            _refuse_repeated_keys(ids, rows)
        grouped = Episodes(ids)
        earlier, later = (rows[side] for side in grouped.pairs)
        back = _arrays.first(later[:, _TIME] < earlier[:, _TIME]) if part.timesteps is not None else None
        if (
            back is not None
        ):  # before what follows a termination: the last row of an episode is among those out of place
            raise out_of_order(*later[back, [_ROW, _TIME]].tolist(), *earlier[back, [_ROW, _TIME]].tolist())
        if (bad := _arrays.first(earlier[:, _ENDED] == 1)) is not None:
            row, end = later[bad, _ROW], earlier[bad, _ROW]
            raise InvalidInput(
                f"Row {row} follows row {end} in the same episode, but row {end} is terminated. Nothing follows a termination "
                "(vector environments that reset on the next step write such rows): drop rows whose action was not carried "
                "out, or give the new episode its own id. If the rows are out of order, sort them by episode and time."
            )
        last = grouped.last
        self._ids = np.concatenate([self._ids[~known], ids[last]])
        self._last = np.concatenate([self._last[~known], rows[last]])


def _refuse_repeated_keys(episodes: IntArray, rows: IntArray) -> None:
    """Before anything else: a log pasted twice also has rows after its terminations, with another way out."""
    order = np.lexsort((rows[:, _TIME], episodes))
    same = (np.diff(episodes[order]) == 0) & (np.diff(rows[order, _TIME]) == 0)
    if same.any():
        earlier, later = min(zip(order[1:][same], order[:-1][same], strict=True))[::-1]
        many = "" if same.sum() == 1 else f" (and {same.sum() - 1} more pairs: is the log pasted twice?)"
        raise InvalidInput(
            f"Rows {rows[earlier, _ROW]} and {rows[later, _ROW]} carry the same (episode, timestep) key{many}. A copied row is "
            "not new data and breaks the guarantee: keep each event once."
        )
