"""The method where none is named, by a rule that no certified row can move.

It looks at statements, at the number of rows that was planned, and at pilots, which are not certified. So the interval has
the guarantee of the method it picks; the reason is written into `result.choices["method"]`. Where states are numbers and nothing
was stated about them, the answer is the value range, and the curve of `Groups` beside it shows what an allowance would give.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from bondic.core.balls import Ball, Box
from bondic.core.cells.allowance import Allowance
from bondic.core.claims import Side
from bondic.core.dual.noise import NoiseBound
from bondic.core.errors import InvalidInput
from bondic.core.sums.forms import Sums
from bondic.engines.standard import EngineName
from bondic.methods import with_propensities
from bondic.methods.clock import Clock, Progress
from bondic.methods.dual import Dual, dual_needs
from bondic.methods.forecast import BYTES_PER_NUMBER, MOST_BYTES
from bondic.methods.groups import PILOT as GROUP_PILOT
from bondic.methods.groups import Groups
from bondic.methods.listed import listing_options
from bondic.methods.propensities import Propensities
from bondic.methods.sequential import Sequential, settled
from bondic.methods.setting import kind_of_states as kind_of_dual
from bondic.methods.setting import tuning_problem
from bondic.methods.table import PILOT as TABLE_PILOT
from bondic.methods.table import Table
from bondic.result import Result
from bondic.rows import Rows
from bondic.search.sequential.basis import PointSlots
from bondic.search.sequential.plan import MOST_LANDMARKS
from bondic.tuning.defaults import Choices, Radius
from bondic.tuning.pilot import PILOT_SHARE, rows_set_aside
from bondic.tuning.sequential_class import ChosenClass, kind_of_states
from bondic.tuning.states import WAY_OUT, unstated
from bondic.withhold import FEWEST_ROWS as FEWEST_SHARED

_OnCells = TypeVar("_OnCells", Table, Groups)
FEWEST_ROWS = 200
"""A log with fewer rows leaves too few for a pilot and for what is to be learned after it."""
_OTHERS = "sequential and dual (--method) apply too; they do without propensities, and assume that q* is in a class Q"
_FEWEST_LANDMARKS = 50
"""With fewer landmarks the set of value functions that is left of Q is too coarse, unless the log has no more pairs."""


@dataclass(frozen=True)
class _Choice:
    """A method that works with a class Q, and why it is that one."""

    method: Table | Groups | Sequential | Dual
    why: str
    chosen: ChosenClass | None = None  # Q, where it had to be made for that
    nothing: str = ""  # why nothing can be said
    states: str = ""  # what states were taken for, where nothing is said


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
        The certificate will be asked not to hold single rows (`Result.without_rows`). Landmarks of `Sequential` are rows: then
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
        found = self._with_propensities(problem, alpha)
        if found is not None:
            stated = self._stated()
            result = stated.run(found.problem, alpha, progress).with_choice("method", f"propensities, as {found.why}")
            return result.with_choice("other methods", _OTHERS)
        choice = self._by_class(problem, alpha)
        if isinstance(choice.method, Table):
            try:
                result = choice.method.run(problem, alpha, progress)
            except InvalidInput as why_not:  # certified rows may say so: the answer is then what needs no row
                result = Sequential(side=self.side).say_nothing(problem, alpha, str(why_not), Clock(progress))
            result = result.with_choice("states", choice.states) if choice.states else result
        elif isinstance(choice.method, Groups | Dual):
            result = choice.method.run(problem, alpha, progress)
            result = result.with_choice("states", choice.states) if choice.states else result
        elif choice.nothing:
            told = {"states": choice.states} if choice.states else {}
            result = choice.method.say_nothing(problem, alpha, choice.nothing, Clock(progress), told)
        else:
            result = choice.method.run(problem, alpha, progress, choice.chosen)
        why = choice.why
        if with_propensities.applies(problem):
            why += "; the log's propensities are not used (--method propensities uses them)"
        return result.with_choice("method", why).with_choice("other methods", self._others(choice, problem))

    def choose(
        self, problem: Rows, alpha: float = 0.1
    ) -> tuple[Propensities | Table | Groups | Sequential | Dual, str]:
        """The method, and why it is that one, in words."""
        found = self._with_propensities(problem, alpha)
        if found is not None:
            return self._stated(), f"propensities, as {found.why}"
        chosen = self._by_class(problem, alpha)
        return chosen.method, chosen.why

    def _others(self, choice: _Choice, problem: Rows) -> str:
        """Methods with the same promise that could have been named instead."""
        names, method = [], choice.method
        if isinstance(method, Table | Sequential) and not choice.nothing:
            names.append("dual (--method) applies too, with the worst noise that the ranges allow")
        if isinstance(method, Dual) and not self._too_short(problem):
            names.append("sequential (--method) may apply too")
        if with_propensities.applies(problem):
            names.append("propensities applies too: the log holds them, and nothing is assumed about q* then")
        return "; ".join(names) or "none"

    def _stated(self) -> Propensities:
        return replace(self.propensities or Propensities(), side=self.side)

    def _with_propensities(self, problem: Rows, alpha: float) -> with_propensities.Applicable | None:
        """None where something was said about Q or W: that needs a method that uses it."""
        described = self._asked_for() or self.ball is not None or self.radius is not None or bool(self._groups_stated)
        if described or self.planned_rows is not None:
            if self.propensities is not None:
                raise InvalidInput(
                    "Statements about propensities do not go together with Q, W, a noise bound or planned_rows: name the method."
                )
            return None
        found = with_propensities.find(self._stated(), problem, self._looked_at, alpha)
        if found is None and self.propensities is not None:
            raise InvalidInput(
                "Something was stated about propensities, and the default has no use for it: the log holds none, the initial "
                "states are not its own, or its first episodes promise too little. Leave it out, or name the method propensities."
            )
        return found

    def _looked_at(self, problem: Rows) -> int:
        """Rows that no method certifies."""
        return 0 if self.pilot == 0 or self._too_short(problem) else self._sequential().pilot_rows(problem)

    def _by_class(self, problem: Rows, alpha: float) -> _Choice:
        """One of the methods that work with a class Q, and Q where it had to be made for that; or why nothing can be said."""
        if known := settled(problem):
            return self._value_range(known)
        if self._groups_stated and self.no_rows:
            raise InvalidInput(
                "Groups and a model are held row by row in the certificate, which is to hold no single row: leave no_rows "
                "(--no-rows) out, or what was stated on groups."
            )
        if self._groups_stated:
            return _Choice(self._groups(), f"groups, as you stated {' and '.join(self._groups_stated)}")
        if (unproved := self._numbers(problem)) is not None:
            return unproved
        why = self._asked_for() or self._too_short(problem)
        if why:
            return self._dual(why)
        sequential = self._sequential()
        pilot = tuning_problem(problem, sequential.pilot_rows(problem))
        if self.ball is None and self.radius is None:
            return self._names(problem, pilot, sequential.pilot_rows(problem))
        why = self._only_dual(pilot)
        if why or pilot is None:
            return self._dual(why)
        rank = _landmarks(pilot, self._rows(problem), _room(problem))
        if rank == 0:
            why = f"{self._rows(problem)} rows are too many for the sequential method to hold in {_room(problem) / 1e9:.3g} GB"
            needed = dual_needs(problem.terms, alpha)
            if self._rows(problem) > needed:
                return self._dual(why)
            why += f", and fewer than the {needed:.3g} that the dual one needs"
            return self._value_range(why)
        sequential = replace(sequential, rank=rank)
        chosen = sequential.promising(pilot, problem, alpha)
        if isinstance(chosen, str):
            return self._value_range(chosen)
        fewer = f" with {rank} landmarks, as more do not fit into memory" if rank < MOST_LANDMARKS else ""
        return _Choice(sequential, f"sequential{fewer}, the default wherever it applies", chosen)

    def _names(self, problem: Rows, pilot: Rows | None, looked_at: int) -> _Choice:
        """A table; or the dual method where there is none."""
        table = self._begun_after(looked_at, Table(self.side, self.pilot or TABLE_PILOT, self.planned_rows), problem)
        if pilot is None:
            return self._dual("too few rows of the pilot can be used")
        if not problem.answers.exact:
            return self._dual("the policy is known by drawn actions, and a table needs its probabilities")
        if self.no_rows:
            table = replace(table, fewest_rows=FEWEST_SHARED)
        return _Choice(table, "table, as states are names", states=kind_of_states(None, self.choices, pilot).said)

    def _numbers(self, problem: Rows) -> _Choice | None:
        """The answer where a table is impossible and nothing was stated about values: the value range. None elsewhere.

        States are told from the pilot of the method that would be used otherwise.
        """
        if self.ball is not None or self.radius is not None:
            return None
        pilot = None
        if not (other := self._asked_for() or self._too_short(problem)):
            pilot = tuning_problem(problem, self._sequential().pilot_rows(problem))
        if pilot is None:
            dual = self._dual(other).method
            assert isinstance(dual, Dual)
            kind = kind_of_dual(dual, problem)
        else:
            kind = kind_of_states(None, self.choices, pilot)
        if kind.table:
            return None
        if pilot is None or self.no_rows:
            withheld = ". Groups would hold single rows, which are to be kept out" if pilot is not None else ""
            return self._value_range(f"{unstated(problem.layout)}; {WAY_OUT}{withheld}", kind.said)
        groups = self._begun_after(self._sequential().pilot_rows(problem), self._groups(), problem)
        return _Choice(groups, f"groups, as {unstated(problem.layout)}", states=kind.said)

    @property
    def _groups_stated(self) -> list[str]:
        stated = {"an allowance": self.allowance, "a model": self.model, "groups": self.groups}
        return [name for name, value in stated.items() if value is not None]

    def _groups(self) -> Groups:
        pilot = GROUP_PILOT if self.pilot is None else self.pilot
        return Groups(self.allowance, self.model, self.groups, None, self.side, pilot, self.planned_rows)

    def _begun_after(self, rows: int, method: _OnCells, problem: Rows) -> _OnCells:
        """The same method with a pilot of at least so many rows: those that the choice has seen are not certified."""
        own = rows_set_aside(method.pilot, self._rows(problem))
        return method if own >= rows else replace(method, pilot=rows)

    def _value_range(self, why: str, states: str = "") -> _Choice:
        """No row is used, so nothing but the side matters."""
        return _Choice(Sequential(side=self.side), f"none, as {why}", nothing=why, states=states)

    def _asked_for(self) -> str:
        """What only the dual method has, and was stated."""
        if self.gauge is not None:
            return "a noise bound was named (gauge), which only the dual method has"
        if self.misspecification or (self.ball is not None and self.ball.misspecification):
            return "an allowance for misspecification was stated, which only the dual method has"
        if self.choices.weight_bandwidth is not None or self.choices.constant_share is not None:
            return "W was described (weight_bandwidth or constant_share), which only the dual method has"
        return ""

    def _too_short(self, problem: Rows) -> str:
        if self.pilot == 0:
            return "no rows may be set aside (pilot=0), and the sequential method starts from a pilot"
        rows = self._rows(problem)
        return (
            f"{rows} rows are fewer than the {FEWEST_ROWS} that the sequential method needs"
            if rows < FEWEST_ROWS
            else ""
        )

    def _only_dual(self, pilot: Rows | None) -> str:
        """Why the sequential method does not apply to a stated class and the dual one does."""
        if pilot is None:
            return "too few rows of the pilot can be used"
        if isinstance(self.ball, Box):
            return "Q is a box, and the sequential method is that of balls"
        if self.no_rows:
            return "single rows are to be kept out of the certificate, and landmarks of the sequential method are rows"
        return ""

    def _rows(self, problem: Rows) -> int:
        """A number that is known before the log: the length of a log may be a stopping time."""
        return len(problem.rows) if self.planned_rows is None else self.planned_rows

    def _sequential(self) -> Sequential:
        ball = None if isinstance(self.ball, Box) else self.ball
        return Sequential(
            ball, self.radius, self.side, self.pilot, self.planned_rows, choices=self.choices, engine=self.engine
        )

    def _dual(self, why: str) -> _Choice:
        dual = Dual(
            ball=self.ball,
            gauge="half" if self.gauge is None else self.gauge,
            side=self.side,
            radius=self.radius,
            misspecification=self.misspecification,
            pilot=PILOT_SHARE if self.pilot is None else self.pilot,
            planned_rows=self.planned_rows,
            choices=self.choices,
            engine=self.engine,
        )
        return _Choice(dual, f"dual, as {why}")


def _room(problem: Rows) -> float:
    """Bytes that may be held: what the user allows for a log that is read in batches, less what reading it takes."""
    plan = problem.log.plan
    return float(MOST_BYTES if plan is None else max(min(plan.budget - plan.fixed, MOST_BYTES), 0))


def _landmarks(pilot: Rows, rows: int, room: float) -> int:
    """As many as there is room for; 0 where these are too few to follow the value function."""
    most = min(int(room / (BYTES_PER_NUMBER * rows)), MOST_LANDMARKS)
    if most >= _FEWEST_LANDMARKS:
        return most
    batch = pilot.whole()
    pairs = len(PointSlots(batch.logged, batch.slots).distinct(MOST_LANDMARKS))
    return most if most >= 2 * pairs else 0
