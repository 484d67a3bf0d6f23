"""Properties that every baseline must have, whatever its theory: units, mirror images, order of episodes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import bondic
from bondic.baselines.registry import BASELINES, make_baseline
from bondic_lab.worlds.tabular import TabularMDP
from problems import as_log

sys.path.append(str(Path(__file__).resolve().parents[1]))  # last: only `experiments` is wanted from there

from experiments import baselines
from experiments.baselines_problems import make_cases

COLUMNS = ("observations", "actions", "rewards", "next_observations", "terminations", "truncations", "episode_ids",
           "timesteps", "behavior_action_probs")  # fmt: skip
# methods of optional libraries have their own files: tests/test_neural_fqe.py
NAMES = [
    name for name, entry in BASELINES.items() if entry.method.extra is None and name not in ("feng2020", "lipschitz")
]


def method(name):
    options = {"largest_ratio": 2.2} if "hoeffding" in name else {}
    if name in ("dm", "model", "is-percentile", "is-bca"):
        options["replicates"] = 50
    return make_baseline(name, **options)


def world():
    mdp = TabularMDP.random(
        np.random.default_rng(7), n_states=3, n_actions=2, gamma=0.7, reward_range=(-1.0, 0.5), termination=0.5
    )
    mild = 0.3 * mdp.target + 0.7 * mdp.behaviour
    return TabularMDP(
        mdp.transitions, mdp.rewards, mdp.initial_probs, mild, mdp.behaviour, 0.7, mdp.reward_range, mdp.termination
    )


def columns(episodes=400, steps=4, seed=0):
    log = as_log(world().rollout(episodes, steps, np.random.default_rng(seed)))
    return {name: np.array(getattr(log, name)) for name in COLUMNS}


def question(data, reward_range=(-1.0, 0.5)):
    mdp = world()
    states = np.arange(3.0)[:, None]
    initial = bondic.InitialStates.exact(states, mdp.initial_probs)
    return bondic.make_problem(
        bondic.Transitions(**data), bondic.TablePolicy(mdp.target), initial, gamma=0.7, reward_range=reward_range
    )


@pytest.mark.parametrize("name", NAMES)
def test_rewards_in_other_units_scale_the_interval(name):
    data = columns()
    plain = bondic.estimate_interval(question(data), method=method(name))
    scaled = bondic.estimate_interval(
        question({**data, "rewards": 8.0 * data["rewards"]}, (-8.0, 4.0)), method=method(name)
    )
    assert (scaled.low, scaled.high) == pytest.approx((8 * plain.low, 8 * plain.high), rel=1e-7, abs=1e-9)
    assert scaled.estimate == pytest.approx(8 * plain.estimate, rel=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_negative_rewards_mirror_the_interval(name):
    """Upper and lower ends are made by one rule: an error of sign in one of them shows here."""
    data = columns()
    plain = bondic.estimate_interval(question(data), method=method(name))
    mirror = bondic.estimate_interval(question({**data, "rewards": -data["rewards"]}, (-0.5, 1.0)), method=method(name))
    assert (mirror.low, mirror.high) == pytest.approx((-plain.high, -plain.low), rel=1e-6, abs=1e-8)
    assert plain.status.name == mirror.status.name


@pytest.mark.parametrize(
    "name", [n for n in NAMES if n not in ("dm", "model", "is-percentile", "is-bca", "hcope", "dr", "drl")]
)
def test_the_order_of_episodes_does_not_matter(name):
    """Methods that draw or split look at the order; the others must not."""
    data = columns(80)
    order = np.argsort(np.random.default_rng(3).permutation(80)[data["episode_ids"]], kind="stable")
    first, second = (
        bondic.estimate_interval(question(part), method=method(name))
        for part in (data, {key: values[order] for key, values in data.items()})
    )
    assert (first.low, first.high) == pytest.approx((second.low, second.high), rel=1e-9)


def test_a_smaller_alpha_contains_a_larger_one_and_more_episodes_help_hoeffding():
    problem = question(columns(2000))
    wide, narrow = (bondic.estimate_interval(problem, alpha=a, method=method("pdis-hoeffding")) for a in (0.01, 0.2))
    assert wide.low <= narrow.low <= narrow.high <= wide.high
    assert narrow.length < narrow.value_range.width


# ------------------------------------------------------------------------------------------------------- the experiment


def test_the_experiment_counts_and_writes_its_page(tmp_path):
    target = tmp_path / "baselines.json"
    page = tmp_path / "page.md"
    assert baselines.main(["--only", "deterministic", "--logs", "2", "--out", str(target), "--page", str(page)]) == 0
    text = page.read_text()
    assert "| `lipschitz` | finite-sample |" in text
    assert "violated within their assumptions: none" in text
    assert "| method | label | deterministic | time |" in text
    assert re.search(r"\n\| `pdis` \| asymptotic \| [^|]* \| [<0-9. ]+ s \|\n", text)
    assert re.search(r"\n\| seconds per log \| deterministic \|\n", text)
    assert "Not in the table: `dm-neural`, which needs an optional library (torch)." in text
    assert '"case": "deterministic"' in target.read_text()
    again = tmp_path / "again.md"
    assert baselines.main(["--render", "--out", str(target), "--page", str(again)]) == 0
    assert again.read_text() == text


def test_times_are_means_over_logs_and_problems():
    fast, slow = baselines.Tally("a", "tis", guarantee="asymptotic"), baselines.Tally("b", "tis")
    result = bondic.estimate_interval(question(columns()), method=method("tis"))
    for seconds in (0.2, 0.4):
        fast.add(result, 0.0, seconds)
    slow.add(result, 0.0, 1.3)
    refused = baselines.Tally("b", "lipschitz", refused="why")
    rows = [row.record() for row in (fast, slow, refused)]
    text = baselines.page({"logs": 2, "seed": 0, "cases": {"a": "first", "b": "second"}, "rows": rows})
    assert re.search(r"\n\| `tis` \| asymptotic \| .* \| 0.8 s \|\n", text)  # of 0.3 and 1.3
    assert "\n| `tis` | 0.3 | 1.3 |\n" in text
    assert "\n| `lipschitz` | – | – |\n" in text


def test_make_experiments_writes_the_page():
    makefile = (Path(__file__).resolve().parents[1] / "Makefile").read_text()
    assert re.search(r"experiments/baselines\.py .*--page docs/baselines\.md", makefile)


def test_the_same_seed_gives_the_same_counts():
    case = make_cases()["rare large weights"]
    first, second = (baselines.run_case("x", case, seed=1, logs=1) for _ in range(2))
    assert [row.lengths for row in first] == [row.lengths for row in second]
    assert {row.method for row in first} == set(baselines.NAMES)


def test_a_violated_claim_is_called_so():
    bad = baselines.Tally("case", "hcope", guarantee="finite-sample", logs=100, misses=30)
    assert bad.violated
    assert not baselines.Tally("case", "hcope", guarantee="finite-sample", logs=100, misses=15).violated
    assert not baselines.Tally("case", "hcope", guarantee="finite-sample", broken="why", logs=100, misses=30).violated
    assert not baselines.Tally("case", "tis", guarantee="asymptotic", logs=100, misses=30).violated


def test_stated_ratios_bound_the_logged_ones():
    for name, case in make_cases().items():
        problem = case.problem(np.random.default_rng(0))
        log = problem.log
        target = case.mdp.target[log.observations[:, 0].astype(int), log.actions]
        assert (target / log.behavior_action_probs).max() <= case.largest_ratio * (1 + 1e-12), name
