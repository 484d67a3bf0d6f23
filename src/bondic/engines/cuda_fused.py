"""Triton kernels for Gaussian terms: differences, 2^-t and weighted sums in registers; no n x n memory.

    out[w, p, i] = sum_{a in block i} u_wa sum_{b in part p of block i} factor_ab k(z_a, z_b) u_wb,

part p of row block i: PART columns from the block's own first column on, so that every pair is met once;
factor 1 within the block, which is symmetric itself, and 2 beyond it. Between two sets of points the columns begin where the
second set does, and the factor is 2. A thread has the sums of some rows and goes through the columns, which are the same for all:
a sum in a register meets one rounding per column until it is handed over.
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
PART = 16_384
_ROWS, _STEP, _FLUSH = 256, 8, 64
"""Rows of a block, one warp; columns at a time; columns that are added in one register before the next sum. The fastest of
several on an H200."""
_MAX_AXES = 8
"""With more coordinates, and 256 rows, registers run out: half as many rows then."""
_LAUNCH = 3e11
"""Pairs between two looks at the keyboard."""

_SHIFTER, _LARGEST = tl.constexpr(power.SHIFTER), tl.constexpr(power.LARGEST)
_C1, _C2, _C3, _C4, _C5 = (tl.constexpr(c) for c in power.COEFFICIENTS[:5])
_C6, _C7, _C8, _C9, _C10 = (tl.constexpr(c) for c in power.COEFFICIENTS[5:])


@triton.jit
def _power_of_two(t):  # type: ignore[no-untyped-def]
    """2^t: module power."""
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


@triton.jit
def _strip(  # type: ignore[no-untyped-def]
    points, weights, size, own, begin,
    AXES: tl.constexpr, WIDTH: tl.constexpr, CUT: tl.constexpr, BM: tl.constexpr, STEP: tl.constexpr, FLUSH: tl.constexpr,
):  # fmt: skip
    """sum_b k(z_a, z_b) u_wb over FLUSH columns from `begin` on for every row a, one after the other in registers.

    Coordinates (size, axes): those of a column are numbers that all rows share. -|x - y|^2 begins with 0 - d^2, one
    instruction; a sign of its own would be another one.
    """
    zero = tl.zeros((BM,), tl.float64)
    one = zero
    two = zero
    for start in range(begin, begin + FLUSH, STEP):
        for ahead in tl.static_range(STEP):
            t = zero
            for axis in tl.static_range(AXES):
                d = own[axis] - tl.load(points + (start + ahead) * AXES + axis)
                t -= d * d
            if CUT:
                t = tl.maximum(t, -_LARGEST)
            k = _power_of_two(t)
            one += k * tl.load(weights + start + ahead)
            if WIDTH > 1:
                two += k * tl.load(weights + size + start + ahead)
    return one, two


@triton.jit
def _symmetric(  # type: ignore[no-untyped-def]
    points, weights, out, size, others, first, blocks, parts,
    AXES: tl.constexpr, WIDTH: tl.constexpr, CUT: tl.constexpr, BM: tl.constexpr, STEP: tl.constexpr, FLUSH: tl.constexpr,
    PART: tl.constexpr,
):  # fmt: skip
    """One part of one row block; the formula is at the head of the module. `others`: where a second set begins, or 0."""
    block = first + tl.program_id(0)
    part = tl.program_id(1)
    top = block * BM
    begin = tl.where(others > 0, others, top) + part * PART
    if begin >= size:
        return
    end = tl.minimum(begin + PART, size)
    rows = top + tl.arange(0, BM)
    own = ()
    for axis in tl.static_range(AXES):
        own += (tl.load(points + rows * AXES + axis),)  # type: ignore[assignment]
    one = tl.zeros((BM,), tl.float64)
    two = tl.zeros((BM,), tl.float64)
    for start in range(begin, end, FLUSH):
        more = _strip(points, weights, size, own, start, AXES, WIDTH, CUT, BM, STEP, FLUSH)
        factor = tl.where((others == 0) & (start < top + BM), 1.0, 2.0).to(tl.float64)
        one += factor * more[0]
        two += factor * more[1]
    place = out + part * blocks + block
    tl.store(place, tl.sum(one * tl.load(weights + rows), axis=0))
    if WIDTH > 1:
        total = tl.sum(two * tl.load(weights + size + rows), axis=0)
        tl.store(place + parts * blocks, total)


def chain(count: int) -> tuple[int, float]:
    """(roundings of a sum in a register, error of what follows in float64 per unit of mass) for so many points."""
    parts = math.ceil((count + _ROWS) / PART)
    # strips, rows and parts are added in float64
    return _FLUSH + 1, (PART // _FLUSH + _ROWS + parts + 8) * U


def symmetric(rows: torch.Tensor, columns: torch.Tensor, *, cut: bool, report: Callable[[float], None]) -> FloatArray:
    """Totals of u_iw 2^-|z_i - z_j|^2 u_jw, every pair once or twice: (blocks, columns).

    Coordinates (n, axes) and weights (n, width) in float64; `cut`: squares may be too large for 2^-t.
    """
    return _passes(_whole_blocks(rows), _whole_blocks(columns).T, 0, cut, report)


def between(
    rows: tuple[torch.Tensor, torch.Tensor], columns: tuple[torch.Tensor, torch.Tensor], *, cut: bool
) -> FloatArray:
    """Totals of 2 u_iw 2^-|x_i - y_j|^2 v_jw over all points x_i of one set and y_j of another: (blocks, columns)."""
    points, weights = ([_whole_blocks(part) for part in both] for both in (rows, columns))
    return _passes(torch.cat(points), torch.cat(weights).T, len(points[0]), cut, lambda done: None)  # noqa: ARG005


def _whole_blocks(rows: torch.Tensor) -> torch.Tensor:
    """(n, k) -> (whole blocks of rows, k), with zeros at the end."""
    out = torch.zeros((-(-rows.shape[0] // _ROWS) * _ROWS, rows.shape[1]), dtype=rows.dtype, device=rows.device)
    out[: rows.shape[0]] = rows
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
    """Coordinates (size, axes) and weights (width, size) of whole blocks -> (blocks, width), parts added in any order."""
    side = _ROWS // 2 if points.shape[1] > _MAX_AXES else _ROWS
    width, size = weights.shape
    blocks, parts = (others or size) // side, math.ceil((size - others) / PART)
    out = torch.zeros((width, parts, blocks), dtype=torch.float64, device=points.device)
    step = max(1, int(_LAUNCH / ((size - others) * side)))
    for first in range(0, blocks, step):
        _symmetric[(min(step, blocks - first), parts)](
            points, weights, out, size, others, first, blocks, parts,
            AXES=points.shape[1], WIDTH=width, CUT=cut, BM=side, STEP=_STEP, FLUSH=_FLUSH, PART=PART, num_warps=1, num_stages=1,
        )  # fmt: skip
        torch.cuda.synchronize(points.device)
        done = min(first + step, blocks) / blocks
        report(min(1.0, done * (2.0 - done)))
    return out.sum(dim=1).T
