"""Q for the sequential interval: what the user states. Nothing is chosen."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bondic.core.balls import Ball
from bondic.core.errors import InvalidInput
from bondic.core.terms import range_at_all_times
from bondic.rows import Rows
from bondic.tuning.defaults import (
    PAPER,
    Choices,
    Radius,
    check_radius,
    default_instruments,
    default_value_kernel,
    paper_ball,
    stated_ball,
)
from bondic.tuning.scales import seen_states
from bondic.tuning.states import StateKind, check_categorical, refuse_unstated, state_kind


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
