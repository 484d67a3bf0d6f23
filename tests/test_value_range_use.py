"""A stated value range in every interval, in certificates, in baselines and in the tool."""

import json
from dataclasses import asdict

import numpy as np
import pytest

import bondic
from bondic.core.balls import Ball, Instruments
from bondic.core.certificate import Certificate, compute_digest
from bondic.core.errors import VerificationError
from bondic.core.kernels.leaves import Dirac
from builders import LAKE_GAMMA, LAKE_POLICY, lake, lake_problem

KERNEL = Dirac(on="state") * Dirac()
METHOD = bondic.Dual(ball=Ball(KERNEL, 3.0), instruments=Instruments(KERNEL))


def test_a_reward_at_the_goal_gives_an_upper_end_of_at_most_one():
    plain = bondic.estimate_interval(lake_problem(lake(40)), method=METHOD)
    stated = bondic.estimate_interval(lake_problem(lake(40), value_range=(0, 1)), method=METHOD)
    assert plain.high > 1 == stated.value_range.high >= stated.high
    assert stated.length < plain.length
    assert stated.low >= 0
    texts = {item.name: item for item in stated.assumptions}
    assert texts["value range"].state == "stated"
    assert "lies in [0, 1]" in texts["value range"].text
    assert "as was stated" in texts["value range"].text
    assert "value range" not in {item.name for item in plain.assumptions}
    assert "The stated ranges alone imply [0, 1]" in stated._repr_html_()


def test_the_true_value_is_covered():
    """J* by solving the chain; 40 logs at alpha = 0.1, of which none may miss (the interval is far from tight)."""
    step = np.zeros((6, 6))
    reward = np.zeros(6)
    right = 0.8 * 0.8 + 0.2 * 0.2
    for state in range(1, 5):
        step[state, state + 1], step[state, state - 1] = right, 1 - right
        reward[state] = right if state + 1 == 5 else 0.0
    alive = step[1:5, 1:5]
    truth = np.linalg.solve(np.eye(4) - LAKE_GAMMA * alive, reward[1:5])[1]
    for seed in range(40):
        found = bondic.estimate_interval(lake_problem(lake(40, seed), value_range=(0, 1)), method=METHOD)
        assert found.low <= truth <= found.high


# ---------------------------------------------------------------------------------------- certificates and pages


@pytest.fixture(scope="module")
def certified():
    problem = lake_problem(value_range=(0, 1))
    return problem, bondic.estimate_interval(problem, method=METHOD)


def altered(certificate, **terms):
    """The same certificate with other statements and a digest that fits them."""
    body = json.loads(json.dumps(certificate.body))
    body["proof"]["asked"]["terms"].update(terms)
    return Certificate(body, certificate.arrays, compute_digest(body, certificate.arrays))


def test_a_certificate_holds_the_statement_and_is_verified_with_it(certified, tmp_path):
    problem, result = certified
    bondic.save_certificate(result.certificate, tmp_path / "c.json")
    kept = bondic.load_certificate(tmp_path / "c.json")
    spec = kept.body["proof"]["asked"]["terms"]
    assert spec["value_range"] == [0.0, 1.0]
    assert asdict(problem.terms) | {"reward_range": [0.0, 1.0], "value_range": [0.0, 1.0]} == spec
    for log in (problem.log, bondic.stream_log(lake(), batch_rows=100)):
        checked = bondic.verify(kept, log, LAKE_POLICY)
        assert (checked.low, checked.high) == pytest.approx((result.low, result.high), abs=1e-9)
        assert any(item.name == "value range" for item in checked.assumptions)


@pytest.mark.parametrize("stated", [None, [0.0, 0.9999], [0.0, 2.0], [0.0, 1.0, 2.0], [1.0, 0.0], "ab", [30.0, 40.0]])
def test_a_certificate_with_another_statement_is_refused(certified, stated):
    problem, result = certified
    with pytest.raises(VerificationError):
        bondic.verify(altered(result.certificate, value_range=stated), problem.log)


def test_a_certificate_whose_statement_the_log_contradicts_is_refused(certified):
    problem, result = certified
    with pytest.raises(VerificationError, match="outside the stated `value_range`"):
        bondic.verify(altered(result.certificate, value_range=[0.0, 0.5]), problem.log)
