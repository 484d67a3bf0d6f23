"""All worlds of numbers with known q* and J*: `number_worlds` to break intervals with, `length_worlds` to measure lengths.

Run as a script it lists them with J* and the range of v* over the starts.
"""

from __future__ import annotations

from dataclasses import replace

from experiments.number_worlds_actions import action_worlds
from experiments.number_worlds_bandits import bandit_worlds
from experiments.number_worlds_base import NumberWorld
from experiments.number_worlds_chains import chain, chain_worlds, smooth
from experiments.number_worlds_columns import column_worlds, marketing
from experiments.number_worlds_hidden import hidden_worlds
from experiments.number_worlds_jumps import jump_worlds
from experiments.number_worlds_physics import physics_worlds

LENGTH_ROWS, BODY_ROWS = 10_000, 20_000
"""Rows of the logs on which lengths are compared; the latter for pendulum and carts."""


def number_worlds() -> list[NumberWorld]:
    """Exact up to rounding: finite linear systems, Gaussian integrals."""
    return [*jump_worlds(), *action_worlds(), *column_worlds(), *chain_worlds(), *hidden_worlds()]


def length_worlds() -> list[NumberWorld]:
    """Worlds on which lengths are compared; Open Bandit only where its data are installed."""
    found = [smooth(0.5), smooth(0.9), chain(), *physics_worlds(), *bandit_worlds(), marketing(0.0), marketing(0.5)]
    bodies = ("pendulum", "cart-pole", "CartPole")
    return [replace(one, rows=BODY_ROWS if one.name.startswith(bodies) else LENGTH_ROWS) for one in found]


if __name__ == "__main__":
    for world in [*number_worlds(), *length_worlds()]:
        values = world.v_star(world.initial.observations)
        print(f"{world.name:45s} J* {world.truth:9.5f}   v* {values.min():8.4f} to {values.max():8.4f}")
