"""Values on cells one by one: an interval for f at every cell, and what it leaves of single rows.

The equation of a cell, f_c = t_c + γ sum_j P_cj F_j with |t_c| <= T_c, turns intervals of all cells into one of each,

    f_c  in  [ -T_c + γ sum_j P_cj (A low)_j,  T_c + γ sum_j P_cj (A high)_j ],

which may be repeated as often as one likes. Intervals know nothing of how errors go together, but need no inverse, hold
beside cells about which nothing is known, and bound every row by what may follow it alone: for weights κ and an atom j

    <F, κ> - F_j  <=  sum_k max(a_k low_k, a_k high_k),     a = κ - 1_j,

so that a row costs nothing where what follows was foreseen. Rows of a block and label, with values in [m, M] after them, have

    sum_i ( <F, κ> - F_i )^2  =  n ( variance + (<F, κ> - mean)^2 )  <=  n ( (M - m)^2 / 4 + <F, κ - P̂>^2 ),

P̂ what followed them on average: the smaller of this and of the sum over atoms counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bondic.core.betting import curvature, loss
from bondic.core.bounded import inflate
from bondic.core.cells.entries import Entries
from bondic.core.cells.system import System

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_SWEEPS = 1000
_STILL = 1e-3
"""Relative change at which sweeps stop: any number of them gives a bound."""


@dataclass(frozen=True, eq=False)
class Bounds:
    """low <= x <= high, entry by entry."""

    low: FloatArray
    high: FloatArray

    @property
    def size(self) -> FloatArray:
        return np.asarray(np.maximum(np.abs(self.low), np.abs(self.high)))

    def within(self, other: Bounds) -> Bounds:
        return Bounds(np.maximum(self.low, other.low), np.minimum(self.high, other.high))

    def wider(self, by: FloatArray | float) -> Bounds:
        return Bounds(self.low - by, self.high + by)

    def times(self, factor: FloatArray | float) -> Bounds:
        one, other = self.low * factor, self.high * factor
        return Bounds(np.minimum(one, other), np.maximum(one, other))

    def take(self, places: IntArray) -> Bounds:
        return Bounds(self.low[places], self.high[places])


@dataclass(frozen=True, eq=False)
class Ranges:
    """Intervals of f, and bounds of |t|, that hold together."""

    system: System
    values: Bounds  # (p,) f
    equations: FloatArray  # (p,) T; inf where a cell has none

    @staticmethod
    def of(system: System, values: Bounds, equations: FloatArray) -> Ranges:
        """The intervals `values`, made smaller by the equations."""
        after, grow = system.after, 1 + 16 * system.relative
        gamma, known = system.tally.gamma, np.isfinite(equations)
        for _ in range(_SWEEPS):
            at_atoms, last = _at_atoms(system, values), values
            ahead = Bounds(after.times(at_atoms.low), after.times(at_atoms.high))
            lost = (after.times(at_atoms.size) * gamma + np.where(known, equations, 0.0)) * (grow - 1)
            new = Bounds(gamma * ahead.low - equations, gamma * ahead.high + equations).wider(lost)
            values = values.within(Bounds(np.where(known, new.low, -np.inf), np.where(known, new.high, np.inf)))
            moved = np.maximum(values.low - last.low, last.high - values.high)
            if float(moved.max(initial=0.0)) <= _STILL * float((values.high - values.low).max(initial=0.0)):
                break
        return Ranges(system, values, equations)

    def support(self, cells: FloatArray, error: float) -> float:
        """An upper bound of <f, d>, whose entries are off by at most `error` together."""
        found = np.maximum(cells * self.values.low, cells * self.values.high)
        size = float(np.abs(cells) @ self.values.size)
        return inflate(float(found.sum()) + 8 * self.system.relative * size + error * self.system.largest)

    def supports(self, cells: FloatArray) -> FloatArray:
        """(m,): upper bounds of |<f, d>| for the rows of (m, p)."""
        up, down = np.maximum(cells, 0.0), np.maximum(-cells, 0.0)
        most = np.maximum(
            up @ self.values.high - down @ self.values.low, down @ self.values.high - up @ self.values.low
        )
        return np.asarray(most + 8 * self.system.relative * (np.abs(cells) @ self.values.size))

    @cached_property
    def _atoms(self) -> Bounds:
        return _at_atoms(self.system, self.values)

    @cached_property
    def _foreseen(self) -> tuple[Bounds, FloatArray]:
        """(Λ,) <F, κ>, and sum |κ| |F|, by which rounding errors are measured."""
        kappa, atoms = self.system.expectation, self._atoms.take(self.system.expectation.column)
        terms = atoms.times(kappa.value)
        size = kappa.over_rows(terms.size)
        found = Bounds(kappa.over_rows(terms.low), kappa.over_rows(terms.high))
        return found.wider(16 * self.system.relative * size), size

    @cached_property
    def moved(self) -> tuple[Bounds, Bounds]:
        """x_i(f) of rows that a label and an atom follow one another at (`system.followed`), and of rows that end, (Λ,)."""
        system, gamma, own = self.system, self.system.tally.gamma, self.system.forecasts is None
        (label, atom), (foreseen, size) = system.followed, self._foreseen
        at = self._atoms.take(atom)
        apart = _replaced(foreseen.take(label), at, system.expectation.at(label, atom), np.ones(label.size))
        found = apart.wider(64 * system.relative * (size[label] + 2 * at.size)).times(gamma)
        end = foreseen.times(gamma)
        if own:
            moved = np.where(np.isfinite(self.equations), self.equations, np.inf)
            direct = Bounds(self.values.low[label] - gamma * at.high, self.values.high[label] - gamma * at.low)
            lost = 16 * system.relative * (self.values.size[label] + at.size)
            found = found.wider(moved[label]).within(direct.wider(lost))
            end = end.wider(moved).within(self.values)
        return found, end

    def row_reach(self) -> FloatArray:
        """(Λ,) |x_i(f)| of all rows of a label."""
        found, end = self.moved
        most = np.where(self.system.rows.ends, end.size, 0.0)
        np.maximum.at(most, self.system.followed[0], found.size)
        return np.asarray(most)

    @cached_property
    def _place(self) -> IntArray:
        """(E,) of every entry of the rows: where its label and atom stand in `system.followed`."""
        _, label, atom = self.system.rows.at
        width = max(self.system.tally.shape.atoms.shape[0], 1)
        first, second = self.system.followed
        return np.asarray(np.searchsorted(first * width + second, label * width + atom))

    @cached_property
    def ended(self) -> FloatArray:
        """(B, Λ) rows that nothing follows, rounded up."""
        rows = self.system.rows
        block, label, _ = rows.at
        mass = np.zeros(rows.count.shape)
        np.add.at(mass, (block, label), rows.mass)
        return np.where(rows.ends, np.maximum(rows.count - mass, 0.0) + 8 * self.system.relative * rows.count, 0.0)

    @cached_property
    def squares(self) -> FloatArray:
        """(B, Λ) sum of x_i(f)^2 over the rows of a block and label."""
        rows, (found, end) = self.system.rows, self.moved
        block, label, _ = rows.at
        each = np.zeros(rows.count.shape)
        np.add.at(each, (block, label), rows.mass * found.size[self._place] ** 2)
        each += self.ended * end.size**2
        return np.asarray(np.minimum(each, self._spread()) * (1 + 64 * self.system.relative))

    def _spread(self) -> FloatArray:
        """(B, Λ) the same by n ( γ^2 (M - m)^2 / 4 + (t + γ <F, κ - P̂>)^2 )."""
        system, rows, gamma = self.system, self.system.rows, self.system.tally.gamma
        block, label, atom = rows.at
        at, (foreseen, size) = self._atoms.take(atom), self._foreseen
        ends = self.ended > 0
        top, bottom = np.where(ends, 0.0, -np.inf), np.where(ends, 0.0, np.inf)
        np.maximum.at(top, (block, label), at.high)
        np.minimum.at(bottom, (block, label), at.low)
        shares = rows.mass / np.maximum(rows.count[block, label], 1e-300)
        kappa = system.expectation.at(label, atom)
        there = at.times(kappa)
        left = at.times(kappa - shares)
        low, high, lost = np.zeros(rows.count.shape), np.zeros(rows.count.shape), np.zeros(rows.count.shape)
        np.add.at(low, (block, label), left.low - there.low)
        np.add.at(high, (block, label), left.high - there.high)
        np.add.at(lost, (block, label), (np.abs(kappa) + shares) * at.size)
        apart = Bounds(foreseen.low + low, foreseen.high + high).wider(64 * system.relative * (size + 2 * lost)).size
        own = np.where(np.isfinite(self.equations), self.equations, np.inf) if system.forecasts is None else 0.0
        width = np.where(rows.count > 0, top - bottom, 0.0)
        with np.errstate(invalid="ignore"):
            found = rows.count * ((gamma * width) ** 2 / 4 + (own + gamma * apart) ** 2)
        return np.asarray(np.where(rows.count > 0, found, 0.0) * (1 + 64 * system.relative))

    def deviations(self, single: float, width: float) -> FloatArray:
        """(B, Λ) sum of Δ_i^2; |γ ζ'_i| <= `single`, and the range bounds every row."""
        rows, grow = self.system.rows, 1 + 16 * self.system.relative
        root = np.sqrt(rows.square * grow) + np.sqrt(self.squares) + np.sqrt(rows.count) * (single + rows.error)
        return np.asarray(np.minimum(root**2 * grow, rows.count * (width**2 * grow)))

    def reference_squares(self, row_reach: FloatArray) -> FloatArray:
        """(B, Λ) about the same with a bound of |x_i| for every label: to compare, not to bound."""
        rows = self.system.rows
        with np.errstate(invalid="ignore"):
            return np.asarray((np.sqrt(rows.square) + np.sqrt(rows.count) * row_reach) ** 2)

    def charges(self, weights: FloatArray, single: float, width: float) -> FloatArray:
        """(B, Λ) sum of g(-v_i Δ_i): row by row through the atoms that follow, or through `deviations`; the smaller one.

        The first only where rows are followed by one atom each: Δ is clipped, and g of what is clipped is not convex.
        """
        rows, (found, end) = self.system.rows, self.moved
        block, label, _ = rows.at
        own = Bounds(rows.low, rows.high).wider(rows.error + single)
        size = self.row_reach()
        most = np.where(weights > 0, size - own.low, size + own.high)
        most = np.clip(np.where(rows.count > 0, most, 0.0), 0.0, width)
        other = weights**2 * curvature(-(np.abs(weights) * most)) * self.deviations(single, width)
        if not rows.whole:
            return np.asarray(other * (1 + 64 * self.system.relative))
        here, at = Bounds(own.low[block, label], own.high[block, label]), found.take(self._place)
        each = np.zeros(rows.count.shape)
        prices = _price(weights[block, label], Bounds(here.low + at.low, here.high + at.high), width)
        np.add.at(each, (block, label), rows.mass * prices)
        last = _price(weights, Bounds(own.low + end.low, own.high + end.high), width)
        each += np.where(self.ended > 0, self.ended * last, 0.0)
        return np.asarray(np.minimum(each, other) * (1 + 64 * self.system.relative))


def _price(weights: FloatArray, moved: Bounds, width: float) -> FloatArray:
    """The largest g(y), y = v (D + x) = -v Δ before it is clipped: Δ lies between 0 and what is not clipped."""
    cut = Bounds(np.clip(moved.low, -width, 0.0), np.clip(moved.high, 0.0, width)).times(weights)
    return np.asarray(np.maximum(loss(cut.low), loss(cut.high)))


def _replaced(total: Bounds, at: Bounds, kappa: FloatArray, less: FloatArray) -> Bounds:
    """<F, κ> with κ_j less by a number at one atom."""
    before, after = at.times(kappa), at.times(kappa - less)
    return Bounds(total.low - before.low + after.low, total.high - before.high + after.high)


def _at_atoms(system: System, values: Bounds) -> Bounds:
    """(J,) F."""
    atoms: Entries = system.mixtures
    terms = values.take(atoms.column).times(atoms.value)
    lost = 8 * system.relative * atoms.over_rows(terms.size)
    return Bounds(atoms.over_rows(terms.low), atoms.over_rows(terms.high)).wider(lost)
