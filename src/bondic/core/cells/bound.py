"""The bound on cells as a whole: one event, and from it an interval for every allowance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bondic.core.cells.allowance import Allowance, CellAllowance
from bondic.core.cells.forecasts import ForecastTally
from bondic.core.cells.localize import Events, Ground, Located, ValueLimits, locate
from bondic.core.cells.tails import EndTerms, EndWeights, StartMean, end_terms
from bondic.core.cells.tally import Tally


@dataclass(frozen=True, eq=False)
class CellBound:
    """What was fixed before the rows, and their tally. Nothing in it depends on an allowance.

    So with the probability of the event, for all allowances at once, also for those that were chosen by looking at the
    result: if (23) holds at an allowance, the value lies between the ends at it.
    """

    tally: Tally  # of the certified rows
    events: Events
    tails: Mapping[float, EndWeights]  # by sign: 1 is the upper end, -1 the lower one
    probabilities: Mapping[float, float]  # of the tails
    starts: StartMean
    limits: ValueLimits
    forecasts: ForecastTally | None = None

    def locate(self, allowance: Allowance | CellAllowance) -> Located:
        """What the rows leave of the values on cells, if (23) holds at this allowance: one for all cells, or one of each."""
        own = CellAllowance.of(allowance, self.tally.shape.cells)
        return locate(self.tally, self.events, self.limits, own, self.forecasts, self._ground)

    @cached_property
    def _ground(self) -> Ground:
        return Ground.of(self.tally, self.events.vector, self.limits, self.forecasts)

    def ends(self, located: Located) -> dict[float, EndTerms]:
        return {
            sign: end_terms(located, self.starts, tail, sign, self.probabilities[sign])
            for sign, tail in self.tails.items()
        }

    def effective_rows(self) -> float:
        """Rows that count, of the end with fewer of them: (sum |v|)^2 / sum v^2."""
        found = []
        for tail in self.tails.values():
            size = float((np.abs(tail.weights) * self.tally.count).sum())
            square = float((tail.weights**2 * self.tally.count).sum())
            found.append(size * size / square if square > 0 else 0.0)
        return min(found, default=0.0)
