"""Every formula of the bound on cells against its twin in 50 digits; what is computed is above it, and by next to nothing."""

import math
from dataclasses import dataclass

import mpmath as mp
import numpy as np
import pytest

from bondic.core.bounded import Enclosure, as_enclosure
from bondic.core.cells import localize, tails
from bondic.core.cells.allowance import NOTHING_ALLOWED, Allowance, CellAllowance
from bondic.core.cells.localize import CellTails, Events, Located, RowEnergy, ValueLimits, VectorEvent, locate
from bondic.core.cells.system import Energy, Feasible, System
from bondic.core.cells.tails import EndWeights, StartMean, end_terms
from bondic.core.cells.tally import CellRows, CellShape, tally
from bondic.core.errors import InvalidInput, NumericalError
from naive_cells import (
    NaiveEvents,
    NaiveRows,
    NaiveSet,
    exact,
    naive_end,
    naive_locate,
    own_bounds,
    row_energy,
    sets_of,
)

SEEDS = range(16)
WIDTH, LOW, HIGH = 2.0, -1.5, 1.75


@dataclass(frozen=True)
class Case:
    rng: np.random.Generator
    shape: CellShape
    rows: CellRows
    gamma: float
    reference: np.ndarray
    system: System
    naive: NaiveRows
    allowance: CellAllowance
    events: Events

    @property
    def cells(self):
        return self.shape.cells

    def weights(self):
        """Of blocks and cells, and the same of every row."""
        found = self.rng.random((self.shape.blocks, self.cells))
        return found, exact(found[self.rows.block, self.rows.cell])

    def feasible(self, radius=3.0):
        """Sets with all cells with rows inside, with some of them, and with none."""
        learned = self.system.learned
        some = learned & (self.rng.random(self.cells) < 0.5)
        scale = np.maximum(self.system.counts, 1.0) * self.events.vector.shape
        for inside in (learned, some, np.zeros_like(learned)):
            slack = self.rng.random(self.cells) * self.rng.choice([0.2, 2.0])
            size = radius if inside.any() else 0.0
            found = Feasible(self.system, inside, scale, size, slack)
            yield found, NaiveSet(self.naive, exact(scale), mp.mpf(size), exact(slack), inside.tolist())

    def naive_events(self):
        vector, cells = self.events.vector, self.events.cells
        term = mp.log(2 * len(vector.rates) / mp.mpf(self.events.vector_probability))
        own = mp.log(2 * int((cells.rates > 0).sum()) / mp.mpf(self.events.cells_probability))
        return NaiveEvents(exact(vector.shape), exact(vector.rates), term, [exact(one) for one in cells.rates], own)


def make_case(seed, cells=None, n=None, whole=False) -> Case:
    """20 to 60 rows; some end, some cells have no row, atoms are mixtures or cells, masses are fractions (or `whole`)."""
    rng = np.random.default_rng([seed, 3])
    p, J, blocks = cells or int(rng.integers(3, 7)), int(rng.integers(2, 5)), int(rng.integers(1, 4))
    atoms = rng.dirichlet(np.full(p, 0.5), size=J) if seed % 2 else np.eye(p)
    J, n, gamma = atoms.shape[0], n or int(rng.integers(20, 61)), (0.0, 0.5, 0.9, 0.97)[seed % 4]
    cell = rng.integers(p - 1, size=n)  # the last cell has no rows
    owner, atom, mass = [], [], []
    for i in range(n):
        ways = rng.choice(J, size=int(rng.integers(0, 4)) % (J + 1), replace=False)  # none: an end
        ways = ways[:1] if whole else ways
        part = rng.dirichlet(np.ones(ways.size)) if ways.size else np.zeros(0)
        part = part * (0.6 if rng.random() < 0.1 and not whole else 1.0)  # some rows end in part
        owner += [i] * ways.size
        atom += list(ways)
        mass += list(part)
    rows = CellRows(
        np.sort(rng.integers(blocks, size=n)), cell, rng.normal(size=n) * 0.4, np.array(owner, dtype=np.int64),
        np.array(atom, dtype=np.int64), np.array(mass, dtype=float), 1.0,
    )  # fmt: skip
    reference, shape = rng.normal(size=p) * 0.5, CellShape(blocks, atoms)
    found = tally([rows], shape, gamma, reference)
    ahead = [[] for _ in range(n)]
    for i, j, m in zip(owner, atom, mass, strict=True):
        ahead[i].append((int(j), mp.mpf(float(m))))
    each = list(zip(rows.block.tolist(), cell.tolist(), exact(rows.outcome), ahead, strict=True))
    naive = NaiveRows(
        each,
        [exact(row) for row in atoms],
        gamma,
        exact(reference),
        mp.mpf(LOW),
        mp.mpf(HIGH),
        blocks,
    )
    system = System(found, LOW - reference, HIGH - reference)
    allowance = CellAllowance(rng.random(p) * 0.05, rng.random(p) * 0.3)
    vector = VectorEvent(np.clip(np.exp(rng.normal(size=p) * 0.3), 0.4, 2.4), (0.2, 0.05))
    rates = np.exp(rng.uniform(-3.0, -0.8, size=(2, p))) * (rng.random((2, p)) < 0.7)  # some cells have no event
    events = Events(vector, 0.3, CellTails(rates), float(rng.choice([0.5, 0.9])))
    return Case(rng, shape, rows, gamma, reference, system, naive, allowance, events)


def above(computed, true, relative=1e-9):
    """computed is a bound of the true number, and a sharp one."""
    assert mp.mpf(float(computed)) >= true
    assert float(computed) <= float(true) * (1 + relative) + relative


@pytest.mark.parametrize("seed", SEEDS)
def test_sums_of_a_tally_are_those_of_its_rows(seed):
    case = make_case(seed)
    found, naive = case.system.tally, case.naive
    for block in range(case.shape.blocks):
        for cell in range(case.cells):
            own = [r for r, row in zip(naive.residual, naive.rows, strict=True) if row[:2] == (block, cell)]
            at = (block, cell)
            assert found.count[at] == len(own)
            assert abs(found.total[at] - sum(own)) <= found.relative * found.size[at] + len(own) * found.error
            assert abs(found.square[at] - sum(r * r for r in own)) <= 1e-13
            assert abs(found.size[at] - sum(abs(r) for r in own)) <= 1e-13
            assert abs(found.low[at] - min(own, default=0)) <= found.error
            assert abs(found.high[at] - max(own, default=0)) <= found.error
    masses = {}
    for r, (block, cell, _, ahead) in zip(naive.residual, naive.rows, strict=True):
        for atom, m in ahead:
            now = masses.get((block, cell, atom), (mp.mpf(0), mp.mpf(0)))
            masses[block, cell, atom] = (now[0] + m, now[1] + m * r)
    assert set(masses) == set(zip(*(one.tolist() for one in found.at), strict=True))
    for k, key in enumerate(zip(*(one.tolist() for one in found.at), strict=True)):
        assert abs(found.mass[k] - masses[key][0]) <= found.relative * masses[key][0]
        assert abs(found.moment[k] - masses[key][1]) <= 1e-13
    stops = {row[1] for row in naive.rows if sum((m for _, m in row[3]), mp.mpf(0)) < 1 - 1e-9}
    assert set(np.flatnonzero(found.ends)) == stops
    assert found.error <= 1e-12
    assert found.relative <= 1e-11


def test_parts_blocks_and_rows_without_a_cell():
    """Parts add up to the whole; blocks() is the tally of their rows; cell -1 counts nowhere."""
    case = next(one for one in map(make_case, SEEDS) if one.shape.blocks > 1)
    rows, n = case.rows, case.rows.cell.size
    whole = case.system.tally

    def some(first, stop, cell=rows.cell):
        mine = (rows.owner >= first) & (rows.owner < stop)
        return CellRows(
            rows.block[first:stop], cell[first:stop], rows.outcome[first:stop], rows.owner[mine] - first, rows.atom[mine],
            rows.mass[mine], 1.0,
        )  # fmt: skip

    two = tally([some(0, 7), some(7, n)], case.shape, case.gamma, case.reference)
    for name in ("count", "total", "square", "size", "low", "high", "mass", "moment", "ends"):
        np.testing.assert_allclose(getattr(two, name), getattr(whole, name), rtol=1e-13, atol=1e-14)
    mine = np.flatnonzero(rows.block == 1)
    alone = tally([some(int(mine[0]), int(mine[-1]) + 1)], case.shape, case.gamma, case.reference)
    for name in ("count", "total", "square", "mass", "moment", "high"):
        np.testing.assert_allclose(getattr(whole.blocks(1, 2), name), getattr(alone, name), rtol=1e-13, atol=1e-14)
    hidden = np.where(rows.block == 1, rows.cell, -1)
    np.testing.assert_allclose(tally([some(0, n, hidden)], case.shape, case.gamma, case.reference).total, alone.total)


@pytest.mark.parametrize("seed", SEEDS)
def test_directions_and_atoms_are_the_functions_of_f_that_they_claim(seed):
    """<f, d> = <t, w> and F_j = <t, K_j> up to their slack, for every f within the bounds; the inverse is not trusted."""
    case = make_case(seed)
    system, naive, p = case.system, case.naive, case.cells
    weights, off = system.atom_weights
    for row, own in zip(naive.P, system.following, strict=True):
        assert all(abs(a - b) <= 1e-14 for a, b in zip(row, own, strict=True))
    for spoiled in (False, True):
        if spoiled:  # any inverse gives a valid direction
            system.__dict__["_inverse"] = system._inverse * 1.001
            system.__dict__.pop("atom_weights")
            weights, off = system.atom_weights
        for _ in range(20):
            f = case.rng.uniform(system.low, system.high)
            d = case.rng.normal(size=p)
            t = f - case.gamma * system.following @ (case.shape.atoms @ f)
            direction = system.direction(d)
            gap = abs(float(f @ d - t @ direction.weights))
            assert gap <= direction.slack + 1e-13
            assert np.all(np.abs(case.shape.atoms @ f - weights @ t) <= off + 1e-13)
            several, slacks = system.directions(d[None])
            assert np.array_equal(several[0], direction.weights)
            assert slacks[0] <= direction.slack
            if not spoiled:
                assert direction.slack <= 1e-9
                above(sum(abs(x) for x in direction.weights), sum(abs(x) for x in naive.direction(exact(d))) - 1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_supports_differences_and_energies_are_their_formulas(seed):
    case = make_case(seed)
    for feasible, naive in case.feasible():
        for _ in range(2):
            d = case.rng.normal(size=case.cells)
            above(feasible.support(case.system.direction(d)), naive.support(exact(d)))
            above(feasible.supports(d[None])[0], naive.support(exact(d)))
            weights, each = case.weights()
            # the common part of all atoms cancels in the differences; what is charged for that is a root of rounding errors
            above(feasible.root_energy(Energy.of(case.system, weights)), naive.root_energy(each), 1e-5)
        for computed, true in zip(feasible.next_differences(), naive.next_differences(), strict=True):
            above(computed, true, 1e-5)
        for computed, true in zip(feasible.cells(), naive.cells(), strict=True):
            above(computed, true)
        for computed, true in zip(feasible.cell_roots(), naive.cell_roots(), strict=True):
            assert (computed == np.inf) if true == mp.inf else above(computed, true, 1e-5) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_the_largest_energy_is_its_three_parts(seed):
    """Weights that differ by block, that do not, and that are 0 on most cells."""
    case = make_case(seed)
    system = case.system
    matrix, _ = system.atom_weights
    for feasible, naive in case.feasible():
        for kind in range(3):
            weights, _ = case.weights()
            weights = (weights, np.broadcast_to(weights[:1], weights.shape), weights * (weights > 0.7))[kind]
            computed = Energy.of(system, weights).largest(
                feasible._inverse_scale, matrix, case.gamma, system.tally.relative
            )
            each = exact(weights[case.rows.block, case.rows.cell])
            above(computed, naive.largest(each), 1e-8)
            if kind == 1:  # all rows of a cell have one weight: nothing mixed is left
                assert naive.parts(each)[2] < mp.mpf(10) ** -40


def exceeds_nothing(case, feasible):
    """At points of the set: supports are attained, the root of the energy and next differences hold. The largest energy found."""
    system, p = case.system, case.cells
    inverse = np.linalg.inv(np.eye(p) - case.gamma * system.following @ case.shape.atoms)
    weights, each = case.weights()
    form, row = Energy.of(system, weights), np.array([float(w) for w in each])
    ahead = np.zeros((row.size, case.shape.atoms.shape[0]))
    np.add.at(ahead, (case.rows.owner, case.rows.atom), case.rows.mass)
    matrix = np.eye(p)[case.rows.cell] - case.gamma * ahead @ case.shape.atoms
    bound, best, inside = feasible.root_energy(form), 0.0, feasible._inverse_scale
    differences = feasible.next_differences()
    scaled = (matrix @ inverse) * inside * np.sqrt(row)[:, None]
    first = np.linalg.svd(scaled)[2][0]
    for k in range(120):
        ball = first if k < 40 else case.rng.normal(size=p)
        box = case.rng.choice([-1.0, 1.0], size=p) * feasible.slack
        t = feasible.radius * ball / np.linalg.norm(ball) * inside + box
        f = inverse @ t
        if not feasible.inside.any():  # caps are of functions within their range: scale back into it
            f = f * min(1.0, system.largest / float(np.abs(f).max()))
            t = f - case.gamma * system.following @ (case.shape.atoms @ f)
            assert np.all(np.abs(t) <= feasible.slack + 1e-12)
        moved = matrix @ f
        best = max(best, math.sqrt(float(row @ moved**2)))
        following = system.following @ (case.shape.atoms @ f)
        each_next = np.abs(following[case.rows.cell][case.rows.owner] - (case.shape.atoms @ f)[case.rows.atom])
        assert np.all(each_next <= differences[case.rows.cell[case.rows.owner]] + 1e-10)
        ends = ahead.sum(axis=1) < 1 - 1e-9
        assert np.all(np.abs(following[case.rows.cell[ends]]) <= differences[case.rows.cell[ends]] + 1e-10)
        d = case.rng.normal(size=p)
        support = feasible.support(system.direction(d))
        assert abs(float(f @ d)) <= support + 1e-10
        w = system.direction(d).weights
        along = w * inside
        top = feasible.radius * along / max(float(np.linalg.norm(along)), 1e-300) * inside + np.sign(w) * feasible.slack
        assert float((inverse @ top) @ d) == pytest.approx(support, rel=1e-8)
    assert best <= bound
    return bound / best


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_inside_the_sets_exceeds_the_bounds(seed):
    case = make_case(seed)
    for feasible, _ in case.feasible(radius=float(case.rng.choice([0.1, 3.0]))):
        times = exceeds_nothing(case, feasible)
        if float(feasible.slack.max()) < 0.3:
            assert times <= 4


@pytest.mark.parametrize("seed", SEEDS)
def test_row_energy_holds_for_every_f_and_is_attained(seed):
    case = make_case(seed)
    weights, each = case.weights()
    for allowance in (case.allowance, CellAllowance(case.allowance.averages, np.zeros(case.cells))):
        energy = RowEnergy.of(case.system, weights, allowance)
        constant, linear, factor = row_energy(case.naive, each, exact(allowance.single))
        above(energy.constant, constant)
        assert energy.factor == pytest.approx(float(factor), rel=1e-9)  # any θ > 0 is fine
        same = mp.mpf(energy.factor) / factor
        gap = sum(abs(mp.mpf(float(a)) - same * b) for a, b in zip(energy.linear, linear, strict=True))
        assert gap <= energy.linear_error <= 1e-9
        sizes = case.naive.of_atoms(exact(allowance.single))
        for _ in range(20):
            f = exact(case.rng.normal(size=case.cells))
            moved, true, form = case.naive.moved(f), mp.mpf(0), mp.mpf(0)
            side = mp.mpf(float(case.rng.choice([-1, 1])))
            for w, r, x, row in zip(each, case.naive.residual, moved, case.naive.rows, strict=True):
                rest = case.naive.gamma * side * sum(m * sizes[j] for j, m in row[3])
                true += w * (r + x - rest) ** 2
                form += w * x**2
            found = energy.constant + sum(a * b for a, b in zip(f, exact(energy.linear), strict=True))
            found += energy.factor * form
            error = energy.linear_error * max(abs(x) for x in f)
            assert true <= found + error
            if not allowance.single.any() or case.gamma == 0:  # equality
                assert found <= true * (1 + mp.mpf(10) ** -10) + error + mp.mpf(10) ** -12


def test_the_energy_of_one_direction_of_the_remainder_is_attained():
    """One cell, one atom, R constant: at ζ' of the worst sign and f = 0 the bound is (|R| + γ β_∞)^2 n."""
    n, gamma = 10, 0.5
    at = np.zeros(n, dtype=np.int64)
    rows = CellRows(at, at, np.full(n, -0.3), np.arange(n), at, np.ones(n), 1.0)
    found = tally([rows], CellShape(1, np.ones((1, 1))), gamma, np.zeros(1))
    system = System(found, -np.ones(1), np.ones(1))
    energy = RowEnergy.of(system, np.ones((1, 1)), CellAllowance(np.zeros(1), np.full(1, 0.8)))
    assert energy.constant == pytest.approx(n * (0.3 + 0.5 * 0.8) ** 2, rel=1e-9)
    assert energy.constant >= n * (0.3 + 0.5 * 0.8) ** 2


@pytest.mark.parametrize("seed", SEEDS)
def test_bounds_of_single_cells_are_their_formula(seed):
    case, limits = make_case(seed), ValueLimits(WIDTH, LOW, HIGH)
    single = exact(case.allowance.single)
    for row_reach in (np.full(case.cells, np.inf), case.rng.random(case.cells) * 3, case.rng.random(case.cells) * 0.01):
        roots = row_reach * np.sqrt(case.system.counts + 1)
        computed = localize._own_bounds(case.events, case.system, row_reach, limits, roots, case.allowance)
        true = own_bounds(case.naive, case.naive_events(), exact(row_reach), mp.mpf(WIDTH), exact(roots), single)
        for one, other in zip(computed, true, strict=True):
            if other == mp.inf:
                assert one == np.inf
            else:
                above(one, other)


@pytest.mark.parametrize("seed", SEEDS)
def test_sets_from_cells_one_by_one_to_all_together(seed):
    """Whatever radius, τ and ε are: the same cells inside, and the others with what their own events say of them."""
    case = make_case(seed)
    scale = case.system.counts * case.events.vector.shape
    tau = np.where(case.system.learned, case.rng.random(case.cells) * 0.1, 2.0)
    for radius in (0.0, 0.3, 3.0, 30.0):
        own = np.where(case.rng.random(case.cells) < 0.2, np.inf, case.rng.random(case.cells) * 0.5)
        computed = localize._sets(case.system, scale, radius, tau, own)
        true = sets_of(case.naive, exact(scale), mp.mpf(radius), exact(tau), exact(own))
        assert [tuple(one.inside.tolist()) for one in computed] == [one.inside for one in true]
        for one, other in zip(computed, true, strict=True):
            assert one.radius == float(other.radius)
            assert np.all(one.slack[one.inside] == tau[one.inside])
            for a, b in zip(one.slack, other.slack, strict=True):
                above(a, b * (1 - mp.mpf(10) ** -15))
        assert not computed[0].inside.any() or radius == 0
        assert np.array_equal(computed[-1].inside, case.system.learned)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_sets_and_the_ends_assembled_from_scratch(seed):
    """ϱ, τ, ε, what the sets leave of rows, the energy, and both bounds of both ends."""
    case = make_case(seed)
    located = locate(case.system.tally, case.events, ValueLimits(WIDTH, LOW, HIGH), case.allowance)
    averages, single = exact(case.allowance.averages), exact(case.allowance.single)
    sets, ranges, row_reach, energy = naive_locate(case.naive, case.naive_events(), mp.mpf(WIDTH), averages, single)
    assert [tuple(one.inside.tolist()) for one in located.sets] == [one.inside for one in sets]
    above(located.energy_bound, energy, 1e-5)
    for one, other in zip(located.sets, sets, strict=True):
        above(one.radius, other.radius, 1e-6)
        for computed, true in zip(one.slack, other.slack, strict=True):
            above(computed, true, 1e-6)
    for computed, true in zip(located.row_reach, row_reach, strict=True):
        above(computed, true, 1e-5)
    known = (sets, ranges, exact(located.row_reach))
    psi = case.rng.dirichlet(np.ones(case.cells))
    for sign in (1.0, -1.0):
        tail = EndWeights(case.rng.normal(size=(case.shape.blocks, case.cells)) * 0.1, 4.0)
        bets = [exact(row) for row in tail.weights]
        weighed, plain = naive_end(
            case.naive, known, exact(psi), bets, mp.mpf(4), mp.mpf(sign), mp.log(10 / mp.mpf(1)), mp.mpf(WIDTH),
            (averages, single),
        )  # fmt: skip
        starts = StartMean(Enclosure(0.0), psi, 0.0)
        end = end_terms(located, starts, tail, sign, 0.1)
        upper = sign * end.value.mid + end.value.rad + end.spread
        assert end.uses_weights == (weighed < plain)
        shorter = min(weighed, plain)
        assert mp.mpf(upper) >= shorter
        assert upper <= float(shorter) + 1e-5 * abs(float(shorter)) + 1e-7
        base = as_enclosure(float(case.reference @ psi))
        allowed = float(case.allowance.averages @ psi)
        own = tails._weighed(located, starts, tail, sign, 0.1, base, allowed)
        assert sign * own.value.mid + own.spread == pytest.approx(float(weighed), rel=1e-5)
        assert own.log >= mp.log(10) / 4


def test_a_larger_probability_of_ends_never_hides_a_row():
    """One row in a million of a cell ends a little: its deviation counts at the end, however small its part of the sum is."""
    n = 20_000
    at, mass = np.zeros(n, dtype=np.int64), np.ones(n)
    mass[17] = 1 - 1e-6
    rows = CellRows(at, at, np.zeros(n), np.arange(n), at, mass, 1.0)
    found = tally([rows], CellShape(1, np.ones((1, 1))), 0.5, np.zeros(1))
    assert found.ends[0]
    mass[17] = 1 - 1e-16
    assert not tally([rows], CellShape(1, np.ones((1, 1))), 0.5, np.zeros(1)).ends[0]


def rows_of(cells, gamma, atoms, **changes):
    n = 12
    parts = {
        "block": np.zeros(n, dtype=np.int64), "cell": np.arange(n) % cells, "outcome": np.full(n, 0.25),
        "owner": np.arange(n), "atom": np.zeros(n, dtype=np.int64), "mass": np.ones(n), "size": 1.0,
    } | changes  # fmt: skip
    return tally([CellRows(**parts)], CellShape(1, atoms), gamma, np.zeros(cells))


NONE = {"owner": np.zeros(0, dtype=np.int64), "atom": np.zeros(0, dtype=np.int64), "mass": np.zeros(0)}


@pytest.mark.parametrize(
    ("cells", "gamma", "atoms", "changes"),
    [
        (1, 0.5, np.ones((1, 1)), {}),
        (2, 0.0, np.zeros((0, 2)), NONE),  # no atom at all
        (2, 0.9, np.eye(2), NONE),  # every row ends
        (2, 1.0, np.eye(2), {}),  # nothing ends and nothing is discounted: no inverse exists
        (3, 0.9, np.eye(3), {"cell": np.full(12, -1)}),  # no row has a cell
    ],
)
def test_edges_have_finite_ends(cells, gamma, atoms, changes):
    found, limits = rows_of(cells, gamma, atoms, **changes), ValueLimits(1.0, 0.0, 1.0)
    events = Events(VectorEvent(np.ones(cells), (0.5,)), 0.9, CellTails(np.full((1, cells), 0.5)), 0.9)
    located = locate(found, events, limits, CellAllowance.constant(Allowance(0.1), cells))
    starts = StartMean(Enclosure(0.0), np.full(cells, 1 / cells), 1e-15)
    end = end_terms(located, starts, EndWeights(np.full((1, cells), 0.5), 6.0), 1.0, 0.1)
    assert math.isfinite(end.spread)
    assert end.value.mid + end.spread >= 0.25


def test_unfit_numbers_are_refused():
    one = np.ones((1, 1))
    for changes in (
        {"size": math.nan}, {"mass": np.full(12, 1.001)}, {"mass": np.full(12, math.nan)}, {"mass": np.full(12, -0.1)},
        {"outcome": np.full(12, math.inf)}, {"cell": np.full(12, 1)}, {"block": np.ones(12, dtype=np.int64)},
        {"atom": np.ones(12, dtype=np.int64)}, {"owner": np.full(12, 12)},
        {"owner": np.repeat(np.arange(6), 2)},  # a mass of 2 in all
    ):  # fmt: skip
        with pytest.raises(InvalidInput):
            rows_of(1, 0.5, one, **changes)
    for atoms in (one * math.nan, one * -1, one * 1.001):
        with pytest.raises(InvalidInput, match="probability on cells"):
            CellShape(1, atoms)
    for gamma in (-0.1, 1.1, math.nan):
        with pytest.raises(InvalidInput, match="discount"):
            rows_of(1, gamma, one)
    for bad in (math.nan, -0.1, math.inf):
        with pytest.raises(InvalidInput):
            Allowance(bad)
        with pytest.raises(InvalidInput):
            Allowance(0.1, bad)
    with pytest.raises(InvalidInput):
        StartMean(Enclosure(0.0), np.array([-0.1, 1.1]), 0.0)


def test_bets_beyond_the_range_are_refused():
    found, limits = rows_of(1, 0.5, np.ones((1, 1))), ValueLimits(1.0, 0.0, 1.0)
    nothing = CellAllowance.constant(NOTHING_ALLOWED, 1)

    def found_at(vector, single):
        events = Events(VectorEvent(np.ones(1), (vector,)), 0.1, CellTails(np.full((1, 1), single)), 0.1)
        return locate(found, events, limits, nothing)

    for rates in ((1.0, 0.5), (0.5, 1.0)):
        with pytest.raises(InvalidInput, match="rate"):
            found_at(*rates)
    for rates in (np.full((1, 1), -0.1), np.full((1, 1), math.nan), np.ones(1)):
        with pytest.raises(InvalidInput, match="at least 0"):
            CellTails(rates)
    located = found_at(0.5, 0.0)  # no cell has an event of its own
    starts = StartMean(Enclosure(0.0), np.ones(1), 0.0)
    with pytest.raises(NumericalError, match="bet"):
        end_terms(located, starts, EndWeights(np.ones((1, 1)), 6.0), 1.0, 0.1)
    with pytest.raises(InvalidInput, match="blocks or cells"):
        end_terms(located, starts, EndWeights(np.full((2, 1), 0.1), 6.0), 1.0, 0.1)
    assert isinstance(located, Located)
