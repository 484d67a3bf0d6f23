"""What the log rules out is never more than what is true, on every log on which the events hold; and it is something.

Halves of groups are sets of states. The truth: the largest average of ζ over the rows of a half, the largest average after them,
and the largest single value after a row. Nothing else is needed: starts and blocks have no part in it.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from bondic.core.betting import bet_cost
from bondic.core.cells.ends import CellBound, ruled_out
from bondic.core.cells.localize import CellTails, Events, VectorEvent
from bondic.core.cells.tally import CellShape, tally
from cells_cases import (
    KINDS,
    World,
    foresee,
    foresee_cells,
    just_so,
    limits_of,
    random_cell_tails,
    random_event,
    random_log,
    random_world,
    starts_of,
)

MIN_LOG = 1e-3


def half_of(log, halves):
    """(n,) cell 2 c or 2 c + 1 of every row; `halves` (S,) says 0 or 1 of every state."""
    return 2 * log.cell + halves[log.state]


def halves_tally(log, blocks, reference, halves):
    world = log.world
    atoms = np.zeros((world.count, 2 * world.count))
    atoms[np.arange(world.count), 2 * np.arange(world.count)] = 1.0
    rows = replace(log.as_rows(), cell=half_of(log, halves))
    return tally([rows], CellShape(blocks, atoms), world.gamma, np.repeat(reference, 2))


def needed(log, halves):
    """The least β with averages over halves, averages after them and single values after rows within it."""
    rest, cell = log.world.errors[1], half_of(log, halves)
    own, ahead, mass = rest[log.state, log.action], log.mean_ahead(rest), log.ahead.sum(axis=(1, 2))
    found = [float(np.max(np.abs(ahead[mass > 0]) / mass[mass > 0], initial=0.0))]
    for one in np.unique(cell):
        here = cell == one
        found.append(abs(float(own[here].mean())))
        if mass[here].sum() > 0:
            found.append(abs(float(ahead[here].sum() / mass[here].sum())))
    return max(found)


def half_surplus(log, event, halves):
    """What log(2K/δ) of the vector event over halves has to exceed."""
    found, cell, shape = [], half_of(log, halves), np.repeat(event.shape, 2)
    for rate in event.rates:
        sums = np.bincount(cell, log.noise, minlength=shape.size)
        cost = bet_cost(-rate * shape[cell] * np.abs(log.deviations)).sum()
        found.append(float(np.linalg.norm(rate * shape * sums) - cost))
    return max(found)


def bound_of(log, events, reference, blocks):
    world = log.world
    found, labels = log.tally(blocks, reference), log.by_label(blocks, reference)
    return CellBound(found, labels, events, {}, {}, starts_of(world), limits_of(world))


def reference_for(rng, log, blocks, adversarial):
    if adversarial:
        return rng.normal(size=log.world.count) * log.world.high
    return log.solved(blocks)


def run_case(seed):
    """(ruled out, true): events hold just so, references may be anything, halves are any sets of states."""
    rng = np.random.default_rng([seed, 31])
    world = random_world(rng, (0.0, 0.5, 0.9)[seed % 3], groups=int(rng.integers(1, 3)), states=int(rng.integers(3, 7)))
    world = replace(world, model=world.model * (seed % 2))
    blocks = int(rng.integers(1, 4))
    log = random_log(rng, world, int(np.exp(rng.uniform(np.log(50), np.log(8000)))), blocks, draws=3 * (seed % 5 == 0))
    log = foresee(rng, log, False, KINDS[seed % 7]) if seed % 7 < len(KINDS) else foresee_cells(log)
    halves = rng.integers(2, size=world.size[0])
    vector = random_event(rng, world)
    events = just_so(log, vector, random_cell_tails(rng, log), MIN_LOG)
    term = max(half_surplus(log, vector, halves), MIN_LOG)
    chance = 2 * len(vector.rates) * math.exp(-term) * (1 - 1e-12)
    reference = reference_for(rng, log, blocks, adversarial=seed % 4 == 3)
    bound = bound_of(log, events, reference, blocks)
    return ruled_out(bound, halves_tally(log, blocks, reference, halves), chance), needed(log, halves)


@pytest.mark.parametrize("part", range(3))
def test_never_more_than_the_truth_on_the_event(part):
    found = np.array([run_case(seed) for seed in range(90 * part, 90 * (part + 1))])
    assert np.all(found[:, 0] <= found[:, 1] * (1 + 1e-9) + 1e-12)
    assert np.count_nonzero(found[:, 0] > 0) > 20, "what rules out nothing cannot be wrong"
    assert np.count_nonzero(found[:, 0] > 0.3 * found[:, 1]) >= 5, "and it is not far from the truth at times"


def cliff(gamma=0.0, gap=1.0, noise=0.0):
    """One group of two states that pay differently; each stays where it is (γ > 0) or ends."""
    moves = np.zeros((2, 1, 3))
    moves[[0, 1], 0, [2, 2] if gamma == 0 else [0, 1]] = 1.0
    one = np.ones((2, 1))
    pays = np.array([[0.5 + (0.5 - noise) * gap], [0.5 - (0.5 - noise) * gap]])
    return World(
        gamma, moves, pays, one, one / 2, np.zeros(2, dtype=np.int64), one * 0.0, one / 2, np.array([0.5, 0.5])
    )


def planned(world, rows, delta):
    """Events as a plan would have them, half of δ for halves."""
    best = math.sqrt(2 * math.log(8 / delta) / (rows * 0.25)) / world.high
    rates = tuple(min(best * 4.0**k, 0.9 / world.high) for k in (-2, -1, 0, 1))
    tails = CellTails(np.full((1, world.count), min(best, 0.9 / world.high)))
    return Events(VectorEvent(np.ones(world.count), rates), delta / 4, tails, delta / 4)


@pytest.mark.parametrize(("gamma", "gap"), [(0.0, 1.0), (0.0, 0.4), (0.5, 0.6)])
def test_a_cliff_inside_a_group_is_seen(rng, gamma, gap):
    """A gap of `gap` in the rewards: ± gap / 2 / (1 - γ) around the group's number."""
    world, halves = cliff(gamma, gap), np.array([0, 1])
    log = foresee_cells(random_log(rng, world, 20_000, 1))
    events = planned(world, 20_000, 0.1)
    reference = reference_for(rng, log, 1, adversarial=False)
    found = ruled_out(bound_of(log, events, reference, 1), halves_tally(log, 1, reference, halves), 0.05)
    truth = gap / 2 / (1 - gamma)
    assert needed(log, halves) == pytest.approx(truth, rel=1e-9)
    assert 0.25 * truth <= found <= truth
    assert found >= 0.85 * truth if gamma == 0 else True
    same = halves_tally(log, 1, reference, np.zeros(2, dtype=np.int64))  # everything in one half: nothing to compare
    assert ruled_out(bound_of(log, events, reference, 1), same, 0.05) == 0


def test_without_a_difference_nothing_is_ruled_out(rng):
    world, halves = cliff(0.0, 0.0), np.array([0, 1])
    for _ in range(40):
        log = foresee_cells(random_log(rng, world, 2000, 1))
        reference = reference_for(rng, log, 1, adversarial=False)
        bound = bound_of(log, planned(world, 2000, 0.1), reference, 1)
        assert ruled_out(bound, halves_tally(log, 1, reference, halves), 0.05) == 0


def test_with_half_the_logarithm_it_overshoots(rng, monkeypatch):
    """The control: fair coins, no difference between halves, a rate that suits this very log, and an event that holds just so."""
    world, halves, real = cliff(0.0, 0.0), np.array([0, 1]), VectorEvent.log_term
    overshoots = {1.0: 0, 0.5: 0}
    for _ in range(60):
        log = foresee_cells(random_log(rng, world, 20_000, 1))
        sums = np.bincount(halves[log.state], log.noise, minlength=2)
        vector = VectorEvent(np.ones(1), (float(np.linalg.norm(sums) / (log.deviations @ log.deviations)),))
        events = just_so(log, vector, CellTails(np.full((1, 1), vector.rates[0])), MIN_LOG)
        chance = 2 * math.exp(-max(half_surplus(log, vector, halves), MIN_LOG)) * (1 - 1e-12)
        reference = reference_for(rng, log, 1, adversarial=False)
        bound, both = bound_of(log, events, reference, 1), halves_tally(log, 1, reference, halves)
        for part in overshoots:
            with monkeypatch.context() as patch:
                patch.setattr(VectorEvent, "log_term", lambda self, p, part=part: part * real(self, p))
                overshoots[part] += ruled_out(bound, both, chance) > 1e-9
    assert overshoots[1.0] == 0
    assert overshoots[0.5] >= 10
