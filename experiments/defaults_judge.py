"""What one run says, and what all runs of a cell say together."""

from __future__ import annotations

import inspect
import time
from typing import Any

import numpy as np
from experiments.defaults_cells import Cell, truth_about
from scipy import stats

import bondic
from bondic_lab.reproduction.summary import Check, binomial_checks, failed, groups

ALPHA = 0.1
REFUSED = "REFUSED"
"""No answer: the library raised an error, or did not answer in time."""
Row = dict[str, Any]


def not_run(cell: Cell) -> str:
    """Why the cell cannot be asked here; empty if it can."""
    if cell.missing:
        return cell.missing
    if cell.value_range is not None and "value_range" not in inspect.signature(bondic.make_problem).parameters:
        return "this version has no value_range=, cell not run"
    return ""


def ask(name: str, cell: Cell, seed: int, rng: np.random.Generator) -> Row:
    """One log, one answer, plain data, processor seconds. What the library refuses is recorded as refused."""
    trial = cell.trial(rng)
    began = time.process_time()
    row: Row = {"cell": name, "seed": seed, "rows": len(trial.log), "gamma": trial.gamma}
    row |= {
        "truth": float(np.nanmean(trial.truth)),
        "slack": trial.slack,
        "alpha": ALPHA,
        "method": "default",
        "judged": cell.judged,
    }
    try:
        result = trial.evaluate(ALPHA)
    except bondic.BondicError as problem:
        return row | {"status": REFUSED, "why": str(problem), "seconds": time.process_time() - began}
    seconds = time.process_time() - began
    return row | {
        "truth": truth_about(result, trial.truth),
        "low": result.low,
        "high": result.high,
        "status": result.status.name,
        "width": result.value_range.width,
        "guarantee": result.guarantee,
        "used": result.method,
        "seconds": seconds,
    }


def summarize(rows: list[Row]) -> list[Row]:
    """One line per cell; p is P( Bin(runs, α) >= misses ), corrected by Holm over all cells."""
    answered = [row for row in rows if row["status"] != REFUSED]
    checks = dict(zip(groups(answered, "cell"), binomial_checks(answered, "cell"), strict=True))
    return [_line(name, found, checks.get((name,))) for (name,), found in groups(rows, "cell").items()]


def _line(name: str, rows: list[Row], check: Check | None) -> Row:
    answered = [row for row in rows if row["status"] != REFUSED]
    used = sorted({row["used"] for row in answered})
    asked = [row for row in rows if "truth" in row]  # a run that was stopped left nothing
    return {
        "cell": name,
        "rows": asked[0]["rows"] if asked else None,
        "gamma": asked[0]["gamma"] if asked else None,
        "truth": float(np.mean([row["truth"] for row in asked])) if asked else None,
        "runs": len(answered),
        "refused": len(rows) - len(answered),
        "why": next((row["why"] for row in rows if row["status"] == REFUSED), ""),
        "misses": sum(map(failed, answered)),
        "rejected": sum(row["status"] == "REJECTED" for row in answered),
        "trivial": sum(row["status"] == "TRIVIAL" for row in answered),
        "informative": sum(row["status"] != "TRIVIAL" for row in answered),
        "length": float(np.mean([(row["high"] - row["low"]) / row["width"] for row in answered])) if answered else None,
        "used": ", ".join(used),
        "seconds": float(np.mean([row["seconds"] for row in rows])),
        "p_value": check.p_value if check else 1.0,
        "corrected": check.corrected if check else 1.0,
        "violated": bool(check and check.violated),
    }


def pooled(lines: list[Row]) -> float:
    """P( Bin(all runs, α) >= all misses )."""
    misses, runs = sum(line["misses"] for line in lines), sum(line["runs"] for line in lines)
    return float(stats.binom.sf(misses - 1, runs, ALPHA)) if runs else 1.0
