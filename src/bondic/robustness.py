"""How much rougher the value function may be than Q takes it for: what the interval says at larger radii.

With the ω of the two ends fixed, F- and F+ move by (r - r_Q) |μ_ω| when the radius becomes r, and all radii hold on
the one event of the noise bound (section 5). Another ω could only do better, so both numbers are cautious.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bondic.core.claims import Claim
from bondic.core.dual.bound import BIAS, Setting

_SAME = 0.1
"""An interval that is longer by at most this share still says the same."""


@dataclass(frozen=True)
class Robustness:
    """Multiples of the radius of Q; inf where the radius plays no part."""

    radius: float  # r_Q
    same_up_to: float  # the interval is at most a tenth longer up to this multiple
    informative_up_to: float  # beyond this multiple nothing is left but the value range

    @property
    def breakdown_radius(self) -> float:
        """The largest radius at which the interval still says more than the value range."""
        return self.radius * self.informative_up_to

    def to_dict(self) -> dict[str, float | None]:
        """Plain numbers for JSON, which has no infinity: None means without limit."""
        numbers = {
            "radius": self.radius,
            "same_up_to": self.same_up_to,
            "informative_up_to": self.informative_up_to,
            "breakdown_radius": self.breakdown_radius,
        }
        return {name: value if math.isfinite(value) else None for name, value in numbers.items()}


def robustness(setting: Setting, low: float, high: float, ends: tuple[Claim, ...]) -> Robustness | None:
    """From the ends that rest on the log; None for a Q without a radius to doubt (a box), or if no end rests on it."""
    radius = setting.ball.radius
    if not setting.ball.has_radius or not ends or radius == 0:
        return None
    bias = math.fsum(claim[BIAS].upper for claim in ends)
    gained = [claim.gain(setting.range()) for claim in ends]
    room = max(_ratio(gain, claim[BIAS].upper) for gain, claim in zip(gained, ends, strict=True))
    # a one-sided bound is measured by what the log gained over the range, an interval by its length
    length = high - low if len(ends) == 2 else gained[0]
    informative = 1.0 + max(room, 0.0)
    same = 1.0 + max(_ratio(_SAME * length, bias), 0.0)
    return Robustness(radius, min(same, informative), informative)


def _ratio(room: float, step: float) -> float:
    return room / step if step > 0 else math.inf
