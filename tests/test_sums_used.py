"""Which sums the product uses: those it was given, in estimates and in verification; never the slow reference by accident."""

from collections import Counter
from dataclasses import dataclass, field

import pytest

import bondic
from bondic.core.balls import Box
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.core.sums.reference import Reference
from bondic.engines.sums import EngineSums
from builders import synthetic, tabular


@dataclass(frozen=True, eq=False)
class Counting(EngineSums):
    """The library's engines, with every question counted."""

    asked: Counter = field(default_factory=Counter)

    def squares(self, *given):
        self.asked["squares"] += 1
        return super().squares(*given)

    def cross(self, *given):
        self.asked["values"] += 1
        return super().cross(*given)

    def total_variations(self, *given):
        self.asked["total variations"] += 1
        return super().total_variations(*given)


@pytest.fixture(autouse=True)
def no_reference(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("the reference was asked")

    monkeypatch.setattr(Reference, "squares", refuse)
    monkeypatch.setattr(Reference, "cross", refuse)


def ask(made):
    mdp, log, policy, start = made
    return bondic.make_problem(log, policy, start, gamma=mdp.gamma, reward_range=mdp.reward_range), log, policy


BALL = bondic.Ball(bondic.Gaussian(1.0) * Dirac() + Constant(1.0), 3.0)
GIVEN = {
    "dual": (synthetic, lambda sums: bondic.Dual(ball=BALL, gauge="plug-in", engine=sums), "squares"),
    "dual on a table": (tabular, lambda sums: bondic.Dual(ball=Box(2.0), engine=sums), "total variations"),
    "sequential": (synthetic, lambda sums: bondic.Sequential(ball=BALL, engine=sums), "squares"),
    "default": (synthetic, lambda sums: bondic.Default(ball=BALL, engine=sums), "squares"),
}


@pytest.mark.parametrize("name", GIVEN)
def test_the_given_sums_are_used(name):
    make, method, question = GIVEN[name]
    problem, log, policy = ask(make(400))
    sums, checking = Counting(), Counting()
    result = bondic.estimate_interval(problem, method=method(sums))
    assert sums.asked[question] > 0
    bondic.verify(result.certificate, log, policy, sums=checking)
    assert checking.asked[question] > 0
