"""Bad and extreme input through the public functions: each case on its own, with the message a user gets.

A message names what is wrong (with the row, where there is one), why it matters or what was expected, and a way out.
"""

import contextlib

import numpy as np
import pytest

from bondic import (
    Ball,
    BondicError,
    Dual,
    Gaussian,
    InitialStates,
    InvalidInput,
    Status,
    Transitions,
    UniformPolicy,
    ValidityWarning,
    estimate_interval,
    evaluate_policy,
    make_problem,
    verify,
)
from bondic.core.classes.instruments import Instruments
from bondic.core.errors import NumericalError, PolicyError, TunedOnCertifiedRows
from bondic.core.kernels.constant import Constant
from bondic.core.kernels.dirac import Dirac
from bondic.policies.protocol import RowProbabilities
from bondic.tuning.defaults import Choices
from builders import columns

START = InitialStates.exact([[0.0, 0.0]])
POLICY = UniformPolicy(2)
METHOD = Dual(
    instruments=Instruments(0.5 * Constant() + 0.5 * Gaussian(1.0) * Dirac()),
    ball=Ball(Gaussian(1.0) * Dirac() + Constant(), 30.0),
)
QUICK = Choices(pairs=8, weight_bandwidth=1.0, constant_share=0.5)


def evaluate(policy=POLICY, *, method=METHOD, alpha=0.1, **changes):
    """A log with these changes, from arrays to an interval; statements may be changed as well."""
    names = ("gamma", "reward_range", "horizon", "may_terminate", "time_varying", "initial", "seed", "draws")
    statements = {name: changes.pop(name) for name in names if name in changes}
    # rows are draws of no world: they are not inspected
    statements = {"gamma": 0.9, "reward_range": (-1, 1), "initial": START, "accept": None} | statements
    return evaluate_policy(Transitions(**columns(**changes)), policy, alpha=alpha, method=method, **statements)


def expect_refused(*needles, kind=InvalidInput, **arguments):
    with pytest.raises(kind) as caught:
        evaluate(**arguments)
    for needle in needles:
        assert needle in str(caught.value), str(caught.value)
    return caught.value


def check_certified(log, policy=POLICY, start=START, *, method=METHOD, **statements):
    """Estimate and verify: the interval is finite, inside the value range, and verification gives the same one."""
    problem = make_problem(log, policy, start, **{"gamma": 0.9, "reward_range": (-1, 1), "accept": None} | statements)
    result = estimate_interval(problem, method=method)
    assert result.value_range.low <= result.low <= result.high <= result.value_range.high
    assert not result.estimated or result.low <= result.estimate <= result.high
    checked = verify(result.certificate, log, policy)
    width = result.value_range.high - result.value_range.low
    assert abs(checked.low - result.low) + abs(checked.high - result.high) <= 1e-6 * width
    assert checked.status == result.status.name
    return result


# Errors are of the library's own classes, and of the kinds that Python users catch


def test_errors_can_be_caught_as_value_errors_and_as_errors_of_this_library():
    for kind in (InvalidInput, PolicyError, TunedOnCertifiedRows):
        assert issubclass(kind, BondicError)
        assert issubclass(kind, ValueError)
    assert issubclass(NumericalError, ArithmeticError)
    assert issubclass(ValidityWarning, UserWarning)


# Statements


@pytest.mark.parametrize("gamma", [-0.1, 1.0, 1, 1.0001, 2, -1e-300, np.nan, np.inf, -np.inf, "0.9", None, [0.9], 1j])
def test_a_discount_outside_0_to_1_is_refused(gamma):
    number = isinstance(gamma, (int, float)) and np.isfinite(gamma)
    why = "gamma = 1 goes with a horizon" if number else "a discount in [0, 1) is needed"
    if gamma == 1:
        expect_refused("`gamma` is 1: nothing bounds a sum", "gamma=0.99", "horizon=H", "value_range=", gamma=gamma)
    else:
        expect_refused(f"`gamma` is {gamma!r}", "[0, 1)", why, gamma=gamma)


def test_a_discount_of_1_needs_a_horizon_and_time_alone_is_not_enough():
    times = {"timesteps": np.arange(10) % 5, "episode_ids": np.arange(10) // 5}
    expect_refused("If exactly H steps count: horizon=H", gamma=1.0, time_varying=True, **times)
    result = evaluate(gamma=1.0, horizon=5, **times)
    assert result.value_range.high == pytest.approx(5.0)
    expect_refused("`gamma` is 1.5", gamma=1.5, horizon=5, **times)


def test_a_discount_of_0_asks_for_the_expected_reward():
    rewards = np.full(10, 0.25)
    ball = Ball(Constant(), 0.25)
    result = evaluate(gamma=0, rewards=rewards, method=Dual(instruments=METHOD.instruments, ball=ball))
    assert result.value_range.high == pytest.approx(1.0)
    assert result.low <= 0.25 <= result.high


@pytest.mark.parametrize("alpha", [0, 1, 0.0, 1.0, -0.1, 1.5, np.nan, np.inf, "0.1", None, True])
def test_an_error_probability_outside_0_to_1_is_refused(alpha):
    expect_refused(f"`alpha` is {alpha!r}", "strictly between 0 and 1", alpha=alpha)
    problem = make_problem(Transitions(**columns()), POLICY, START, gamma=0.9, reward_range=(-1, 1))
    with pytest.raises(InvalidInput, match="`alpha` is"):
        estimate_interval(problem, alpha=alpha)


@pytest.mark.parametrize("alpha", [1e-300, 1e-9, 0.999999, np.float64(0.1)])
def test_any_error_probability_inside_0_to_1_is_legal(alpha):
    unusual = pytest.warns(ValidityWarning, match="For 100% confidence") if alpha > 0.5 else contextlib.nullcontext()
    with unusual:
        assert evaluate(alpha=alpha).alpha == alpha


REFUSED = {
    **{
        f"horizon {horizon!r}": (
            [f"`horizon` is {horizon!r}", "whole number of steps >= 1"], {"horizon": horizon, "timesteps": np.arange(10)},
        )
        for horizon in (0, -1, 2.5, np.nan, "a")
    },
    **{
        f"range {ends!r}": (["`reward_range` is", "lowest"], {"reward_range": ends})
        for ends in ((1, -1), (-1, np.nan), (-np.inf, 1), 1, None, "ab", (0, 1, 2), (None, 1))
    },
    "a reward outside its range": (
        ["1.5 at row 7", "pass a wider range"], {"rewards": np.where(np.arange(10) == 7, 1.5, 0.0)},
    ),
    "a horizon without times": (["needs `timesteps` in the log", "value depends on time"], {"horizon": 3}),
    "time without times": (["needs `timesteps` in the log", "value depends on time"], {"time_varying": True}),
    "a horizon before every row": (
        ["Every row lies at or beyond the horizon 3"], {"horizon": 3, "timesteps": np.arange(10) + 3},
    ),
    # 0.1 in float32 is more than 0.1: a message that rounds would say that 0.1 is not in [0, 0.1]
    "a reward just above its range": (
        ["0.10000000149011612 at row 0"], {"rewards": np.full(10, 0.1, dtype=np.float32), "reward_range": (0, 0.1)},
    ),
    "rewards too large for floats": (
        ["`rewards` is", "at row 0", "Rescale"],
        {"rewards": columns()["rewards"] * 1e307, "reward_range": (-1e307, 1e307)},
    ),
    "an end of what never ends": (
        ["may_terminate=False, but row 6 is terminated", "truncated"],
        {"may_terminate": False, "terminations": np.arange(10) == 6},
    ),
    "starts of another dimension": (
        ["Initial states have 1 dimensions, the log 2", "[[x_1, x_2, ...]]"],
        {"initial": InitialStates.exact([0.0, 0.0])},
    ),
    "a bare array of starts": (
        ["`initial` is a ndarray", "InitialStates.exact(states)", "InitialStates.sample(states)"],
        {"initial": np.zeros(2)},
    ),
    "no starts and no episodes": (
        ["neither episode ids nor episode ends", "InitialStates.exact(states)"], {"initial": None},
    ),
    "a seed of None": (["`seed` is None", "draws can be repeated"], {"seed": None}),
    "a seed below 0": (["`seed` is -1"], {"seed": -1}),
    "half a seed": (["`seed` is 0.5"], {"seed": 0.5}),
    "actions that the policy does not know": (
        ["Row 5 has action 7, but the policy knows actions 0..1 only"],
        {"actions": np.where(np.arange(10) % 3 == 2, np.arange(10) // 5 * 7, 0)},
    ),
    "floats for actions": (["sample_action(observations, rng)", "pass actions as integers"], {"actions": np.zeros(10)}),
}  # fmt: skip


@pytest.mark.parametrize(("needles", "changes"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_answered_is_refused(needles, changes):
    expect_refused(*needles, **changes)


def test_a_bare_table_is_a_log_if_its_names_tell():
    stated = {"gamma": 0.9, "reward_range": (-1, 1), "accept": None}
    held = make_problem(Transitions(**columns()), POLICY, START, **stated)
    assert make_problem(columns(), POLICY, START, **stated).log_hash == held.log_hash


# The method


@pytest.mark.parametrize(
    ("method", "needles"),
    [
        (Dual(radius=1.0, side="left"), ["side='left'", "'both', 'lower' or 'upper'"]),
        (
            Dual(radius=1.0, gauge="tight"),
            ["gauge='tight'", "'half', 'range', 'paper', 'finite', 'self-normalized', 'plug-in'"],
        ),
        (Dual(radius=1.0, gauge="paper", planned_rows=5), ["planned_rows works with gauge='half'"]),
        (Dual(radius=1.0, planned_rows=0), ["planned number of rows is at least 1"]),
        (Dual(radius=-1.0), ["radius of Q must be finite and >= 0, not -1.0"]),
        (Dual(radius=np.nan), ["radius of Q"]),
        (Dual(radius=np.inf), ["radius of Q"]),
        (Dual(radius=1.0, misspecification=-0.5), ["misspecification allowance", "-0.5"]),
    ],
    ids=lambda value: "" if isinstance(value, list) else repr(value)[:40],
)
def test_a_method_that_cannot_be_carried_out_is_refused(method, needles):
    expect_refused(*needles, method=method)


@pytest.mark.parametrize("radius", [-1.0, np.nan, np.inf])
def test_a_ball_without_a_radius_is_refused(radius):
    with pytest.raises(InvalidInput, match=f"finite and >= 0, not {radius}"):
        Ball(Constant(), radius)


@pytest.mark.parametrize(("start", "pilot"), [(6, 20), (40, 0)])
def test_a_later_stretch_of_the_log_can_be_certified_with_the_defaults(start, pilot):
    """What the message of TunedOnCertifiedRows recommends."""
    log = Transitions(**columns(50))
    problem = make_problem(log, POLICY, START, gamma=0.9, reward_range=(-1, 1)).select(start)
    result = estimate_interval(problem, method=Dual(radius="paper", pilot=pilot, choices=QUICK))
    assert result.rows == (start + pilot, 50)
    assert verify(result.certificate, log).high == pytest.approx(result.high)


# Legal, though extreme


@pytest.mark.parametrize("n", [1, 2, 6, 19])
@pytest.mark.parametrize("terminal", [False, True])
def test_a_handful_of_rows_is_legal_and_says_nothing_with_the_defaults(n, terminal):
    """A ball fitted to so few rows would be an assumption that nothing supports."""
    log = Transitions(**columns(n, seed=1, terminations=np.full(n, terminal)))
    result = check_certified(log, method=Dual(radius="paper", choices=QUICK))
    assert result.rows == (0, n)
    assert result.status is Status.TRIVIAL
    assert (result.low, result.high) == (result.value_range.low, result.value_range.high)
    if n == 1:
        check_certified(log)


def test_a_log_of_terminal_rows_only_is_legal():
    log = Transitions(**columns(terminations=np.ones(10), next_observations=np.full((10, 2), np.nan)))
    result = check_certified(log)
    problem = make_problem(log, POLICY, START, gamma=0.9, reward_range=(-1, 1))
    assert problem.whole().next.points.shape == (0, 2)
    ignored = RowProbabilities(np.full((10, 2), np.nan), [[0.5, 0.5]])
    again = check_certified(log, ignored)
    assert (again.low, again.high) == pytest.approx((result.low, result.high), rel=1e-9)


@pytest.mark.parametrize("reward", [-1.0, 0.0, 1.0])
def test_a_reward_range_of_one_point_is_legal(reward):
    result = check_certified(Transitions(**columns(rewards=np.full(10, reward))), reward_range=(reward, reward))
    assert result.low <= 10 * reward <= result.high


@pytest.fixture(scope="module")
def plain():
    return check_certified(Transitions(**columns(30)))


@pytest.mark.parametrize("scale", [1e12, 1e-12, 1e100, 1e-100])
def test_rewards_of_any_size_scale_the_interval(scale, plain):
    """q*, its norm and the interval are proportional to the rewards."""
    method = Dual(instruments=METHOD.instruments, ball=Ball(METHOD.ball.kernel, 30.0 * scale))
    log = Transitions(**columns(30, rewards=columns(30)["rewards"] * scale))
    scaled = check_certified(log, method=method, reward_range=(-scale, scale))
    assert scaled.status is plain.status
    assert (scaled.low, scaled.high) == pytest.approx((plain.low * scale, plain.high * scale), rel=1e-6)


@pytest.mark.parametrize("scale", [1e12, 1e-12, 1e100, 1e-100])
def test_observations_of_any_size_with_kernels_to_match_give_the_same_interval(scale, plain):
    names = ("observations", "next_observations")
    log = Transitions(**columns(30, **{name: columns(30)[name] * scale for name in names}))
    kernel = Gaussian(scale) * Dirac()
    method = Dual(instruments=Instruments(0.5 * Constant() + 0.5 * kernel), ball=Ball(kernel + Constant(), 30.0))
    scaled = check_certified(log, method=method)
    assert (scaled.low, scaled.high) == pytest.approx((plain.low, plain.high), rel=1e-6)


@pytest.mark.parametrize("scale", [1e12, 1e-12])
@pytest.mark.parametrize("what", ["observations", "rewards", "both"])
def test_huge_and_tiny_logs_are_certified_with_the_defaults(what, scale):
    base = columns(44)
    changed = {}
    if what != "rewards":
        changed = {name: base[name] * scale for name in ("observations", "next_observations")}
    if what != "observations":
        changed["rewards"] = base["rewards"] * scale
    bound = 1 if what == "observations" else scale
    result = check_certified(
        Transitions(**base | changed),
        method=Dual(radius="paper", pilot=20, choices=QUICK),
        reward_range=(-bound, bound),
    )
    assert result.rows == (20, 44)
    assert 0 < result.length <= 20.001 * bound


def test_a_huge_offset_of_the_observations_is_certified_with_the_defaults():
    base = columns(44)
    moved = {name: base[name] + 1e12 for name in ("observations", "next_observations")}
    start = InitialStates.exact([[1e12, 1e12]])
    check_certified(Transitions(**base | moved), start=start, method=Dual(radius="paper", pilot=20, choices=QUICK))


def test_observations_that_never_change_are_legal():
    constant = {name: np.full((30, 2), 4.0) for name in ("observations", "next_observations")}
    log = Transitions(**columns(30, **constant))
    check_certified(log, start=InitialStates.exact([[4.0, 4.0]]), method=Dual(radius="paper", pilot=20, choices=QUICK))


# Rejection is a result


def rejected(**changes):
    """Every reward is 1, but Q holds only functions smaller than 1/1000: no q in Q fits."""
    ball = Ball(METHOD.ball.kernel, 1e-3)
    log = Transitions(**columns(60, rewards=np.ones(60)))
    return log, check_certified(log, method=Dual(instruments=METHOD.instruments, ball=ball, **changes), gamma=0.0)


@pytest.mark.parametrize("side", ["both", "lower", "upper"])
def test_a_ball_that_the_log_contradicts_gives_a_result_that_says_so(side):
    _, result = rejected(side=side)
    assert result.status is Status.REJECTED
    assert "contradicts an assumption" in str(result.status)
    assert (result.low, result.high) == (result.value_range.low, result.value_range.high)
    assert result.rejection.rejected
    assert result.rejection.p_value < 0.1
    assert result.rejection.minimal_radius > 1e-3
    states = {item.name: item.state for item in result.assumptions}
    assert [states[name] for name in ("data", "rewards", "values")] == ["rejected"] * 3
    assert "REJECTED" in repr(result)


def test_a_radius_above_the_reported_minimum_is_not_rejected():
    log, result = rejected()
    ball = Ball(METHOD.ball.kernel, 1.5 * result.rejection.minimal_radius)
    wider = check_certified(log, method=Dual(instruments=METHOD.instruments, ball=ball), gamma=0.0)
    assert wider.status is not Status.REJECTED
