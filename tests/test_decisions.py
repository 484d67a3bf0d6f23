"""Choosing, ranking and gates: what is concluded from differences, and how often it is wrong."""

import html
import json
import math
import re

import numpy as np
import pandas as pd
import pytest

import bondic
from bondic.core.errors import InvalidInput
from bondic.decisions.choose import choose_policy, expected_favorite
from bondic.decisions.difference import difference_interval
from bondic.decisions.gate import gate
from bondic.decisions.ranking import rank_policies
from bondic.methods.propensities import Propensities
from propensity_cases import BEHAVIOR, REWARD, STATES, decisions, question
from test_tool import run

BEST = np.eye(2)[REWARD.argmax(axis=1)]


def mixed(share):
    """The behavior, moved towards the best action (share > 0) or away from it."""
    aim = BEST if share > 0 else 1 - BEST
    return (1 - abs(share)) * BEHAVIOR + abs(share) * aim


def policy(table):
    return lambda observations: table[np.searchsorted(STATES[:, 0], observations[:, 0])]


def gain(table):
    return float(((table - BEHAVIOR) * REWARD).sum(axis=1).mean())


def questions(log, shares):
    return {f"mix {share:+.1f}": question(log, policy(mixed(share))) for share in shares}


def test_a_ranking_says_what_is_shown():
    found = rank_policies(questions(decisions(4000), (-0.5, 0.1, 0.7)))
    assert found.better[0] == "mix +0.7"
    assert found.worse == ("mix -0.5",)
    assert next(iter(found.differences)) == "mix +0.7"
    assert "mix +0.7 is shown to be better than today (by at least" in str(found)
    for name, one in found.differences.items():
        assert one.low <= gain(mixed(float(name.split()[1]))) <= one.high
    low, high = found.gain("mix +0.7", "mix -0.5")
    assert low <= gain(mixed(0.7)) - gain(mixed(-0.5)) <= high
    nothing = rank_policies(questions(decisions(100), (0.1, 0.2)))
    assert nothing.better == ()
    assert "no policy is shown to be better" in str(nothing)


def test_a_ranking_divides_alpha_as_was_stated():
    problems = questions(decisions(2000), (0.1, 0.4, 0.7))
    even = rank_policies(problems)
    stated = rank_policies(problems, shares={"mix +0.1": 1, "mix +0.4": 1, "mix +0.7": 8})
    assert math.fsum(one.alpha for one in stated.differences.values()) == pytest.approx(0.1)
    alone = difference_interval(problems["mix +0.7"], alpha=stated.differences["mix +0.7"].alpha)
    assert (alone.low, alone.high) == (stated.differences["mix +0.7"].low, stated.differences["mix +0.7"].high)
    assert stated.differences["mix +0.7"].length < even.differences["mix +0.7"].length
    assert stated.differences["mix +0.1"].length > even.differences["mix +0.1"].length
    for wrong in ({"mix +0.7": 1}, {"mix +0.1": 1, "mix +0.4": 0, "mix +0.7": 1}):
        with pytest.raises(InvalidInput, match="one positive number for each"):
            rank_policies(problems, shares=wrong)


def test_a_choice_is_the_favorite_or_the_best_of_all_or_nothing():
    log = decisions(3000)
    found = choose_policy(questions(log, (0.2, 0.5, 0.9)))
    assert found.chosen == "mix +0.9"
    assert "Take mix +0.9" in str(found)
    assert (
        min(result.rows[0] for result in found.results.values()) >= 300
    )  # rows that named a favorite are not certified
    kept = choose_policy(questions(log, (-0.2, -0.5)))
    assert kept.chosen is None
    assert "Keep today's policy" in str(kept)
    short = choose_policy(questions(decisions(60), (0.3,)))
    assert short.chosen is None
    assert short.rows_needed()[1] > np.diff(short.results["mix +0.3"].rows)[0]
    alone = choose_policy(questions(log, (0.9,)), policy(mixed(0.5)))
    assert alone.chosen == "mix +0.9"
    assert "the incumbent" in str(alone)


def test_one_favorite_is_tested_alone_where_the_pilot_is_clear():
    rng = np.random.default_rng(0)
    clear = rng.normal([[0.0], [1.0], [0.1]], 0.3, (3, 200))
    assert expected_favorite(clear, 2000, 0.1) == 1
    many = rng.normal(0.05, 1.0, (40, 30))
    assert expected_favorite(many, 20_000, 0.1) is None


@pytest.mark.parametrize(
    ("requirement", "verdict"),
    [
        ({"better_than": "today"}, "approve"),
        ({"better_than": "today", "above": 0.05}, "approve"),
        ({"better_than": "today", "above": 0.6}, "refuse"),
        ({"better_than": policy(BEST)}, "refuse"),
        ({"above": 0.3}, "approve"),
        ({"above": 0.9}, "refuse"),
        ({"below": 0.9}, "approve"),
        ({"below": 0.3}, "refuse"),
        ({"above": 0.6}, "cannot tell"),
    ],
)
def test_gates(requirement, verdict):
    table = mixed(0.6)
    assert float((table * REWARD).sum(axis=1).mean()) == pytest.approx(0.598)
    found = gate(question(decisions(3000), policy(table)), alpha=0.05, **requirement)
    assert found.verdict == verdict
    assert str(found).lower().startswith(verdict)
    assert "95% confidence" in str(found)
    assert (found.other is not None) == (verdict == "cannot tell")


def test_gates_need_one_requirement():
    problem = question(decisions(200))
    for wrong in ({}, {"above": 0.1, "below": 0.2}):
        with pytest.raises(InvalidInput, match="one requirement"):
            gate(problem, **wrong)


def test_a_gate_spends_alpha_on_one_end_whatever_the_side_of_the_method_is():
    """A method for one side would spend twice alpha on it, if a gate asked for both ends at once."""
    value, wrong = float((mixed(0.6) * REWARD).sum(axis=1).mean()), 0
    for seed in range(60):
        problem = question(decisions(300, seed), policy(mixed(0.6)))
        one = gate(problem, above=value + 1e-9, alpha=0.3, method=Propensities(side="upper"))
        assert one.verdict == gate(problem, above=value + 1e-9, alpha=0.3).verdict
        assert one.result.alpha == 0.3
        wrong += one.verdict == "approve"
    assert wrong <= 60 * 0.3 + 3 * math.sqrt(60 * 0.21)


def test_what_is_stated_stands_beside_a_verdict():
    demo = bondic.load_demo()
    problem = bondic.make_problem(demo.log, demo.policy, demo.initial, gamma=demo.gamma, reward_range=demo.reward_range)
    found = gate(problem.select(0, 3000), above=0.1, method=bondic.Groups(allowance=0.3))
    assert "This holds if what you stated does" in str(found) or found.verdict == "cannot tell"


def test_other_logs_and_empty_lists_are_refused():
    log = decisions(200)
    mixed_up = {"one": question(log), "two": question(decisions(200, seed=1))}
    for decide in (rank_policies, choose_policy):
        with pytest.raises(InvalidInput, match="same rows of one log"):
            decide(mixed_up)
        with pytest.raises(InvalidInput, match="no policy"):
            decide({})


# --- how often: null policies, which are worth what the behavior is worth -------------------------------


def null_log(rng, rows, situations=20):
    """Rewards do not depend on actions: every policy is worth the same."""
    places, actions = rng.integers(0, situations, rows), rng.integers(0, 2, rows)
    states = places[:, None].astype(float)
    rewards = (rng.random(rows) < 0.5).astype(float)
    return bondic.Transitions(
        states, actions, rewards, states, np.ones(rows, bool), behavior_action_probs=np.full(rows, 0.5)
    )


def test_the_best_of_many_null_policies_is_rarely_chosen():
    """Every choice is an error. The control: lower ends at alpha each, and then the best one."""
    chosen, passed, trials, alpha = 0, 0, 24, 0.5
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        log = null_log(rng, 400)
        signs = np.eye(2)[rng.integers(0, 2, (40, 20))]
        problems = {
            str(k): question(log, lambda s, table=table: table[s[:, 0].astype(int)]) for k, table in enumerate(signs)
        }
        chosen += choose_policy(problems, alpha=alpha).chosen is not None
        each = (difference_interval(one, alpha=alpha, method=Propensities(side="lower")) for one in problems.values())
        passed += any(one.low > 0 for one in each)
    assert chosen <= trials * alpha + 3 * math.sqrt(trials * alpha * (1 - alpha))
    assert passed > trials * alpha + 3 * math.sqrt(trials * alpha * (1 - alpha))


# --- the same on the command line -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A log of offers with propensities, and three policies."""
    place, rng, n = tmp_path_factory.mktemp("offers"), np.random.default_rng(0), 8000
    segment, offer = rng.integers(0, 4, n), rng.integers(0, 3, n)
    chance = np.array([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.2, 0.2, 0.2], [0.1, 0.4, 0.1]])
    bought = (rng.random(n) < chance[segment, offer]).astype(float)
    columns = {"observations": segment, "actions": offer, "rewards": bought, "behavior_action_probs": 1 / 3}
    pd.DataFrame(columns).to_csv(place / "log.csv", index=False)
    for name, choice in (("good", [2, 0, 1, 1]), ("fair", [2, 0, 1, 0]), ("bad", [0, 2, 0, 2])):
        np.savez(place / f"{name}.npz", probs=np.eye(3)[choice])
    return place


def tool(capsys, folder, monkeypatch, command, *words):
    monkeypatch.chdir(folder)
    return run(capsys, command, "log.csv", "--one-step", "--reward-range", "0", "1", *words)


def test_against_today_and_another_policy(folder, capsys, monkeypatch):
    words = ["--policy", "good.npz", "--out", "out", "--force", "--quiet"]
    code, out, _ = tool(capsys, folder, monkeypatch, "evaluate", *words, "--against", "today")
    assert code == 0
    assert re.match(r"New \S+ to \S+, today \S+ to \S+; better by ", out)
    code, out, err = run(capsys, "verify", "out", "log.csv", "--policy", "good.npz", "--replay")
    assert code == 0, err
    assert "the other policy is the one that made the log" in out
    code, out, _ = tool(
        capsys, folder, monkeypatch, "evaluate", *words, "--against", "fair.npz", "--with", "no_rows=yes"
    )
    assert code == 0
    assert re.match(r"good.npz \S+ to \S+, fair.npz \S+ to \S+; good.npz is better by ", out)
    assert "--against fair.npz" in json.loads((folder / "out" / "result.json").read_text())["command"]
    code, out, err = run(capsys, "verify", "out", "log.csv", "--policy", "good.npz", "--against", "fair.npz")
    assert code == 0, err
    wrong = run(capsys, "verify", "out", "log.csv", "--policy", "good.npz", "--against", "bad.npz")
    assert wrong[0] == 1


@pytest.mark.parametrize(
    ("policy", "gate_of", "expected"),
    [("good", "today", 0), ("bad", "today", 5), ("fair", "good.npz", 5), ("good", "good.npz", 6)],
)
def test_gates_end_with_their_codes(folder, capsys, monkeypatch, policy, gate_of, expected):
    words = ["--policy", f"{policy}.npz", "--require-better-than", gate_of, "--out", "gate", "--force", "--quiet"]
    code, out, _ = tool(capsys, folder, monkeypatch, "evaluate", *words)
    assert code == expected, out
    assert out.splitlines()[0].startswith({0: "Approve", 5: "Refuse", 6: "Cannot tell"}[expected])


def test_a_gate_on_a_policy_and_a_number_is_about_the_gain(folder, capsys, monkeypatch):
    words = ["--policy", "good.npz", "--require-better-than", "today", "--out", "gate", "--force", "--quiet"]
    code, out, _ = tool(capsys, folder, monkeypatch, "evaluate", *words, "--require-above", "0.5")
    assert (code, out.startswith("Refuse")) == (5, True)
    stored = json.loads((folder / "gate" / "result.json").read_text())
    assert stored["choices"]["gate"] == out.strip()


def test_today_is_a_policy_like_others(folder, capsys, monkeypatch):
    words = ["--policy", "today", "--out", "own", "--force", "--quiet"]
    assert tool(capsys, folder, monkeypatch, "evaluate", *words)[0] == 0
    assert run(capsys, "verify", "own", "log.csv", "--policy", "today")[0] == 0
    words = ["--policy", "good.npz", "--against", "absent.npz", "--out", "no"]
    assert tool(capsys, folder, monkeypatch, "evaluate", *words)[0] == 2
    log = decisions(100)
    told = bondic.Transitions(
        log.observations, log.actions, log.rewards, log.next_observations, log.terminations,
        behavior_action_probs=log.behavior_action_probs, target_action_probs=np.full(100, 0.5),
    )  # fmt: skip
    with pytest.raises(InvalidInput, match="Write 'today'"):
        difference_interval(question(told), "logged")


def test_choose_and_compare(folder, capsys, monkeypatch):
    policies = [word for name in ("bad", "fair", "good") for word in ("--policy", f"{name}.npz")]
    code, out, _ = tool(capsys, folder, monkeypatch, "choose", *policies, "--quiet")
    assert (code, out.startswith("Take good.npz")) == (0, True)
    code, out, _ = tool(
        capsys, folder, monkeypatch, "choose", "--policy", "bad.npz", "--incumbent", "fair.npz", "--json"
    )
    assert code == 6
    assert json.loads(out)["chosen"] is None
    code, out, _ = tool(capsys, folder, monkeypatch, "compare", *policies, "--against", "today", "--report", "all.html")
    assert code == 0
    assert "good.npz is shown to be better than today (by at least" in " ".join(out.split())
    page = (folder / "all.html").read_text()
    headline = page.partition('class="answer">')[2].partition("</p>")[0]
    assert headline.startswith(
        "At 90% confidence, all together: good.npz is shown to be better than today (by at least "
    )
    assert '<line class="zero"' in page  # no difference
    places = [page.index(f'over">{name}.npz<') for name in ("good", "fair", "bad")]
    assert places == sorted(places)  # the best first
    one = tool(capsys, folder, monkeypatch, "compare", *policies, "--against", "today", "--quiet")[1]
    assert html.unescape(headline) == one.strip()
    data = json.loads(tool(capsys, folder, monkeypatch, "compare", *policies, "--against", "today", "--json")[1])
    assert [line["policy"] for line in data] == ["good.npz", "fair.npz", "bad.npz"]
    assert data[0]["summary"].startswith("At 96.66% confidence good.npz is better than today by ")
    assert tool(capsys, folder, monkeypatch, "compare", *policies, "--against", "today", "--method", "all")[0] == 2


def test_values_are_compared_beside_today(folder, capsys, monkeypatch):
    policies = [word for name in ("bad", "good") for word in ("--policy", f"{name}.npz")]
    words = ["compare", *policies, "--report", "values.html"]
    _, out, _ = tool(capsys, folder, monkeypatch, *words)
    assert [line.split()[0] for line in out.splitlines() if "finite-sample" in line] == ["good.npz", "today", "bad.npz"]
    page = (folder / "values.html").read_text()
    assert '<line class="zero"' not in page
    assert page.index('over">today<') < page.index('over">bad.npz<')
    _, out, _ = tool(
        capsys, folder, monkeypatch, *words, "--joint", "--force"
    )  # alpha is divided over the policies alone
    assert not [line for line in out.splitlines() if line.startswith("today")]
    data = json.loads(tool(capsys, folder, monkeypatch, *words, "--force", "--json")[1])
    assert [line["policy"] for line in data] == ["bad.npz", "good.npz"]  # as they were written
