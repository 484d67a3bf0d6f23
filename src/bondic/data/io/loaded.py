"""A log as it was read, with everything that was understood on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from bondic.data._arrays import FloatArray
from bondic.data.transitions import Transitions


@dataclass(frozen=True)
class Encoding:
    """How text became numbers: `values[j]` is code j, or has the 0/1 column `columns[j]`."""

    kind: Literal["one-hot", "codes", "actions"]
    values: tuple[str, ...]
    columns: tuple[str, ...]


def source_columns(names: Sequence[str], encodings: Mapping[str, Encoding]) -> tuple[str, ...]:
    """The columns that observations came from: a text column in place of what it became."""
    text = {column: name for name, coding in encodings.items() if coding.kind != "actions" for column in coding.columns}
    return tuple(dict.fromkeys(text.get(name, name) for name in names))


@dataclass(frozen=True)
class Coding:
    """How a log was understood, for another one that is to be read alike: a later part of it."""

    names: tuple[str, ...]
    encodings: dict[str, Encoding] = field(default_factory=dict)
    episodes: tuple[str, ...] = ()  # names of episodes in order of their numbers, if they are text


@dataclass(frozen=True, eq=False)
class LoadedLog:
    """The log, what its columns were taken for, and the target policy's probabilities if the log holds them.

    Probabilities are checked as such where they are used.

    Parameters
    ----------
    transitions : Transitions
        The log.
    notes : tuple of str
        What was understood on the way, in words; notes that touch validity are of type ValidityNote.
    names : tuple of str
        The dimensions of an observation, in order: a policy gets encoded observations.
    encodings : dict of Encoding
        How text became numbers, by column.
    next_action_probs : array of float, (n, actions), default None
        pi(. | s'_i) of the target policy for every row, where the log holds it.
    initial_action_probs : array of float, (episodes, actions), default None
        The same at the first row of every episode, in the order of `InitialStates.from_log`.
    logged_action_probs : array of float, (n, actions), default None
        pi(. | s_i) for every row.
    one_step : bool, default False
        It was stated, or is known of the format, that every row is an episode of its own.
    reading : dict, default {}
        What was stated about reading, as arguments of `read_log`.
    episode_names : tuple of str, default ()
        Names of episodes that are text; number j stands for the j-th.
    """

    transitions: Transitions
    notes: tuple[str, ...]
    names: tuple[str, ...]
    encodings: Mapping[str, Encoding] = field(default_factory=dict)
    next_action_probs: FloatArray | None = None
    initial_action_probs: FloatArray | None = None
    logged_action_probs: FloatArray | None = None
    one_step: bool = False
    reading: Mapping[str, Any] = field(default_factory=dict)
    episode_names: tuple[str, ...] = ()

    @property
    def coding(self) -> Coding:
        return Coding(self.names, dict(self.encodings), self.episode_names)
