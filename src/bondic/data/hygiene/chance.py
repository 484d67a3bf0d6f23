"""How far from chance a count is: N KL(x/N, q) for x hits of N, and exp(-this) bounds the probability of as many (Chernoff)."""

from __future__ import annotations

import numpy as np

RARE = float(np.log(1e6))
"""Chance alone gives what is reported in fewer than one of a million logs."""


def surprise(hits: int, trials: int, chance: float) -> float:
    """-log of the bound on P(hits or more) when each of the independent trials hits with probability `chance` at most."""
    if not trials or hits / trials <= chance:
        return 0.0
    share = hits / trials
    rest = 0.0 if share == 1 else (1 - share) * np.log((1 - share) / (1 - chance))
    return float(trials * (share * np.log(share / chance) + rest))


def poisson_surprise(hits: int, mean: float) -> float:
    """-log of the bound on P(hits or more) for a Poisson number with this mean: x log(x / mu) - x + mu (Chernoff)."""
    return float(hits * np.log(hits / mean) - hits + mean) if hits > mean else 0.0
