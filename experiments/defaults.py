"""Default settings on data that nobody here wrote: misses, rejections, trivial answers, lengths and times per cell.

    python experiments/defaults.py [--cells PATTERN] [--seeds 20] [--jobs 2] [--out out/defaults.json] [--page out/defaults.md]

Every cell is a question with a known answer, asked as a user would ask it: log, policy, gamma, reward range. No method, no
kernel, no radius. Exit status 1 when a cell misses too often by an exact binomial test (Holm's correction over all cells).
Runs are kept in the file named by --out; a run that was stopped goes on there, unless the sources have changed since.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: this folder must not be searched, or numba takes coverage.py for another one
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from experiments.coverage import write_atomically
from experiments.coverage_checks import misses_in_words
from experiments.defaults_cells import Cell
from experiments.defaults_judge import ALPHA, Row, not_run, pooled, summarize
from experiments.defaults_problems_bandits import bandit_cells
from experiments.defaults_problems_gym import gym_cells
from experiments.defaults_problems_library import library_cells
from experiments.defaults_problems_worlds import world_cells
from experiments.defaults_runs import code_digest, record, run

from bondic_lab.reproduction.summary import LEVEL


def all_cells() -> dict[str, Cell]:
    return {**bandit_cells(), **gym_cells(), **world_cells(), **library_cells()}


def page(data: dict[str, Any]) -> str:
    """The Markdown page of a run."""
    lines = summarize([row for row in data["rows"] if row.get("judged", True)])
    bad = [line["cell"] for line in lines if line["violated"]]
    runs, misses, informative = (sum(line[name] for line in lines) for name in ("runs", "misses", "informative"))
    most = max((line["runs"] + line["refused"] for line in lines), default=0)
    text = [
        "# Default settings, tested on data of others",
        "",
        "A user who names no kernel and no radius gets what tables, propensities or the value range prove. This page counts "
        "how often that is wrong, on published data sets, on environments of Gymnasium and on textbook worlds, each with a "
        "known value. Generated from one run of",
        "",
        "```sh",
        "python experiments/defaults.py --page out/defaults.md  # part of make experiments",
        "```",
        "",
        f"with up to {most} logs per cell and α = {ALPHA}. Every cell is one call of `evaluate_policy` with log, policy, γ, "
        "reward range and, where a user would have them, initial states. A *miss* is an interval without the true value, or "
        "a rejection: every log satisfies what was stated. *Rejected* means that the tool gave no interval because the log "
        "contradicts its assumptions; *trivial* means that the log added nothing, and such a run cannot miss: the others are "
        "called informative. Length is the mean length as a share of what was known without the log. *Method* is the "
        "one that the default picked; none of them assumes anything about q\\*. Seconds are processor seconds of one call. p is "
        f"P( Bin(runs, α) ≥ misses ), corrected by Holm's method over all cells; a cell below {LEVEL:g} is called violated.",
        "",
        "| cell | rows | γ | value | misses | rejected | trivial | length | method | seconds | p | |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---|---:|---:|---|",
        *map(_table_line, lines),
        "",
        f"All cells together: {misses_in_words(misses, informative, runs)}; P( Bin({runs}, α) ≥ {misses} ) = "
        f"{pooled(lines):.2g}. Violated: {', '.join(bad) if bad else 'none'}.",
        "",
        "Where states are names, a trivial answer is a matter of rows: the noise bound allows for the whole value range. "
        "Where states are numbers (method: groups) and nothing is stated, the answer is the "
        "value range; what statements would give is on [another page](allowances.md).",
        "",
    ]
    silent = [line for line in lines if line["refused"]]
    if silent:
        text += ["Without answer:", "", *(f"- {line['cell']}: {line['why']}" for line in silent), ""]
        text += [f"“Too slow” is more than {data['limit']:g} seconds; after one such log a cell is given up.", ""]
    if data["not_run"]:
        text += ["Not run:", "", *(f"- {name}: {why}." for name, why in data["not_run"].items()), ""]
    text += [*_real_lines(data), "## What is evaluated", "", "| cell | question |", "|---|---|"]
    text += [f"| {name} | {words} |" for name, words in data["words"].items()]
    return "\n".join(text) + "\n"


def _table_line(line: Row) -> str:
    counts = f"{line['misses']} / {line['runs']}"
    if line["refused"]:
        counts += f" ({line['refused']} without answer)"
    length = "" if line["length"] is None else f"{100 * line['length']:.3g} %"
    cells = [
        line["cell"],
        line["rows"],
        line["gamma"],
        line["truth"],
        counts,
        line["rejected"],
        line["trivial"],
        length,
    ]
    cells += [line["used"], line["seconds"], line["corrected"]]
    return "| " + " | ".join(map(_written, cells)) + f" | {'**violated**' if line['violated'] else ''} |"


def _written(value: Any) -> str:
    """Four digits for what was measured; nothing for what is not known."""
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _real_lines(data: dict[str, Any]) -> list[str]:
    """Logs without a known truth: shown, not judged."""
    rows = [row for row in data["rows"] if not row.get("judged", True)]
    if not rows:
        return []
    return [
        "## The real log of Open Bandit",
        "",
        "The random policy's log, asked about Thompson sampling. Beside it, the mean click rate that Thompson sampling had on "
        "its own days, with its standard error: an estimate, not the truth, so nothing is judged here.",
        "",
        "| log | rows | interval | status | Thompson sampling's own mean | seconds |",
        "|---|---:|---|---|---|---:|",
        *map(_real_line, rows),
        "",
    ]


def _real_line(row: Row) -> str:
    if "low" not in row:
        return f"| {row['cell']} | | | no answer: {row['why']} | | {row['seconds']:.2g} |"
    return (
        f"| {row['cell']} | {row['rows']} | [{row['low']:.4f}, {row['high']:.4f}] | {row['status'].lower()} | "
        f"{row['truth']:.4f} ± {row['slack']:.4f} | {row['seconds']:.2g} |"
    )


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Default settings on data of others.")
    parser.add_argument("--cells", default="", metavar="PATTERN", help="cells whose name has this regular expression")
    parser.add_argument("--seeds", type=int, default=20, help="logs per cell")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds after which a run is stopped")
    parser.add_argument("--out", type=Path, default=Path("out/defaults.json"))
    parser.add_argument("--page", type=Path)
    parser.add_argument("--render", action="store_true", help="write the page of the file named by --out, run nothing")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if options.render:
        write_atomically(options.page or Path("out/defaults.md"), page(json.loads(options.out.read_text())))
        return 0
    cells = {name: cell for name, cell in all_cells().items() if re.search(options.cells, name)}
    if not cells:
        print(f"no cell has {options.cells!r}; there are: {', '.join(all_cells())}", file=sys.stderr)
        return 2
    left_out = {name: why for name, cell in cells.items() if (why := not_run(cell))}
    for name, why in left_out.items():
        print(f"{name}: {why}", file=sys.stderr)
    names = [name for name in cells if name not in left_out]
    rows = run(all_cells, names, seeds=options.seeds, jobs=options.jobs, limit=options.limit, out=options.out)
    words = {name: cell.words for name, cell in cells.items()}
    data = record(rows, code_digest(), not_run=left_out, limit=options.limit, words=words)
    write_atomically(options.out, json.dumps(data, indent=1) + "\n")
    text = page(data)
    if options.page is not None:
        write_atomically(options.page, text)
    print(text)
    return int("**violated**" in text)


if __name__ == "__main__":
    sys.exit(main())
