"""The empirical Bellman equations on cells, and linear functions of what is unknown in them.

e = (true values less q̂) on cells, b the reference of a tally, f = e - b, F_j = sum_c A_jc f_c. For cells that have rows let
P_cj = sum_i π_ij / n_c over the rows of the cell, and P_cj = 0 for the others. The coordinates are

    t_c = f_c - γ sum_j P_cj F_j,      so that   F = K t,  K = (I - γ A P)^-1 A,    <f, d> = <t, w>,  w = d + γ A^T (I -
    γ (A P)^T)^-1 P^T d.

No inverse is trusted: for *any* w and K, <f, d> = <t, w> + <f, d - w + γ A^T P^T w> and F_j = <t, K_j> + <f, (A - K + γ
K P A)_j>, and the last terms are bounded through |f_c| <= `largest`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import inflate, largest_eigenvalue, norm
from bondic.core.cells.entries import Entries
from bondic.core.cells.forecasts import ForecastTally
from bondic.core.cells.tally import Tally

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]

MOST_TOGETHER = 500_000
"""Atoms times cells: above this cells are bounded one by one alone."""
MOST_DIFFERENCES = 10_000_000
"""Pairs of labels and atoms, times cells, that are compared one by one."""


@dataclass(frozen=True, eq=False)
class Direction:
    """<f, d> = <t, w> + (at most `slack` in size)."""

    system: System
    cells: FloatArray  # (p,) d
    error: float  # of all its entries together

    @cached_property
    def _found(self) -> tuple[FloatArray, FloatArray]:
        return self.system.directions(self.cells[None])

    @property
    def weights(self) -> FloatArray:
        """(p,) w."""
        return np.asarray(self._found[0][0])

    @cached_property
    def slack(self) -> float:
        return inflate(float(self._found[1][0]) + self.error * self.system.largest)


@dataclass(frozen=True, eq=False)
class System:
    """The equations of a tally."""

    tally: Tally
    low: FloatArray  # (p,) bounds of f that hold whatever the log says
    high: FloatArray
    forecasts: ForecastTally | None = None

    def __post_init__(self) -> None:
        if self.forecasts is not None:
            self.forecasts.check(self.tally)

    @cached_property
    def relative(self) -> float:
        """Of sums over rows, entries, labels or cells."""
        return max(self.tally.relative, self.rows.relative)

    @cached_property
    def large(self) -> bool:
        """Whether matrices of atoms with cells take too many numbers."""
        return self.tally.shape.atoms.size > MOST_TOGETHER

    @property
    def rows(self) -> Tally:
        """The rows by labels: deviations in place of residuals."""
        return self.tally if self.forecasts is None else self.forecasts.rows

    @cached_property
    def label_cell(self) -> IntArray:
        """(Λ,) the cell of every label."""
        return np.arange(self.tally.shape.cells) if self.forecasts is None else self.forecasts.cell

    def spread(self, weights: FloatArray) -> FloatArray:
        """(B, p) of blocks and cells as weights of the blocks and labels of `rows`."""
        return weights if self.forecasts is None else self.forecasts.spread(weights)

    @property
    def expected(self) -> FloatArray:
        """(Λ, J) κ."""
        return self.following if self.forecasts is None else self.forecasts.following

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

    @cached_property
    def after(self) -> Entries:
        """(p, J) P; 0 for cells without rows."""
        _, cell, atom = self.tally.at
        found = Entries.added(cell, atom, self.tally.mass, self.tally.shape.atoms.shape[::-1])
        return replace(found, value=found.value / np.maximum(self.counts, 1.0)[found.row])

    @cached_property
    def following(self) -> FloatArray:
        """(p, J) P."""
        return self.after.dense

    @cached_property
    def mixtures(self) -> Entries:
        """(J, p) A."""
        return Entries.of(self.tally.shape.atoms)

    @cached_property
    def expectation(self) -> Entries:
        """(Λ, J) κ; of cells without forecasts P."""
        return self.after if self.forecasts is None else self.forecasts.entries

    @cached_property
    def _inverse(self) -> FloatArray:
        """(J, J) about (I - γ A P)^-1: proposes, and is never trusted."""
        atoms, unit = self.tally.shape.atoms, np.eye(self.tally.shape.atoms.shape[0])
        try:
            return np.asarray(np.linalg.inv(unit - self.tally.gamma * (atoms @ self.following)))
        except np.linalg.LinAlgError:
            return unit  # at a discount of 1, where nothing ends; the slack of every direction is then large

    @cached_property
    def atom_weights(self) -> tuple[FloatArray, float]:
        """K, (J, p), and a bound of |F_j - <t, K_j>|."""
        atoms, gamma = self.tally.shape.atoms, self.tally.gamma
        weights = self._inverse @ atoms
        rest = atoms - weights + gamma * (weights @ self.following) @ atoms
        size = atoms + np.abs(weights) + gamma * (np.abs(weights) @ self.following) @ atoms
        off = np.abs(rest).sum(axis=1) + self.tally.relative * size.sum(axis=1)
        return weights, inflate(float(off.max(initial=0.0)) * self.largest)

    @cached_property
    def followed(self) -> tuple[IntArray, IntArray]:
        """Labels and atoms that occur together, once each."""
        _, label, atom = self.rows.at
        atoms = max(self.tally.shape.atoms.shape[0], 1)
        return np.divmod(np.unique(label * atoms + atom), atoms)

    @cached_property
    def differences(self) -> tuple[FloatArray, FloatArray] | None:
        """|<K, κ> - K_j| (pairs, p) of these, and |<K, κ>| (Λ, p); None where they are too many numbers."""
        (weights, _), (label, atom) = self.atom_weights, self.followed
        if label.size * weights.shape[1] > MOST_DIFFERENCES:
            return None
        mean = self.expected @ weights
        return np.abs(mean[label] - weights[atom]), np.abs(mean)

    def direction(self, cells: FloatArray, error: float = 0.0) -> Direction:
        """Of d on cells, whose entries are off by at most `error` together."""
        return Direction(self, cells, error)

    def directions(self, cells: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(m, p) weights and (m,) slacks of the rows of d."""
        atoms, gamma, following = self.tally.shape.atoms, self.tally.gamma, self.following
        weights = cells + gamma * (((cells @ following) @ self._inverse) @ atoms)
        rest = cells - weights + gamma * (weights @ following) @ atoms
        size = np.abs(cells) + np.abs(weights) + gamma * (np.abs(weights) @ following) @ atoms
        off = np.abs(rest).sum(axis=1) + self.tally.relative * size.sum(axis=1)
        return weights, np.asarray(off * self.largest * (1 + 1e-14))


@dataclass(frozen=True, eq=False)
class Feasible:
    """A set that holds t: t = t' + t'' with |(a_c t'_c)_c| <= ϱ on cells `inside`, t' = 0 on the others, |t''_c| <= τ_c."""

    system: System
    inside: BoolArray  # (p,)
    scale: FloatArray  # (p,) a
    radius: float  # ϱ
    slack: FloatArray  # (p,) τ

    @cached_property
    def _inverse_scale(self) -> FloatArray:
        return np.where(self.inside, 1.0 / np.where(self.inside, self.scale, 1.0), 0.0)

    def support(self, direction: Direction) -> float:
        """An upper bound of |<f, d>| over E."""
        return self._support(direction.weights, direction.slack)

    def _support(self, weights: FloatArray, slack: float) -> float:
        inside = self.radius * norm(weights * self._inverse_scale)
        outside = float(np.abs(weights) @ self.slack) * (1 + self.system.tally.relative)
        return inflate((inside + outside + slack) * (1 + 1e-14))

    def supports(self, cells: FloatArray) -> FloatArray:
        """(m,): upper bounds of |<f, d>| for the rows of (m, p)."""
        system, grow = self.system, 1 + 4 * self.system.tally.relative
        weights, slack = system.directions(cells)
        inside = self.radius * np.sqrt(((weights * self._inverse_scale) ** 2).sum(axis=1))
        return np.asarray((inside + np.abs(weights) @ self.slack + slack) * grow)

    def cells(self) -> FloatArray:
        """(p,) upper bounds of |t_c|."""
        return np.asarray((self.radius * self._inverse_scale + self.slack) * (1 + 1e-14))

    @cached_property
    def _reference_atom(self) -> FloatArray:
        """(p,) a mean of the rows of K, by how often atoms follow: differences of atoms are measured from it."""
        weights, _ = self.system.atom_weights
        tally = self.system.tally
        often = tally.over_atoms(np.ones_like(tally.count), tally.mass) + 1e-9
        return np.asarray(often @ weights / max(float(often.sum()), 1e-9))

    @cached_property
    def _beyond(self) -> tuple[FloatArray, float]:
        """|F_j - F_0| (J,) and |F_0| over t'' alone, F_0 the reference atom."""
        weights, _ = self.system.atom_weights
        grow = 1 + self.system.tally.relative
        apart = np.abs(weights - self._reference_atom) @ self.slack * grow
        return apart, float(np.abs(self._reference_atom) @ self.slack) * grow

    @cached_property
    def _outside(self) -> tuple[FloatArray, FloatArray]:
        """Over t'' alone: |<F, κ> - F_j| (Λ, J) where j follows the label, and |<F, κ>| (Λ,).

        Exactly, |<K, κ> - K_j| τ; through a reference atom where that takes too many numbers. Without t' these are differences of
        values, and within their range.
        """
        following = self.system.expected
        weights, off = self.system.atom_weights
        label, atom = self.system.followed
        mass, size = following.sum(axis=1), np.abs(following).sum(axis=1)
        found = np.zeros(following.shape)
        if (sizes := self.system.differences) is not None:
            found[label, atom], end = sizes[0] @ self.slack, sizes[1] @ self.slack
        else:
            apart, common = self._beyond
            before = np.abs(following) @ apart
            end = before + np.abs(mass) * common
            found[label, atom] = before[label] + np.abs(1 - mass[label]) * common + apart[atom]
        grow, most = 1 + 8 * self.system.relative, float(np.abs(weights).sum(axis=1).max(initial=0.0))
        rounding = 8 * self.system.relative * most * float(self.slack.max(initial=0.0))
        found, end = (found + rounding * (1 + size[:, None])) * grow, (end + rounding * (1 + size)) * grow
        if not self.inside.any():
            most = self.system.largest * (1 + 1e-12) + off
            found, end = np.minimum(found, (1 + size[:, None]) * most), np.minimum(end, size * most)
        return found, end

    def next_differences(self) -> FloatArray:
        """(Λ,): for every label a bound of |<F, κ> - F_k| over E and over all atoms k that follow it, the end included."""
        rows, following, relative = self.system.rows, self.system.expected, self.system.relative
        weights, off = self.system.atom_weights
        scaled = weights * self._inverse_scale
        gram = scaled @ scaled.T
        mixed = following @ gram  # (Λ, J)
        own = np.einsum("cj,cj->c", mixed, following)
        size = np.abs(following).sum(axis=1) + 1.0
        lost = 8 * relative * float(np.abs(gram).max(initial=0.0)) * size**2
        _, label, atom = rows.at
        square = own[label] - 2 * mixed[label, atom] + gram[atom, atom]
        outside, at_end = self._outside
        single = self.radius * np.sqrt(np.maximum(square, 0.0) + lost[label]) + outside[label, atom]
        end = self.radius * np.sqrt(np.maximum(own, 0.0) + lost) + at_end
        found = np.where(rows.ends, end, 0.0)
        np.maximum.at(found, label, single)
        return np.asarray((found + size * off) * (1 + 16 * relative))

    def cell_roots(self) -> FloatArray:
        """(p,) sqrt( sum over the rows of a cell of x_i(f)^2 ) over a set without t'; inf for other sets."""
        system = self.system
        if self.inside.any():
            return np.full(system.counts.size, math.inf)
        form = Energy.of(system, np.ones_like(system.rows.count))
        outside, at_end = self._outside
        squares = (form.joint * outside**2).sum(axis=1) + form.ends * at_end**2
        ahead = np.sqrt(np.bincount(system.label_cell, squares, minlength=system.counts.size))
        _, off = system.atom_weights
        size = float(np.abs(system.expected).sum(axis=1).max(initial=0.0)) + 1.0
        own = self.slack if system.forecasts is None else 0.0
        found = system.tally.gamma * ahead + np.sqrt(system.counts) * (own + size * off)
        return np.asarray(found * (1 + 64 * system.relative))

    def growth(self, energy: Energy, direction: Direction) -> tuple[float, float, float, float]:
        """Of `support` and `root_energy`: what ϱ multiplies, and what stands beside it, for each of them."""
        one, rest = replace(self, radius=1.0, slack=np.zeros_like(self.slack)), replace(self, radius=0.0)
        beside = rest.root_energy(energy)
        inside = one.root_energy(energy) if self.inside.any() else 0.0
        slope = one._support(direction.weights, 0.0) if self.inside.any() else 0.0
        return slope, rest.support(direction), inside, beside

    def root_energy(self, energy: Energy) -> float:
        """An upper bound of sqrt( sum_i w_i x_i(f)^2 ) over E; x_i(f) = γ (<F, κ> - sum_j π_ij F_j), with t_c without forecasts.

        x_i is a mean of t_c + γ (<F, κ> - F_j) over the atoms that follow (F = 0 at the end), so by Jensen's inequality the
        sum is at most one over labels and atoms, `Energy`. Its root is at most that for t' plus that for t''.
        """
        weights, off = self.system.atom_weights
        gamma, relative = self.system.tally.gamma, self.system.relative
        inside = 0.0
        if self.radius > 0:
            key = self._inverse_scale.tobytes()
            if key not in energy.known:
                energy.known[key] = energy.largest(self._inverse_scale, weights, gamma, relative)
            inside = self.radius * math.sqrt(energy.known[key])
        outside, at_end = self._outside
        inner = float((energy.joint * outside**2).sum()) + float(energy.ends @ at_end**2)
        size = float(np.abs(energy.following).sum(axis=1).max(initial=0.0)) + 1.0
        beyond = math.sqrt(inner) + size * off * float(np.sqrt(energy.cells.sum()))
        own = float(np.sqrt(energy.cells @ self.slack**2)) if energy.own else 0.0
        return inflate((inside + own + gamma * beyond) * (1 + 64 * relative))


@dataclass(frozen=True, eq=False)
class Energy:
    """Weights w_i >= 0 of rows, added up over labels and atoms: of the quadratic form sum_i w_i x_i(f)^2."""

    following: FloatArray  # (Λ, J) κ
    joint: FloatArray  # (Λ, J) sum of w π
    cells: FloatArray  # (Λ,) sum of w
    ends: FloatArray  # (Λ,) sum of w (1 - sum_j π): weight of rows that nothing follows
    own: bool = True  # whether labels are cells, and t_c is a part of x_i
    known: dict[bytes, float] = field(default_factory=dict, repr=False)  # what `largest` has been, by its scale

    @staticmethod
    def of(system: System, weights: FloatArray) -> Energy:
        """`weights`: (B, Λ), one for all rows of a block and label."""
        rows = system.rows
        grow = 1 + rows.relative
        cells = (weights * rows.count).sum(axis=0) * grow
        joint = rows.over_pairs(weights, rows.mass) * grow
        # a difference: a block with small weights, where rows end, is lost in the rounding of the others
        ends = np.maximum(cells - joint.sum(axis=1), 0.0) + np.where(rows.ends, 8 * system.relative * cells, 0.0)
        return Energy(system.expected, joint, cells, ends, system.forecasts is None)

    @property
    def pairs(self) -> FloatArray:
        """(J,) weight of rows that an atom follows."""
        return np.asarray(self.joint.sum(axis=0))

    def largest(self, inverse_scale: FloatArray, weights: FloatArray, gamma: float, relative: float) -> float:
        """The largest sum_cj w_cj (t_c + γ ((P F)_c - F_j))^2 over |a t| <= 1, F = K t, rounded up.

        It is sum_c w_c t_c^2 + γ^2 sum_cj w_cj ((P F)_c - F_j)^2 + 2 γ sum_cj t_c (w_c P_cj - w_cj) F_j. The first is at most
        max w_c / a_c^2, the second the largest eigenvalue of Y^T S Y, Y = K / a, and the third the Frobenius norm of its
        matrix, which is small: it vanishes where all rows of a cell have the same weight. Y Y^T is written as L L^T + (an
        error), so that Y^T S Y and L^T S L have the same eigenvalues up to that error times |S|.
        """
        own = float((self.cells * inverse_scale**2).max(initial=0.0)) if self.own else 0.0
        scaled = weights * inverse_scale
        gram = scaled @ scaled.T
        values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
        factor = vectors * np.sqrt(np.maximum(values, 0.0))
        lost = norm(gram - factor @ factor.T) + relative * (norm(np.abs(scaled)) ** 2 + norm(factor) ** 2)
        weighted = self.cells[:, None] * self.following
        mixed = 0.0
        if self.own:
            uneven = (weighted - self.joint) * inverse_scale[:, None]
            off = relative * norm((weighted + self.joint) * inverse_scale[:, None])
            mixed = math.sqrt(norm(uneven @ factor) ** 2 + norm(uneven) ** 2 * lost)
            mixed += off * (norm(factor) + math.sqrt(lost))
        cross = self.following.T @ self.joint
        form = self.following.T @ weighted - cross - cross.T + np.diag(self.pairs)
        size = np.abs(self.following).T
        bound = size @ np.abs(weighted) + size @ self.joint + self.joint.T @ size.T + np.diag(self.pairs)
        inner = factor.T @ form @ factor
        error = 4 * relative * norm(factor) ** 2 * norm(bound) + lost * norm(bound)
        top, _, _ = largest_eigenvalue(0.5 * (inner + inner.T))
        return inflate((own + gamma**2 * (max(top, 0.0) + error) + 2 * gamma * mixed) * (1 + 64 * relative))
