"""Kernel sums with proved errors (section 11): c^T K c, K C, norms and products of rows, total variations.

`Sums` is what bounds ask for; `Reference` computes it from the definition. Faster implementations (`bondic.engines`) enclose the
same numbers, and whatever a sum is charged is charged here:

    | computed - exact | <= sum_terms sum_p [ m_p^2 relative + absolute + M_p^2 K_max ( 2 e_c + e_c^2 ) ],

m_p and M_p the sums of absolute weights of embedded column p after and before equal points are merged (cancellation must
not hide an error), e_c the relative error of the weights, of merging and of embedding them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from bondic.core.bounded import (
    TINY,
    EnclosedArray,
    Enclosure,
    FloatArray,
    IntArray,
    U,
    certified_sum,
    gamma,
    inflate,
    upper_sum,
)
from bondic.core.errors import InvalidInput, NumericalError
from bondic.core.kernels.base import check_elementary_functions
from bondic.core.kernels.normal_form import Term
from bondic.core.sums.measure import Measure, RowMeasures, Source, check_finite, merge_points

Progress = Callable[[float], None]
S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
T = TypeVar("T")

MAX_POINTS = 2_000_000
"""Distinct points of a total variation; a log with more of them has no use for a table."""
_CHUNK = 256
"""Points of rows whose kernel matrix is formed at once; a row with more points is a chunk of its own."""


class Valued(Protocol):
    """A function with certified values."""

    def values(self, points: FloatArray, sums: Sums) -> tuple[FloatArray, float]: ...


class Parted(Protocol[S_co]):
    """Rows of a log, part by part."""

    def batches(self) -> Iterator[S_co]: ...


@dataclass(frozen=True, eq=False)
class Share:
    """u_c^T K u_c for every column c: the sum of totals[:, c], off by at most relative * m_c^2 + absolute_c.

    m_c are the absolute weights of all points. Columns are taken as exact.
    """

    totals: FloatArray  # (parts, C)
    relative: float
    absolute: FloatArray | float = 0.0  # (C,)


def enclose(share: Share, squares: list[float]) -> list[Enclosure]:
    """One enclosure per group; `squares` holds sum_c m_c^2 of every group. Parts and columns are added exactly."""
    out, absolute = [], np.broadcast_to(np.asarray(share.absolute), share.totals.shape[1:])
    for square, columns in zip(squares, np.split(np.arange(share.totals.shape[1]), len(squares)), strict=True):
        value = certified_sum(np.ascontiguousarray(share.totals[:, columns]))
        spread = square * share.relative + float(absolute[columns].sum()) * (1 + columns.size * U)
        out.append(Enclosure(value.mid, inflate(value.rad + spread)))
    return out


@dataclass(frozen=True, eq=False)
class Charges:
    """What the weights of a sum are charged for, part by part of the points."""

    count: int  # points
    parts: int
    relative: float  # error of the weights, of merging and of embedding them
    given: FloatArray  # (G, slots) absolute weights, rounded up
    merged: FloatArray  # (G, slots) the same after equal points were merged
    sizes: FloatArray  # (terms,) largest kernel values

    @staticmethod
    def of(terms: tuple[Term, ...], batch: Measure) -> tuple[Charges, FloatArray, FloatArray]:
        """The charges, with distinct points and their weights (N, G, slots)."""
        points, weights, merging = batch.distinct()
        charges = Charges(
            batch.count,
            1,
            batch.error + merging + (batch.slots + 8) * U,
            np.array([masses(group) for group in batch.weights]),
            np.array([masses(weights[:, g]) for g in range(batch.groups)]),
            np.array([term.bounds(points, points)[0] for term in terms] if points.shape[0] else [0.0] * len(terms)),
        )
        return charges, points, weights

    def plus(self, other: Charges) -> Charges:
        """Of the points of both; sums of absolute weights are rounded once more (see `_squares`)."""
        return Charges(
            self.count + other.count,
            self.parts + other.parts,
            max(self.relative, other.relative),
            self.given + other.given,
            self.merged + other.merged,
            np.maximum(self.sizes, other.sizes),
        )

    def total(self, terms: tuple[Term, ...], shares: list[Share]) -> list[Enclosure]:
        """Terms added; weights that are off by a relative e move a square by (2 e + e^2) of its mass."""
        groups = len(self.given)
        totals, spread = [Enclosure(0.0)] * groups, 2 * self.relative + self.relative**2
        for term, size, share in zip(terms, self.sizes.tolist(), shares, strict=True):
            found = enclose(share, self._squares(self.merged, term))
            for g, (value, square) in enumerate(zip(found, self._squares(self.given, term), strict=True)):
                error = value.rad + square * size * spread + self.count * max(1.0, size) * TINY
                totals[g] = totals[g] + Enclosure(value.mid, inflate(error))
        return totals

    def _squares(self, masses: FloatArray, term: Term) -> list[float]:
        """sum_p ( sum_i sum_a |v_ia| |E_ap| )^2 for every group, rounded up; an embedding may cancel, its roundings do not."""
        columns = masses * (1 + 2 * (self.parts - 1) * U) @ np.abs(term.embedding)
        return [inflate(float(row @ row) * (1 + 1e-12)) for row in columns]


def masses(weights: FloatArray) -> FloatArray:
    """sum_i |v_ia| for every slot, rounded up; weights (N, slots)."""
    return np.array([upper_sum(np.abs(weights[:, slot])) for slot in range(weights.shape[1])])


def embedded(term: Term, weights: FloatArray) -> FloatArray:
    """Weights (N, G, slots) -> embedded columns (N, G p), group by group."""
    return np.ascontiguousarray(term.columns(weights)).reshape(weights.shape[0], -1)


@dataclass(frozen=True, eq=False)
class Crossed:
    """K(x, y) C: `values` (m, C), kernel values off by `error`, each entry the result of `roundings` additions."""

    values: FloatArray
    error: float
    roundings: int


class Sums(ABC):
    """Kernel sums; every implementation encloses the same numbers."""

    @abstractmethod
    def squares(self, terms: tuple[Term, ...], source: Source, progress: Progress | None = None) -> list[Enclosure]:
        """sum_{i,j,a,b} v_ia k((z_i, a), (z_j, b)) v_jb with its error for every weighting v of the source."""

    @abstractmethod
    def cross(self, term: Term, x: FloatArray, y: FloatArray, columns: FloatArray) -> Crossed:
        """K(x, y) C of one term."""

    def values(
        self, terms: tuple[Term, ...], x: FloatArray, y: FloatArray, weights: FloatArray
    ) -> tuple[FloatArray, float]:
        """f(x_i, a) = sum_j sum_b k((x_i, a), (y_j, b)) w_jb for every slot a: values (m, slots) and their error.

        The weights are taken as exact: they define the function.
        """
        check_finite(x, weights)
        check_finite(y, weights)
        check_elementary_functions()
        slots = weights.shape[1]
        values, error = np.zeros((x.shape[0], slots)), 0.0
        mass = masses(weights)
        for term in terms:
            size, value_error = term.bounds(x, y)
            part = self.cross(term, x, y, np.ascontiguousarray(term.columns(weights)))
            values = values + part.values @ term.embedding.T
            largest = float(np.abs(term.embedding).max())
            column_mass = float((mass @ np.abs(term.embedding)).sum()) * largest
            # every term is added to at most len(terms) others
            roundings = (part.roundings + 2 * slots + term.embedding.shape[1] + len(terms) + 16) * U
            underflow = (y.shape[0] + 16) * max(1.0, size) * max(1.0, largest) * TINY
            error += column_mass * (max(value_error, part.error) + size * roundings) + underflow
        return values, inflate(error * (1 + (len(terms) + 2) * U))

    def in_order(self, task: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
        """task(item) for every item, in their order; an implementation may work ahead."""
        return map(task, items)

    def over_rows(self, task: Callable[[S], T], rows: Parted[S]) -> Iterator[T]:
        """task(part) for every part of the rows, in their order; an implementation may work ahead, or in other processes."""
        return self.in_order(task, rows.batches())

    def together(self, count: int, dimension: int, slots: int) -> int:
        """How many weightings of so many points to sum at once: a few, all of which are held."""
        del count, dimension, slots
        return 4

    def total_variations(self, source: Source) -> list[Enclosure]:
        """sum_x |μ(x)| over distinct points and slots for every weighting: the dual norm of the largest deviation.

        Equal points are merged before absolute values are taken; points that differ in any bit of a coordinate count as
        different (except 0.0 and -0.0), which can only make the sum larger. Weights have the relative error of their batch,
        and every merge adds its own, both relative to the absolute weights before merging: cancellation hides no error.
        """
        groups, slots = source.groups, source.slots
        points, weights = np.zeros((0, source.dimension)), np.zeros((0, groups * slots))
        mass, relative, merges = np.zeros(groups), 0.0, 0.0
        for batch in source.batches():
            check_finite(batch.points, batch.weights)
            flat = batch.weights.transpose(1, 0, 2).reshape(-1, groups * slots)
            mass = np.array([inflate(old + upper_sum(np.abs(g))) for old, g in zip(mass, batch.weights, strict=True)])
            relative = max(relative, batch.error)
            both = np.concatenate([points, batch.points + 0.0]), np.concatenate([weights, flat])
            points, weights, error = merge_points(*both)
            merges += error
            if points.shape[0] > MAX_POINTS:
                raise InvalidInput(
                    f"More than {MAX_POINTS} distinct points: a table of values is too large for such a log. Use a class that "
                    "relates points to one another: a Ball of a kernel (categorical=False, --categorical none)."
                )
        out = []
        for mass_of, columns in zip(mass, np.split(weights, groups, axis=1), strict=True):
            total = certified_sum(np.ascontiguousarray(np.abs(columns)))
            # (1 + e)^merges of growth between merges is far below the factor 1.01
            spread = 1.01 * (relative + merges) * mass_of + columns.size * TINY
            out.append(Enclosure(total.mid, inflate(total.rad + spread)))
        return out

    def row_norms(self, terms: tuple[Term, ...], rows: RowMeasures) -> FloatArray:
        """Upper bounds of |D_i|, D_i = sum over the points j of row i and the slots a of w_ja k((z_j, a), .), (count,).

        With m_ip the absolute weights of embedded column p in row i and e the relative error of the weights, |D_i|^2 is off by
        at most  sum_terms sum_p m_ip^2 ( value error + K_max ( roundings u + 2 e + e^2 ) ).
        """
        check_elementary_functions()
        check_finite(rows.points, rows.weights)
        order = np.argsort(rows.rows, kind="stable")
        measures = RowMeasures(rows.points[order], rows.weights[order], rows.rows[order], rows.count, rows.error)
        slots, longest = measures.weights.shape[1], measures.longest()
        relative = rows.error + (slots + 8) * U
        mass = np.array([measures.per_row(np.abs(measures.weights[:, a])) for a in range(slots)]).T
        mass = mass * (1 + 2 * longest * U)
        total, spread = np.zeros(rows.count), np.zeros(rows.count)
        for term in terms if len(order) else ():
            total += measures.per_row(self._row_shares(term, measures))
            size, error = term.bounds(measures.points, measures.points)
            roundings = (2 * longest + term.embedding.shape[1] + len(terms) + 8) * U
            squares = np.sum((mass @ np.abs(term.embedding)) ** 2, axis=1)
            spread += squares * (error + size * (roundings + 2 * relative + relative**2))
            spread += longest * max(1.0, size) * TINY
        spread *= 1 + 4 * (slots + len(terms) + 16) * U
        if np.any(total < -spread) or not np.all(np.isfinite(total + spread)):
            worst = int(np.argmin(total + spread))
            raise NumericalError(
                f"The square of a norm came out as {total[worst]:.3g} at row {worst}, with an error bound of "
                f"{spread[worst]:.3g}: the kernel is not positive semi-definite, or its numbers are too large for float64."
            )
        squares = np.where(mass.any(axis=1), (total + spread) * (1 + 8 * U), 0.0)
        return np.asarray(np.nextafter(np.sqrt(squares) * (1 + 4 * U), np.inf) * (squares > 0))

    def _row_shares(self, term: Term, measures: RowMeasures) -> FloatArray:
        """sum_p u_jp sum_l k(z_j, z_l) u_lp over the points l of the same row, for every point j; points sorted by row."""
        columns, cuts = np.ascontiguousarray(term.columns(measures.weights)), _cuts(measures.rows)

        def chunk(k: int) -> FloatArray:
            part = slice(cuts[k], cuts[k + 1])
            points, rows, u = measures.points[part], measures.rows[part], columns[part]
            values = np.where(rows[:, None] == rows, term.block(points, points), 0.0)
            return np.asarray(np.sum(u * (values @ u), axis=1))

        return np.concatenate(list(self.in_order(chunk, range(len(cuts) - 1))))

    def row_products(self, function: Valued, measures: RowMeasures) -> tuple[FloatArray, FloatArray]:
        """<f, D_i> = sum_j sum_a w_ja f(z_j, a) and a bound of its error, (count,) each."""
        if not len(measures.rows):
            return np.zeros(measures.count), np.zeros(measures.count)
        values, error = function.values(measures.points, self)
        off = measures.error * (1 + 4 * U) * np.abs(measures.weights) + TINY
        each = (EnclosedArray(measures.weights, off) * EnclosedArray(values, error)).sum(axis=1)
        error = gamma(measures.longest())
        spread = measures.per_row(each.rad + error * np.abs(each.mid)) * (1 + 2 * error)
        return measures.per_row(each.mid), spread


def _cuts(rows: IntArray) -> list[int]:
    """Where chunks of whole rows begin, and the end."""
    ends = np.append(np.flatnonzero(np.diff(rows)) + 1, len(rows))
    cuts = [0]
    while cuts[-1] < len(rows):
        fitting = np.searchsorted(ends, cuts[-1] + _CHUNK, side="right") - 1
        following = np.searchsorted(ends, cuts[-1], side="right")
        cuts.append(int(ends[max(fitting, following)]))
    return cuts
