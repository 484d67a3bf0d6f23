"""Baselines that work with features: exact tables, slow twins, labels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize

import bondic
from bondic.core.errors import InvalidInput
from bondic.core.terms import Terms
from bondic_lab.baselines.coindice import divergence, extreme_value
from bondic_lab.baselines.double_rl import DoubleRL
from bondic_lab.baselines.duan_wang import LinearFittedQ, half_width
from bondic_lab.baselines.features import Design, make_design
from bondic_lab.baselines.feng2020 import Feng2020
from bondic_lab.baselines.fqe import fit_q
from bondic_lab.baselines.lstd import fit_lstd
from bondic_lab.baselines.marginalized import minimax_weights
from bondic_lab.baselines.model_based import table_values
from bondic_lab.baselines.registry import make_baseline
from bondic_lab.baselines.trajectories import trajectories
from bondic_lab.baselines.trajectory_dr import DoublyRobust, corrections
from bondic_lab.baselines.units import fold_numbers
from bondic_lab.noise.v_statistic import VStatistic
from bondic_lab.worlds.tabular import TabularMDP
from builders import as_log, exact_problem, tabular_problem
from core_cases import plain_facts


def world(*, gamma=0.6, termination=0.0, seed=3, states=3):
    return TabularMDP.random(
        np.random.default_rng(seed),
        n_states=states,
        n_actions=2,
        gamma=gamma,
        reward_range=(-1.0, 1.0),
        termination=termination,
    )


def sampled(mdp, episodes=60, steps=6, seed=0, behavior="logging", **more):
    log = as_log(mdp.rollout(episodes, steps, np.random.default_rng(seed), behavior=behavior))
    return tabular_problem(mdp, log, **more)


def one_hot(problem):
    """Phi, mean next Phi and phi_0 of a table, written out; column 2 s + a."""
    n = len(problem)
    phi, following = np.zeros((n, 6)), np.zeros((n, 6))
    phi[np.arange(n), 2 * problem.whole().logged[:, 0].astype(int) + problem.whole().slots] = 1.0
    for point, weights, row in zip(
        problem.whole().next.points, problem.whole().next.weights, problem.whole().next.rows, strict=True
    ):
        following[row, 2 * int(point[0]) : 2 * int(point[0]) + 2] += weights
    start = np.zeros(6)
    for point, weights, row in zip(problem.initial.points, problem.initial.weights, problem.initial.rows, strict=True):
        start[2 * int(point[0]) : 2 * int(point[0]) + 2] += weights * problem.initial_states.weights[row]
    return phi, following, start


def plain_design(phi, following, start, rewards, gamma):
    return Design(phi, following, start[None, :], rewards, np.ones(1), gamma, True, True, "by hand")


# ------------------------------------------------------------------------------------------------------ features and fits


@pytest.mark.parametrize("method", ["fqe", "lstd", "mis", "model"])
def test_expectations_give_the_exact_value(method):
    """On a log whose means are expectations every consistent method returns J* itself."""
    mdp, problem = exact_problem()
    design = make_design(problem)
    found = {
        "fqe": lambda: design.start @ fit_q(design, ridge=1e-9),
        "lstd": lambda: fit_lstd(design, ridge=1e-9).value,
        "mis": lambda: np.mean(minimax_weights(design, design, ridge=1e-9) * problem.whole().rewards),
        "model": lambda: design.start @ table_values(design, np.ones(len(problem)), 0.0),
    }[method]()
    assert found == pytest.approx(mdp.value, abs=1e-7)


# ------------------------------------------------------------------------------------------------------------ doubly robust


def loop_correction(mdp, log, episode, q, steps):
    """q (steps + 1, states, actions): one table per time, the last one for what follows."""
    v = (mdp.target * q).sum(axis=2)
    rows = np.flatnonzero(log.episode_ids == episode)[:steps]
    total, weight = 0.0, 1.0
    for t, row in enumerate(rows):
        s, a, following = int(log.observations[row, 0]), log.actions[row], int(log.next_observations[row, 0])
        weight *= mdp.target[s, a] / log.behavior_action_probs[row]
        after = 0.0 if log.terminations[row] else mdp.gamma * v[t + 1, following]
        total += mdp.gamma**t * weight * (log.rewards[row] + after - q[t, s, a])
    return total


def test_doubly_robust_corrections_are_the_loop_and_unbiased_for_any_q():
    mdp = world(termination=0.3)
    log = as_log(mdp.rollout(3000, 4, np.random.default_rng(1)))
    problem = tabular_problem(mdp, log)
    q = np.random.default_rng(2).normal(size=(5, 3, 2))
    q[4] = 0.0
    phi, following, start = one_hot(problem)
    design = plain_design(phi, following, start, problem.whole().rewards, mdp.gamma)
    paths = trajectories(problem)
    found = corrections(paths, design, q.reshape(5, 6))
    for episode in range(40):
        assert found[episode] == pytest.approx(loop_correction(mdp, log, episode, q, 4), rel=1e-10)
    error = found.std() / math.sqrt(found.size)
    assert abs(start @ q[0].ravel() + found.mean() - mdp.finite_value(4)) < 4 * error


def test_cross_fitting_never_uses_the_fold_itself():
    """Double RL and doubly robust, one fold at a time with tables written out."""
    mdp = world(termination=0.3)
    log = as_log(mdp.rollout(30, 5, np.random.default_rng(4)))
    problem = tabular_problem(mdp, log)
    phi, following, start = one_hot(problem)
    n, gamma, ridge = len(problem), mdp.gamma, 0.5

    fold = fold_numbers(np.asarray(log.episode_ids), 5, 0)
    efficient = 0.0
    for k in range(5):
        out, inside = fold != k, fold == k
        a = phi[out].T @ (phi[out] - gamma * following[out]) + ridge * np.eye(6)
        theta = np.linalg.solve(a, phi[out].T @ problem.whole().rewards[out])
        w = out.sum() * phi[inside] @ np.linalg.solve(a.T, start)
        delta = problem.whole().rewards[inside] + gamma * following[inside] @ theta - phi[inside] @ theta
        efficient += inside.sum() / n * (start @ theta) + np.sum(w * delta) / n
    found = bondic.estimate_interval(problem, method=DoubleRL(ridge=ridge)).estimate
    assert found == pytest.approx(efficient, rel=1e-9)

    fold = fold_numbers(np.arange(30), 2, 0)
    values = []
    for episode in range(30):
        out = fold[log.episode_ids] != fold[episode]
        thetas = np.zeros((6, 6))
        for t in range(4, -1, -1):  # the last of 5 steps has one reward ahead of it, the first one five
            target = problem.whole().rewards[out] + gamma * following[out] @ thetas[t + 1]
            thetas[t] = np.linalg.solve(phi[out].T @ phi[out] + ridge * np.eye(6), phi[out].T @ target)
        values.append(start @ thetas[0] + loop_correction(mdp, log, episode, thetas.reshape(6, 3, 2), 5))
    robust = bondic.estimate_interval(problem, method=DoublyRobust(ridge=ridge)).estimate
    assert robust == pytest.approx(np.mean(values), rel=1e-6)


# ---------------------------------------------------------------------------------------------------------------- CoinDICE


def test_extreme_values_match_a_direct_search():
    """Six rows of a two-state table: maximize phi_0 . theta(p) over the ball with a general optimizer."""
    rng = np.random.default_rng(4)
    phi = np.eye(2)[[0, 1, 0, 1, 0, 1]]
    following = np.eye(2)[[1, 0, 0, 1, 1, 1]]
    design = plain_design(phi, following, np.array([0.5, 0.5]), rng.normal(size=6), 0.7)

    def value(p):
        return fit_lstd(design, p * 6, ridge=0.1).value

    for sign in (1.0, -1.0):
        found = optimize.minimize(
            lambda p, sign=sign: -sign * value(p),
            np.full(6, 1 / 6),
            bounds=[(1e-9, 1)] * 6,
            constraints=[
                {"type": "eq", "fun": lambda p: p.sum() - 1},
                {"type": "ineq", "fun": lambda p: 1.5 - divergence(p)},
            ],
            options={"maxiter": 500, "ftol": 1e-12},
        )
        mine = extreme_value(design, np.arange(6), ridge=0.1, radius=1.5, sign=sign)
        assert sign * mine >= -found.fun - 1e-4
        assert mine == pytest.approx(-sign * found.fun, abs=1e-3)


# -------------------------------------------------------------------------------------------------------------- Duan, Wang


@pytest.mark.parametrize("behavior", ["logging", "adaptive"])
def test_the_linear_interval_covers_adaptive_logs(behavior):
    mdp = world(termination=0.3)
    for seed in range(60):
        problem = sampled(mdp, 60, 6, seed=seed, behavior=behavior)
        result = bondic.estimate_interval(problem, alpha=0.2, method=LinearFittedQ())
        assert result.low <= mdp.value <= result.high
    assert result.guarantee == "finite-sample"


def test_the_half_width_is_its_formula():
    phi = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    design = plain_design(phi, np.zeros_like(phi), np.array([1.0, 0.0]), np.ones(3), 0.0)
    fit = fit_lstd(design, ridge=1.0)
    # u = (1/3, 0), |u|_Sigma = sqrt(3)/3, det(Sigma) = 3 * 2
    wanted = math.sqrt(1 / 3) * 0.5 * 4.0 * math.sqrt(2 * math.log(10) + math.log(6)) + 5.0 / 3
    assert half_width(design, fit, ridge=1.0, radius=5.0, width=4.0, probability=0.1) == pytest.approx(wanted)


# ------------------------------------------------------------------------------------------------------------- model based


# --------------------------------------------------------------------------------------------------- kernel Bellman, 2020


def facts(n, dropped=0):
    return plain_facts(n, dropped=dropped, terms=Terms(0.75, (0.25, 1.0), False))  # B = 3, values up to 4


def test_the_threshold_is_its_formula():
    n, p = 100, 0.05
    wanted = 4 * 4.0**2 * (2 * 0.99 * math.sqrt(math.log(2 / p) / n) + 1 / n)
    assert VStatistic("paper").epsilon(facts(n), p).mid ** 2 == pytest.approx(wanted)
    small = 3.0**2 * (2 * 0.99 * math.sqrt(math.log(1 / p) / n) + 1 / n)
    assert VStatistic("range").epsilon(facts(n), p).mid ** 2 == pytest.approx(small)
    odd = 9.0 * (2 * (100 / 101) * math.sqrt(math.log(1 / p) / 100) + 1 / 101)
    assert VStatistic("range").epsilon(facts(101), p).mid ** 2 == pytest.approx(odd)
    assert VStatistic("range").epsilon(facts(1), p).mid ** 2 == pytest.approx(9.0)


def test_the_2020_interval_is_valid_and_longer():
    mdp = world(termination=0.3)
    problem = sampled(mdp, 2000, 1)
    old = bondic.estimate_interval(problem, method=Feng2020(constant="range"))
    new = bondic.estimate_interval(problem, method=bondic.Dual())
    assert old.low <= new.low <= mdp.value <= new.high <= old.high
    assert old.method == "feng2020"
    assert old.assumptions[0].name == "rows"
    with pytest.raises(InvalidInput, match="fixed beforehand"):
        bondic.estimate_interval(problem, method=Feng2020(bondic.Dual(planned_rows=2000)))
    log = as_log(mdp.rollout(2000, 1, np.random.default_rng(0)))
    checked = bondic.verify(old.certificate, log, bondic.TablePolicy(mdp.target))
    assert (checked.low, checked.high) == pytest.approx((old.low, old.high), abs=1e-9)


# ---------------------------------------------------------------------------------------------------------------- registry


@pytest.mark.parametrize("name", ["dm", "lstd", "mis", "drl", "model", "coindice", "duan-wang", "dr", "pdis"])
def test_finite_horizons_without_discount(name):
    """gamma = 1, three steps: value depends on time, rows beyond the horizon are dropped."""
    mdp = world()
    log = as_log(mdp.rollout(3000, 5, np.random.default_rng(8)))
    problem = tabular_problem(mdp, log, gamma=1.0, horizon=3)
    plain = TabularMDP(mdp.transitions, mdp.rewards, mdp.initial_probs, mdp.target, mdp.behavior, 1.0, mdp.reward_range)
    result = bondic.estimate_interval(problem, alpha=0.001, method=make_baseline(name))
    assert result.low <= plain.finite_value(3) <= result.high
    assert result.estimate == pytest.approx(plain.finite_value(3), abs=0.06)
