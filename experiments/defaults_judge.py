"""What one run says, what all runs of a cell say together, and whether q* was in the class that was used."""

from __future__ import annotations

import inspect
import time
from typing import Any

import numpy as np
from experiments.defaults_cells import Cell, Trial
from scipy import stats

import bondic
from bondic.classes.ball import Ball
from bondic.kernels.base import Kernel
from bondic.kernels.normal_form import Layout, normal_form
from bondic.proofs.dual import DualProof
from bondic.proofs.propensities import PropensityProof
from bondic.proofs.sequential import SequentialProof
from bondic_lab.reproduction.summary import Check, binomial_checks, failed, groups

ALPHA = 0.1
REFUSED = "REFUSED"
"""No answer: the library raised an error, or did not answer in time."""
MOST_POINTS = 1000  # of a Gram matrix whose eigenvalues are wanted
Row = dict[str, Any]


def not_run(cell: Cell) -> str:
    """Why the cell cannot be asked here; empty if it can."""
    if cell.missing:
        return cell.missing
    if cell.value_range is not None and "value_range" not in inspect.signature(bondic.make_problem).parameters:
        return "this version has no value_range=, cell not run"
    return ""


def class_of(result: bondic.Result) -> str:
    """Which class of functions was used for q*, read off the tool's own words."""
    values = next(item for item in result.assumptions if item.name == "values")
    if values.text.startswith("Nothing is assumed"):
        return "none" if isinstance(result.proof, PropensityProof) else "table"
    return "kernel ball" if "space of" in values.text else "other"


def outside(result: bondic.Result, trial: Trial) -> bool | None:
    """Whether q* is provably not in Q; None where that cannot be told.

    On listed points every function of the ball obeys q(X)ᵀ K(X, X)⁻¹ q(X) <= r². With all pairs of a finite world
    listed, nothing else matters. A box holds every function with values in the value range.
    """
    if trial.q_star is None or result.certificate is None or len(trial.q_star[2]) > MOST_POINTS:
        return None
    if isinstance(result.proof, PropensityProof):
        return False
    assert isinstance(result.proof, DualProof | SequentialProof)
    ball = result.proof.ball
    if not isinstance(ball, Ball):
        return not result.value_range.low <= min(trial.q_star[2]) <= max(trial.q_star[2]) <= result.value_range.high
    states, actions, values = trial.q_star
    if actions.dtype.kind == "f":  # continuous actions are columns of the point
        layout = Layout(states.shape[1], has_time=False, action_dim=1, slots=1)
        states, actions = np.column_stack([states, actions]), np.zeros(len(actions), dtype=np.int64)
    else:
        layout = Layout(states.shape[1], has_time=False, action_dim=0, slots=int(actions.max()) + 1)
    center = ball.center
    found = values if center is None else values - center.values(states)[0][np.arange(len(actions)), actions]
    least = least_norm(ball.kernel, layout, states, actions, found)
    return bool(least > (ball.radius + ball.misspecification) * (1.0 + 1e-6))


def least_norm(kernel: Kernel, layout: Layout, states: Any, actions: Any, values: Any) -> float:
    """sqrt( vᵀ K⁻¹ v ) over the directions in which K is well conditioned: no function with these values has less."""
    gram = np.zeros((len(actions), len(actions)))
    for term in normal_form(kernel, layout):
        codes = term.embedding[actions]
        gram += term.block(states, states) * (codes @ codes.T)
    eigenvalues, vectors = np.linalg.eigh(gram)
    kept = eigenvalues > 1e-8 * eigenvalues[-1]
    return float(np.sqrt(np.sum((vectors[:, kept].T @ values) ** 2 / eigenvalues[kept])))


def ask(name: str, cell: Cell, seed: int, rng: np.random.Generator) -> Row:
    """One log, one answer, plain data. What the library refuses is recorded as refused."""
    trial = cell.trial(rng)
    began = time.perf_counter()
    row: Row = {"cell": name, "seed": seed, "rows": len(trial.log), "gamma": trial.gamma, "truth": trial.truth}
    row |= {"slack": trial.slack, "alpha": ALPHA, "method": "default", "judged": cell.judged}
    try:
        result = trial.evaluate(ALPHA)
    except bondic.BondicError as problem:
        return row | {"status": REFUSED, "why": str(problem), "seconds": time.perf_counter() - began}
    seconds = time.perf_counter() - began
    return row | {
        "low": result.low,
        "high": result.high,
        "status": result.status.name,
        "width": result.value_range.width,
        "guarantee": result.guarantee,
        "class": class_of(result),
        "outside": outside(result, trial),
        "seconds": seconds,
    }


def summarize(rows: list[Row]) -> list[Row]:
    """One line per cell; p is P( Bin(runs, α) >= misses ), corrected by Holm over all cells."""
    answered = [row for row in rows if row["status"] != REFUSED]
    checks = dict(zip(groups(answered, "cell"), binomial_checks(answered, "cell"), strict=True))
    return [_line(name, found, checks.get((name,))) for (name,), found in groups(rows, "cell").items()]


def _line(name: str, rows: list[Row], check: Check | None) -> Row:
    answered = [row for row in rows if row["status"] != REFUSED]
    known = [row["outside"] for row in answered if row["outside"] is not None]
    classes = sorted({row["class"] for row in answered})
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
        "class": ", ".join(classes),
        "outside": sum(known) if known else None,
        "seconds": float(np.mean([row["seconds"] for row in rows])),
        "p_value": check.p_value if check else 1.0,
        "corrected": check.corrected if check else 1.0,
        "violated": bool(check and check.violated),
    }


def pooled(lines: list[Row]) -> float:
    """P( Bin(all runs, α) >= all misses )."""
    misses, runs = sum(line["misses"] for line in lines), sum(line["runs"] for line in lines)
    return float(stats.binom.sf(misses - 1, runs, ALPHA)) if runs else 1.0
