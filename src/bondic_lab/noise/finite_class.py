"""Union bound over the features of W (section 4): a noise bound that sees the coordinates of ω."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import Enclosure, U, certified_dot
from bondic.core.claims import Guarantee
from bondic.core.codec import Numbers
from bondic.core.dual.noise import NoiseBound, NoiseFacts, Weights, log_over, tail
from bondic.core.errors import InvalidInput
from bondic.core.functions import FeatureFunction, FeatureMap
from bondic.core.kernels.base import Kernel
from bondic.core.kernels.normal_form import Layout
from bondic.core.registry import register
from bondic_lab.noise.charges import feature_charges

FloatArray = npt.NDArray[np.float64]


@register("noise", "finite-class")
@dataclass(frozen=True, eq=False)
class FiniteClass(NoiseBound):
    """W has features phi_1, ..., phi_p: scalar Hoeffding for each at delta / p, with lambda_j fixed beforehand.

    |sum_i phi_j(x_i) Z_i| <= N_j := ( log(2 p / delta) + lambda_j^2 sum_i B_i^2 phi_j(x_i)^2 / 8 ) / lambda_j
    for all j with probability 1 - delta, at every stopping time. By linearity ω = sum_j w_j phi_j then has noise at
    most sum_j |w_j| N_j / n. It is small for an ω with few features and for features that are small on the log.
    An ω of the same space that is written otherwise has coordinates with |w| = |ω|: Cauchy-Schwarz.

    Parameters
    ----------
    rates : array of float
        lambda_j, one positive number per feature; `planned` makes those that are best for a planned number of rows.
    """

    rates: Numbers  # (p,)
    any_time: ClassVar[bool] = True
    uniform: ClassVar[bool] = False

    def __post_init__(self) -> None:
        rates = np.array(self.rates, dtype=np.float64)
        if rates.ndim != 1 or rates.size == 0 or not np.all((rates >= 1e-150) & (rates <= 1e150)):
            raise InvalidInput("A finite class needs one positive lambda per feature.")
        rates.flags.writeable = False
        object.__setattr__(self, "rates", rates)

    @staticmethod
    def planned(
        kernel: Kernel, layout: Layout, rows: int, *, probability: float, mean_square_width: float
    ) -> FiniteClass:
        """lambda_j = sqrt( 8 log(2 p / delta) / (n mean B^2 phi_j^2) ) for a planned n; any number is valid.

        The features of a term are taken to share its part of K_max equally, since no row may be looked at.
        """
        if rows < 1:
            raise InvalidInput(f"The planned number of rows is at least 1, not {rows}.")
        features, squares = FeatureMap(kernel, layout), list[FloatArray]()
        for term, size in zip(features.terms, features.sizes, strict=True):
            largest = term.coefficient * math.prod(leaf.sup_diag for leaf, _ in term.factors)
            embedded = float(np.square(term.embedding).sum(axis=1).max())
            squares.append(np.full(size, largest * embedded / size))
        level = 8.0 * math.log(2.0 * features.dimension / probability)
        sizes = rows * mean_square_width * np.concatenate(squares)
        return FiniteClass(np.sqrt(level / np.clip(sizes, 1e-100, 1e100)))

    @property
    def guarantee(self) -> Guarantee:
        return "finite-sample"

    def _parts(self, weights: Weights | None, facts: NoiseFacts) -> tuple[Enclosure, Enclosure]:
        """(first, second) with n bound = log(2 p / delta) first + second; for |ω| = 1 without weights.

        first = sum_j |w_j| / lambda_j, second = sum_j |w_j| lambda_j C_j / 8, C_j the charge of feature j.
        """
        charges = self._charges(facts)
        inverse, costs = 1.0 / self.rates, self.rates * charges * 0.125
        slack = 1 + 8 * U  # of the quotients and products above, all >= 0
        if weights is not None and isinstance(weights.omega, FeatureFunction):
            sizes = np.abs(weights.omega.coordinates)
            return certified_dot(sizes, inverse) * slack, certified_dot(sizes, costs) * slack
        norm = Enclosure(1.0) if weights is None else weights.norm
        first, second = certified_dot(inverse, inverse).sqrt(), certified_dot(costs, costs).sqrt()
        return first * norm * slack, second * norm * slack

    def _total(self, parts: tuple[Enclosure, Enclosure], facts: NoiseFacts, probability: float) -> Enclosure:
        first, second = parts
        return (log_over(2.0 * self.rates.size, probability) * first + second) / float(facts.count)

    def bound(self, weights: Weights, facts: NoiseFacts, probability: float) -> Enclosure:
        return self._total(self._parts(weights, facts), facts, probability)

    def epsilon(self, facts: NoiseFacts, probability: float) -> Enclosure:
        """The largest bound over |ω| <= 1, or a little more."""
        return self._total(self._parts(None, facts), facts, probability)

    def costs(self, facts: NoiseFacts, probability: float) -> FloatArray:
        """N_j / n."""
        level = log_over(2.0 * self.rates.size, probability).mid
        return np.asarray((level / self.rates + self.rates * self._charges(facts) * 0.125) / facts.count)

    def _charges(self, facts: NoiseFacts) -> FloatArray:
        """C_j = sum_i B_i^2 phi_j(x_i)^2 for the features that there is a lambda for."""
        charges = feature_charges(facts)
        if charges.size != self.rates.size:
            raise InvalidInput(f"W has {charges.size} features, the finite class has lambda for {self.rates.size}.")
        return charges

    def level(self, weights: Weights, facts: NoiseFacts, size: float) -> float:
        return self._level(self._parts(weights, facts), facts, size)

    def p_value(self, facts: NoiseFacts, epsilon: float) -> float:
        return self._level(self._parts(None, facts), facts, epsilon)

    def _level(self, parts: tuple[Enclosure, Enclosure], facts: NoiseFacts, size: float) -> float:
        """log(2 p / delta) = (n size - second) / first."""
        first, second = parts
        room = (Enclosure(size) * float(facts.count) - second).lower
        if room <= 0:
            return 1.0
        return tail(room / first.upper * (1 - 4 * U), 2 * self.rates.size) if first.upper > 0 else 1.0

    def describe(self) -> str:
        return (
            f"Hoeffding's bound for each of the {self.rates.size} features of W, by a union bound; n was fixed beforehand, "
            "or is a stopping time that no lambda and not the first certified row depends on"
        )
