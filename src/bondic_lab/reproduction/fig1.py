"""Figure 1: inverted pendulum. Interval and length against n, interval against 1 − δ, failures against δ."""

from __future__ import annotations

import time

import numpy as np

from bondic_lab.reproduction.experiment import LABELS, Experiment, dual_rows, interval_table
from bondic_lab.reproduction.figures import Curve, FigureData, Panel
from bondic_lab.reproduction.store import Row
from bondic_lab.reproduction.summary import along, binomial_checks, failed, groups, median, raw_length, slope
from bondic_lab.reproduction.trials import Cell
from bondic_lab.reproduction.worlds import simulated

WORLD = "pendulum"
ROWS, QUICK_ROWS = (500, 1000, 2000, 5000, 10_000, 20_000), (300, 600, 1200)
ALPHAS = [0.01, 0.05, 0.1, 0.2, 0.4]
AT, QUICK_AT = 5000, 600


def cells(quick: bool) -> list[tuple[Cell, int]]:
    """10 trials per n for the rates, 100 at n = 5000 for the failures."""
    rows, at = (QUICK_ROWS, QUICK_AT) if quick else (ROWS, AT)
    rates: list[tuple[Cell, int]] = [({"panel": "n", "rows": n, "alphas": [0.1]}, 2 if quick else 10) for n in rows]
    return [*rates, ({"panel": "alpha", "rows": at, "alphas": ALPHAS}, 4 if quick else 100)]


def trial(cell: Cell, rng: np.random.Generator) -> list[Row]:
    started = time.perf_counter()
    setup = simulated(WORLD, cell["rows"], rng)
    return dual_rows(setup, started, alphas=cell["alphas"])


def summarize(rows: list[Row]) -> FigureData:
    by_n = [row for row in rows if row["panel"] == "n"]
    by_alpha = [row for row in rows if row["panel"] == "alpha"]
    at = by_alpha[0]["rows"]
    truth = float(rows[0]["truth"])
    lengths, notes, slopes = _lengths(by_n)
    panels = (
        Panel("interval against n, δ = 0.1", "rows n", "value", _bands(by_n, "rows"), truth, x_log=True),
        Panel(
            "length F⁺ − F⁻ against n",
            "rows n",
            "length, not cut to the range",
            lengths,
            x_log=True,
            y_log=True,
            note=slopes,
        ),
        Panel(f"interval against 1 − δ, n = {at}", "1 − δ", "value", _bands(by_alpha, "alpha", flip=True), truth),
        Panel(f"failures against δ, n = {at}", "δ", "share of trials that miss J*", _failures(by_alpha)),
    )
    table = interval_table(by_n, "rows") + interval_table(by_alpha, "alpha")
    checks = tuple(binomial_checks(by_alpha, "rows"))
    return FigureData("", "Inverted pendulum", panels, table, checks, tuple(notes))


def _bands(rows: list[Row], x: str, *, flip: bool = False) -> tuple[Curve, ...]:
    """Median ends as a band per method."""
    out = []
    for (method,), found in groups(rows, "method").items():
        points = along(found, x)
        at = tuple(1.0 - value if flip else value for value, _ in points)
        low = tuple(median(part, "low") for _, part in points)
        high = tuple(median(part, "high") for _, part in points)
        out.append(Curve(LABELS[method], at, (), low, high, kind="band"))
    return tuple(out)


def _lengths(rows: list[Row]) -> tuple[tuple[Curve, ...], list[str], str]:
    out, notes, slopes = [], [], []
    for (method,), found in groups(rows, "method").items():
        points = along(found, "rows")
        sizes = [n for n, _ in points]
        lengths = [float(np.median([raw_length(row) for row in part])) for _, part in points]
        overall, last = slope(sizes, lengths), slope(sizes[-3:], lengths[-3:])
        notes.append(f"slope of log length in log n, {LABELS[method]}: {overall:.2f}; largest three n: {last:.2f}")
        out.append(Curve(LABELS[method], tuple(sizes), tuple(lengths)))
        slopes.append(f"{LABELS[method]}: slope {overall:.2f}")
    return tuple(out), notes, "\n".join(slopes)


def _failures(rows: list[Row]) -> tuple[Curve, ...]:
    out = []
    for (method,), found in groups(rows, "method").items():
        points = along(found, "alpha")
        rates = tuple(sum(map(failed, part)) / len(part) for _, part in points)
        out.append(Curve(LABELS[method], tuple(alpha for alpha, _ in points), rates))
    top = max(row["alpha"] for row in rows)
    return (*out, Curve("allowed", (0.0, top), (0.0, top), kind="dashed"))


EXPERIMENT = Experiment("fig1", cells, trial, summarize)
