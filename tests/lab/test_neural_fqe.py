"""Neural fitted Q evaluation: exact values of tables, bootstrap weights, seeds, limits of what it accepts."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import bondic
from bondic.core.errors import MissingExtra
from bondic_lab.baselines import neural_fqe
from bondic_lab.baselines.fqe import FittedQ
from bondic_lab.baselines.neural_fqe import NeuralFittedQ, start_weights
from bondic_lab.baselines.units import units_of
from bondic_lab.worlds.tabular import TabularMDP
from builders import as_log, exact_problem, part, tabular_problem

SMALL = {"hidden": (16,), "replicates": 4, "updates": 12, "steps": 5, "batch": 64}


def random_world(termination=0.3):
    return TabularMDP.random(
        np.random.default_rng(3), n_states=3, n_actions=2, gamma=0.8, reward_range=(-1.0, 0.5), termination=termination
    )


def sampled(episodes=40, steps=6, *, rewards=1.0, reward_range=None, **more):
    mdp = random_world()
    log = as_log(mdp.rollout(episodes, steps, np.random.default_rng(0)))
    if rewards != 1.0:
        log = part(log, rewards=rewards * log.rewards)
    return tabular_problem(mdp, log, reward_range=reward_range or mdp.reward_range, **more)


def gaussian_problem(episodes=60, steps=4, draws=3, **more):
    """s' = s / 2 + a / 4, r = tanh s: continuous states and actions, target a ~ N(s / 2, 0.1^2)."""
    rng = np.random.default_rng(2)
    s = np.empty((episodes, steps + 1))
    s[:, 0] = rng.uniform(-1, 1, episodes)
    a = rng.normal(size=(episodes, steps))
    for t in range(steps):
        s[:, t + 1] = 0.5 * s[:, t] + 0.25 * a[:, t]
    ends = np.tile(np.arange(steps) == steps - 1, episodes)
    log = bondic.Transitions(
        s[:, :-1].reshape(-1, 1), a.reshape(-1, 1), np.tanh(s[:, :-1]).ravel(), s[:, 1:].reshape(-1, 1),
        np.zeros(ends.size, dtype=bool), ends, np.repeat(np.arange(episodes), steps), np.tile(np.arange(steps), episodes),
    )  # fmt: skip
    policy = bondic.GaussianPolicy(lambda x: 0.5 * x, 0.1)
    options = {"gamma": 0.5, "reward_range": (-1.0, 1.0), "draws": draws, "initial_draws": draws, **more}
    initial = bondic.InitialStates.exact(np.array([[0.8], [0.4]]), np.array([0.5, 0.5]))
    return bondic.make_problem(log, policy, initial, **options)


def interval(problem, alpha=0.1, **options):
    return bondic.estimate_interval(problem, alpha=alpha, method=NeuralFittedQ(**{**SMALL, **options}))


# ------------------------------------------------------------------------------------------------- without torch


def test_without_torch_the_extra_is_named():
    """In a fresh interpreter in which torch cannot be imported: the registry loads, the method says what is missing."""
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import bondic\n"
        "from bondic.core.errors import MissingExtra\n"
        "try:\n    import bondic_lab; bondic_lab.make_baseline('dm-neural')\n"
        "except MissingExtra as problem:\n    print(problem)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "bondic[torch]" in told
    assert "Neural fitted Q evaluation" in told
    assert issubclass(MissingExtra, ImportError)


# ---------------------------------------------------------------------------------------------------- with torch


@pytest.mark.torch
def test_the_estimate_is_the_exact_value_of_a_log_that_is_its_own_expectation():
    """Every empirical mean is an expectation, so that the exact fixed point of the regressions is q*."""
    mdp, problem = exact_problem()
    result = interval(problem, unit="rows", hidden=(16,), updates=25, steps=20, replicates=8, batch=256)
    assert result.estimate == pytest.approx(mdp.value, abs=2e-3)  # of a value range of width 6.7
    table = bondic.estimate_interval(problem, method=FittedQ(unit="rows"))
    assert result.length == pytest.approx(table.length, rel=0.6)  # a standard deviation of 8 numbers
    assert result.low < mdp.value < result.high


@pytest.mark.torch
def test_every_member_solves_its_own_bootstrap_sample():
    """Against the table's regression with the same counts: the weights c of the loss, and nothing shared between members."""
    from bondic_lab.baselines.features import make_design
    from bondic_lab.baselines.fqe import fit_q

    problem = sampled(30)
    rng = np.random.default_rng(4)
    units = units_of(problem, "episodes")[0]
    counts = np.vstack([np.ones(30), rng.multinomial(30, np.ones(30) / 30, size=3)])[:, units]
    starts = start_weights(problem, np.ones((4, 30)), rng)
    options = NeuralFittedQ(hidden=(16,), steps=25, learning_rate=1e-2, batch=10_000)
    watch = neural_fqe.out.Stopwatch("x", None)
    found = neural_fqe._Ensemble(options, problem, counts, starts, rng).values(30, watch)
    design = make_design(problem)
    wanted = [design.start @ fit_q(design, c, ridge=1e-6) for c in counts]
    assert np.ptp(wanted) > 0.1
    np.testing.assert_allclose(found, wanted, atol=5e-3)


@pytest.mark.torch
def test_continuous_actions_reach_the_value_of_a_known_system():
    """gamma = 1/2, s' = s/2 + a/4 with a ~ N(s/2, 0.1^2): simulated from the two initial states."""
    problem = gaussian_problem(episodes=150)
    rng = np.random.default_rng(0)
    s, value = np.repeat([0.8, 0.4], 20_000), 0.0
    for t in range(20):
        value += 0.5**t * np.tanh(s).mean()
        s = 0.5 * s + 0.25 * (0.5 * s + 0.1 * rng.standard_normal(s.size))
    result = interval(problem, hidden=(16, 16), updates=15, steps=25, batch=128)
    assert result.estimate == pytest.approx(value, abs=0.03)  # of a value range of width 4
    assert result.value_range.low <= result.low < result.estimate < result.high <= result.value_range.high
