"""Values on cells one by one: an interval for f at every cell, and what it leaves of single rows.

The equation of a cell, f_c = t_c + γ sum_j P_cj F_j with |t_c| <= T_c, turns intervals of all cells into one of each,

    f_c  in  [ -T_c + γ sum_j P_cj (A low)_j,  T_c + γ sum_j P_cj (A high)_j ],

which may be repeated as often as one likes. Intervals know nothing of how errors go together, but need no inverse, hold
beside cells about which nothing is known, and bound every row by what may follow it alone: for weights κ and an atom j

    <F, κ> - F_j  <=  sum_k max(a_k low_k, a_k high_k),     a = κ - 1_j,

so that a row costs nothing where what follows was predicted. Rows of a block and label, with values in [m, M] after them, have

    sum_i ( <F, κ> - F_i )^2  =  n ( variance + (<F, κ> - mean)^2 )  <=  n ( (M - m)^2 / 4 + <F, κ - P̂>^2 ),

P̂ what followed them on average: the smaller of this and of the sum over successors counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bondic.core.betting import bet_cost, curvature
from bondic.core.bounded import Between, FloatArray, inflate
from bondic.core.cells.system import System

_SWEEPS = 1000
_STILL = 1e-3
"""Relative change at which sweeps stop: any number of them gives a bound."""


@dataclass(frozen=True, eq=False)
class Intervals:
    """Of f at every cell."""

    system: System
    values: Between  # (p,) f

    def tightened(self, equations: FloatArray) -> Intervals:
        """Made smaller by |t_c| <= T_c, (p,); inf where a cell has no equation."""
        system, after, values = self.system, self.system.after, self.values
        gamma, known, relative = system.tally.gamma, np.isfinite(equations), 16 * system.relative
        own = np.where(known, equations, 0.0)
        for _ in range(_SWEEPS):
            last, at = values, _at_atoms(system, values)
            new = Between(gamma * after.times(at.low) - own, gamma * after.times(at.high) + own)
            new = new.wider((after.times(at.magnitude()) * gamma + own) * relative)
            values = values.within(Between(np.where(known, new.low, -np.inf), np.where(known, new.high, np.inf)))
            moved = np.maximum(values.low - last.low, last.high - values.high)
            if float(moved.max(initial=0.0)) <= _STILL * float((values.high - values.low).max(initial=0.0)):
                break
        return Intervals(system, values)

    def support(self, cells: FloatArray, error: float) -> float:
        """An upper bound of <f, d>, whose entries are off by at most `error` together."""
        found = np.maximum(cells * self.values.low, cells * self.values.high)
        size = float(np.abs(cells) @ self.values.magnitude())
        return inflate(float(found.sum()) + 8 * self.system.relative * size + error * self.system.largest)

    def supports(self, cells: FloatArray) -> FloatArray:
        """(m,): upper bounds of |<f, d>| for the rows of (m, p)."""
        up, down, (low, high) = np.maximum(cells, 0.0), np.maximum(-cells, 0.0), (self.values.low, self.values.high)
        most = np.maximum(up @ high - down @ low, down @ high - up @ low)
        return np.asarray(most + 8 * self.system.relative * (np.abs(cells) @ self.values.magnitude()))

    @cached_property
    def _atoms(self) -> Between:
        """(J + 1,) F, and 0 for the end."""
        return _at_atoms(self.system, self.values).then(Between(np.zeros(1), np.zeros(1)))

    @property
    def predicted(self) -> Between:
        """(Λ,) <F, κ>."""
        return self._predicted[0]

    @cached_property
    def _predicted(self) -> tuple[Between, FloatArray]:
        """(Λ,) <F, κ>, and sum |κ| |F|, by which rounding errors are measured."""
        kappa = self.system.labels.expected
        terms = self._atoms.take(kappa.column).times(kappa.value)
        size = kappa.over_rows(terms.magnitude())
        found = Between(kappa.over_rows(terms.low), kappa.over_rows(terms.high))
        return found.wider(16 * self.system.relative * size), size

    @cached_property
    def by_successor(self) -> Between:
        """(W,) x_i(f) of rows with each successor: in <F, κ> the atom that follows counts with κ_j - 1."""
        system, successors, (predicted, size) = self.system, self.system.successors, self._predicted
        at, ending = self._atoms.take(successors.atom), successors.atom == self._atoms.low.size - 1
        kappa = np.where(ending, 0.0, system.labels.expected.at(successors.label, np.where(ending, 0, successors.atom)))
        found = predicted.take(successors.label) + _replaced(at, kappa, kappa - 1.0)
        return found.wider(64 * system.relative * (size[successors.label] + 2 * at.magnitude())).times(
            system.tally.gamma
        )

    def farthest(self) -> FloatArray:
        """(Λ,) |x_i(f)| of all rows of a label."""
        return largest_by_label(self.system, self.by_successor.magnitude())

    @cached_property
    def squares(self) -> FloatArray:
        """(B, Λ) sum of x_i(f)^2 over the rows of a block and label."""
        each = self.system.successors.over(self.by_successor.magnitude() ** 2, self.system.rows.count)
        return np.asarray(np.minimum(each, self._spread()) * (1 + 64 * self.system.relative))

    def _spread(self) -> FloatArray:
        """(B, Λ) the same by n γ^2 ( (M - m)^2 / 4 + <F, κ - P̂>^2 )."""
        system, rows, successors = self.system, self.system.rows, self.system.successors
        block, label, atom = successors.block, successors.label[successors.place], successors.atom[successors.place]
        at, (predicted, size), shape = self._atoms.take(atom), self._predicted, rows.count.shape
        top, bottom = np.full(shape, -np.inf), np.full(shape, np.inf)
        np.maximum.at(top, (block, label), at.high)
        np.minimum.at(bottom, (block, label), at.low)
        shares = successors.mass / np.maximum(rows.count[block, label], 1e-300)
        ending = atom == self._atoms.low.size - 1
        kappa = np.where(ending, 0.0, system.labels.expected.at(label, np.where(ending, 0, atom)))
        left, (low, high, lost) = _replaced(at, kappa, kappa - shares), np.zeros((3, *shape))
        np.add.at(low, (block, label), left.low)
        np.add.at(high, (block, label), left.high)
        np.add.at(lost, (block, label), (np.abs(kappa) + shares) * at.magnitude())
        apart = (predicted + Between(low, high)).wider(64 * system.relative * (size + 2 * lost)).magnitude()
        width = np.where(rows.count > 0, top - bottom, 0.0)
        found = rows.count * (width**2 / 4 + apart**2) * (system.tally.gamma**2 * (1 + 64 * system.relative))
        return np.asarray(np.where(rows.count > 0, found, 0.0))

    def deviations(self, single: FloatArray | float, width: FloatArray) -> FloatArray:
        """(B, Λ) sum of Δ_i^2; |γ ζ'_i| <= `single`, and the width (Λ,) of its range bounds every row."""
        rows, grow = self.system.rows, 1 + 16 * self.system.relative
        root = np.sqrt(rows.square * grow) + np.sqrt(self.squares) + np.sqrt(rows.count) * (single + rows.error)
        return np.asarray(np.minimum(root**2 * grow, rows.count * (width**2 * grow)))

    def charges(self, weights: FloatArray, single: FloatArray | float, width: FloatArray) -> FloatArray:
        """(B, Λ) sum of g(-v_i Δ_i): row by row through the successors, or through `deviations`; the smaller one.

        The first only where rows have one successor each: Δ is clipped, and g of what is clipped is not convex.
        """
        rows, successors = self.system.rows, self.system.successors
        own = Between(rows.low, rows.high).wider(rows.error + single)
        most = most_negative(own, self.farthest(), weights, width)
        other = weights**2 * curvature(-(np.abs(weights) * most)) * self.deviations(single, width)
        if not rows.whole:
            return np.asarray(other * (1 + 64 * self.system.relative))
        block, label = successors.block, successors.label[successors.place]
        moved = Between(own.low[block, label], own.high[block, label]) + self.by_successor.take(successors.place)
        # y = v (D + x) = -v Δ before it is clipped: Δ lies between 0 and what is not clipped
        widest = np.broadcast_to(width, weights.shape[1])[label]
        cut = Between(np.clip(moved.low, -widest, 0.0), np.clip(moved.high, 0.0, widest)).times(weights[block, label])
        each = np.zeros(rows.count.shape)
        np.add.at(each, (block, label), successors.mass * np.maximum(bet_cost(cut.low), bet_cost(cut.high)))
        return np.asarray(np.minimum(each, other) * (1 + 64 * self.system.relative))


def largest_by_label(system: System, values: FloatArray) -> FloatArray:
    """(Λ,) the largest of (W,) numbers."""
    found = np.zeros(system.labels.cell.size)
    np.maximum.at(found, system.successors.label, values)
    return found


def most_negative(own: Between, farthest: FloatArray, weights: FloatArray, width: FloatArray | float) -> FloatArray:
    """(B, Λ) the largest Δ with the sign of v, D in `own` and |x| <= farthest: -v Δ is as negative as -|v| times it."""
    most = np.where(weights > 0, farthest - own.low, farthest + own.high)
    return np.clip(most, 0.0, width)


def _replaced(at: Between, before: FloatArray, after: FloatArray) -> Between:
    """What the bounds of <F, κ> change by, where one weight is another."""
    one, other = at.times(before), at.times(after)
    return Between(other.low - one.low, other.high - one.high)


def _at_atoms(system: System, values: Between) -> Between:
    """(J,) F."""
    atoms = system.mixtures
    terms = values.take(atoms.column).times(atoms.value)
    lost = 8 * system.relative * atoms.over_rows(terms.magnitude())
    return Between(atoms.over_rows(terms.low), atoms.over_rows(terms.high)).wider(lost)
