"""Every formula of the bound on cells against its twin in 50 digits; what is computed is above it, and by next to nothing."""

import math
from dataclasses import dataclass

import mpmath as mp
import numpy as np
import pytest

from bondic.core.betting import bet_cost
from bondic.core.bounded import Between, Enclosure, as_enclosure
from bondic.core.cells import ends, localize
from bondic.core.cells import system as system_module
from bondic.core.cells.allowance import NOTHING_ALLOWED, Allowance, CellAllowance
from bondic.core.cells.ends import EndTerms, EndWeights, StartMean, end_terms
from bondic.core.cells.forecasts import Forecasts, tally_by_label
from bondic.core.cells.intervals import Intervals
from bondic.core.cells.localize import CellTails, Events, Ground, ValueLimits, VectorEvent, locate
from bondic.core.cells.system import Energy, Feasible, Form, System
from bondic.core.cells.tally import CellRows, CellShape, tally
from bondic.core.errors import InvalidInput, NumericalError
from bondic.plan.cells import reference_of
from naive_cells import (
    NaiveEvents,
    NaiveForecasts,
    NaiveRanges,
    NaiveRows,
    NaiveSet,
    exact,
    naive_end,
    naive_locate,
    own_bounds,
    row_energy,
)

SEEDS = range(16)
KINDS = ("sensible", "random", "none", "large")
WIDTH, LOW, HIGH = 2.0, -1.5, 1.75


@dataclass(frozen=True)
class Case:
    rng: np.random.Generator
    shape: CellShape
    rows: CellRows
    label: np.ndarray
    given: Forecasts
    gamma: float
    reference: np.ndarray
    system: System
    naive: NaiveRows
    allowance: CellAllowance
    events: Events

    @property
    def cells(self):
        return self.shape.cells

    @property
    def ground(self):
        return Ground(self.system, self.events, ValueLimits(WIDTH, LOW, HIGH))

    @property
    def masses(self):
        """(n, J)."""
        return masses_of(self.rows, self.shape.atoms.shape[0])

    @property
    def matrix(self):
        """x_i as functions of f."""
        return self.gamma * (self.given.following[self.label] - self.masses) @ self.shape.atoms

    def weights(self):
        """Of blocks and labels, and the same of every row."""
        found = self.rng.random((self.shape.blocks, self.given.cell.size))
        return found, exact(found[self.rows.block, self.label])

    def feasible(self, radius=3.0):
        """Sets with all cells with rows inside, with some of them, and with none."""
        system = self.system
        some = system.learned & (self.rng.random(self.cells) < 0.5)
        known = Intervals(system, Between(system.low, system.high)).by_successor.magnitude()
        successors = dict(zip(self.successors(), exact(known), strict=True))
        for inside in (system.learned, some, np.zeros_like(some)):
            slack, size = self.rng.random(self.cells) * self.rng.choice([0.2, 2.0]), radius if inside.any() else 0.0
            found = Feasible(system, np.where(inside, self.ground.scale, 0.0), size, slack, known)
            scale = exact(1 / np.where(inside, self.ground.scale, 1.0))
            yield found, NaiveSet(self.naive, scale, mp.mpf(size), exact(slack), inside.tolist(), successors)

    def successors(self):
        """The label and the atom, None for the end, of every successor."""
        successors, atoms = self.system.successors, self.shape.atoms.shape[0]
        return [
            (a, None if b == atoms else b)
            for a, b in zip(successors.label.tolist(), successors.atom.tolist(), strict=True)
        ]

    def naive_events(self):
        vector, cells = self.events.vector, self.events.cells
        term = mp.log(2 * len(vector.rates) / mp.mpf(self.events.vector_probability))
        own = mp.log(2 * int((cells.rates > 0).sum()) / mp.mpf(self.events.cells_probability))
        return NaiveEvents(exact(vector.shape), exact(vector.rates), term, [exact(one) for one in cells.rates], own)

    def intervals(self):
        """Arbitrary intervals and equations, some of them useless; the same for the twin."""
        system, rng, p = self.system, self.rng, self.cells
        known = system.learned & (rng.random(p) < 0.8)
        equations = np.where(known, rng.random(p) * rng.choice([0.05, 1.0]), np.inf)
        found = Intervals(system, Between(system.low, system.high)).tightened(equations)
        return found, NaiveRanges(self.naive, exact(system.low), exact(system.high), exact(equations)).sweep(1000)


def labels_of(rng, cell, cells, each=3):
    """Up to `each` labels of every cell, in any order, and one of them for every row."""
    own = rng.permutation(np.repeat(np.arange(cells), each))
    choice = [rng.choice(np.flatnonzero(own == c)[:each]) for c in range(cells) for _ in range(2)]
    return own, np.array([choice[2 * c + int(rng.integers(2))] for c in cell], dtype=np.int64)


def masses_of(rows: CellRows, atoms):
    found = np.zeros((rows.cell.size, atoms))
    np.add.at(found, (rows.owner, rows.atom), rows.mass)
    return found


def predicted(rng, rows: CellRows, atoms, cells, kind):
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


def make_case(seed, cells=None, n=None, whole=False) -> Case:
    """20 to 60 rows; some end, some cells have no row, atoms are mixtures or cells, masses are fractions (or `whole`)."""
    rng = np.random.default_rng([seed, 3])
    p, J, blocks = cells or int(rng.integers(3, 7)), int(rng.integers(2, 5)), int(rng.integers(1, 4))
    atoms = rng.dirichlet(np.full(p, 0.5), size=J) if seed % 2 else np.eye(p)
    J, n, gamma = atoms.shape[0], n or int(rng.integers(20, 61)), (0.0, 0.5, 0.9, 0.97)[seed % 4]
    cell = rng.integers(p - 1, size=n)  # the last cell has no rows
    owner, atom, mass = [], [], []
    for i in range(n):
        successors = rng.choice(J, size=int(rng.integers(0, 4)) % (J + 1), replace=False)  # none: an end
        successors = successors[:1] if whole else successors
        part = rng.dirichlet(np.ones(successors.size)) if successors.size else np.zeros(0)
        part = part * (0.6 if rng.random() < 0.1 and not whole else 1.0)  # some rows end in part
        owner += [i] * successors.size
        atom += list(successors)
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
    label, given = predicted(rng, rows, J, p, KINDS[(seed + seed // 4) % 4])
    numbers = rng.normal(size=n) * (seed % 3)
    labels = tally_by_label([rows], label, numbers, given, shape, gamma, reference)
    kappa = [exact(row) for row in given.following]
    own = NaiveForecasts(label.tolist(), exact(numbers), given.cell.tolist(), exact(given.offset), kappa)
    naive = NaiveRows(
        each, [exact(row) for row in atoms], gamma, exact(reference), mp.mpf(LOW), mp.mpf(HIGH), blocks, own
    )
    system = System(found, labels, LOW - reference, HIGH - reference)
    allowance = CellAllowance(rng.random(p) * 0.05, rng.random(p) * 0.3)
    vector = VectorEvent(np.clip(np.exp(rng.normal(size=p) * 0.3), 0.4, 2.4), (0.2, 0.05))
    rates = np.exp(rng.uniform(-3.0, -0.8, size=(2, p))) * (rng.random((2, p)) < 0.7)  # some cells have no event
    events = Events(vector, 0.3, CellTails(rates), float(rng.choice([0.5, 0.9])))
    return Case(rng, shape, rows, label, given, gamma, reference, system, naive, allowance, events)


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


def test_parts_and_blocks_of_a_tally():
    """Parts add up to the whole; of_blocks() is the tally of their rows."""
    case = next(one for one in map(make_case, SEEDS) if one.shape.blocks > 1)
    rows, n, whole = case.rows, case.rows.cell.size, case.system.tally

    def some(first, stop):
        mine = (rows.owner >= first) & (rows.owner < stop)
        return CellRows(
            rows.block[first:stop], rows.cell[first:stop], rows.outcome[first:stop], rows.owner[mine] - first,
            rows.atom[mine], rows.mass[mine], 1.0,
        )  # fmt: skip

    two = tally([some(0, 7), some(7, n)], case.shape, case.gamma, case.reference)
    for name in ("count", "total", "square", "size", "low", "high", "mass", "moment", "ends"):
        np.testing.assert_allclose(getattr(two, name), getattr(whole, name), rtol=1e-13, atol=1e-14)
    mine = np.flatnonzero(rows.block == 1)
    alone = tally([some(int(mine[0]), int(mine[-1]) + 1)], case.shape, case.gamma, case.reference)
    kept = whole.of_blocks(np.arange(case.shape.blocks) == 1)
    for name in ("count", "total", "square", "mass", "moment", "high"):
        np.testing.assert_allclose(getattr(kept, name), getattr(alone, name), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("seed", SEEDS)
def test_directions_and_atoms_are_the_functions_of_f_that_they_claim(seed):
    """<f, d> = <t, w> and F_j = <t, K_j> up to their slack, for every f within the bounds; the inverse is not trusted."""
    case = make_case(seed)
    system, naive, p = case.system, case.naive, case.cells
    weights, off = system.atom_weights
    for row, own in zip(naive.P, system.after.dense, strict=True):
        assert all(abs(a - b) <= 1e-14 for a, b in zip(row, own, strict=True))
    for spoiled in (False, True):
        if spoiled:  # any inverse gives a valid direction
            system.__dict__["_inverse"] = system._inverse * 1.001
            system.__dict__.pop("atom_weights")
            weights, off = system.atom_weights
        f, d = case.rng.uniform(system.low, system.high, size=(20, p)), case.rng.normal(size=(20, p))
        t = f - case.gamma * (f @ case.shape.atoms.T) @ system.after.dense.T
        found, slack = system.directions(d)
        assert np.all(np.abs((f * d).sum(axis=1) - (t * found).sum(axis=1)) <= slack + 1e-13)
        assert np.all(np.abs(f @ case.shape.atoms.T - t @ weights.T) <= off + 1e-13)
        if not spoiled:
            assert np.all(slack <= 1e-9)
            for one, own in zip(d, found, strict=True):
                above(sum(abs(x) for x in own), sum(abs(x) for x in naive.direction(exact(one))) - 1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_supports_ways_and_forms_are_their_formulas(seed, monkeypatch):
    case = make_case(seed)
    if seed % 2:
        monkeypatch.setattr(system_module, "_AT_ONCE", 2 * case.cells)  # two successors at a time
    for feasible, naive in case.feasible():
        d, (weights, each) = case.rng.normal(size=case.cells), case.weights()
        above(feasible.support(d), naive.support(exact(d)))
        form = Form.of(case.system, weights)
        above(form.largest(feasible.scale), naive.largest(each), 1e-7)
        above(feasible.root(form), naive.root(each), 1e-6)
        true = naive.successors()
        for computed, successor in zip(feasible.by_successor, case.successors(), strict=True):
            above(computed, true[successor], 1e-8)
        for computed, root in zip(feasible.cell_roots(), naive.cell_roots(), strict=True):
            above(computed, root, 1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_inside_the_sets_exceeds_the_bounds(seed):
    """At points of the sets: supports are attained, forms, successors and roots hold."""
    case = make_case(seed)
    system, p, rows, matrix = case.system, case.cells, case.rows, case.matrix
    inverse = np.linalg.inv(np.eye(p) - case.gamma * system.after.dense @ case.shape.atoms)
    successors = {successor: k for k, successor in enumerate(case.successors())}
    place = np.array(
        [successors[a, b] for a, b in zip(case.label[rows.owner].tolist(), rows.atom.tolist(), strict=True)]
    )
    for feasible, _ in case.feasible(radius=float(case.rng.choice([0.1, 3.0]))):
        weights, _ = case.weights()
        row, bound = weights[rows.block, case.label], feasible.root(Form.of(system, weights))
        first, best = np.linalg.svd((matrix @ inverse) * feasible.scale * np.sqrt(row)[:, None])[2][0], 0.0
        for k in range(60):
            ball = first if k < 20 else case.rng.normal(size=p)
            box = case.rng.choice([-1.0, 1.0], size=p) * feasible.slack
            f = inverse @ (feasible.radius * ball / np.linalg.norm(ball) * feasible.scale + box)
            if not feasible.radius:  # of functions within their range: scale back into it
                f = f * min(1.0, float((np.minimum(-system.low, system.high) / np.maximum(np.abs(f), 1e-9)).min()))
            moved = matrix @ f
            best = max(best, math.sqrt(float(row @ moved**2)))
            assert np.all(np.sqrt(np.bincount(rows.cell, moved**2, minlength=p)) <= feasible.cell_roots() + 1e-10)
            each = case.gamma * ((case.given.following @ (case.shape.atoms @ f))[case.label[rows.owner]]
                                 - (case.shape.atoms @ f)[rows.atom])  # fmt: skip
            assert np.all(np.abs(each) <= feasible.by_successor[place] + 1e-10)
        assert best <= bound
        d = case.rng.normal(size=p)
        (w,), _ = system.directions(d[None])
        along = w * feasible.scale
        top = feasible.radius * along / max(float(np.linalg.norm(along)), 1e-300) * feasible.scale
        assert float((inverse @ (top + np.sign(w) * feasible.slack)) @ d) == pytest.approx(
            feasible.support(d), rel=1e-8
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_the_energy_holds_for_every_f_and_is_attained(seed):
    case = make_case(seed)
    weights, each = case.weights()
    for allowance in (case.allowance, CellAllowance(case.allowance.averages, np.zeros(case.cells))):
        energy = Energy.of(case.system, weights, allowance, Form.of(case.system, weights))
        constant, linear, factor = row_energy(case.naive, each, exact(allowance.single))
        above(energy.constant, constant)
        assert energy.factor == pytest.approx(float(factor), rel=1e-9)  # any θ > 0 is fine
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
            if not allowance.single.any() or case.gamma == 0:  # equality
                assert found <= true * (1 + mp.mpf(10) ** -9) + error + mp.mpf(10) ** -12


@pytest.mark.parametrize("seed", SEEDS)
def test_intervals_and_what_they_leave_of_rows_are_their_formulas(seed):
    for case in (make_case(seed), make_case(seed, whole=True)):
        found, naive = case.intervals()
        for a, b in zip(found.values.high, naive.high, strict=True):
            assert b <= a <= b + 1e-9
        for a, b in zip(found.values.low, naive.low, strict=True):
            assert b - 1e-9 <= a <= b
        d = case.rng.normal(size=case.cells)
        true = naive.support(exact(d))
        assert true <= found.support(d, 0.0) <= float(true) + 1e-8
        above(found.supports(d[None])[0], max(true, naive.support(exact(-d))), 1e-8)
        for a, b in zip(found.farthest(), naive.farthest(), strict=True):
            above(a, b, 1e-8)
        tail = case.rng.normal(size=(case.shape.blocks, case.cells)) * 0.15
        weights = tail[:, case.given.cell]
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
    """f at random and at corners: sums of x^2, and of g at what is not clipped."""
    for case in (make_case(seed), make_case(seed, whole=True)):
        found, _ = case.intervals()
        shape, place = case.system.rows.count.shape, (case.rows.block, case.label)
        weights = (case.rng.normal(size=(case.shape.blocks, case.cells)) * 0.1)[:, case.given.cell]
        charges, deviation = found.charges(weights, 0.0, WIDTH), np.array([float(d) for d in case.naive.deviation])
        for k in range(40):
            side = case.rng.integers(2, size=case.cells) if k % 2 else case.rng.random(case.cells)
            moved = case.matrix @ (found.values.low + side * (found.values.high - found.values.low))
            squares, paid = np.zeros((2, *shape))
            np.add.at(squares, place, moved**2)
            assert np.all(squares <= found.squares + 1e-10)
            cut = np.clip(-(deviation + moved), -WIDTH, WIDTH)
            np.add.at(paid, place, bet_cost(-(weights[place] * cut)))
            assert np.all(paid <= charges + 1e-10)
            assert np.all(np.abs(moved) <= found.farthest()[case.label] + 1e-10)


def test_a_value_that_satisfies_the_equations_stays_in_its_interval():
    missed = 0
    for case in map(make_case, SEEDS):
        system, rng = case.system, case.rng
        f = rng.uniform(system.low, system.high)
        t = f - case.gamma * system.after.dense @ (case.shape.atoms @ f)
        equations = np.where(system.learned, np.abs(t) * (1 + rng.random(case.cells) * 0.1), np.inf)
        start = Intervals(system, Between(system.low, system.high))
        found, smaller = start.tightened(equations).values, start.tightened(equations * 0.5).values
        assert np.all((f >= found.low) & (f <= found.high))
        missed += bool(np.any((f < smaller.low) | (f > smaller.high)))
    assert missed >= 8, "half the bound is too little: the control"


@pytest.mark.parametrize("seed", SEEDS)
def test_the_sets_and_the_ends_assembled_from_scratch(seed):
    """ϱ, τ, ε, what the sets leave of rows, the energy, and both bounds of both ends."""
    case = make_case(seed)
    averages, single = exact(case.allowance.averages), exact(case.allowance.single)
    first = localize._FixedPoint(case.ground, case.allowance)
    for reach in (np.full(case.given.cell.size, np.inf), case.rng.random(case.given.cell.size)):
        first.farthest, first.roots = reach, np.full(case.cells, reach.max()) * 2
        squares = case.rng.random(case.system.rows.count.shape) * 3
        known = {at: mp.mpf(float(squares[at])) for at in np.ndindex(squares.shape)}
        true = own_bounds(
            case.naive, case.naive_events(), exact(reach), mp.mpf(WIDTH), exact(first.roots), single, known
        )
        for one, other in zip(first._own_bounds(squares), true, strict=True):
            assert one == np.inf if other == mp.inf else above(one, other) is None
    located = locate(case.ground, case.allowance)
    sets, ranges, reach, energy = naive_locate(case.naive, case.naive_events(), mp.mpf(WIDTH), averages, single)
    assert [tuple((one.scale > 0).tolist()) for one in located.sets] == [one.inside for one in sets]
    above(located.energy_bound, energy, 1e-5)
    for one, other in zip(located.sets, sets, strict=True):
        above(one.radius, other.radius, 1e-5)
        for computed, true in zip(one.slack, other.slack, strict=True):
            above(computed, true, 1e-5)
    for computed, true in zip(located.farthest, reach, strict=True):
        above(computed, true, 1e-5)
    psi = case.rng.dirichlet(np.ones(case.cells))
    starts, base = StartMean(Enclosure(0.0), psi, 0.0), as_enclosure(float(case.reference @ psi))
    plain_terms = EndTerms(base, 0.0, 0.0, 0.0, float(case.allowance.averages @ psi), False)
    for sign in (1.0, -1.0):
        tail = EndWeights(case.rng.normal(size=(case.shape.blocks, case.cells)) * 0.1, 4.0)
        weighed, plain = naive_end(
            case.naive, (sets, ranges, exact(located.farthest)), exact(psi), [exact(row) for row in tail.weights], mp.mpf(4),
            mp.mpf(sign), mp.log(10), mp.mpf(WIDTH), (averages, single),
        )  # fmt: skip
        end = end_terms(located, starts, tail, sign, 0.1)
        upper, shorter = sign * end.value.mid + end.value.rad + end.spread, min(weighed, plain)
        assert end.uses_weights == (weighed < plain)
        assert mp.mpf(upper) >= shorter
        assert upper <= float(shorter) + 1e-5 * abs(float(shorter)) + 1e-7
        own = ends._weighed(located, starts, tail, sign, 0.1, plain_terms)
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
    rows, shape, count = CellRows(**parts), CellShape(1, atoms), atoms.shape[0]
    own = Forecasts(np.arange(cells), np.full(cells, 0.25), np.full((cells, count), 1 / max(count, 1)))
    found = tally([rows], shape, gamma, np.zeros(cells))
    return found, tally_by_label([rows], rows.cell, np.zeros(n), own, shape, gamma, np.zeros(cells))


NONE = {"owner": np.zeros(0, dtype=np.int64), "atom": np.zeros(0, dtype=np.int64), "mass": np.zeros(0)}


@pytest.mark.parametrize(
    ("cells", "gamma", "atoms", "changes"),
    [
        (1, 0.5, np.ones((1, 1)), {}),
        (2, 0.0, np.zeros((0, 2)), NONE),  # no atom at all
        (2, 0.9, np.eye(2), NONE),  # every row ends
        (2, 1.0, np.eye(2), {}),  # nothing ends and nothing is discounted: no inverse exists
        (3, 0.9, np.eye(3), {"cell": np.full(12, 1)}),  # cells without rows
    ],
)
def test_edges_have_finite_ends(cells, gamma, atoms, changes):
    found, labels = rows_of(cells, gamma, atoms, **changes)
    events = Events(VectorEvent(np.ones(cells), (0.5,)), 0.9, CellTails(np.full((1, cells), 0.5)), 0.9)
    ground = Ground.of(found, labels, events, ValueLimits(1.0, 0.0, 1.0))
    located = locate(ground, CellAllowance.of(Allowance(0.1), cells))
    starts = StartMean(Enclosure(0.0), np.full(cells, 1 / cells), 1e-15)
    end = end_terms(located, starts, EndWeights(np.full((1, cells), 0.5), 6.0), 1.0, 0.1)
    assert math.isfinite(end.spread)
    assert end.value.mid + end.spread >= 0.25


@pytest.mark.parametrize("seed", SEEDS)
def test_a_reference_solves_the_equations_of_learned_cells_whichever_lead_on(seed):
    """Beside the equations of all cells at once, some of which lead nowhere, and some of which count as not learned."""
    case = make_case(seed)
    found, learned = case.system.tally, case.rng.random(case.cells) < 0.7
    after = np.where(learned[:, None], case.system.after.dense, 0.0)
    mixed = found.reference - (found.total.sum(axis=0) / np.maximum(case.system.counts, 1.0))
    mixed -= case.gamma * case.system.after.dense @ case.shape.atoms @ found.reference
    zero = tally([case.rows], case.shape, case.gamma, np.zeros(case.cells))
    own = np.where(learned, np.where(case.system.counts > 0, mixed, 0.0), 0.25)
    true = np.linalg.solve(np.eye(case.cells) - case.gamma * after @ case.shape.atoms, own)
    np.testing.assert_allclose(reference_of(zero, learned, 0.25), true, rtol=1e-10, atol=1e-12)


def test_labels_take_no_memory_for_atoms_that_they_do_not_have():
    """A table of 3 000 states has 10^5 labels: a matrix of numbers would have 3 GB for them, and be checked in many seconds."""
    shape = CellShape(23, np.broadcast_to(0.0, (1_000_000, 1_000_000)))
    assert shape.entries.value.size == 0
    assert shape.cells == 1_000_000


def test_unfit_numbers_are_refused():
    one = np.ones((1, 1))
    for changes in (
        {"size": math.nan}, {"mass": np.full(12, 1.001)}, {"mass": np.full(12, math.nan)}, {"mass": np.full(12, -0.1)},
        {"outcome": np.full(12, math.inf)}, {"cell": np.full(12, 1)}, {"cell": np.full(12, -1)},
            {"block": np.ones(12, dtype=np.int64)},
        {"atom": np.ones(12, dtype=np.int64)}, {"owner": np.full(12, 12)},
        {"owner": np.repeat(np.arange(6), 2)},  # a mass of 2 in all
    ):  # fmt: skip
        with pytest.raises(InvalidInput):
            rows_of(1, 0.5, one, **changes)
    for atoms in (one * math.nan, one * -1, one * 1.001):
        with pytest.raises(InvalidInput, match="probability on cells"):
            CellShape(1, atoms)
    with pytest.raises(InvalidInput, match="probability on cells"):
        CellShape(1, np.broadcast_to(0.4, (2, 3)))
    for gamma in (-0.1, 1.1, math.nan):
        with pytest.raises(InvalidInput, match="discount"):
            rows_of(1, gamma, one)
    for bad in (math.nan, -0.1, math.inf):
        with pytest.raises(InvalidInput):
            Allowance(bad)
        with pytest.raises(InvalidInput):
            Allowance(0.1, bad)
    with pytest.raises(InvalidInput):
        StartMean(Enclosure(0.0), np.array([math.nan, 1.1]), 0.0)


def test_bets_beyond_the_range_are_refused():
    found, labels = rows_of(1, 0.5, np.ones((1, 1)))

    def found_at(vector, single):
        events = Events(VectorEvent(np.ones(1), (vector,)), 0.1, CellTails(np.full((1, 1), single)), 0.1)
        ground = Ground.of(found, labels, events, ValueLimits(1.0, 0.0, 1.0))
        return locate(ground, CellAllowance.of(NOTHING_ALLOWED, 1))

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
