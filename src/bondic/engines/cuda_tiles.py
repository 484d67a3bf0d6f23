"""Tiles of any recipe with torch operations, on a GPU or a processor: kernel values, then one product of matrices.

The same steps as the compiled engine (modules pairs, power), so the same errors; what Triton fuses is compared with this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from bondic.core.bounded import FloatArray
from bondic.engines import power
from bondic.engines.recipes import (
    FEATURES,
    LABEL,
    LAPLACE,
    LOG2E,
    MATERN_1,
    MATERN_3,
    MATERN_5,
    NEAR,
    RHO_LARGEST,
    Recipe,
)

if TYPE_CHECKING:
    import torch

SIDE = 4096
"""Rows and columns of a tile; a product of matrices adds no more than this many terms, in whatever order."""
SMALL_SIDE = 512
"""The same where memory is the cache of a processor."""


def power_of_two(t: torch.Tensor) -> torch.Tensor:
    """2^t in float64, -LARGEST <= t <= 0, relative error at most EXP_ULP U."""
    import torch

    shifted = t + power.SHIFTER
    r = t - (shifted - power.SHIFTER)
    p = torch.full_like(r, power.COEFFICIENTS[-1])
    for c in (*power.COEFFICIENTS[-2::-1], 1.0):
        p = c + r * p
    return (p.view(torch.int64) + (shifted.view(torch.int64) << 52)).view(torch.float64)


def values(x: torch.Tensor, y: torch.Tensor, recipe: Recipe) -> torch.Tensor:
    """k(x_i, y_j) of a recipe, without its coefficient: (m, n); coordinates (m, axes), (n, axes)."""
    import torch

    exponent = torch.zeros((x.shape[0], y.shape[0]), dtype=x.dtype, device=x.device)
    factor: torch.Tensor | None = None
    begin = 0
    for kind, end in zip(recipe.kinds.tolist(), recipe.ends.tolist(), strict=True):
        more: torch.Tensor | None = None
        if kind == LABEL:
            more = (x[:, begin, None] == y[None, :, begin]).to(x.dtype)
        elif kind == FEATURES:
            more = torch.zeros_like(exponent)
            for axis in range(begin, end):
                more = more + x[:, axis, None] * y[None, :, axis]
        elif kind == LAPLACE:
            for axis in range(begin, end):
                exponent += (x[:, axis, None] - y[None, :, axis]).abs() * float(recipe.scales[axis])
        else:
            squares = torch.zeros_like(exponent)
            for axis in range(begin, end):
                difference = x[:, axis, None] - y[None, :, axis]
                if kind != NEAR:
                    difference = difference * float(recipe.scales[axis])
                squares += difference * difference
            if kind in (MATERN_1, MATERN_3, MATERN_5):
                rho = squares.sqrt_().clamp_(max=RHO_LARGEST)
                exponent += rho * LOG2E
                if kind == MATERN_3:
                    more = 1.0 + rho
                elif kind == MATERN_5:
                    more = 1.0 + rho * (1.0 + rho * (1.0 / 3.0))
            else:
                exponent += squares
        if more is not None:
            factor = more if factor is None else factor * more
        begin = end
    found = power_of_two((-exponent).clamp_(min=-power.LARGEST))
    return found if factor is None else factor * found


def symmetric(
    rows: torch.Tensor, recipe: Recipe, columns: torch.Tensor, side: int, report: Callable[[float], None]
) -> FloatArray:
    """Totals of u_ip k(z_i, z_j) u_jp over tiles, off-diagonal ones twice: (tiles, columns)."""
    import torch

    out = []
    count = rows.shape[0]
    for top in range(0, count, side):
        own = slice(top, top + side)
        for left in range(top, count, side):
            other = slice(left, left + side)
            part = values(rows[own], rows[other], recipe) @ columns[other]
            out.append((columns[own] * part).sum(dim=0) * (1.0 if left == top else 2.0))
        done = min(top + side, count) / count
        report(min(1.0, done * (2.0 - done)))
    found = torch.stack(out) if out else torch.zeros((0, columns.shape[1]))
    return np.asarray(found.cpu().numpy(), dtype=np.float64)


def crossed(x: torch.Tensor, y: torch.Tensor, recipe: Recipe, columns: torch.Tensor, side: int) -> FloatArray:
    """K(x, y) C, tile by tile."""
    import torch

    out = torch.zeros((x.shape[0], columns.shape[1]), dtype=torch.float64, device=columns.device)
    for top in range(0, x.shape[0], side):
        for left in range(0, y.shape[0], side):
            other = slice(left, left + side)
            out[top : top + side] += values(x[top : top + side], y[other], recipe) @ columns[other]
    return np.asarray(out.cpu().numpy())
