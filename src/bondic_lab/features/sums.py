"""Rows as sums over features: all that the bound on features needs of a log, in memory that does not grow with it.

q* = q̂ + <θ, φ> + ζ with θ fixed before the rows, |ζ(x)| <= β s(x), s known. With a reference b for θ, f = θ - b, and
φ'_i, s'_i the policy's means at s'_i (0 after an end), T_i = φ_i - γ φ'_i, U_i = u_i - γ φ'_i,

    Z_i = R_i + <f, T_i> + ζ(x_i) - γ ζ'_i,     R_i = <b, T_i> - o_i,           o_i = r_i + γ V̂(s'_i) - q̂(x_i),
    Ŷ_i = clip( q̂(x_i) + ô_i + <θ, u_i> ),      D_i = ô_i - o_i + <b, U_i>,     ô_i, u_i known before the row,

and -Δ_i = D_i + <f, U_i> - γ ζ'_i before the clip. Sums of a_i^2 (D_i + <f, U_i>)^2 are quadratic forms in f, exactly. They
are added up by classes of rows that lose bets of similar size, so that each class has its own price g(-y)/y^2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.betting import MAX_BET
from bondic.core.bounded import U, norm, row_norms
from bondic.core.bounded import gamma as sum_error
from bondic.core.errors import InvalidInput, NumericalError

FloatArray = npt.NDArray[np.float64]

_EDGES = np.array([0.02, 0.05, 0.1, 0.2, 0.4, 0.7])
"""Lost bets at which classes of prices end: any give a bound."""


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Some rows, in order. Everything but `outcome`, `following` and `next_scale` is known before the row."""

    outcome: FloatArray  # (n,) o_i
    following: FloatArray  # (n, D) φ'_i
    next_scale: FloatArray  # (n,) s'_i
    value: FloatArray  # (n,) q̂(x_i)
    features: FloatArray  # (n, D) φ_i
    scale: FloatArray  # (n,) s(x_i)
    expected: FloatArray  # (n,) ô_i
    forecast: FloatArray  # (n, D) u_i
    instruments: FloatArray  # (n, m) χ_i
    weights: FloatArray  # (n, E) v_i of every end
    floors: FloatArray  # (n, E) Ŷ_i of an end is kept above it where v_i > 0, below it where v_i < 0
    size: float  # max |r_i| + |V̂(s'_i)| + |q̂(x_i)|: what rounding errors of o_i are measured by

    def __post_init__(self) -> None:
        n, columns = self.outcome.size, {"following": self.features, "forecast": self.features, "floors": self.weights}
        for name in ("following", "features", "forecast", "instruments", "weights", "floors"):
            one = getattr(self, name)
            if one.ndim != 2 or one.shape != (n, columns.get(name, one).shape[1]) or not np.all(np.isfinite(one)):
                raise InvalidInput(f"`{name}` is a finite matrix, with a row for every row of the log.")
        for name in ("outcome", "next_scale", "value", "scale", "expected"):
            if getattr(self, name).shape != (n,) or not np.all(np.isfinite(getattr(self, name))):
                raise InvalidInput(f"`{name}` is a finite number for every row of the log.")
        if not (np.all(self.scale >= 0) and np.all(self.next_scale >= 0) and 0 <= self.size < np.inf):
            raise InvalidInput("What an allowance multiplies is at least 0.")


@dataclass(frozen=True)
class Range:
    """What holds whatever the log says: the range of Y."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not -np.inf < self.low < self.high < np.inf:
            raise InvalidInput("A value range is two finite numbers, the smaller first.")

    @property
    def width(self) -> float:
        return self.high - self.low


@dataclass(frozen=True, eq=False)
class EllipsoidShape:
    """An ellipsoid { A z : |z| <= k }, A about (H^T H + λ)^(-1/2). It may come from anywhere: what it holds is computed."""

    matrix: FloatArray  # (D, D) A
    ridge: float  # λ
    guess: float  # about the k that will be: classes and floors are looked at there

    def __post_init__(self) -> None:
        fine = self.matrix.ndim == 2 and self.matrix.shape[0] == self.matrix.shape[1]
        if not (fine and np.all(np.isfinite(self.matrix)) and 0 <= self.ridge < np.inf and 0 <= self.guess < np.inf):
            raise InvalidInput("The shape of an ellipsoid is a finite square matrix, its ridge is at least 0.")


@dataclass(frozen=True, eq=False)
class WeightedSums:
    """Sums with weights a_i^2 over classes of rows, and the largest bets in them; a_i is v_i, or r |χ_i|."""

    mass: FloatArray  # (C,) sum a^2
    square: FloatArray  # (C,) sum a^2 D^2
    cross: FloatArray  # (C, D) sum a^2 D U
    form: FloatArray  # (C, D, D) sum a^2 U U^T
    ahead: FloatArray  # (C,) sum a^2 s'^2
    cross_size: FloatArray  # (C,) sum a^2 |D| |U|
    form_size: FloatArray  # (C,) sum a^2 |U|^2
    top: FloatArray  # (C,) max |a|
    most: FloatArray  # (C,) max of |a| times the range on the losing side
    lost: FloatArray  # (C,) max of what is lost at the reference: |a D|, or -v D
    moved: FloatArray  # (C, J) max |a| |A_j^T U|
    further: FloatArray  # (C,) max |a| s'
    over: FloatArray  # (C, J) sum of a^2 times the square of how far floors can move centers, at the guess of k
    shifted: FloatArray  # (C, J) sum a^2 |A_j^T u|^2 over rows with floors

    @staticmethod
    def empty(dimension: int, shapes: int) -> WeightedSums:
        classes = _EDGES.size + 1
        sizes: dict[str, tuple[int, ...]] = dict.fromkeys((field.name for field in fields(WeightedSums)), (classes,))
        sizes["cross"] = (classes, dimension)
        sizes |= {"form": (classes, dimension, dimension)} | dict.fromkeys(
            ("moved", "over", "shifted"), (classes, shapes)
        )
        return WeightedSums(**{name: np.zeros(size) for name, size in sizes.items()})

    def add(self, columns: _Columns, bets: _Bets, guesses: FloatArray) -> None:
        """`guesses`: (J,) of k."""
        moved = (columns.moved * guesses).min(axis=1, initial=1e300)
        place = np.searchsorted(_EDGES, bets.lost + bets.sizes * moved)
        for c in np.unique(place):
            here = np.flatnonzero(place == c)
            rows, own = _take(columns, here), _take(bets, here)
            a = own.sizes**2
            weighted = rows.moves * a[:, None]
            self.mass[c] += a.sum()
            self.square[c] += a @ rows.deviation**2
            self.cross[c] += rows.deviation @ weighted
            self.form[c] += rows.moves.T @ weighted
            self.ahead[c] += a @ rows.ahead**2
            self.cross_size[c] += a @ (np.abs(rows.deviation) * rows.length)
            self.form_size[c] += a @ rows.length**2
            self.top[c] = max(self.top[c], own.sizes.max())
            self.most[c] = max(self.most[c], (own.sizes * own.room).max())
            self.lost[c] = max(self.lost[c], own.lost.max())
            self.further[c] = max(self.further[c], (own.sizes * rows.ahead).max())
            self.moved[c] = np.maximum(self.moved[c], (own.sizes[:, None] * rows.moved).max(axis=0))
            shifted = np.where(own.under > -np.inf, own.sizes, 0.0)[:, None] * rows.shifted
            self.shifted[c] += (shifted**2).sum(axis=0)
            self.over[c] += (np.maximum(own.under[:, None] + shifted * guesses, 0.0) ** 2).sum(axis=0)


@dataclass(frozen=True, eq=False)
class _Columns:
    """What weighings need of rows."""

    deviation: FloatArray  # (n,) D_i
    moves: FloatArray  # (n, D) U_i
    length: FloatArray  # (n,) a bound of |U_i|, and of what its rounding is measured by
    moved: FloatArray  # (n, J) |A_j^T U_i|
    shifted: FloatArray  # (n, J) |A_j^T u_i|
    ahead: FloatArray  # (n,) s'_i


@dataclass(frozen=True, eq=False)
class _Bets:
    """Bets of the vector event, or of one end."""

    sizes: FloatArray  # (n,) |a_i|
    room: FloatArray  # (n,) the range on the losing side
    lost: FloatArray  # (n,) at the reference
    under: FloatArray  # (n,) |a_i| times how far the center is on the wrong side of its floor; -inf: there is none


def _take(table: Any, here: npt.NDArray[np.intp]) -> Any:
    return type(table)(*(getattr(table, field.name)[here] for field in fields(table)))


@dataclass(frozen=True, eq=False)
class FeatureSums:
    """H = sum χ T^T, g = sum χ R, and for every end sum v R, sum v T, beside what their errors are measured by."""

    matrix: FloatArray  # (m, D) H
    matrix_size: float  # sum |χ| |T|
    gram: FloatArray  # (m, m) sum χ χ^T
    gram_size: float  # sum |χ|^2
    offset: FloatArray  # (m,) g
    offset_size: float  # sum |χ| |R|
    size: float  # sum |χ|
    scale: float  # sum |χ| (s + γ s')
    scale_square: float  # sum (s + γ s')^2
    end_residual: FloatArray  # (E,) sum v R
    end_residual_size: FloatArray  # (E,) sum |v| |R|
    end_step: FloatArray  # (E, D) sum v T
    end_step_size: FloatArray  # (E,) sum |v| |T|
    end_size: FloatArray  # (E,) sum |v|
    end_scale: FloatArray  # (E,) sum |v| (s + γ s')

    @staticmethod
    def of(part: FeatureRows, gamma: float, residual: FloatArray, step: FloatArray, length: FloatArray) -> FeatureSums:
        chi, scale, v = part.instruments, part.scale + gamma * part.next_scale, part.weights
        size, absolute, weights = row_norms(chi), np.abs(residual), np.abs(v)
        return FeatureSums(
            chi.T @ step, float(size @ length), chi.T @ chi, float(size @ size), residual @ chi,
            float(size @ absolute), float(size.sum()), float(size @ scale), float(scale @ scale), residual @ v,
            absolute @ weights, v.T @ step, length @ weights, weights.sum(axis=0), scale @ weights,
        )  # fmt: skip

    def __add__(self, other: FeatureSums) -> FeatureSums:
        return FeatureSums(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))


@dataclass(frozen=True, eq=False)
class FeatureTally:
    """Sums over rows; see the head of this file."""

    gamma: float
    reference: FloatArray  # (D,) b
    limits: Range
    largest_rate: float  # r_1
    shapes: tuple[EllipsoidShape, ...]
    sums: FeatureSums
    vector: WeightedSums  # a_i = r_1 |χ_i|
    ends: tuple[WeightedSums, ...]  # a_i = v_i
    terms: int  # a bound of the number of terms that are added one after the other
    error: float  # a bound of the error of every R, D, q̂ + ô + <b, u>
    length: float  # max |T_i|, |U_i|, |u_i|, as rounding needs it

    @cached_property
    def relative(self) -> float:
        """A bound of the relative error of a sum, measured by the sum of absolute values."""
        return 8.0 * (self.terms + self.reference.size + 64) * U


def tally_features(
    parts: Iterable[FeatureRows],
    gamma: float,
    reference: FloatArray,
    limits: Range,
    largest_rate: float,
    shapes: Sequence[EllipsoidShape],
) -> FeatureTally:
    """Add up all rows, part by part in their order. The caps of all bets are checked here: they use the value range alone."""
    if not (np.all(np.isfinite(reference)) and 0 <= gamma <= 1 and 0 < largest_rate < np.inf):
        raise InvalidInput("A tally of features has a finite reference, a discount in [0, 1] and a positive rate.")
    sums: FeatureSums | None = None
    weighings = list[WeightedSums]()
    count, longest, size, length = 0, 0, 0.0, 0.0
    for part in parts:
        columns, step, step_length, center = _columns(part, gamma, reference, shapes)
        found = FeatureSums.of(part, gamma, step @ reference - part.outcome, step, step_length)
        sums = found if sums is None else sums + found
        bets = _all_bets(part, limits, largest_rate, columns, center)
        weighings = weighings or [WeightedSums.empty(reference.size, len(shapes)) for _ in bets]
        for weighing, own in zip(weighings, bets, strict=True):
            weighing.add(columns, own, np.array([shape.guess for shape in shapes]))
        count, longest = count + 1, max(longest, part.outcome.size)
        size = max(size, part.size + float((np.abs(part.expected) + np.abs(part.value)).max(initial=0.0)))
        length = max(length, float(step_length.max(initial=0.0)), float(columns.length.max(initial=0.0)))
    if sums is None:
        raise InvalidInput("There is no row.")
    error = 16 * (reference.size + 32) * U * (norm(reference) * length + size)
    return FeatureTally(
        gamma, reference, limits, largest_rate, tuple(shapes), sums, weighings[0], tuple(weighings[1:]),
        count + longest, error, length,
    )  # fmt: skip


def _columns(
    part: FeatureRows, gamma: float, reference: FloatArray, shapes: Sequence[EllipsoidShape]
) -> tuple[_Columns, FloatArray, FloatArray, FloatArray]:
    """Columns for weighings; T_i, its length, and q̂ + ô + <b, u>."""
    ahead = gamma * part.following
    step, moves = part.features - ahead, part.forecast - ahead
    behind, own, predicted = row_norms(ahead), row_norms(part.features), row_norms(part.forecast)
    lost, none = sum_error(reference.size + 4), np.zeros((part.outcome.size, 0))
    moved, shifted = [none], [none]
    for shape in shapes:
        off = lost * norm(shape.matrix)
        moved.append((row_norms(moves @ shape.matrix) + off * (predicted + behind))[:, None])
        shifted.append((row_norms(part.forecast @ shape.matrix) + off * predicted)[:, None])
    both = np.hstack(moved), np.hstack(shifted)
    deviation = part.expected - part.outcome + moves @ reference
    columns = _Columns(deviation, moves, predicted + behind, *both, part.next_scale)
    return columns, step, own + behind, part.value + part.expected + part.forecast @ reference


def _all_bets(part: FeatureRows, limits: Range, rate: float, columns: _Columns, center: FloatArray) -> list[_Bets]:
    """Of the vector event, then of every end: r |χ_i| B < 1, and |v_i| times the range beyond the floor of Ŷ_i is below 1."""
    sizes, whole = rate * row_norms(part.instruments), np.full(part.outcome.size, limits.width)
    found = [_Bets(sizes, whole, sizes * np.abs(columns.deviation), np.full(sizes.size, -np.inf))]
    for v, floor in zip(part.weights.T, part.floors.T, strict=True):
        end = np.clip(floor, limits.low, limits.high)
        room = np.where(v > 0, limits.high - end, end - limits.low)
        under = np.where(room < limits.width, v * (floor - center), -np.inf)  # at an end of the range it is no floor
        found.append(_Bets(np.abs(v), room, -v * columns.deviation, under))
    if not all(np.all(bets.sizes * bets.room <= MAX_BET) for bets in found):
        raise NumericalError("A bet is too large for the value range.")
    return found
