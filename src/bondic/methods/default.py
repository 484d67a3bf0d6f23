"""The method where none is named: the shortest predicted length among candidates that assume nothing, or only what was stated.

Statements say which candidates there are. Predictions read pilot rows, which are not certified, and the number of rows that was
planned. So the interval has the guarantee of the method it picks; the reason is written into `result.choices["method"]`. Where
nothing can be proved the answer is the value range; the curve of `Groups` beside it shows what an allowance would give.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, TypeVar

from bondic.core.balls import Ball, Box
from bondic.core.cells.allowance import Allowance
from bondic.core.claims import Side
from bondic.core.dual.noise import NoiseBound
from bondic.core.errors import InvalidInput, NoTable
from bondic.core.sums.forms import Sums
from bondic.core.terms import range_at_all_times, range_of
from bondic.engines.standard import EngineName
from bondic.errors import TooFewRows
from bondic.methods.base import Progress, listing_options, planned_length
from bondic.methods.candidates import Candidate
from bondic.methods.dual import Dual, dual_needs
from bondic.methods.groups import Groups
from bondic.methods.propensities import Propensities
from bondic.methods.propensity_pilot import logged
from bondic.methods.sequential import Sequential
from bondic.methods.setting import kind_of_states as kind_of_dual
from bondic.methods.setting import tuning_problem
from bondic.methods.table import Table
from bondic.methods.value_range import WholeRange, degenerate_range
from bondic.policies.learned import training_provenance
from bondic.policies.logged_target import LoggedBehavior
from bondic.result import Result
from bondic.rows import Rows
from bondic.rows.decisions import single_rows
from bondic.rows.episodes import split_episodes
from bondic.search.sequential.basis import PointSlots
from bondic.search.sequential.plan import MAX_LANDMARKS
from bondic.tuning.defaults import Advanced, Choices, Radius, kind_of_states
from bondic.tuning.states import WAY_OUT, rows_set_aside, unstated
from bondic.withhold import MIN_ROWS as MIN_SHARED

_Own = TypeVar("_Own", Table, Groups, Sequential, Dual)
_OnCells = TypeVar("_OnCells", Table, Groups)
MAX_BYTES = 8_000_000_000
"""Memory that a method may take, unless the user says how much."""
_BYTES_PER_NUMBER = 100
"""Memory of the sequential interval for each row and landmark, as measured: plan and evaluation hold several copies."""
_MIN_LANDMARKS = 50
"""With fewer landmarks the feasible set is too coarse, unless the log has no more pairs."""
LONG = 2**20
"""Rows from which on it pays to see first whether they can prove anything."""
_MARGIN = 8
"""So many times as many rows have to be hopeless, too: a prediction is not exact."""
_BOTH_TOO = "sequential and dual (--method) apply too; they do without propensities, and assume that q* is in a class Q"
_DUAL_TOO = "dual (--method) applies too, with the worst noise that the ranges allow"
_SEQUENTIAL_TOO = "sequential (--method) may apply too"
_PROPENSITIES_TOO = "propensities applies too: the log holds them, and nothing is assumed about q* then"
_NOT_USED = "; the log's propensities are not used (--method propensities uses them)"


@dataclass(frozen=True)
class Choice:
    """A candidate, the rows that it is given, and why it is that one."""

    method: Candidate
    rows: Rows
    why: str
    others: str = ""  # methods with the same guarantee that could have been named instead
    states: str = ""  # what they were taken for
    run: Callable[[Rows, float, Progress | None], Result] | None = None  # None: the method's own

    def result(self, alpha: float, progress: Progress | None) -> Result:
        found = (self.run or self.method.run)(self.rows, alpha, progress)
        return found.with_choice("states", self.states) if self.states else found


@listing_options
@dataclass(frozen=True)
class Default:
    """`Propensities` where the log holds them and they say enough, `Table` where states are names, `Sequential` for stated balls.

    `Dual` where it alone applies: for what was stated, for short logs, for rows that do not fit into memory. Where states are
    numbers, and neither propensities nor a statement (`ball`, `radius`) say more, the answer is the value range. It is what
    `estimate_interval` uses when no method is named.

    Parameters
    ----------
    ball : Ball or Box, default None
        Q, the functions that q* is assumed to be among. None: nothing is assumed.
    radius : float or "paper", default None
        Radius of Q around 0, for the kernel that `Sequential` describes; "paper": the radius rule of the paper. Not together
        with `ball`.
    side : {"both", "lower", "upper"}, default "both"
        Which ends to compute.
    pilot : float or int, default None
        Rows set aside for tuning, a share or a number. None: what the method sets aside, 0.05, or 0.2 (`Dual`).
    planned_rows : int, default None
        The number of rows that was planned, if the log may have stopped earlier or later than that.
    choices : Choices
        What W and the kernel of a stated radius are made of. A statement about W (its bandwidth) selects `Dual`.
    gauge : str or NoiseBound, default None
        A noise bound, which selects `Dual`.
    misspecification : float, default 0
        How far q* may be from Q anywhere; more than 0 selects `Dual`.
    no_rows : bool, default False
        The certificate will hold no single row (`Result.without_rows`). Landmarks of `Sequential` are rows: then
        `Dual`. In a table pairs of state and action that few rows share get no weight.
    engine : str or Sums, default "auto"
        How kernel sums are computed. The interval stays valid with any.
    propensities : Propensities, default None
        What was stated about the propensities of the log, if it holds some: `min_propensity`, `gamma_sensitivity` and so on.
    allowance : Allowance, float or (float, float), default None
        How far values may differ inside groups of states, as you state it: selects `Groups`.
    model : callable, default None
        A model of values of your own, q(states, actions): selects `Groups`.
    groups : callable or str, default None
        Groups of states of your own, a function or the name of a column: selects `Groups`.
    """

    ball: Ball | Box | None = None
    radius: Radius | None = None
    side: Side = "both"
    pilot: float | int | None = None
    planned_rows: int | None = None
    choices: Choices = field(default_factory=Choices)
    gauge: str | NoiseBound | None = None
    misspecification: float = 0.0
    no_rows: bool = False
    engine: EngineName | Sums = "auto"
    propensities: Propensities | None = None
    allowance: Allowance | float | tuple[float, float] | None = None
    model: Callable[[Any, Any], Any] | None = None
    groups: Callable[[Any], Any] | str | None = None

    def run(self, problem: Rows, alpha: float, progress: Progress | None) -> Result:
        choice = self.choice(problem, alpha)
        try:
            result, why, others = choice.result(alpha, progress), choice.why, [choice.others]
        except TooFewRows as few:
            bets = choice.method.name == Propensities.name
            if self.planned_rows is not None or problem.policy_in_log or not bets:
                raise
            return WholeRange(str(few), self.side).run(problem, alpha, progress)
        if choice.method.name != Propensities.name and Propensities().applies(problem) is None:
            why, others = why + _NOT_USED, [choice.others, _PROPENSITIES_TOO]
        return result.with_choices({"other methods": "; ".join(filter(None, others)) or "none", "method": why})

    def choose(self, problem: Rows, alpha: float = 0.1) -> tuple[Candidate, str]:
        """The method, and why it is that one, in words."""
        choice = self.choice(problem, alpha)
        return choice.method, choice.why

    def choice(self, problem: Rows, alpha: float) -> Choice:
        """The method with the rows that are left to it."""
        about_class = self._only_dual() or self._class_stated or self._groups_stated
        if about_class and self.propensities is not None:
            raise InvalidInput(
                "Statements about propensities cannot be combined with Q, W or a noise bound: name the method."
            )
        found = None if about_class else self._by_propensities(problem, alpha)
        if found is None and self.propensities is not None:
            raise InvalidInput(
                "The default does not use propensities here, and something was stated about them: the log has none, the "
                "initial states are not its own, or the predicted interval is too long. Leave the statement out, or name the "
                "method: Propensities(...) (--method propensities)."
            )
        return found or self._without_propensities(problem, alpha)

    def _by_propensities(self, problem: Rows, alpha: float) -> Choice | None:
        """None where they do not apply, or predict too long an interval.

        Where the form of the log decides (single decisions without discount; a target known by its probabilities alone), no row
        is looked at, and all are certified. Other logs: rows after the pilot.
        """
        method = replace(self.propensities or Propensities(), side=self.side, planned_rows=self.planned_rows)
        chosen = partial(Choice, method, problem, others=_BOTH_TOO)
        if isinstance(problem.policy, LoggedBehavior):
            return chosen("the log's own returns, as the policy is the one that made the log")
        if not logged(problem):
            return None
        if problem.policy_in_log:
            return chosen("propensities, as the policy is known by its probabilities of the logged actions alone")
        listed = problem.initial_states.kind == "exact" and problem.states_recorded
        answers = problem.layout.discrete or hasattr(problem.policy, "action_density")
        if not (answers and (problem.own_starts or listed)):
            return None
        if problem.gamma == 0.0 and not listed:
            alone = "propensities, as the log holds propensities and every decision stands alone: nothing is assumed about q*"
            return chosen(alone) if method.applies(problem) is None else None
        parts = self._split(problem)
        if parts is None:
            return None
        looked, rest = parts
        ahead = len(rest.rows) if self.planned_rows is None else max(self.planned_rows - len(looked.rows), 1)
        advantage = method.advantage(looked, ahead, alpha)
        if not advantage or (listed and not self._beats_table(method, looked, ahead, alpha)):
            return None
        if listed and single_rows(problem):  # they set no pilot aside themselves
            planned = None if self.planned_rows is None else ahead
            return Choice(replace(method, planned_rows=planned), rest, f"propensities, as {advantage}", _BOTH_TOO)
        looked_at = self._pilot_rows(problem)  # the same rows set the rates, and none of them is certified
        return Choice(replace(method, pilot=looked_at), problem, f"propensities, as {advantage}", _BOTH_TOO)

    def _beats_table(self, method: Propensities, looked: Rows, ahead: int, alpha: float) -> bool:
        """For a list of starts, which a table answers from all rows: whether the predicted length is the shorter one."""
        table = self._made(Table)
        if not kind_of_states(None, self.choices, looked).table or table.applies(looked) is not None:
            return True
        return method.predicted_length(looked, alpha, ahead) < table.predicted_length(looked, alpha, ahead)

    def _split(self, problem: Rows) -> tuple[Rows, Rows] | None:
        """Whole episodes of the pilot, and those that begin after it."""
        return split_episodes(problem, 0 if self._too_short(problem) else self._pilot_rows(problem))

    def undecided(self, problem: Rows) -> str:
        """Why a longer log may have another method: episodes with propensities, of which none begins after the pilot yet."""
        ahead = self.planned_rows is not None and len(problem.rows) < self.planned_rows
        by_form = problem.gamma == 0.0 or problem.policy_in_log or not problem.log.has_episode_ids
        if not (ahead and logged(problem)) or by_form or self._too_short(problem):
            return ""
        return "" if self._split(problem) is not None else "no episode begins after the pilot yet"

    def _without_propensities(self, problem: Rows, alpha: float) -> Choice:
        if known := degenerate_range(problem):
            return self._value_range(problem, known)
        if stated := self._groups_stated:
            if self.no_rows:
                raise InvalidInput(
                    "Groups and a model are held row by row in the certificate, which is to hold no single row: leave no_rows "
                    "(--with no_rows) out, or what was stated on groups."
                )
            return Choice(self._made(Groups), problem, f"groups, as you stated {' and '.join(stated)}")
        only_dual = self._only_dual() or self._too_short(problem)
        pilot = None if only_dual else tuning_problem(problem, self._pilot_rows(problem))
        if pilot is None:
            only_dual = only_dual or "too few rows of the pilot can be used"
        if not self._class_stated:
            return self._of_states(problem, pilot, only_dual)
        return self._dual(problem, only_dual) if pilot is None else self._sequential(problem, pilot, alpha)

    def _of_states(self, problem: Rows, pilot: Rows | None, only_dual: str) -> Choice:
        """A table where states are names; the value range elsewhere, with the curve of groups where rows can be set aside."""
        kind = kind_of_dual(self._made(Dual), problem) if pilot is None else kind_of_states(None, self.choices, pilot)
        why = unstated(problem.layout)
        if not kind.table and (pilot is None or self.no_rows):
            withheld = "" if pilot is None else ". Groups would hold single rows, which are to be kept out"
            return self._value_range(problem, f"{why}; {WAY_OUT}{withheld}", {"states": kind.description})
        if not kind.table:
            return Choice(
                self._begun_after(self._made(Groups), problem), problem, f"groups, as {why}", "", kind.description
            )
        table = replace(self._made(Table), fewest_rows=MIN_SHARED if self.no_rows else 1)
        if only_dual := only_dual or table.applies(problem) or "":
            return self._dual(problem, only_dual)
        table = self._begun_after(table, problem)

        def run(rows: Rows, alpha: float, progress: Progress | None) -> Result:
            count, width = len(rows.rows), range_of(rows.terms).width
            if count >= LONG:
                first = rows.select(rows.rows.start, rows.rows.start + rows.block_rows)
                if table.predicted_length(first, alpha, _MARGIN * count) >= (1 - 1e-9) * width:
                    why = (
                        f"the first {len(first.rows)} of {count} rows predict no more than the value range, even if {_MARGIN} "
                        "times as many followed: the policy leads to states where the log has no rows"
                    )
                    return WholeRange(why, self.side).run(rows, alpha, progress)
            try:
                return table.run(rows, alpha, progress)
            except NoTable as why_not:  # certified rows may say so: the answer is then what needs no row
                return WholeRange(str(why_not), self.side).run(rows, alpha, progress)

        return Choice(table, problem, "table, as states are names", _DUAL_TOO, kind.description, run)

    def _sequential(self, problem: Rows, pilot: Rows, alpha: float) -> Choice:
        """The sequential method, if it fits into memory and its pilot predicts less than the value range."""
        method, rows, left = self._made(Sequential), planned_length(problem, self.planned_rows), room(problem)
        rank = landmarks_that_fit(pilot, rows, left)
        if rank == 0:
            why = f"{rows} rows are too many for the sequential method to hold in {left / 1e9:.3g} GB"
            needed = dual_needs(problem.terms, alpha)
            if rows > needed:
                return self._dual(problem, why)
            return self._value_range(problem, f"{why}, and fewer than the {needed:.3g} that the dual one needs")
        method = replace(method, advanced=Advanced(rank=rank if rank < MAX_LANDMARKS else None))
        chosen = method.choose(pilot, problem, alpha, method.shape(problem))
        if chosen.length >= range_at_all_times(pilot.terms).width:
            why = f"the first {len(pilot.rows)} rows predict no more than the value range for the sequential method"
            return self._value_range(problem, why)
        fewer = f" with {rank} landmarks, as more do not fit into memory" if rank < MAX_LANDMARKS else ""
        why = f"sequential{fewer}, the default wherever it applies"
        return Choice(method, problem, why, _DUAL_TOO, run=partial(method.run, chosen=chosen))

    def _dual(self, problem: Rows, why: str) -> Choice:
        states = problem.initial_states
        if (
            states.kind == "sample"
            and states.from_rows
            and training_provenance(problem.policy, problem.log_hash, len(problem.log))
        ):
            why_not = "and the dual method averages over all starts of the log, those of training rows included"
            return self._value_range(problem, f"{why}, {why_not}")
        others = "" if self._too_short(problem) else _SEQUENTIAL_TOO
        return Choice(self._made(Dual), problem, f"dual, as {why}", others)

    def _value_range(self, problem: Rows, why: str, notes: Mapping[str, str] | None = None) -> Choice:
        return Choice(WholeRange(why, self.side, notes or {}), problem, f"none, as {why}")

    @property
    def _class_stated(self) -> bool:
        return self.ball is not None or self.radius is not None

    @property
    def _groups_stated(self) -> list[str]:
        stated = {"an allowance": self.allowance, "a model": self.model, "groups": self.groups}
        return [name for name, value in stated.items() if value is not None]

    def _only_dual(self) -> str:
        """The statement that only the dual method can use, in words; "" for none."""
        if self.gauge is not None:
            return "a noise bound was named (gauge), which only the dual method has"
        if self.misspecification or (self.ball is not None and self.ball.misspecification):
            return "an allowance for misspecification was stated, which only the dual method has"
        if self.choices.weight_bandwidth is not None:
            return "W was described (weight_bandwidth), which only the dual method has"
        if self.ball is not None and self.ball.kernel is None:
            return "Q is a box, and the sequential method is that of balls"
        if self._class_stated and self.no_rows:
            return "single rows are to be kept out of the certificate, and landmarks of the sequential method are rows"
        return ""

    def _too_short(self, problem: Rows) -> str:
        return Sequential(pilot=self.pilot, planned_rows=self.planned_rows).applies(problem) or ""

    def _pilot_rows(self, problem: Rows) -> int:
        """Rows that the choice looks at."""
        return self._made(Sequential).pilot_rows(problem)

    def _begun_after(self, method: _OnCells, problem: Rows) -> _OnCells:
        """The same method with a pilot of at least as many rows as the choice has looked at: those are not certified."""
        looked_at, own = (
            self._pilot_rows(problem),
            rows_set_aside(method.pilot, planned_length(problem, self.planned_rows)),
        )
        return method if own >= looked_at else replace(method, pilot=looked_at)

    def _made(self, kind: type[_Own]) -> _Own:
        """The method with every statement that it can use."""
        stated = {option.name: getattr(self, option.name) for option in fields(kind) if hasattr(self, option.name)}
        return kind(**{name: value for name, value in stated.items() if value is not None})


def room(problem: Rows) -> float:
    """Bytes that may be held: what the user allows for a log that is read in batches, less what reading it takes."""
    plan = problem.log.plan
    return float(MAX_BYTES if plan is None else max(min(plan.budget - plan.fixed, MAX_BYTES), 0))


def landmarks_at_most(rows: int, room: float) -> int:
    """As many as there is room for."""
    return min(int(room / (_BYTES_PER_NUMBER * rows)), MAX_LANDMARKS)


def landmarks_that_fit(pilot: Rows, rows: int, room: float) -> int:
    """As many as there is room for; 0 where these are too few to follow the value function."""
    most = landmarks_at_most(rows, room)
    if most >= _MIN_LANDMARKS:
        return most
    batch = pilot.whole()
    pairs = len(PointSlots(batch.logged, batch.slots).distinct(MAX_LANDMARKS))
    return most if most >= 2 * pairs else 0
