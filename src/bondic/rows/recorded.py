"""Returns as the log recorded them: the discounted sum of every episode, its steps, and whether it came to an end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bondic.data._arrays import BoolArray, FloatArray, IntArray
from bondic.data.episodes import Episodes
from bondic.rows.rows import Rows


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
        episodes = Episodes.of(part)
        counts = episodes.step < horizon if horizon is not None else np.ones(len(part), dtype=bool)
        worth = np.where(counts, part.rewards * problem.gamma**episodes.step, 0.0)
        sums = np.asarray(np.bincount(episodes.number, weights=worth), dtype=np.float64)
        ended = np.bincount(episodes.number, weights=part.terminations) > 0
        ended |= episodes.lengths >= horizon if horizon is not None else False
        kept = np.ones(episodes.first.size, dtype=bool)
        if part.timesteps is not None:
            kept = np.asarray(part.timesteps[episodes.first] == 0)
        if part.episode_ids is not None:
            names = np.asarray(part.episode_ids)[episodes.first]
            kept &= ~np.isin(names, seen)
            seen = np.union1d(seen, names)
        found.append((sums[kept], episodes.lengths[kept], ended[kept]))
    return Recorded(
        np.concatenate([one[0] for one in found]),
        np.concatenate([one[1] for one in found]),
        np.concatenate([one[2] for one in found]),
    )
