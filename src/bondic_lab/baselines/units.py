"""Methods over independent units, episodes or rows: how units are told apart, resampled, and dealt out to folds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from bondic.core.assumptions import start_assumption
from bondic.core.claims import Assumption, ErrorBudget
from bondic.core.errors import InvalidInput
from bondic.core.kernels.base import Kernel
from bondic.rows import Rows
from bondic.rows.episodes import episode_numbers
from bondic_lab.baselines import outcome as out
from bondic_lab.baselines.base import Baseline
from bondic_lab.baselines.features import Design, make_design, start_error
from bondic_lab.baselines.intervals import need_units, normal_ends, percentile_ends, resample_counts
from bondic_lab.baselines.starts import starts_are_episodes

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Unit = Literal["auto", "episodes", "rows"]


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows as independent units, and what the ends of the interval may cost."""

    problem: Rows
    units: IntArray  # (n,) 0, 1, ...: the unit of every row
    budget: ErrorBudget
    watch: out.Stopwatch

    def error(self, design: Design, theta: FloatArray, parts: FloatArray) -> float:
        """Standard error of E_0[v] + sum_i parts_i, v = theta . phi at the starts.

        Starts that are the episodes' own first states vary together with their episodes; other samples add in squares.
        """
        count = design.starts.shape[0]
        if int(self.units.max()) + 1 == count and starts_are_episodes(self.problem):
            sums = np.bincount(self.units, weights=parts) + design.starts @ theta / count
            return grouped_error(sums, np.arange(count))
        return float(np.hypot(grouped_error(parts, self.units), start_error(self.problem, design, theta)))

    def normal(self, estimate: float, error: float, **choices: str) -> out.Outcome:
        """estimate -+ z * standard error."""
        notes = {**choices, "standard error": f"{error:.6g}"}
        return out.Outcome(*normal_ends(estimate, error, self.budget), estimate, choices=notes)

    def bootstrap(
        self, design: Design, fit: Callable[[FloatArray | None], FloatArray], replicates: int, seed: int
    ) -> out.Outcome:
        """Percentiles of phi_0 . theta over bootstrap samples; `fit` gives theta of rows that count so often."""
        count, rng = bootstrap_units(self.units), np.random.default_rng(seed)
        start, again = resampled_starts(self.problem, design, count), np.empty(replicates)
        for index in range(replicates):
            counts = resample_counts(rng, count, 1)[0]
            again[index] = start(counts, rng) @ fit(counts[self.units])
            self.watch((index + 1) / replicates)
        estimate = float(design.start @ fit(None))
        ends, notes = percentile_ends(again, self.budget), {"interval": "percentile"}
        return out.Outcome(*ends, estimate, choices=notes, seeds={"bootstrap": seed})


@dataclass(frozen=True, kw_only=True)
class OverUnits(Baseline):
    """A limit law for many independent units: episodes where the log names them, else (or with unit="rows") rows."""

    unit: Unit = "auto"

    @abstractmethod
    def unit_ends(self, sample: Sample) -> out.Outcome:
        """The ends; assumptions are those beyond the limit law's own."""

    def ends(self, problem: Rows, budget: ErrorBudget, watch: out.Stopwatch) -> out.Outcome:
        units, independent = units_of(problem, self.unit)
        found = self.unit_ends(Sample(problem, units, budget, watch))
        own = (independent, start_assumption(problem), *found.assumptions, out.COVERED, out.ASYMPTOTIC)
        return replace(found, assumptions=own)


@dataclass(frozen=True)
class OverFeatures(OverUnits):
    """A fit in linear features: by default a table for few states, else `rank` landmarks of a kernel; `ridge` in rows."""

    kernel: Kernel | None = None
    rank: int = 100
    ridge: float | None = None
    _values: ClassVar[Assumption] = out.REALIZABLE

    @abstractmethod
    def fit_ends(self, sample: Sample, design: Design, ridge: float) -> out.Outcome:
        """The ends; that the features suit q* is assumed, and stated by whoever chose them."""

    def unit_ends(self, sample: Sample) -> out.Outcome:
        design = make_design(sample.problem, self.kernel, rank=self.rank)
        found = self.fit_ends(sample, design, design.ridge(self.ridge))
        held = out.stated_if(self.kernel is not None, self._values)
        return replace(found, assumptions=(held,), choices={"features": design.words, **found.choices})


def units_of(problem: Rows, unit: Unit) -> tuple[IntArray, Assumption]:
    """Which rows belong together, and what is assumed of the groups: whole episodes where the log names them."""
    named = problem.log.has_episode_ids
    if unit == "episodes" or (unit == "auto" and named):
        return episode_numbers(problem), out.EPISODES
    grouped = "although the log groups them into episodes; unit='episodes' takes these as the units instead"
    why = grouped if named else "the log names no episodes"
    text = f"Rows are independent draws of one distribution ({why})."
    return np.arange(len(problem)), out.stated("rows", text)


def bootstrap_units(units: IntArray) -> int:
    """How many units there are; one alone cannot be resampled."""
    count = int(units.max()) + 1
    need_units(count, 2, "A bootstrap over episodes")
    return count


def resampled_starts(
    problem: Rows, design: Design, units: int
) -> Callable[[FloatArray, np.random.Generator], FloatArray]:
    """phi_0 of a bootstrap sample, given how often each unit was drawn.

    The starts of the drawn episodes where each episode brings its own; starts drawn apart for another sample; for an
    exact list phi_0 itself, or with resampled draws of its actions.
    """
    count, draws = design.starts.shape[0], design.start_draws
    if problem.initial_states.kind == "exact":
        if draws is None:
            return lambda _counts, _rng: design.start
        weights, m = design.start_weights, draws.shape[1]
        return lambda _counts, rng: np.einsum(
            "j,jm,jmd->d", weights, rng.multinomial(m, np.full(m, 1.0 / m), size=count) / m, draws
        )
    if units == count and starts_are_episodes(problem):
        return lambda counts, _rng: np.asarray(counts @ design.starts / count)
    return lambda _counts, rng: np.asarray(resample_counts(rng, count, 1)[0] @ design.starts / count)


def grouped_error(parts: FloatArray, units: IntArray) -> float:
    """Standard error of sum_i parts_i when rows of one unit may depend on one another."""
    sums = np.bincount(units, weights=parts)
    count = sums.size
    return float(np.sqrt(np.sum((sums - sums.mean()) ** 2) * count / max(count - 1, 1)))


def fold_numbers(units: IntArray, folds: int, seed: int) -> IntArray:
    """(n,) the fold of every row; units are dealt out at random, all rows of a unit to one fold."""
    count = int(units.max()) + 1
    if not 2 <= folds <= count:
        raise InvalidInput(f"folds={folds}; between 2 and the number of independent units ({count}) are needed.")
    deal = np.arange(count) % folds
    return np.random.default_rng(seed).permutation(deal)[units]
