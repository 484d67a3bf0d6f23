"""From (log, policy, d_0, statements) to points, weights and rewards; and stretches of rows of the same question."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import builders
from bondic.core.balls import Ball, Instruments
from bondic.core.columns import RowRange
from bondic.core.errors import InvalidInput
from bondic.core.kernels.leaves import Constant, Dirac, Gaussian
from bondic.data.initial import InitialStates
from bondic.data.transitions import Transitions
from bondic.estimate import estimate_interval
from bondic.methods.dual import Dual
from bondic.policies.answers import StoredAnswers
from bondic.policies.protocol import CallablePolicy, RowProbabilities
from bondic.policies.standard import GaussianPolicy
from bondic.rows.make import make_rows
from bondic.rows.problem import make_problem
from bondic.rows.rows import Rows
from bondic.verification import verify

START = InitialStates.exact([[0.5, -0.5], [1.5, 2.5], [0.0, 0.0]], [0.5, 0.25, 0.25])
STATEMENTS = {"gamma": 0.9, "reward_range": (-1.0, 1.0), "accept": None}  # rows are draws of no world: not inspected


def columns(n=9, **more):
    return builders.columns(n, **{"n_actions": 3, "ending": 0.3} | more)


def probabilities(observations):
    """Sums, products and quotients only: the same floats whichever rows are asked together."""
    x, y = observations[:, :1], observations[:, 1:]
    weights = 0.1 + (x * [1.0, -1.0, 0.3] + y * [0.2, 0.5, -2.0] + [0.0, 0.5, 1.0]) ** 2
    return weights / weights.sum(axis=1, keepdims=True)


POLICY = CallablePolicy(probabilities)


def timed(n=9, *, terminations=None, seed=0, **more):
    """Episodes of 4 steps, t = 0..3."""
    rows = np.arange(n)
    ends = np.zeros(n, dtype=bool) if terminations is None else terminations
    return Transitions(**columns(n, seed=seed, terminations=ends, episode_ids=rows // 4, timesteps=rows % 4, **more))


def problem_of(log=None, policy=POLICY, start=START, **more):
    return make_problem(Transitions(**columns()) if log is None else log, policy, start, **STATEMENTS | more)


ARRAYS = ("logged", "slots", "rewards", "continues", "times", "log_rows")


def assert_same(one: Rows, other: Rows, *, rows=True):
    """Equal in every number; `rows=False` forgives another place in the log."""
    for name in ARRAYS[:-1] + (("log_rows",) if rows else ()):
        np.testing.assert_array_equal(getattr(one.whole(), name), getattr(other.whole(), name), err_msg=name)
    for name in ("next", "initial"):
        for part in ("points", "weights", "rows"):
            np.testing.assert_array_equal(
                getattr(getattr(one.whole(), name), part), getattr(getattr(other.whole(), name), part)
            )
    assert one.layout == other.layout
    assert one.terms == other.terms


# Points and weights


def test_discrete_points_carry_states_and_slots_and_next_points_the_policy():
    log = Transitions(**columns())
    problem = problem_of(log)
    going_on = np.flatnonzero(~log.terminations)
    assert 0 < going_on.size < len(log)
    np.testing.assert_array_equal(problem.whole().logged, log.observations)
    np.testing.assert_array_equal(problem.whole().slots, log.actions)
    np.testing.assert_array_equal(problem.whole().rewards, log.rewards)
    np.testing.assert_array_equal(problem.whole().continues, ~log.terminations)
    np.testing.assert_array_equal(problem.whole().next.points, log.next_observations[going_on])
    np.testing.assert_array_equal(problem.whole().next.rows, going_on)
    np.testing.assert_allclose(problem.whole().next.weights, probabilities(log.next_observations[going_on]), rtol=1e-15)
    np.testing.assert_array_equal(problem.initial.points, START.observations)
    np.testing.assert_array_equal(problem.initial.rows, [0, 1, 2])
    assert (problem.layout.slots, problem.layout.dimension, problem.layout.discrete) == (3, 2, True)
    assert (problem.next_draws, problem.initial_draws, problem.whole().times, problem.dropped) == (0, 0, None, 0)


def test_continuous_points_carry_the_action_and_next_points_one_draw_each():
    log = Transitions(**columns(action_dim=1))
    problem = problem_of(log, GaussianPolicy(lambda x: x[:, :1], 0.5), draws=4, initial_draws=2)
    going_on = np.flatnonzero(~log.terminations)
    np.testing.assert_array_equal(problem.whole().logged, np.hstack([log.observations, log.actions]))
    np.testing.assert_array_equal(problem.whole().slots, np.zeros(9))
    np.testing.assert_array_equal(problem.whole().next.rows, np.repeat(going_on, 4))
    np.testing.assert_array_equal(
        problem.whole().next.points[:, :2], np.repeat(log.next_observations[going_on], 4, axis=0)
    )
    np.testing.assert_array_equal(problem.whole().next.points[:, 2:].reshape(-1, 4, 1), problem.stored_answers())
    np.testing.assert_array_equal(problem.whole().next.weights, np.full((4 * going_on.size, 1), 0.25))
    np.testing.assert_array_equal(problem.initial.rows, [0, 0, 1, 1, 2, 2])
    np.testing.assert_array_equal(problem.initial.weights, np.full((6, 1), 0.5))
    assert (problem.layout.slots, problem.layout.dimension, problem.layout.discrete) == (1, 3, False)
    assert (problem.next_draws, problem.initial_draws) == (4, 2)


def test_time_is_a_column_and_next_points_are_one_step_later():
    log = timed(9, terminations=np.arange(9) == 8)
    problem = problem_of(log, time_varying=True)
    np.testing.assert_array_equal(problem.whole().logged, np.hstack([log.observations, log.timesteps[:, None]]))
    np.testing.assert_array_equal(problem.whole().next.points[:, 2], log.timesteps[:8] + 1)
    np.testing.assert_array_equal(problem.initial.points[:, 2], [0, 0, 0])
    np.testing.assert_array_equal(problem.whole().times, log.timesteps)
    assert (problem.layout.has_time, problem.layout.dimension) == (True, 3)


def test_truncated_rows_go_on_and_terminated_ones_do_not():
    both = columns(terminations=np.arange(9) == 4, truncations=np.isin(np.arange(9), [2, 4]))
    problem = problem_of(Transitions(**both))
    np.testing.assert_array_equal(problem.whole().continues, np.arange(9) != 4)
    assert 2 in problem.whole().next.rows
    assert 4 not in problem.whole().next.rows


# Horizon


def test_actions_of_dropped_rows_need_not_be_known_to_the_policy():
    actions = np.where(np.arange(9) % 4 >= 2, 7, 1)
    problem = problem_of(timed(actions=actions), horizon=2)
    assert problem.dropped == 4
    with pytest.raises(InvalidInput, match=r"Row 2 has action 7, but the policy knows actions 0\.\.2 only"):
        problem_of(timed(actions=actions), horizon=3)


@settings(max_examples=40)
@given(st.integers(1, 30), st.integers(1, 6))
def test_with_a_horizon_the_kept_rows_are_those_before_it(n, horizon):
    problem = problem_of(timed(n), horizon=horizon)
    times = np.arange(n) % 4
    np.testing.assert_array_equal(problem.whole().log_rows, np.flatnonzero(times < horizon))
    assert problem.dropped == np.sum(times >= horizon)
    np.testing.assert_array_equal(problem.whole().continues, times[times < horizon] + 1 < horizon)
    assert problem.whole().next.points.shape[0] == problem.whole().continues.sum()


# Stretches of rows


def stretches(n):
    return st.tuples(st.integers(0, n), st.integers(0, n)).map(sorted).filter(lambda ends: ends[0] < ends[1])


@settings(max_examples=40)
@given(stretches(9), st.integers(0, 5))
def test_a_stretch_is_the_problem_of_those_rows(ends, seed):
    """Discrete means are exact, so the policy's answers do not depend on the other rows."""
    start, stop = ends
    given_columns = columns(seed=seed)
    part = problem_of(Transitions(**given_columns)).select(start, stop)
    alone = problem_of(Transitions(**{name: column[start:stop] for name, column in given_columns.items()}))
    assert_same(part, alone, rows=False)
    np.testing.assert_array_equal(part.whole().log_rows, np.arange(start, stop))
    assert part.rows == RowRange(start, stop)


@settings(max_examples=40)
@given(st.lists(st.integers(1, 29), unique=True, max_size=4), st.integers(1, 4), st.booleans())
def test_stretches_side_by_side_give_the_whole_again(cuts, horizon, sampled):
    log = timed(30) if not sampled else Transitions(**columns(30, action_dim=1, timesteps=np.arange(30) % 4))
    policy = POLICY if not sampled else GaussianPolicy(lambda x: x[:, :1], 1.0)
    whole = problem_of(log, policy, horizon=horizon, initial_draws=2)
    parts = []
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), 30], strict=True):
        if np.any((whole.whole().log_rows >= start) & (whole.whole().log_rows < stop)):
            parts.append(whole.select(start, stop))
        else:
            with pytest.raises(InvalidInput, match="No usable row is left"):
                whole.select(start, stop)
    for name in ARRAYS:
        np.testing.assert_array_equal(
            np.concatenate([getattr(p.whole(), name) for p in parts]), getattr(whole.whole(), name)
        )
    for name in ("points", "weights"):
        together = np.concatenate([getattr(part.whole().next, name) for part in parts])
        np.testing.assert_array_equal(together, getattr(whole.whole().next, name))
    owners = np.concatenate([part.whole().log_rows[part.whole().next.rows] for part in parts])
    np.testing.assert_array_equal(owners, whole.whole().log_rows[whole.whole().next.rows])
    assert sum(len(part) for part in parts) == len(whole)
    assert all(part.initial is whole.initial for part in parts)


@pytest.mark.parametrize(("start", "stop"), [(0, 10), (2, 5), (0, 4), (8, 12)])
def test_rows_outside_a_stretch_cannot_be_selected_from_it(start, stop):
    part = problem_of().select(3, 9)
    with pytest.raises(InvalidInput, match=rf"rows {start} to {stop - 1} cannot be selected .* covers rows 3 to 8"):
        part.select(start, stop)


@pytest.mark.parametrize(("start", "stop"), [(3, 3), (5, 4), (-1, 3)])
def test_empty_and_impossible_stretches_are_refused(start, stop):
    with pytest.raises(InvalidInput, match=r"No usable row|not a range of rows"):
        problem_of().select(start, stop)


# The policy's answers are all that a problem knows of the policy

METHOD = Dual(
    instruments=Instruments(0.5 * Constant() + 0.5 * Gaussian(1.0) * Dirac()),
    ball=Ball(Gaussian(1.0) * Dirac() + Constant(), 20.0),
)


@pytest.mark.parametrize("more", [{}, {"horizon": 3, "gamma": 1.0}, {"time_varying": True}], ids=str)
def test_probabilities_written_down_per_row_give_the_identical_problem(more):
    log = timed(12, terminations=np.arange(12) == 11)
    asked = problem_of(log, **more)
    written = problem_of(
        log, RowProbabilities(probabilities(log.next_observations), probabilities(START.observations)), **more
    )
    assert_same(asked, written)
    one, other = (estimate_interval(problem, method=METHOD) for problem in (asked, written))
    assert one.certificate.body["proof"]["estimand"] == other.certificate.body["proof"]["estimand"]
    assert (one.low, one.high) == pytest.approx((other.low, other.high), rel=1e-9)
    assert verify(one.certificate, log, POLICY).high == verify(one.certificate, log).high


def test_stored_answers_for_another_number_of_states_are_refused():
    log = Transitions(**columns())
    problem = problem_of(log)
    answers = problem.stored_answers()
    count = answers.shape[0]
    fewer = StoredAnswers(answers[:-1], problem.answers.initial, discrete=True, exact=True)
    with pytest.raises(InvalidInput, match=f"answers cover {count - 1} states; there are {count}"):
        make_rows(log, fewer, START, problem.terms)
