"""The sequential localized interval as a method: choose Q on the pilot, plan block by block, evaluate, write it down."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from bondic.bounds.dual import VALUE
from bondic.bounds.start import sampled_start
from bondic.claims import Claim, ErrorBudget, Side, ends_of
from bondic.classes.ball import Ball
from bondic.classes.box import Box
from bondic.classes.instruments import Instruments
from bondic.classes.span import Span
from bondic.codec import check_outside
from bondic.errors import InvalidInput, TunedOnCertifiedRows
from bondic.methods.clock import Clock, Progress
from bondic.methods.setting import tuning_problem
from bondic.noise.pinelis import Pinelis
from bondic.proofs.asked import Asked
from bondic.proofs.dual import DualProof
from bondic.proofs.sequential import VECTOR, SequentialProof, claims_of
from bondic.rendering import three
from bondic.result import Result
from bondic.rows import Rows
from bondic.search.sequential.blocks import CUTS
from bondic.search.sequential.plan import MOST_LANDMARKS, MOST_SEEN, Shape, costs_of, make_plan, outset
from bondic.search.table import table_kernel
from bondic.sums.forms import Sums
from bondic.sums.standard import EngineName
from bondic.terms import range_at_all_times
from bondic.tuning.along_policy import refuted
from bondic.tuning.around_centers import Foresight
from bondic.tuning.defaults import Choices
from bondic.tuning.pilot import PILOT_SHARE, share_of_rows
from bondic.tuning.sequential_class import choose_class, kind_of_states

NAME = "sequential"
PILOT, LONG_PILOT = 0.05, 0.1
"""Shares of the rows: usually, and where a center of Q may be fitted to them."""
"""Share of the rows that is set aside to begin with."""
_ENOUGH = 200
"""A pilot has at least so many rows, or a fifth of the log."""
VECTOR_SHARE = 0.2
"""Share of alpha for the event behind what is left of Q; the rest goes to the two ends."""
START_SHARE = 0.1
"""Share of alpha for initial states that are a sample; fixed here, before any data are seen."""


@dataclass(frozen=True)
class Sequential:
    """The sequential localized interval, theory section 9: pays for the noise that the log shows, not for the worst possible.

    Rows are used in their order: a pilot, then blocks. Models, instruments, bets and weights of a block come from earlier
    rows; bad ones make the interval longer, never wrong. It holds at every number of rows at once. Not guaranteed: anything
    if q* is not in Q, if rows are not in the order of time, or if Q or an argument was picked with the certified rows.

    Parameters
    ----------
    ball : Ball, Box or Span, default None
        Q, the functions that q* is assumed to be among. None: a box where states are names (nothing is assumed), else a
        ball that is chosen on the pilot.
    radius : float, default None
        Radius of Q with the kernel left to the library. Not together with `ball`.
    side : {"both", "lower", "upper"}, default "both"
        Which ends are asked for; the other one is reported as that of the value range.
    pilot : float or int, default None
        Rows set aside at the beginning: a share below 1, or a number. They are not certified. None: 10 % where the library
        chooses Q for states that are numbers, and may fit a center for it; else 5 %.
    planned_rows : int, default None
        The number of rows that was planned, where the log may have stopped earlier or later; None: its length was fixed
        beforehand.
    vector_share : float, default 0.2
        Share of alpha for the vector event (16), behind what is left of Q; the ends have the rest.
    cuts : tuple of float
        Ends of blocks, as shares of the planned rows, ascending.
    rank : int, default 200
        Most landmarks: more follow rougher functions, and take longer.
    choices : Choices
        What the defaults for Q are made of.
    engine : str or Sums, default "auto"
        How kernel sums are computed. The interval stays valid with any.
    """

    ball: Ball | Box | Span | None = None
    radius: float | None = None
    side: Side = "both"
    pilot: float | int | None = None
    planned_rows: int | None = None
    vector_share: float = VECTOR_SHARE
    cuts: tuple[float, ...] = CUTS
    rank: int = MOST_LANDMARKS
    choices: Choices = field(default_factory=Choices)
    engine: EngineName | Sums = "auto"

    def __post_init__(self) -> None:
        if self.ball is not None:
            check_outside(self.ball, "Q")
            if self.radius is not None:
                raise InvalidInput(
                    f"Both ball= (radius {self.ball.radius:g}) and radius={self.radius:g} are given. A ball has its radius: "
                    "pass ball=ball.with_radius(...), or radius= alone."
                )
            if self.ball.misspecification:
                raise InvalidInput(
                    "The sequential interval has no allowance for misspecification: use method=Dual(ball=...), or a larger ball."
                )
        if not 0 < self.vector_share < 1:
            raise InvalidInput(f"vector_share={self.vector_share}: a share of alpha strictly between 0 and 1.")

    def run(self, problem: Rows, alpha: float, progress: Progress | None) -> Result:
        clock = Clock(progress)
        report = clock.stage("pilot")
        wanted = self.pilot_rows(problem)
        pilot = tuning_problem(problem, wanted)
        if pilot is None:
            raise InvalidInput(
                f"The sequential interval needs a pilot, and {wanted} of {len(problem.rows)} rows are too few for one. Pass "
                "pilot= as a larger number of rows, or use method=Dual()."
            )
        certified = problem.select(pilot.rows.stop)
        ends, sums = ends_of(self.side), Sums.named(self.engine)
        budget = self._budget(certified, alpha)
        planned = len(problem.rows) if self.planned_rows is None else self.planned_rows
        shape = Shape(planned, self.cuts, min(MOST_SEEN, self.rank), self.rank)
        self._ask_about_states(problem, planned)
        foresight = Foresight(planned, costs_of(budget, ends), shape.seen, sums)
        chosen = choose_class(self.ball, self.radius, self.choices, pilot, foresight, report)
        _refuse_later(chosen.ball, certified)
        notes = {"pilot": f"rows before {certified.rows.start} tune, {certified.rows} are certified", **chosen.notes}
        length = outset(pilot, chosen.ball, shape.seen, sums, chosen.simulated).length(planned, foresight.budget)
        length = min(length, range_at_all_times(problem.terms).width)
        notes["predicted"] = f"a length of about {three(length)}, guessed from the first {len(pilot.rows)} rows"
        clock.done("pilot")
        clock.stage("plan")
        plan = make_plan(problem, pilot, chosen.ball, budget, ends, shape, sums, chosen.simulated)
        clock.done("plan")
        clock.stage("evaluate")
        proof = SequentialProof(Asked.of(certified), budget, self.side, chosen.ball, plan)
        found = proof.evaluate(proof.evidence(certified, sums))
        estimate = _estimate(found.claims, range_at_all_times(problem.terms).low)
        why = self._contradicted(certified, chosen.ball)
        clock.done("evaluate")
        if why:
            notes["Q"] = f"every function with values in the value range, as a ball was given up: {why} ({notes['Q']})"
            given_up = _value_range_proof(certified, alpha, self.side)
            return Result.of(given_up, certified, method=NAME, estimate=estimate, choices=notes, seconds=clock.seconds)
        return Result.of(
            replace(proof, plan=replace(plan, rounds=found.rounds)),
            certified,
            method=NAME,
            estimate=estimate,
            claims=claims_of(found, budget, self.side),
            choices=notes,
            effective=found.effective,
            seconds=clock.seconds,
        )

    def _contradicted(self, certified: Rows, ball: Ball | Box | Span) -> str:
        """Why a ball that the library chose is no answer. Certified rows may say so: the answer is then what needs no row."""
        chosen = self.ball is None and self.radius is None
        return refuted(certified, ball) if chosen and isinstance(ball, Ball) else ""

    def _ask_about_states(self, problem: Rows, planned: int) -> None:
        """InvalidInput where whole numbers may be names or quantities: more rows than the pilot are looked at for that."""
        start = problem.rows.start
        seen = problem.load(start, min(start + share_of_rows(PILOT_SHARE, planned), problem.rows.stop))
        if self.ball is None and seen is not None:
            kind_of_states(self.radius, self.choices, seen)

    def pilot_rows(self, problem: Rows) -> int:
        """A share of the planned rows, but enough to fit something; or a number."""
        total = len(problem.rows) if self.planned_rows is None else self.planned_rows
        pilot = self._share(problem, total) if self.pilot is None else self.pilot
        if isinstance(pilot, float):
            if not 0 < pilot < 1:
                raise InvalidInput(f"pilot={pilot}: a share of rows in (0, 1), or a whole number of rows.")
            wanted = max(share_of_rows(pilot, total), min(_ENOUGH, total // 5))
        else:
            wanted = int(pilot)
        if not 0 < wanted < len(problem.rows):
            raise InvalidInput(f"A pilot of {wanted} rows cannot be set aside from a log of {len(problem.rows)} rows.")
        return wanted

    def _share(self, problem: Rows, total: int) -> float:
        """The first rows of the shorter pilot tell whether a center may be fitted: they belong to the longer one, too."""
        start = problem.rows.start
        stop = min(start + max(share_of_rows(PILOT, total), min(_ENOUGH, total // 5)), problem.rows.stop)
        first = None if self.ball is not None or self.radius is not None else problem.load(start, stop)
        if first is None or kind_of_states(None, self.choices, first).table:
            return PILOT
        return LONG_PILOT if LONG_PILOT * total >= _ENOUGH else PILOT

    def _budget(self, certified: Rows, alpha: float) -> ErrorBudget:
        """alpha over the vector event, the ends, and a sampled start; fixed before any data are seen."""
        ends = ends_of(self.side)
        sampled = START_SHARE if sampled_start(certified, len(ends)) is not None else 0.0
        rest = 1.0 - sampled
        shares = {VECTOR: rest * self.vector_share}
        shares.update({end: rest * (1 - self.vector_share) / len(ends) for end in ends})
        return ErrorBudget.split(alpha, {**shares, "initial": sampled} if sampled else shares)


def _refuse_later(ball: Ball | Box | Span, certified: Rows) -> None:
    """Coordinates, models and weights are made with Q: unlike that of the dual bound it must not have seen certified rows."""
    rows = (certified.rows.start, certified.rows.stop)
    if ball.provenance.saw(rows, certified.log_hash):
        raise TunedOnCertifiedRows(
            f"Q was chosen with rows {ball.provenance.rows}, the interval would certify rows {rows}. The weights of the "
            "sequential interval are made with Q, which must not have seen the rows they are used on: choose it on earlier rows."
        )


def _estimate(claims: tuple[Claim, ...], otherwise: float) -> float:
    """The mean of the doubly robust values behind the ends."""
    values = [claim[VALUE].mid for claim in claims]
    return sum(values) / len(values) if values else otherwise


def _value_range_proof(certified: Rows, alpha: float, side: Side) -> DualProof:
    """Of the value range, from no row: every function in it is in Q, and ω = 0 at both ends. Nothing of alpha is needed."""
    limits, ends = range_at_all_times(certified.terms), ends_of(side)
    shares = {"noise": 1.0 - START_SHARE, "initial": START_SHARE}
    return DualProof(
        Asked.of(certified),
        ErrorBudget.split(alpha, shares if sampled_start(certified, len(ends)) is not None else {"noise": 1.0}),
        side,
        Box.around(limits.low, limits.high, certified.layout),
        Instruments(table_kernel(0.5)),
        Pinelis("half"),
        dict.fromkeys(ends),
    )
