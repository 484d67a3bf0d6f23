"""Kernel sums by the cheapest engine: what the product uses in place of the reference (`bondic.core.sums`).

Every engine encloses the same numbers. Which one is taken depends on the points and weights alone, never on how they are
stored, so a log gives the same bits whether it is held in memory or read in batches, with any number of threads and processes.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from bondic.core.bounded import Enclosure, FloatArray
from bondic.core.errors import InvalidInput
from bondic.core.kernels.base import FeatureLeaf, check_elementary_functions
from bondic.core.kernels.normal_form import Term
from bondic.core.sums.forms import Charges, Crossed, Progress, Sums, embedded
from bondic.core.sums.measure import Measure, Source
from bondic.core.sums.reference import REFERENCE
from bondic.engines.engine import Engine, Partial, Serializable, Survey
from bondic.engines.remote import Remote
from bondic.engines.standard import named_engines
from bondic.engines.threads import Serial, Threads, in_order


@dataclass(frozen=True, eq=False)
class Added:
    """What one part adds."""

    charges: Charges
    digest: str  # of points and weights
    forks: tuple[Partial | None, ...] = ()  # of every sum that travels; none for a part without weights

    @staticmethod
    def of(terms: tuple[Term, ...], batch: Measure) -> tuple[Added, FloatArray, FloatArray]:
        """The charges, with distinct points and their weights."""
        charges, points, weights = Charges.of(terms, batch)
        digest = hashlib.blake2b()
        for array in (batch.points, batch.weights):
            digest.update(np.ascontiguousarray(array).data)
        return Added(charges, digest.hexdigest()), points, weights


@dataclass(frozen=True, eq=False)
class Pass:
    """One pass over the points. Where all sums travel it can be pickled, and another process does the same.

    Parts are added to forks of their own, wherever that is done, and merged in their order: where a part was added up leaves no
    trace.
    """

    terms: tuple[Term, ...]
    sums: tuple[
        Partial | None, ...
    ]  # empty forks, or the sums themselves where points have to come to them; None: done

    @staticmethod
    def of(terms: tuple[Term, ...], partials: list[Partial]) -> Pass:
        return Pass(terms, tuple(_forked(part) if part.wants_more else None for part in partials))

    def __setstate__(self, state: dict[str, Any]) -> None:
        check_elementary_functions()
        vars(self).update(state, terms=tuple(term.interned() for term in state["terms"]))

    @property
    def is_serializable(self) -> bool:
        return all(part is None or part.is_serializable for part in self.sums)

    def add(self, batch: Measure) -> Added:
        """What a part adds; sums whose points have to come to them take them at once."""
        added, points, weights = Added.of(self.terms, batch)
        if not points.shape[0]:
            return added
        forks = tuple(None if part is None else _forked(part) for part in self.sums)
        for term, fork in zip(self.terms, forks, strict=True):
            if fork is not None:
                fork.add(points, embedded(term, weights))
        return Added(added.charges, added.digest, forks)


def _forked(part: Partial) -> Partial:
    return part.fork() if part.is_serializable and isinstance(part, Serializable) else part


class Account:
    """What the points of all passes are charged; every pass has to see the same ones."""

    def __init__(self, terms: tuple[Term, ...]) -> None:
        self.terms = terms
        self._charges: Charges | None = None
        self._digest, self._before = hashlib.blake2b(), b""

    @property
    def count(self) -> int:
        """Points of the first pass, so far."""
        return 0 if self._charges is None else self._charges.count

    def take(self, added: Added, *, first: bool, partials: list[Partial] | None = None) -> None:
        """A part, which is charged in the first pass; every sum takes over what its fork has seen."""
        self._digest.update(added.digest.encode())
        if first:
            self._charges = added.charges if self._charges is None else self._charges.plus(added.charges)
        for part, fork in zip(partials or (), added.forks, strict=False):
            if isinstance(part, Serializable) and isinstance(fork, Serializable) and fork is not part:
                part.merge(fork)

    def end_pass(self) -> None:
        """Sums from several passes belong together only if all passes saw the same points and weights."""
        if self._before not in (b"", self._digest.digest()):
            raise InvalidInput(
                "Points or weights changed between two passes over the log. A policy has to return the same answers for the "
                "same states: draw actions from the `rng` that it gets, or load the log (the policy is then evaluated once)."
            )
        self._before, self._digest = self._digest.digest(), hashlib.blake2b()

    def total(self, partials: list[Partial]) -> list[Enclosure]:
        assert self._charges is not None, "a stream has at least one batch"
        return self._charges.total(self.terms, [part.values() for part in partials])


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
        account = Account(terms)
        if _numbers(source.count, source.dimension, source.groups * source.slots) <= MAX_HELD:
            return self._held(account, source, progress)
        return self._streamed(account, source, progress)

    def _held(self, account: Account, source: Source, progress: Progress | None) -> list[Enclosure]:
        added, points, weights = Added.of(account.terms, Measure.joined(source.batches()))
        account.take(added, first=True)
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
                reading = Pass.of(account.terms, partials)
                for added in self._added(source, reading):
                    account.take(added, first=first, partials=partials)
                    if progress is not None:
                        progress(min(1.0, account.count / max(source.count, 1)) if first else 1.0)
                account.end_pass()
                for part in partials:
                    if part.wants_more:
                        part.end_pass()
                first = False
            return account.total(partials)

    def _added(self, source: Source, reading: Pass) -> Iterator[Added]:
        """What every batch of one pass adds; batches that other processes make are added up there, where that is possible."""
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

    def features(self, leaf: FeatureLeaf, x: FloatArray) -> FloatArray:
        """phi(x) of a leaf, off by no more than `leaf.feature_error`."""
        for engine in self._engines():
            found = engine.features(leaf, x)
            if found is not None:
                return found
        return leaf.features(x)

    def seconds(self, terms: tuple[Term, ...], count: int, points: FloatArray) -> float:
        """About how long one core needs for the sum over `count` different points, of which these are some."""
        total = 0.0
        for term in terms:
            survey = Survey(count, points, None, 1, term.embedding.shape[1], self._executor())
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
