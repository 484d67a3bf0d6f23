"""The sequential localized interval as a method: a pilot, a plan made block by block, evaluate, write it down."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bondic.core.claims import End, ErrorBudget, Side, ends_of
from bondic.core.classes.balls import Ball, Box, Instruments
from bondic.core.codec import check_outside
from bondic.core.dual.bound import VALUE
from bondic.core.dual.noise import Pinelis
from bondic.core.dual.proof import DualProof
from bondic.core.errors import InvalidInput, TunedOnCertifiedRows, refuse
from bondic.core.proof import Proof
from bondic.core.sequential.ends import decided_by_rows
from bondic.core.sequential.plan import Plan, StartBets
from bondic.core.sequential.proof import INITIAL, SequentialProof, claims_of, probabilities
from bondic.core.sequential.table_plan import TablePlan
from bondic.core.start import sampled_start
from bondic.core.sums.forms import Sums
from bondic.core.terms import range_at_all_times, range_of
from bondic.engines.standard import EngineName
from bondic.engines.sums import EngineSums
from bondic.methods.clock import Clock, Progress
from bondic.methods.described import describe
from bondic.methods.listed import listing_options
from bondic.methods.setting import NOTHING, tuning_problem
from bondic.rendering import three
from bondic.result import Result
from bondic.rows import Rows
from bondic.rows.asked import asked_of
from bondic.rows.prefix import Prefixes
from bondic.search.sequential.blocks import CUTS
from bondic.search.sequential.plan import (
    MOST_LANDMARKS,
    MOST_SEEN,
    Shape,
    costs_of,
    make_plan,
    pairs_of_a_table,
    predicted_length,
)
from bondic.search.sequential.replay import replay_plan
from bondic.search.sequential.starts import known_starts, propose_bets
from bondic.search.sequential.tables import make_table_plan, predict_table_length
from bondic.search.table import table_kernel
from bondic.tuning.defaults import Choices, Radius
from bondic.tuning.pilot import PILOT, pilot_length
from bondic.tuning.scales import seen_states
from bondic.tuning.sequential_class import ChosenClass, choose_class
from bondic.tuning.states import SeenStates, check_categorical, kind_of_pilot

NAME = "sequential"
_PREDICTED = "predicted"
_ALL_IN_RANGE = "every function with values in the value range"
NOTES = ("states", "Q", _PREDICTED)
"""What a choice of Q is told by."""
VECTOR_SHARE = 0.2
"""Share of alpha for the event behind what is left of Q; the rest goes to the two ends."""
START_SHARE = 0.1
"""Share of alpha for initial states that are a sample; fixed here, before any data are seen."""


@listing_options
@dataclass(frozen=True)
class Sequential:
    """The sequential localized interval, theory section 9: allows for the noise that the log shows, not for the worst.

    Rows are used in their order: a pilot, then blocks. Models, instruments, bets and weights of a block come from earlier
    rows; bad ones make the interval longer, never wrong. With `planned_rows` it holds at every number of rows at once, else at
    the one that was fixed beforehand. Not guaranteed: anything if q* is not in Q, if rows are not in the order of time, or if
    Q or an argument was picked with the certified rows.

    Parameters
    ----------
    ball : Ball or Box, default None
        Q, the functions that q* is assumed to be among. None: a box where states are names (nothing is assumed), else the ball
        of `radius`.
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
    vector_share : float, default 0.2
        Share of alpha for the vector event (16), behind what is left of Q; the ends have the rest.
    coordinates : bool, default None
        Where Q is a box: whether the plan learns where q* can be, in coordinates of at most `rank` pairs. None: the plan whose
        interval the pilot predicts to be shorter.
    cuts : tuple of float
        Ends of blocks, as shares of the planned rows, ascending.
    rank : int, default 200
        Most landmarks: more follow rougher functions, and take longer.
    choices : Choices
        What the kernel of a Q that is stated by its radius is made of, and what states are.
    engine : str or Sums, default "auto"
        How kernel sums are computed. The interval stays valid with any.
    """

    ball: Ball | Box | None = None
    radius: Radius | None = None
    side: Side = "both"
    pilot: float | int | None = None
    planned_rows: int | None = None
    vector_share: float = VECTOR_SHARE
    coordinates: bool | None = None
    cuts: tuple[float, ...] = CUTS
    rank: int = MOST_LANDMARKS
    choices: Choices = field(default_factory=Choices)
    engine: EngineName | Sums = "auto"

    def __post_init__(self) -> None:
        if self.ball is not None:
            check_outside(self.ball, "Q")
            if self.radius is not None:
                raise InvalidInput(
                    f"Both ball= (radius {self.ball.radius:g}) and radius={self.radius} are given. A ball has its radius: "
                    "pass ball=ball.with_radius(...), or radius= alone."
                )
            if self.ball.misspecification:
                raise InvalidInput(
                    "The sequential interval has no allowance for misspecification: use method=Dual(ball=...), or a larger ball."
                )
        if not 0 < self.vector_share < 1:
            raise InvalidInput(f"vector_share={self.vector_share}: a share of alpha strictly between 0 and 1.")

    def run(self, problem: Rows, alpha: float, progress: Progress | None, chosen: ChosenClass | None = None) -> Result:
        """The interval; `chosen`, if Q was chosen on the same pilot before."""
        clock = Clock(progress)
        if why := settled(problem):
            return self.say_nothing(problem, alpha, why, clock)
        clock.stage("pilot")
        pilot = self.pilot_of(problem, self.pilot_rows(problem))
        planned = len(problem.rows) if self.planned_rows is None else self.planned_rows
        shape, sums = self.shape(planned), EngineSums.named(self.engine)
        chosen = chosen or self.choose(pilot, problem, alpha, shape)
        budget = self.budget(problem, alpha, coordinates=not chosen.table)
        clock.done("pilot")
        clock.stage("plan")
        plan, table = None, self.table_plan(problem, pilot, chosen, budget, shape)
        if table is None:
            plan = make_plan(problem, pilot, chosen.ball, budget, ends_of(self.side), shape, sums)
        clock.done("plan")
        planner = describe(NAME, self, problem)
        return self.evaluate(problem.select(pilot.rows.stop), chosen, plan, budget, clock, table, planner)

    def replan(self, prefixes: Prefixes, proof: Proof, sums: Sums) -> tuple[Proof, tuple[str, ...]]:
        """Q from the pilot, every block from the rows before it; rounds of the evaluation are those of the certificate."""
        refuse(not isinstance(proof, SequentialProof), f"The proof is not one of the method {NAME}.")
        assert isinstance(proof, SequentialProof)
        problem, first, method = prefixes.problem, proof.asked.rows[0], replace(self, engine=sums)
        refuse(first == problem.rows.start, "No rows were set aside for a pilot.")
        begin = problem.rows.start + method.pilot_rows(prefixes.announced(first))
        refuse(begin != first, f"Rows from {begin} on follow the pilot, not {first}.")
        known, alpha = prefixes.before(first), proof.budget.alpha
        pilot = method.pilot_of(known, len(known.rows))
        shape = method.shape(len(problem.rows) if self.planned_rows is None else self.planned_rows)
        unseen = prefixes.with_unseen_starts(known, known_starts(known, pilot).skipped)
        chosen = method.choose(pilot, unseen, alpha, shape)
        budget, plan = method.budget(known, alpha, coordinates=not chosen.table), None
        if not chosen.table:
            plan = replay_plan(prefixes, pilot, chosen.ball, budget, ends_of(self.side), shape, sums)
            rounds = () if proof.plan is None else proof.plan.rounds
            plan = replace(plan, rounds=rounds if len(rounds) == len(plan.blocks) + 1 else ())
        table = method.table_plan(problem, pilot, chosen, budget, shape, prefixes)
        return SequentialProof(proof.asked, budget, self.side, chosen.ball, plan, table, self.planned_rows), ("plan",)

    def evaluate(
        self,
        certified: Rows,
        chosen: ChosenClass,
        plan: Plan | None,
        budget: ErrorBudget,
        clock: Clock,
        table: TablePlan | None = None,
        planner: dict[str, Any] | None = None,
    ) -> Result:
        """The interval of a plan on the rows after its pilot; `planner` says how it was made."""
        clock.stage("evaluate")
        if why := _without_starts(certified, plan, table):
            clock.done("evaluate")
            return self.say_nothing(certified, budget.alpha, why, clock)
        proof = SequentialProof(asked_of(certified), budget, self.side, chosen.ball, plan, table, self.planned_rows)
        found = proof.evaluate_all(certified, EngineSums.named(self.engine))
        carrying = {claim.end: claim[VALUE].mid for claim in found.claims if decided_by_rows(claim)}
        clock.done("evaluate")
        return Result.of(
            replace(proof, plan=None if plan is None else replace(plan, rounds=found.rounds)),
            certified,
            method=NAME,
            estimate=sum(carrying.values()) / len(carrying) if carrying else math.nan,
            claims=claims_of(found, budget),
            choices=self._notes(certified, chosen.notes) | _source(carrying),
            effective=found.effective,
            seconds=clock.seconds,
            planner=planner,
        )

    def table_plan(
        self,
        problem: Rows,
        pilot: Rows,
        chosen: ChosenClass,
        budget: ErrorBudget,
        shape: Shape,
        prefixes: Prefixes | None = None,
    ) -> TablePlan | None:
        """The plan without coordinates, where one was chosen; from `prefixes` alone, where they are given."""
        if not chosen.table:
            return None
        assert isinstance(chosen.ball, Box)
        cuts, sums, before = shape.cuts, EngineSums.named(self.engine), None if prefixes is None else prefixes.before
        plan = make_table_plan(problem, pilot, chosen.ball, self._log_term(budget), shape.planned, cuts, sums, before)
        if prefixes is not None:
            problem = prefixes.before(pilot.rows.stop)
            problem = prefixes.with_unseen_starts(problem, known_starts(problem, pilot).skipped)
        return replace(plan, start=self._start_bets(problem, pilot, budget, shape.planned))

    def _start_bets(self, problem: Rows, pilot: Rows, budget: ErrorBudget, planned: int) -> StartBets | None:
        probability = budget.get(INITIAL)
        if probability is None:
            return None
        return propose_bets(problem, pilot, problem.rows.start + planned, probability / len(ends_of(self.side)))

    def say_nothing(
        self, problem: Rows, alpha: float, why: str, clock: Clock, told: Mapping[str, str] | None = None
    ) -> Result:
        """The value range at once, from no row, where rows can add nothing or promise no more."""
        notes = {**(told or {}), "Q": _ALL_IN_RANGE, NOTHING: why}
        proof = _value_range_proof(problem, alpha, self.side)
        return Result.of(proof, problem, method=NAME, choices=notes, seconds=clock.seconds)

    def _notes(self, certified: Rows, told: Mapping[str, str]) -> dict[str, str]:
        rows = f"rows before {certified.rows.start} tune, {certified.rows} are certified"
        return {"pilot": rows, **told}

    def shape(self, planned: int) -> Shape:
        """How a plan for so many rows is cut."""
        return Shape(planned, self.cuts, min(MOST_SEEN, self.rank), self.rank)

    def pilot_rows(self, problem: Rows) -> int:
        """A share of the planned rows, but enough to fit something; or a number."""
        total = len(problem.rows)
        planned = total if self.planned_rows is None else self.planned_rows
        chosen = self.pilot is None and self.ball is None and self.radius is None
        wanted = self._chosen_pilot(problem, planned) if chosen else self.planned_pilot(planned)
        if wanted >= total:
            raise InvalidInput(f"A pilot of {wanted} rows cannot be set aside from a log of {total} rows.")
        return wanted

    def planned_pilot(self, planned: int) -> int:
        """The same where nothing but the planned number of rows is known."""
        share = PILOT if self.pilot is None else self.pilot
        if not isinstance(share, float):
            wanted = int(share)
        elif 0 < share < 1:
            wanted = pilot_length(share, planned)
        else:
            raise InvalidInput(f"pilot={self.pilot}: a share of rows in (0, 1), or a whole number of rows.")
        if wanted < 1:
            raise InvalidInput(f"A pilot of {wanted} rows cannot be set aside from a log of {planned} rows.")
        return wanted

    def _chosen_pilot(self, problem: Rows, planned: int) -> int:
        """As long as what the states are taken for needs it."""
        layout, start = problem.layout, problem.rows.start
        stated = check_categorical(self.choices.categorical, layout.observation_dim)

        def first(rows: int) -> SeenStates:
            seen = problem.load(start, start + rows)
            return seen_states(problem.first_block() if seen is None else seen)  # None: all beyond the horizon

        return kind_of_pilot(first, planned, layout, stated)[1]

    def pilot_of(self, problem: Rows, wanted: int) -> Rows:
        """The pilot as a problem of its own."""
        pilot = tuning_problem(problem, wanted)
        if pilot is None:
            raise InvalidInput(
                f"The sequential interval needs a pilot, and {wanted} of {len(problem.rows)} rows are too few for one. Pass "
                "pilot= as a larger number of rows, or use method=Dual()."
            )
        return pilot

    def choose(self, pilot: Rows, problem: Rows, alpha: float, shape: Shape) -> ChosenClass:
        """Q, and how long its interval may be, from the pilot.

        Coordinates, models and weights are made with Q: unlike that of the dual bound it must not have seen certified rows.
        """
        chosen = choose_class(self.ball, self.radius, self.choices, pilot, shape.planned)
        seen, rows = chosen.ball.provenance, (pilot.rows.stop, problem.rows.stop)
        if seen.saw(rows, problem.log_hash):
            raise TunedOnCertifiedRows(
                f"Q was chosen with rows {seen.rows}, the interval would certify rows {rows}. The weights of the sequential "
                "interval are made with Q, which must not have seen the rows they are used on: choose it on earlier rows."
            )
        lengths = self._predicted_lengths(problem, pilot, chosen.ball, alpha, shape)
        table = min(lengths, key=lengths.__getitem__)
        length = min(lengths[table], range_at_all_times(pilot.terms).width)
        text = f"a length of about {three(length)}, guessed from the first {len(pilot.rows)} rows"
        if isinstance(chosen.ball, Box):
            text += f", by a plan {'without' if table else 'with'} coordinates"
        return replace(chosen, notes={**chosen.notes, _PREDICTED: text}, length=length, table=table)

    def promising(self, pilot: Rows, problem: Rows, alpha: float) -> ChosenClass | str:
        """Q; or why its interval would be no shorter than the value range.

        Plans of tables are cheap: they are made whatever the pilot says.
        """
        shape = self.shape(len(problem.rows) if self.planned_rows is None else self.planned_rows)
        chosen = self.choose(pilot, problem, alpha, shape)
        if isinstance(chosen.ball, Box) or chosen.length < range_at_all_times(pilot.terms).width:
            return chosen
        return f"the first {len(pilot.rows)} rows promise no more than the value range for the sequential method"

    def _predicted_lengths(
        self, problem: Rows, pilot: Rows, ball: Ball | Box, alpha: float, shape: Shape
    ) -> dict[bool, float]:
        """How long the interval of each plan that is possible would be, from the pilot alone; True: without coordinates.

        Coordinates learn where q* can be, which helps once rows are many times pairs / (1 - gamma)^2; they know the pilot's pairs
        alone. Without them nothing is learned about q*, and unseen events alone matter where what follows can be foreseen.
        """
        sums = EngineSums.named(self.engine)
        possible = isinstance(ball, Box) and pilot.layout.discrete and pilot.answers.exact
        if self.coordinates is False and not possible:
            raise InvalidInput(
                "coordinates=False: a plan without coordinates needs a box as Q and a policy with probabilities."
            )
        found, wanted = {}, self.coordinates
        if isinstance(ball, Box) and possible and not wanted:
            budget = self.budget(problem, alpha, coordinates=False)
            found[True] = predict_table_length(pilot, ball, self._log_term(budget), shape.planned, sums)
            found[True] += self._starts_not_learned(problem, pilot, budget, shape.planned)
        if wanted or not found or (wanted is None and pairs_of_a_table(pilot) <= shape.seen):
            costs = costs_of(self.budget(problem, alpha), ends_of(self.side))
            found[False] = predicted_length(pilot, ball, shape.planned, costs, shape.seen, sums)
        return found

    def _starts_not_learned(self, problem: Rows, pilot: Rows, budget: ErrorBudget, planned: int) -> float:
        """What sampled starts cost both ends of a plan that does not learn what they are worth.

        sqrt(p (1 - p)) B is the deviation of a value that is B away at the share p of starts that are not the most frequent one.
        Hoeffding's inequality takes B/2 for it, at a cost of B^2 times its rate / 4. The starts that are left out tell p.
        """
        bets = self._start_bets(problem, pilot, budget, planned)
        if bets is None:
            return 0.0
        _, counts = np.unique(problem.initial_states.observations[: bets.skipped] + 0.0, axis=0, return_counts=True)
        others = 1.0 - float(counts.max()) / bets.skipped if bets.skipped else 0.5
        each = 0.5 * range_of(problem.terms).width ** 2 * bets.hoeffding * math.sqrt(others * (1.0 - others))
        return len(ends_of(self.side)) * each

    def _log_term(self, budget: ErrorBudget) -> float:
        """log(1/delta) of an end."""
        return -math.log(min(budget[end] for end in ends_of(self.side)))

    def budget(self, problem: Rows, alpha: float, *, coordinates: bool = True) -> ErrorBudget:
        """alpha over the vector event (of a plan with coordinates), the ends, and a sampled start.

        Fixed before any certified row is seen.
        """
        sampled = START_SHARE if sampled_start(problem, len(ends_of(self.side))) is not None else 0.0
        events = probabilities(self.side, self.vector_share if coordinates else 0.0)
        shares = {INITIAL: sampled, **{name: (1 - sampled) * part for name, part in events.items()}}
        return ErrorBudget.split(alpha, {name: part for name, part in shares.items() if part > 0})


def settled(problem: Rows) -> str:
    """Why no row can add anything: bets are made in units of the width of the value range, which has to have one."""
    return "" if range_at_all_times(problem.terms).width else "the ranges leave one possible value"


def _source(carrying: Collection[End]) -> dict[str, str]:
    """Where the point estimate comes from, in words."""
    return {"estimate": f"doubly robust, by the weights of the {' and '.join(carrying)} end"} if carrying else {}


def _without_starts(certified: Rows, plan: Plan | None, table: TablePlan | None) -> str:
    """Starts that were read off the log are bounded by bets on those after the pilot; without any there is no answer.

    Falling back on another bound would spend the same part of alpha twice.
    """
    states = certified.initial_states
    read_off = states.kind == "sample" and states.from_rows
    missing = read_off and any(one is not None and one.start is None for one in (plan, table))
    return "no episode begins after the pilot, so nothing is known about the initial states" if missing else ""


def _value_range_proof(certified: Rows, alpha: float, side: Side) -> DualProof:
    """Of the value range, from no row: every function in it is in Q, and ω = 0 at both ends. Nothing of alpha is needed."""
    limits, ends = range_at_all_times(certified.terms), ends_of(side)
    shares = {"noise": 1.0 - START_SHARE, "initial": START_SHARE}
    return DualProof(
        asked_of(certified),
        ErrorBudget.split(alpha, shares if sampled_start(certified, len(ends)) is not None else {"noise": 1.0}),
        side,
        Box.around(limits.low, limits.high, certified.layout),
        Instruments(table_kernel(0.5)),
        Pinelis("half"),
        dict.fromkeys(ends),
    )
