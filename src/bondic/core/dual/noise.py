"""Noise bounds: how large |(1/n) sum_i ω(x_i) Z_i| can be, Z_i = R̂q*_i, for an ω that was found on the same rows.

Given the past and x_i, Z_i has mean 0 and lies in an interval of length B_i (6). Then S_n = sum_i Z_i k(x_i, .) is a martingale
in the space of W's kernel, (1/n) sum_i ω(x_i) Z_i = <ω, S_n> / n, and Cauchy-Schwarz bounds it for all ω at once on one event:

    |<ω, S_n>| / n <= eps_n |ω|,   eps_n = sqrt( 2 c log(2/delta) / n )                                              (9)

by Pinelis' inequality with c = K_max B^2 (increments bounded by sqrt(K_max) B), and with a quarter of it because an increment is
a scalar times a vector that is known before it. Other noise bounds are registered under the kind "noise".
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, TypeVar, get_args
from weakref import WeakKeyDictionary

import numpy as np

from bondic.core.bounded import Enclosure, FloatArray, IntArray, U, certified_dot, log_enclosure, upper_sum
from bondic.core.claims import Guarantee
from bondic.core.errors import InvalidInput
from bondic.core.functions import Function
from bondic.core.kernels.base import Kernel
from bondic.core.kernels.normal_form import Layout, normal_form
from bondic.core.registry import kind, register
from bondic.core.terms import Terms, discounted_steps, largest_width, row_widths

T = TypeVar("T")
Logged = tuple[FloatArray, IntArray, IntArray | None]  # points, slots and times of some rows


@dataclass(frozen=True, eq=False)
class Weights:
    """What a noise bound may know about one ω."""

    omega: Function | None  # None is the function 0
    norm: Enclosure  # |ω| in the space of W's kernel
    squares: float  # sum_i B_i^2 ω_i^2 over the rows, rounded up


@dataclass(frozen=True, eq=False)
class NoiseFacts:
    """What it may know about the rows: nothing that depends on rewards or next states."""

    kernel: Kernel  # of W
    layout: Layout
    terms: Terms
    rows: Callable[[], Iterable[Logged]]  # read only if a bound needs them
    count: int  # n: rows that carry weight
    fixed_count: int  # rows of the stretch, fixed beforehand; dropped ones count as rows of weight 0
    time_counts: dict[int, int] | None = None  # rows at each time before a finite horizon

    @property
    def sup_diag(self) -> float:
        """K_max."""
        return self.kernel.sup_diag

    @cached_property
    def total_width(self) -> float:
        """sum_i B_i, rounded up."""
        repeats = np.array([self.count] if self.time_counts is None else list(self.time_counts.values()), dtype=float)
        times = None if self.time_counts is None else np.array(list(self.time_counts), dtype=np.int64)
        return upper_sum(row_widths(self.terms, times, repeats.size) * repeats)

    @property
    def largest_width(self) -> float:
        """B over all times."""
        return largest_width(self.terms)

    @property
    def largest_value(self) -> Enclosure:
        """The paper's bound of |q*|: r_max s_H, or max |v| of a stated value range where that is smaller."""
        terms = self.terms
        size = Enclosure(max(map(abs, terms.reward_range))) * discounted_steps(terms.gamma, terms.horizon).upper
        stated = math.inf if terms.value_range is None else max(map(abs, terms.value_range))
        return Enclosure(stated) if stated < size.upper else size


@kind("noise")
class NoiseBound(ABC):
    """One event, of probability at least 1 - delta, on which the noise of every ω is bounded; by eps |ω|, unless overridden."""

    any_time: ClassVar[bool] = False
    """Whether n may be a stopping time; else it was fixed beforehand."""
    uniform: ClassVar[bool] = True
    """Whether a search that minimizes with eps |ω|, or with `penalty`, minimizes the bound and knows its distance to the best."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee: ...

    @abstractmethod
    def epsilon(self, facts: NoiseFacts, probability: float) -> Enclosure:
        """At least the bound of every ω with |ω| = 1."""

    @abstractmethod
    def p_value(self, facts: NoiseFacts, epsilon: float) -> float:
        """The smallest probability whose eps is at most `epsilon` (an upper bound, at most 1)."""

    @abstractmethod
    def describe(self) -> str: ...

    def bound(self, weights: Weights, facts: NoiseFacts, probability: float) -> Enclosure:
        """Of |(1/n) sum_i ω(x_i) Z_i|, on an event that fails with chance at most `probability` and is one for all ω."""
        return self.epsilon(facts, probability) * weights.norm

    def level(self, weights: Weights, facts: NoiseFacts, size: float) -> float:
        """The smallest probability whose bound is at most `size` (an upper bound of it, at most 1): a p-value."""
        norm = weights.norm.upper
        return self.p_value(facts, max(0.0, size / norm * (1 - 4 * U)) if norm > 0 else 0.0)

    def costs(self, facts: NoiseFacts, probability: float) -> FloatArray | None:
        """c_j for a bound that is sum_j c_j |w_j| in the features of W; for the search alone."""
        del facts, probability
        return None

    def penalty(self, facts: NoiseFacts) -> tuple[float, float] | None:
        """tau and C = sum_i B_i^2 k(x_i, x_i), for a multiple of sqrt( sum_i B_i^2 ω_i^2 + tau |ω|^2 ); for the search alone."""
        del facts
        return None


ConstantName = Literal["half", "range", "paper"]


@register("noise", "pinelis")
@dataclass(frozen=True)
class Pinelis(NoiseBound):
    """eps_n = sqrt( 2 c log(2/delta) / n ) (9), n fixed beforehand.

    Rows dropped beyond the horizon leave a random number n of N rows: they count as rows of weight 0, which gives
    eps = sqrt( 2 c log(2/delta) N ) / n.

    Parameters
    ----------
    constant : {"half", "range", "paper"}, default "half"
        c = K_max B^2 / 4, K_max B^2, or 4 K_max r_max^2 / (1 - gamma)^2; the last with max |v| of a stated value range in place
        of r_max / (1 - gamma) where that is smaller.
    """

    constant: ConstantName = "half"

    def __post_init__(self) -> None:
        if self.constant not in get_args(ConstantName):
            raise InvalidInput(f"constant={self.constant!r}; choose one of {', '.join(get_args(ConstantName))}.")

    @property
    def guarantee(self) -> Guarantee:
        return "finite-sample"

    def proxy(self, facts: NoiseFacts) -> Enclosure:
        """c."""
        sup = Enclosure(facts.sup_diag, 64 * U * facts.sup_diag)
        if self.constant == "paper":
            return 4.0 * sup * facts.largest_value * facts.largest_value
        width = Enclosure(facts.largest_width)
        return (0.25 if self.constant == "half" else 1.0) * sup * width * width

    def epsilon(self, facts: NoiseFacts, probability: float) -> Enclosure:
        return root_bound(self.proxy(facts), facts, probability)

    def p_value(self, facts: NoiseFacts, epsilon: float) -> float:
        return root_p_value(self.proxy(facts), facts, epsilon)

    def describe(self) -> str:
        return f"Hilbert-space Hoeffding bound, constant '{self.constant}'; n was fixed beforehand"


def root_bound(proxy: Enclosure, facts: NoiseFacts, probability: float) -> Enclosure:
    """sqrt( 2 c log(2/delta) N ) / n."""
    return (2.0 * proxy * log_over(2.0, probability) * float(facts.fixed_count)).sqrt() / float(facts.count)


def root_p_value(proxy: Enclosure, facts: NoiseFacts, epsilon: float) -> float:
    """p = 2 exp( -n^2 eps^2 / (2 c N) ): a bound above 0, even for c = 0."""
    scaled = facts.count * epsilon
    return tail(scaled * scaled / (2.0 * facts.fixed_count * proxy.upper)) if epsilon > 0 else 1.0


def log_over(events: float, probability: float) -> Enclosure:
    """log(events / delta): each of so many events gets its share of delta."""
    return log_enclosure(Enclosure(events) / probability)


def tail(exponent: float, events: int = 2) -> float:
    """min(1, events e^-x), rounded up; never 0, since no finite log proves that."""
    return min(1.0, events * math.exp(-exponent) * (1 + 1e-9) + math.ulp(0.0)) if exponent > 0 else 1.0


def once(compute: Callable[[NoiseFacts], T]) -> Callable[[NoiseFacts], T]:
    """The same number for the same facts, as long as they are in use."""
    known: WeakKeyDictionary[NoiseFacts, T] = WeakKeyDictionary()

    def read(facts: NoiseFacts) -> T:
        if facts not in known:
            known[facts] = compute(facts)
        return known[facts]

    return read


def weighted_rows(facts: NoiseFacts) -> Iterable[tuple[FloatArray, IntArray, FloatArray]]:
    """Points, slots and widths B_i."""
    return ((x, slots, row_widths(facts.terms, times, x.shape[0])) for x, slots, times in facts.rows())


@once
def charge(facts: NoiseFacts) -> Enclosure:
    """sum_i B_i^2 k(x_i, x_i)."""
    total = Enclosure(0.0)
    for points, slots, widths in weighted_rows(facts):
        diag = diagonal(facts.kernel, facts.layout, points, slots)
        total = total + certified_dot(widths * widths * (1 + 1e-15), diag)
    return total


def diagonal(kernel: Kernel, layout: Layout, points: FloatArray, slots: IntArray) -> FloatArray:
    """k(x_i, x_i), rounded up, and never more than K_max."""
    total = np.zeros(points.shape[0])
    for term in normal_form(kernel, layout):
        squares = np.einsum("ij,ij->i", term.embedding, term.embedding)[slots]
        total += term.diag(points) * squares
        size, error = term.bounds(points, points)
        total += (error + 8 * U * (term.embedding.shape[1] + 2) * size) * squares
    return np.asarray(np.minimum(total, kernel.sup_diag * (1 + 64 * U)))


@register("noise", "fixed-lambda")
@dataclass(frozen=True)
class FixedLambda(NoiseBound):
    """n eps = ( log(2/delta) + lambda^2 sum_i B_i^2 k(x_i, x_i) / 8 ) / lambda, lambda fixed beforehand.

    It holds at every stopping time n and with the actual widths and diagonal, because exp(-lambda^2 B_i^2 k_ii / 8)
    is charged row by row. `planned` makes the lambda that is best for a planned number of rows.
    """

    rate: float  # lambda
    any_time: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", float(self.rate))
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise InvalidInput(f"lambda must be positive and finite, not {self.rate}.")

    @staticmethod
    def planned(rows: int, *, probability: float, sup_diag: float, mean_square_width: float) -> FixedLambda:
        """lambda = sqrt( 8 log(2/delta) / (n K_max mean B^2) ) for a planned n; any number is valid."""
        if rows < 1:
            raise InvalidInput(f"The planned number of rows is at least 1, not {rows}.")
        size = rows * sup_diag * mean_square_width
        rate = math.sqrt(8.0 * math.log(2.0 / probability) / size) if size > 0 else 1.0
        return FixedLambda(min(max(rate, 1e-300), 1e300))

    @property
    def guarantee(self) -> Guarantee:
        return "finite-sample"

    def _charge(self, facts: NoiseFacts) -> Enclosure:
        return Enclosure(self.rate) * self.rate * charge(facts) * 0.125

    def epsilon(self, facts: NoiseFacts, probability: float) -> Enclosure:
        total = log_over(2.0, probability) + self._charge(facts)
        return total / self.rate / float(facts.count)

    def p_value(self, facts: NoiseFacts, epsilon: float) -> float:
        """log(2/p) = lambda n eps - lambda^2 sum B_i^2 k_ii / 8."""
        product = Enclosure(self.rate) * float(facts.count) * epsilon
        return tail((product - self._charge(facts)).lower)

    def describe(self) -> str:
        return (
            f"Hilbert-space Hoeffding bound with lambda = {self.rate:.6g}; n was fixed beforehand, or is a "
            "stopping time that lambda and the first certified row do not depend on"
        )
