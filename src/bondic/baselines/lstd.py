"""LSTD with a normal interval: value +- z sqrt( sum over units ( sum_i phi_i . u delta_i )^2 ).

The sandwich variance of a solution of moment equations (Bradtke and Barto 1996; Luckett et al. 2020 for intervals).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bondic.baselines import outcome as out
from bondic.baselines.features import Unit, make_design, total_error, units_of
from bondic.baselines.intervals import normal_ends
from bondic.baselines.linear import fit_lstd
from bondic.claims import Guarantee, Side
from bondic.kernels.base import Kernel
from bondic.result import Result
from bondic.rows import Question, in_memory


@dataclass(frozen=True)
class Lstd:
    """Asymptotic: fixed features that hold q*, many independent units (episodes when the log names them, else rows)."""

    kernel: Kernel | None = None
    rank: int = 100
    ridge: float | None = None  # in rows
    unit: Unit = "auto"
    side: Side = "both"
    name: ClassVar[str] = "lstd"
    guarantee: ClassVar[Guarantee] = "asymptotic"

    def run(self, problem: Question, alpha: float, progress: out.Progress | None) -> Result:
        problem = in_memory(problem)
        watch = out.Stopwatch(self.name, progress)
        units, independent = units_of(problem, self.unit)
        design = make_design(problem, self.kernel, rank=self.rank)
        ridge = design.ridge(self.ridge)
        fit = fit_lstd(design, ridge=ridge)
        error = total_error(problem, design, fit.theta, fit.parts(design), units)
        budget = out.split_ends(alpha, self.side)
        low, high = normal_ends(fit.value, error, budget)
        held = out.stated_if(self.kernel is not None, out.REALIZABLE)
        result = out.Outcome(
            low=low,
            high=high,
            estimate=fit.value,
            guarantee=self.guarantee,
            budget=budget,
            assumptions=(independent, out.start_assumption(problem), held, out.COVERED, out.ASYMPTOTIC),
            choices={"features": design.words, "ridge": f"{ridge:g} rows", "standard error": f"{error:.6g}"},
        )
        return out.conclude_baseline(problem, result, name=self.name, alpha=alpha, side=self.side, watch=watch)
