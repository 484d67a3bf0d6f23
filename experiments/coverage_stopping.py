"""Logs that end at the worst moment: which bounds hold at every stopping time, and which only at a fixed n.

The noise of one direction is a walk with steps of +-B/2 = +-1. Whoever ends the log waits until the walk leaves the
bound, if it ever does before row LONGEST; the exact probability of that is computed step by step.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from experiments.coverage_checks import ALPHA, Check, FloatArray, Role, crossing_rate

from bondic.core.dual.noise import FixedLambda, NoiseFacts, Pinelis
from bondic.core.kernels.leaves import Constant
from bondic.core.kernels.normal_form import Layout
from bondic.core.starts import SampledStart
from bondic.core.terms import Terms

PLANNED, LONGEST = 100, 1000
STATEMENTS: tuple[tuple[str, str, float, Role], ...] = (
    ("fixed lambda", "noise event, fixed lambda", 1.0, "claim"),
    ("fixed lambda", "noise event, fixed lambda, 0.9 eps", 0.9, "control"),
    ("half", "noise event, half", 1.0, "control"),
    ("start of any size", "start event, any size", 1.0, "claim"),
    ("start of any size", "start event, any size, radius/2", 0.5, "control"),
    ("start of fixed size", "start event, fixed size", 1.0, "control"),
)
"""Bound, statement, what the bound is multiplied by, role. Bounds for one fixed n are controls here."""


@cache
def bounds() -> dict[str, FloatArray]:
    """Bounds of |S_n| for n = 1, 2, ..., LONGEST, from the library."""
    fixed = FixedLambda.planned(PLANNED, probability=ALPHA, sup_diag=1.0, mean_square_width=4.0)
    half, layout, terms = Pinelis("half"), Layout(1, False, 0, 1), Terms(0.0, (0.0, 2.0), False)
    one = NoiseFacts(Constant(1.0), layout, terms, list, 1, 1)
    names = ("fixed lambda", "half", "start of any size", "start of fixed size")
    out = {name: np.zeros(LONGEST) for name in names}
    for n in range(1, LONGEST + 1):
        rows = [(np.zeros((n, 1)), np.zeros(n, dtype=np.int64), None)]
        facts = replace(one, count=n, fixed_count=n, rows=lambda rows=rows: rows)
        weights = np.full(n, 1.0 / n)
        out["fixed lambda"][n - 1] = n * fixed.epsilon(facts, ALPHA).upper
        out["half"][n - 1] = n * half.epsilon(facts, ALPHA).upper
        for name, count_fixed in (("start of any size", False), ("start of fixed size", True)):
            radius = SampledStart(weights, 2.0, 1, count_fixed, 2).error(ALPHA).upper
            out[name][n - 1] = n * radius
    return out


@cache
def rate(name: str, factor: float) -> float:
    return crossing_rate(factor * bounds()[name])


def stopping_trial(rng: np.random.Generator) -> list[Check]:
    """One walk, all bounds; a statement fails if it fails at any n.

    The last control leaves a fifth of the *realized* n rows to a pilot: the end of the pilot is then no stopping time.
    """
    walk = np.cumsum(2.0 * rng.integers(2, size=LONGEST) - 1.0)
    out = [
        Check(
            f"{statement}, at the worst time",
            bool(np.any(np.abs(walk) > factor * bounds()[name])),
            role=role,
            rate=rate(name, factor),
        )
        for name, statement, factor, role in STATEMENTS
    ]
    ends = np.arange(1, LONGEST + 1)
    pilot = np.where(ends >= PLANNED, ends // 5, 0)
    sums = np.concatenate([[0.0], walk])
    late = np.abs(sums[ends] - sums[pilot]) > bounds()["fixed lambda"][ends - pilot - 1]
    label = "noise event, fixed lambda, after a pilot of n/5 rows, at the worst time"
    return [*out, Check(label, bool(np.any(late)), role="control")]
