"""The search problem (11) in coordinates: min_w  g.w + r |psi_0 + A w| + kappa |w|, from one pass over rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.data.spread import spread_rows
from bondic.functions.functions import Function
from bondic.identity.residual import bellman_residual, values_at_rows, values_at_starts
from bondic.rows import Batch, Cloud, Rows
from bondic.search.basis import Basis, TermBasis

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
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


class ModelSums:
    """Sums over rows of which A and g are made; rows are added batch by batch, and memory does not grow with them."""

    def __init__(self, question: Rows, weights: Basis, values: Basis, center: Function | None) -> None:
        self._question, self._weights, self._values, self._center = question, weights, values, center
        self._gradient = [np.zeros((part.size, part.embedded)) for part in weights.parts]
        self._raw = [[np.zeros((q.size, q.embedded, w.size, w.embedded)) for w in weights.parts] for q in values.parts]
        self.rows = 0

    def add(self, problem: Batch, progress: Callable[[int], None] | None = None) -> None:
        """Some rows; `progress` hears how many were added."""
        weights = self._weights
        residual = bellman_residual(problem, values_at_rows(problem, self._center))
        order = np.argsort(problem.next.rows, kind="stable")
        sorted_rows = problem.next.rows[order]
        for top in range(0, len(problem), _BLOCK):
            rows = slice(top, min(top + _BLOCK, len(problem)))
            if progress is not None:
                progress(self.rows + top)
            picked = order[slice(*np.searchsorted(sorted_rows, [rows.start, rows.stop]))]
            phi = [part.finish(part.raw(problem.logged[rows])) for part in weights.parts]
            for block, basis, total in zip(phi, weights.parts, self._gradient, strict=True):
                columns = basis.term.embedding[problem.slots[rows]]
                total -= block.T @ (columns * residual[rows, None])
            _accumulate(problem, self._values, weights, phi, self._raw, rows, picked)
        self.rows += len(problem)

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
            offset=float(question.initial_states.weights @ values_at_starts(question, self._center)[0]),
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
    for problem in question.batches():
        sums.add(problem, None if progress is None else lambda rows: progress(rows / n))
    return sums.model()


def _accumulate(
    problem: Batch,
    values: Basis,
    weights: Basis,
    phi: list[FloatArray],
    raw: list[list[FloatArray]],
    rows: slice,
    picked: IntArray,
) -> None:
    """Add gamma psi(x') phi^T - psi(x) phi^T of one block of rows to the raw sums."""
    slots = problem.slots[rows]
    cloud = problem.next
    owner = cloud.rows[picked] - rows.start
    known = _logged_again(problem, rows, picked, owner)
    for q, line in zip(values.parts, raw, strict=True):
        here = q.raw(problem.logged[rows])
        there = np.empty((picked.size, here.shape[1]))
        there[known] = here[owner[known] + 1]
        there[~known] = q.raw(cloud.points[picked[~known]])
        here_columns = q.term.embedding[slots]
        there_columns = problem.gamma * (cloud.weights[picked] @ q.term.embedding)
        for block, w, total in zip(phi, weights.parts, line, strict=True):
            for c in range(w.embedded):
                factor = w.term.embedding[slots, c]
                after = np.flatnonzero(factor[owner])
                left, right = there[after], block[owner[after]] * factor[owner[after], None]
                for b in range(q.embedded):
                    mine = np.flatnonzero(factor * here_columns[:, b])
                    own = block[mine] * (factor * here_columns[:, b])[mine, None]
                    total[:, b, :, c] -= here[mine].T @ own
                    total[:, b, :, c] += left.T @ (right * there_columns[after, b, None])


def _logged_again(problem: Batch, rows: slice, picked: IntArray, owner: IntArray) -> BoolArray:
    """Next points that are the logged point of the row after, inside the block: their coordinates are known already."""
    inside = owner + 1 < rows.stop - rows.start
    same = np.zeros(picked.size, dtype=np.bool_)
    following = problem.logged[rows][owner[inside] + 1]
    same[inside] = np.all(problem.next.points[picked[inside]] == following, axis=1)
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
