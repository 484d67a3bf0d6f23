"""What would help: each part of an end has one lever.

    part of the bound   →   what makes it smaller   →   how much, estimated

`LEVERS` is the table. Rows are the lever that most parts share: a part falls like rows^(-rate), so half the length takes the
factor of rows at which

    sum of parts × factor^(-rate)  =  half of their sum.

Rates are those of the formulas: noise and starts 1/2, rare events 1. Bias falls at least like noise as long as rows still teach
what is left open, and may not fall at all in the dual bound.

What no row can cure comes first (`remedies`), what a statement would spare comes last.
Nothing here is proved, and nothing here moves an interval: advice is made from a result that is finished.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from bondic.advice.lengths import propensity_guess
from bondic.advice.remedies import (
    SOME,
    other_methods,
    overlap,
    rejected,
    starts_not_left,
)
from bondic.advice.situation import Situation
from bondic.advice.statements import bound_of_ratios, nearer_question, statements
from bondic.core.cells.proof import ALLOWED, CellsProof
from bondic.core.claims import Status
from bondic.core.dual.bound import ALLOWANCE, BIAS, NOISE, START
from bondic.core.errors import InvalidInput
from bondic.core.propensities.crossing import crossing
from bondic.core.propensities.proof import PropensityProof
from bondic.core.sequential.ends import RARE
from bondic.core.terms import in_full
from bondic.data.hygiene.course import MOVES
from bondic.errors import command_words, python_words
from bondic.methods.propensities import NAME as PROPENSITIES
from bondic.rendering import counted, sentence, three
from bondic.result import NextStep, Result, Ruling
from bondic.rows import Rows
from bondic.summary import curve_of, difference_words

DUAL = "dual"


@dataclass(frozen=True)
class Lever:
    """What makes a part smaller, and the power of the number of rows with which it falls."""

    words: str = ""
    rate: float = 0.0


LEVERS = {
    NOISE: Lever(
        "More rows make it smaller, like 1/sqrt(n); a narrower true range of rewards or returns in proportion.",
        0.5,
    ),
    RARE: Lever(
        "It covers events that no row shows but that may still happen. More rows make it smaller, like 1/n; a narrower true "
        "range of returns in proportion.",
        1.0,
    ),
    BIAS: Lever("It covers what the log does not tell about the value function.", 0.5),
    START: Lever(rate=0.5),  # said with the number of starts
    ALLOWANCE: Lever(
        "It is the allowance that you stated, misspecification= (--with misspecification=B), times the steps that count."
    ),
    ALLOWED: Lever(
        "It is the allowance that you stated, times the steps that count. Groups whose rows are more alike, groups= (--with "
        "groups=SPEC), or a better model, model= (--with model=SPEC), need less."
    ),
}
_DUAL_LEVERS = {
    NOISE: Lever("The dual method allows for the largest noise that is possible in the stated ranges.", 0.5),
    BIAS: replace(LEVERS[BIAS], rate=0.0),
}
_WHOLE = (
    "The log is too short for this policy, or too far from it: with {steps} that {count}, its rows are not enough to say "
    "anything, so the interval is the whole value range."
)
_NOTHING = "No interval was looked for, so the answer is the whole value range: {why}."
_DOMINANT = 0.4
"""Share of the length from which on one part is worth a word, however short the interval is."""
_SHORT = 0.5
"""What promises less than this share of the length is said before what explains it."""
_MOVED = ". That is about all rows together, and they differ over time: look at the latest ones before you decide"
_FAR = 100.0
"""Nobody waits for so many times the rows."""
_MAX_GROWTH = 1e6
_MORE = 1.5
"""These rows were not enough, whatever a guess says: so many times more are the least that is named."""


def next_steps(
    result: Result, problem: Rows | None = None, *, no_rows: bool = False, command: bool = False
) -> tuple[NextStep, ...]:
    """What would help, for a trivial, wide or rejected result; for a sharp one what a statement would spare, if that is much.

    `problem` is the one that the result answers; a result that still holds it needs no other. Made after the interval, from
    the result, its problem and counts of its log; takes a second or two where no row was used.
    Nothing of it is guaranteed, and nothing of it moves an interval. What it suggests on the ground of this log is for the
    next one: a range, a radius or a method that is changed because of the outcome has no guarantee. `no_rows` leaves
    out what quotes the least or largest value of a row; `command` names ways out as the command line does.
    """
    words, found = command_words if command else python_words, _steps(result, problem, no_rows)
    if any(text.startswith(MOVES) for text in result.warnings):
        found = tuple(replace(step, text=step.text + _MOVED) if step.kind == "decision" else step for step in found)
    return tuple(replace(step, text=words(step.text)) for step in found)


def _steps(result: Result, problem: Rows | None, no_rows: bool) -> tuple[NextStep, ...]:
    """In both words; what gains most first, after the decision and what nothing else can cure."""
    problem = result.question if problem is None else problem
    if problem is None:
        raise InvalidInput("This result no longer holds its question: pass the problem, next_steps(result, problem).")
    if problem.log_hash != result.hashes["log"]:
        raise InvalidInput("The result belongs to another log than the problem (content hashes differ).")
    situation = Situation(result, problem, no_rows)
    ruled = () if result.ruling is None else tuple(_ruled(result, result.ruling))
    if result.is_difference:
        if result.status is Status.REJECTED:
            return tuple(rejected(situation))
        return (*(ruled or _decision(result)), *_unsaid(result), *bound_of_ratios(situation))
    steps = {"sharp": _hints, "rejected": rejected}.get(situation.verdict, _ways_out)(situation)
    compared = ruled or (() if result.comparison is None else tuple(_decision(result.comparison)))
    found = [*_planned(situation), *steps]
    if result.comparison is not None and result.comparison.names[1] == "today":
        found += _cut(situation, result.comparison)
    length = situation.length
    return (
        *compared,
        *sorted(found, key=lambda step: (not step.loud, step.numbers.get("length", length) >= _SHORT * length)),
    )


def _decision(result: Result) -> Iterator[NextStep]:
    """What a difference is worth to someone who decides; lengths fall like 1 / sqrt(rows)."""
    if result.status is Status.REJECTED or result.guarantee != "finite-sample":
        return
    (new, other), (word, _) = result.names, difference_words(result)
    kept = f"keep {_policy(other)}"
    if word in ("better", "worse"):
        act, who = (f"take {_policy(new)}", "it") if word == "better" else (kept, _policy(new))
        yield NextStep("decision", f"{sentence(act)}: the log shows that {who} is {word}, if what you state is true")
        return
    text, rows = f"{sentence(kept)} for now: the log does not show which is better", math.nan
    known = result.estimated and result.estimate != 0 and not result.says_nothing_of_new
    if known and result.status is Status.INTERVAL and result.side == "both":
        gain, end = (result.estimate, result.low) if result.estimate > 0 else (-result.estimate, -result.high)
        rows = (result.rows[1] - result.rows[0]) * ((gain - end) / gain) ** 2
    yield _later(text, result, rows, "0", f"that {_policy(new)} is {'better' if result.estimate > 0 else 'worse'}")


def _ruled(result: Result, ruling: Ruling) -> Iterator[NextStep]:
    """What the verdict of a gate is worth to someone who decides."""
    if result.status is Status.REJECTED:
        return
    new, other = map(_policy, result.names)
    if ruling.verdict == "approve":
        yield NextStep("decision", f"Take {new}: the log shows what you require, if what you state is true")
    elif ruling.verdict == "refuse":
        text = f"Keep {other}: the log shows that {new} does not meet what you require, if what you state is true"
        yield NextStep("decision", text)
    else:
        text = f"Keep {other} for now: the log does not tell whether {new} meets what you require"
        shown = f"that it does{'' if ruling.holds else ' not'}"
        yield _later(text, result, ruling.rows, "what you require", shown)


def _later(text: str, result: Result, rows: float, aim: str, shown: str) -> NextStep:
    """Nothing is decided yet: how many rows in all would, where that is known (else NaN)."""
    if rows > _FAR * (result.rows[1] - result.rows[0]):
        return NextStep("decision", f"{text}. The estimate is so near {aim} that no log of this kind and size will")
    if math.isnan(rows):
        known = result.estimated or result.says_nothing_of_new or result.status is not Status.INTERVAL
        return NextStep(
            "decision", text if known else f"{text}. These rows decide no estimate that would say how many do"
        )
    more = f"about {rounded(rows)} rows like these in all would show {shown}"
    return NextStep("decision", f"{text}. If the estimate is right, {more}", "extrapolated", numbers={"rows": rows})


def _unsaid(result: Result) -> Iterator[NextStep]:
    """Values by themselves have no curve of the difference: where to see that of the new policy."""
    if result.says_nothing_of_new and result.parts[0].unstated:
        yield NextStep(
            "term",
            f"Without a statement the log says nothing about {_policy(result.names[0])}. Ask for its value alone, without the "
            "comparison, to see what an allowance would give; then state one: allowance=A (--allowance A)",
            "yours",
        )


def _policy(name: str) -> str:
    """A policy in a sentence."""
    return {"new": "the new policy", "today": "today's policy"}.get(name, name)


def with_next_steps(
    result: Result, problem: Rows | None = None, *, no_rows: bool = False, command: bool = False
) -> Result:
    """The same result with what to do next, which every view then shows."""
    return replace(result, steps=next_steps(result, problem, no_rows=no_rows, command=command))


def _hints(situation: Situation) -> Iterator[NextStep]:
    """Parts that can be spared by saying more, whatever the length: starts, an allowance, ratios without a bound."""
    largest = situation.largest
    if largest in (START, ALLOWANCE, ALLOWED) and situation.part(largest) >= _DOMINANT:
        yield from _pull(situation, largest)
    yield from statements(situation)
    yield from bound_of_ratios(situation)


def _planned(situation: Situation) -> Iterator[NextStep]:
    """A plan for fewer rows than there are."""
    proof, (first, stop) = situation.result.proof, situation.result.rows
    planned, rows = 0, stop
    if isinstance(proof, CellsProof):
        planned = proof.planned or 0
    elif isinstance(proof, PropensityProof) and proof.beforehand and proof.single(situation.problem):
        planned, rows = proof.planned, stop - first
    if 0 < planned < rows:
        yield NextStep(
            "rows",
            f"{planned} rows were planned, and the log has {rows}: bets were made for {planned}, so the interval is longer than "
            "it need be. State the number that is planned for the whole log, planned_rows=N (--with planned_rows=N).",
            numbers={"rows": float(rows)},
        )


def _cut(situation: Situation, result: Result) -> Iterator[NextStep]:
    """Today's value where episodes were cut: what would have followed counts as anything in the value range."""
    value, facts = result.parts[1], situation.facts
    if (
        value.status is Status.INTERVAL
        and facts.cut > _DOMINANT * value.length
        and situation.problem.terms.horizon is None
        and situation.verdict != "sharp"
        and (expected := situation.expected(horizon=facts.longest)) is not None
        and expected[0] < situation.length  # a horizon multiplies the states of a table
    ):
        yield NextStep(
            "range",
            f"Today's value is as long as it is because episodes were cut: what would have followed may be anything, "
            f"{three(facts.cut)} of its length of {three(value.length)}."
            f" Only the first steps are in the log: horizon={facts.longest} (--horizon "
            f"{facts.longest}) asks for what they are worth, with either policy.",
            numbers={"part": facts.cut, "whole": value.length},
        )


def _ways_out(situation: Situation) -> Iterator[NextStep]:
    yield from starts_not_left(situation)
    yield from overlap(situation)
    yield from _largest_part(situation)
    yield from _rows_needed(situation)
    yield from statements(situation)
    yield from nearer_question(situation)
    yield from other_methods(situation)
    yield from bound_of_ratios(situation)


# --- the lever of a part ------------------------------------------------------------------------------


def _largest_part(situation: Situation) -> Iterator[NextStep]:
    """The lever of the largest part, and that of the starts where they cost more than a little."""
    if situation.result.unstated:
        curve = curve_of(situation.result)
        assert curve is not None
        yield NextStep("allowance", curve.advice, "yours")
        return
    if not situation.uses_log:
        if situation.verdict == "trivial":
            count = "counts" if situation.steps == 1 else "count"
            words, why = _NOTHING if situation.nothing else _WHOLE, situation.nothing
            yield NextStep("term", words.format(steps=counted(situation.steps, "step"), count=count, why=why))
        return
    if situation.largest:
        yield from _pull(situation, situation.largest)
        if situation.largest != START and situation.part(START) >= SOME:
            yield from _pull(situation, START)


def _pull(situation: Situation, name: str) -> Iterator[NextStep]:
    """What makes one part smaller."""
    size, whole = situation.spreads[name], sum(situation.spreads.values())
    if name == START:
        yield _cost_of_starts(situation, size)
        return
    words = lever(situation, name).words + (_against_bias(situation) if name == BIAS else "")
    yield NextStep(
        "term",
        f"The largest part of the length is {name}: {three(size)} of {three(whole)}. {words}".strip(),
        numbers={"part": size, "whole": whole},
    )


def lever(situation: Situation, name: str) -> Lever:
    """That of the table, or of the dual bound; a part that has none falls with nothing."""
    known = {**LEVERS, **_DUAL_LEVERS} if situation.result.method == DUAL else LEVERS
    return known.get(name, Lever())


def _against_bias(situation: Situation) -> str:
    """What is not in force already."""
    if situation.result.curve is not None:
        return " What helps: more rows, fewer groups, or single rows that are more alike, allowance=(A, B) (--allowance A B)."
    named = "a class Q that you can vouch for, radius=R (--with radius=R)"
    ways = [
        "rows where the policy goes",
        "a smaller class Q, if you can vouch for one" if situation.stated_class else named,
    ]
    ways += ["a smaller discount"] if situation.problem.gamma else []
    return f" What helps: {', '.join(ways[:-1])} or {ways[-1]}."


def _cost_of_starts(situation: Situation, cost: float) -> NextStep:
    starts, part = situation.problem.initial_states, situation.part(START)
    count, same = len(starts), bool((starts.observations == starts.observations[:1]).all())
    alone = " Alone it may not be enough." if situation.verdict == "trivial" else ""
    if same and not situation.no_rows:
        state = ",".join(in_full(value) for value in starts.observations[0].tolist())
        name = situation.problem.state_name(starts.observations[0])
        way = (
            f"All {count} are {name}: if every episode starts there, "
            f"initial=InitialStates.exact([[{state}]]) (--initial {state}) says so, and this part is 0."
        )
    else:
        exact = "FILE" if starts.from_rows else "FILE, without `sample:`"
        way = (
            "If your question is about starts that you can list, list them, initial=InitialStates.exact(states) "
            f"(--initial {exact}), and this part is 0. Otherwise {4 * count} starts about halve it."
        )
    return NextStep(
        "start",
        f"The unknown start adds {three(cost)}, {part:.0%} of the length: the {count} starts are only a sample. {way}{alone}",
        numbers={"part": cost, "starts": count, "share": part, "length": max(situation.length - cost, 0.0)},
    )


# --- rows: the lever that most parts share ------------------------------------------------------------


def _rows_needed(situation: Situation) -> Iterator[NextStep]:
    """For half the length; for half the value range where the answer is no shorter than that."""
    if situation.result.unstated:
        return
    if situation.result.method == PROPENSITIES or situation.verdict == "trivial":
        yield from _rows_by_guess(situation)
    elif situation.uses_log:
        yield from _rows_by_parts(situation)


def _rows_by_parts(situation: Situation) -> Iterator[NextStep]:
    rows, parts = situation.result.rows[1] - situation.result.rows[0], situation.spreads
    needed = rows * growth(parts, {name: lever(situation, name).rate for name in parts})
    if math.isfinite(needed):
        text = f"For half the length you need about {rounded(needed)} rows instead of {rows}."
    else:
        text = "More rows of the same kind will not halve the length: too much of it does not depend on their number."
    yield NextStep("rows", text, "extrapolated", numbers={"rows": needed} if math.isfinite(needed) else {})


def growth(parts: Mapping[str, float], rates: Mapping[str, float], share: float = 0.5) -> float:
    """The factor of rows at which the parts sum to `share` of what they are; inf where none does."""
    whole = sum(parts.values())

    def excess(log_factor: float) -> float:
        return sum(size * math.exp(-rates.get(name, 0.0) * log_factor) for name, size in parts.items()) - share * whole

    most = math.log(_MAX_GROWTH)
    if excess(most) > 0:
        return math.inf
    return math.exp(crossing(excess, (0.0, excess(0.0)), (most, excess(most)), 1e-9))


def _rows_by_guess(situation: Situation) -> Iterator[NextStep]:
    """From what the methods predict: there are no parts to extrapolate, or they say too little.

    A guess for a table takes what the rows at hand teach for granted, so these rows come on top of it.
    """
    result, rows = situation.result, situation.result.rows[1] - situation.result.rows[0]
    share = 0.5 if situation.verdict == "trivial" else 0.5 * situation.share
    by_ratios = result.method == PROPENSITIES
    guess = propensity_guess(situation.certified, result.alpha) if by_ratios else situation.guess()
    rows_known = 0 if by_ratios else len(situation.problem.rows)
    found = None if guess is None else guess.rows_for(share, rows)
    if found is None or (found == rows and rows_known):  # the guess calls these rows enough, and they were not
        return
    needed = max(found + rows_known, _MORE * rows)
    aim = "For an interval of half the value range" if situation.verdict == "trivial" else "For half the length"
    text = f"{aim} you need about {rounded(needed)} rows instead of {len(situation.problem.rows)}."
    yield NextStep("rows", text, "extrapolated", numbers={"rows": needed, "share": share})


def rounded(rows: float) -> str:
    """Two digits are more than such numbers are worth."""
    return f"{int(float(f'{rows:.2g}')):,}".replace(",", " ")
