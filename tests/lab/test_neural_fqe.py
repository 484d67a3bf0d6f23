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
