"""W for a user who names none, and Q for one who states a radius: its kernel, and the radius rule of the paper.

In few dimensions the sums of a Gaussian are linear in the rows. In more of them they go over all pairs, and a million rows would
take hours. There its series stands in, cut at a degree: a kernel with explicit features, whose sums are linear in the rows and
whose functions are functions of the Gaussian's space. At all but a hundredth of the points both kernels are within `_TOLERANCE`
of each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from bondic.core.balls import Ball, Instruments, Provenance, constant_function
from bondic.core.errors import InvalidInput
from bondic.core.functions import Function
from bondic.core.kernels.base import Kernel
from bondic.core.kernels.features import RandomFeatures
from bondic.core.kernels.leaves import Constant, Dirac, Gaussian
from bondic.core.kernels.normal_form import Layout, normal_form
from bondic.core.kernels.series import GaussianSeries, feature_count, squared_norms
from bondic.core.terms import ValueRange, range_at_all_times
from bondic.engines.sums import STANDARD
from bondic.rows import Rows
from bondic.search.actions import sharing
from bondic.tuning.radius import CAP, FittedRadius, held_out_radius
from bondic.tuning.scales import Scales, measure_scales, pilot_points, seen_states
from bondic.tuning.states import Categorical, StateKind, check_categorical, refuse_unstated, state_kind

FloatArray = npt.NDArray[np.float64]

FEWEST_ROWS = 20_000
"""Below, every sum over pairs is a matter of seconds or minutes."""
_SUMS = 3
"""Sums over all rows behind an interval: the initial distribution, and both ends."""
_MOST_SECONDS = 600.0
"""Of one core, for these sums."""
_TOLERANCE = 0.1
_MOST_FEATURES = 1000


def expected_points(points: FloatArray, rows: int) -> int:
    """How many different points a log of so many rows has; `points` are logged, next and initial ones of some of them.

    Every row brings two, as a rule one of them again: its next state is the state of the following row, or its state an
    initial one.
    """
    return int(2 * rows * np.unique(points, axis=0).shape[0] / max(len(points), 1))


def seconds_of_sums(kernel: Kernel, layout: Layout, points: FloatArray, rows: int) -> float:
    """About how long one core needs for the sums behind an interval with a Q of this kernel."""
    return _SUMS * STANDARD.seconds(normal_form(kernel, layout), expected_points(points, rows), points)


def _near(points: FloatArray, kernel: Gaussian) -> FloatArray:
    """Without the hundredth that is farthest from the mean, in bandwidths."""
    norms = squared_norms((points - points.mean(axis=0)) / kernel.bandwidth)
    return points[norms <= np.quantile(norms, 0.99)]


def affordable(kernel: Gaussian, layout: Layout, points: FloatArray, rows: int) -> Gaussian | GaussianSeries:
    """The Gaussian, or its series where the log is too long for it; the Gaussian all the same where no series is near it."""
    whole = kernel * Dirac(on="action") if layout.discrete else kernel
    if rows < FEWEST_ROWS or seconds_of_sums(whole, layout, points, rows) <= _MOST_SECONDS:
        return kernel
    columns = list(layout.columns(kernel.on))
    try:
        series = GaussianSeries.fit(
            _near(points[:, columns], kernel), kernel.bandwidth, tolerance=_TOLERANCE, on=kernel.on
        )
    except InvalidInput:  # points too far apart, as where columns hold names
        return kernel
    return series if feature_count(series.degree, len(columns)) <= _MOST_FEATURES else kernel


PAPER: Literal["paper"] = "paper"
Radius = float | Literal["paper"]
"""A number, or the name of the rule of the paper."""
RADIUS_FACTOR = 10.0
"""r_Q of the paper, in norms of the fitted q."""
_SCALE_ROWS = 20_000
_FEATURES = 1200
"""Coordinates of W: with many actions each gets fewer features, so that the search stays a matter of seconds."""


@dataclass(frozen=True)
class Choices:
    """What the defaults are made of. Numbers left at None are picked on pilot rows.

    Parameters
    ----------
    pairs : int, default 128
        cos/sin pairs of W for each action; fewer where there are many actions.
    seed : int, default 0
        Draws the frequencies of W. It must not depend on the log.
    weight_bandwidth : float, default None
        Bandwidth of k, in units of the median distance.
    constant_share : float, default None
        How much of k is the constant kernel, in [0, 1).
    value_bandwidth : float, default 1
        Bandwidth of k̃ where Q is stated by its radius, in units of the median distance: larger assumes smoother values.
    categorical : bool or tuple of int, default None
        Which observation columns hold names, not numbers: all, none, or those listed; None: look at the states.
    """

    pairs: int = 128
    seed: int = 0
    weight_bandwidth: float | None = None
    constant_share: float | None = None
    value_bandwidth: float = 1.0
    categorical: Categorical = None

    def __post_init__(self) -> None:
        """Refused whatever the states turn out to be: a table has no bandwidth and no radius that would complain."""
        for name in ("weight_bandwidth", "value_bandwidth"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InvalidInput(f"{name}={value:g}: a bandwidth is a finite number > 0, in medians of distances.")
        if self.constant_share is not None and not 0 <= self.constant_share < 1:
            raise InvalidInput(f"constant_share={self.constant_share:g}: a share in [0, 1).")


def feature_pairs(layout: Layout, choices: Choices, most: int = _FEATURES) -> int:
    """cos/sin pairs for each action, such that all actions together have at most about `most` coordinates."""
    return max(4, min(choices.pairs, most // (2 * layout.slots)))


def instruments_kernel(layout: Layout, scales: Scales, choices: Choices, width: float, share: float) -> Kernel:
    """share * constant + (1 - share) * random Fourier features of a Gaussian on the state, times Dirac on actions.

    The constant part holds the mean weight 1 / (1 - gamma) cheaply. K_max = 1.
    """
    local = local_features(layout, scales, choices, scales.bandwidth(width))
    return share * Constant(1.0) + (1.0 - share) * local


def local_features(layout: Layout, scales: Scales, choices: Choices, bandwidth: FloatArray) -> Kernel:
    """Random Fourier features of a Gaussian with this bandwidth, times Dirac on discrete actions."""
    features = RandomFeatures.gaussian(
        feature_pairs(layout, choices),
        layout.dimension,
        bandwidth,
        seed=choices.seed,
        center=scales.center,
        on="state" if layout.discrete else "point",
    )
    return features * Dirac(on="action") if layout.discrete else features


def default_instruments(
    problem: Rows, pilot: Rows | None, choices: Choices, names: tuple[int, ...] = ()
) -> Instruments:
    """W with the middle values of what may be picked."""
    width = 1.0 if choices.weight_bandwidth is None else choices.weight_bandwidth
    share = 0.5 if choices.constant_share is None else choices.constant_share
    scales = measure_scales(None if pilot is None else pilot_points(pilot), problem.layout.dimension, names)
    kernel = instruments_kernel(problem.layout, scales, choices, width, share)
    return Instruments(kernel, provenance(pilot, "scales and bandwidth"))


def default_value_kernel(
    problem: Rows, choices: Choices, names: tuple[int, ...] = (), planned: int | None = None
) -> Kernel:
    """k̃: Gaussian on the state times Dirac on discrete actions, plus a constant; scales of all rows, as Q may see them.

    Where the log is so long that sums of the Gaussian take too long, its series stands in. `planned` is the number of rows
    that are to be certified; None: those of the problem.
    """
    some, layout = problem.some_points(_SCALE_ROWS), problem.layout
    scales = measure_scales(some, layout.dimension, names)
    bandwidth = scales.bandwidth(choices.value_bandwidth)
    gaussian = Gaussian(bandwidth, on="state" if layout.discrete else "point")
    local = affordable(gaussian, layout, some, len(problem.rows) if planned is None else planned)
    return (local * Dirac(on="action") if layout.discrete else local) + Constant(1.0)


def check_radius(radius: object) -> None:
    """A number, or "paper"; what a ball needs of the number it says itself."""
    if isinstance(radius, str) and radius != PAPER:
        raise InvalidInput(
            f"`radius` of Q is {radius!r}; a number is needed, or {PAPER!r} for the radius rule of the paper."
        )


def stated_ball(kernel: Kernel, radius: float, where: tuple[tuple[int, int], str] | None = None) -> Ball:
    """Q around 0 with a radius that the user states; `where`: the rows that the scales of the kernel come from."""
    note = "radius as you state it, for this kernel; its bandwidth is in medians of distances in the log"
    return Ball(kernel, radius, provenance=Provenance(note) if where is None else Provenance(note, *where))


def paper_ball(rows: Rows, kernel: Kernel, instruments: Instruments, limits: ValueRange) -> tuple[Ball, str]:
    """Q by the rule of the paper, r_Q = 10 |q̂|: q̂ is the fit of least Bellman loss on held-out rows (`tuning.radius`).

    Around the middle of the value range, 0 where the range depends on time. The rule is stated by whoever names it.
    """
    center, half = _center(rows, limits)
    fitted = held_out_radius(rows, kernel, instruments.kernel, factor=RADIUS_FACTOR, half_range=half, center=center)
    where = (rows.rows.start, rows.rows.stop), rows.log_hash
    rule = Provenance("stated by you: the radius rule of the paper, 10 times the norm of the q that was fitted", *where)
    shared = sharing(rows.layout.slots, CAP)
    note = _radius_note(fitted, rows, half) + (f"; in the fit {shared}" if shared else "")
    return Ball(kernel, fitted.radius, center, provenance=rule), note


def _center(rows: Rows, limits: ValueRange) -> tuple[Function | None, float]:
    """(center, half-width): the middle of the value range; 0 when the range depends on time, as q* is small at the end."""
    if rows.terms.horizon is not None:
        return None, max(abs(limits.low), abs(limits.high))
    middle = 0.5 * limits.low + 0.5 * limits.high
    return constant_function(middle, rows.layout), max(limits.high - middle, middle - limits.low)


def _radius_note(fitted: FittedRadius, rows: Rows, half: float) -> str:
    where = f"rows {rows.rows.start}..{rows.rows.stop - 1}"
    norms = f"{RADIUS_FACTOR:g} times the norm"
    why = f"{norms} {fitted.fitted_norm:.6g} of the q fitted on the first half of {where}, less its level"
    if fitted.weak:
        why = f"{RADIUS_FACTOR:g} half-ranges, as {where} say too little about the value function ({fitted.weak})"
    return (
        f"radius {fitted.radius:.6g} by the rule of the paper: every constant value (half-range {half:.6g}), and {why}"
    )


def provenance(pilot: Rows | None, what: str, how: str = "tuned") -> Provenance:
    """Where a choice came from, in words and rows."""
    if pilot is None:
        return Provenance(f"{what} fixed beforehand")
    return Provenance(f"{what} {how}", (pilot.rows.start, pilot.rows.stop), pilot.log_hash)


@dataclass(frozen=True, eq=False)
class ChosenClass:
    """Q, and how it came about."""

    ball: Ball
    notes: dict[str, str]
    length: float = math.nan  # of the interval, as far as the pilot can tell


def choose_class(ball: Ball | None, radius: Radius | None, choices: Choices, pilot: Rows, planned: int) -> ChosenClass:
    """Q as stated; InvalidInput where nothing was.

    The scales of a kernel, and the fit behind the rule of the paper, are the pilot's: certified rows are not looked at.
    """
    check_radius(radius)
    if ball is not None:
        return ChosenClass(ball, {"Q": f"{ball.name()} ({ball.provenance})"})
    kind = kind_of_states(radius, choices, pilot)
    notes, limits = {"states": kind.said}, range_at_all_times(pilot.terms)
    if kind.table and radius is None:
        raise InvalidInput(
            f"{kind.text}. Use method=Table() (--method table): no class of values has to be stated for it."
        )
    if radius is None:
        refuse_unstated(pilot.layout)
    kernel = default_value_kernel(pilot, choices, kind.columns, planned)
    if radius == PAPER:
        stated, note = paper_ball(pilot, kernel, default_instruments(pilot, pilot, choices, kind.columns), limits)
        notes["Q"] = f"{kernel!r}, {note}"
        return ChosenClass(stated, notes)
    notes["Q"] = f"{kernel!r}, radius {radius:g} as given"
    return ChosenClass(stated_ball(kernel, radius, ((pilot.rows.start, pilot.rows.stop), pilot.log_hash)), notes)


def kind_of_states(radius: Radius | None, choices: Choices, pilot: Rows) -> StateKind:
    """Names or numbers, from the pilot alone; a radius speaks of numbers unless something else is stated."""
    stated = check_categorical(choices.categorical, pilot.layout.observation_dim)
    kind = state_kind(seen_states(pilot), pilot.layout, stated)
    if radius is not None and kind.table and choices.categorical is None:
        return StateKind(False, (), "states are numbers, related by their distance: Q is as you gave it")
    return kind
