"""Draws of a continuous policy: a key for the initial states, one for every block of the log.

What is drawn depends on the seed and the number of the block, never on how the log is read, which rows are selected or who
does the work.
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

    def at_block(self, number: int) -> np.random.Generator:
        # a spawn key, not a third number: a seed (salt, seed, 0) is the seed (salt, seed) of the initial states
        return np.random.default_rng(np.random.SeedSequence([_SALT, self.seed], spawn_key=(number,)))
