"""The statements of a question, checked one by one and against each other."""

from __future__ import annotations

import math
from numbers import Real

from bondic.errors import InvalidInput
from bondic.terms import MOST_STEPS, Terms
from bondic.value_range import range_of


def make_terms(
    gamma: float,
    reward_range: tuple[float, float],
    horizon: int | None,
    may_terminate: bool,
    time_varying: bool,
    value_range: tuple[float, float] | None = None,
) -> Terms:
    """The statements, checked one by one and against each other."""
    if not isinstance(gamma, Real) or not abs(gamma) < math.inf:
        raise InvalidInput(f"`gamma` is {gamma!r}; a discount in [0, 1) is needed.")
    if not 0 <= gamma < 1 and not (gamma == 1 and horizon is not None):
        raise InvalidInput(
            f"`gamma` is {gamma}. The discount lies in [0, 1); gamma = 1 needs a finite horizon: pass horizon= (--horizon)."
        )
    terms = Terms(
        gamma=float(gamma),
        reward_range=_pair(reward_range, "reward_range", "(lowest, highest possible reward)"),
        may_terminate=bool(may_terminate),
        horizon=None if horizon is None else _steps(horizon),
        time_varying=bool(time_varying or horizon is not None),
        value_range=None if value_range is None else _pair(value_range, "value_range", "(lowest, highest return)"),
    )
    if (
        value_range is not None
    ):  # the ends of (6) are monotone in the steps left: the first and the last time say it all
        range_of(terms)
        range_of(terms, 0 if terms.horizon is None else terms.horizon - 1)
    return terms


def _steps(horizon: int) -> int:
    if not (isinstance(horizon, Real) and 1 <= horizon < math.inf):
        raise InvalidInput(f"`horizon` is {horizon!r}; a whole number of steps >= 1 is needed.")
    if horizon > MOST_STEPS:
        raise InvalidInput(
            f"`horizon` is larger than 2**53 = {MOST_STEPS} steps, which numbers with 53 binary digits cannot count. Leave it "
            "out for an infinite horizon (gamma < 1), or pass the number of steps that is meant."
        )
    if horizon != int(horizon):
        raise InvalidInput(f"`horizon` is {horizon!r}; a whole number of steps >= 1 is needed.")
    return int(horizon)


def _pair(given: tuple[float, float], name: str, meaning: str) -> tuple[float, float]:
    try:
        low, high = (float(value) for value in given)
    except (TypeError, ValueError, OverflowError) as problem:
        raise InvalidInput(f"`{name}` is a pair {meaning} of finite numbers.") from problem
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise InvalidInput(f"`{name}` is [{low}, {high}]; two finite numbers, lowest first, are needed.")
    return low, high
