"""What the ends of a plan are made of: base/Λ, and bias, noise and rare events as spreads, rounded outward."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bondic.core.bounded import Enclosure
from bondic.core.claims import Claim, End, Part
from bondic.core.dual.bound import BIAS, NOISE, VALUE
from bondic.core.terms import ValueRange

RARE = "rare events"
"""The part log(1/delta) / Λ: what a jump that no row has shown could still hide."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What comes out: the ends, whether everything was excluded, and how many rounds it took."""

    claims: tuple[Claim, ...]
    empty: bool
    rounds: tuple[int, ...]
    effective: float  # rows that count, of the end with fewer of them


def tail_claim(end: End, base: Enclosure, rate: float, total: float, center: float, noise: float, log: float) -> Claim:
    """base/Λ + center/Λ, then rare events, noise and bias as spreads; rounded outward. `total` is center, noise and bias."""
    share, sign = Enclosure(rate), sign_of(end)
    value = (base + sign * center) / share
    bias = not_negative(Enclosure(total) - center - noise) / share
    return Claim(
        end,
        (
            Part(VALUE, value, "value"),
            Part(BIAS, bias, "spread"),
            Part(NOISE, Enclosure(noise) / share, "spread"),
            Part(RARE, Enclosure(log) / share, "spread"),
        ),
    )


def decided_by_rows(claim: Claim) -> bool:
    """Whether an end allows for chance at least as much as for what its weights leave unbalanced (`bias`).

    Another center of Q moves the doubly robust value of an end by up to twice its bias. Where that exceeds chance, the value is
    mostly that of the center, and no estimate ("The point estimate" on docs/theory/sequential.md).
    """
    sizes = {part.name: part.shown for part in claim.of("spread")}
    return claim.uses_log and sizes[BIAS] <= sizes.get(NOISE, 0.0) + sizes.get(RARE, 0.0)


def mean_of_starts(limits: ValueRange, claims: Iterable[Claim]) -> ValueRange:
    """Where J_emp lies if these claims hold; the limits where they exclude each other."""
    low, high = limits.low, limits.high
    for claim in claims:
        low, high = (low, min(high, claim.bound)) if claim.end == "upper" else (max(low, claim.bound), high)
    return ValueRange(low, high) if low <= high else limits


def sign_of(end: End) -> float:
    return 1.0 if end == "upper" else -1.0


def not_negative(value: Enclosure) -> Enclosure:
    """A spread is at least 0: what rounding leaves below it is dropped."""
    return value if value.mid >= 0 else Enclosure(0.0, max(value.upper, 0.0))
