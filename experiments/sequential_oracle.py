"""What the events say when q* is known, and the theorem on them: if they hold, every bound holds.

(15) and (16) each need a log term. With q* known the smallest ones for which the events of a log are true can be computed.
With these in place of log(1/δ) and log(2/δ), q* must lie in every set that is left of Q, every deviation within its bounds,
and J* in the interval: log by log, with no room for chance. One exception would be an error in the evaluation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from experiments.coverage_checks import FloatArray
from experiments.sequential_known import Known
from experiments.sequential_tails import g

from bondic.core.bounded import Enclosure
from bondic.core.claims import End, ends_of
from bondic.core.sequential.bound import Evidence, evaluate
from bondic.core.sequential.embedded import Embedded
from bondic.core.sequential.localize import Localizer
from bondic.core.sequential.plan import Block, Plan, Predictable, columns
from bondic.core.sequential.pooled import pool
from bondic.core.sequential.proof import SequentialProof
from bondic.engines.sums import STANDARD
from bondic.rows.rows import Rows

ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Facts:
    """What q* says about a proof on these rows."""

    evidence: Evidence
    vector: float  # the log term that (16) needs at its worst n
    tails: dict[End, float]  # the log term that (15) needs after all rows
    error: FloatArray  # coordinates of q* - q̂
    apart: FloatArray  # Y_i - ŷ_i

    def sharpest(self) -> dict[str, float]:
        """The largest probabilities, below 1, at which all events of this log are true."""
        tails = {end: math.exp(-max(needed * (1.0 + ROUNDING), 1e-9)) for end, needed in self.tails.items()}
        return {"vector": min(2.0 * math.exp(-self.vector * (1.0 + ROUNDING)), 1.0 - 1e-9), **tails}


def facts(known: Known, proof: SequentialProof, rows: Rows) -> Facts:
    """Both events with the columns of the plan and the true q*."""
    evidence, plan = proof.evidence(rows, STANDARD), proof.plan
    data = evidence.data
    here, following = known.at_rows(rows.whole())
    applied = [_columns(plan, data, block, part) for block, part in plan.pieces(data.log_rows)]
    # <q* - q̂, b_j> = sum_l M_jl (q* - q̂)(z_l)
    error = plan.basis.matrix @ (known.q(plan.basis.points, plan.basis.slots) - _center(proof))
    predicted = np.concatenate([own.predicted + data.gamma * own.embedding @ error[: plan.visible] for own in applied])
    outcome = rows.whole().rewards + data.gamma * following
    noise, deviation = here - outcome, outcome - np.clip(predicted, data.limits.low, data.limits.high)
    tails = {end: _tail(applied, noise, outcome, predicted, end) for end in ends_of(proof.side)}
    return Facts(evidence, _vector(applied, noise, deviation), tails, error, outcome - predicted)


def _columns(plan: Plan, data: Embedded, block: Block, part: slice) -> Predictable:
    piece = data.stretch(part)
    seen = piece.here[:, : plan.visible]
    return columns(block, piece.gamma, piece.log_rows, piece.points, piece.slots, seen, piece.limits)


def _center(proof: SequentialProof) -> FloatArray:
    basis, center = proof.plan.basis, proof.ball.center
    if center is None:
        return np.zeros(len(basis))
    return np.asarray(center.values(basis.points)[0][np.arange(len(basis)), basis.slots])


def _vector(applied: list[Predictable], noise: FloatArray, deviation: FloatArray) -> float:
    """max over n of ‖Σ λφZ‖ − Σ g(−λ‖φ‖|Δ|)."""
    width = max(own.instruments.shape[1] for own in applied)
    parts = [np.pad(own.instruments, ((0, 0), (0, width - own.instruments.shape[1]))) for own in applied]
    instruments = np.concatenate(parts)
    sums = np.cumsum(instruments * noise[:, None], axis=0)
    spent = np.cumsum(g(-np.linalg.norm(instruments, axis=1) * np.abs(deviation)))
    return float((np.linalg.norm(sums, axis=1) - spent).max())


def _tail(applied: list[Predictable], noise: FloatArray, outcome: FloatArray, predicted: FloatArray, end: End) -> float:
    """Σ vZ − Σ g(−vΔ)."""
    weights = (1.0 if end == "upper" else -1.0) * np.concatenate([own.weights[end] for own in applied])
    clip = [np.concatenate([getattr(own.clip, side) for own in applied]) for side in ("low", "high")]
    return float(weights @ noise - np.sum(g(-weights * (outcome - np.clip(predicted, *clip)))))


def contradictions(known: Known, proof: SequentialProof, found: Facts) -> list[str]:
    """What is false although the events are true; nothing, if the evaluation is right."""
    probabilities = found.sharpest()
    # about the initial states that were seen: what a sample of them costs is an event of its own
    evidence = replace(found.evidence, probabilities=probabilities, start_error=lambda *_: Enclosure(0.0))
    plan, truth = replace(proof.plan, rounds=()), known.at_starts(evidence.rows)
    out = _localized(plan, evidence, found)
    result = evaluate(evidence, plan, ends_of(proof.side))
    if result.empty:
        return [*out, "rejected"]
    return out + [f"{claim.end} end" for claim in result.claims if claim.sign * (truth - claim.bound) > 0.0]


def _localized(plan: Plan, evidence: Evidence, found: Facts) -> list[str]:
    """Whether q* stays in what is left of Q, and the deviations within their bounds, block after block."""
    data = evidence.data
    localizer = Localizer.begin(plan, evidence.start, evidence.coordinates.radius, evidence.probabilities["vector"])
    out = []
    for block, part in plan.pieces(data.log_rows):
        piece = data.stretch(part)
        if len(piece):
            own = _columns(plan, data, block, part)
            localizer.add(piece, own, None, pool(evidence.coordinates, piece, own, len(data)))
        if localizer.empty:
            return [*out, f"nothing is left after row {block.stop}"]
        apart, bounds = found.apart[: part.stop], localizer.errors
        if np.any((apart < bounds.low - ROUNDING) | (apart > bounds.high + ROUNDING)):
            out.append(f"a deviation before row {block.stop}")
        if not _inside(localizer, found.error):
            out.append(f"q* is not left after row {block.stop}")
    return out


def _inside(localizer: Localizer, error: FloatArray) -> bool:
    """ẽ in the best ellipsoid, (1 − skew)|y|² ≤ ρ² for ẽ = ē + S y, and in the cylinder."""
    best, cylinder = localizer.best, localizer.cylinder
    y = np.linalg.solve(best.shape, error - best.center)
    fine = bool((1.0 - best.skew) * (y @ y) <= best.rho_square * (1.0 + ROUNDING))
    if cylinder is None:
        return fine
    return fine and bool(np.linalg.norm(cylinder.offset + cylinder.matrix @ error) <= cylinder.size * (1.0 + ROUNDING))
