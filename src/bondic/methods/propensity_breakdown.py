"""How wrong propensities may be before a decision falls: the largest Γ of a grid at which it still holds (section 13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bondic.core.claims import Status
from bondic.core.errors import InvalidInput
from bondic.methods.propensities import Propensities
from bondic.rows import Rows

FACTORS = (1.0, 1.01, 1.02, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0)


def breakdown_factor(
    problem: Rows,
    *,
    above: float | None = None,
    below: float | None = None,
    alpha: float = 0.1,
    method: Propensities | None = None,
    factors: Sequence[float] = FACTORS,
) -> float | None:
    """The largest of `factors` such that "the value is above (below) a threshold" holds at it and at every smaller one.

    None: the decision does not even hold with propensities that are right. `factors` are fixed before looking, and begin with
    1. The claim "the decision holds unless propensities are off by more than this" is wrong with probability alpha at most,
    without dividing alpha: if it is wrong, the one-sided end at one fixed factor is, the smallest one that is large enough.
    """
    if (above is None) == (below is None):
        raise InvalidInput("Pass above= or below=: the threshold that the value is claimed to be above, or below.")
    grid = sorted(float(factor) for factor in factors)
    if not grid or grid[0] != 1.0:
        raise InvalidInput("factors= begin with 1, propensities that are right, and are 1 or more.")
    options, found = method or Propensities(), None
    for factor in grid:
        result = replace(options, gamma_sensitivity=factor, side="lower" if below is None else "upper").run(
            problem, alpha, None
        )
        holds = result.low > above if above is not None else below is not None and result.high < below
        if result.status is Status.REJECTED or not holds:
            break
        found = factor
    return found
