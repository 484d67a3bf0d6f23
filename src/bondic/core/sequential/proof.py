"""The sequential interval's proof: Q, the division of alpha, and the plan: all that was fixed before the rows it is used on.

Claimed are the ends that `bounds.sequential` finds for this plan; verification applies the plan to the rows again and recomputes
them. That every block of the plan was made from earlier rows cannot be seen in a plan: a replay makes it again from them, and
without one verification says that it was not checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bondic.core.assumptions import assumes_nothing, fixed_before, length_assumption, list_assumptions
from bondic.core.bounded import Enclosure
from bondic.core.claims import Assumption, End, ErrorBudget, Guarantee, Rejection, Side, ends_of
from bondic.core.classes.balls import Box, Provenance, ValueClass
from bondic.core.classes.ellipsoids import Ellipsoid
from bondic.core.classes.landmarks import coordinates
from bondic.core.columns import Columns
from bondic.core.errors import InvalidInput, VerificationError, refuse
from bondic.core.proof import Asked, Claims, Proof, Review
from bondic.core.registry import register
from bondic.core.sequential.bound import Evidence, evaluate
from bondic.core.sequential.embedded import embed, embed_start
from bondic.core.sequential.ends import Evaluation
from bondic.core.sequential.plan import MOST_ROUNDS, Plan
from bondic.core.sequential.table import evaluate_table
from bondic.core.sequential.table_plan import TablePlan
from bondic.core.start import SampledStart, sampled_start
from bondic.core.start_bets import learned, start_error, used_starts
from bondic.core.sums.forms import Sums
from bondic.core.terms import ValueRange, range_of

VECTOR = "vector"
"""The share of alpha of (16), the event behind what is left of Q; the tails are called by their ends."""
INITIAL = "initial"
"""The share of a sampled initial distribution."""


@register("proof", "sequential")
@dataclass(frozen=True, eq=False)
class SequentialProof(Proof):
    """The ends (13)-(19) for a plan with coordinates, or those of a table's plan without them."""

    asked: Asked
    budget: ErrorBudget  # parts: lower, upper, initial; with coordinates also vector
    side: Side
    ball: ValueClass
    plan: Plan | None
    table: TablePlan | None = None
    planned: int | None = None  # rows; None: their number was fixed beforehand

    def __post_init__(self) -> None:
        refuse(self.planned is not None and self.planned < 1, "No rows were planned.")
        refuse((self.plan is None) == (self.table is None), "A sequential interval has one plan.")
        refuse(self.table is not None and not isinstance(self.ball, Box), "A plan for a table needs a box as Q.")
        needed = {*(() if self.plan is None else (VECTOR,)), *ends_of(self.side)}
        refuse(
            not needed <= set(self.budget.parts), "A part of alpha is missing for an event of the sequential interval."
        )
        refuse(
            any(not self.budget[name] > 0 for name in needed),
            "An event of the sequential interval has no part of alpha.",
        )
        refuse(self.ball.misspecification != 0, "The sequential interval has no allowance for misspecification.")
        for block in () if self.plan is None else self.plan.blocks:
            refuse(set(block.weightings) != set(ends_of(self.side)), "A block lacks the weights of an end.")

    @property
    def guarantee(self) -> Guarantee:
        return "finite-sample"

    @property
    def needs_replay(self) -> tuple[str, ...]:
        return ("plan",)

    def evidence(self, rows: Columns, sums: Sums) -> Evidence:
        """Coordinates of all rows, and whatever else does not depend on the plan's blocks."""
        plan = self.plan
        if plan is None:
            raise InvalidInput("This interval was made without coordinates.")
        bets, whole = plan.start, rows
        rows = rows if bets is None else used_starts(rows, bets.skipped)
        found = coordinates(self.ball, plan.basis, rows.layout, sums)
        data = embed(rows, self.ball, found, plan.limits, sums)
        start, limits = embed_start(rows, self.ball, found, sums), range_of(rows.terms)
        sampled, probability = self._sampled(rows)

        def error(end: End, sets: Sequence[Ellipsoid], value: ValueRange) -> Enclosure:
            if sampled is None or probability is None:
                return Enclosure(0.0)
            if bets is None:
                return sampled.error(probability)
            each = probability / len(ends_of(self.side))
            return start_error(whole, bets, limits, value, end, each, learned(self.ball, found, sets, sums))

        return Evidence(rows, data, start, found, limits, self.budget.parts, error, sums)

    def evaluate(self, evidence: Evidence) -> Evaluation:
        assert self.plan is not None
        return evaluate(evidence, self.plan, ends_of(self.side))

    def evaluate_all(self, rows: Columns, sums: Sums) -> Evaluation:
        """What the plan says about these rows."""
        if self.table is None:
            return self.evaluate(self.evidence(rows, sums))
        assert isinstance(self.ball, Box)
        start, error = self.table.start, self._starts_of_table(rows)
        used = rows if start is None else used_starts(rows, start.skipped)
        tails = {end: self.budget[end] for end in ends_of(self.side)}
        return evaluate_table(used, self.ball, self.table, tails, error, sums)

    def _starts_of_table(self, rows: Columns) -> Callable[[End, ValueRange], Enclosure]:
        """What sampled starts cost a plan without coordinates, which knows no more of q* than the value range."""
        assert self.table is not None
        bets, limits = self.table.start, range_of(rows.terms)
        sampled, probability = self._sampled(rows)

        def error(end: End, value: ValueRange) -> Enclosure:
            if sampled is None or probability is None:
                return Enclosure(0.0)
            if bets is None:
                return sampled.error(probability)
            return start_error(rows, bets, limits, value, end, probability / len(ends_of(self.side)))

        return error

    def _sampled(self, rows: Columns) -> tuple[SampledStart | None, float | None]:
        """A sampled initial distribution, and the probability that is set aside for it."""
        sampled, probability = sampled_start(rows, len(ends_of(self.side))), self.budget.get(INITIAL)
        if sampled is not None and probability is None:
            raise InvalidInput("The initial distribution is sampled: a part of alpha must be set aside for it.")
        return sampled, probability

    def claims(self, rows: Columns, sums: Sums) -> Claims:
        return claims_of(self.evaluate_all(rows, sums), self.budget)

    @property
    def _begun(self) -> Provenance:
        """The rows that the plan was begun with."""
        if self.plan is not None:
            return self.plan.provenance
        assert self.table is not None
        return self.table.provenance

    def assumptions(self, rows: Columns, *, rejected: bool) -> tuple[Assumption, ...]:
        text = "The models, bets and weights of each block were made from the rows before it"
        seen = self._begun.rows
        count = rows.rows.stop - (rows.rows.start if seen is None else seen[0])
        own = (fixed_before("plan", text, self._begun, rows), length_assumption(count, self.planned))
        return list_assumptions(rows, self.ball, own, rejected=rejected)

    def provenances(self) -> tuple[Provenance, ...]:
        return self._begun, self.ball.provenance

    def work(self, rows: Columns) -> float:
        """Coordinates, widths and moments of every row, and factors of the sets: all of them in every round.

        Left-overs that are paid for together cost no more than the exact sums: they meet pairs of rows in stretches.
        """
        points = float((1 + max(rows.next_draws, 1)) * len(rows) + rows.initial.points.shape[0])
        total, plan = self.ball.work(points, rows.layout), self.plan
        if self.table is not None:
            total += 64.0 * points + sum(block.shares.size + 8.0 * block.weights.size for block in self.table.blocks)
        if plan is None:
            return total
        m, most = float(len(plan.basis)), MOST_ROUNDS * (len(plan.blocks) + 1)
        rounds = float((sum(plan.rounds) if plan.rounds else most) + 2 * len(plan.blocks) + 4)
        sets = rounds * (2 * len(plan.taus) + 2)
        return 2 * total + 2 * m * points + (len(rows) + m) * m * m * sets / 32

    def reviews(self, rows: Columns, claims: Claims, sums: Sums) -> tuple[Review, ...]:
        del claims, sums
        for what, provenance in (("The plan was begun", self._begun), ("Q was chosen", self.ball.provenance)):
            if provenance.saw((rows.rows.start, rows.rows.stop), rows.log_hash):
                raise VerificationError(f"{what} with rows that are certified, or with rows after them.")
        bets = "bets stay within the value range, row by row"
        if assumes_nothing(rows, self.ball):
            return (Review((bets, "nothing is assumed about q*: there is no class to test")),)
        return (Review((bets,), ("whether the log contradicts Q, beyond the interval's own test",)),)


def claims_of(evaluation: Evaluation, budget: ErrorBudget) -> Claims:
    """The ends; an empty set of what is left of Q, or ends that cross, reject at the level that was spent.

    Ends cross only if the tails fail: both speak of one mean over the starts, so the share of these is not spent.
    """
    level = math.fsum(part for name, part in budget.parts.items() if name != INITIAL)
    test = Rejection(evaluation.empty, min(level, 1.0) if evaluation.empty else 1.0, 0.0, 0.0, 0.0)
    return Claims(evaluation.claims, (test,))


def probabilities(side: Side, vector: float) -> dict[str, float]:
    """Shares of the events: `vector` for what is left of Q (0: nothing is learned about q*), the rest for the tails."""
    ends: tuple[End, ...] = ends_of(side)
    return {VECTOR: vector, **{end: (1.0 - vector) / len(ends) for end in ends}}
