"""Values that jump: thresholds, hours, stripes, checkerboards, parities, needles. Two actions, chances constant on boxes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from experiments.defaults_cells import FloatArray
from experiments.number_worlds_base import Boxes, NumberWorld, Values, always, column, discrete_world

HOUR, HOURS = 17, 24
NEEDLE = (0.60, 0.62)
STRIPES, SQUARES = 20, 6


def place(edges: Any) -> Callable[[FloatArray], Any]:
    """Number of the interval between edges that holds x."""
    inner = np.asarray(edges)[1:-1]
    return lambda x: np.searchsorted(inner, x, side="right")


def sticky(where: Callable[[FloatArray], Any], volumes: FloatArray, stay: float) -> Values:
    """The same box again with probability `stay`, else a uniform draw from the whole space; action 1 stays half as often."""

    def moves(s: FloatArray, a: Any) -> FloatArray:
        again = np.where(a == 1, stay / 2, stay)[:, None]
        return np.asarray(again * np.eye(len(volumes))[where(s)] + (1 - again) * volumes)

    return moves


def state_threshold(gamma: float) -> NumberWorld:
    """The chance jumps from .2 to .8 at s = .5; the starts lie closely above. Action 1 leads to the upper half, mostly."""
    boxes, upper = Boxes.grid([0.0, 0.5, 1.0]), place([0.0, 0.5, 1.0])

    def chance(s: FloatArray, a: Any) -> FloatArray:
        return 0.2 + 0.6 * upper(s[:, 0]) + 0.05 * a

    def moves(s: FloatArray, a: Any) -> FloatArray:
        right = 0.2 + 0.4 * upper(s[:, 0]) + 0.3 * a
        return np.column_stack([1 - right, right])

    return discrete_world(
        f"threshold in the state, γ {gamma:g}",
        boxes,
        chance,
        always(0.3, 0.7),
        column(np.linspace(0.501, 0.55, 30)),
        gamma=gamma,
        moves=moves if gamma else None,
    )


def action_threshold(gamma: float) -> NumberWorld:
    """The right action is 1 from s = .5 on, and the policy knows; a wrong action earns .1 and leads to the lower half."""
    edges = [0.0, 0.5, 1.0]
    boxes, upper = Boxes.grid(edges), place(edges)

    def chance(s: FloatArray, a: Any) -> FloatArray:
        return np.where(a == upper(s[:, 0]), 0.85, 0.1)

    def moves(s: FloatArray, a: Any) -> FloatArray:
        right = np.where(a == upper(s[:, 0]), 0.5, 0.1)
        return np.column_stack([1 - right, right])

    return discrete_world(
        f"threshold of the action, γ {gamma:g}",
        boxes,
        chance,
        lambda s: np.eye(2)[upper(s[:, 0])],
        column(np.linspace(0.44, 0.56, 30)),
        gamma=gamma,
        moves=moves if gamma else None,
    )


def hours(gamma: float) -> NumberWorld:
    """Time of day in [0, 24): one hour pays .9, the others .25. The next state lies in the next hour.

    Starts: in that hour, or (γ > 0) two hours before.
    """
    edges = np.arange(HOURS + 1.0)
    hour = place(edges)

    def chance(s: FloatArray, a: Any) -> FloatArray:
        return np.where(hour(s[:, 0]) == HOUR, 0.9, 0.25) - 0.1 * a

    def moves(s: FloatArray, a: Any) -> FloatArray:
        del a
        return np.eye(HOURS)[(hour(s[:, 0]) + 1) % HOURS]

    return discrete_world(
        f"hours of a day, γ {gamma:g}",
        Boxes.grid(edges),
        chance,
        always(0.9, 0.1),
        column(np.linspace(HOUR + 0.05, HOUR + 0.95, 20) - (2.0 if gamma else 0.0)),
        gamma=gamma,
        moves=moves if gamma else None,
    )


def stripes(gamma: float) -> NumberWorld:
    """Twenty stripes that pay .2 and .8 in turn; every start lies in a stripe that pays .8."""
    edges = np.linspace(0.0, 1.0, STRIPES + 1)
    boxes, stripe = Boxes.grid(edges), place(edges)
    middles = (edges[1::2] + edges[2::2]) / 2
    return discrete_world(
        f"stripes, γ {gamma:g}",
        boxes,
        lambda s, a: 0.2 + 0.6 * (stripe(s[:, 0]) % 2) + 0.05 * a,
        always(0.8, 0.2),
        column(middles - 0.01, middles + 0.01),
        gamma=gamma,
        moves=sticky(lambda s: stripe(s[:, 0]), boxes.volumes(), 0.8) if gamma else None,
    )


def checkerboard(gamma: float) -> NumberWorld:
    """Six by six squares that pay .15 and .85 in turn; every start lies in one color."""
    edges = np.linspace(0.0, 1.0, SQUARES + 1)
    boxes, side = Boxes.grid(edges, edges), place(edges)

    def number(s: FloatArray) -> Any:
        return SQUARES * side(s[:, 0]) + side(s[:, 1])

    def light(s: FloatArray) -> Any:
        return (side(s[:, 0]) + side(s[:, 1])) % 2

    middles = (boxes.low + boxes.high) / 2
    return discrete_world(
        f"checkerboard, γ {gamma:g}",
        boxes,
        lambda s, a: 0.15 + 0.7 * light(s) - 0.1 * a * light(s),
        always(0.8, 0.2),
        middles[light(middles) == 1],
        gamma=gamma,
        moves=sticky(number, boxes.volumes(), 0.8) if gamma else None,
        order=1,
    )


def parity(bits: int, gamma: float) -> NumberWorld:
    """`bits` numbers in [0, 1], each a bit by its threshold .5: an odd sum pays .85, an even one .15; starts are odd."""
    boxes = Boxes.grid(*[[0.0, 0.5, 1.0]] * bits)

    def coded(s: FloatArray) -> Any:
        return (s >= 0.5).astype(np.int64)

    def odd(s: FloatArray) -> Any:
        return coded(s).sum(axis=1) % 2

    middles = (boxes.low + boxes.high) / 2
    return discrete_world(
        f"parity of {bits} bits, γ {gamma:g}",
        boxes,
        lambda s, a: 0.15 + 0.7 * odd(s) - 0.05 * a,
        always(0.8, 0.2),
        middles[odd(middles) == 1],
        gamma=gamma,
        moves=sticky(lambda s: coded(s) @ 2 ** np.arange(bits)[::-1], boxes.volumes(), 0.7) if gamma else None,
        order=1,
    )


def needle(inside: bool, gamma: float) -> NumberWorld:
    """2 % of the line pay .95, the rest .3; whoever is in there stays, mostly. Starts: all inside, or all far away."""
    edges = [0.0, *NEEDLE, 1.0]
    boxes, part = Boxes.grid(edges), place(edges)

    def moves(s: FloatArray, a: Any) -> FloatArray:
        stay = np.where(part(s[:, 0]) == 1, 0.95 - 0.1 * a, 0.0)[:, None]
        return np.asarray(stay * np.eye(3)[1] + (1 - stay) * boxes.volumes())

    return discrete_world(
        f"needle {'inside' if inside else 'outside'} the starts, γ {gamma:g}",
        boxes,
        lambda s, a: np.where(part(s[:, 0]) == 1, 0.95, 0.3) - 0.05 * a,
        always(0.9, 0.1),
        column(np.linspace(0.602, 0.618, 9) if inside else np.linspace(0.05, 0.35, 20)),
        gamma=gamma,
        moves=moves if gamma else None,
    )


def jump_worlds() -> list[NumberWorld]:
    return [
        *(state_threshold(gamma) for gamma in (0.0, 0.5, 0.9)),
        *(action_threshold(gamma) for gamma in (0.0, 0.5, 0.9)),
        *(kind(gamma) for kind in (hours, stripes) for gamma in (0.0, 0.9)),
        *(checkerboard(gamma) for gamma in (0.0, 0.5)),
        parity(3, 0.0),
        parity(4, 0.5),
        needle(True, 0.0),
        needle(True, 0.9),
        needle(False, 0.9),
    ]
