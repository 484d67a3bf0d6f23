"""The dual bound as a method: tune on earlier rows, search omega, certify it, write everything down."""

from __future__ import annotations

import importlib.metadata
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from bondic._version import __version__
from bondic.bellman.residual import bellman_residual, function_values
from bondic.bounds.dual import BoundTerms, End, Setting, problem_range, weights_at_rows
from bondic.certificate.assumptions import list_assumptions
from bondic.certificate.certificate import make_certificate
from bondic.certificate.conclude import Conclusion, Status, conclude
from bondic.certificate.verify import combine_witnesses
from bondic.concentration.budget import ErrorBudget
from bondic.concentration.fixed_lambda import FixedLambda
from bondic.concentration.gauge import Gauge
from bondic.concentration.pinelis import Pinelis
from bondic.concentration.plug_in import PlugIn
from bondic.concentration.value_range import value_range
from bondic.errors import InvalidInput, TunedOnCertifiedRows
from bondic.problem import Problem
from bondic.result import Result
from bondic.solvers import spectral
from bondic.solvers.basis import make_basis
from bondic.solvers.best_so_far import best_bound
from bondic.solvers.model import SearchModel, build_model
from bondic.spaces.ball import Ball
from bondic.spaces.functions import Function
from bondic.spaces.instruments import Instruments
from bondic.sums.quadratic import Engine
from bondic.tuning.defaults import Choices, default_ball, default_instruments, default_value_kernel
from bondic.tuning.instruments import pick_instruments

Progress = Callable[[str, float], None]
Side = Literal["both", "lower", "upper"]

_SMALLEST_PILOT = 20
_LARGEST_PILOT = 5000
_INITIAL_SHARE = 0.2
"""Share of alpha for a sampled initial distribution; fixed here, before any data are seen."""


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

    def run(self, problem: Problem, alpha: float, progress: Progress | None) -> Result:
        return _run_dual(self, problem, alpha, progress)


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


def _run_dual(method: Dual, problem: Problem, alpha: float, progress: Progress | None) -> Result:
    clock = _Clock(progress)
    clock.stage("tuning")
    setting, budget, notes = _settle(method, problem, alpha)
    clock.done("tuning")
    model = _search_model(method, setting, clock)
    spectrum = spectral.Spectrum.of(model)
    clock.done("search")
    ends, gaps, search = _end_points(method, setting, model, spectrum, clock)
    witnesses = _witnesses(setting, model, spectrum, ends)
    rejection = combine_witnesses(setting, list(witnesses))
    lower, upper = (ends[end][0] if end in ends else None for end in ("lower", "upper"))
    result = conclude(setting, lower, upper, rejection, method.side)
    clock.done("certify")
    estimate = _point_estimate(setting, model, spectrum, result)
    assumptions = list_assumptions(setting, rejected=result.status is Status.REJECTED)
    versions = {"bondic": __version__, "python": platform.python_version(), "numpy": np.__version__}
    versions |= {name: importlib.metadata.version(name) for name in ("scipy", "numba")}
    notes = {**notes, **search}
    certificate = make_certificate(
        setting,
        budget,
        side=method.side,
        ends=ends,
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
        effective_sample_size=_effective_sample_size(setting, ends),
        seconds=clock.seconds,
        certificate=certificate,
    )


def _pilot_rows(method: Dual, problem: Problem) -> int:
    """Rows set aside for tuning: a share of the log's rows, or a number of them."""
    total = len(problem.rows)
    if isinstance(method.pilot, float):
        if not 0 <= method.pilot < 1:
            raise InvalidInput(f"pilot={method.pilot}: a share of rows in [0, 1), or a whole number of rows.")
        wanted = min(int(method.pilot * total), _LARGEST_PILOT)
    else:
        wanted = int(method.pilot)
        if not 0 <= wanted < total:
            raise InvalidInput(f"pilot={wanted} rows cannot be set aside from a log of {total} rows.")
    if method.instruments is not None or wanted < _SMALLEST_PILOT:
        return 0
    before = int(np.searchsorted(problem.log_rows, problem.rows.start + wanted))
    return wanted if _SMALLEST_PILOT <= before < len(problem) else 0


def _settle(method: Dual, problem: Problem, alpha: float) -> tuple[Setting, ErrorBudget, dict[str, str]]:
    """Fix W, Q, gauge and the split of alpha, before omega is looked for."""
    notes: dict[str, str] = {}
    wanted = _pilot_rows(method, problem)
    start = problem.rows.start
    pilot = problem.select(start, start + wanted) if wanted else None
    certified = problem.select(start + wanted) if wanted else problem
    notes["pilot"] = (
        f"{pilot.rows} tune, {certified.rows} are certified" if pilot else "no pilot: every row is certified"
    )
    instruments = method.instruments or default_instruments(problem, pilot, method.choices)
    ball = _settle_ball(method, certified, pilot, instruments, notes)
    if method.instruments is None and pilot is not None:
        instruments, picked = pick_instruments(pilot, len(certified.rows), ball, method.choices, probability=alpha)
        notes["W picked"] = picked
    rows = (certified.rows.start, certified.rows.stop)
    if instruments.provenance.saw(rows, certified.log_hash):
        raise TunedOnCertifiedRows(
            f"W was tuned on rows {instruments.provenance.rows}, the interval would certify rows {rows}. W must not see the "
            "rows it is used on: tune on earlier rows, or certify later ones (problem.select)."
        )
    notes["W"] = f"{instruments.kernel!r} ({instruments.provenance})"
    sampled = certified.initial_states.kind == "sample" or not certified.answers.exact
    shares = {"noise": 1.0 - _INITIAL_SHARE, "initial": _INITIAL_SHARE} if sampled else {"noise": 1.0}
    budget = ErrorBudget.split(alpha, shares)
    gauge = _settle_gauge(method, certified, instruments, ball, budget["noise"], notes)
    sides = 2 if method.side == "both" else 1
    if method.side not in ("both", "lower", "upper"):
        raise InvalidInput(f"side={method.side!r}; choose 'both', 'lower' or 'upper'.")
    setting = Setting(certified, ball, instruments, gauge, budget["noise"], budget.get("initial"), sides)
    return setting, budget, notes


def _settle_ball(
    method: Dual, certified: Problem, pilot: Problem | None, instruments: Instruments, notes: dict[str, str]
) -> Ball:
    if method.ball is not None:
        ball = method.ball
        notes["Q"] = f"{ball.kernel!r}, radius {ball.radius:g} ({ball.provenance})"
    elif method.radius is not None:
        kernel = default_value_kernel(certified, pilot, method.choices)
        ball = Ball(kernel, method.radius)
        notes["Q"] = f"{kernel!r}, radius {method.radius:g} as given"
    else:
        kernel = default_value_kernel(certified, pilot, method.choices)
        ball, note = default_ball(certified, pilot, kernel, instruments, method.choices)
        notes["Q"] = f"{kernel!r}, {note}"
    if method.misspecification:
        ball = Ball(ball.kernel, ball.radius, ball.center, method.misspecification, ball.provenance)
    return ball


def _settle_gauge(
    method: Dual, problem: Problem, instruments: Instruments, ball: Ball, probability: float, notes: dict[str, str]
) -> Gauge:
    """Pinelis for a fixed number of rows; fixed lambda when ranges differ by time or n is a stopping time."""
    if isinstance(method.gauge, Gauge):
        notes["noise"] = method.gauge.describe()
        return method.gauge
    if method.gauge == "plug-in":
        gauge: Gauge = PlugIn(_plug_in_constant(method, problem, instruments, ball))
    elif method.gauge == "half" and (method.planned_rows is not None or problem.terms.horizon is not None):
        gauge = FixedLambda.planned(
            len(problem.rows) if method.planned_rows is None else method.planned_rows,
            probability=probability,
            sup_diag=instruments.kernel.sup_diag,
            mean_square_width=_mean_square_width(problem),
        )
    elif method.planned_rows is not None:
        raise InvalidInput("planned_rows works with gauge='half' (the fixed-lambda form has that constant).")
    elif method.gauge in ("half", "range", "paper"):
        gauge = Pinelis(method.gauge)  # type: ignore[arg-type]
    else:
        raise InvalidInput(
            f"gauge={method.gauge!r}; choose 'half', 'range', 'paper', 'plug-in' or pass a gauge object."
        )
    notes["noise"] = gauge.describe()
    return gauge


def _mean_square_width(problem: Problem) -> float:
    """Average of B_t^2 over the times of the horizon: known beforehand, so it may set lambda."""
    t = problem.terms
    times = range(t.horizon) if t.horizon is not None else range(1)
    widths = [
        value_range(t.gamma, t.reward_range, may_terminate=t.may_terminate, horizon=t.horizon, time=time).width
        for time in times
    ]
    return float(np.mean(np.square(widths)))


def _plug_in_constant(method: Dual, problem: Problem, instruments: Instruments, ball: Ball) -> float:
    """K_max times the mean squared residual of a fitted q: an estimate, hence no guarantee."""
    values = make_basis(ball.kernel, problem.layout, problem.logged, rank=min(method.rank, 300), tolerance=1e-9)
    weights = make_basis(instruments.kernel, problem.layout, problem.logged, rank=300, tolerance=1e-9)
    model = build_model(problem, weights, values, function_values(problem, ball.center))
    u, sigma, right = np.linalg.svd(model.balance, full_matrices=False)
    ridge = 1e-6 * float(sigma.max(initial=1e-300)) ** 2
    theta = u @ (-sigma * (right @ model.gradient) / (sigma**2 + ridge))
    fitted = function_values(problem, values.function(theta))
    base = function_values(problem, ball.center)
    total = bellman_residual(problem, base) + fitted.logged - problem.gamma * fitted.next
    return float(instruments.kernel.sup_diag * np.mean(total**2))


def _search_model(method: Dual, setting: Setting, clock: _Clock) -> SearchModel:
    report = clock.stage("search")
    problem = setting.problem
    everything = np.concatenate([problem.initial.points, problem.logged, problem.next.points])
    values = make_basis(setting.ball.kernel, problem.layout, everything, rank=method.rank)
    # a coarser basis than for values: its coordinates become weights of omega, whose size is paid for in rounding
    weights = make_basis(setting.instruments.kernel, problem.layout, problem.logged, rank=method.rank, tolerance=1e-9)
    return build_model(problem, weights, values, function_values(problem, setting.ball.center), progress=report)


def _end_points(
    method: Dual, setting: Setting, model: SearchModel, spectrum: spectral.Spectrum, clock: _Clock
) -> tuple[dict[End, tuple[BoundTerms, Function | None]], tuple[float, float], dict[str, str]]:
    """Search each end, certify the proposals, keep the best; the gap compares with a feasible q."""
    epsilon = setting.epsilon().upper
    extra = list(method.candidates)
    if method.solver is not None:
        extra.extend(method.solver(model, setting))
    ends: dict[End, tuple[BoundTerms, Function | None]] = {}
    gaps: dict[str, float] = {"lower": float("nan"), "upper": float("nan")}
    notes: dict[str, str] = {}
    clock.stage("certify")
    wanted: tuple[End, ...] = ("lower", "upper") if method.side == "both" else (method.side,)
    for number, end in enumerate(wanted):
        sign = 1.0 if end == "upper" else -1.0
        found = spectral.propose(spectrum, sign=sign, radius=setting.ball.radius, kappa=epsilon)
        notes[f"search {end}"] = f"{found.status} after {found.iterations} steps, {found.weights.size} coordinates"

        def report(share: float, number: int = number) -> None:
            clock.stage("certify")
            if clock.progress is not None:
                clock.progress("certify", (number + share) / len(wanted))

        proposals: list[Function | None] = [*extra]
        if np.any(found.weights):
            proposals.insert(0, model.function(found.weights))
        terms, omega = best_bound(setting, end, proposals, engine=method.engine, progress=report)
        ends[end] = (terms, omega)
        side_terms = terms.initial.mid + terms.misspecification.mid
        attained = sign * (terms.bound - model.offset) - side_terms
        gaps[end] = max(0.0, attained - found.primal) if np.isfinite(found.primal) else float("inf")
    return ends, (gaps["lower"], gaps["upper"]), notes


def _witnesses(
    setting: Setting,
    model: SearchModel,
    spectrum: spectral.Spectrum,
    ends: dict[End, tuple[BoundTerms, Function | None]],
) -> tuple[Function | None, ...]:
    """Directions that may prove a rejection or a minimal radius; none when q = center already fits."""
    del ends
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


def _effective_sample_size(setting: Setting, ends: dict[End, tuple[BoundTerms, Function | None]]) -> float:
    """(sum |omega|)^2 / sum omega^2, the smaller of both ends: how many rows carry the bound."""
    sizes = []
    for _, omega in ends.values():
        rows, _ = weights_at_rows(setting.problem, omega)
        squares = float(np.sum(rows**2))
        sizes.append(float(np.sum(np.abs(rows)) ** 2 / squares) if squares > 0 else 0.0)
    return min(sizes)
