"""The world with s, a ∈ R: closed forms against brute-force quadrature, laws of states against Gaussians, both against draws.

Statistical tests use a fixed seed and 4 standard errors.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate

from bondic_lab.worlds.continuous import ContinuousMDP
from bondic_lab.worlds.occupancy import (
    density_ratio,
    efficient_variance,
    log_distribution,
    mean_under,
)

WORLDS = {
    "default": ContinuousMDP.default(0.95),
    "noisy": replace(ContinuousMDP.default(0.8, seed=3, reward_noise=0.2), bandwidth=0.7, offset=0.5, constant=-1.0),
    "contrary": replace(
        ContinuousMDP.default(0.9, seed=5, n_centers=3), gain=-1.0, reversion=0.2, push=0.7, initial_mean=-0.8
    ),
    "no gain": replace(ContinuousMDP.default(0.5, seed=6, n_centers=1), gain=0.0, noise=0.5),
}
every = pytest.mark.parametrize("mdp", WORLDS.values(), ids=WORLDS.keys())


def points(rng: np.random.Generator, n: int = 8) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(0, 1.2, (n, 1)), rng.normal(0, 1.2, (n, 1))


def slow_q(mdp: ContinuousMDP, s, a):
    total = mdp.constant
    for z, u, weight in zip(mdp.state_centers, mdp.action_centers, mdp.weights, strict=True):
        total += weight * np.exp(-((s - z) ** 2 + (a - u) ** 2) / (2 * mdp.bandwidth**2))
    return total


def normal(x, mean: float, variance: float):
    return np.exp(-((x - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)


def slow_v(mdp: ContinuousMDP, s: float) -> float:
    """∫ π(a|s) q*(s, a) da by Simpson's rule over 20 standard deviations."""
    reach = 10 * np.sqrt(mdp.target_temperature)
    actions = np.linspace(mdp.gain * s - reach, mdp.gain * s + reach, 401)
    integrand = normal(actions, mdp.gain * s, mdp.target_temperature) * slow_q(mdp, s, actions)
    return float(integrate.simpson(integrand, x=actions))


def slow_mean_v(mdp: ContinuousMDP, mean: float, variance: float, power: int = 1) -> float:
    """E v*(s)^power, s ~ N(mean, variance), by adaptive quadrature over 20 standard deviations."""
    reach = 10 * np.sqrt(variance)

    def integrand(s: float) -> float:
        return float(normal(s, mean, variance)) * slow_v(mdp, s) ** power

    return integrate.quad(integrand, mean - reach, mean + reach, epsabs=1e-11, epsrel=1e-10)[0]


def within_four_standard_errors(samples: np.ndarray, mean: float) -> bool:
    return abs(samples.mean() - mean) <= 4.0 * samples.std() / np.sqrt(len(samples))


# --- closed forms ---------------------------------------------------------------------------------------


@every
def test_values_and_rewards_are_the_integrals_they_claim(mdp, rng):
    states, actions = points(rng, 3)
    pairs = list(zip(states[:, 0], actions[:, 0], strict=True))
    np.testing.assert_allclose(mdp.q_star(states, actions), [slow_q(mdp, s, a) for s, a in pairs], rtol=1e-13)
    np.testing.assert_allclose(mdp.state_values(states), [slow_v(mdp, s) for s, _ in pairs], atol=1e-9)
    drifts = [mdp.reversion * s + mdp.push * a for s, a in pairs]
    means = np.array([slow_mean_v(mdp, drift, mdp.noise**2) for drift in drifts])
    squares = np.array([slow_mean_v(mdp, drift, mdp.noise**2, 2) for drift in drifts])
    slow = [slow_q(mdp, s, a) for s, a in pairs] - mdp.gamma * means
    np.testing.assert_allclose(mdp.expected_rewards(states, actions), slow, atol=1e-8)
    variances = mdp.reward_noise**2 + mdp.gamma**2 * (squares - means**2)
    np.testing.assert_allclose(mdp.residual_variances(states, actions), variances, atol=1e-8)
    assert mdp.value == pytest.approx(slow_mean_v(mdp, mdp.initial_mean, mdp.initial_variance), abs=1e-9)


@every
def test_bellman_equation(mdp, rng):
    """E[ q*(x) − γ q*(x') − r | x ] = 0 by Gauss–Hermite, which knows nothing of the closed forms of v*."""
    states, actions = points(rng, 300)
    np.testing.assert_allclose(mdp.expected_residuals(mdp.q_star, states, actions), 0.0, atol=1e-11)
    assert mdp.initial_mean_of(mdp.q_star) == pytest.approx(mdp.value, abs=1e-12)
    wrong = mdp.expected_residuals(lambda s, a: mdp.q_star(s, a) + 0.1, states, actions)
    np.testing.assert_allclose(wrong, 0.1 * (1 - mdp.gamma), atol=1e-11)


@every
def test_rewards_never_leave_the_range_and_come_close_to_it(mdp, rng):
    low, high = mdp.reward_range
    log = mdp.rollout(500, 40, rng)
    wide = rng.uniform(-12, 12, (2, 100_000, 1))
    # also where q* is flat and only the next value moves: along ρ s + b a = const
    far = rng.uniform(-60, 60, (20_000, 1))
    line = (rng.uniform(-4, 4, (20_000, 1)) - mdp.reversion * far) / mdp.push
    rewards = np.concatenate([mdp.expected_rewards(*wide), mdp.expected_rewards(far, line)])
    assert low <= min(log.rewards.min(), rewards.min() - mdp.reward_noise)
    assert max(log.rewards.max(), rewards.max() + mdp.reward_noise) <= high
    assert high - low < 1.1 * (np.ptp(rewards) + 2 * mdp.reward_noise)


# --- draws ----------------------------------------------------------------------------------------------


@every
def test_value_agrees_with_simulation_of_the_target(mdp, rng):
    log = mdp.rollout(4000, 150, rng, behavior="target")
    samples = np.bincount(log.episode_ids, weights=mdp.gamma**log.timesteps * log.rewards)
    tail = mdp.gamma**150 * max(map(abs, mdp.reward_range)) / (1 - mdp.gamma)
    error = samples.std() / np.sqrt(len(samples))
    assert abs(samples.mean() - mdp.value) <= 4 * error + tail
    assert error < 0.05


@every
@pytest.mark.parametrize("behavior", ["logging", "target", 0.4])
def test_logged_residuals_have_mean_zero_and_the_stated_variance(mdp, behavior, rng):
    log = mdp.rollout(1000, 20, rng, behavior=behavior)
    noise = mdp.q_star(log.observations, log.actions)
    noise = noise - mdp.gamma * mdp.state_values(log.next_observations) - log.rewards
    assert within_four_standard_errors(noise, 0.0)
    assert within_four_standard_errors(noise**2 - mdp.residual_variances(log.observations, log.actions), 0.0)
    assert noise.std() > 0.01


# --- laws of pairs --------------------------------------------------------------------------------------


@every
def test_the_efficient_variance_is_the_variance_of_the_ideal_estimate(mdp, rng):
    """V* = E_log[ (ω* R̂q*)² ] over draws, and by a grid twice as fine; two ways to weigh agree."""
    log = log_distribution(mdp, 20)
    ratio = density_ratio(mdp, log)
    found = efficient_variance(mdp, log)
    direct = mean_under(log, lambda s, a: ratio(s, a) ** 2 * mdp.residual_variances(s, a))
    assert found == pytest.approx(direct, rel=1e-9)
    rows = mdp.rollout(2000, 20, rng)
    noise = mdp.q_star(rows.observations, rows.actions) - mdp.gamma * mdp.state_values(rows.next_observations)
    terms = (ratio(rows.observations, rows.actions) * (noise - rows.rewards)) ** 2
    episodes = np.bincount(rows.episode_ids, weights=terms) / 20
    assert within_four_standard_errors(episodes, found)
