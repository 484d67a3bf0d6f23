"""The laws of `BaselineCase` for every method of the registry, and the registry itself."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from conformance_baselines import BaselineCase, mild_world

import bondic
import bondic_lab
from bondic.core.errors import InvalidInput
from bondic_lab.baselines.coindice import CoinDice
from bondic_lab.baselines.double_rl import DoubleRL
from bondic_lab.baselines.fqe import FittedQ
from bondic_lab.baselines.lstd import Lstd
from bondic_lab.baselines.marginalized import Marginalized
from bondic_lab.baselines.model_based import ModelBased
from bondic_lab.baselines.registry import BASELINES, make_baseline
from bondic_lab.baselines.trajectories import trajectories
from bondic_lab.baselines.trajectory_dr import DoublyRobust
from bondic_lab.worlds.tabular import TabularMDP
from builders import as_log, lake, lake_problem, tabular_problem
from propensity_cases import LARGEST, decisions, question


class TestTis(BaselineCase):
    name = "tis"


class TestPdis(BaselineCase):
    name = "pdis"


class TestSntis(BaselineCase):
    name = "sntis"


class TestSnpdis(BaselineCase):
    name = "snpdis"


class TestTisHoeffding(BaselineCase):
    name = "tis-hoeffding"
    options: ClassVar = {"max_ratio": 2.2}
    episodes = 2000


class TestPdisHoeffding(BaselineCase):
    name = "pdis-hoeffding"
    options: ClassVar = {"max_ratio": 2.2}
    episodes = 2000

    def test_enough_episodes_narrow_the_value_range(self):
        assert self.answer(0.2).length < self.answer(0.2).value_range.width


class TestPercentile(BaselineCase):
    name = "is-percentile"
    options: ClassVar = {"replicates": 50}
    ordered = True


class TestBca(TestPercentile):
    name = "is-bca"


class TestHcope(BaselineCase):
    name = "hcope"
    ordered = True


class TestPerDecisionBetting(BaselineCase):
    name = "pdis-betting"
    checks = 0.001
    ordered = True


class TestDoublyRobustBetting(BaselineCase):
    """Products of ratios are bounded by a horizon."""

    name = "dr-betting"
    checks = 0.001
    options: ClassVar = {"max_ratio": 2.2}
    ordered = True

    @classmethod
    def ask(cls, log, reward_range=(-1.0, 0.5)):
        mdp = mild_world()
        initial = bondic.InitialStates.exact(np.arange(3.0)[:, None], mdp.initial_probs)
        more = {"gamma": 0.7, "reward_range": reward_range, "horizon": 4}
        return bondic.make_problem(log, bondic.TablePolicy(mdp.target), initial, **more)


class TestFittedQ(BaselineCase):
    name = "dm"
    options: ClassVar = {"replicates": 50}
    ordered = True


class TestModel(TestFittedQ):
    name = "model"


@pytest.mark.torch
class TestNeural(BaselineCase):
    name = "dm-neural"
    options: ClassVar = {"hidden": (16,), "replicates": 4, "updates": 12, "steps": 5, "batch": 64}
    episodes = 40
    ordered = True
    precision = 1e-5


class TestDoublyRobust(BaselineCase):
    name = "dr"
    ordered = True


class TestMis(BaselineCase):
    name = "mis"


class TestLstd(BaselineCase):
    name = "lstd"


class TestDoubleRL(BaselineCase):
    name = "drl"
    ordered = True


class TestCoinDice(BaselineCase):
    name = "coindice"


class TestDuanWang(BaselineCase):
    name = "duan-wang"
    splits = False


class TestFeng(BaselineCase):
    name = "feng2020"
    sides = False


class TestLipschitz(BaselineCase):
    """Deterministic environments only: state s and action a lead to s / 2 or s / 2 + 1."""

    name = "lipschitz"
    splits = False

    @classmethod
    def log(cls):
        states = np.linspace(0.0, 2.0, 80)
        actions = np.tile([0, 1], 40)
        following = 0.5 * states + actions
        ids = np.repeat(np.arange(4), 20)
        rewards = np.sin(states) - 0.5
        return bondic.Transitions(states[:, None], actions, rewards, following[:, None], ids < 0, episode_ids=ids)

    @classmethod
    def ask(cls, log, reward_range=(-1.0, 0.5)):
        initial = bondic.InitialStates.exact([[0.0], [1.0]])
        more = {"gamma": 0.7, "reward_range": reward_range, "accept": None}
        return bondic.make_problem(log, bondic.UniformPolicy(2), initial, **more)


def test_every_short_name_has_its_case():
    cases = {case.name for case in BaselineCase.__subclasses__()} | {"is-bca", "model"}
    assert cases == set(BASELINES)
    with pytest.raises(InvalidInput, match="no baseline"):
        make_baseline("magic")


# --- A stated value range in every baseline.

NEEDS = {
    "tis-hoeffding": {"max_ratio": 1.4},
    "pdis-hoeffding": {"max_ratio": 1.4},
    "lipschitz": {"constant": 1.0},
    "dm": {"replicates": 50},
    "model": {"replicates": 50},
}


PLAIN = {name for name, entry in BASELINES.items() if entry.method.extra is None} - {"dr-betting"}
"""Need no further library. Doubly robust bets refuse 60 rows; they take the path of pdis-betting."""


@pytest.mark.parametrize(("name", "limit"), [(name, (3, 200)[k % 2]) for k, name in enumerate(sorted(PLAIN))])
def test_every_baseline_is_cut_to_the_range_and_says_so(name, limit):
    """Episodes cut after 3 steps, or whole ones; Lipschitz value iteration needs a lake without slips."""
    more = {"steps": 200} if limit == 200 and name.endswith("hoeffding") else {}
    method = BASELINES[name].make(**NEEDS.get(name, {}) | more)
    problem = lake_problem(lake(60, limit=limit, slip=0.0 if name == "lipschitz" else 0.2), value_range=(0, 1))
    found = bondic.estimate_interval(problem, method=method)
    assert 0 <= found.low <= found.high <= 1
    assert not found.estimated or found.low <= found.estimate <= found.high
    assert (found.value_range.low, found.value_range.high) == (0.0, 1.0)
    assert any(item.name == "value range" for item in found.assumptions)


def test_what_was_not_recorded_lies_in_the_stated_range():
    """T = 3: the tail is gamma^3 [0, 1] (or 0), and the recorded part a return less that tail."""
    problem = lake_problem(lake(60, limit=3), value_range=(0, 1))
    paths = trajectories(problem)
    assert paths.steps == 3
    assert not paths.complete
    assert (paths.tail.low, paths.tail.high) == (0.0, pytest.approx(0.95**3))
    assert (paths.returns.low, paths.returns.high) == (0.0, pytest.approx(1.0))
    late = paths.range_of(np.array([False, True, True]))
    assert (late.low, late.high) == (0.0, pytest.approx(0.95))
    some = paths.range_of(np.array([True, False, True]))  # no return: the rewards of these steps
    assert (some.low, some.high) == (0.0, pytest.approx(1 + 0.95**2))
    shifted = trajectories(lake_problem(lake(60, limit=3), reward_range=(-9, 9), value_range=(-1, 2)))
    assert shifted.tail.low == pytest.approx(-(0.95**3))
    assert shifted.tail.high == pytest.approx(2 * 0.95**3)
    assert shifted.returns.low == pytest.approx(-1 - 2 * 0.95**3)
    assert shifted.returns.high == pytest.approx(2 + 0.95**3)


# --- pdis-betting and dr-betting are `Propensities` under other names; ratios of baselines are those of the method.


def ends(log, method, policy=None, **statements):
    result = bondic.estimate_interval(question(log, policy, **statements), method=method)
    return result.low, result.high


@pytest.mark.parametrize(
    ("name", "options", "own"),
    [
        ("pdis-betting", {"gamma_sensitivity": 1.1}, {"model": None, "gamma_sensitivity": 1.1}),
        (
            "pdis-betting",
            {"planned_rows": 3000, "side": "lower"},
            {"model": None, "planned_rows": 3000, "side": "lower"},
        ),
        ("dr-betting", {"max_ratio": LARGEST}, {"max_ratio": LARGEST}),
        ("dr-betting", {"min_propensity": 0.2, "pilot": 300}, {"min_propensity": 0.2, "pilot": 300}),
    ],
)
def test_they_are_the_method_itself(name, options, own):
    log = decisions(1500)
    found = bondic.estimate_interval(question(log), method=bondic_lab.make_baseline(name, **options))
    wanted = bondic.estimate_interval(question(log), method=bondic.Propensities(**own))
    assert (found.low, found.high, found.estimate) == (wanted.low, wanted.high, wanted.estimate)
    assert (found.method, found.guarantee) == (name, "finite-sample")
    assert {item.name for item in found.assumptions} == {item.name for item in wanted.assumptions}
    assert bondic.verify(found.certificate, log).low == found.low


def test_dr_betting_is_not_given_a_name_that_it_does_not_earn():
    log = decisions(600)
    with pytest.raises(bondic.InvalidInput, match="max_ratio="):
        ends(log, bondic_lab.make_baseline("dr-betting"))
    unbounded = TestPerDecisionBetting.ask(TestPerDecisionBetting.log())  # products of ratios, without a horizon
    with pytest.raises(bondic.InvalidInput, match="Nothing was weighed doubly robustly"):
        bondic.estimate_interval(unbounded, method=bondic_lab.make_baseline("dr-betting", max_ratio=2.2))


# --- Asymptotic intervals miss about as often as they say where their assumptions hold: many small logs, exact values.

LOGS, MOST = 60, 25
"""At alpha = 0.2 more than 25 misses in 60 logs have probability below 1e-4."""


@pytest.mark.parametrize(
    "method",
    [Lstd(), Marginalized(), DoubleRL(), CoinDice(), DoublyRobust(), FittedQ(replicates=60), ModelBased(replicates=60)],
    ids=lambda m: m.name,
)
def test_asymptotic_intervals_cover_about_as_often_as_they_say(method):
    mdp = TabularMDP.random(
        np.random.default_rng(3), n_states=3, n_actions=2, gamma=0.6, reward_range=(-1.0, 1.0), termination=0.3
    )
    logs = (as_log(mdp.rollout(80, 12, np.random.default_rng(k))) for k in range(LOGS))
    results = [bondic.estimate_interval(tabular_problem(mdp, log), alpha=0.2, method=method) for log in logs]
    misses = sum(not r.low <= mdp.value <= r.high for r in results)
    assert misses <= MOST
    assert np.mean([r.length for r in results]) < 0.2 * results[0].value_range.width
    errors = np.array([r.estimate - mdp.value for r in results])
    assert abs(errors.mean()) < 4 * errors.std() / np.sqrt(LOGS) + 0.01


@pytest.mark.parametrize("method", [Lstd(), DoublyRobust(), FittedQ(replicates=60)], ids=lambda m: m.name)
def test_starts_read_off_the_log_cover(method):
    """Values differ a lot by start: the interval must account for which starts were drawn. Misses as above."""
    mdp = TabularMDP(
        np.eye(2)[:, None, :], np.array([[1.0], [-1.0]]), np.array([0.5, 0.5]), np.ones((2, 1)), np.ones((2, 1)), 0.5,
        (-1.0, 1.0), 0.5,
    )  # fmt: skip
    misses = 0
    for seed in range(LOGS):
        log = as_log(mdp.rollout(40, 20, np.random.default_rng(seed)))
        start = bondic.InitialStates.from_log(log)
        problem = bondic.make_problem(
            log, bondic.TablePolicy(mdp.target), start, gamma=mdp.gamma, reward_range=mdp.reward_range
        )
        result = bondic.estimate_interval(problem, alpha=0.2, method=method)
        misses += not result.low <= mdp.value <= result.high
    assert misses <= MOST
    assert misses >= 3  # an interval that never misses would not be told apart from one that is far too long
