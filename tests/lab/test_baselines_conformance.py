"""The laws of `BaselineCase` for every method of the registry, and the registry itself."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from conformance_baselines import BaselineCase, mild_world

import bondic
from bondic.core.errors import InvalidInput
from bondic_lab.baselines.registry import BASELINES, make_baseline


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
    ordered = True


class TestDoublyRobustBetting(BaselineCase):
    """Products of ratios are bounded by a horizon."""

    name = "dr-betting"
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
