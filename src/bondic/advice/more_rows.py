"""How many rows would be enough: from the parts of the ends and their rates, or from a guess where no row was used.

    half the length:   sum of parts × factor^(-rate)  =  half of their sum

Rates are those of the formulas: noise and starts 1/2, rare events 1. Bias falls faster than noise in the sequential interval as
long as rows still teach what Q leaves open, and may not fall at all in the dual bound: there are two answers, a hopeful and a
cautious one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from scipy.optimize import brentq

from bondic.advice.length_guess import propensity_guess, sequential_guess
from bondic.advice.situation import Situation
from bondic.bounds.dual import ALLOWANCE, BIAS, NOISE, START
from bondic.bounds.ends import RARE
from bondic.methods.propensities import NAME as PROPENSITIES
from bondic.view import NextStep

HALF = 0.5
_RATES = {
    "hopeful": {NOISE: 0.5, START: 0.5, RARE: 1.0, BIAS: 1.0, ALLOWANCE: 0.0},
    "cautious": {NOISE: 0.5, START: 0.5, RARE: 1.0, BIAS: 0.5, ALLOWANCE: 0.0},
}
_DUAL_BIAS = {"hopeful": 0.5, "cautious": 0.0}
_MOST = 1e6
_MORE = 1.5
"""These rows were not enough, whatever a guess says: so many times more are the least that is named."""


def rows_needed(situation: Situation) -> Iterator[NextStep]:
    """For half the length; for half the value range where the answer is no shorter than that."""
    if situation.result.unstated:
        return
    if situation.result.method == PROPENSITIES or situation.verdict == "trivial":
        yield from _by_guess(situation)
    elif situation.uses_log:
        yield from _by_parts(situation)


def _by_parts(situation: Situation) -> Iterator[NextStep]:
    rows = situation.result.rows[1] - situation.result.rows[0]
    found = [growth(situation.spreads, _rates(situation, name), HALF) for name in ("hopeful", "cautious")]
    if not math.isfinite(found[0]):
        yield NextStep(
            "rows",
            "More rows of the same kind will not halve the length: too much of it does not depend on their number.",
            "extrapolated",
        )
        return
    numbers = {"rows_from": found[0] * rows}
    words = f"{rounded(numbers['rows_from'])} rows"
    if not math.isfinite(found[1]):
        words += " or more"
    elif found[1] > 1.3 * found[0]:
        numbers["rows_to"] = found[1] * rows
        words = f"{rounded(numbers['rows_from'])} to {rounded(numbers['rows_to'])} rows"
    text = f"For half the length you need about {words} instead of {rows}."
    yield NextStep("rows", text, "extrapolated", numbers=numbers)


def _rates(situation: Situation, name: str) -> dict[str, float]:
    rates = dict(_RATES[name])
    if situation.result.method == "dual":
        rates[BIAS] = _DUAL_BIAS[name]
    return rates


def growth(parts: Mapping[str, float], rates: Mapping[str, float], share: float) -> float:
    """The factor of rows at which the parts sum to `share` of what they are; inf where none does."""
    whole = sum(parts.values())

    def excess(log_factor: float) -> float:
        return sum(size * math.exp(-rates.get(name, 0.0) * log_factor) for name, size in parts.items()) - share * whole

    most = math.log(_MOST)
    return math.inf if excess(most) > 0 else math.exp(float(brentq(excess, 0.0, most)))


def _by_guess(situation: Situation) -> Iterator[NextStep]:
    """From what the methods foresee: there are no parts to extrapolate, or they say too little.

    A guess of the sequential interval takes what the rows at hand teach for granted, so these rows come on top of it.
    """
    result, rows = situation.result, situation.result.rows[1] - situation.result.rows[0]
    share = HALF if situation.verdict == "trivial" else HALF * situation.share
    if result.method == PROPENSITIES:
        guess, taught = propensity_guess(situation.certified, result.alpha), 0
    else:
        guess = sequential_guess(situation.problem, result.alpha, result.side, **situation.known)
        taught = len(situation.problem.rows)
    found = None if guess is None else guess.rows_for(share, rows)
    if found is None or (found == rows and taught):  # the guess calls these rows enough, and they were not
        return
    wanted = max(found + taught, _MORE * rows)
    aim = "For an interval of half the value range" if situation.verdict == "trivial" else "For half the length"
    yield NextStep(
        "rows",
        f"{aim} you need about {rounded(wanted)} rows instead of {len(situation.problem.rows)}.",
        "extrapolated",
        numbers={"rows": wanted, "share": share},
    )


def rounded(rows: float) -> str:
    """Two digits are more than such numbers are worth."""
    return f"{int(float(f'{rows:.2g}')):,}".replace(",", " ")
