"""Decisions with propensities, alone or in episodes: values whose mean is at most that of the policy (section 13).

One bet is made on every unit: an episode, or a decision that stands alone, which is an episode of one step. All values are lower
ends, rounded down; the upper end is that of the negated rewards (`seen_from`). With ρ_{0:t} the product of the ratios up to
step t, v_t the least value that the stated ranges leave at time t, and b° <= Γ b,

    v_0 + sum_t γ^t ρ_{0:t} (r_t + γ v_{t+1} - v_t) / Γ^(t+1)           has no negative term, and a mean of at most the value;
    v̂(s_0) + sum_t γ^t ρ_{0:t} (r_t + γ v̂(s_{t+1}) - q̂(s_t, a_t))      has the mean of the policy whatever q̂ is, v̂ = E_π[q̂(s, .)]

(Lemmas 37 and 38; Γ = 1 and a bound of the ratios for the second one). Steps that were not recorded, as an episode was cut, are
left out of the first sum, and count with v_t in the second.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import TINY, BoolArray, Enclosure, FloatArray, IntArray, U, filled, next_down
from bondic.core.claims import End
from bondic.core.errors import InvalidInput
from bondic.core.propensities.control import Control
from bondic.core.propensities.ratios import Ratios, Stated
from bondic.core.terms import Terms, ValueRange, discounted_steps, range_of

MAX_STEPS = 64
"""Longer episodes have products of ratios that no bet survives."""
MAX_WEIGHT = 1e130
"""Weights of what is >= 0 are cut here, where squares stay finite: less is conservative."""


@dataclass(frozen=True, eq=False)
class Estimator:
    """Values X of the units from `first` on, mean at most J given the past, and what is known before they are drawn."""

    name: str
    values: FloatArray  # (units - first,) rounded down
    floor: float  # no value can be below it
    prior: tuple[float, float]  # mean and variance > 0 that rates begin with: guesses
    first: int = 0
    predicted: tuple[FloatArray, FloatArray] | None = None  # E_π[q̂(s_i, .)], and how far below it a value can be
    floors: FloatArray | None = (
        None  # (units - first,) the same as `floor`, given the start; means are at most minus these
    )

    @property
    def robust(self) -> bool:
        return self.predicted is not None

    def centers(self, means: FloatArray, some: slice) -> tuple[FloatArray, FloatArray]:
        """What some values are predicted to be, running `means` without q̂, and how far below it they can be."""
        if self.predicted is not None:
            return self.predicted[0][some], self.predicted[1][some]
        least = self.floor if self.floors is None else self.floors[some]
        if self.floors is not None:
            means = np.clip(means, least, -least)
        return means, np.maximum(means - least, 0.0) * (1 + 8 * U)

    @staticmethod
    def between(name: str, values: FloatArray, floor: float, usual: float) -> Estimator:
        """With a prior for values between the floor and what they usually are."""
        return Estimator(name, values, floor, (0.5 * (floor + usual), max(0.25 * (usual - floor) ** 2, 1e-300)))


@dataclass(frozen=True, eq=False)
class Decisions:
    """Rows that count, in the order of time, as seen from one end: an episode is a unit."""

    end: End
    terms: Terms  # of this end: ranges are negated for the upper one
    rows: IntArray  # (n,) in the log
    logged_rewards: FloatArray  # (n,) not negated for the upper end
    ratios: Ratios  # (n,)
    continues: BoolArray  # (n,) the step has a next one
    observations: FloatArray  # (n, d)
    slots: IntArray  # (n,) the logged action; 0 where actions are no names
    probs: FloatArray | None  # (n, slots) π(.|s_i), where it is known
    episodes: IntArray  # (n,) 0, 1, ... in order of their first row
    steps: IntArray  # (n,) within the episode
    of_behavior: bool = False  # whether the policy is the one that made the log
    known: dict[float, Ratios] = field(default_factory=dict)  # products by Γ, the same from both ends

    unit: ClassVar[str] = "episode"

    @property
    def first(self) -> Self:
        """The units of the first policy: these are of one."""
        return self

    @property
    def policies(self) -> tuple[Decisions, ...]:
        return (self,)

    @property
    def rewards(self) -> FloatArray:
        """(n,) as seen from this end."""
        return self.logged_rewards if self.end == "lower" else -self.logged_rewards

    def of_today(self) -> Self:
        """The same units, weighed for the policy that made the log."""
        slots = np.broadcast_to(np.int64(0), self.rows.shape)
        return replace(self, ratios=Ratios.ones(self.rows.size), slots=slots, probs=None, of_behavior=True, known={})

    def before(self, row: int) -> int:
        """How many of these rows stand before a row of the log; a number of another type would copy the column."""
        return int(np.searchsorted(self.rows, self.rows.dtype.type(row)))

    @property
    def starts(self) -> IntArray:
        """(units,) the first row of every unit, among these."""
        return np.flatnonzero(self.steps == 0)

    @property
    def start_rows(self) -> IntArray:
        """(units,) the same as rows of the log."""
        return self.rows[self.starts]

    @property
    def unit_ratios(self) -> FloatArray:
        """(units,) the product of the ratios of every unit."""
        return self.products().values[self.last_rows]

    @property
    def units(self) -> int:
        return int(np.count_nonzero(self.steps == 0))

    def pick(self, units: IntArray) -> Self:
        """Some of the units, by their numbers."""
        return self.part(np.flatnonzero(np.isin(self.episodes, units)))

    @property
    def consecutive(self) -> bool:
        """Whether the rows of every unit stand together, as q̂ needs them."""
        return bool(np.all(np.diff(self.episodes) >= 0))

    @property
    def sign(self) -> float:
        return 1.0 if self.end == "lower" else -1.0

    @property
    def limits(self) -> ValueRange:
        """Of a unit's value, as seen from this end."""
        return range_of(self.terms)

    @property
    def mean_error(self) -> float:
        """Of a mean over π of numbers within the limits: π is a row over its sum, one rounding for every action."""
        return 4 * U * self.limits.largest * ((1 if self.probs is None else self.probs.shape[1]) + 4)

    def part(self, rows: slice | IntArray) -> Self:
        """Some of the rows, ascending, whole units."""
        names = ("rows", "logged_rewards", "ratios", "continues", "observations", "slots", "probs", "episodes", "steps")
        columns = {name: getattr(self, name) for name in names}
        columns = {name: values[rows] for name, values in columns.items() if values is not None}
        return replace(self, **(columns | {"episodes": self.renumbered(columns["episodes"])}), known={})

    def since(self, row: int) -> Self:
        """The units that begin at a row of the log or after it."""
        units = int(np.searchsorted(self.start_rows, self.rows.dtype.type(row)))
        first = self.before(row)
        later = slice(first, None) if self.consecutive else np.flatnonzero(self.episodes >= units)
        return self.part(later)

    def renumbered(self, episodes: IntArray) -> IntArray:
        """Numbers of units without gaps, in their order."""
        return np.unique(episodes, return_inverse=True)[1].reshape(-1)

    def from_end(self, end: End) -> Self:
        """The same rows for an end."""
        if end == self.end:
            return self
        (low, high), stated = self.terms.reward_range, self.terms.value_range
        values = None if stated is None else (-stated[1], -stated[0])
        terms = replace(self.terms, reward_range=(-high, -low), value_range=values)
        return replace(self, end=end, terms=terms)

    # -- estimators

    def estimators(self, control: Control | None, stated: Stated) -> tuple[Estimator, ...]:
        """Free ones first; doubly robust where q̂ and a bound of the weights are there."""
        self.check(stated)
        robust = self.robust_estimator(control, stated)
        return self.free_estimators(stated.gamma_sensitivity) + (() if robust is None else (robust,))

    def robust_estimator(self, control: Control | None, stated: Stated, *, alone: bool = True) -> Estimator | None:
        """`alone`: no other policy's values are added to these, so q̂ may be theirs only."""
        cap = stated.robust_cap()
        if control is None or cap is None:
            return None
        if not (self.consecutive and self.bounds_weights(cap)):
            raise InvalidInput("Doubly robust returns need episodes one after the other, and a bound of their steps.")
        first = int(np.searchsorted(self.start_rows, self.rows.dtype.type(control.borders[0])))
        if first == self.units:
            return None
        later = self.part(slice(int(self.starts[first]), None))
        inputs, scale = later.control_inputs
        q = np.clip(self.sign * control.values(later.rows, inputs) * scale, self.limits.low, self.limits.high)
        caps = stated.caps(cap, later.probs if control.by_action else None, len(q))
        floor = later.least_robust(control, self.usual_cap(stated, first) if alone else cap)
        if alone:
            q = later.kept_above(floor, q, caps)
        means, taken = later.policy_means(q)
        centers = means[later.starts]
        losses = later.losses(q, centers, floor, caps)
        values, prior = later.robust_values(taken, means), (self.sign * control.expected[0], control.expected[1])
        return Estimator("doubly robust", values, floor, prior, first, (centers, losses))

    def check(self, stated: Stated) -> None:
        """A logged ratio above what was stated refutes the statement."""
        cap, count = stated.cap(), len(self.rows)
        if cap is None:
            return
        caps = stated.caps(cap, self.probs, count)
        logged = caps[:, 0] if caps.shape[1] == 1 else caps[np.arange(count), self.slots]
        wrong = np.flatnonzero(self.ratios.low() > logged * (1 + 1e-9))
        if wrong.size:
            raise InvalidInput(
                f"Row {self.rows[wrong[0]]}: its ratio π/b, {self.ratios.values[wrong[0]]:.6g}, is above the stated bound "
                f"{logged[wrong[0]]:.6g} (max_ratio, π / min_propensity). A bound must hold at every state and action: state a "
                "weaker one, or none."
            )

    def policy_means(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Of predictions (n, slots), or (n, 1) for all actions alike: the mean over π, and that of the logged action."""
        if q.shape[1] == 1:
            return q[:, 0], q[:, 0]
        if self.probs is None:
            raise InvalidInput("A control variate by action needs the policy's probabilities of all actions.")
        return np.einsum("ij,ij->i", self.probs, q), q[np.arange(len(q)), self.slots]

    def free_estimators(self, factor: float) -> tuple[Estimator, ...]:
        """Those that need no bound of the ratios; `factor` is Γ.

        A prior as wide as one reward: returns of episodes that end soon are that, however wide the range of values is.
        """
        values, floor = self.per_decision(factor)
        found = Estimator.between("per-decision", values, floor, self.terms.reward_range[1])
        if self.terms.value_range is None:
            return (found,)
        return found, Estimator.between("whole episodes", self.whole(factor), self.limits.low, self.limits.high)

    def per_decision(self, factor: float) -> tuple[FloatArray, float]:
        """v_0 + sum_t γ^t ρ_{0:t} (r_t + γ v_{t+1} - v_t) / Γ^(t+1) of every unit; and v_0."""
        steps, gamma, sign = self.steps, self.terms.gamma, self.sign
        below, over = self.least_values(int(steps.max()) + 1)
        powers, weights = _powers(gamma, int(steps.max())), self.products(factor)

        def gains(some: slice) -> FloatArray:
            rewards, step = sign * self.logged_rewards[some], steps[some]
            following = np.where(self.continues[some], gamma * below[step + 1], 0.0)
            size = np.abs(rewards) + np.abs(following) + np.abs(over[step])
            gain = np.maximum(rewards + following - over[step] - 8 * U * size, 0.0)
            return np.asarray(gain * np.minimum(weights[some].low(), MAX_WEIGHT) * powers[step])

        return above(below[0], self._sums(filled(steps.size, gains))), float(below[0])

    def whole(self, factor: float) -> FloatArray:
        """v_lo + ρ_{0:T-1} (G + γ^T v_T 1[cut] - v_lo)_+ / Γ^T with a stated value range, which holds every return.

        The bracket of a complete episode is >= 0; that of one that was cut is at most its mean over what would have followed.
        """
        low, last, gamma = self.limits.low, self.last_rows, self.terms.gamma
        table, length = _powers(gamma, int(self.steps.max()) + 1), self.steps[last]
        powers = table[self.steps]
        returns, gross = self._sums(self.rewards * powers), self._sums(np.abs(self.rewards) * powers)
        least = np.array([range_of(self.terms, time).low for time in range(int(self.steps.max()) + 2)])[length + 1]
        rest = np.where(self.continues[last], least * table[length + 1], 0.0)
        error = (length + 32) * 8 * U * (gross + np.abs(returns) + np.abs(rest) + abs(low))
        return above(low, np.maximum(returns + rest - low - error, 0.0) * self._weights(factor)[last])

    def robust_values(self, taken: FloatArray, means: FloatArray) -> FloatArray:
        """The second sum, for q̂ at the logged actions and v̂. After an end the next v̂ is 0; after a cut the least value."""
        steps, gamma, weights = self.steps, self.terms.gamma, self.products()
        least = self.least_values(int(steps.max()) + 1)[0][steps + 1]
        last = np.append(np.diff(self.episodes) != 0, True)
        following = np.where(self.continues, np.where(last, least, np.append(means[1:], 0.0)), 0.0)
        scale = weights.values * gamma**steps
        move = scale * (self.rewards + gamma * following - taken)
        size = scale * (np.abs(self.rewards) + np.abs(following) + np.abs(taken))
        error = size * (2 * weights.errors + (steps + 16) * 8 * U) + scale * (1 + 2 * weights.errors) * self.mean_error
        total, off, gross = (np.bincount(self.episodes, weights=one) for one in (move, error, np.abs(move)))
        rounding = (np.bincount(self.episodes) + 8) * 4 * U * (gross + self.limits.largest) + self.mean_error
        return np.asarray(means[self.starts] + total - off - rounding)

    # -- what is known before a unit is drawn; single decisions know more

    @property
    def control_inputs(self) -> tuple[FloatArray, FloatArray]:
        """What q̂ sees, (n, d'): the state and the step. Predictions are in units (n, 1) of the discounted steps that are left."""
        return np.column_stack([self.observations, self.steps]), _steps_left(self.terms, self.steps)[:, None]

    def bounds_weights(self, cap: float) -> bool:
        """Whether a bound of every ratio bounds the weights of a unit."""
        return bool(np.isfinite(weight_sum(self.terms, cap)))

    def usual_cap(self, stated: Stated, first: int) -> float:
        """A bound of the ratios of most units from `first` on, made from those before: any number will do."""
        del first
        cap = stated.robust_cap()
        assert cap is not None
        return cap

    def kept_above(self, floor: float, q: FloatArray, caps: FloatArray) -> FloatArray:
        """Predictions with which no value is below the floor."""
        del floor, caps
        return q

    def least_robust(self, control: Control, cap: float) -> float:
        """lo_0 - sum_t γ^t ρ̄^(t+1) d_t, d_t = (hi_t - r_lo - γ min(0, lo_{t+1}, v_{t+1}))_+: no doubly robust value is below it.

        Predictions at step t lie in [lo_t, hi_t]. Without a horizon these are the same at every step.
        """
        terms, limits = self.terms, self.limits
        count = 1 if terms.horizon is None else terms.horizon
        units = _steps_left(terms, np.arange(count + 1))
        ends = np.sort(np.clip(self.sign * units[:, None] * np.array(control.clip), limits.low, limits.high), axis=1)
        following = np.minimum(np.minimum(ends[1:, 0], self.least_values(count)[0][1:]), 0.0)
        drops = (
            np.maximum(ends[:-1, 1] - terms.reward_range[0] - terms.gamma * following, 0.0) + 32 * U * limits.largest
        )
        weights = np.array([weight_sum(terms, cap)]) if terms.horizon is None else _caps(terms.gamma, count, cap)
        lost = float(np.sum(weights * drops)) * (1 + 8 * (MAX_STEPS + 8) * U)
        return next_down(float(ends[0, 0]) - lost) - 64 * U * limits.largest

    def losses(self, q: FloatArray, centers: FloatArray, floor: float, caps: FloatArray) -> FloatArray:
        """(units,) how far below its center a doubly robust value can be, given its start."""
        del q, caps
        return centers - floor

    def least_values(self, last: int) -> tuple[FloatArray, FloatArray]:
        """v_0, ..., v_last from below and above: v_t <= r + γ v_{t+1} for every reward, and v_t <= r where the process may end.

        The floats of a time depend on what was stated alone, not on how long the episodes of this log are.
        """
        horizon, times = self.terms.horizon, np.arange(last + 1)
        left = [None] if horizon is None else np.maximum(horizon - times, 0).tolist()
        found = np.broadcast_to(np.array([_least_value(self.terms, count) for count in left]), (last + 1, 2))
        return found[:, 0], found[:, 1]

    # -- products and sums

    def products(self, factor: float = 1.0) -> Ratios:
        """ρ_{0:t} / Γ^(t+1) for every row. No episode sees the size of another."""
        if self.of_behavior and factor == 1.0:
            return self.ratios
        if factor not in self.known:
            self.known[factor] = self._products(factor)
        return self.known[factor]

    def _products(self, factor: float) -> Ratios:
        with np.errstate(divide="ignore"):
            logs = np.log(self.ratios.values / factor)
        dead = np.isneginf(logs)
        columns = np.stack([np.where(dead, 0.0, logs), dead, np.where(dead, 0.0, np.abs(logs)), self.ratios.errors])
        totals, order = np.zeros((4, self.units)), np.argsort(self.steps, kind="stable")
        for rows in np.split(order, np.cumsum(np.bincount(self.steps))[:-1]):  # the rows of one step
            totals[:, self.episodes[rows]] += columns[:, rows]
            columns[:, rows] = totals[:, self.episodes[rows]]
        product, zeros, sizes, errors = columns
        values = np.where(
            zeros > 0, 0.0, np.exp(np.minimum(product, 700.0))
        )  # so large a value is refused where bets are made
        return Ratios(values, np.minimum(errors + (self.steps + 16) * 4 * U * (1.0 + sizes), 0.5))

    def _weights(self, factor: float) -> FloatArray:
        """The same from below, to weigh what is >= 0."""
        return np.minimum(self.products(factor).low(), MAX_WEIGHT)

    @property
    def last_rows(self) -> IntArray:
        """(units,)"""
        last = np.zeros(self.units, dtype=np.int64)
        np.maximum.at(last, self.episodes, np.arange(self.episodes.size))
        return last

    def _sums(self, values: FloatArray) -> FloatArray:
        """Per unit; values are >= 0 or good to what the caller adds."""
        total = np.bincount(self.episodes, weights=values)
        return np.asarray(total - np.abs(total) * (np.bincount(self.episodes) + 4) * 2 * U)


@dataclass(frozen=True, eq=False)
class SingleDecisions(Decisions):
    """Every row is a unit: v_0 is the least value of the stated ranges, and bounds of the ratios are known row by row."""

    unit: ClassVar[str] = "decision"

    @property
    def units(self) -> int:
        return len(self.rows)

    @property
    def start_rows(self) -> IntArray:
        return self.rows

    @property
    def unit_ratios(self) -> FloatArray:
        return self.ratios.values

    def renumbered(self, episodes: IntArray) -> IntArray:
        """Every row is a unit."""
        return np.arange(episodes.size)

    def free_estimators(self, factor: float) -> tuple[Estimator, ...]:
        """v_lo + ρ (r + γ v_lo 1[goes on] - v_lo) / Γ: no row sees another."""
        ratios, low, high = self.ratios, self.limits.low, self.limits.high
        sign, ahead = self.sign, self.terms.gamma * low

        def values(some: slice) -> FloatArray:
            rewards = sign * self.logged_rewards[some]
            following = np.where(_distinct(self.continues[some]), ahead, 0.0)
            slack = 8 * U * (np.abs(rewards) + np.abs(following) + abs(low))
            gain = np.maximum(rewards + following - low - slack, 0.0)
            weights = Ratios(ratios.values[some] / factor, _distinct(ratios.errors[some]) + U).low()
            weighed = gain * np.minimum(weights, MAX_WEIGHT)
            return above(low, weighed - np.abs(weighed) * 5 * 2 * U)

        return (Estimator.between("weighted rewards", filled(self.units, values), low, high),)

    @property
    def control_inputs(self) -> tuple[FloatArray, FloatArray]:
        return self.observations, np.ones((len(self.rows), 1))

    def bounds_weights(self, cap: float) -> bool:
        return cap < np.inf

    def usual_cap(self, stated: Stated, first: int) -> float:
        """max_a π(a|s_i) / b_min, the largest of earlier rows: a policy that draws is nowhere as far from b as 1 / b_min."""
        cap = super().usual_cap(stated, first)
        if self.probs is None or stated.min_propensity is None or not first:
            return cap
        return min(cap, float(stated.caps(cap, self.probs[:first], first).max()))

    def kept_above(self, floor: float, q: FloatArray, caps: FloatArray) -> FloatArray:
        """q̂ shrunk towards v_lo at states where max_a ρ̄_a (q̂_a - v_lo) is larger than elsewhere (Lemma 38a).

        It is a function of the state that was fixed before it was drawn, as q̂ is.
        """
        low, slots = self.limits.low, q.shape[1]
        reach = (caps * np.maximum(q - low, 0.0)).max(axis=1)
        slack = 64 * U * (slots + 8) * (self.limits.largest + reach)
        lost = reach - (self.policy_means(q)[0] - low) + slack
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(lost > low - floor, np.maximum(low - floor - slack, 0.0) / lost, 1.0)
        return q if shares.min() == 1.0 else np.asarray(low + shares[:, None] * (q - low))

    def least_robust(self, control: Control, cap: float) -> float:
        low, high = self.limits.low, self.limits.high
        least, most = sorted(float(end) for end in np.clip(self.sign * np.array(control.clip), low, high))
        return next_down(least - cap * (most - low) * (1 + 8 * U)) - 16 * U * (abs(least) + abs(low))

    def losses(self, q: FloatArray, centers: FloatArray, floor: float, caps: FloatArray) -> FloatArray:
        """ρ̄ (q̂ - v_lo), at the action where that is largest."""
        del centers, floor
        return np.asarray((caps * np.maximum(q - self.limits.low, 0.0)).max(axis=1) * (1 + 8 * U) + self.mean_error)

    def least_values(self, last: int) -> tuple[FloatArray, FloatArray]:
        least = np.full(last + 1, self.limits.low)
        return least, least

    @property
    def last_rows(self) -> IntArray:
        return np.arange(self.episodes.size)

    def _sums(self, values: FloatArray) -> FloatArray:
        return np.asarray(values - np.abs(values) * 5 * 2 * U)

    def products(self, factor: float = 1.0) -> Ratios:
        return Ratios(self.ratios.values / factor, self.ratios.errors + U)


def _distinct(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """One entry of a column that repeats a single number."""
    return column[:1] if column.strides == (0,) else column


def above(low: float | FloatArray, gains: FloatArray) -> FloatArray:
    """low + gains, from below: gains are >= 0 and good to a few U."""
    total = low + np.maximum(gains * (1 - 16 * U) - TINY, 0.0)
    return np.asarray(np.maximum(total - 4 * U * np.abs(total), low))


def _least_value(terms: Terms, steps: int | None) -> tuple[float, float]:
    """The lower end of (6) with this many steps left, between two floats."""
    if steps == 0:
        return 0.0, 0.0
    low = terms.reward_range[0]
    value = discounted_steps(terms.gamma, steps) * low if low else Enclosure(0.0)
    return (min(low, value.lower), min(low, value.upper)) if terms.may_terminate else (value.lower, value.upper)


def _powers(gamma: float, most: int) -> FloatArray:
    """1, γ, ..., γ^most, from below."""
    table = np.array([1.0, *np.cumprod(np.full(most, gamma))])
    return np.asarray(table * np.maximum(1.0 - 4 * U * np.arange(table.size), 0.0))


def _steps_left(terms: Terms, steps: IntArray) -> FloatArray:
    """Discounted steps that are left at a step, 1 without a horizon."""
    if terms.horizon is None:
        return np.ones(steps.size)
    left = np.array([discounted_steps(terms.gamma, count).mid for count in range(terms.horizon + 1)])
    return np.asarray(left[np.maximum(terms.horizon - steps, 0)])


def weight_sum(terms: Terms, cap: float) -> float:
    """sum_t γ^t ρ̄^(t+1) over the steps that an episode may have, from above; infinite where nothing bounds it."""
    if terms.horizon is None:
        left = 1.0 - Enclosure(terms.gamma) * cap
        return (Enclosure(cap) / left).upper if left.lower > 0.0 else np.inf
    if terms.horizon > MAX_STEPS:
        return np.inf
    return float(np.sum(_caps(terms.gamma, terms.horizon, cap)) * (1 + 4 * MAX_STEPS * U))


def _caps(gamma: float, horizon: int, cap: float) -> FloatArray:
    """γ^t ρ̄^(t+1), t below the horizon, good to 4 t roundings."""
    with np.errstate(over="ignore"):
        return np.asarray(cap * np.array([1.0, *np.cumprod(np.full(horizon - 1, gamma * cap))]))
