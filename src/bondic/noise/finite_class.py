"""Union bound for a finite class of instruments (section 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.errors import InvalidInput
from bondic.rounding import Enclosure, certified_dot, log_enclosure

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FiniteClass:
    """W = {omega_1, ..., omega_p}: scalar Hoeffding for each at delta / p, with lambda_j fixed beforehand.

    |sum_i omega_j(x_i) Z_i| <= N_j := ( log(2 p / delta) + lambda_j^2 sum_i B_i^2 omega_j(x_i)^2 / 8 ) / lambda_j
    for all j with probability 1 - delta, at every stopping time. By linearity omega = sum_j w_j omega_j then has
    noise at most sum_j |w_j| N_j / n: the gauge of the symmetric hull.
    """

    rates: FloatArray  # (p,) lambda_j

    def __post_init__(self) -> None:
        rates = np.array(self.rates, dtype=np.float64)
        if rates.ndim != 1 or rates.size == 0 or not np.all(np.isfinite(rates)) or np.any(rates <= 0):
            raise InvalidInput("A finite class needs one positive lambda per member.")
        object.__setattr__(self, "rates", rates)

    @staticmethod
    def planned(rows: int, *, probability: float, members: int, mean_square: float) -> FiniteClass:
        """lambda for a planned n and a guess of mean B^2 omega_j^2 made beforehand; any number is valid."""
        rate = math.sqrt(8.0 * math.log(2.0 * members / probability) / (rows * mean_square))
        return FiniteClass(np.full(members, rate))

    def bounds(self, values: FloatArray, widths: FloatArray, probability: float) -> list[Enclosure]:
        """N_j / n for every member; values (p, n) of the members at the rows, widths B_i (n,)."""
        members, count = values.shape
        if members != self.rates.size:
            raise InvalidInput(f"The class has {self.rates.size} members, values are given for {members}.")
        level = log_enclosure(Enclosure(2.0 * members) / probability)
        out = []
        for rate, row in zip(self.rates, values, strict=True):
            scaled = widths * row
            charge = certified_dot(scaled, scaled) * (1 + 1e-14) * 0.125 * float(rate) * float(rate)
            out.append((level + charge) / float(rate) / float(count))
        return out

    def noise(self, weights: FloatArray, bounds: list[Enclosure]) -> Enclosure:
        """sum_j |w_j| N_j / n: the noise of omega = sum_j w_j omega_j."""
        return certified_dot(np.abs(weights), np.array([bound.upper for bound in bounds]))
