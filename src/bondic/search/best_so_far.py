"""Keep the best of several proposals; ω = 0 is always among them."""

from __future__ import annotations

from dataclasses import dataclass

from bondic.core.claims import Claim, End
from bondic.core.dual.bound import Setting, dual_bound
from bondic.core.dual.weighing import ProposedWeights, Weighing, weigh
from bondic.core.functions import Function
from bondic.core.sums.forms import Progress


@dataclass(frozen=True, eq=False)
class CertifiedEnd:
    """An end point, the ω behind it, and how many rows carry it."""

    claim: Claim
    omega: Function | None
    effective: float


Ends = dict[End, CertifiedEnd]


def best_bounds(
    setting: Setting,
    ends: tuple[End, ...],
    proposals: list[Function],
    *,
    also: list[ProposedWeights] | None = None,
    progress: Progress | None = None,
) -> tuple[Ends, list[Weighing]]:
    """Evaluate every proposal at every end with the trusted core, in one pass, and keep the tightest end points.

    `also` is weighed in the same pass. Any ω is valid on the *same* event (the noise bound covers all ω at once), so choosing
    costs nothing. ω = 0 only repeats Q: it is kept where no other ω says more than the value range.
    """
    best: Ends = {}
    evaluated, others = evaluate_all(setting, ends, proposals, also=also, progress=progress)
    for omega, found, weighing in evaluated:
        for claim in found:
            known = best.get(claim.end)
            if known is None or _better(setting, claim, known.claim):
                best[claim.end] = CertifiedEnd(claim, omega, weighing.effective)
    return best, others


def evaluate_all(
    setting: Setting,
    ends: tuple[End, ...],
    proposals: list[Function],
    *,
    also: list[ProposedWeights] | None = None,
    progress: Progress | None = None,
) -> tuple[list[tuple[Function | None, tuple[Claim, ...], Weighing]], list[Weighing]]:
    """Claims of every proposal, ω = 0 first, and what else was to be weighed, from one pass over the points."""
    found: list[Function | None] = [None, *(omega for omega in proposals if not omega.is_zero)]
    candidates = [*(ProposedWeights(omega) for omega in found), *(also or ())]
    weighed = weigh(setting.problem, setting.ball, candidates, sums=setting.sums, progress=progress)
    claims = [
        (omega, dual_bound(setting, omega, ends, weighing=weighing), weighing)
        for omega, weighing in zip(found, weighed, strict=False)
    ]
    return claims, weighed[len(found) :]


def _better(setting: Setting, new: Claim, old: Claim) -> bool:
    if new.uses_log and not old.uses_log and new.gain(setting.range()) > 0:
        return True
    return new.gain(old) > 0
