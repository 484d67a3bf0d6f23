"""Pair engine: Gaussian terms, all pairs, compiled, symmetric, tiled, threads outside a serial kernel."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed

import numba
import numpy as np
import numpy.typing as npt

from bondic.rounding import U
from bondic.sums.exponential import EXP_ULP, exp_nonpositive

FloatArray = npt.NDArray[np.float64]
Progress = Callable[[float], None]

TILE = 256


def sum_error(count: int) -> float:
    """A tile's row sums have TILE terms and there are TILE of them; tile totals are summed exactly."""
    return (2 * min(TILE, count) + 8) * U


def value_error(dimension: int) -> float:
    """Absolute error of a kernel value: t e^-t <= 0.368 times (d + 6) U, plus the exponential's own."""
    return (0.37 * (dimension + 8) + EXP_ULP) * U


@numba.njit(nogil=True, cache=True, fastmath={"contract"})
def _add_squares(buffer, points, inverse, i, left, width):  # type: ignore[no-untyped-def]
    """buffer[j] = sum_l ((z_il - z_jl) / h_l)^2, four dimensions per sweep."""
    d = points.shape[0]
    for j in range(width):
        buffer[j] = 0.0
    axis = 0
    while axis + 4 <= d:
        a, b, c, e = points[axis, i], points[axis + 1, i], points[axis + 2, i], points[axis + 3, i]
        s, t, u, v = inverse[axis], inverse[axis + 1], inverse[axis + 2], inverse[axis + 3]
        pa, pb = points[axis, left : left + width], points[axis + 1, left : left + width]
        pc, pe = points[axis + 2, left : left + width], points[axis + 3, left : left + width]
        for j in range(width):
            da, db, dc, de = (a - pa[j]) * s, (b - pb[j]) * t, (c - pc[j]) * u, (e - pe[j]) * v
            buffer[j] += da * da + db * db + dc * dc + de * de
        axis += 4
    while axis < d:
        a, s = points[axis, i], inverse[axis]
        pa = points[axis, left : left + width]
        for j in range(width):
            da = (a - pa[j]) * s
            buffer[j] += da * da
        axis += 1


@numba.njit(nogil=True, cache=True, fastmath={"contract", "reassoc"})
def _dot(a, b, width):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(width):
        total += a[j] * b[j]
    return total


@numba.njit(nogil=True, cache=True, fastmath={"contract"})
def _tile(points, inverse, columns, top, height, left, width, buffer, out):  # type: ignore[no-untyped-def]
    """out[p] = sum_{i in rows, j in cols} u_pi k_ij u_pj over one tile."""
    for p in range(columns.shape[0]):
        out[p] = 0.0
    for i in range(top, top + height):
        _add_squares(buffer, points, inverse, i, left, width)
        for j in range(width):
            buffer[j] = exp_nonpositive(-0.5 * buffer[j])
        for p in range(columns.shape[0]):
            out[p] += columns[p, i] * _dot(buffer, columns[p, left : left + width], width)


@numba.njit(nogil=True, cache=True)
def _strip(points, inverse, columns, top, totals):  # type: ignore[no-untyped-def]
    """One row of tiles from the diagonal on; off-diagonal tiles count twice."""
    count = points.shape[1]
    buffer = np.empty(TILE)
    height = min(TILE, count - top)
    for index in range(totals.shape[0]):
        left = top + index * TILE
        width = min(TILE, count - left)
        _tile(points, inverse, columns, top, height, left, width, buffer, totals[index])
        if left > top:
            for p in range(totals.shape[1]):
                totals[index, p] *= 2.0


@numba.njit(nogil=True, cache=True)
def _cross(points_x, points_y, inverse, columns, top, bottom, out):  # type: ignore[no-untyped-def]
    """out[i, p] = sum_j k(x_i, y_j) c_pj for rows top..bottom-1."""
    d, count = points_y.shape
    buffer = np.empty(TILE)
    joint = np.empty((d, TILE + 1))
    for left in range(0, count, TILE):
        width = min(TILE, count - left)
        for axis in range(d):
            joint[axis, 1 : width + 1] = points_y[axis, left : left + width]
        for i in range(top, bottom):
            for axis in range(d):
                joint[axis, 0] = points_x[axis, i]
            _add_squares(buffer, joint, inverse, 0, 1, width)
            for j in range(width):
                buffer[j] = exp_nonpositive(-0.5 * buffer[j])
            for p in range(columns.shape[0]):
                out[i, p] += _dot(buffer, columns[p, left : left + width], width)


def threads() -> int:
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1))


def block_sums(
    points: FloatArray, scales: FloatArray, columns: FloatArray, progress: Progress | None = None
) -> FloatArray:
    """Totals of u_ip exp(-1/2 |(z_i - z_j)/h|^2) u_jp over tiles of pairs: (tiles, columns)."""
    count = points.shape[0]
    by_axis, by_column = np.ascontiguousarray(points.T), np.ascontiguousarray(columns.T)
    inverse = 1.0 / scales
    tops = range(0, count, TILE)
    results = [np.zeros(((count - top + TILE - 1) // TILE, columns.shape[1])) for top in tops]
    done, work = 0, sum(len(totals) for totals in results)
    with ThreadPoolExecutor(threads()) as pool:
        futures = {
            pool.submit(_strip, by_axis, inverse, by_column, top, totals): len(totals)
            for top, totals in zip(tops, results, strict=True)
        }
        try:
            for future in as_completed(futures):
                future.result()
                done += futures[future]
                if progress is not None:
                    progress(done / work)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return np.concatenate(results)


def cross_sums(x: FloatArray, y: FloatArray, scales: FloatArray, columns: FloatArray) -> FloatArray:
    """K(x, y) C for a Gaussian term."""
    out = np.zeros((x.shape[0], columns.shape[1]))
    args = np.ascontiguousarray(x.T), np.ascontiguousarray(y.T), 1.0 / scales, np.ascontiguousarray(columns.T)
    step = max(TILE, -(-x.shape[0] // (4 * threads())))
    with ThreadPoolExecutor(threads()) as pool:
        jobs = [pool.submit(_cross, *args, top, min(top + step, x.shape[0]), out) for top in range(0, x.shape[0], step)]
        for job in jobs:
            job.result()
    return out
