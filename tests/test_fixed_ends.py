"""Stored plans have the ends they had: a change of the library that moves one has to say why.

`scripts/fixed_ends.py --kind NAME` makes those of one kind again.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bondic.core.claims import ErrorBudget
from fixed_logs import ALPHA, CASES, KINDS, read_plan

STORED = json.loads(Path(__file__).with_name("fixed_ends.json").read_text(encoding="utf-8"))
NEAR = 1e-7
"""Of the value range: engines and machines add up in other orders."""


def test_every_case_is_stored_under_its_kind():
    assert {name: case.kind for name, case in CASES.items()} == {name: one["kind"] for name, one in STORED.items()}


def moved(name, change=lambda proof: proof):
    """By how much the ends of the stored plan differ from the stored ends, at most, as a share of the value range."""
    case, stored = CASES[name], STORED[name]
    problems = case.problems()
    proof = change(read_plan(stored["plan"], problems))
    assert proof.budget.alpha == stored["alpha"] == ALPHA
    assert case.limits(problems) == pytest.approx(stored["range"], rel=1e-12)
    found, (least, most) = case.ends(proof, problems), stored["range"]
    assert found.keys() == stored["ends"].keys()
    pairs = ((found[key], stored["ends"][key]) for key in found)
    return max(abs(mine - other) for both in pairs for mine, other in zip(*both, strict=True)) / (most - least)


@pytest.mark.parametrize("name", STORED)
def test_a_stored_plan_has_the_ends_it_had(name):
    assert moved(name) <= NEAR


@pytest.mark.parametrize("kind", KINDS)
def test_a_little_less_of_alpha_moves_them(kind):
    def spending_less(proof):
        parts = {name: 0.999 * part for name, part in proof.budget.parts.items()}
        return replace(proof, budget=ErrorBudget(proof.budget.alpha, parts))

    assert moved(next(name for name in STORED if CASES[name].kind == kind), spending_less) > NEAR
