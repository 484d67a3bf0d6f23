"""Importance sampling with an empirical Bernstein bound of truncated weights (Thomas, Theocharous, Ghavamzadeh 2015).

For X >= 0 and any threshold c fixed without the certified episodes, with probability at least 1 - p,

    E[X] >= mean(y) - sqrt( 2 s^2 log(2/p) / E ) - 7 c log(2/p) / (3 (E - 1)),      y = min(X, c).

The lower end uses X = weighted return above its least possible value, the upper end X = what is missing to its
largest possible value: both are >= 0, so that cutting weights is safe at both ends, and no overlap is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from bondic.core.claims import ErrorBudget
from bondic.core.errors import InvalidInput
from bondic.rows import Rows
from bondic_lab.baselines import outcome as out
from bondic_lab.baselines.importance import positive_values, weighted_sums
from bondic_lab.baselines.intervals import bernstein_lower, each_end
from bondic_lab.baselines.trajectories import OverTrajectories, Trajectories

FloatArray = npt.NDArray[np.float64]

_CANDIDATES = 60
_FEWEST = 4


@dataclass(frozen=True)
class EmpiricalBernstein(
    OverTrajectories, name="hcope", words="truncated weights, empirical Bernstein", guarantee="finite-sample"
):
    """HCOPE: finite-sample, for independent episodes with known behavior; no bound of the weights is needed.

    The threshold of each end is the one that promises the best bound for the remaining episodes, judged on the first
    `tuning_share` of the episodes, which are then left out (`threshold` fixes it instead, and all episodes count).
    """

    weighting: Literal["tis", "pdis"] = "tis"
    tuning_share: float = 0.05
    threshold: float | None = None

    def __post_init__(self) -> None:
        if self.weighting not in ("tis", "pdis") or not 0 < self.tuning_share < 1:
            raise InvalidInput("weighting is 'tis' or 'pdis', and tuning_share lies strictly between 0 and 1.")
        if self.threshold is not None and not self.threshold > 0:
            raise InvalidInput(f"threshold={self.threshold}; a positive number is needed.")

    @property
    def title(self) -> str:
        return f"hcope-{self.weighting}"

    def path_ends(self, problem: Rows, paths: Trajectories, budget: ErrorBudget, watch: out.Stopwatch) -> out.Outcome:
        del problem, watch
        notes = paths.notes()

        def end(which: str, probability: float) -> float:
            bound, notes[f"threshold {which}"] = self._end(paths, which, probability)
            return bound

        return out.Outcome(
            *each_end(budget, end),
            weighted_sums(paths, self.weighting).estimate(),
            effective_sample_size=paths.effective_episodes(),
            choices=notes,
        )

    def _end(self, paths: Trajectories, end: str, probability: float) -> tuple[float, str]:
        values, base = positive_values(paths, self.weighting, end)
        first = 0
        if self.threshold is None:
            first = max(2, math.ceil(self.tuning_share * values.size))
        if values.size - first < _FEWEST:
            raise InvalidInput(
                f"{values.size} episodes are too few for an empirical Bernstein bound with a tuning split."
            )
        threshold = self.threshold or best_threshold(values[:first], values.size - first, probability)
        mean = max(0.0, bernstein_lower(values[first:], threshold, probability))
        note = f"{threshold:.6g}, " + ("as given" if self.threshold else f"chosen on the first {first} episodes")
        return (base + mean if end == "lower" else base - mean), note


def best_threshold(pilot: FloatArray, count: int, probability: float) -> float:
    """The c that maximizes the bound predicted for `count` further episodes from the pilot's mean and variance."""
    level = math.log(2.0 / probability)
    top = float(pilot.max())
    if top <= 0:
        return 1.0
    candidates = np.geomspace(1e-4 * top, 10.0 * top, _CANDIDATES)
    cut = np.minimum(pilot[:, None], candidates)
    variance = cut.var(axis=0, ddof=1)
    predicted = (
        cut.mean(axis=0) - np.sqrt(2.0 * variance * level / count) - 7.0 * candidates * level / (3.0 * (count - 1))
    )
    return float(candidates[int(np.argmax(predicted))])
