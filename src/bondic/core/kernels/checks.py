"""What must hold before sums are certified: the accuracy of NumPy's functions, and the promises of a user's kernel."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from bondic.core.bounded import U
from bondic.core.codec import check_outside
from bondic.core.errors import InvalidInput, NumericalError
from bondic.core.kernels.base import NUMPY_ULP, TANH_ULP, Kernel, Leaf, check_part
from bondic.core.registry import from_outside


@cache
def check_elementary_functions() -> None:
    """Compare NumPy's exp, cos, sin, tanh with the C library on a fixed grid; refuse to certify when they disagree.

    The C library is good to 1 U-ulp on every supported platform; NumPy may use its own vector code, whose
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


def check_kernel(kernel: Kernel) -> None:
    """Refuse a user's leaf that no certificate can hold, or whose promises fail at a few points."""
    for leaf in kernel.leaves():
        if from_outside(leaf):
            check_part(leaf.on)
            check_outside(leaf, "kernel")
            _check_promises(leaf)


def _check_promises(leaf: Leaf) -> None:
    name, x = type(leaf).__name__, leaf.probe()
    count = x.shape[0]
    try:
        values, other, diagonal = leaf.block(x, x), leaf.block(x[:3], x[3:]), leaf.diag(x)
        error, largest, supremum = float(leaf.value_error(x, x)), float(leaf.max_abs(x, x)), float(leaf.sup_diag)
    except Exception as problem:
        raise InvalidInput(
            f"The kernel {name} cannot be evaluated at {count} points with {x.shape[1]} columns "
            f"({type(problem).__name__}: {problem}). If it needs other points, give it a method probe() that returns some."
        ) from problem
    for what, found, shape in (("block(x, y)", values, (count, count)), ("diag(x)", diagonal, (count,))):
        fine = isinstance(found, np.ndarray) and found.shape == shape and found.dtype == np.float64
        if not (fine and np.all(np.isfinite(found))):
            raise InvalidInput(f"{what} of the kernel {name} must return finite float64 numbers of shape {shape}.")
    slack = 2 * error + 4 * U * max(largest, 0.0)
    promises = {
        f"value_error is {error}: a finite bound >= 0 of the error is needed": error >= 0 and np.isfinite(error),
        "block(x, y) is not block(y, x) transposed": np.all(np.abs(values - values.T) <= slack),
        "block gives other values for the same points among fewer": np.all(np.abs(other - values[:3, 3:]) <= slack),
        "diag differs from the diagonal of block by more than value_error": np.all(
            np.abs(np.diag(values) - diagonal) <= slack
        ),
        "values of block exceed max_abs": np.all(np.abs(values) <= largest + error),
        f"diag exceeds sup_diag = {supremum:g}, which enters the noise bound": np.all(diagonal <= supremum + error),
        "block is not positive semi-definite": np.linalg.eigvalsh(values)[0] >= -count * (slack + 1e-12 * abs(largest)),
    }
    for what, kept in promises.items():
        if not kept:
            raise InvalidInput(
                f"The kernel {name} does not keep its promises at {count} points: {what}. Correct it, or, if it is meant for "
                "other points, give it a method probe() that returns some."
            )
