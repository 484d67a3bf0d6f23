"""Q as a ball in a span that holds every level: one constant function, and bumps in which the advantage is small.

    b_1 = C,      b_2 ... b_m = an orthonormal basis of bumps k_S(s, t) (1 + kappa^2 <1_a - 1/A, 1_b - 1/A>)

q* - q̂ then has a level, worth 1/C of the radius per unit of value, and a shape. What actions differ by has the smaller scale
kappa: a sharp policy makes what follows jump from one action to another, and a small kappa makes that jump cheap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.classes.basis import LandmarkBasis
from bondic.classes.provenance import Provenance
from bondic.classes.span import Span
from bondic.functions.functions import Function
from bondic.kernels.base import Kernel
from bondic.kernels.constant import Constant
from bondic.kernels.dirac import ActionEmbedding
from bondic.kernels.gaussian import Gaussian
from bondic.kernels.normal_form import Layout, normal_form
from bondic.rows import Rows
from bondic.search.sequential.basis import Embedder, PointSlots, candidates, diagonal, pilot_basis
from bondic.search.sequential.starts import known_starts
from bondic.tuning.scales import measure_scales, pilot_points

FloatArray = npt.NDArray[np.float64]

_WIDTH = 0.75
"""Bandwidth, in standard deviations of the pilot's states times the root of their dimension."""
_FAR = 1e3
"""A landmark so many bandwidths away has no bump where points are: the constant part of the kernel is what it sees."""
_LANDMARKS, _ROWS_EACH = (60, 150), 6
"""Fewest and most landmarks; one for every six rows of the pilot, since their coordinates have to be learned."""


def bumps(pilot: Rows, kappa: float, names: tuple[int, ...]) -> tuple[Kernel, FloatArray]:
    """k_S(s, t) (1 + kappa^2 action part), and a point that is far from all others."""
    layout = pilot.layout
    scales = measure_scales(pilot_points(pilot), layout.dimension, names)
    width = scales.bandwidth(_WIDTH * math.sqrt(layout.dimension) / scales.median)
    far = scales.center + _FAR * width * math.sqrt(layout.dimension)
    state = list(layout.columns("state"))
    if layout.discrete:
        return Gaussian(width, on="state") * advantage(layout, kappa), far
    action = list(layout.columns("action"))
    return Gaussian(width[state], on="state") * (Constant(1.0) + kappa**2 * Gaussian(width[action], on="action")), far


def advantage(layout: Layout, kappa: float) -> Kernel:
    """1 + kappa^2 <1_a - 1/A, 1_b - 1/A>."""
    apart = np.eye(layout.slots) - 1.0 / layout.slots
    return ActionEmbedding(np.hstack([np.ones((layout.slots, 1)), kappa * apart]))


@dataclass(frozen=True, eq=False)
class Bumps:
    """The functions that a span is made of, and how much of a bump at a row of the pilot they leave over (0 to 1)."""

    span: Span
    left_over: float


def span_around(
    pilot: Rows, center: Function | None, kappa: float, names: tuple[int, ...], level: float, most: int | None = None
) -> Bumps:
    """The span of radius 1; `level` is C. At most so many functions, or what the pilot can teach."""
    size = min(max(_LANDMARKS[0], len(pilot) // _ROWS_EACH), _LANDMARKS[1])
    kernel, far = bumps(pilot, kappa, names)
    pool = candidates(pilot.whole(), known_starts(pilot, pilot).before(pilot.rows.stop))
    found = pilot_basis(kernel, pilot.layout, pool, min(size, most or size) - 1)
    logged = PointSlots(pilot.whole().logged, pilot.whole().slots)
    embedder = Embedder(normal_form(kernel, pilot.layout), found)
    own = diagonal(embedder.terms, logged)
    left = np.maximum(own - np.sum(embedder.pairs(logged) ** 2, axis=1), 0.0)
    size = len(found)
    matrix = np.zeros((1 + size, 1 + size))
    matrix[1:, 1:] = found.matrix
    matrix[1:, 0] = -found.matrix.sum(axis=1)  # every bump without the constant that the kernel adds to it
    basis = LandmarkBasis(np.vstack([far, found.points]), np.concatenate([[0], found.slots]), matrix)
    where = Provenance("center, bumps and radius chosen by bondic", (pilot.rows.start, pilot.rows.stop), pilot.log_hash)
    whole = Span(kernel + Constant(1.0), basis, 1.0, center, where, "chosen")
    return Bumps(with_level(whole, level), float(np.sqrt(np.mean(left / own))))


def with_level(span: Span, level: float) -> Span:
    """The same bumps with another C: a level of the value weighs 1/C."""
    matrix = span.basis.matrix.copy()
    matrix[0] = 0.0
    matrix[0, 0] = level
    basis = LandmarkBasis(span.basis.points, span.basis.slots, matrix)
    return Span(span.kernel, basis, span.radius, span.center, span.provenance, span.origin)
