"""A check of the logged propensities that needs nothing else: how often actions came against how often they should (17.8).

For an action k and a row i let x_i = 1[a_i = k] / b_i(a_i). If the log states the propensities that actions were drawn with,
E[x_i | past, s_i] <= 1 whatever the policy is that is asked about. So for rates 0 < v < 1

    prod_i ( 1 + v (x_i - 1) ),     averaged over actions, rates and blocks of rows that were fixed beforehand,

is a supermartingale that begins at 1: at 1/delta or more it refutes the propensities, with probability at most delta if they are
right. With b° <= Γ b the mean of x_i / Γ is at most 1. Blocks are all rows, with half of the weight, and quarters of stretches
that double, so that they do not depend on how many rows there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bondic.core.bounded import FloatArray, IntArray, U

SAMPLING = "propensities"
"""The share of alpha of this check, by name."""
RATES = (0.01, 0.1, 0.9)
"""v: ten times apart, half of the best growth is kept."""
_FIRST = 1024
"""Rows of the first block."""


@dataclass(frozen=True)
class SamplingCheck:
    """What the rows say, and where they say it loudest."""

    log_e: float  # log of the e-value, from below
    action: int
    rows: tuple[int, int]
    weight: float  # of the rows with that action, sum of 1/b: about the number of rows if propensities are right

    def rejects(self, probability: float) -> bool:
        return self.log_e >= -math.log(probability)

    @property
    def p_value(self) -> float:
        return min(1.0, math.exp(min(-self.log_e, 0.0)))


def log_products(actions: IntArray, behavior: FloatArray, count: int, rates: tuple[float, ...] = RATES) -> FloatArray:
    """(rates, actions): log prod_i (1 + v (x_i - 1)) over these rows, from below."""
    found = np.empty((len(rates), count))
    for mine, v in zip(found, rates, strict=True):
        gains = np.log1p(v * (1.0 / behavior - 1.0))
        logs = np.bincount(actions, weights=gains - math.log1p(-v), minlength=count)
        sizes = np.bincount(actions, weights=np.abs(gains), minlength=count) - actions.size * math.log1p(-v)
        mine[:] = logs + actions.size * math.log1p(-v) - (actions.size + 64) * 2 * U * sizes
    return found


def block_borders(stop: int) -> IntArray:
    """Rows where blocks begin, up to `stop`: the first rows, then quarters of stretches that double."""
    stretches = [_FIRST * 2**k for k in range(max(stop // _FIRST, 1).bit_length())]
    quarters = [first + first * j // 4 for first in stretches for j in range(4)]
    return np.array([0, *(row for row in quarters if row < stop)])


def check_sampling(
    parts: Iterable[tuple[int, IntArray, FloatArray]], stop: int, count: int, factor: float
) -> SamplingCheck:
    """The e-value of the first `stop` rows; `parts` are first row, actions (m,) and propensities (m,), `factor` is Γ."""
    borders = block_borders(stop)
    logs, weights = np.zeros((borders.size, len(RATES), count)), np.zeros((borders.size, count))
    for first, actions, behavior in parts:
        for block in range(int(np.searchsorted(borders, first, side="right")) - 1, borders.size):
            last = borders[block + 1] if block + 1 < borders.size else stop
            some = slice(max(int(borders[block]) - first, 0), max(int(last) - first, 0))
            if some.start >= actions.size:
                break
            bounded = np.asarray(behavior[some], dtype=np.float64) * factor
            logs[block] += log_products(actions[some], bounded, count)
            weights[block] += np.bincount(actions[some], weights=1.0 / bounded, minlength=count)
    shares = np.array([0.5 / (i * (i + 1)) for i in range(1, borders.size + 1)])
    every = np.concatenate([logs.sum(axis=0, keepdims=True), logs]) - math.log(len(RATES) * count)
    every += np.log(np.array([0.5, *shares]))[:, None, None]
    top = float(every.max())
    place, _, action = np.unravel_index(int(every.argmax()), every.shape)
    rows = (0, stop) if place == 0 else (int(borders[place - 1]), int(np.append(borders, stop)[place]))
    seen = float(weights[:, action].sum() if place == 0 else weights[place - 1, action])
    total = top + math.log(float(np.exp(every - top).sum()))
    return SamplingCheck(total - 1e-9 * (abs(total) + 1.0), int(action), rows, seen)
