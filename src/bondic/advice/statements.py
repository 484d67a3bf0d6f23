"""What a statement would spare: a range, a horizon, a bound of the ratios, a nearer question.

Each is tried on these rows first: what is said to help is what the methods predict to be shorter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from bondic.advice.situation import Situation
from bondic.core.terms import implied_range, range_of, value_range
from bondic.methods.propensities import NAME as PROPENSITIES
from bondic.rendering import three
from bondic.result import NextStep

_NOT_FROM_HERE = "Take it from how rewards are made, not from this log."
_SHORTER = 0.8
"""What is named must be predicted to be shorter than this share of what there is."""
_ENOUGH = 0.75
"""Share of the value range below which an interval says something."""
_NEAR = 0.5
"""A question about fewer than this share of the steps is another question."""
_TRIES = 4


def statements(situation: Situation) -> Iterator[NextStep]:
    """Every part is proportional to the width of the value range. What the log shows is a hint, never a reason."""
    if situation.result.value_range.width == 0:
        return
    if not situation.no_rows:
        yield from _ranges(situation)
    yield from _horizon(situation)
    yield from _endless(situation)


def _ranges(situation: Situation) -> Iterator[NextStep]:
    """The returns seen beside the value range; the rewards seen beside theirs."""
    terms, facts, limits = situation.problem.terms, situation.facts, situation.result.value_range
    if facts.returns is not None and terms.gamma and terms.value_range is None:
        seen = rounded_out(*facts.returns)
        gain = _gain(situation, (seen[1] - seen[0]) / limits.width, value_range=seen) if seen[0] < seen[1] else None
        if gain is not None:
            yield NextStep(
                "range",
                f"From any step on, discounted returns of the log lie in [{three(facts.returns[0])}, {three(facts.returns[1])}]; "
                f"the interval allows for all of [{three(limits.low)}, {three(limits.high)}]. If you know a narrower range of "
                f"every return, state it: with value_range=({three(seen[0])}, {three(seen[1])}) (--value-range {three(seen[0])} "
                f"{three(seen[1])}) {_length(gain, situation)}. {_NOT_FROM_HERE}",
                "yours",
                numbers={"length": gain, "low": seen[0], "high": seen[1]},
            )
            return
    (low, high), seen = terms.reward_range, rounded_out(*facts.rewards)
    seen = max(seen[0], low), min(seen[1], high)
    if not low < high or seen[0] == seen[1]:  # one value is no range to propose
        return
    # an early end leaves more than the rewards do, so widths of values are compared
    left = implied_range(replace(terms, reward_range=seen))
    share = (min(left.high, limits.high) - max(left.low, limits.low)) / limits.width
    gain = _gain(situation, share, reward_range=seen) if share > 0 else None
    if gain is not None:
        yield NextStep(
            "range",
            f"Logged rewards lie in [{three(facts.rewards[0])}, {three(facts.rewards[1])}], the stated range is [{three(low)}, "
            f"{three(high)}]. If you know a narrower one, state it: with reward_range=({three(seen[0])}, {three(seen[1])}) "
            f"(--reward-range {three(seen[0])} {three(seen[1])}) {_length(gain, situation)}. {_NOT_FROM_HERE}",
            "yours",
            numbers={"length": gain, "low": seen[0], "high": seen[1]},
        )


def _gain(situation: Situation, share: float, **stated: tuple[float, float]) -> float | None:
    """The length that a narrower range promises, if that is worth a word: as predicted, or else in proportion."""
    if share >= _SHORTER:
        return None
    told = situation.expected(**stated)
    length = share * situation.length if told is None else told[0]
    return length if length < _SHORTER * situation.length else None


def _length(length: float, situation: Situation) -> str:
    return f"the expected length is about {three(length)} instead of {three(situation.length)}"


def rounded_out(low: float, high: float) -> tuple[float, float]:
    """Both ends outward to one digit of the larger of them."""
    size = max(abs(low), abs(high))
    if size == 0:
        return low, high
    unit = 10.0 ** math.floor(math.log10(size) + 1e-9)
    return tuple(
        float(f"{side(end / unit - sign * 1e-9) * unit:.12g}")
        for side, end, sign in ((math.floor, low, -1), (math.ceil, high, 1))
    )  # type: ignore[return-value]


def _horizon(situation: Situation) -> Iterator[NextStep]:
    """Where no episode is as long as the discount looks ahead."""
    terms, facts = situation.problem.terms, situation.facts
    if terms.horizon is not None or not facts.ends or facts.returns is None or not facts.longest < situation.steps:
        return
    found = situation.expected(horizon=facts.longest)
    if found is None or found[0] >= _SHORTER * situation.length:
        return
    other = "" if found[1] == situation.result.method else f" (by {found[1]})"
    yield NextStep(
        "range",
        f"No episode of the log is longer than {facts.longest} steps, and the discount looks {three(situation.steps)} "
        f"steps ahead. If only so many steps can count, state it: with horizon={facts.longest} (--horizon {facts.longest}) "
        f"{_length(found[0], situation)}{other}.",
        "yours",
        numbers={"horizon": facts.longest, "length": found[0]},
    )


def _endless(situation: Situation) -> Iterator[NextStep]:
    """Where nothing ends, the range need not allow for an early end."""
    terms, facts = situation.problem.terms, situation.facts
    if not terms.may_terminate or facts.ends or terms.horizon is not None or terms.value_range is not None:
        return
    share = value_range(terms.gamma, terms.reward_range, may_terminate=False).width / max(range_of(terms).width, 1e-300)
    if share < _SHORTER:
        yield NextStep(
            "range",
            "No row of the log ends the process. If nothing can end it, may_terminate=False (--with never_terminates=yes) says "
            f"so: the value range becomes {share:.0%} of what it is.",
            "yours",
            numbers={"share": share, "length": share * situation.length},
        )


def nearer_question(situation: Situation) -> Iterator[NextStep]:
    """For answers that say nothing: a question that looks less far ahead, and not much less."""
    terms, result = situation.problem.terms, situation.result
    if situation.verdict != "trivial" or not terms.gamma or result.method == PROPENSITIES:
        return
    if terms.horizon is not None:
        shorter = math.ceil(_NEAR * terms.horizon)
        found = situation.expected(horizon=shorter)
        if (
            found is not None
            and found[0] < _ENOUGH * range_of(replace(terms, horizon=shorter, time_varying=True)).width
        ):
            yield NextStep(
                "discount",
                f"With horizon={shorter} (--horizon {shorter}) these rows would say something. That is a different question: ask "
                "it only if the near future is what matters to you.",
                "extrapolated",
                numbers={"horizon": shorter},
            )
    elif (gamma := _nearest_discount(situation)) is not None:
        yield NextStep(
            "discount",
            f"With gamma={gamma:g} (--gamma {gamma:g}) these rows would say something: {three(1 / (1 - gamma))} steps count "
            f"then, now {three(situation.steps)}. That is a different question: ask it only if the near future is what matters "
            "to you.",
            "extrapolated",
            numbers={"gamma": gamma},
        )


def _nearest_discount(situation: Situation) -> float | None:
    """The largest discount, of at least half as many steps, at which these rows are predicted to be enough."""
    problem = situation.problem
    half = problem.load(problem.rows.start, problem.rows.start + len(problem.rows) // 2)
    if half is None:
        return None
    rows = len(problem.rows) - len(half.rows)
    now = situation.guess(None, half)
    if now is None or now.share(rows) <= _ENOUGH:  # they were not, so this guess is worth nothing
        return None
    for place in range(1, _TRIES + 1):
        steps = situation.steps * _NEAR ** (place / _TRIES)
        gamma = float(f"{max(1 - 1 / steps, 0.0):.2g}" if steps < 100 else f"{1 - 1 / steps:.3g}")
        guess = situation.guess(gamma, half) if 0 < gamma < problem.gamma else None
        if guess is not None and guess.share(rows) <= _ENOUGH:
            return gamma
    return None


def bound_of_ratios(situation: Situation) -> Iterator[NextStep]:
    """A bound of the ratios allows doubly robust values."""
    result, least = situation.result, situation.least_propensity
    if result.method != PROPENSITIES or "may shorten" not in result.choices.get("control variate", ""):
        return
    if not situation.problem.layout.discrete:  # densities have no bound: a least one of the log bounds no ratio
        known, statement, length = (
            "no ratio of densities, the policy's to the log's, can exceed some p",
            "max_ratio=p",
            None,
        )
    elif situation.no_rows or least is None:
        known, statement, length = "no logged probability can be below some p", "min_propensity=p", None
    else:
        least = float(three(least)) if float(three(least)) <= least else least
        known, statement = f"no logged probability can be below {least:.12g}", f"min_propensity={least:.12g}"
        length = situation.expected_with(least)
        if length is not None and length >= _SHORTER * situation.length:
            return
    gain = "may then be shorter" if length is None else f"is then expected to be about {three(length)} long"
    yield NextStep(
        "method",
        f"If you know from how the log was made that {known}, state it: {statement} (--with {statement}). The interval {gain}.",
        "yours",
        numbers={} if length is None else {"length": length},
    )
