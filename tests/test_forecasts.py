"""Forecasts by labels: every formula against its twin in 50 digits, rounding at large numbers, and what is refused."""

import math
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest

from bondic.core import localize, tails
from bondic.core.allowance import Allowance, CellAllowance
from bondic.core.forecasts import Forecasts, forecast_tally
from bondic.core.localize import CellTails, Events, RowEnergy, ValueLimits, VectorEvent, locate
from bondic.core.system import Energy, System
from bondic.core.tails import EndWeights, StartMean, end_terms
from bondic.core.tally import CellRows, CellShape, tally
from bondic.errors import BondicError, InvalidInput
from bondic.rounding import Enclosure, as_enclosure
from naive_cells import NaiveForecasts, exact, naive_end, naive_locate, own_bounds, row_energy
from test_cells_algebra import HIGH, LOW, WIDTH, above, make_case

SEEDS = range(16)
KINDS = ("sensible", "random", "none", "large")


def labels_of(rng, cell, cells, each=3):
    """Up to `each` labels of every cell, in any order, and one of them for every row."""
    own = rng.permutation(np.repeat(np.arange(cells), each))
    choice = [rng.choice(np.flatnonzero(own == c)[:each]) for c in range(cells) for _ in range(2)]
    return own, np.array([choice[2 * c + int(rng.integers(2))] for c in cell], dtype=np.int64)


def masses_of(rows: CellRows, atoms):
    found = np.zeros((rows.cell.size, atoms))
    np.add.at(found, (rows.owner, rows.atom), rows.mass)
    return found


def foreseen(rng, rows: CellRows, atoms, cells, kind):
    """Labels and forecasts: means over the rows of a label, or any numbers, also negative and with sums other than 1."""
    own, label = labels_of(rng, rows.cell, cells)
    count = np.maximum(np.bincount(label, minlength=own.size), 1)
    if kind == "sensible":
        following = np.zeros((own.size, atoms))
        np.add.at(following, label, masses_of(rows, atoms))
        mean = np.bincount(label, rows.outcome, minlength=own.size) / count
        return label, Forecasts(own, mean, following / count[:, None])
    size = {"random": 1.0, "none": 0.0, "large": 30.0}[kind]
    offset, following = rng.normal(size=own.size) * 0.5, rng.normal(size=(own.size, atoms)) * size
    return label, Forecasts(own, offset, following)


def make_foreseen(seed):
    """A case of the algebra of cells, with forecasts."""
    case = make_case(seed)
    atoms = case.shape.atoms.shape[0]
    label, given = foreseen(case.rng, case.rows, atoms, case.cells, KINDS[(seed + seed // 4) % 4])
    found = forecast_tally([case.rows], label, given, case.shape, case.gamma, case.reference)
    own = NaiveForecasts(
        label.tolist(), given.cell.tolist(), exact(given.offset), [exact(row) for row in given.following]
    )
    naive = replace(case.naive, forecasts=own)
    return replace(case, system=replace(case.system, forecasts=found), naive=naive), label, given


def weights_of(case, label, labels):
    """Of blocks and labels, and the same of every row."""
    found = case.rng.random((case.shape.blocks, labels))
    return found, exact(found[case.rows.block, label])


@pytest.mark.parametrize("seed", SEEDS)
def test_sums_by_labels_are_those_of_the_deviations(seed):
    """D_i row by row from e = b: the forecast less what came."""
    case, label, given = make_foreseen(seed)
    rows, naive = case.system.rows, case.naive
    assert np.array_equal(case.system.label_cell, given.cell)
    for block in range(case.shape.blocks):
        for one in range(given.cell.size):
            mine = (case.rows.block == block) & (label == one)
            own = [d for d, here in zip(naive.deviation, mine, strict=True) if here]
            at = (block, one)
            assert rows.count[at] == len(own)
            assert abs(rows.total[at] - sum(own)) <= rows.relative * rows.size[at] + len(own) * rows.error
            assert abs(rows.square[at] - sum(d * d for d in own)) <= 1e-12 * (1 + rows.square[at])
            assert abs(rows.low[at] - min(own, default=0)) <= rows.error
            assert abs(rows.high[at] - max(own, default=0)) <= rows.error
    assert rows.error <= 1e-10
    atoms = exact(case.shape.atoms @ case.reference)
    center = [o + naive.gamma * sum(k * b for k, b in zip(row, atoms, strict=True))
              for o, row in zip(exact(given.offset), naive.kappa, strict=True)]  # fmt: skip
    for one, d, (_, _, outcome, ahead) in zip(label, naive.deviation, naive.rows, strict=True):
        came = outcome + naive.gamma * sum(m * atoms[j] for j, m in ahead)
        assert abs(d - (center[one] - came)) <= 1e-11


@pytest.mark.parametrize("seed", SEEDS)
def test_differences_and_energies_are_their_formulas(seed):
    case, label, given = make_foreseen(seed)
    matrix, _ = case.system.atom_weights
    for feasible, naive in case.feasible():
        weights, each = weights_of(case, label, given.cell.size)
        form = Energy.of(case.system, weights)
        above(feasible.root_energy(form), naive.root_energy(each), 1e-5)
        computed = form.largest(feasible._inverse_scale, matrix, case.gamma, case.system.rows.relative)
        above(computed, naive.largest(each), 1e-7)
        for one, other in zip(feasible.next_differences(), naive.next_differences(), strict=True):
            above(one, other, 1e-5)
        direction = case.system.direction(case.rng.normal(size=case.cells))
        growth = feasible.growth(form, direction)
        for radius in (feasible.radius, 0.1 * feasible.radius):
            now = replace(feasible, radius=radius)
            assert now.support(direction) <= (radius * growth[0] + growth[1]) * (1 + 1e-12)
            assert now.root_energy(form) <= (radius * growth[2] + growth[3]) * (1 + 1e-12)
            assert radius * growth[2] + growth[3] <= now.root_energy(form) * (1 + 1e-5) + 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_inside_the_sets_exceeds_the_bounds(seed):
    """At points of the sets: energies of x_i, and what forecasts miss of every atom that follows."""
    case, label, given = make_foreseen(seed)
    system, p, atoms = case.system, case.cells, case.shape.atoms
    inverse = np.linalg.inv(np.eye(p) - case.gamma * system.following @ atoms)
    ahead = masses_of(case.rows, atoms.shape[0])
    matrix = case.gamma * (given.following[label] - ahead) @ atoms
    rest = ahead.sum(axis=1) < 1 - 1e-9
    for feasible, _ in case.feasible(radius=float(case.rng.choice([0.1, 3.0]))):
        weights, _ = weights_of(case, label, given.cell.size)
        row = weights[case.rows.block, label]
        bound, differences = feasible.root_energy(Energy.of(system, weights)), feasible.next_differences()
        inside = feasible._inverse_scale
        first = np.linalg.svd((matrix @ inverse) * inside * np.sqrt(row)[:, None])[2][0]
        for k in range(60):
            ball = first if k < 20 else case.rng.normal(size=p)
            box = case.rng.choice([-1.0, 1.0], size=p) * feasible.slack
            f = inverse @ (feasible.radius * ball / np.linalg.norm(ball) * inside + box)
            if not feasible.inside.any():
                f = f * min(1.0, system.largest / float(np.abs(f).max()))
            assert math.sqrt(float(row @ (matrix @ f) ** 2)) <= bound
            each = atoms @ f
            missed = np.abs((given.following @ each)[label[case.rows.owner]] - each[case.rows.atom])
            assert np.all(missed <= differences[label[case.rows.owner]] + 1e-10)
            assert np.all(np.abs(given.following @ each)[label[rest]] <= differences[label[rest]] + 1e-10)


@pytest.mark.parametrize("seed", SEEDS)
def test_row_energy_holds_for_every_f_and_is_attained(seed):
    case, label, given = make_foreseen(seed)
    weights, each = weights_of(case, label, given.cell.size)
    for allowance in (case.allowance, CellAllowance(case.allowance.averages, np.zeros(case.cells))):
        energy = RowEnergy.of(case.system, weights, allowance)
        constant, linear, factor = row_energy(case.naive, each, exact(allowance.single))
        above(energy.constant, constant)
        assert energy.factor == pytest.approx(float(factor), rel=1e-9)
        same = mp.mpf(energy.factor) / factor
        gap = sum(abs(mp.mpf(float(a)) - same * b) for a, b in zip(energy.linear, linear, strict=True))
        assert gap <= energy.linear_error <= 1e-6
        sizes = case.naive.of_atoms(exact(allowance.single))
        for _ in range(10):
            f = exact(case.rng.normal(size=case.cells))
            moved, true, form = case.naive.moved(f), mp.mpf(0), mp.mpf(0)
            side = mp.mpf(float(case.rng.choice([-1, 1])))
            for w, d, x, row in zip(each, case.naive.deviation, moved, case.naive.rows, strict=True):
                true += w * (d + x - case.naive.gamma * side * sum(m * sizes[j] for j, m in row[3])) ** 2
                form += w * x**2
            found = energy.constant + sum(a * b for a, b in zip(f, exact(energy.linear), strict=True))
            found += energy.factor * form
            error = energy.linear_error * max(abs(x) for x in f)
            assert true <= found + error
            if not allowance.single.any() or case.gamma == 0:
                assert found <= true * (1 + mp.mpf(10) ** -9) + error + mp.mpf(10) ** -12


@pytest.mark.parametrize("seed", SEEDS)
def test_the_sets_and_the_ends_assembled_from_scratch(seed):
    case, _, given = make_foreseen(seed)
    limits = ValueLimits(WIDTH, LOW, HIGH)
    for reach in (np.full(given.cell.size, np.inf), case.rng.random(given.cell.size)):
        computed = localize._own_bounds(case.events, case.system, reach, limits)
        true = own_bounds(case.naive, case.naive_events(), exact(reach), mp.mpf(WIDTH))
        for one, other in zip(computed, true, strict=True):
            assert one == np.inf if other == mp.inf else above(one, other) is None
    located = locate(case.system.tally, case.events, limits, case.allowance, case.system.forecasts)
    averages, single = exact(case.allowance.averages), exact(case.allowance.single)
    sets, row_reach, energy = naive_locate(case.naive, case.naive_events(), mp.mpf(WIDTH), averages, single)
    assert [tuple(one.inside.tolist()) for one in located.sets] == [one.inside for one in sets]
    above(located.energy_bound, energy, 1e-5)
    for one, other in zip(located.sets, sets, strict=True):
        above(one.radius, other.radius, 1e-5)
        for computed, true in zip(one.slack, other.slack, strict=True):
            above(computed, true, 1e-5)
    for computed, true in zip(located.row_reach, row_reach, strict=True):
        above(computed, true, 1e-5)
    psi = case.rng.dirichlet(np.ones(case.cells))
    starts, base = StartMean(Enclosure(0.0), psi, 0.0), as_enclosure(float(case.reference @ psi))
    for sign in (1.0, -1.0):
        tail = EndWeights(case.rng.normal(size=(case.shape.blocks, case.cells)) * 0.1, 4.0)
        weighed, plain = naive_end(
            case.naive, (sets, exact(located.row_reach)), exact(psi), [exact(row) for row in tail.weights], mp.mpf(4),
            mp.mpf(sign), mp.log(10), mp.mpf(WIDTH), (averages, single),
        )  # fmt: skip
        end = end_terms(located, starts, tail, sign, 0.1)
        upper, shorter = sign * end.value.mid + end.value.rad + end.spread, min(weighed, plain)
        assert mp.mpf(upper) >= shorter
        assert upper <= float(shorter) + 1e-5 * abs(float(shorter)) + 1e-7
        own = tails._weighed(located, starts, tail, sign, 0.1, base, float(case.allowance.averages @ psi))
        assert sign * own.value.mid + own.spread == pytest.approx(float(weighed), rel=1e-5)
