"""The interval from propensities: means of what is weighed, verification, refusals, and agreement of all ways to ask."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bondic
from bondic.core.balls import Provenance
from bondic.core.errors import InvalidInput, VerificationError
from bondic.core.propensities.betting import LogProcess, Strategy
from bondic.core.propensities.bound import _affordable
from bondic.core.propensities.control import StoredControl
from bondic.core.propensities.decisions import weight_sum
from bondic.core.propensities.proof import PropensityProof
from bondic.core.propensities.ratios import Stated, Target
from bondic.methods.propensities import Propensities
from bondic.methods.propensity_breakdown import breakdown_factor
from bondic.plan.controls import linear_control
from bondic.rows.decisions import logged_ratios, query_target, read_decisions
from conformance_proofs import Answer, ProofCase
from propensity_cases import (
    BEHAVIOR,
    GAMMA,
    LARGEST,
    PI,
    REWARD,
    STATES,
    STEPS,
    TARGET,
    VALUE,
    B,
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

CAPPED = Propensities(max_ratio=LARGEST)


def every_outcome(low=0.0, high=1.0, behavior=BEHAVIOR, stated=None):
    """A log with every (situation, action, reward) once, and the probability of each."""
    cells = [(s, a, r) for s in range(3) for a in range(2) for r in (0, 1)]
    situation, action, won = (np.array(column) for column in zip(*cells, strict=True))
    chance = behavior[situation, action] * np.where(won, REWARD[situation, action], 1 - REWARD[situation, action]) / 3
    written = (behavior if stated is None else stated)[situation, action]
    log = one_step(STATES[situation], action, low + (high - low) * won.astype(float), behavior_action_probs=written)
    return log, chance


def columns_of(problem, *, every_action=False):
    return read_decisions(problem, query_target(problem, every_action=every_action), every_action=every_action)


# --- means of what is weighed ---------------------------------------------------------------------------


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.0, 4.0)])
@pytest.mark.parametrize("end", ["lower", "upper"])
def test_weighted_rewards_have_the_mean_of_the_policy(low, high, end):
    log, chance = every_outcome(low, high)
    columns = columns_of(question(log, reward_range=(low, high))).from_end(end)
    values = columns.per_decision(1.0)[0]
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
        columns = columns_of(question(log)).from_end(end)
        mean = float(chance @ columns.per_decision(max(factor, 1.0))[0])
        assert mean <= columns.sign * VALUE + 1e-12


def test_without_overlap_both_ends_stay_on_the_safe_side():
    """The behavior never takes action 1 in the first situation: weighed means only move outward."""
    behavior = BEHAVIOR.copy()
    behavior[0] = (1.0, 0.0)
    log, chance = every_outcome(behavior=behavior, stated=np.where(behavior > 0, behavior, 0.5))
    below, above = (columns_of(question(log)).from_end(end) for end in ("lower", "upper"))
    assert float(chance @ below.per_decision(1.0)[0]) < VALUE - 0.05
    assert -float(chance @ above.per_decision(1.0)[0]) > VALUE + 0.01


@pytest.mark.parametrize("written", [1 / 1.5, 1.5])
def test_wrong_propensities_of_episodes_keep_the_mean_on_the_safe_side(written):
    """Action 0 was drawn with 1.5 times what is written down, or with a part of it: Γ = 1.5 at every step."""
    paths, weights = zip(*all_walks(), strict=True)
    log = walk_log(list(paths), behavior=B * [written, 1.0])
    columns = columns_of(question(log, TwoStates(), reward_range=(-0.5, 2.0), gamma=GAMMA, horizon=STEPS))
    low, high = (columns.from_end(end).per_decision(1.5)[0] @ np.array(weights) for end in ("lower", "upper"))
    assert low <= walk_value(STEPS) <= -high
    bare = columns.per_decision(1.0)[0] @ np.array(weights)  # the control: without Γ
    assert (bare > walk_value(STEPS)) == (written < 1)


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
    control = StoredControl((1,), (0.1, 0.8), (0.5, 1.0), guess)
    columns = columns_of(question(both), every_action=by_action).from_end(end)
    found = columns.estimators(control, Stated(max_ratio=LARGEST))[-1]
    assert found.first == 1
    assert columns.sign * float(chance @ found.values) == pytest.approx(VALUE, rel=1e-12)
    assert np.all(found.values >= found.floor)
    assert np.all(found.values >= found.predicted[0] - found.predicted[1] - 1e-12)


@pytest.mark.parametrize("rewards", [(-0.5, 2.0), (-4.0, 9.0)])
@pytest.mark.parametrize("end", ["lower", "upper"])
def test_episodes_that_were_cut_stay_on_the_safe_side(end, rewards):
    """Cut after three steps, or where state 1 is reached: what is missing is left out of a sum of terms >= 0."""
    whole = columns_of(
        question(
            walk_log([path for path, _ in all_walks()]), TwoStates(), reward_range=rewards, gamma=0.8, horizon=STEPS
        )
    )
    mean = whole.from_end(end).per_decision(1.0)[0] @ np.array([weight for _, weight in all_walks()])
    assert whole.from_end(end).sign * mean == pytest.approx(walk_value(STEPS), rel=1e-12)  # complete up to a horizon
    for cut in (None, lambda path: path[-1][3] == 1):
        paths, weights = zip(*all_walks(cut=cut), strict=True)
        problem = question(walk_log(paths), TwoStates(), reward_range=rewards, gamma=0.8)
        columns = columns_of(problem).from_end(end)
        values, floor = columns.per_decision(1.0)
        assert np.all(values >= floor)
        assert float(np.array(weights) @ values) <= columns.sign * walk_value() + 1e-12
        assert float(np.array(weights) @ values) > floor


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
    columns = columns_of(question(log, bondic.TablePolicy([[1.0]]), **stated)).from_end(end)
    expected = [2.5 + 3.0, 3.0 + 3.0] if end == "lower" else [-(2.5 + 6.0), -(3.0 + 6.0)]
    assert columns.whole(1.0) == pytest.approx(expected)
    assert columns.per_decision(1.0)[0] == pytest.approx(expected)


@pytest.mark.parametrize("end", ["lower", "upper"])
@pytest.mark.parametrize("horizon", [STEPS, None])
@pytest.mark.parametrize("by_action", [False, True])
def test_doubly_robust_returns_have_the_mean_of_the_policy_and_a_floor(end, horizon, by_action):
    """Whatever is predicted; where episodes are cut the mean stays on the safe side."""
    rng = np.random.default_rng(3)
    paths, weights = zip(*all_walks(), strict=True)
    stated = {"reward_range": (-0.5, 2.0), "gamma": 0.8} | ({} if horizon is None else {"horizon": horizon})
    log = walk_log([paths[0], *paths])
    columns = read_decisions(question(log, TwoStates(), **stated), None, every_action=by_action).from_end(end)
    first = len(paths[0])
    table = rng.uniform(-1.0, 4.0, (2, STEPS, 2 if by_action else 1))
    guess = table[log.observations[first:, 0].astype(int), log.timesteps[first:]]
    control = StoredControl((first,), (-0.3, 3.0), (0.5, 1.0), guess)
    value = columns.sign * walk_value(horizon)
    if horizon is None:  # no bound of these ratios bounds their products: values alone
        q = np.clip(columns.sign * control.values(columns.rows[first:], None), columns.limits.low, columns.limits.high)
        later = columns.part(slice(first, None))
        means, taken = later.policy_means(q)
        assert float(np.array(weights) @ later.robust_values(taken, means)) <= value + 1e-12
        return
    found = columns.estimators(control, Stated(max_ratio=2.25))[-1]
    assert found.first == 1
    assert float(np.array(weights) @ found.values) == pytest.approx(value, rel=1e-12)
    assert np.all(found.values >= found.floor)


@pytest.mark.parametrize("end", ["lower", "upper"])
def test_doubly_robust_returns_are_their_formula(end):
    """A loop over the steps of every episode, with v̂ as a sum over the actions."""
    log = drawn_walks(25, seed=4)
    stated = {"reward_range": (-0.5, 2.0), "gamma": GAMMA, "horizon": STEPS}
    columns = read_decisions(question(log, TwoStates(), **stated), None, every_action=True).from_end(end)
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
    found = columns.robust_values(taken, means)
    assert found == pytest.approx(np.array(expected), abs=1e-10)
    assert np.all(found <= np.array(expected))


def test_products_of_ratios_are_bounded_by_a_horizon_or_by_the_discount():
    problem = question(drawn_walks(5), TwoStates(), reward_range=(-0.5, 2.0), gamma=0.8)
    columns = columns_of(problem)
    assert weight_sum(columns.terms, 1.2) == pytest.approx(1.2 / (1 - 0.96))
    assert math.isinf(weight_sum(columns.terms, 1.25))
    bounded = replace(columns, terms=replace(columns.terms, horizon=3))
    assert weight_sum(bounded.terms, 2.0) == pytest.approx(2 + 0.8 * 4 + 0.64 * 8)
    assert math.isinf(weight_sum(replace(columns.terms, horizon=10**6), 2.0))
    assert weight_sum(replace(columns.terms, gamma=0.0, horizon=3), 2.0) == pytest.approx(2.0)


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


# --- intervals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("population", [None, "iid"])
@pytest.mark.parametrize(
    "method",
    [
        Propensities(),
        Propensities(min_propensity=0.2),
        Propensities(max_ratio=LARGEST),
        Propensities(gamma_sensitivity=1.1),
        Propensities(max_ratio=LARGEST, model=None),
    ],
)
def test_intervals_hold_the_value_and_verify(method, population):
    log = decisions(4000)
    result = interval(log, method, population=population)
    assert result.status is bondic.Status.INTERVAL
    assert VALUE in result.interval
    assert result.low <= result.estimate <= result.high
    assert result.is_assumption_free
    again = bondic.verify(result.certificate, log)
    assert (again.low, again.high) == pytest.approx((result.low, result.high), rel=1e-12)
    assert bondic.verify(result.certificate, log, ThreeStates()).status == "INTERVAL"


@pytest.mark.parametrize("scale", [-1.0, 1e-3, 1e5])
def test_scaled_rewards_scale_the_interval(scale):
    """A negative scale mirrors it."""
    log = decisions(1500)
    other = one_step(
        log.observations, log.actions, scale * log.rewards, behavior_action_probs=log.behavior_action_probs
    )
    one, two = interval(log, CAPPED), interval(other, CAPPED, reward_range=tuple(sorted((0.0, scale))))
    assert (two.low, two.high) == pytest.approx(tuple(sorted((scale * one.low, scale * one.high))), rel=1e-6)


def test_columns_of_the_log_say_the_same_as_the_policy():
    log = decisions(1200)
    places = np.searchsorted(STATES[:, 0], log.observations[:, 0])
    columns = {"behavior_action_probs": log.behavior_action_probs, "target_action_probs": TARGET[places, log.actions]}
    told = one_step(log.observations, log.actions, log.rewards, **columns)
    by_policy = interval(log, Propensities())
    by_log = interval(told, Propensities(), policy=bondic.LoggedTarget())
    assert (by_log.low, by_log.high) == pytest.approx((by_policy.low, by_policy.high), rel=1e-9)
    found = bondic.verify(by_log.certificate, told, replay=True)
    assert "the policy is the one of the log's own columns" in found.checks
    assert not found.headline
    with pytest.raises(VerificationError, match="leave the policy out"):
        bondic.verify(by_log.certificate, told, ThreeStates())


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


class Mean:
    """The simplest regressor: the mean of what it was fitted on."""

    def fit(self, X, y):
        self.mean, self.width = float(y.mean()), X.shape[1]

    def predict(self, X):
        assert X.shape[1] == self.width
        return np.full(len(X), self.mean)


def test_any_regressor_can_be_the_control_variate():
    log = decisions(2000)
    result = interval(log, Propensities(max_ratio=LARGEST, model=Mean()))
    assert VALUE in result.interval
    found = bondic.verify(result.certificate, log)
    assert "when the plan was made" in found.headline
    with pytest.raises(VerificationError, match="regressor"):
        bondic.verify(result.certificate, log, replay=True)
    with pytest.raises(InvalidInput, match="one for every row"):
        result.without_rows(question(log))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 1e-9, 0.3, 1.0, 7.0, 1e6, 1e200]), st.floats(0, 1)), min_size=2, max_size=30
    ),
    st.sampled_from([(0.0, 1.0), (-5.0, -2.0), (1e6, 1e6 + 1e-3), (3.0, 3.0), (-1e-8, 1e8)]),
    st.sampled_from(
        [Propensities(), Propensities(gamma_sensitivity=3.0), Propensities(max_ratio=1e201), Propensities(side="upper")]
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
        factor: bondic.estimate_interval(problem, method=Propensities(gamma_sensitivity=factor, side="lower")).low
        for factor in (found, found * 1.3)
    }
    assert ends[found] > 0.5 > ends[found * 1.3]
    assert breakdown_factor(problem, above=0.9) is None
    assert breakdown_factor(problem, below=0.9) >= 1.0
    for wrong in ({}, {"above": 0.1, "below": 0.2}, {"above": 0.5, "factors": (1.5, 2.0)}):
        with pytest.raises(InvalidInput):
            breakdown_factor(problem, **wrong)


# --- refusals -------------------------------------------------------------------------------------------


def test_what_the_log_refutes_or_lacks_is_refused():
    """0.2 was logged where the target takes 0.5: a ratio of 2.5, far below 1 / 0.25, but above 0.5 / 0.25."""
    log = decisions(500)
    for bound in ({"max_ratio": 1.5}, {"min_propensity": 0.25}, {"max_ratio": 1.5, "side": "upper"}):
        with pytest.raises(InvalidInput, match="above the stated bound"):
            interval(log, Propensities(**bound))
    with pytest.raises(InvalidInput, match="no propensities"):
        interval(one_step(log.observations, log.actions, log.rewards), Propensities())


class Narrow:
    """Actions within 0.001 of 1, all alike."""

    def sample_action(self, states, rng):
        return 1.0 + 0.002 * (rng.random((len(states), 1)) - 0.5)

    def action_density(self, states, actions):
        del states
        return np.where(np.abs(actions[:, 0] - 1.0) < 0.001, 500.0, 0.0)


@pytest.mark.parametrize("kind", ["asked", "logged"])
def test_a_least_density_bounds_no_ratio(kind, monkeypatch):
    """The behavior has the density 0.5 everywhere, and no row is near 1: that says nothing about a policy that is worth 1."""
    actions = np.random.default_rng(1).permutation(np.linspace(0.0, 2.0, 300))[:, None]
    near = (np.abs(actions[:, 0] - 1.0) < 0.001).astype(float)
    assert not near.any()
    logged = {"target_action_probs": 500.0 * near} if kind == "logged" else {}
    log = one_step(np.zeros((300, 1)), actions, near, behavior_action_probs=np.full(300, 0.5), **logged)
    policy = bondic.LoggedTarget() if kind == "logged" else Narrow()
    bounds = Propensities(min_propensity=0.5), Propensities(min_propensity=0.5, max_ratio=1000.0)
    for method in bounds:
        with pytest.raises(InvalidInput, match="max_ratio"):
            interval(log, method, policy=policy)
    honest = interval(log, Propensities(max_ratio=1000.0), policy=policy)
    assert honest.low <= 1.0 <= honest.high
    # a certificate that states it is refused, too; without the refusal it misses
    monkeypatch.setattr(PropensityProof, "columns", without_refusal(PropensityProof.columns))
    forged = interval(log, bounds[0], policy=policy)
    assert forged.high < 1.0
    monkeypatch.undo()
    with pytest.raises(VerificationError, match="max_ratio"):
        bondic.verify(forged.certificate, log, policy)


def without_refusal(columns):
    def every(proof, question):
        return columns(replace(proof, stated=replace(proof.stated, min_propensity=None, max_ratio=2.0)), question)

    return every


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


def rare_and_heavy():
    """Three ratios of 1e100 among thirty."""
    ratios = np.ones(30)
    ratios[[2, 9, 20]] = 1e100
    logs = {"behavior_log_probs": np.full(30, -690.0), "target_log_probs": np.log(ratios) - 690.0}
    return one_step(np.zeros((30, 1)), np.zeros(30, dtype=int), np.linspace(0, 1, 30), **logs)


@pytest.mark.parametrize(
    ("log", "method", "stated"),
    [
        (decisions(3000, stated=np.full((3, 2), 0.05)), Propensities(), {"policy": ThreeStates()}),
        (rare_and_heavy(), Propensities(max_ratio=1e101), {}),
        (short_episodes(400, weight=1.5), Propensities(), {"gamma": 0.9}),
        (short_episodes(400, weight=1.5), Propensities(side="upper"), {"gamma": 0.999}),
    ],
    ids=["every action rare", "beyond all measure", "weights of 1.5 on average", "one side"],
)
def test_propensities_that_leave_no_value_of_the_range_are_rejected(log, method, stated):
    """More than all of the probability earns rewards: both ends leave the range, which rounding must not hide."""
    result = interval(log, method, **({"policy": bondic.LoggedTarget()} | stated))
    assert result.status is bondic.Status.REJECTED
    assert "the propensities" in result.summary()
    assert "rejected" in {one.state for one in result.assumptions if one.name == "propensities"}
    assert bondic.verify(result.certificate, log).status == "REJECTED"


# --- certificates ---------------------------------------------------------------------------------------


def resealed(answer, proof):
    """The certificate of another proof, with the same words on how the plan was made."""
    planner = answer.certificate.planner
    return bondic.Result.of(proof, answer.rows, method="propensities", planner=planner).certificate


def test_a_lowered_center_depends_on_its_own_row_alone():
    """The rounding of a row must not tell whether a later one is lowered."""
    centers, losses = np.array([1.0, 1.0, -2.0, 0.5]), np.array([0.2, 50.0, 0.75, 1e3])
    process = LogProcess(1.0, 0.75, 1.0)
    together = _affordable(centers, losses, process)
    for row in range(4):
        alone = _affordable(centers[[row]], losses[[row]], process)
        assert [one[row] for one in together] == [one[0] for one in alone]
    assert np.all(together[1] <= 0.75)
    assert np.all(together[0] - together[1] <= centers - losses)  # from where a value may come


def test_the_probabilities_of_the_logs_own_columns_cannot_be_replaced(monkeypatch):
    """The log holds them: others in a certificate would be another policy, with the same words."""
    log = decisions(1000)
    held = replace(log, target_action_probs=np.where(log.actions == 1, 0.2, 0.8))
    asked, policy = question(held, bondic.LoggedTarget(), population="iid"), bondic.LoggedTarget()
    result = bondic.estimate_interval(asked, method=Propensities())
    assert bondic.verify(result.certificate, held, policy).low == result.low
    others = Target((0, 1000), np.where(log.actions == 1, 0.8, 0.2))
    with pytest.raises(VerificationError, match="others for it"):
        replace(result.proof, targets=(others,))
    with monkeypatch.context() as patch:
        patch.setattr(PropensityProof, "__post_init__", lambda _: None)
        forged = bondic.Result.of(replace(result.proof, targets=(others,)), asked, method="propensities").certificate
        wrong = bondic.verify(forged, held, policy)  # what would be answered
        assert not wrong.low <= result.estimate <= wrong.high
    with pytest.raises(VerificationError, match="others for it"):
        bondic.verify(forged, held, policy)


class _Case(ProofCase):
    method = Propensities()
    population = None

    @classmethod
    def ask(cls):
        log = decisions(1500, seed=5)
        return question(log, population=cls.population), log, ThreeStates(), cls.method


class TestPopulation(_Case):
    population = "iid"


class TestDoublyRobust(_Case):
    method, population = CAPPED, "iid"
    replayed = ("control",)

    def test_a_control_variate_that_saw_later_rows_is_found_out_by_a_replay(self, answer):
        control = answer.proof.control
        late = linear_control(columns_of(answer.problem, every_action=True), tuple(k + 300 for k in control.borders))
        parts = (
            replace(late, borders=control.borders),
            replace(control, clip=(0.0, 1.0)),
            replace(control, expected=(0.5, 1.0)),
        )
        for part in parts:
            forged = resealed(answer, replace(answer.proof, control=part))
            assert "when the plan was made" in bondic.verify(forged, answer.log).headline
            with pytest.raises(VerificationError, match=r"proof\.control"):
                bondic.verify(forged, answer.log, replay=True)

    def test_another_strategy_is_evaluated_and_said(self, answer):
        """Its numbers are data: the interval holds for any of them that were fixed beforehand, which a replay denies here."""
        strategy = Strategy(((0.5, 0.3), (1.0, 0.6), (3.0, 0.99)), reserve=0.1, prior_weight=5.0)
        forged = resealed(answer, replace(answer.proof, strategy=strategy))
        found = bondic.verify(forged, answer.log)
        assert found.low < VALUE < found.high
        assert found.low != answer.result.low
        assert {"stated"} == {one.state for one in found.assumptions if one.name == "bets"}
        with pytest.raises(VerificationError, match=r"proof\.strategy"):
            bondic.verify(forged, answer.log, replay=True)

    def test_the_policy_is_compared_with_what_is_stored(self, answer):
        class Other(ThreeStates):
            def action_probs(self, observations):
                return super().action_probs(observations)[:, ::-1]

        with pytest.raises(VerificationError, match="not the certified policy"):
            bondic.verify(answer.certificate, answer.log, Other())


class TestThisLog(_Case):
    replayed = ("control", "rates")
    method = Propensities(min_propensity=0.2)

    def test_rates_from_certified_rows_are_refused(self, answer):
        seen = Provenance("rates", answer.result.rows, answer.log.content_hash)
        forged = bondic.Result.of(replace(answer.proof, provenance=seen), answer.rows, method="propensities")
        with pytest.raises(VerificationError, match="certified"):
            bondic.verify(forged.certificate, answer.log)


class TestRobustReturns(ProofCase):
    @classmethod
    def ask(cls):
        log, policy = two_steps(700), bondic.TablePolicy([[0.1, 0.9], [0.1, 0.9]])
        return question(log, policy, gamma=1.0, horizon=2), log, policy, Propensities(max_ratio=1.8)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("proof", "stated", "gamma_sensitivity"), 0.5),
        (("proof", "planned"), 0),
        (("proof", "planned"), 10),
        (("proof", "value"), "contexts"),
        (("proof", "stated", "max_ratio"), 1.01),
        (("proof", "strategy", "bets"), [[1.0, 1.0]]),
        (("proof", "strategy", "bets"), []),
        (("proof", "strategy", "reserve"), -0.5),
        (("proof", "shares"), {}),
        (("proof", "shares", "lower"), [0.5, 0.6]),
        (("proof", "shares", "lower"), [1.0]),
        (("proof", "control", "expected"), [0.5, 0.0]),
    ],
)
def test_forged_certificates_are_refused(path, value):
    log = decisions(800)
    problem = question(log, population="iid")
    answer = Answer(bondic.estimate_interval(problem, method=CAPPED), problem, log, ThreeStates())
    with pytest.raises(VerificationError):
        bondic.verify(answer.forged(*path, value=value), log)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("proof", "value"), "population"),
        (("proof", "value"), "stated starts"),
        (("proof", "rates"), {}),
        (("proof", "rates", "lower"), [0.1]),
        (("proof", "rates", "lower"), [0.1, 0.0]),
        (("proof", "rates", "lower"), [0.1, 1e9]),
        (("proof", "shares"), {"lower": [0.5, 0.5], "upper": [0.5, 0.5]}),
        (("proof", "budget", "parts", "propensities"), 0.5),
        (("proof", "provenance", "rows"), [0, 800]),
        (("proof", "estimand", "rows"), [0, 800]),
    ],
)
def test_forged_certificates_of_this_log_are_refused(path, value):
    log = decisions(800)
    problem = question(log)
    answer = Answer(bondic.estimate_interval(problem, method=CAPPED), problem, log, ThreeStates())
    with pytest.raises(VerificationError):
        bondic.verify(answer.forged(*path, value=value), log)
