"""The dual bound as a method: tune on earlier rows, search omega, certify it, write everything down."""

from __future__ import annotations

import importlib.metadata
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

import numpy as np

from bondic._version import __version__
from bondic.bounds.dual import End, Setting, problem_range
from bondic.certificate.assumptions import list_assumptions
from bondic.certificate.certificate import make_certificate
from bondic.certificate.conclude import Conclusion, Status, conclude
from bondic.certificate.verify import combine_witnesses
from bondic.concentration.gauge import Gauge
from bondic.methods.settle import settle
from bondic.problem import Question
from bondic.result import Result
from bondic.solvers import spectral
from bondic.solvers.basis import make_basis
from bondic.solvers.best_so_far import Ends, best_bounds
from bondic.solvers.model import SearchModel, build_model
from bondic.spaces.ball import Ball
from bondic.spaces.functions import Function
from bondic.spaces.instruments import Instruments
from bondic.sums.quadratic import Engine
from bondic.tuning.defaults import Choices

Progress = Callable[[str, float], None]
Side = Literal["both", "lower", "upper"]

_LANDMARK_ROWS = 50_000
"""Landmarks are looked for among this many rows, spread over the log."""


@dataclass(frozen=True)
class Dual:
    """The dual bound of Feng et al.: min over omega of J^(q^, omega) + r_Q |mu_omega| + eps |omega|.

    Whatever is left out is filled in and written into the result: W and Q from pilot rows, the radius as
    `radius_factor` times the norm of the fitted q. `gauge` is "half" (default), "range", "paper", "plug-in" (no
    guarantee) or a gauge object. `planned_rows` turns on the form that holds at stopping times.
    """

    instruments: Instruments | None = None
    ball: Ball | None = None
    gauge: str | Gauge = "half"
    side: Side = "both"
    radius: float | None = None
    misspecification: float = 0.0
    pilot: float | int = 0.2
    planned_rows: int | None = None
    choices: Choices = field(default_factory=Choices)
    rank: int = 600
    candidates: tuple[Function, ...] = ()  # more omegas to try, found elsewhere (conic, neural, ...)
    solver: Callable[[SearchModel, Setting], list[Function]] | None = None
    engine: Engine = "auto"

    def run(self, problem: Question, alpha: float, progress: Progress | None) -> Result:
        return _run_dual(self, problem, alpha, progress)


@cache
def _versions() -> dict[str, str]:
    libraries = {name: importlib.metadata.version(name) for name in ("numpy", "scipy", "numba")}
    return {"bondic": __version__, "python": platform.python_version(), **libraries}


class _Clock:
    """Stages with their times, reported to the progress callback."""

    def __init__(self, progress: Progress | None) -> None:
        self.progress, self.seconds, self._last = progress, {}, time.perf_counter()  # type: ignore[var-annotated]

    def stage(self, name: str) -> Callable[[float], None]:
        def report(share: float) -> None:
            if self.progress is not None:
                self.progress(name, share)

        report(0.0)
        return report

    def done(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now
        if self.progress is not None:
            self.progress(name, 1.0)


def _run_dual(method: Dual, problem: Question, alpha: float, progress: Progress | None) -> Result:
    clock = _Clock(progress)
    clock.stage("tuning")
    setting, budget, notes = settle(method, problem, alpha)
    clock.done("tuning")
    model = search_model(method, setting, clock.stage("search"))
    spectrum = spectral.Spectrum.of(model)
    clock.done("search")
    ends, gaps, search = _end_points(method, setting, model, spectrum, clock)
    witnesses = _witnesses(setting, model, spectrum)
    rejection = combine_witnesses(setting, list(witnesses))
    lower, upper = (ends[end].terms if end in ends else None for end in ("lower", "upper"))
    result = conclude(setting, lower, upper, rejection, method.side)
    clock.done("certify")
    estimate = _point_estimate(setting, model, spectrum, result)
    assumptions = list_assumptions(setting, rejected=result.status is Status.REJECTED)
    versions = _versions()
    notes = {**notes, **search}
    certificate = make_certificate(
        setting,
        budget,
        side=method.side,
        ends={end: (found.terms, found.omega) for end, found in ends.items()},
        rejection=rejection,
        witnesses=witnesses,
        interval=(result.low, result.high),
        status=result.status.name,
        assumptions=assumptions,
        information={"estimate": estimate, "gap": list(gaps), "choices": notes, "versions": versions},
    )
    return Result(
        low=result.low,
        high=result.high,
        estimate=estimate,
        alpha=alpha,
        side=method.side,
        method="dual",
        guarantee=setting.gauge.guarantee,
        status=result.status,
        value_range=setting.range(),
        lower=lower,
        upper=upper,
        rejection=rejection,
        gap=gaps,
        rows=(setting.problem.rows.start, setting.problem.rows.stop),
        budget=budget,
        assumptions=assumptions,
        choices=notes,
        seeds={"policy draws": problem.seed, "features": method.choices.seed},
        versions=versions,
        hashes={"log": problem.log_hash, "certificate": certificate.digest},
        effective_sample_size=min(found.effective for found in ends.values()),
        seconds=clock.seconds,
        certificate=certificate,
        search=model,
    )


def search_model(method: Dual, setting: Setting, report: Callable[[float], None] | None = None) -> SearchModel:
    """The matrices of (11) for this setting."""
    problem = setting.problem
    everything = problem.some_points(_LANDMARK_ROWS)
    values = make_basis(setting.ball.kernel, problem.layout, everything, rank=method.rank)
    # a coarser basis than for values: its coordinates become weights of omega, whose size is paid for in rounding
    logged = next(problem.parts()).logged
    weights = make_basis(setting.instruments.kernel, problem.layout, logged, rank=method.rank, tolerance=1e-9)
    return build_model(problem, weights, values, setting.ball.center, progress=report)


def _end_points(
    method: Dual, setting: Setting, model: SearchModel, spectrum: spectral.Spectrum, clock: _Clock
) -> tuple[Ends, tuple[float, float], dict[str, str]]:
    """Search each end, certify the proposals, keep the best; the gap compares with a feasible q."""
    epsilon = setting.epsilon().upper
    extra = list(method.candidates)
    if method.solver is not None:
        extra.extend(method.solver(model, setting))
    wanted: tuple[End, ...] = ("lower", "upper") if method.side == "both" else (method.side,)
    notes: dict[str, str] = {}
    primal: dict[End, float] = {}
    proposals: list[Function] = []
    for end in wanted:
        sign = 1.0 if end == "upper" else -1.0
        found = spectral.propose(spectrum, sign=sign, radius=setting.ball.radius, kappa=epsilon)
        notes[f"search {end}"] = f"{found.status} after {found.iterations} steps, {found.weights.size} coordinates"
        primal[end] = found.primal
        if np.any(found.weights):
            proposals.append(model.function(found.weights))
    report = clock.stage("certify")
    ends = best_bounds(setting, wanted, [*proposals, *extra], engine=method.engine, progress=report)
    gaps = {"lower": float("nan"), "upper": float("nan")}
    for end, found_end in ends.items():
        terms, sign = found_end.terms, 1.0 if end == "upper" else -1.0
        attained = sign * (terms.bound - model.offset) - (terms.initial.mid + terms.misspecification.mid)
        gaps[end] = max(0.0, attained - primal[end]) if np.isfinite(primal[end]) else float("inf")
    return ends, (gaps["lower"], gaps["upper"]), notes


def _witnesses(setting: Setting, model: SearchModel, spectrum: spectral.Spectrum) -> tuple[Function | None, ...]:
    """Directions that may prove a rejection or a minimal radius; none when q = center already fits."""
    epsilon = setting.epsilon().upper
    out: list[Function | None] = []
    if spectral.minimal_radius(spectrum, epsilon) > 0:
        direction = spectral.witness(spectrum, kappa=epsilon)
        out.append(None if direction is None else model.function(direction))
        floor, _ = spectral.loss_floor(spectrum, setting.ball.radius)
        if floor > 1e-9 * epsilon:
            direction = spectral.witness(spectrum, radius=setting.ball.radius)
            out.append(None if direction is None else model.function(direction))
    return tuple(out)


def _point_estimate(setting: Setting, model: SearchModel, spectrum: spectral.Spectrum, result: Conclusion) -> float:
    """E[q^] of a ridge fit of the Bellman loss, moved into the interval: a guess, no guarantee of its own."""
    ridge = 1e-6 * float(spectrum.sigma.max(initial=0.0)) ** 2 + 1e-300
    theta = -spectrum.sigma * spectrum.gradient / (spectrum.sigma**2 + ridge)
    value = model.offset + float(spectrum.start @ theta)
    limits = problem_range(setting.problem)
    low, high = (result.low, result.high) if result.low <= result.high else (limits.low, limits.high)
    return float(np.clip(value, low, high)) if np.isfinite(value) else 0.5 * (low + high)
