"""LSTD with a normal interval: value +- z sqrt( sum over units ( sum_i phi_i . u delta_i )^2 ).

The sandwich variance of a solution of moment equations (Bradtke and Barto 1996; Luckett et al. 2020 for intervals).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bondic.baselines import outcome as out
from bondic.baselines.features import make_design
from bondic.baselines.intervals import normal_ends
from bondic.baselines.linear import fit_lstd
from bondic.baselines.units import IntArray, OverUnits, total_error
from bondic.claims import ErrorBudget, Guarantee
from bondic.kernels.base import Kernel
from bondic.rows import Rows


@dataclass(frozen=True)
class Lstd(OverUnits):
    """Asymptotic: fixed features that hold q*, many independent units (episodes when the log names them, else rows)."""

    name: ClassVar[str] = "lstd"
    words: ClassVar[str] = "temporal differences, sandwich variance"
    guarantee: ClassVar[Guarantee] = "asymptotic"
    kernel: Kernel | None = None
    rank: int = 100
    ridge: float | None = None  # in rows

    def unit_ends(self, problem: Rows, units: IntArray, budget: ErrorBudget, watch: out.Stopwatch) -> out.Outcome:
        del watch
        design = make_design(problem, self.kernel, rank=self.rank)
        ridge = design.ridge(self.ridge)
        fit = fit_lstd(design, ridge=ridge)
        error = total_error(problem, design, fit.theta, fit.parts(design), units)
        return out.Outcome(
            *normal_ends(fit.value, error, budget),
            fit.value,
            (out.stated_if(self.kernel is not None, out.REALIZABLE),),
            choices={"features": design.words, "ridge": f"{ridge:g} rows", "standard error": f"{error:.6g}"},
        )
