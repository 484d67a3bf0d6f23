"""Both ends from propensities: what is bet on, with which rates, and what comes out (section 13).

Population value: the wealth (22) of bets on every unit, a mixture over several ways to weigh the same rows. Value over these
contexts: (21), with one rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from bondic.bounds.control import Control
from bondic.bounds.decision_values import Robust, Stated, check_ratios, free_values, robust_values
from bondic.bounds.decisions import Decisions
from bondic.bounds.dual import NOISE
from bondic.bounds.episode_values import largest_sum, per_decision_values, robust_returns, whole_values
from bondic.claims import Claim, Part
from bondic.errors import InvalidInput
from bondic.noise.betting import tail_term
from bondic.noise.wealth import ContextBets, Gambler, contexts_end, lower_end, moderate, plug_in_rates
from bondic.rounding import Enclosure, U, certified_sum, next_down

FloatArray = npt.NDArray[np.float64]
Value = Literal["population", "contexts"]

BETS = ((1.0, 0.75), (2.0, 0.95))
"""Every way to weigh is bet on twice: multiples of the plug-in rate, with the largest share of the wealth that one value may
take. Fixed here: by experiment on click and classification logs, within a tenth of the best single bet."""
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
    begin = (0.5 * (limits.low + limits.high), max(0.25 * limits.width**2, 1e-300), 1.0)
    if columns.episodes is not None:
        values, floor = per_decision_values(columns, stated.off_by)
        found = [Way("per-decision", values, floor, start=begin)]
        if columns.terms.value_range is not None:
            values, floor = whole_values(columns, stated.off_by)
            found.append(Way("whole episodes", values, floor, start=begin))
        return (*found, *_robust(columns, control, stated))
    free = Way("weighted rewards", free_values(columns, stated.off_by), limits.low, start=begin)
    return free, *_robust(columns, control, stated)


def _robust(columns: Decisions, control: Control | None, stated: Stated) -> tuple[Way, ...]:
    """Doubly robust values, where there is a control variate and a bound of what they can lose."""
    cap = stated.cap()
    if control is None or stated.off_by > 1.0 or cap is None:
        return ()
    single = columns.episodes is None
    if not (columns.one_by_one and (single or np.isfinite(largest_sum(columns, cap)))):
        raise InvalidInput("Doubly robust returns need episodes one after the other, and a bound of their steps.")
    robust = (robust_values if single else robust_returns)(columns, control, stated)
    if not robust.values.size:
        return ()
    values = np.concatenate([np.full(robust.first, robust.floor), robust.values])
    mean, variance = control.expected
    start = (columns.sign * mean, variance, _SEEN)
    return (Way("doubly robust", values, robust.floor, robust.first, start, robust),)


def promised_ways(columns: Decisions, stated: Stated) -> int:
    """How many ways there are, or would have been if the log had not stopped before the first block.

    Every way has its share of the wealth from the start. Were it handed out when the first block is reached, somebody who
    may stop before it would bet with more than all of the wealth.
    """
    free = 1 if columns.episodes is None or columns.terms.value_range is None else 2
    cap = stated.cap()
    bounded = cap is not None and (columns.episodes is None or bool(np.isfinite(largest_sum(columns, cap))))
    return free + int(bounded and stated.off_by == 1.0)


def population_claim(
    columns: Decisions, found: Sequence[Way], stated: Stated, planned: int, probability: float
) -> Claim:
    """E_{d_0}[value] is at least where the mixture's wealth once reached 1/delta."""
    gamblers, share = [], 1.0 / (max(len(found), promised_ways(columns, stated)) * len(BETS))
    for way in found:
        rates = np.zeros(way.values.size)
        rates[way.first :] = plug_in_rates(way.values[way.first :], planned - way.first, probability, way.start)
        gamblers += [Gambler(way.values, way.floor, multiple * rates, most, share) for multiple, most in BETS]
    limits = columns.limits
    return _claim(columns, found, lower_end(gamblers, limits.low, limits.high, probability), probability)


def contexts_claim(columns: Decisions, found: Sequence[Way], rates: Sequence[float], probability: float) -> Claim:
    """The mean of E[value | s_i] over these rows, (21), with one rate for every way."""
    limits, count = columns.limits, len(columns.rows)
    if columns.episodes is not None or any(way.first for way in found) or len(rates) != len(found):
        raise InvalidInput("The value over these contexts needs one rate for every way to weigh single rows.")
    bets = []
    for way, rate in zip(found, rates, strict=True):
        centers, losses = _centers(way) if way.robust is None else (way.robust.centers, way.robust.losses)
        shifted = [np.asarray(one - limits.low) for one in (way.values, centers)]
        size = np.abs(centers) + abs(limits.low)  # of what is known before the value
        values = shifted[0] - 8 * U * (size + np.abs(way.values))
        bets += [
            ContextBets(
                values, shifted[1], losses + 8 * U * size, multiple * rate, most, 1.0 / (len(found) * len(BETS))
            )
            for multiple, most in BETS
        ]
    mean = contexts_end(bets, count, limits.width, probability)
    return _claim(columns, found, next_down((Enclosure(limits.low) + mean).lower), probability)


def _centers(way: Way) -> tuple[FloatArray, FloatArray]:
    """Running means of the values before, and how far below them a value can be."""
    before = np.concatenate([np.zeros(1), np.cumsum(way.values)[:-1]])
    centers = (way.start[0] + before) / (1.0 + np.arange(way.values.size))
    return centers, np.maximum(centers - way.floor, 0.0) * (1 + 8 * U)


def _claim(columns: Decisions, found: Sequence[Way], bound: float, probability: float) -> Claim:
    """The end as the weighted mean of the way that was weighed last, less what chance may have added to it."""
    way, limits = found[-1], columns.limits
    bound = min(max(bound, limits.low), limits.high)
    used = way.values[way.first :]
    mean = certified_sum(used).mid / used.size
    value = min(
        max(mean, bound), limits.high
    )  # bets may have been won before the mean fell; and it may exceed the range
    noise = Enclosure(value) - bound
    parts = (
        Part(MEAN, Enclosure(columns.sign * value), "value"),
        Part(NOISE, noise, "spread"),
        Part("log(1/delta)", tail_term(probability), "detail"),
    )
    return Claim(columns.end, parts, uses_log=bound > limits.low)


def estimate_of(columns: Decisions, found: Sequence[Way], mirrored: Sequence[Way]) -> float:
    """A guess of the value without a guarantee: the doubly robust mean, or the least varying mix of both ends' values.

    Values from below use v_lo as a control variate, those from above v_hi; the mix of them that varies least on these rows
    has a control variate in between.
    """
    way, other = found[-1], mirrored[-1]
    low, high = moderate(way.values[way.first :]), moderate(-other.values[other.first :])
    gap = high - low
    spread = float(np.var(gap))
    mix = float(np.clip(-np.cov(low, gap)[0, 1] / spread, 0.0, 1.0)) if spread > 0 and low.size > 1 else 0.5
    limits = columns.limits
    return float(np.clip(np.mean(low + mix * gap), limits.low, limits.high))
