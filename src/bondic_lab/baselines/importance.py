"""Importance sampling of whole trajectories: tis, pdis and their self-normalized forms.

tis:     (1/E) sum_i rho_i G_i,                         rho_i = prod_t pi(a_t|s_t) / beta(a_t|s_t)
pdis:    (1/E) sum_i sum_t gamma^t rho_i,0:t r_it       (Precup, Sutton and Singh 2000)
sntis:   sum_i rho_i G_i / sum_i rho_i
snpdis:  sum_t gamma^t ( sum_i rho_i,0:t r_it / sum_i rho_i,0:t )

An episode that ended keeps its last weight and earns 0, so that every group has one weight per episode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from bondic.core.claims import Assumption, ErrorBudget
from bondic.core.errors import InvalidInput
from bondic.core.terms import in_full
from bondic.rows import Rows
from bondic_lab.baselines import outcome as out
from bondic_lab.baselines.base import ShortName
from bondic_lab.baselines.intervals import (
    Ends,
    RatioSums,
    bca_ends,
    bootstrap_values,
    each_end,
    hoeffding_lower,
    need_units,
    percentile_ends,
    student_ends,
)
from bondic_lab.baselines.trajectories import OverTrajectories, Trajectories

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
WeightingName = Literal["tis", "pdis", "sntis", "snpdis"]
Interval = Literal["t", "hoeffding", "percentile", "bca"]

WEIGHTINGS, INTERVALS = get_args(WeightingName), get_args(Interval)

_LAWS = {
    "t": "Student t",
    "hoeffding": "stated bound of ratios",
    "percentile": "percentile bootstrap",
    "bca": "BCa bootstrap",
}
_NAMED: tuple[tuple[str, str, WeightingName, Interval], ...] = (
    ("tis", "trajectory-wise importance sampling", "tis", "t"),
    ("pdis", "per-decision importance sampling", "pdis", "t"),
    ("sntis", "self-normalized tis", "sntis", "t"),
    ("snpdis", "self-normalized pdis", "snpdis", "t"),
    ("tis-hoeffding", "tis", "tis", "hoeffding"),
    ("pdis-hoeffding", "pdis", "pdis", "hoeffding"),
    ("is-percentile", "pdis", "pdis", "percentile"),
    ("is-bca", "pdis", "pdis", "bca"),
)

_MIN_EFFECTIVE = 2.0


def weighted_sums(paths: Trajectories, weighting: WeightingName) -> RatioSums:
    """Numerators and denominators of the four estimators of the T-step value."""
    gains = paths.rewards * paths.discounts
    if weighting in ("tis", "sntis"):
        rho = paths.weights[:, -1]
        top = (rho * gains.sum(axis=1))[:, None]
        if weighting == "tis":
            return RatioSums.mean(top[:, 0])
        return RatioSums(top, rho[:, None], np.array([0.5 * (paths.returns.low + paths.returns.high)]))
    top = paths.weights * gains
    if weighting == "pdis":
        return RatioSums.mean(top.sum(axis=1))
    return RatioSums(top, paths.weights, paths.discounts * 0.5 * sum(paths.step_rewards))


def positive_values(paths: Trajectories, weighting: WeightingName, end: str) -> tuple[FloatArray, float]:
    """X >= 0 with J_T >= floor + E[X] ("lower"), or J_T <= ceiling - E[X] ("upper"); returns X and floor or ceiling.

    Both hold without overlap: where the behavior never goes, a mean of non-negative terms only gets smaller.
    """
    if weighting == "tis":
        gains = (paths.rewards * paths.discounts).sum(axis=1)
        base = paths.returns.low if end == "lower" else paths.returns.high
        return np.asarray(paths.weights[:, -1] * np.maximum(_above(gains, base, end), 0.0)), base
    step = paths.step_rewards[0] if end == "lower" else paths.step_rewards[1]
    above = _above(paths.rewards, step, end) * paths.discounts
    values = (paths.weights * above).sum(axis=1)
    if not paths.fixed:  # after its end an episode earns 0 for ever: the rest of the geometric series
        rest = paths.total_discount - float(paths.discounts.sum())
        values = values + paths.weights[:, -1] * abs(step) * rest
    return np.asarray(values), step * paths.total_discount


def _above(values: FloatArray, base: float, end: str) -> FloatArray:
    return values - base if end == "lower" else base - values


def rests_on_enough(sums: RatioSums) -> BoolArray:
    """Ratios with at least 2 effective episodes, (K,): with fewer the spread tends to 0, which is not knowledge."""
    return np.asarray(sums.effective() >= _MIN_EFFECTIVE * (1.0 - 1e-9))


def largest_value(paths: Trajectories, weighting: WeightingName, ratio: float) -> float:
    """R with 0 <= X <= R when no ratio exceeds `ratio`: width c^T for tis, sum_t gamma^t c^(t+1) width for pdis."""
    with np.errstate(over="ignore"):
        products = max(ratio, 1.0) ** np.arange(1.0, paths.steps + 1)
        if weighting == "tis":
            return float(products[-1] * paths.returns.width)
        return float((products * paths.discounts).sum() * (paths.step_rewards[1] - paths.step_rewards[0]))


@dataclass(frozen=True)
class ImportanceSampling(OverTrajectories):
    """A weighted mean of returns with a Student t, Hoeffding or bootstrap interval.

    "t", "percentile" and "bca" are asymptotic: they need finite variances and many episodes, and with rare large
    weights the limit is far away. "hoeffding" (tis and pdis only) holds for any number of episodes, given a bound of
    the ratios that is *stated*: `max_ratio` of pi/beta, or `min_propensity` of beta (pi is at most 1). The
    bound grows like ratio^T, so the interval is usually trivial.
    """

    weighting: WeightingName = "pdis"
    interval: Interval = "t"
    max_ratio: float | None = None
    min_propensity: float | None = None
    replicates: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.weighting not in WEIGHTINGS or self.interval not in INTERVALS:
            raise InvalidInput(
                f"weighting={self.weighting!r}, interval={self.interval!r}; choose of {', '.join(WEIGHTINGS)} and of "
                f"{', '.join(INTERVALS)}."
            )
        if self.interval == "hoeffding" and self.weighting in ("sntis", "snpdis"):
            raise InvalidInput(
                "A self-normalized estimate is a ratio of means, which Hoeffding's inequality does not cover: use tis or "
                "pdis, or interval='t'."
            )

    @classmethod
    def short_names(cls) -> tuple[ShortName, ...]:
        """The four weightings with Student's t, and four other intervals."""
        return tuple(
            ShortName(
                name,
                cls,
                f"{words}, {_LAWS[interval]}",
                "finite-sample" if interval == "hoeffding" else cls.guarantee,
                {"weighting": weighting, "interval": interval},
            )
            for name, words, weighting, interval in _NAMED
        )

    @property
    def title(self) -> str:
        return f"{self.weighting}-{self.interval}"

    def path_ends(self, problem: Rows, paths: Trajectories, budget: ErrorBudget, watch: out.Stopwatch) -> out.Outcome:
        del watch
        sums = weighted_sums(paths, self.weighting)
        hoeffding = self.interval == "hoeffding"
        if hoeffding:
            bound = self._ratio_bound(problem, paths)
            low, high = self._hoeffding(paths, bound, budget)
            own: tuple[Assumption, ...] = (
                out.stated("weights", f"No ratio pi/beta exceeds {in_full(bound)}, at any state and action."),
            )
        else:
            low, high = self._limit_ends(paths, sums, budget)
            finite = out.stated("variance", "Weighted returns have a finite variance.")
            own = (out.COVERED, out.ASYMPTOTIC, finite)
        return out.Outcome(
            low,
            high,
            sums.estimate(),
            own,
            guarantee="finite-sample" if hoeffding else None,
            effective_sample_size=paths.effective_episodes(),
            choices={"interval": self.interval, **paths.notes(), **self._unknown_steps(paths, sums)},
            seeds={"bootstrap": self.seed} if self.interval in ("percentile", "bca") else {},
        )

    def _limit_ends(self, paths: Trajectories, sums: RatioSums, budget: ErrorBudget) -> Ends:
        if self.weighting in ("sntis", "snpdis"):
            known = rests_on_enough(sums)
            if not known.any():
                return -np.inf, np.inf
            low, high = self._limit_law(sums.only(known), budget)
            if known.all():  # always so for sntis: it has one ratio
                return low, high
            unknown = paths.range_of(~known)
            return low + unknown.low, high + unknown.high
        if not paths.weights[:, -1 if self.weighting == "tis" else 0].any():
            return -np.inf, np.inf  # no episode does what the policy would: a spread of 0 is not knowledge
        return self._limit_law(sums, budget)

    def _unknown_steps(self, paths: Trajectories, sums: RatioSums) -> dict[str, str]:
        missing = 0 if self.weighting not in ("sntis", "snpdis") else int((~rests_on_enough(sums)).sum())
        if not missing:
            return {}
        if self.weighting == "sntis":
            return {"weights": "fewer than 2 effective episodes carry weight: the value range is all that is known"}
        text = (
            f"{missing} of {paths.steps} steps rest on fewer than 2 effective episodes: they count with the whole range"
        )
        return {"weights": text + " of their rewards"}

    def _limit_law(self, sums: RatioSums, budget: ErrorBudget) -> Ends:
        if self.interval == "t":
            return student_ends(sums.estimate(), sums.influence(), budget)
        need_units(sums.count, 2, "A bootstrap interval")
        again = bootstrap_values(sums, np.random.default_rng(self.seed), self.replicates)
        if self.interval == "percentile":
            return percentile_ends(again, budget)
        return bca_ends(sums.estimate(), again, sums.leave_one_out(), budget)

    def _hoeffding(self, paths: Trajectories, bound: float, budget: ErrorBudget) -> Ends:
        largest = largest_value(paths, self.weighting, bound)

        def end(which: str, probability: float) -> float:
            values, base = positive_values(paths, self.weighting, which)
            mean = hoeffding_lower(values, largest, probability)
            return base + mean if which == "lower" else base - mean

        return each_end(budget, end)

    def _ratio_bound(self, problem: Rows, paths: Trajectories) -> float:
        if self.max_ratio is None and not problem.layout.discrete:
            raise InvalidInput(
                "Continuous actions have densities, which may exceed 1: a least density of the behavior does not bound pi/beta. "
                "Pass max_ratio= (--with max_ratio=R), a bound that holds for every state and action."
            )
        if not paths.fixed:
            raise InvalidInput(
                "Weights are bounded by ratio^T only if no episode can be longer than T, and the longest one seen is no bound. "
                "State it: pass steps= (--with steps=T), or horizon= to make_problem (--horizon)."
            )
        if self.max_ratio is not None:
            bound = float(self.max_ratio)
        elif self.min_propensity is not None and 0 < self.min_propensity <= 1:
            bound = 1.0 / float(self.min_propensity)
        else:
            raise InvalidInput(
                "Hoeffding's inequality needs a bound of the ratios pi/beta that holds for every state, not the largest one "
                "seen: pass max_ratio= (--with max_ratio=R), or min_propensity= (--with min_propensity=P, in "
                "(0, 1]) when the behavior explores at least so much."
            )
        seen = float(paths.ratios.max())
        if not bound > 0 or seen > bound * (1 + 1e-9):
            raise InvalidInput(f"A ratio pi/beta of {seen:.6g} is logged, above the stated bound {bound:.6g}.")
        return bound
