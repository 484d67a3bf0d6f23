"""Bad and extreme input through the public functions: each case on its own, with the message a user gets.

A message names what is wrong (with the row, where there is one), why it matters or what was expected, and a way out.
"""

import numpy as np
import pytest

from bondic.core.balls import Ball, Instruments
from bondic.core.claims import Status
from bondic.core.errors import (
    InvalidInput,
)
from bondic.core.kernels.leaves import Constant, Dirac, Gaussian
from bondic.data.initial import InitialStates
from bondic.data.transitions import Transitions
from bondic.estimate import estimate_interval, evaluate_policy
from bondic.methods.dual import Dual
from bondic.policies.protocol import RowProbabilities
from bondic.policies.standard import UniformPolicy
from bondic.rows.problem import make_problem
from bondic.tuning.defaults import Advanced, Choices
from bondic.verification import verify
from builders import columns

START = InitialStates.exact([[0.0, 0.0]])
POLICY = UniformPolicy(2)
METHOD = Dual(
    instruments=Instruments(0.5 * Constant() + 0.5 * Gaussian(1.0) * Dirac()),
    ball=Ball(Gaussian(1.0) * Dirac() + Constant(), 30.0),
)
QUICK = {"choices": Choices(weight_bandwidth=1.0), "advanced": Advanced(pairs=8, constant_share=0.5)}


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


def test_a_discount_of_1_needs_a_horizon_and_time_alone_is_not_enough():
    times = {"timesteps": np.arange(10) % 5, "episode_ids": np.arange(10) // 5}
    expect_refused("horizon=H", gamma=1.0, time_varying=True, **times)
    assert evaluate(gamma=1.0, horizon=5, **times).value_range.high == pytest.approx(5.0)


REFUSED = {
    "a reward outside its range": (
        ["1.5 at row 7", "pass a wider range"], {"rewards": np.where(np.arange(10) == 7, 1.5, 0.0)},
    ),
    # 0.1 in float32 is more than 0.1: a message that rounds would say that 0.1 is not in [0, 0.1]
    "a reward just above its range": (
        ["0.10000000149011612 at row 0"], {"rewards": np.full(10, 0.1, dtype=np.float32), "reward_range": (0, 0.1)},
    ),
    "a horizon before every row": (["horizon 3"], {"horizon": 3, "timesteps": np.arange(10) + 3}),
    "an end of what never ends": (
        ["row 6 is terminated", "truncated"], {"may_terminate": False, "terminations": np.arange(10) == 6},
    ),
    "no starts and no episodes": (
        ["neither episode ids nor episode ends", "InitialStates.exact(states)"], {"initial": None},
    ),
    "actions that the policy does not know": (
        ["Row 5 has action 7", "0..1"], {"actions": np.where(np.arange(10) % 3 == 2, np.arange(10) // 5 * 7, 0)},
    ),
    "a method of another side": (["side='left'", "'lower'"], {"method": Dual(radius=1.0, side="left")}),
    "a method of another gauge": (["gauge='tight'", "'half'", "'plug-in'"], {"method": Dual(radius=1.0, gauge="tight")}),
    "a method for no rows": (["at least 1"], {"method": Dual(radius=1.0, planned_rows=0)}),
    "a negative radius": (["radius of Q", "-1.0"], {"method": Dual(radius=-1.0)}),
    "a negative allowance": (["misspecification", "-0.5"], {"method": Dual(radius=1.0, misspecification=-0.5)}),
}  # fmt: skip


@pytest.mark.parametrize(("needles", "changes"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_answered_is_refused(needles, changes):
    expect_refused(*needles, **changes)


# Legal, though extreme


@pytest.mark.parametrize(("n", "terminal"), [(1, False), (1, True), (6, True), (19, False)])
def test_a_handful_of_rows_is_legal_and_says_nothing_with_the_defaults(n, terminal):
    """A ball fitted to so few rows would be an assumption that nothing supports."""
    log = Transitions(**columns(n, seed=1, terminations=np.full(n, terminal)))
    result = check_certified(log, method=Dual(radius="paper", **QUICK))
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


@pytest.mark.parametrize("scale", [1e12, 1e-100])
def test_rewards_and_observations_of_any_size_scale_the_interval(scale, plain):
    """q*, its norm and the interval are proportional to the rewards; with kernels to match, states have no size."""
    base = columns(30)
    rewards = Transitions(**base | {"rewards": base["rewards"] * scale})
    method = Dual(instruments=METHOD.instruments, ball=Ball(METHOD.ball.kernel, 30.0 * scale))
    scaled = check_certified(rewards, method=method, reward_range=(-scale, scale))
    assert scaled.status is plain.status
    assert (scaled.low, scaled.high) == pytest.approx((plain.low * scale, plain.high * scale), rel=1e-6)
    states = Transitions(**base | {name: base[name] * scale for name in ("observations", "next_observations")})
    kernel = Gaussian(scale) * Dirac()
    method = Dual(instruments=Instruments(0.5 * Constant() + 0.5 * kernel), ball=Ball(kernel + Constant(), 30.0))
    moved = check_certified(states, method=method)
    assert (moved.low, moved.high) == pytest.approx((plain.low, plain.high), rel=1e-6)
