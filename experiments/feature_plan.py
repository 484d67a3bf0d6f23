"""A plan for the bound on features: forecasts, instruments, rates and weights, from the rows before those that they serve."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from bondic.core.bounded import Enclosure
from bondic_lab.features.ends import FeatureBound, FeatureStarts, FeatureTail
from bondic_lab.features.sets import FeatureEvent
from bondic_lab.features.sums import EllipsoidShape, FeatureRows, Range, tally_features

CUTS = (0.1, 0.2, 0.4, 0.7, 0.85, 0.92, 0.95, 0.97, 0.98, 0.987, 0.993, 1.0)
"""Ends of blocks: later ones balance what earlier ones left."""
N_RATES, FULL_BET = 5, 0.98
FLUCTUATION = 0.3
"""Part of the fluctuation of sum v T that later blocks leave."""
BALL_SHARES = (0.5, 2.0, 30.0, 3e3)
"""λ of a ball, in units of (ρ / r)^2 as foreseen: the last ones start the fixed point."""


@dataclass
class Columns:
    """All rows of a log, in order, the pilot first."""

    features: Any  # (n, D)
    following: Any  # (n, D)
    outcome: Any  # (n,)
    value: Any  # (n,)
    scale: Any  # (n,)
    next_scale: Any  # (n,)
    start: Any  # (D,)
    start_value: float
    start_scale: float
    gamma: float
    low: float
    high: float
    size: float
    forecast: tuple[Any, Any] | None = None  # (n,), (n, D): ô and u, from the pilot; None: linear in the features
    radius: float | None = None  # of a ball


@dataclass
class Plan:
    """`ridge`: of the whitening of instruments, in units of the mean eigenvalue; `floor_margin` None: no floors."""

    pilot: int
    alpha: float = 0.1
    vector_share: float = 0.2
    ridge: float = 0.01
    floor_margin: float | None = None


def solve(matrix: Any, right: Any, ridge: float) -> Any:
    left, s, other = np.linalg.svd(matrix, full_matrices=False)
    return other.T @ (np.where(s > 1e-10 * s.max(), s / (s * s + ridge + 1e-300), 0.0) * (left.T @ right))


def root_of(matrix: Any, ridge: float) -> Any:
    """About (H^T H + λ)^(-1/2)."""
    values, vectors = np.linalg.eigh(matrix.T @ matrix + ridge * np.eye(matrix.shape[1]))
    return vectors / np.sqrt(np.maximum(values, 1e-14 * values.max()))


def linear_forecasts(data: Columns, n0: int) -> tuple[Any, Any]:
    """ô and u by ridge regression on the pilot."""
    own = data.features[:n0]
    gram = own.T @ own / n0
    ridge = np.trace(gram) * (1e-3 / len(gram) if data.radius is None else 1e-7)
    inverse = np.linalg.inv(gram + ridge * np.eye(len(gram))) @ own.T / n0
    return data.features @ (inverse @ data.outcome[:n0]), data.gamma * data.features @ (inverse @ data.following[:n0])


def instruments(data: Columns, plan: Plan) -> tuple[Any, float]:
    """Features, partly whitened on the pilot, no longer than `most`."""
    own = data.features[: plan.pilot]
    values, vectors = np.linalg.eigh(own.T @ own / plan.pilot)
    chi = data.features @ (vectors / np.sqrt(np.maximum(values, 0) + plan.ridge * values.mean()))
    length = np.linalg.norm(chi, axis=1)
    most = (1.0 if data.radius else 1.5) * float(length[: plan.pilot].max())
    return chi * np.minimum(1.0, most / np.maximum(length, 1e-300))[:, None], most


def make_bound(data: Columns, plan: Plan) -> FeatureBound:
    """Everything from the rows before those that it is used on, but for the reference and shapes, which may see all rows."""
    n, n0, width, radius = len(data.outcome), plan.pilot, data.high - data.low, data.radius or 0.0
    pilot, rest, ahead = slice(0, n0), slice(n0, None), n - n0
    chi, most = instruments(data, plan)
    step = data.features - data.gamma * data.following
    expected, forecast = data.forecast or linear_forecasts(data, n0)
    matrix = chi[pilot].T @ step[pilot]
    first = solve(matrix, chi[pilot].T @ data.outcome[pilot], (0.1 * math.sqrt(n0) / radius) ** 2 if radius else 0.0)
    deviation = (expected - data.outcome + (forecast - data.gamma * data.following) @ first)[pilot]
    sizes, noise = (chi[pilot] ** 2).sum(axis=1), float(np.mean(deviation**2)) + 1e-12 * width**2
    energy = float(np.mean(sizes * deviation**2)) * ahead + 1e-12 * width**2
    delta, each = plan.alpha * plan.vector_share, plan.alpha * (1 - plan.vector_share) / 2
    cap, cost = FULL_BET / (width * most), math.log(2 * N_RATES / delta)
    slow, fast = math.sqrt(2 * cost / (float(sizes.mean()) * ahead)) / width, 2 * math.sqrt(2 * cost / energy)
    rates = np.unique(np.geomspace(min(slow, cap), min(fast, cap), N_RATES)).tolist()[::-1]
    if radius and fast >= cap:  # the ball starts the fixed point: no slow rate is needed
        rates, cost = [cap], math.log(2 / delta)
    rho = min(cost / rate + 0.6 * rate * energy for rate in rates)
    ridge = (rho / radius) ** 2 if radius else 0.0
    unsure = (
        rho
        * (math.sqrt(2) if radius else 1.0)
        * np.linalg.norm(forecast @ root_of(matrix * (ahead / n0), ridge), axis=1)
    )
    centers = data.value + expected + forecast @ first
    margin = 1e3 * width if plan.floor_margin is None else 0.002 * width + plan.floor_margin * unsure
    floors = np.minimum(centers + margin, data.high), np.maximum(centers - margin, data.low)  # for v < 0, v > 0
    weights, levels, shares = make_weights(data, chi, step, floors, noise, rho, math.log(1 / each), n0)
    whole = chi[rest].T @ step[rest]
    guesses = (1.5,) if plan.floor_margin is None else (1.2, 3.0)
    ridges = [one**2 * ridge for one in BALL_SHARES] if radius else [0.0]
    shapes = [
        EllipsoidShape(root_of(whole, one), one, times * math.sqrt(rho**2 + one * radius**2))
        for one in ridges
        for times in guesses
    ]
    parts = [
        FeatureRows(
            data.outcome[here], data.following[here], data.next_scale[here], data.value[here], data.features[here],
            data.scale[here], expected[here], forecast[here], chi[here], weights[here], levels[here], data.size,
        )
        for here in (slice(k, min(k + 2048, n)) for k in range(n0, n, 2048))
    ]  # fmt: skip
    reference = solve(whole, chi[rest].T @ data.outcome[rest], ridge)
    tally = tally_features(parts, data.gamma, reference, Range(data.low, data.high), rates[0], shapes)
    starts = FeatureStarts(Enclosure(data.start_value, 1e-12 * width), data.start, 1e-12, data.start_scale)
    tails = {sign: FeatureTail(e, shares[e], each) for e, sign in enumerate((-1.0, 1.0))}
    return FeatureBound(tally, FeatureEvent(tuple(rates), delta), tails, starts, bool(radius))


def make_weights(
    data: Columns, chi: Any, step: Any, floors: Any, noise: float, rho: float, log_term: float, n0: int
) -> tuple[Any, Any, list[float]]:
    """(n, 2) weights and floors, (2,) Λ: block after block, each from the rows before it; what was left is balanced later."""
    n, (above, below) = len(chi), floors
    weights, levels, rates = np.zeros((n, 2)), np.zeros((n, 2)), []
    caps = FULL_BET / np.stack([above - data.low, data.high - below])  # losing sides for v < 0 and v > 0
    stops = sorted({n0, *(min(max(n0 + 1, math.ceil(cut * n)), n) for cut in CUTS)})
    radius = data.radius or 0.0
    solvers = {first: Solver(chi[:first], step[:first], n - first, noise, rho, radius) for first in stops[:-1]}
    for e, sign in enumerate((-1.0, 1.0)):
        rates.append(choose_rate(sign * data.start, solvers[n0], caps[:, :n0], noise, log_term))
        used = np.zeros(step.shape[1])
        for first, stop in pairwise(stops):
            here = slice(first, stop)
            aim = solvers[first].clipped(sign * rates[e] * data.start - used, caps[:, :first])
            v = clip(chi[here] @ aim, caps[:, here])
            weights[here, e], levels[here, e] = v, np.where(v > 0, below[here], above[here])
            used = used + v @ step[here]
    return weights, levels, rates


def clip(v: Any, caps: Any) -> Any:
    return np.where(v > 0, np.minimum(v, caps[1]), np.maximum(v, -caps[0]))


class Solver:
    """Weights <a, χ_i> with small noise sum v² / 2 + k |A^T (target - sum v T)|, both squared, if rows ahead are like these."""

    def __init__(self, chi: Any, step: Any, ahead: int, noise: float, rho: float, radius: float) -> None:
        self.chi, self.step, self.times = chi, step, ahead / len(chi)
        matrix = chi.T @ step * self.times
        self.shape = root_of(matrix, (rho / radius) ** 2 if radius else 0.0)
        self.size = rho * (math.sqrt(2.0) if radius else 1.0)
        along = matrix @ self.shape
        left = noise * chi.T @ chi * self.times + self.size**2 * (along @ along.T)
        left += 1e-12 * np.trace(left) / len(left) * np.eye(len(left))
        self.inverse = np.linalg.inv(left) @ (self.size**2 * along)

    def clipped(self, target: Any, caps: Any, rounds: int = 12) -> Any:
        """Rows at their caps leave a part of the target to the others."""
        best, a = (math.inf, np.zeros(self.chi.shape[1])), np.zeros(self.chi.shape[1])
        for _ in range(rounds):
            left = self.shape.T @ (target - clip(self.chi @ a, caps) @ self.step * self.times)
            best = min(best, (float(np.linalg.norm(left)), a), key=lambda one: one[0])
            a = a + self.inverse @ left
        return best[1]


def choose_rate(start: Any, solver: Solver, caps: Any, noise: float, log_term: float) -> float:
    """Λ with the shortest end that the pilot predicts."""
    best = (math.inf, 1.0)
    v = solver.chi @ (solver.inverse @ (solver.shape.T @ start))
    full = math.sqrt(2 * log_term / max(noise * float(v @ v) * solver.times, 1e-300))
    for rate in full * np.geomspace(1e-3, 4.0, 40):
        v = clip(solver.chi @ solver.clipped(rate * start, 0.9 * caps, 6), 0.9 * caps)
        left = solver.shape.T @ (rate * start - v @ solver.step * solver.times)
        spread = math.sqrt(float(((v[:, None] * solver.step @ solver.shape) ** 2).sum()) * solver.times)
        bias = solver.size * (float(np.linalg.norm(left)) + FLUCTUATION * spread)
        best = min(best, ((log_term + noise * float(v @ v) * solver.times / 2 + bias) / rate, float(rate)))
    return best[1]


def interval(bound: FeatureBound, beta: float) -> tuple[float, float]:
    """Both ends at an allowance, those of the value range where nothing is known; not cut to it."""
    limits, ends = bound.tally.limits, bound.ends(bound.locate(beta))
    low, high = (
        default if end is None else end.value.mid + sign * (end.spread + end.value.rad)
        for (sign, end), default in zip(ends.items(), (limits.low, limits.high), strict=True)
    )
    return low, high
