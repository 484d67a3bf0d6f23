"""Whether the episodes of a log start where the stated initial distribution does: what trajectory methods rest on."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput
from bondic.rows import Rows
from bondic.rows.episodes import columns_of, episode_numbers, own_starts

IntArray = npt.NDArray[np.int64]


def check_starts(problem: Rows, first: IntArray) -> None:
    """Weighted returns are values of the episodes' own starts: refused where these are no draws of the stated d_0.

    An exact list must hold every one of them. In each of d coordinates the distribution functions of n draws and of d_0 differ
    by more than sqrt(log(2d/p) / (2n)) with probability p/d at most (Dvoretzky, Kiefer, Wolfowitz, Massart).
    """
    if own_starts(problem):
        return
    states = problem.initial_states
    observed = columns_of(problem).observations[problem.whole().log_rows[first]] + 0.0
    if states.kind == "exact":
        likely = {row.tobytes() for row in states.observations[states.weights > 0] + 0.0}
        strange = next((k for k, row in enumerate(observed) if row.tobytes() not in likely), None)
        if strange is not None:
            raise InvalidInput(
                f"The episode of row {int(problem.whole().log_rows[first[strange]])} starts at {observed[strange]}, which is not "
                f"in the exact list of initial states, or has the weight 0 there. {_OWN}"
            )
    sizes = [len(observed)] if states.kind == "exact" else [len(observed), len(states)]
    allowed = sum(math.sqrt(math.log(4 * observed.shape[1] / _BY_CHANCE) / (2 * size)) for size in sizes)
    for column, mine in enumerate(observed.T):
        stated = states.observations[:, column] + 0.0
        places = np.unique(np.concatenate([mine, stated]))
        share = np.bincount(np.searchsorted(places, mine), minlength=places.size) / mine.size
        weight = np.bincount(np.searchsorted(places, stated), weights=states.weights, minlength=places.size)
        apart = float(np.abs(np.cumsum(share - weight)).max())
        if apart > allowed:
            raise InvalidInput(
                f"The {len(observed)} episodes of the log do not start from the stated initial distribution: in column {column} "
                f"of the states the distribution functions differ by {apart:.3g}, which chance does not explain. {_OWN}"
            )


_OWN = (
    "Trajectory methods estimate the value from the episodes' own starts, whatever others were stated: leave `initial` out (no "
    "--initial), or use a method that starts elsewhere, such as Dual()."
)
_BY_CHANCE = 1e-6
"""Starts that draws of the stated distribution would differ so much from with a smaller probability refute it."""


def starts_are_episodes(problem: Rows) -> bool:
    """Whether initial state j is the first state of episode j, as InitialStates.from_log makes them."""
    states = problem.initial_states
    if not problem.log.has_episode_ids or states.kind == "exact":
        return False
    numbers = episode_numbers(problem)
    _, first = np.unique(numbers, return_index=True)
    own = columns_of(problem).observations[problem.whole().log_rows[first]]
    return bool(own.shape == states.observations.shape and np.array_equal(own, states.observations))
