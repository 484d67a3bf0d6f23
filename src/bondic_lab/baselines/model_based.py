"""Certainty equivalence: the value of the policy in the most likely table, with a bootstrap over episodes.

q = r^ + gamma P^ v on the pairs that occur, r^ and P^ the observed means and frequencies,  J = E_0[v].
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput
from bondic.core.terms import range_of
from bondic_lab.baselines import outcome as out
from bondic_lab.baselines.features import Design, make_design, table_kernel
from bondic_lab.baselines.units import OverUnits, Sample, Unit

FloatArray = npt.NDArray[np.float64]

_MAX_STATES = 512


def table_values(design: Design, counts: FloatArray | None, unseen: float) -> FloatArray:
    """q of the estimated table, (D,); pairs without a row get the value `unseen`, a guess."""
    weighted = design.counted(counts)
    visits = weighted.sum(axis=0)
    seen = visits > 0
    flow = weighted.T @ design.following
    matrix = np.diag(np.where(seen, visits, 1.0)) - np.where(seen[:, None], design.gamma * flow, 0.0)
    right = np.where(seen, weighted.T @ design.rewards, unseen)
    return np.asarray(np.linalg.solve(matrix, right))


@dataclass(frozen=True)
class ModelBased(OverUnits, name="model", words="most likely table, bootstrap over episodes", needs=("episode_ids",)):
    """`model`: plug-in value of a table with a percentile interval. Asymptotic: few states that all occur often.

    Pairs that never occur are given the middle of the value range, a guess that no interval accounts for.
    """

    replicates: int = 200
    seed: int = 0
    unit: Unit = field(default="episodes", kw_only=True)

    def unit_ends(self, sample: Sample) -> out.Outcome:
        problem, rows = sample.problem, sample.problem.whole()
        states = np.unique(np.concatenate([rows.logged, rows.next.points]), axis=0).shape[0]
        if not problem.layout.discrete or states > _MAX_STATES:
            raise InvalidInput(
                f"The model is a table of states and discrete actions; this log has {states} distinct states (at most "
                f"{_MAX_STATES} are allowed) or continuous actions. Use FittedQ() or Dual()."
            )
        design = make_design(problem, table_kernel())
        limits = range_of(problem.terms)
        middle = 0.5 * (limits.low + limits.high)

        def fit(counts: FloatArray | None) -> FloatArray:
            return table_values(design, counts, middle)

        found = sample.bootstrap(design, fit, self.replicates, self.seed)
        missing = int((design.logged.sum(axis=0) == 0).sum())
        table = out.stated("table", "Observations are the whole state and repeat: the table of the process is finite.")
        notes = {"table": f"{states} states, {missing} pairs without a row", **found.choices}
        return replace(found, assumptions=(table,), choices=notes)
