"""The empirical Bellman equations on cells, and the sets that they leave of what is unknown.

e = (true values less q̂) on cells, b the reference of a tally, f = e - b, F_j = sum_c A_jc f_c. For cells that have rows let
P_cj = sum_i π_ij / n_c over the rows of the cell, and P_cj = 0 for the others. The coordinates are

    t_c = f_c - γ sum_j P_cj F_j,      so that   F = K t,  K = (I - γ A P)^-1 A,    <f, d> = <t, w>,  w = d + γ A^T (I -
    γ (A P)^T)^-1 P^T d.

No inverse is trusted: for *any* w and K, <f, d> = <t, w> + <f, d - w + γ A^T P^T w> and F_j = <t, K_j> + <f, (A - K + γ
K P A)_j>, and the last terms are bounded through |f_c| <= `largest`.

A row with label ℓ has one or several *successors* (ℓ, j): an atom j, or an end, where F = 0. x_i(f) is γ times a mean of
<F, κ_ℓ> - F_j over its successors, so a bound for each of them is one for every row, and by Jensen's inequality

    sum_i w_i x_i(f)^2  <=  γ^2 sum over successors of (sum_i w_i π_ij) (<F, κ_ℓ> - F_j)^2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from bondic.core.bounded import BoolArray, FloatArray, IntArray, inflate, largest_eigenvalue, norm, row_norms
from bondic.core.cells.allowance import CellAllowance
from bondic.core.cells.forecasts import LabelTally
from bondic.core.cells.tally import Entries, Tally

MAX_TOGETHER = 500_000
"""Atoms times cells: with more of them cells are bounded one by one alone."""
_AT_ONCE = 2**17
"""Successors times cells that are compared at a time: they stay near the processor."""


@dataclass(frozen=True, eq=False)
class Successors:
    """What rows of a label are followed by, each pair (label, atom) once, and how many rows of a block it follows."""

    label: IntArray  # (W,)
    atom: IntArray  # (W,) J: the end
    block: IntArray  # (E,) entries: blocks with successors
    place: IntArray  # (E,) of the successor
    mass: FloatArray  # (E,) sum of π; of ends rounded up

    @staticmethod
    def of(rows: Tally, relative: float) -> Successors:
        block, label, atom = rows.at
        atoms, seen = rows.shape.atoms.shape[0] + 1, np.zeros(rows.count.shape)
        np.add.at(seen, (block, label), rows.mass)
        ended = np.maximum(rows.count - seen, 0.0) + 8 * relative * rows.count
        end_block, end_label = np.nonzero((rows.count > 0) & rows.ends)
        key = np.concatenate([label * atoms + atom, end_label * atoms + atoms - 1])
        keys, place = np.unique(key, return_inverse=True)
        mass = np.concatenate([rows.mass, ended[end_block, end_label]])
        return Successors(*np.divmod(keys, atoms), np.concatenate([block, end_block]), place.reshape(-1), mass)

    def over(self, values: FloatArray, weights: FloatArray) -> FloatArray:
        """(B, Λ): sums of masses times (W,) values; `weights` (B, Λ) has the shape of the result."""
        found = np.zeros(weights.shape)
        np.add.at(found, (self.block, self.label[self.place]), self.mass * values[self.place])
        return found

    def weigh(self, weights: FloatArray) -> FloatArray:
        """(W,): sums of masses times weights (B, Λ)."""
        each = weights[self.block, self.label[self.place]] * self.mass
        return np.asarray(np.bincount(self.place, each, minlength=self.label.size), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class System:
    """The equations of a tally, and its rows by labels."""

    tally: Tally
    labels: LabelTally
    low: FloatArray  # (p,) bounds of f that hold whatever the log says
    high: FloatArray

    def __post_init__(self) -> None:
        self.labels.check(self.tally)

    @property
    def rows(self) -> Tally:
        """The rows by labels: deviations D in place of residuals R."""
        return self.labels.rows

    @cached_property
    def relative(self) -> float:
        """Of sums over rows, entries, labels or cells."""
        return max(self.tally.relative, self.rows.relative)

    @cached_property
    def large(self) -> bool:
        """Whether matrices of atoms with cells take too many numbers."""
        return self.tally.shape.atoms.size > MAX_TOGETHER

    @cached_property
    def largest(self) -> float:
        """A bound of |f_c| at every cell."""
        return inflate(float(max(np.abs(self.low).max(initial=0.0), np.abs(self.high).max(initial=0.0))))

    @cached_property
    def counts(self) -> FloatArray:
        """(p,) n_c."""
        return np.asarray(self.tally.count.sum(axis=0))

    @cached_property
    def learned(self) -> BoolArray:
        """(p,) cells that have rows, hence an equation."""
        return np.asarray(self.counts > 0)

    def over_labels(self, values: FloatArray) -> FloatArray:
        """(p,): sums of (Λ,) values."""
        return np.asarray(np.bincount(self.labels.cell, values, minlength=self.counts.size), dtype=np.float64)

    @cached_property
    def after(self) -> Entries:
        """(p, J) P; 0 for cells without rows."""
        _, cell, atom = self.tally.at
        found = Entries.added(cell, atom, self.tally.mass, self.tally.shape.atoms.shape[::-1])
        return replace(found, value=found.value / np.maximum(self.counts, 1.0)[found.row])

    @cached_property
    def mixtures(self) -> Entries:
        """(J, p) A."""
        return self.tally.shape.entries

    @cached_property
    def successors(self) -> Successors:
        return Successors.of(self.rows, self.relative)

    @cached_property
    def expected_size(self) -> float:
        """The largest sum of |κ|."""
        kappa = self.labels.expected
        return float(kappa.over_rows(np.abs(kappa.value)).max(initial=0.0))

    @cached_property
    def _inverse(self) -> FloatArray:
        """(J, J) about (I - γ A P)^-1: proposes, and is never trusted."""
        atoms, unit = self.tally.shape.atoms, np.eye(self.tally.shape.atoms.shape[0])
        try:
            return np.asarray(np.linalg.inv(unit - self.tally.gamma * (atoms @ self.after.dense)))
        except np.linalg.LinAlgError:
            return unit  # at a discount of 1, where nothing ends; the slack of every direction is then large

    @cached_property
    def atom_weights(self) -> tuple[FloatArray, float]:
        """K, (J, p), and a bound of |F_j - <t, K_j>|."""
        atoms, gamma, following = self.tally.shape.atoms, self.tally.gamma, self.after.dense
        weights = self._inverse @ atoms
        rest = atoms - weights + gamma * (weights @ following) @ atoms
        size = np.abs(atoms) + np.abs(weights) + gamma * (np.abs(weights) @ following) @ np.abs(atoms)
        off = np.abs(rest).sum(axis=1) + self.tally.relative * size.sum(axis=1)
        return weights, inflate(float(off.max(initial=0.0)) * self.largest)

    def directions(self, cells: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(m, p) weights w and (m,) slacks of the rows d of `cells`."""
        atoms, gamma = self.tally.shape.atoms, self.tally.gamma
        if not gamma:  # w = d, bit for bit what follows
            return cells, np.asarray(self.tally.relative * (2 * np.abs(cells)).sum(axis=1) * self.largest * (1 + 1e-14))
        following = self.after.dense
        weights = cells + gamma * (((cells @ following) @ self._inverse) @ atoms)
        rest = cells - weights + gamma * (weights @ following) @ atoms
        size = np.abs(cells) + np.abs(weights) + gamma * (np.abs(weights) @ following) @ np.abs(atoms)
        off = np.abs(rest).sum(axis=1) + self.tally.relative * size.sum(axis=1)
        return weights, np.asarray(off * self.largest * (1 + 1e-14))

    def differences(self) -> Iterator[tuple[slice, FloatArray]]:
        """|<K, κ> - K_j| (W, p), some successors at a time; each is made anew, and may be changed."""
        weights, _ = self.atom_weights
        following = np.vstack([weights, np.zeros((1, weights.shape[1]))])
        label, atom = self.successors.label, self.successors.atom
        step = max(_AT_ONCE // max(self.counts.size, 1), 1)
        step = step // 8 * 8 or step  # products of a matrix take its rows in such numbers: the same bits
        for first in range(0, label.size, step):
            here = slice(first, first + step)
            apart = self.predicted.take(label[here], axis=0)
            apart -= following.take(atom[here], axis=0)
            yield here, np.abs(apart, out=apart)

    @cached_property
    def predicted(self) -> FloatArray:
        """(Λ, p) <K, κ>."""
        return np.asarray(self.labels.expected.dense @ self.atom_weights[0])


@dataclass(frozen=True, eq=False)
class Form:
    """sum_i w_i x_i(f)^2 by its successors; the weight of a row is that of its block and label."""

    system: System
    weights: FloatArray  # (W,) sum of w π
    known: dict[bytes, float] = field(default_factory=dict, repr=False)  # what `largest` has been, by its scale

    @staticmethod
    def of(system: System, weights: FloatArray) -> Form:
        """`weights`: (B, Λ)."""
        return Form(system, system.successors.weigh(weights) * (1 + 4 * system.relative))

    def largest(self, scale: FloatArray) -> float:
        """The largest sum of w_ℓj (<F, κ_ℓ> - F_j)^2 over |t / scale| <= 1, t = 0 where the scale is 0; rounded up."""
        key = scale.tobytes()
        if key not in self.known:
            self.known[key] = self._largest(scale)
        return self.known[key]

    def _largest(self, scale: FloatArray) -> float:
        """F = K t, a = 1 / scale.

        It is the largest eigenvalue of Y^T S Y, Y = K / a, S = sum of w_ℓj (κ_ℓ - 1_j)(κ_ℓ - 1_j)^T. Y Y^T is written as L L^T +
        (an error), so that Y^T S Y and L^T S L have the same eigenvalues up to that error times |S|.
        """
        system, relative = self.system, self.system.relative
        scaled = system.atom_weights[0] * scale
        gram = scaled @ scaled.T
        values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
        factor = vectors * np.sqrt(np.maximum(values, 0.0))
        lost = norm(gram - factor @ factor.T) + relative * (norm(np.abs(scaled)) ** 2 + norm(factor) ** 2)
        kappa, (atoms, successors) = system.labels.expected.dense, (gram.shape[0], system.successors)
        joint = np.zeros((kappa.shape[0], atoms + 1))
        joint[successors.label, successors.atom] = self.weights
        weighted, joint = joint.sum(axis=1)[:, None] * kappa, joint[:, :atoms]
        both, cross, single = kappa.T @ weighted, kappa.T @ joint, np.diag(joint.sum(axis=0))
        inner = factor.T @ (both - cross - cross.T + single) @ factor
        if kappa.min(initial=0.0) < 0 or joint.min(initial=0.0) < 0:
            size = np.abs(kappa).T
            both, cross = size @ np.abs(weighted), size @ joint
        bound = norm(both + cross + cross.T + single)
        error = 4 * relative * norm(factor) ** 2 * bound + lost * bound
        top, _, _ = largest_eigenvalue(0.5 * (inner + inner.T))
        return inflate((max(top, 0.0) + error) * (1 + 64 * relative))


@dataclass(frozen=True, eq=False)
class Energy:
    """sum_i w_i (D_i + x_i(f) - γ ζ'_i)^2 <= constant + <f, linear> + factor * (the form), for every f."""

    constant: float
    linear: FloatArray  # (p,) 2 (1 + θ) X on cells
    linear_error: float  # of all its entries together
    factor: float  # 1 + θ
    form: Form

    @staticmethod
    def of(
        system: System, weights: FloatArray, allowance: CellAllowance, form: Form, beyond: FloatArray | float = 0.0
    ) -> Energy:
        """`weights`: (B, Λ), one for all rows of a block and label, as those of the form; `beyond` (Λ,): what clips add."""
        rows, atoms, gamma = system.rows, system.tally.shape.atoms, system.tally.gamma
        grow = 1 + system.relative
        mass = float((weights * rows.count).sum()) * grow
        square = (math.sqrt(float((weights * rows.square).sum()) * grow) + rows.error * math.sqrt(mass)) ** 2
        single = rows.over_atoms(weights, rows.mass) @ system.tally.shape.at_atoms(allowance.single) ** 2
        clipped = math.sqrt(float((weights * rows.count * np.square(beyond)).sum()) * grow)
        further = (gamma * math.sqrt(float(single) * grow) + clipped) ** 2 * grow
        theta = math.sqrt(further / square) if square > 0 else 1.0
        theta = max(theta, 1e-150) if further > 0 else 0.0
        rest = (1 + 1 / theta) * further if theta else 0.0
        total, onto = (weights * rows.total).sum(axis=0), rows.over_atoms(weights, rows.moment)
        linear = gamma * ((system.labels.expected.onto(total) - onto) @ atoms)
        lost = (
            (1 + gamma * (1 + system.expected_size))
            * system.tally.shape.largest
            * (system.relative * float((weights * rows.size).sum()) + rows.error * mass)
        )
        factor = 1 + theta
        return Energy(
            inflate((factor * square + rest) * (1 + 1e-14)),
            2 * factor * linear,
            inflate(2 * factor * lost * grow),
            factor * (1 + 1e-15),
            form,
        )


@dataclass(frozen=True, eq=False)
class Feasible:
    """A set that holds t: t = t' + t'' with |(a_c t'_c)_c| <= ϱ and |t''_c| <= τ_c; a box where ϱ = 0."""

    system: System
    scale: FloatArray  # (p,) 1 / a; 0: t' = 0 at the cell
    radius: float  # ϱ
    slack: FloatArray  # (p,) τ
    known: FloatArray  # (W,) bounds of |x_i(f)| of rows with a successor, from elsewhere

    def supports(self, cells: FloatArray) -> FloatArray:
        """(m,): upper bounds of |<f, d>| for the rows d of (m, p)."""
        weights, slack = self.system.directions(cells)
        found = np.abs(weights) @ self.slack + slack
        found += self.radius * row_norms(weights * self.scale) if self.radius > 0 else 0.0
        return np.asarray(found * (1 + 4 * self.system.tally.relative))

    def support(self, cells: FloatArray, error: float = 0.0) -> float:
        """The same for one d, whose entries are off by at most `error` together."""
        return inflate(float(self.supports(cells[None])[0]) + error * self.system.largest)

    @cached_property
    def _apart(self) -> tuple[FloatArray, FloatArray]:
        """(W,) γ |<F, κ> - F_j| over t' and over t''; a box has no t', and what else bounds a successor may be smaller."""
        system = self.system
        inside, outside = np.zeros((2, system.successors.label.size))
        if not system.tally.gamma:
            return inside, outside
        weights, off = system.atom_weights
        for here, apart in system.differences():
            outside[here] = apart @ self.slack
            if self.radius > 0:
                apart *= self.scale
                inside[here] = row_norms(apart)
        size, grow = 1 + system.expected_size, system.tally.gamma * (1 + 16 * system.relative)
        lost = 8 * system.relative * size * float(np.abs(weights).sum(axis=1).max(initial=0.0))
        outside = (outside + lost * float(self.slack.max(initial=0.0)) + size * off) * grow
        if self.radius > 0:
            return self.radius * (inside + lost * float(self.scale.max(initial=0.0))) * grow, outside
        return inside, np.minimum(outside, self.known)

    def predicted(self) -> FloatArray:
        """(Λ,) |<F, κ>|."""
        system = self.system
        weights, off = system.predicted, system.atom_weights[1] * system.expected_size
        lost = (
            8
            * system.relative
            * system.expected_size
            * float(np.abs(system.atom_weights[0]).sum(axis=1).max(initial=0.0))
        )
        found = np.abs(weights) @ self.slack + lost * float(self.slack.max(initial=0.0)) + off
        if self.radius > 0:
            found += self.radius * (row_norms(weights * self.scale) + lost * float(self.scale.max(initial=0.0)))
        return np.asarray(found * (1 + 16 * system.relative))

    @property
    def by_successor(self) -> FloatArray:
        """(W,) |x_i(f)| of rows with each successor."""
        inside, outside = self._apart
        return np.asarray((inside + outside) * (1 + 1e-14))

    def cell_roots(self) -> FloatArray:
        """(p,) sqrt( sum over the rows of a cell of x_i(f)^2 )."""
        system, successors = self.system, self.system.successors
        each = successors.over(self.by_successor**2, system.rows.count).sum(axis=0)
        return np.asarray(np.sqrt(system.over_labels(each)) * (1 + 64 * system.relative))

    def root(self, form: Form) -> float:
        """sqrt( the form ): over t' and t'' one by one, as a norm."""
        inside, gamma = 0.0, self.system.tally.gamma
        if self.radius > 0 and gamma:
            inside = gamma * self.radius * math.sqrt(form.largest(self.scale))
        outside = math.sqrt(float(form.weights @ self._apart[1] ** 2))
        return inflate((inside + outside) * (1 + 64 * self.system.relative))

    def excess(self, energy: Energy, cells: FloatArray, error: float) -> float:
        """An upper bound of <f, d> + factor * (the form)."""
        return self.support(cells, error) + inflate(energy.factor * self.root(energy.form) ** 2)
