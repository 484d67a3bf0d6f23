"""The sequential localized interval of a stated ball: a pilot, a plan made block by block, evaluate, write it down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from bondic.core.balls import Ball
from bondic.core.claims import ErrorBudget, Side, ends_of
from bondic.core.errors import InvalidInput, refuse
from bondic.core.proof import Proof
from bondic.core.sequential.plan import Plan
from bondic.core.sequential.proof import INITIAL, VECTOR, SequentialProof, claims_of
from bondic.core.starts import sampled_start
from bondic.core.sums.forms import Sums
from bondic.core.terms import range_at_all_times
from bondic.engines.standard import EngineName
from bondic.engines.sums import EngineSums
from bondic.errors import TooFewRows, TunedOnCertifiedRows
from bondic.methods.base import Clock, Progress, check_proof, describe, estimate_of, listing_options, planned_length
from bondic.methods.setting import tuning_problem
from bondic.methods.user_classes import check_stated
from bondic.methods.value_range import START_SHARE, WholeRange, degenerate_range
from bondic.rendering import three
from bondic.result import Result
from bondic.rows import Rows
from bondic.rows.estimand import estimand_of
from bondic.rows.prefix import Prefixes
from bondic.search.sequential.plan import (
    MAX_LANDMARKS,
    MAX_VISIBLE,
    Shape,
    costs_of,
    make_plan,
    predicted_length,
    replay_plan,
)
from bondic.search.sequential.starts import known_starts
from bondic.tuning.defaults import Advanced, Choices, ChosenClass, Radius, check_radius, choose_class
from bondic.tuning.scales import observed_states
from bondic.tuning.states import PILOT, ObservedStates, check_categorical, kind_of_pilot, pilot_length

NAME = "sequential"
_PREDICTED = "predicted"
NOTES = ("states", "Q", _PREDICTED)
"""Names of the choices that fix Q."""
MIN_ROWS = 200
"""A log with fewer rows leaves too few for a pilot and for what is to be learned after it: the default takes another method."""
VECTOR_SHARE = 0.2
"""Share of alpha for the event behind what is left of Q; the rest goes to the two ends."""


@listing_options
@dataclass(frozen=True)
class Sequential:
    """The sequential localized interval of a ball that you state, theory section 9: allows for the noise that the log shows.

    Rows are used in their order: a pilot, then blocks. Models, instruments, bets and weights of a block come from earlier
    rows; bad ones make the interval longer, never wrong. With `planned_rows` it holds at every number of rows at once, else at
    the one that was fixed beforehand. Not guaranteed: anything if q* is not in Q, if rows are not in the order of time, or if
    Q or an argument was picked with the certified rows.

    Parameters
    ----------
    ball : Ball, default None
        Q, the functions that q* is assumed to be among. None: the ball of `radius`. States that are names need no such
        statement: `Table`.
    radius : float or "paper", default None
        Radius of Q around 0 for the kernel Gaussian on the state (bandwidth: `choices.value_bandwidth` times the median distance)
        × Dirac on actions + 1. "paper": around the middle of the value range, 10 times the norm of a q that is fitted on the
        pilot. Not together with `ball`.
    side : {"both", "lower", "upper"}, default "both"
        Which ends to compute; the other one is that of the value range.
    pilot : float or int, default None
        Rows set aside at the beginning: a share below 1, or a number. They are not certified. None: 5 %, or 10 %
        where these leave open whether states are names.
    planned_rows : int, default None
        The number of rows that was planned, where the log may have stopped earlier or later; None: its length was fixed
        beforehand.
    choices : Choices
        What the kernel of a Q that is stated by its radius is made of, and what states are.
    engine : str or Sums, default "auto"
        How kernel sums are computed. The interval stays valid with any.
    advanced : Advanced
        Options of the search.
    """

    ball: Ball | None = None
    radius: Radius | None = None
    side: Side = "both"
    pilot: float | int | None = None
    planned_rows: int | None = None
    choices: Choices = field(default_factory=Choices)
    engine: EngineName | Sums = "auto"
    advanced: Advanced = field(default_factory=Advanced)
    name: ClassVar[str] = NAME
    assumes: ClassVar[Literal["stated"]] = "stated"

    def __post_init__(self) -> None:
        if self.ball is not None and not isinstance(self.ball, Ball):
            raise InvalidInput(
                f"The sequential interval is that of a Ball, not of a {type(self.ball).__name__}. For states that are names use "
                "method=Table(), which assumes nothing; for a box method=Dual(ball=...)."
            )
        if self.ball is not None:
            check_stated(self.ball)
            check_radius(self.radius, self.ball)
            if self.ball.misspecification:
                raise InvalidInput(
                    "The sequential interval has no allowance for misspecification: use method=Dual(ball=...), or a larger ball."
                )

    def applies(self, problem: Rows) -> str | None:
        """None, or why there is no pilot, or too little after it."""
        if self.pilot == 0:
            return "no rows may be set aside (pilot=0), and the sequential method starts from a pilot"
        if (rows := planned_length(problem, self.planned_rows)) < MIN_ROWS:
            return f"{rows} rows are fewer than the {MIN_ROWS} that the sequential method needs"
        return None

    def predicted_length(self, problem: Rows, alpha: float) -> float:
        """The length of the interval, in units of value, from the pilot alone."""
        pilot = self.pilot_of(problem, self.pilot_rows(problem))
        return self.choose(pilot, problem, alpha, self.shape(problem)).length

    def run(self, problem: Rows, alpha: float, progress: Progress | None, chosen: ChosenClass | None = None) -> Result:
        """The interval; `chosen`, if Q was chosen on the same pilot before."""
        clock = Clock(progress)
        if why := degenerate_range(problem):
            return WholeRange(why, self.side).run(problem, alpha, progress)
        clock.stage("pilot")
        pilot = self.pilot_of(problem, self.pilot_rows(problem))
        chosen = chosen or self.choose(pilot, problem, alpha, self.shape(problem))
        clock.done("pilot")
        return self._interval(problem, pilot, chosen, self.budget(problem, alpha), clock, describe(NAME, self, problem))

    def _interval(
        self,
        problem: Rows,
        pilot: Rows,
        chosen: ChosenClass,
        budget: ErrorBudget,
        clock: Clock,
        planner: dict[str, Any] | None = None,
        before: Plan | None = None,
    ) -> Result:
        """Plan and evaluate; `planner` says how it was planned, `before` is the plan of the beginning of the log."""
        clock.stage("plan")
        shape = self.shape(problem)
        plan = make_plan(problem, pilot, chosen.ball, budget, ends_of(self.side), shape, self._sums, before)
        clock.done("plan")
        return self.evaluate(problem.select(pilot.rows.stop), chosen, plan, budget, clock, planner)

    def follow(
        self,
        problem: Rows,
        alpha: float,
        pilot_rows: int,
        before: SequentialProof | None,
        choices: Mapping[str, str],
        clock: Clock,
    ) -> Result | None:
        """The interval of a log that grows; Q and the plan of the update before, which its `choices` name, are continued.

        None while no start follows the pilot.
        """
        clock.stage("pilot")
        pilot = self.pilot_of(problem, pilot_rows)
        if before is None:
            chosen, budget = (
                self.choose(pilot, problem, alpha, self.shape(problem)),
                self.budget(problem, alpha),
            )
        else:  # the log has another hash when it has grown: what was chosen with its first rows says so of the grown log
            ball, budget = before.ball, before.budget
            if ball.provenance.log_hash == before.estimand.log_hash:
                ball = replace(ball, provenance=replace(ball.provenance, log_hash=problem.log_hash))
            chosen = ChosenClass(ball, {name: str(text) for name, text in choices.items() if name in NOTES})
        clock.done("pilot")
        known = None if before is None else before.plan
        found = self._interval(problem, pilot, chosen, budget, clock, before=known)
        return found if isinstance(found.proof, SequentialProof) else None

    @property
    def _sums(self) -> Sums:
        return EngineSums.named(self.engine)

    def replan(self, prefixes: Prefixes, proof: Proof, sums: Sums) -> tuple[Proof, tuple[str, ...]]:
        """Q from the pilot, every block from the rows before it; rounds of the evaluation are those of the certificate."""
        proof = check_proof(proof, SequentialProof, NAME)
        problem, first, method = prefixes.problem, proof.estimand.rows[0], replace(self, engine=sums)
        refuse(first == problem.rows.start, "No rows were set aside for a pilot.")
        begin = problem.rows.start + method.pilot_rows(prefixes.announced(first))
        refuse(begin != first, f"Rows from {begin} on follow the pilot, not {first}.")
        known, alpha = prefixes.before(first), proof.budget.alpha
        pilot = method.pilot_of(known, len(known.rows))
        shape = method.shape(problem)
        unseen = prefixes.with_unseen_starts(known, known_starts(known, pilot).skipped)
        chosen = method.choose(pilot, unseen, alpha, shape)
        budget = method.budget(known, alpha)
        plan = replay_plan(prefixes, pilot, chosen.ball, budget, ends_of(self.side), shape, sums)
        rounds = proof.plan.rounds
        plan = replace(plan, rounds=rounds if len(rounds) == len(plan.blocks) + 1 else ())
        return SequentialProof(proof.estimand, budget, self.side, chosen.ball, plan, self.planned_rows), ("plan",)

    def evaluate(
        self,
        certified: Rows,
        chosen: ChosenClass,
        plan: Plan,
        budget: ErrorBudget,
        clock: Clock,
        planner: dict[str, Any] | None = None,
    ) -> Result:
        """The interval of a plan on the rows after its pilot; `planner` says how it was made."""
        clock.stage("evaluate")
        if why := _without_starts(certified, plan):
            clock.done("evaluate")
            return WholeRange(why, self.side).run(certified, budget.alpha, clock.progress, clock.seconds)
        proof = SequentialProof(estimand_of(certified), budget, self.side, chosen.ball, plan, self.planned_rows)
        found = proof.evaluate(certified, self._sums)
        estimate, source = estimate_of(found.claims)
        rows = f"rows before {certified.rows.start} tune, {certified.rows} are certified"
        clock.done("evaluate")
        return Result.of(
            replace(proof, plan=replace(plan, rounds=found.rounds)),
            certified,
            method=NAME,
            estimate=estimate,
            claims=claims_of(found, budget),
            choices={"pilot": rows, **chosen.notes, **source},
            effective=found.effective,
            seconds=clock.seconds,
            planner=planner,
        )

    def shape(self, problem: Rows) -> Shape:
        """How a plan for the planned rows is cut."""
        rank = MAX_LANDMARKS if self.advanced.rank is None else self.advanced.rank
        return Shape(planned_length(problem, self.planned_rows), min(MAX_VISIBLE, rank), rank)

    def pilot_rows(self, problem: Rows) -> int:
        """A share of the planned rows, but enough to fit something; or a number."""
        total, planned = len(problem.rows), planned_length(problem, self.planned_rows)
        chosen = self.pilot is None and self.ball is None and self.radius is None
        requested = self._chosen_pilot(problem, planned) if chosen else self.planned_pilot(planned)
        if requested >= total:
            raise TooFewRows(f"A pilot of {requested} rows cannot be set aside from a log of {total} rows.")
        return requested

    def planned_pilot(self, planned: int) -> int:
        """The same where nothing but the planned number of rows is known."""
        share = PILOT if self.pilot is None else self.pilot
        if not isinstance(share, float):
            requested = int(share)
        elif 0 < share < 1:
            requested = pilot_length(share, planned)
        else:
            raise InvalidInput(f"pilot={self.pilot}: a share of rows in (0, 1), or a whole number of rows.")
        if requested < 1:
            raise InvalidInput(f"A pilot of {requested} rows cannot be set aside from a log of {planned} rows.")
        return requested

    def _chosen_pilot(self, problem: Rows, planned: int) -> int:
        """As long as what the states are taken for needs it."""
        layout, start = problem.layout, problem.rows.start
        stated = check_categorical(self.choices.categorical, layout.observation_dim)

        def first(rows: int) -> ObservedStates:
            seen = problem.load(start, start + rows)
            return observed_states(problem.first_block() if seen is None else seen)  # None: all beyond the horizon

        return kind_of_pilot(first, planned, layout, stated)[1]

    def pilot_of(self, problem: Rows, requested: int) -> Rows:
        """The pilot as a problem of its own."""
        pilot = tuning_problem(problem, requested)
        if pilot is None:
            raise InvalidInput(
                f"The sequential interval needs a pilot, and {requested} of {len(problem.rows)} rows are too few for one. Pass "
                "pilot= as a larger number of rows, or use method=Dual()."
            )
        return pilot

    def choose(self, pilot: Rows, problem: Rows, alpha: float, shape: Shape) -> ChosenClass:
        """Q, and how long its interval may be, from the pilot.

        Coordinates, models and weights are made with Q: unlike that of the dual bound it must not have seen certified rows.
        """
        chosen = choose_class(self.ball, self.radius, self.choices, pilot, self.advanced)
        seen, rows = chosen.ball.provenance, (pilot.rows.stop, problem.rows.stop)
        if seen.saw(rows, problem.log_hash):
            raise TunedOnCertifiedRows(
                f"Q was chosen with rows {seen.rows}, the interval would certify rows {rows}. The weights of the sequential "
                "interval are made with Q, which must not have seen the rows they are used on: choose it on earlier rows."
            )
        costs = costs_of(self.budget(problem, alpha), ends_of(self.side))
        length = predicted_length(pilot, chosen.ball, shape.planned, costs, shape.visible, self._sums)
        length = min(length, range_at_all_times(pilot.terms).width)
        text = f"a length of about {three(length)}, guessed from the first {len(pilot.rows)} rows"
        return replace(chosen, notes={**chosen.notes, _PREDICTED: text}, length=length)

    def budget(self, problem: Rows, alpha: float) -> ErrorBudget:
        """alpha over the vector event, the ends, and a sampled start; fixed before any certified row is seen."""
        ends = ends_of(self.side)
        sampled = START_SHARE if sampled_start(problem, len(ends)) is not None else 0.0
        events = {VECTOR: VECTOR_SHARE} | dict.fromkeys(ends, (1.0 - VECTOR_SHARE) / len(ends))
        shares = {INITIAL: sampled, **{name: (1 - sampled) * part for name, part in events.items()}}
        return ErrorBudget.split(alpha, {name: part for name, part in shares.items() if part > 0})


def _without_starts(certified: Rows, plan: Plan) -> str:
    """Starts that were read off the log are bounded by bets on those after the pilot; without any there is no answer.

    Falling back on another bound would spend the same part of alpha twice.
    """
    states = certified.initial_states
    missing = states.kind == "sample" and states.from_rows and plan.start is None
    return "no episode begins after the pilot, so nothing is known about the initial states" if missing else ""
