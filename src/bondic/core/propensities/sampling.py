"""A check of the logged propensities that needs nothing else: how often actions came against how often they should (17.8).

For an action k and a row i let x_i = 1[a_i = k] / b_i(a_i). If the log states the propensities that actions were drawn with,
E[x_i | past, s_i] <= 1 whatever the policy is that is asked about. So for rates 0 < v < 1

    prod_i ( 1 + v (x_i - 1) ),     averaged over actions, rates and blocks of rows with weights that were fixed beforehand,

is a supermartingale that begins at 1: at 1/delta or more it refutes the propensities, with probability at most delta if they are
right. With b° <= Γ b the mean of x_i / Γ is at most 1. Blocks are all rows, with half of the weight, and quarters of stretches
that double, so that they do not depend on how many rows there are. Nor does it matter how many actions there are: the j-th one
that comes has the weight 1/(j (j+1)), and its products begin after it came.
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


def log_products(
    actions: IntArray, behavior: FloatArray, count: int, rates: tuple[float, ...] = RATES, begin: IntArray | None = None
) -> FloatArray:
    """(rates, actions): log prod_i (1 + v (x_i - 1)) over these rows, of an action from its place `begin` on; from below."""
    found, rows = np.empty((len(rates), count)), np.full(count, float(actions.size))
    if begin is not None:
        rows, bet_on = actions.size - begin, np.arange(actions.size) >= begin[actions]
        if not bet_on.all():
            actions, behavior = actions[bet_on], behavior[bet_on]
    for logs, v in zip(found, rates, strict=True):
        gains, lost = np.log1p(v * (1.0 / behavior - 1.0)), math.log1p(-v)
        sizes = np.bincount(actions, weights=np.abs(gains), minlength=count) - rows * lost
        logs[:] = np.bincount(actions, weights=gains - lost, minlength=count) + rows * lost
        logs -= (actions.size + 64) * 2 * U * sizes
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
    borders, came = block_borders(stop), np.full(count, -1)  # the row at which an action came first
    logs, weights = np.zeros((borders.size, len(RATES), count)), np.zeros((borders.size, count))
    for first, actions, behavior in parts:
        new, places = np.unique(actions, return_index=True)
        unseen = came[new] < 0
        came[new[unseen]] = first + places[unseen]
        for block in range(int(np.searchsorted(borders, first, side="right")) - 1, borders.size):
            last = borders[block + 1] if block + 1 < borders.size else stop
            some = slice(max(int(borders[block]) - first, 0), min(max(int(last) - first, 0), actions.size))
            if some.start >= actions.size:
                break
            size, bounded = some.stop - some.start, np.asarray(behavior[some], dtype=np.float64) * factor
            begin = np.where(came < 0, size, np.clip(came + 1 - first - some.start, 0, size))
            logs[block] += log_products(actions[some], bounded, count, begin=begin)
            weights[block] += np.bincount(actions[some], weights=1.0 / bounded, minlength=count)
    seen = np.flatnonzero(came >= 0)
    seen = seen[np.argsort(came[seen])]
    ranks, numbers = np.arange(1, seen.size + 1), np.arange(1, borders.size + 1)
    every = np.concatenate([logs.sum(axis=0, keepdims=True), logs])[:, :, seen] - math.log(len(RATES))
    every -= np.log(ranks * (ranks + 1.0)) - np.log(np.array([0.5, *(0.5 / (numbers * (numbers + 1)))]))[:, None, None]
    top = float(every.max())
    place, _, rank = np.unravel_index(int(every.argmax()), every.shape)
    action = int(seen[rank])
    rows = (0, stop) if place == 0 else (int(borders[place - 1]), int(np.append(borders, stop)[place]))
    weight = float(weights[:, action].sum() if place == 0 else weights[place - 1, action])
    total = top + math.log(float(np.exp(every - top).sum()))
    return SamplingCheck(total - 1e-9 * (abs(total) + 1.0), action, rows, weight)
