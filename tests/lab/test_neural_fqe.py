"""Neural fitted Q evaluation: exact values of tables, bootstrap weights, seeds, limits of what it accepts."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import bondic
from bondic.core.errors import InvalidInput, MissingExtra, NumericalError
from bondic_lab.baselines import neural_fqe
from bondic_lab.baselines.fqe import FittedQ
from bondic_lab.baselines.neural_fqe import NeuralFittedQ, default_updates, start_weights
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


def test_target_updates_follow_the_discount():
    assert default_updates(0.0) == 40
    assert default_updates(0.5) == 40
    assert default_updates(1.0) == default_updates(0.9999) == 500
    assert 0.97 ** default_updates(0.97) <= 1e-4 < 0.97 ** (default_updates(0.97) - 1)


def test_start_weights_of_an_exact_list_do_not_vary_and_samples_do():
    counts = np.vstack([np.ones(40), np.random.default_rng(0).multinomial(40, np.ones(40) / 40, size=3)])
    exact = start_weights(sampled(), counts, np.random.default_rng(0))
    np.testing.assert_array_equal(exact, np.tile(random_world().initial_probs, (4, 1)))
    mdp = random_world()
    log = as_log(mdp.rollout(40, 6, np.random.default_rng(0)))
    own = bondic.make_problem(
        log, bondic.TablePolicy(mdp.target), bondic.InitialStates.from_log(log), gamma=0.8, reward_range=(-1.0, 0.5)
    )
    np.testing.assert_allclose(start_weights(own, counts, np.random.default_rng(0)), counts / 40)  # with their episodes
    drawn = start_weights(gaussian_problem(), np.ones((4, 60)), np.random.default_rng(0))
    assert drawn.shape == (4, 6)
    np.testing.assert_array_equal(drawn[0], np.full(6, 0.5))
    np.testing.assert_allclose(drawn[1:].reshape(3, 2, 3).sum(axis=2), 1.5)
    assert np.ptp(drawn[1:]) > 0


def test_next_points_are_listed_by_row():
    problem = gaussian_problem()
    places, weights = neural_fqe._following(problem)
    for row in range(0, len(problem), 7):
        mine = np.flatnonzero(problem.whole().next.rows == row)
        assert sorted(places[row, weights[row].sum(axis=1) > 0]) == sorted(mine)
    np.testing.assert_allclose(weights.sum(axis=(1, 2)), problem.whole().continues, rtol=1e-6)


# ---------------------------------------------------------------------------------------------------- with torch


@pytest.mark.torch
def test_another_seed_gives_other_networks():
    first, other = (interval(sampled(), seed=seed) for seed in (0, 1))
    assert first.estimate != other.estimate
    assert first.seeds["networks and bootstrap"] == 0


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


@pytest.mark.torch
def test_finite_horizons_see_time():
    """gamma = 1 and values that depend on the steps left: the networks are told the time."""
    mdp = random_world(termination=0.0)
    mdp = TabularMDP(mdp.transitions, mdp.rewards, mdp.initial_probs, mdp.target, mdp.behavior, 0.999, mdp.reward_range)
    log = as_log(mdp.rollout(150, 3, np.random.default_rng(0)))
    problem = tabular_problem(mdp, log, horizon=3)
    result = interval(problem, hidden=(16,), updates=25, steps=10, batch=512)
    table = bondic.estimate_interval(problem, method=FittedQ(replicates=10))
    assert result.estimate == pytest.approx(table.estimate, abs=0.02)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"replicates": 1}, "replicates=1"),
        ({"updates": 0}, "updates=0"),
        ({"steps": 0}, "steps=0"),
        ({"batch": 0}, "batch=0"),
        ({"hidden": ()}, "widths"),
        ({"hidden": (8, 0)}, "widths"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"learning_rate": -1.0}, "learning_rate"),
    ],
)
def test_options_have_limits(options, words):
    with pytest.raises(InvalidInput, match=words):
        NeuralFittedQ(**options)


@pytest.mark.torch
def test_logs_it_cannot_use_and_training_that_blows_up_are_refused():
    with pytest.raises(InvalidInput, match="at least 2 episodes"):
        interval(sampled(episodes=1, accept=["unseen-actions"]))
    with pytest.raises(NumericalError, match="learning_rate"):
        interval(sampled(), learning_rate=1e30)


@pytest.mark.torch
def test_rewards_of_zero_give_the_value_zero():
    result = interval(sampled(rewards=0.0))
    assert result.estimate == 0.0
    assert (result.low, result.high) == pytest.approx((0.0, 0.0), abs=1e-300)  # ends are rounded outward
