"""Kernel sums by the cheapest engine: what the product uses in place of the reference (`bondic.core.sums`).

Every engine encloses the same numbers. Which one is taken depends on the points and weights alone, never on how they are
stored, so a log gives the same bits whether it is held in memory or read in batches, with any number of threads and processes.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from bondic.core.bounded import Enclosure, FloatArray
from bondic.core.errors import InvalidInput
from bondic.core.kernels.base import check_elementary_functions
from bondic.core.kernels.normal_form import Term
from bondic.core.sums.forms import Charges, Crossed, Progress, Sums, embedded
from bondic.core.sums.measure import Measure, Source
from bondic.core.sums.reference import REFERENCE
from bondic.engines.engine import Engine, Partial, Serializable, Survey
from bondic.engines.remote import Remote
from bondic.engines.standard import named_engines
from bondic.engines.threads import Serial, Threads, in_order


@dataclass(frozen=True, eq=False)
class Pass:
    """The sums of all terms. Where all of them travel it can be pickled, and another process does the same.

    Parts are added to forks of their own, wherever that is done, and merged in their order: where a part was added up leaves no
    trace.
    """

    terms: tuple[Term, ...]
    sums: tuple[Partial, ...]  # empty forks, or the sums themselves where points have to come to them

    def __setstate__(self, state: dict[str, Any]) -> None:
        check_elementary_functions()
        vars(self).update(state, terms=tuple(term.interned() for term in state["terms"]))

    @property
    def is_serializable(self) -> bool:
        return all(isinstance(part, Serializable) for part in self.sums)

    def add(self, batch: Measure) -> tuple[Charges, tuple[Partial, ...]]:
        """What a part is charged, and its forks (none without weights); sums that do not travel take the points at once."""
        charges, points, weights = Charges.of(self.terms, batch)
        if not points.shape[0]:
            return charges, ()
        forks = tuple(_forked(part) for part in self.sums)
        for term, fork in zip(self.terms, forks, strict=True):
            fork.add(points, embedded(term, weights))
        return charges, forks


def _forked(part: Partial) -> Partial:
    return part.fork() if isinstance(part, Serializable) else part


S = TypeVar("S")
T = TypeVar("T")

MAX_HELD = 2**24
"""Numbers of points and weights that are held at once; a sum over more of them reads its batches one after the other."""
SECONDS = 1e-10
"""What a unit of cost takes on one core, about: engines measure theirs in it."""
STREAMED_TOGETHER, STREAMED_COLUMNS = 4, 32
"""Weightings of a long log that are summed in one reading: so many, or more where they have few columns in all."""


@dataclass(frozen=True, eq=False)
class EngineSums(Sums):
    """Kernel sums by the cheapest of some engines.

    Parameters
    ----------
    engines : tuple of Engine, optional
        Where they come from; by default all that the library has.
    executor : Threads or concurrent.futures.Executor, optional
        What works on pieces of sums: threads on all cores by default. A `concurrent.futures.Executor` may work in other
        processes: it is used for blocks of a log that is read from files, and for pairs of blocks.
    """

    engines: tuple[Engine, ...] | None = None
    executor: Threads | concurrent.futures.Executor | None = None

    def __post_init__(self) -> None:
        if isinstance(self.executor, concurrent.futures.Executor):
            object.__setattr__(self, "executor", Remote(self.executor))

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process sums work alone."""
        return type(self), (self.engines, Serial())

    @staticmethod
    def named(name: str | Sums) -> Sums:
        """The sums behind a name (`EngineName`); sums stay as they are."""
        if isinstance(name, Sums):
            return name
        return REFERENCE if name == "reference" else EngineSums(named_engines(name))

    @property
    def pool(self) -> concurrent.futures.Executor | None:
        """What works in other processes, if something does."""
        return self.executor.pool if isinstance(self.executor, Remote) else None

    @property
    def remote(self) -> bool:
        """Whether blocks of a log may be worked on in other processes."""
        return isinstance(self.executor, Remote)

    def squares(self, terms: tuple[Term, ...], source: Source, progress: Progress | None = None) -> list[Enclosure]:
        """sum_{i,j,a,b} v_ia k((z_i, a), (z_j, b)) v_jb with its error for every weighting v of the source."""
        check_elementary_functions()
        if _numbers(source.count, source.dimension, source.groups * source.slots) <= MAX_HELD:
            return self._held(terms, source, progress)
        return self._streamed(terms, source, progress)

    def _held(self, terms: tuple[Term, ...], source: Source, progress: Progress | None) -> list[Enclosure]:
        charges, points, weights = Charges.of(terms, Measure.joined(source.batches()))
        if not points.shape[0]:  # points without weight add exactly nothing
            return [Enclosure(0.0)] * source.groups
        columns = [embedded(term, weights) for term in terms]
        executor = self._executor()
        surveys = [Survey(len(points), points, part.shape[1], executor, True, progress) for part in columns]
        with self._begun(terms, surveys) as partials:
            for partial, part in zip(partials, columns, strict=True):
                partial.add(points, part)
            return charges.total(terms, [part.value() for part in partials])

    def _streamed(self, terms: tuple[Term, ...], source: Source, progress: Progress | None) -> list[Enclosure]:
        """All terms in one reading; every part is added to forks of its own, here or elsewhere."""
        sample, executor = source.sample(), self._executor()
        widths = [source.groups * term.embedding.shape[1] for term in terms]
        surveys = [Survey(source.count, sample, width, executor) for width in widths]
        charges: Charges | None = None
        with self._begun(terms, surveys) as partials:
            for more, forks in self._added(source, Pass(terms, tuple(map(_forked, partials)))):
                charges = more if charges is None else charges.plus(more)
                for part, fork in zip(partials, forks, strict=False):
                    if isinstance(part, Serializable) and isinstance(fork, Serializable):
                        part.merge(fork)
                if progress is not None:
                    progress(min(1.0, charges.count / max(source.count, 1)))
            assert charges is not None, "a stream has at least one batch"
            return charges.total(terms, [part.value() for part in partials])

    @contextmanager
    def _begun(self, terms: tuple[Term, ...], surveys: list[Survey]) -> Iterator[list[Partial]]:
        """A sum of every term by its cheapest engine; what lies outside memory is given back at the end."""
        partials: list[Partial] = []
        try:
            for term, survey in zip(terms, surveys, strict=True):
                partials.append(self._choose(term, survey).begin(term, survey))
            yield partials
        finally:
            for part in partials:
                part.close()

    def _added(self, source: Source, reading: Pass) -> Iterator[tuple[Charges, tuple[Partial, ...]]]:
        """What every batch adds; batches that other processes make are added up there, where that is possible."""
        if self.remote and reading.is_serializable:
            return source.each(reading.add)
        return in_order(reading.add, source.batches(), self._executor().workers if reading.is_serializable else 1)

    def _choose(self, term: Term, survey: Survey) -> Engine:
        best: Engine | None = None
        least = np.inf
        for engine in self._engines():
            cost = engine.cost(term, survey)
            if cost is not None and cost < least:
                best, least = engine, cost
        if best is None:
            raise _no_engine_error(term, self._engines())
        return best

    def cross(self, term: Term, x: FloatArray, y: FloatArray, columns: FloatArray) -> Crossed:
        for engine in self._engines():
            found = engine.cross(term, x, y, columns, self._executor())
            if found is not None:
                return found
        raise _no_engine_error(term, self._engines())

    def seconds(self, terms: tuple[Term, ...], count: int, points: FloatArray) -> float:
        """About how long one core needs for the sum over `count` different points, of which these are some."""
        total = 0.0
        for term in terms:
            survey = Survey(count, points, term.embedding.shape[1], self._executor())
            total += self._choose(term, survey).cost(term, survey) or 0.0
        return SECONDS * total

    def together(self, count: int, dimension: int, slots: int) -> int:
        """How many weightings of so many points to sum at once."""
        held = (MAX_HELD // max(count, 1) - dimension) // slots
        return max(STREAMED_TOGETHER, STREAMED_COLUMNS // slots, held)

    def _engines(self) -> tuple[Engine, ...]:
        return named_engines("auto") if self.engines is None else self.engines

    def _executor(self) -> Threads:
        assert not isinstance(self.executor, concurrent.futures.Executor)  # wrapped when these sums were made
        return Threads() if self.executor is None else self.executor

    def in_order(self, task: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
        return in_order(task, items, self._executor().workers)

    def over_rows(self, task: Callable[[S], T], rows: Any) -> Iterator[T]:
        """In other processes, where these sums or the log have an executor and the rows are read from files."""
        executor = self.executor if isinstance(self.executor, Remote) else rows.executor
        if executor is not None and rows.kept is None:
            return executor.over_blocks(task, rows.sent(raw=False))
        return self.in_order(task, rows.batches())


STANDARD = EngineSums()
"""The library's own engines, all cores: what the product uses unless it is given another."""


def _numbers(count: int, dimension: int, columns: int) -> int:
    return count * (dimension + columns)


def _no_engine_error(term: Term, engines: tuple[Engine, ...]) -> InvalidInput:
    leaves = " * ".join(repr(leaf) for leaf, _ in term.factors) or "a constant"
    known = ", ".join(engine.name for engine in engines) or "none"
    return InvalidInput(
        f"No engine of these sums ({known}) can do the term {leaves}. Add NumpyPairs() (bondic.engines.spool)."
    )
