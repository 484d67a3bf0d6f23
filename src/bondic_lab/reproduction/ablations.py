"""The ablations on the synthetic world: radius of Q, mixture rate of the behavior, length of trajectories."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import numpy as np

from bondic_lab.reproduction.experiment import (
    LABELS,
    Experiment,
    dual_rows,
    figure_data,
    interval_rows,
    lengths_against,
)
from bondic_lab.reproduction.figures import Curve, FigureData, Panel
from bondic_lab.reproduction.intervals import dual_intervals
from bondic_lab.reproduction.known import ALIGNED, LINE, synthetic, synthetic_variance
from bondic_lab.reproduction.prior import promise
from bondic_lab.reproduction.store import Row
from bondic_lab.reproduction.summary import efficiency_limit, groups, slope
from bondic_lab.reproduction.trials import Cell

GAUGES = ("paper", "half", "plug-in")
FACTORS = (1.0, 10.0, 100.0)
RADIUS_ROWS, QUICK_RADIUS_ROWS = (500, 1000, 2000, 5000, 10_000, 20_000), (300, 1000)
RATES = (0.0, 0.2, 0.4, 0.6, 0.8)
UNION = -1.0
LENGTHS, QUICK_LENGTHS = (2, 5, 10, 20, 50, 100, 200), (5, 20, 50)
GAMMAS = (0.95, 0.99)
AT, QUICK_AT = 5000, 1000
ALPHA = 0.1


def limit(rows: int, **log: Any) -> float:
    return efficiency_limit(synthetic_variance(**log), rows, ALPHA)


def limits_against(rows: list[Row], x: str) -> Curve:
    """The efficiency limit against `x`, dashed."""
    points = sorted({(float(row[x]), float(row["limit"])) for row in rows})
    return Curve("efficiency limit", tuple(at for at, _ in points), tuple(size for _, size in points), kind="dashed")


def radius_cells(quick: bool) -> list[tuple[Cell, int]]:
    return [({"rows": n, "world": LINE}, 2 if quick else 20) for n in (QUICK_RADIUS_ROWS if quick else RADIUS_ROWS)]


def radius_trial(cell: Cell, rng: np.random.Generator) -> list[Row]:
    """All radii on one log: they share its decomposition."""
    started = time.perf_counter()
    setup = synthetic(cell["rows"], rng)
    balls = [setup.ball.with_radius(factor / ALIGNED * setup.ball.radius) for factor in FACTORS]
    found = dual_intervals(setup.problem, setup.instruments, balls, gauges=GAUGES, alphas=[ALPHA])
    best = limit(cell["rows"])
    return [
        row | asdict(promise(row["gauge"], cell["rows"], float(ball.radius), ALPHA))
        for factor, ball, part in zip(FACTORS, balls, found, strict=True)
        for row in interval_rows(setup, part, started, factor=factor, limit=best)
    ]


def radius_summary(rows: list[Row]) -> FigureData:
    panels, notes = [], []
    for (gauge,), found in groups(rows, "method").items():
        named = [row | {"radius": f"{row['factor']:g} ‖q*‖"} for row in found]
        lines = lengths_against(named, "rows", "radius", raw=True)
        aligned = [row for row in found if row["factor"] == ALIGNED]
        shown = (*lines, limits_against(found, "rows"))
        panels.append(Panel(LABELS[gauge], "rows n", "F⁺ − F⁻", shown, x_log=True, y_log=True))
        largest = {line.label: dict(zip(line.x, line.y, strict=True)) for line in lines}
        middle = largest["10 ‖q*‖"]
        rate = slope(list(middle), list(middle.values()))
        notes.append(f"{LABELS[gauge]}: slope of log(F⁺ − F⁻) in log n with 10 ‖q*‖ {rate:.2f}")
        best = {float(row["rows"]): float(row["limit"]) for row in found}
        shares = ", ".join(f"{middle[n] / best[n]:.1f} at n = {n:g}" for n in middle)
        notes.append(f"{LABELS[gauge]}: F⁺ − F⁻ with 10 ‖q*‖ over the efficiency limit: {shares}")
        for name, ruler in (("a-priori length", "prior"), ("ideal length", "ideal")):
            sizes = {float(row["rows"]): float(row[ruler]) for row in aligned}
            shares = ", ".join(f"{sizes[n] / middle[n]:.2f} at n = {n:g}" for n in middle)
            notes.append(f"{LABELS[gauge]}: {name} over F⁺ − F⁻ with 10 ‖q*‖: {shares}")
        for other in ("1 ‖q*‖", "100 ‖q*‖"):
            shares = ", ".join(f"{largest[other][n] / middle[n]:.2f} at n = {n:g}" for n in middle)
            notes.append(f"{LABELS[gauge]}: F⁺ − F⁻ with {other} over the one with 10 ‖q*‖: {shares}")
    return figure_data("Radius of Q, synthetic", panels, rows, "rows", "factor", notes=notes)


def temperature_cells(quick: bool) -> list[tuple[Cell, int]]:
    at = QUICK_AT if quick else AT
    one: list[tuple[Cell, int]] = [
        ({"rows": at, "rate": rate, "rates": [rate], "world": LINE}, 2 if quick else 20) for rate in RATES
    ]
    return [*one, ({"rows": at, "rate": UNION, "rates": list(RATES), "world": LINE}, 2 if quick else 20)]


def temperature_trial(cell: Cell, rng: np.random.Generator) -> list[Row]:
    started = time.perf_counter()
    setup = synthetic(cell["rows"], rng, mixtures=cell["rates"])
    best = limit(cell["rows"], mixtures=tuple(cell["rates"]))
    return dual_rows(setup, started, gauges=GAUGES, alphas=[ALPHA], limit=best)


def temperature_summary(rows: list[Row]) -> FigureData:
    """The union stands to the right of the single behaviors."""
    shown = [row | {"place": len(RATES) if row["rate"] == UNION else RATES.index(row["rate"])} for row in rows]
    names = (*(f"{rate:g}" for rate in RATES), "union")
    title = f"synthetic, n = {rows[0]['rows']}, r_Q = 10 ‖q*‖"
    panel = Panel(
        title,
        "mixture rate of the target in the behavior",
        "length",
        (*lengths_against(shown, "place"), limits_against(shown, "place")),
        ticks=names,
        y_log=True,
    )
    return figure_data("Behavior mixtures", (panel,), rows, "rate")


def length_cells(quick: bool) -> list[tuple[Cell, int]]:
    at, lengths = (QUICK_AT, QUICK_LENGTHS) if quick else (AT, LENGTHS)
    return [
        ({"rows": at, "gamma": gamma, "steps": steps, "world": LINE}, 2 if quick else 20)
        for gamma in GAMMAS
        for steps in lengths
    ]


def length_trial(cell: Cell, rng: np.random.Generator) -> list[Row]:
    started = time.perf_counter()
    setup = synthetic(cell["rows"], rng, gamma=cell["gamma"], length=cell["steps"])
    best = limit(cell["rows"], gamma=cell["gamma"], length=cell["steps"])
    return dual_rows(setup, started, gauges=GAUGES, alphas=[ALPHA], limit=best)


def length_summary(rows: list[Row]) -> FigureData:
    panels = tuple(
        Panel(
            f"γ = {gamma:g}, n = {found[0]['rows']}",
            "steps per trajectory",
            "length",
            (*lengths_against(found, "steps"), limits_against(found, "steps")),
            x_log=True,
            y_log=True,
        )
        for (gamma,), found in groups(rows, "gamma").items()
    )
    return figure_data("Length of trajectories, n fixed", panels, rows, "gamma", "steps")


RADIUS = Experiment("ablation-radius", radius_cells, radius_trial, radius_summary)
TEMPERATURE = Experiment("ablation-temperature", temperature_cells, temperature_trial, temperature_summary)
LENGTH = Experiment("ablation-length", length_cells, length_trial, length_summary)
