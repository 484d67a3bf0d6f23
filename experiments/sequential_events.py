"""Every random event that the sequential interval rests on, simulated at nominal 0.05, beside copies known to be wrong.

    python experiments/sequential_events.py [--quick] [--only TEXT] [--logs N] [--seed 0]
        [--out out/sequential-events.json] [--page out/sequential-validity.md]

Exit status 1 when a claim is violated, when a count does not fit its exact rate, or when a control is not caught. A case
is made from the seed (seed, name of the case) alone.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

if not __package__:  # run as a script: this folder must not be searched, or numba takes coverage.py for another one
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
from experiments.coverage import as_record, write_atomically
from experiments.coverage_checks import ALPHA, FALSE_ALARM, Tally
from experiments.sequential_sharp import ROWS, miss_probability, survival_logs
from experiments.sequential_tails import DELTA, TAILS, Finding
from experiments.sequential_vectors import VECTORS

import bondic

WHOLE = "whole interval"
CASES: dict[str, Callable[[np.random.Generator, int], Iterator[Finding]]] = {
    **TAILS,
    **VECTORS,
    WHOLE: survival_logs,
}
QUICK, FULL, MAX_WHOLE = 2000, 20_000, 400
"""Logs per case, and of whole intervals. Every control is caught with probability > 0.999 at its own rate."""


def run_case(name: str, *, logs: int, seed: int) -> tuple[list[Tally], float]:
    """All statements of a case, and the processor time they took."""
    started, logs = time.process_time(), min(logs, MAX_WHOLE) if name == WHOLE else logs
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    rows = [
        Tally(name, found.statement, found.role, found.level, found.rate, logs, int(found.failed.sum()), math.nan)
        for found in CASES[name](rng, logs)
    ]
    return rows, time.process_time() - started


def what_happens(name: str) -> str:
    """The first sentence of a case's docstring."""
    case = CASES[name]
    return str(getattr(case, "func", case).__doc__).strip().splitlines()[0]


def table(rows: list[Tally]) -> list[str]:
    lines = ["| case | statement | role | failed | exact | verdict |", "|---|---|---|---:|---:|---|"]
    for row in rows:
        rate = "" if row.rate is None else f"{row.rate:.4f}"
        verdict = ("violated" if row.violated else "holds") + ("" if row.as_expected else ": NOT AS EXPECTED")
        cells = (row.case, row.statement, row.role, f"{row.misses / row.trials:.4f}", rate, verdict)
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def page(rows: list[Tally], seconds: float) -> str:
    """The Markdown page of a run."""
    logs = max(row.trials for row in rows)
    stories: dict[str, list[str]] = {}
    for name in dict.fromkeys(row.case for row in rows):
        stories.setdefault(what_happens(name), []).append(name)
    claims = [row for row in rows if row.role == "claim"]
    sharpest = max(claims, key=lambda row: (row.rate or 0.0) / row.level)
    text = [
        "# Validity of the sequential interval",
        "",
        "The sequential interval rests on two kinds of random event, both at every n at once:",
        "",
        "    Σ v_i Z_i ≤ log(1/δ) + Σ g(−v_i Δ_i)                      each tail, (15)",
        "    ‖Σ λ_i φ_i Z_i‖ ≤ log(2/δ) + Σ g(−λ_i‖φ_i‖|Δ_i|)          one vector event, (16)",
        "",
        "with g(y) = y − log(1 + y). All the rest is arithmetic on these events, and is checked by formula. This page counts how "
        "often each of them fails when somebody tries to make it fail, and how often copies of them fail that break one of the "
        "rules. Generated from one run of",
        "",
        "```sh",
        "python experiments/sequential_events.py --page out/sequential-validity.md  # part of make experiments",
        "```",
        "",
        f"with {logs:,} logs per case ({MAX_WHOLE} whole intervals), δ = {DELTA}, about {seconds:.0f} seconds of one processor "
        "core. Values lie in [0, 1]. "
        "Weights, rates, instruments, centers and clip levels are chosen from the past, by somebody who knows q\\*, the problem "
        "and the inequality; logs are stopped at their worst moment unless a number of rows is named.",
        "",
        "## How a count is judged",
        "",
        f"A claim is *violated* if P( Bin(logs, δ) ≥ failures ) < {FALSE_ALARM:g}: a true one is called so for fewer than "
        "1 in 10 000 seeds. Where the failure rate is known exactly the count must also fit it (two-sided, same level). "
        "Controls are wrong on purpose, and the same test has to call them violated.",
        "",
        "## Counts",
        "",
        *table(rows),
        "",
        "## What to see",
        "",
        *WHAT_TO_SEE,
        "",
        *(whole_interval() if WHOLE in {row.case for row in rows} else ()),
        "## Cases",
        "",
        "| case | what happens |",
        "|---|---|",
        *(f"| {'; '.join(names)} | {story} |" for story, names in stories.items()),
        "",
        f"The sharpest claim is “{sharpest.case}: {sharpest.statement}”: computed, not counted, it fails with probability "
        f"{sharpest.rate or math.nan:.5f} out of {sharpest.level} allowed.",
        "",
        "## Where it lives",
        "",
        "Command and page: `experiments/sequential_events.py` · scalar events: `experiments/sequential_tails.py` · vector "
        "events: `experiments/sequential_vectors.py` · whole interval: `experiments/sequential_sharp.py` · fast version: "
        "`tests/test_sequential_events.py` · every inequality by brute force: `tests/test_sequential_inequalities.py` · the "
        "theorem log by log: `experiments/sequential_oracle.py`, `tests/test_sequential_oracle.py`.",
    ]
    return "\n".join(text) + "\n"


def whole_interval() -> list[str]:
    """The section on the interval whose probability of missing is computed."""
    sharp = miss_probability()
    return [
        "## A whole interval, computed",
        "",
        "Events that are sharp could still end in an interval that is not. So take one from end to end: states 0 and 1 follow "
        "each other, every step pays 1, a step from state 0 ends everything with probability p, γ = 0.5, nothing is assumed "
        f"about the table, and the method is asked for a lower end at α = {ALPHA} from {ROWS} rows. The log in which no step "
        "ended is one log, and its lower end one number; p is chosen so that J\\* lies one part in a million below it. Then",
        "",
        f"* p = {sharp.p:.6f}, and a log without an end, on which the interval misses, has probability "
        f"(1 − p)^{ROWS // 2} = **{sharp.none:.4f}**;",
        f"* of the {ROWS // 2} logs with one end, each evaluated, those that miss have probability {sharp.one:.4f};",
        f"* logs with more ends have probability {sharp.more:.3f}; the table above counts what random ones do.",
        "",
        f"So the guarantee of {ALPHA} is used up to a factor of {ALPHA / (sharp.none + sharp.one):.2g}; the missing part is the "
        "share of α that the vector event took, the pilot, and the cap of 0.99. Half of the log term would miss a quarter of "
        "the time.",
        "",
    ]


WHAT_TO_SEE = (
    "* Nothing is left to remove. A log of 303 rows without the rare jump breaks the tail, and such logs have probability "
    "0.99³⁰³ = 0.0476. Half of the log term, or a range believed to be half of the true one, fails 22 %.",
    "* A row's one-sided range is enough, and the other side of it is not (74 %).",
    "* Wrong centers, whatever they are, never make an event fail more often; they cost length.",
    "* A block dropped because it does not fit (9 % with two blocks, 39 % with ten), a rate picked afterwards (24 %), a clip "
    "level fitted to the row (23 %), a predicted next point that knows the drawn action (55 %; 33 % if it knows half of it): "
    "each breaks the guarantee.",
    "* The dimension costs nothing: with instruments along the sum so far the vector event fails as often for p = 50 as for "
    "p = 1. Its factor 2 is needed there: log(1/δ) in place of log(2/δ) fails 7 %.",
)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The random events behind the sequential interval.")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} logs per case")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains this text")
    parser.add_argument("--logs", type=int, help="logs per case, instead of the planned number")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/sequential-events.json"))
    parser.add_argument("--page", type=Path)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    names = [name for name in CASES if options.only in name]
    if not names:
        print(f"no case contains {options.only!r}; there are: {', '.join(CASES)}", file=sys.stderr)
        return 2
    logs = options.logs or (QUICK if options.quick else FULL)
    rows: list[Tally] = []
    total = 0.0
    for name in names:
        found, seconds = run_case(name, logs=logs, seed=options.seed)
        print(f"{name}: {seconds:.1f} s", file=sys.stderr, flush=True)
        rows, total = [*rows, *found], total + seconds
    settings = {"seed": options.seed, "delta": DELTA, "false_alarm": FALSE_ALARM, "bondic": bondic.__version__}
    record = settings | {"statements": [as_record(row) for row in rows]}
    write_atomically(options.out, json.dumps(record, indent=1) + "\n")
    if options.page is not None:
        write_atomically(options.page, page(rows, total))
    surprises = [row for row in rows if not row.as_expected]
    print("\n".join(table(rows)))
    print(f"{len(rows)} statements, {len(surprises)} not as expected, {total:.0f} s")
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
