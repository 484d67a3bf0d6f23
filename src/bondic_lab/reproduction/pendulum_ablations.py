"""The ablations on the inverted pendulum: temperature of the behavior, bandwidths of k and k̃."""

from __future__ import annotations

import time

import numpy as np

from bondic_lab.reproduction.experiment import LABELS, Experiment, dual_rows, figure_data, lengths_against
from bondic_lab.reproduction.figures import FigureData, Panel
from bondic_lab.reproduction.store import Row
from bondic_lab.reproduction.summary import groups, raw_length
from bondic_lab.reproduction.trials import Cell
from bondic_lab.reproduction.worlds import simulated

WORLD = "pendulum"
TEMPERATURES, QUICK_TEMPERATURES = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0), (0.1, 0.3, 1.0)
WEIGHT_BANDWIDTHS, QUICK_WEIGHT = (0.1, 0.25, 0.5, 1.0, 2.0), (0.5, 1.0)
VALUE_BANDWIDTHS, QUICK_VALUE = (0.5, 1.0, 2.0, 3.0, 6.0), (1.0, 3.0)
BEHAVIOR_GAUGES = ("paper", "half", "plug-in")
BANDWIDTH_GAUGES = ("half", "plug-in")
AT, QUICK_AT, BANDWIDTH_AT = 5000, 600, 2000


def behavior_cells(quick: bool) -> list[tuple[Cell, int]]:
    at, values = (QUICK_AT, QUICK_TEMPERATURES) if quick else (AT, TEMPERATURES)
    return [({"rows": at, "temperature": value}, 2 if quick else 20) for value in values]


def behavior_trial(cell: Cell, rng: np.random.Generator) -> list[Row]:
    started = time.perf_counter()
    setup = simulated(WORLD, cell["rows"], rng, temperature=cell["temperature"])
    return dual_rows(setup, started, gauges=BEHAVIOR_GAUGES, radius=setup.ball.radius)


def behavior_summary(rows: list[Row]) -> FigureData:
    title = f"pendulum, n = {rows[0]['rows']}"
    panels = (
        Panel(title, "temperature of the behavior", "length", lengths_against(rows, "temperature")),
        Panel(
            "not cut to the value range",
            "temperature of the behavior",
            "F⁺ − F⁻",
            lengths_against(rows, "temperature", raw=True),
            y_log=True,
        ),
    )
    radii = ", ".join(f"{key[0]:g}: {found[0]['radius']:.0f}" for key, found in groups(rows, "temperature").items())
    notes = (f"r_Q = 10 ‖q̂‖ by temperature: {radii}",)
    return figure_data("Temperature of the behavior", panels, rows, "temperature", notes=notes)


def bandwidth_cells(quick: bool) -> list[tuple[Cell, int]]:
    at, first, second = (
        (QUICK_AT, QUICK_WEIGHT, QUICK_VALUE) if quick else (BANDWIDTH_AT, WEIGHT_BANDWIDTHS, VALUE_BANDWIDTHS)
    )
    return [({"rows": at, "k": k, "k~": value}, 1 if quick else 5) for k in first for value in second]


def bandwidth_trial(cell: Cell, rng: np.random.Generator) -> list[Row]:
    started = time.perf_counter()
    setup = simulated(WORLD, cell["rows"], rng, weight_bandwidth=cell["k"], value_bandwidth=cell["k~"])
    return dual_rows(setup, started, gauges=BANDWIDTH_GAUGES, radius=setup.ball.radius)


def bandwidth_summary(rows: list[Row]) -> FigureData:
    firsts, seconds = (sorted({row[key] for row in rows}) for key in ("k", "k~"))
    panels = []
    for (gauge,), found in groups(rows, "method").items():
        medians = {
            key: float(np.median([raw_length(row) for row in part])) for key, part in groups(found, "k", "k~").items()
        }
        heat = tuple(tuple(medians[k, value] for value in seconds) for k in firsts)
        title = f"{LABELS[gauge]}, n = {rows[0]['rows']}: F⁺ − F⁻"
        names = tuple(f"{value:g}" for value in seconds), tuple(f"{k:g}" for k in firsts)
        panels.append(Panel(title, "bandwidth of k̃", "bandwidth of k", heat=heat, ticks=names[0], y_ticks=names[1]))
    return figure_data("Bandwidths, pendulum", panels, rows, "k", "k~")


BEHAVIOR = Experiment("ablation-behavior", behavior_cells, behavior_trial, behavior_summary)
BANDWIDTH = Experiment("ablation-bandwidth", bandwidth_cells, bandwidth_trial, bandwidth_summary)
