"""What if the radius of Q were another? F-(r) and F+(r) for every r on one event, and the breakdown radius (section 5).

The radius cannot be proved from data. With the gauges of this library the noise event does not know r, so a list of
certified omegas bounds the value for *all* radii at once, at no cost in alpha:

    F+(r) = min_k ( value_k + r |mu_k| + spread_k ),     F-(r) = max_k ( value_k - r |mu_k| - spread_k ).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bondic.bounds.dual import BoundTerms, Setting
from bondic.concentration.budget import check_alpha
from bondic.concentration.value_range import ValueRange
from bondic.errors import InvalidInput
from bondic.methods.dual import Dual, search_model
from bondic.methods.settle import settle
from bondic.problem import Question
from bondic.rounding import Enclosure, next_down
from bondic.solvers import spectral
from bondic.solvers.best_so_far import evaluate_all
from bondic.spaces.functions import Function


@dataclass(frozen=True)
class Sensitivity:
    """A frontier of certified omegas; every number derived from it is rounded outward."""

    alpha: float
    radius: float  # the radius the method would have used
    value_range: ValueRange
    frontier: tuple[BoundTerms, ...]  # one entry per omega

    def interval(self, radius: float) -> tuple[float, float]:
        """[F-(r), F+(r)] within the value range; low > high means that this radius is rejected."""
        if not (math.isfinite(radius) and radius >= 0):
            raise InvalidInput(f"A radius is finite and >= 0, not {radius}.")
        ends = [(self._end(terms, radius, -1.0), self._end(terms, radius, 1.0)) for terms in self.frontier]
        return max(self.value_range.low, *(low for low, _ in ends)), min(
            self.value_range.high, *(high for _, high in ends)
        )

    @staticmethod
    def _end(terms: BoundTerms, radius: float, sign: float) -> float:
        spread = Enclosure(radius) * terms.discrepancy + terms.noise + terms.initial + terms.misspecification
        return (terms.value + spread).upper if sign > 0 else (terms.value - spread).lower

    def breakdown_radius(self, *, above: float | None = None, below: float | None = None) -> float:
        """The largest radius for which "value > above" (or "value < below") is still proved; 0 when it never is."""
        if (above is None) == (below is None):
            raise InvalidInput("Pass one threshold: above= for a lower bound, below= for an upper bound.")
        if (above is not None and self.value_range.low > above) or (
            below is not None and self.value_range.high < below
        ):
            return math.inf
        best = 0.0
        for terms in self.frontier:
            spread = terms.noise + terms.initial + terms.misspecification
            room = terms.value - spread - above if above is not None else below - (terms.value + spread)  # type: ignore[operator]
            if room.lower > 0:
                size = terms.discrepancy.upper
                best = max(best, math.inf if size == 0 else next_down(next_down(room.lower / size)))
        return best


def radius_sensitivity(
    problem: Question,
    *,
    alpha: float = 0.1,
    radii: Sequence[float] | None = None,
    method: Dual | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Sensitivity:
    """Search omega for a range of radii (by default 1/30 to 10 times the one chosen), certify all in one pass.

    The curve may be read at any radius, also between and beyond those searched: it is valid everywhere and tight near
    them. W, the pilot and the gauge are those of `method`.
    """
    check_alpha(alpha)
    alpha = float(alpha)
    options = Dual() if method is None else method
    setting, _, _ = settle(options, problem, alpha)
    model = search_model(options, setting)
    spectrum = spectral.Spectrum.of(model)
    chosen = np.geomspace(setting.ball.radius / 30, setting.ball.radius * 10, 9) if radii is None else np.asarray(radii)
    proposals = _proposals(setting, spectrum, chosen, model.function)
    report = None if progress is None else lambda share: progress("certify", share)
    found = evaluate_all(setting, ("upper",), proposals, engine=options.engine, progress=report)
    return Sensitivity(alpha, setting.ball.radius, setting.range(), tuple(terms for _, (terms,), _ in found))


def _proposals(
    setting: Setting, spectrum: spectral.Spectrum, radii: np.ndarray, function: Callable[[np.ndarray], Function]
) -> list[Function]:
    kappa = setting.epsilon().upper
    out = []
    for radius in radii:
        for sign in (1.0, -1.0):
            weights = spectral.propose(spectrum, sign=sign, radius=float(radius), kappa=kappa).weights
            if np.any(weights):
                out.append(function(weights))
    return out
