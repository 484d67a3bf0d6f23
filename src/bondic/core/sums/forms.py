"""Kernel sums with proved errors (section 11): c^T K c, K C, norms of rows. Whatever they are charged is charged here.

Engines return totals with the accuracy of their own arithmetic; what comes from the weights is added to it:

    | computed - exact | <= sum_terms sum_p [ m_p^2 relative + absolute + M_p^2 K_max ( 2 e_c + e_c^2 ) ],

m_p and M_p the sums of absolute weights of embedded column p after and before equal points are merged (cancellation must
not hide an error), e_c the relative error of the weights, of merging and of embedding them.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import TINY, Enclosure, U, inflate
from bondic.core.errors import InvalidInput
from bondic.core.kernels.base import FeatureLeaf
from bondic.core.kernels.checks import check_elementary_functions
from bondic.core.kernels.normal_form import Term
from bondic.core.sums import rowwise, total_variation
from bondic.core.sums.account import Account, Added, Order, embedded, masses
from bondic.core.sums.engine import Crossed, Engine, Partial, Progress, Survey
from bondic.core.sums.executor import Executor
from bondic.core.sums.linear import Constants, Features
from bondic.core.sums.measure import Measure, Source, check_finite
from bondic.core.sums.reference import Reference
from bondic.core.sums.rowwise import RowMeasures
from bondic.core.sums.standard import named_engines
from bondic.executors.remote import Remote
from bondic.executors.threads import Serial, Threads, in_order

FloatArray = npt.NDArray[np.float64]

MOST_HELD = 2**24
"""Numbers of points and weights that are held at once; a sum over more of them reads its batches one after the other."""
SECONDS = 1e-10
"""What a unit of cost takes on one core, about: engines measure theirs in it."""
STREAMED_TOGETHER, STREAMED_COLUMNS = 4, 32
"""Weightings of a long log that are summed in one reading: so many, or more where they have few columns in all."""


@dataclass(frozen=True, eq=False)
class Sums:
    """Kernel sums by the cheapest of these engines; no engines named: all that the library has.

    Every engine encloses the same numbers. Which one is taken depends on the points and weights alone, never on how they
    are stored, so a log gives the same bits whether it is held in memory or read in batches.
    """

    engines: tuple[Engine, ...] | None = None
    executor: Executor | concurrent.futures.Executor | None = (
        None  # the latter: for blocks of a log that is read from files
    )

    def __post_init__(self) -> None:
        if isinstance(self.executor, concurrent.futures.Executor):
            object.__setattr__(self, "executor", Remote(self.executor))

    @staticmethod
    def named(name: str | Sums) -> Sums:
        """The engines behind a name: auto, pairs, series or reference; sums stay as they are."""
        if isinstance(name, Sums):
            return name
        return Sums.reference() if name == "reference" else Sums(named_engines(name))

    @staticmethod
    def reference() -> Sums:
        """From the definition alone: NumPy, no compiled code."""
        return Sums((Constants(), Features(), Reference()), Serial())

    def squares(self, terms: tuple[Term, ...], source: Source, progress: Progress | None = None) -> list[Enclosure]:
        """sum_{i,j,a,b} v_ia k((z_i, a), (z_j, b)) v_jb with its error for every weighting v of the source."""
        check_elementary_functions()
        account = Account(terms, source.groups, source.slots)
        if _numbers(source.count, source.dimension, source.groups * source.slots) <= MOST_HELD:
            return self._held(account, source, progress)
        return self._streamed(account, source, progress)

    def _held(self, account: Account, source: Source, progress: Progress | None) -> list[Enclosure]:
        points, weights = account.prepare(Measure.joined(source.batches()))
        if not points.shape[0]:  # points without weight add exactly nothing
            return [Enclosure(0.0)] * source.groups
        count, executor = points.shape[0], self._executor()
        surveys = []
        for term in account.terms:
            columns = embedded(term, weights)
            surveys.append(Survey(count, points, columns, source.groups, columns.shape[1], executor, progress))
        engines = [self._choose(term, survey) for term, survey in zip(account.terms, surveys, strict=True)]
        with _begun(account, engines, surveys) as partials:
            while wanting := [
                (part, survey) for part, survey in zip(partials, surveys, strict=True) if part.wants_more
            ]:
                for part, survey in wanting:
                    assert survey.columns is not None
                    part.add(points, survey.columns)
                    part.end_pass()
            return account.total(partials)

    def _streamed(self, account: Account, source: Source, progress: Progress | None) -> list[Enclosure]:
        """All terms in as few readings as they want; every part is added to forks of its own, here or elsewhere."""
        sample, executor, groups = source.sample(), self._executor(), source.groups
        widths = [groups * term.embedding.shape[1] for term in account.terms]
        surveys = [Survey(source.count, sample, None, groups, width, executor) for width in widths]
        engines = [self._choose(term, survey) for term, survey in zip(account.terms, surveys, strict=True)]
        with _begun(account, engines, surveys) as partials:
            first = True
            while first or any(part.wants_more for part in partials):
                order = Order.of(account.terms, engines, partials, widths)
                add = partial(_added, order, partials)
                for added in in_order(add, source.pieces(order), self.workers if order.travels else 1):
                    account.take(added, first=first)
                    order.take(added, partials)
                    if progress is not None:
                        progress(min(1.0, account.seen / max(source.count, 1)) if first else 1.0)
                account.end_pass()
                for k in order.wanting:
                    partials[k].end_pass()
                first = False
            return account.total(partials)

    def _choose(self, term: Term, survey: Survey) -> Engine:
        best: Engine | None = None
        least = np.inf
        for engine in self._engines():
            cost = engine.cost(term, survey)
            if cost is not None and cost < least:
                best, least = engine, cost
        if best is None:
            raise _nobody(term, self._engines())
        return best

    def values(
        self, terms: tuple[Term, ...], x: FloatArray, y: FloatArray, weights: FloatArray
    ) -> tuple[FloatArray, float]:
        """f(x_i, a) = sum_j sum_b k((x_i, a), (y_j, b)) w_jb for every slot a: values (m, slots) and their error.

        The weights are taken as exact: they define the function.
        """
        check_finite(x, weights)
        check_finite(y, weights)
        check_elementary_functions()
        slots = weights.shape[1]
        values, error = np.zeros((x.shape[0], slots)), 0.0
        mass = masses(weights)
        for term in terms:
            size, value_error = term.bounds(x, y)
            part = self._cross(term, x, y, np.ascontiguousarray(term.columns(weights)))
            values = values + part.values @ term.embedding.T
            largest = float(np.abs(term.embedding).max())
            column_mass = float((mass @ np.abs(term.embedding)).sum()) * largest
            # every term is added to at most len(terms) others
            roundings = (part.roundings + 2 * slots + term.embedding.shape[1] + len(terms) + 16) * U
            underflow = (y.shape[0] + 16) * max(1.0, size) * max(1.0, largest) * TINY
            error += column_mass * (max(value_error, part.error) + size * roundings) + underflow
        return values, inflate(error * (1 + (len(terms) + 2) * U))

    def _cross(self, term: Term, x: FloatArray, y: FloatArray, columns: FloatArray) -> Crossed:
        for engine in self._engines():
            found = engine.cross(term, x, y, columns, self._executor())
            if found is not None:
                return found
        raise _nobody(term, self._engines())

    def features(self, leaf: FeatureLeaf, x: FloatArray) -> FloatArray:
        """phi(x) of a leaf, off by no more than `leaf.feature_error`."""
        for engine in self._engines():
            found = engine.features(leaf, x)
            if found is not None:
                return found
        return leaf.features(x)

    def total_variations(self, source: Source) -> list[Enclosure]:
        """sum_x |μ(x)| over distinct points and slots, for every weighting."""
        return total_variation.total_variations(source)

    def row_norms(self, terms: tuple[Term, ...], measures: RowMeasures) -> FloatArray:
        """Upper bounds of |D_i|, one small measure per row."""
        check_elementary_functions()
        return rowwise.row_norms(terms, measures, self._executor())

    def row_products(self, function: rowwise.Valued, measures: RowMeasures) -> tuple[FloatArray, FloatArray]:
        """<f, D_i> for every row, and bounds of the errors."""
        return rowwise.row_products(function, measures, self)

    def seconds(self, terms: tuple[Term, ...], count: int, points: FloatArray) -> float:
        """About how long one core needs for the sum over `count` different points, of which these are some."""
        total = 0.0
        for term in terms:
            survey = Survey(count, points, None, 1, term.embedding.shape[1], self._executor())
            total += self._choose(term, survey).cost(term, survey) or 0.0
        return SECONDS * total

    def together(self, count: int, dimension: int, slots: int) -> int:
        """How many weightings of so many points to sum at once."""
        held = (MOST_HELD // max(count, 1) - dimension) // slots
        return max(STREAMED_TOGETHER, STREAMED_COLUMNS // slots, held)

    def _engines(self) -> tuple[Engine, ...]:
        return named_engines("auto") if self.engines is None else self.engines

    def _executor(self) -> Executor:
        assert not isinstance(self.executor, concurrent.futures.Executor)  # wrapped when these sums were made
        return Threads() if self.executor is None else self.executor

    @property
    def workers(self) -> int:
        """How many pieces of a sum may be worked on at a time in this process."""
        return self._executor().workers


def _added(order: Order, partials: list[Partial], piece: Measure | Added) -> Added:
    """What a piece adds; one that comes from another process says so itself."""
    return order.add(piece, partials) if isinstance(piece, Measure) else piece


@contextmanager
def _begun(account: Account, engines: list[Engine], surveys: list[Survey]) -> Iterator[list[Partial]]:
    """A sum of every term; what lies outside memory is given back at the end."""
    partials: list[Partial] = []
    try:
        for term, engine, survey in zip(account.terms, engines, surveys, strict=True):
            partials.append(engine.begin(term, survey))
        yield partials
    finally:
        for part in partials:
            part.close()


STANDARD = Sums()
"""The library's own engines, all cores: what functions and bounds use unless they are given another."""


def _numbers(count: int, dimension: int, columns: int) -> int:
    return count * (dimension + columns)


def _nobody(term: Term, engines: tuple[Engine, ...]) -> InvalidInput:
    leaves = " * ".join(repr(leaf) for leaf, _ in term.factors) or "a constant"
    known = ", ".join(engine.name for engine in engines) or "none"
    return InvalidInput(
        f"No engine of these sums ({known}) can do the term {leaves}. Add Reference() (bondic.core.sums.reference)."
    )
