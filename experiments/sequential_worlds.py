"""Intervals of the sequential method with a Q that it chooses itself, on worlds of control and on hard cases: misses are counted.

    python experiments/sequential_worlds.py [--worlds pendulum cart-pole ...] [--rows 5000] [--seeds 1 2 3] [--factors 1 2 5]

Prints one line for every log: the interval at alpha = 0.1, J* by simulation, the length as a share of the value range, the
same with 2 and 5 times the radius, and the processor time and the clock of the first. OPENBLAS_NUM_THREADS=1 makes that
comparable. With --residuals, the rms residuals of all centers on the pilot rows that judge them, and no interval.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

if not __package__:  # run as a script: this folder must not be searched, or numba takes coverage.py for a library
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from experiments.sequential_worlds_cases import CASES

import bondic
from bondic.terms import range_at_all_times
from bondic.tuning import sequential_class

ALPHA = 0.1
FACTORS = (1, 2, 5)
PLAIN = 10.0
"""The library's own `radius_factor`."""


@dataclass(frozen=True)
class Line:
    """One log: the interval for every factor of the radius, and whether it holds J*."""

    case: str
    rows: int
    seed: int
    truth: float
    ends: tuple[tuple[float, float], ...]
    width: float
    seconds: float
    clock: float
    chosen: str

    @property
    def misses(self) -> int:
        """Intervals without J*; a rejection has no ends."""
        return sum(not low <= self.truth <= high for low, high in self.ends)


def measure(name: str, rows: int, seed: int, factors: list[int]) -> Line:
    """The interval with the library's own choice, and with larger radii."""
    case = CASES[name](rows, seed)
    kept: dict[int, Any] = {}
    ends, begun, seconds, clock = [], (time.process_time(), time.perf_counter()), 0.0, 0.0
    found: Any = None
    fit = sequential_class.fit_centers

    def once(pilot: Any, seed: int, report: Any) -> Any:
        """Centers do not depend on the radius: they are fitted once for a log."""
        if not kept:
            kept[seed] = fit(pilot, seed, report)
        return kept[seed]

    for factor in factors:
        method = bondic.Sequential(choices=bondic.Choices(radius_factor=PLAIN * factor))
        with patch.object(sequential_class, "fit_centers", once):
            result = bondic.estimate_interval(case.problem, alpha=ALPHA, method=method)
        given = result.status is not bondic.Status.REJECTED
        ends.append((result.low, result.high) if given else (math.nan, math.nan))
        if found is None:
            found, seconds, clock = result, time.process_time() - begun[0], time.perf_counter() - begun[1]
    width = range_at_all_times(case.problem.terms).width
    return Line(name, rows, seed, case.truth, tuple(ends), width, seconds, clock, _class(found))


def _class(result: Any) -> str:
    """The chosen class in a few words."""
    if "centers" not in result.choices or " in the space of " not in result.choices["Q"]:
        return "smooth"
    center = result.choices["Q"].partition(" in the space of")[0].rpartition(" of ")[2]
    return center.removeprefix("a fitted ")


HEAD = (
    "| world | rows | seed | chosen | J* | interval | share of range | 2 x radius | 5 x radius | misses | CPU s | clock s |",
    "|---|---|---|---|---|---|---|---|---|---|---|---|",
)


def shown(line: Line) -> str:
    """A row of the table."""
    ends = [f"[{low:.2f}, {high:.2f}]" if low <= high else "rejected" for low, high in line.ends] + ["–"] * (
        len(FACTORS) - len(line.ends)
    )
    share = (line.ends[0][1] - line.ends[0][0]) / line.width
    start = f"| {line.case} | {line.rows} | {line.seed} | {line.chosen} | {line.truth:.2f} | {ends[0]} | {share:.2f} "
    return start + f"| {ends[1]} | {ends[2]} | {line.misses} | {line.seconds:.0f} | {line.clock:.0f} |"


def lines(names: list[str], sizes: list[int], seeds: list[int], factors: list[int]) -> Iterator[Line]:
    for size in sizes:
        for seed in seeds:
            for name in names:
                yield measure(name, size, seed, factors)


def residuals(name: str, rows: int, seed: int) -> str:
    """A line with what every center misses on the rows that judge it."""
    problem = CASES[name](rows, seed).problem
    method = bondic.Sequential()
    centers = sequential_class.fit_centers(method.pilot_of(problem, method.pilot_rows(problem)))
    return f"| {name} | {rows} | {seed} | " + ", ".join(f"{one.name} {one.rho:.2g}" for one in centers.every) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--rows", nargs="+", type=int, default=[5000])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument(
        "--factors", nargs="+", type=int, choices=FACTORS, default=list(FACTORS), help="1 first, ascending"
    )
    parser.add_argument("--residuals", action="store_true", help="of centers, in place of intervals")
    options = parser.parse_args()
    if options.residuals:
        for name, rows, seed in product(options.worlds, options.rows, options.seeds):
            print(residuals(name, rows, seed), flush=True)
        return
    print("\n".join(HEAD), flush=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bondic.ValidityWarning)
        for line in lines(options.worlds, options.rows, options.seeds, options.factors):
            print(shown(line), flush=True)


if __name__ == "__main__":
    main()
