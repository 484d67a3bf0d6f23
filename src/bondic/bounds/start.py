"""The initial distribution of a problem where it is known through a sample: the one place that knows when, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.noise.start import initial_error
from bondic.rounding import Enclosure, certified_dot
from bondic.rows import Rows
from bondic.terms import range_of

INITIAL_SHARE = 0.2
"""Share of alpha for a sampled initial distribution; fixed here, before any data are seen."""


@dataclass(frozen=True, eq=False)
class SampledStart:
    """What the error |J* - J_emp| of a sampled initial distribution depends on besides its probability."""

    weights: npt.NDArray[np.float64]
    width: float  # B at time 0
    draws: int  # independent draws behind every weight
    count_fixed: bool
    sides: int

    def error(self, probability: float) -> Enclosure:
        """A bound of |J* - J_emp| that holds with probability 1 - `probability`."""
        return initial_error(
            self.width,
            probability,
            self.weights,
            draws=self.draws,
            count_fixed=self.count_fixed,
            sides=self.sides,
        )

    def law(self) -> dict[str, Any]:
        """The same as a formula of delta_0, for whoever computes it elsewhere.

        mean: width sqrt( log(sides/delta_0) square / 2 )
        any:  the least over j = 1..24 of ( log(sides j (j+1) / delta_0) / rate_j + rate_j width^2 count / 8 ) / count,
              rate_j = sqrt( 8 log(sides j (j+1) / delta_0) / 4^(j-1) ) / width
        """
        common = {"width": self.width, "sides": self.sides}
        if not self.count_fixed:
            return {"kind": "any", "count": self.weights.size, **common}
        square = certified_dot(self.weights, self.weights) / float(self.draws)
        return {"kind": "mean", "square": square.upper, **common}


def sampled_start(problem: Rows, sides: int) -> SampledStart | None:
    """For an interval (2 sides) or a bound (1); None when d_0 and the means over initial actions are exact."""
    states = problem.initial_states
    if states.kind == "exact" and problem.answers.exact:
        return None
    draws = max(problem.initial_draws, 1) if states.kind == "exact" else 1
    return SampledStart(states.weights, range_of(problem.terms).width, draws, states.count_fixed, sides)
