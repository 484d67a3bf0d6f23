"""The kernel Bellman interval of Feng, Ren, Tang and Liu (2020): { E[q] : q in Q, L_W(q) <= eps }, eps = O(n^-1/4).

Its threshold is Hoeffding's bound for the V-statistic L_W(q*)^2 of independent rows (`noise/v_statistic.py`);
the interval is evaluated through the dual at that eps, which any number of rows allows and which is certified.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from bondic.core.errors import InvalidInput
from bondic.methods.dual import Dual
from bondic.result import Result
from bondic.rows import Rows
from bondic_lab.baselines import outcome as out
from bondic_lab.baselines.base import Listed
from bondic_lab.noise.v_statistic import VStatistic


@dataclass(frozen=True)
class Feng2020(Listed, name="feng2020", words="kernel Bellman loss, V-statistic threshold", guarantee="finite-sample"):
    """Dual with the threshold for independent rows.

    Finite-sample, but for independent, identically distributed rows: rows of one episode, or an adaptive behavior,
    are outside the theorem. constant="paper" is the published one, "range" a smaller one with the same proof.
    """

    settings: Dual = field(default_factory=Dual)
    constant: Literal["paper", "range"] = "paper"

    def run(self, problem: Rows, alpha: float, progress: out.Progress | None) -> Result:
        if self.settings.planned_rows is not None:
            raise InvalidInput(
                "The threshold for independent rows needs a number of rows fixed beforehand: drop planned_rows=."
            )
        result = replace(self.settings, gauge=VStatistic(self.constant)).run(problem, alpha, progress)
        rows = out.stated("rows", "Rows are independent draws of one distribution, their number fixed beforehand.")
        return replace(result, method=self.name, assumptions=(rows, *result.assumptions))
