"""A frontier of certified omegas: the interval for every radius and every alpha, without another look at the rows.

    F+(r, alpha) = min_k ( value_k + r |mu_k| + eps(alpha) |omega_k| + slack_k + start(alpha) ),   F- likewise with max.

With the gauges of this library the noise event knows neither r nor omega, so for a fixed alpha the curve holds for
*all* radii at once. Over alpha it does not: each alpha has an event of its own, to be named before looking.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from bondic.bounds.dual import Setting
from bondic.errors import InvalidInput
from bondic.noise.bound import Gauge, NoiseFacts
from bondic.noise.budget import ErrorBudget
from bondic.noise.fixed_lambda import FixedLambda
from bondic.noise.pinelis import Pinelis
from bondic.noise.plug_in import PlugIn
from bondic.noise.value_range import ValueRange
from bondic.rounding import Enclosure, certified_dot, next_down

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


@dataclass(frozen=True, eq=False)
class Frontier:
    """Every number derived from it is rounded outward."""

    alpha: float
    radius: float  # the radius the method would have used
    side: str
    shares: dict[str, float]  # how alpha is divided over events
    points: tuple[FrontierPoint, ...]  # one entry per omega
    setting: Setting = field(repr=False)
    floor: float = 0.0  # radii below it are contradicted by a witness, at `alpha` and every larger one

    @property
    def value_range(self) -> ValueRange:
        return self.setting.range()

    def interval(self, radius: float, alpha: float | None = None) -> tuple[float, float]:
        """[F-, F+] within the value range; low > high means that this radius is rejected at this alpha."""
        low, high = self.ends(radius, alpha)
        return max(low, self.value_range.low), min(high, self.value_range.high)

    def ends(self, radius: float, alpha: float | None = None) -> tuple[float, float]:
        """F- and F+ themselves, wherever they lie; an end that was not asked for is infinite."""
        if not (math.isfinite(radius) and radius >= 0):
            raise InvalidInput(f"A radius is finite and >= 0, not {radius}.")
        low, high = -math.inf, math.inf
        eps, start = self.levels(alpha)
        for point in self.points:
            spread = Enclosure(radius) * point.discrepancy + self._rest(point, eps, start)
            low = low if self.side == "upper" else max(low, (point.value - spread).lower)
            high = high if self.side == "lower" else min(high, (point.value + spread).upper)
        return low, high

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

    @staticmethod
    def _rest(point: FrontierPoint, eps: Enclosure, start: Enclosure) -> Enclosure:
        return eps * point.norm + Enclosure(point.slack) + start + point.misspecification

    def breakdown_radius(
        self, *, above: float | None = None, below: float | None = None, alpha: float | None = None
    ) -> float:
        """The largest radius for which "value > above" (or "value < below") is still proved; 0 when it never is."""
        sign, threshold = _direction(above, below)
        if self._by_range(sign, threshold):
            return math.inf
        if self.side == ("upper" if sign > 0 else "lower"):
            return 0.0
        best = 0.0
        eps, start = self.levels(alpha)
        for point in self.points:
            room = sign * (point.value - threshold) - self._rest(point, eps, start)
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
        limits = self.value_range
        return {
            "alpha": self.alpha,
            "radius": self.radius,
            "side": self.side,
            "floor": self.floor,
            "range": [limits.low, limits.high],
            "shares": {name: share / math.fsum(self.shares.values()) for name, share in self.shares.items()},
            "noise": noise_law(self.setting.gauge, self.setting.facts(), self.levels()[0].upper),
            "initial": initial_law(self.setting),
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


def initial_law(setting: Setting) -> dict[str, Any]:
    """The term of a sampled initial distribution as a formula of delta_0.

    none: 0
    mean: width sqrt( log(sides/delta_0) square / 2 )
    any:  the least over j = 1..24 of ( log(sides j (j+1) / delta_0) / rate_j + rate_j width^2 count / 8 ) / count,
          rate_j = sqrt( 8 log(sides j (j+1) / delta_0) / 4^(j-1) ) / width
    """
    problem, states = setting.problem, setting.problem.initial_states
    if states.kind == "exact" and problem.answers.exact:
        return {"kind": "none"}
    common = {"width": setting.range().width, "sides": setting.sides}
    if not states.count_fixed:
        return {"kind": "any", "count": len(states), **common}
    draws = max(problem.initial_draws, 1) if states.kind == "exact" else 1
    return {"kind": "mean", "square": (certified_dot(states.weights, states.weights) / float(draws)).upper, **common}
