"""Counts of a table: how logged pairs lead to pairs, so that the search for a box is a problem in table entries.

    A = (1/n) sum_i ( gamma pi(x'_i) - 1_{x_i} ) 1_{x_i}^T,   g = -(1/n) sum_i 1_{x_i} R̂center_i

Rows of A are state-action pairs that occur anywhere, columns the logged ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array, csr_array

from bondic.core.columns import Batch
from bondic.core.functions import Function
from bondic.core.identity import bellman_residual, values_at_rows, values_at_starts
from bondic.core.terms import row_widths
from bondic.engines.sums import STANDARD
from bondic.rows import Rows

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TableModel:
    """The search's view of a log with few distinct states; nothing of it is believed."""

    states: FloatArray  # (M, D) distinct points
    slots: int
    pairs: IntArray  # (L,) logged pairs, as state * slots + slot, most visited first
    balance: csr_array  # (M * slots, L) A
    gradient: FloatArray  # (L,) g
    charges: FloatArray  # (L,) sum of B_i^2 over the rows of a pair
    start: FloatArray  # (M * slots,) d_{pi,0}
    offset: float  # E[center]


def table_model(question: Rows, center: Function | None, most_pairs: int) -> TableModel:
    """One pass over the rows; at most `most_pairs` logged pairs, the most visited, carry weight."""
    states = _distinct(question)
    slots, n = question.layout.slots, len(question)
    size = states.shape[0] * slots
    visits, gradient, charges = np.zeros(size), np.zeros(size), np.zeros(size)
    blocks = []
    for part in question.batches():
        pair = _positions(states, part.logged) * slots + part.slots
        residual = bellman_residual(part, values_at_rows(part, center, STANDARD))
        visits += np.bincount(pair, minlength=size)
        charges += np.bincount(pair, weights=row_widths(part.terms, part.times, len(part)) ** 2, minlength=size)
        gradient -= np.bincount(pair, weights=residual, minlength=size) / n
        blocks.append(_flow(part, states, pair, size, n))
    flow = sum(blocks[1:], start=blocks[0])
    logged = np.argsort(-visits, kind="stable")[: min(most_pairs, int((visits > 0).sum()))]
    cloud = question.initial
    weights = cloud.weights * question.initial_states.weights[cloud.rows, None]
    start = np.zeros((states.shape[0], slots))
    np.add.at(start, _positions(states, cloud.points), weights)
    offset = float(question.initial_states.weights @ values_at_starts(question, center, STANDARD)[0])
    balance = csr_array(flow.tocsc()[:, logged])
    return TableModel(states, slots, logged, balance, gradient[logged], charges[logged], start.ravel(), offset)


def _distinct(question: Rows) -> FloatArray:
    found = np.unique(question.initial.points + 0.0, axis=0)
    for part in question.batches():
        found = np.unique(np.concatenate([found, part.logged + 0.0, part.next.points + 0.0]), axis=0)
    return np.asarray(found)


def _positions(states: FloatArray, points: FloatArray) -> IntArray:
    """Index of each point among the distinct ones."""
    _, inverse = np.unique(np.concatenate([states, points + 0.0]), axis=0, return_inverse=True)
    return np.asarray(inverse.reshape(-1)[states.shape[0] :], dtype=np.int64)


def _flow(part: Batch, states: FloatArray, pair: IntArray, size: int, n: int) -> csr_array:
    cloud, slots = part.next, part.layout.slots
    targets = _positions(states, cloud.points)[:, None] * slots + np.arange(slots)
    sources = np.repeat(pair[cloud.rows], slots)
    there = coo_array((part.gamma * cloud.weights.ravel() / n, (targets.ravel(), sources)), shape=(size, size))
    here = coo_array((np.full(pair.size, -1.0 / n), (pair, pair)), shape=(size, size))
    return csr_array(there.tocsr() + here.tocsr())
