"""Draws of a continuous policy, keyed by row: row i of the log has place i mod 256 in group floor(i / 256) of its seed.

What is drawn for a row depends on the seed and on its number, never on how the log is read, which rows are selected, who does
the work, or how far the log goes on: a log that grows keeps the draws of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_SALT = 0x626F6E64
"""Keeps the action draws apart from whatever simulated the log with the same small seed."""


@dataclass(frozen=True)
class Draws:
    """Generators by key, from a seed that must not depend on the log."""

    seed: int

    def at_start(self) -> np.random.Generator:
        return np.random.default_rng([_SALT, self.seed])

    def at_group(self, number: int) -> np.random.Generator:
        # a spawn key, not a third number: a seed (salt, seed, 0) is the seed (salt, seed) of the initial states
        return np.random.default_rng(np.random.SeedSequence([_SALT, self.seed], spawn_key=(number,)))
