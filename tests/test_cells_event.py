"""On every log on which the events hold, everything that the bound on cells claims is true: no exception is allowed.

The events are made to hold *just so*: δ is set to the value at which the true sums meet the bound with equality, so that
nothing is hidden by a generous logarithm. Weights, rates, references and forecasts are arbitrary. And three readings of the
forecasts that look alike are caught: without the discount, without the sum of κ, with labels of another cell.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from bondic.core.betting import bet_cost
from bondic.core.bounded import Enclosure
from bondic.core.cells import ends, localize
from bondic.core.cells.ends import EndTerms, EndWeights, end_terms
from bondic.core.cells.forecasts import LabelTally
from bondic.core.cells.localize import CellTails, Events, VectorEvent, locate
from bondic.core.cells.tally import Entries
from bondic.core.errors import InvalidInput
from cells_cases import (
    KINDS,
    TrueRows,
    cell_surplus,
    foresee,
    just_so,
    random_cell_tails,
    random_event,
    random_log,
    random_tail,
    random_world,
    starts_of,
    tail_surplus,
    true_allowance,
    true_coordinates,
    vector_surplus,
)

GAMMAS = (0.0, 0.3, 0.9, 0.99)
MIN_LOG = 1e-3


def check_membership(located, log):
    """In every set t = t' + t'' with |(a t')| <= ϱ on the cells inside and |t''| <= τ."""
    _, t = true_coordinates(log, located.system)
    rounding = 1e-12 * log.world.high
    for one in located.sets:
        over = np.maximum(np.abs(t) - one.slack, 0.0)
        inside = one.scale > 0
        assert np.all(over[~inside] <= rounding)
        assert np.linalg.norm(over[inside] / one.scale[inside]) <= one.radius * (1 + 1e-9) + rounding
        assert not np.any(inside & ~located.system.learned)
    return len(located.sets)


def check_cells(located, log):
    """|mean Z| <= ε of every cell, at what the sets leave of its rows."""
    counts = np.bincount(log.cell, minlength=log.world.count)
    noise = np.abs(np.bincount(log.cell, log.noise, minlength=log.world.count)) / np.maximum(counts, 1)
    point = localize._FixedPoint(located.ground, located.allowance)
    point.farthest, point.roots = located.farthest, np.minimum.reduce([one.cell_roots() for one in located.sets])
    bound = point._own_bounds(located.intervals.deviations(located.single, located.limits.width))
    assert np.all(noise <= bound * (1 + 1e-12) + 1e-12)
    return int(np.count_nonzero(np.isfinite(bound)))


def check_energy(located, log, weights, terms):
    """The energy of the deviations, the form in x alone, and its parts over E; `weights` of blocks and labels."""
    deviation, moved, ahead = terms
    row, energy = weights[log.block, log.labels], located.energy(weights)
    f, _ = true_coordinates(log, located.system)
    form = float(row @ moved**2)
    true = float(row @ (deviation + moved - log.world.gamma * ahead) ** 2)
    tiny = 1e-10 * (1 + true + form)
    assert true <= energy.constant + float(f @ energy.linear) + energy.factor * form + tiny
    for one in located.sets:
        assert form <= one.root(energy.form) ** 2 + tiny
        assert abs(float(f @ energy.linear)) <= one.support(energy.linear, energy.linear_error) + tiny
        excess = one.excess(energy, energy.linear, energy.linear_error)
        assert float(f @ energy.linear) + energy.factor * form <= excess + tiny
    return 2 + 2 * len(located.sets)


def check_rows(located, log, terms):
    """What is left of single rows: -Δ_i = D_i + x_i - γ ζ'_i before it is clipped, of the same sign and smaller after."""
    deviation, moved, ahead = terms
    rest, high, reach = moved - log.world.gamma * ahead, log.world.high, located.farthest[log.labels]
    size = 1 + float(np.abs(deviation).max()) + float(np.abs(rest).max())
    outcome = log.reward + log.world.gamma * log.mean_ahead(log.world.truth)
    unclipped = outcome + deviation + rest  # Ŷ_i
    assert np.abs(outcome - np.clip(unclipped, 0, high) - log.deviations).max() <= 1e-11 * size
    assert np.all(np.abs(rest) <= reach * (1 + 1e-12) + 1e-12 * size)
    assert np.all(np.abs(log.deviations) <= np.minimum(high, np.abs(deviation + rest)) + 1e-11 * size)
    assert np.all(log.deviations * (deviation + rest) <= 1e-11 * size**2)
    place = (log.block, log.labels)
    rows = located.system.rows
    assert np.all((rows.low[place] <= deviation + rows.error) & (deviation <= rows.high[place] + rows.error))
    return 4 * rest.size


def check_intervals(located, log, terms, tail=None):
    """f lies in its intervals, and of every block and label: sums of x^2, of Δ^2 and of g(-v Δ)."""
    found, moved = located.intervals, terms[1]
    f, _ = true_coordinates(log, located.system)
    tiny = 1e-9 * (1 + log.world.high) ** 2
    assert np.all((f >= found.values.low - tiny) & (f <= found.values.high + tiny))
    shape = located.system.rows.count.shape

    def total(values):
        sums = np.zeros(shape)
        np.add.at(sums, (log.block, log.labels), values)
        return sums

    assert np.all(total(moved**2) <= found.squares + tiny)
    assert np.all(total(log.deviations**2) <= found.deviations(located.single, located.limits.width) + tiny)
    if tail is not None:
        weights = tail.weights[:, located.system.labels.cell]
        paid = total(bet_cost(-(weights[log.block, log.labels] * log.deviations)))
        assert np.all(paid <= found.charges(weights, located.single, located.limits.width) + tiny)
    return 4


def check_ends(located, world, tail, sign, probability):
    """The end that is reported, and the weighed bound also where it is not the shorter one."""
    starts, reference = starts_of(world), located.system.tally.reference
    base = Enclosure(starts.center.mid + float(reference @ starts.cells), 1e-12 * (1 + float(np.abs(reference).max())))
    allowed = float(located.allowance.averages @ starts.cells) * (1 + 1e-12)
    end = end_terms(located, starts, tail, sign, probability)
    plain = EndTerms(base, 0.0, 0.0, 0.0, allowed, False)
    for one in (end, ends._weighed(located, starts, tail, sign, probability, plain)):
        assert sign * world.value <= sign * one.value.mid + one.value.rad + one.spread
    return int(sign * end.value.mid + end.spread < max(sign, 0.0) * world.high)


def draw_case(seed):
    """A world, a log with forecasts, blocks, and a reference that solves its equations or is arbitrary."""
    rng = np.random.default_rng([seed, 41])
    gamma, kind = GAMMAS[seed % 4], ("table", "cells", "groups", "draws")[(seed // 4) % 4]
    grouped = kind in ("groups", "draws")
    world = random_world(rng, gamma, groups=int(rng.integers(1, 4)) if grouped else None)
    blocks, rows = int(rng.integers(1, 4)), int(np.exp(rng.uniform(np.log(20), np.log(3000))))
    log = random_log(rng, world, rows, blocks, draws=3 if kind == "draws" else 0)
    log = foresee(rng, log, kind == "table", KINDS[(seed // 16) % len(KINDS)])
    reference = rng.normal(size=world.count) * world.high * rng.choice([0.3, 10.0])
    return rng, world, log, blocks, log.solved(blocks) if rng.random() < 0.7 else reference


def run_case(seed, sharp):
    """The number of checks, of ends that beat the value range, and of sets."""
    rng, world, log, blocks, reference = draw_case(seed)
    vector, single = random_event(rng, world), random_cell_tails(rng, log)
    events = just_so(log, vector, single, MIN_LOG) if sharp else Events(vector, 0.2, single, 0.2)
    if max(vector_surplus(log, vector)) > vector.log_term(events.vector_probability):
        return 0, 0, 0
    if cell_surplus(log, single) > single.log_term(events.cells_probability):
        return 0, 0, 0
    ground = log.ground(blocks, reference, events)
    located, shape = (
        locate(ground, true_allowance(log, constant=bool(rng.random() < 0.5))),
        ground.system.rows.count.shape,
    )
    terms = log.terms(reference)
    checks = check_membership(located, log) + check_cells(located, log) + check_rows(located, log, terms)
    checks += check_intervals(located, log, terms)
    squares = np.broadcast_to(vector.shape[log.forecasts.cell] ** 2, shape)
    checks += check_energy(located, log, squares, terms)
    assert float(vector.shape[log.cell] ** 2 @ log.deviations**2) <= located.energy_bound * (1 + 1e-10)
    short = 0
    for sign in (1.0, -1.0):
        tail = random_tail(rng, log, ground.system.tally, sign)
        need = tail_surplus(log, tail)
        cost = max(need, MIN_LOG) if sharp else math.log(10)
        if need > cost:
            continue
        checks += 2 + check_energy(located, log, rng.random(shape), terms)
        checks += check_intervals(located, log, terms, tail)
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


def sharp_case(seed, kind):
    """Weights that bet on the log's own noise, with balance; whether they are used, sign (end - J) Λ, and the log term in it."""
    rng = np.random.default_rng([seed, 15])
    world = random_world(rng, (0.0, 0.3)[seed % 2], states=2)
    world = replace(world, behavior=np.full(world.size, 1 / world.reward.size), reward=rng.random(world.size))
    log = foresee(rng, random_log(rng, world, 20_000, 2), True, kind)
    vector = VectorEvent(np.ones(world.count), (0.1 / world.high, 0.02 / world.high))
    events = just_so(log, vector, CellTails(np.zeros((1, world.count))), MIN_LOG)
    ground = log.ground(2, log.solved(2), events)
    located = locate(ground, true_allowance(log))
    (own,), _ = ground.system.directions(starts_of(world).cells[None])
    per_row = own / ground.system.counts
    weights = per_row[log.cell]
    scale = float(weights @ log.noise) / float(weights**2 @ log.deviations**2)
    sign, rate = math.copysign(1.0, scale), abs(scale)
    tail = EndWeights(np.tile(scale * per_row, (2, 1)), rate)
    need = tail_surplus(log, tail)
    end = end_terms(located, starts_of(world), tail, sign, math.exp(-max(need, 1e-9)) * (1 - 1e-12))
    return end.uses_weights, rate * (sign * end.value.mid + end.spread - sign * world.value), need


@pytest.mark.parametrize("kind", ["true", "seen"])
def test_tails_hold_just_so_and_not_without_their_logarithm(kind):
    """With δ at equality the end is beyond the truth by what the relaxations cost, and that is less than log(1/δ)."""
    found = np.array([sharp_case(seed, kind) for seed in range(30)])
    assert np.all(found[:, 1] >= 0)
    assert np.count_nonzero((found[:, 0] > 0) & (found[:, 1] < 0.1 * found[:, 2])) >= 15


def count_caught(monkeypatch, target, name, mutant, seeds=range(72)):
    """Logs on which a claim fails once a part of the core is replaced."""
    monkeypatch.setattr(target, name, mutant)
    caught = 0
    for seed in seeds:
        try:
            run_case(seed, sharp=True)
        except AssertionError:
            caught += 1
    return caught


def test_forecasts_without_the_discount_are_caught(monkeypatch):
    """D_i = o_ℓ + sum_j κ_ℓj b_j - ...: the same as another offset, and wrong about what was bet on."""
    honest = TrueRows.by_label

    def undiscounted(log, blocks, reference):
        given = log.forecasts
        offset = given.offset + (1 - log.world.gamma) * (given.following @ (log.atoms @ reference))
        return honest(replace(log, forecasts=replace(given, offset=offset)), blocks, reference)

    assert count_caught(monkeypatch, TrueRows, "by_label", undiscounted) >= 10


def test_forecasts_that_are_read_as_probabilities_are_caught(monkeypatch):
    """<F, κ> - F_j: what all values have in common does not cancel unless κ adds up to 1."""

    honest = TrueRows.by_label

    def normalized(log, blocks, reference):
        own = honest(log, blocks, reference)
        total = own.expected.dense.sum(axis=1, keepdims=True)
        return replace(own, expected=Entries.of(own.expected.dense / np.where(np.abs(total) > 1e-3, total, 1.0)))

    assert count_caught(monkeypatch, TrueRows, "by_label", normalized) >= 10


def test_labels_of_other_cells_are_refused_and_would_be_caught(monkeypatch):
    """A label's rows bet as its cell does."""
    rng, world, log, blocks, reference = draw_case(9)
    events, honest = Events(random_event(rng, world), 0.1, random_cell_tails(rng, log), 0.1), TrueRows.by_label

    def moved(log, blocks, reference):
        own = honest(log, blocks, reference)
        return replace(own, cell=np.roll(own.cell, 1))

    monkeypatch.setattr(TrueRows, "by_label", moved)
    with pytest.raises(InvalidInput, match="other rows"):
        log.ground(blocks, reference, events)
    monkeypatch.setattr(LabelTally, "check", lambda *_: None)
    assert count_caught(monkeypatch, TrueRows, "by_label", moved) >= 10
