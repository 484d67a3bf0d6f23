"""Where the policy starts: this log's starts, a stated list with weights, or a sample of a population (sections 1 and 17)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from bondic.core.columns import Kind, Starts
from bondic.core.errors import InvalidInput
from bondic.data import _arrays
from bondic.data._arrays import FloatArray, IntArray
from bondic.data.episodes import episode_starts
from bondic.data.log import Log
from bondic.data.transitions import Transitions
from bondic.data.unread import Unread

_WEIGHT_TOLERANCE = 1e-6
_UNIT = 2.0**-53
Population = Literal["iid"]
"""A statement on where starts come from: independent draws of one distribution, given everything before."""


def check_population(value: Any) -> None:
    if value not in (None, "iid"):
        raise InvalidInput(
            f"population={value!r}: 'iid' states that starts (of single decisions: contexts) are independent draws of one "
            "population, and the value is over that population. Left out, the value is the mean over the starts of this log."
        )


@dataclass(frozen=True, eq=False)
class InitialStates(Starts):
    """States that carry d_0, with weights that sum to 1.

    `kind="log"`: the starts of this log. The value is the mean over them, wherever they come from: nothing is assumed.
    `kind="exact"`: d_0 *is* this weighted list; no error probability is spent on it.
    `kind="sample"`: n_0 independent draws of d_0, n_0 fixed beforehand; part of alpha is spent on
    |J* - J_emp| <= (v_hi - v_lo) sqrt(log(2/delta_0) / (2 n_0)).

    Parameters
    ----------
    observations : array of float, (n_0, d)
        One initial state per row, in the columns of the log.
    weights : array of float, (n_0,)
        Their probabilities; 1 / n_0 each for a sample.
    kind : {"log", "exact", "sample"}
        Whether these are the starts of the log, d_0 itself, or draws of it. `from_log`, `exact` and `sample` set it.
    count_fixed : bool, default True
        Whether n_0 was fixed beforehand; if not, a bound that holds for every n_0 is used, which is a little wider.
    from_rows : bool, default False
        Whether they were read off the log: tuning must not see them, since certified rows are among them.
    """

    def __post_init__(self) -> None:
        put = _arrays.setter(self)
        if self.kind not in ("log", "exact", "sample"):
            raise InvalidInput(f"`kind` of the initial states is {self.kind!r}; it is 'log', 'exact' or 'sample'.")
        put("observations", _arrays.matrix("initial observations", self.observations))
        count = self.observations.shape[0]
        if count == 0:
            raise InvalidInput("There are no initial states. The value of a policy needs a place to start.")
        weights = _arrays.vector("initial weights", self.weights, count)
        if (row := _arrays.first(weights < 0)) is not None:
            raise InvalidInput(f"The weight of initial state {row} is {weights[row]}; weights are probabilities, >= 0.")
        total = float(weights.sum())
        if abs(total - 1.0) > _WEIGHT_TOLERANCE:
            raise InvalidInput(
                f"The weights of the initial states sum to {total}, not 1. Divide by their sum if that is meant."
            )
        if self.kind == "exact" and not self.count_fixed:
            raise InvalidInput(
                "count_fixed=False is for a sample; an exact list of initial states has no count to fix."
            )
        used = weights[np.argmax(weights > 0) :] if self.kind == "log" else weights
        if self.kind != "exact" and np.ptp(used) > 0:
            raise InvalidInput(
                "Initial states of a log, or of a sample, have equal weights. Use InitialStates.exact for a weighted list."
            )
        # weights that were divided by their sum before stay as they are: reading them back changes no bit
        put("weights", weights if abs(total - 1.0) <= count * _UNIT else weights / total)

    @staticmethod
    def exact(observations: Any, weights: Any = None) -> InitialStates:
        """d_0 is this list of states (uniform unless weights are given)."""
        states = _arrays.matrix("initial observations", observations)
        return InitialStates(states, _equal(states) if weights is None else weights, "exact")

    @staticmethod
    def sample(observations: Any, *, count_fixed: bool = True) -> InitialStates:
        """n_0 independent draws of d_0; `count_fixed=False` when their number was not fixed beforehand."""
        states = _arrays.matrix("initial observations", observations)
        return InitialStates(states, _equal(states), "sample", count_fixed)

    @staticmethod
    def from_log(log: Log, *, population: Population | None = None, count: int | None = None) -> InitialStates:
        """The first observation of every episode of the log: the value is the mean over these starts.

        `population="iid"` states that they are independent draws of d_0, a sample of uncontrolled size; with `count` the first
        `count` of them, a sample whose size you fixed before looking. Episodes are identified by `episode_ids`; without
        them a row after a termination or truncation starts a new one.
        """
        check_population(population)
        if count is not None and (not isinstance(count, int | np.integer) or count < 1):
            raise InvalidInput(f"The number of initial states is {count!r}; a whole number >= 1 is needed.")
        total = _count_starts(log)
        if count is not None and total < count:
            raise InvalidInput(
                f"The log has {total} episode starts, fewer than the {count} that were stated. A number that was "
                "fixed beforehand is not changed afterwards. Leave it out: all starts are then used (a slightly longer interval)."
            )
        used, fixed = total if count is None else count, count is not None
        kind: Kind = "sample" if fixed or population else "log"
        if log.held:
            states = read_starts(log, used)
            return InitialStates(states, _equal(states), kind, fixed, from_rows=True)
        return LogStarts.made_by(
            lambda: {"observations": read_starts(log, used)},
            log=log, weights=np.broadcast_to(1.0 / used, (used,)), kind=kind, count_fixed=fixed, from_rows=True,
        )  # fmt: skip

    def since(self, count: int) -> InitialStates:
        """The starts of the log without the first `count`, which keep their place with weight 0."""
        left = len(self) - count
        return replace(self, weights=np.where(np.arange(len(self)) < count, 0.0, 1.0 / max(left, 1)))

    def of_log(self, log: Log) -> InitialStates:
        """Starts of the same kind, read off another stretch of the log."""
        return InitialStates.from_log(log, population="iid" if self.kind == "sample" else None)


class LogStarts(Unread, InitialStates):
    """Starts of a log that is read in batches."""

    log: Log

    def __len__(self) -> int:
        return int(self.weights.size)

    def same(self, other: Starts) -> bool:
        alike = isinstance(other, LogStarts) and not (self.made or other.made) and other.log is self.log
        if alike and (len(self), self.kind, self.count_fixed) == (len(other), other.kind, other.count_fixed):
            return True
        return super().same(other)


def of_stream(states: InitialStates, log: Log) -> bool:
    """Whether these are starts of this log, which can be read off it again."""
    return isinstance(states, LogStarts) and vars(states).get("log") is log


def first_starts(states: InitialStates, count: int) -> FloatArray:
    """Some of them, without reading the others."""
    if isinstance(states, LogStarts) and not states.made:
        return read_starts(states.log, min(len(states), count))
    return states.observations[:count]


def read_starts(log: Log, count: int) -> FloatArray:
    """The first `count` starts, (count, d)."""
    found: list[FloatArray] = []
    for _, part, starts in episode_starts(log):
        found.append(part.observations[starts[:count]])
        count -= len(found[-1])
        if not count:
            break
    return np.concatenate(found)


def _count_starts(log: Log) -> int:
    """How many there are; refused where the log does not mark them, or where they are no starts."""
    if log.single_rows:
        return len(log)
    total, told_apart = 0, log.has_episode_ids
    for rows, part, starts in episode_starts(log):
        _refuse_late_starts(part, starts, rows.start)
        total += starts.size
        told_apart = told_apart or bool((part.terminations | np.asarray(part.truncations)).any())
    if not told_apart:
        raise InvalidInput(
            "The log has neither episode ids nor episode ends, so initial states cannot be read off it. Pass them: "
            "InitialStates.exact(states) or InitialStates.sample(states) (--initial FILE)."
        )
    return total


def _equal(states: FloatArray) -> FloatArray:
    return np.full(states.shape[0], 1.0 / max(states.shape[0], 1))


def _refuse_late_starts(part: Transitions, starts: IntArray, first_row: int) -> None:
    if part.timesteps is not None and (row := _arrays.first(part.timesteps[starts] != 0)) is not None:
        raise InvalidInput(
            f"The episode of row {first_row + starts[row]} starts at timestep {part.timesteps[starts[row]]}, not 0: its first "
            "row is not a draw of d_0. Pass the initial states yourself (InitialStates.exact or .sample; --initial FILE)."
        )
