"""The proof of the sequential interval: a stated ball, the division of alpha, and the plan that was fixed before the rows.

Claimed are the ends of `sequential.bound` for this plan; verification applies the plan to the rows again. That every block of the
plan was made from earlier rows cannot be seen in a plan: a replay makes it again from them, and without one verification says
that it was not checked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from bondic.core.assumptions import fixed_before, length_assumption, list_assumptions
from bondic.core.balls import Ball, Provenance
from bondic.core.bounded import Between, Enclosure, FloatArray, U, row_norms
from bondic.core.claims import Assumption, End, ErrorBudget, Guarantee, Rejection, Side, ends_of
from bondic.core.columns import Columns
from bondic.core.errors import VerificationError, refuse
from bondic.core.proof import Claims, Estimand, Proof, Review
from bondic.core.question import Question
from bondic.core.registry import register
from bondic.core.sequential.bound import Evidence, evaluate
from bondic.core.sequential.ellipsoids import Ellipsoid
from bondic.core.sequential.embedded import embed, embed_start
from bondic.core.sequential.ends import Evaluation
from bondic.core.sequential.landmarks import Coordinates, Embedding
from bondic.core.sequential.plan import MAX_ROUNDS, Plan
from bondic.core.starts import StartBets, StartTerms, start_cost, used_starts
from bondic.core.sums.forms import Sums
from bondic.core.sums.measure import RowMeasures
from bondic.core.terms import ValueRange, range_of

VECTOR = "vector"
"""The share of alpha of (16), the event behind the feasible part of the ball; the tails are called by their ends."""
INITIAL = "initial"
"""The share of a sampled initial distribution."""


@register("proof", "sequential")
@dataclass(frozen=True, eq=False)
class SequentialProof(Proof):
    """The ends (13)-(19) for a plan."""

    estimand: Estimand
    budget: ErrorBudget  # parts: vector, lower, upper, and initial where starts are a sample
    side: Side
    ball: Ball
    plan: Plan
    planned: int | None = None  # rows; None: their number was fixed beforehand

    def __post_init__(self) -> None:
        refuse(self.planned is not None and self.planned < 1, "No rows were planned.")
        events = (VECTOR, *ends_of(self.side))
        refuse(
            any(not self.budget.parts.get(name, 0.0) > 0 for name in events),
            "An event of the sequential interval has no part of alpha.",
        )
        refuse(self.ball.misspecification != 0, "The sequential interval has no allowance for misspecification.")
        for block in self.plan.blocks:
            refuse(set(block.weightings) != set(ends_of(self.side)), "A block lacks the weights of an end.")

    @property
    def guarantee(self) -> Guarantee:
        return "finite-sample"

    @property
    def needs_replay(self) -> tuple[str, ...]:
        return ("plan",)

    @property
    def any_length(self) -> bool:
        return self.planned is not None

    def evidence(self, rows: Columns, sums: Sums) -> Evidence:
        """Coordinates of all rows, and whatever else does not depend on the plan's blocks."""
        plan, ends = self.plan, ends_of(self.side)
        used = rows if plan.start is None else used_starts(rows, plan.start.skipped)
        found = Coordinates(self.ball, plan.basis, used.layout, sums)
        cost = partial(start_cost, rows, plan.start, self.budget.get(INITIAL), ends)

        def start_error(end: End, sets: Sequence[Ellipsoid], value: ValueRange) -> Enclosure:
            return cost(end, value, partial(start_deviations, found, sets))

        data, start = embed(used, found, plan.limits, sums), embed_start(used, found, sums)
        return Evidence(used, data, start, found, range_of(used.terms), self.budget.parts, start_error, sums)

    def evaluate(self, rows: Columns, sums: Sums) -> Evaluation:
        """What the plan says about these rows."""
        return evaluate(self.evidence(rows, sums), self.plan, ends_of(self.side))

    def claims(self, question: Question, sums: Sums) -> Claims:
        rows = question.columns
        return claims_of(self.evaluate(rows, sums), self.budget)

    def assumptions(self, question: Question, *, rejected: bool) -> tuple[Assumption, ...]:
        rows = question.columns
        text, begun = (
            "The models, bets and weights of each block were made from the rows before it",
            self.plan.provenance,
        )
        count = rows.rows.stop - (rows.rows.start if begun.rows is None else begun.rows[0])
        own = (fixed_before("plan", text, begun, rows), length_assumption(count, self.planned))
        return list_assumptions(rows, self.ball, own, rejected=rejected)

    def provenances(self) -> tuple[Provenance, ...]:
        return self.plan.provenance, self.ball.provenance

    def work(self, question: Question) -> float:
        """Coordinates, widths and moments of every row, and factors of the sets: all of them in every round.

        Remainders that are bounded jointly cost no more than the exact sums: they use pairs of rows in stretches.
        """
        rows = question.columns
        points = float((1 + max(rows.next_draws, 1)) * len(rows) + rows.initial.points.shape[0])
        plan, m = self.plan, float(len(self.plan.basis))
        rounds = sum(plan.rounds) if plan.rounds else MAX_ROUNDS * (len(plan.blocks) + 1)
        sets = float(rounds + 2 * len(plan.blocks) + 4) * (len(plan.shares) * len(plan.slab_shares) + 2)
        return 2 * self.ball.work(points, rows.layout) + 2 * m * points + (len(rows) + m) * m * m * sets / 32

    def reviews(self, question: Question, claims: Claims, sums: Sums) -> tuple[Review, ...]:
        rows = question.columns
        del claims, sums
        begun = (("The plan was begun", self.plan.provenance), ("Q was chosen", self.ball.provenance))
        for what, provenance in begun:
            if provenance.saw((rows.rows.start, rows.rows.stop), rows.log_hash):
                raise VerificationError(f"{what} with rows that are certified, or with rows after them.")
        bets = "bets stay within the value range, row by row"
        return (Review((bets,), ("whether the log contradicts Q, beyond the interval's own test",)),)


def claims_of(evaluation: Evaluation, budget: ErrorBudget) -> Claims:
    """The ends; an empty feasible set, or ends that cross, reject at the level that was spent.

    Ends cross only if the tails fail: both speak of one mean over the starts, so the share of these is not spent.
    """
    level = math.fsum(part for name, part in budget.parts.items() if name != INITIAL)
    test = Rejection(evaluation.empty, min(level, 1.0) if evaluation.empty else 1.0, 0.0, 0.0, 0.0)
    return Claims(evaluation.claims, (test,))


def start_deviations(
    coordinates: Coordinates, sets: Sequence[Ellipsoid], terms: StartTerms, bets: StartBets
) -> Between:
    """V(x_j) - R at initial states x_j, over the feasible part of the ball: bounds that hold for every e in all sets at once.

    R is a number, or the mean value over starts that were left out; then it has an embedding, and <e, x_j - R> is bounded as one.
    """
    high = np.full(len(terms), np.inf)
    low, less = -high, None
    value, error = bets.center or 0.0, 0.0
    if bets.center is None:
        mean = terms.reference()
        less, (values, errors) = coordinates.single(mean), _center(coordinates, mean)
        value, error = float(values[0]), float(errors[0])
    for part, measures in terms.parts():
        here, (center, off) = coordinates.single(measures), _center(coordinates, measures)
        here = here if less is None else _difference(here, less, coordinates.radius)
        off = off + error + 2 * U * (np.abs(center) + abs(value))
        center = center - value
        for one in sets:
            bounds = one.products(here)
            size = np.abs(bounds.low) + np.abs(bounds.high) + np.abs(center) + off
            low[part] = np.maximum(low[part], bounds.low + center - off - 4 * U * size)
            high[part] = np.minimum(high[part], bounds.high + center + off + 4 * U * size)
    return Between(low, high)


def _difference(here: Embedding, less: Embedding, radius: float) -> Embedding:
    lost = 4 * U * radius * (row_norms(here.coordinates) + row_norms(less.coordinates))
    return Embedding(
        here.coordinates - less.coordinates,
        (here.perp + less.perp) * (1 + 4 * U),
        (here.extra + less.extra + lost) * (1 + 8 * U),
    )


def _center(coordinates: Coordinates, measures: RowMeasures) -> tuple[FloatArray, FloatArray]:
    if coordinates.ball.center is None:
        return np.zeros(measures.count), np.zeros(measures.count)
    return coordinates.sums.row_products(coordinates.ball.center, measures)
