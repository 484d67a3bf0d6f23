"""Coverage of intervals from propensities: fixed seed, exact rates where they exist, controls that must fail.

A claim is called violated when its failures have P( Bin(logs, level) >= failures ) < 1e-4; the same test must catch the
controls. The experiment runs the same cases on more logs.
"""

import json
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))  # last: only `experiments` is wanted from there

from experiments import propensity_coverage
from experiments.propensity_coverage import CASES, JUMP_RATE, TAIL, run_case

LOGS = {"fair coins": 400, "one jump": 600}


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
    for mistake in ("not stated", "largest ratio of the log", "half of the log term", "own row"):
        assert mistake in caught


def test_the_sharp_case_is_within_a_factor_two_of_its_level():
    (row,) = observed("one jump")
    assert 0.5 * TAIL < JUMP_RATE < TAIL
    assert row.fit > 1e-4
    assert row.misses > 0


def test_the_script_writes_table_and_page(tmp_path):
    arguments = [
        "--only",
        "one jump",
        "--trials",
        "30",
        "--out",
        str(tmp_path / "o.json"),
        "--page",
        str(tmp_path / "p.md"),
    ]
    assert propensity_coverage.main(arguments) == 0
    assert json.loads((tmp_path / "o.json").read_text())[0]["trials"] == 30
    assert "| one jump | lower end, exact rate known | claim |" in (tmp_path / "p.md").read_text()


def test_plain_means_beside_published_intervals():
    """Not longer than the hedged capital by more than a tenth, and it holds the mean as often as it says."""
    from experiments.betting_numbers import ALPHA, WORLDS, hedged, hoeffding, ours

    truth, make = WORLDS["Beta(10, 30)"]
    lengths, missed = [], 0
    for seed in range(40):
        values = make(np.random.default_rng([3, seed]), 300)
        found = [method(values) for method in (ours, hedged, hoeffding)]
        lengths.append([high - low for low, high in found])
        missed += not found[0][0] <= truth <= found[0][1]
    mine, other, plain = np.mean(lengths, axis=0)
    assert mine <= 1.1 * other < plain
    assert missed <= 3 * ALPHA * 40
