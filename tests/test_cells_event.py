"""On every log on which the events hold, everything that the bound on cells claims is true: no exception is allowed.

The events are made to hold *just so*: δ is set to the value at which the true sums meet the bound with equality, so that
nothing is hidden by a generous logarithm. Weights, rates and references are arbitrary.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from bondic.core.betting import loss
from bondic.core.bounded import Enclosure
from bondic.core.cells import localize, tails
from bondic.core.cells.localize import Events, VectorEvent, locate
from bondic.core.cells.system import System
from bondic.core.cells.tails import EndWeights, end_terms
from bondic.plan.cells import reference_of
from cells_cases import (
    cell_surplus,
    forecasts_of,
    just_so,
    limits_of,
    only_together,
    random_cell_tails,
    random_event,
    random_log,
    random_tail,
    random_world,
    row_terms,
    starts_of,
    tail_surplus,
    tally_of,
    true_allowance,
    true_coordinates,
    vector_surplus,
    with_forecasts,
)

GAMMAS = (0.0, 0.3, 0.9, 0.99)
LEAST_LOG = 1e-3


def check_membership(located, log):
    """In every set t = t' + t'' with |(a t')| <= ϱ on the cells inside and |t''| <= τ."""
    _, t = true_coordinates(log, located.system)
    rounding = 1e-12 * log.world.high
    for one in located.sets:
        over = np.maximum(np.abs(t) - one.slack, 0.0)
        assert np.all(over[~one.inside] <= rounding)
        assert np.linalg.norm((one.scale * over)[one.inside]) <= one.radius * (1 + 1e-9) + rounding
        assert not np.any(one.inside & ~located.system.learned)
    return len(located.sets)


def check_cells(located, events, log, limits):
    """|mean Z| <= ε of every cell, at what the sets leave of its rows."""
    counts = np.bincount(log.cell, minlength=log.world.count)
    noise = np.abs(np.bincount(log.cell, log.noise, minlength=log.world.count)) / np.maximum(counts, 1)
    roots = np.minimum.reduce([one.cell_roots() for one in located.sets])
    bound = localize._own_bounds(events, located.system, located.row_reach, limits, roots, located.allowance)
    assert np.all(noise <= bound * (1 + 1e-12) + 1e-12)
    return int(np.count_nonzero(np.isfinite(bound)))


def check_energy(located, log, weights, terms):
    """The energy of the deviations, the form in x alone, and its parts over E."""
    residual, moved, ahead = terms
    row = weights[log.block, log.label]
    energy = located.energy(weights)
    f, _ = true_coordinates(log, located.system)
    form = float(row @ moved**2)
    true = float(row @ (residual + moved - log.world.gamma * ahead) ** 2)
    tiny = 1e-10 * (1 + true)
    assert true <= energy.constant + float(f @ energy.linear) + energy.factor * form + tiny
    direction = located.system.direction(energy.linear, energy.linear_error)
    for one in located.sets:
        assert form <= one.root_energy(energy.form) ** 2 + tiny
        assert abs(float(f @ energy.linear)) <= one.support(direction) + tiny
    assert float(f @ energy.linear) + energy.factor * form <= located.excess(energy, direction) + tiny
    return 2 + 2 * len(located.sets)


def check_ranges(located, log, terms, tail=None):
    """f lies in its intervals, and of every block and label: sums of x^2, of Δ^2 and of g(-v Δ)."""
    ranges, moved = located.ranges, terms[1]
    f, t = true_coordinates(log, located.system)
    tiny = 1e-9 * (1 + log.world.high) ** 2
    assert np.all((f >= ranges.values.low - tiny) & (f <= ranges.values.high + tiny))
    assert np.all(np.abs(t)[located.system.counts > 0] <= ranges.equations[located.system.counts > 0] + tiny)
    shape = located.system.rows.count.shape

    def total(values):
        found = np.zeros(shape)
        np.add.at(found, (log.block, log.label), values)
        return found

    assert np.all(total(moved**2) <= ranges.squares + tiny)
    assert np.all(total(log.deviations**2) <= ranges.deviations(located.single, located.limits.width) + tiny)
    if tail is not None:
        weights = tail.weights[:, located.system.label_cell]
        paid = total(loss(-(weights[log.block, log.label] * log.deviations)))
        assert np.all(paid <= ranges.charges(weights, located.single, located.limits.width) + tiny)
    return 4


def check_ends(located, world, tail, sign, probability):
    """The end that is reported, and the weighed bound also where it is not the shorter one."""
    starts, reference = starts_of(world), located.system.tally.reference
    base = Enclosure(starts.center.mid + float(reference @ starts.cells), 1e-12 * (1 + float(np.abs(reference).max())))
    allowed = float(located.allowance.averages @ starts.cells) * (1 + 1e-12)
    end = end_terms(located, starts, tail, sign, probability)
    for one in (end, tails._weighed(located, starts, tail, sign, probability, base, allowed)):
        assert sign * world.value <= sign * one.value.mid + one.value.rad + one.spread
    return int(sign * end.value.mid + end.spread < max(sign, 0.0) * world.high)


def run_case(seed, sharp):
    """One world, one log: returns the number of checks, of ends that beat the value range, and of sets."""
    rng = np.random.default_rng([seed, 26])
    gamma, kind = GAMMAS[seed % 4], ("table", "cells", "groups", "draws")[(seed // 4) % 4]
    world = random_world(rng, gamma, groups=None if kind == "table" else int(rng.integers(1, 4)))
    if kind == "cells":
        world = random_world(rng, gamma)
    blocks, rows = int(rng.integers(1, 4)), int(np.exp(rng.uniform(np.log(20), np.log(3000))))
    log = random_log(rng, world, rows, blocks, draws=3 if kind == "draws" else 0)
    by_states, limits = kind == "table", limits_of(world)
    if not by_states and rng.random() < 0.5:
        log = with_forecasts(rng, log)
    vector, single = random_event(rng, world), random_cell_tails(rng, log)
    events = just_so(log, vector, single, LEAST_LOG) if sharp else Events(vector, 0.2, single, 0.2)
    if max(vector_surplus(log, vector)) > vector.log_term(events.vector_probability):
        return 0, 0, 0
    if cell_surplus(log, single) > single.log_term(events.cells_probability):
        return 0, 0, 0
    reference = rng.normal(size=world.count) * world.high
    if rng.random() < 0.7:
        first = tally_of(log, blocks, np.zeros(world.count), by_states)
        reference = reference_of(first, first.count.sum(axis=0) > 0, limits.low, limits.high)
    found = tally_of(log, blocks, reference, by_states)
    known = forecasts_of(log, blocks, reference)
    located = locate(found, events, limits, true_allowance(log, constant=bool(rng.random() < 0.5)), known)
    terms = row_terms(log, reference)
    checks = check_ranges(located, log, terms)
    checks += check_membership(located, log) + check_cells(located, events, log, limits)
    checks += check_energy(
        located,
        log,
        np.broadcast_to(vector.shape[located.system.label_cell] ** 2, located.system.rows.count.shape),
        terms,
    )
    assert float(vector.shape[log.cell] ** 2 @ log.deviations**2) <= located.energy_bound * (1 + 1e-10)
    deviation = np.abs(terms[1] - world.gamma * terms[2])
    assert np.all(deviation <= located.row_reach[log.label] * (1 + 1e-12) + 1e-12)
    assert np.all(
        np.abs(log.deviations) <= np.minimum(world.high, np.abs(terms[0]) + located.row_reach[log.label]) + 1e-9
    )
    checks += 2 * rows
    short = 0
    for sign in (1.0, -1.0):
        tail = random_tail(rng, log, found, sign)
        need = tail_surplus(log, tail)
        cost = max(need, LEAST_LOG) if sharp else math.log(10)
        if need > cost:
            continue
        checks += check_ranges(located, log, terms, tail)
        checks += 2 + check_energy(located, log, rng.random(located.system.rows.count.shape), terms)
        short += check_ends(located, world, tail, sign, math.exp(-cost) * (1 - 1e-12))
    return checks, short, len(located.sets)


@pytest.mark.parametrize("part", range(4))
def test_all_claims_hold_on_the_event(part):
    """Tables, cells as atoms with fractional masses, groups with models, drawn next actions; γ from 0 to .99."""
    found = np.array([run_case(seed, sharp=seed % 3 > 0) for seed in range(part * 120, (part + 1) * 120)])
    assert np.count_nonzero(found[:, 0]) >= 100
    assert found[:, 0].sum() > 50_000
    assert found[:, 1].sum() >= 15, "ends that say less than the range cannot be wrong"
    assert np.count_nonzero(found[:, 2] >= 3) >= 30, "several sets are mixtures of both kinds of events"


def sharp_case(seed):
    """A log whose weights bet on its own noise, with balance; returns sign (end - J) Λ, and the log term in it."""
    rng = np.random.default_rng([seed, 14])
    world = random_world(rng, (0.0, 0.3)[seed % 2], states=2)
    world = replace(world, behavior=np.full(world.size, 1 / world.reward.size), reward=rng.random(world.size))
    log = random_log(rng, world, 20_000, 2)
    event, limits = VectorEvent(np.ones(world.count), (0.1 / world.high, 0.02 / world.high)), limits_of(world)
    vector = 2 * len(event.rates) * math.exp(-max(*vector_surplus(log, event), LEAST_LOG)) * (1 - 1e-12)
    first = tally_of(log, 2, np.zeros(world.count), by_states=True)
    everything = np.ones(world.count, dtype=bool)
    found = tally_of(log, 2, reference_of(first, everything, 0.0, world.high), by_states=True)
    located = locate(found, only_together(event, vector), limits, true_allowance(log))
    own = System(first, first.reference, first.reference).direction(starts_of(world).cells).weights
    per_row = own / found.count.sum(axis=0)
    weights = per_row[log.cell]
    scale = float(weights @ log.noise) / float(weights**2 @ log.noise**2)
    sign, rate = math.copysign(1.0, scale), abs(scale)
    tail = EndWeights(np.tile(scale * per_row, (2, 1)), rate)
    need = tail_surplus(log, tail)
    end = end_terms(located, starts_of(world), tail, sign, math.exp(-need) * (1 - 1e-12))
    assert end.uses_weights
    return rate * (sign * end.value.mid + end.spread - sign * world.value), need


def test_tails_hold_just_so_and_not_without_their_logarithm():
    """With δ at equality the end is beyond the truth by what the relaxations cost, and that is less than log(1/δ)."""
    found = np.array([sharp_case(seed) for seed in range(40)])
    assert np.all(found[:, 0] >= 0)
    # what the relaxations cost: an end with nine tenths of its logarithm, or of its noise, would miss
    assert np.count_nonzero(found[:, 0] < 0.1 * found[:, 1]) >= 36
