"""What a figure consists of: cells with a number of trials, the function of one trial, and the way to sum up."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bondic.core.errors import InvalidInput
from bondic.result import Result
from bondic_lab.reproduction.figures import Curve, FigureData, Panel
from bondic_lab.reproduction.intervals import GAUGES, StoredInterval, dual_intervals
from bondic_lab.reproduction.store import Row
from bondic_lab.reproduction.summary import along, binomial_checks, failed, groups, median, raw_length
from bondic_lab.reproduction.trials import Cell, Job, Progress, Trial, run_jobs
from bondic_lab.reproduction.worlds import Setup

LABELS = {
    "paper": "paper's constant",
    "half": "half",
    "plug-in": "plug-in (no guarantee)",
    "feng2020": "Feng 2020",
    "hcope": "IS, Bernstein",
    "is-percentile": "IS, bootstrap",
    "dm": "FQE, bootstrap",
}


@dataclass(frozen=True)
class Experiment:
    """`cells(quick)` gives every cell with its number of trials; `--trials` replaces that number."""

    name: str
    cells: Callable[[bool], list[tuple[Cell, int]]]
    trial: Trial
    sum_up: Callable[[list[Row]], FigureData]

    def summarize(self, rows: list[Row]) -> FigureData:
        """What all rows say, under the experiment's own name."""
        return replace(self.sum_up(rows), name=self.name)

    def jobs(self, *, quick: bool, trials: int | None) -> list[Job]:
        if trials is not None and trials < 1:
            raise InvalidInput(f"--trials {trials}: at least one trial per cell is needed.")
        return [
            Job(self.name, cell, number, self.trial)
            for cell, requested in self.cells(quick)
            for number in range(requested if trials is None else trials)
        ]

    def run(
        self,
        folder: Path,
        *,
        quick: bool = False,
        trials: int | None = None,
        processes: int = 1,
        progress: Progress | None = None,
    ) -> FigureData:
        """Run what `folder` does not hold yet, then sum up all."""
        jobs = self.jobs(quick=quick, trials=trials)
        return self.summarize(run_jobs(jobs, folder, processes=processes, progress=progress))


def dual_rows(
    setup: Setup,
    started: float,
    *,
    gauges: Sequence[str] = GAUGES,
    alphas: Sequence[float] = (0.1,),
    rank: int = 150,
    **more: Any,
) -> list[Row]:
    """Intervals of (10) as rows."""
    found = dual_intervals(setup.problem, setup.instruments, [setup.ball], gauges=gauges, alphas=alphas, rank=rank)
    return interval_rows(setup, found[0], started, **more)


def interval_rows(setup: Setup, intervals: Sequence[StoredInterval], started: float, **more: Any) -> list[Row]:
    """Seconds are those of the whole trial, divided evenly."""
    seconds = (time.perf_counter() - started) / max(len(intervals), 1)
    return [
        {"method": item.gauge, **asdict(item), "truth": setup.truth, "slack": setup.slack, "seconds": seconds, **more}
        for item in intervals
    ]


def rival_row(setup: Setup, name: str, result: Result, started: float, **more: Any) -> Row:
    """A rival's interval as a row with the same columns; it has no terms."""
    nothing, status, low, high = float("nan"), result.status.name, result.low, result.high
    found = StoredInterval("", result.alpha, low, high, low, high, status, result.guarantee, nothing, nothing)
    return interval_rows(setup, [found], started, **more)[0] | {"method": name}


def figure_data(
    title: str, panels: Sequence[Panel], rows: list[Row], *keys: str, notes: Sequence[str] = ()
) -> FigureData:
    """Panels with the table of all cells and the tests of their claims; `keys` name a cell."""
    checks = binomial_checks(rows, *keys)
    return FigureData("", title, tuple(panels), interval_table(rows, *keys), tuple(checks), tuple(notes))


def lengths_against(rows: list[Row], x: str, by: str = "method", *, raw: bool = False) -> tuple[Curve, ...]:
    """Median length against `x`, one line per `by`, band from first to third quartile; `raw` is F⁺ − F⁻ uncut."""
    out = []
    for (label,), lines in groups(rows, by).items():
        points = along(lines, x)
        sizes = [[raw_length(row) if raw else row["high"] - row["low"] for row in found] for _, found in points]
        low, middle, high = (tuple(float(np.quantile(size, q)) for size in sizes) for q in (0.25, 0.5, 0.75))
        name = LABELS.get(str(label), str(label))
        out.append(Curve(name, tuple(at for at, _ in points), middle, low, high))
    return tuple(out)


def interval_table(rows: list[Row], *keys: str) -> tuple[dict[str, Any], ...]:
    """Per cell: medians of the ends, of the length and of the raw length, and how often the interval was trivial."""
    out: list[dict[str, Any]] = []
    for key, found in groups(rows, *keys, "method").items():
        lengths = [{"length": row["high"] - row["low"], "raw": row["raw_high"] - row["raw_low"]} for row in found]
        trivial = sum(row["status"] == "TRIVIAL" for row in found)
        missed = sum(map(failed, found))
        out.append(
            dict(zip((*keys, "method"), key, strict=True))
            | {
                "trials": len(found),
                "low": median(found, "low"),
                "high": median(found, "high"),
                "length": median(lengths, "length"),
                "raw length": median(lengths, "raw"),
                "trivial": trivial,
                "misses": missed,
            }
        )
    return tuple(out)
