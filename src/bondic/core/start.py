"""The initial distribution seen through a sample, or through sampled actions (section 1): when that is so, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import Enclosure, certified_dot, log_enclosure
from bondic.core.columns import Columns
from bondic.core.terms import range_of

FloatArray = npt.NDArray[np.float64]

INITIAL_SHARE = 0.2
"""Share of alpha for a sampled initial distribution; fixed here, before any data are seen."""


@dataclass(frozen=True, eq=False)
class SampledStart:
    """What the error |J* - J_emp| of a sampled initial distribution depends on besides its probability."""

    weights: FloatArray
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


_GRID = 24
"""Rates for planned sizes 1, 4, 16, ..., 4^23: enough for any sample that fits a computer."""


def initial_error(
    width: float, probability: float, weights: FloatArray, *, draws: int, count_fixed: bool, sides: int
) -> Enclosure:
    """Hoeffding: |J* - J_emp| <= B sqrt( log(sides / delta_0) S / 2 ), S = sum_j p_j^2 / draws.

    A sample of n_0 states has p_j = 1 / n_0 and draws = 1 whatever the number of action draws (they belong to the
    same independent term); an exact list with m action draws per state has draws = m. A sample whose size was not
    fixed beforehand allows for every size at once.
    """
    if count_fixed:
        effective = certified_dot(weights, weights) / float(draws)
        level = log_enclosure(Enclosure(float(sides)) / probability)
        return Enclosure(width) * (level * effective * 0.5).sqrt()
    return _any_size(width, probability, weights.size, sides)


def _any_size(width: float, probability: float, count: int, sides: int) -> Enclosure:
    """min_j ( log(sides j (j+1) / delta_0) / lambda_j + lambda_j B^2 n_0 / 8 ) / n_0, valid at every stopping time.

    Each lambda_j is fixed (best for n_0 = 4^(j-1)) and has error probability delta_0 / (j (j + 1)); these sum to delta_0.
    """
    if width == 0:
        return Enclosure(0.0)
    best: Enclosure | None = None
    for j in range(1, _GRID + 1):
        level = log_enclosure(Enclosure(float(sides * j * (j + 1))) / probability)
        rate = (8.0 * level.mid / 4.0 ** (j - 1)) ** 0.5 / width
        total = level / rate + Enclosure(width) * width * float(count) * 0.125 * rate
        bound = total / float(count)
        if best is None or bound.upper < best.upper:
            best = bound
    assert best is not None
    return best
