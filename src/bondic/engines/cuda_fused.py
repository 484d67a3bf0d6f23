"""Triton kernels for Gaussian terms: differences, 2^-t and weighted sums in registers; no n x n memory.

    out[w, p, i] = sum_{a in block i} u_wa sum_{b in part p of block i} factor_ab k(z_a, z_b) u_wb,

part p of row block i: TILES tiles of columns from the block's own first column on, so that every pair is met once;
factor 1 within the block, which is symmetric itself, and 2 beyond it. Between two sets of points the columns begin where the
second set does, and the factor is 2. A sum in a register meets one rounding per tile
until it is handed over to float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
import triton
import triton.language as tl

from bondic.core.bounded import FloatArray, U
from bondic.engines import power

_WIDEST = 2
"""Weight columns in one pass."""
TILES = 1024
_SHAPES = {torch.float64: (64, 16, 4), torch.float32: (32, 16, 1)}
"""Rows, columns and warps of a tile; the fastest of several shapes on an H200."""
_FLUSH = {torch.float64: 256, torch.float32: 64}
"""Tiles that are added in registers before float64 takes over."""
_LAUNCH = 3e11
"""Pairs between two looks at the keyboard."""

_SHIFTER, _LARGEST = tl.constexpr(power.SHIFTER), tl.constexpr(power.LARGEST)
_C1, _C2, _C3, _C4, _C5 = (tl.constexpr(c) for c in power.COEFFICIENTS[:5])
_C6, _C7, _C8, _C9, _C10 = (tl.constexpr(c) for c in power.COEFFICIENTS[5:])


@triton.jit
def _power_of_two(t):  # type: ignore[no-untyped-def]
    """2^t: module power in float64, the chip's own in float32."""
    if t.dtype == tl.float64:
        shifted = t + _SHIFTER
        r = t - (shifted - _SHIFTER)
        p = r * _C10 + _C9
        p = r * p + _C8
        p = r * p + _C7
        p = r * p + _C6
        p = r * p + _C5
        p = r * p + _C4
        p = r * p + _C3
        p = r * p + _C2
        p = r * p + _C1
        p = r * p + 1.0
        bits = p.to(tl.int64, bitcast=True) + (shifted.to(tl.int64, bitcast=True) << 52)
        return bits.to(tl.float64, bitcast=True)
    return tl.exp2(t)


@triton.jit
def _values(  # type: ignore[no-untyped-def]
    points, size, rows, columns, AXES: tl.constexpr, CUT: tl.constexpr, DTYPE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):  # fmt: skip
    """2^-|x - y|^2 for BM rows and BN columns; coordinates (axes, size)."""
    t = tl.zeros((BM, BN), DTYPE)
    for axis in tl.static_range(AXES):
        x = tl.load(points + axis * size + rows)
        y = tl.load(points + axis * size + columns)
        difference = x[:, None] - y[None, :]
        t -= difference * difference
    if CUT:
        t = tl.maximum(t, -_LARGEST)
    return _power_of_two(t)


@triton.jit
def _strip(  # type: ignore[no-untyped-def]
    points, weights, size, rows, begin, end,
    AXES: tl.constexpr, WIDTH: tl.constexpr, CUT: tl.constexpr, DTYPE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """sum_b k(z_a, z_b) u_wb over the columns begin..end-1 for every row a: registers of DTYPE, then float64."""
    one = tl.zeros((BM, BN), DTYPE)
    two = tl.zeros((BM, BN), DTYPE)
    for start in range(begin, end, BN):
        columns = start + tl.arange(0, BN)
        k = _values(points, size, rows, columns, AXES, CUT, DTYPE, BM, BN)
        one += k * tl.load(weights + columns)[None, :]
        if WIDTH > 1:
            two += k * tl.load(weights + size + columns)[None, :]
    return tl.sum(one.to(tl.float64), axis=1), tl.sum(two.to(tl.float64), axis=1)


@triton.jit
def _symmetric(  # type: ignore[no-untyped-def]
    points, weights, out, size, others, first, blocks, parts, tiles,
    AXES: tl.constexpr, WIDTH: tl.constexpr, CUT: tl.constexpr, DTYPE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    FLUSH: tl.constexpr,
):  # fmt: skip
    """One part of one row block; the formula is at the head of the module. `others`: where a second set begins, or 0."""
    block = first + tl.program_id(0)
    part = tl.program_id(1)
    top = block * BM
    begin = tl.where(others > 0, others, top) + part * tiles * BN
    if begin >= size:
        return
    end = tl.minimum(begin + tiles * BN, size)
    rows = top + tl.arange(0, BM)
    one = tl.zeros((BM,), tl.float64)
    two = tl.zeros((BM,), tl.float64)
    if (part == 0) & (others == 0):
        one, two = _strip(points, weights, size, rows, begin, top + BM, AXES, WIDTH, CUT, DTYPE, BM, BN)
        one *= 0.5
        two *= 0.5
        begin = top + BM
    for start in range(begin, end, FLUSH * BN):
        stop = tl.minimum(start + FLUSH * BN, end)
        more = _strip(points, weights, size, rows, start, stop, AXES, WIDTH, CUT, DTYPE, BM, BN)
        one += more[0]
        two += more[1]
    place = out + part * blocks + block
    tl.store(place, 2.0 * tl.sum(one * tl.load(weights + rows).to(tl.float64), axis=0))
    if WIDTH > 1:
        total = tl.sum(two * tl.load(weights + size + rows).to(tl.float64), axis=0)
        tl.store(place + parts * blocks, 2.0 * total)


@triton.jit
def _powers(values, out, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + place, _power_of_two(tl.load(values + place, mask=place < count)), mask=place < count)


def power_of_two(t: torch.Tensor) -> torch.Tensor:
    """2^t as the kernels compute it, to be checked."""
    out = torch.empty_like(t)
    _powers[(triton.cdiv(t.numel(), 1024),)](t, out, t.numel(), BLOCK=1024)
    return out


def chain(count: int, single: bool) -> tuple[int, float]:
    """(roundings of a sum in a register, error of what follows in float64 per unit of mass) for so many points."""
    kind = torch.float32 if single else torch.float64
    rows, columns, _ = _SHAPES[kind]
    parts = math.ceil((count + rows) / (TILES * columns))
    # the block's own columns are one strip; strips, a row and a column of a tile, and parts are added in float64
    return max(_FLUSH[kind], rows // columns) + 1, (TILES // _FLUSH[kind] + rows + columns + parts + 8) * U


def symmetric(rows: torch.Tensor, columns: torch.Tensor, *, cut: bool, report: Callable[[float], None]) -> FloatArray:
    """Totals of u_iw 2^-|z_i - z_j|^2 u_jw, every pair once or twice: (blocks, columns).

    Coordinates (n, axes) and weights (n, width) of one type; `cut`: squares may be too large for 2^-t.
    """
    return _passes(_whole_blocks(rows), _whole_blocks(columns), 0, cut, report)


def between(
    rows: tuple[torch.Tensor, torch.Tensor], columns: tuple[torch.Tensor, torch.Tensor], *, cut: bool
) -> FloatArray:
    """Totals of 2 u_iw 2^-|x_i - y_j|^2 v_jw over all points x_i of one set and y_j of another: (blocks, columns)."""
    points, weights = ([_whole_blocks(part) for part in both] for both in (rows, columns))
    return _passes(torch.cat(points, 1), torch.cat(weights, 1), points[0].shape[1], cut, lambda done: None)  # noqa: ARG005


def _whole_blocks(rows: torch.Tensor) -> torch.Tensor:
    """(n, k) -> (k, whole blocks of rows), with zeros at the end."""
    side = _SHAPES[rows.dtype][0]
    out = torch.zeros((rows.shape[1], -(-rows.shape[0] // side) * side), dtype=rows.dtype, device=rows.device)
    out[:, : rows.shape[0]] = rows.T
    return out


def _passes(
    points: torch.Tensor, weights: torch.Tensor, others: int, cut: bool, report: Callable[[float], None]
) -> FloatArray:
    width, out = len(weights), []
    for top in range(0, width, _WIDEST):
        part = weights[top : top + _WIDEST].contiguous()
        share = len(part) / width
        done = lambda done, top=top, share=share: report(top / width + share * done)  # noqa: E731
        out.append(_pass(points, part, others, cut, done))
    return np.asarray(torch.cat(out, dim=1).cpu().numpy())


def _pass(
    points: torch.Tensor, weights: torch.Tensor, others: int, cut: bool, report: Callable[[float], None]
) -> torch.Tensor:
    """Coordinates (axes, size) and weights (width, size) of whole blocks -> (blocks, width), parts added in any order."""
    bm, bn, warps = _SHAPES[points.dtype]
    width, size = weights.shape
    blocks, parts = (others or size) // bm, math.ceil((size - others) / (TILES * bn))
    out = torch.zeros((width, parts, blocks), dtype=torch.float64, device=points.device)
    step = max(1, int(_LAUNCH / ((size - others) * bm)))
    for first in range(0, blocks, step):
        _symmetric[(min(step, blocks - first), parts)](
            points, weights, out, size, others, first, blocks, parts, TILES,
            AXES=points.shape[0], WIDTH=width, CUT=cut, DTYPE=tl.float64 if points.dtype == torch.float64 else tl.float32,
            BM=bm, BN=bn, FLUSH=_FLUSH[points.dtype], num_warps=warps, num_stages=1,
        )  # fmt: skip
        torch.cuda.synchronize(points.device)
        done = min(first + step, blocks) / blocks
        report(min(1.0, done * (2.0 - done)))
    return out.sum(dim=1).T
