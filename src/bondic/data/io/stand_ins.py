"""Columns for what a log of probabilities does not record: steps in place of observations, zeros in place of actions.

Where the target policy's probabilities of the logged actions stand in the log, nothing else has to be known of states and
actions. The log says what stands in for what (`Transitions.unrecorded`), and serves `LoggedTarget` alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.data import _arrays
from bondic.data.io.encode import Encoded
from bondic.errors import InvalidInput

IntArray = npt.NDArray[np.int64]

_NOTE = "There is no column for observations: the step within the episode stands in for them, which only LoggedTarget() allows."
NO_ACTIONS = (
    "There is no column for actions: zeros stand in for them, which only LoggedTarget() (--policy logged) allows."
)


def steps_as_observations(source: str, parts: dict[str, Any], rows: int, *, one_step: bool, streamed: bool) -> Encoded:
    """The step of every row as its observation; ids and timesteps are filled in where ends tell them."""
    if one_step:
        steps = np.zeros(rows, dtype=np.int64)
    elif parts["timesteps"] is not None:
        steps = _arrays.integers("timesteps", parts["timesteps"], rows)
    elif streamed:
        raise InvalidInput(
            f"{source} has neither observations nor timesteps. A streamed log cannot count steps across its parts: name the "
            "column with the step, columns={'timesteps': 'name'} (--columns timesteps=NAME), or load the log with read_log."
        )
    else:
        steps = _counted(parts, rows)
        parts["timesteps"] = steps
    here = steps.astype(np.float64)[:, None]
    return Encoded(here, here + 1.0, ("step",), {}, (_NOTE,))


def _counted(parts: dict[str, Any], rows: int) -> IntArray:
    """Steps within episodes, which are told apart by their ids, else by their ends."""
    if parts["episode_ids"] is None:
        ends = _arrays.flags("terminations", parts["terminations"], rows)
        if parts["truncations"] is not None:
            ends = ends | _arrays.flags("truncations", parts["truncations"], rows)
        parts["episode_ids"] = np.cumsum(np.concatenate([[0], ends[:-1]])).astype(np.int64)
    codes = _arrays.identifiers("episode_ids", parts["episode_ids"], rows)
    order = np.argsort(codes, kind="stable")
    steps = np.empty(rows, dtype=np.int64)
    steps[order] = np.arange(rows) - np.searchsorted(codes[order], codes[order])
    return steps
