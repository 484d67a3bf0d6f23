"""The search problem (11) in coordinates: min_w  g.w + r |psi_0 + A w| + kappa |w|, from one pass over rows.

The self-normalized bound (12) has another norm, |L^T w| with L L^T = ( V + tau I ) / ( C + tau ), V = sum_i B_i^2 phi_i phi_i^T
and C = sum_i B_i^2 k(x_i, x_i), so that |L^T w|^2 is sum_i B_i^2 ω_i^2 + tau |w|^2 up to a factor and at most |w|^2. In the
coordinates u = L^T w (`whiten`) it is the problem for |u|, and every solver of that one serves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.linalg import cholesky, solve_triangular

from bondic.core.columns import Batch, Cloud
from bondic.core.functions import Function
from bondic.core.identity import bellman_residual, values_at_rows, values_at_starts
from bondic.core.kernels.normal_form import Term
from bondic.core.terms import row_widths
from bondic.data.spread import spread_rows
from bondic.engines.sums import STANDARD
from bondic.engines.threads import cores, in_order
from bondic.rows import Rows
from bondic.search.basis import Basis, TermBasis

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class SearchModel:
    """Matrices of (11). `start` = psi_0 (M,), `balance` = A (M, D), `gradient` = g (D,)."""

    weights: Basis  # coordinates of ω
    values: Basis  # coordinates of q
    start: FloatArray
    balance: FloatArray
    gradient: FloatArray
    offset: float  # E_{d_pi,0}[center]
    hidden: float  # share of |k| that the landmarks miss, on average
    unwhiten: FloatArray | None = None  # (D, D) coordinates of ω from those of A and g; None: they are the same

    def function(self, w: FloatArray) -> Function:
        return self.weights.function(w if self.unwhiten is None else self.unwhiten @ w)


@dataclass(frozen=True, eq=False)
class SearchResult:
    """A proposed ω (None: 0 is best), how the search ended, and a value that no ω in its space can beat."""

    omega: Function | None
    note: str
    primal: float  # of F+ - E[center], or E[center] - F-; -inf when unknown


class Search(Protocol):
    """Proposals for the ends and for the rejection test of one setting."""

    @property
    def offset(self) -> float:
        """E_{d_{pi,0}}[center]."""

    def propose(self, *, sign: float, radius: float, kappa: float) -> SearchResult: ...

    def witnesses(self, *, radius: float, epsilon: float) -> tuple[Function | None, ...]: ...

    def estimate(self) -> float:
        """E[q] of a fit of the Bellman loss: a guess."""


class ModelSums:
    """Sums over rows of which A and g are made; rows are added batch by batch, and memory does not grow with them."""

    def __init__(self, question: Rows, weights: Basis, values: Basis, center: Function | None) -> None:
        self._question, self._weights, self._values, self._center = question, weights, values, center
        self._gradient = [np.zeros((part.size, part.embedded)) for part in weights.parts]
        self._raw = [[np.zeros((q.size, q.embedded, w.size, w.embedded)) for w in weights.parts] for q in values.parts]
        self.rows = 0

    def add(self, batches: Iterable[Batch], progress: Callable[[int], None] | None = None) -> None:
        """Some rows; `progress` hears how many were added. Pieces of them are worked on in threads, and added in their order."""
        for rows, gradient, raw in in_order(self._part, _pieces(batches), cores()):
            for k, part in enumerate(gradient):
                self._gradient[k] += part
            for q, line in enumerate(raw):
                for w, block in enumerate(line):
                    self._raw[q][w] += block
            self.rows += rows
            if progress is not None:
                progress(self.rows)

    def _part(self, problem: Batch) -> tuple[int, list[FloatArray], list[list[FloatArray]]]:
        """What a few rows add."""
        residual = bellman_residual(problem, values_at_rows(problem, self._center, STANDARD))
        phi = [part.finish(part.raw(problem.logged)) for part in self._weights.parts]
        gradient = [
            -block.T @ (basis.term.embedding[problem.slots] * residual[:, None])
            for block, basis in zip(phi, self._weights.parts, strict=True)
        ]
        return len(problem), gradient, _balance(problem, self._values, self._weights, phi)

    def model(self) -> SearchModel:
        """The matrices of the rows so far."""
        question, values = self._question, self._values
        blocks = [
            np.hstack([_finish(q, block).reshape(q.size * q.embedded, -1) for block in line])
            for q, line in zip(values.parts, self._raw, strict=True)
        ]
        return SearchModel(
            weights=self._weights,
            values=values,
            start=_initial_coordinates(question, values),
            balance=np.vstack(blocks) / self.rows,
            gradient=np.concatenate([total.ravel() for total in self._gradient]) / self.rows,
            offset=float(question.initial_states.weights @ values_at_starts(question, self._center, STANDARD)[0]),
            hidden=_hidden(values, question),
        )


def build_model(
    question: Rows,
    weights: Basis,
    values: Basis,
    center: Function | None,
    *,
    progress: Callable[[float], None] | None = None,
) -> SearchModel:
    """A and g from all rows."""
    sums, n = ModelSums(question, weights, values, center), len(question)
    sums.add(question.batches(), None if progress is None else lambda rows: progress(rows / n))
    return sums.model()


def _pieces(batches: Iterable[Batch]) -> Iterator[Batch]:
    """A few rows at a time."""
    for batch in batches:
        for top in range(0, len(batch), _BLOCK):
            yield batch.pick(np.arange(top, min(top + _BLOCK, len(batch))))


def _balance(problem: Batch, values: Basis, weights: Basis, phi: list[FloatArray]) -> list[list[FloatArray]]:
    """sum_i gamma psi(x'_i) phi_i^T - psi(x_i) phi_i^T of a few rows, before landmarks become coordinates."""
    cloud, slots, owner = problem.next, problem.slots, problem.next.rows
    known = _logged_again(problem)
    out = []
    for q in values.parts:
        here = q.raw(problem.logged)
        there = np.empty((owner.size, here.shape[1]))
        there[known] = here[owner[known] + 1]
        there[~known] = q.raw(cloud.points[~known])
        here_columns, there_columns = q.term.embedding[slots], problem.gamma * (cloud.weights @ q.term.embedding)
        line = [np.zeros((q.size, q.embedded, w.size, w.embedded)) for w in weights.parts]
        for block, w, total in zip(phi, weights.parts, line, strict=True):
            for c in range(w.embedded):
                factor = w.term.embedding[slots, c]
                after = np.flatnonzero(factor[owner])
                left, right = there[after], block[owner[after]] * factor[owner[after], None]
                for b in range(q.embedded):
                    mine = np.flatnonzero(factor * here_columns[:, b])
                    own = block[mine] * (factor * here_columns[:, b])[mine, None]
                    total[:, b, :, c] = left.T @ (right * there_columns[after, b, None]) - here[mine].T @ own
        out.append(line)
    return out


def _logged_again(problem: Batch) -> BoolArray:
    """Next points that are the logged point of the row after: their coordinates are known already."""
    owner = problem.next.rows
    inside = owner + 1 < len(problem)
    same = np.zeros(owner.size, dtype=np.bool_)
    same[inside] = np.all(problem.next.points[inside] == problem.logged[owner[inside] + 1], axis=1)
    return same


def _finish(q: TermBasis, block: FloatArray) -> FloatArray:
    """Apply the triangular factor to the first axis of raw sums (m, p, ., .)."""
    flat = block.reshape(block.shape[0], -1)
    return np.asarray(q.finish(flat.T).T).reshape(block.shape)


def _initial_coordinates(problem: Rows, values: Basis) -> FloatArray:
    return cloud_coordinates(values, problem.initial, problem.initial_states.weights)


def cloud_coordinates(basis: Basis, cloud: Cloud, row_weights: FloatArray) -> FloatArray:
    """Coordinates of the embedding of a weighted cloud, e.g. d_{pi,0}."""
    out = []
    for part in basis.parts:
        columns = (cloud.weights * row_weights[cloud.rows, None]) @ part.term.embedding
        total = np.zeros((part.size, part.embedded))
        for top in range(0, cloud.points.shape[0], _BLOCK):
            total += part.raw(cloud.points[top : top + _BLOCK]).T @ columns[top : top + _BLOCK]
        out.append(part.finish(total.T).T.ravel())
    return np.concatenate(out)


def _hidden(values: Basis, question: Rows) -> float:
    """Mean share of k(x, x) outside the landmarks' span, on up to 512 logged points."""
    first = next(question.batches())
    some = first.logged[spread_rows(len(first), 512)]
    missing, total = 0.0, 0.0
    for part in values.parts:
        diagonal = part.term.diag(some)
        inside = (part.finish(part.raw(some)) ** 2).sum(axis=1)
        missing += float(np.maximum(diagonal - inside, 0.0).sum())
        total += float(diagonal.sum())
    return missing / total if total > 0 else 0.0


IntArray = npt.NDArray[np.int64]


def second_moments(batches: Iterable[Batch], weights: Basis) -> FloatArray:
    """sum_i B_i^2 phi_i phi_i^T in the coordinates of ω; plain floats."""
    total = np.zeros((weights.dimension, weights.dimension))
    for part in batches:
        widths = row_widths(part.terms, part.times, len(part))
        for top in range(0, len(part), _BLOCK):
            some = slice(top, top + _BLOCK)
            psi = [block.finish(block.raw(part.logged[some])) for block in weights.parts]
            for slot in np.unique(part.slots[some]):
                mine = np.flatnonzero(part.slots[some] == slot)
                parts = [(block.term, rows[mine]) for block, rows in zip(weights.parts, psi, strict=True)]
                places, values = embedded(parts, int(slot))
                values *= widths[some][mine, None]
                total[np.ix_(places, places)] += values.T @ values
    return total


def embedded(parts: list[tuple[Term, FloatArray]], slot: int) -> tuple[IntArray, FloatArray]:
    """Coordinates psi_t x E_t of points that share an action, all terms side by side; (places, values) of those that are not 0.

    `parts` holds the terms with their psi_t (n, m_t); places are those of all m_t p_t coordinates, row-major, term by term.
    """
    places, values, top = [], [], 0
    for term, psi in parts:
        row = term.embedding[slot]
        used = np.flatnonzero(row)
        places.append(top + (np.arange(psi.shape[1])[:, None] * row.size + used).ravel())
        values.append((psi[:, :, None] * row[used]).reshape(psi.shape[0], -1))
        top += psi.shape[1] * row.size
    return np.concatenate(places), np.hstack(values)


def whiten(model: SearchModel, moments: FloatArray, penalty: float, charge: float) -> SearchModel:
    """The model in the coordinates u = L^T w; `charge` is C."""
    form = moments / (charge + penalty)
    form[np.diag_indices_from(form)] += penalty / (charge + penalty)
    factor = cholesky(form, lower=True)
    return replace(
        model,
        balance=solve_triangular(factor, model.balance.T, lower=True).T,
        gradient=solve_triangular(factor, model.gradient, lower=True),
        unwhiten=solve_triangular(factor, np.eye(factor.shape[0]), lower=True).T,
    )
