"""Many intervals from one decomposition: (11) sees neither δ nor the noise bound, so all of them share A = P diag(σ) Vᵀ.

Every end point is the certified one of `Dual` with the same W, Q and rank. The rejection test is that of the search
(r_Q < r_min in coordinates), not a certified witness; a rejection reports the value range, as `Dual` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bondic.core.balls import Ball, Instruments
from bondic.core.claims import conclude
from bondic.core.dual.bound import BIAS, NOISE, Setting
from bondic.core.dual.noise import NoiseBound
from bondic.methods.dual import Dual
from bondic.methods.setting import make_setting
from bondic.rows import Rows
from bondic.search import spectral
from bondic.search.model import SearchModel
from bondic.search.search import best_bounds, kernel_search
from bondic.tuning.defaults import Advanced
from bondic_lab.noise.v_statistic import VStatistic

GAUGES = ("paper", "half", "plug-in", "feng2020")
"""Noise bounds by short name: three constants of (9), and the threshold of 2020 for independent rows."""


@dataclass(frozen=True)
class StoredInterval:
    """One interval; `raw_*` are F⁻ and F⁺ before they are cut to the value range."""

    gauge: str
    alpha: float
    low: float
    high: float
    raw_low: float
    raw_high: float
    status: str
    guarantee: str
    noise: float  # ε ‖ω‖, mean of both ends
    bias: float  # r_Q ‖μ_ω‖, mean of both ends


def dual_intervals(
    problem: Rows,
    instruments: Instruments,
    balls: Sequence[Ball],
    *,
    gauges: Sequence[str] = GAUGES,
    alphas: Sequence[float] = (0.1,),
    rank: int = 150,
) -> list[list[StoredInterval]]:
    """One list per ball, gauges outer, alphas inner. The balls share kernel and center and differ in their radii."""
    out: list[list[StoredInterval]] = [[] for _ in balls]
    advanced = Advanced(rank=rank)
    base = Dual(instruments=instruments, ball=balls[0], advanced=advanced)
    model = kernel_search(make_setting(base, problem, alphas[0])[0], rank).model
    spectrum = spectral.Spectrum.of(model)
    for name in gauges:
        gauge: str | NoiseBound = VStatistic("paper") if name == "feng2020" else name
        for alpha in alphas:
            for ball, found in zip(balls, out, strict=True):
                setting, _, _ = make_setting(
                    Dual(instruments=instruments, ball=ball, gauge=gauge, advanced=advanced), problem, alpha
                )
                gauge = setting.gauge  # a plugged-in constant is estimated once
                found.append(_interval(name, alpha, setting, model, spectrum))
    return out


def _interval(
    name: str, alpha: float, setting: Setting, model: SearchModel, spectrum: spectral.Spectrum
) -> StoredInterval:
    epsilon, radius = setting.epsilon().upper, setting.ball.radius
    proposals = []
    for sign in (-1.0, 1.0):
        weights = spectral.propose(spectrum, sign=sign, radius=radius, kappa=epsilon).weights
        if weights.any():
            proposals.append(model.function(weights))
    ends, _ = best_bounds(setting, ("lower", "upper"), proposals)
    lower, upper = ends["lower"].claim, ends["upper"].claim
    rejected = spectral.minimal_radius(spectrum, epsilon) > radius
    found = conclude(setting.range(), (lower, upper), rejected, "both")
    noise, bias = (0.5 * (lower[part].upper + upper[part].upper) for part in (NOISE, BIAS))
    return StoredInterval(
        name,
        alpha,
        found.low,
        found.high,
        lower.bound,
        upper.bound,
        found.status.name,
        setting.gauge.guarantee,
        noise,
        bias,
    )
