"""The predictable columns that a block gives its rows, as the evaluation makes them (section 9)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bondic.claims import End
from bondic.search.sequential._types import Block
from bondic.search.sequential.sample import Sample

FloatArray = npt.NDArray[np.float64]

FULL, STRANGE = 0.99, 0.2
"""Largest bet on a row like those before it, and on one that is not."""


def over(bets: FloatArray | float, sizes: FloatArray) -> FloatArray:
    """bets / sizes, infinite where there is nothing to lose."""
    with np.errstate(divide="ignore"):
        return np.asarray(bets / np.maximum(sizes, 0.0))


def bets(block: Block, rows: Sample) -> tuple[FloatArray, FloatArray]:
    """lambda_i (k,) and φ_i (k, p) of the vector event."""
    features = rows.toward @ block.whitening
    sizes = np.linalg.norm(features, axis=1)
    limit = np.where(sizes > block.usual, STRANGE, FULL)
    return np.minimum(block.rate, over(limit, rows.width * sizes)), features


def caps(
    end: End, center: FloatArray, margin: float, rows: Sample, strange: FloatArray | bool
) -> tuple[FloatArray, FloatArray]:
    """(largest v, largest -v) of each row: bets on the one side of the range that can lose."""
    below = over(FULL, rows.high - np.maximum(rows.low, center - margin))
    above = over(FULL, np.minimum(rows.high, center + margin) - rows.low)
    factor = np.where(strange, STRANGE, 1.0)
    return (factor * below, factor * above) if end == "upper" else (factor * above, factor * below)
