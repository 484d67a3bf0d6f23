"""A kernel for q* - q̂: any level, a smooth shape, a rough one, and differences of actions at a scale of their own.

    k̃((s, a), (t, b)) = C^2 + (k_wide(s, t) + 0.03 k_narrow(s, t)) (1 + kappa^2 <1_a - 1/A, 1_b - 1/A>)

A fitted center is wrong where values jump, and no smooth function is wrong in that way. Where steps can be told exactly,
nothing else hides it: with k_wide alone intervals missed. The narrow part lets single places differ by a sixth of the radius.
A level costs 1/C of the radius per unit of value. What actions differ by has the smaller scale kappa: a sharp policy makes
what follows jump from one action to another, and a small kappa makes that jump cheap.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bondic.kernels.base import Kernel
from bondic.kernels.constant import Constant
from bondic.kernels.dirac import ActionEmbedding
from bondic.kernels.gaussian import Gaussian
from bondic.kernels.normal_form import Layout
from bondic.rows import Rows
from bondic.tuning.scales import measure_scales, pilot_points

FloatArray = npt.NDArray[np.float64]

_WIDE, _NARROW = 1.5, 0.1
"""Bandwidths, in standard deviations of the pilot's states times the root of their dimension."""
_ROUGH = 0.03
"""Share of the narrow part."""


def bump_kernel(pilot: Rows, kappa: float, level: float, names: tuple[int, ...]) -> Kernel:
    """k̃ with C = level."""
    layout = pilot.layout
    scales = measure_scales(pilot_points(pilot), layout.dimension, names)
    unit = math.sqrt(layout.dimension) / scales.median
    width, narrow = (scales.bandwidth(factor * unit) for factor in (_WIDE, _NARROW))
    state, action = (list(layout.columns(part)) for part in ("state", "action"))
    near = Gaussian(width[state], on="state") + _ROUGH * Gaussian(narrow[state], on="state")
    if layout.discrete:
        return near * advantage(layout, kappa) + Constant(level**2)
    return near * (Constant(1.0) + kappa**2 * Gaussian(width[action], on="action")) + Constant(level**2)


def advantage(layout: Layout, kappa: float) -> Kernel:
    """1 + kappa^2 <1_a - 1/A, 1_b - 1/A>."""
    apart = np.eye(layout.slots) - 1.0 / layout.slots
    return ActionEmbedding(np.hstack([np.ones((layout.slots, 1)), kappa * apart]))
