"""Cases of one experiment: each draws logs and judges statements on them; counted, printed and written down."""

from __future__ import annotations

import argparse
import json
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from experiments.coverage import as_record, write_atomically
from experiments.coverage_checks import Check, Tally, tally

Cases = Mapping[str, tuple[Callable[[np.random.Generator], list[Check]], float]]
"""Name to a function that judges one log, and the share of the trials that it gets: some take long."""


def run_case(cases: Cases, name: str, trials: int, seed: int) -> list[Tally]:
    """Log t of a case is made from (seed, name of the case, t)."""
    make, share = cases[name]
    count = max(20, round(share * trials))
    return tally(name, [make(np.random.default_rng([seed, zlib.crc32(name.encode()), t])) for t in range(count)])


def run_cases(
    cases: Cases, page: Callable[[list[Tally], int], str], description: str, trials: int, arguments: list[str] | None
) -> int:
    """The command line of an experiment; 1 when a statement is not as expected."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains this text")
    parser.add_argument("--trials", type=int, default=trials)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args(arguments)
    rows, begun = list[Tally](), time.perf_counter()
    for name in cases:
        if options.only in name:
            rows += run_case(cases, name, options.trials, options.seed)
            print(f"{name}: {time.perf_counter() - begun:.0f} s", flush=True)
    for row in rows:
        mark = "" if row.as_expected else "   <- not as expected"
        print(f"{row.case:20} {row.statement:45} {row.role:8} {row.misses:4} / {row.trials}{mark}")
    if options.out is not None:
        write_atomically(options.out, json.dumps([as_record(row) for row in rows], indent=1))
    if options.page is not None:
        write_atomically(options.page, page(rows, options.trials))
    return 0 if all(row.as_expected for row in rows) else 1
