"""Values of whole episodes: per decision, weighed as a whole, doubly robust; unit by unit, rounded down (section 13).

Lower ends, as in `decision_values`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import Enclosure, U, next_down
from bondic.core.propensities.control import Control
from bondic.core.propensities.decision_values import Robust, Stated, above, mean_and_taken
from bondic.core.propensities.decisions import Decisions
from bondic.core.propensities.ratios import LARGEST, Ratios
from bondic.core.terms import Terms, discounted_steps, range_of

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


_LONGEST = 64
"""Longer episodes have products of ratios that no bet survives."""


def per_decision_values(columns: Decisions, off_by: float) -> tuple[FloatArray, float]:
    """v_0 + sum_t γ^t ρ_{0:t} (r_t + γ v_{t+1} - v_t) / Γ^(t+1), v_t the least value that the reward range leaves at time t.

    No term is negative, so steps that were not recorded (an episode that was cut) are left out on the safe side. Returns the
    values and v_0, below which none of them can be.
    """
    assert columns.steps is not None
    assert columns.episodes is not None
    steps, terms = columns.steps, columns.terms
    floors, ceilings = _floors(columns, int(steps.max()) + 1)
    following = np.where(columns.continues, terms.gamma * floors[steps + 1], 0.0)
    gain = columns.rewards + following - ceilings[steps]
    size = np.abs(columns.rewards) + np.abs(following) + np.abs(ceilings[steps])
    gain = np.maximum(gain - 8 * U * size, 0.0)
    weights = cumulative(columns, off_by).low()
    terms_of = gain * weights * _powers(terms.gamma, steps)
    return above(floors[0], _sums(columns, terms_of)), float(floors[0])


def whole_values(columns: Decisions, off_by: float) -> tuple[FloatArray, float]:
    """v_lo + ρ_{0:T-1} (G + γ^T v_T 1[cut] - v_lo)_+ / Γ^T with a stated value range: weights of whole episodes.

    v_T is the least value in the range at the time of a cut. A return lies in the range, whatever follows, so that the bracket
    of a complete episode is >= 0; of one that was cut its mean is at least what stands here.
    """
    assert columns.steps is not None
    low, steps = columns.limits.low, columns.steps
    last = last_rows(columns)
    powers = _powers(columns.terms.gamma, steps)
    returns = _sums(columns, columns.rewards * powers)
    error = _sums(columns, np.abs(columns.rewards) * powers) * (steps[last] + 32) * 8 * U
    later = np.array([range_of(columns.terms, time).low for time in range(int(steps.max()) + 2)])[steps[last] + 1]
    rest = np.where(columns.continues[last], later * _powers(columns.terms.gamma, steps[last] + 1), 0.0)
    gain = returns + rest - low
    error += (steps[last] + 32) * 8 * U * (np.abs(returns) + np.abs(rest) + abs(low))
    gain = np.maximum(gain - error, 0.0)
    return above(low, gain * cumulative(columns, off_by).low()[last]), low


def cumulative(columns: Decisions, off_by: float = 1.0) -> Ratios:
    """ρ_{0:t} / Γ^(t+1) for every row, cut at LARGEST; products of ratios row by row of their episodes."""
    assert columns.episodes is not None
    assert columns.steps is not None
    order = np.argsort(columns.episodes, kind="stable")
    with np.errstate(divide="ignore"):
        logs = np.log(columns.ratios.values[order] / off_by)
    dead = np.isneginf(logs)
    logs[dead] = 0.0
    first = np.flatnonzero(columns.steps[order] == 0)
    lengths = np.diff(np.append(first, order.size))
    steps = columns.steps[order]
    products = _run(logs, first, lengths)
    zero = _run(dead.astype(np.float64), first, lengths) > 0
    sizes = _run(np.abs(logs), first, lengths)
    errors = _run(columns.ratios.errors[order], first, lengths) + (steps + 16) * 4 * U * (1.0 + sizes)
    values = np.where(zero, 0.0, np.exp(np.minimum(products, np.log(LARGEST))))
    back = np.empty(order.size, dtype=np.int64)
    back[order] = np.arange(order.size)
    return Ratios(values[back], np.minimum(errors[back], 0.5))


def _run(values: FloatArray, first: IntArray, lengths: IntArray) -> FloatArray:
    """Running sums that begin anew at `first`, episode by episode: no episode sees the size of another."""
    found = np.empty(values.size)
    for top, length in zip(first.tolist(), lengths.tolist(), strict=True):
        found[top : top + length] = np.cumsum(values[top : top + length])
    return found


def _sums(columns: Decisions, values: FloatArray) -> FloatArray:
    """Per episode; values are >= 0 or good to what the caller adds."""
    assert columns.episodes is not None
    total = np.bincount(columns.episodes, weights=values, minlength=columns.units)
    return np.asarray(total - np.abs(total) * (np.bincount(columns.episodes) + 4) * 2 * U)


def last_rows(columns: Decisions) -> IntArray:
    """The last row of every episode, (units,)."""
    assert columns.episodes is not None
    last = np.zeros(columns.units, dtype=np.int64)
    np.maximum.at(last, columns.episodes, np.arange(columns.episodes.size))
    return last


def _powers(gamma: float, exponents: IntArray) -> FloatArray:
    """γ^t, from below where it is positive."""
    table = np.array([1.0, *np.cumprod(np.full(int(exponents.max()), gamma))])
    return np.asarray(table * np.maximum(1.0 - 4 * U * np.arange(table.size), 0.0))[exponents]


def _floors(columns: Decisions, last: int) -> tuple[FloatArray, FloatArray]:
    """v_0, ..., v_last from below and from above: v_t <= r + γ v_{t+1} for every reward, and v_t <= r where the process may end.

    The two floats of a time depend on what was stated alone, not on how long the episodes of this log are.
    """
    terms = columns.terms
    if terms.horizon is None:
        low, high = _floor(terms, None)
        return np.full(last + 1, low), np.full(last + 1, high)
    ends = np.array([_floor(terms, max(terms.horizon - time, 0)) for time in range(last + 1)])
    return ends[:, 0], ends[:, 1]


def _floor(terms: Terms, steps: int | None) -> tuple[float, float]:
    """The lower end of (6) with this many steps left, between two floats."""
    if steps == 0:
        return 0.0, 0.0
    low = terms.reward_range[0]
    value = discounted_steps(terms.gamma, steps) * low if low else Enclosure(0.0)
    return (min(low, value.lower), min(low, value.upper)) if terms.may_terminate else (value.lower, value.upper)


def control_states(columns: Decisions) -> FloatArray:
    """What q̂ looks at within an episode: the state and the step."""
    assert columns.steps is not None
    return np.column_stack([columns.observations, columns.steps])


def units_left(terms: Terms, steps: IntArray) -> FloatArray:
    """Discounted steps that are left at a step, 1 without a horizon: predictions of episodes are made in these units."""
    if terms.horizon is None:
        return np.ones(steps.size)
    left = np.array([discounted_steps(terms.gamma, count).mid for count in range(terms.horizon + 1)])
    return np.asarray(left[np.maximum(terms.horizon - steps, 0)])


def largest_sum(terms: Terms, cap: float) -> float:
    """sum_t γ^t ρ̄^(t+1) over the steps that an episode may have, from above; infinite where nothing bounds it."""
    gamma, horizon = terms.gamma, terms.horizon
    if horizon is None:
        left = 1.0 - Enclosure(gamma) * cap
        return (Enclosure(cap) / left).upper if left.lower > 0.0 else np.inf
    return np.inf if horizon > _LONGEST else float(np.sum(_largest_weights(terms, cap)) * (1 + 4 * _LONGEST * U))


def _largest_weights(terms: Terms, cap: float) -> FloatArray:
    """γ^t ρ̄^(t+1), t below the horizon, good to 4 t roundings."""
    assert terms.horizon is not None
    with np.errstate(over="ignore"):
        return np.asarray(cap * np.array([1.0, *np.cumprod(np.full(terms.horizon - 1, terms.gamma * cap))]))


def robust_returns(columns: Decisions, control: Control, stated: Stated) -> Robust:
    """Doubly robust returns of the episodes from the first border on; needs a bound of the ratios and of the number of steps."""
    limits = columns.limits
    assert columns.episodes is not None
    assert columns.steps is not None
    first = int(np.searchsorted(columns.rows[first_rows(columns)], control.borders[0]))
    later = columns.episodes >= first
    found = columns.sign * control.values(columns.rows[later], control_states(columns)[later])
    found = np.clip(found * units_left(columns.terms, columns.steps[later])[:, None], limits.low, limits.high)
    probs = None if columns.probs is None else columns.probs[later]
    means, q = np.zeros(len(columns.rows)), np.zeros(len(columns.rows))
    means[later], q[later] = mean_and_taken(found, probs, columns.slots[later])
    floor = _least_return(columns, control.clip, stated)
    values, centers = returns_with(columns, q, means)[first:], means[first_rows(columns)][first:]
    return Robust(values, centers, centers - floor, floor, first)


def _least_return(columns: Decisions, clip: tuple[float, float], stated: Stated) -> float:
    """lo_0 - sum_t γ^t ρ̄^(t+1) d_t, d_t = (hi_t - r_lo - γ min(0, lo_{t+1}, v_{t+1}))_+: no return can be below it.

    Predictions at step t lie in [lo_t, hi_t]. Without a horizon these are the same at every step.
    """
    terms, limits, cap = columns.terms, columns.limits, stated.cap()
    assert cap is not None
    count = 1 if terms.horizon is None else terms.horizon
    units = units_left(terms, np.arange(count + 1))
    ends = np.sort(np.clip(columns.sign * units[:, None] * np.array(clip), limits.low, limits.high), axis=1)
    following = np.minimum(np.minimum(ends[1:, 0], _floors(columns, count)[0][1:]), 0.0)
    drops = np.maximum(ends[:-1, 1] - terms.reward_range[0] - terms.gamma * following, 0.0)
    drops = drops + 32 * U * limits.largest
    weights = np.array([largest_sum(terms, cap)]) if terms.horizon is None else _largest_weights(terms, cap)
    lost = float(np.sum(weights * drops)) * (1 + 8 * (_LONGEST + 8) * U)
    return next_down(float(ends[0, 0]) - lost) - 64 * U * limits.largest


def returns_with(columns: Decisions, q: FloatArray, means: FloatArray) -> FloatArray:
    """v̂(s_0) + sum_t γ^t ρ_{0:t} ( r_t + γ v̂(s_{t+1}) - q̂(s_t, a_t) ) per episode, from below; `means` are v̂ = E_π[q̂(s, .)].

    After an end the next v̂ is 0; after a cut it is the least value that there can be.
    """
    assert columns.steps is not None
    assert columns.episodes is not None
    steps, gamma = columns.steps, columns.terms.gamma
    least = _floors(columns, int(steps.max()) + 1)[0][steps + 1]
    last = np.append(np.diff(columns.episodes) != 0, True)
    following = np.where(columns.continues, np.where(last, least, np.append(means[1:], 0.0)), 0.0)
    weights = cumulative(columns)
    scale = weights.values * gamma**steps
    move = scale * (columns.rewards + gamma * following - q)
    # v̂ is a sum over actions of numbers within the limits, with π good to one rounding for every action
    slots = 1 if columns.probs is None else columns.probs.shape[1]
    mean_error = 4 * U * (slots + 4) * columns.limits.largest
    size = scale * (np.abs(columns.rewards) + np.abs(following) + np.abs(q))
    error = size * (2 * weights.errors + (steps + 16) * 8 * U) + scale * (1 + 2 * weights.errors) * mean_error
    total, off, gross = (
        np.bincount(columns.episodes, weights=one, minlength=columns.units) for one in (move, error, np.abs(move))
    )
    lengths = np.bincount(columns.episodes)
    rounding = (lengths + 8) * 4 * U * (gross + columns.limits.largest) + mean_error
    return np.asarray(means[first_rows(columns)] + total - off - rounding)


def first_rows(columns: Decisions) -> IntArray:
    """The first row of every episode, where they stand one after the other."""
    assert columns.steps is not None
    return np.flatnonzero(columns.steps == 0)
