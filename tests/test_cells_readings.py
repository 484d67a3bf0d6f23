"""Readings of (23) and (24) that look alike and are wrong: the code covers, and each loose reading, computed here, does not.

And a larger allowance contains a smaller one.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from bondic.core.betting import bet_cost, tail_term
from bondic.core.cells.allowance import NOTHING_ALLOWED, Allowance, CellAllowance
from bondic.core.cells.ends import CellBound, EndWeights, end_terms
from bondic.core.cells.localize import CellTails, Events, ValueLimits, VectorEvent, locate
from bondic.core.cells.system import Energy, Form
from cells_cases import (
    TrueRows,
    World,
    foresee_cells,
    just_so,
    limits_of,
    only_together,
    random_cell_tails,
    random_event,
    random_log,
    random_tail,
    random_world,
    starts_of,
    tail_surplus,
    true_allowance,
)

ROWS = 4000


def two_states(start, gamma=0.0, model=0.0):
    """One group of a state that always pays 1 and one that never does; both stay where they are (γ > 0) or end (γ = 0)."""
    moves = np.zeros((2, 1, 3))
    moves[[0, 1], 0, [2, 2] if gamma == 0 else [0, 1]] = 1.0
    one = np.ones((2, 1))
    pays = np.array([[1.0], [0.0]])
    starts = np.array([start, 1 - start])
    return World(gamma, moves, pays, one, one / 2, np.zeros(2, dtype=np.int64), one * model, one / 2, starts)


def certain_log(world, state, block):
    """Rows at given states; rewards and next states are certain."""
    ahead = np.zeros((state.size, 2, 1))
    if world.gamma > 0:
        ahead[np.arange(state.size), state, 0] = 1.0
    return foresee_cells(TrueRows(world, block, state, np.zeros_like(state), 1.0 - state, ahead))


def setting(log, blocks):
    """The equations at the reference that solves them, and events."""
    count, high = log.world.count, log.world.high
    vector = VectorEvent(np.ones(count), (0.2 / high, 0.02 / high))
    events = Events(vector, 0.03, CellTails(np.full((2, count), 0.1) / np.array([[high], [10 * high]])), 0.02)
    return log.ground(blocks, log.solved(blocks), events)


def ends(located, world, weights, rate):
    """(low, high) with weights ± v."""
    found = []
    for sign in (-1.0, 1.0):
        end = end_terms(located, starts_of(world), EndWeights(sign * weights, rate), sign, 0.05)
        found.append(end.value.mid + sign * (end.spread + end.value.rad))
    return tuple(found)


def test_averages_are_those_of_blocks_where_weights_vary_by_block():
    """Block 0 sees one state, block 1 the other: the group's average is right, those of the blocks are not."""
    world = two_states(start=0.5)
    half = np.repeat([0, 1], ROWS // 2)
    log = certain_log(world, half, half)
    ground = setting(log, 2)
    weights = np.array([[0.1], [0.01]])
    rate = float((weights[:, 0] * ROWS / 2).sum())
    right = true_allowance(log)
    assert right.averages[0] == pytest.approx(0.5)
    low, high = ends(locate(ground, right), world, weights, rate)
    assert low <= world.value <= high
    over_the_group = CellAllowance.of(Allowance(abs(float(world.errors[1][half, 0].mean())), 0.5), 1)
    low, _ = ends(locate(ground, over_the_group), world, weights, rate)
    assert low > world.value + 0.3


def rows_at_one_start_at_the_other():
    """All rows where ζ = -1/2, the start where ζ = 1/2: J = 1, and every part of the allowance is needed in full."""
    world = two_states(start=1.0)
    log = certain_log(world, np.ones(ROWS, dtype=np.int64), np.zeros(ROWS, dtype=np.int64))
    return world, log, setting(log, 1)


def test_the_allowance_of_the_starts_counts():
    world, log, ground = rows_at_one_start_at_the_other()
    located = locate(ground, true_allowance(log))
    weights, rate = np.full((1, 1), 0.02), 0.02 * ROWS
    low, high = ends(located, world, weights, rate)
    assert low <= world.value <= high <= world.value + 0.1  # and it is attained
    without = high - float(located.allowance.averages @ starts_of(world).cells)
    assert without < world.value - 0.3


def test_the_box_of_errors_is_moved_by_the_model():
    """q̂ = 1 where q* = 0, no row there: e = -1, and "in the value range" is wrong."""
    world = replace(two_states(start=0.0, model=1.0), groups=np.array([0, 1]))
    log = certain_log(world, np.zeros(ROWS, dtype=np.int64), np.zeros(ROWS, dtype=np.int64))
    events, nothing = only_together(VectorEvent(np.ones(2), (0.2,)), 0.05), CellAllowance.of(NOTHING_ALLOWED, 2)
    assert world.value == 0
    assert world.errors[0][1] == -1

    def low(limits):
        located = locate(log.ground(1, np.array([0.0, 0.5]), events, limits), nothing)
        return ends(located, world, np.full((1, 2), 0.02), 0.02 * ROWS)[0]

    assert low(limits_of(world)) <= world.value
    assert low(ValueLimits(1.0, 0.0, 1.0)) > world.value + 0.9


def test_a_set_of_a_smaller_allowance_is_not_one_of_a_larger():
    world, log, ground = rows_at_one_start_at_the_other()
    right, nothing = true_allowance(log), CellAllowance.of(NOTHING_ALLOWED, 1)
    weights, rate = np.full((1, 1), 0.02), 0.02 * ROWS
    smaller = locate(ground, nothing)
    _, reused = ends(replace(smaller, allowance=right), world, weights, rate)
    assert reused < world.value - 0.3
    larger = locate(ground, right)
    low, high = ends(
        replace(larger, allowance=nothing), world, weights, rate
    )  # the reverse is a bound, if not a sharp one
    own = ends(smaller, world, weights, rate)
    assert low <= own[0] <= own[1] <= high


def test_errors_fitted_after_the_rows_do_not_make_a_center(rng):
    """Behavior sees a fair coin, then stays where the value is what the coin said: a late fit leaves no noise to pay for."""
    cells, later, delta, repeats, bet = 400, 19, 0.1, 4000, 0.9
    coin = rng.integers(2, size=(repeats, cells)).astype(float)
    total = bet * (0.5 - coin).sum(axis=1)  # the later rows are certain, so that their Z is 0
    fixed = np.full_like(coin, 0.5)
    fitted = (0.5 + later * coin) / (later + 1)  # makes every average of ζ vanish: (23) at β̄ = 0

    def failures(center):
        cost = (later + 1) * bet_cost(-bet * (coin - center)).sum(axis=1)
        return float(np.mean(total > tail_term(delta).upper + cost))

    assert failures(fixed) <= delta
    assert failures(fitted) > 2 * delta


def test_single_values_belong_to_the_energy_and_to_the_reach():
    """Two states that never change: the deviations are B/2 for every row, and β_∞ is needed in full."""
    world = two_states(start=0.5, gamma=0.5)
    state = np.arange(ROWS) % 2
    log = certain_log(world, state, np.zeros(ROWS, dtype=np.int64))
    ground = setting(log, 1)
    right, weights, system = true_allowance(log), np.ones((1, 1)), ground.system
    deviation, moved, ahead = log.terms(system.tally.reference)
    true = float(((deviation + moved - world.gamma * ahead) ** 2).sum())
    assert true == pytest.approx(ROWS * (world.high / 2) ** 2)
    assert np.abs(log.deviations) == pytest.approx(world.high / 2)
    form, without = Form.of(system, weights), CellAllowance(right.averages, np.zeros(1))
    assert true <= Energy.of(system, weights, right, form).constant == pytest.approx(true, rel=1e-6)
    assert Energy.of(system, weights, without, form).constant < 0.3 * true
    located, late = (locate(ground, one) for one in (right, without))
    assert np.all(np.abs(moved - world.gamma * ahead) <= located.farthest[0])
    assert np.all(np.abs(moved - world.gamma * ahead) > late.farthest[0])


STEPS = (
    (0.0, 0.0),
    (0.0, 0.05),
    (1e-6, 0.05),
    (0.01, 0.05),
    (0.01, 0.3),
    (0.05, 0.3),
    (0.2, 1.0),
    (3.0, 3.0),
    (10.0, 10.0),
)
NEARLY = 0.01
"""Sets differ from allowance to allowance, so that a larger one may be shorter; by so much at most, as a share of the range."""


@pytest.mark.parametrize("seed", range(12))
def test_larger_allowances_contain_smaller_ones_nearly_and_every_true_one_the_value(seed):
    """On one event; (23) at an allowance is (23) at every larger one, so that the value lies between the ends of all of them."""
    rng = np.random.default_rng([seed, 5])
    world = random_world(rng, (0.0, 0.5, 0.9)[seed % 3], groups=3)
    log = foresee_cells(random_log(rng, world, int(rng.integers(200, 4000)), 2))
    vector, single = random_event(rng, world), random_cell_tails(rng, log)
    events = just_so(log, vector, single, 1e-3)
    reference = log.solved(2) if seed % 2 else rng.normal(size=world.count) * 0.3
    found = log.tally(2, reference)
    tails = {sign: random_tail(rng, log, found, sign) for sign in (1.0, -1.0)}
    chances = {sign: math.exp(-max(tail_surplus(log, tail), 1e-3)) * (1 - 1e-12) for sign, tail in tails.items()}
    bound = CellBound(found, log.by_label(2, reference), events, tails, chances, starts_of(world), limits_of(world))
    needed, before, reached = true_allowance(log), None, 0
    for averages, single_values in STEPS:
        located = bound.locate(Allowance(averages, single_values))
        now = {sign: sign * end.value.mid + end.value.rad + end.spread for sign, end in bound.ends(located).items()}
        if averages >= needed.averages.max() and single_values >= needed.single.max():
            reached += 1
            assert all(now[sign] >= sign * world.value for sign in now)
        if before is not None:
            assert all(now[sign] >= before[sign] - NEARLY * world.high for sign in now)
        before = now
    assert reached >= 1
