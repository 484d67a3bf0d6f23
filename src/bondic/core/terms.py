"""What was stated about a question, and what follows from it alone: value ranges (6) and widths B.

Nothing here is read off the log. The reward range gives one range of values, per time when the horizon is finite; a stated
value range is another. Both are true statements, so their intersection is in force: `range_of`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import Enclosure, FloatArray, power_enclosure
from bondic.core.errors import InvalidInput, one_line

_UNDISCOUNTED = (
    "`gamma` is 1: nothing bounds a sum that need not end. If episodes end by themselves, take a discount just below 1 (a reward "
    "100 steps later then counts 0.9 of itself with gamma=0.999), and state the range of their returns if you know it: "
    "value_range=(lowest, highest) (--value-range). If the near future is what matters, a smaller discount: gamma=0.99 counts "
    "about 100 steps. If exactly H steps count: horizon=H (--horizon H); values then depend on the step, so a table of states "
    "becomes H times as large and takes far more rows, while short episodes with propensities lose nothing by it."
)
MAX_STEPS = 2**53
"""Longer horizons are refused: float64 no longer distinguishes their last steps."""
_SMALLEST = 1e-120
_MAX_TIMES = 4096
_MAX_WIDTHS = 65536


@dataclass(frozen=True)
class Terms:
    """What the user states about the question; all of it goes into the certificate.

    `value_range` [v_lo, v_hi] states that every realized discounted return lies in it, from any state-action pair, at any
    time and whichever policy follows; None states nothing beyond the reward range.
    """

    gamma: float
    reward_range: tuple[float, float]
    may_terminate: bool = True
    horizon: int | None = None
    time_varying: bool = False
    value_range: tuple[float, float] | None = None


def in_full(number: float) -> str:
    """The shortest digits that give the number back: six of them would make 0.999999 of the discount 0.9999994."""
    short = f"{number:g}"
    return short if float(short) == number else repr(float(number))


def make_terms(
    gamma: float | None,
    reward_range: tuple[float, float] | None,
    horizon: int | None,
    may_terminate: bool,
    time_varying: bool,
    value_range: tuple[float, float] | None = None,
) -> Terms:
    """The statements, checked one by one and against each other."""
    listed: tuple[tuple[str, Any], ...] = (("gamma", gamma), ("horizon", horizon))
    for name, given in listed:
        if np.ndim(given):
            raise InvalidInput(
                f"`{name}` holds {np.size(given)} numbers; one is needed. Call once for each, at alpha / {np.size(given)} if "
                "all intervals have to hold at once."
            )
    if not isinstance(gamma, Real) or not abs(gamma) < math.inf:
        raise InvalidInput(
            f"`gamma` is {gamma!r}; a discount in [0, 1) is needed, such as gamma=0.9: what a reward one step later is worth."
        )
    if not 0 <= gamma <= 1:
        raise InvalidInput(f"`gamma` is {gamma}. The discount lies in [0, 1); gamma = 1 goes with a horizon.")
    if gamma == 1 and horizon is None:
        raise InvalidInput(_UNDISCOUNTED)
    terms = Terms(
        gamma=float(gamma),
        reward_range=_pair(reward_range, "reward_range", "(lowest, highest possible reward)"),
        may_terminate=bool(may_terminate),
        horizon=None if horizon is None else _steps(horizon),
        time_varying=bool(time_varying or horizon is not None),
        value_range=None if value_range is None else _pair(value_range, "value_range", "(lowest, highest return)"),
    )
    if value_range is not None:
        range_at_all_times(terms)  # refuses statements that exclude each other
    return terms


def _steps(horizon: int) -> int:
    if not (isinstance(horizon, Real) and 1 <= horizon < math.inf):
        raise InvalidInput(f"`horizon` is {horizon!r}; a whole number of steps >= 1 is needed.")
    if horizon > MAX_STEPS:
        raise InvalidInput(
            f"`horizon` is larger than 2**53 = {MAX_STEPS} steps, which numbers with 53 binary digits cannot count. Leave it "
            "out for an infinite horizon (gamma < 1), or pass the number of steps that is meant."
        )
    if horizon != int(horizon):
        raise InvalidInput(f"`horizon` is {horizon!r}; a whole number of steps >= 1 is needed.")
    return int(horizon)


def _pair(pair: Any, name: str, meaning: str) -> tuple[float, float]:
    try:
        low, high = (float(value) for value in pair)
    except (TypeError, ValueError, OverflowError) as problem:
        raise InvalidInput(
            f"`{name}` is a pair {meaning} of finite numbers, such as {name}=(0, 1); it is {one_line(repr(pair))}."
        ) from problem
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise InvalidInput(f"`{name}` is [{low}, {high}]; two finite numbers, lowest first, are needed.")
    if 0 < max(abs(low), abs(high)) < _SMALLEST:
        raise InvalidInput(
            f"`{name}` is [{low}, {high}]: floats cannot hold the squares of such numbers. Give rewards in another unit."
        )
    return low, high


def discounted_steps(gamma: float, steps: int | None) -> Enclosure:
    """s_k = 1 + gamma + ... + gamma^(k-1); 1 / (1 - gamma) for an infinite horizon."""
    if steps is None:
        return Enclosure(1.0) / (1.0 - Enclosure(gamma))
    if gamma == 1.0:
        return Enclosure(float(steps))
    return (1.0 - power_enclosure(gamma, steps)) / (1.0 - Enclosure(gamma))


@dataclass(frozen=True, slots=True)
class ValueRange:
    """[low, high] contains every value; both ends are rounded outward."""

    low: float
    high: float

    @property
    def width(self) -> float:
        """B = v_hi - v_lo, rounded up."""
        return (Enclosure(self.high) - Enclosure(self.low)).upper if self.high > self.low else 0.0

    @property
    def largest(self) -> float:
        """max |v|."""
        return max(abs(self.low), abs(self.high))

    def at(self, end: Literal["lower", "upper"]) -> float:
        return self.high if end == "upper" else self.low

    def hull(self, other: ValueRange) -> ValueRange:
        return ValueRange(min(self.low, other.low), max(self.high, other.high))

    def cut(self, low: float = -math.inf, high: float = math.inf) -> tuple[float, float]:
        """The ends of what it has in common with [low, high]; nothing, if the first exceeds the second."""
        return max(self.low, low), min(self.high, high)

    def within(self, stated: tuple[float, float] | None) -> ValueRange:
        """The part of it that a stated value range leaves; statements that exclude each other are refused."""
        if stated is None:
            return self
        low, high = self.cut(*stated)
        if low > high:
            raise InvalidInput(
                f"`value_range` {list(stated)} and the range [{self.low:.6g}, {self.high:.6g}] that the reward range implies "
                "have no value in common: at least one of the statements is wrong. `value_range` bounds the discounted "
                "return from every state-action pair, at every time before the horizon; state ranges that hold together."
            )
        return ValueRange(low, high)


def value_range(
    gamma: float, reward_range: tuple[float, float], *, may_terminate: bool, horizon: int | None = None, time: int = 0
) -> ValueRange:
    """What the reward range implies at time `time`: [r_lo, r_hi] s_{H - t}, hull with one reward if it may terminate."""
    steps = None if horizon is None else max(horizon - time, 0)
    if steps == 0:
        return ValueRange(0.0, 0.0)
    weight = discounted_steps(gamma, steps)
    low, high = reward_range
    low_end, high_end = (low * weight).lower if low else 0.0, (high * weight).upper if high else 0.0
    if may_terminate:
        low_end, high_end = min(low, low_end), max(high, high_end)
    return ValueRange(low_end, high_end)


def implied_range(terms: Terms, time: int = 0) -> ValueRange:
    """(6) from the reward range alone, whatever value range is stated."""
    return value_range(
        terms.gamma, terms.reward_range, may_terminate=terms.may_terminate, horizon=terms.horizon, time=time
    )


def range_of(terms: Terms, time: int = 0) -> ValueRange:
    """The range in force at time `time`: what the reward range implies, within the stated value range.

    It contains every return from that time on, so q* at that time, r + gamma q*(x'), and at time 0 the value itself.
    Nothing is earned at or beyond the horizon, whatever was stated.
    """
    implied = implied_range(terms, time)
    return implied if terms.horizon is not None and time >= terms.horizon else implied.within(terms.value_range)


def range_at_all_times(terms: Terms) -> ValueRange:
    """The hull of `range_of` over the times before the horizon.

    Both ends of (6) are monotone in the number of steps left, so the first and the last time say it all.
    """
    if terms.horizon is None:
        return range_of(terms)
    return range_of(terms).hull(range_of(terms, terms.horizon - 1))


@lru_cache(maxsize=64)
def largest_width(terms: Terms) -> float:
    """B over all times.

    The range that the reward range implies is widest at time 0. What a stated value range leaves of it need not be: all
    times are looked at. Over a long horizon its width is at most that of the implied range, and that of the hull.
    """
    if terms.value_range is not None and terms.horizon is not None and terms.horizon <= _MAX_TIMES:
        return max(range_of(terms, time).width for time in range(terms.horizon))
    return min(implied_range(terms).width, range_at_all_times(terms).width)


def row_widths(terms: Terms, times: npt.NDArray[np.int64] | None, count: int) -> FloatArray:
    """B_i: a bound of |R̂q*_i| and of its conditional range, per row (per time when the horizon is finite)."""
    if terms.horizon is None or times is None:
        return np.full(count, range_of(terms).width)
    distinct, position = np.unique(times, return_inverse=True)
    table = [_width(terms, int(time)) for time in distinct]
    return np.asarray(np.array(table)[position])


@lru_cache(maxsize=_MAX_WIDTHS)
def _width(terms: Terms, time: int) -> float:
    """B_t; times so far before the horizon H that gamma^(H - t) no longer shows share one.

    Both ends of the range are monotone in t, so the hull of the first and the last of these times contains the ranges
    of all; and no range is wider than the one that the reward range implies at time 0.
    """
    assert terms.horizon is not None
    last = terms.horizon - _steps_that_show(terms.gamma, terms.horizon)
    if time > last:
        return range_of(terms, time).width
    return _far_width(terms, last)


@lru_cache(maxsize=64)
def _far_width(terms: Terms, last: int) -> float:
    return min(implied_range(terms).width, range_of(terms).hull(range_of(terms, last)).width)


def _steps_that_show(gamma: float, horizon: int) -> int:
    """From this many steps left on, one step more changes s_k by less than 2^-60 of it; whatever it is, bounds hold."""
    if gamma >= 1.0:
        return horizon + 1
    return 1 if gamma <= 2.0**-60 else math.ceil(60 * math.log(2.0) / -math.log(gamma))
