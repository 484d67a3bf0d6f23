"""Both ends for a table without coordinates: (13) and (15) at the worst e of the box.

    Λ J* <= Λ E_{d_pi,0}[q̂] - sum_i v_i R̂q̂_i + log(1/delta) + r sum_x |μ(x)| + sum_i max g(-v_i Δ_i),    |e(x)| <= r,

and the lower end the same with -v. Δ_i is bounded by a_i ± γ r |x'_i - κ_i|_1 (14): where the model foresees what follows,
as in a world without chance, noise costs nothing. Memory and time grow with the rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.betting import LARGEST_BET, clipped_deviation, loss, tail_term
from bondic.core.bounded import Between, Enclosure, U, certified_dot, inflate, upper_sum
from bondic.core.claims import Claim, End, Part
from bondic.core.classes.balls import Box
from bondic.core.classes.basis import positions
from bondic.core.columns import Batch, Columns
from bondic.core.dual.bound import BIAS, START, UNMOVED, VALUE
from bondic.core.errors import InvalidInput, NumericalError
from bondic.core.identity import mean_over_starts, values_at_rows, values_at_starts
from bondic.core.sequential.embedded import balance, limits_at
from bondic.core.sequential.ends import Evaluation, mean_of_starts, tail_claim
from bondic.core.sequential.table_plan import TableBlock, TablePlan, expected, weights_of
from bondic.core.sums.forms import Sums
from bondic.core.sums.reference import REFERENCE
from bondic.core.terms import ValueRange, range_of

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TableColumns:
    """Rows in order: v_i, and what follows from it."""

    weights: FloatArray  # (n,) v_i
    residual: FloatArray  # (n,) R̂q̂_i
    deviations: Between  # Δ_i
    rate: float  # Λ
    error: float  # a bound of the error of every residual


def apply_table(rows: Columns, box: Box, plan: TablePlan, sums: Sums = REFERENCE) -> TableColumns:
    """The columns of a plan on all of its rows."""
    if not rows.layout.discrete or plan.answers.shape[1] != rows.layout.slots:
        raise InvalidInput("A table needs discrete actions, and the actions of its plan.")
    if plan.states.shape[1] != rows.layout.dimension:
        raise InvalidInput("The states of the plan do not have the columns of this log.")
    parts, rate = [], 0.0
    used = np.zeros(plan.places.size, dtype=np.int64)
    last: TableBlock | None = None
    for batch in rows.batches():
        values = _Values.of(batch, box, plan, sums)
        for block, part in _pieces(plan, batch.log_rows):
            if block is not last:
                used[:], last = 0, block
            parts.append(values.columns(box, plan, block, part, used))
            rate += block.rate * (part.stop - part.start)
    if not parts:
        raise InvalidInput("There are no rows within the horizon.")
    weights, residual, low, high = (np.concatenate(column) for column in zip(*(p[:4] for p in parts), strict=True))
    return TableColumns(weights, residual, Between(low, high), rate, max(p[4] for p in parts))


def _pieces(plan: TablePlan, log_rows: IntArray) -> Iterator[tuple[TableBlock, slice]]:
    """Every block that has rows among these, with their positions."""
    ends = np.searchsorted(log_rows, [block.stop for block in plan.blocks])
    if ends[-1] != len(log_rows):
        raise InvalidInput("The blocks of the plan end before the rows do.")
    first = 0
    for block, end in zip(plan.blocks, ends.tolist(), strict=True):
        if end > first:
            yield block, slice(first, end)
            first = end


@dataclass(frozen=True, eq=False)
class _Values:
    """A batch with everything about it that no block changes."""

    gamma: float
    pairs: IntArray  # (n,) in the plan; -1: not there
    after: IntArray  # (n,) the state that follows, in the plan; -1: none, or not there
    answers: FloatArray  # (n, A) the policy's weights there; 0 where nothing follows
    outcome: FloatArray  # (n,) r + gamma q̂(x')
    residual: FloatArray  # (n,)
    limits: Between  # [lo_i, hi_i]
    error: float  # of outcome and residual

    @staticmethod
    def of(batch: Batch, box: Box, plan: TablePlan, sums: Sums) -> _Values:
        n, cloud = len(batch), batch.next
        after, answers = np.full(n, -1), np.zeros((n, batch.layout.slots))
        after[cloud.rows] = positions(plan.states, cloud.points)
        answers[cloud.rows] = cloud.weights
        values = values_at_rows(batch, box.center, sums)
        outcome = batch.rewards + batch.gamma * values.next
        residual = values.logged - batch.gamma * values.next - batch.rewards
        size = float((np.abs(values.logged) + np.abs(values.next) + np.abs(batch.rewards)).max(initial=0.0))
        error = inflate(values.error * (1 + batch.gamma) + 8 * U * size)
        pairs, limits = plan.pairs(batch.logged, batch.slots), limits_at(batch, None)
        return _Values(batch.gamma, pairs, after, answers, outcome, residual, limits, error)

    def columns(
        self, box: Box, plan: TablePlan, block: TableBlock, part: slice, used: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, float]:
        """v, R̂q̂, bounds of Δ and the error of R̂q̂ for the rows of a block; Δ = 0 where v = 0, which is never used."""
        limits = Between(self.limits.low[part], self.limits.high[part])
        weights = weights_of(block, self.pairs[part], limits.high - limits.low, used)
        if not np.all(np.abs(weights) * (limits.high - limits.low) <= LARGEST_BET):
            raise NumericalError("A bet of a tail is too large for the value range.")
        low, high = np.zeros(weights.size), np.zeros(weights.size)
        own = np.flatnonzero(weights)
        if own.size:
            found = self._deviations(box, plan, block, part.start + own, Between(limits.low[own], limits.high[own]))
            low[own], high[own] = np.minimum(found.low, found.high), np.maximum(found.low, found.high)
        return weights, self.residual[part], low, high, self.error

    def _deviations(self, box: Box, plan: TablePlan, block: TableBlock, rows: IntArray, limits: Between) -> Between:
        """Bounds of Y - clip(ŷ) over the box, the clip being the whole range."""
        answers, error = self.answers[rows], (12 + self.answers.shape[1]) * U
        model = expected(block, plan.answers, self.pairs[rows], self.after[rows], answers, error)
        step = self.gamma * box.radius * (1 + 8 * U)
        mass = np.abs(answers).sum(axis=1) * (1 + 4 * (error + answers.shape[1] * U))
        predicted = _around(model.predicted, step * model.mass, 0.0)
        outcome = _around(self.outcome[rows], step * mass, self.error).within(limits.low, limits.high)
        apart = _around(self.outcome[rows] - model.predicted, step * model.apart, self.error)
        lost = 4 * U * (np.abs(self.outcome[rows]) + np.abs(model.predicted))  # of the difference
        return clipped_deviation(predicted, outcome, Between(apart.low - lost, apart.high + lost), limits)


def _around(middle: FloatArray, half: FloatArray, error: float) -> Between:
    """middle ± (half + error), rounded outward."""
    width = (half + error) * (1 + 4 * U) + 4 * U * np.abs(middle)
    return Between(middle - width, middle + width)


def evaluate_table(
    rows: Columns,
    box: Box,
    plan: TablePlan,
    probabilities: dict[End, float],
    start_error: Callable[[End, ValueRange], Enclosure],
    sums: Sums = REFERENCE,
) -> Evaluation:
    """The ends to compute, each with the probability of its tail and with what sampled starts cost it."""
    found = apply_table(rows, box, plan, sums)
    start = mean_over_starts(rows, *values_at_starts(rows, box.center, sums))
    residuals = certified_dot(found.weights, found.residual)
    slack = upper_sum(np.abs(found.weights)) * found.error
    base = Enclosure(found.rate) * start - Enclosure(residuals.mid, inflate(residuals.rad + slack))
    (size,) = sums.total_variations(balance(rows, [found.weights], [found.rate]))
    bias = inflate(box.radius * size.upper)
    found_ends: dict[End, Claim] = {}
    for end, probability in probabilities.items():
        log = tail_term(probability).upper
        claim = tail_claim(end, base, found.rate, *_total(found, end, bias), log)
        everything = Claim(end, (Part(VALUE, start, "value"), Part(BIAS, Enclosure(inflate(box.radius)), "spread")))
        used = claim.gain(everything) > UNMOVED * range_of(rows.terms).width
        found_ends[end] = Claim(end, (claim if used else everything).parts, used)
    value = mean_of_starts(range_of(rows.terms), found_ends.values())
    claims = [
        Claim(end, (*claim.parts, Part(START, start_error(end, value), "spread")), claim.uses_log)
        for end, claim in found_ends.items()
    ]
    effective = float(np.abs(found.weights).sum() ** 2 / max(float(np.sum(found.weights**2)), 1e-300))
    return Evaluation(tuple(claims), _crossed(claims), (), effective)


def _total(found: TableColumns, end: End, bias: float) -> tuple[float, float, float]:
    """Bias and noise together, 0 for the center, and the noise alone."""
    signed = found.weights if end == "upper" else -found.weights
    prices = np.maximum(loss(-signed * found.deviations.low), loss(-signed * found.deviations.high))
    noise = upper_sum(prices[found.weights != 0])
    return inflate((bias + noise) * (1 + 4 * U)), 0.0, noise


def _crossed(claims: list[Claim]) -> bool:
    """Whether the ends leave nothing between them."""
    low = [claim.bound for claim in claims if claim.end == "lower"]
    return any(claim.bound < bound for bound in low for claim in claims if claim.end == "upper")
