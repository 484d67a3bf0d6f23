"""Wealth of bets that a mean is larger: lower ends from values X_1, X_2, ... (section 13, Theorems 39 and 40).

*One mean.* E[X_i | past] <= J and X_i >= a. For rates v_i >= 0 from the past and 0 < c < 1

    W_n(J) = prod_i ( 1 + v_i(J) (X_i - J) ),     v_i(J) = min( v_i, c / (J - a)_+ ),                          (22)

is a supermartingale that starts at 1: the mean of a factor is at most 1, and no factor is below 1 - c. So it ever reaches
1/delta with probability at most delta (Ville). It decreases in J whatever the values are, and so does a mixture of such
processes with fixed weights: all J below the largest one at which the wealth once reached 1/delta are rejected together. At some
time all of the wealth may be divided anew, by what was observed before: the product of both mixtures, which decreases as well.

*Means m_i >= a of their own.* With centers c_i and rates v_i from the past

    prod_i exp( log(1 + v_i (X_i - c_i)) + v_i (c_i - m_i) )   is a supermartingale: the mean of a factor is (1 + u) e^-u <= 1,

u = v_i (m_i - c_i) (the Lemma of section 9). Any V with sum_i v_i (m_i - a) <= V (J - a) makes it a lower end of J: for the mean
of n contexts (21) V = n max_i v_i, for stated starts (21a) `Strata.total`.

A `Strategy` is data: whatever its numbers are, an end holds if they were fixed before the values; good ones make it short.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from bondic.core.betting import tail_term
from bondic.core.bounded import (
    PORTION,
    Column,
    Computed,
    Enclosure,
    FloatArray,
    IntArray,
    U,
    certified_sum,
    next_down,
    portions,
    same_sum,
)
from bondic.core.errors import InvalidInput, NumericalError

Place = tuple[float, float]

MAX_RISK = 0.99
"""No bet may risk more than this share of the wealth."""
_MODERATE = 1e140
"""Squares of larger numbers could overflow."""
_BACKWARD_STEPS = 44
"""From where floats see the crossing, each twice as long: the first is 1e-13 of the range."""
_BEYOND = 1e-6
"""Of the range: how far beyond it the end is put where every value in it is rejected, so that no rounding brings it back."""
_NODES = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
"""Candidates of a pass, around the middle."""
_MOST_PASSES = 60
_CHECKS = 4096
"""Checking the wealth less often is conservative, and faster for long logs."""


@dataclass(frozen=True)
class Strategy:
    """Numbers of the bets.

    The defaults were fixed by experiment on click and classification logs: within a tenth of the best single bet there, and
    shorter by a twentieth than equal shares from the start.
    """

    bets: tuple[tuple[float, float], ...] = ((1.0, 0.75), (2.0, 0.95))  # multiple of the rate, largest share at risk
    reserve: float = 0.5  # of the wealth, not bet before doubly robust values begin
    prior_weight: float = 1.0  # of what is expected of weighted rewards, in observations
    control_weight: float = 50.0  # of what is expected of doubly robust values

    def __post_init__(self) -> None:
        fine = bool(self.bets) and all(0 < multiple < math.inf and 0 < risk <= MAX_RISK for multiple, risk in self.bets)
        fine = fine and 0 <= self.reserve < 1
        if not (fine and 0 < self.prior_weight < math.inf and 0 < self.control_weight < math.inf):
            raise InvalidInput("The numbers of a betting strategy are out of range.")

    @property
    def largest_risk(self) -> float:
        return max(risk for _, risk in self.bets)


@dataclass(frozen=True, eq=False)
class PlugInRates(Computed):
    """sqrt( 2 log(1/delta) / (N s_i^2) ), s_i^2 the variance of the values before the i-th: nothing in it is from later.

    N values are planned; `prior` are a mean, a variance > 0 and their weight in observations. It would be best for a known
    variance and many values; another rate makes an end longer, never wrong. Sums go on where the part before ended, so
    rates are cheap in the order of the values.
    """

    values: Column
    planned: int
    probability: float
    prior: tuple[float, float, float]
    _reached: list[tuple[int, float, float]] = field(default_factory=lambda: [(0, 0.0, 0.0)])  # values, and their sums

    @property
    def size(self) -> int:
        return self.values.size

    def part(self, some: slice) -> FloatArray:
        if self._reached[0][0] > some.start:
            self._reached[0] = 0, 0.0, 0.0
        while (begin := self._reached[0][0]) < some.start:
            self._next(slice(begin, min(begin + PORTION, some.start)))
        return self._next(some)

    def _next(self, some: slice) -> FloatArray:
        (mean, variance, weight), (_, total, squares) = self.prior, self._reached[0]
        mine, before = moderate(self.values[some]), weight + np.arange(some.start, some.stop)
        sums = np.cumsum(np.concatenate([[total], mine]))
        deviations = (mine - (weight * mean + sums[:-1]) / before) ** 2
        spread = np.cumsum(np.concatenate([[squares], deviations]))
        self._reached[0] = some.stop, float(sums[-1]), float(spread[-1])
        variances = (weight * variance + spread[:-1]) / before
        return np.asarray(np.sqrt(2.0 * math.log(1.0 / self.probability) / (max(self.planned, 1) * variances)))


def running_means(values: Column, guess: float) -> FloatArray:
    """Means of the earlier values, and of the guess as one more."""
    return np.asarray((guess + _sums_before(np.asarray(values))) / (1.0 + np.arange(values.size)))


def moderate(values: Column) -> FloatArray:
    """Cut where squares would overflow: for rates and guesses, which may be any numbers."""
    return np.clip(np.asarray(values), -_MODERATE, _MODERATE)


def _sums_before(values: FloatArray) -> FloatArray:
    return np.concatenate([np.zeros(1), np.cumsum(values)[:-1]])


def _log_factors(bets: FloatArray, risk: float) -> FloatArray:
    """log(1 + bet) from below, bets good to a few U. Below -risk they come from rounding alone, and are cut there."""
    logs = np.log1p(np.maximum(bets - 8 * U * np.abs(bets), -risk * (1 + 8 * U)))
    return np.asarray(logs - 8 * U * np.abs(logs))


@dataclass(frozen=True, eq=False)
class BettingProcess:
    """One process (22) of a mixture."""

    values: Column  # (n,) X_i, rounded down
    floor: float  # a: no value can be below it, whatever happens
    rates: Column  # (n,) v_i / multiple >= 0, from earlier values alone
    risk: float  # c: the largest share of the wealth that one value can take
    share: float  # of the wealth at the start; those of a mixture sum to 1 at most
    multiple: float = 1.0

    def __post_init__(self) -> None:
        if not (0 < self.risk <= MAX_RISK and self.share > 0 and 0 < self.multiple < math.inf):
            raise NumericalError("A bet could lose everything, or is none.")

    def log_factors(self, candidate: float, values: FloatArray, rates: FloatArray) -> FloatArray:
        """Of (22) at some of the values, rounded down. Below the floor nothing can be lost, and rates are not cut."""
        gap = candidate - self.floor
        own = rates if self.multiple == 1.0 else self.multiple * rates
        return _log_factors((np.minimum(own, self.risk / gap) if gap > 0 else own) * (values - candidate), self.risk)


class Stage(tuple[BettingProcess, ...]):
    """Processes on the same rows, which share the wealth by fixed shares."""

    @property
    def size(self) -> int:
        return self[0].values.size

    def columns(self, stretches: Iterable[slice]) -> Iterator[tuple[slice, list[tuple[FloatArray, FloatArray]]]]:
        """Values and rates of every process, a stretch at a time; those that processes share are made once."""
        different = {id(column): column for one in self for column in (one.values, one.rates)}
        for some in stretches:
            made = {name: column[some] for name, column in different.items()}
            for column in made.values():
                if not np.all(np.isfinite(column)):
                    raise NumericalError("A value or a rate of a bet is not finite.")
            for one in self:
                if not np.all(made[id(one.rates)] >= 0):
                    raise NumericalError("A bet could lose everything, or is none.")
            yield some, [(made[id(one.values)], made[id(one.rates)]) for one in self]

    def guess(self, needed: float) -> tuple[float, float] | None:
        """About where the wealth reaches its level, and how far that may be off; only the search begins there.

        Rates sqrt(2 log(1/delta) / (n s^2)) that add up to V leave an end about 2 log(1/delta) / V below the mean.
        """
        means, totals = np.zeros(len(self)), np.zeros(len(self))
        for _, columns in self.columns(portions(self.size)):
            means += [float(np.sum(values)) / self.size for values, _ in columns]
            totals += [one.multiple * float(np.sum(rates)) for one, (_, rates) in zip(self, columns, strict=True)]
        best = int(np.argmax(totals))
        if not 0.0 < totals[best] < math.inf:
            return None
        return float(means[best] - 2.0 * needed / totals[best]), float(needed / totals[best])

    def log_sums(self, candidates: FloatArray) -> FloatArray:
        """(candidates, processes, checks): logs of the products of the factors up to every check but the first.

        In ordinary floats; some checks are held at a time.
        """
        starts = _checks(self.size)
        ends = [0, *(int(np.searchsorted(starts, some.stop, side="right")) - 1 for some in portions(self.size))]
        groups = [(first, last) for first, last in pairwise(ends) if last > first]
        found, stretches = (
            np.empty((len(candidates), len(self), starts.size - 1)),
            (slice(*starts[[a, b]]) for a, b in groups),
        )
        for (first, last), (some, columns) in zip(groups, self.columns(stretches), strict=True):
            places = starts[first:last] - some.start
            for j, (one, own) in enumerate(zip(self, columns, strict=True)):
                for k, candidate in enumerate(candidates.tolist()):
                    found[k, j, first:last] = np.add.reduceat(one.log_factors(candidate, *own), places)
        return np.asarray(np.cumsum(found, axis=2))

    def certain(self, candidate: float, stop: int) -> float:
        """log of the wealth after so many values, rounded down."""
        parts: list[list[float]] = [[] for _ in self]
        for _, columns in self.columns(portions(stop)):
            for one, own, part in zip(self, columns, parts, strict=True):
                part += same_sum(one.log_factors(candidate, *own))
        return _log_mixture([(one.share, certified_sum(part)) for one, part in zip(self, parts, strict=True)])


@dataclass(frozen=True, eq=False)
class _Wealth:
    """Of stages one after the other: what one ends with is divided by the shares of the next."""

    stages: tuple[Stage, ...]
    needed: float

    def logs(self, sums: Sequence[FloatArray]) -> list[FloatArray]:
        """(checks,) log of the wealth, stage by stage, from sums (processes, checks)."""
        found, begun = [], 0.0
        for stage, own in zip(self.stages, sums, strict=True):
            shares = np.array([[math.log(one.share)] for one in stage])
            found.append(begun + np.asarray(np.logaddexp.reduce(own + shares, axis=0)))
            begun = float(found[-1][-1])
        return found

    def lead(self, sums: Sequence[FloatArray]) -> float:
        return max(float(np.max(logs)) for logs in self.logs(sums)) - self.needed

    def best(self, sums: Sequence[FloatArray]) -> list[int]:
        """How many values of every stage stand before the check at which the wealth is largest."""
        logs = self.logs(sums)
        last = int(np.argmax([np.max(one) for one in logs]))
        stops = [stage.size for stage in self.stages[:last]]
        return [*stops, int(_checks(self.stages[last].size)[int(np.argmax(logs[last])) + 1])]

    def reaches(self, candidate: float, stops: Sequence[int]) -> bool:
        """Whether the wealth after so many values is certain to be exp(needed)."""
        total = 0.0
        for stage, stop in zip(self.stages, stops, strict=False):
            total = next_down(total + stage.certain(candidate, stop))
        return total >= self.needed

    def at(self, candidates: FloatArray) -> _Curve:
        return _Curve(self, candidates, [stage.log_sums(candidates) for stage in self.stages])


@dataclass(frozen=True, eq=False)
class _Curve:
    """Sums of all checks at some candidates, and the polynomial through them in between."""

    wealth: _Wealth
    nodes: FloatArray  # ascending
    sums: list[FloatArray]  # of every stage, (nodes, processes, checks)

    def at_node(self, k: int) -> float:
        return self.wealth.lead([one[k] for one in self.sums])

    def root(self, below: Place, over: Place, width: float, without: int | None) -> float:
        return _crossing(lambda x: self.wealth.lead(self.between(x, without)), below, over, width)

    def between(self, candidate: float, without: int | None) -> list[FloatArray]:
        """Interpolated sums (processes, checks), through all nodes or without one."""
        kept = [k for k in range(self.nodes.size) if k != without]
        apart = self.nodes[kept, None] - self.nodes[None, kept] + np.eye(len(kept))
        far = candidate - self.nodes[kept][None, :] + np.zeros_like(apart)
        np.fill_diagonal(far, 1.0)
        weights = np.prod(far / apart, axis=1)
        return [np.tensordot(weights, one[kept], 1) for one in self.sums]


def lower_end(stages: Sequence[Sequence[BettingProcess]], least: float, most: float, probability: float) -> float:
    """The largest J in [least, most] that is known to be rejected, with everything below it; `least` if there is none.

    Beyond `most` where that is rejected as well: no value is left then, and what was assumed is contradicted. What a stage ends
    with is divided by the shares of the next one, which goes on with it.
    """
    found = tuple(Stage(stage) for stage in stages if stage and stage[0].values.size)
    for stage in found:
        _check_shares([one.share for one in stage])
    wealth, span = _Wealth(found, tail_term(probability).upper), most - least
    guesses = [guess for stage in found if (guess := stage.guess(wealth.needed))]
    if not (span > 0 and guesses):
        return least
    place, stops = _search(wealth, least + 1e-9 * span, most, min(guesses, key=lambda guess: guess[1]))
    if stops is None:
        return least
    if place == most and wealth.reaches(most, stops):
        return most + _BEYOND * span + 64 * U * abs(most)
    return _certain_end(lambda candidate: wealth.reaches(candidate, stops), place, least, span)


def _search(wealth: _Wealth, first: float, most: float, guess: tuple[float, float]) -> tuple[float, list[int] | None]:
    """Where the wealth's lead over its level changes its sign in [first, most], and the checks of the largest wealth there.

    A pass over the values takes a few candidates at once. Between them sums are polynomials, nearly: where those of two
    degrees change their signs at one place, it is taken. No checks: nothing in the range is rejected.
    """
    width, low, high = 1e-13 * (most - first + abs(first)), first, most
    place, half = guess[0], 3.0 * max(guess[1], 1e-9 * (most - first))
    for _ in range(_MOST_PASSES):
        place = min(max(place, low), high)
        curve = wealth.at(np.unique(np.clip(place + half * _NODES, low, high)))
        leads = [curve.at_node(k) for k in range(curve.nodes.size)]
        over = next((k for k, lead in enumerate(leads) if lead < 0.0), len(leads))
        if over == 0 and curve.nodes[0] == first:
            return first, None
        if over == len(leads) and curve.nodes[-1] == most:
            return most, wealth.best([one[-1] for one in curve.sums])
        low = low if over == 0 else float(curve.nodes[over - 1])
        high = high if over == len(leads) else float(curve.nodes[over])
        if not 0 < over < len(leads):  # farther away on that side
            place, half = (low + 8.0 * half if over else high - 8.0 * half), 8.0 * half
            continue
        ends = (low, leads[over - 1]), (high, leads[over])
        place, other = (
            curve.root(*ends, width, without) for without in (None, 0 if over > 2 else curve.nodes.size - 1)
        )
        off = abs(other - place)
        if off <= width or high - low <= width:
            return place, wealth.best(curve.between(place, None))
        half = min(max(1e3 * off, 4.0 * width), 0.1 * half)
    return low, wealth.best([one[0] for one in wealth.at(np.array([low])).sums])


def _check_shares(shares: Sequence[float]) -> None:
    if math.fsum(shares) > 1.0:
        raise NumericalError("A mixture of bets begins with more than all of the wealth.")


@lru_cache(maxsize=8)
def _checks(count: int) -> IntArray:
    """Numbers of values after which the wealth is checked: all, or about _CHECKS of them, evenly spread."""
    return np.unique(np.linspace(0, count, min(count, _CHECKS) + 1).astype(np.int64))


def _log_mixture(parts: Sequence[tuple[float, Enclosure]]) -> float:
    """log sum_k share_k exp(x_k), rounded down."""
    top = max(size.lower for _, size in parts)
    total = math.fsum(share * math.exp(size.lower - top) for share, size in parts)
    logarithm = math.log(total * (1 - 16 * U))
    return next_down(next_down(top + logarithm) - 8 * U * (abs(top) + abs(logarithm) + 1.0))


def _largest(
    lead: Callable[[float], float],
    certain: Callable[[float], bool],
    least: float,
    most: float,
    guess: tuple[float, float] | None = None,
) -> float:
    """Where a decreasing function changes its sign; what is returned is certain, whatever the search has done.

    `guess` is where it may do so, and how far that may be off.
    """
    span = most - least
    first = least + 1e-9 * span
    if not span > 0:
        return least
    below, over = _bracket(lead, first, most, guess or (first, span))
    if below is None:
        return least
    if over is None and certain(most):
        return most + _BEYOND * span + 64 * U * abs(most)
    place = most if over is None else _crossing(lead, below, over, 1e-13 * (span + abs(first)))
    return _certain_end(certain, place, least, span)


def _certain_end(certain: Callable[[float], bool], place: float, least: float, span: float) -> float:
    """The first candidate that is certain, from a place backward, each step twice as long; `least` if there is none."""
    for step in range(_BACKWARD_STEPS):
        candidate = place if step == 0 else place - 2.0 ** (step - _BACKWARD_STEPS) * span
        if candidate <= least + 1e-9 * span:
            break
        if certain(candidate):
            return candidate
    return least


def _bracket(
    lead: Callable[[float], float], first: float, most: float, guess: tuple[float, float]
) -> tuple[Place | None, Place | None]:
    """(x, lead(x)) below and over a sign change in [first, most]; None where there is none on that side."""
    x, step = min(max(guess[0], first), most), max(guess[1], 1e-9 * (most - first))
    found = lead(x)
    ahead = found >= 0.0
    while x != (most if ahead else first):
        before, x = (x, found), min(x + step, most) if ahead else max(x - step, first)
        found, step = lead(x), 8.0 * step
        if (found >= 0.0) != ahead:
            return (before, (x, found)) if ahead else ((x, found), before)
    return ((x, found), None) if ahead else (None, (x, found))


def _crossing(lead: Callable[[float], float], below: Place, over: Place, width: float) -> float:
    """The positive side of a bracket of this width around the sign change, from (x, lead(x)) on both sides.

    Chandrupatla's method: inverse quadratic interpolation through x_1, x_2, x_3 where that is safe, else bisection.
    """
    (x1, f1), (x2, f2), step = over, below, 0.5
    if f2 == 0.0:
        return x2
    while True:
        x = x1 + step * (x2 - x1)
        found = lead(x)
        if (found >= 0.0) == (f1 >= 0.0):
            x3, f3 = x1, f1
        else:
            x3, f3, x2, f2 = x2, f2, x1, f1
        x1, f1 = x, found
        least = 0.5 * width / abs(x2 - x1)
        if least > 0.5 or f1 == 0.0:
            return x1 if f1 >= 0.0 else x2
        xi, phi, step = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2), 0.5
        if phi**2 < xi and (1.0 - phi) ** 2 < 1.0 - xi:
            step = f1 / (f2 - f1) * f3 / (f2 - f3) + (x3 - x1) / (x2 - x1) * f1 / (f3 - f1) * f2 / (f3 - f2)
        step = min(max(step, least), 1.0 - least)


@dataclass(frozen=True, eq=False)
class MeansProcess:
    """One process for values with means m_i of their own. All is counted from a, a lower bound of the means."""

    values: FloatArray  # (n,) X_i - a, rounded down
    centers: FloatArray  # (n,) c_i - a, known before X_i
    losses: FloatArray  # (n,) X_i >= c_i - loss_i, known before X_i
    rates: FloatArray  # (n,) v_i >= 0, known before X_i, v_i loss_i <= risk
    total: float  # V with sum_i v_i (m_i - a) <= V (J - a)
    risk: float
    share: float

    def __post_init__(self) -> None:
        columns = (self.values, self.centers, self.losses, self.rates)
        fine = 0 < self.risk <= MAX_RISK and self.share > 0 and 0 < self.total < math.inf
        fine = fine and all(bool(np.all(np.isfinite(one))) for one in columns)
        fine = fine and bool(np.all(self.losses >= 0) and np.all(self.rates >= 0))
        if not (fine and np.all(self.rates * self.losses <= self.risk * (1 + 8 * U))):
            raise NumericalError("A bet could lose everything, or is none.")

    @cached_property
    def intercept(self) -> Enclosure:
        """sum_i log(1 + v_i (X_i - c_i)) + v_i (c_i - a), from below."""
        gains = self.rates * self.centers
        logs = _log_factors(self.rates * (self.values - self.centers), self.risk)
        return certified_sum(logs) + certified_sum(gains - 4 * U * np.abs(gains))


def means_end(processes: Sequence[MeansProcess], most: float, probability: float) -> float:
    """A lower end of J - a in [0, most]; beyond `most` where every value is rejected."""
    _check_shares([one.share for one in processes])
    needed = tail_term(probability).upper

    def wealth(mean: float) -> float:
        lost = Enclosure(mean)
        return _log_mixture([(one.share, one.intercept - lost * one.total) for one in processes]) - needed

    return _largest(wealth, lambda mean: wealth(mean) >= 0.0, 0.0, most)
