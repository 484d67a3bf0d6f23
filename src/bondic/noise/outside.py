"""Noise bounds from outside the library: tried at once, before an hour is spent on what nobody could verify."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np

from bondic.claims import Guarantee
from bondic.codec import check_round_trip
from bondic.errors import InvalidInput
from bondic.noise.bound import Gauge, NoiseFacts
from bondic.registry import from_outside
from bondic.rounding import Enclosure

_ROWS = 100


def check_gauge(gauge: Gauge) -> None:
    """Refuse a bound that no certificate can hold, or whose p-values and levels do not fit together on a made-up log."""
    if not from_outside(gauge):
        return
    check_round_trip(gauge, "noise")
    once, rows = np.ones(1), np.full(1, float(_ROWS))
    facts = NoiseFacts(_ROWS, _ROWS, 1.0, once, rows, 1.0, 1.0, 1.0, read_charge=lambda: Enclosure(float(_ROWS)))
    name = type(gauge).__name__
    try:
        wide, narrow = (gauge.epsilon(facts, probability) for probability in (0.01, 0.1))
        level, words, guarantee = gauge.level(facts, narrow.lower), gauge.describe(), gauge.guarantee
    except Exception as problem:
        raise InvalidInput(
            f"The noise bound {name} cannot be evaluated ({type(problem).__name__}: {problem})."
        ) from problem
    for fine, what in (
        (0 <= narrow.upper <= wide.upper < math.inf, "epsilon must be finite, >= 0 and grow as the probability falls"),
        (
            0.1 * (1 - 1e-6) <= level <= 1,
            "level(facts, eps) must be at least the probability that eps belongs to, at most 1",
        ),
        (isinstance(words, str) and words.isprintable(), "describe() must return one line of text"),
        (guarantee in get_args(Guarantee), f"guarantee is one of {', '.join(get_args(Guarantee))}"),
    ):
        if not fine:
            raise InvalidInput(f"The noise bound {name} does not keep its promises: {what}.")
