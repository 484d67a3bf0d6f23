"""Any kernel expression as a sum of products: the form in which sums are evaluated.

    k((z, a), (y, b)) = sum_terms  c * prod_f f(z[cols], y[cols]) * (E_a . E_b)

z holds the vector parts of a point; `a` is the slot of a discrete action (continuous actions are part of z and
there is one slot). E is the action embedding of the term: identity for Dirac, ones for "does not look at actions".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from bondic.core.bounded import FloatArray, U
from bondic.core.errors import InvalidInput

if TYPE_CHECKING:
    from bondic.core.kernels.base import Kernel, Leaf


MAX_TERMS, MAX_COLUMNS = 256, 4096
"""A product of sums, and of embeddings, grows like a power: refused before it is written out."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the parts of a point live: columns [observation | time? | action?], and the number of action slots."""

    observation_dim: int
    has_time: bool
    action_dim: int  # 0 for discrete actions
    slots: int  # number of discrete actions; 1 for continuous ones

    @property
    def discrete(self) -> bool:
        return self.action_dim == 0

    @property
    def dimension(self) -> int:
        return self.observation_dim + int(self.has_time) + self.action_dim

    def columns(self, part: str) -> tuple[int, ...]:
        if part == "time" and not self.has_time:
            raise InvalidInput("A kernel acts on time, but the problem has none: pass horizon= or time_varying=True.")
        observation, state = self.observation_dim, self.observation_dim + int(self.has_time)
        first = {"time": observation, "action": state}.get(part, 0)
        stop = {"observation": observation, "time": state, "state": state}.get(part, self.dimension)
        return tuple(range(first, stop))


@dataclass(frozen=True, eq=False)
class Term:
    """One product of the normal form."""

    coefficient: float
    factors: tuple[tuple[Leaf, tuple[int, ...]], ...]
    embedding: FloatArray  # (slots, p)

    def block(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """The matrix of the vector part, coefficient included: c * prod_f f(x_i, y_j)."""
        total: FloatArray | None = None
        for leaf, columns in self.factors:
            values = leaf.block(x[:, columns], y[:, columns])
            total = values if total is None else total * values
        if total is None:
            return np.full((x.shape[0], y.shape[0]), self.coefficient)
        return total if self.coefficient == 1.0 else total * self.coefficient

    def diag(self, x: FloatArray) -> FloatArray:
        total = np.full(x.shape[0], self.coefficient)
        for leaf, columns in self.factors:
            total = total * leaf.diag(x[:, columns])
        return total

    def bounds(self, x: FloatArray, y: FloatArray) -> tuple[float, float]:
        """(largest |value|, absolute error of a computed value) of `block`."""
        size, error = self.coefficient, 0.0
        for leaf, columns in self.factors:
            mine = x[:, columns]
            others = mine if y is x else y[:, columns]
            largest, own = leaf.max_abs(mine, others), leaf.value_error(mine, others)
            # (size + error)(largest + own) - size largest, written without a difference of near-equal numbers
            error = error * (largest + own) + size * own
            size *= largest
        rounding = (len(self.factors) + 5) * U * (size + error)
        return size * (1 + 1e-12), error * (1 + 1e-9) + rounding

    def columns(self, weights: FloatArray) -> FloatArray:
        """Slot weights (..., slots) -> embedded weight columns (..., p)."""
        if self.embedding is identity(self.embedding.shape[0]):
            return weights
        return np.asarray(weights @ self.embedding)

    def interned(self) -> Term:
        """The term with the one identity matrix there is, where it has a copy of it."""
        one = identity(self.embedding.shape[0])
        return replace(self, embedding=one) if np.array_equal(self.embedding, one) else self

    @property
    def embedding_norm(self) -> float:
        """max_a sum_p |E_ap|, how much absolute slot weight an embedded column can carry."""
        return float(np.abs(self.embedding).sum(axis=1).max())


@cache
def identity(size: int) -> FloatArray:
    """The one identity matrix of this size: terms that hold it are recognized by it."""
    matrix = np.eye(size)
    matrix.flags.writeable = False
    return matrix


def normal_form(kernel: Kernel, layout: Layout) -> tuple[Term, ...]:
    """Expand a kernel expression on this layout."""
    if (count := kernel.term_count) > MAX_TERMS:
        raise InvalidInput(
            f"The kernel has {count} terms when its products are written out, and at most {MAX_TERMS} are evaluated. Use "
            "fewer sums inside of products."
        )
    return kernel.terms(layout)


def operations(kernel: Kernel, layout: Layout) -> float:
    """Per pair of points, about: factors and embedding columns of all terms."""
    return math.fsum(len(term.factors) + term.embedding.shape[1] for term in normal_form(kernel, layout))


def multiply(terms: Sequence[Term]) -> Term:
    """The product of terms: factors one after the other, embeddings as tensor products (ones are left out)."""
    looking = [term.embedding for term in terms if term.embedding.shape[1] > 1 or np.any(term.embedding != 1.0)]
    embedding = looking[0] if looking else terms[0].embedding
    for other in looking[1:]:
        if (width := embedding.shape[1] * other.shape[1]) > MAX_COLUMNS:
            raise InvalidInput(
                f"A product of kernels on actions has {width} embedding columns, more than {MAX_COLUMNS}: multiply fewer of "
                "them (Dirac times Dirac is Dirac)."
            )
        embedding = (embedding[:, :, None] * other[:, None, :]).reshape(len(embedding), -1)
    factors = tuple(factor for term in terms for factor in term.factors)
    return Term(math.prod(term.coefficient for term in terms), factors, embedding)
