"""Policies: formulas against slow twins, one conformance test for all of them, and how they are asked."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bondic.core.errors import InvalidInput
from bondic.data.initial import InitialStates
from bondic.data.transitions import Transitions
from bondic.errors import PolicyError
from bondic.policies.answers import StoredAnswers
from bondic.policies.protocol import CallablePolicy, CallableSampler, RowProbabilities
from bondic.policies.standard import (
    DeterministicPolicy,
    GaussianPolicy,
    MixturePolicy,
    SoftmaxPolicy,
    TablePolicy,
    UniformPolicy,
)
from bondic.rows.problem import make_problem

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


TABLE = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0], [0.0, 0.25, 0.75], [0.5, 0.5, 0.0]])
DISCRETE = {
    "uniform": UniformPolicy(ACTIONS),
    "table": TablePolicy(TABLE),
    "softmax": SoftmaxPolicy(scores, 0.5),
    "deterministic": DeterministicPolicy(best, ACTIONS),
    "callable": CallablePolicy(softmax_plain),
    "mixture": MixturePolicy(0.3, SoftmaxPolicy(scores), DeterministicPolicy(best, ACTIONS)),
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
ENDS = {"terminations": [0, 1, 0, 0, 1, 0, 0, 0]}


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
def test_discrete_policies(policy):
    """One distribution per row, rows looked at one by one, asked at next and initial states, with exact means."""
    states = log_of(50).observations
    probs = policy.action_probs(states)
    assert probs.shape == (50, ACTIONS)
    assert np.all(probs >= 0)
    np.testing.assert_allclose(probs.sum(axis=1), 1, rtol=0, atol=1e-15 * ACTIONS)
    alone = np.concatenate([policy.action_probs(states[i : i + 1]) for i in range(50)])
    np.testing.assert_allclose(probs, alone, rtol=1e-14, atol=1e-16)
    log = log_of(**ENDS)
    answers = ask(policy, log)
    assert (answers.discrete, answers.exact, answers.initial.shape[1]) == (True, True, ACTIONS)
    np.testing.assert_allclose(answers.next, policy.action_probs(log.next_observations[~log.terminations]), rtol=1e-15)
    np.testing.assert_allclose(answers.initial, policy.action_probs(START.observations), rtol=1e-15)


# Formulas


@settings(max_examples=60)
@given(arrays(float, (4, 3), elements=st.floats(-1e3, 1e3)), st.floats(0.05, 20))
def test_softmax_is_its_formula(logits, temperature):
    probs = SoftmaxPolicy(lambda _: logits, temperature).action_probs(np.zeros((4, 1)))
    for row, line in enumerate(logits):
        odds = [math.exp((value - max(line)) / temperature) for value in line]
        np.testing.assert_allclose(probs[row], [value / math.fsum(odds) for value in odds], rtol=1e-11, atol=1e-300)
    extreme = np.array([[1e300, 0.0, -1e300], [0.0, -np.inf, 0.0]])
    found = SoftmaxPolicy(lambda _: extreme).action_probs(np.zeros((2, 1)))
    np.testing.assert_array_equal(found, [[1, 0, 0], [0.5, 0, 0.5]])


@pytest.mark.parametrize("alpha", [0, 1, 0.5, 0.3, 1e-300])
def test_a_mixture_is_the_weighted_sum_and_at_1_and_0_one_of_its_parts(alpha):
    states = log_of(40).observations
    one, other = SoftmaxPolicy(scores).action_probs(states), TablePolicy(TABLE).action_probs(states)
    probs = MixturePolicy(alpha, SoftmaxPolicy(scores), TablePolicy(TABLE)).action_probs(states)
    np.testing.assert_allclose(probs, alpha * one + (1 - alpha) * other, rtol=0 if alpha in (0, 1) else 1e-15)


SUMS = "one row of probabilities per state, each summing to 1"
IMPOSSIBLE = {
    "flat table": (lambda: TablePolicy([0.5, 0.5]), SUMS),
    "table that sums to 1.1": (lambda: TablePolicy([[0.5, 0.6]]), SUMS),
    "negative table": (lambda: TablePolicy([[1.5, -0.5]]), SUMS),
    "table with NaN": (lambda: TablePolicy([[np.nan, 1.0]]), SUMS),
    "no temperature": (lambda: SoftmaxPolicy(scores, 0.0), "positive and finite, not 0.0"),
    "an unknown rate": (lambda: MixturePolicy(np.nan, UniformPolicy(2), UniformPolicy(2)), r"in \[0, 1\], not nan"),
    "a negative spread": (lambda: GaussianPolicy(lambda x: x, (0.5, -0.1)), "finite and >= 0"),
    "an infinite spread": (lambda: GaussianPolicy(lambda x: x, np.inf), "finite and >= 0"),
}


@pytest.mark.parametrize(("make", "message"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_impossible_policies_are_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


# Continuous policies


@continuous
def test_continuous_policies(policy):
    """One action per row, again with the same seed; drawn m times at next states and often at initial ones."""
    states = log_of(30).observations
    actions = policy.sample_action(states, np.random.default_rng(3))
    assert actions.shape == (30, 2)
    np.testing.assert_array_equal(actions, policy.sample_action(states, np.random.default_rng(3)))
    answers = ask(policy, continuous_log(**ENDS), draws=7, initial_draws=11)
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


def test_draws_are_different_numbers_and_come_from_the_seed_alone():
    """Common random numbers would make an earlier row reveal a later draw."""
    noise = ask(GaussianPolicy(lambda x: 0 * x[:, :1], 1.0), continuous_log(dimension=1))
    everything = np.concatenate([noise.next.ravel(), noise.initial.ravel()])
    assert np.unique(everything).size == everything.size
    first, again, other = (ask(CONTINUOUS["gaussian"], continuous_log(), seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.next, again.next)
    assert not np.any(first.next == other.next)


def test_gaussian_has_its_mean_and_spread():
    """20 000 draws, 5 standard errors: a false alarm has probability < 1e-5."""
    states = np.full((20_000, 2), [1.0, -2.0])
    actions = GaussianPolicy(lambda x: 3 * x, [0.5, 2.0]).sample_action(states, np.random.default_rng(0))
    np.testing.assert_allclose(actions.mean(axis=0), [3.0, -6.0], atol=5 * 2.0 / np.sqrt(20_000))
    np.testing.assert_allclose(actions.std(axis=0), [0.5, 2.0], rtol=5 / np.sqrt(2 * 20_000))


# How policies are asked


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

    log = log_of()
    before = log.next_observations.copy()
    ask(CallablePolicy(rude), log)
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
    (start, start_time), (following, next_time) = policy.seen[:2]  # then it is asked again, in another order
    np.testing.assert_array_equal(start, START.observations)
    np.testing.assert_array_equal(start_time, [0, 0])
    goes_on = [0, 1, 2, 4, 5, 6, 7]
    asked = slice(None) if log.discrete_actions else goes_on  # draws: a row has its place, others stand in for no row
    np.testing.assert_array_equal(following[asked], log.next_observations[goes_on])
    np.testing.assert_array_equal(next_time[asked], [1, 2, 3, 1, 2, 4, 5])
    plain = Recorder(False, [])
    ask(plain, make_log(**TIMES), horizon=4, draws=1, initial_draws=1)
    assert [len(question) for question in plain.seen[:2]] == [1, 1]


# What is refused


def third(shape):
    return CallablePolicy(lambda _: np.full(shape, 1 / 3))


def second_state(row):
    """Uniform at the first initial state, `row` at the second."""
    return CallablePolicy(lambda _: np.array([[1 / 3] * 3, row]))


def choosing(choice):
    return DeterministicPolicy(lambda x: np.full(len(x), choice), ACTIONS)


def written(following=1 / 3, initial=1 / 3, *, rows=8, actions=3, starts=2):
    """Probabilities written down, all equal unless given."""
    following = np.full((rows, actions), following) if isinstance(following, float) else following
    return RowProbabilities(following, np.full((starts, 3), initial) if isinstance(initial, float) else initial)


FAULTY = {
    **{
        f"probabilities of shape {shape}": (third(shape), f"initial state have shape {shape}", "(2, number of actions)")
        for shape in [(2,), (3, 3), (2, 0)]
    },
    "as many actions as states": (
        CallablePolicy(lambda x: np.full((len(x), len(x)), 1 / len(x))), "next state have shape (8, 8); (8, 2) is needed",
    ),
    **{
        f"probabilities {bad}": (second_state(bad), "at initial state number 1 (counted from 0) are", "finite and >= 0")
        for bad in [[0.5, 0.6, -0.1], [np.nan, 0.5, 0.5]]
    },
    **{
        f"a sum of {total}": (second_state([total / 3] * 3), f"number 1 (counted from 0) sum to {total:.9g}, not 1", "Normalize")
        for total in (0.0, 1 + 2e-6)
    },
    "words": (CallablePolicy(lambda _: "yes"), "returned something that is not an array of numbers"),
    **{  # 0.9 must not quietly become action 0
        f"the choice {choice}": (choosing(choice), "must choose one of 0..2 per row", f"{choice}"[:3])
        for choice in (-1, 3, 0.9, np.nan)
    },
    "choices of shape (8, 1)": (
        DeterministicPolicy(lambda _: np.zeros((8, 1), dtype=int), ACTIONS), "must choose one of 0..2", "(8, 1)",
    ),
    "choices of nobody knows how many": (DeterministicPolicy(best), "discrete actions", "n_actions="),
    "flat scores": (SoftmaxPolicy(lambda x: x[:, 0]), "Scores have shape (2,); (rows, number of actions) is needed"),
    "a mixture of 2 and 3 actions": (MixturePolicy(0.5, UniformPolicy(2), UniformPolicy(3)), "The policy raised ValueError"),
    "a mixture of 3 actions and 1": (MixturePolicy(0.5, UniformPolicy(3), UniformPolicy(1)), "sum to 2, not 1"),
    "written for other starts": (written(starts=1), "initial state have shape (1, 3)"),
    "written for other actions": (written(0.5, actions=2), "(8, 3) is needed"),
    "words for the rows": (written([["a", "b", "c"]] * 8), "`next_probs` is not an array of numbers"),
    "a table without a state": (TablePolicy(TABLE[:2]), "State 3.0 is not in the table, which has states 0..1"),
}  # fmt: skip
FAULTY_SAMPLERS = {
    "an exception": (CallableSampler(lambda *_: 1 // 0), "raised ZeroDivisionError at the initial state"),
    **{
        f"actions of shape {shape}": (
            CallableSampler(lambda *_, s=shape: np.zeros(s)), f"have shape {shape}; (2, 2) is needed",
        )
        for shape in [(2,), (2, 3), (1, 2)]
    },
    "a NaN": (
        CallableSampler(lambda x, _: np.where(x == 3.0, np.nan, x)), "initial state number 1 (counted from 0): [nan  2.]",
    ),
    "infinity behind terminal rows": (
        CallableSampler(lambda x, _: x + np.where(np.arange(len(x)) == 6, np.inf, 0.0)[:, None]),
        "non-finite action at next state of row 6",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTY.values(), ids=FAULTY)
def test_faulty_answers_are_refused(case):
    refused(*case)


@pytest.mark.parametrize("case", FAULTY_SAMPLERS.values(), ids=FAULTY_SAMPLERS)
def test_faulty_draws_are_refused(case):
    refused(*case, log=continuous_log(**ENDS))


@pytest.mark.parametrize("policy", [GaussianPolicy(np.transpose, 0.0), DeterministicPolicy(np.transpose)])
def test_a_transposed_answer_is_not_quietly_cut_into_rows(policy):
    refused(policy, "shape (2, 3); (3, 2) is needed", log=continuous_log(), start=InitialStates.exact(np.eye(3)[:, :2]))


@pytest.mark.parametrize(("where", "count"), [("initial", 2), ("next", 8)])
def test_an_exception_of_the_policy_is_named_located_and_chained(where, count):
    def moody(observations, problem=KeyError):
        if len(observations) == count:
            raise problem("no such state")
        return np.full((len(observations), ACTIONS), 1 / ACTIONS)

    error = refused(CallablePolicy(moody), f"The policy raised KeyError at the {where} state: 'no such state'")
    assert isinstance(error.__cause__, KeyError)
    with pytest.raises(KeyboardInterrupt):
        ask(CallablePolicy(lambda states: moody(states, KeyboardInterrupt)))


@pytest.mark.parametrize("by_row", [True, False])
def test_bad_probabilities_name_the_row_of_the_log_also_behind_terminal_rows(by_row):
    probs = np.full((8, 3), 1 / 3)
    probs[6, 0] = 0.5
    log = log_of(**ENDS)
    going_on = probs[~log.terminations]
    policy = CallablePolicy(lambda x: going_on if len(x) == 6 else np.full((len(x), 3), 1 / 3))
    policy = written(probs) if by_row else policy
    refused(policy, "next state of row 6 sum to 1.16666667, not 1", log=log)
    probs[6], going_on[4] = np.nan, np.nan
    refused(policy, "next state of row 6 are [nan nan nan]", log=log)


@pytest.mark.parametrize(
    "policy", [CallablePolicy(lambda x, t: x[t], True), CallableSampler(lambda *_: 0, False, True)]
)
def test_a_policy_of_time_needs_a_problem_with_time(policy):
    log = log_of() if hasattr(policy, "action_probs") else continuous_log()
    refused(policy, "The policy depends on time", "horizon= or time_varying=True", kind=InvalidInput, log=log)


@pytest.mark.parametrize("mixed", [False, True])
def test_functions_of_time_are_wrapped_and_mixtures_pass_it_to_the_parts_that_want_it(mixed):
    shift = CallablePolicy(lambda x, t: np.eye(ACTIONS)[t % ACTIONS] + 0 * x[:, :1], time_dependent=True)
    policy = MixturePolicy(0.5, shift, UniformPolicy(ACTIONS)) if mixed else shift
    answers = ask(policy, log_of(**TIMES), time_varying=True)
    np.testing.assert_array_equal(answers.next.argmax(axis=1), [1, 2, 0, 1, 1, 2, 1, 2])
    np.testing.assert_array_equal(answers.initial.argmax(axis=1), [0, 0])
    drift = CallableSampler(lambda x, _, t: x + t[:, None], deterministic=True, time_dependent=True)
    policy = MixturePolicy(1.0, drift, DeterministicPolicy(lambda x: 0 * x)) if mixed else drift
    log = continuous_log(**TIMES)
    found = ask(policy, log, time_varying=True, draws=1).next[:, 0]
    np.testing.assert_array_equal(found, log.next_observations + log.timesteps[:, None] + 1)


GAUSSIAN = CONTINUOUS["gaussian"]
UNFIT = {
    "too few rows": (written(rows=7), "one row per row of the log (8)", {}),
    "rows for continuous actions": (RowProbabilities([], []), "sample_action", {"log": continuous_log()}),
    **{
        f"{counts}": (GAUSSIAN, "At least one action", {"log": continuous_log(), **counts})
        for counts in ({"draws": 2.5}, {"initial_draws": 0})
    },
}  # fmt: skip


@pytest.mark.parametrize(("policy", "needle", "more"), UNFIT.values(), ids=UNFIT)
def test_policies_that_do_not_fit_the_log_are_refused(policy, needle, more):
    refused(policy, needle, kind=InvalidInput, **more)
