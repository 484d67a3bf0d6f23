"""Both ends of the value from features: the identity (13) with the tail (15), over what the rows leave of θ.

For weights v_i known before the row, sign s = ±1, ψ_0 the mean features of the starts and μ = s Λ ψ_0 - sum_i v_i T_i,

    s Λ <f, ψ_0>  <=  log(1/δ) - sum v_i R_i + sup_E { <f, μ> + sum_i w_i (D_i + <f, U_i> + e_i)^2 } + β sum |v_i| h_i,     (24)

h_i = s(x_i) + γ s'_i, w_i = v_i^2 g(-y)/y^2 at the largest bet y that E lets a row of its class lose, |e_i| <= γ β s'_i (and what
a floor moves the center). J = E_{d_0 π}[q̂] + <b, ψ_0> + <f, ψ_0> ± β E_{d_0 π}[s]. The supremum is one trust region: bias and
noise have one worst case. A second bound needs no weights: |<f, ψ_0>| <= sup_E.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bondic.core.betting import curvature, tail_term
from bondic.core.bounded import Enclosure, U, certified_dot, inflate, norm
from bondic.core.cells.ends import EndTerms
from bondic.core.errors import InvalidInput
from bondic_lab.features.sets import FeatureEllipsoid, FeatureEvent, FeatureGround, FeatureQuadratic, FeatureSet
from bondic_lab.features.sums import FeatureTally

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FeatureStarts:
    """Means over the starts: of the center, of the features, and of what the allowance multiplies."""

    center: Enclosure  # E_{d_0 π}[q̂]
    features: FloatArray  # (D,) ψ_0
    error: float  # of its length
    scale: float  # E_{d_0 π}[s], rounded up

    def __post_init__(self) -> None:
        fine = bool(np.all(np.isfinite(self.features))) and 0 <= self.error < math.inf and 0 <= self.scale < math.inf
        if not fine:
            raise InvalidInput("The starts have finite features, and errors and scales of at least 0.")


@dataclass(frozen=True)
class FeatureTail:
    """One end: the column of its weights, Λ, and its probability."""

    column: int
    rate: float
    probability: float

    def __post_init__(self) -> None:
        if not (self.column >= 0 and 0 < self.rate < math.inf and 0 < self.probability < 1):
            raise InvalidInput("A tail has a positive rate, and a probability.")


@dataclass(frozen=True, eq=False)
class FeatureBound:
    """What was fixed before the rows, and their tally. Nothing in it depends on an allowance.

    So with the probability of the event, for all β at once: if |ζ(x)| <= β s(x) at every pair that is met (and |θ| <= β,
    where `bounded`), the value lies between the ends at β.
    """

    tally: FeatureTally
    event: FeatureEvent
    tails: Mapping[float, FeatureTail]  # by sign: 1 is the upper end, -1 the lower one
    starts: FeatureStarts
    bounded: bool = False

    @cached_property
    def ground(self) -> FeatureGround:
        return FeatureGround(self.tally, self.event, self.bounded)

    def locate(self, allowance: float) -> FeatureSet:
        if not 0 <= allowance < math.inf:
            raise InvalidInput(f"An allowance is a number of at least 0, not {allowance!r}.")
        return self.ground.locate(allowance)

    def ends(self, features: FeatureSet) -> dict[float, EndTerms | None]:
        """None where nothing is known: no set holds f."""
        return {sign: self._end(features, tail, sign) for sign, tail in self.tails.items()}

    def _end(self, features: FeatureSet, tail: FeatureTail, sign: float) -> EndTerms | None:
        starts, (base, allowed) = self.starts, self._base(features)
        candidates = [self._weighed(features, one, tail, sign, base, allowed) for one in features.sets]
        for one in features.sets:
            known = one.support(starts.features, starts.error)
            candidates.append(EndTerms(base, 0.0, 0.0, known, allowed, False))
        return min(candidates, key=lambda terms: sign * terms.value.mid + terms.spread, default=None)

    def _base(self, features: FeatureSet) -> tuple[Enclosure, float]:
        """E_{d_0 π}[q̂] + <b, ψ_0>, and β E_{d_0 π}[s]."""
        starts, reference = self.starts, self.tally.reference
        base = starts.center + certified_dot(reference, starts.features)
        return Enclosure(base.mid, inflate(base.rad + starts.error * norm(reference))), inflate(
            features.allowance * starts.scale
        )

    def _weighed(
        self,
        features: FeatureSet,
        one: FeatureEllipsoid,
        tail: FeatureTail,
        sign: float,
        base: Enclosure,
        allowed: float,
    ) -> EndTerms:
        tally, e, starts = self.tally, tail.column, self.starts
        sums = tally.sums
        weighing, grow, share = tally.ends[e], 1 + tally.relative, Enclosure(tail.rate)
        prices = curvature(-features.lost(one, weighing))
        noise = FeatureQuadratic.of(weighing, prices, tally.relative)
        beside = features.beside(one, weighing, prices)
        # (u + e)^2 <= (1 + t) u^2 + (1 + 1/t) e^2
        times = max(beside / math.sqrt(noise.constant), 1e-150) if noise.constant > 0 else 1.0
        apart = inflate((1 + 1 / times) * beside**2)
        balance = 0.5 * (sign * tail.rate * starts.features - sums.end_step[e])
        lost = tally.relative * float(sums.end_step_size[e]) + tail.rate * (
            starts.error + 4 * U * norm(starts.features)
        )
        joint = noise.plus(1 + times, balance, lost)
        off = inflate(tally.relative * float(sums.end_residual_size[e]) + tally.error * float(sums.end_size[e]) * grow)
        return EndTerms(
            base - sign * (Enclosure(float(sums.end_residual[e]), off) / share),
            (tail_term(tail.probability) / share).upper,
            (Enclosure(inflate(joint.constant + apart)) / share).upper,
            (Enclosure(inflate(max(one.supremum(joint) - joint.constant, 0.0))) / share).upper,
            inflate((Enclosure(inflate(features.allowance * float(sums.end_scale[e]) * grow)) / share).upper + allowed),
            True,
        )
