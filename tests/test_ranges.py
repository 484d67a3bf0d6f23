"""Intervals of single cells: every formula against its twin in 50 digits, and nothing inside them exceeds what is claimed."""

import mpmath as mp
import numpy as np
import pytest

from bondic.core.betting import loss
from bondic.core.cells.entries import Entries
from bondic.core.cells.eras import EarlierRows, forecasts_of_eras
from bondic.core.cells.forecasts import Forecasts, forecast_tally
from bondic.core.cells.ranges import Bounds, Ranges
from bondic.core.cells.tally import CellRows, CellShape, tally
from bondic.core.errors import InvalidInput
from naive_cells import NaiveRanges, exact
from test_cells_algebra import WIDTH, above, make_case
from test_forecasts import make_foreseen, masses_of

SEEDS = range(16)


def cases(seed):
    """Without forecasts, and with some; the label of every row."""
    for whole in (False, True):
        plain = make_case(seed, whole=whole)
        yield plain, plain.rows.cell
        foreseen, label, _ = make_foreseen(seed, whole=whole)
        yield foreseen, label


def ranges_of(case):
    """Arbitrary intervals and equations, some of them useless; the same for the twin."""
    system, rng, p = case.system, case.rng, case.cells
    equations = np.where((system.counts > 0) & (rng.random(p) < 0.8), rng.random(p) * rng.choice([0.05, 1.0]), np.inf)
    found = Ranges.of(system, Bounds(system.low, system.high), equations)
    naive = NaiveRanges(case.naive, exact(system.low), exact(system.high), exact(equations)).sweep(1000)
    return found, naive


@pytest.mark.parametrize("seed", SEEDS)
def test_intervals_and_what_they_leave_of_rows_are_their_formulas(seed):
    for case, _ in cases(seed):
        found, naive = ranges_of(case)
        for a, b in zip(found.values.high, naive.high, strict=True):
            assert abs(a - b) <= 1e-9
            assert a >= b
        for a, b in zip(found.values.low, naive.low, strict=True):
            assert abs(a - b) <= 1e-9
            assert a <= b
        d = case.rng.normal(size=case.cells)
        true = naive.support(exact(d))
        assert true <= found.support(d, 0.0) <= float(true) + 1e-8
        above(found.supports(d[None])[0], max(true, naive.support(exact(-d))), 1e-8)
        for a, b in zip(found.row_reach(), naive.reach(), strict=True):
            above(a, b, 1e-8)
        tail = case.rng.normal(size=(case.shape.blocks, case.cells)) * 0.15
        weights = tail[:, case.system.label_cell]
        bounds = [
            (found.squares, naive.squares()),
            (found.deviations(0.1, WIDTH), naive.deviations(mp.mpf(0.1), mp.mpf(WIDTH))),
            (found.charges(weights, 0.1, WIDTH), naive.charges([exact(v) for v in tail], mp.mpf(0.1), mp.mpf(WIDTH))),
        ]
        for computed, true in bounds:
            for key, value in true.items():
                above(computed[key], value, 1e-7)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_inside_the_intervals_exceeds_the_bounds(seed):
    """f at random and at corners, where it satisfies the equations: sums of x^2, and of g at what is not clipped."""
    tried = 0
    for case, label in cases(seed):
        found, _ = ranges_of(case)
        system, atoms, gamma = case.system, case.shape.atoms, case.gamma
        ahead = masses_of(case.rows, atoms.shape[0])
        own = np.eye(case.cells)[case.rows.cell] if system.forecasts is None else gamma * system.expected[label] @ atoms
        matrix = own - gamma * ahead @ atoms
        tail = case.rng.normal(size=(case.shape.blocks, case.cells)) * 0.1
        weights, shape = tail[:, system.label_cell], system.rows.count.shape
        charges = found.charges(weights, 0.0, WIDTH)
        residual = np.array([float(d) for d in case.naive.deviation])
        for k in range(40):
            side = case.rng.integers(2, size=case.cells) if k % 2 else case.rng.random(case.cells)
            f = found.values.low + side * (found.values.high - found.values.low)
            t = f - gamma * system.following @ (atoms @ f)
            held = np.abs(t) <= found.equations
            if system.forecasts is None and not np.all(held | ~np.isfinite(found.equations)):
                continue
            tried += 1
            moved = matrix @ f
            squares, paid = np.zeros(shape), np.zeros(shape)
            np.add.at(squares, (case.rows.block, label), moved**2)
            assert np.all(squares <= found.squares + 1e-10)
            deviation = np.clip(-(residual + moved), -WIDTH, WIDTH)
            np.add.at(paid, (case.rows.block, label), loss(-(weights[case.rows.block, label] * deviation)))
            assert np.all(paid <= charges + 1e-10)
            assert np.all(np.abs(moved) <= found.row_reach()[label] + 1e-10)
    assert tried >= 80


def test_a_value_that_satisfies_the_equations_stays_in_its_interval():
    for seed in SEEDS:
        case = make_case(seed)
        system, rng = case.system, case.rng
        f = rng.uniform(system.low, system.high)
        t = f - case.gamma * system.following @ (case.shape.atoms @ f)
        equations = np.where(system.counts > 0, np.abs(t) * (1 + rng.random(case.cells) * 0.1), np.inf)
        found = Ranges.of(system, Bounds(system.low, system.high), equations)
        assert np.all((f >= found.values.low) & (f <= found.values.high))
        smaller = Ranges.of(
            system, Bounds(system.low, system.high), equations * 0.5
        )  # a control: half the bound is too little
        assert np.all(smaller.values.high - smaller.values.low <= found.values.high - found.values.low)


def log_of(rng, blocks, cells, atoms, n):
    shape = CellShape(blocks, rng.dirichlet(np.full(cells, 0.5), size=atoms))
    ends = rng.random(n) < 0.2
    owner = np.flatnonzero(~ends)
    rows = CellRows(
        np.sort(rng.integers(blocks, size=n)), rng.integers(cells, size=n), rng.normal(size=n), owner,
        rng.integers(atoms, size=owner.size), np.ones(owner.size), 5.0,
    )  # fmt: skip
    return shape, rows


@pytest.mark.parametrize("seed", range(8))
def test_forecasts_of_eras_are_means_over_earlier_rows(seed):
    """The same as forecasts that are made row by row, with the labels of every row; and no row sees its own era."""
    rng = np.random.default_rng(seed)
    blocks, cells, atoms, n, gamma, middle = 4, 5, 3, 150, 0.9, 0.25
    shape, rows = log_of(rng, blocks, cells, atoms, n)
    reference, firsts = rng.normal(size=cells), ((0, 1, 2, 3), (0, 2))[seed % 2]
    earlier = tally([log_of(rng, 1, cells - 1, atoms, 30)[1]], CellShape(1, shape.atoms), gamma, np.zeros(cells))
    found = forecasts_of_eras(
        tally([rows], shape, gamma, reference), EarlierRows.of(earlier), np.arange(blocks), firsts, middle
    )
    masses, era = masses_of(rows, atoms), np.searchsorted(firsts, rows.block, side="right") - 1
    offset, following = np.full((len(firsts), cells), middle), np.zeros((len(firsts), cells, atoms))
    old = EarlierRows.of(earlier)
    for k, first in enumerate(firsts):
        for c in range(cells):
            mine = (rows.block < first) & (rows.cell == c)
            count = mine.sum() + old.count[c]
            if count:
                offset[k, c] = (rows.outcome[mine].sum() + old.outcome[c]) / count
                total = masses[mine].sum(axis=0)
                np.add.at(total, old.atom[old.cell == c], old.mass[old.cell == c])
                following[k, c] = total / count
    given = Forecasts(np.tile(np.arange(cells), len(firsts)), offset.reshape(-1), following.reshape(-1, atoms))
    slow = forecast_tally([rows], era * cells + rows.cell, given, shape, gamma, reference)
    np.testing.assert_allclose(found.following, given.following, atol=1e-13)
    place = (found.places[0][rows.block], era * cells + rows.cell)
    weights = rng.normal(size=(blocks, cells))
    assert np.array_equal(found.spread(weights)[place], weights[rows.block, rows.cell])
    for name in ("count", "total", "square"):
        mine, theirs = getattr(found.rows, name).sum(axis=0), getattr(slow.rows, name).sum(axis=0)
        np.testing.assert_allclose(mine, theirs, atol=1e-9)
        assert np.all(found.rows.square.sum(axis=0) >= slow.rows.square.sum(axis=0) * (1 - 1e-12))
    here = np.unique(np.stack(place, axis=1), axis=0)
    for local, label in here:
        own = (place[0] == local) & (place[1] == label)
        block = rows.block[own][0]
        assert abs(found.rows.low[local, label] - slow.rows.low[block, label]) <= found.rows.error
        assert abs(found.rows.high[local, label] - slow.rows.high[block, label]) <= found.rows.error
    # another future changes no earlier forecast
    other = CellRows(rows.block, rows.cell, np.where(rows.block >= firsts[-1], -rows.outcome, rows.outcome), rows.owner,
                     rows.atom, rows.mass, rows.size)  # fmt: skip
    again = forecasts_of_eras(tally([other], shape, gamma, reference), old, np.arange(blocks), firsts, middle)
    assert np.array_equal(again.entries.value, found.entries.value)
    np.testing.assert_allclose(again.rows.reference, found.rows.reference, atol=1e-12)


def test_unfit_pasts_and_entries():
    none = np.zeros(0, dtype=np.int64)
    with pytest.raises(InvalidInput):
        EarlierRows(np.array([-1.0]), np.zeros(1), none, none, np.zeros(0))
    with pytest.raises(InvalidInput):
        EarlierRows(np.ones(1), np.array([np.nan]), none, none, np.zeros(0))
    with pytest.raises(InvalidInput):
        EarlierRows(np.ones(1), np.zeros(1), np.array([1]), np.array([0]), np.ones(1))
    shape, rows = log_of(np.random.default_rng(0), 2, 3, 2, 20)
    found, past = tally([rows], shape, 0.5, np.zeros(3)), EarlierRows(np.zeros(3), np.zeros(3), none, none, np.zeros(0))
    with pytest.raises(InvalidInput, match="era"):
        forecasts_of_eras(found, past, np.arange(2), (1,), 0.0)
    with pytest.raises(InvalidInput, match="era"):
        forecasts_of_eras(found, past, np.arange(3), (0,), 0.0)
    wrong = EarlierRows(np.ones(3), np.zeros(3), np.array([0]), np.array([5]), np.ones(1))
    with pytest.raises(InvalidInput, match="atoms"):
        forecasts_of_eras(found, wrong, np.arange(2), (0,), 0.0)
    entries = Entries.added(np.array([1, 0, 1]), np.array([2, 1, 2]), np.array([1.0, 2.0, 3.0]), (2, 3))
    assert entries.dense.tolist() == [[0.0, 2.0, 0.0], [0.0, 0.0, 4.0]]
    assert entries.at(np.array([1, 1]), np.array([2, 0])).tolist() == [4.0, 0.0]
    assert entries.times(np.array([1.0, 10.0, 100.0])).tolist() == [20.0, 400.0]
