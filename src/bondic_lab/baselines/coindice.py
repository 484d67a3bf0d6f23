"""CoinDICE in linear spaces (Dai, Nachum, Chow, Li, Szepesvari and Schuurmans 2020): likelihood of reweighted logs.

[ min, max ] of J(p) over { p : 2 G KL(p | uniform) <= chi^2_1 quantile },  J(p) = phi_0 . theta(p),

theta(p) the solution of the temporal-difference equations with unit g of G units weighted by G p_g. With q and the
density ratio in one linear space the saddle point of the published Lagrangian is this closed form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import ndtri, xlogy

from bondic_lab.baselines import outcome as out
from bondic_lab.baselines.features import Design, start_error
from bondic_lab.baselines.intervals import each_end
from bondic_lab.baselines.lstd import LinearFit, fit_lstd
from bondic_lab.baselines.units import IntArray, OverFeatures, Sample, Unit

FloatArray = npt.NDArray[np.float64]

_STEPS = (1.0, 0.5, 0.25, 0.1)
_MAX_TILT = 1e6


def divergence(p: FloatArray) -> float:
    """2 G KL(p | uniform), which is compared with a chi-square quantile."""
    return float(2.0 * p.size * np.sum(xlogy(p, p * p.size)))


def tilt(scores: FloatArray, radius: float) -> FloatArray:
    """The p of the ball that maximizes scores . p: p proportional to exp(rate * scores), rate at the ball's edge."""
    spread = float(scores.std())
    if spread <= 0 or radius <= 0:
        return np.full(scores.size, 1.0 / scores.size)
    centered = (scores - scores.max()) / spread

    def at(rate: float) -> FloatArray:
        weights = np.exp(rate * centered)
        return np.asarray(weights / weights.sum())

    top = 1.0
    while divergence(at(top)) < radius and top < _MAX_TILT:
        top *= 2.0
    if top >= _MAX_TILT:  # few units: the ball holds the best unit alone
        return at(top)
    return at(float(brentq(lambda rate: divergence(at(rate)) - radius, 0.0, top, xtol=1e-12)))


def extreme_value(
    design: Design, units: IntArray, *, ridge: float, radius: float, sign: float, iterations: int = 30
) -> float:
    """max of sign * J(p), times sign, by linearization: the gradient of J at p_g is G times the unit's own part.

    The value is attained by a p of the ball, so stopping early makes the interval too short, never too long.
    """
    count = int(units.max()) + 1

    def fitted(p: FloatArray) -> LinearFit:
        return fit_lstd(design, (p * count)[units], ridge=ridge)

    p = np.full(count, 1.0 / count)
    best = fitted(p)
    for _ in range(iterations):
        scores = np.asarray(sign * np.bincount(units, weights=best.parts(design), minlength=count), dtype=np.float64)
        goal = tilt(scores, radius)
        gained = False
        for step in _STEPS:
            moved = (1.0 - step) * p + step * goal  # the ball is convex
            trial = fitted(moved)
            if sign * (trial.value - best.value) > 1e-9 * (abs(best.value) + 1e-12):
                p, best, gained = moved, trial, True
                break
        if not gained:
            break
    return best.value


@dataclass(frozen=True)
class CoinDice(OverFeatures, name="coindice", words="likelihood ball of reweighted rows"):
    """Asymptotic, for independent rows (the published setting; unit="episodes" reweighs whole episodes instead)."""

    unit: Unit = field(default="rows", kw_only=True)

    def fit_ends(self, sample: Sample, design: Design, ridge: float) -> out.Outcome:
        fit = fit_lstd(design, ridge=ridge)
        extra = start_error(sample.problem, design, fit.theta)

        def end(which: str, probability: float) -> float:
            sign = 1.0 if which == "upper" else -1.0
            z = float(-ndtri(probability))
            reached = extreme_value(design, sample.units, ridge=ridge, radius=z * z, sign=sign)
            sample.watch(0.5)
            return fit.value + sign * math.hypot(reached - fit.value, z * extra)

        notes = {"divergence": "KL", "ridge": f"{ridge:g} rows"}
        return out.Outcome(*each_end(sample.budget, end), fit.value, choices=notes)
