"""Forecasts by labels and by eras: sums against rows, rounding at large numbers, and what is refused."""

import math
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import bondic
from bondic.core.bounded import Enclosure
from bondic.core.cells.ends import EndWeights, StartMean, end_terms
from bondic.core.cells.forecasts import EarlierRows, Forecasts, tally_by_era, tally_by_label
from bondic.core.cells.localize import Ground, ValueLimits, locate
from bondic.core.cells.system import Feasible, Form, System
from bondic.core.cells.tally import CellRows, CellShape, tally
from bondic.core.errors import BondicError, InvalidInput, VerificationError
from bondic.plan.cells import repeated
from builders import part as keep
from naive_cells import exact
from test_cells_algebra import HIGH, LOW, SEEDS, WIDTH, make_case, masses_of

sys.path.append(str(Path(__file__).resolve().parents[1]))  # last: only `experiments` is wanted from there

from experiments.number_worlds_jumps import state_threshold


@pytest.mark.parametrize("seed", SEEDS)
def test_sums_by_labels_are_those_of_the_deviations(seed):
    """D_i row by row from e = b: the forecast less what came."""
    case = make_case(seed)
    label, given = case.label, case.given
    rows, naive = case.system.rows, case.naive
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
    for one, d, m, (_, _, outcome, ahead) in zip(
        label, naive.deviation, naive.forecasts.number, naive.rows, strict=True
    ):
        came = outcome + naive.gamma * sum(mass * atoms[j] for j, mass in ahead)
        assert abs(d - (m + center[one] - came)) <= 1e-11


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
def test_tally_by_era_are_means_over_earlier_rows(seed):
    """The same as forecasts that are made row by row, with the labels of every row; and no row sees its own era."""
    rng = np.random.default_rng(seed)
    blocks, cells, atoms, n, gamma, middle = 4, 5, 3, 150, 0.9, 0.25
    shape, rows = log_of(rng, blocks, cells, atoms, n)
    reference, firsts = rng.normal(size=cells), ((0, 1, 2, 3), (0, 2))[seed % 2]
    earlier = tally([log_of(rng, 1, cells - 1, atoms, 30)[1]], CellShape(1, shape.atoms), gamma, np.zeros(cells))
    found = tally_by_era(
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
    slow = tally_by_label([rows], era * cells + rows.cell, np.zeros(n), given, shape, gamma, reference)
    np.testing.assert_allclose(found.expected.dense, given.following, atol=1e-13)
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
    again = tally_by_era(tally([other], shape, gamma, reference), old, np.arange(blocks), firsts, middle)
    assert np.array_equal(again.expected.value, found.expected.value)
    np.testing.assert_allclose(again.rows.reference, found.rows.reference, atol=1e-12)


# --- rounding -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cells", "size", "kappa"), [(300, 1e8, 0.3), (300, 1.0, 1e7), (5, 1e8, -3e4)])
def test_the_error_covers_references_that_cancel_at_atoms(rng, cells, size, kappa):
    """b_j = 0 up to rounding while b is large; one label, so that cells are more than labels."""
    atoms, n = np.tile(rng.dirichlet(np.ones(cells)), (2, 1)), 6
    reference = rng.normal(size=cells) * size
    reference -= atoms[0] @ reference
    at = np.zeros(n, dtype=np.int64)
    rows = CellRows(at, at, rng.normal(size=n), np.arange(n), at, np.ones(n), 1.0)
    given = Forecasts(at[:1], np.zeros(1), np.array([[kappa, 0.0]]))
    found = tally_by_label([rows], at, np.zeros(n), given, CellShape(1, atoms), 0.9, reference).rows
    own = Fraction(0.9) * (Fraction(kappa) - 1) * sum(map(_product, atoms[0], reference))
    exactly = [own - Fraction(float(outcome)) for outcome in rows.outcome]
    off = max(
        abs(Fraction(float(found.low[0, 0])) - min(exactly)), abs(Fraction(float(found.high[0, 0])) - max(exactly))
    )
    assert 0 < off <= found.error <= 1e-9 * size * abs(kappa) * cells


def _product(a, b):
    return Fraction(float(a)) * Fraction(float(b))


@pytest.mark.parametrize("light", [1e-13, 1e-14, 1e-16])
def test_rows_that_end_in_a_block_of_small_weights_count(light):
    """Forecasts foresee all rows but one, which ends: all of the energy is its own."""
    n, gamma, tau = 1000, 0.9, 0.1
    at, block = np.zeros(n + 1, dtype=np.int64), np.append(np.zeros(n, dtype=np.int64), 1)
    rows = CellRows(block, at, np.zeros(n + 1), np.arange(n), at[:n], np.ones(n), 1.0)
    shape, given = CellShape(2, np.ones((1, 1))), Forecasts(at[:1], np.zeros(1), np.ones((1, 1)))
    own = tally_by_label([rows], at, np.zeros(n + 1), given, shape, gamma, np.zeros(1))
    system = System(tally([rows], shape, gamma, np.zeros(1)), own, -np.ones(1), np.ones(1))
    feasible = Feasible(system, 1 / system.counts, 0.0, np.full(1, tau), np.ones(2))
    f = tau / (1 - gamma * float(system.after.dense[0, 0]))
    bound = feasible.root(Form.of(system, np.array([[1.0], [light]])))
    assert math.sqrt(light) * gamma * f <= bound <= 1e-3


@pytest.mark.parametrize("size", [1e3, 1e8, 1e16, 1e100, 1e160, 1e307])
@pytest.mark.parametrize("part", ["offset", "following"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_absurd_forecasts_say_nothing_or_are_refused(size, part):
    """Never a number that is none, and never less than without them at the range."""
    case = make_case(1)
    given, none = (
        replace(case.given, **{part: np.sign(getattr(case.given, part) + 0.1) * size}),
        np.zeros(case.label.size),
    )
    try:
        own = tally_by_label([case.rows], case.label, none, given, case.shape, case.gamma, case.reference)
        ground = Ground.of(case.system.tally, own, case.events, ValueLimits(WIDTH, LOW, HIGH))
        located = locate(ground, case.allowance)
        psi = np.full(case.cells, 1 / case.cells)
        tail = EndWeights(np.full((case.shape.blocks, case.cells), 0.1), 4.0)
        end = end_terms(located, StartMean(Enclosure(0.0), psi, 0.0), tail, 1.0, 0.1)
    except BondicError:
        assert size > 1e99
        return
    everything = float(np.abs(case.system.low).max()) * 0.1
    assert end.spread >= everything
    assert located.energy_bound == pytest.approx(
        float(case.events.vector.shape[case.rows.cell] @ case.events.vector.shape[case.rows.cell]) * WIDTH**2
    )


# --- what is refused ------------------------------------------------------------------------------------


def test_forecasts_belong_to_the_rows_the_reference_and_the_discount_of_the_tally():
    case = make_case(2)
    assert case.gamma > 0
    plain, own, low, high = case.system.tally, case.system.labels, case.system.low, case.system.high
    fewer = own.rows.count.copy()
    fewer[0, case.label[0]] -= 1
    for other in (
        replace(own, rows=replace(own.rows, count=fewer)), replace(own, rows=replace(own.rows, gamma=0.5 * case.gamma)),
        replace(own, reference=case.reference + 1e-9), replace(own, cell=np.roll(own.cell, 1)),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match="other rows"):
            System(plain, other, low, high)
    System(repeated(plain, 7.3), replace(own, rows=repeated(own.rows, 7.3)), low, high)


@pytest.fixture(scope="module")
def stated():
    """A small log of a world of numbers, with groups, labels and an allowance."""
    world = state_threshold(0.5)
    log = keep(world.make_log(800, 1), drop=("episode_ids", "timesteps", "truncations"))
    problem = bondic.make_problem(
        log, world.policy, world.initial, gamma=world.gamma, reward_range=world.reward_range, accept=None
    )
    return world, problem, bondic.estimate_interval(problem, method=bondic.Groups((0.01, 0.1), count=3))


def changed(array, place, value):
    found = array.copy()
    found[place] = value
    return found


def damages(arrays):
    names = ("label", "forecasts.cell", "forecasts.offset", "forecasts.following")
    label, cell, offset, following = (arrays[f"cells.{name}"] for name in names)
    other = int(np.flatnonzero(cell != cell[label[0]])[0])
    columns = ("group", "value", "next_value", "half", "label", "predicted")
    predicted = arrays["cells.predicted"]
    yield {"predicted": changed(predicted, 3, np.nan)}
    yield {"predicted": predicted[1:]}
    yield {"predicted": predicted + 0.5}  # another interval than the one that is written
    yield {"label": changed(label, 0, other)}
    yield {"label": changed(label, 0, -1)}
    yield {"label": changed(label, 0, cell.size)}
    yield {"label": label[1:]}
    yield {"label": label.astype(float)}
    yield {name: arrays[f"cells.{name}"][:, None] for name in columns}
    yield {"forecasts.cell": np.roll(cell, 1)}
    yield {"forecasts.cell": changed(cell, 0, -1)}
    yield {"forecasts.cell": changed(cell, -1, 10**6)}
    yield {"forecasts.cell": cell[:0], "forecasts.offset": offset[:0], "forecasts.following": following[:0]}
    yield {"forecasts.offset": changed(offset, 0, np.nan)}
    yield {"forecasts.offset": offset[1:]}
    yield {"forecasts.following": changed(following, (0, 0), np.inf)}
    yield {"forecasts.following": following[:, 1:]}
    yield {"forecasts.following": following[1:]}
    yield {"forecasts.following": following * 9.0}  # another interval than the one that is written


def test_damaged_labels_and_forecasts_are_refused(stated):
    world, problem, result = stated
    certificate = result.certificate
    assert result.proof.cells.forecasts.cell.size > 6
    assert bondic.verify(certificate, problem.log, world.policy).low == result.low
    for changes in damages(certificate.arrays):
        arrays = certificate.arrays | {f"cells.{name}": array for name, array in changes.items()}
        with pytest.raises(VerificationError):
            bondic.verify(type(certificate)(certificate.body, arrays), problem.log, world.policy)
