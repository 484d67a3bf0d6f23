"""Both ends from propensities: what is bet on, with which rates, and what comes out (section 13).

Population value: the wealth (22) of bets on every unit, a mixture over several ways to weigh the same rows. Value over these
contexts: (21), with one rate. Value over stated starts: (21a), from the units that start there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from bondic.core.betting import tail_term
from bondic.core.bounded import Enclosure, U, certified_sum, next_down
from bondic.core.claims import Claim, Part
from bondic.core.dual.bound import NOISE
from bondic.core.errors import InvalidInput
from bondic.core.propensities.control import Control
from bondic.core.propensities.decision_values import Robust, Stated, check_ratios, free_values, robust_values
from bondic.core.propensities.decisions import Decisions
from bondic.core.propensities.episode_values import largest_sum, per_decision_values, robust_returns, whole_values
from bondic.core.propensities.strata import Strata, balanced_rates, stratum_means
from bondic.core.propensities.wealth import ContextBets, Gambler, contexts_end, lower_end, moderate, plug_in_rates

FloatArray = npt.NDArray[np.float64]
Value = Literal["population", "contexts", "stated starts"]

BETS = ((1.0, 0.75), (2.0, 0.95))
"""Every way to weigh is bet on twice: multiples of the plug-in rate, with the largest share of the wealth that one value may
take. Fixed here: by experiment on click and classification logs, within a tenth of the best single bet."""
_KEPT, _EVEN = 0.5, 0.1
"""Wealth that is not bet before the first block of doubly robust values, and what is divided evenly there. Fixed here: shorter by
a twentieth on average over click, classification and smooth worlds than half for each from the start, longer by that at most."""
_SEEN = 50.0
"""Values that a guess from the rows before the first bet counts for."""
MEAN = "weighted mean"
"""The value part of a claim."""


@dataclass(frozen=True, eq=False)
class Way:
    """One way to weigh the rows: values from below, and what is known about them before they are seen."""

    name: str
    values: FloatArray  # (units,)
    floor: float
    first: int = 0  # units before it are not bet on
    start: tuple[float, float, float] = (0.0, 1.0, 1.0)  # mean, variance and weight that rates begin with
    robust: Robust | None = None


def ways(columns: Decisions, control: Control | None, stated: Stated) -> tuple[Way, ...]:
    """Free of caps first; doubly robust where q̂ and a cap are there."""
    check_ratios(columns.ratios, stated)
    limits = columns.limits
    if columns.episodes is not None:
        values, floor = per_decision_values(columns, stated.off_by)
        found = [Way("per-decision", values, floor, start=_guess(floor, columns.terms.reward_range[1]))]
        if columns.terms.value_range is not None:
            values, floor = whole_values(columns, stated.off_by)
            found.append(Way("whole episodes", values, floor, start=_guess(floor, limits.high)))
        return (*found, *_robust(columns, control, stated))
    start = _guess(limits.low, limits.high)
    free = Way("weighted rewards", free_values(columns, stated.off_by), limits.low, start=start)
    return free, *_robust(columns, control, stated)


def _guess(floor: float, usual: float) -> tuple[float, float, float]:
    """What rates begin with where values are thought to lie between two numbers that were stated; it counts for one value.

    Returns of episodes that end soon are one reward or so, however far the range of values goes: at gamma = 0.999 it is a
    thousand rewards wide, and a guess as wide as that would keep the bets small for 10^5 episodes.
    """
    return 0.5 * (floor + usual), max(0.25 * (usual - floor) ** 2, 1e-300), 1.0


def _robust(columns: Decisions, control: Control | None, stated: Stated) -> tuple[Way, ...]:
    """Doubly robust values, where there is a control variate and a bound of what they can lose."""
    cap = stated.cap()
    if control is None or stated.off_by > 1.0 or cap is None:
        return ()
    single = columns.episodes is None
    if not (columns.one_by_one and (single or np.isfinite(largest_sum(columns.terms, cap)))):
        raise InvalidInput("Doubly robust returns need episodes one after the other, and a bound of their steps.")
    robust = (robust_values if single else robust_returns)(columns, control, stated)
    if not robust.values.size:
        return ()
    values = np.concatenate([np.full(robust.first, robust.floor), robust.values])
    mean, variance = control.expected
    start = (columns.sign * mean, variance, _SEEN)
    return (Way("doubly robust", values, robust.floor, robust.first, start, robust),)


def promised(columns: Decisions, stated: Stated) -> bool:
    """Whether there are doubly robust values, or would have been if the log had not stopped before the first block.

    Somebody who may stop there must have bet up to it as if the log went on, or would have two chances.
    """
    cap = stated.cap()
    bounded = cap is not None and (columns.episodes is None or bool(np.isfinite(largest_sum(columns.terms, cap))))
    return bounded and stated.off_by == 1.0


def population_claim(
    columns: Decisions, found: Sequence[Way], stated: Stated, planned: int, probability: float
) -> Claim:
    """E_{d_0}[value] is at least where the mixture's wealth once reached 1/delta.

    Doubly robust values are bet on from the first block on: up to it a part of the wealth is kept, and there all of it is divided
    anew among all ways.
    """
    free, robust = [way for way in found if way.robust is None], [way for way in found if way.robust is not None]
    first = robust[0].first if robust else free[0].values.size
    rates = {way.name: _rates(way, planned, probability) for way in found}

    def gamblers(some: Sequence[Way], shares: Sequence[float], part: slice) -> list[Gambler]:
        return [
            Gambler(way.values[part], way.floor, multiple * rates[way.name][part], most, share / len(BETS))
            for way, share in zip(some, shares, strict=True)
            for multiple, most in BETS
        ]

    kept = _KEPT if promised(columns, stated) else 0.0
    before = gamblers(free, [(1.0 - kept) / len(free)] * len(free), slice(0, first))
    if kept:
        before.append(Gambler(free[0].values[:first], free[0].floor, np.zeros(first), BETS[0][1], kept))
    after = gamblers(found, _shares(found, first, planned, probability), slice(first, None)) if robust else []
    limits = columns.limits
    return _claim(columns, found, lower_end(after, limits.low, limits.high, probability, before), probability)


def _rates(way: Way, planned: int, probability: float) -> FloatArray:
    rates = np.zeros(way.values.size)
    rates[way.first :] = plug_in_rates(way.values[way.first :], planned - way.first, probability, way.start)
    return rates


def _shares(found: Sequence[Way], first: int, planned: int, probability: float) -> list[float]:
    """Of the wealth at the first block: as 1 / length^2, the lengths that the values before it foresee.

    With the rate v a bet of N values costs log(1/delta) / (N v) + v variance / 2. `_EVEN` of the wealth is divided evenly, as a
    pilot may mislead.
    """
    count, price = max(planned - first, 1), math.log(1.0 / probability)
    lengths = []
    for way in found:
        mean, variance, weight = way.start
        if way.robust is None:
            seen = moderate(way.values[:first])
            total = weight + first
            mean = float(weight * mean + seen.sum()) / total
            variance = float(weight * variance + np.sum((seen - mean) ** 2)) / total
        most = max(share for _, share in BETS) / max(mean - way.floor, 1e-300)
        rate = min(math.sqrt(2.0 * price / (count * variance)), most)
        lengths.append(price / (count * rate) + 0.5 * rate * variance)
    weights = (min(lengths) / np.array(lengths)) ** 2
    return [_EVEN / len(found) + (1.0 - _EVEN) * share * (1 - 8 * U) for share in (weights / weights.sum()).tolist()]


def contexts_claim(columns: Decisions, found: Sequence[Way], rates: Sequence[float], probability: float) -> Claim:
    """The mean of E[value | s_i] over these rows, (21), with one rate for every way."""
    count = len(columns.rows)
    if columns.episodes is not None or any(way.first for way in found) or len(rates) != len(found):
        raise InvalidInput("The value over these contexts needs one rate for every way to weigh single rows.")
    bets = []
    for way, rate in zip(found, rates, strict=True):
        centers, losses = _centers(columns, way, _running_means(way))
        for multiple, most in BETS:
            cut = np.minimum(multiple * rate, _largest_rates(losses, most))
            total = (Enclosure(multiple) * rate * float(count)).upper
            bets.append(_bets(columns, way, centers, losses, cut, total, most, 1.0 / (len(found) * len(BETS))))
    return _mean_claim(columns, found, bets, probability)


def starts_claim(
    columns: Decisions, found: Sequence[Way], strata: Strata, stated: Stated, planned: int, probability: float
) -> Claim:
    """The value over stated starts, (21a), from the units that start there.

    Ways that would have come later have their share from the start, as in `population_claim`.
    """
    robust = any(way.robust is not None for way in found)
    count, bets = len(found) + int(promised(columns, stated) and not robust), []
    for way in found:
        own, values = strata.since(way.first), way.values[way.first :]
        centers, losses = _centers(columns, way, stratum_means(values, own, way.start[0]))
        for multiple, most in BETS:
            rates = balanced_rates(
                values, centers, losses, most, own, planned - way.first, probability, way.start[1:], multiple
            )  # fmt: skip
            if rates.any():  # else no unit of this way starts at a stated state: its share is kept
                share = 1.0 / (count * len(BETS))
                bets.append(_bets(columns, way, centers, losses, rates, own.total(rates), most, share))
    if not bets:
        raise InvalidInput(no_stated_start(columns))
    return _mean_claim(columns, found, bets, probability, strata)


def no_stated_start(columns: Decisions) -> str:
    unit = "row" if columns.episodes is None else "episode"
    return (
        f"No {unit} of the log starts at a state of the stated list (states are compared number by number), so propensities say "
        "nothing about it. Leave `initial` out (no --initial) for the value over the log's own starts, or use a method that "
        "carries over from other states: Sequential(), Dual()."
    )


def _largest_rates(losses: FloatArray, most: float) -> FloatArray:
    """With which no value can take more than the share `most` of the wealth."""
    with np.errstate(divide="ignore"):
        return np.asarray(most / losses)


def _bets(
    columns: Decisions, way: Way, centers: FloatArray, losses: FloatArray, rates: FloatArray, total: float, most: float,
    share: float,
) -> ContextBets:  # fmt: skip
    """All counted from the least value, rounded down."""
    low, values = columns.limits.low, way.values[way.first :]
    shifted = np.asarray(values - low) - 8 * U * (_size(columns, centers) + np.abs(values))
    return ContextBets(shifted, np.asarray(centers - low), losses, rates, total, most, share)


def _size(columns: Decisions, centers: FloatArray) -> FloatArray:
    """Of what is rounded before the value is seen."""
    return np.abs(centers) + abs(columns.limits.low)


def _mean_claim(
    columns: Decisions, found: Sequence[Way], bets: Sequence[ContextBets], probability: float, strata: Strata | None = None
) -> Claim:  # fmt: skip
    limits = columns.limits
    bound = next_down((Enclosure(limits.low) + contexts_end(bets, limits.width, probability)).lower)
    return _claim(columns, found, bound, probability, strata)


def _centers(columns: Decisions, way: Way, means: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What values are expected to be, and how far below it they can be: q̂, or means of the values before."""
    if way.robust is not None:
        return way.robust.centers, way.robust.losses + 8 * U * _size(columns, way.robust.centers)
    losses = np.maximum(means - way.floor, 0.0) * (1 + 8 * U)
    return means, np.asarray(losses + 8 * U * _size(columns, means))


def _running_means(way: Way) -> FloatArray:
    before = np.concatenate([np.zeros(1), np.cumsum(way.values)[:-1]])
    return np.asarray((way.start[0] + before) / (1.0 + np.arange(way.values.size)))


def _claim(
    columns: Decisions, found: Sequence[Way], bound: float, probability: float, strata: Strata | None = None
) -> Claim:
    """The end as the weighted mean of the way that was weighed last, less what chance may have added to it."""
    way, limits = found[-1], columns.limits
    bound = max(bound, limits.low)  # beyond the range where no value of it is left
    used = way.values[way.first :]
    shares = np.full(used.size, 1.0 / used.size) if strata is None else strata.since(way.first).shares()
    mean = certified_sum(shares * used).mid
    # bets may have been won before the mean fell; and it may exceed the range
    value = max(min(mean, limits.high), bound)
    noise = Enclosure(value) - bound
    parts = (
        Part(MEAN, Enclosure(columns.sign * value), "value"),
        Part(NOISE, noise, "spread"),
        Part("log(1/delta)", tail_term(probability), "detail"),
    )
    return Claim(columns.end, parts, uses_log=bound > limits.low)


def estimate_of(
    columns: Decisions, found: Sequence[Way], mirrored: Sequence[Way], strata: Strata | None = None
) -> float:
    """A guess of the value without a guarantee: the doubly robust mean, or the least varying mix of both ends' values.

    Values from below use v_lo as a control variate, those from above v_hi; the mix of them that varies least on these rows
    has a control variate in between. NaN where they differ by a constant (no row has a weight that tells), and where a stated
    start was never met.
    """
    way, other = found[-1], mirrored[-1]
    low, high = moderate(way.values[way.first :]), moderate(-other.values[other.first :])
    gap = high - low
    unmet = strata is not None and not strata.since(way.first).counts().all()
    if unmet or (gap.size and gap[0] != 0 and np.all(gap == gap[0])):
        return math.nan
    spread = float(np.var(gap))
    mix = float(np.clip(-np.cov(low, gap)[0, 1] / spread, 0.0, 1.0)) if spread > 0 and low.size > 1 else 0.5
    limits = columns.limits
    shares = None if strata is None else strata.since(way.first).shares()
    return float(np.clip(np.average(low + mix * gap, weights=shares), limits.low, limits.high))
