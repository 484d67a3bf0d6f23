"""Any kernel expression as a sum of products: the form in which sums are evaluated.

    k((z, a), (y, b)) = sum_terms  c * prod_f f(z[cols], y[cols]) * (E_a . E_b)

z holds the vector parts of a point; `a` is the slot of a discrete action (continuous actions are part of z and
there is one slot). E is the action embedding of the term: identity for Dirac, ones for "does not look at actions".
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import U
from bondic.core.errors import InvalidInput
from bondic.core.kernels.base import FloatArray, Kernel, Leaf, Product, Scaled, Sum, per_dimension
from bondic.core.kernels.constant import Constant
from bondic.core.kernels.dirac import ActionEmbedding, Dirac
from bondic.core.kernels.gaussian import Gaussian

IntArray = npt.NDArray[np.int64]


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
        d = self.observation_dim
        if part == "observation":
            return tuple(range(d))
        if part == "time":
            if not self.has_time:
                raise InvalidInput(
                    "A kernel acts on time, but the problem has none: pass horizon= or time_varying=True."
                )
            return (d,)
        if part == "state":
            return tuple(range(d + int(self.has_time)))
        if part == "action":
            return tuple(range(self.dimension - self.action_dim, self.dimension))
        return tuple(range(self.dimension))


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
        """Slot weights (N, slots) -> embedded weight columns (N, p)."""
        if self.embedding is _identity(self.embedding.shape[0]):
            return weights
        return np.asarray(weights @ self.embedding)

    def interned(self) -> Term:
        """The term with the one identity matrix there is, where it has a copy of it."""
        identity = _identity(self.embedding.shape[0])
        return replace(self, embedding=identity) if np.array_equal(self.embedding, identity) else self

    def between(self, x: IntArray, y: IntArray) -> FloatArray:
        """E_a . E_b for slots a of x and b of y, (N, M); with very many actions equality costs far less than a product."""
        slots = self.embedding.shape[0]
        if self.embedding is _identity(slots):
            return np.asarray(x[:, None] == y, dtype=np.float64)
        if slots <= _MOST_SIMILARITIES:
            return np.asarray(self._similarities[x[:, None], y])
        return np.asarray(self.embedding[x] @ self.embedding[y].T)

    @cached_property
    def _similarities(self) -> FloatArray:
        """E E', (slots, slots)."""
        return np.asarray(self.embedding @ self.embedding.T)

    @property
    def embedding_norm(self) -> float:
        """max_a sum_p |E_ap|, how much absolute slot weight an embedded column can carry."""
        return float(np.abs(self.embedding).sum(axis=1).max())


def joined_gaussian(factors: tuple[tuple[Leaf, tuple[int, ...]], ...]) -> tuple[list[int], FloatArray] | None:
    """A product of Gaussians is one Gaussian on the joined columns: (columns, bandwidths); None: there is another leaf."""
    scales = [
        per_dimension(leaf.bandwidth, len(columns), "The Gaussian kernel")
        for leaf, columns in factors
        if type(leaf) is Gaussian
    ]
    if not factors or len(scales) < len(factors):
        return None
    return [column for _, columns in factors for column in columns], np.concatenate(scales)


_IDENTITIES: dict[int, FloatArray] = {}


def _identity(size: int) -> FloatArray:
    if size not in _IDENTITIES:
        matrix = np.eye(size)
        matrix.flags.writeable = False
        _IDENTITIES[size] = matrix
    return _IDENTITIES[size]


_MOST_SIMILARITIES = 2000
"""Actions whose similarities are computed once for all pairs: 32 MB."""
MOST_TERMS = 256
MOST_COLUMNS = 4096
"""A product of sums, and of embeddings, grows like a power: refused before it is written out."""


def term_count(kernel: Kernel) -> int:
    """Number of terms of the normal form, without making them."""
    if isinstance(kernel, Sum):
        return sum(map(term_count, kernel.parts))
    if isinstance(kernel, Product):
        return math.prod(map(term_count, kernel.parts))
    return term_count(kernel.part) if isinstance(kernel, Scaled) else 1


def operations(kernel: Kernel, layout: Layout) -> float:
    """Per pair of points, about: factors and embedding columns of all terms."""
    return math.fsum(len(term.factors) + term.embedding.shape[1] for term in normal_form(kernel, layout))


def normal_form(kernel: Kernel, layout: Layout) -> tuple[Term, ...]:
    """Expand a kernel expression on this layout."""
    if (count := term_count(kernel)) > MOST_TERMS:
        raise InvalidInput(
            f"The kernel has {count} terms when its products are written out, and at most {MOST_TERMS} are evaluated. Use "
            "fewer sums inside of products."
        )
    return _expand(kernel, layout)


def _expand(kernel: Kernel, layout: Layout) -> tuple[Term, ...]:
    if isinstance(kernel, Sum):
        return tuple(itertools.chain.from_iterable(_expand(part, layout) for part in kernel.parts))
    if isinstance(kernel, Scaled):
        return tuple(
            Term(kernel.factor * term.coefficient, term.factors, term.embedding)
            for term in _expand(kernel.part, layout)
        )
    if isinstance(kernel, Product):
        expanded = [_expand(part, layout) for part in kernel.parts]
        return tuple(_multiply(combination) for combination in itertools.product(*expanded))
    if isinstance(kernel, Leaf):
        return (_leaf_term(kernel, layout),)
    raise InvalidInput(f"{kernel!r} is not a kernel of this library.")


def _leaf_term(leaf: Leaf, layout: Layout) -> Term:
    ones = np.ones((layout.slots, 1))
    if isinstance(leaf, Constant):
        return Term(leaf.value, (), ones)
    if not layout.discrete or leaf.on in ("observation", "time", "state"):
        if isinstance(leaf, ActionEmbedding):
            raise InvalidInput("An action embedding is for discrete actions; these actions are continuous.")
        return Term(1.0, ((leaf, layout.columns(leaf.on)),), ones)
    if isinstance(leaf, Dirac) and leaf.on == "action":
        return Term(1.0, (), _identity(layout.slots))
    if isinstance(leaf, ActionEmbedding):
        if leaf.embedding.shape[0] != layout.slots:
            raise InvalidInput(
                f"The action embedding has {leaf.embedding.shape[0]} rows, the policy {layout.slots} actions."
            )
        return Term(1.0, (), leaf.embedding)
    raise InvalidInput(
        f"{leaf!r} acts on discrete actions as if they were numbers. Use Dirac(on='action'), or "
        "ActionEmbedding.from_gram with the similarities you mean."
    )


def _multiply(terms: tuple[Term, ...]) -> Term:
    embedding: FloatArray | None = None
    for term in terms:
        if embedding is None or (embedding.shape[1] == 1 and np.all(embedding == 1.0)):
            embedding = term.embedding
        elif term.embedding.shape[1] == 1 and np.all(term.embedding == 1.0):
            continue
        else:
            if (width := embedding.shape[1] * term.embedding.shape[1]) > MOST_COLUMNS:
                raise InvalidInput(
                    f"A product of kernels on actions has {width} embedding columns, more than {MOST_COLUMNS}: multiply fewer of "
                    "them (Dirac times Dirac is Dirac)."
                )
            product = embedding[:, :, None] * term.embedding[:, None, :]
            embedding = product.reshape(embedding.shape[0], -1)
    assert embedding is not None
    factors = tuple(itertools.chain.from_iterable(term.factors for term in terms))
    return Term(math.prod(term.coefficient for term in terms), factors, embedding)
