"""A frontier of certified ω: the interval for every radius and every alpha, without another look at the rows.

    F+(r, alpha) = min_k ( value_k + r |μ_k| + N(ω_k, alpha) + slack_k + start(alpha) ),   F- likewise with max.

With the bounds of this library the noise event knows neither r nor ω, so for a fixed alpha the curve holds for
*all* radii at once. Over alpha it does not: each alpha has an event of its own, to be named before looking.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from bondic.core.bounded import Enclosure, next_down
from bondic.core.claims import Claim, End, ErrorBudget, Side, ends_of
from bondic.core.dual.bound import Setting, add_up, noise_term
from bondic.core.dual.noise import Weights
from bondic.core.errors import InvalidInput
from bondic.core.terms import ValueRange

MIN_ALPHA = 1e-9
MAX_ALPHA = 1 - 1e-9
"""Where the search for a breakdown alpha stops."""

_HALVINGS = 60


@dataclass(frozen=True)
class FrontierPoint:
    """One ω against the certified rows; none of it depends on the radius or on alpha."""

    value: Enclosure  # Ĵ(q̂, ω)
    discrepancy: Enclosure  # |μ_ω|
    weights: Weights
    slack: float  # what the rounding of ω adds to the noise
    misspecification: Enclosure

    def claims(self, radius: float, noise: Enclosure, start: Enclosure, ends: tuple[End, ...]) -> tuple[Claim, ...]:
        """F- and/or F+ at a radius, a bound of the noise and a term of the start."""
        noise = noise_term(noise, self.slack)
        return add_up(
            self.value, radius, self.discrepancy, self.weights.norm, noise, start, self.misspecification, ends
        )


@dataclass(frozen=True, eq=False)
class Frontier:
    """Every number derived from it is rounded outward."""

    alpha: float  # probability that the interval may miss the value, as it was asked
    radius: float  # the radius the method would have used
    side: Side  # which ends were computed
    shares: dict[str, float]  # how alpha is divided over events
    points: tuple[FrontierPoint, ...]  # one entry per ω
    setting: Setting = field(repr=False)  # rows, Q, W and noise bound that everything refers to
    floor: float = 0.0  # radii below it are contradicted by a witness, at `alpha` and every larger one

    @property
    def value_range(self) -> ValueRange:
        return self.setting.range()

    def interval(self, radius: float, alpha: float | None = None) -> tuple[float, float]:
        """[F-, F+] within the value range; low > high means that this radius is rejected at this alpha."""
        return self.value_range.cut(*self.ends(radius, alpha))

    def ends(self, radius: float, alpha: float | None = None) -> tuple[float, float]:
        """F- and F+ themselves, wherever they lie; an end that was not computed is infinite."""
        if not (math.isfinite(radius) and radius >= 0):
            raise InvalidInput(f"A radius is finite and >= 0, not {radius}.")
        claims = self._claims(radius, alpha, ends_of(self.side))
        low = max((claim.bound for claim in claims if claim.end == "lower"), default=-math.inf)
        return low, min((claim.bound for claim in claims if claim.end == "upper"), default=math.inf)

    def contradicted(self, radius: float, alpha: float | None = None) -> bool:
        """Whether the log speaks against q* within this radius: the ends cross, or a witness says so.

        A witness at one level of noise is one at every lower level, hence at every larger alpha.
        """
        low, high = self.interval(radius, alpha)
        return low > high or (radius < self.floor and (alpha is None or alpha >= self.alpha))

    def _budget(self, alpha: float | None) -> ErrorBudget:
        return ErrorBudget.split(self.alpha if alpha is None else alpha, self.shares)

    def _claims(self, radius: float, alpha: float | None, ends: tuple[End, ...]) -> list[Claim]:
        """Of every ω at a radius and an alpha."""
        budget, facts, gauge = self._budget(alpha), self.setting.facts, self.setting.gauge
        start = replace(self.setting, initial_probability=budget.get("initial")).initial_term()
        return [
            claim
            for point in self.points
            for claim in point.claims(radius, gauge.bound(point.weights, facts, budget["noise"]), start, ends)
        ]

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
        for point, claim in zip(self.points, self._claims(0.0, alpha, (end,)), strict=True):
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

        if proved(MIN_ALPHA):
            return MIN_ALPHA
        if not proved(MAX_ALPHA):
            return 1.0
        no, yes = math.log(MIN_ALPHA), math.log(MAX_ALPHA)
        for _ in range(_HALVINGS):
            middle = 0.5 * (no + yes)
            no, yes = (no, middle) if proved(math.exp(middle)) else (middle, yes)
        return math.exp(yes)

    def _by_range(self, sign: float, threshold: float) -> bool:
        limits = self.value_range
        return limits.low > threshold if sign > 0 else limits.high < threshold


def _direction(above: float | None, below: float | None) -> tuple[float, float]:
    if above is not None and below is None:
        return 1.0, above
    if below is not None and above is None:
        return -1.0, below
    raise InvalidInput("Pass one threshold: above= for a lower bound, below= for an upper bound.")
