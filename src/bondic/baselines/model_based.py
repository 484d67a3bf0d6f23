"""Certainty equivalence: the value of the policy in the most likely table, with a bootstrap over episodes.

q = r^ + gamma P^ v on the pairs that occur, r^ and P^ the observed means and frequencies,  J = E_0[v].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bondic.baselines import outcome as out
from bondic.baselines.features import Design, Unit, make_design, table_kernel, units_of
from bondic.baselines.fqe import resampled_starts
from bondic.baselines.intervals import need_units, percentile_ends, resample_counts
from bondic.claims import Guarantee, Side
from bondic.errors import InvalidInput
from bondic.result import Result
from bondic.rows import Question, in_memory
from bondic.terms import range_of

FloatArray = npt.NDArray[np.float64]

_MOST_STATES = 512


def table_values(design: Design, counts: FloatArray, unseen: float) -> FloatArray:
    """q of the estimated table, (D,); pairs without a row get the value `unseen`, a guess."""
    weighted = design.logged * counts[:, None]
    visits = weighted.sum(axis=0)
    seen = visits > 0
    flow = weighted.T @ design.following
    matrix = np.diag(np.where(seen, visits, 1.0)) - np.where(seen[:, None], design.gamma * flow, 0.0)
    right = np.where(seen, weighted.T @ design.rewards, unseen)
    return np.asarray(np.linalg.solve(matrix, right))


@dataclass(frozen=True)
class ModelBased:
    """`model`: plug-in value of a table with a percentile interval. Asymptotic: few states that all occur often.

    Pairs that never occur are given the middle of the value range, a guess that no interval accounts for.
    """

    replicates: int = 200
    unit: Unit = "episodes"
    side: Side = "both"
    seed: int = 0
    name: ClassVar[str] = "model"
    guarantee: ClassVar[Guarantee] = "asymptotic"

    def run(self, problem: Question, alpha: float, progress: out.Progress | None) -> Result:
        problem = in_memory(problem)
        watch = out.Stopwatch(self.name, progress)
        states = np.unique(np.concatenate([problem.logged, problem.next.points]), axis=0).shape[0]
        if not problem.layout.discrete or states > _MOST_STATES:
            raise InvalidInput(
                f"The model is a table of states and discrete actions; this log has {states} distinct states (at most "
                f"{_MOST_STATES} are allowed) or continuous actions. Use FittedQ() or Dual()."
            )
        units, independent = units_of(problem, self.unit)
        count = int(units.max()) + 1
        need_units(count, 2, "A bootstrap over episodes")
        design = make_design(problem, table_kernel())
        limits = range_of(problem.terms)
        middle = 0.5 * (limits.low + limits.high)
        estimate = float(design.start @ table_values(design, np.ones(len(problem)), middle))
        rng = np.random.default_rng(self.seed)
        again = np.empty(self.replicates)
        start = resampled_starts(problem, design, count)
        for index in range(self.replicates):
            counts = resample_counts(rng, count, 1)[0]
            again[index] = start(counts, rng) @ table_values(design, counts[units], middle)
            watch((index + 1) / self.replicates)
        budget = out.split_ends(alpha, self.side)
        low, high = percentile_ends(again, budget)
        missing = int((design.logged.sum(axis=0) == 0).sum())
        table = out.states("table", "Observations are the whole state and repeat: the table of the process is finite.")
        result = out.Outcome(
            low=low,
            high=high,
            estimate=estimate,
            guarantee=self.guarantee,
            budget=budget,
            assumptions=(independent, out.start_assumption(problem), table, out.COVERED, out.ASYMPTOTIC),
            choices={"table": f"{states} states, {missing} pairs without a row", "interval": "percentile"},
            seeds={"bootstrap": self.seed},
        )
        return out.conclude_baseline(problem, result, name=self.name, alpha=alpha, side=self.side, watch=watch)
