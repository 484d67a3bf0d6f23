"""Q for the sequential interval, from the pilot alone: nothing that is certified may have been looked at."""

from __future__ import annotations

from dataclasses import dataclass

from bondic.classes.ball import Ball
from bondic.classes.box import Box
from bondic.classes.provenance import Provenance
from bondic.classes.span import Span
from bondic.errors import InvalidInput
from bondic.rows import Rows
from bondic.search.sequential.plan import Simulated
from bondic.terms import range_at_all_times
from bondic.tuning.defaults import Choices, default_ball, default_instruments, default_value_kernel
from bondic.tuning.scales import pilot_points
from bondic.tuning.states import StateKind, check_categorical, state_kind


@dataclass(frozen=True, eq=False)
class ChosenClass:
    """Q, and how it came about."""

    ball: Ball | Box | Span
    notes: dict[str, str]
    simulated: Simulated | None = None  # for models of what follows


def choose_class(
    ball: Ball | Box | Span | None,
    radius: float | None,
    choices: Choices,
    pilot: Rows,
) -> ChosenClass:
    """Q as given; else the box where states are names, which assumes nothing; else a ball made from the pilot."""
    if ball is not None:
        return ChosenClass(ball, {"Q": f"{ball.name()} ({ball.provenance})"})
    kind = kind_of_states(radius, choices, pilot)
    notes = {"states": kind.text + (f"; {kind.question}" if kind.question else "")}
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
    kernel = default_value_kernel(pilot, choices, kind.columns)
    if radius is not None:
        origin = Provenance("radius as given, scales and bandwidth chosen by bondic", *_where(pilot))
        notes["Q"] = f"{kernel!r}, radius {radius:g} as given"
        return ChosenClass(Ball(kernel, radius, provenance=origin, origin="chosen"), notes)
    plain = default_instruments(pilot, pilot, choices, kind.columns)
    chosen, note = default_ball(pilot, pilot, kernel, plain, choices, limits)
    notes["Q"] = f"{kernel!r}, {note}"
    return ChosenClass(chosen, notes)


def _where(pilot: Rows) -> tuple[tuple[int, int], str]:
    return (pilot.rows.start, pilot.rows.stop), pilot.log_hash


def kind_of_states(radius: float | None, choices: Choices, pilot: Rows) -> StateKind:
    """Names or numbers, from the pilot alone; a radius speaks of numbers unless something else is stated."""
    stated = check_categorical(choices.categorical, pilot.layout.observation_dim)
    kind = state_kind(pilot_points(pilot), pilot.layout, stated)
    if radius is not None and kind.table and choices.categorical is None:
        return StateKind(False, (), "states are numbers, related by their distance: Q is as you gave it")
    return kind
