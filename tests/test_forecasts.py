"""Forecasts by labels: every formula against its twin in 50 digits, rounding at large numbers, and what is refused."""

import math
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

import bondic
from bondic.core.bounded import Enclosure, as_enclosure
from bondic.core.cells import localize, tails
from bondic.core.cells import system as system_module
from bondic.core.cells.allowance import CellAllowance
from bondic.core.cells.forecasts import Forecasts, forecast_tally
from bondic.core.cells.localize import RowEnergy, ValueLimits, locate
from bondic.core.cells.system import Energy, Feasible, System
from bondic.core.cells.tails import EndWeights, StartMean, end_terms
from bondic.core.cells.tally import CellRows, CellShape, tally
from bondic.core.errors import BondicError, InvalidInput, VerificationError
from builders import part as keep
from naive_cells import NaiveForecasts, exact, naive_end, naive_locate, own_bounds, row_energy
from test_cells_algebra import HIGH, LOW, WIDTH, above, make_case

sys.path.append(str(Path(__file__).resolve().parents[1]))  # last: only `experiments` is wanted from there

from experiments.number_worlds_jumps import state_threshold

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


def make_foreseen(seed, whole=False):
    """A case of the algebra of cells, with forecasts."""
    case = make_case(seed, whole=whole)
    atoms = case.shape.atoms.shape[0]
    label, given = foreseen(case.rng, case.rows, atoms, case.cells, KINDS[(seed + seed // 4) % 4])
    numbers = case.rng.normal(size=label.size) * (seed % 3)
    found = forecast_tally([case.rows], label, given, case.shape, case.gamma, case.reference, numbers)
    own = NaiveForecasts(
        label.tolist(),
        exact(numbers),
        given.cell.tolist(),
        exact(given.offset),
        [exact(row) for row in given.following],
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
    for one, d, m, (_, _, outcome, ahead) in zip(
        label, naive.deviation, naive.forecasts.number, naive.rows, strict=True
    ):
        came = outcome + naive.gamma * sum(mass * atoms[j] for j, mass in ahead)
        assert abs(d - (m + center[one] - came)) <= 1e-11


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
        for one, other in zip(feasible.cell_roots(), naive.cell_roots(), strict=True):
            assert one == np.inf if other == mp.inf else above(one, other, 1e-5) is None
        direction = case.system.direction(case.rng.normal(size=case.cells))
        growth = feasible.growth(form, direction)
        for radius in (feasible.radius, 0.1 * feasible.radius):
            now = replace(feasible, radius=radius)
            assert now.support(direction) <= (radius * growth[0] + growth[1]) * (1 + 1e-12)
            assert now.root_energy(form) <= (radius * growth[2] + growth[3]) * (1 + 1e-12)
            assert radius * growth[2] + growth[3] <= now.root_energy(form) * (1 + 1e-5) + 1e-9


def test_differences_through_a_reference_atom(monkeypatch):
    """A reference atom costs at most length."""
    for seed in SEEDS:
        case, _, _ = make_foreseen(seed)
        for feasible, _ in case.feasible():
            exactly = feasible._outside
            with monkeypatch.context() as patch:
                patch.setattr(system_module, "MOST_DIFFERENCES", 0)
                other = replace(feasible, system=replace(feasible.system))._outside
            for one, more in zip(exactly, other, strict=True):
                assert np.all(more >= one * (1 - 1e-14))


@pytest.mark.parametrize("most", [50_000_000, 0])
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_inside_the_sets_exceeds_the_bounds(seed, most, monkeypatch):
    """At points of the sets: energies of x_i, and what forecasts miss of every atom that follows."""
    monkeypatch.setattr(system_module, "MOST_DIFFERENCES", most)
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
        inside, roots = feasible._inverse_scale, feasible.cell_roots()
        first = np.linalg.svd((matrix @ inverse) * inside * np.sqrt(row)[:, None])[2][0]
        for k in range(60):
            ball = first if k < 20 else case.rng.normal(size=p)
            box = case.rng.choice([-1.0, 1.0], size=p) * feasible.slack
            f = inverse @ (feasible.radius * ball / np.linalg.norm(ball) * inside + box)
            if not feasible.inside.any():
                f = f * min(1.0, system.largest / float(np.abs(f).max()))
            moved = matrix @ f
            assert math.sqrt(float(row @ moved**2)) <= bound
            assert np.all(np.sqrt(np.bincount(case.rows.cell, moved**2, minlength=p)) <= roots)
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
        roots = np.full(case.cells, reach.max()) * 2
        computed = localize._own_bounds(case.events, case.system, reach, limits, roots, case.allowance)
        single = exact(case.allowance.single)
        true = own_bounds(case.naive, case.naive_events(), exact(reach), mp.mpf(WIDTH), exact(roots), single)
        for one, other in zip(computed, true, strict=True):
            assert one == np.inf if other == mp.inf else above(one, other) is None
    located = locate(case.system.tally, case.events, limits, case.allowance, case.system.forecasts)
    averages, single = exact(case.allowance.averages), exact(case.allowance.single)
    sets, ranges, row_reach, energy = naive_locate(case.naive, case.naive_events(), mp.mpf(WIDTH), averages, single)
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
            case.naive, (sets, ranges, exact(located.row_reach)), exact(psi), [exact(row) for row in tail.weights], mp.mpf(4),
            mp.mpf(sign), mp.log(10), mp.mpf(WIDTH), (averages, single),
        )  # fmt: skip
        end = end_terms(located, starts, tail, sign, 0.1)
        upper, shorter = sign * end.value.mid + end.value.rad + end.spread, min(weighed, plain)
        assert mp.mpf(upper) >= shorter
        assert upper <= float(shorter) + 1e-5 * abs(float(shorter)) + 1e-7
        own = tails._weighed(located, starts, tail, sign, 0.1, base, float(case.allowance.averages @ psi))
        assert sign * own.value.mid + own.spread == pytest.approx(float(weighed), rel=1e-5)


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
    found = forecast_tally([rows], at, given, CellShape(1, atoms), 0.9, reference).rows
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
    own = forecast_tally([rows], at, given, shape, gamma, np.zeros(1))
    system = System(tally([rows], shape, gamma, np.zeros(1)), -np.ones(1), np.ones(1), own)
    feasible = Feasible(system, np.array([True]), system.counts, 0.0, np.full(1, tau))
    f = tau / (1 - gamma * float(system.following[0, 0]))
    bound = feasible.root_energy(Energy.of(system, np.array([[1.0], [light]])))
    assert math.sqrt(light) * gamma * f <= bound <= 1e-3


@pytest.mark.parametrize("size", [1e3, 1e8, 1e16, 1e100, 1e160, 1e307])
@pytest.mark.parametrize("part", ["offset", "following"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_absurd_forecasts_say_nothing_or_are_refused(size, part):
    """Never a number that is none, and never less than without them at the range."""
    case, label, given = make_foreseen(1)
    given = replace(given, **{part: np.sign(getattr(given, part) + 0.1) * size})
    try:
        own = forecast_tally([case.rows], label, given, case.shape, case.gamma, case.reference)
        located = locate(case.system.tally, case.events, ValueLimits(WIDTH, LOW, HIGH), case.allowance, own)
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


def test_labels_and_forecasts_that_do_not_fit_are_refused():
    case, label, given = make_foreseen(2)
    atoms = given.following.shape[1]

    def tallied(labels=label, forecasts=given, rows=case.rows, numbers=None):
        return forecast_tally([rows], labels, forecasts, case.shape, case.gamma, case.reference, numbers)

    numbers = np.zeros(label.size)
    for other in (numbers[1:], numbers[:, None], changed(numbers, 2, np.nan), changed(numbers, 0, np.inf)):
        with pytest.raises(InvalidInput, match="finite forecast"):
            tallied(numbers=other)

    other = label.copy()
    other[3] = np.flatnonzero(given.cell != case.rows.cell[3])[0]
    for labels, words in (
        (other, "another cell"), (np.where(label == label[0], -1, label), "has a label"), (label[1:], "has a label"),
        (np.where(label == label[0], given.cell.size, label), "has a label"), (np.append(label, 0), "labels of"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=words):
            tallied(labels)
    with pytest.raises(InvalidInput, match="another cell"):  # rows without a cell have no label
        tallied(rows=replace(case.rows, cell=np.where(np.arange(label.size) == 3, -1, case.rows.cell)))
    for forecasts in (
        Forecasts(given.cell + case.cells, given.offset, given.following),
        Forecasts(given.cell, given.offset, given.following[:, 1:]),
        Forecasts(given.cell, given.offset, np.hstack([given.following, given.following])),
    ):
        with pytest.raises(InvalidInput, match="other cells"):
            tallied(forecasts=forecasts)
    for cell, offset, following in (
        (given.cell - 9, given.offset, given.following), (given.cell[:, None], given.offset, given.following),
        (given.cell, given.offset[1:], given.following), (given.cell, given.offset, given.following[1:]),
        (given.cell, given.offset * np.nan, given.following), (given.cell, given.offset, given.following + np.inf),
        (given.cell, given.offset, given.following[:, 0]),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match="finite forecasts"):
            Forecasts(cell, offset, following)
    assert tallied().following.shape == (given.cell.size, atoms)


def test_forecasts_belong_to_the_rows_the_reference_and_the_discount_of_the_tally():
    case, label, given = make_foreseen(2)
    assert case.gamma > 0
    plain, rows = case.system.tally, case.rows

    def tallied(n=label.size, gamma=case.gamma, reference=case.reference):
        mine = rows.owner < n
        some = CellRows(
            rows.block[:n], rows.cell[:n], rows.outcome[:n], rows.owner[mine], rows.atom[mine], rows.mass[mine], 1.0
        )
        return forecast_tally([some], label[:n], given, case.shape, gamma, reference)

    System(plain, case.system.low, case.system.high, tallied())
    for own in (
        tallied(n=label.size - 1), tallied(gamma=0.5 * case.gamma), tallied(reference=case.reference + 1e-9),
        replace(tallied(), cell=np.roll(given.cell, 1)),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match="other rows"):
            System(plain, case.system.low, case.system.high, own)
    longer, times = plain.repeated(7.3), tallied()
    System(longer, case.system.low, case.system.high, replace(times, rows=times.rows.repeated(7.3)))


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
    columns = ("group", "value", "next_value", "half", "label", "foreseen")
    foreseen = arrays["cells.foreseen"]
    yield {"foreseen": changed(foreseen, 3, np.nan)}
    yield {"foreseen": foreseen[1:]}
    yield {"foreseen": foreseen + 0.5}  # another interval than the one that is written
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


def test_forecasts_of_later_rows_are_refused_by_a_replay(stated):
    """Consistent in themselves: only a replay can tell that they were not fixed before the rows."""
    world, problem, result = stated
    cells = result.proof.cells
    own, label = cells.forecasts.cell, cells.label
    places = [np.flatnonzero(own == own[one]) for one in label[:50]]
    moved = label.copy()
    moved[:50] = [one[-1] if one[-1] != now else one[0] for one, now in zip(places, label[:50], strict=True)]
    assert np.any(moved != label)
    given = cells.forecasts
    for forged in (
        replace(cells, label=moved),
        replace(cells, foreseen=cells.foreseen + 0.01),
        replace(cells, forecasts=replace(given, offset=given.offset + 0.01)),
        replace(cells, forecasts=replace(given, following=given.following * 1.01)),
    ):
        proof = replace(result.proof, cells=forged)
        rows = problem.select(*proof.asked.rows)
        made = bondic.Result.of(proof, rows, method="groups", planner=result.certificate.planner).certificate
        assert "when the plan was made" in bondic.verify(made, problem.log, world.policy).headline
        with pytest.raises(VerificationError):
            bondic.verify(made, problem.log, world.policy, replay=True)
