"""Environments are oracles: every closed form is checked against a slow, obvious twin or against simulation.

Statistical tests use a fixed seed and 4 standard errors: a false alarm has probability < 1e-4 per comparison.
"""

from dataclasses import replace

import numpy as np
import pytest

from bondic_lab.worlds.rollout import EXPLORE_AFTER_GAIN, EXPLORE_AFTER_LOSS, Rollout, exploration_rate
from bondic_lab.worlds.synthetic import SyntheticMDP
from bondic_lab.worlds.tabular import TabularMDP

SYNTHETIC = {
    "default": SyntheticMDP.default(0.8),
    "noisy, ends": replace(
        SyntheticMDP.default(0.9, seed=1, reward_noise=0.3, termination=0.2),
        constant=-2.0,
        offset=0.5,
        bandwidth=0.6,
        reversion=0.6,
    ),
    "2 dimensions": SyntheticMDP.default(0.8, seed=2, dimension=2, n_actions=3, termination=0.1),
}
TABULAR = {
    "plain": TabularMDP.random(np.random.default_rng(1)),
    "noisy, ends": TabularMDP.random(np.random.default_rng(2), reward_noise=0.2, termination=0.3),
}
EVERY = {**SYNTHETIC, **{f"tabular {name}": mdp for name, mdp in TABULAR.items()}}

synthetic = pytest.mark.parametrize("mdp", SYNTHETIC.values(), ids=SYNTHETIC.keys())
tabular = pytest.mark.parametrize("mdp", TABULAR.values(), ids=TABULAR.keys())
every = pytest.mark.parametrize("mdp", EVERY.values(), ids=EVERY.keys())


def returns(log: Rollout, gamma: float) -> np.ndarray:
    """Σ_t γ^t r_t per episode."""
    return np.bincount(log.episode_ids, weights=gamma**log.timesteps * log.rewards)


def within_four_standard_errors(samples: np.ndarray, mean: float) -> bool:
    """|sample mean − mean| ≤ 4 s / sqrt(n)."""
    return abs(samples.mean() - mean) <= 4.0 * samples.std() / np.sqrt(len(samples))


def slow_synthetic_q(mdp: SyntheticMDP, state: np.ndarray, action: int) -> float:
    """q*(s, a) by its definition, one term at a time."""
    total = mdp.constant
    for center, owner, weight in zip(mdp.centers, mdp.center_actions, mdp.weights, strict=True):
        if owner == action:
            total += weight * np.exp(-((state - center) @ (state - center)) / (2 * mdp.bandwidth**2))
    return float(total)


def slow_synthetic_v(mdp: SyntheticMDP, state: np.ndarray) -> float:
    """v*(s) = Σ_a π(a|s) q*(s, a) by its definition."""
    odds = [np.exp(weights @ state / mdp.target_temperature) for weights in mdp.score_weights]
    return float(sum(o * slow_synthetic_q(mdp, state, a) for a, o in enumerate(odds)) / sum(odds))


def slow_next_value(mdp: SyntheticMDP, state: np.ndarray, action: int) -> float:
    """(1 − T(s)) Σ_m p_m v*(ρ s + b_a + ξ_m) by its definition."""
    mean = mdp.reversion * state + mdp.drifts[action]
    total = sum(p * slow_synthetic_v(mdp, mean + jump) for p, jump in zip(mdp.jump_probs, mdp.jumps, strict=True))
    return float(total * (1 - mdp.termination / (1 + np.exp(-state[0]))))


def residuals(mdp: SyntheticMDP | TabularMDP, log: Rollout) -> np.ndarray:
    """R̂q*(x_i, y_i) of the log's rows, theory (2)."""
    if isinstance(mdp, SyntheticMDP):
        current, following = (
            mdp.q_star(log.observations, log.actions),
            mdp.state_values(log.next_observations),
        )
    else:
        current = mdp.q_star[log.observations[:, 0].astype(int), log.actions]
        following = mdp.v_star[log.next_observations[:, 0].astype(int)]
    return current - mdp.gamma * np.where(log.terminations, 0.0, following) - log.rewards


# --- both kinds ---------------------------------------------------------------------------------------


@every
def test_value_agrees_with_simulation_of_the_target_policy(mdp, rng):
    log = mdp.rollout(2000, 100, rng, behavior="target")  # 0.9^100 < 3e-5, a hundredth of a standard error
    samples = returns(log, mdp.gamma)
    assert within_four_standard_errors(samples, mdp.value)
    # The test has power: it tells J* from a value 10 standard errors away, and that is a small change.
    assert not within_four_standard_errors(samples, mdp.value + 10 * samples.std() / np.sqrt(2000))
    assert samples.std() / np.sqrt(2000) < 0.05


@every
def test_rewards_never_leave_the_range(mdp, rng):
    low, high = mdp.reward_range
    behaviors = {"logging": 18_000, "target": 1000, "adaptive": 1000}
    logs = [mdp.rollout(n, 12, rng, behavior=name) for name, n in behaviors.items()]
    rewards = np.concatenate([log.rewards for log in logs])
    assert len(rewards) > 100_000
    assert low <= rewards.min()
    assert rewards.max() <= high


@every
@pytest.mark.parametrize("behavior", ["logging", "adaptive"])
def test_rollout_columns_and_flags(mdp, behavior, rng):
    n_episodes, length = 200, 12
    log = mdp.rollout(n_episodes, length, rng, behavior=behavior)
    n, d = log.observations.shape
    assert d == (mdp.centers.shape[1] if isinstance(mdp, SyntheticMDP) else 1)
    assert log.next_observations.shape == (n, d)
    assert all(len(column) == n for column in vars(log).values())
    assert log.actions.dtype.kind == log.episode_ids.dtype.kind == log.timesteps.dtype.kind == "i"
    assert log.terminations.dtype == log.truncations.dtype == np.bool_
    assert not any(column.flags.writeable for column in vars(log).values())
    assert np.array_equal(np.unique(log.episode_ids), np.arange(n_episodes))
    assert np.all((log.behavior_action_probs > 0) & (log.behavior_action_probs <= 1))
    for episode in range(n_episodes):
        rows = np.flatnonzero(log.episode_ids == episode)
        assert np.array_equal(log.timesteps[rows], np.arange(len(rows)))
        ends = log.terminations[rows] | log.truncations[rows]
        assert ends[-1]
        assert not ends[:-1].any()
        assert log.truncations[rows[-1]] == (not log.terminations[rows[-1]])
        assert log.terminations[rows[-1]] or len(rows) == length
        assert np.array_equal(log.observations[rows[1:]], log.next_observations[rows[:-1]])


@every
def test_adaptive_probabilities_follow_from_all_earlier_rewards(mdp, rng):
    log = mdp.rollout(40, 20, rng, behavior="adaptive")
    if isinstance(mdp, SyntheticMDP):
        base = mdp.behavior_probs(log.observations)
    else:
        base = mdp.behavior[log.observations[:, 0].astype(int)]
    total, last, rates = 0.0, 0.0, []
    for row, reward in enumerate(log.rewards):
        rates.append(exploration_rate(last, total / max(row, 1)))
        total, last = total + reward, reward
    rates = np.array(rates)
    assert {EXPLORE_AFTER_GAIN, EXPLORE_AFTER_LOSS} == set(rates)
    taken = base[np.arange(len(rates)), log.actions]
    np.testing.assert_allclose(
        log.behavior_action_probs, (1 - rates) * taken + rates / base.shape[1], rtol=0, atol=1e-15
    )


@every
@pytest.mark.parametrize("behavior", ["logging", "adaptive"])
def test_logged_residuals_of_q_star_have_mean_zero_and_the_stated_variance(mdp, behavior, rng):
    log = mdp.rollout(2000, 10, rng, behavior=behavior)
    noise = residuals(mdp, log)
    if isinstance(mdp, SyntheticMDP):
        variances = mdp.residual_variances(log.observations, log.actions)
    else:
        variances = mdp.residual_variances[log.observations[:, 0].astype(int), log.actions]
    assert within_four_standard_errors(noise, 0.0)
    assert within_four_standard_errors(noise**2 - variances, 0.0)
    # Martingale differences: also uncorrelated with what the adaptive behavior looks at.
    assert within_four_standard_errors(noise[1:] * noise[:-1], 0.0)
    assert variances.mean() > 1e-3


# --- synthetic ----------------------------------------------------------------------------------------


def random_points(mdp: SyntheticMDP, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """States uniform in the state box, actions uniform."""
    return rng.uniform(*mdp.state_box, (n, mdp.centers.shape[1])), rng.integers(mdp.n_actions, size=n)


@synthetic
def test_bellman_equation_by_the_slow_definition(mdp, rng):
    states, actions = random_points(mdp, rng, 60)
    rewards = mdp.expected_rewards(states)[np.arange(60), actions]
    for state, action, reward in zip(states, actions, rewards, strict=True):
        left = slow_synthetic_q(mdp, state, action)
        assert abs(left - reward - mdp.gamma * slow_next_value(mdp, state, action)) <= 1e-12
    slow = [slow_synthetic_q(mdp, s, a) for s, a in zip(states, actions, strict=True)]
    np.testing.assert_allclose(mdp.q_star(states, actions), slow, rtol=0, atol=1e-12)


# --- tabular ------------------------------------------------------------------------------------------


def with_reward_by_next_state(rng: np.random.Generator, **options: float) -> TabularMDP:
    """A random problem whose reward depends on s'."""
    mdp = TabularMDP.random(rng, n_states=3, n_actions=2, termination=0.4, **options)
    return replace(mdp, rewards=rng.uniform(0.2, 0.8, (3, 2, 3)))


@tabular
def test_q_star_solves_the_bellman_equation(mdp):
    S, A = mdp.target.shape
    for s in range(S):
        for a in range(A):
            following = sum(mdp.transitions[s, a, t] * mdp.target[t] @ mdp.q_star[t] for t in range(S))
            right = mdp.transitions[s, a] @ mdp.rewards[s, a] + mdp.gamma * (1 - mdp.termination[s, a]) * following
            assert abs(mdp.q_star[s, a] - right) <= 1e-12
    assert np.abs(mdp.expected_residuals(mdp.q_star)).max() <= 1e-12
    assert mdp.value == pytest.approx(np.sum(mdp.initial_pairs * mdp.q_star), abs=1e-13)


def brute_force(mdp: TabularMDP, state: int, action: int, steps: int) -> float:
    """E Σ γ^t r_t over `steps` steps, by listing every path."""
    if steps == 0:
        return 0.0
    total = 0.0
    for following, p in enumerate(mdp.transitions[state, action]):
        for zeta, weight in zip(mdp.noise_values, mdp.noise_probs, strict=True):
            total += p * weight * (mdp.rewards[state, action, following] + zeta)
        for chosen, probability in enumerate(mdp.target[following]):
            later = brute_force(mdp, following, chosen, steps - 1)
            total += p * (1 - mdp.termination[state, action]) * probability * mdp.gamma * later
    return total


@pytest.mark.parametrize("gamma", [0.7, 1.0])
def test_finite_horizon_against_every_path(gamma, rng):
    mdp = with_reward_by_next_state(rng, gamma=gamma, reward_noise=0.1)
    table = mdp.finite_horizon(4)
    assert table.shape == (5, 3, 2)
    assert np.all(table[4] == 0.0)
    for time in range(5):
        slow = [[brute_force(mdp, s, a, 4 - time) for a in range(2)] for s in range(3)]
        np.testing.assert_allclose(table[time], slow, rtol=0, atol=1e-12)
    for time in range(4):
        assert np.abs(mdp.expected_residuals(table[time], table[time + 1])).max() <= 1e-12
    assert mdp.finite_value(4) == pytest.approx(np.sum(mdp.initial_pairs * table[0]), abs=1e-14)


@tabular
def test_visitation_is_the_discounted_sum(mdp):
    states, total, mass = mdp.initial_probs, np.zeros_like(mdp.target), 0.0
    for time in range(400):
        pairs = states[:, None] * mdp.target
        total += mdp.gamma**time * pairs
        mass += mdp.gamma**time * pairs.sum()
        states = sum(
            pairs[s, a] * (1 - mdp.termination[s, a]) * mdp.transitions[s, a] for s, a in np.ndindex(pairs.shape)
        )
    np.testing.assert_allclose(mdp.visitation, total, rtol=0, atol=1e-12)
    assert mdp.visitation.sum() == pytest.approx(mass, abs=1e-12)
    if np.max(mdp.termination) == 0:
        assert mass == pytest.approx(1 / (1 - mdp.gamma), abs=1e-12)
    else:
        assert mass < 0.9 / (1 - mdp.gamma)
    assert mdp.value == pytest.approx(np.sum(mdp.visitation * mdp.expected_rewards), abs=1e-12)


@tabular
def test_density_ratio_balances_the_log(mdp, rng):
    log = mdp.log_distribution(7)
    ratio = mdp.density_ratio(log)
    for _ in range(20):
        f = rng.standard_normal(mdp.target.shape)
        values = np.sum(mdp.target * f, axis=1)
        following = (1 - mdp.termination) * np.einsum("sat,t->sa", mdp.transitions, values)
        balance = np.sum(mdp.initial_pairs * f) + np.sum(log * ratio * (mdp.gamma * following - f))
        assert abs(balance) <= 1e-12
        wrong = np.sum(mdp.initial_pairs * f) + np.sum(log * (mdp.gamma * following - f)) / (1 - mdp.gamma)
        assert abs(wrong) > 1e-6
