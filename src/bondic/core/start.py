"""The initial distribution of a problem where it is known through a sample: the one place that knows when, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import Enclosure
from bondic.core.columns import Columns
from bondic.core.noise.start import initial_error
from bondic.core.terms import range_of

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


def sampled_start(problem: Columns, sides: int) -> SampledStart | None:
    """For an interval (2 sides) or a bound (1); None when d_0 and the means over initial actions are exact."""
    states = problem.initial_states
    if states.kind == "exact" and problem.exact_answers:
        return None
    draws = max(problem.initial_draws, 1) if states.kind == "exact" else 1
    return SampledStart(states.weights, range_of(problem.terms).width, draws, states.count_fixed, sides)
