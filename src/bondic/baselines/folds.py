"""Folds of whole units for cross-fitting: what is fitted on the others is applied to the fold."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bondic.errors import InvalidInput

IntArray = npt.NDArray[np.int64]


def fold_numbers(units: IntArray, folds: int, seed: int) -> IntArray:
    """(n,) the fold of every row; units are dealt out at random, all rows of a unit to one fold."""
    count = int(units.max()) + 1
    if not 2 <= folds <= count:
        raise InvalidInput(f"folds={folds}; between 2 and the number of independent units ({count}) are needed.")
    deal = np.arange(count) % folds
    return np.random.default_rng(seed).permutation(deal)[units]
