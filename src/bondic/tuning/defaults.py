"""Sensible W and Q for a user who names neither; every choice is written into the result."""

from __future__ import annotations

from dataclasses import dataclass

from bondic.kernels.base import Kernel
from bondic.kernels.constant import Constant
from bondic.kernels.dirac import Dirac
from bondic.kernels.features import RandomFeatures
from bondic.kernels.gaussian import Gaussian
from bondic.kernels.normal_form import Layout
from bondic.problem import Problem, Question
from bondic.spaces.ball import Ball
from bondic.spaces.instruments import Instruments
from bondic.spaces.provenance import Provenance
from bondic.tuning.radius import held_out_radius
from bondic.tuning.scales import Scales, measure_scales


@dataclass(frozen=True)
class Choices:
    """What the defaults are made of. Numbers left at None are picked on pilot rows."""

    pairs: int = 128
    seed: int = 0
    radius_factor: float = 10.0
    weight_bandwidth: float | None = None  # of k, in units of the median distance
    constant_share: float | None = None  # how much of k is the constant kernel
    value_bandwidth: float = 1.0  # of k~, in units of the median distance


def instruments_kernel(layout: Layout, scales: Scales, choices: Choices, width: float, share: float) -> Kernel:
    """share * constant + (1 - share) * random Fourier features of a Gaussian on the state, times Dirac on actions.

    The constant part holds the mean weight 1 / (1 - gamma) cheaply. K_max = 1.
    """
    features = RandomFeatures.gaussian(
        choices.pairs,
        layout.dimension,
        scales.bandwidth(width),
        seed=choices.seed,
        center=scales.center,
        on="state" if layout.discrete else "point",
    )
    local: Kernel = features * Dirac(on="action") if layout.discrete else features
    return share * Constant(1.0) + (1.0 - share) * local


def default_instruments(problem: Question, pilot: Problem | None, choices: Choices) -> Instruments:
    """W with the middle values of what may be picked."""
    width = 1.0 if choices.weight_bandwidth is None else choices.weight_bandwidth
    share = 0.5 if choices.constant_share is None else choices.constant_share
    scales = measure_scales(pilot, problem.layout.dimension)
    kernel = instruments_kernel(problem.layout, scales, choices, width, share)
    return Instruments(kernel, provenance(pilot, "scales and bandwidth"))


def default_value_kernel(problem: Question, pilot: Problem | None, choices: Choices) -> Kernel:
    """k~: Gaussian on the state times Dirac on discrete actions, plus a constant."""
    bandwidth = measure_scales(pilot, problem.layout.dimension).bandwidth(choices.value_bandwidth)
    if problem.layout.discrete:
        return Gaussian(bandwidth, on="state") * Dirac(on="action") + Constant(1.0)
    return Gaussian(bandwidth, on="point") + Constant(1.0)


def default_ball(
    problem: Question, pilot: Problem | None, kernel: Kernel, instruments: Instruments, choices: Choices
) -> tuple[Ball, str]:
    """Q centred at 0 with the held-out radius. Q may look at the log in any way; without a pilot it uses all rows.

    Of a streamed log without a pilot it uses the first rows.
    """
    source = pilot if pilot is not None else next(problem.parts())
    fitted = held_out_radius(source, kernel, instruments.kernel, factor=choices.radius_factor)
    note = (
        f"radius {fitted.radius:.6g} = {choices.radius_factor:g} x norm {fitted.fitted_norm:.6g} of the q fitted on "
        f"rows {source.rows.start}..{source.rows.start + max(1, len(source) // 2) - 1} that scored best on the rows after them"
    )
    ball = Ball(kernel, fitted.radius, provenance=provenance(source, "scales, bandwidth and radius"))
    return ball, note


def provenance(pilot: Problem | None, what: str, how: str = "tuned") -> Provenance:
    """Where a choice came from, in words and rows."""
    if pilot is None:
        return Provenance(f"{what} fixed beforehand")
    return Provenance(f"{what} {how}", (pilot.rows.start, pilot.rows.stop), pilot.log_hash)
