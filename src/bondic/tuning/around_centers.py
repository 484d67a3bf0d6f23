"""Balls around a fitted center, with the radius that the pilot's residuals call for.

    r_Q = max( 2 sqrt( ( T rho )^2 + ( B max( min(1, 3 / (n (1 - gamma))), 5 u ) )^2 ), 3 |ê| ),   T = max( 1 / (1 - gamma), 10 )

rho: rms residual of the center on the n rows that judge it. q* - q̂ is the sum of all residuals to come, rho / (1 - gamma) if
all of them point the same way. The second part leaves room for what these rows cannot show: an event that hits less than 3
of n rows, which one log in twenty hides, and all that happens where the pilot never was (u, `tuning.coverage`). The factor 2 is
for what neither part measures: rho is taken over the log's rows, and the policy may spend its time where residuals are larger;
and it is a size of values, where r_Q bounds a norm, which is larger for all but the flattest functions. Of many residuals
some cancel, which leaves room for that, of few they do not: hence ten steps at least. |ê| is a norm: that of the correction to q̂
which predicts later judging rows best (`tuning.radius`). It shows where a center learned little and is wrong in a rough way;
with gamma <= 0.9 such centers are left out.
The level C of the kernel is at least B / r_Q: every constant of the value range is in Q. A radius is a choice: no log proves it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.classes.ball import Ball
from bondic.classes.box import Box
from bondic.classes.instruments import Instruments
from bondic.classes.provenance import Provenance
from bondic.classes.span import Span
from bondic.classes.value_class import constant_value
from bondic.errors import PolicyError
from bondic.rows import Rows
from bondic.search.sequential.blocks import Budget
from bondic.search.sequential.plan import Simulated, outset
from bondic.sums.forms import STANDARD, Sums
from bondic.terms import range_at_all_times
from bondic.tuning.bumps import bump_kernel
from bondic.tuning.centers import ENOUGH, Center, FittedCenters, split_row
from bondic.tuning.coverage import CHANCE, unseen_actions, unseen_share
from bondic.tuning.radius import held_out_norm, weakness
from bondic.tuning.rollouts import horizon_of
from bondic.tuning.visits import can_be_asked

FloatArray = npt.NDArray[np.float64]

KAPPAS = (1.0, 0.3, 0.1)
"""Scales of what actions differ by, beside that of the state."""
_RARE, _APART = 3.0, 5.0
_SAFE = 2.0
"""Times what residuals ask for. With 1, intervals missed; 2 was fixed before the logs that `docs/sequential-worlds.md` counts."""
_STEPS = 10.0
"""Residuals count as if at least so many of them added up."""
_LEARNED = 0.5
"""Residuals of a center beside those of a constant, where no more steps than that count."""
_CORRECTED = 3.0
"""Times the norm of the correction that judging rows ask for."""
_LEAST_ADVANTAGE = 2.0
"""kappa r_Q / 2 is at least so many rho: what one step can make actions differ by."""


@dataclass(frozen=True, eq=False)
class Foresight:
    """What lengths are predicted for."""

    planned: int  # rows of the log
    budget: Budget
    seen: int  # most landmarks
    sums: Sums = STANDARD

    def length(self, pilot: Rows, ball: Ball | Box | Span, simulated: Simulated | None) -> float:
        return outset(pilot, ball, self.seen, self.sums, simulated).length(self.planned, self.budget)


@dataclass(frozen=True, eq=False)
class ClassCandidate:
    """A class with the length that is predicted for it."""

    name: str
    ball: Ball
    note: str
    length: float


def centers_apply(pilot: Rows) -> bool:
    """Whether there are rows enough to fit a center, something follows them, and values do not depend on time.

    Where the policy takes actions that the pilot hardly knows, or where judging rows are too few to show what decides values,
    the radius would hold all of the value range, whatever is fitted: that is a lot of work for nothing.
    """
    if len(pilot) < ENOUGH or pilot.layout.has_time or not 0 < pilot.gamma < 1 or not pilot.whole().continues.any():
        return False
    judging = len(pilot.select(split_row(pilot)))
    return _RARE / (1.0 - pilot.gamma) < judging and _APART * (unseen_actions(pilot) - CHANCE) < 1.0


def balls_around_center(
    pilot: Rows,
    centers: FittedCenters,
    names: tuple[int, ...],
    foresight: Foresight,
    simulated: Simulated | None,
    instruments: Instruments,
    factor: float,
) -> list[ClassCandidate]:
    """One for every scale of the advantage, around the center of the smallest residuals; the radius times `factor`.

    No ball around a constant: residuals tell how large q* - q̂ is, and its norm depends on its shape, of which a constant knows
    nothing. With the width of the range as radius, 9 of 39 intervals for images of digits missed.
    """
    fitted = _that_learned(centers, pilot.gamma)
    if not fitted:
        return []
    limits, judge = range_at_all_times(pilot.terms), pilot.select(split_row(pilot))
    unseen, why = _unseen(pilot, centers)
    center = min(fitted, key=lambda one: one.rho)
    least = radius_around(center.rho, limits.width, pilot.gamma, len(judge), unseen)
    level, out = max(0.5 * limits.width, limits.width / (factor * least)), []
    where = Provenance(
        "center, scales and radius chosen by bondic", (pilot.rows.start, pilot.rows.stop), pilot.log_hash
    )
    for kappa in allowed_kappas(pilot.layout.slots if pilot.layout.discrete else 2, pilot.gamma):
        kernel = bump_kernel(pilot, kappa, level, names)
        correction = (
            0.0 if weakness(judge) else held_out_norm(judge, kernel, instruments.kernel, center=center.function)
        )
        radius = factor * max(least, _CORRECTED * correction)
        ball = Ball(kernel, radius, center.function, provenance=where, origin="chosen")
        note = (
            f"within {radius:.6g} of a fitted {center.name} in the space of {kernel!r}, what actions differ by at scale "
            f"{kappa:g}; radius from {len(judge)} rows that the center has not seen: residuals of rms {center.rho:.3g}, a "
            f"correction of norm {correction:.3g}{why}"
        )
        length = foresight.length(pilot, ball, simulated)
        out.append(ClassCandidate(f"{center.name}, scale {kappa:g}", ball, note, length))
    return out


def _that_learned(centers: FittedCenters, gamma: float) -> list[Center]:
    """Those fitted; where values are mostly rewards of the next few steps, those that tell most of what these differ by.

    With more steps residuals do not show that: where rewards change slowly, a constant has small ones.
    """
    fitted = [one for one in centers.every if constant_value(one.function) is None]
    if _STEPS * (1.0 - gamma) < 1.0 - 1e-9:
        return fitted
    plain = min((one.rho for one in centers.every if constant_value(one.function) is not None), default=math.inf)
    return [one for one in fitted if one.rho <= _LEARNED * plain]


def radius_around(rho: float, width: float, gamma: float, held: int, unseen: float) -> float:
    """What residuals ask for; never below two thousandths of the range."""
    steps = 1.0 / (1.0 - gamma)
    hidden = width * max(min(1.0, _RARE * steps / max(held, 1)), _APART * unseen)
    return _SAFE * max(math.hypot(rho * max(steps, _STEPS), hidden), 1e-3 * width)


def allowed_kappas(actions: int, gamma: float) -> tuple[float, ...]:
    """Those with kappa r_Q >= 4 rho; a single action has no advantage."""
    if actions == 1:
        return KAPPAS[:1]
    least = min(1.0, _LEAST_ADVANTAGE * (1 - gamma)) * (1 - 1e-9)
    return tuple(kappa for kappa in KAPPAS if kappa >= least)


def _unseen(pilot: Rows, centers: FittedCenters) -> tuple[float, str]:
    """The share of the policy's visits that the pilot knows nothing about, in words too; all of them where nobody can tell."""
    if centers.simulator is None or not can_be_asked(pilot.policy):
        return 1.0, "; where the policy goes cannot be simulated, so the radius holds all of the value range"
    try:
        share = unseen_share(pilot, centers.simulator, horizon_of(pilot.gamma), 0)
    except PolicyError:
        return 1.0, "; the policy does not answer at simulated states, so the radius holds all of the value range"
    return share, f"; {100 * share:.0f} % of simulated visits lie where the pilot never was" if share else ""
