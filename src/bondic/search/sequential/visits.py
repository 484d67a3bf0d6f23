"""What the past of a table says about every pair: how often it comes, what follows, and how far off predictions were.

Predictions are judged as they would have been made: row i by the rows before it. With k earlier rows of the pair, c of them
with the outcome of row i, the empirical model P = c / k has |x' - ρ P|_1 = 1 - ρ z, z = 2 c / k - 1. A share ρ < 1 of the
model pays where outcomes are spread widely: the least mean square of 1 - ρ z is at ρ = E z / E z^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from bondic.search.sequential.codes import Codes

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_PRIOR = 4.0
"""Rows that stand for what other pairs show that were seen as often."""
_BINS, _FEW = 16, 5
_WHOLE = 0.999


@dataclass(frozen=True, eq=False)
class Visits:
    """Pairs of a past; arrays are (S A,)."""

    past: Codes
    gamma: float
    radius: float  # r, half-width of the box

    @cached_property
    def count(self) -> FloatArray:
        return np.bincount(self.past.pairs, minlength=self.past.size).astype(np.float64)

    @cached_property
    def model(self) -> csr_array:
        """(S A, S): how often a state followed, as a share of the visits."""
        past = self.past
        on = past.after >= 0
        shares = 1.0 / self.count[past.pairs[on]]
        shape = (past.size, past.states.shape[0])
        counted = csr_array((np.ones(shares.size), (past.pairs[on], past.after[on])), shape=shape)
        counted.sum_duplicates()
        counted.data /= np.repeat(np.maximum(self.count, 1.0), np.diff(counted.indptr))
        return counted

    @cached_property
    def backward(self) -> csr_array:
        """(S, S A): model^T, which carries weights of pairs on to the states after them."""
        return csr_array(self.model.T)

    @cached_property
    def predicted(self) -> FloatArray:
        """Mean of r + gamma q̂(x')."""
        return np.asarray(self._sums(self.past.targets) / np.maximum(self.count, 1.0))

    @cached_property
    def _luck(self) -> FloatArray:
        """z_i; 0 at first visits."""
        return np.asarray(
            np.where(self.past.earlier > 0, 2 * self.past.same / np.maximum(self.past.earlier, 1) - 1, 0.0)
        )

    @cached_property
    def share(self) -> FloatArray:
        """ρ of every pair."""
        found = self._mean(self._luck) / np.maximum(self._mean(self._luck**2), 1e-12)
        return np.where(found > _WHOLE, 1.0, np.maximum(found, 0.0))

    @cached_property
    def _misses(self) -> FloatArray:
        """Bounds of |Δ_i| over the box, as they would have been."""
        past = self.past
        apart = self.gamma * self.radius * (1 - self.share[past.pairs] * self._luck)
        return np.asarray(np.minimum(past.widths, apart + np.abs(past.targets - self.predicted[past.pairs])))

    @cached_property
    def noise(self) -> FloatArray:
        """Mean square of them."""
        return self._mean(self._misses**2)

    @cached_property
    def worst(self) -> FloatArray:
        """The largest of them at every pair."""
        found, again = np.zeros(self.past.size), self.past.earlier > 0
        np.maximum.at(found, self.past.pairs[again], self._misses[again])
        return np.asarray(np.maximum(found, np.sqrt(self.noise)))

    def _sums(self, values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(self.past.pairs, values, minlength=self.past.size))

    def _mean(self, values: FloatArray) -> FloatArray:
        """Mean over the visits of each pair but its first, together with a few of all pairs at the same number of visits."""
        again = self.past.earlier > 0
        bins = _bin(self.past.earlier[again])
        total, number = np.bincount(bins, values[again], minlength=_BINS), np.bincount(bins, minlength=_BINS)
        usual = total / np.maximum(number, 1)
        for k in range(1, _BINS):
            if number[k] < _FEW:
                usual[k] = usual[k - 1]
        own = self._sums(np.where(again, values, 0.0)) + _PRIOR * usual[_bin(self.count)]
        return np.asarray(own / (np.maximum(self.count - 1, 0.0) + _PRIOR))


def _bin(counts: npt.NDArray[np.generic]) -> IntArray:
    """Numbers of visits that are alike: by powers of two."""
    return np.minimum(np.log2(np.maximum(np.asarray(counts, dtype=np.float64), 1.0)), _BINS - 1).astype(np.int64)
