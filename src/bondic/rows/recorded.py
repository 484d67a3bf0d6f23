"""Returns as the log recorded them: the discounted sum of every episode, its steps, and whether it came to an end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.rows.rows import Rows

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Recorded:
    """Episodes that begin in a stretch of rows, in order of their first row.

    Rows of an episode are taken in their order. Where a log is read in parts, an episode that goes on in a later part counts
    as cut there, and its rest is left out.
    """

    returns: FloatArray  # (episodes,) discounted, of what was recorded
    steps: IntArray  # (episodes,)
    ended: BoolArray  # (episodes,) terminated, or reached the horizon


def recorded_returns(problem: Rows) -> Recorded:
    """One pass over the rows of the problem; episodes by their ids, else by their ends."""
    horizon = problem.terms.horizon
    found: list[tuple[FloatArray, IntArray, BoolArray]] = []
    seen = np.zeros(0, dtype=np.int64)
    for _, part in problem.log.batches(problem.rows):
        ends = part.terminations | np.asarray(part.truncations)
        derived = np.concatenate([[0], np.cumsum(ends[:-1])])
        names, first, ids = np.unique(
            derived if part.episode_ids is None else part.episode_ids, return_index=True, return_inverse=True
        )
        order = np.argsort(ids, kind="stable")
        rows, begins = ids[order], np.searchsorted(ids[order], np.arange(len(names)))
        steps = np.arange(len(rows)) - begins[rows]
        counts = steps < horizon if horizon is not None else np.ones(len(rows), dtype=bool)
        worth = np.where(counts, part.rewards[order] * problem.gamma**steps, 0.0)
        sums = np.asarray(np.bincount(rows, weights=worth), dtype=np.float64)
        length = np.bincount(rows)
        ended = np.bincount(rows, weights=part.terminations[order]) > 0
        ended |= length >= horizon if horizon is not None else False
        whole = np.ones(len(names), dtype=bool)
        if part.timesteps is not None:
            whole = np.asarray(part.timesteps[order][begins] == 0)
        if part.episode_ids is not None:
            whole &= ~np.isin(names, seen)
            seen = np.union1d(seen, names)
        kept = np.argsort(first, kind="stable")
        kept = kept[whole[kept]]
        found.append((sums[kept], length[kept], ended[kept]))
    return Recorded(
        np.concatenate([one[0] for one in found]),
        np.concatenate([one[1] for one in found]),
        np.concatenate([one[2] for one in found]),
    )
