"""The interval from propensities: means of what is weighed, verification, refusals, and agreement of all ways to ask."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bondic
from bondic import Propensities
from bondic.core.classes.provenance import Provenance
from bondic.core.errors import InvalidInput, VerificationError
from bondic.core.propensities.control import StoredControl
from bondic.core.propensities.control_fit import episode_control, fit_linear, linear_control
from bondic.core.propensities.decision_values import Stated, free_values, robust_values
from bondic.core.propensities.decisions import ask_target, read_decisions
from bondic.core.propensities.episode_values import (
    cumulative,
    largest_sum,
    per_decision_values,
    returns_with,
    robust_returns,
    whole_values,
)
from bondic.core.propensities.ratios import logged_ratios
from bondic.methods.propensity_breakdown import breakdown_factor
from bondic.report.page import report_page
from conformance_proofs import Answer, ProofCase
from propensity_cases import (
    BEHAVIOR,
    GAIN,
    GAMMA,
    LARGEST,
    MOVE,
    PI,
    REWARD,
    STATES,
    STEPS,
    TARGET,
    VALUE,
    ThreeStates,
    TwoStates,
    all_walks,
    decisions,
    drawn_walks,
    interval,
    one_step,
    question,
    walk_log,
    walk_value,
)

CAPPED = Propensities(largest_ratio=LARGEST)


def every_outcome(low=0.0, high=1.0, behavior=BEHAVIOR, stated=None):
    """A log with every (situation, action, reward) once, and the probability of each."""
    cells = [(s, a, r) for s in range(3) for a in range(2) for r in (0, 1)]
    situation, action, won = (np.array(column) for column in zip(*cells, strict=True))
    chance = behavior[situation, action] * np.where(won, REWARD[situation, action], 1 - REWARD[situation, action]) / 3
    written = (behavior if stated is None else stated)[situation, action]
    log = one_step(STATES[situation], action, low + (high - low) * won.astype(float), behavior_action_probs=written)
    return log, chance


def columns_of(problem, *, every_action=False):
    return read_decisions(problem, ask_target(problem, every_action=every_action), every_action=every_action)


# --- means of what is weighed ---------------------------------------------------------------------------


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.0, -1.0), (2.0, 2.5), (-1.0, 4.0)])
@pytest.mark.parametrize("end", ["lower", "upper"])
def test_weighted_rewards_have_the_mean_of_the_policy(low, high, end):
    log, chance = every_outcome(low, high)
    columns = columns_of(question(log, reward_range=(low, high))).seen_from(end)
    values = free_values(columns, 1.0)
    assert np.all(values >= columns.limits.low)
    assert columns.sign * float(chance @ values) == pytest.approx(low + (high - low) * VALUE, rel=1e-12)


@pytest.mark.parametrize("end", ["lower", "upper"])
def test_wrong_propensities_within_the_factor_keep_the_mean_on_the_safe_side(end):
    """b° <= Γ b: both ends divide by Γ."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        stated = BEHAVIOR / rng.uniform(0.5, 1.6, BEHAVIOR.shape)
        log, chance = every_outcome(stated=np.minimum(stated, 1.0))
        factor = float((BEHAVIOR / np.minimum(stated, 1.0)).max())
        columns = columns_of(question(log)).seen_from(end)
        mean = float(chance @ free_values(columns, max(factor, 1.0)))
        assert mean <= columns.sign * VALUE + 1e-12


def test_without_overlap_both_ends_stay_on_the_safe_side():
    """The behavior never takes action 1 in the first situation: weighed means only move outward."""
    behavior = BEHAVIOR.copy()
    behavior[0] = (1.0, 0.0)
    log, chance = every_outcome(behavior=behavior, stated=np.where(behavior > 0, behavior, 0.5))
    below, above = (columns_of(question(log)).seen_from(end) for end in ("lower", "upper"))
    assert float(chance @ free_values(below, 1.0)) < VALUE - 0.05
    assert -float(chance @ free_values(above, 1.0)) > VALUE + 0.01


@pytest.mark.parametrize("end", ["lower", "upper"])
@pytest.mark.parametrize("by_action", [True, False])
def test_doubly_robust_values_have_the_same_mean_whatever_is_predicted(end, by_action):
    """X = E_π[q̂] + ρ (r - q̂), and none of them is below its floor."""
    rng = np.random.default_rng(1)
    log, chance = every_outcome()
    first = one_step(STATES[:1], np.zeros(1, dtype=int), np.zeros(1), behavior_action_probs=np.array([0.6]))
    both = bondic.Transitions(
        *(np.concatenate([getattr(one, name) for one in (first, log)])
          for name in ("observations", "actions", "rewards", "next_observations", "terminations")),
        behavior_action_probs=np.concatenate([first.behavior_action_probs, log.behavior_action_probs]),
    )  # fmt: skip
    guess = rng.uniform(-0.2, 1.2, (3, 2 if by_action else 1))[np.searchsorted(STATES[:, 0], log.observations[:, 0])]
    control = StoredControl(0, (1,), (0.1, 0.8), (0.5, 1.0), guess)
    columns = columns_of(question(both), every_action=by_action).seen_from(end)
    found = robust_values(columns, control, Stated(largest_ratio=LARGEST))
    assert found.first == 1
    assert columns.sign * float(chance @ found.values) == pytest.approx(VALUE, rel=1e-12)
    assert np.all(found.values >= found.floor)
    assert np.all(found.values >= found.centers - found.losses - 1e-12)


@pytest.mark.parametrize("end", ["lower", "upper"])
def test_per_decision_values_of_complete_episodes_have_the_mean_of_the_policy(end):
    paths, weights = zip(*all_walks(), strict=True)
    problem = question(walk_log(paths), TwoStates(), reward_range=(-0.5, 2.0), gamma=0.8, horizon=STEPS)
    columns = columns_of(problem).seen_from(end)
    values, floor = per_decision_values(columns, 1.0)
    assert np.all(values >= floor)
    assert columns.sign * float(np.array(weights) @ values) == pytest.approx(walk_value(STEPS), rel=1e-12)


@pytest.mark.parametrize("rewards", [(-0.5, 2.0), (-0.5, 9.0), (-4.0, 2.0)])
@pytest.mark.parametrize("end", ["lower", "upper"])
def test_episodes_that_were_cut_stay_on_the_safe_side(end, rewards):
    """Cut after three steps, or where state 1 is reached: what is missing is left out of a sum of terms >= 0."""
    for cut in (None, lambda path: path[-1][3] == 1):
        paths, weights = zip(*all_walks(cut=cut), strict=True)
        problem = question(walk_log(paths), TwoStates(), reward_range=rewards, gamma=0.8)
        columns = columns_of(problem).seen_from(end)
        values, floor = per_decision_values(columns, 1.0)
        assert np.all(values >= floor)
        assert float(np.array(weights) @ values) <= columns.sign * walk_value() + 1e-12
        assert float(np.array(weights) @ values) > floor


@pytest.mark.parametrize("end", ["lower", "upper"])
def test_weights_of_whole_episodes_with_a_stated_value_range(end):
    paths, weights = zip(*all_walks(), strict=True)
    stated = {"reward_range": (-0.5, 2.0), "gamma": 0.8, "value_range": (-1.5, 5.0)}
    columns = columns_of(question(walk_log(paths), TwoStates(), **stated)).seen_from(end)
    values, floor = whole_values(columns, 1.0)
    assert np.all(values >= floor)
    assert float(np.array(weights) @ values) <= columns.sign * walk_value() + 1e-12
    whole = columns_of(question(walk_log(paths), TwoStates(), horizon=STEPS, **stated)).seen_from(end)
    assert columns.sign * float(np.array(weights) @ whole_values(whole, 1.0)[0]) == pytest.approx(walk_value(STEPS))


@pytest.mark.parametrize("end", ["lower", "upper"])
def test_the_value_after_a_cut_is_bounded_at_its_own_time(end):
    """Rewards in [1, 2] for five steps, every episode cut after two: v_0 is far above v_2, which is all that is known."""
    log = bondic.Transitions(
        np.zeros((4, 1)), np.zeros(4, dtype=int), np.array([1.5, 1.0, 1.0, 2.0]), np.zeros((4, 1)), np.zeros(4, dtype=bool),
        truncations=np.array([False, True] * 2), episode_ids=np.array([0, 0, 1, 1]), timesteps=np.array([0, 1] * 2),
        behavior_action_probs=np.ones(4),
    )  # fmt: skip
    stated = {
        "reward_range": (1.0, 2.0),
        "gamma": 1.0,
        "horizon": 5,
        "may_terminate": False,
        "value_range": (0.0, 11.0),
    }
    columns = columns_of(question(log, bondic.TablePolicy([[1.0]]), **stated)).seen_from(end)
    expected = [2.5 + 3.0, 3.0 + 3.0] if end == "lower" else [-(2.5 + 6.0), -(3.0 + 6.0)]
    assert whole_values(columns, 1.0)[0] == pytest.approx(expected)
    assert per_decision_values(columns, 1.0)[0] == pytest.approx(expected)


@pytest.mark.parametrize("end", ["lower", "upper"])
@pytest.mark.parametrize("horizon", [STEPS, None])
@pytest.mark.parametrize("by_action", [False, True])
def test_doubly_robust_returns_have_the_mean_of_the_policy_and_a_floor(end, horizon, by_action):
    """Whatever is predicted; where episodes are cut the mean stays on the safe side."""
    rng = np.random.default_rng(3)
    paths, weights = zip(*all_walks(), strict=True)
    stated = {"reward_range": (-0.5, 2.0), "gamma": 0.8} | ({} if horizon is None else {"horizon": horizon})
    log = walk_log([paths[0], *paths])
    columns = read_decisions(question(log, TwoStates(), **stated), None, every_action=by_action).seen_from(end)
    first = len(paths[0])
    table = rng.uniform(-1.0, 4.0, (2, STEPS, 2 if by_action else 1))
    guess = table[log.observations[first:, 0].astype(int), log.timesteps[first:]]
    control = StoredControl(0, (first,), (-0.3, 3.0), (0.5, 1.0), guess)
    found = robust_returns(columns, control, Stated(largest_ratio=1.02 if horizon is None else 2.25))
    mean, value = float(np.array(weights) @ found.values), columns.sign * walk_value(horizon)
    assert found.first == 1
    if horizon is None:
        assert mean <= value + 1e-12
    else:
        assert mean == pytest.approx(value, rel=1e-12)
        assert np.all(found.values >= found.floor)


@pytest.mark.parametrize("end", ["lower", "upper"])
def test_doubly_robust_returns_are_their_formula(end):
    """A loop over the steps of every episode, with v̂ as a sum over the actions."""
    log = drawn_walks(25, seed=4)
    stated = {"reward_range": (-0.5, 2.0), "gamma": GAMMA, "horizon": STEPS}
    columns = read_decisions(question(log, TwoStates(), **stated), None, every_action=True).seen_from(end)
    q = np.random.default_rng(5).uniform(-1.0, 4.0, (len(log), 2))
    taken, means = q[np.arange(len(log)), log.actions], (PI[log.observations[:, 0].astype(int)] * q).sum(axis=1)
    expected = []
    for episode in range(25):
        rows = np.flatnonzero(log.episode_ids == episode)
        total, weight = means[rows[0]], 1.0
        for t, row in enumerate(rows):
            weight *= PI[int(log.observations[row, 0]), log.actions[row]] / log.behavior_action_probs[row]
            after = means[row + 1] if row != rows[-1] else 0.0
            total += GAMMA**t * weight * (columns.sign * log.rewards[row] + GAMMA * after - taken[row])
        expected.append(total)
    found = returns_with(columns, taken, means)
    assert found == pytest.approx(np.array(expected), abs=1e-10)
    assert np.all(found <= np.array(expected))


def test_temporal_differences_with_actions_find_the_value_of_every_pair():
    """Two states, so that a line through them is every function: q* of an endless walk, up to the penalty and the noise."""
    log = drawn_walks(6000, seed=6)
    stated = {"reward_range": (-0.5, 2.0), "gamma": GAMMA}
    columns = read_decisions(question(log, TwoStates(), **stated), None, every_action=True)
    border = int(np.flatnonzero(log.episode_ids == 5900)[0])
    control = episode_control(columns, (border,))
    assert control.by_action
    found = [control.predict(np.array([border]), np.array([[state, 0.0]]))[0] for state in (0.0, 1.0)]
    value = np.zeros(2)
    for _ in range(300):
        value = (PI * (GAIN + GAMMA * MOVE[:, :, :2] @ value)).sum(axis=1)
    assert np.abs(np.array(found) - (GAIN + GAMMA * MOVE[:, :, :2] @ value)).max() < 0.1


def test_products_of_ratios_are_bounded_by_a_horizon_or_by_the_discount():
    problem = question(drawn_walks(5), TwoStates(), reward_range=(-0.5, 2.0), gamma=0.8)
    columns = columns_of(problem)
    assert largest_sum(columns.terms, 1.2) == pytest.approx(1.2 / (1 - 0.96))
    assert math.isinf(largest_sum(columns.terms, 1.25))
    bounded = replace(columns, terms=replace(columns.terms, horizon=3))
    assert largest_sum(bounded.terms, 2.0) == pytest.approx(2 + 0.8 * 4 + 0.64 * 8)
    assert math.isinf(largest_sum(replace(columns.terms, horizon=10**6), 2.0))
    assert largest_sum(replace(columns.terms, gamma=0.0, horizon=3), 2.0) == pytest.approx(2.0)


def test_products_of_ratios_begin_anew_in_every_episode():
    log = drawn_walks(40)
    columns = columns_of(question(log, TwoStates(), reward_range=(-0.5, 2.0), gamma=0.8))
    found = cumulative(columns, 1.1)
    for episode in range(40):
        mine = columns.episodes == episode
        expected = np.cumprod(columns.ratios.values[mine] / 1.1)
        assert np.all(np.abs(found.values[mine] - expected) <= expected * found.errors[mine])
    assert found.errors.max() < 1e-13


def test_ratios_from_logarithms_and_from_probabilities_agree_within_their_errors():
    log, _ = every_outcome()
    logs = one_step(
        log.observations, log.actions, log.rewards, behavior_log_probs=np.log(log.behavior_action_probs),
        target_log_probs=np.log(TARGET[np.searchsorted(STATES[:, 0], log.observations[:, 0]), log.actions]),
    )  # fmt: skip
    direct = TARGET[np.searchsorted(STATES[:, 0], log.observations[:, 0]), log.actions]
    one, two = logged_ratios(log, direct, 2), logged_ratios(logs, None, 2)
    assert np.all(np.abs(one.values - two.values) <= one.values * (one.errors + two.errors))
    assert np.all(one.low() <= one.values)


def test_ridge_is_the_solution_of_its_normal_equations():
    rng = np.random.default_rng(4)
    design = np.column_stack([np.ones(60), rng.normal(size=(60, 2))])
    slots, rewards = rng.integers(0, 3, 60), rng.normal(size=60)
    found = fit_linear(design, slots, rewards, 4)
    # the same as one big ridge regression with shared and own columns, penalties 1 and 20
    wide = np.zeros((60, 15))
    wide[:, :3] = design
    for action in range(4):
        mine = slots == action
        wide[mine, 3 + 3 * action : 6 + 3 * action] = design[mine]
    penalty = np.diag([1.0] * 3 + [20.0] * 12)
    weights = np.linalg.solve(wide.T @ wide + penalty, wide.T @ rewards)
    expected = weights[:3, None] + weights[3:].reshape(4, 3).T
    assert found == pytest.approx(expected, abs=1e-12)


def test_a_control_variate_sees_no_row_of_its_block():
    log = decisions(900)
    columns = columns_of(question(log), every_action=True)
    borders = (100, 200, 400)
    before = linear_control(columns, borders)
    rewards = columns.rewards.copy()
    rewards[400:] = 1.0 - rewards[400:]
    after = linear_control(replace(columns, rewards=rewards), borders)
    assert np.array_equal(before.coefficients, after.coefficients)
    assert (before.clip, before.expected) == (after.clip, after.expected)


# --- intervals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method",
    [
        Propensities(),
        CAPPED,
        Propensities(least_behavior_prob=0.2),
        Propensities(value="contexts"),
        Propensities(value="contexts", largest_ratio=LARGEST),
        Propensities(off_by=1.1),
        Propensities(largest_ratio=LARGEST, model=None),
    ],
)
def test_intervals_hold_the_value_and_verify(method):
    log = decisions(4000)
    result = interval(log, method)
    assert result.status is bondic.Status.INTERVAL
    assert VALUE in result.interval
    assert result.low <= result.estimate <= result.high
    assert result.is_assumption_free
    again = bondic.verify(result.certificate, log)
    assert (again.low, again.high) == pytest.approx((result.low, result.high), rel=1e-12)
    assert bondic.verify(result.certificate, log, ThreeStates()).status == "INTERVAL"


def test_a_control_variate_shortens_the_interval_of_predictable_rewards():
    states = np.random.default_rng(0).normal(size=(6000, 1))
    rng = np.random.default_rng(1)
    actions = rng.integers(0, 2, 6000)
    rewards = np.clip(0.5 + 0.15 * states[:, 0] * (2 * actions - 1) + 0.05 * rng.normal(size=6000), 0, 1)
    log = one_step(states, actions, rewards, behavior_action_probs=np.full(6000, 0.5))
    policy = bondic.CallablePolicy(lambda s: np.where(np.arange(2) == (s[:, :1] > 0), 0.95, 0.05))
    free, capped = (
        interval(log, method, policy=policy) for method in (Propensities(), Propensities(largest_ratio=1.9))
    )
    assert capped.length < 0.6 * free.length


def test_mirrored_rewards_mirror_the_interval():
    log = decisions(1500)
    other = one_step(log.observations, log.actions, 1.0 - log.rewards, behavior_action_probs=log.behavior_action_probs)
    one, two = interval(log, Propensities()), interval(other, Propensities())
    assert two.low == pytest.approx(1.0 - one.high, abs=1e-9)
    assert two.high == pytest.approx(1.0 - one.low, abs=1e-9)


@pytest.mark.parametrize("scale", [1e-3, 7.0, 1e5])
def test_scaled_rewards_scale_the_interval(scale):
    log = decisions(1500)
    other = one_step(
        log.observations, log.actions, scale * log.rewards, behavior_action_probs=log.behavior_action_probs
    )
    one, two = interval(log, CAPPED), interval(other, CAPPED, reward_range=(0.0, scale))
    assert (two.low, two.high) == pytest.approx((scale * one.low, scale * one.high), rel=1e-6)


def test_smaller_alpha_and_larger_factors_give_longer_intervals():
    log = decisions(2000)
    lengths = [interval(log, Propensities(), alpha=alpha).length for alpha in (0.2, 0.1, 0.01)]
    assert lengths == sorted(lengths)
    results = [interval(log, Propensities(off_by=factor)) for factor in (1.0, 1.05, 1.5, 4.0)]
    for inner, outer in itertools.pairwise(results):
        assert outer.low <= inner.low
        assert outer.high >= inner.high


def test_one_side_has_all_of_alpha():
    log = decisions(1500)
    both, lower = interval(log, Propensities(), alpha=0.1), interval(log, Propensities(side="lower"), alpha=0.05)
    assert lower.low == pytest.approx(both.low, abs=1e-9)
    assert lower.high == pytest.approx(1.0)


def test_columns_of_the_log_say_the_same_as_the_policy():
    log = decisions(1200)
    places = np.searchsorted(STATES[:, 0], log.observations[:, 0])
    columns = {"behavior_action_probs": log.behavior_action_probs, "target_action_probs": TARGET[places, log.actions]}
    told = one_step(log.observations, log.actions, log.rewards, **columns)
    by_policy = interval(log, Propensities())
    by_log = interval(told, Propensities(), policy=bondic.LoggedTarget())
    assert (by_log.low, by_log.high) == pytest.approx((by_policy.low, by_policy.high), rel=1e-9)
    found = bondic.verify(by_log.certificate, told)
    assert "the policy is the one of the log's own columns" in found.checks
    assert not found.headline
    with pytest.raises(VerificationError, match="leave the policy out"):
        bondic.verify(by_log.certificate, told, ThreeStates())


@pytest.mark.parametrize("method", [Propensities(), CAPPED])
def test_certificates_without_rows_ask_the_policy_again(method):
    log = decisions(1200)
    problem = question(log)
    result = bondic.estimate_interval(problem, method=method).without_rows(problem)
    long = [name for name, array in result.certificate.arrays.items() if len(log) in array.shape]
    assert long == ["asked.start.weights"]  # all equal: they say how many there were
    with pytest.raises(VerificationError, match="Pass the policy"):
        bondic.verify(result.certificate, log)
    assert bondic.verify(result.certificate, log, ThreeStates()).low == pytest.approx(result.low, rel=1e-9)


def test_episodes_hold_the_value_and_verify():
    log = drawn_walks(3000)
    stated = {"policy": TwoStates(), "reward_range": (-0.5, 2.0), "gamma": 0.8}
    for more in ({}, {"horizon": STEPS}, {"value_range": (-1.5, 5.0)}):
        result = interval(log, Propensities(), **stated, **more)
        assert walk_value(more.get("horizon")) in result.interval
        assert result.status is bondic.Status.INTERVAL
        assert bondic.verify(result.certificate, log, TwoStates()).low == pytest.approx(result.low, rel=1e-9)


def two_steps(n, seed=0):
    """Episodes of two steps whose rewards follow the state, and a behavior that differs from the policy."""
    rng = np.random.default_rng(seed)
    state, action = rng.integers(0, 2, (n, 2)), rng.integers(0, 2, (n, 2))
    reward = np.clip(0.1 + 0.7 * state + 0.1 * action + 0.03 * rng.normal(size=(n, 2)), 0, 1)
    following = np.column_stack([state[:, 1], np.zeros(n, dtype=int)])
    return bondic.Transitions(
        state.reshape(-1, 1).astype(float), action.ravel(), reward.ravel(), following.reshape(-1, 1).astype(float),
        np.tile([False, True], n), episode_ids=np.repeat(np.arange(n), 2), timesteps=np.tile([0, 1], n),
        behavior_action_probs=np.full(2 * n, 0.5),
    )  # fmt: skip


def test_doubly_robust_returns_shorten_the_interval_of_short_episodes():
    log, policy = two_steps(3000), bondic.TablePolicy([[0.1, 0.9], [0.1, 0.9]])
    stated = {"policy": policy, "gamma": 1.0, "horizon": 2}
    free, capped = (interval(log, method, **stated) for method in (Propensities(), Propensities(largest_ratio=1.8)))
    assert "doubly robust" in capped.choices["weighed"]
    assert 2 * (0.45 + 0.09) in capped.interval
    assert capped.length < 0.8 * free.length
    found = bondic.verify(capped.certificate, log, policy)
    assert any("fitted again" in text for text in found.checks)
    unbounded = interval(log, Propensities(largest_ratio=1.8), policy=policy, gamma=0.9)
    assert "doubly robust" not in unbounded.choices["weighed"]
    with pytest.raises(InvalidInput, match="single decisions"):
        interval(log, Propensities(largest_ratio=1.8, model=Mean()), **stated)


class Mean:
    """The simplest regressor: the mean of what it was fitted on."""

    def fit(self, X, y):
        self.mean, self.width = float(y.mean()), X.shape[1]

    def predict(self, X):
        assert X.shape[1] == self.width
        return np.full(len(X), self.mean)


def test_any_regressor_can_be_the_control_variate():
    log = decisions(2000)
    result = interval(log, Propensities(largest_ratio=LARGEST, model=Mean()))
    assert VALUE in result.interval
    found = bondic.verify(result.certificate, log)
    assert "when the plan was made" in found.headline
    with pytest.raises(VerificationError, match="regressor"):
        bondic.verify(result.certificate, log, replay=True)
    with pytest.raises(InvalidInput, match="one for every row"):
        result.without_rows(question(log))


@pytest.mark.parametrize("method", [Propensities(), CAPPED, Propensities(value="contexts", least_behavior_prob=0.2)])
def test_a_log_that_is_read_in_batches_gives_the_same_interval(method):
    log = decisions(900)
    data = {name: column for name, column in log.columns().items() if column is not None}
    stream = bondic.stream_log(data, batch_rows=70)
    held, read = interval(log, method), interval(stream, method)
    assert (read.low, read.high) == (held.low, held.high)
    assert read.proof.target is None
    again = bondic.verify(read.certificate, stream, ThreeStates())
    assert (again.low, again.high) == pytest.approx((held.low, held.high), rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 1e-9, 0.3, 1.0, 7.0, 1e6, 1e200]), st.floats(0, 1)), min_size=1, max_size=30
    ),
    st.sampled_from([(0.0, 1.0), (-5.0, -2.0), (1e6, 1e6 + 1e-3), (3.0, 3.0), (-1e-8, 1e8)]),
    st.sampled_from(
        [Propensities(), Propensities(off_by=3.0), Propensities(largest_ratio=1e201), Propensities(side="upper")]
    ),
)
def test_any_log_gives_an_interval_inside_the_range_that_verifies(rows, limits, method):
    """Ratios from 0 to 1e200, ranges of any size: nothing overflows, and nothing is claimed beyond the range."""
    low, high = limits
    ratios, shares = (np.array(column) for column in zip(*rows, strict=True))
    rewards = np.clip(low + (high - low) * shares, low, high)
    log = one_step(
        np.zeros((len(rows), 1)), np.zeros(len(rows), dtype=int), rewards,
        behavior_log_probs=np.full(len(rows), -500.0),
        target_log_probs=np.minimum(np.log(np.maximum(ratios, 1e-300)) - 500.0, 0.0),
    )  # fmt: skip
    result = interval(log, method, policy=bondic.LoggedTarget(), reward_range=limits)
    slack = 1e-9 * max(abs(low), abs(high))
    assert low - slack <= result.low <= result.high <= high + slack
    assert bondic.verify(result.certificate, log).status == result.status.name


# --- the breakdown factor -------------------------------------------------------------------------------


def test_breakdown_factor_is_where_the_decision_falls():
    problem = question(decisions(4000))
    found = breakdown_factor(problem, above=0.5)
    assert found is not None
    assert found > 1.0
    ends = {
        factor: bondic.estimate_interval(problem, method=Propensities(off_by=factor, side="lower")).low
        for factor in (found, found * 1.3)
    }
    assert ends[found] > 0.5 > ends[found * 1.3]
    assert breakdown_factor(problem, above=0.9) is None
    assert breakdown_factor(problem, below=0.9) >= 1.0
    for wrong in ({}, {"above": 0.1, "below": 0.2}, {"above": 0.5, "factors": (1.5, 2.0)}):
        with pytest.raises(InvalidInput):
            breakdown_factor(problem, **wrong)


# --- refusals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"value": "these"},
        {"off_by": 0.5},
        {"off_by": math.nan},
        {"largest_ratio": 0.0},
        {"least_behavior_prob": 1.5},
        {"model": 3},
        {"planned": 0},
    ],
)
def test_options_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        Propensities(**wrong)


def test_a_bound_that_the_log_refutes_is_refused():
    with pytest.raises(InvalidInput, match="above the stated bound"):
        interval(decisions(500), Propensities(largest_ratio=1.5))


def test_a_log_without_propensities_is_refused():
    log = decisions(100)
    bare = one_step(log.observations, log.actions, log.rewards)
    with pytest.raises(InvalidInput, match="no propensities"):
        interval(bare, Propensities())


def test_contexts_are_for_single_decisions():
    stated = {"policy": TwoStates(), "reward_range": (-0.5, 2.0), "gamma": 0.8}
    with pytest.raises(InvalidInput, match="single decisions"):
        interval(drawn_walks(50), Propensities(value="contexts"), **stated)


def test_impossible_propensities_are_rejected_and_said():
    """Every action is written down as rare: weighed rewards exceed the reward range, and the ends cross."""
    log = decisions(3000, stated=np.full((3, 2), 0.05))
    result = interval(log, Propensities())
    assert result.status is bondic.Status.REJECTED
    assert "the propensities" in result.summary()
    assert "q* in Q" not in result.summary()
    assert {a.state for a in result.assumptions if a.name == "propensities"} == {"rejected"}


@pytest.mark.parametrize("method", [Propensities(), Propensities(largest_ratio=1e101)])
def test_a_weight_beyond_all_measure_is_a_contradiction_not_nothing(method):
    """Three ratios of 1e100 among thirty: both ends leave the range, which rounding must not hide."""
    ratios = np.ones(30)
    ratios[[2, 9, 20]] = 1e100
    log = one_step(
        np.zeros((30, 1)), np.zeros(30, dtype=int), np.linspace(0, 1, 30), behavior_log_probs=np.full(30, -690.0),
        target_log_probs=np.log(ratios) - 690.0,
    )  # fmt: skip
    result = interval(log, method, policy=bondic.LoggedTarget())
    assert result.status is bondic.Status.REJECTED
    assert bondic.verify(result.certificate, log).status == "REJECTED"


def short_episodes(n, seed=0, weight=1.0):
    """Episodes of two steps with a reward of 0 or 1 at the end; `weight` multiplies all ratios of last steps."""
    rng = np.random.default_rng(seed)
    ratios = np.where(rng.random((n, 2)) < 0.5, 0.6, 1.4) * [1.0, weight]
    rewards = np.column_stack([np.zeros(n), rng.random(n) < 0.4]).ravel()
    steps = np.tile([0, 1], n)
    return bondic.Transitions(
        steps[:, None].astype(float), np.zeros(2 * n, dtype=int), rewards, steps[:, None] + 1.0, steps == 1,
        episode_ids=np.repeat(np.arange(n), 2), timesteps=steps, behavior_log_probs=np.full(2 * n, -2.0),
        target_log_probs=np.log(ratios).ravel() - 2.0,
    )  # fmt: skip


@pytest.mark.parametrize("gamma", [0.9, 0.99, 0.999])
@pytest.mark.parametrize("side", ["both", "upper"])
def test_weights_that_leave_no_value_of_the_range_reject(gamma, side):
    """Weights of episodes are 1.5 on average: more than all of the probability ends with rewards of at most 1."""
    log = short_episodes(400, weight=1.5)
    result = interval(log, Propensities(side=side), policy=bondic.LoggedTarget(), gamma=gamma)
    assert result.status is bondic.Status.REJECTED
    assert "no interval is given" in result.summary()
    assert bondic.verify(result.certificate, log).status == "REJECTED"


@pytest.mark.parametrize("gamma", [0.99, 0.999, 0.99999])
def test_the_lower_end_of_short_episodes_does_not_depend_on_how_wide_the_range_is(gamma):
    result = interval(short_episodes(600, seed=1), Propensities(), policy=bondic.LoggedTarget(), gamma=gamma)
    assert 0.3 < result.low < 0.4 * gamma < result.high


def test_the_report_renders():
    log = decisions(600)
    problem = question(log)
    page = report_page(bondic.estimate_interval(problem, method=CAPPED), problem, title="clicks")
    assert "Actions were drawn with the probabilities that the log states" in page
    assert "<b>Bias</b>" not in page


# --- certificates ---------------------------------------------------------------------------------------


class _Case(ProofCase):
    method = Propensities()

    @classmethod
    def ask(cls):
        log = decisions(1500, seed=5)
        return question(log), log, ThreeStates(), cls.method


class TestPopulation(_Case):
    pass


class TestDoublyRobust(_Case):
    method = CAPPED

    def test_a_control_variate_that_saw_later_rows_is_refused(self, answer):
        control = answer.proof.control
        late = linear_control(columns_of(answer.problem, every_action=True), tuple(k + 300 for k in control.borders))
        shifted = replace(late, borders=control.borders)
        forged = bondic.Result.of(replace(answer.proof, control=shifted), answer.rows, method="propensities")
        with pytest.raises(VerificationError, match="earlier rows"):
            bondic.verify(forged.certificate, answer.log)

    def test_the_policy_is_compared_with_what_is_stored(self, answer):
        class Other(ThreeStates):
            def action_probs(self, observations):
                return super().action_probs(observations)[:, ::-1]

        with pytest.raises(VerificationError, match="not the certified policy"):
            bondic.verify(answer.certificate, answer.log, Other())


class TestContexts(_Case):
    replayed = ("start",)
    method = Propensities(value="contexts", least_behavior_prob=0.2)

    def test_rates_from_certified_rows_are_refused(self, answer):
        seen = Provenance("rates", answer.result.rows, answer.log.content_hash)
        forged = bondic.Result.of(replace(answer.proof, provenance=seen), answer.rows, method="propensities")
        with pytest.raises(VerificationError, match="certified"):
            bondic.verify(forged.certificate, answer.log)


class TestRobustReturns(ProofCase):
    @classmethod
    def ask(cls):
        log, policy = two_steps(700), bondic.TablePolicy([[0.1, 0.9], [0.1, 0.9]])
        return question(log, policy, gamma=1.0, horizon=2), log, policy, Propensities(largest_ratio=1.8)


class TestEpisodes(ProofCase):
    @classmethod
    def ask(cls):
        log = drawn_walks(400)
        problem = question(log, TwoStates(), reward_range=(-0.5, 2.0), gamma=0.8)
        return problem, log, TwoStates(), Propensities()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("proof", "stated", "off_by"), 0.5),
        (("proof", "planned"), 0),
        (("proof", "planned"), 10),
        (("proof", "value"), "contexts"),
        (("proof", "stated", "largest_ratio"), 1.01),
    ],
)
def test_forged_certificates_are_refused(path, value):
    log = decisions(800)
    problem = question(log)
    answer = Answer(bondic.estimate_interval(problem, method=CAPPED), problem, log, ThreeStates())
    with pytest.raises(VerificationError):
        bondic.verify(answer.forged(*path, value=value), log)
