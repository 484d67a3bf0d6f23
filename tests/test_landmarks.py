"""Coordinates through landmarks against 60 digits: norms that are left over are bounds, of single rows and of many together."""

import numpy as np
import pytest
from mpmath import mp, mpf

import bondic
from bondic.core.errors import NumericalError
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.core.kernels.normal_form import Layout
from bondic.core.sequential import pooled
from bondic.core.sequential.basis import LandmarkBasis
from bondic.core.sequential.landmarks import Coordinates
from bondic.core.sequential.pooled import NOT_POOLED, pool, pooled_squares, total
from bondic.core.sums.measure import Measure, RowMeasures
from bondic.engines.sums import STANDARD
from sequential_cases import Truth, World, make_plan, make_proof

LAYOUT = Layout(2, False, 0, 2)
DIGITS, GAMMA = 60, 0.9


class Twin:
    """Inner products of measures in the space of exp(-|s-t|^2 / (2 h^2)) 1[a = b] + c, and of the basis."""

    def __init__(self, h, c, basis):
        self.h, self.c = mpf(h), mpf(c)
        slots = basis.slots.tolist()
        self.landmarks = [(mpf(1), z, a) for z, a in zip(basis.points.tolist(), slots, strict=True)]
        self.matrix = mp.matrix(basis.matrix.tolist())

    def k(self, x, a, y, b):
        square = mp.fsum((mpf(p) - mpf(q)) ** 2 for p, q in zip(x, y, strict=True))
        return (a == b) * mp.exp(-square / (2 * self.h**2)) + self.c

    def product(self, f, g):
        return mp.fsum(v * w * self.k(x, a, y, b) for v, x, a in f for w, y, b in g)

    def function(self, found):
        """sum_j c_j b_j as weights on the landmarks."""
        weights = mp.matrix([found]) * self.matrix
        return [(weights[j], z, a) for j, (_, z, a) in enumerate(self.landmarks)]

    def rest(self, f, found):
        """R = f - sum_j c_j b_j."""
        return [*f, *((-w, z, a) for w, z, a in self.function(found))]

    def parts(self, rest):
        """|R| across and along the basis: R(z_l) says what lies along."""
        m = len(self.landmarks)
        gram = mp.matrix(m)
        for i, one in enumerate(self.landmarks):
            for j, other in enumerate(self.landmarks):
                gram[i, j] = self.k(*one[1:], *other[1:])
        values = mp.matrix([self.product(rest, [one]) for one in self.landmarks])
        along = (values.T * mp.lu_solve(gram, values))[0]
        return mp.sqrt(max(self.product(rest, rest) - along, 0)), mp.sqrt(max(along, 0))


def case(seed, *, near, scale, h, c=0.5, m=5):
    """Landmarks, two of them `near` each other, and rows with two next states; everything times `scale`."""
    rng = np.random.default_rng(seed)
    points, slots = rng.normal(size=(m, 2)) * scale, rng.integers(0, 2, m)
    points[-1], slots[-1] = points[0] + near * scale, slots[0]
    square = ((points[:, None] - points) ** 2).sum(-1)
    gram = np.exp(-square / (2 * h**2)) * (slots[:, None] == slots) + c
    matrix = np.tril(np.linalg.inv(np.linalg.cholesky(gram)))
    here = rng.normal(size=(3, 2)) * scale
    here[0] = points[1]  # a row that is a landmark leaves nothing over
    following = rng.normal(size=(4, 2)) * scale
    weights = rng.dirichlet([1.0, 1.0], 4) * 0.5
    logged = RowMeasures(here, np.eye(2)[[slots[1], 0, 1]], np.arange(3), 3)
    after = RowMeasures(following, weights, np.array([0, 0, 2, 2]), 3)  # nothing follows row 1
    return LandmarkBasis(points, slots, matrix), logged, after


def measure(rows, i, factor=1.0):
    return [
        (mpf(factor) * mpf(rows.weights[j, a]), rows.points[j].tolist(), a)
        for j in np.flatnonzero(rows.rows == i)
        for a in (0, 1)
    ]


@pytest.mark.parametrize("near", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize(("scale", "h"), [(1.0, 1.0), (1e-8, 1e-8), (1e8, 1e8), (1.0, 4.0), (1.0, 0.05)])
def test_what_is_left_over(near, scale, h):
    basis, logged, after = case(0, near=near, scale=scale, h=h)
    radius = 3.0
    ball = bondic.Ball(bondic.Gaussian(h, on="state") * Dirac() + Constant(0.5), radius)
    found = Coordinates(ball, basis, LAYOUT)
    with mp.workdps(DIGITS):
        twin = Twin(h, 0.5, basis)
        for embedding, parts in zip(
            found.pairs(logged, after, GAMMA), [(logged, None), (None, after), (logged, after)], strict=True
        ):
            for i in range(3):
                f = [] if parts[0] is None else measure(parts[0], i)
                f += [] if parts[1] is None else measure(parts[1], i, 1.0 if parts[0] is None else -mpf(GAMMA))
                across, along = twin.parts(twin.rest(f, embedding.coordinates[i].tolist()))
                assert across <= embedding.perp[i]
                assert radius * along <= embedding.extra[i]
                assert embedding.perp[i] <= across + mpf(1e-3)


def largest(gram):
    """λ_max of a symmetric matrix of many digits."""
    return max(mp.eigsy(gram, eigvals_only=True))


@pytest.mark.parametrize("near", [1.0, 1e-3])
@pytest.mark.parametrize(("scale", "h"), [(1.0, 1.0), (1e8, 1e8), (1.0, 0.05)])
def test_what_rows_leave_over_together(near, scale, h):
    """λ_max of the exact Gram matrices, for instruments and for weights; within rounding, and never above the rows one by one."""
    basis, logged, after = case(4, near=near, scale=scale, h=h)
    ball = bondic.Ball(bondic.Gaussian(h, on="state") * Dirac() + Constant(0.5), 3.0)
    found = Coordinates(ball, basis, LAYOUT)
    _, there, step = found.pairs(logged, after, GAMMA)
    together = pooled.pooled_remainders(found, logged, after, GAMMA, step.coordinates, there.coordinates)
    rng = np.random.default_rng(0)
    instruments, weights = rng.normal(size=(3, 2)), rng.random(3)
    with mp.workdps(DIGITS):
        twin = Twin(h, 0.5, basis)
        rests = []
        for embedding, pair in ((step, True), (there, False)):
            rows = [
                measure(logged, i) + measure(after, i, -mpf(GAMMA)) if pair else measure(after, i) for i in range(3)
            ]
            rests.append([twin.rest(f, embedding.coordinates[i].tolist()) for i, f in enumerate(rows)])
        steps, nexts = (mp.matrix([[twin.product(f, g) for g in rest] for f in rest]) for rest in rests)
        phi, root = mp.matrix(instruments.tolist()), mp.diag([mp.sqrt(mpf(w)) for w in weights])
        exact = mp.sqrt(largest(phi.T * steps * phi)), largest(root * nexts * root)
    bounds = together[0].operator(instruments), together[1].squares(weights)
    for bound, value in zip(bounds, exact, strict=True):
        assert value <= bound <= value * (1 + mpf(1e-6)) + mpf(1e-4)
    assert bounds[0] <= np.sum(np.linalg.norm(instruments, axis=1) * step.perp) * (1 + 1e-6) + 1e-4
    assert bounds[1] <= np.sum(weights * there.perp**2) * (1 + 1e-6) + 1e-4


@pytest.mark.parametrize("near", [1.0, 1e-4])
def test_skew_and_radius(near):
    """|M K M^T - 1| is bounded, so the coordinates of a function of norm r have norm <= radius."""
    basis, _, _ = case(1, near=near, scale=1.0, h=1.0)
    found = Coordinates(bondic.Ball(bondic.Gaussian(1.0) * Dirac() + Constant(0.5), 2.0), basis, LAYOUT)
    with mp.workdps(DIGITS):
        twin = Twin(1.0, 0.5, basis)
        m = len(basis)
        gram = mp.matrix(m)
        for i, one in enumerate(twin.landmarks):
            for j, other in enumerate(twin.landmarks):
                gram[i, j] = twin.k(*one[1:], *other[1:])
        skew = mp.mnorm(twin.matrix * gram * twin.matrix.T - mp.eye(m), "f")
        assert skew <= found._skew
        assert found.radius >= 2 * mp.sqrt(1 + skew)


def test_left_over_of_one_measure():
    basis, logged, _ = case(2, near=1e-3, scale=1.0, h=1.5)
    ball = bondic.Ball(bondic.Gaussian(1.5) * Dirac() + Constant(0.5), 2.0)
    found = Coordinates(ball, basis, LAYOUT)
    one = Measure(logged.points, logged.weights[None])
    for factor in (1.0, 0.5, -1e6):  # any floats are coordinates
        c = factor * found.approximate(logged.points, logged.weights)
        (left,) = found.remainder_bounds(one, [c], STANDARD)
        with mp.workdps(DIGITS):
            twin = Twin(1.5, 0.5, basis)
            rest = twin.rest([part for i in range(3) for part in measure(logged, i)], c.tolist())
            exact = 2 * mp.sqrt(twin.product(rest, rest))
            assert exact <= left <= exact * (1 + 1e-6) + 1e-3


def test_landmarks_that_cannot_be_told_apart_are_refused():
    rng = np.random.default_rng(0)
    points = np.repeat(rng.normal(size=(1, 2)), 2, axis=0)
    matrix = np.array([[1.0, 0.0], [-1e8, 1e8]])
    ball = bondic.Ball(bondic.Gaussian(1.0) * Dirac(), 1.0)
    with pytest.raises(NumericalError):
        _ = Coordinates(ball, LandmarkBasis(points, np.zeros(2, dtype=np.int64), matrix), LAYOUT).radius


def test_leading_coordinates_do_not_see_later_landmarks_or_other_rows():
    """What models and weights see is the same to the last bit whatever was put into the basis afterwards."""
    rng = np.random.default_rng(5)
    points, slots = rng.normal(size=(90, 2)), np.tile([0, 1], 45)
    q = bondic.Ball(bondic.Gaussian(0.5, on="state") * Dirac() + Constant(0.5), 2.0)
    gram = np.exp(-((points[:, None] - points) ** 2).sum(-1) / 0.5) * (slots[:, None] == slots) + 0.5
    matrix = np.tril(np.linalg.inv(np.linalg.cholesky(gram + 1e-9 * np.eye(90))))
    x, a = np.vstack([points[:70], rng.normal(size=(300, 2))]), rng.integers(0, 2, 370)
    count = 37

    def leading(landmarks, rows):
        basis = LandmarkBasis(points[:landmarks], slots[:landmarks], matrix[:landmarks, :landmarks])
        return Coordinates(q, basis, LAYOUT).leading(x[rows], a[rows], count)

    whole = leading(90, slice(None))
    assert np.array_equal(whole, leading(count, slice(None)))
    assert np.array_equal(whole[:11], leading(64, slice(11)))
    assert np.array_equal(whole[300:], leading(90, slice(300, None)))
    basis = LandmarkBasis(points, slots, matrix)
    rows = RowMeasures(x, np.eye(2)[a], np.arange(370), 370)
    assert np.allclose(whole, Coordinates(q, basis, LAYOUT).single(rows).coordinates[:, :count], atol=1e-6)


# --- Left-overs of many rows, paid for together: sums over stretches, prices of rows, and ends of a stated and of a chosen ball.


def rough(kind, seed=0, n=60):
    """Few landmarks and a small bandwidth: much is left over."""
    world = World(kind, np.random.default_rng(seed), n=n, gamma=0.6, radius=3.0, bandwidth=0.6)
    rows = world.rows(0.05 * np.random.default_rng(seed).normal(size=n))
    plan = make_plan(world, rows, count=6, blocks=2, bold=20.0)
    return world, rows, plan


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_one_e_for_all_rows(kind):
    """Both inequalities at functions of Q: those of single rows, and of many together."""
    world, rows, plan = rough(kind)
    proof = make_proof(rows, world.ball(rows.layout), plan)
    evidence = proof.evidence(rows, STANDARD)
    data, parts = evidence.data, []
    truth = Truth(world, evidence, proof.plan, "both")
    here, after = world.e(data.points, data.slots), (truth.y - data.outcome) / data.gamma
    for (_, part), own in zip(plan.pieces(data.log_rows), truth.applied, strict=True):
        piece = data.stretch(part)
        found = pool(evidence.coordinates, piece, own, len(data))
        parts.append(found)
        left = after[part] - piece.next.coordinates @ truth.coordinates
        step = here[part] - data.gamma * after[part] - piece.step.coordinates @ truth.coordinates
        assert np.linalg.norm(own.instruments.T @ step) <= world.radius * found.operator * (1 + 1e-9)
        sizes = np.linalg.norm(own.instruments, axis=1)
        assert np.sum((sizes * data.gamma * left) ** 2) <= world.radius**2 * found.squares * (1 + 1e-9)
        for end, v in own.weights.items():
            assert np.sum((v * data.gamma * left) ** 2) <= world.radius**2 * found.tails[end] * (1 + 1e-9)
        assert found.operator < np.sum(sizes * piece.step.perp)
        assert found.squares < np.sum((sizes * data.gamma * piece.next.perp) ** 2)
    both = total(parts, ("lower", "upper"))
    assert both.operator >= sum(part.operator for part in parts)
    assert total([*parts, NOT_POOLED], ("lower",)).operator == np.inf


def test_prices_of_rows():
    """sum_i min(single_i, w_i (p_i + y_i)^2) at the worst y that the sum of squares allows, found by trial."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(1, 30))
        weights, along = rng.random(n), rng.exponential(size=n)
        single, together = rng.exponential(size=n) * 3, float(rng.exponential())
        bound = pooled_squares(weights, single, along, together)
        assert bound <= single.sum() * (1 + 1e-9)
        for _ in range(30):
            y = rng.exponential(size=n) ** 3
            y *= np.sqrt(together / np.sum(weights * y**2))
            assert np.minimum(single, weights * (along + y) ** 2).sum() <= bound
    assert pooled_squares(weights, single, along, np.inf) == pytest.approx(single.sum())
    assert pooled_squares(np.ones(2), np.full(2, 9.0), np.zeros(2), 1.0) == pytest.approx(1.0)
