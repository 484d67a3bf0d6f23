"""What a part of the points adds to a sum: to the account that all terms share, and to the sum of every term.

Parts are added to forks of their own, whoever does it, and taken over in their order. So it leaves no trace where a part was
added up: here, or in another process that was sent the `Order`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import TINY, Enclosure, U, inflate, upper_sum
from bondic.core.errors import InvalidInput
from bondic.core.kernels.checks import check_elementary_functions
from bondic.core.kernels.normal_form import Term
from bondic.core.sums.engine import Arrays, Engine, Partial, Traveling, enclose
from bondic.core.sums.measure import Measure
from bondic.core.sums.standard import named_engines

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Prepared = tuple[FloatArray, FloatArray]  # distinct points, weights (N, G, slots)


def embedded(term: Term, weights: FloatArray) -> FloatArray:
    """Weights (N, G, slots) -> embedded columns (N, G p), group by group."""
    return np.ascontiguousarray(term.columns(weights)).reshape(weights.shape[0], -1)


def masses(weights: FloatArray) -> FloatArray:
    """sum_i |v_ia| for every slot, rounded up; weights (N, slots)."""
    return np.array([upper_sum(np.abs(weights[:, slot])) for slot in range(weights.shape[1])])


@dataclass(frozen=True, eq=False)
class Added:
    """What one part adds."""

    count: int  # points
    relative: float  # error of the weights, of merging and of embedding them
    given: FloatArray  # (G, slots) absolute weights, rounded up
    merged: FloatArray  # (G, slots) the same after equal points were merged
    sizes: FloatArray  # (terms,) largest kernel values
    digest: str  # of points and weights
    seen: tuple[dict[str, npt.NDArray[Any]], ...] = ()  # by every sum that wants it; empty where that was done at once

    @staticmethod
    def of(terms: tuple[Term, ...], batch: Measure) -> tuple[Added, Prepared]:
        """The share of the account, with distinct points and their weights."""
        points, weights, merging = batch.distinct()
        digest = hashlib.blake2b()
        for array in (batch.points, batch.weights):
            digest.update(np.ascontiguousarray(array).data)
        found = Added(
            batch.count,
            batch.error + merging + (batch.slots + 8) * U,
            np.array([masses(group) for group in batch.weights]),
            np.array([masses(weights[:, g]) for g in range(batch.groups)]),
            np.array([term.bounds(points, points)[0] for term in terms] if points.shape[0] else [0.0] * len(terms)),
            digest.hexdigest(),
        )
        return found, (points, weights)


@dataclass(frozen=True, eq=False)
class Order:
    """One pass over the points, as data: the terms, and what forks of those sums that want more have to know."""

    terms: tuple[Term, ...]
    wanting: tuple[int, ...]  # terms whose sums want this pass
    engines: tuple[str, ...]  # names of theirs
    widths: tuple[int, ...]  # and their embedded columns
    errands: tuple[dict[str, npt.NDArray[Any]] | None, ...]  # None: the points have to come to the sum

    @staticmethod
    def of(terms: tuple[Term, ...], engines: list[Engine], partials: list[Partial], widths: list[int]) -> Order:
        wanting = tuple(k for k, part in enumerate(partials) if part.wants_more)
        names, columns = tuple(engines[k].name for k in wanting), tuple(widths[k] for k in wanting)
        return Order(terms, wanting, names, columns, tuple(_errand(engines[k], partials[k]) for k in wanting))

    @property
    def travels(self) -> bool:
        """Whether another process can do it."""
        return all(errand is not None for errand in self.errands)

    def add(self, batch: Measure, partials: list[Partial]) -> Added:
        """A part that was made here; sums whose points have to come to them take them at once."""
        return self._add(batch, [partials[k] for k in self.wanting])

    def add_elsewhere(self, batch: Measure) -> Added:
        """The same in another process, which has the order alone."""
        check_elementary_functions()
        known = {engine.name: engine for engine in named_engines("auto")}
        sums = zip(self.wanting, self.engines, self.widths, self.errands, strict=True)
        return self._add(batch, [known[name].sent(self.terms[k], width, data or {}) for k, name, width, data in sums])

    def _add(self, batch: Measure, sums: list[Any]) -> Added:
        added, (points, weights) = Added.of(self.terms, batch)
        if not points.shape[0]:
            return added
        seen: list[Arrays] = []
        for k, part, errand in zip(self.wanting, sums, self.errands, strict=True):
            fork = part if errand is None else part.fork()
            fork.add(points, embedded(self.terms[k], weights))
            seen.append({} if errand is None else fork.seen())
        return replace(added, seen=tuple(seen))

    def take(self, added: Added, partials: list[Partial]) -> None:
        """Every sum takes over what its fork has seen."""
        for k, seen in zip(self.wanting, added.seen, strict=False):  # a part without weights has none
            part = partials[k]
            if seen and isinstance(part, Traveling):
                part.take(seen)


def _errand(engine: Engine, part: Partial) -> Arrays | None:
    if not isinstance(part, Traveling) or not engine.known_elsewhere:
        return None
    return part.errand()


class Account:
    """What all terms share: absolute weights before and after merging, errors of weights, sizes of the kernel values."""

    def __init__(self, terms: tuple[Term, ...], groups: int, slots: int) -> None:
        self.terms, self._groups, self.seen, self._batches = terms, groups, 0, 0
        self._given, self._merged = np.zeros((groups, slots)), np.zeros((groups, slots))
        self._sizes, self._relative = np.zeros(len(terms)), 0.0
        self._digest, self._before = hashlib.blake2b(), b""

    def prepare(self, batch: Measure) -> Prepared:
        """Distinct points of all there are, and their weights; they are put on the account."""
        added, prepared = Added.of(self.terms, batch)
        self.take(added, first=True)
        return prepared

    def take(self, added: Added, *, first: bool) -> None:
        """A part, which is on the account from the first pass on."""
        self._digest.update(added.digest.encode())
        if first:
            self.seen, self._batches = self.seen + added.count, self._batches + 1
            self._relative = max(self._relative, added.relative)
            self._given, self._merged = self._given + added.given, self._merged + added.merged
            self._sizes = np.maximum(self._sizes, added.sizes)

    def end_pass(self) -> None:
        """Sums from several passes belong together only if all passes saw the same points and weights."""
        if self._before not in (b"", self._digest.digest()):
            raise InvalidInput(
                "Points or weights changed between two passes over the log. A policy has to give the same answers when it "
                "is asked again: draw from the generator it is given, or load the log (it is then asked once)."
            )
        self._before, self._digest = self._digest.digest(), hashlib.blake2b()

    def total(self, partials: list[Partial]) -> list[Enclosure]:
        """Terms added; weights that are off by a relative e move a square by (2 e + e^2) of its mass."""
        totals = [Enclosure(0.0)] * self._groups
        spread = 2 * self._relative + self._relative**2
        for term, size, part in zip(self.terms, self._sizes.tolist(), partials, strict=True):
            found = enclose(part.values(), self._groups, self._squares(self._merged, term))
            for g, (value, square) in enumerate(zip(found, self._squares(self._given, term), strict=True)):
                error = value.rad + square * size * spread + self.seen * max(1.0, size) * TINY
                totals[g] = totals[g] + Enclosure(value.mid, inflate(error))
        return totals

    def _squares(self, masses: FloatArray, term: Term) -> list[float]:
        """sum_p ( sum_i sum_a |v_ia| |E_ap| )^2 for every group, rounded up; an embedding may cancel, its roundings do not."""
        columns = masses * (1 + 2 * (self._batches - 1) * U) @ np.abs(term.embedding)
        return [inflate(float(row @ row) * (1 + 1e-12)) for row in columns]
