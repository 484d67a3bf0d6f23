"""Coverage of intervals from propensities: fixed seed, exact rates where they exist, controls that must fail.

A claim is called violated when its failures have P( Bin(logs, level) >= failures ) < 1e-4; the same test must catch the
controls. The experiment runs the same cases on more logs.
"""

import sys
from functools import cache
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))  # last: only `experiments` is wanted from there

from experiments.propensity_coverage import CASES, JUMP_RATE, TAIL, run_case

LOGS = {"fair coins": 400, "one jump": 600, "drift": 160}


@cache
def observed(name):
    return run_case(name, LOGS.get(name, 60), seed=1)


@pytest.mark.parametrize("name", CASES)
def test_claims_hold_and_controls_fail(name):
    rows = observed(name)
    assert any(row.role == "claim" for row in rows)
    assert not [(row.statement, row.misses, row.trials) for row in rows if not row.as_expected]


def test_every_mistake_has_a_control():
    caught = " ".join(
        row.statement for name in CASES for row in observed(name) if row.role == "control" and row.violated
    )
    for mistake in (
        "not stated",
        "largest ratio of the log",
        "half of the log term",
        "own row",
        "a population, drifts",
    ):
        assert mistake in caught


def test_the_sharp_case_is_within_a_factor_two_of_its_level():
    population, this_log, _ = observed("one jump")
    assert 0.5 * TAIL < JUMP_RATE < TAIL
    for row in (population, this_log):
        assert row.fit > 1e-4
        assert row.misses > 0
