"""What the noise of rows costs: sum_i g(-s_i |Δ_i|), row by row or at one worst e, whichever is less (15), (16), (19)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.classes.ellipsoids import Ellipsoid, Quadratic, supremum
from bondic.classes.landmarks import Embedding
from bondic.noise.betting import curvature, loss
from bondic.search.sequential.sample import Predictions

FloatArray = npt.NDArray[np.float64]

_MOST = 0.995
"""Of a bet: g is infinite at 1."""


def cheapest(
    weight: FloatArray,
    sizes: FloatArray,
    largest: FloatArray,
    offsets: FloatArray,
    deviations: Embedding,
    ellipsoids: Sequence[Ellipsoid],
) -> tuple[float, int]:
    """The price of rows that come `weight` times with bets of these sizes; and which ellipsoid gives the least joint one."""
    bets = np.minimum(sizes * largest, _MOST)
    single = float(weight @ loss(-bets))
    form = Quadratic.of(weight * sizes**2 * curvature(-bets), offsets, deviations, ellipsoids[0].ball)
    joint = [supremum(one, np.zeros(form.linear.size), 0.0, form)[0] for one in ellipsoids]
    pick = int(np.argmin(joint))
    return min(single, joint[pick]), pick


@dataclass(frozen=True, eq=False)
class TailPrice:
    """Rows that the model has not seen, which tell what weights will pay for noise once the planned rows are in."""

    toward: FloatArray  # (k, m) T̄
    above: FloatArray  # (k,) c+
    below: FloatArray  # (k,) c-
    offsets: FloatArray  # (k,) a_i, for the guess of e
    deviations: Embedding  # gamma D_i
    largest: FloatArray  # (k,) U_i
    left: Ellipsoid  # around the guess

    @staticmethod
    def of(
        held: Predictions, guess: FloatArray, gamma: float, left: Ellipsoid, caps: tuple[FloatArray, FloatArray]
    ) -> TailPrice:
        offsets, deviations = held.at(guess, gamma), held.deviations(gamma)
        largest = np.minimum(held.width, np.abs(offsets) + left.products(deviations).largest())
        return TailPrice(held.toward, *caps, offsets, deviations, largest, left)

    def __call__(self, direction: FloatArray) -> float:
        """Per row, for v = clip(T̄ . direction)."""
        sizes = np.abs(np.clip(self.toward @ direction, -self.below, self.above))
        weight = np.full(sizes.size, 1.0 / sizes.size)
        return cheapest(weight, sizes, self.largest, self.offsets, self.deviations, [self.left])[0]
