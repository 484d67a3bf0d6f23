"""Noise bounds: how large |(1/n) sum_i ω(x_i) Z_i| can be, Z_i = R̂q*_i, for an ω found on the rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import Enclosure, U, log_enclosure
from bondic.core.claims import Guarantee
from bondic.core.functions import Function
from bondic.core.noise.facts import NoiseFacts
from bondic.core.registry import kind

FloatArray = npt.NDArray[np.float64]
SMALLEST = 5e-324


@dataclass(frozen=True, eq=False)
class Weights:
    """What a noise bound may know about one ω."""

    omega: Function | None  # None is the function 0
    norm: Enclosure  # |ω| in the space of W's kernel
    squares: float  # sum_i B_i^2 ω_i^2 over the rows, rounded up


@kind("noise")
class NoiseBound(ABC):
    """One event, of probability at least 1 - delta, on which the noise of every ω is bounded."""

    any_time: ClassVar[bool] = False
    """Whether n may be a stopping time; else it was fixed beforehand."""
    uniform: ClassVar[bool] = False
    """Whether a search that minimizes with eps |ω|, or with `penalty`, minimizes the bound and knows its distance to the best."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee: ...

    @abstractmethod
    def bound(self, weights: Weights, facts: NoiseFacts, probability: float) -> Enclosure:
        """Of |(1/n) sum_i ω(x_i) Z_i|, on an event that fails with chance at most `probability` and is one for all ω."""

    @abstractmethod
    def level(self, weights: Weights, facts: NoiseFacts, size: float) -> float:
        """The smallest probability whose bound is at most `size` (an upper bound of it, at most 1): a p-value."""

    @abstractmethod
    def epsilon(self, facts: NoiseFacts, probability: float) -> Enclosure:
        """About the bound of an ω with |ω| = 1: what a search for ω works with. Nothing is proved with it."""

    def costs(self, facts: NoiseFacts, probability: float) -> FloatArray | None:
        """c_j for a bound that is sum_j c_j |w_j| in the features of W; for the search alone."""
        del facts, probability
        return None

    def penalty(self, facts: NoiseFacts) -> float | None:
        """tau for a bound that is a multiple of sqrt( sum_i B_i^2 ω_i^2 + tau |ω|^2 ); for the search alone."""
        del facts
        return None

    @abstractmethod
    def describe(self) -> str: ...

    @property
    def proved(self) -> bool:
        return self.guarantee == "finite-sample"


class Uniform(NoiseBound):
    """|(1/n) sum_i ω(x_i) Z_i| <= eps |ω| for all ω in H_k at once: an inequality is its eps and its p-value."""

    uniform: ClassVar[bool] = True

    @abstractmethod
    def p_value(self, facts: NoiseFacts, epsilon: float) -> float:
        """The smallest probability whose eps is at most `epsilon` (an upper bound, at most 1)."""

    def bound(self, weights: Weights, facts: NoiseFacts, probability: float) -> Enclosure:
        return self.epsilon(facts, probability) * weights.norm

    def level(self, weights: Weights, facts: NoiseFacts, size: float) -> float:
        norm = weights.norm.upper
        return self.p_value(facts, max(0.0, size / norm * (1 - 4 * U)) if norm > 0 else 0.0)


def tail(exponent: float, events: int = 2) -> float:
    """min(1, events e^-x), rounded up; never 0, since no finite log proves that."""
    return min(1.0, events * math.exp(-exponent) * (1 + 1e-9) + SMALLEST) if exponent > 0 else 1.0


def log_over(events: float, probability: float) -> Enclosure:
    """log(events / delta): each of so many events gets its share of delta."""
    return log_enclosure(Enclosure(events) / probability)
