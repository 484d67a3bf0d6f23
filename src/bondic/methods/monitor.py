"""Look at a log while it grows: an interval after every update, all of them valid at once (sections 9 and 17).

The vector event (16), the tails (15) and the bets (40) hold at every number of rows at once, for weights that were fixed before
the rows they are used on. So on one event of probability 1 - alpha *every* update is right, whenever updates happen and whatever
decided about them. The mean over the starts of this log is another number at each of them. For a stated list of starts, or a
stated population, the value stands still: it lies in the intersection of all intervals.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from bondic.core.cells.proof import CellsProof
from bondic.core.certificate import Certificate
from bondic.core.claims import Conclusion, Status, check_alpha, unusual_alpha
from bondic.core.errors import InvalidInput
from bondic.core.proof import Proof
from bondic.core.propensities.proof import PropensityProof
from bondic.core.sequential.proof import SequentialProof
from bondic.core.terms import make_terms, range_of
from bondic.core.verify import UserFunctions, read_proof
from bondic.data.initial import InitialStates, Population
from bondic.data.io.loaded import LoadedLog
from bondic.data.transitions import Transitions
from bondic.errors import NoInterval, TooFewRows, ValidityWarning
from bondic.methods.base import Clock, Progress
from bondic.methods.monitor_checks import (
    REPEATED,
    check_accepted,
    find_repeated,
    planned_method,
    refuse_known_keys,
    refuse_other_values,
    refuse_row_answers,
)
from bondic.methods.monitor_files import (
    Saved,
    UpdateRecord,
    held_back,
    next_record,
    read_folder,
    read_method,
    read_statements,
    waiting_result,
    write_folder,
    write_statements,
)
from bondic.methods.monitor_propensities import BetPlan, decide, not_used
from bondic.methods.monitor_propensities import evaluate as bets_result
from bondic.methods.propensities import NAME as PROPENSITIES
from bondic.methods.propensities import Propensities
from bondic.methods.sequential import NAME as SEQUENTIAL
from bondic.methods.sequential import Sequential
from bondic.methods.table import NAME as TABLE
from bondic.methods.table import Table
from bondic.methods.value_range import WholeRange, degenerate_range
from bondic.result import ConfidenceInterval, Result
from bondic.rows import Rows
from bondic.rows.growing import GrowingRows, Statements, has_propensities
from bondic.rows.written import WrittenProbabilities, in_columns
from bondic.tuning.defaults import kind_of_states
from bondic.tuning.states import MIN_PILOT, refuse_unstated

_NO_START = "no episode has begun after the pilot yet"


class SequentialMonitor:
    """An interval for the value of a policy that may be looked at while the log grows.

    `update(rows)` takes the rows that came since the last one and returns the interval of all rows so far. The intervals of
    all updates hold at once with probability 1 - alpha, at whatever times updates happen. Each is about the starts of its rows,
    and `interval` is the last one; with stated starts (`initial=`, `population=`) all are about one value, and `interval` is what
    they have in common: nothing in common then rejects the assumptions, for good.

    Blocks end at rows that `planned_rows` alone decides, never where an update ends, although that would be allowed: an update
    inside a block is evaluated on the part that is there. So an interval depends on the rows, not on how they arrived.
    What was planned for a row before it was seen is used on it in every later update.

    Parameters
    ----------
    policy : object
        As in `make_problem`; one that returns actions is taken for as many as the first rows show, unless it says how many there
        are, `DeterministicPolicy(function, n_actions=K)`. Where actions are drawn, rows are used in groups of 256: the last ones
        wait.
    initial : InitialStates, default None
        Where episodes start, fixed beforehand; None: the episode starts of the log, as they come.
    gamma : float
        Discount.
    reward_range : (float, float)
        Range of every possible reward: knowledge, not read off the log.
    planned_rows : int
        How many rows there will be, about. Rates are made for it; the log may stop earlier or go on.
    alpha : float, default 0.1
        Probability that any of the intervals may miss the value.
    method : Sequential or Table, default None
        The pilot, a share of the planned rows or a number; sides; and for states that are numbers the ball that you state. States
        that are names are followed as a table.
    value_range, horizon, may_terminate, time_varying, draws, initial_draws, seed, accept
        As in `make_problem`.
    propensities : Propensities, default None
        What is stated about the propensities of the log (`gamma_sensitivity`, `max_ratio`, `min_propensity`, `model`). A log that
        has them, followed from its own starts, is evaluated with them where the predicted interval is short enough: see the
        page on monitoring.
    population : {"iid"}, default None
        States that starts (of single decisions: contexts) are independent draws of one population: all intervals are then about
        its value, and hold together. None: each interval is about the starts of the rows so far.
    """

    def __init__(
        self,
        policy: Any,
        initial: InitialStates | None = None,
        *,
        gamma: float,
        reward_range: tuple[float, float],
        planned_rows: int,
        alpha: float = 0.1,
        method: Sequential | Table | None = None,
        value_range: tuple[float, float] | None = None,
        horizon: int | None = None,
        may_terminate: bool = True,
        time_varying: bool = False,
        draws: int = 5,
        initial_draws: int | None = None,
        seed: int = 0,
        accept: Iterable[str] = (),
        propensities: Propensities | None = None,
        population: Population | None = None,
    ) -> None:
        check_alpha(alpha)
        if (validity_note := unusual_alpha(alpha)) is not None:
            warnings.warn(validity_note, ValidityWarning, stacklevel=2)
        if initial is not None and not isinstance(initial, InitialStates):
            raise InvalidInput(
                f"Initial states are InitialStates, not {type(initial).__name__}: InitialStates.exact(states), .sample(states)."
            )
        refuse_row_answers(policy)
        terms = make_terms(gamma, reward_range, horizon, may_terminate, time_varying, value_range)
        statements = Statements(policy, initial, terms, population, draws, initial_draws, seed, tuple(accept))
        method = planned_method(Sequential() if method is None else method, planned_rows)
        self._begin(statements, method, propensities, float(alpha))

    def _begin(self, statements: Statements, method: Sequential, stated: Propensities | None, alpha: float) -> None:
        """No rows yet."""
        assert method.planned_rows is not None
        refuse_other_values(stated)
        self._statements, self.method, self.propensities, self.alpha = statements, method, stated, alpha
        self.reading: dict[str, Any] | None = None  # how files were read, where that has to stay the same
        planned_rows = method.planned_rows
        self._pilot = method.planned_pilot(planned_rows)
        if not MIN_PILOT <= self._pilot < planned_rows:
            raise InvalidInput(
                f"A pilot of {self._pilot} of {planned_rows} planned rows: at least {MIN_PILOT} are needed, and some rows have "
                "to remain. Pass method=Sequential(pilot=...) as a number of rows."
            )
        self._rows: GrowingRows | None = None
        self._proof: Proof | None = None  # of the last update: what it has fixed is continued
        self._choices: Mapping[str, str] = {}  # of that update, in words
        self._updates: tuple[UpdateRecord, ...] = ()
        self._certificate: Certificate | None = None  # of the last update before it was loaded
        self.result: Result | None = None

    def __len__(self) -> int:
        """Rows so far."""
        return 0 if self._rows is None else len(self._rows.log)

    @property
    def log(self) -> Transitions | None:
        """The rows that the last interval is about: what its certificate is verified with."""
        return None if self._rows is None or not self._rows.used else self._rows.first(self._rows.used)

    @property
    def updates(self) -> tuple[UpdateRecord, ...]:
        """One line for every update."""
        return self._updates

    @property
    def used_method(self) -> str:
        """The method of the intervals; "undecided" where the log has propensities, and the pilot is not complete."""
        if isinstance(self._proof, PropensityProof):
            return PROPENSITIES
        if self._rows is not None and self._rows.whole_episodes:
            return "undecided"
        return SEQUENTIAL if self._stated_class else TABLE

    @property
    def running(self) -> Conclusion:
        """What all intervals so far have in common, where the value stands still; else the last one."""
        limits = range_of(self._statements.terms)
        if not self._updates:
            return Conclusion(limits.low, limits.high, Status.TRIVIAL)
        last = self._updates[-1]
        return Conclusion(last.running_low, last.running_high, Status[last.running_status])

    @property
    def interval(self) -> ConfidenceInterval:
        """Of the rows so far: the intersection of all updates where the value stands still. NoInterval after a rejection."""
        if self.status is Status.REJECTED:
            raise NoInterval
        return ConfidenceInterval(self.running.low, self.running.high)

    @property
    def moving(self) -> bool:
        """Whether every update is about the starts of the rows so far, and not about one value."""
        return self._statements.moving

    @property
    def status(self) -> Status:
        """Of `interval`."""
        return self.running.status

    def unseen(self, log: Transitions) -> Transitions | None:
        """The rows that are new to this monitor, of a log that begins with those it has; None when there are none."""
        return log if self._rows is None else self._rows.unseen(log)

    def update(
        self,
        rows: Transitions | LoadedLog,
        progress: Progress | None = None,
        *,
        accept: Iterable[str] = (),
        probabilities: WrittenProbabilities | None = None,
    ) -> Result:
        """The interval of all rows so far, these included; if it fails, nothing has changed.

        The rows may be what `read_log` has returned; where the policy is 'columns', they have to be, or `probabilities` are
        those of these rows.

        Rows that came before are refused: by their (episode, timestep) where the log has both, else by a run of equal rows
        that chance does not repeat. `accept=["repeated-batch"]` states that they are new events.
        """
        accept = (accept,) if isinstance(accept, str) else tuple(accept)
        check_accepted(accept)
        accepted = REPEATED in (*self._statements.accept, *accept)
        if isinstance(rows, LoadedLog):
            if in_columns(self._statements.policy):
                probabilities = WrittenProbabilities.of(rows)
            rows = rows.transitions
        validity_note = "" if self._rows is None else self._refuse_repeated(self._rows.log, rows, accepted)
        if self._rows is None:
            grown = GrowingRows.begin(self._statements, rows, probabilities)
        else:
            grown = self._rows.grown(rows, probabilities)
        grown = self._without_bets(replace(grown, repeated=grown.repeated or accepted))
        result = self._evaluated(grown, Clock(progress))
        validity_notes = [
            text for text in (unusual_alpha(self.alpha), validity_note) if text and text not in result.warnings
        ]
        result = replace(result, warnings=(*validity_notes, *result.warnings))
        self._rows, self.result = grown, result
        if result.proof is not None:
            self._proof, self._choices = result.proof, result.choices
        self._updates = (*self._updates, next_record(self.running, result, grown))
        return result

    def _without_bets(self, grown: GrowingRows) -> GrowingRows:
        """All rows, once it is known that propensities are not used."""
        if grown.whole_episodes and not self._betting and isinstance(self._decision(grown), str):
            return grown.in_single_rows()
        return grown

    def _refuse_repeated(self, log: Transitions, rows: Transitions, accepted: bool) -> str:
        """A warning, where equal rows may be chance."""
        if not isinstance(rows, Transitions) or rows.row_matrix().shape[1] != log.row_matrix().shape[1]:
            return ""  # refused for that
        ends = [record.rows for record in self._updates]
        refuse_known_keys(log, rows, ends)
        return "" if accepted else find_repeated(log, rows, ends, self.alpha)

    def _evaluated(self, grown: GrowingRows, clock: Clock) -> Result:
        if grown.used == 0:
            what = "episode" if grown.whole_episodes else "group of rows"
            return self._waiting(grown, f"no {what} is complete yet")
        if self._rows is not None and grown.used == self._rows.used and self.result is not None:
            return replace(self.result, choices={**self.result.choices, **held_back(grown)})
        problem, before = grown.problem(), self._proof
        if grown.whole_episodes:
            result = self._bet(grown, problem, clock)
        elif problem.rows.stop <= self._pilot:
            return self._waiting(grown, f"the pilot of {self._pilot} rows is not complete yet")
        elif why := degenerate_range(problem):
            certified = problem.select(self._pilot)
            result = WholeRange(why, self.method.side).run(certified, self.alpha, clock.progress, clock.seconds)
        elif self._stated_class:
            last = before if isinstance(before, SequentialProof) else None
            result = self.method.follow(problem, self.alpha, self._pilot, last, self._choices, clock) or _NO_START
        else:
            result = self._on_table(problem, clock) or _NO_START
        return self._waiting(grown, result) if isinstance(result, str) else self._with_notes(result, problem, grown)

    @property
    def _stated_class(self) -> bool:
        return self.method.ball is not None or self.method.radius is not None

    @property
    def _betting(self) -> bool:
        return isinstance(self._proof, PropensityProof)

    def _on_table(self, problem: Rows, clock: Clock) -> Result | None:
        """Whether states are names, judged on the pilot."""
        method, before = self.method, self._proof
        kind = kind_of_states(None, method.choices, method.pilot_of(problem, self._pilot))
        if not kind.table:
            refuse_unstated(problem.layout)
        table = Table(method.side, self._pilot, method.planned_rows)
        result = table.follow(problem, self.alpha, before if isinstance(before, CellsProof) else None, clock)
        return None if result is None else result.with_choice("states", kind.description)

    def _bet(self, grown: GrowingRows, problem: Rows, clock: Clock) -> Result | str:
        """From propensities; or why not yet."""
        before = self._proof if isinstance(self._proof, PropensityProof) else None
        bets = self._decision(grown) if before is None else BetPlan.of(before, self._choices["method"])
        assert not isinstance(bets, str)
        if bets is None or grown.used <= bets.first:
            return f"no episode is complete after the pilot of {self._pilot} rows yet"
        stated = replace(self._stated, planned_rows=self.method.planned_rows)
        try:
            return bets_result(problem, bets, stated, self.alpha, before, clock)
        except TooFewRows as why:
            return str(why)

    def _decision(self, grown: GrowingRows) -> BetPlan | str | None:
        """The plan of bets, or why there is none, or None before that can be known."""
        assert self.method.planned_rows is not None
        never = not_used(grown)
        return never or decide(grown, self._stated, self._pilot, self.method.planned_rows, self.alpha)

    @property
    def _stated(self) -> Propensities:
        """What is stated about the propensities of the log."""
        return replace(self.propensities or Propensities(), side=self.method.side)

    def _with_notes(self, result: Result, problem: Rows, grown: GrowingRows) -> Result:
        more = held_back(grown)
        if has_propensities(grown.log) and not isinstance(result.proof, PropensityProof):
            why = self._decision(grown)
            why = why if isinstance(why, str) else "they were not when this monitor was begun"
            more["propensities"] = f"those of the log are not used: {why}"
        return replace(result.with_question(problem), choices={**result.choices, **more})

    def _waiting(self, grown: GrowingRows, why: str) -> Result:
        return waiting_result(grown, self.alpha, self.method.side, why)

    def save(self, folder: str | os.PathLike[str], *, texts: Mapping[str, str] | None = None) -> None:
        """Write all of it to a folder: new, empty, or the one that this monitor was saved to before.

        Everything is written under temporary names and moved, what makes it count last: a killed save leaves what was there.
        The certificate of the last update stands in certificates/, the intervals of all updates in history.csv. `texts` are
        further files, by name. The policy is not saved.
        """
        if self._rows is None:
            raise InvalidInput("There are no rows yet, so there is nothing to save: call update(rows) first.")
        result = self.result
        certificate = self._certificate if result is None else result.certificate
        statements, arrays = write_statements(self._statements, self.method, self.alpha, self._rows, self.propensities)
        log_hash = self._rows.log.content_hash
        saved = Saved(statements, arrays, log_hash, self._updates, self._part, certificate, self.reading)
        write_folder(folder, saved, texts or {})

    def _part(self, number: int) -> dict[str, Any]:
        """The rows of an update, and the states at which the policy was queried then."""
        assert self._rows is not None
        ends = [(0, 0), *((update.rows, update.used) for update in self._updates)]
        (first, before), (stop, used) = ends[number : number + 2]
        return self._rows.portion((first, stop), (before, used))

    @staticmethod
    def load(
        folder: str | os.PathLike[str], policy: Any, *, functions: UserFunctions | None = None
    ) -> SequentialMonitor:
        """The monitor that was saved there, as if it had never been away: later updates have the same intervals.

        The policy is compared with its stored answers. `functions` are feature functions of your own, by their labels.
        """
        saved = read_folder(folder)
        statements, rows = read_statements(saved, policy)
        rows.check_policy()
        method, stated, alpha = read_method(saved, rows, functions)
        monitor = SequentialMonitor.__new__(SequentialMonitor)
        monitor._begin(statements, method, stated, alpha)
        monitor._updates, monitor._certificate = saved.updates, saved.certificate
        monitor.reading = saved.reading
        if saved.certificate is not None:
            monitor._choices = saved.certificate.body["information"]["choices"]
            monitor._proof = read_proof(saved.certificate, rows.layout, functions)
            rows = rows if monitor._betting else replace(rows, whole_episodes=False)
        monitor._rows = monitor._without_bets(rows)
        return monitor
