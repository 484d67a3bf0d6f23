"""pdis-betting, dr-betting: bets on per-decision and on doubly robust returns, `Propensities` under names for comparisons.

Published as confidence sequences by betting (Karampatziakis, Mineiro and Ramdas 2021; Waudby-Smith, Wu, Ramdas, Karampatziakis
and Mineiro 2022); formulas and proofs are (40) and (22).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from bondic.core.claims import Side
from bondic.core.errors import InvalidInput
from bondic.methods.propensities import PILOT, Propensities
from bondic.result import Result
from bondic.rows import Rows
from bondic_lab.baselines import outcome as out
from bondic_lab.baselines.base import Listed


@dataclass(frozen=True, kw_only=True)
class PerDecisionBetting(
    Listed,
    name="pdis-betting",
    words="per-decision importance sampling, betting",
    guarantee="finite-sample",
    needs=("behavior_action_probs",),
):
    """`Propensities` without a control variate: finite-sample, whatever the ratios are, if the propensities are believed.

    Bets on every unit, a decision or an episode, at every number of units; behavior may adapt to earlier ones. Its result
    carries a certificate.
    """

    side: Side = "both"
    gamma_sensitivity: float = 1.0
    planned_rows: int | None = None

    def method(self) -> Propensities:
        """The one that does all the work."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return Propensities(**{"model": None, **given})

    def run(self, problem: Rows, alpha: float, progress: out.Progress | None) -> Result:
        return replace(self.method().run(problem, alpha, progress), method=self.name)


@dataclass(frozen=True, kw_only=True)
class DoublyRobustBetting(PerDecisionBetting, name="dr-betting", words="doubly robust, betting"):
    """`Propensities` with a linear q̂ from earlier units and a stated bound of the ratios; finite-sample as without.

    Weighted values are bet on beside doubly robust ones. The bound is one that holds at every state and action:
    `max_ratio` of pi/beta, or `min_propensity` of beta. Episodes need a bound of their products, too: a horizon, or
    gamma times the ratio below 1.
    """

    max_ratio: float | None = None
    min_propensity: float | None = None
    pilot: float | int = PILOT

    def method(self) -> Propensities:
        return replace(super().method(), model="linear")

    def run(self, problem: Rows, alpha: float, progress: out.Progress | None) -> Result:
        if self.method().stated.cap() is None:
            raise InvalidInput(
                "Doubly robust bets need a bound of the ratios pi/beta that holds for every state, not the largest one seen: "
                "pass max_ratio= (--with max_ratio=R), or min_propensity= (--with min_propensity=P). "
                "pdis-betting needs none."
            )
        result = super().run(problem, alpha, progress)
        if "doubly robust" not in result.choices["weighed"]:
            raise InvalidInput(
                "Nothing was weighed doubly robustly: too few decisions (episodes), episodes that are mixed up in the log, or "
                "products of ratios that nothing bounds (state a horizon). pdis-betting needs none of this."
            )
        return result
