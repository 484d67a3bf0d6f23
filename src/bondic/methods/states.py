"""The states of a table, in the order in which the rows show them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bondic.core.cells.rows import StateIndex
from bondic.rows import Rows

FloatArray = npt.NDArray[np.float64]


def states_of(problem: Rows, most: int, first: FloatArray | None = None) -> FloatArray | None:
    """(S, D): `first`, given starts, then logged and next states as they first appear; None where they are more than `most`."""
    known = np.zeros((0, problem.layout.dimension)) if first is None else first
    known = np.concatenate([known, _fresh(known, problem.initial.points)])
    for batch in problem.batches():
        rows = np.concatenate([np.arange(len(batch)) * 2, batch.next.rows * 2 + 1])
        points = np.concatenate([batch.logged, batch.next.points])[np.argsort(rows, kind="stable")]
        known = np.concatenate([known, _fresh(known, points)])
        if known.shape[0] > most:
            return None
    return known


def _fresh(known: FloatArray, points: FloatArray) -> FloatArray:
    """Those that are not known yet, once each, in their order."""
    if known.shape[0]:
        points = points[StateIndex(known).positions(points) < 0]
    _, first = np.unique(points + 0.0, axis=0, return_index=True)
    return points[np.sort(first)] + 0.0
