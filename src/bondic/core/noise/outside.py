"""Noise bounds from outside the library: tried at once, before an hour is spent on what nobody could verify."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np

from bondic.core.bounded import Enclosure
from bondic.core.claims import Guarantee
from bondic.core.codec import check_outside
from bondic.core.errors import InvalidInput
from bondic.core.functions import FeatureFunction
from bondic.core.kernels.leaves import Constant
from bondic.core.kernels.normal_form import Layout
from bondic.core.noise.bound import NoiseBound, Weights
from bondic.core.noise.facts import NoiseFacts, noise_facts
from bondic.core.registry import from_outside
from bondic.core.terms import Terms

_ROWS = 100
_LAYOUT = Layout(observation_dim=1, has_time=False, action_dim=0, slots=1)


def check_noise_bound(gauge: NoiseBound) -> None:
    """Refuse a bound that no certificate can hold, or whose p-values and levels do not fit together on a made-up log."""
    if not from_outside(gauge):
        return
    check_outside(gauge, "noise")
    weights, facts, name = _one(), _made_up(), type(gauge).__name__
    try:
        wide, narrow = (gauge.bound(weights, facts, probability) for probability in (0.01, 0.1))
        level, words, guarantee = gauge.level(weights, facts, narrow.lower), gauge.describe(), gauge.guarantee
        search = gauge.epsilon(facts, 0.1)
    except Exception as problem:
        raise InvalidInput(
            f"The noise bound {name} cannot be evaluated ({type(problem).__name__}: {problem})."
        ) from problem
    for fine, what in (
        (0 <= narrow.upper <= wide.upper < math.inf, "bound must be finite, >= 0 and grow as the probability falls"),
        (
            0.1 * (1 - 1e-6) <= level <= 1,
            "level must be at least the probability that a bound belongs to, at most 1",
        ),
        (0 <= search.upper < math.inf, "epsilon must be finite and >= 0"),
        (isinstance(words, str) and words.isprintable(), "describe() must return one line of text"),
        (guarantee in get_args(Guarantee), f"guarantee is one of {', '.join(get_args(Guarantee))}"),
    ):
        if not fine:
            raise InvalidInput(f"The noise bound {name} does not keep its promises: {what}.")


def _one() -> Weights:
    """ω = 1 in the space of the constants."""
    omega = FeatureFunction(Constant(1.0), _LAYOUT, np.ones(1))
    return Weights(omega, Enclosure(1.0), float(_ROWS))


def _made_up() -> NoiseFacts:
    """100 rows of a log with values in [0, 1]."""
    points, slots = np.zeros((_ROWS, 1)), np.zeros(_ROWS, dtype=np.int64)
    terms = Terms(gamma=0.0, reward_range=(0.0, 1.0), may_terminate=False)
    return noise_facts(Constant(1.0), _LAYOUT, terms, lambda: [(points, slots, None)], count=_ROWS)
