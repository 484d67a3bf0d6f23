"""The words of every answer: claims about the value, made of parts, and the one way from them to an interval.

A claim says "the value is at most (at least) this", split into the parts of its formula:

    upper end = values + spreads,   lower end = values - spreads,   rounded outward.

A bound makes claims, a certificate stores them, verification makes them again, `conclude` turns them into an interval, and
every view draws their parts. None of these knows what the parts are called.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, reduce
from numbers import Real
from operator import add
from typing import Literal

from bondic.core.bounded import Enclosure
from bondic.core.codec import Extended
from bondic.core.errors import InvalidInput, NumericalError
from bondic.core.terms import ValueRange

Guarantee = Literal["finite-sample", "asymptotic", "none"]
"""What a bound guarantees where its assumptions hold."""
State = Literal["stated", "chosen", "checked", "rejected"]
End = Literal["lower", "upper"]
Side = Literal["both", "lower", "upper"]
Role = Literal["value", "spread", "detail"]


class Status(StrEnum):
    """What came out; the value is the message."""

    INTERVAL = "interval: narrower than what the reward range alone implies"
    TRIVIAL = "trivial: the log adds nothing to what the reward range alone implies"
    REJECTED = (
        "rejected: the log contradicts an assumption: on the value function q*, the reward range, or the log itself"
    )


@dataclass(frozen=True)
class Assumption:
    """Where it comes from: `stated` by the user, `chosen` by a baseline, `checked` on the data, `rejected` by them."""

    name: str
    text: str
    state: State


@dataclass(frozen=True)
class ErrorBudget:
    """alpha divided over events: error probability is spent here and nowhere else.

    Every bound takes the probability of *its* event from here.
    """

    alpha: float
    parts: dict[str, float]

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        # written so that a part that is not a number is refused as well
        if not (math.fsum(self.parts.values()) <= self.alpha and all(p >= 0 for p in self.parts.values())):
            raise InvalidInput(f"The parts {self.parts} spend more than alpha = {self.alpha}.")

    @staticmethod
    def split(alpha: float, shares: dict[str, float]) -> ErrorBudget:
        """Divide alpha in proportion to the shares of the events that happen to be needed."""
        check_alpha(alpha)
        alpha = float(alpha)
        total = math.fsum(shares.values())
        parts = {name: alpha * share / total for name, share in shares.items()}
        # division may round up: shrink by a hair so that the parts never exceed alpha
        return ErrorBudget(
            alpha, {name: part * (1 - 2.0**-50) if len(parts) > 1 else alpha for name, part in parts.items()}
        )

    def __getitem__(self, event: str) -> float:
        return self.parts[event]

    def get(self, event: str) -> float | None:
        return self.parts.get(event)


def check_alpha(alpha: float) -> None:
    if isinstance(alpha, Sequence) and not isinstance(alpha, str):
        raise InvalidInput(
            f"`alpha` holds {len(alpha)} numbers; one is needed. Call once for each alpha: all intervals hold at once with "
            "probability at least 1 minus the sum of the alphas."
        )
    if isinstance(alpha, bool) or not isinstance(alpha, Real) or not 0 < alpha < 1:
        raise InvalidInput(
            f"`alpha` is {alpha!r}; the total error probability lies strictly between 0 and 1. For 95 % confidence it is 0.05."
        )


_LIKELY = 0.5
"""An interval that is more likely wrong than right is of no use."""


def unusual_alpha(alpha: float) -> str | None:
    """A warning where the confidence was probably taken for alpha."""
    if alpha <= _LIKELY:
        return None
    return (
        f"alpha is {alpha:g}: the interval may miss the value with that probability, and holds with probability {1 - alpha:.3g} "
        f"alone. For {alpha:.0%} confidence alpha is {1 - alpha:.3g} (--alpha {1 - alpha:.3g})."
    )


def ends_of(side: Side) -> tuple[End, ...]:
    """The ends to compute, the lower one first."""
    if side not in ("both", "lower", "upper"):
        raise InvalidInput(f"side={side!r}; choose 'both', 'lower' or 'upper'.")
    return ("lower", "upper") if side == "both" else (side,)


@dataclass(frozen=True)
class Part:
    """One part of a claim, named as people read it.

    A `value` is added with its sign, a `spread` (>= 0) leads away from the value at both ends, a `detail` is a number
    behind the other parts that is not added itself.
    """

    name: str
    size: Enclosure
    role: Role

    def __post_init__(self) -> None:
        if self.role == "spread" and self.size.mid < -self.size.rad:
            raise NumericalError(f"The part {self.name!r} of an end point is negative ({self.size.mid:.3g}).")

    @property
    def shown(self) -> float:
        """The number for a reader: what a spread adds at most, the other parts as they are."""
        if self.role != "spread":
            return self.size.mid
        return self.size.upper if self.size.mid else 0.0


@dataclass(frozen=True)
class Claim:
    """One end point as a sum of parts; `uses_log` is False where no row of the log has a weight in it."""

    end: End
    parts: tuple[Part, ...]
    uses_log: bool = True

    def __post_init__(self) -> None:
        names = [part.name for part in self.parts]
        assert len(set(names)) == len(names), f"two parts of one name: {names}"

    def __getitem__(self, name: str) -> Enclosure:
        return {part.name: part.size for part in self.parts}[name]

    def of(self, role: Role) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if part.role == role)

    @property
    def sign(self) -> float:
        """Spreads are added at the upper end, subtracted at the lower."""
        return 1.0 if self.end == "upper" else -1.0

    @cached_property
    def value(self) -> Enclosure:
        """The sum that the spreads lead away from."""
        return reduce(add, (part.size for part in self.of("value")))

    @cached_property
    def total(self) -> Enclosure:
        spreads = self.of("spread")
        if not spreads:
            return self.value
        spread = reduce(add, (part.size for part in spreads))
        return self.value + spread if self.end == "upper" else self.value - spread

    @property
    def bound(self) -> float:
        """The end point, rounded outward."""
        return self.total.upper if self.end == "upper" else self.total.lower

    @property
    def rounding(self) -> float:
        """How much of the end point is rounding."""
        return abs(self.bound - self.total.mid)

    def gain(self, over: Claim | ValueRange) -> float:
        """How much further in this end lies than the same end of a range, or than another claim."""
        return self.sign * (over.at(self.end) - self.bound)

    def at(self, end: End) -> float:
        """The number that `gain` compares with: the end point, which is on the same side."""
        assert end == self.end
        return self.bound

    def steps(self) -> dict[str, float]:
        """What leads from the value to the end point, part by part; the rounding last."""
        return {part.name: part.shown for part in self.of("spread")} | {"rounding": self.rounding}

    def table(self) -> dict[str, float]:
        """Everything that is added up, and the end point last."""
        return {part.name: part.shown for part in self.of("value")} | self.steps() | {"end point": self.bound}


@dataclass(frozen=True)
class Rejection:
    """What a witness against the assumptions proves; every number is rounded to the cautious side."""

    rejected: bool
    p_value: float  # an upper bound: rejects at every level above it
    loss_floor: float  # no q in Q has L_W(q) below this
    epsilon: float
    minimal_radius: Extended  # a lower bound of r_min = min { |q - center| : L_W(q) <= eps }

    @staticmethod
    def none(epsilon: Enclosure) -> Rejection:
        """Without a witness nothing is rejected."""
        return Rejection(False, 1.0, 0.0, epsilon.upper, 0.0)

    def combine(self, other: Rejection) -> Rejection:
        """The strongest of two witnesses that refer to the same event."""
        return Rejection(
            self.rejected or other.rejected,
            min(self.p_value, other.p_value),
            max(self.loss_floor, other.loss_floor),
            other.epsilon,
            max(self.minimal_radius, other.minimal_radius),
        )


@dataclass(frozen=True)
class Conclusion:
    low: float
    high: float
    status: Status


def conclude(limits: ValueRange, claims: Sequence[Claim], rejected: bool, side: Side) -> Conclusion:
    """From claims that hold together to an interval and a status: for every method, and when verifying.

    The claims on the ends that `side` names are intersected with the value range. An empty intersection rejects, and is
    never repaired. An end without a claim is the end of the value range, and so is an end whose claims use no row of the
    log: those only repeat what was assumed. After a rejection the value range is reported: it needs the stated ranges alone.
    """
    estimand = [claim for claim in claims if side in ("both", claim.end)]
    low, high = _cut(limits, estimand)
    if rejected or low > high:
        return Conclusion(limits.low, limits.high, Status.REJECTED)
    low, high = _cut(limits, (claim for claim in estimand if claim.uses_log))
    moved = low > limits.low or high < limits.high
    return Conclusion(low, high, Status.INTERVAL if moved else Status.TRIVIAL)


def _cut(limits: ValueRange, claims: Iterable[Claim]) -> tuple[float, float]:
    """The range cut by every claim."""
    low, high = limits.low, limits.high
    for claim in claims:
        ends = (-math.inf, claim.bound) if claim.end == "upper" else (claim.bound, math.inf)
        low, high = ValueRange(low, high).cut(*ends)
    return low, high
