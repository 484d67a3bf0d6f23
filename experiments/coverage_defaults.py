"""Coverage of default settings over γ and n on a table whose q* is known.

    python experiments/coverage_defaults.py [--cells PATTERN] [--seeds 20] [--out FILE] [--page out/defaults-coverage.md]

Where states are numbers and nothing is stated the default gives the value range: there is nothing to count. Exit status 1 when
a cell misses too often by an exact binomial test (Holm's correction over all cells).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: this folder must not be searched, or numba takes coverage.py for another one
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from experiments.coverage import write_atomically
from experiments.coverage_checks import misses_in_words
from experiments.defaults_cells import Cell
from experiments.defaults_judge import ALPHA, Row, pooled, summarize
from experiments.defaults_problems_library import table_world_cell
from experiments.defaults_runs import code_digest, record, run

from bondic_lab.reproduction.summary import LEVEL

GAMMAS = (0.0, 0.5, 0.9, 0.99, 0.999)
SIZES = (20, 50, 100, 500, 2000, 10_000)
WORLDS = {
    "six states": (table_world_cell, "six states, three actions, rewards with noise; q* by a linear solve"),
}


def cell_name(world: str, gamma: float, rows: int) -> str:
    return f"{world}, γ = {gamma:g}, n = {rows}"


def coverage_cells() -> dict[str, Cell]:
    return {
        cell_name(world, gamma, rows): Cell(words, partial(make, gamma, rows))
        for world, (make, words) in WORLDS.items()
        for gamma in GAMMAS
        for rows in SIZES
    }


def page(data: dict[str, Any]) -> str:
    """The Markdown page of a run: one table per world, n down, γ across."""
    rows: list[Row] = data["rows"]
    lines = {line["cell"]: line for line in summarize(rows)}
    bad = [name for name, line in lines.items() if line["violated"]]
    most = max((line["runs"] + line["refused"] for line in lines.values()), default=0)
    text = [
        "# Coverage of default settings",
        "",
        "Generated from one run of",
        "",
        "```sh",
        "python experiments/coverage_defaults.py --page out/defaults-coverage.md  # part of make experiments",
        "```",
        "",
        f"with {most} logs per cell and α = {ALPHA}; no kernel, no radius, no method is named. An entry is the number of "
        "misses (intervals without the true value, and rejections) and the mean length as a share of what the reward range "
        "alone implies (100 % is no information). Where states are numbers and nothing is stated, the default gives the value "
        "range: there is nothing to count.",
        "",
    ]
    for world, (_, words) in WORLDS.items():
        text += _world_table(world, words, lines)
    totals = ("runs", "misses", "informative")
    runs, misses, informative = (sum(line[name] for line in lines.values()) for name in totals)
    refused = {line["cell"]: line["why"] for line in lines.values() if line["refused"]}
    text += [
        f"All cells together: {misses_in_words(misses, informative, runs)}; P( Bin({runs}, α) ≥ {misses} ) = "
        f"{pooled([*lines.values()]):.2g}. "
        f"Violated after Holm's correction, at {LEVEL:g}: {'; '.join(bad) if bad else 'none'}.",
        *(["", "Without answer:", "", *(f"- {name}: {why}" for name, why in refused.items())] if refused else []),
    ]
    return "\n".join(text) + "\n"


def _world_table(world: str, words: str, lines: dict[str, Row]) -> list[str]:
    table = [f"## {world}", "", f"{words[0].upper()}{words[1:]}.", ""]
    table += ["| n | " + " | ".join(f"γ = {gamma:g}" for gamma in GAMMAS) + " |", "|---:|" + "---:|" * len(GAMMAS)]
    for size in SIZES:
        names = [cell_name(world, gamma, size) for gamma in GAMMAS]
        table.append(f"| {size} | " + " | ".join(_entry(lines.get(name)) for name in names) + " |")
    return [*table, ""]


def _entry(line: Row | None) -> str:
    if line is None or line["length"] is None:
        return ""
    misses = f"**{line['misses']}**" if line["violated"] else str(line["misses"])
    return f"{misses}, {100 * line['length']:.3g} %"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Coverage of default settings over γ and n.")
    parser.add_argument("--cells", default="", metavar="PATTERN", help="cells whose name has this regular expression")
    parser.add_argument("--seeds", type=int, default=20, help="logs per cell")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds after which a run is stopped")
    parser.add_argument("--out", type=Path, default=Path("out/defaults-coverage.json"))
    parser.add_argument("--page", type=Path)
    options = parser.parse_args(arguments)
    names = [name for name in coverage_cells() if re.search(options.cells, name)]
    if not names:
        print(f"no cell has {options.cells!r}; there are: {', '.join(coverage_cells())}", file=sys.stderr)
        return 2
    rows = run(coverage_cells, names, seeds=options.seeds, jobs=options.jobs, limit=options.limit, out=options.out)
    data = record(rows, code_digest(), limit=options.limit)
    write_atomically(options.out, json.dumps(data, indent=1) + "\n")
    text = page(data)
    if options.page is not None:
        write_atomically(options.page, text)
    print(text)
    return int(any(line["violated"] for line in summarize(rows)))


if __name__ == "__main__":
    sys.exit(main())
