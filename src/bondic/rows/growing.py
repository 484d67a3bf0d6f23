"""A log that grows while it is looked at: its rows so far, with the policy's answers at them, each queried once.

What was answered for a row is kept, so that later rows cannot change it. A policy whose actions are drawn is asked for whole
groups of rows, and a group has its draws when its last row is there: the rows of an incomplete group wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.columns import RowRange
from bondic.core.errors import InvalidInput
from bondic.core.kernels.normal_form import Layout
from bondic.core.terms import Terms
from bondic.data._arrays import FloatArray, IntArray
from bondic.data.content_hash import COLUMNS
from bondic.data.episodes import Episodes
from bondic.data.initial import InitialStates, Population, check_population
from bondic.data.transitions import Transitions
from bondic.errors import PolicyError
from bondic.policies.adapters.rule import Rule
from bondic.policies.answers import (
    GROUP,
    NextStates,
    StartAnswers,
    StoredAnswers,
    query_next,
    query_start,
    same_answers,
)
from bondic.policies.logged_target import LoggedTarget
from bondic.policies.protocol import RowProbabilities
from bondic.rows.batch import Draws, check_part, make_frame
from bondic.rows.checks import inspected
from bondic.rows.inputs import GivenLog, chosen_policy, refuse_both, take_policy
from bondic.rows.make import make_rows, refuse_unrecorded
from bondic.rows.rows import Rows
from bondic.rows.written import WrittenProbabilities, in_columns

NEXT, INITIAL = "next_answers", "initial_answers"
"""Answers beside the columns of a portion."""


@dataclass(frozen=True, eq=False)
class Statements:
    """Policy and terms of the problem at every length of the log, fixed before its first row."""

    policy: Any
    initial: InitialStates | None  # None: the log's own episode starts, as they come
    terms: Terms
    population: Population | None = None  # what is stated about the log's own starts
    draws: int = 5
    initial_draws: int | None = None
    seed: int = 0
    accept: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # how the policy was read

    def __post_init__(self) -> None:
        if not in_columns(self.policy):  # it comes with the rows
            object.__setattr__(self, "policy", chosen_policy(self.policy, None, None))
        check_population(self.population)
        if self.initial is not None:
            refuse_both(self.initial, self.population)
        if self.initial is not None and self.initial.from_rows:
            raise InvalidInput(
                "These initial states were read off a log of some length, and the log grows. Pass initial=None for its episode "
                "starts as they come, or states that were fixed beforehand: InitialStates.exact or .sample."
            )
        if not isinstance(self.seed, int | np.integer) or self.seed < 0:
            raise InvalidInput(
                f"`seed` is {self.seed!r}; a whole number >= 0 is needed, so that draws can be repeated."
            )

    @property
    def moving(self) -> bool:
        """Whether the value is the mean over the log's own starts so far."""
        return self.initial is None and self.population is None

    def knowing(self, rows: Transitions) -> Statements:
        """A policy that returns actions, for as many as the first rows show: fixed with them."""
        policy, notes = take_policy(self.policy, GivenLog(rows), None)
        return replace(self, policy=policy, notes=(*self.notes, *notes))

    def for_actions(self, count: int) -> Statements:
        """The same for as many as were queried before."""
        unknown = isinstance(self.policy, Rule) and self.policy.actions is None
        return replace(self, policy=self.policy.with_actions(count)) if unknown else self

    def starts(self, log: Transitions) -> InitialStates:
        return InitialStates.from_log(log, population=self.population) if self.initial is None else self.initial

    def at_start(self, states: FloatArray, action_dim: int, log_rows: int) -> StartAnswers:
        """The policy at initial states."""
        times = np.zeros(len(states), dtype=np.int64) if self.terms.time_varying else None
        options: dict[str, Any] = {"draws": self.draws, "initial_draws": self.initial_draws}
        rng, policy = Draws(self.seed).at_start(), self.policy
        if isinstance(policy, RowProbabilities):  # the last starts are those that are new
            policy = replace(policy, initial_probs=policy.initial_probs[len(policy.initial_probs) - len(states) :])
        found = query_start(policy, states, times, action_dim=action_dim, log_rows=log_rows, rng=rng, **options)
        if self.initial is None and not found.exact:
            raise InvalidInput(
                "Episode starts of a growing log need a policy whose means over actions are exact: with drawn actions, every "
                "new start would change the draws at the earlier ones. Pass the initial states: InitialStates.exact or .sample."
            )
        return found

    def at_next(self, log: Transitions, rows: RowRange, start: StartAnswers) -> FloatArray:
        """The policy at the next states of these rows."""
        if isinstance(self.policy, LoggedTarget):  # it has no answers
            return np.zeros((0, *start.initial.shape[1:]))
        part = log.cut(rows)
        frame = make_frame(part, self.terms)
        later = None if frame.times is None else frame.times[frame.continues] + 1
        following = part.next_observations[frame.next_rows]
        states = NextStates(following, later, frame.next_rows + rows.start, 0)
        return query_next(self.policy, states, start, Draws(self.seed).at_group)


@dataclass(frozen=True, eq=False)
class GrowingRows:
    """All rows so far; `grown` gives those of a longer log, and leaves these as they are."""

    statements: Statements
    log: Transitions  # every row that was given
    used: int  # how many of them are evaluated
    answers: StoredAnswers  # the policy at the initial states and at the next states of the rows that are used
    draws: int  # actions drawn at each next state; 1 if means over them are exact
    repeated: bool = False  # rows that came before were stated to be new events
    whole_episodes: bool = False  # rows of an episode wait for its end, and for those of the episodes before it
    written: WrittenProbabilities | None = None  # of a policy in columns of the log

    @staticmethod
    def begin(statements: Statements, rows: Transitions, written: WrittenProbabilities | None = None) -> GrowingRows:
        """The first rows."""
        _refuse_wrong(rows, statements, 0)
        if in_columns(statements.policy):
            statements = replace(statements, policy=_written(written, statements).policy(rows))
        statements = statements.knowing(rows)
        start = statements.at_start(statements.starts(rows).observations, rows.action_dim, len(rows))
        tail = (start.slots,) if start.discrete else (start.draws, rows.action_dim)
        answers = StoredAnswers(np.zeros((0, *tail)), start.initial, start.discrete, start.exact)
        whole = statements.initial is None and start.exact and has_propensities(rows)
        found = GrowingRows(statements, rows, 0, answers, start.draws, whole_episodes=whole, written=written)
        return found._asked()

    def grown(self, rows: Transitions, written: WrittenProbabilities | None = None) -> GrowingRows:
        """The log with these rows after its own."""
        _refuse_wrong(rows, self.statements, len(self.log))
        log, stated = _joined(self.log, rows), self.statements
        if self.written is not None:
            written = self.written.then(written)
            stated = replace(stated, policy=written.policy(log))
        return replace(self, log=log, statements=stated, written=written)._asked()

    def in_single_rows(self) -> GrowingRows:
        """The same, with all rows that are there."""
        return replace(self, whole_episodes=False)._asked()

    def _asked(self) -> GrowingRows:
        """Ask the policy for what is new, whole groups only where it draws."""
        total, stated, initial = len(self.log), self.statements, self.answers.initial
        used = total if self.answers.exact else total // GROUP * GROUP
        if self.whole_episodes:
            used = int(complete_rows(self.log).max(initial=0))
            if used < self.used:
                raise InvalidInput(
                    f"An episode that had ended or was cut before row {self.used} goes on in the new rows. What was cut "
                    "stays so: give the rows after it an episode id of their own."
                )
        if used == self.used:
            return self
        if stated.initial is None and len(states := stated.starts(self.log).observations[len(initial) :]):
            initial = np.concatenate([initial, stated.at_start(states, self.log.action_dim, total).initial])
        following = stated.at_next(self.log, RowRange(self.used, used), self.start)
        answers = replace(self.answers, initial=initial, next=np.concatenate([self.answers.next, following]))
        return replace(self, used=used, answers=answers)

    @property
    def start(self) -> StartAnswers:
        """The policy at the initial states."""
        found = self.answers
        return StartAnswers(found.initial, found.discrete, found.exact, self.draws)

    def first(self, count: int) -> Transitions:
        """The log as it was after so many rows, with the hash that it had."""
        if count == len(self.log):
            return self.log
        columns = {name: None if column is None else column[:count] for name, column in self.log.columns().items()}
        return _of(columns, self.log)

    def unseen(self, log: Transitions) -> Transitions | None:
        """The rows of a file that are not among these: those after them if it begins like them, else all; None: no new ones."""
        common = min(len(self.log), len(log))
        if not _alike(self.log.cut(RowRange(0, common)), log.cut(RowRange(0, common))):
            return log
        if len(log) <= len(self.log):
            if len(log) == len(self.log):
                return None
            raise InvalidInput(
                f"These {len(log)} rows are the first of the {len(self.log)} that are known already. A copied row is not new "
                "data: pass the rows after them, or the whole log as it is now."
            )
        return _of({name: None if column is None else column[common:] for name, column in log.columns().items()}, log)

    def problem(self) -> Rows:
        """The question on all rows that are used; certain errors of the log are refused, others are warnings."""
        more = ("copies", "repeated-batch") if self.repeated else ()
        return inspected(self._rows(self.used), (*self.statements.accept, *more))

    def earlier(self, used: int) -> Rows:
        """The question as it was when so many rows were used; the log is not inspected again."""
        return self._rows(used)

    def _rows(self, used: int) -> Rows:
        stated, log = self.statements, self.first(used)
        following, starts = self._counts(used)
        answers = replace(self.answers, next=self.answers.next[:following], initial=self.answers.initial[:starts])
        options: dict[str, Any] = {"draws": stated.draws, "initial_draws": stated.initial_draws, "seed": stated.seed}
        answering = stated.policy if isinstance(stated.policy, LoggedTarget) else answers
        rows = make_rows(log, answering, stated.starts(log), stated.terms, **options)
        # its answers are held; it may be queried at other states
        return replace(rows, policy=stated.policy, notes=stated.notes)

    @property
    def layout(self) -> Layout:
        return Layout(
            self.log.observation_dim, self.statements.terms.time_varying, self.log.action_dim, self.start.slots
        )

    def portion(self, span: tuple[int, int], used: tuple[int, int]) -> dict[str, npt.NDArray[Any]]:
        """Columns of the rows that were given at once, and the answers for those that were used then."""
        part = self.log.cut(RowRange(*span))
        found = {name: column for name, column in part.columns().items() if column is not None}
        known, now = (self._counts(count) for count in used)
        found[NEXT] = self.answers.next[known[0] : now[0]]
        if self.statements.initial is None:
            found[INITIAL] = self.answers.initial[known[1] : now[1]]
        return found | ({} if self.written is None else self.written.columns(slice(*span)))

    def _counts(self, used: int) -> tuple[int, int]:
        """Next and initial states of the first rows."""
        if used == 0:
            return 0, 0
        log = self.first(used)
        if isinstance(self.statements.policy, LoggedTarget):
            return 0, 0
        return make_frame(log, self.statements.terms).next_rows.size, len(self.statements.starts(log))

    @staticmethod
    def restored(
        statements: Statements,
        portions: Sequence[Mapping[str, npt.NDArray[Any]]],
        used: int,
        start: StartAnswers,
        discrete_observations: bool,
        unrecorded: Sequence[str] = (),
    ) -> GrowingRows:
        """From its portions, without querying the policy; `start` has the initial answers that are in none of them."""
        joined: dict[str, Any] = {name: np.concatenate([part[name] for part in portions]) for name in portions[0]}
        written, following = WrittenProbabilities.taken(joined), joined.pop(NEXT)
        initial = joined.pop(INITIAL, start.initial)
        answers = StoredAnswers(following, initial, start.discrete, start.exact)
        log = Transitions(**joined, discrete_observations=discrete_observations, unrecorded=tuple(unrecorded))
        slots = StartAnswers(initial, start.discrete, start.exact, start.draws).slots
        stated = statements.for_actions(slots) if written is None else replace(statements, policy=written.policy(log))
        whole = stated.initial is None and start.exact and has_propensities(log)
        return GrowingRows(stated, log, used, answers, start.draws, whole_episodes=whole, written=written)

    def check_policy(self) -> None:
        """The policy against its stored answers: at the initial states, and at the last rows that were used."""
        stated, first = self.statements, max(self.used - 1, 0) // GROUP * GROUP
        if isinstance(stated.policy, LoggedTarget | RowProbabilities):  # it stands in the log
            return
        states = stated.starts(self.log).observations[: len(self.answers.initial)]
        _compare(stated.at_start(states, self.log.action_dim, len(self.log)).initial, self.answers.initial, "initial")
        if self.used:
            fresh = stated.at_next(self.log, RowRange(first, self.used), self.start)
            _compare(fresh, self.answers.next[len(self.answers.next) - len(fresh) :], "next")


def _compare(mine: FloatArray, stored: FloatArray, what: str) -> None:
    if not same_answers(mine, stored):
        raise PolicyError(
            f"The policy answers differently at the {what} states than at earlier updates. A monitor is about one policy: "
            "begin a new monitor for another one."
        )


def _written(written: WrittenProbabilities | None, stated: Statements) -> WrittenProbabilities:
    if written is None or stated.initial is not None:
        raise InvalidInput(
            "The policy is 'columns': its probabilities come with the rows, update(read_log(...)), and episode starts of the log "
            "are its initial states (no initial=, no --initial)."
        )
    return written


def has_propensities(log: Transitions) -> bool:
    return log.has("behavior_action_probs") or log.has("behavior_log_probs")


def complete_rows(log: Transitions) -> IntArray:
    """All numbers of first rows that are whole episodes, each of which has ended or was cut."""
    ended = log.terminations | np.asarray(log.truncations)
    if log.episode_ids is None:
        return np.flatnonzero(ended) + 1
    episodes = Episodes.of(log)
    stop = int(episodes.first[~ended[episodes.last]].min(initial=len(log)))  # the first row of an episode that goes on
    return np.flatnonzero(np.maximum.accumulate(episodes.last[episodes.number])[:stop] == np.arange(stop)) + 1


def _of(columns: Mapping[str, Any], log: Transitions) -> Transitions:
    """Rows with the statements of this log."""
    return Transitions(**columns, discrete_observations=log.discrete_observations, unrecorded=log.unrecorded)


def _refuse_wrong(rows: Transitions, stated: Statements, first_row: int) -> None:
    """Rows that can never be evaluated are not taken in."""
    if not isinstance(rows, Transitions):
        raise InvalidInput(
            f"New rows are Transitions, not {type(rows).__name__}: read_log(path).transitions, or Transitions(...)."
        )
    terms = stated.terms
    if not isinstance(stated.policy, LoggedTarget):
        refuse_unrecorded(rows)
    if terms.time_varying and not rows.has_timesteps:
        raise InvalidInput(
            "A finite horizon or a time-varying problem needs `timesteps` in the log: value depends on time."
        )
    check_part(rows, terms, first_row)


def _alike(mine: Transitions, theirs: Transitions) -> bool:
    """The same rows, column by column."""
    pairs = ((getattr(mine, name), getattr(theirs, name)) for name in COLUMNS)
    return all((a is None) == (b is None) and (a is None or np.array_equal(a, b)) for a, b in pairs)


def _joined(log: Transitions, rows: Transitions) -> Transitions:
    """One log; keys and order are checked across the seam."""
    log.refuse_other_form(rows, len(log))
    joined = {
        name: None if mine is None else np.concatenate([mine, getattr(rows, name)])
        for name, mine in log.columns().items()
    }
    return _of(joined, log)
