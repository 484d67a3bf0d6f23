"""The random events behind the sequential interval, simulated: fixed seed, exact rates where they exist, failing controls.

A claim at δ = 0.05 is called violated when its failures have P( Bin(logs, δ) ≥ failures ) < 1e-4, and a count is called
unfit when its two-sided exact p-value against a known rate is < 1e-4: each statement would raise a false alarm for fewer
than 2 in 10 000 seeds, and the seeds are fixed. The same test must call the controls violated.
"""

import itertools
import math
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))  # last: only `experiments` is wanted from there

from experiments import sequential_tails, sequential_vectors
from experiments.sequential_events import CASES, WHOLE, run_case
from experiments.sequential_tails import CAP, DELTA, JUMP, LOG, PLANNED, crossing_rate, jump_rate


def surprises(rows):
    return [(row.statement, row.misses, row.trials) for row in rows if not row.as_expected]


@cache
def observed(name):
    return run_case(name, logs=1000 if "p = 50" in name else 2000, seed=1)[0]


@pytest.mark.parametrize("name", [name for name in CASES if name != WHOLE])
def test_events_hold_and_controls_fail(name):
    rows = observed(name)
    assert any(row.role == "claim" for row in rows)
    assert not surprises(rows)


def test_every_rule_has_a_control():
    rows = [row for name in sequential_tails.TAILS for row in observed(name)]
    caught = " ".join(row.statement for row in rows if row.role == "control" and row.violated)
    for rule in (
        "half of the log term",
        "range believed half",
        "2 blocks",
        "10 blocks",
        "v after looking",
        "clip at",
        "draw",
    ):
        assert rule in caught


def test_sharp_case_in_closed_form():
    """A log without a jump breaks the tail after n rows, n x p > log(1/δ): 0.99^303, within 5 % of δ."""
    assert PLANNED == 303
    assert PLANNED * CAP * JUMP > LOG > (PLANNED - 1) * CAP * JUMP
    assert jump_rate(PLANNED, CAP) == pytest.approx(0.99**303, rel=1e-12)
    assert 0.95 * DELTA < 0.99**303 < DELTA
    assert jump_rate(PLANNED, CAP) < crossing_rate(1500, CAP * JUMP, math.log1p(-CAP)) < DELTA


def test_exact_rates_agree_with_counting_all_logs():
    rows = 12
    logs = np.array(list(itertools.product([0, 1], repeat=rows)))
    mass = np.prod(np.where(logs == 1, JUMP, 1.0 - JUMP), axis=1)
    weight, counts = 0.7, np.cumsum(logs, axis=1)
    paths = np.arange(1, rows + 1) * weight * JUMP + counts * math.log1p(-weight)
    for log in (0.05, 0.083, 0.2):
        assert jump_rate(rows, weight, log) == pytest.approx(mass @ (paths[:, -1] > log), abs=1e-12)
        crossed = mass @ np.any(paths > log, axis=1)
        assert crossing_rate(rows, weight * JUMP, math.log1p(-weight), log) == pytest.approx(crossed, abs=1e-12)
    gains = counts * math.log1p(10.0) - 10.0 * JUMP * np.arange(1, rows + 1)
    crossed = mass @ np.any(gains > LOG, axis=1)
    assert crossing_rate(rows, -10.0 * JUMP, math.log1p(10.0)) == pytest.approx(crossed, abs=1e-12)


@pytest.mark.parametrize(
    ("module", "case"),
    [(sequential_tails, "bold bets"), (sequential_tails, "narrow clip"), (sequential_vectors, "vector, p = 2")],
)
def test_a_price_that_is_too_small_is_caught(module, case, monkeypatch):
    """Claims themselves fail if g is cut by a quarter."""
    honest = module.g
    monkeypatch.setattr(module, "g", lambda y: 0.75 * honest(y))
    rows, _ = run_case(case, logs=2500, seed=3)
    assert any(row.violated for row in rows if row.role == "claim")
