"""Tables: rows whose pair a plan does not speak of carry no bet, and a plan speaks of the pairs that the policy takes."""

import numpy as np
import pytest

import bondic
from bondic.core.rounding import Between
from bondic.core.sequential.plan import Block, RidgeModel, Weighting, columns
from bondic.search.sequential.basis import PointSlots
from bondic.search.sequential.plan import _pool
from bondic.tuning.defaults import Choices

STATES, ACTIONS = 6, 4
SURE = np.eye(ACTIONS)[[0, 1, 2, 3, 0, 1]]


def walk(n, seed, *, often=0.5):
    """States on a ring; the behavior takes the action of SURE with this probability or any other."""
    rng = np.random.default_rng(seed)
    steps = rng.dirichlet(np.full(STATES, 0.3), (STATES, ACTIONS))
    state, rows = 0, []
    for _ in range(n):
        action = int(SURE[state].argmax()) if rng.random() < often else int(rng.integers(ACTIONS))
        after = int(rng.choice(STATES, p=steps[state, action]))
        rows.append((state, action, float(rng.random() < 0.2 + 0.1 * action), after))
        state = after
    s, a, r, t = map(np.array, zip(*rows, strict=True))
    return s[:, None].astype(float), a, r, t[:, None].astype(float)


def log_of(s, a, r, t):
    nothing = np.zeros(len(a), dtype=bool)
    ids, times = np.zeros(len(a), dtype=int), np.arange(len(a))
    return bondic.Transitions(s, a, r, t, nothing, nothing, episode_ids=ids, timesteps=times)


def problem_of(log, policy, accept=()):
    start = bondic.InitialStates.exact([[0.0]])
    return bondic.make_problem(log, policy, start, gamma=0.8, reward_range=(0.0, 1.0), accept=accept)


def sure(states):
    return SURE[states[:, 0].astype(int)]


def interval(log, coordinates=True, accept=()):
    method = bondic.Sequential(choices=Choices(categorical=True), coordinates=coordinates)
    return bondic.estimate_interval(problem_of(log, bondic.load_policy(sure), accept), alpha=0.1, method=method)


def test_rows_without_coordinates_carry_no_bet_and_do_not_count():
    rng = np.random.default_rng(0)
    here = np.eye(3)[rng.integers(0, 3, 40)]
    here[::4] = 0.0
    model = RidgeModel(rng.normal(size=(4, 4)) * 0.1)
    weights = {"upper": Weighting(0.2, np.array([0]), rng.normal(size=(1, 3)))}
    block = Block(40, model, np.eye(3), 0.1, 100.0, np.zeros(3), np.inf, weights)
    limits = Between(np.zeros(40), np.ones(40))
    found = columns(block, 0.9, np.arange(40), np.zeros((40, 1)), np.zeros(40, dtype=np.int64), here, limits)
    assert np.array_equal(found.counted, here.any(axis=1))
    for column in (found.instruments, found.weights["upper"]):
        assert not np.any(column[::4])
        assert np.all(np.any(np.atleast_2d(column.T).T[1::4] != 0, axis=1))
    assert found.total("upper") == pytest.approx(0.2 * 30)
    assert found.cut(slice(0, 5)).total("upper") == pytest.approx(0.2 * 3)


def test_rewards_of_actions_that_the_policy_never_takes_do_not_matter():
    s, a, r, t = walk(3000, 1)
    other = sure(s)[np.arange(len(a)), a] == 0
    changed = np.where(other, 1.0 - r, r)
    assert np.count_nonzero(changed != r) > 1000
    first, second = interval(log_of(s, a, r, t)), interval(log_of(s, a, changed, t))
    assert first.interval == second.interval
    assert first.status.name == "INTERVAL"
    changed = np.where(other, r, 1.0 - r)
    assert interval(log_of(s, a, changed, t)).interval != first.interval


def test_actions_that_nobody_asks_about_cost_little():
    """The same rows as of a log that never took other actions, with others in between."""
    s, a, r, t = walk(6000, 2)
    own = sure(s)[np.arange(len(a)), a] > 0
    bare = bondic.Transitions(s[own], a[own], r[own], t[own], np.zeros(own.sum()), np.ones(own.sum()))
    mixed, alone = interval(log_of(s, a, r, t)), interval(bare, accept=("resets",))
    assert mixed.high - mixed.low < 1.15 * (alone.high - alone.low)


@pytest.mark.parametrize("coordinates", [True, False])
def test_a_certificate_says_the_same(coordinates):
    log = log_of(*walk(2000, 3))
    found = interval(log, coordinates)
    checked = bondic.verify(found.certificate, log)
    assert checked.low == pytest.approx(found.low, abs=1e-9)
    assert checked.high == pytest.approx(found.high, abs=1e-9)


@pytest.mark.parametrize(("often", "only"), [(0.5, True), (-1.0, False)])
def test_landmarks_are_pairs_that_the_policy_takes_where_the_log_has_them(often, only):
    s, a, r, t = walk(1500, 4, often=often)
    if not only:  # a log that never does what the policy does
        a = (SURE[s[:, 0].astype(int)].argmax(axis=1) + 1) % ACTIONS
    problem = problem_of(log_of(s, a, r, t), bondic.load_policy(sure))
    pool = _pool(problem.whole(), problem.initial, table=True)
    wanted = {(float(k), int(SURE[k].argmax())) for k in range(STATES)}
    found = {(float(p[0]), int(slot)) for p, slot in zip(pool.points, pool.slots, strict=True)}
    assert isinstance(pool, PointSlots)
    assert (found == wanted) is only
    assert wanted <= found


def test_a_log_without_the_policys_actions_says_nothing():
    s, a, r, t = walk(1500, 5)
    a = (SURE[s[:, 0].astype(int)].argmax(axis=1) + 1) % ACTIONS
    found = interval(log_of(s, a, r, t))
    assert found.status.name == "TRIVIAL"
