"""What a part of the points adds to a sum: to the charges that all terms share, and to the sum of every term.

Parts are added to forks of their own, wherever that is done, and merged in their order. So it leaves no trace where a part
was added up: here, or in another process that was sent the `Pass`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from bondic.core.bounded import Enclosure, FloatArray
from bondic.core.errors import InvalidInput
from bondic.core.kernels.checks import check_elementary_functions
from bondic.core.kernels.normal_form import Term
from bondic.core.sums.forms import Charges, embedded
from bondic.core.sums.measure import Measure
from bondic.engines.engine import Partial, Traveling


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
    """One pass over the points. Where all sums travel it can be pickled, and another process does the same."""

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
    def travels(self) -> bool:
        return all(part is None or part.travels for part in self.sums)

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
    return part.fork() if part.travels and isinstance(part, Traveling) else part


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
            if isinstance(part, Traveling) and isinstance(fork, Traveling) and fork is not part:
                part.merge(fork)

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
