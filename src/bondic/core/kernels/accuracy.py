"""Start-up check of the elementary functions that the error bounds rest on."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from bondic.core.bounded import U
from bondic.core.errors import NumericalError
from bondic.core.kernels.base import NUMPY_ULP, TANH_ULP


@cache
def check_elementary_functions() -> None:
    """Compare numpy's exp, cos, sin, tanh with the C library on a fixed grid; refuse to certify when they disagree.

    The C library is good to 1 U-ulp on every supported platform; numpy may use its own vector code, whose
    documented accuracy is 4 ulp or better. The tests compare both with 50-digit arithmetic.
    """
    grid = np.concatenate([-np.geomspace(1e-12, 700.0, 300), np.linspace(-5.0, 0.0, 212)])
    angles = np.concatenate([grid, -grid * 1e3, grid * 1e7])
    checks = (
        ("exp", np.exp(grid), [math.exp(v) for v in grid], True, NUMPY_ULP),
        ("cos", np.cos(angles), [math.cos(v) for v in angles], False, NUMPY_ULP),
        ("sin", np.sin(angles), [math.sin(v) for v in angles], False, NUMPY_ULP),
        ("tanh", np.tanh(grid), [math.tanh(v) for v in grid], False, TANH_ULP),
    )
    for name, fast, slow, relative, trusted in checks:
        reference = np.array(slow)
        size = np.abs(reference) if relative else 1.0
        worst = float((np.abs(fast - reference) / (size * U)).max())
        if worst > trusted - 1:
            raise NumericalError(
                f"numpy's {name} differs from the C library by {worst:.1f} units of 2^-53 here, more than the error "
                "bounds allow. No interval is certified on this machine; use another numpy build."
            )
