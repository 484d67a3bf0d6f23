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

BLOCK = 4096
"""Sums over the diagonal go through so many rows at a time, counted from the first certified one."""


@dataclass(frozen=True, eq=False)
class NoiseFacts:
    """What a gauge may know: nothing here depends on rewards or next states of the rows."""

    count: int  # n: rows that carry weight
    fixed_count: int  # rows of the stretch, fixed beforehand; dropped ones count as rows of weight 0
    sup_diag: float  # K_max
    diagonal: FloatArray | None  # k(x_i, x_i), (n,), rounded up; None when rows are read in batches
    widths: FloatArray  # B_i; one entry per time when rows are read in batches
    largest_width: float  # B over all times
    largest_reward: float  # r_max = max |r|
    reach: float  # s_H, or 1 / (1 - gamma), rounded up
    repeats: FloatArray | None = None  # how many rows share an entry of `widths`; None: one each
    stated_value: float = math.inf  # max |v| of a stated value range
    read_charge: Callable[[], Enclosure] | None = None  # reads the rows for `charge`; needed without a diagonal

    @property
    def total_width(self) -> float:
        """sum_i B_i, rounded up."""
        return upper_sum(self.widths if self.repeats is None else self.widths * self.repeats)

    @property
    def largest_value(self) -> Enclosure:
        """The paper's bound of |q*|: r_max s_H, or max |v| of a stated value range where that is smaller."""
        size = Enclosure(self.largest_reward) * self.reach
        return Enclosure(self.stated_value) if self.stated_value < size.upper else size

    @cached_property
    def charge(self) -> Enclosure:
        """sum_i B_i^2 k(x_i, x_i): the same number from rows in memory and in batches of any size."""
        if self.read_charge is not None:
            return self.read_charge()
        assert self.diagonal is not None
        tops = range(0, self.widths.size, BLOCK)
        return charge_of((self.widths[top : top + BLOCK], self.diagonal[top : top + BLOCK]) for top in tops)


def charge_of(blocks: Iterable[tuple[FloatArray, FloatArray]]) -> Enclosure:
    """sum_i B_i^2 k(x_i, x_i) over blocks of (widths, diagonal); equal blocks give equal bits."""
    total = Enclosure(0.0)
    for widths, diagonal in blocks:
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
