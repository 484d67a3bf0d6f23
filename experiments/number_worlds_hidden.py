"""Cliffs that nobody sees: groups and model are stated by the user, and a threshold lies inside one of the groups.

No tree cuts there and no model bends there. Starts lie just beyond the threshold, so all of the true allowance is needed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from experiments.defaults_cells import FloatArray
from experiments.number_worlds_base import Boxes, NumberWorld, always, column, discrete_world
from experiments.number_worlds_jumps import place

ROWS = 20_000
"""Enough for β_min to see halves, and for averages over blocks to be those of the world."""
BANDS = np.array([1.0 / 3.0, 2.0 / 3.0])


def bands(states: FloatArray) -> Any:
    """Low, middle, high: the threshold at .5 is in the middle of the middle one."""
    return np.digitize(states[:, 0], BANDS)


def constant(value: float) -> Any:
    return lambda states, _: np.full(len(states), value)


def hidden_threshold(gamma: float) -> NumberWorld:
    """A chance of .2 below .5 and .8 from there on; action 1 leads to the upper half, mostly. Starts lie closely above."""
    edges = [0.0, 0.5, 1.0]
    upper = place(edges)

    def moves(s: FloatArray, a: Any) -> FloatArray:
        right = 0.35 + 0.1 * upper(s[:, 0]) + 0.2 * a
        return np.column_stack([1 - right, right])

    world = discrete_world(
        f"stated bands hide a threshold, γ {gamma:g}",
        Boxes.grid(edges),
        lambda s, a: 0.2 + 0.6 * upper(s[:, 0]) + 0.05 * a,
        always(0.3, 0.7),
        column(np.linspace(0.501, 0.55, 30)),
        gamma=gamma,
        moves=moves if gamma else None,
    )
    return replace(world, rows=ROWS, statements={"groups": bands, "model": constant(0.5 / (1 - gamma))})


def hidden_needle(gamma: float) -> NumberWorld:
    """A tenth of the middle band pays .95, the rest .3; every start is in there."""
    edges = [0.0, 0.48, 0.52, 1.0]
    boxes, part = Boxes.grid(edges), place(edges)

    def moves(s: FloatArray, a: Any) -> FloatArray:
        stay = np.where(part(s[:, 0]) == 1, 0.5 - 0.1 * a, 0.0)[:, None]
        return np.asarray(stay * np.eye(3)[1] + (1 - stay) * boxes.volumes())

    world = discrete_world(
        f"stated bands hide a needle, γ {gamma:g}",
        boxes,
        lambda s, a: np.where(part(s[:, 0]) == 1, 0.95, 0.3) - 0.05 * a,
        always(0.9, 0.1),
        column(np.linspace(0.482, 0.518, 19)),
        gamma=gamma,
        moves=moves if gamma else None,
    )
    return replace(world, rows=ROWS, statements={"groups": bands, "model": constant(0.3 / (1 - gamma))})


def hidden_side() -> NumberWorld:
    """Two columns: groups are bands of the first, and the second one, which nobody looks at, decides."""

    def chance(s: FloatArray, a: Any) -> FloatArray:
        return 0.25 + 0.5 * (s[:, 1] >= 0.5) + 0.1 * a * s[:, 0]

    world = discrete_world(
        "stated bands of another column, γ 0",
        Boxes.grid([0.0, 1.0], [0.0, 0.5, 1.0]),
        chance,
        always(0.5, 0.5),
        np.column_stack([np.linspace(0.02, 0.98, 25), np.linspace(0.55, 0.95, 25)]),
    )
    return replace(world, rows=ROWS, statements={"groups": bands, "model": lambda s, a: 0.5 + 0.1 * a * s[:, 0]})


def hidden_worlds() -> list[NumberWorld]:
    found = [hidden_threshold(gamma) for gamma in (0.0, 0.5)]
    return [*found, *(hidden_needle(gamma) for gamma in (0.0, 0.5)), hidden_side()]
