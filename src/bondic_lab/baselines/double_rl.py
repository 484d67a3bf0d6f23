"""Double reinforcement learning (Kallus and Uehara 2020): cross-fitted q and weights, efficient, with a normal interval.

value = mean over folds of E_0[q] + (1/n) sum_i w(x_i) ( r_i + gamma q(x'_i) - q(x_i) ),

q and w fitted on the other folds. Errors of q and w enter as a product, so that each may converge slowly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bondic.core.terms import range_of
from bondic_lab.baselines import outcome as out
from bondic_lab.baselines.features import Design
from bondic_lab.baselines.lstd import LinearFit, fit_lstd, restrict
from bondic_lab.baselines.units import OverFeatures, Sample, fold_numbers

BoolArray = npt.NDArray[np.bool_]


def fit_observed(design: Design, *, ridge: float, guess: float) -> tuple[LinearFit, BoolArray]:
    """q and w of a training fold, and which features occur in it, (D,).

    A table pair without a row is held by the ridge alone, which would make its weight a million (the flow into it over
    the ridge). Such a pair gets no weight, and `guess` for its value, as in the model-based method.
    """
    seen = np.asarray((design.logged != 0).any(axis=0))
    fit = fit_lstd(design, ridge=ridge, prior=np.where(seen, 0.0, guess))
    return replace(fit, dual=np.where(seen, fit.dual, 0.0)), seen


@dataclass(frozen=True)
class DoubleRL(OverFeatures, name="drl", words="double reinforcement learning, cross-fitted, normal interval"):
    """`drl`. Asymptotic: independent units, overlap, and features in which q* and the density ratio are approached.

    When both are, its variance is the least possible one, V* / n. Both come from one LSTD fit per fold. Table pairs that
    are missing in a fold's fit have no weight there, and the middle of the value range as their value: a guess.
    """

    folds: int = 5
    seed: int = 0

    def fit_ends(self, sample: Sample, design: Design, ridge: float) -> out.Outcome:
        fold = fold_numbers(sample.units, self.folds, self.seed)
        n = len(design)
        parts, mean_theta, unseen = np.zeros(n), np.zeros(design.dimension), 0
        limits = range_of(sample.problem.terms)
        for k in range(self.folds):
            mine = fold == k
            others = restrict(design, ~mine)
            fit, seen = fit_observed(others, ridge=ridge, guess=0.5 * (limits.low + limits.high))
            here = restrict(design, mine)
            unseen += int((here.logged[:, ~seen] != 0).any(axis=1).sum())
            # phi . u is w / (number of rows it was fitted on)
            parts[mine] = fit.parts(here) * len(others) / n
            mean_theta += mine.mean() * fit.theta
            sample.watch((k + 1) / self.folds)
        estimate = float(design.start @ mean_theta + parts.sum())
        found = sample.normal(estimate, sample.error(design, mean_theta, parts), folds=str(self.folds))
        missing = {"unseen": f"{unseen} rows with pairs that their fold's fit never saw; no weight"} if unseen else {}
        return replace(found, choices=found.choices | missing, seeds={"folds": self.seed})
