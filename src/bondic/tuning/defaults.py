"""W for a user who names none, and Q for one who states a radius: its kernel, and the radius rule of the paper."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from bondic.core.balls import Ball, Instruments, Provenance, ValueClass, constant_function
from bondic.core.errors import InvalidInput
from bondic.core.functions import Function
from bondic.core.kernels.base import Kernel
from bondic.core.kernels.features import RandomFeatures
from bondic.core.kernels.leaves import Constant, Dirac, Gaussian
from bondic.core.kernels.normal_form import Layout, normal_form
from bondic.core.terms import ValueRange, range_at_all_times
from bondic.engines.sums import STANDARD
from bondic.rows import Rows
from bondic.search.actions import sharing
from bondic.tuning.radius import CAP, FittedRadius, held_out_radius
from bondic.tuning.scales import Scales, measure_scales, observed_states, pilot_points
from bondic.tuning.states import Categorical, StateKind, check_categorical, refuse_unstated, state_kind

FloatArray = npt.NDArray[np.float64]

MIN_ROWS = 20_000
"""Below, every sum over pairs is a matter of seconds or minutes."""
_SUMS = 3
"""Sums over all rows behind an interval: the initial distribution, and both ends."""


def expected_points(points: FloatArray, rows: int) -> int:
    """How many different points a log of so many rows has; `points` are logged, next and initial ones of some of them.

    Every row brings two, as a rule one of them again: its next state is the state of the following row, or its state an
    initial one.
    """
    return int(2 * rows * np.unique(points, axis=0).shape[0] / max(len(points), 1))


def seconds_of_sums(kernel: Kernel, layout: Layout, points: FloatArray, rows: int) -> float:
    """About how long one core needs for the sums behind an interval with a Q of this kernel."""
    return _SUMS * STANDARD.seconds(normal_form(kernel, layout), expected_points(points, rows), points)


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
    seed : int, default 0
        Draws the frequencies of W. It must not depend on the log.
    weight_bandwidth : float, default None
        Bandwidth of k, in units of the median distance.
    value_bandwidth : float, default 1
        Bandwidth of k̃ where Q is stated by its radius, in units of the median distance: larger assumes smoother values.
    categorical : bool or tuple of int, default None
        Which observation columns hold names, not numbers: all, none, or those listed; None: look at the states.
    """

    seed: int = 0
    weight_bandwidth: float | None = None
    value_bandwidth: float = 1.0
    categorical: Categorical = None

    def __post_init__(self) -> None:
        """Refused whatever the states turn out to be: a table has no bandwidth and no radius that would complain."""
        for name in ("weight_bandwidth", "value_bandwidth"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InvalidInput(f"{name}={value:g}: a bandwidth is a finite number > 0, in medians of distances.")


@dataclass(frozen=True)
class Advanced:
    """Options of the search, for experts: any value is valid, and the defaults were measured.

    Parameters
    ----------
    rank : int, default None
        Most coordinates of a kernel, 600 (`Dual`), or landmarks, 200 (`Sequential`): more follow rougher functions, and take
        longer.
    pairs : int, default 128
        cos/sin pairs of W for each action; fewer where there are many actions.
    constant_share : float, default None
        How much of the kernel of W is constant, in [0, 1). None: picked on the pilot.
    candidates : tuple of Function, default ()
        More ω to try (`Dual`), found elsewhere (conic, neural, ...).
    """

    rank: int | None = None
    pairs: int = 128
    constant_share: float | None = None
    candidates: tuple[Function, ...] = ()

    def __post_init__(self) -> None:
        if self.constant_share is not None and not 0 <= self.constant_share < 1:
            raise InvalidInput(f"constant_share={self.constant_share:g}: a share in [0, 1).")


def feature_pairs(layout: Layout, pairs: int, most: int = _FEATURES) -> int:
    """cos/sin pairs for each action, such that all actions together have at most about `most` coordinates."""
    return max(4, min(pairs, most // (2 * layout.slots)))


def instruments_kernel(layout: Layout, scales: Scales, pairs: int, seed: int, width: float, share: float) -> Kernel:
    """share * constant + (1 - share) * random Fourier features of a Gaussian on the state, times Dirac on actions.

    The constant part holds the mean weight 1 / (1 - gamma) cheaply. K_max = 1.
    """
    features = RandomFeatures.gaussian(
        feature_pairs(layout, pairs),
        layout.dimension,
        scales.bandwidth(width),
        seed=seed,
        center=scales.center,
        on="state" if layout.discrete else "point",
    )
    local: Kernel = features * Dirac(on="action") if layout.discrete else features
    return share * Constant(1.0) + (1.0 - share) * local


def default_instruments(
    problem: Rows, pilot: Rows | None, choices: Choices, names: tuple[int, ...] = (), advanced: Advanced | None = None
) -> Instruments:
    """W with the middle values of what may be picked."""
    more = Advanced() if advanced is None else advanced
    width = 1.0 if choices.weight_bandwidth is None else choices.weight_bandwidth
    share = 0.5 if more.constant_share is None else more.constant_share
    scales = measure_scales(None if pilot is None else pilot_points(pilot), problem.layout.dimension, names)
    kernel = instruments_kernel(problem.layout, scales, more.pairs, choices.seed, width, share)
    return Instruments(kernel, provenance(pilot, "scales and bandwidth"))


def default_value_kernel(problem: Rows, choices: Choices, names: tuple[int, ...] = ()) -> Kernel:
    """k̃: Gaussian on the state times Dirac on discrete actions, plus a constant; scales of all rows, as Q may see them."""
    some, layout = problem.some_points(_SCALE_ROWS), problem.layout
    scales = measure_scales(some, layout.dimension, names)
    bandwidth = scales.bandwidth(choices.value_bandwidth)
    gaussian = Gaussian(bandwidth, on="state" if layout.discrete else "point")
    return (gaussian * Dirac(on="action") if layout.discrete else gaussian) + Constant(1.0)


def check_radius(radius: object, ball: ValueClass | None = None) -> None:
    """A number, or "paper", and no ball beside it; what a ball needs of the number it says itself."""
    if ball is not None and radius is not None:
        raise InvalidInput(
            f"Both ball= (radius {ball.radius:g}) and radius={radius} are given. A ball has its radius: pass "
            "ball=ball.with_radius(...), or radius= alone."
        )
    if isinstance(radius, str) and radius != PAPER:
        raise InvalidInput(
            f"`radius` of Q is {radius!r}; a number is needed, or {PAPER!r} for the radius rule of the paper."
        )


def ball_of_radius(
    radius: Radius,
    rows: Rows,
    fitted: Rows,
    instruments: Callable[[], Instruments],
    kernel: Kernel,
    where: tuple[tuple[int, int], str] | None = None,
) -> tuple[Ball, str]:
    """Q around 0 with a radius that the user states, or that of the paper's rule on the rows `fitted`; and a note on it.

    `where`: the rows that the scales of the kernel come from, if not all of them.
    """
    if radius == PAPER:
        ball, note = paper_ball(fitted, kernel, instruments(), range_at_all_times(rows.terms))
        return ball, f"{kernel!r}, {note}"
    note = "radius as you state it, for this kernel; its bandwidth is in medians of distances in the log"
    source = Provenance(note) if where is None else Provenance(note, *where)
    return Ball(kernel, radius, provenance=source), f"{kernel!r}, radius {radius:g} as given"


def paper_ball(rows: Rows, kernel: Kernel, instruments: Instruments, limits: ValueRange) -> tuple[Ball, str]:
    """Q by the rule of the paper, r_Q = 10 |q̂|: q̂ is the fit of least Bellman loss on held-out rows (`tuning.radius`).

    Around the middle of the value range, 0 where the range depends on time. Naming the rule states the radius.
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
    where = f"rows {rows.rows.start} to {rows.rows.stop - 1}"
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


def choose_class(
    ball: Ball | None, radius: Radius | None, choices: Choices, pilot: Rows, advanced: Advanced
) -> ChosenClass:
    """Q as stated; InvalidInput where nothing was.

    The scales of a kernel, and the fit behind the rule of the paper, are the pilot's: certified rows are not looked at.
    """
    check_radius(radius)
    if ball is not None:
        return ChosenClass(ball, {"Q": f"{ball.name()} ({ball.provenance})"})
    kind = kind_of_states(radius, choices, pilot)
    if kind.table and radius is None:
        raise InvalidInput(
            f"{kind.text}. Use method=Table() (--method table): no class of values has to be stated for it."
        )
    if radius is None:
        refuse_unstated(pilot.layout)
    where = (pilot.rows.start, pilot.rows.stop), pilot.log_hash
    kernel = default_value_kernel(pilot, choices, kind.columns)
    plain = partial(default_instruments, pilot, pilot, choices, kind.columns, advanced)
    stated, note = ball_of_radius(radius, pilot, pilot, plain, kernel, where)
    return ChosenClass(stated, {"states": kind.description, "Q": note})


def kind_of_states(stated: object, choices: Choices, rows: Rows) -> StateKind:
    """Names or numbers, from these rows alone; a stated class speaks of numbers unless something else is stated."""
    categorical = check_categorical(choices.categorical, rows.layout.observation_dim)
    kind = state_kind(observed_states(rows), rows.layout, categorical)
    if stated is not None and kind.table and choices.categorical is None:
        return StateKind(False, (), "states are numbers, related by their distance: Q is as you gave it")
    return kind
