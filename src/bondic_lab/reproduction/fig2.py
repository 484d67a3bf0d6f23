"""Figure 2: every method on three worlds, δ = 0.1: median interval and the spread of its end points."""

from __future__ import annotations

import time

import numpy as np

from bondic.core.errors import BondicError
from bondic.estimate import estimate_interval
from bondic_lab.baselines.registry import make_baseline
from bondic_lab.reproduction.experiment import LABELS, Experiment, dual_rows, figure_data, rival_row
from bondic_lab.reproduction.figures import Curve, FigureData, Panel
from bondic_lab.reproduction.store import Row
from bondic_lab.reproduction.summary import groups, median
from bondic_lab.reproduction.trials import Cell
from bondic_lab.reproduction.worlds import simulated

WORLDS = ("pendulum", "cartpole", "glucose")
AT, QUICK_AT = 5000, 600
ALPHA = 0.1
RIVALS = ("hcope", "is-percentile", "dm")
FQE_RANK, FQE_REPLICATES = 40, 100


def cells(quick: bool) -> list[tuple[Cell, int]]:
    rows = QUICK_AT if quick else AT
    return [({"world": name, "rows": rows, "rivals": "whole episodes"}, 2 if quick else 50) for name in WORLDS]


def trial(cell: Cell, rng: np.random.Generator) -> list[Row]:
    started = time.perf_counter()
    setup = simulated(cell["world"], cell["rows"], rng, whole=True)
    assert setup.episodes is not None
    rows = dual_rows(setup, started, alphas=[ALPHA], refused="")
    for name in RIVALS:
        started = time.perf_counter()
        # fitted Q gets the features of Q, so that all methods look at states through one kernel
        options = {"kernel": setup.ball.kernel, "rank": FQE_RANK, "replicates": FQE_REPLICATES} if name == "dm" else {}
        try:
            result = estimate_interval(setup.episodes, alpha=ALPHA, method=make_baseline(name, **options))
        except BondicError as problem:
            rows.append(_refused(rows[0], name, str(problem)))
            continue
        rows.append(rival_row(setup, name, result, started, refused=""))
    return rows


def _refused(pattern: Row, name: str, why: str) -> Row:
    """A method that gives no interval: no ends, no claim, the reason instead."""
    nothing = float("nan")
    ends = dict.fromkeys(("low", "high", "raw_low", "raw_high", "noise", "bias"), nothing)
    return pattern | ends | {"method": name, "gauge": "", "guarantee": "none", "status": "REFUSED", "refused": why}


def summarize(rows: list[Row]) -> FigureData:
    given = [row for row in rows if row["status"] != "REFUSED"]
    panels = []
    for (world,), found in groups(given, "world").items():
        methods = groups(found, "method")
        names = tuple(LABELS[key[0]] for key in methods)
        at = tuple(float(place) for place in range(len(names)))
        lows = tuple(median(part, "low") for part in methods.values())
        highs = tuple(median(part, "high") for part in methods.values())
        dots = [(x, row[end]) for x, part in zip(at, methods.values(), strict=True) for row in part for end in _ENDS]
        series = (
            Curve("median interval", at, (), lows, highs, kind="bars"),
            Curve("end points", tuple(x for x, _ in dots), tuple(float(y) for _, y in dots), kind="points"),
        )
        title = f"{world}, n = {found[0]['rows']}"
        panels.append(Panel(title, "", "value", series, float(found[0]["truth"]), ticks=names))
    refused = {(row["world"], row["method"], row["refused"]) for row in rows if row["status"] == "REFUSED"}
    notes = tuple(f"{world}: {method} gives no interval: {why}" for world, method, why in sorted(refused))
    return figure_data("Methods side by side, δ = 0.1", panels, given, "world", notes=notes)


_ENDS = ("low", "high")
EXPERIMENT = Experiment("fig2", cells, trial, summarize)
