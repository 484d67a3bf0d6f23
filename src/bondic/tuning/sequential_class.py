"""Q for the sequential interval, from the pilot alone: nothing that is certified may have been looked at."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bondic.classes.ball import Ball
from bondic.classes.box import Box
from bondic.classes.instruments import Instruments
from bondic.classes.provenance import Provenance
from bondic.classes.span import Span
from bondic.errors import InvalidInput
from bondic.rendering import three
from bondic.rows import Rows
from bondic.search.sequential.plan import Simulated
from bondic.terms import range_at_all_times
from bondic.tuning.around_centers import ClassCandidate, Foresight, balls_around_center, centers_apply
from bondic.tuning.centers import fit_centers
from bondic.tuning.defaults import Choices, default_ball, default_center, default_instruments, default_value_kernel
from bondic.tuning.look_ahead import Report
from bondic.tuning.scales import seen_states
from bondic.tuning.states import StateKind, check_categorical, state_kind

SHORT = 0.1
"""A ball whose interval is foreseen to be shorter than this share of the value range is kept without looking further."""
NEAR, FAR = 1.25, 2.0
"""Predicted lengths within the first factor are alike: the class that assumes least is taken. A fitted center assumes
more than the middle of the range, and short pilots flatter it: it must promise to be shorter by the second factor."""


@dataclass(frozen=True, eq=False)
class ChosenClass:
    """Q, and how it came about."""

    ball: Ball | Box | Span
    notes: dict[str, str]
    simulated: Simulated | None = None  # for models of what follows
    length: float = math.nan  # of the interval, as far as the pilot can tell
    table: bool = False  # whether the plan has no coordinates


def choose_class(
    ball: Ball | Box | Span | None,
    radius: float | None,
    choices: Choices,
    pilot: Rows,
    foresight: Foresight,
    report: Report | None = None,
    *,
    fit: bool = True,
) -> ChosenClass:
    """Q as given; else the box where states are names, which assumes nothing; else a class made from the pilot."""
    if ball is not None:
        return ChosenClass(ball, {"Q": f"{ball.name()} ({ball.provenance})"})
    kind = kind_of_states(radius, choices, pilot)
    notes = {"states": kind.said}
    limits = range_at_all_times(pilot.terms)
    if kind.table and radius is None:
        if not pilot.layout.discrete:
            raise InvalidInput(
                "States are names and actions are numbers: the sequential interval has no class for that. Pass ball=, say that "
                "states are numbers (categorical=False, --numeric), or use method=Dual()."
            )
        box = Box.around(limits.low, limits.high, pilot.layout)
        notes["Q"] = f"every function with values in the value range: half-width {box.radius:.6g}, nothing is assumed"
        return ChosenClass(box, notes)
    kernel = default_value_kernel(pilot, choices, kind.columns, foresight.planned)
    if radius is not None:
        origin = Provenance("radius as given, scales and bandwidth chosen by bondic", *_where(pilot))
        notes["Q"] = f"{kernel!r}, radius {radius:g} as given"
        return ChosenClass(Ball(kernel, radius, provenance=origin, origin="chosen"), notes)
    plain = default_instruments(pilot, pilot, choices, kind.columns)
    chosen, note = default_ball(pilot, pilot, kernel, plain, choices, limits)
    smooth = ClassCandidate("smooth values", chosen, f"{kernel!r}, {note}", foresight.length(pilot, chosen, None))
    if not fit:
        return ChosenClass(smooth.ball, {**notes, "Q": smooth.note}, length=smooth.length)
    return _shortest(smooth, choices, pilot, kind.columns, plain, foresight, notes, report)


def _shortest(
    smooth: ClassCandidate,
    choices: Choices,
    pilot: Rows,
    names: tuple[int, ...],
    instruments: Instruments,
    foresight: Foresight,
    notes: dict[str, str],
    report: Report | None,
) -> ChosenClass:
    """The class that assumes least among those of about the shortest predicted length; centers are fitted where that may help."""
    width = range_at_all_times(pilot.terms).width
    if smooth.length <= SHORT * width or not centers_apply(pilot):
        return ChosenClass(smooth.ball, {**notes, "Q": smooth.note}, length=smooth.length)
    centers = fit_centers(pilot, choices.seed, report)
    simulated = None if centers.simulator is None else Simulated(centers.simulator.steps, centers.simulator.tree)
    factor = 0.1 * choices.radius_factor
    others = balls_around_center(pilot, centers, names, foresight, simulated, instruments, factor)
    best = min((one.length for one in others), default=math.inf)
    pick = smooth if smooth.length <= FAR * best else next(one for one in others if one.length <= NEAR * best)
    notes["Q"] = pick.note
    notes["candidates"] = "predicted lengths: " + ", ".join(
        f"{one.name} {three(one.length)}" for one in (smooth, *others)
    )
    notes["centers"] = centers.text()
    return ChosenClass(pick.ball, notes, simulated=simulated, length=pick.length)


def least_length(choices: Choices, pilot: Rows, foresight: Foresight) -> float:
    """What is predicted for the smallest ball around the middle of the range, that of radius B/2; 0 where others may be shorter.

    Its radius needs no fit, and every larger one has a longer interval: where it promises nothing, no ball is looked for.
    """
    kind = kind_of_states(None, choices, pilot)
    if kind.table or centers_apply(pilot):
        return 0.0
    center, half = default_center(pilot, range_at_all_times(pilot.terms))
    ball = Ball(default_value_kernel(pilot, choices, kind.columns, foresight.planned), half, center)
    return foresight.length(pilot, ball, None)


def _where(pilot: Rows) -> tuple[tuple[int, int], str]:
    return (pilot.rows.start, pilot.rows.stop), pilot.log_hash


def kind_of_states(radius: float | None, choices: Choices, pilot: Rows) -> StateKind:
    """Names or numbers, from the pilot alone; a radius speaks of numbers unless something else is stated."""
    stated = check_categorical(choices.categorical, pilot.layout.observation_dim)
    kind = state_kind(seen_states(pilot), pilot.layout, stated)
    if radius is not None and kind.table and choices.categorical is None:
        return StateKind(False, (), "states are numbers, related by their distance: Q is as you gave it")
    return kind
