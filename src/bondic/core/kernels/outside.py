"""Leaves from outside the library: tried at once, before an hour is spent on an interval that nobody could verify."""

from __future__ import annotations

import numpy as np

from bondic.core.bounded import U
from bondic.core.codec import check_outside
from bondic.core.errors import InvalidInput
from bondic.core.kernels.base import FloatArray, Kernel, Leaf, check_part, leaves
from bondic.core.registry import from_outside


def check_kernel(kernel: Kernel) -> None:
    """Refuse a leaf that no certificate can hold, or whose promises fail at a few points; own leaves are tested elsewhere."""
    for leaf in leaves(kernel):
        if from_outside(leaf):
            check_part(leaf.on)
            check_outside(leaf, "kernel")
            _check_promises(leaf)


def _check_promises(leaf: Leaf) -> None:
    name, x = type(leaf).__name__, leaf.probe()
    try:
        values, other, diagonal = leaf.block(x, x), leaf.block(x[:3], x[3:]), leaf.diag(x)
        error, largest, supremum = float(leaf.value_error(x, x)), float(leaf.max_abs(x, x)), float(leaf.sup_diag)
    except Exception as problem:
        raise InvalidInput(
            f"The kernel {name} cannot be evaluated at {x.shape[0]} points with {x.shape[1]} columns "
            f"({type(problem).__name__}: {problem}). If it needs other points, give it a method probe() that returns some."
        ) from problem
    count = x.shape[0]
    _check_shape(name, "block(x, y)", values, (count, count))
    _check_shape(name, "diag(x)", diagonal, (count,))
    slack = 2 * error + 4 * U * max(largest, 0.0)
    for fine, what in (
        (error >= 0 and np.isfinite(error), f"value_error is {error}: a finite bound >= 0 of the error is needed"),
        (np.all(np.abs(values - values.T) <= slack), "block(x, y) is not block(y, x) transposed"),
        (np.all(np.abs(other - values[:3, 3:]) <= slack), "block gives other values for the same points among fewer"),
        (
            np.all(np.abs(np.diag(values) - diagonal) <= slack),
            "diag differs from the diagonal of block by more than value_error",
        ),
        (np.all(np.abs(values) <= largest + error), "values of block exceed max_abs"),
        (np.all(diagonal <= supremum + error), f"diag exceeds sup_diag = {supremum:g}, which enters the noise bound"),
        (
            np.linalg.eigvalsh(values)[0] >= -count * (slack + 1e-12 * abs(largest)),
            "block is not positive semi-definite",
        ),
    ):
        if not fine:
            raise InvalidInput(
                f"The kernel {name} does not keep its promises at {count} points: {what}. Correct it, or, if it is meant for "
                "other points, give it a method probe() that returns some."
            )


def _check_shape(name: str, what: str, values: FloatArray, wanted: tuple[int, ...]) -> None:
    fine = isinstance(values, np.ndarray) and values.shape == wanted and values.dtype == np.float64
    if not (fine and np.all(np.isfinite(values))):
        raise InvalidInput(f"{what} of the kernel {name} must return finite float64 numbers of shape {wanted}.")
