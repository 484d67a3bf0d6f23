"""What every engine of kernel sums has to do. A subclass sets `engine` and inherits the tests:

    class TestMine(EngineCase):
        engine = Mine()

Exact answers: every pair in 50 digits, or the reference engine where the sets are larger.
"""

import math
import pickle
from functools import cache
from typing import ClassVar

import numpy as np
import pytest
from mpmath import mpf

import bondic
import naive
from bondic.core.bounded import U, upper_sum
from bondic.core.kernels.features import RandomFeatures
from bondic.core.kernels.normal_form import Term
from bondic.core.sums.forms import enclose
from bondic.core.sums.measure import Measure
from bondic.engines.engine import Engine, Serializable, Survey
from bondic.engines.spool import NumpyPairs
from bondic.engines.sums import EngineSums
from bondic.engines.threads import Serial, Threads

FREQUENCIES = np.random.default_rng(1).normal(size=(3, 2))
ONE = np.ones((1, 1))

LEAVES = {
    "gaussian": (bondic.Gaussian([0.7, 1.3]), lambda x, y: naive.gaussian(x, y, [0.7, 1.3])),
    "narrow": (bondic.Gaussian(0.05), lambda x, y: naive.gaussian(x, y, 0.05)),
    "laplace": (bondic.Laplace(0.9), lambda x, y: naive.laplace(x, y, 0.9)),
    "matern": (bondic.Matern(1.1), lambda x, y: naive.matern(x, y, 1.1, 2.5)),
    "waves": (RandomFeatures(FREQUENCIES), lambda x, y: naive.random_feature(x, y, FREQUENCIES)),
}
PRODUCTS = [(), *((name,) for name in LEAVES), ("gaussian", "gaussian"), ("gaussian", "waves"), ("matern", "laplace")]


def make_term(names):
    """3 times the product of these leaves, and its value in 50 digits."""
    term = Term(3.0, tuple((LEAVES[name][0], (0, 1)) for name in names), ONE)
    return term, lambda x, y: 3 * math.prod((LEAVES[name][1](x, y) for name in names), start=mpf(1))


def _points(rng, n):
    return rng.normal(size=(n, 2))


POINTS = {
    "cloud": _points,
    "all equal": lambda rng, n: np.tile(_points(rng, 1), (n, 1)),
    "offset 1e8": lambda rng, n: 1e8 + _points(rng, n),
    "far outliers": lambda rng, n: np.vstack([_points(rng, n - 1), [[1e5, -1e5]]]),
}
WEIGHTS = {
    "signed": lambda rng, n: rng.normal(size=(n, 2)),
    "canceling": lambda rng, n: np.outer((-1.0) ** np.arange(n), [1.0, 1 + 2.0**-30]),  # noqa: ARG005
    "mostly zero": lambda rng, n: rng.normal(size=(n, 2)) * (np.arange(n) % 5 == 0)[:, None] * [1.0, 0.0],
    "tiny": lambda rng, n: 1e-160 * rng.normal(size=(n, 2)),
    "spread": lambda rng, n: rng.normal(size=(n, 2)) * 10.0 ** rng.integers(-12, 12, size=(n, 2)),
}


@cache
def hard_case(shape, weights, names):
    """Points, columns and u^T K u of both, in 50 digits: the same for every engine."""
    rng = np.random.default_rng(5)
    points, columns = POINTS[shape](rng, 11), WEIGHTS[weights](rng, 11)
    twin = make_term(names)[1]
    return points, columns, [exact(twin, points, columns[:, c]) for c in range(2)]


def exact(twin, points, column):
    """u^T K u, every pair once or twice."""
    total = mpf(0)
    for i, x in enumerate(points):
        for j in range(i + 1):
            total += (1 if i == j else 2) * mpf(float(column[i])) * mpf(float(column[j])) * twin(x, points[j])
    return total


def travel(fork):
    """As it arrives in another process."""
    return pickle.loads(pickle.dumps(fork))


def forked(partial):
    """A fork of a sum that has any, else the sum itself."""
    return partial.fork() if isinstance(partial, Serializable) else partial


class EngineCase:
    """Tests of one engine."""

    engine: ClassVar[Engine]

    def survey(self, points, *, whole=True, executor=Serial(), count=None):  # noqa: B008
        return Survey(len(points) if count is None else count, points, 2, executor, whole)

    def can(self, *, whole=True):
        """Products of leaves that the engine says it can do; sets are large enough for any plan."""
        points = _points(np.random.default_rng(0), 3000)
        survey = self.survey(points, whole=whole, count=10**6)
        return [names for names in PRODUCTS if self.engine.cost(make_term(names)[0], survey) is not None]

    def sums(self, term, points, columns, *, cuts=1, batches=1, send=None, **known):
        """One enclosure per column; points in `cuts` forks of `batches` batches each, made by `send` if it is given."""
        survey = self.survey(points, **known)
        if self.engine.cost(term, survey) is None:
            return None
        partial = self.engine.begin(term, survey)
        try:
            forks = [partial, *((send or forked)(partial) for _ in range(cuts - 1))]
            for fork, rows in zip(forks, np.array_split(np.arange(len(points)), cuts), strict=True):
                for some in np.array_split(rows, batches) if rows.size else ():
                    fork.add(points[some], columns[some])
            for fork in forks[1:]:
                if fork is not partial:
                    partial.merge(fork)
            return enclose(partial.value(), [upper_sum(np.abs(columns[:, c])) ** 2 * (1 + 4 * U) for c in range(2)])
        finally:
            partial.close()

    def test_it_can_do_something_and_knows_what(self):
        assert self.can()
        assert self.can() == self.can()
        assert self.engine.name

    @pytest.mark.parametrize("weights", WEIGHTS)
    @pytest.mark.parametrize("shape", POINTS)
    def test_the_exact_sum_is_enclosed(self, shape, weights):
        for names in self.can():
            if "waves" in names and shape == "offset 1e8":
                continue  # angles of 1e8 have no digits to spare
            points, columns, truths = hard_case(shape, weights, names)
            found = self.sums(make_term(names)[0], points, columns, count=10**6)
            if found is not None:
                for c, truth in enumerate(truths):
                    # products of tiny weights underflow: Sums charges that, as many times TINY as there are points
                    assert abs(mpf(found[c].mid) - truth) <= mpf(found[c].rad) + 11 * mpf(2) ** -1020

    @pytest.mark.parametrize("whole", [True, False])
    @pytest.mark.parametrize("weights", ["signed", "canceling"])
    def test_it_agrees_with_the_reference_and_its_radius_is_of_use(self, weights, whole):
        rng = np.random.default_rng(6)
        points, columns = _points(rng, 1300), WEIGHTS[weights](rng, 1300)
        for names in self.can(whole=whole):
            term, _ = make_term(names)
            found = self.sums(term, points, columns, batches=3, whole=whole, count=1300 if whole else 10**6)
            if found is not None:
                share = NumpyPairs().own(term, points, columns, Serial())
                masses = [upper_sum(np.abs(columns[:, c])) ** 2 for c in range(2)]
                for one, other, mass in zip(found, enclose(share, masses), masses, strict=True):
                    assert abs(one.mid - other.mid) <= one.rad + other.rad
                    assert one.rad <= 1e-8 * 3 * mass

    @pytest.mark.parametrize("whole", [True, False])
    @pytest.mark.parametrize("cuts", [2, 5])
    def test_merged_halves_enclose_the_same_number(self, cuts, whole):
        rng = np.random.default_rng(7)
        points, columns = np.vstack([_points(rng, 1190), 9.0 + _points(rng, 10)]), rng.normal(size=(1200, 2))
        for names in self.can(whole=whole):
            term, _ = make_term(names)
            count = 1200 if whole else 10**6
            alone = self.sums(term, points, columns, whole=whole, count=count)
            merged = self.sums(term, points, columns, whole=whole, count=count, cuts=cuts, batches=2)
            if alone is not None:
                for one, other in zip(alone, merged, strict=True):
                    assert abs(one.mid - other.mid) <= one.rad + other.rad
                    assert 0.9 * one.rad <= other.rad <= 3 * one.rad + 1e-300  # what a half was charged is not lost
                    assert abs(one.mid) > 1e3 * one.rad  # a share that got lost would show

    def test_forks_in_another_process_leave_no_trace(self):
        """Those that can work there are made from what travels, and what they have seen travels back."""
        rng = np.random.default_rng(7)
        points, columns = _points(rng, 1200), rng.normal(size=(1200, 2))
        for names in self.can(whole=False):
            term, _ = make_term(names)

            def send(partial):
                fork = forked(partial)
                return partial if fork is partial else travel(fork)

            known = {"whole": False, "count": 10**6, "cuts": 3}
            assert self.sums(term, points, columns, **known) == self.sums(term, points, columns, send=send, **known)

    @pytest.mark.parametrize("whole", [True, False])
    def test_nothing_sums_to_nothing(self, whole):
        rng = np.random.default_rng(8)
        points, nobody = _points(rng, 2000), np.zeros((0, 2))
        for names in self.can(whole=whole):
            term, _ = make_term(names)
            survey = self.survey(points, whole=whole, count=10**6)
            if self.engine.cost(term, survey) is None:
                continue
            partial = self.engine.begin(term, survey)
            if (fork := forked(partial)) is not partial:
                partial.merge(fork)
            for value in enclose(partial.value(), [upper_sum(nobody[:, 0])] * 2):
                assert value.mid == 0.0
                assert value.rad <= 1e-290
            partial.close()

    def test_threads_leave_no_trace(self):
        rng = np.random.default_rng(9)
        points, columns = _points(rng, 2500), rng.normal(size=(2500, 2))
        for names in self.can():
            term, _ = make_term(names)
            one, two = (self.sums(term, points, columns, executor=executor) for executor in (Serial(), Threads(2)))
            assert one == two

    def test_values_enclose_the_exact_ones(self):
        rng = np.random.default_rng(10)
        x, y, columns = _points(rng, 4), _points(rng, 9), rng.normal(size=(9, 2))
        for names in self.can():
            term, twin = make_term(names)
            crossed = self.engine.cross(term, x, y, columns, Serial())
            if crossed is None:
                continue
            size, error = term.bounds(x, y)
            for i in range(4):
                for c in range(2):
                    truth = sum((mpf(float(columns[j, c])) * twin(x[i], y[j]) for j in range(9)), mpf(0))
                    allowed = np.abs(columns[:, c]).sum() * (
                        max(error, crossed.error) + size * (crossed.roundings + 4) * U
                    )
                    assert abs(mpf(float(crossed.values[i, c])) - truth) <= mpf(float(allowed))

    def test_errors_of_weights_are_charged_on_top(self):
        """All weights too large by one share: through `Sums`, with this engine alone."""
        rng = np.random.default_rng(11)
        points, weights, share = _points(rng, 1500), np.abs(rng.normal(size=(1, 1500, 1))), 1e-6
        sums = EngineSums((self.engine,), Serial())
        for names in self.can():
            term, _ = make_term(names)
            survey = self.survey(points)
            if self.engine.cost(term, survey) is None:
                continue
            (right,) = sums.squares((term,), Measure(points, weights))
            (wrong,) = sums.squares((term,), Measure(points, weights * (1 + share), share))
            assert wrong.lower <= right.upper
            assert wrong.rad >= 1.9 * share * right.mid
