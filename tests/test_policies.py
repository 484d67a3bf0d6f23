"""Policies: formulas against slow twins, one conformance test for all of them, and how they are asked."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bondic import (
    CallablePolicy,
    CallableSampler,
    DeterministicPolicy,
    GaussianPolicy,
    InitialStates,
    InvalidInput,
    MixturePolicy,
    PolicyError,
    RowProbabilities,
    SoftmaxPolicy,
    TablePolicy,
    Transitions,
    UniformPolicy,
    make_problem,
)
from bondic.policies.answers import StoredAnswers

ACTIONS = 3


def scores(observations):
    """(n, d) -> (n, 3): something smooth that depends on the whole row."""
    total = observations.sum(axis=1)
    return np.stack([total, -0.5 * total, np.sin(total)], axis=1)


def best(observations):
    return np.argmax(scores(observations), axis=1)


def softmax_plain(observations):
    weights = np.exp(scores(observations))
    return weights / weights.sum(axis=1, keepdims=True)


class Duck:
    """A class of the user's own: it only has to offer the method."""

    def action_probs(self, observations):
        return softmax_plain(observations)


TABLE = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0], [0.0, 0.25, 0.75], [0.5, 0.5, 0.0]])
DISCRETE = {
    "uniform": UniformPolicy(ACTIONS),
    "table": TablePolicy(TABLE),
    "softmax": SoftmaxPolicy(scores, 0.5),
    "deterministic": DeterministicPolicy(best, ACTIONS),
    "callable": CallablePolicy(softmax_plain),
    "duck": Duck(),
    "mixture": MixturePolicy(0.3, SoftmaxPolicy(scores), DeterministicPolicy(best, ACTIONS)),
    "mixture of mixtures": MixturePolicy(0.9, MixturePolicy(0.5, UniformPolicy(ACTIONS), Duck()), TablePolicy(TABLE)),
}
CONTINUOUS = {
    "gaussian": GaussianPolicy(lambda x: x[:, :2] * 2, [0.1, 0.3]),
    "clipped gaussian": GaussianPolicy(lambda x: x[:, :2], 1.0, low=-0.5, high=[0.5, 0.25]),
    "gaussian with its own spread": GaussianPolicy(lambda x: x[:, :2], lambda x: 0.1 + x[:, :1] ** 2),
    "deterministic": DeterministicPolicy(lambda x: x[:, :2]),
    "callable": CallableSampler(lambda x, rng: x[:, :2] + rng.uniform(-1, 1, (len(x), 2))),
    "mixture": MixturePolicy(0.3, GaussianPolicy(lambda x: x[:, :2], 0.1), DeterministicPolicy(lambda x: 9 + x[:, :2])),
}
discrete = pytest.mark.parametrize("policy", DISCRETE.values(), ids=DISCRETE.keys())
continuous = pytest.mark.parametrize("policy", CONTINUOUS.values(), ids=CONTINUOUS.keys())


def log_of(n=8, *, actions=None, seed=0, **more):
    """A log whose states are the whole numbers 0..3, so that a table can be asked as well."""
    rng = np.random.default_rng(seed)
    states = rng.integers(0, len(TABLE), size=(2, n, 2)).astype(float)
    return Transitions(
        states[0],
        rng.integers(0, ACTIONS, size=n) if actions is None else actions,
        rng.uniform(-1, 1, size=n),
        states[1],
        more.pop("terminations", np.zeros(n, dtype=bool)),
        **more,
    )


def continuous_log(n=8, dimension=2, **more):
    return log_of(n, actions=np.random.default_rng(5).normal(size=(n, dimension)), **more)


START = InitialStates.exact([[0.0, 1.0], [3.0, 2.0]])


def ask(policy, log=None, start=START, **more):
    """What the policy said, through the public door."""
    problem = make_problem(
        log_of() if log is None else log,
        policy,
        start,
        **{"gamma": 0.9, "reward_range": (-1, 1), "accept": None} | more,  # rows of no world: not inspected
    )
    answers = problem.answers
    return StoredAnswers(problem.stored_answers(), answers.initial, answers.discrete, answers.exact)


def refused(policy, *needles, kind=PolicyError, **more):
    with pytest.raises(kind) as caught:
        ask(policy, **more)
    for needle in needles:
        assert needle in str(caught.value), str(caught.value)
    return caught.value


# Every discrete policy


@discrete
def test_discrete_policies_return_one_distribution_per_row(policy):
    states = log_of(50).observations
    probs = policy.action_probs(states)
    assert probs.shape == (50, ACTIONS)
    assert np.all(probs >= 0)
    np.testing.assert_allclose(probs.sum(axis=1), 1, rtol=0, atol=1e-15 * ACTIONS)


@discrete
def test_discrete_policies_look_at_one_row_at_a_time(policy):
    states = log_of(20).observations
    together = policy.action_probs(states)
    alone = np.concatenate([policy.action_probs(states[i : i + 1]) for i in range(20)])
    np.testing.assert_allclose(together, alone, rtol=1e-14, atol=1e-16)


@discrete
def test_discrete_policies_are_asked_at_next_and_initial_states_and_means_are_exact(policy):
    log = log_of(terminations=[0, 1, 0, 0, 1, 0, 0, 0])
    answers = ask(policy, log)
    assert (answers.discrete, answers.exact, answers.initial.shape[1]) == (True, True, ACTIONS)
    going_on = ~log.terminations
    np.testing.assert_allclose(answers.next, policy.action_probs(log.next_observations[going_on]), rtol=1e-15)
    np.testing.assert_allclose(answers.initial, policy.action_probs(START.observations), rtol=1e-15)


# Formulas


@settings(max_examples=60)
@given(arrays(float, (4, 3), elements=st.floats(-50, 50)), st.floats(0.05, 20))
def test_softmax_is_its_formula(logits, temperature):
    probs = SoftmaxPolicy(lambda _: logits, temperature).action_probs(np.zeros((4, 1)))
    for row, line in enumerate(logits):
        odds = [math.exp((value - max(line)) / temperature) for value in line]
        np.testing.assert_allclose(probs[row], [value / math.fsum(odds) for value in odds], rtol=1e-11, atol=1e-300)


@settings(max_examples=40)
@given(arrays(float, (4, 3), elements=st.floats(-5, 5)), st.floats(-1e3, 1e3))
def test_softmax_does_not_see_a_constant_added_to_all_scores(logits, shift):
    states = np.zeros((4, 1))
    plain = SoftmaxPolicy(lambda _: logits).action_probs(states)
    moved = SoftmaxPolicy(lambda _: logits + shift).action_probs(states)
    np.testing.assert_allclose(moved, plain, rtol=1e-9)


def test_softmax_becomes_uniform_when_hot_and_deterministic_when_cold():
    states = log_of(40).observations + 0.1
    hot = SoftmaxPolicy(scores, 1e12).action_probs(states)
    np.testing.assert_allclose(hot, UniformPolicy(ACTIONS).action_probs(states), atol=1e-11)
    cold = SoftmaxPolicy(scores, 1e-12).action_probs(states)
    np.testing.assert_array_equal(cold, DeterministicPolicy(best, ACTIONS).action_probs(states))


def test_softmax_at_any_low_temperature_approaches_the_best_action_monotonically():
    states = log_of(10).observations + 0.1
    top = [SoftmaxPolicy(scores, t).action_probs(states).max(axis=1) for t in (10.0, 1.0, 0.1, 0.01)]
    assert np.all(np.diff(top, axis=0) >= 0)


def test_softmax_survives_huge_scores_and_forbidden_actions():
    probs = SoftmaxPolicy(lambda _: np.array([[1e300, 0.0, -1e300], [0.0, -np.inf, 0.0]])).action_probs(
        np.zeros((2, 1))
    )
    np.testing.assert_array_equal(probs, [[1, 0, 0], [0.5, 0, 0.5]])


@pytest.mark.parametrize("temperature", [1e-300, 5e-324])
def test_softmax_at_the_coldest_temperatures_takes_the_best_action(temperature):
    states = log_of(10).observations + 0.1
    cold = SoftmaxPolicy(lambda x: 1e3 * scores(x), temperature).action_probs(states)
    np.testing.assert_array_equal(cold, DeterministicPolicy(best, ACTIONS).action_probs(states))


def test_scores_of_the_wrong_shape_are_refused():
    refused(SoftmaxPolicy(lambda x: x[:, 0]), "Scores have shape (2,); (rows, number of actions) is needed")


@pytest.mark.parametrize("temperature", [0.0, -1.0, np.nan, np.inf])
def test_softmax_refuses_temperatures_that_are_not_positive_and_finite(temperature):
    with pytest.raises(InvalidInput, match=f"positive and finite, not {temperature}"):
        SoftmaxPolicy(scores, temperature)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=20))
def test_deterministic_is_one_hot(choices):
    policy = DeterministicPolicy(lambda _: np.array(choices), 5)
    probs = policy.action_probs(np.zeros((len(choices), 1)))
    for row, choice in enumerate(choices):
        assert probs[row].tolist() == [float(action == choice) for action in range(5)]


@pytest.mark.parametrize("kind", [int, np.uint8, np.float32, float])
def test_deterministic_choices_may_be_whole_numbers_of_any_type(kind):
    probs = DeterministicPolicy(lambda x: best(x).astype(kind), ACTIONS).action_probs(log_of().observations)
    np.testing.assert_array_equal(probs, DISCRETE["deterministic"].action_probs(log_of().observations))


@pytest.mark.parametrize("choice", [-1, 3, 0.9, np.nan, 2.0000001])
def test_deterministic_choices_that_are_no_action_are_refused(choice):
    """0.9 must not quietly become action 0."""
    policy = DeterministicPolicy(lambda x: np.full(len(x), choice), ACTIONS)
    refused(policy, "must choose one of 0..2 per row", f"{choice}"[:3])


@pytest.mark.parametrize("shape", [(), (1,), (8, 1)])
def test_deterministic_choices_of_another_shape_are_refused(shape):
    refused(DeterministicPolicy(lambda _: np.zeros(shape, dtype=int), ACTIONS), "must choose one of 0..2", f"{shape}")


def test_a_deterministic_policy_for_discrete_actions_needs_their_number():
    refused(DeterministicPolicy(best), "discrete actions", "n_actions=")


def test_a_table_is_read_at_the_state():
    states = log_of(30).observations
    expected = [TABLE[int(state[0])] for state in states]
    np.testing.assert_array_equal(TablePolicy(TABLE).action_probs(states), expected)


def test_a_table_is_copied():
    table = TABLE.copy()
    policy = TablePolicy(table)
    table[:] = 0
    np.testing.assert_array_equal(policy.table, TABLE)


@pytest.mark.parametrize(
    "table",
    [[0.5, 0.5], [[0.5, 0.6]], [[1.5, -0.5]], [[np.nan, 1.0]], [[np.inf, 0.0]], np.zeros((2, 0))],
    ids=["flat", "sums to 1.1", "negative", "NaN", "infinite", "no actions"],
)
def test_tables_that_hold_no_distributions_are_refused(table):
    with pytest.raises(InvalidInput, match="one row of probabilities per state, each summing to 1"):
        TablePolicy(table)


@pytest.mark.parametrize("state", [4.0, -1.0, 0.5])
def test_states_that_the_table_lacks_are_refused(state):
    start = InitialStates.exact([[0.0, 0.0], [state, 0.0]])
    refused(TablePolicy(TABLE), f"State {state} is not in the table, which has states 0..3", start=start)


@settings(max_examples=40)
@given(st.floats(0, 1), arrays(float, (5, 2), elements=st.sampled_from([0.0, 1.0, 2.0, 3.0])))
def test_a_mixture_is_the_weighted_sum(alpha, states):
    one, other = SoftmaxPolicy(scores), TablePolicy(TABLE)
    probs = MixturePolicy(alpha, one, other).action_probs(states)
    np.testing.assert_allclose(
        probs, alpha * one.action_probs(states) + (1 - alpha) * other.action_probs(states), rtol=1e-15
    )


def test_a_mixture_at_1_and_0_is_one_of_its_parts():
    states = log_of().observations
    one, other = SoftmaxPolicy(scores), TablePolicy(TABLE)
    np.testing.assert_array_equal(MixturePolicy(1, one, other).action_probs(states), one.action_probs(states))
    np.testing.assert_array_equal(MixturePolicy(0, one, other).action_probs(states), other.action_probs(states))


@pytest.mark.parametrize("alpha", [-0.1, 1.1, np.nan, np.inf])
def test_mixture_rates_outside_0_to_1_are_refused(alpha):
    with pytest.raises(InvalidInput, match=rf"in \[0, 1\], not {alpha}"):
        MixturePolicy(alpha, UniformPolicy(2), UniformPolicy(2))


def test_a_mixture_of_policies_with_different_action_sets_is_refused():
    refused(MixturePolicy(0.5, UniformPolicy(2), UniformPolicy(3)), "The policy raised ValueError")
    refused(MixturePolicy(0.5, UniformPolicy(3), UniformPolicy(1)), "sum to 2, not 1")


# Continuous policies


@continuous
def test_samplers_return_one_action_per_row_and_repeat_with_the_seed(policy):
    states = log_of(30).observations
    actions = policy.sample_action(states, np.random.default_rng(3))
    assert actions.shape == (30, 2)
    np.testing.assert_array_equal(actions, policy.sample_action(states, np.random.default_rng(3)))


@continuous
def test_samplers_are_drawn_m_times_at_next_states_and_often_at_initial_ones(policy):
    log = continuous_log(terminations=[0, 1, 0, 0, 1, 0, 0, 0])
    answers = ask(policy, log, draws=7, initial_draws=11)
    one = isinstance(policy, DeterministicPolicy)
    assert answers.next.shape == (6, 1 if one else 7, 2)
    assert answers.initial.shape == (2, 1 if one else 11, 2)
    assert (answers.discrete, answers.exact) == (False, one)


def test_five_draws_are_the_default_and_4096_in_all_at_the_start():
    answers = ask(CONTINUOUS["gaussian"], continuous_log())
    assert answers.next.shape == (8, 5, 2)
    assert answers.initial.shape == (2, 2048, 2)
    many = InitialStates.exact(np.zeros((5000, 2)))
    assert ask(CONTINUOUS["gaussian"], continuous_log(), many).initial.shape == (5000, 5, 2)


def test_draws_come_from_the_seed_alone():
    log = continuous_log()
    first, again, other = (ask(CONTINUOUS["gaussian"], log, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.next, again.next)
    np.testing.assert_array_equal(first.initial, again.initial)
    assert not np.any(first.next == other.next)


def test_draws_of_different_rows_and_rounds_are_different_numbers():
    """Common random numbers would make an earlier row reveal a later draw."""
    noise = ask(GaussianPolicy(lambda x: 0 * x[:, :1], 1.0), continuous_log(dimension=1))
    everything = np.concatenate([noise.next.ravel(), noise.initial.ravel()])
    assert np.unique(everything).size == everything.size


def test_gaussian_has_its_mean_and_spread():
    """20 000 draws, 5 standard errors: a false alarm has probability < 1e-5."""
    states = np.full((20_000, 2), [1.0, -2.0])
    actions = GaussianPolicy(lambda x: 3 * x, [0.5, 2.0]).sample_action(states, np.random.default_rng(0))
    np.testing.assert_allclose(actions.mean(axis=0), [3.0, -6.0], atol=5 * 2.0 / np.sqrt(20_000))
    np.testing.assert_allclose(actions.std(axis=0), [0.5, 2.0], rtol=5 / np.sqrt(2 * 20_000))


def test_gaussian_without_spread_is_its_mean_and_may_give_one_number_per_row():
    states = log_of().observations
    actions = GaussianPolicy(lambda x: x[:, 0], 0.0).sample_action(states, np.random.default_rng(0))
    np.testing.assert_array_equal(actions, states[:, :1])


def test_a_clipped_gaussian_stays_in_its_box_and_is_the_clipped_draw():
    states = log_of(200).observations
    free, boxed = (
        GaussianPolicy(lambda x: x, 1.0, *box).sample_action(states, np.random.default_rng(0))
        for box in ((None, None), ([0.0, 1.0], 2.0))
    )
    np.testing.assert_array_equal(boxed, np.clip(free, [0.0, 1.0], 2.0))
    assert np.any(boxed != free)
    below = GaussianPolicy(lambda x: x, 1.0, high=1.0).sample_action(states, np.random.default_rng(0))
    np.testing.assert_array_equal(below, np.minimum(free, 1.0))


@pytest.mark.parametrize("std", [-1.0, [0.5, -0.1], np.nan, np.inf])
def test_impossible_spreads_are_refused(std):
    with pytest.raises(InvalidInput, match=r"finite and >= 0"):
        GaussianPolicy(lambda x: x, std)


def test_a_continuous_mixture_takes_whole_actions_from_one_part_at_its_rate():
    """2 000 choices, 5 standard errors."""
    one, other = DeterministicPolicy(lambda x: 0 * x), DeterministicPolicy(lambda x: 0 * x + 1)
    actions = MixturePolicy(0.3, one, other).sample_action(np.ones((2000, 2)), np.random.default_rng(0))
    assert np.all(actions[:, 0] == actions[:, 1])
    assert set(np.unique(actions)) == {0.0, 1.0}
    assert abs(np.mean(actions[:, 0] == 0) - 0.3) <= 5 * np.sqrt(0.3 * 0.7 / 2000)


def test_a_mixture_of_one_number_per_row_and_one_column_is_one_column():
    policy = MixturePolicy(0.5, DeterministicPolicy(lambda x: x[:, 0]), GaussianPolicy(lambda x: x[:, :1], 0.1))
    assert ask(policy, continuous_log(dimension=1)).next.shape == (8, 5, 1)


def test_a_mixture_of_deterministic_policies_is_not_deterministic():
    one, other = DeterministicPolicy(lambda x: 0 * x), DeterministicPolicy(lambda x: 0 * x + 1)
    answers = ask(MixturePolicy(0.5, one, other), continuous_log())
    assert not answers.exact
    assert answers.next.shape[1] == 5


@pytest.mark.parametrize("policy", [GaussianPolicy(np.transpose, 0.0), DeterministicPolicy(np.transpose)])
def test_a_transposed_answer_is_not_quietly_cut_into_rows(policy):
    refused(policy, "shape (2, 3); (3, 2) is needed", log=continuous_log(), start=InitialStates.exact(np.eye(3)[:, :2]))


# How policies are asked


def test_probabilities_off_by_rounding_are_normalized():
    probs = np.full((8, 3), [0.2, 0.3, 0.5]) * np.linspace(1 - 9e-7, 1 + 9e-7, 8)[:, None]
    answers = ask(RowProbabilities(probs, [[0.2, 0.3, 0.5]] * 2))
    np.testing.assert_allclose(answers.next, np.full((8, 3), [0.2, 0.3, 0.5]), rtol=1e-15)


def test_a_float32_policy_is_accepted():
    answers = ask(CallablePolicy(lambda x: softmax_plain(x).astype(np.float32)))
    np.testing.assert_allclose(answers.next.sum(axis=1), 1, atol=1e-15)
    np.testing.assert_allclose(answers.next, softmax_plain(log_of().next_observations), atol=1e-7)


@settings(max_examples=40)
@given(arrays(float, (3, 4), elements=st.floats(0, 1)), st.floats(-1e-4, 1e-4))
def test_rows_are_accepted_exactly_when_they_sum_to_1_up_to_one_millionth(raw, error):
    raw = raw + 1e-3
    rows = raw / raw.sum(axis=1, keepdims=True)
    rows[1] *= 1 + error
    policy = RowProbabilities(rows, [[0.25] * 4])
    log, start = log_of(3), InitialStates.exact([[0.0, 0.0]])
    if abs(rows.sum(axis=1)[1] - 1) <= 1e-6:
        np.testing.assert_allclose(ask(policy, log, start).next.sum(axis=1), 1, atol=1e-15)
    else:
        refused(policy, "row 1 sum to", "not 1", "Normalize", log=log, start=start)


def test_a_policy_may_scribble_on_what_it_is_given():
    def rude(observations):
        observations[:] = np.nan
        return np.full((len(observations), ACTIONS), 1 / ACTIONS)

    def rude_sampler(observations, rng):
        observations[:] = rng.normal()
        return observations

    log = log_of()
    before = log.next_observations.copy()
    ask(CallablePolicy(rude), log)
    ask(CallableSampler(rude_sampler), continuous_log())
    np.testing.assert_array_equal(log.next_observations, before)
    np.testing.assert_array_equal(START.observations, [[0.0, 1.0], [3.0, 2.0]])


@dataclass
class Recorder:
    """Keeps what it was asked."""

    time_dependent: bool
    seen: list

    def action_probs(self, observations, *time):
        self.seen.append((observations, *time))
        return np.full((len(observations), ACTIONS), 1 / ACTIONS)

    def sample_action(self, observations, rng, *time):
        assert isinstance(rng, np.random.Generator)
        self.seen.append((observations, *time))
        return observations[:, :2]


TIMES = {"episode_ids": [0, 0, 0, 0, 1, 1, 1, 1], "timesteps": [0, 1, 2, 3, 0, 1, 3, 4]}


@pytest.mark.parametrize("make_log", [log_of, continuous_log])
def test_time_dependent_policies_get_t_plus_1_at_next_states_and_0_at_the_start(make_log):
    log = make_log(terminations=[0, 0, 0, 1, 0, 0, 0, 0], **TIMES)
    policy = Recorder(True, [])
    ask(policy, log, time_varying=True, draws=1, initial_draws=1)
    (start, start_time), (following, next_time) = policy.seen
    np.testing.assert_array_equal(start, START.observations)
    np.testing.assert_array_equal(start_time, [0, 0])
    np.testing.assert_array_equal(following, log.next_observations[[0, 1, 2, 4, 5, 6, 7]])
    np.testing.assert_array_equal(next_time, [1, 2, 3, 1, 2, 4, 5])


def test_time_dependent_policies_are_not_asked_at_or_beyond_the_horizon():
    policy = Recorder(True, [])
    ask(policy, log_of(**TIMES), horizon=3)
    np.testing.assert_array_equal(policy.seen[1][1], [1, 2, 1, 2])


@pytest.mark.parametrize("make_log", [log_of, continuous_log])
def test_policies_that_do_not_depend_on_time_are_asked_without_it(make_log):
    policy = Recorder(False, [])
    ask(policy, make_log(**TIMES), horizon=4, draws=1, initial_draws=1)
    assert [len(question) for question in policy.seen] == [1, 1]


def test_plain_functions_of_time_are_wrapped():
    shift = CallablePolicy(lambda x, t: np.eye(ACTIONS)[t % ACTIONS] + 0 * x[:, :1], time_dependent=True)
    answers = ask(shift, log_of(**TIMES), time_varying=True)
    np.testing.assert_array_equal(answers.next.argmax(axis=1), [1, 2, 0, 1, 1, 2, 1, 2])
    np.testing.assert_array_equal(answers.initial.argmax(axis=1), [0, 0])
    drift = CallableSampler(lambda x, _, t: x + t[:, None], deterministic=True, time_dependent=True)
    log = continuous_log(**TIMES)
    expected = log.next_observations + np.array(TIMES["timesteps"])[:, None] + 1
    np.testing.assert_array_equal(ask(drift, log, time_varying=True).next[:, 0], expected)


def test_rows_of_terminal_transitions_are_ignored_in_row_probabilities():
    log = log_of(terminations=[0, 1, 0, 0, 1, 0, 0, 0])
    probs = softmax_plain(log.next_observations)
    full = ask(RowProbabilities(probs, softmax_plain(START.observations)), log)
    holes = probs.copy()
    holes[[1, 4]] = np.nan
    np.testing.assert_array_equal(ask(RowProbabilities(holes, softmax_plain(START.observations)), log).next, full.next)
    np.testing.assert_array_equal(full.next, ask(Duck(), log).next)


def test_an_all_terminal_log_never_asks_for_next_actions():
    policy = Recorder(False, [])
    answers = ask(policy, log_of(terminations=np.ones(8)))
    assert [len(question[0]) for question in policy.seen] == [2]
    assert answers.next.shape == (0, ACTIONS)
    policy.seen.clear()
    answers = ask(policy, continuous_log(terminations=np.ones(8)), draws=4, initial_draws=3)
    assert [len(question[0]) for question in policy.seen] == [2, 2, 2]
    assert answers.next.shape == (0, 4, 2)


def test_a_single_row_that_goes_on_is_asked():
    one = np.arange(8) != 5
    assert ask(Duck(), log_of(terminations=one)).next.shape == (1, ACTIONS)
    assert ask(CONTINUOUS["gaussian"], continuous_log(terminations=one)).next.shape == (1, 5, 2)


# What is refused


@pytest.mark.parametrize(
    "shape", [(), (2,), (2, 2, 3), (3, 3), (1, 3), (2, 0)], ids=["number", "flat", "3 axes", "more", "less", "none"]
)
def test_probabilities_of_the_wrong_shape_are_refused_with_both_shapes(shape):
    refused(
        CallablePolicy(lambda _: np.full(shape, 1 / 3)),
        f"initial state have shape {shape}",
        "(2, number of actions) is needed",
    )


def test_a_number_of_actions_that_depends_on_the_state_is_refused():
    policy = CallablePolicy(lambda x: np.full((len(x), len(x)), 1 / len(x)))
    refused(policy, "next state have shape (8, 8); (8, 2) is needed")


@pytest.mark.parametrize("bad", [[0.5, 0.6, -0.1], [np.nan, 0.5, 0.5], [np.inf, 0.0, 0.0]])
def test_probabilities_that_are_negative_or_not_finite_are_refused_with_their_state(bad):
    probs = np.full((2, 3), 1 / 3)
    probs[1] = bad
    refused(CallablePolicy(lambda _: probs), "at initial state 1 are", "finite and >= 0")


@pytest.mark.parametrize("total", [0.0, 0.9, 1.1, 1 + 2e-6])
def test_probabilities_that_do_not_sum_to_1_are_refused_with_their_state(total):
    probs = np.full((2, 3), 1 / 3)
    probs[1] = total / 3
    refused(CallablePolicy(lambda _: probs), f"initial state 1 sum to {total:.9g}, not 1", "Normalize")


@pytest.mark.parametrize("answer", ["yes", {"a": 1}, [["x", "y"]] * 2, object()])
def test_answers_that_are_not_numbers_are_refused(answer):
    refused(CallablePolicy(lambda _: answer), "The policy returned something that is not an array of numbers")


@pytest.mark.parametrize("where", ["initial", "next"])
def test_an_exception_of_the_policy_is_named_located_and_chained(where):
    def moody(observations):
        if len(observations) == (2 if where == "initial" else 8):
            raise KeyError("no such state")
        return np.full((len(observations), ACTIONS), 1 / ACTIONS)

    error = refused(CallablePolicy(moody), f"The policy raised KeyError at the {where} state: 'no such state'")
    assert isinstance(error.__cause__, KeyError)


def test_an_interrupt_is_not_swallowed():
    def interrupted(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask(CallablePolicy(interrupted))


def test_an_exception_of_a_sampler_is_named():
    refused(CallableSampler(lambda *_: 1 // 0), "raised ZeroDivisionError at the initial state", log=continuous_log())


@pytest.mark.parametrize("shape", [(), (2,), (2, 1), (2, 3), (1, 2), (2, 2, 1)])
def test_sampled_actions_of_the_wrong_shape_are_refused_with_both_shapes(shape):
    refused(CallableSampler(lambda *_: np.zeros(shape)), f"have shape {shape}; (2, 2) is needed", log=continuous_log())


def test_sampled_actions_that_are_not_finite_are_refused_with_their_state():
    refused(
        CallableSampler(lambda x, _: np.where(x == 3.0, np.nan, x)),
        "non-finite action at initial state 1: [nan  2.]",
        log=continuous_log(),
    )


@pytest.mark.parametrize("counts", [{"draws": 0}, {"draws": -1}, {"draws": 2.5}, {"initial_draws": 0}])
def test_at_least_one_action_must_be_drawn(counts):
    refused(CONTINUOUS["gaussian"], "At least one action", kind=InvalidInput, log=continuous_log(), **counts)


def test_row_probabilities_need_one_row_per_row_of_the_log():
    policy = RowProbabilities(np.full((7, 3), 1 / 3), np.full((2, 3), 1 / 3))
    refused(policy, "`next_probs` has shape (7, 3)", "one row per row of the log (8)", kind=InvalidInput)
    policy = RowProbabilities(np.full((8, 3), 1 / 3), np.full((1, 3), 1 / 3))
    refused(policy, "initial state have shape (1, 3)")
    refused(RowProbabilities(np.full((8, 2), 1 / 2), np.full((2, 3), 1 / 3)), "(8, 3) is needed")
    policy = RowProbabilities(np.full((8, 3), 1 / 3), [["a", "b", "c"]] * 2)
    refused(policy, "probabilities at the initial state are not an array of numbers")


ENDS = {"terminations": [0, 1, 0, 0, 1, 0, 0, 0]}


@pytest.mark.parametrize("written", [True, False])
def test_bad_probabilities_name_the_row_of_the_log_also_behind_terminal_rows(written):
    probs = np.full((8, 3), 1 / 3)
    probs[6, 0] = 0.5
    log = log_of(**ENDS)
    going_on = probs[~log.terminations]
    policy = CallablePolicy(lambda x: going_on if len(x) == 6 else np.full((len(x), 3), 1 / 3))
    policy = RowProbabilities(probs, np.full((2, 3), 1 / 3)) if written else policy
    refused(policy, "next state of row 6 sum to 1.16666667, not 1", log=log)
    probs[6], going_on[4] = np.nan, np.nan
    refused(policy, "next state of row 6 are [nan nan nan]", log=log)


def test_bad_draws_name_the_row_of_the_log_also_behind_terminal_rows():
    policy = CallableSampler(lambda x, _: x + np.where(np.arange(len(x)) == 4, np.inf, 0.0)[:, None])
    refused(policy, "non-finite action at next state of row 6", log=continuous_log(**ENDS))


def test_written_probabilities_that_are_no_numbers_are_refused():
    refused(RowProbabilities([["a", "b", "c"]] * 8, np.full((2, 3), 1 / 3)), "`next_probs` is not an array of numbers")


@pytest.mark.parametrize(
    "policy", [CallablePolicy(lambda x, t: x[t], True), CallableSampler(lambda *_: 0, False, True)]
)
def test_a_policy_of_time_needs_a_problem_with_time(policy):
    log = log_of() if hasattr(policy, "action_probs") else continuous_log()
    refused(policy, "The policy depends on time", "horizon= or time_varying=True", kind=InvalidInput, log=log)


def test_a_mixture_passes_time_to_the_parts_that_want_it():
    shift = CallablePolicy(lambda x, t: np.eye(ACTIONS)[t % ACTIONS] + 0 * x[:, :1], time_dependent=True)
    mixed = ask(MixturePolicy(0.5, shift, UniformPolicy(ACTIONS)), log_of(**TIMES), time_varying=True)
    np.testing.assert_array_equal(mixed.next.argmax(axis=1), [1, 2, 0, 1, 1, 2, 1, 2])
    drift = CallableSampler(lambda x, _, t: x + t[:, None], time_dependent=True)
    log = continuous_log(**TIMES)
    both = ask(MixturePolicy(1.0, drift, DeterministicPolicy(lambda x: 0 * x)), log, time_varying=True, draws=1)
    np.testing.assert_array_equal(both.next[:, 0], log.next_observations + log.timesteps[:, None] + 1)


@pytest.mark.parametrize("policy", [None, softmax_plain, CONTINUOUS["gaussian"]], ids=["None", "function", "sampler"])
def test_a_discrete_log_needs_probabilities_and_the_message_says_how(policy):
    refused(policy, "discrete actions", "action_probs", "RowProbabilities", "CallablePolicy", kind=InvalidInput)


@pytest.mark.parametrize("policy", [None, UniformPolicy(3), RowProbabilities([], [])], ids=["None", "discrete", "rows"])
def test_a_continuous_log_needs_a_sampler_and_the_message_says_how(policy):
    refused(policy, "continuous", "sample_action", "CallableSampler", kind=InvalidInput, log=continuous_log())
