"""What a part of the points adds to a sum: to the charges that all terms share, and to the sum of every term.

Parts are added to forks of their own, wherever that is done, and taken over in their order. So it leaves no trace where a part
was added up: here, or in another process that was sent the `Order`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import Enclosure, FloatArray
from bondic.core.errors import InvalidInput
from bondic.core.kernels.base import check_elementary_functions
from bondic.core.kernels.normal_form import Term
from bondic.core.sums.forms import Charges, embedded
from bondic.core.sums.measure import Measure
from bondic.engines.engine import Arrays, Engine, Partial, Traveling
from bondic.engines.standard import named_engines


@dataclass(frozen=True, eq=False)
class Added:
    """What one part adds."""

    charges: Charges
    digest: str  # of points and weights
    seen: tuple[Arrays, ...] = ()  # by every sum that wants it; empty where that was done at once

    @staticmethod
    def of(terms: tuple[Term, ...], batch: Measure) -> tuple[Added, FloatArray, FloatArray]:
        """The charges, with distinct points and their weights."""
        charges, points, weights = Charges.of(terms, batch)
        digest = hashlib.blake2b()
        for array in (batch.points, batch.weights):
            digest.update(np.ascontiguousarray(array).data)
        return Added(charges, digest.hexdigest()), points, weights


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

    def add_remote(self, batch: Measure) -> Added:
        """The same in another process, which has the order alone."""
        check_elementary_functions()
        known = {engine.name: engine for engine in named_engines("auto")}
        order = replace(self, terms=tuple(term.interned() for term in self.terms))
        sums = zip(self.wanting, self.engines, self.widths, self.errands, strict=True)
        return order._add(batch, [known[name].sent(order.terms[k], width, data or {}) for k, name, width, data in sums])

    def _add(self, batch: Measure, sums: list[Any]) -> Added:
        added, points, weights = Added.of(self.terms, batch)
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
    if not isinstance(part, Traveling) or not engine.known_by_name:
        return None
    return part.errand()


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

    def take(self, added: Added, *, first: bool) -> None:
        """A part, which is charged in the first pass."""
        self._digest.update(added.digest.encode())
        if first:
            self._charges = added.charges if self._charges is None else self._charges.plus(added.charges)

    def end_pass(self) -> None:
        """Sums from several passes belong together only if all passes saw the same points and weights."""
        if self._before not in (b"", self._digest.digest()):
            raise InvalidInput(
                "Points or weights changed between two passes over the log. A policy has to give the same answers when it "
                "is asked again: draw from the generator it is given, or load the log (it is then asked once)."
            )
        self._before, self._digest = self._digest.digest(), hashlib.blake2b()

    def total(self, partials: list[Partial]) -> list[Enclosure]:
        assert self._charges is not None, "a stream has at least one batch"
        return self._charges.total(self.terms, [part.values() for part in partials])
