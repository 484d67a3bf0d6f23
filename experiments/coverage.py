"""Coverage of the intervals and of the events behind them: seeded, counted, judged by exact binomial tests.

    python experiments/coverage.py [--quick] [--only TEXT] [--logs N] [--seed 0] [--jobs N] [--out out/coverage.json]

Writes the JSON file and a Markdown table of the same name beside it. Exit status 1 when a claim is violated, when
a count does not fit its exact rate, or when a negative control is not caught. Log t of a case is made from the seed
(seed, name of the case, t) alone, so that neither the number of processes nor the choice of cases changes a count.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: this folder must not be searched, or numba takes this file for coverage.py
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
from experiments.coverage_checks import ALPHA, FALSE_ALARM, Check, Tally, tally
from experiments.coverage_intervals import GAUGES, INTERVALS
from experiments.coverage_saturating import EVENTS
from experiments.coverage_stopping import stopping_trial

import bondic

CASES: dict[str, Callable[[np.random.Generator], list[Check]]] = {
    **EVENTS,
    "stopping times": stopping_trial,
    **INTERVALS,
}
SIZES: dict[str, tuple[int, int]] = {
    **dict.fromkeys(EVENTS, (1000, 3000)),
    **dict.fromkeys(INTERVALS, (12, 150)),
    "stopping times": (8000, 30_000),
    "coin": (400, 1000),
    "rare jumps": (100, 500),
}
"""Logs per case: quick, full. Enough for every control to be caught with probability > 0.999 at its own rate."""

THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def run_trials(name: str, seed: int, first: int, last: int) -> list[list[Check]]:
    """Logs first..last-1 of a case."""
    key = zlib.crc32(name.encode())
    return [CASES[name](np.random.default_rng([seed, key, trial])) for trial in range(first, last)]


def _pieces(name: str, trials: int) -> Iterator[tuple[str, int, int]]:
    step = max(1, trials // 10)
    for first in range(0, trials, step):
        yield name, first, min(first + step, trials)


def run(sizes: dict[str, int], *, seed: int, jobs: int) -> list[Tally]:
    """All logs of all cases, in this process (jobs=1) or in fresh ones (spawned: nothing compiled is forked)."""
    pieces = [piece for name, size in sizes.items() for piece in _pieces(name, size)]
    parts: dict[str, list[list[Check]]] = {name: [] for name in sizes}
    if jobs == 1:
        for name, first, last in pieces:
            parts[name] += run_trials(name, seed, first, last)
    else:
        for variable in THREADS:  # read by the new processes: logs are small, threads would wait for one another
            os.environ.setdefault(variable, "1")
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(jobs, mp_context=context) as pool:
            work = [(name, pool.submit(run_trials, name, seed, first, last)) for name, first, last in pieces]
            for name, future in work:
                parts[name] += future.result()
    return [row for name in sizes for row in tally(name, parts[name])]


def as_record(row: Tally) -> dict[str, Any]:
    """Plain data; what does not exist is null."""
    data = asdict(row) | {"p_value": row.p_value, "fit": None if row.rate is None else row.fit}
    data["length"] = None if math.isnan(row.length) else row.length
    return data | {"violated": row.violated, "as_expected": row.as_expected}


def markdown(rows: list[Tally]) -> str:
    """Sharp cases with one line per statement, then whole intervals with one line per case."""
    sharp = {row.case for row in rows if row.role == "control" or row.rate is not None}
    first = [row for row in rows if row.case in sharp]
    rest = {row.case: [other for other in rows if other.case == row.case] for row in rows if row.case not in sharp}
    lines = []
    if first:
        lines += [
            "| case | statement | role | misses / logs | exact rate | p-value | verdict |",
            "|---|---|---|---:|---:|---:|---|",
            *map(_statement_line, first),
            "",
        ]
    if rest:
        lines += [
            f"| case | logs | {' | '.join(GAUGES)} (no guarantee) | start event | verdict |",
            f"|---|---:|{'---:|' * (len(GAUGES) + 1)}---|",
            *(_case_line(case, group) for case, group in rest.items()),
        ]
    return "\n".join(lines).rstrip() + "\n"


def _verdict(rows: list[Tally]) -> str:
    judged = [row for row in rows if row.role != "no guarantee"]
    found = "violated" if any(row.violated for row in judged) else "holds"
    return found if all(row.as_expected for row in judged) else f"{found}: NOT AS EXPECTED"


def _statement_line(row: Tally) -> str:
    rate = "" if row.rate is None else f"{row.rate:.4f}"
    cells = (row.case, row.statement, row.role, f"{row.misses} / {row.trials}", rate, f"{row.p_value:.2g}")
    return f"| {' | '.join(cells)} | {_verdict([row])} |"


def _case_line(case: str, rows: list[Tally]) -> str:
    """Cells: misses of the interval, misses of its noise event, mean length."""
    named = {row.statement: row for row in rows}
    cells = []
    for gauge in GAUGES:
        whole, event = named[f"interval, {gauge}"], named[f"noise event, {gauge}"]
        cells.append(f"{whole.misses}, {event.misses} ({whole.length:.2f})")
    start = named.get("start event")
    cells.append("" if start is None else str(start.misses))
    return f"| {case} | {rows[0].trials} | {' | '.join(cells)} | {_verdict(rows)} |"


def write_atomically(path: Path, text: str) -> None:
    """The old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Coverage of intervals and of the events behind them.")
    parser.add_argument("--quick", action="store_true", help="fewer logs per case")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains this text")
    parser.add_argument("--logs", type=int, help="logs per case, instead of the planned numbers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1), help="processes; 1 starts none")
    parser.add_argument("--out", type=Path, default=Path("out/coverage.json"))
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    sizes = {name: options.logs or SIZES[name][0 if options.quick else 1] for name in CASES if options.only in name}
    if not sizes:
        print(f"no case contains {options.only!r}; there are: {', '.join(CASES)}", file=sys.stderr)
        return 2
    started = time.perf_counter()
    rows = run(sizes, seed=options.seed, jobs=options.jobs)
    settings = {"seed": options.seed, "alpha": ALPHA, "false_alarm": FALSE_ALARM}
    record = settings | {"bondic": bondic.__version__, "statements": [as_record(row) for row in rows]}
    write_atomically(options.out, json.dumps(record, indent=1) + "\n")
    table = markdown(rows)
    write_atomically(options.out.with_suffix(".md"), table)
    surprises = [row for row in rows if not row.as_expected]
    print(table)
    print(f"{len(rows)} statements, {len(surprises)} not as expected, {time.perf_counter() - started:.0f} s")
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
