"""A frontier of certified omegas: the interval for every radius and every alpha, without another look at the rows.

    F+(r, alpha) = min_k ( value_k + r |mu_k| + eps(alpha) |omega_k| + slack_k + start(alpha) ),   F- likewise with max.

With the gauges of this library the noise event knows neither r nor omega, so for a fixed alpha the curve holds for
*all* radii at once. Over alpha it does not: each alpha has an event of its own, to be named before looking.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from bondic.bounds.dual import Setting, add_up, noise_term
from bondic.bounds.start import sampled_start
from bondic.claims import Claim, End, ErrorBudget, Side, ends_of
from bondic.errors import InvalidInput
from bondic.noise.bound import Gauge, NoiseFacts
from bondic.noise.fixed_lambda import FixedLambda
from bondic.noise.pinelis import Pinelis
from bondic.noise.plug_in import PlugIn
from bondic.rounding import Enclosure, next_down
from bondic.terms import ValueRange

SMALLEST_ALPHA = 1e-9
LARGEST_ALPHA = 1 - 1e-9
"""Where the search for a breakdown alpha stops."""

_HALVINGS = 60


@dataclass(frozen=True)
class FrontierPoint:
    """One omega against the certified rows; none of it depends on the radius or on alpha."""

    value: Enclosure  # J^(q^, omega)
    discrepancy: Enclosure  # |mu_omega|
    norm: Enclosure  # |omega|
    slack: float  # what the rounding of omega adds to the noise
    misspecification: Enclosure

    def claims(self, radius: float, epsilon: Enclosure, start: Enclosure, ends: tuple[End, ...]) -> tuple[Claim, ...]:
        """F- and/or F+ at a radius and a level of noise."""
        noise = noise_term(epsilon, self.norm, self.slack)
        return add_up(radius, self.value, self.discrepancy, self.norm, noise, start, self.misspecification, ends)


@dataclass(frozen=True, eq=False)
class Frontier:
    """Every number derived from it is rounded outward."""

    alpha: float
    radius: float  # the radius the method would have used
    side: Side
    shares: dict[str, float]  # how alpha is divided over events
    points: tuple[FrontierPoint, ...]  # one entry per omega
    setting: Setting = field(repr=False)
    floor: float = 0.0  # radii below it are contradicted by a witness, at `alpha` and every larger one

    @property
    def value_range(self) -> ValueRange:
        return self.setting.range()

    def interval(self, radius: float, alpha: float | None = None) -> tuple[float, float]:
        """[F-, F+] within the value range; low > high means that this radius is rejected at this alpha."""
        return self.value_range.cut(*self.ends(radius, alpha))

    def ends(self, radius: float, alpha: float | None = None) -> tuple[float, float]:
        """F- and F+ themselves, wherever they lie; an end that was not asked for is infinite."""
        if not (math.isfinite(radius) and radius >= 0):
            raise InvalidInput(f"A radius is finite and >= 0, not {radius}.")
        eps, start = self.levels(alpha)
        claims = [claim for point in self.points for claim in point.claims(radius, eps, start, ends_of(self.side))]
        low = max((claim.bound for claim in claims if claim.end == "lower"), default=-math.inf)
        return low, min((claim.bound for claim in claims if claim.end == "upper"), default=math.inf)

    def contradicted(self, radius: float, alpha: float | None = None) -> bool:
        """Whether the log speaks against q* within this radius: the ends cross, or a witness says so.

        A witness at one level of noise is one at every lower level, hence at every larger alpha.
        """
        low, high = self.interval(radius, alpha)
        return low > high or (radius < self.floor and (alpha is None or alpha >= self.alpha))

    def levels(self, alpha: float | None = None) -> tuple[Enclosure, Enclosure]:
        """eps and the term of the initial distribution at this alpha."""
        budget = ErrorBudget.split(self.alpha if alpha is None else alpha, self.shares)
        eps = self.setting.gauge.epsilon(self.setting.facts(), budget["noise"])
        return eps, replace(self.setting, initial_probability=budget.get("initial")).initial_term()

    def breakdown_radius(
        self, *, above: float | None = None, below: float | None = None, alpha: float | None = None
    ) -> float:
        """The largest radius for which "value > above" (or "value < below") is still proved; 0 when it never is."""
        sign, threshold = _direction(above, below)
        if self._by_range(sign, threshold):
            return math.inf
        end: End = "lower" if sign > 0 else "upper"
        if end not in ends_of(self.side):
            return 0.0
        best = 0.0
        eps, start = self.levels(alpha)
        for point in self.points:
            (claim,) = point.claims(0.0, eps, start, (end,))
            room = sign * (Enclosure(claim.bound) - threshold)
            if room.lower > 0:
                size = point.discrepancy.upper
                best = max(best, math.inf if size == 0 else next_down(next_down(room.lower / size)))
        return best

    def breakdown_alpha(
        self, *, above: float | None = None, below: float | None = None, radius: float | None = None
    ) -> float:
        """The smallest alpha at which "value > above" (or "value < below") is proved with this radius.

        1 when no alpha proves it; never below 1e-9, where the search stops.
        """
        sign, threshold = _direction(above, below)
        size = self.radius if radius is None else radius

        def proved(alpha: float) -> bool:
            low, high = self.interval(size, alpha)
            return low > threshold if sign > 0 else high < threshold

        if proved(SMALLEST_ALPHA):
            return SMALLEST_ALPHA
        if not proved(LARGEST_ALPHA):
            return 1.0
        no, yes = math.log(SMALLEST_ALPHA), math.log(LARGEST_ALPHA)
        for _ in range(_HALVINGS):
            middle = 0.5 * (no + yes)
            no, yes = (no, middle) if proved(math.exp(middle)) else (middle, yes)
        return math.exp(yes)

    def _by_range(self, sign: float, threshold: float) -> bool:
        limits = self.value_range
        return limits.low > threshold if sign > 0 else limits.high < threshold

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers from which anybody can draw the curve; no rows, no omega.

        A point is [value rounded down, value rounded up, |mu|, |omega|, slack, misspecification], bounds rounded up.
        `noise` and `initial` say how eps and the initial term follow from alpha times their shares.
        """
        limits, start = self.value_range, sampled_start(self.setting.problem, self.setting.sides)
        return {
            "alpha": self.alpha,
            "radius": self.radius,
            "side": self.side,
            "floor": self.floor,
            "range": [limits.low, limits.high],
            "shares": {name: share / math.fsum(self.shares.values()) for name, share in self.shares.items()},
            "noise": noise_law(self.setting.gauge, self.setting.facts(), self.levels()[0].upper),
            "initial": {"kind": "none"} if start is None else start.law(),
            "points": [
                [
                    point.value.lower,
                    point.value.upper,
                    point.discrepancy.upper,
                    point.norm.upper,
                    point.slack,
                    point.misspecification.upper if point.misspecification.mid else 0.0,
                ]
                for point in self.points
            ],
        }


def _direction(above: float | None, below: float | None) -> tuple[float, float]:
    if above is not None and below is None:
        return 1.0, above
    if below is not None and above is None:
        return -1.0, below
    raise InvalidInput("Pass one threshold: above= for a lower bound, below= for an upper bound.")


def noise_law(gauge: Gauge, facts: NoiseFacts, epsilon: float) -> dict[str, Any]:
    """eps as a formula of delta, for gauges that have one.

    root:  eps = sqrt( 2 variance log(2/delta) planned ) / rows
    rate:  eps = ( log(2/delta) + rate^2 charge / 8 ) / ( rate rows )
    fixed: eps as it is; alpha cannot be moved
    """
    # the very types: a subclass may have a formula of its own
    if type(gauge) in (Pinelis, PlugIn):
        variance = gauge.variance(facts).upper if isinstance(gauge, Pinelis) else gauge.variance  # type: ignore[attr-defined]
        return {"kind": "root", "variance": variance, "planned": facts.fixed_count, "rows": facts.count}
    if type(gauge) is FixedLambda:
        return {"kind": "rate", "rate": gauge.rate, "charge": facts.charge.upper, "rows": facts.count}
    return {"kind": "fixed", "epsilon": epsilon}
