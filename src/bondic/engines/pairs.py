"""Pair engine: all pairs, compiled, symmetric, in tiles, threads outside a serial kernel.

    k(x, y) = 2^-( squares + absolute differences + lengths rho ) * polynomials in rho * dot products * [labels equal]

A recipe names the segments of a point's coordinates and what each adds; module products writes it. Points with scaled
coordinates that are not too large take a shorter route (`NEAR`), in which differences need no scaling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import FloatArray, U
from bondic.core.sums.forms import Progress
from bondic.engines.compiled import compiled, helper
from bondic.engines.exponential import power_of_two
from bondic.engines.lanes import LANES, NARROW, absolute, accumulate, load, root, smaller, splat, total, where_equal
from bondic.engines.power import LARGEST
from bondic.engines.recipes import (
    FEATURES,
    GAUSSIAN,
    HALF_LOG2E,
    LABEL,
    LAPLACE,
    LOG2E,
    MATERN_3,
    MATERN_5,
    NEAR,
    RHO_LARGEST,
    Recipe,
)
from bondic.engines.threads import Threads

IntArray = npt.NDArray[np.int64]

ALL_CORES = Threads()

TILE = 256
_BATCH = 64  # tiles per call of the compiled part
GROUP = 8  # rows that meet a chunk while it is in the first-level cache; even

_NEAR_RADIUS = 15.4  # (2 * 15.4)^2 < LARGEST: nothing has to be cut
_NEAR_COST = 5.8
"""Scaled and centered coordinates of norm R cost 5.8 R U of a kernel value (README.md, Lemma 17a)."""
_CHAIN = 40
"""Roundings of one product u_i k_ij u_j besides the sum over rows: 32 + 3 in a row of a tile, 2 products, and some."""


def sum_error(count: int) -> float:
    """Twice the side of a tile: more than the chain of additions in a tile; tile totals are summed exactly.

    What the chain leaves of it pays for the coordinates of near points.
    """
    return (2 * min(TILE, count) + 8) * U


PAIR = 9.0
"""A pair costs this and 1 more per weight column; the unit is about 0.09 ns of a 2.8 GHz core (benchmarks/pairs.py)."""


def pair_cost(count: int, columns: int) -> float:
    """All pairs, in that unit; measured by benchmarks/estimate.py and benchmarks/pairs.py."""
    return 0.5 * count * count * (PAIR + columns)


# ------------------------------------------------------------------------------------------------- compiled part


@helper(forceinline=True)
def _near_two(x, row, next_row, y, start, axes):  # type: ignore[no-untyped-def]
    """2^-|x - y|^2 for two points x, which share every load of y; squares at most LARGEST."""
    one, two = splat(0.0), splat(0.0)
    for axis in range(axes):
        other = load(y, start + axis * LANES)
        difference = splat(x[row + axis]) - other
        one = one - difference * difference
        difference = splat(x[next_row + axis]) - other
        two = two - difference * difference
    return power_of_two(one), power_of_two(two)


@helper(forceinline=True)
def _product(x, row, y, start, kinds, ends, scales):  # type: ignore[no-untyped-def]
    """The kernel of a recipe between one point x and LANES points y."""
    exponent, factor, begin = splat(0.0), splat(1.0), 0
    for s in range(kinds.size):
        kind, end = kinds[s], ends[s]
        if kind == LABEL:
            factor = where_equal(splat(x[row + begin]), load(y, start + begin * LANES), factor)
        elif kind == FEATURES:
            dot = splat(0.0)
            for axis in range(begin, end):
                dot = dot + splat(x[row + axis]) * load(y, start + axis * LANES)
            factor = factor * dot
        elif kind == LAPLACE:
            for axis in range(begin, end):
                difference = absolute(splat(x[row + axis]) - load(y, start + axis * LANES))
                exponent = exponent + difference * splat(scales[axis])
        else:
            squares = splat(0.0)
            for axis in range(begin, end):
                difference = (splat(x[row + axis]) - load(y, start + axis * LANES)) * splat(scales[axis])
                squares = squares + difference * difference
            if kind == GAUSSIAN:
                exponent = exponent + squares
            else:
                rho = smaller(root(squares), splat(RHO_LARGEST))
                exponent = exponent + rho * splat(LOG2E)
                if kind == MATERN_3:
                    factor = factor * (splat(1.0) + rho)
                elif kind == MATERN_5:
                    factor = factor * (splat(1.0) + rho * (splat(1.0) + rho * splat(1.0 / 3.0)))
        begin = end
    return factor * power_of_two(splat(0.0) - smaller(exponent, splat(LARGEST)))


@compiled
def _near_sums(x, y, columns, recipe, top, bottom, left, right, sums, out):  # type: ignore[no-untyped-def]
    """out[t, p, i - top] = sum_j k(x_i, y_j) u_pj over the t-th tile of the chunks left..right-1; a recipe [NEAR]."""
    scales = recipe[2]
    axes, width = scales.size, out.shape[1]
    for first in range(left, right, TILE // LANES):
        tile = (first - left) * LANES // TILE
        for begin in range(top, bottom, GROUP):
            end = min(begin + GROUP, bottom)
            sums[:] = 0.0
            for chunk in range(first, min(first + TILE // LANES, right)):
                for i in range(begin, end, 2):
                    # the last of an odd number of rows is its own partner; that sum is not used
                    rows = i * axes, min(i + 1, end - 1) * axes
                    one, two = _near_two(x, rows[0], rows[1], y, chunk * axes * LANES, axes)
                    for p in range(width):
                        place, column = ((i - begin) * width + p) * NARROW, load(columns, (chunk * width + p) * LANES)
                        accumulate(sums, place, one * column)
                        accumulate(sums, place + width * NARROW, two * column)
            for i in range(begin, end):
                for p in range(width):
                    out[tile, p, i - top] = total(sums, ((i - begin) * width + p) * NARROW)


@compiled
def product_sums(x, y, columns, recipe, top, bottom, left, right, sums, out):  # type: ignore[no-untyped-def]
    """The same for any recipe."""
    kinds, ends, scales = recipe
    axes, width = scales.size, out.shape[1]
    for first in range(left, right, TILE // LANES):
        tile = (first - left) * LANES // TILE
        for begin in range(top, bottom, GROUP):
            end = min(begin + GROUP, bottom)
            sums[:] = 0.0
            for chunk in range(first, min(first + TILE // LANES, right)):
                for i in range(begin, end):
                    values = _product(x, i * axes, y, chunk * axes * LANES, kinds, ends, scales)
                    for p in range(width):
                        place = ((i - begin) * width + p) * NARROW
                        accumulate(sums, place, values * load(columns, (chunk * width + p) * LANES))
            for i in range(begin, end):
                for p in range(width):
                    out[tile, p, i - top] = total(sums, ((i - begin) * width + p) * NARROW)


# -------------------------------------------------------------------------------------------------- around it


def _aligned(size: int) -> FloatArray:
    """Zeros that begin on a cache line: vectors across two lines cost twice."""
    room = np.zeros(size + 8)
    skip = -(room.ctypes.data // 8) % 8
    return room[skip : skip + size]


def _chunked(rows: FloatArray, *, pad: bool) -> FloatArray:
    """(n, a) -> (chunks, a, LANES), flat, on a cache line; filled up with the last row (`pad`) or with zeros."""
    count, axes = rows.shape
    chunks = -(-count // LANES)
    flat = _aligned(chunks * axes * LANES)
    filled = np.zeros((chunks * LANES, axes))
    filled[:count] = rows
    if pad and count:
        filled[count:] = rows[-1]
    flat.reshape(chunks, axes, LANES)[...] = filled.reshape(chunks, LANES, axes).transpose(0, 2, 1)
    return flat


@dataclass(frozen=True, eq=False)
class PairOperands:
    """What the compiled part wants: points x row by row, points y and weight columns in chunks."""

    x: FloatArray
    y: FloatArray
    columns: FloatArray
    recipe: Recipe
    width: int

    @staticmethod
    def of(rows_x: FloatArray, rows_y: FloatArray, recipe: Recipe, columns: FloatArray) -> PairOperands:
        x, y = np.ascontiguousarray(rows_x).reshape(-1), _chunked(rows_y, pad=True)
        return PairOperands(x, y, _chunked(columns, pad=False), recipe, columns.shape[1])

    def sums(self, rows: tuple[int, int], low: int, high: int) -> FloatArray:
        """sum_j k(x_i, y_j) u_jp over every tile of low <= j < high, low on the edge of a tile: (tiles, p, rows)."""
        recipe = self.recipe
        out = np.empty((-(-(high - low) // TILE), self.width, rows[1] - rows[0]))
        compiled = _near_sums if recipe.kinds.size == 1 and recipe.kinds[0] == NEAR else product_sums
        parts, place = (recipe.kinds, recipe.ends, recipe.scales), (low // LANES, -(-high // LANES))
        compiled(self.x, self.y, self.columns, parts, *rows, *place, _aligned(GROUP * self.width * NARROW), out)
        return out


def symmetric(
    rows: FloatArray,
    recipe: Recipe,
    columns: FloatArray,
    stops: IntArray | None = None,
    *,
    executor: Threads = ALL_CORES,
    progress: Progress | None = None,
) -> FloatArray:
    """Totals of u_ip k(z_i, z_j) u_jp over tiles, off-diagonal ones twice: (tiles, columns); rows (n, axes).

    Point i has no partner from stops[i] on (increasing); without `stops` every pair counts.
    """
    count, operands = rows.shape[0], PairOperands.of(rows, rows, recipe, columns)
    by_column = np.ascontiguousarray(columns.T)

    def end(top: int) -> int:
        return count if stops is None else int(stops[min(top + TILE, count) - 1])

    def strip(top: int) -> FloatArray:
        """One row of tiles from the diagonal on."""
        bottom, parts = min(top + TILE, count), []
        for low in range(top, end(top), _BATCH * TILE):
            sums = operands.sums((top, bottom), low, min(low + _BATCH * TILE, end(top)))
            parts.append(np.sum(sums * by_column[:, top:bottom], axis=2))
        totals = np.concatenate(parts)
        totals[1:] *= 2.0
        return totals

    tops = range(0, count, TILE)
    done, work = 0, sum(end(top) - top for top in tops)

    def report(top: int) -> None:
        nonlocal done
        done += end(top) - top
        if progress is not None:
            progress(done / work)

    return np.concatenate([np.zeros((0, columns.shape[1])), *executor.run(strip, tops, report)])


def crossed(
    rows_x: FloatArray,
    rows_y: FloatArray,
    recipe: Recipe,
    columns: FloatArray,
    limits: tuple[IntArray, IntArray] | None = None,
    *,
    executor: Threads = ALL_CORES,
) -> FloatArray:
    """K(x, y) C; point x_i has partners only in limits[0][i] <= j < limits[1][i] (increasing)."""
    count, operands = rows_x.shape[0], PairOperands.of(rows_x, rows_y, recipe, columns)

    def strip(top: int) -> FloatArray:
        bottom = min(top + TILE, count)
        low, high = (0, rows_y.shape[0]) if limits is None else (limits[0][top], limits[1][bottom - 1])
        sums = np.zeros((columns.shape[1], bottom - top))
        for left in range(int(low) // TILE * TILE, int(high), _BATCH * TILE):
            for tile in operands.sums((top, bottom), left, min(left + _BATCH * TILE, int(high))):
                sums += tile
        return sums.T

    return np.concatenate([np.zeros((0, columns.shape[1])), *executor.run(strip, range(0, count, TILE))])


# ---------------------------------------------------------------------------------------------- Gaussian terms


def _gaussian(
    points: tuple[FloatArray, ...], scales: FloatArray, spare: float
) -> tuple[Recipe, tuple[FloatArray, ...]]:
    """Centered and scaled coordinates where `spare` roundings pay for them, else the points as they are."""
    axes = scales.size
    factors, ends = HALF_LOG2E / scales, np.array([axes], dtype=np.int64)
    far = Recipe(np.array([GAUSSIAN], dtype=np.int64), ends, factors), points
    if min(len(part) for part in points) == 0:
        return far
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = (np.array([edge(part, axis=0) for part in points]) for edge in (np.min, np.max))
        center = 0.5 * low.min(axis=0) + 0.5 * high.max(axis=0)
        scaled = tuple((part - center) * factors for part in points)
        radius = math.sqrt(max(float(np.einsum("ij,ij->i", part, part).max()) for part in scaled)) * 1.001
    if radius <= _NEAR_RADIUS and _NEAR_COST * radius <= spare:
        return Recipe(np.array([NEAR], dtype=np.int64), ends, factors), scaled
    return far


def block_sums(
    points: FloatArray,
    scales: FloatArray,
    columns: FloatArray,
    *,
    executor: Threads = ALL_CORES,
    progress: Progress | None = None,
) -> FloatArray:
    """Totals of u_ip exp(-1/2 |(z_i - z_j)/h|^2) u_jp over tiles of pairs: (tiles, columns)."""
    spare = sum_error(points.shape[0]) / U - min(TILE, points.shape[0]) - _CHAIN
    recipe, (rows,) = _gaussian((points,), scales, spare)
    return symmetric(rows, recipe, columns, executor=executor, progress=progress)


def cross_sums(
    x: FloatArray, y: FloatArray, scales: FloatArray, columns: FloatArray, *, executor: Threads = ALL_CORES
) -> FloatArray:
    """K(x, y) C for a Gaussian term; a row's sum meets fewer than TILE + (number of tiles of y) roundings."""
    recipe, (rows_x, rows_y) = _gaussian((x, y), scales, TILE - _CHAIN)
    return crossed(rows_x, rows_y, recipe, columns, executor=executor)
