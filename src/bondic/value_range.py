"""Value range (6): where returns, q* and J* must lie, from what was stated alone.

The reward range gives one range, per time when the horizon is finite; a stated value range is another. Both are true
statements, so their intersection is in force: `range_of`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from bondic.errors import InvalidInput
from bondic.rounding import Enclosure, power_enclosure
from bondic.terms import Terms

_MOST_TIMES = 4096


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

    def hull(self, other: ValueRange) -> ValueRange:
        return ValueRange(min(self.low, other.low), max(self.high, other.high))

    def within(self, stated: tuple[float, float] | None) -> ValueRange:
        """The part of it that a stated value range leaves; statements that exclude each other are refused."""
        if stated is None:
            return self
        low, high = max(self.low, stated[0]), min(self.high, stated[1])
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
    if terms.value_range is not None and terms.horizon is not None and terms.horizon <= _MOST_TIMES:
        return max(range_of(terms, time).width for time in range(terms.horizon))
    return min(implied_range(terms).width, range_at_all_times(terms).width)
