"""A value range stated by the user: its formulas, the log against it, and its place in intervals and certificates."""

import json
import warnings
from dataclasses import asdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from mpmath import mpf

import bondic
import naive
from bondic.core.balls import Ball, Instruments
from bondic.core.certificate import Certificate, compute_digest
from bondic.core.errors import InvalidInput, VerificationError
from bondic.core.kernels.leaves import Dirac
from bondic.core.terms import Terms, ValueRange, largest_width, make_terms, range_at_all_times, range_of, row_widths
from bondic.errors import ValidityWarning
from builders import LAKE_GAMMA, LAKE_POLICY, lake, lake_problem

# ------------------------------------------------------------------------------------------------------ formulas


def test_the_range_in_force_by_hand():
    """gamma = 0.95, rewards in [0, 1]: [0, 20] implied; of that, what is stated."""
    assert range_of(Terms(0.95, (0.0, 1.0))).high == pytest.approx(20.0)
    assert range_of(Terms(0.95, (0.0, 1.0), value_range=(-3.0, 1.0))) == ValueRange(0.0, 1.0)
    # two to ten rewards of 1 or 2, of which at most 10 in all
    terms = Terms(1.0, (1.0, 2.0), False, 10, True, (0.0, 10.0))
    expected = {time: (10 - time, min(2 * (10 - time), 10)) for time in range(10)}
    for time, (low, high) in expected.items():
        found = range_of(terms, time)
        assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    widths = row_widths(terms, np.arange(10), 10)
    assert widths == pytest.approx([0, 1, 2, 3, 4, 5, 4, 3, 2, 1], abs=1e-12)
    assert largest_width(terms) == pytest.approx(5.0)  # not at time 0, where nothing is left to doubt
    assert range_of(terms, 10) == range_of(terms, 12) == ValueRange(0.0, 0.0)
    assert (range_at_all_times(terms).low, range_at_all_times(terms).high) == (pytest.approx(1), pytest.approx(10))


numbers = st.integers(-16, 16).map(lambda k: k / 8)


@st.composite
def statements(draw):
    low, high = sorted((draw(numbers), draw(numbers)))
    v_low, v_high = sorted((8 * draw(numbers), 8 * draw(numbers)))
    gamma = draw(st.sampled_from([0.0, 0.25, 0.5, 0.9]))
    horizon = draw(st.sampled_from([None, 1, 2, 7, 40, 400]))
    try:
        return make_terms(gamma, (low, high), horizon, draw(st.booleans()), False, (v_low, v_high))
    except InvalidInput:
        assume(False)


@given(statements())
@example(Terms(0.9, (1.0, 2.0), False, 5000, True, (0.0, 10.25)))  # [10, 10.25] at time 0, [1, 2] at the last one
@settings(max_examples=80, deadline=None)
def test_widths_bound_what_both_statements_leave_at_every_time(terms):
    """Against 50 digits; the widest time need not be the first."""
    last = 1 if terms.horizon is None else terms.horizon
    times = np.unique(np.linspace(0, last - 1, 30).astype(np.int64))
    widths = row_widths(terms, times, times.size)
    everywhere, largest = range_at_all_times(terms), largest_width(terms)
    scale = max(1.0, *map(abs, terms.value_range))
    for time, width in zip(times.tolist(), widths, strict=True):
        low, high = naive.value_range(*terms.reward_range, terms.gamma, terms.may_terminate, terms.horizon, time)
        low, high = max(low, mpf(terms.value_range[0])), min(high, mpf(terms.value_range[1]))
        found = range_of(terms, time)
        assert mpf(found.low) <= low
        assert high <= mpf(found.high)
        assert everywhere.low <= found.low
        assert found.high <= everywhere.high
        assert high - low <= mpf(float(width)) <= high - low + mpf(10) ** -12 * scale
        assert width <= largest * (1 + 1e-14)
    if terms.horizon is not None and terms.horizon <= 40:
        exact = row_widths(terms, np.arange(terms.horizon), terms.horizon).max()
        assert largest <= exact * (1 + 1e-12) + 1e-300


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((1, 0), "lowest first"),
        ((0, np.inf), "two finite numbers"),
        ((np.nan, 1), "two finite numbers"),
        (3, "`value_range` is a pair"),
        ((0, 1, 2), "`value_range` is a pair"),
        ((0, 10**400), "`value_range` is a pair"),
        ((21, 30), "have no value in common"),
        ((-2, -1), "state ranges that hold together"),
    ],
)
def test_statements_that_cannot_be_are_refused(given, words):
    with pytest.raises(InvalidInput, match=words):
        lake_problem(value_range=given)


def test_a_statement_that_fails_at_the_last_step_only_is_refused():
    """One reward of 1 is left at the last step: no return of 5."""
    with pytest.raises(InvalidInput, match="no value in common"):
        make_terms(1.0, (1.0, 1.0), 10, False, False, (5.0, 10.0))
    assert make_terms(1.0, (1.0, 1.0), 10, False, False, (1.0, 10.0)).value_range == (1.0, 10.0)


# ------------------------------------------------------------------------------------------- against the log


def brute_force(rewards, ends, low, high, gamma):
    """Whether some return of the chain must leave [low, high]; exact fractions, every pair of rows."""
    gamma = Fraction(gamma)
    for i in range(len(rewards)):
        total, weight = Fraction(0), Fraction(1)
        for j in range(i, len(rewards)):
            total += weight * Fraction(rewards[j])
            weight *= gamma
            if ends[j]:
                if not low <= total <= high:
                    return True
                break
            if total + weight * Fraction(low) > high or total + weight * Fraction(high) < low:
                return True
    return False


def chain(rewards, ends, **more):
    n = len(rewards)
    ids = np.cumsum(np.r_[0, np.array(ends[:-1], dtype=int)])
    places = np.arange(n, dtype=float)[:, None]
    return {
        "observations": places,
        "actions": np.zeros(n, dtype=int),
        "rewards": np.array(rewards, dtype=float),
        "next_observations": places + 1,
        "terminations": np.array(ends, dtype=bool),
        "episode_ids": ids,
        **more,
    }


def ask(data, gamma, value_range, batch=None, **more):
    log = bondic.Transitions(**data) if batch is None else bondic.stream_log(data, batch_rows=batch)
    statement = {"gamma": gamma, "reward_range": (-100.0, 100.0), "value_range": value_range, "accept": None, **more}
    return bondic.make_problem(log, bondic.UniformPolicy(1), bondic.InitialStates.exact([[0.0]]), **statement)


def complaint(*arguments, **more):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ValidityWarning)  # on rewards that all come late, where gamma is 0
            ask(*arguments, **more)
    except InvalidInput as problem:
        return str(problem)
    return None


@given(
    st.lists(st.tuples(numbers, st.booleans()), min_size=1, max_size=8),
    st.tuples(numbers, numbers).map(sorted),
    st.sampled_from([0.0, 0.5, 0.75]),
)
@example([(-0.125, False)], [0.5, 1.0], 0.5)  # the last row of the log, just beyond what may follow it
@example([(0.8125, False)], [0.5, 1.0], 0.5)
@settings(max_examples=120, deadline=None)
def test_a_log_is_refused_exactly_when_it_contradicts_the_statement(rows, limits, gamma):
    rewards, ends = zip(*rows, strict=True)
    said = complaint(chain(rewards, ends), gamma, tuple(limits))
    assert (said is not None) == brute_force(rewards, ends, *limits, gamma)
    for batch in (1, 2, 3):
        assert complaint(chain(rewards, ends), gamma, tuple(limits), batch=batch) == said


@pytest.mark.parametrize("change", ["state", "time", "truncated", "episode"])
def test_rows_that_do_not_follow_each_other_are_not_added_up(change):
    """Keys tell which row follows which; without timesteps the state that a row led to."""
    data = chain([0.6, 0.6], [0, 1]) | ({} if change == "state" else {"timesteps": np.array([0, 1])})
    assert "from row 0 is 1.14" in complaint(data, 0.9, (0, 1))
    if change == "state":
        data["observations"] = np.array([[0.0], [5.0]])
    elif change == "time":
        data["timesteps"] = np.array([0, 4])
    elif change == "episode":
        data["episode_ids"] = np.array([0, 1])
    else:
        data["truncations"] = np.array([True, False])
    for batch in (None, 1, 2):
        assert complaint(data, 0.9, (0, 1), batch=batch) is None


def test_rows_beyond_the_horizon_do_not_count():
    data = chain([0.4, 0.4, 0.4], [0, 0, 1]) | {"timesteps": np.arange(3)}
    assert "from row 0 is 1.2" in complaint(data, 1.0, (0, 1), horizon=3)
    assert complaint(data, 1.0, (0, 1), horizon=2) is None
    assert "from row 0 is 0.8" in complaint(data, 1.0, (0, 0.7), horizon=2)


def test_rounding_is_no_contradiction():
    """0.1 ten times is 1 up to rounding; 20 is the return of rewards of 1 for ever."""
    tenths = chain([0.1] * 10, [0] * 9 + [1]) | {"timesteps": np.arange(10)}
    assert complaint(tenths, 1.0, (0, 1), horizon=10) is None
    assert "from row 0" in complaint(tenths, 1.0, (0, 1 - 1e-6), horizon=10)
    thirds = chain([0.3, 0.3, 0.4], [0, 0, 1]) | {"timesteps": np.arange(3)}  # in floats 1 - 0.3 - 0.3 < 0.4
    assert complaint(thirds, 1.0, (0, 1), horizon=3) is None
    ones = chain([1.0] * 3000, [0] * 3000)
    for batch in (None, 170):
        assert complaint(ones, 0.95, (0, 20), batch=batch) is None
        assert "at least" in complaint(ones, 0.95, (0, 19.999), batch=batch)


# --- in intervals and certificates

KERNEL = Dirac(on="state") * Dirac()
METHOD = bondic.Dual(ball=Ball(KERNEL, 3.0), instruments=Instruments(KERNEL))


def test_a_reward_at_the_goal_gives_an_upper_end_of_at_most_one():
    plain = bondic.estimate_interval(lake_problem(lake(40)), method=METHOD)
    stated = bondic.estimate_interval(lake_problem(lake(40), value_range=(0, 1)), method=METHOD)
    assert plain.high > 1 == stated.value_range.high >= stated.high
    assert stated.length < plain.length
    assert stated.low >= 0
    texts = {item.name: item for item in stated.assumptions}
    assert texts["value range"].state == "stated"
    assert "lies in [0, 1]" in texts["value range"].text
    assert "as was stated" in texts["value range"].text
    assert "value range" not in {item.name for item in plain.assumptions}
    assert "The stated ranges alone imply [0, 1]" in stated._repr_html_()


def test_the_true_value_is_covered():
    """J* by solving the chain; 40 logs at alpha = 0.1, of which none may miss (the interval is far from tight)."""
    step = np.zeros((6, 6))
    reward = np.zeros(6)
    right = 0.8 * 0.8 + 0.2 * 0.2
    for state in range(1, 5):
        step[state, state + 1], step[state, state - 1] = right, 1 - right
        reward[state] = right if state + 1 == 5 else 0.0
    alive = step[1:5, 1:5]
    truth = np.linalg.solve(np.eye(4) - LAKE_GAMMA * alive, reward[1:5])[1]
    for seed in range(40):
        found = bondic.estimate_interval(lake_problem(lake(40, seed), value_range=(0, 1)), method=METHOD)
        assert found.low <= truth <= found.high


# ---------------------------------------------------------------------------------------- certificates and pages


@pytest.fixture(scope="module")
def certified():
    problem = lake_problem(value_range=(0, 1))
    return problem, bondic.estimate_interval(problem, method=METHOD)


def altered(certificate, **terms):
    """The same certificate with other statements and a digest that fits them."""
    body = json.loads(json.dumps(certificate.body))
    body["proof"]["estimand"]["terms"].update(terms)
    return Certificate(body, certificate.arrays, compute_digest(body, certificate.arrays))


def test_a_certificate_holds_the_statement_and_is_verified_with_it(certified, tmp_path):
    problem, result = certified
    bondic.save_certificate(result.certificate, tmp_path / "c.json")
    kept = bondic.load_certificate(tmp_path / "c.json")
    spec = kept.body["proof"]["estimand"]["terms"]
    assert spec["value_range"] == [0.0, 1.0]
    assert asdict(problem.terms) | {"reward_range": [0.0, 1.0], "value_range": [0.0, 1.0]} == spec
    for log in (problem.log, bondic.stream_log(lake(), batch_rows=100)):
        checked = bondic.verify(kept, log, LAKE_POLICY)
        assert (checked.low, checked.high) == pytest.approx((result.low, result.high), abs=1e-9)
        assert any(item.name == "value range" for item in checked.assumptions)


@pytest.mark.parametrize("stated", [None, [0.0, 0.9999], [0.0, 2.0], [0.0, 1.0, 2.0], [1.0, 0.0], "ab", [30.0, 40.0]])
def test_a_certificate_with_another_statement_is_refused(certified, stated):
    problem, result = certified
    with pytest.raises(VerificationError):
        bondic.verify(altered(result.certificate, value_range=stated), problem.log)


def test_a_certificate_whose_statement_the_log_contradicts_is_refused(certified):
    problem, result = certified
    with pytest.raises(VerificationError, match="outside the stated `value_range`"):
        bondic.verify(altered(result.certificate, value_range=[0.0, 0.5]), problem.log)


@pytest.mark.parametrize("method", [None, "table", "groups", "propensities"])
@pytest.mark.parametrize("reward", [0.0, 1.0, -3.0])
def test_ranges_of_one_value_are_the_answer(reward, method):
    rng = np.random.default_rng(0)
    states, actions = rng.integers(0, 3, (2, 400))
    chances = np.full(400, 1 / 3)
    log = bondic.Transitions.one_step(states[:, None], actions, np.full(400, reward), behavior_action_probs=chances)
    asked = {"gamma": 0.0, "reward_range": (reward, reward), "method": method}
    found = bondic.evaluate_policy(log, 1, **asked)
    assert (found.low, found.high) == pytest.approx((reward, reward), abs=1e-14)
    assert f"[{reward:g}, {reward:g}]" in repr(
        found
    )  # three digits outward are not below the lower end and above the upper one
    for other in (0, "today"):
        with pytest.raises(InvalidInput, match="nothing to compare"):
            bondic.evaluate_policy(log, 1, against=other, **asked)


@pytest.mark.parametrize("bounds", [(0, 5e-320), (0, 1e-310), (-1e-150, 0)])
def test_ranges_that_floats_cannot_square_are_refused(bounds):
    log = bondic.Transitions.one_step(np.zeros((400, 1)), np.arange(400) % 2, np.zeros(400))
    with pytest.raises(InvalidInput, match="Give rewards in another unit"):
        bondic.evaluate_policy(log, 1, gamma=0.0, reward_range=bounds)
