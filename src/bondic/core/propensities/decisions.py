"""What rows with propensities are made of: rewards, ratios, units, and what is known about the values in them (section 13).

A unit is a row where every row is a decision of its own, else an episode: one bet is made on every unit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import U
from bondic.core.claims import End
from bondic.core.columns import Columns, RowRange
from bondic.core.errors import InvalidInput
from bondic.core.propensities.ratios import Ratios
from bondic.core.propensities.strata import Strata
from bondic.core.terms import Terms, ValueRange, range_of

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Target:
    """π at the logged states of a stretch: of the logged actions (n,), or of all actions (n, slots)."""

    rows: tuple[int, int]
    probs: FloatArray

    def of(self, wanted: RowRange, dimensions: int) -> FloatArray:
        if not (self.rows[0] <= wanted.start and wanted.stop <= self.rows[1] and self.probs.ndim == dimensions):
            raise InvalidInput(
                f"The policy's probabilities at logged states are those of rows {self.rows}, not {wanted}."
            )
        return self.probs[wanted.start - self.rows[0] : wanted.stop - self.rows[0]]


@dataclass(frozen=True, eq=False)
class Decisions:
    """Rows that count, in order, as seen from one end: the upper one is the lower one of the negated rewards."""

    end: End
    terms: Terms  # of this end: ranges are negated for the upper one
    rows: IntArray  # (n,) in the log
    rewards: FloatArray  # (n,)
    ratios: Ratios  # (n,)
    continues: BoolArray  # (n,) the step has a next one
    observations: FloatArray  # (n, d)
    slots: IntArray  # (n,) the logged action; 0 where actions are no names
    probs: FloatArray | None  # (n, slots) π(.|s_i), where it was asked for
    episodes: IntArray | None = None  # (n,) 0, 1, ... in order of their first row; None: every row is a unit
    steps: IntArray | None = None  # (n,) within the episode

    @property
    def units(self) -> int:
        return len(self.rows) if self.episodes is None else int(self.episodes.max()) + 1

    @property
    def one_by_one(self) -> bool:
        """Whether the rows of every unit stand together, as control variates of episodes need them."""
        return self.episodes is None or bool(np.all(np.diff(self.episodes) >= 0))

    @property
    def sign(self) -> float:
        return 1.0 if self.end == "lower" else -1.0

    @property
    def limits(self) -> ValueRange:
        """Of a unit's value, as seen from this end."""
        return range_of(self.terms)

    def first(self, count: int) -> Decisions:
        """The first rows alone, all of their units: nothing in them tells what follows."""
        names = ["rows", "rewards", "continues", "observations", "slots", "probs", "episodes", "steps"]
        parts = {name: getattr(self, name)[:count] for name in names if getattr(self, name) is not None}
        return replace(self, ratios=Ratios(self.ratios.values[:count], self.ratios.errors[:count]), **parts)

    def seen_from(self, end: End) -> Decisions:
        """The same rows for an end."""
        if end == self.end:
            return self
        return replace(self, end=end, terms=_negated(self.terms), rewards=-self.rewards)


def _negated(terms: Terms) -> Terms:
    low, high = terms.reward_range
    stated = None if terms.value_range is None else (-terms.value_range[1], -terms.value_range[0])
    return replace(terms, reward_range=(-high, -low), value_range=stated)


def start_states(columns: Decisions) -> FloatArray:
    """Where units start, (units, d)."""
    return columns.observations if columns.steps is None else columns.observations[columns.steps == 0]


def strata_of(rows: Columns, columns: Decisions) -> Strata:
    """The units by the states of the stated list that they start at; equal states of the list are one, their weights added."""
    states = rows.initial_states
    if states.kind != "exact":
        raise InvalidInput("Stated starts are answered where they are an exact list of states with weights.")
    if not rows.states_recorded:
        raise InvalidInput(
            "The log has no observations (others stand in for them): nothing says which rows start at the stated states. Leave "
            "`initial` out (no --initial) for the value over the log's own starts."
        )
    weights: dict[bytes, float] = {}
    for state, weight in zip(states.observations + 0.0, states.weights.tolist(), strict=True):
        if weight > 0:
            weights[state.tobytes()] = weights.get(state.tobytes(), 0.0) + weight
    numbers = {state: number for number, state in enumerate(weights)}
    lower = np.array(list(weights.values())) * (1 - states.weights_error - (len(states) + 4) * 2 * U)
    places = [numbers.get(state.tobytes(), -1) for state in start_states(columns) + 0.0]
    return Strata(np.array(places, dtype=np.int64), lower)


def one_start(rows: Columns, columns: Decisions) -> bool:
    """Whether d_0 was stated as one state, and every unit starts there: then the log's own starts are the stated ones."""
    states = rows.initial_states
    if states.kind != "exact":
        return False
    likely = states.observations[states.weights > 0] + 0.0
    return bool(np.all(likely == likely[0]) and np.all(start_states(columns) + 0.0 == likely[0]))


def check_draws(rows: Columns, columns: Decisions) -> None:
    """InvalidInput where others than the log's own starts were stated: its units are no draws of those."""
    if not (rows.own_starts or one_start(rows, columns)):
        refuse_other_starts(rows)


def refuse_other_starts(rows: Columns) -> NoReturn:
    what = "an exact list" if rows.initial_states.kind == "exact" else "a sample that was not read off this log"
    raise InvalidInput(
        f"The stated initial states are {what}. Propensities weigh what the log's own decisions (episodes) earned: their mean is "
        "the value over the log's own starts, whatever others were stated. Leave `initial` out (no --initial) for that value; "
        "state the starts as a list with weights, InitialStates.exact(states, weights), which is answered from the rows that "
        "start there; or use a method that starts elsewhere: Sequential(), Dual()."
    )
