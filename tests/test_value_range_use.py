"""A stated value range in every interval, in certificates, in baselines and in the tool."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bondic
from bondic.core.balls import Ball, Instruments
from bondic.core.certificate import Certificate, compute_digest
from bondic.core.dual.bound import Setting, dual_bound
from bondic.core.dual.noise import Pinelis
from bondic.core.errors import VerificationError
from bondic.core.kernels.leaves import Dirac
from bondic.engines.sums import STANDARD
from builders import LAKE_GAMMA, LAKE_POLICY, LAKE_TABLE, lake, lake_problem
from test_tool import run

KERNEL = Dirac(on="state") * Dirac()
METHOD = bondic.Dual(ball=Ball(KERNEL, 3.0), instruments=Instruments(KERNEL))


def setting(problem, gauge="half", alpha=0.1):
    return Setting(problem, METHOD.ball, METHOD.instruments, Pinelis(gauge), alpha, None, 2, STANDARD)


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


def test_narrower_ranges_give_narrower_ends_at_the_same_omega():
    problem = lake_problem()
    found = bondic.estimate_interval(lake_problem(value_range=(0, 1)), method=METHOD)
    weights = found.proof.omegas["lower"]
    spreads = []
    for limits in (None, (-50, 50), (0, 20), (0, 5), (0, 1)):
        low, high = dual_bound(setting(lake_problem(value_range=limits)), weights)
        spreads.append(high.bound - low.bound)
    assert spreads[0] == spreads[1] == pytest.approx(spreads[2], rel=1e-12)
    assert spreads[2] > spreads[3] > spreads[4]
    # the noise falls with the width: 20 -> 5 -> 1
    low, high = dual_bound(setting(lake_problem(value_range=(0, 1))), weights)
    wide = dual_bound(setting(problem), weights)[1]
    assert high["noise"].mid == pytest.approx(wide["noise"].mid / 20, rel=1e-9)


@given(st.floats(-40, -0.001), st.floats(20.001, 60), st.booleans())
@settings(max_examples=8, deadline=None)
def test_a_range_that_contains_the_implied_one_changes_nothing(low, high, with_horizon):
    more = {"horizon": 30} if with_horizon else {}
    data = lake(40)
    plain = bondic.estimate_interval(lake_problem(data, **more), method=METHOD)
    wide = bondic.estimate_interval(lake_problem(data, value_range=(low, high), **more), method=METHOD)
    assert (plain.low, plain.high, plain.estimate, plain.status) == (wide.low, wide.high, wide.estimate, wide.status)


def test_rewards_and_ranges_scale_together():
    one = bondic.estimate_interval(lake_problem(value_range=(0, 1)), method=METHOD)
    data = lake()
    data["rewards"] = data["rewards"] * 4
    ball = Ball(KERNEL, 12.0)
    four = bondic.estimate_interval(
        lake_problem(data, reward_range=(0, 4), value_range=(0, 4)), method=replace(METHOD, ball=ball)
    )
    assert four.low == pytest.approx(4 * one.low, rel=1e-6, abs=1e-9)
    assert four.high == pytest.approx(4 * one.high, rel=1e-6)


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


# ------------------------------------------------------------------------------------------------------ the tool


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("lake.npz", **lake(150))
    np.savez("policy.npz", probs=LAKE_TABLE)
    return tmp_path


ASKED = ["--policy", "policy.npz", "--gamma", "0.95", "--reward-range", "0", "1"]


def test_the_tool_takes_a_value_range_and_writes_it_down(place, capsys):
    code, out, err = run(
        capsys, "evaluate", "lake.npz", *ASKED, "--value-range", "0", "1", "--with", "radius=2", "--out", "res"
    )
    assert code == 0, err
    assert "The stated ranges alone imply [0, 1]" in " ".join(out.replace("│", " ").split())
    result = json.loads((place / "res" / "result.json").read_text())
    assert result["value_range"] == [0.0, 1.0]
    assert result["high"] <= 1
    assert "value range" in [item["name"] for item in result["assumptions"]]
    assert run(capsys, "verify", "res/certificate.json", "lake.npz")[0] == 0
    assert "--value-range 0 1" in result["command"]
