"""Kernels, noise bounds and functions of the user, tried out before they are used.

A class of the user goes into certificates like ours. Refused is what would not come back from one, and what breaks its own
promises at a few points: a courtesy, no proof. Verification says that formulas from outside are not part of bondic.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, get_args

import numpy as np

from bondic.core.balls import Ball, Instruments
from bondic.core.bounded import Enclosure, U
from bondic.core.claims import Guarantee
from bondic.core.codec import Encoder, decode, instances, same, supplied_fields
from bondic.core.dual.noise import NoiseBound, NoiseFacts, Weights
from bondic.core.errors import BondicError, InvalidInput
from bondic.core.functions import FeatureFunction
from bondic.core.kernels.base import Kernel, Leaf, check_part
from bondic.core.kernels.leaves import Constant
from bondic.core.kernels.normal_form import Layout
from bondic.core.registry import from_outside
from bondic.core.terms import Terms

_LAYOUT = Layout(observation_dim=1, has_time=False, action_dim=0, slots=1)
_ROWS = 100


def check_stated(value: Any) -> None:
    """Refuse a ball, a box, instruments or a function with parts that cannot be used."""
    check_outside(value, "Q or a candidate")
    if isinstance(value, Ball | Instruments):
        check_kernel(value.kernel)
    if isinstance(value, Ball) and value.center is not None:
        check_outside(value.center, "center")


def check_outside(value: Any, place: str) -> None:
    """Refuse an object of a class that is not the library's if it would not come back from a certificate as it is."""
    if not from_outside(value):
        return
    encoder = Encoder()
    try:
        data = encoder.encode(value, place)
        again = decode(type(value), data, encoder.arrays, place, **_supplies(value))
    except BondicError as problem:
        raise InvalidInput(f"{type(value).__name__} cannot be part of a certificate. {problem}") from problem
    if not same(value, again):
        raise InvalidInput(
            f"{type(value).__name__} is not the same after it was written into a certificate and read back. Its fields must hold "
            "all of it, as values of the types that they are annotated with."
        )


def _supplies(value: Any) -> dict[str, Any]:
    """What reading this very value would need to be given."""
    found: dict[str, Any] = {}
    for part in filter(dataclasses.is_dataclass, instances(value, object)):
        for field in supplied_fields(type(part)):
            by, key, given = field.metadata["supplied"], field.metadata["key"], getattr(part, field.name)
            found[by] = given if key is None else found.get(by, {}) | {getattr(part, key): given}
    return found


def check_kernel(kernel: Kernel) -> None:
    """Refuse a user's kernel that no certificate can hold, or that violates its contract at a few points."""
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
                f"The kernel {name} violates its contract at {count} points: {what}. Correct it, or, if it is meant for other "
                "points, give it a method probe() that returns some."
            )


def check_noise_bound(gauge: NoiseBound) -> None:
    """Refuse a bound that no certificate can hold, or whose p-values and levels do not fit together on a made-up log."""
    if not from_outside(gauge):
        return
    check_outside(gauge, "noise")
    logged = (np.zeros((_ROWS, 1)), np.zeros(_ROWS, dtype=np.int64), None)
    terms = Terms(gamma=0.0, reward_range=(0.0, 1.0), may_terminate=False)
    facts = NoiseFacts(Constant(1.0), _LAYOUT, terms, lambda: [logged], _ROWS, _ROWS)
    one = Weights(FeatureFunction(Constant(1.0), _LAYOUT, np.ones(1)), Enclosure(1.0), float(_ROWS))
    name = type(gauge).__name__
    try:
        wide, narrow = (gauge.bound(one, facts, probability) for probability in (0.01, 0.1))
        level, search = gauge.level(one, facts, narrow.lower), gauge.epsilon(facts, 0.1)
        words, guarantee = gauge.describe(), gauge.guarantee
    except Exception as problem:
        raise InvalidInput(
            f"The noise bound {name} cannot be evaluated ({type(problem).__name__}: {problem})."
        ) from problem
    for fine, what in (
        (0 <= narrow.upper <= wide.upper < math.inf, "bound must be finite, >= 0 and grow as the probability falls"),
        (0.1 * (1 - 1e-6) <= level <= 1, "level must be at least the probability that a bound belongs to, at most 1"),
        (0 <= search.upper < math.inf, "epsilon must be finite and >= 0"),
        (isinstance(words, str) and words.isprintable(), "describe() must return one line of text"),
        (guarantee in get_args(Guarantee), f"guarantee is one of {', '.join(get_args(Guarantee))}"),
    ):
        if not fine:
            raise InvalidInput(f"The noise bound {name} violates its contract: {what}.")
