"""How long the interval of a finished plan would be, as far as the pilot can tell: plans are compared by it.

The last 30 % of the pilot, seen with the model of the rest, stand for all rows to come: the fixed point is run on them as if
each came many times, then the tails (13) + (15) are evaluated over the ellipsoid that it leaves.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bondic.core.betting import curvature
from bondic.core.bounded import row_norms
from bondic.core.claims import End
from bondic.core.sequential.ellipsoids import Quadratic, supremum
from bondic.search.sequential.blocks import Budget, Draft, Proposer
from bondic.search.sequential.outlook import Outlook
from bondic.search.sequential.past import Past
from bondic.search.sequential.sample import Predictions, held_rows, sample_of
from bondic.search.sequential.starts import FULL_BET

FloatArray = npt.NDArray[np.float64]

_STAGES = 4
"""Times that the rate is set anew by what is left, as blocks would do it."""


def predict_length(past: Past, planned: int, budget: Budget) -> float:
    """The length for a log that ends at row `planned`, from the rows of the past; it may be longer than the range."""
    proposer = Proposer(past.start.size, past.radius, past.gamma, past.row, planned, budget)
    found = proposer.prepare(past, planned)
    rows = held_rows(past)
    sample = sample_of(rows, found.first.model, past.gamma)
    weight = found.rows / len(rows)
    outlook = proposer.outlook
    features, deviations = sample.toward @ found.instruments.whitening, outlook.over_the_ball(sample)
    sizes = row_norms(features)
    for _ in range(_STAGES):
        squares = float(np.mean(sizes**2 * np.maximum(deviations**2, found.noise)))
        rate = math.sqrt(2 * budget.vector / max(found.rows * squares, 1e-300))
        rates = np.minimum(rate, FULL_BET / np.maximum(sizes * sample.width, 1e-300))
        outlook.imagine(rows, sample, features * rates[:, None], weight)
        assert outlook.kept is not None
        deviations = outlook.kept.largest()
    return sum(_spread(end, found, sample, outlook, weight, budget) for end in budget.ends)


def _spread(end: End, found: Draft, sample: Predictions, outlook: Outlook, weight: float, budget: Budget) -> float:
    """How far this end would lie from the value at the center of the ellipsoid."""
    assert outlook.kept is not None
    aim, gamma = found.aims[end], outlook.gamma
    above, below = sample.caps(end, gamma, found.fitted.guess, found.margin, found.instruments.bets(sample))
    v = np.clip(sample.toward @ (aim.theta / aim.smoothing), -below, above)
    worst = np.minimum(np.abs(v) * outlook.kept.largest(), FULL_BET)
    form = Quadratic.of(weight * v**2 * curvature(-worst), sample.miss, sample.deviations(gamma), outlook.radius)
    linear = found.rows * (aim.imbalance if end == "upper" else -aim.imbalance)
    most, _ = supremum(outlook.best, linear, 0.0, form)
    _, center = supremum(outlook.best, linear, 0.0, None)
    return (most - center + budget.ends[end]) / (found.rows * aim.rate)
