"""Linear fitted-Q interval in the manner of Duan, Jia and Wang (2020), for the discounted sum and dependent rows.

With Sigma = Phi'Phi + lambda I, A = Sigma - gamma Phi'Phi_next, u = A^-T phi_0 and eps_i = r_i + gamma q*(x'_i) - q*(x_i),

    phi_0 . (theta - theta*) = u . ( Phi' eps - lambda theta* )      exactly, so that with probability at least 1 - p
    |phi_0 . (theta - theta*)| <= |u|_Sigma (B/2) sqrt( 2 log(1/p) + log det(Sigma / lambda) ) + lambda |u| S.

The first line needs q* = phi . theta* alone, no closure. The second is the self-normalized inequality of
Abbasi-Yadkori, Pal and Szepesvari (2011) for all u at once: eps_i has mean 0 given the past and (s_i, a_i), and range
at most B. It allows adaptive behavior and any stopping time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from bondic.core.assumptions import start_assumption
from bondic.core.claims import ErrorBudget
from bondic.core.errors import InvalidInput
from bondic.core.kernels.base import Kernel
from bondic.core.terms import largest_width, range_at_all_times
from bondic.rows import Rows
from bondic_lab.baselines import outcome as out
from bondic_lab.baselines.base import Baseline
from bondic_lab.baselines.features import Design, make_design
from bondic_lab.baselines.lstd import LinearFit, fit_lstd


def half_width(
    design: Design, fit: LinearFit, *, ridge: float, radius: float, width: float, probability: float
) -> float:
    """|u|_Sigma (B/2) sqrt( 2 log(1/p) + log det(Sigma / lambda) ) + lambda |u| S."""
    gram = design.logged.T @ design.logged + ridge * np.eye(design.dimension)
    _, logdet = np.linalg.slogdet(gram / ridge)
    size = math.sqrt(float(fit.dual @ gram @ fit.dual))
    noise = 0.5 * width * math.sqrt(2.0 * math.log(1.0 / probability) + max(float(logdet), 0.0))
    return size * noise + ridge * float(np.linalg.norm(fit.dual)) * radius


@dataclass(frozen=True)
class LinearFittedQ(
    Baseline, name="duan-wang", words="linear fitted Q, self-normalized noise", guarantee="finite-sample"
):
    """`duan-wang`. Finite-sample for features fixed beforehand that hold q* with |theta*| <= `radius`.

    A table (the default for few states) holds every q*, and its radius follows from the value range. Landmarks that
    were picked from the log are not fixed beforehand: the label is then "none". The ridge is a number of rows.
    """

    kernel: Kernel | None = None
    radius: float | None = None
    rank: int = 100
    ridge: float = 1.0

    def budget(self, problem: Rows, alpha: float) -> ErrorBudget:
        """One event for both ends, and one for a sampled initial distribution."""
        events = out.initial_events(problem)
        return ErrorBudget.split(alpha, {"noise": 1.0 - sum(events.values()), **events})

    def ends(self, problem: Rows, budget: ErrorBudget, watch: out.Stopwatch) -> out.Outcome:
        del watch
        design = make_design(problem, self.kernel, rank=self.rank)
        radius = self.radius
        if radius is None and design.table:  # pairs that never occur in the log take no part in the identity
            radius = math.sqrt(design.dimension) * range_at_all_times(problem.terms).largest
        if radius is None or radius < 0:
            raise InvalidInput(
                "The linear fitted-Q interval needs radius=, a bound of |theta*| in its features (for few states it follows "
                "from the value range); if it is not known, use another method, such as Dual(radius='paper')."
            )
        fit = fit_lstd(design, ridge=self.ridge)
        width = largest_width(problem.terms)
        half = half_width(
            design, fit, ridge=self.ridge, radius=radius, width=width, probability=budget["noise"]
        ) + out.initial_allowance(problem, budget, self.side)
        data = out.stated("data", "Given the past and (s, a), reward and next state were drawn from the environment.")
        held = out.stated(
            "values", f"q* is a combination of the features with coefficients of norm at most {radius:.6g}."
        )
        # without a radius it is a table, which holds every function in the value range
        held = (
            replace(held, state="checked")
            if self.radius is None
            else out.stated_if(self.kernel is not None or design.table, held)
        )
        return out.Outcome(
            fit.value - half,
            fit.value + half,
            fit.value,
            (data, held, start_assumption(problem)),
            guarantee=None if design.fixed else "none",
            choices={"features": design.words, "ridge": f"{self.ridge:g} rows", "radius": f"{radius:.6g}"},
        )
