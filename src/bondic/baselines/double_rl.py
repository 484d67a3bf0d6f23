"""Double reinforcement learning (Kallus and Uehara 2020): cross-fitted q and weights, efficient, with a normal interval.

value = mean over folds of E_0[q] + (1/n) sum_i w(x_i) ( r_i + gamma q(x'_i) - q(x_i) ),

q and w fitted on the other folds. Errors of q and w enter as a product, so that each may converge slowly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bondic.baselines import outcome as out
from bondic.baselines.features import Unit, make_design, total_error, units_of
from bondic.baselines.folds import fold_numbers
from bondic.baselines.intervals import normal_ends
from bondic.baselines.linear import fit_lstd, restrict
from bondic.concentration.gauge import Guarantee
from bondic.kernels.base import Kernel
from bondic.problem import Question, in_memory
from bondic.result import Result


@dataclass(frozen=True)
class DoubleRL:
    """`drl`. Asymptotic: independent units, overlap, and features in which q* and the density ratio are approached.

    When both are, its variance is the least possible one, V* / n. Both come from one LSTD fit per fold.
    """

    kernel: Kernel | None = None
    rank: int = 100
    ridge: float | None = None  # in rows
    folds: int = 5
    unit: Unit = "auto"
    side: out.Side = "both"
    seed: int = 0
    name: ClassVar[str] = "drl"
    guarantee: ClassVar[Guarantee] = "asymptotic"

    def run(self, problem: Question, alpha: float, progress: out.Progress | None) -> Result:
        problem = in_memory(problem)
        watch = out.Stopwatch(self.name, progress)
        units, independent = units_of(problem, self.unit)
        design = make_design(problem, self.kernel, rank=self.rank)
        ridge = design.ridge(self.ridge)
        fold = fold_numbers(units, self.folds, self.seed)
        n = len(problem)
        parts, mean_theta = np.zeros(n), np.zeros(design.dimension)
        for k in range(self.folds):
            mine = fold == k
            others = restrict(design, ~mine)
            fit = fit_lstd(others, ridge=ridge)
            here = restrict(design, mine)
            # phi . u is w / (number of rows it was fitted on)
            parts[mine] = fit.parts(here) * len(others) / n
            mean_theta += mine.mean() * fit.theta
            watch((k + 1) / self.folds)
        estimate = float(design.start @ mean_theta + parts.sum())
        error = total_error(problem, design, mean_theta, parts, units)
        budget = out.split_ends(alpha, self.side)
        low, high = normal_ends(estimate, error, budget)
        result = out.Outcome(
            low=low,
            high=high,
            estimate=estimate,
            guarantee=self.guarantee,
            budget=budget,
            assumptions=(independent, out.REALIZABLE, out.COVERED, out.ASYMPTOTIC),
            choices={"features": design.words, "folds": str(self.folds), "standard error": f"{error:.6g}"},
            seeds={"folds": self.seed},
        )
        return out.conclude_baseline(problem, result, name=self.name, alpha=alpha, side=self.side, watch=watch)
