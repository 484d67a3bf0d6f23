"""With forecasts, everything that the bound claims is true on every log on which the events of *this* center hold.

And three readings of the forecasts that look alike are caught: without the discount, without the sum of κ, with labels of
another cell.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from bondic.core import localize
from bondic.core.allowance import CellAllowance
from bondic.core.forecasts import Forecasts, forecast_tally
from bondic.core.localize import CellTails, Events, ValueLimits, VectorEvent, locate
from bondic.core.tally import CellRows, CellShape, tally
from bondic.plan.cells import reference_of
from cells_cases import (
    cell_surplus,
    just_so,
    limits_of,
    random_cell_tails,
    random_event,
    random_log,
    random_tail,
    random_world,
    tail_surplus,
    tally_of,
    true_allowance,
    true_coordinates,
    vector_surplus,
)
from forecast_cases import KINDS, foresee
from test_cells_event import check_cells, check_ends, check_membership

GAMMAS = (0.0, 0.3, 0.9, 0.99)
LEAST_LOG = 1e-3


def check_energy(located, log, weights, terms):
    """The energy of the deviations, the form in x alone, and its parts over E; `weights` of blocks and labels."""
    deviation, moved, ahead = terms
    row, energy = weights[log.block, log.label], located.energy(weights)
    f, _ = true_coordinates(log, located.system)
    form = float(row @ moved**2)
    true = float(row @ (deviation + moved - log.world.gamma * ahead) ** 2)
    tiny = 1e-10 * (1 + true + form)
    assert true <= energy.constant + float(f @ energy.linear) + energy.factor * form + tiny
    direction = located.system.direction(energy.linear, energy.linear_error)
    for one in located.sets:
        assert form <= one.root_energy(energy.form) ** 2 + tiny
        assert abs(float(f @ energy.linear)) <= one.support(direction) + tiny
    assert float(f @ energy.linear) + energy.factor * form <= located.excess(energy, direction) + tiny
    return 2 + 2 * len(located.sets)


def check_rows(located, log, terms):
    """What is left of single rows: -Δ_i = D_i + x_i - γ ζ'_i before it is clipped, of the same sign and smaller after."""
    deviation, moved, ahead = terms
    rest, high, reach = moved - log.world.gamma * ahead, log.world.high, located.row_reach[log.label]
    size = 1 + float(np.abs(deviation).max()) + float(np.abs(rest).max())
    outcome = log.reward + log.world.gamma * log.mean_ahead(log.world.truth)
    unclipped = outcome + deviation + rest  # Ŷ_i
    assert np.abs(outcome - np.clip(unclipped, 0, high) - log.deviations).max() <= 1e-11 * size
    assert np.all(np.abs(rest) <= reach * (1 + 1e-12) + 1e-12 * size)
    assert np.all(np.abs(log.deviations) <= np.minimum(high, np.abs(deviation + rest)) + 1e-11 * size)
    assert np.all(log.deviations * (deviation + rest) <= 1e-11 * size**2)
    place = (log.block, log.label)
    rows = located.system.rows
    assert np.all((rows.low[place] <= deviation + rows.error) & (deviation <= rows.high[place] + rows.error))
    return 4 * rest.size


def draw_case(seed):
    """A world, a log with forecasts, blocks, and a reference that solves its equations or is arbitrary."""
    rng = np.random.default_rng([seed, 41])
    gamma, kind = GAMMAS[seed % 4], ("table", "cells", "groups", "draws")[(seed // 4) % 4]
    grouped = kind in ("groups", "draws")
    world = random_world(rng, gamma, groups=int(rng.integers(1, 4)) if grouped else None)
    blocks, rows = int(rng.integers(1, 4)), int(np.exp(rng.uniform(np.log(20), np.log(3000))))
    log = random_log(rng, world, rows, blocks, draws=3 if kind == "draws" else 0)
    by_states, limits = kind == "table", limits_of(world)
    log = foresee(rng, log, by_states, KINDS[(seed // 16) % len(KINDS)])
    reference = rng.normal(size=world.count) * world.high * rng.choice([0.3, 10.0])
    if rng.random() < 0.7:
        first = tally_of(log, blocks, np.zeros(world.count), by_states)
        reference = reference_of(first, first.count.sum(axis=0) > 0, limits.low, limits.high)
    return rng, world, log, blocks, reference


def run_case(seed, sharp):
    """The number of checks, of ends that beat the value range, and of sets."""
    rng, world, log, blocks, reference = draw_case(seed)
    limits = limits_of(world)
    vector, single = random_event(rng, world), random_cell_tails(rng, log)
    events = just_so(log, vector, single, LEAST_LOG) if sharp else Events(vector, 0.2, single, 0.2)
    if max(vector_surplus(log, vector)) > vector.log_term(events.vector_probability):
        return 0, 0, 0
    if cell_surplus(log, single) > single.log_term(events.cells_probability):
        return 0, 0, 0
    found, own = tally_of(log, blocks, reference, log.by_states), log.tally(blocks, reference)
    located = locate(found, events, limits, true_allowance(log, constant=bool(rng.random() < 0.5)), own)
    terms = log.terms(reference)
    checks = check_membership(located, log) + check_cells(located, events, log, limits)
    checks += check_rows(located, log, terms)
    squares = np.broadcast_to(vector.shape[log.forecasts.cell] ** 2, own.rows.count.shape)
    checks += check_energy(located, log, squares, terms)
    assert float(vector.shape[log.cell] ** 2 @ log.deviations**2) <= located.energy_bound * (1 + 1e-10)
    short = 0
    for sign in (1.0, -1.0):
        tail = random_tail(rng, log, found, sign)
        need = tail_surplus(log, tail)
        cost = max(need, LEAST_LOG) if sharp else math.log(10)
        if need > cost:
            continue
        checks += 2 + check_energy(located, log, rng.random(own.rows.count.shape), terms)
        short += check_ends(located, world, tail, sign, math.exp(-cost) * (1 - 1e-12))
    return checks, short, len(located.sets)


@pytest.mark.parametrize("part", range(4))
def test_all_claims_hold_on_the_event(part):
    """Tables, fractional masses, groups with models, drawn next actions; forecasts from true to absurd; γ from 0 to .99."""
    found = np.array([run_case(seed, sharp=seed % 3 > 0) for seed in range(part * 96, (part + 1) * 96)])
    assert np.count_nonzero(found[:, 0]) >= 80
    assert found[:, 0].sum() > 100_000
    assert found[:, 1].sum() >= 12, "ends that say less than the range cannot be wrong"
    assert np.count_nonzero(found[:, 2] >= 3) >= 20, "several sets are mixtures of both kinds of events"
