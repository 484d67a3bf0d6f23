"""What the sets of the past leave of e = q* - q̂, in ordinary floats: the fixed point of (14)-(18) on some rows of each block.

The evaluation does this with outward rounding, on all rows and all landmarks. A proposal may not see coordinates of later
landmarks, and needs no bounds: here are the pilot's coordinates, and at most 500 rows of every block, which stand for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_solve, solve_triangular

from bondic.data.spread import spread_rows
from bondic.search.sequential.columns import bets
from bondic.search.sequential._types import Block
from bondic.search.sequential.past import Past
from bondic.search.sequential.sample import Sample, sample_of

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_KEPT = 500
_ROUNDS = 20
_TAUS = (0.5, 0.9, 0.98)
_BOTH = (0.6, 0.35)
"""Shares of the newest cylinder and of the one before it in the set that uses both."""


@dataclass(frozen=True, eq=False)
class Cylinder:
    """|h + G e| <= eps (17)."""

    matrix: FloatArray  # (p, m)
    offset: FloatArray  # (p,)
    radius: float


@dataclass(frozen=True, eq=False)
class Set:
    """(e - ē)' P (e - ē) <= rho^2 (18)."""

    factor: FloatArray  # (m, m) lower, P = factor factor'
    mean: FloatArray  # (m,)
    square: float  # rho^2
    ball: float  # what P is outside of the landmarks

    @staticmethod
    def of(radius: float, size: int, cylinders: tuple[Cylinder, ...] = (), shares: tuple[float, ...] = ()) -> Set:
        ball = (1.0 - sum(shares)) / radius**2
        matrix, right, square = ball * np.eye(size), np.zeros(size), 1.0
        for cylinder, share in zip(cylinders, shares, strict=True):
            weight = share / cylinder.radius**2
            matrix += weight * cylinder.matrix.T @ cylinder.matrix
            right -= weight * cylinder.matrix.T @ cylinder.offset
            square -= weight * float(cylinder.offset @ cylinder.offset)
        factor = np.linalg.cholesky(matrix)
        mean = np.asarray(cho_solve((factor, True), right))
        return Set(factor, mean, max(square + float(mean @ right), 0.0), ball)

    def widths(self, rows: FloatArray, beyond: FloatArray | float = 0.0) -> FloatArray:
        """sup <e - ē, f> for rows f (k, m) whose left-over norms are `beyond`."""
        turned = solve_triangular(self.factor, rows.T, lower=True, check_finite=False)
        squares = np.einsum("ij,ij->j", turned, turned) + beyond**2 / self.ball
        return np.asarray(np.sqrt(self.square * squares))


@dataclass(eq=False)
class Kept:
    """Rows that stand for `weight` rows each."""

    index: IntArray  # (k,) position in the past
    weight: FloatArray  # (k,)
    size: FloatArray  # (k,) lambda_i |φ_i|
    sample: Sample
    low: FloatArray  # (k,) a + gamma <e, D> is at least this
    high: FloatArray  # (k,)

    def largest(self) -> FloatArray:
        """U_i (14)."""
        return np.asarray(np.minimum(self.sample.width, np.maximum(np.abs(self.low), np.abs(self.high))))


@dataclass(eq=False)
class Outlook:
    """The sets so far; `absorb` adds the rows of a finished block."""

    size: int
    radius: float
    gamma: float
    log_term: float  # log(2 / delta_1)
    certified: int = 0
    kept: Kept | None = None
    cylinder: Cylinder | None = None
    best: Set = field(init=False)
    _matrix: FloatArray = field(init=False)
    _offset: FloatArray = field(init=False)
    _total: float = 0.0

    def __post_init__(self) -> None:
        self.best = Set.of(self.radius, self.size)
        self._matrix, self._offset = np.zeros((self.size, self.size)), np.zeros(self.size)

    def ball_deviations(self, sample: Sample) -> FloatArray:
        """U_i over the whole ball."""
        sizes = np.sqrt(np.einsum("ij,ij->i", sample.apart, sample.apart) + sample.beyond**2)
        return np.asarray(np.minimum(sample.width, np.abs(sample.miss) + self.gamma * self.radius * sizes))

    def absorb(self, past: Past, first: int, block: Block) -> None:
        """The rows first.. of the past were those of this block."""
        rows = past.rows.cut(slice(first, None))
        if not len(rows):
            return
        found = sample_of(rows, block.model, self.gamma)
        rates, features = bets(block, found)
        bet = rates[:, None] * features
        self._matrix += bet.T @ (rows.coordinates - self.gamma * rows.following)
        self._offset += bet.T @ (rows.values - rows.targets)
        self._total += float(rates.sum())
        self.certified += len(rows)
        self._keep(found, np.linalg.norm(bet, axis=1), first)
        self._settle()

    def _keep(self, found: Sample, sizes: FloatArray, first: int) -> None:
        chosen = spread_rows(len(found), _KEPT)
        part = found.cut(chosen)
        weight = np.full(chosen.size, len(found) / chosen.size)
        radius = self.gamma * self.radius * np.sqrt(np.sum(part.apart**2, axis=1) + part.beyond**2)
        new = Kept(first + chosen, weight, sizes[chosen], part, part.miss - radius, part.miss + radius)
        self._sharpen(new, self.best)
        self.kept = new if self.kept is None else _joined(self.kept, new)

    def _sharpen(self, rows: Kept, by: Set) -> None:
        middle = rows.sample.miss + self.gamma * rows.sample.apart @ by.mean
        width = self.gamma * by.widths(rows.sample.apart, rows.sample.beyond)
        rows.low, rows.high = np.maximum(rows.low, middle - width), np.minimum(rows.high, middle + width)

    def _settle(self) -> None:
        """Rounds of (14), (16), (17), (18) until the radius of the cylinder falls by less than half a per cent."""
        assert self.kept is not None
        matrix, offset, before = self._matrix / self._total, self._offset / self._total, self.cylinder
        sets, price = [self.best], np.inf
        for turn in range(_ROUNDS):
            new, pick = self._price(self.kept, sets)
            if turn:
                self.best = sets[pick]
            if not new < 0.995 * price:
                break
            price = new
            self.cylinder = Cylinder(matrix, offset, price / self._total)
            sets = [Set.of(self.radius, self.size, (self.cylinder,), (tau,)) for tau in _TAUS]
            if before is not None:
                sets.append(Set.of(self.radius, self.size, (self.cylinder, before), _BOTH))
            for one in sets:
                self._sharpen(self.kept, one)

    def _price(self, rows: Kept, sets: list[Set]) -> tuple[float, int]:
        """log(2/delta_1) + sum g(-lambda |φ| |Delta|) (16): row by row, or jointly over one set, whichever is less."""
        bet = np.minimum(rows.size * rows.largest(), 0.999)
        alone = float(rows.weight @ _loss(bet))
        weights = rows.weight * rows.size**2 * _curvature(bet)
        joint = [_worst(one, weights, rows.sample, self.gamma) for one in sets]
        pick = int(np.argmin(joint))
        return self.log_term + min(alone, joint[pick]), pick


def _joined(old: Kept, new: Kept) -> Kept:
    columns = {
        name: np.concatenate([getattr(old, name), getattr(new, name)])
        for name in ("index", "weight", "size", "low", "high")
    }
    return Kept(sample=Sample.join(old.sample, new.sample), **columns)


def _loss(bet: FloatArray) -> FloatArray:
    """g(-u)."""
    return np.asarray(-bet - np.log1p(-bet))


def _curvature(bet: FloatArray) -> FloatArray:
    """g(-u) / u^2."""
    small = bet < 1e-3
    safe = np.where(small, 0.5, bet)
    return np.where(small, 0.5 + bet / 3, _loss(safe) / safe**2)


def _worst(one: Set, weights: FloatArray, rows: Sample, gamma: float) -> float:
    """max over e in the set of sum_i w_i (a_i + gamma <e, D_i>)^2: a trust region, nu + b'(nu - M)^-1 b at the best nu."""
    apart = gamma * rows.apart
    at_mean = rows.miss + apart @ one.mean
    turned = solve_triangular(one.factor, (apart * np.sqrt(weights)[:, None]).T, lower=True, check_finite=False)
    matrix = one.square * (turned @ turned.T)
    slope = np.sqrt(one.square) * (turned @ (np.sqrt(weights) * at_mean))
    outside = one.square / one.ball * float(weights @ (gamma * rows.beyond) ** 2)
    return float(weights @ at_mean**2) + _trust_region(matrix, slope) + outside


def _trust_region(matrix: FloatArray, slope: FloatArray) -> float:
    """max over |z| <= 1 of z'Mz + 2 b'z, M >= 0."""
    values, vectors = np.linalg.eigh(matrix)
    squares = (vectors.T @ slope) ** 2
    top = max(float(values[-1]), 0.0)
    low, high = top * (1 + 1e-9) + 1e-300, top + float(np.sqrt(squares.sum())) + 1e-300
    for _ in range(60):
        middle = 0.5 * (low + high)
        if np.sum(squares / (middle - values) ** 2) > 1:
            low = middle
        else:
            high = middle
    return float(high + np.sum(squares / (high - values))) if high > values[-1] else high
