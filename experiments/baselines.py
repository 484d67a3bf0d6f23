"""Coverage, length and time of every interval on tabular problems: seeded, counted, rivals and ours side by side.

    python experiments/baselines.py [--quick] [--only TEXT] [--logs N] [--seed 0] [--out out/baselines.json]
                                    [--page out/baselines.md] [--render]

Writes the JSON file, and the page when asked to; --render only writes the page of an earlier run. Log t of a case is
made from (seed, name of the case, t) alone. Exit status 1 when a finite-sample interval misses too often within its
own assumptions.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: this folder must not be searched, or numba takes coverage.py for another
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
from experiments.baselines_problems import Case, make_cases
from experiments.coverage_checks import missed
from scipy import stats

import bondic
from bondic_lab.baselines.registry import BASELINES, make_baseline

ALPHA = 0.1
FALSE_ALARM = 1e-4
"""A finite-sample claim is called violated when P( Bin(logs, alpha) >= misses ) is below this."""

SLOW = ("dual", "feng2020")
"""These are tried on a quarter of the logs: each takes as long as all others together."""

ROUNDING = 1e-6
"""A miss by less than this share of the value range is not counted: without noise intervals have no length at all."""

NAMES = ("dual", *(name for name, entry in BASELINES.items() if entry.method.extra is None))
"""Methods of optional libraries are left out: a network takes as long for one log as the others for a hundred."""

REPLICATES = 200


def make_method(name: str, case: Case) -> Any:
    """The method with what the experimenter may state: bounds of ratios and slopes from the table itself."""
    if name == "dual":
        return bondic.Dual()
    if "hoeffding" in name or name == "dr-betting":
        return make_baseline(name, max_ratio=case.max_ratio)
    if name == "lipschitz":
        return make_baseline(name, constant=case.slope)
    if name in ("dm", "model", "is-percentile", "is-bca"):
        return make_baseline(name, replicates=REPLICATES if name in ("dm", "model") else 1000)
    return make_baseline(name)


@dataclass
class Tally:
    """All logs of one method on one problem."""

    case: str
    method: str
    guarantee: str = ""
    broken: str = ""  # the assumption that the problem breaks
    refused: str = ""  # why the method gave no interval
    logs: int = 0
    misses: int = 0
    lengths: list[float] = field(default_factory=list)  # as shares of what the reward range alone implies
    errors: list[float] = field(default_factory=list)  # estimate - truth
    seconds: float = 0.0

    def add(self, result: bondic.Result, truth: float, seconds: float) -> None:
        self.guarantee = result.guarantee
        self.logs += 1
        self.misses += missed(result, truth, ROUNDING * result.value_range.width)
        self.lengths.append((result.high - result.low) / result.value_range.width)
        self.errors.append(result.estimate - truth)
        self.seconds += seconds

    @property
    def p_value(self) -> float:
        return float(stats.binom.sf(self.misses - 1, self.logs, ALPHA)) if self.logs else 1.0

    @property
    def violated(self) -> bool:
        return self.guarantee == "finite-sample" and not self.broken and self.p_value < FALSE_ALARM

    def record(self) -> dict[str, Any]:
        plain = {name: value for name, value in asdict(self).items() if name not in ("lengths", "errors", "seconds")}
        if not self.logs:
            return plain
        return plain | {
            "coverage": 1.0 - self.misses / self.logs,
            "mean_length": float(np.mean(self.lengths)),
            "bias": float(np.nanmean(self.errors)) if np.isfinite(self.errors).any() else math.nan,
            "root_mean_square_error": float(np.sqrt(np.mean(np.square(self.errors)))),
            "p_value": self.p_value,
            "violated": self.violated,
            "seconds_per_log": self.seconds / self.logs,
        }


def run_case(name: str, case: Case, *, seed: int, logs: int) -> list[Tally]:
    """Every method on the same logs."""
    rows = {method: Tally(name, method, broken=case.broken.get(method, "")) for method in NAMES}
    key = zlib.crc32(name.encode())
    for trial in range(logs):
        problem, own = (
            case.problem(np.random.default_rng([seed, key, trial]), own_starts=own) for own in (False, True)
        )
        for method, row in rows.items():
            if row.refused or (method in SLOW and trial >= max(1, logs // 4)):
                continue
            start = time.perf_counter()
            try:
                # bets weigh draws of d_0 like the other trajectory methods, not strata of the list
                asked = own if method.endswith("betting") else problem
                result = bondic.estimate_interval(asked, alpha=ALPHA, method=make_method(method, case))
            except bondic.InvalidInput as problem_found:
                row.refused = str(problem_found).split(":")[0].split(". ")[0]
                continue
            row.add(result, case.truth, time.perf_counter() - start)
    return list(rows.values())


def page(data: dict[str, Any]) -> str:
    """The Markdown page of a run."""
    least, most = stats.binom.ppf([0.05, 0.95], data["logs"], 1 - ALPHA) / data["logs"]
    lines = [
        "# Baselines: coverage, length and time",
        "",
        "Generated from one run of",
        "",
        "```sh",
        "python experiments/baselines.py --page out/baselines.md  # part of make experiments",
        "```",
        "",
        f"with {data['logs']} logs per problem (a quarter of them for `dual` and `feng2020`), seed {data['seed']}, α = {ALPHA}. "
        "What each method promises and assumes is on the page baselines. "
        f"Not in the table: {_left_out()}.",
        "",
        "A cell is *coverage, mean length*: the share of logs whose interval contains the true value, and the length as a "
        "share of what the reward range alone implies (100 % is no information). † marks a problem that breaks an assumption "
        "of the method: nothing is promised there. – means that the method refuses the problem. "
        f"With {data['logs']} logs a true coverage of 90 % is measured as {100 * least:.0f} % to {100 * most:.0f} % nine times "
        "in ten. A miss by less than a millionth of the value range does not count, a rejection does. Time is the mean number of "
        "seconds per log, first over the problems, then for each of them in a table of its own.",
        "",
        "Trajectory methods add the whole range of possible values for the steps that were not recorded. So on logs of cut "
        "episodes they cover more often than required; one-step episodes are the extreme. Long products of ratios have the "
        "opposite effect: the weights that matter are not in the log, and no sample variance can show them.",
        "",
    ]
    lines += [*_tables(data), "", "| problem | what it is |", "|---|---|"]
    lines += [f"| {name} | {words} |" for name, words in data["cases"].items()]
    broken = sorted({(row["method"], row["broken"]) for row in data["rows"] if row["broken"]})
    reasons: dict[str, list[str]] = {}
    for method, why in broken:
        reasons.setdefault(why, []).append(f"`{method}`")
    lines += ["", "Broken assumptions (†):", ""]
    lines += [f"- {why}: {', '.join(methods)}." for why, methods in reasons.items()]
    bad = [row for row in data["rows"] if row.get("violated")]
    verdict = "none" if not bad else ", ".join(f"{row['method']} on {row['case']}" for row in bad)
    lines += ["", f"Finite-sample claims violated within their assumptions: {verdict}.", ""]
    return "\n".join(lines)


def _tables(data: dict[str, Any]) -> list[str]:
    """Coverage and length by method and problem with the mean time; then the times by method and problem."""
    problems = list(data["cases"])
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in data["rows"]:
        found.setdefault(row["method"], {})[row["case"]] = row
    wide = "---:|" * len(problems)
    main = ["| method | label | " + " | ".join(problems) + " | time |", "|---|---|" + wide + "---:|"]
    clock = ["| seconds per log | " + " | ".join(problems) + " |", "|---|" + wide]
    for method, rows in found.items():
        seconds = {name: row["seconds_per_log"] for name, row in rows.items() if row["logs"]}
        label = next((row["guarantee"] for row in rows.values() if row["guarantee"]), "")
        cells = " | ".join(_cell(rows[name]) if name in rows else "" for name in problems)
        mean = _seconds(float(np.mean(list(seconds.values())))) + " s" if seconds else "–"
        main += [f"| `{method}` | {label} | {cells} | {mean} |"]
        times = " | ".join(_seconds(seconds[name]) if name in seconds else "–" for name in problems)
        clock += [f"| `{method}` | {times} |"]
    return [*main, "", *clock]


def _seconds(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}" if value >= 0.001 else "< 0.001"


def _left_out() -> str:
    """Methods that have no row, and why."""
    needs = {name: entry.method.extra for name, entry in BASELINES.items() if entry.method.extra is not None}
    return ", ".join(f"`{name}`, which needs an optional library ({extra})" for name, extra in needs.items())


def _cell(row: dict[str, Any]) -> str:
    if not row["logs"]:
        return "–"
    mark = "†" if row["broken"] else ""
    length = 100 * row["mean_length"]
    size = f"{length:.0f}" if length >= 9.5 else f"{length:.1f}" if length >= 0.95 else f"{length:.2f}"
    return f"{100 * row['coverage']:.0f} %, {size} %{mark}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="8 logs per problem")
    parser.add_argument("--only", default="", help="problems whose name contains this")
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/baselines.json"))
    parser.add_argument("--page", type=Path)
    parser.add_argument("--render", action="store_true", help="write the page of the file named by --out, run nothing")
    options = parser.parse_args(arguments)
    if options.render:
        (options.page or Path("out/baselines.md")).write_text(page(json.loads(options.out.read_text())))
        return 0
    logs = 8 if options.quick else options.logs
    cases = {name: case for name, case in make_cases().items() if options.only in name}
    rows: list[Tally] = []
    for name, case in cases.items():
        start = time.perf_counter()
        rows += run_case(name, case, seed=options.seed, logs=logs)
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    data = {
        "alpha": ALPHA,
        "seed": options.seed,
        "logs": logs,
        "version": bondic.__version__,
        "cases": {name: case.words for name, case in cases.items()},
        "truths": {name: case.truth for name, case in cases.items()},
        "rows": [row.record() for row in rows],
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(data, indent=1) + "\n")
    text = page(data)
    if options.page is not None:
        options.page.write_text(text)
    print(text)
    return int(any(row.violated for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
