"""How often the events of the bound on cells fail, where they are sharp; and controls that must fail more often.

Rare jumps are the sharp case: with the center at what happens without a jump, a log without one pays nothing, and
sum v Z = n v p meets log(1/δ) with probability (1 - p)^n = δ^(1/v): nearly δ where v is near the cap.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from bondic.core.betting import MAX_BET, bet_cost, tail_term
from bondic.core.cells.allowance import Allowance, CellAllowance
from bondic.core.cells.ends import EndWeights, end_terms
from bondic.core.cells.localize import CellTails, Events, VectorEvent, locate
from cells_cases import World, foresee, random_log, starts_of

REPEATS = 8000
BET = MAX_BET


def allowed(delta, repeats=REPEATS):
    return delta + 3 * math.sqrt(delta * (1 - delta) / repeats)


def jumps(rng, cells, rows, chance):
    """(repeats, cells, rows): 1 with a small chance."""
    return (rng.random((REPEATS, cells, rows)) < chance).astype(float)


def sharp_chance(delta, rows, bet=BET):
    """p for which no jump in all rows just meets log(1/δ)."""
    return math.log(1 / delta) / (bet * rows) * (1 + 1e-9)


def tail_failures(outcome, chance, weights, delta, center=0.0, part=1.0, cost=1.0):
    """Share of logs with sum v Z > part * log(1/δ) + cost * sum g(-v Δ); Z = p - Y, Δ = Y - center."""
    noise, deviation = chance - outcome, outcome - center
    total = (weights * noise).sum(axis=(1, 2)) - cost * bet_cost(-(weights * deviation)).sum(axis=(1, 2))
    return float(np.mean(total > part * tail_term(delta).upper))


@pytest.mark.parametrize("delta", [0.1, 0.5])
def test_tails_fail_as_often_as_they_may_and_not_more(rng, delta):
    chance = sharp_chance(delta, 40)
    outcome = jumps(rng, 1, 40, chance)
    found = tail_failures(outcome, chance, BET, delta)
    assert found <= allowed(delta)
    assert found >= 0.85 * delta  # the case is sharp
    for center in (chance, 0.5, 1.0):  # wrong centers cost, and never harm
        assert tail_failures(outcome, chance, BET, delta, center) <= allowed(delta)
    fair = (rng.random((REPEATS, 1, 400)) < 0.5).astype(float)
    for bet in (0.05, 0.1, 0.3, BET):
        assert tail_failures(fair, 0.5, bet, delta, 0.5) <= allowed(delta)
        assert tail_failures(fair, 0.5, -bet, delta, 0.5) <= allowed(delta)


def test_tails_with_adaptive_bets_hold(rng):
    """Bets that double after every row without a jump, and stop after one: known before the row, so allowed."""
    delta, rows = 0.1, 60
    chance = sharp_chance(delta, rows)
    outcome = jumps(rng, 1, rows, chance)
    before = np.cumsum(outcome, axis=2) - outcome
    assert tail_failures(outcome, chance, np.where(before == 0, BET, 0.0), delta) <= allowed(delta)


def test_controls_of_tails_fail(rng):
    """Half the logarithm; weights after looking; a range believed half; no price of noise."""
    delta, cells = 0.1, 8
    chance = sharp_chance(delta**0.5, 40)
    outcome = jumps(rng, 1, 40, chance)
    assert tail_failures(outcome, chance, BET, delta, part=0.5) > 2 * delta
    chance = sharp_chance(delta, 80)
    outcome = jumps(rng, cells, 40, chance)
    best = np.where(outcome.sum(axis=2, keepdims=True) == 0, BET, 0.0)  # bets only where nothing jumped
    assert tail_failures(outcome, chance, best, delta) > 3 * delta
    assert tail_failures(outcome, chance, BET, delta) <= allowed(delta)
    chance = sharp_chance(delta, 40, 2 * BET)
    outcome = jumps(rng, 1, 40, chance)
    total = 2 * BET * (40 * chance - outcome.sum(axis=(1, 2)))
    price = bet_cost(np.array(-BET)) * outcome.sum(axis=(1, 2))  # what the deviation would cost within half the range
    assert np.mean(total > price + tail_term(delta).upper) > 2 * delta
    fair = (rng.random((REPEATS, 1, 400)) < 0.5).astype(float)
    assert tail_failures(fair, 0.5, 0.5, delta, 0.5, cost=0.0) > 2 * delta


def vector_failures(outcome, chance, event, delta, center=0.0, part=1.0):
    """Share of logs on which (16) fails at one of its rates at least."""
    shape = event.shape[:, None]
    failed = np.zeros(outcome.shape[0], dtype=bool)
    for rate in event.rates:
        sums = (rate * shape * (chance - outcome)).sum(axis=2)
        cost = bet_cost(-(rate * shape * np.abs(outcome - center))).sum(axis=(1, 2))
        failed |= np.linalg.norm(sums, axis=1) > part * event.log_term(delta) + cost
    return float(failed.mean())


@pytest.mark.parametrize("delta", [0.1, 0.5])
def test_the_vector_event_fails_at_most_as_often_as_it_may(rng, delta):
    one = VectorEvent(np.ones(1), (BET,))
    chance = sharp_chance(delta / 2, 40)
    found = vector_failures(jumps(rng, 1, 40, chance), chance, one, delta)
    assert 0.4 * delta <= found <= allowed(delta)  # δ/2: the other side has nothing to win here
    for cells in (2, 5):
        shape = np.linspace(0.3, 1.0, cells)
        several = VectorEvent(shape, (BET, 0.4, 0.1))
        for rows in (10, 40):
            chance = sharp_chance(delta / 6, rows) / math.sqrt(cells)
            assert vector_failures(
                jumps(rng, cells, rows, min(chance, 0.9)), min(chance, 0.9), several, delta
            ) <= allowed(delta)
    fair = (rng.random((REPEATS, 3, 100)) < 0.5).astype(float)
    for rate in (0.05, 0.15, 0.5):
        assert vector_failures(fair, 0.5, VectorEvent(np.ones(3), (rate,)), delta, 0.5) <= allowed(delta)


def test_controls_of_the_vector_event_fail(rng):
    delta = 0.1
    one = VectorEvent(np.ones(1), (BET,))
    chance = 0.5 * sharp_chance(delta / 2, 40)
    assert vector_failures(jumps(rng, 1, 40, chance), chance, one, delta, part=0.5) > 1.8 * delta
    # a cell is chosen after looking: the one of twenty whose sum is the largest
    chance, cells = sharp_chance(delta / 2, 40), 20
    outcome = jumps(rng, cells, 40, chance)
    sums = BET * (40 * chance - outcome.sum(axis=2))
    cost = bet_cost(np.array(-BET)) * outcome.sum(axis=2)
    assert np.mean((np.abs(sums) - cost).max(axis=1) > one.log_term(delta)) > 3 * delta
    # a range believed half: rates twice too large
    chance = sharp_chance(delta / 2, 40, 2 * BET)
    jumped = jumps(rng, 1, 40, chance).sum(axis=(1, 2))
    price = bet_cost(np.array(-BET)) * jumped
    assert np.mean(2 * BET * np.abs(40 * chance - jumped) > one.log_term(delta) + price) > 1.8 * delta


def cell_failures(outcome, chance, tails, delta, center=0.0, part=1.0):
    """Share of logs on which the event of some cell fails at one of its rates at least, on either side."""
    failed = np.zeros(outcome.shape[0], dtype=bool)
    for rates in tails.rates:
        sums = rates * np.abs((chance - outcome).sum(axis=2))
        cost = bet_cost(-(rates[:, None] * np.abs(outcome - center))).sum(axis=2)
        failed |= np.any((rates > 0) & (sums > part * tails.log_term(delta) + cost), axis=1)
    return float(failed.mean())


@pytest.mark.parametrize("delta", [0.1, 0.5])
def test_events_of_single_cells_fail_at_most_as_often_as_they_may(rng, delta):
    """Every cell sharp on its own: without a jump in its 40 rows; half of δ is for the other side."""
    for cells, rates in ((1, (BET,)), (6, (BET,)), (6, (BET, 0.3, 0.05))):
        tails = CellTails(np.tile(np.array(rates)[:, None], (1, cells)))
        chance = sharp_chance(delta / (2 * cells * len(rates)), 40)
        found = cell_failures(jumps(rng, cells, 40, chance), chance, tails, delta)
        assert found <= allowed(delta)
        if len(rates) == 1:
            assert found >= 0.35 * delta
    silent = CellTails(np.array([[BET, 0.0, 0.0]]))  # cells without an event share nothing of δ
    chance = sharp_chance(delta / 2, 40)
    assert cell_failures(jumps(rng, 3, 40, chance), chance, silent, delta) >= 0.35 * delta


def test_controls_of_events_of_single_cells_fail(rng):
    delta, cells = 0.1, 12
    tails, one = CellTails(np.full((1, cells), BET)), CellTails(np.full((1, 1), BET))
    chance = sharp_chance((delta / (2 * cells)) ** 0.5, 40)
    assert cell_failures(jumps(rng, cells, 40, chance), chance, tails, delta, part=0.5) > 3 * delta
    # the logarithm of one cell for twelve of them
    chance = sharp_chance(delta / 2, 40)
    outcome = jumps(rng, cells, 40, chance)
    share = one.log_term(delta) / tails.log_term(delta)
    assert cell_failures(outcome, chance, tails, delta, part=share) > 3 * delta


def one_step_world(chance):
    """One state, one action, one step; reward 1 with a small chance."""
    moves = np.zeros((1, 1, 2))
    moves[..., 1] = 1.0
    one = np.ones((1, 1))
    return World(0.0, moves, one * chance, one, one, np.zeros(1, dtype=np.int64), one * 0.0, one, np.ones(1))


def lower_and_upper(log, vector, tail_probability, part=1.0):
    """Both ends of a log of one cell, from the code as it is; `part` of the logarithms."""
    world, log = log.world, foresee(np.random.default_rng(0), log, False, "true")
    together, alone = VectorEvent(np.ones(1), (BET, 0.2, 0.05)), CellTails(np.array([[BET], [0.2], [0.05]]))
    ground = replace(log, numbers=0.0).ground(1, log.solved(1), Events(together, vector / 2, alone, vector / 2))
    located = locate(ground, CellAllowance.of(Allowance(0.0), 1))
    ends = []
    for sign in (-1.0, 1.0):
        bet = BET * 0.999
        end = end_terms(
            located,
            starts_of(world),
            EndWeights(np.full((1, 1), sign * bet), bet * log.state.size),
            sign,
            tail_probability,
        )
        ends.append(end.value.mid + sign * (end.spread - (1 - part) * end.log))
    return ends


def test_intervals_of_logs_without_a_jump_are_sharp(rng):
    """An upper end at δ misses (1 - p)^n of all logs, where p is just above it: about δ, as (20) says it has to."""
    rows, delta = 3000, 0.1
    log = random_log(rng, one_step_world(0.0), rows, 1)
    _, high = lower_and_upper(log, 1e-3, delta)
    assert (1 - high) ** rows <= delta
    assert (1 - high) ** rows >= 0.9 * delta
    _, short = lower_and_upper(log, 1e-3, delta, part=0.5)
    assert (1 - short) ** rows > 2 * delta


@pytest.mark.parametrize("chance", [0.04, 0.3])
def test_intervals_of_whole_logs_cover(rng, chance):
    world, missed = one_step_world(chance), 0
    for _ in range(300):
        low, high = lower_and_upper(random_log(rng, world, 500, 1), 0.02, 0.04)
        missed += not low <= chance <= high
    assert missed / 300 <= allowed(0.1, 300)
