"""What the log rules out: a certified lower bound of the allowance, from groups cut into halves.

Halves h of a cell share e(c), so their equations overdetermine f. With a vector event (16) over halves, at the same rates,

    for every u:   sum_h u_h (mean_h R + <f, T_h>)  <=  ϱ |(u_h / (s_h n_h))_h| + β sum_h |u_h| m_h,     m_h = 1 + γ sum_j P_hj.

u = 1 on one half of a cell, -1 on the other, and on all cells what makes sum_h u_h T_h vanish. Then f drops out, and averages
over halves cannot all be within β < (|sum_h u_h mean_h R| - ϱ |(u_h / (s_h n_h))|) / sum_h |u_h| m_h. The largest is reported.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bondic.core.cells.allowance import Allowance
from bondic.core.cells.bound import CellBound
from bondic.core.cells.localize import prices
from bondic.core.cells.system import System
from bondic.core.cells.tally import Tally

FloatArray = npt.NDArray[np.float64]

_HALVINGS = 20


def ruled_out(bound: CellBound, halves: Tally, probability: float) -> float:
    """β such that averages and single values within β of one number per cell are excluded; 0 where nothing is.

    `halves` is a tally of the same rows at the same reference, with cells 2 c and 2 c + 1 for the halves of cell c.
    """
    test = _Test(bound, halves, bound.locate(Allowance(0.0)).system)
    high = test.excess(0.0, probability)
    if high <= 0:
        return 0.0
    low = 0.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if middle < test.excess(middle, probability) else (low, middle)
    return low


class _Test:
    """Everything about the contrasts that no allowance changes."""

    def __init__(self, bound: CellBound, halves: Tally, system: System) -> None:
        self.bound, self.halves = bound, halves
        count = halves.count.sum(axis=0).reshape(-1, 2)  # (p, 2)
        safe = np.maximum(count, 1.0)
        total = halves.total.sum(axis=0).reshape(-1, 2)
        size = halves.size.sum(axis=0).reshape(-1, 2)
        mass = halves.over_pairs(np.ones_like(halves.count), halves.mass).reshape(*count.shape, -1)  # (p, 2, J)
        following = mass / safe[:, :, None]
        self.tested = np.flatnonzero((count > 0).all(axis=1) & system.learned)
        atoms, gamma = bound.tally.shape.atoms, bound.tally.gamma
        apart = following[self.tested, 0] - following[self.tested, 1]  # (k, J)
        weights, slack = system.directions(gamma * apart @ atoms)  # (k, p)
        shares = count / np.maximum(count.sum(axis=1, keepdims=True), 1.0)
        contrast = weights[:, :, None] * np.where(system.learned[:, None], shares, 0.0)  # (k, p, 2)
        # cells that are not learned have no equation: what they would cancel is bounded through f
        lost = np.abs(weights) @ np.where(system.learned, 0.0, system.largest)
        where = np.arange(self.tested.size)
        contrast[where, self.tested, 0] += 1.0
        contrast[where, self.tested, 1] -= 1.0
        means, rounding = total / safe, halves.error + 4 * halves.relative * (size / safe + 2 * system.largest)
        self.found = np.abs(np.einsum("kch,ch->k", contrast, means))
        self.found = self.found * (1 - 1e-12) - np.einsum("kch,ch->k", np.abs(contrast), rounding) - slack - lost
        scale = np.where(count > 0, bound.events.vector.shape[:, None] * safe, np.inf)  # s_h n_h
        self.length = np.sqrt(np.einsum("kch,ch->k", contrast**2, scale**-2.0)) * (1 + 1e-12)
        inside = 1.0 + gamma * following.sum(axis=2)
        self.spread = np.einsum("kch,ch->k", np.abs(contrast), inside) * (1 + 1e-12)

    def excess(self, allowance: float, probability: float) -> float:
        """The largest β that is excluded, given that the energies are those at an allowance."""
        if self.tested.size == 0:
            return 0.0
        bound = self.bound
        located = bound.locate(Allowance(allowance))
        vector = bound.events.vector
        log_term, costs = vector.log_term(probability), prices(vector, located.system, located.row_reach, bound.limits)
        pairs = zip(vector.rates, costs, strict=True)
        radius = min(log_term / rate + cost * rate * located.energy_bound for rate, cost in pairs)
        return float(((self.found - radius * (1 + 1e-12) * self.length) / self.spread).max())
