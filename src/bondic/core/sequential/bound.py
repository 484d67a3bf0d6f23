"""The sequential localized interval: tails (13) + (15) over all blocks, at the worst e that is left of Q (19).

For predictable v_i, any number Λ > 0 and μ = Λ ψ_0 - sum_i v_i T_i,

    Λ J* = Λ E_{d_pi,0}[q̂] - sum_i v_i R̂q̂_i + <e, μ> + sum_i v_i Z_i,   e = q* - q̂,                                  (13)
    Λ J* <= Λ E_{d_pi,0}[q̂] - sum_i v_i R̂q̂_i + log(1/delta) + sup_e { <e, μ> + sum_i g(-v_i Δ_i(e)) },   (19)

and the lower end the same with -v. e runs over what the rows leave of Q (`localize`). The interval is fed back as one
more constraint on e, which costs no probability.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from bondic.core.betting import MAX_BET, bet_cost, clipped_deviation, curvature, tail_term
from bondic.core.bounded import (
    Between,
    BoolArray,
    Enclosure,
    FloatArray,
    U,
    certified_dot,
    inflate,
    row_norms,
    upper_sum,
)
from bondic.core.bounded import gamma as rounding
from bondic.core.claims import Claim, End, Part
from bondic.core.columns import Columns
from bondic.core.dual.bound import BIAS, START, UNMOVED, VALUE
from bondic.core.errors import NumericalError
from bondic.core.sequential.ellipsoids import Ellipsoid, Quadratic, supremum, whole_ball
from bondic.core.sequential.embedded import Embedded, Start, balance
from bondic.core.sequential.ends import Evaluation, mean_of_starts, not_negative, sign_of, tail_claim
from bondic.core.sequential.landmarks import Coordinates, Embedding
from bondic.core.sequential.localize import Localizer, sets_of, shifted
from bondic.core.sequential.plan import MAX_FEEDBACK, Plan, Predictable, columns
from bondic.core.sequential.pooled import NOT_POOLED, Pooled, pool, pooled_squares, share_of, total
from bondic.core.sums.forms import Sums
from bondic.core.terms import ValueRange

_WORTH = 0.01
"""The interval is fed back until it gains less than this share of its length, when rounds are not prescribed."""
_NEGLIGIBLE = 0.01
"""A triangle inequality that costs less than this share of the interval is not replaced by a kernel sum over pairs."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the bound depends on besides the plan."""

    rows: Columns
    data: Embedded
    start: Start
    coordinates: Coordinates
    limits: ValueRange  # of the value itself
    probabilities: dict[str, float]  # of the vector event, and of every end's tail
    start_error: Callable[
        [End, Sequence[Ellipsoid], ValueRange], Enclosure
    ]  # of a sampled initial distribution, given what is left of Q and of the mean over the starts
    sums: Sums


def evaluate(evidence: Evidence, plan: Plan, ends: tuple[End, ...]) -> Evaluation:
    """(13)-(19) for a plan; rounds as the plan prescribes them, or until they no longer help."""
    data = evidence.data
    localizer = Localizer.begin(plan, evidence.start, evidence.coordinates.radius, evidence.probabilities["vector"])
    prescribed = iter(plan.rounds)
    applied, pooled = [], []
    for block, part in plan.pieces(data.log_rows):
        piece = data.stretch(part)
        visible = evidence.coordinates.leading(piece.points, piece.slots, plan.visible)
        own = columns(block, data.gamma, piece.log_rows, piece.points, piece.slots, visible, piece.limits)
        applied.append(own)
        if len(piece):
            pooled.append(pool(evidence.coordinates, piece, own, len(data)))
            localizer.add(piece, own, next(prescribed, 0) if plan.rounds else None, pooled[-1])
        if localizer.empty:
            return Evaluation((), True, tuple(localizer.spent), 0.0)
    tails = {end: Tail.of(evidence, applied, end, total(pooled, ends)) for end in ends}
    return _ends(evidence, plan, localizer, tails, next(prescribed, 0) if plan.rounds else None)


def _ends(
    evidence: Evidence, plan: Plan, localizer: Localizer, tails: dict[End, Tail], rounds: int | None
) -> Evaluation:
    """Both ends from the tails and from E itself, fed back until that no longer helps."""
    low, high = evidence.limits.low, evidence.limits.high
    newest = localizer.cylinder
    sets = [] if newest is None else sets_of(localizer.radius, newest, None, plan.shares, ())
    candidates = sets or [localizer.best]
    view = localizer.best
    claims: dict[End, Claim] = {}
    last = MAX_FEEDBACK if rounds is None else rounds
    done = 0
    for k in range(last):
        done = k + 1
        for end, tail in tails.items():
            for claim in (_from_start(evidence, candidates, end), tail.claim(evidence, localizer, candidates, view)):
                claims[end] = _better(claims.get(end), claim)
        before = high - low
        low = max(low, claims["lower"].bound) if "lower" in claims else low
        high = min(high, claims["upper"].bound) if "upper" in claims else high
        if low > high:
            return Evaluation(_final(evidence, claims, candidates), True, (*localizer.spent, done), 0.0)
        gained = before - (high - low)
        if k == last - 1 or (rounds is None and k and gained < _WORTH * (high - low)):
            break
        smaller = localizer.feed_back(low, high)
        if localizer.empty:  # found after this round: a replay of the rounds has to begin the next one
            return Evaluation(_final(evidence, claims, candidates), True, (*localizer.spent, done + 1), 0.0)
        candidates = smaller or [localizer.best]
        view = candidates[min(1, len(candidates) - 1)]
    effective = min((tail.effective for tail in tails.values()), default=0.0)
    return Evaluation(_final(evidence, claims, candidates), False, (*localizer.spent, done), effective)


def _better(old: Claim | None, new: Claim) -> Claim:
    if old is None:
        return new
    return min(old, new, key=lambda claim: claim.sign * claim.bound)


def _final(evidence: Evidence, claims: dict[End, Claim], sets: Sequence[Ellipsoid]) -> tuple[Claim, ...]:
    """What a sampled initial distribution costs is added once, at the end. An end that only repeats Q uses no row."""
    everything = [whole_ball(evidence.coordinates.radius, evidence.start.coordinates.shape[0])]
    value, out = mean_of_starts(evidence.limits, claims.values()), []
    for end, claim in claims.items():
        used = claim.gain(_from_start(evidence, everything, end)) > UNMOVED * evidence.limits.width
        out.append(Claim(end, (*claim.parts, Part(START, evidence.start_error(end, sets, value), "spread")), used))
    return tuple(out)


def _from_start(evidence: Evidence, candidates: list[Ellipsoid], end: End) -> Claim:
    """E_{d_pi,0}[q̂] + sup <e, ψ_0>: what E alone says about the value."""
    sign, start = sign_of(end), evidence.start
    values = [supremum(ellipsoid, sign * start.coordinates, start.left, None) for ellipsoid in candidates]
    bound, center = min(values, key=lambda pair: pair[0])
    middle = start.value + Enclosure(sign * center)
    return Claim(end, (Part(VALUE, middle, "value"), Part(BIAS, not_negative(Enclosure(bound) - center), "spread")))


@dataclass(frozen=True, eq=False)
class Tail:
    """One end: everything about it that does not change while E shrinks."""

    end: End
    weights: FloatArray  # (n,) v_i with the sign of the end
    rate: float  # Λ
    base: Enclosure  # Λ E[q̂] - sum v R̂q̂
    imbalance: FloatArray  # (m,) coordinates of μ
    slack: float  # what they leave over, in units of value times Λ
    predicted: FloatArray  # (n,) y0_i
    embedding: Embedding  # gamma κ_i
    following: Embedding  # gamma k̃(x'_i)
    clip: Between  # [A_i, C_i]
    log: float  # log(1/delta)
    pooled_remainder: float  # sum_i v_i^2 (remainder of gamma x'_i)^2, for all rows at once
    effective: float  # (sum |v|)^2 / sum v^2

    @staticmethod
    def of(evidence: Evidence, applied: list[Predictable], end: End, pooled: Pooled = NOT_POOLED) -> Tail:
        data, start, radius = evidence.data, evidence.start, evidence.coordinates.radius
        v = np.concatenate([own.weights[end] for own in applied])
        rate = float(sum(own.total(end) for own in applied)) or applied[0].rates[end]  # any Λ > 0 where no row counts
        clip = reduce(Between.then, (own.clip for own in applied))
        signed = sign_of(end) * v
        losing = np.where(signed > 0, data.limits.high - clip.low, clip.high - data.limits.low)
        if not np.all(np.abs(signed) * losing <= MAX_BET):
            raise NumericalError("A bet of a tail is too large for the value range.")
        residuals = certified_dot(v, data.residual)
        base = Enclosure(rate) * start.value - Enclosure(
            residuals.mid, inflate(residuals.rad + upper_sum(np.abs(v)) * data.value_error)
        )
        imbalance = rate * start.coordinates - v @ data.step.coordinates
        lengths, size = row_norms(data.step.coordinates), np.abs(v)
        slack = rate * start.left + upper_sum(size * (data.step.perp * radius + data.step.extra)) * (1 + 8 * U)
        lost = (
            rounding(len(v) + 8) * radius * (upper_sum(size * lengths) + rate * float(np.abs(start.coordinates).sum()))
        )
        if slack > _NEGLIGIBLE * rate * evidence.limits.width * _SHARE:
            source = balance(evidence.rows, [v], [rate])
            slack = min(slack, *evidence.coordinates.remainder_bounds(source, [imbalance], evidence.sums))
        width = data.here.shape[1]
        kappa = np.concatenate([_wide(own.embedding, width) for own in applied]) * data.gamma
        nothing = np.zeros(len(v))
        extra = 4 * U * radius * row_norms(kappa)
        following = Embedding(
            data.next.coordinates * data.gamma,
            data.next.perp * data.gamma * (1 + 4 * U),
            data.next.extra * data.gamma * (1 + 4 * U) + 4 * U * radius * row_norms(data.next.coordinates),
        )
        return Tail(
            end,
            signed,
            rate,
            base,
            imbalance,
            inflate(slack + lost),
            np.concatenate([own.predicted for own in applied]),
            Embedding(kappa, nothing, extra),
            following,
            clip,
            tail_term(evidence.probabilities[end]).upper,
            inflate(pooled.of_end(end) * radius**2 * (1 + 8 * U)),
            float(np.abs(v).sum() ** 2 / max(float(np.sum(v**2)), 1e-300)),
        )

    def claim(self, evidence: Evidence, localizer: Localizer, candidates: list[Ellipsoid], view: Ellipsoid) -> Claim:
        """The best of: one worst e for everything, or bias and noise separately."""
        rows, weights, joint = self._rows(evidence.data, localizer, view)
        deviations = localizer.deviations
        linear = sign_of(self.end) * self.imbalance
        others, remainder = upper_sum(rows[~joint]), share_of(weights, self.weights**2, self.pooled_remainder)
        single = inflate(others + pooled_squares(weights[joint], rows[joint], localizer.bare_size[joint], remainder))
        some = deviations.some(joint)
        form = Quadratic.of(weights[joint], localizer.offsets[joint], some, localizer.radius, remainder)
        found = []
        for ellipsoid in candidates:
            bias, center = supremum(ellipsoid, linear, self.slack, None)
            found.append((bias + single, center, single))
            value, middle = supremum(ellipsoid, linear, self.slack, form)
            found.append((value + others, center, max(middle - center, 0.0) + others))
        total, center, noise = min(found)
        total = total * (1 + 4 * U) if total > 0 else total * (1 - 4 * U)
        return tail_claim(self.end, self.base, self.rate, total, center, noise, self.log)

    def _rows(self, data: Embedded, localizer: Localizer, view: Ellipsoid) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Row by row: the worst g(-v Δ); w_i of the joint form (19); and for which rows that form may be used.

        These are rows whose clip is inactive over E, or clips to the end of the whole range: then Δ lies between 0 and
        a_i + gamma <e, D_i>. Their w_i is taken at the most negative -v Δ that is possible.
        """
        predicted = shifted(view.products(self.embedding), self.predicted)
        outcome = shifted(view.products(self.following), data.outcome, data.value_error).within(data.limits)
        delta = clipped_deviation(predicted, outcome, localizer.errors, self.clip)
        if np.any(delta.low > delta.high):
            delta = Between(np.minimum(delta.low, delta.high), np.maximum(delta.low, delta.high))
        ends = -self.weights * delta.low, -self.weights * delta.high
        rows = np.maximum(bet_cost(ends[0]), bet_cost(ends[1]))
        inside = (predicted.low >= self.clip.low) | (self.clip.low <= data.limits.low)
        inside &= (predicted.high <= self.clip.high) | (self.clip.high >= data.limits.high)
        inside &= localizer.errors.magnitude() <= data.limits.high - data.limits.low
        worst = np.minimum(np.minimum(*ends), 0.0)
        return rows, self.weights**2 * curvature(worst) * (1 + 8 * U), inside


_SHARE = 0.01
"""How short an interval may be, as a share of the value range, for a slack to count as negligible beside it."""


def _wide(array: FloatArray, columns: int) -> FloatArray:
    return array if array.shape[1] == columns else np.pad(array, ((0, 0), (0, columns - array.shape[1])))
