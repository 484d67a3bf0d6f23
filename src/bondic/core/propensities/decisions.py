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
from bondic.core.errors import InvalidInput
from bondic.core.propensities.ratios import Ratios, logged_ratios
from bondic.core.propensities.strata import Strata
from bondic.core.terms import Terms, ValueRange, range_of
from bondic.data.blocks import RowRange
from bondic.data.transitions import Transitions
from bondic.policies.answers import StoredAnswers
from bondic.policies.logged import logged_action_probs, logged_state_probs
from bondic.policies.logged_target import LoggedTarget
from bondic.rows import Rows
from bondic.rows.episodes import check_steps, episode_numbers, own_starts
from bondic.rows.frame import make_frame

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


def read_decisions(rows: Rows, target: Target | None, *, every_action: bool, drawn: bool = True) -> Decisions:
    """The columns of the rows, as seen from the lower end.

    `target` are stored answers; without them the log's columns are read (LoggedTarget), or the policy is asked. `every_action`
    asks for π(.|s_i) too. `drawn` as in `single_rows`.
    """
    parts = []
    for where, part in rows.log.batches(rows.rows):
        told = _told(rows, part, where, target, every_action=every_action)
        parts.append(_columns(rows, part, where, told))
    return _in_units(rows, _joined(parts), drawn=drawn)


def _columns(rows: Rows, part: Transitions, where: RowRange, told: FloatArray | None) -> Decisions:
    """Those of one batch that count; `told` is what the policy says at its states."""
    frame = make_frame(part, rows.terms)
    kept = np.flatnonzero(frame.kept)
    discrete = part.discrete_actions and not isinstance(rows.policy, LoggedTarget)
    slots = np.asarray(part.actions, dtype=np.int64) if discrete else np.zeros(len(part), dtype=np.int64)
    every = told if told is not None and told.ndim == 2 else None
    taken = told if every is None else every[np.arange(len(part)), slots]
    found = logged_ratios(part, taken, rows.layout.slots)
    return Decisions(
        "lower",
        rows.terms,
        kept + where.start,
        part.rewards[kept],
        Ratios(found.values[kept], found.errors[kept]),
        frame.continues,
        part.observations[kept],
        slots[kept],
        None if every is None else every[kept],
    )


def _joined(parts: list[Decisions]) -> Decisions:
    def all_of(name: str) -> npt.NDArray[np.generic]:
        return np.concatenate([getattr(part, name) for part in parts])

    names = ("rows", "rewards", "continues", "observations", "slots", *(() if parts[0].probs is None else ("probs",)))
    columns = {name: all_of(name) for name in names}
    return replace(parts[0], ratios=Ratios.joined([part.ratios for part in parts]), **columns)  # type: ignore[arg-type]


def _told(
    rows: Rows, part: Transitions, where: RowRange, target: Target | None, *, every_action: bool
) -> FloatArray | None:
    """π at the states of a batch, from wherever it is known; None: the log's own columns say it."""
    if target is not None:
        return target.of(where, 2 if every_action else 1)
    if isinstance(rows.policy, LoggedTarget):
        return None
    if isinstance(rows.policy, StoredAnswers):
        raise InvalidInput(
            "The certificate does not hold the policy's probabilities at the logged states: pass the policy (--policy SPEC)."
        )
    times = part.timesteps if rows.terms.time_varying else None
    slots, numbers = rows.layout.slots, np.arange(where.start, where.stop)
    if every_action:
        return logged_state_probs(rows.policy, part.observations, times, slots=slots, log_rows=numbers)
    return logged_action_probs(rows.policy, part.observations, part.actions, times, slots=slots, log_rows=numbers)


def ask_target(rows: Rows, *, every_action: bool) -> Target | None:
    """The policy at the logged states, to be stored; None where the log's own columns say it."""
    if isinstance(rows.policy, LoggedTarget):
        return None
    found = [_told(rows, part, where, None, every_action=every_action) for where, part in rows.log.batches(rows.rows)]
    return Target((rows.rows.start, rows.rows.stop), np.concatenate([one for one in found if one is not None]))


def single_rows(rows: Rows, *, drawn: bool = True) -> bool:
    """Whether every row is a unit: nothing follows any of them, or, with γ = 0, what follows counts for nothing.

    `drawn` where states of units are to be draws of d_0: with γ = 0 a row that goes on shows that the next one is no start,
    unless every timestep is 0. Without, the state of a row may come from anywhere.
    """
    if rows.gamma == 0.0 and not rows.log.has_episode_ids and (not drawn or _first_steps(rows)):
        return True
    return not any(make_frame(part, rows.terms).continues.any() for _, part in rows.log.batches(rows.rows))


def _first_steps(rows: Rows) -> bool:
    """Whether every row is the first one of an episode, as far as its end or its timestep says."""
    return all(
        (part.terminations | np.asarray(part.truncations)).all()
        or (part.timesteps is not None and not part.timesteps.any())
        for _, part in rows.log.batches(rows.rows)
    )


def _in_units(rows: Rows, columns: Decisions, *, drawn: bool) -> Decisions:
    """Every row by itself, or in episodes, whose steps are checked."""
    if single_rows(rows, drawn=drawn):
        if rows.terms.time_varying:
            _refuse_later(rows, columns, "what is left at a later step, and what the policy does there, are others")
        return columns
    episodes = episode_numbers(rows)
    order = np.argsort(episodes, kind="stable")
    lengths = np.bincount(episodes)
    position = np.arange(order.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    check_steps(rows, order, position)
    steps = np.empty(order.size, dtype=np.int64)
    steps[order] = position
    return replace(columns, episodes=episodes, steps=steps)


def start_states(columns: Decisions) -> FloatArray:
    """Where units start, (units, d)."""
    return columns.observations if columns.steps is None else columns.observations[columns.steps == 0]


def strata_of(rows: Rows, columns: Decisions) -> Strata:
    """The units by the states of the stated list that they start at; equal states of the list are one, their weights added."""
    states = rows.initial_states
    if states.kind != "exact":
        raise InvalidInput("Stated starts are answered where they are an exact list of states with weights.")
    if "observations" in rows.log.unrecorded:
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


def one_start(rows: Rows, columns: Decisions) -> bool:
    """Whether d_0 was stated as one state, and every unit starts there: then the log's own starts are the stated ones."""
    states = rows.initial_states
    if states.kind != "exact":
        return False
    likely = states.observations[states.weights > 0] + 0.0
    return bool(np.all(likely == likely[0]) and np.all(start_states(columns) + 0.0 == likely[0]))


def check_draws(rows: Rows, columns: Decisions) -> None:
    """InvalidInput where others than the log's own starts were stated: its units are no draws of those."""
    if not (own_starts(rows) or one_start(rows, columns)):
        refuse_other_starts(rows)


def refuse_other_starts(rows: Rows) -> NoReturn:
    what = "an exact list" if rows.initial_states.kind == "exact" else "a sample that was not read off this log"
    raise InvalidInput(
        f"The stated initial states are {what}. Propensities weigh what the log's own decisions (episodes) earned: their mean is "
        "the value over the log's own starts, whatever others were stated. Leave `initial` out (no --initial) for that value; "
        "state the starts as a list with weights, InitialStates.exact(states, weights), which is answered from the rows that "
        "start there; or use a method that starts elsewhere: Sequential(), Dual()."
    )


def _refuse_later(rows: Rows, columns: Decisions, why: str) -> None:
    """InvalidInput where rows that are taken one by one are later steps, as far as the log says."""
    if not rows.log.has_timesteps:
        return
    times = np.concatenate([part.timesteps for _, part in rows.log.batches(rows.rows) if part.timesteps is not None])
    later = np.flatnonzero(times[columns.rows - rows.rows.start] > 0)
    if later.size:
        row = int(columns.rows[later[0]])
        raise InvalidInput(
            f"Every row is taken as a decision of its own, but row {row} carries timestep "
            f"{int(times[row - rows.rows.start])}: {why}. Pass `episode_ids`, so that rows are weighed as episodes from "
            "step 0 on."
        )
