"""Ends of an interval for a mean, or for a sum of ratios of means, over independent units.

Every function takes the probability of *its* end; who divides alpha is `outcome.split_ends`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, stdtrit

from bondic.core.claims import ErrorBudget
from bondic.core.errors import InvalidInput

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Ends = tuple[float, float]

_SIGNS = {"lower": -1.0, "upper": 1.0}
_BLOCK = 4_000_000
"""Entries of a matrix of bootstrap counts that are held at once."""


@dataclass(frozen=True, eq=False)
class RatioSums:
    """theta = sum_k ( sum_i N_ik / sum_i D_ik ): a plain mean (D = 1), or self-normalized means."""

    numerators: FloatArray  # (E, K)
    denominators: FloatArray  # (E, K)
    guesses: FloatArray | None = None  # (K,) what stands for a ratio without any weight; 0 unless given

    @staticmethod
    def mean(values: FloatArray) -> RatioSums:
        return RatioSums(values[:, None], np.ones((values.size, 1)))

    @property
    def count(self) -> int:
        return int(self.numerators.shape[0])

    def estimate(self) -> float:
        return float(self.at(np.ones((1, self.count)))[0])

    def at(self, counts: FloatArray) -> FloatArray:
        """theta with unit i counted counts[b, i] times; (B,)."""
        return self._ratios(counts @ self.numerators, counts @ self.denominators)

    def _ratios(self, top: FloatArray, bottom: FloatArray) -> FloatArray:
        empty = np.zeros_like(top) if self.guesses is None else np.tile(self.guesses, (top.shape[0], 1))
        return np.asarray(np.divide(top, bottom, out=empty, where=bottom > 0).sum(axis=1))

    def effective(self) -> FloatArray:
        """( sum_i D_ik )^2 / sum_i D_ik^2: on how many units ratio k rests, (K,); 0 without any weight."""
        size = self.denominators.max(axis=0)
        scaled = self.denominators / np.where(size > 0, size, 1.0)  # squares of large weights overflow
        squares = np.sum(scaled**2, axis=0)
        return np.asarray(scaled.sum(axis=0) ** 2 / np.where(squares > 0, squares, 1.0))

    def only(self, groups: BoolArray) -> RatioSums:
        guesses = None if self.guesses is None else self.guesses[groups]
        return RatioSums(self.numerators[:, groups], self.denominators[:, groups], guesses)

    def influence(self) -> FloatArray:
        """psi_i = sum_k (N_ik - theta_k D_ik) / mean(D_k), of mean 0; for a mean psi_i = x_i - mean(x)."""
        bottom = self.denominators.mean(axis=0)
        safe = np.where(bottom > 0, bottom, 1.0)
        theta = np.where(bottom > 0, self.numerators.mean(axis=0) / safe, 0.0)
        return np.asarray(((self.numerators - theta * self.denominators) / safe).sum(axis=1))

    def leave_one_out(self) -> FloatArray:
        """theta without unit i, (E,)."""
        top = self.numerators.sum(axis=0) - self.numerators
        bottom = self.denominators.sum(axis=0) - self.denominators
        return self._ratios(top, bottom)


def need_units(count: int, least: int, what: str) -> None:
    if count < least:
        raise InvalidInput(f"{what} needs at least {least} episodes; the log has {count}.")


def student_ends(estimate: float, influence: FloatArray, budget: ErrorBudget) -> Ends:
    """theta -+ t_{1-p, E-1} s / sqrt(E), p the probability of that end (alpha / 2 each for two sides)."""
    count = influence.size
    need_units(count, 2, "A Student t interval")
    return student_around(estimate, float(influence.std(ddof=1)) / math.sqrt(count), count, budget)


def student_around(estimate: float, error: float, count: int, budget: ErrorBudget) -> Ends:
    """theta -+ t_{1-p, count-1} * standard error, the error taken from `count` values."""
    return each_end(budget, lambda end, p: estimate + _SIGNS[end] * (float(stdtrit(count - 1, 1.0 - p)) * error))


def normal_ends(estimate: float, error: float, budget: ErrorBudget) -> Ends:
    """theta -+ z_{1-p} * standard error."""
    return each_end(budget, lambda end, p: estimate + _SIGNS[end] * (float(-ndtri(p)) * error))


def each_end(budget: ErrorBudget, find: Callable[[str, float], float]) -> Ends:
    """`find` of "lower" and "upper" with their probabilities; an end that is not computed is infinite."""
    lower, upper = budget.get("lower"), budget.get("upper")
    return (
        -math.inf if lower is None else find("lower", lower),
        math.inf if upper is None else find("upper", upper),
    )


def hoeffding_lower(values: FloatArray, largest: float, probability: float) -> float:
    """E[X] >= mean(x) - R sqrt( log(1/p) / (2 E) ) for independent X in [0, R]; R is a statement, never a maximum."""
    if not math.isfinite(largest):
        return -math.inf
    return float(values.mean()) - largest * math.sqrt(math.log(1.0 / probability) / (2.0 * values.size))


def bernstein_lower(values: FloatArray, threshold: float, probability: float) -> float:
    """E[X] >= mean(y) - sqrt( 2 s^2 log(2/p) / E ) - 7 c log(2/p) / (3 (E - 1)),  y = min(x, c), X >= 0.

    Maurer and Pontil's empirical Bernstein bound for y in [0, c]; cutting can only lower the mean of X >= 0.
    """
    cut = np.minimum(values, threshold)
    level = math.log(2.0 / probability)
    spread = math.sqrt(2.0 * float(cut.var(ddof=1)) * level / cut.size)
    return float(cut.mean()) - spread - 7.0 * threshold * level / (3.0 * (cut.size - 1))


def resample_counts(rng: np.random.Generator, units: int, replicates: int) -> FloatArray:
    """How often each unit is drawn in each bootstrap sample, (B, E)."""
    return np.asarray(rng.multinomial(units, np.full(units, 1.0 / units), size=replicates), dtype=np.float64)


def bootstrap_values(sums: RatioSums, rng: np.random.Generator, replicates: int) -> FloatArray:
    """theta* of every bootstrap sample of units, (B,)."""
    block = max(1, _BLOCK // max(sums.count, 1))
    parts = [
        sums.at(resample_counts(rng, sums.count, min(block, replicates - done))) for done in range(0, replicates, block)
    ]
    return np.concatenate(parts)


def percentile_ends(replicates: FloatArray, budget: ErrorBudget) -> Ends:
    """The p and 1 - p quantiles of theta*; for p beyond what B replicates resolve, at least the normal law's."""
    return each_end(budget, lambda end, p: _quantile(replicates, p if end == "lower" else 1.0 - p))


def bca_ends(estimate: float, replicates: FloatArray, left_out: FloatArray, budget: ErrorBudget) -> Ends:
    """Bias-corrected and accelerated (Efron 1987): quantiles at Phi( z0 + (z0 + z_p) / (1 - a (z0 + z_p)) ).

    z0 = Phi^-1( share of theta* below theta ), a = sum d^3 / (6 (sum d^2)^1.5) with d the jackknife deviations.
    """
    below = float(np.mean(replicates < estimate) + 0.5 * np.mean(replicates == estimate))
    size = replicates.size
    shift = float(ndtri(min(max(below, 0.5 / size), 1.0 - 0.5 / size)))
    deviations = left_out.mean() - left_out
    squares = float(np.sum(deviations**2))
    acceleration = float(np.sum(deviations**3)) / (6.0 * squares**1.5) if squares > 0 else 0.0

    def level(p: float) -> float:
        moved = shift + float(ndtri(p))
        room = 1.0 - acceleration * moved
        if room <= 0:  # the correction runs out of the normal scale: take the extreme replicate
            return 0.0 if p < 0.5 else 1.0
        return float(ndtr(shift + moved / room))

    return each_end(budget, lambda end, p: _quantile(replicates, level(p if end == "lower" else 1.0 - p)))


def _quantile(replicates: FloatArray, level: float) -> float:
    """The quantile at `level`. B replicates say nothing about less than 1 / (B + 1): there the normal law goes on.

    Without it the ends of a small alpha would stop at the extreme replicates, however many episodes there are.
    """
    rare = min(level, 1.0 - level)
    if not 0.0 < rare < 1.0 / (replicates.size + 1) or replicates.size < 2:
        return float(np.quantile(replicates, level))
    beyond = float(replicates.mean()) + float(ndtri(level)) * float(replicates.std(ddof=1))
    return min(float(replicates.min()), beyond) if level < 0.5 else max(float(replicates.max()), beyond)
