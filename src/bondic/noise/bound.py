"""Noise gauges: numbers eps with |(1/n) sum_i omega(x_i) R^q*_i| <= eps |omega| for all omega in H_k at once."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bondic.claims import Guarantee
from bondic.registry import kind
from bondic.rounding import Enclosure, certified_dot, log_enclosure, upper_sum

FloatArray = npt.NDArray[np.float64]
SMALLEST = 5e-324


@dataclass(frozen=True, eq=False)
class NoiseFacts:
    """What a gauge may know: nothing here depends on rewards or next states of the rows."""

    count: int  # n: rows that carry weight
    fixed_count: int  # rows of the stretch, fixed beforehand; dropped ones count as rows of weight 0
    sup_diag: float  # K_max
    widths: FloatArray  # B_i, one entry for all rows that share it
    repeats: FloatArray  # how many rows share each of them
    largest_width: float  # B over all times
    largest_reward: float  # r_max = max |r|
    reach: float  # s_H, or 1 / (1 - gamma), rounded up
    read_charge: Callable[[], Enclosure]  # goes through the rows for `charge`
    stated_value: float = math.inf  # max |v| of a stated value range

    @property
    def total_width(self) -> float:
        """sum_i B_i, rounded up."""
        return upper_sum(self.widths * self.repeats)

    @property
    def largest_value(self) -> Enclosure:
        """The paper's bound of |q*|: r_max s_H, or max |v| of a stated value range where that is smaller."""
        size = Enclosure(self.largest_reward) * self.reach
        return Enclosure(self.stated_value) if self.stated_value < size.upper else size

    @cached_property
    def charge(self) -> Enclosure:
        """sum_i B_i^2 k(x_i, x_i)."""
        return self.read_charge()


def charge_of(batches: Iterable[tuple[FloatArray, FloatArray]]) -> Enclosure:
    """sum_i B_i^2 k(x_i, x_i) over batches of (widths, diagonal)."""
    total = Enclosure(0.0)
    for widths, diagonal in batches:
        total = total + certified_dot(widths * widths * (1 + 1e-15), diagonal)
    return total


@kind("noise")
class Gauge(ABC):
    """One concentration inequality."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee: ...

    @abstractmethod
    def epsilon(self, facts: NoiseFacts, probability: float) -> Enclosure:
        """eps such that the event has probability at least 1 - `probability`."""

    @abstractmethod
    def level(self, facts: NoiseFacts, observed: float) -> float:
        """The smallest probability whose eps is at most `observed` (an upper bound, at most 1): a p-value."""

    @abstractmethod
    def describe(self) -> str: ...


def tail(exponent: float) -> float:
    """min(1, 2 e^-x), rounded up; never 0, since no finite log proves that."""
    return min(1.0, 2.0 * math.exp(-exponent) * (1 + 1e-9) + SMALLEST) if exponent > 0 else 1.0


def log_two_over(probability: float) -> Enclosure:
    return log_enclosure(Enclosure(2.0) / probability)
