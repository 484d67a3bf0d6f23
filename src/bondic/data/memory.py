"""Amounts of memory: what a user allows, and how many rows may be worked on at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from bondic.core.errors import InvalidInput

MIN_BATCH = 2048
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def parse_memory(memory: int | float | str) -> int:
    """2_000_000_000, "2GB", "512 MiB" -> bytes."""
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([kmg]i?)?b?\s*", memory.lower())
        if match is None:
            raise InvalidInput(f"memory={memory!r} is not an amount of memory. Write 2GB, 512MB or a number of bytes.")
        return int(float(match[1]) * _UNITS[match[2] or ""])
    if not 0 < memory < float("inf"):
        raise InvalidInput(f"memory={memory}: a positive number of bytes is needed.")
    return int(memory)


@dataclass(frozen=True)
class MemoryPlan:
    """How many rows may be worked on at a time so that the whole estimate stays within a budget.

    `fixed` covers the interpreter with its libraries, the matrices of the search and the moments of the kernel sums;
    `per_row` the columns of a batch, their points and weights, and the copies made on the way. Both were measured
    (benchmarks/large.py) and rounded up; what a policy's own code allocates comes on top.
    """

    budget: int
    fixed: int
    per_row: int

    @staticmethod
    def of(budget: int, numbers_per_row: int) -> MemoryPlan:
        """For two actions, or one action per next state: more is known when the policy is."""
        return MemoryPlan(budget, 700_000_000, 8 * (40 + 14 * numbers_per_row))

    def with_policy(self, *, slots: int, draws: int, dimension: int) -> MemoryPlan:
        """Every action has a weight at every point, in several copies for each of several ω; every draw is a point."""
        weights = 40 * max(0, slots - 2)
        points = max(0, draws - 1) * (10 * dimension + 20 * slots)
        return MemoryPlan(self.budget, self.fixed, self.per_row + 8 * (weights + points))

    def require(self, rows: int) -> None:
        """Refuse a budget in which so many rows cannot be worked on at a time."""
        needed = self.fixed + rows * self.per_row
        if self.budget < needed:
            raise InvalidInput(
                f"A memory budget of {self.budget / 1e9:.3g} GB is too small: {needed / 1e9:.3g} GB are needed to work on "
                f"{rows} rows of this log at a time. Pass memory={int(np.ceil(needed / 1e8)) * 100_000_000} or more."
            )

    @property
    def batch_rows(self) -> int:
        """Rows to read at a time."""
        self.require(MIN_BATCH)
        return int(min((self.budget - self.fixed) // self.per_row, 1_000_000))


def keep_freed_memory() -> None:
    """Columns of a batch that are freed are used for the next one, where the C library learns from what is freed (glibc).

    It gives memory back to the system that is longer than the longest piece that was freed, up to 32 MB; to get it again for
    every batch took as long as the work.
    """
    np.empty(31 * 2**20, dtype=np.uint8)
