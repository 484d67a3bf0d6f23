"""A log as it was read, with everything that was understood on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from bondic.data.transitions import Transitions

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Encoding:
    """How text became numbers: `values[j]` is code j, or has the 0/1 column `columns[j]`."""

    kind: Literal["one-hot", "codes", "actions"]
    values: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class LoadedLog:
    """The log, what its columns were taken for, and the target policy's probabilities if the log holds them.

    `next_action_probs[i]` is pi(. | s'_i) and `logged_action_probs[i]` is pi(. | s_i) for every row of `transitions`;
    `initial_action_probs[j]` belongs to the first row of the j-th episode, in the order of `InitialStates.from_log`.
    They are checked as probabilities where they are used. A policy is asked at the encoded observations: `names` lists
    their dimensions in order.
    """

    transitions: Transitions
    notes: tuple[str, ...]  # those that touch validity are of type Doubt
    names: tuple[str, ...]
    encodings: Mapping[str, Encoding] = field(default_factory=dict)
    next_action_probs: FloatArray | None = None
    initial_action_probs: FloatArray | None = None
    logged_action_probs: FloatArray | None = None
