"""A result in words and grids, once: terminal, notebook, page and Markdown draw this.

A view that draws it depends on no method, no part of an end point and no assumption by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from bondic.core.assumptions import VALUE_RANGE
from bondic.core.cells.proof import CellsProof
from bondic.core.claims import Assumption, Claim, Guarantee, Status
from bondic.core.printed import bound_text, ends_text, interval_text
from bondic.core.propensities.proof import PropensityProof
from bondic.core.separate import SeparateProof
from bondic.core.terms import ValueRange
from bondic.curve import METHOD as GROUPS
from bondic.curve import CurveView, alike, break_words, curve_view
from bondic.rendering import STATE_WORDS, Grid, confidence, counted, sentence, three
from bondic.result import NextStep, Result

Tone = Literal["good", "nothing", "bad"]
"""An interval; no more than the value range; a contradiction."""
_TONES: dict[Status, Tone] = {Status.INTERVAL: "good", Status.TRIVIAL: "nothing", Status.REJECTED: "bad"}
_LEVELS: dict[Guarantee, str] = {"asymptotic": " in the limit of large logs", "none": ", as a guess without guarantee,"}
_ROUNDING = 1e-12
"""Share of an interval that is rounding: an end point so close to 0 is shown as 0."""
_WORTH_A_ROW = 1e-6
"""Share of an interval below which a part of it is not shown."""


@dataclass(frozen=True)
class Summary:
    """A result, ready to be drawn."""

    tone: Tone
    verdict: str  # of a gate: the first line of every view; "" where none was asked
    warnings: tuple[str, ...]
    answer: str  # one sentence
    brief: tuple[str, ...]  # what it is worth and how it was made, in a line or two
    guarantee: str
    lines: tuple[
        str, ...
    ]  # further sentences: what the estimate is worth, what the ranges say, how far the search came
    parts: Grid | None  # None where an end point does not split into parts
    curve: CurveView | None  # None where there are no groups
    subgroups: Grid | None  # None where none were requested
    steps: tuple[NextStep, ...]  # what to do next, the most urgent first
    assumptions: Grid
    choices: Grid


def summarize(result: Result) -> Summary:
    """What every view shows, as plain data and in order."""
    parts = parts_grid(result.claims)
    if parts is not None and ends_cross(result):
        parts = replace(parts, title=f"{parts.title} (the two ends start from averages of their own)")
    needed = all_assumptions(result, result.today)
    stated = [
        (" ".join(filter(None, named_assumption(item.name, result))), STATE_WORDS[item.state], item.text)
        for item in needed
    ]
    states = tuple(item.state for item in needed)
    return Summary(
        tone="nothing" if result.says_nothing_of_new else _TONES[result.status],
        verdict="" if result.ruling is None else result.ruling.text,
        warnings=result.warnings,
        answer=headline(result),
        brief=tuple(f"{sentence(line)}." for line in _brief(result)),
        guarantee=_guarantee(result),
        lines=tuple(f"{sentence(line)}." for line in _lines(result, split=parts is not None)),
        parts=parts,
        curve=None if result.curve is None or result.curve.says_nothing else curve_of(result),
        subgroups=subgroups_grid(result),
        steps=tuple(step for step in result.steps if step.kind != "allowance"),  # said with the curve
        assumptions=Grid("Assumptions", ("assumption", "state", "in words"), tuple(stated), states),
        choices=Grid("Choices", ("what", "how"), tuple(result.choices.items())),
    )


def all_assumptions(result: Result, today: Result | None) -> tuple[Assumption, ...]:
    """What the result rests on, then what the comparison with today's policy needs beyond that."""
    known = {item.text for item in result.assumptions}
    more = [] if today is None else [item for item in today.assumptions if item.text not in known]
    rest = [replace(item, name=f"{item.name.partition(' (')[0]} (today)") for item in more]
    # the range of rewards is one statement, whatever rows were counted beside it
    return (*result.assumptions, *(item for item in rest if item.name != "rewards (today)"))


def named_assumption(name: str, result: Result) -> tuple[str, str]:
    """ "data (policy 1)", as certificates have it where each policy has a proof of its own: ("data", "(new)")."""
    plain, _, about = name.partition(" (")
    names = dict(zip(("policy 1)", "policy 2)"), result.names, strict=True))
    return plain, f"({names[about]})" if about in names else f"({about}" if about else ""


def headline(result: Result) -> str:
    """What a decision maker quotes: both values and their difference, where both are known; else the answer."""
    compared = result.comparison
    return answer(result) if compared is None or compared is result else answer(compared)


def answer(result: Result) -> str:
    """One sentence, ends rounded outward; in parentheses why it says little, or what was stated for it."""
    at = f"{confidence(result.alpha)}{_LEVELS.get(result.guarantee, '')}"
    said = _verdict(result) if result.status is not Status.INTERVAL or result.on_groups else ""
    why = f" ({said})" if said else ""
    if result.status is Status.REJECTED:
        return f"At {at} no interval is given{why}."
    if not result.is_difference:
        return f"At {at} the value of {_subject(result)} {_lies(result)}{why}."
    (new, other), (word, size) = result.names, difference_words(result)
    new = new if _subject(result) == "the policy" else _subject(result)
    changed = "today: the average behavior over these rows" if "today" in result.choices else ""
    if result.comparison is None:
        return f"At {at} {new} is {word} than {other}{size}{why or (changed and f' ({changed})')}."
    values = ", ".join(f"{name} {_ends(part)}" for name, part in zip((new, other), result.parts, strict=True))
    named = (values, f"{new} is ") if new == result.names[0] != "new" else (sentence(values), "")
    own = result.parts[0]  # by itself, the statement is in the proof of its value
    stated = said if result.allowance is not None else _verdict(own) if own.allowance is not None else ""
    more = "".join(f"; {words}" for words in (changed, stated) if words)
    return f"{named[0]}; {named[1]}{word}{size} (each at {at}{more})."


def difference_words(result: Result) -> tuple[str, str]:
    """Better, worse, or not shown, and by how much: a difference in words."""
    for word, shown, least, most, side in (
        ("better", result.low > 0, result.low, result.high, "lower"),
        ("worse", result.high < 0, -result.high, -result.low, "upper"),
    ):
        if shown and result.side in ("both", side):
            low, high = ends_text(least, most)
            low = bound_text(least, -1) if float(low) == 0 else low
            return word, f" by {low} to {high}" if result.side == "both" else f" by at least {bound_text(least, -1)}"
    return "not shown to be better", f": the difference {_lies(result)}"


def _lies(result: Result) -> str:
    return {
        "both": f"lies in {interval_text(result.low, result.high)}",
        "lower": f"is at least {bound_text(result.low, -1)}",
        "upper": f"is at most {bound_text(result.high, 1)}",
    }[result.side]


def _ends(result: Result) -> str:
    """The ends that were computed, in words."""
    return {
        "both": " to ".join(ends_text(result.low, result.high)),
        "lower": f"at least {bound_text(result.low, -1)}",
        "upper": f"at most {bound_text(result.high, 1)}",
    }[result.side]


def _subject(result: Result) -> str:
    """Whose value it is."""
    stored = None if result.proof is None else result.proof.estimand.policies[0]
    if stored is None or stored.known_by != "mixture":
        return "the policy"
    return f"the mixture of {len(stored.learned)} learned policies"


def other_policy(result: Result) -> str:
    """The second policy of a difference, in words."""
    return "today's" if result.names[1] == "today" else result.names[1]


def ranges(result: Result) -> tuple[str, str]:
    """What implies the value range, and the verb that goes with it."""
    stated = any(item.name == VALUE_RANGE for item in result.assumptions)
    return ("the stated ranges", "imply") if stated else ("the reward range", "implies")


def _verdict(result: Result) -> str:
    """The message of the status; it speaks of both ranges where two were stated, and of groups where there are some."""
    stated, verb = ranges(result)
    if result.on_groups and result.curve is not None:
        if result.allowance is None:
            return "trivial: nothing is stated about how alike states are"
        if result.status is Status.INTERVAL:
            return f"stated by you: {alike(result.curve, result.allowance)}"
    propensities = any(item.name == "propensities" for item in result.assumptions)
    return (
        str(result.status)
        .replace("the reward range alone implies", f"{stated} alone {verb}")
        .replace("the reward range", stated)
        .replace("the value function q*", "the propensities" if propensities else "the value function q*")
    )


def _guarantee(result: Result) -> str:
    """What is guaranteed; a log that contradicts the assumptions leaves nothing to guarantee."""
    if result.status is Status.REJECTED:
        return "No interval is given, so nothing is guaranteed."
    words = result.guarantee + (", no assumption about the value function" if result.is_assumption_free else "")
    return f"Guarantee of the interval: {words}."


def estimate_words(result: Result) -> str:
    """The point estimate, where it comes from and what it is worth; or why there is none."""
    if not result.estimated:
        return "no point estimate" + ("" if result.on_groups else ", because the rows do not decide one")
    worth = "outside the interval: it has no guarantee" if result.estimate_outside else "no guarantee of its own"
    source = f"{result.choices['estimate']}; " if "estimate" in result.choices else ""
    return f"point estimate {three(result.estimate)} ({source}{worth})"


def search_words(result: Result) -> str:
    """What a better search could still change; empty where nothing was searched. An end that was not computed is left out."""
    known = {end: gap for end, gap in zip(("lower", "upper"), result.gap, strict=True) if gap == gap}
    if not known:
        return ""
    if not all(map(math.isfinite, known.values())):
        return "how much a better search could shorten the interval is not known"
    gains = ", ".join(f"{three(gap)} ({end})" for end, gap in known.items())
    return f"better weights in the searched space could shorten the interval by at most {gains}"


def _brief(result: Result) -> Iterator[str]:
    """Whether it is proved, and by what; after a rejection there is nothing to say."""
    if result.status is Status.REJECTED:
        return
    if result.status is Status.TRIVIAL and result.comparison is not None:
        yield f"{'the difference' if result.is_difference else 'the value of the new policy by itself'} is {_verdict(result)}"
    if result.says_nothing_of_new:
        yield (
            f"the log says nothing about {result.names[0] if result.names[0] != 'new' else 'the new policy'} "
            f"({_verdict(result.parts[0])}); the difference follows from the value range and {other_policy(result)} value"
        )
    elif result.status is Status.INTERVAL:
        causes = (
            ""
            if isinstance(result.proof, PropensityProof)
            else " and nothing missing from it influenced both actions and outcomes"
        )
        own = result.question is not None and result.question.initial_states.kind == "log"
        proved = {
            "finite-sample": f"proved for {'the situations of this log' if own else 'this finite log'}, if what you state is true{causes}",
            "asymptotic": "holds for large logs only",
        }
        free = "; nothing is assumed about the value function" if result.is_assumption_free else ""
        yield f"{proved.get(result.guarantee, 'no guarantee')}{free}"
    if result.curve is not None and result.curve.says_nothing:
        yield "no allowance gives more than the value range, not even ± 0: there are too few rows for this policy"
    size = result.effective_sample_size
    worth = f", worth about {counted(size, _unit(result))} of the new policy" if size > 0 else ""
    used = f"{result.rows[1] - result.rows[0]} rows used{worth}"
    if result.status is Status.TRIVIAL:
        yield _why(result)
        yield used
    else:
        yield f"method: {result.method}; {used}"


def _why(result: Result) -> str:
    """The method, and why it was taken."""
    why = result.choices.get("method", result.method)
    return why.removeprefix(f"{GROUPS}, as ") if result.unstated else f"method: {why}"


def _unit(result: Result) -> str:
    """What weights are given to: rows, or episodes."""
    proof = result.proof.parts[0] if isinstance(result.proof, SeparateProof) else result.proof
    if not isinstance(proof, PropensityProof) or result.question is None:
        return "row"
    return "row" if proof.single(result.question) else "episode"


def _lines(result: Result, *, split: bool) -> Iterator[str]:
    yield estimate_words(result)
    (stated, imply), limits = ranges(result), result.value_range
    if not result.unstated:  # there it is the interval
        yield f"{stated} alone {imply} {interval_text(limits.low, limits.high)}"
    (first, stop), choices, size = result.rows, result.choices, result.effective_sample_size
    inside = result.question.select(first, stop) if result.question is not None and result.question.dropped else None
    within = "" if inside is None else f", {len(inside)} of them inside the horizon"
    worth = f"; worth about {counted(size, _unit(result))} of the new policy" if size > 0 else ""
    yield f"{stop - first} rows used ({first} to {stop - 1}{within}){worth}"
    yield _why(result)
    if "states" in choices:
        yield choices["states"]
    if split and result.status is not Status.REJECTED and search_words(result):
        yield search_words(result)
    if (known := result.robustness) is not None:
        same, most = (
            f"{three(multiple)} times that radius" if math.isfinite(multiple) else "any radius"
            for multiple in (known.same_up_to, known.informative_up_to)
        )
        yield (
            f"valid if the value function is no rougher than you state (radius {three(known.radius)}), which no log can prove; "
            f"the interval stays the same up to {same}, and says something up to {most}"
        )


def curve_of(result: Result) -> CurveView | None:
    """What allowances would give; None where there are no groups."""
    if result.curve is None:
        return None
    first = isinstance(result.proof, CellsProof) and result.proof.stated_first
    return curve_view(result.curve, result.allowance, first=first, beside=not result.on_groups)


def subgroups_grid(result: Result) -> Grid | None:
    """Intervals by subgroup, with the digits that each deserves."""
    found = result.subgroups
    if found is None:
        return None
    rows = [
        (name, *(ends_text(one.low, one.high) if one.status is not Status.REJECTED else ("-", "-")), one.status.name.lower(),
         str(found.counts[name]))
        for name, one in found.results.items()
    ]  # fmt: skip
    what = f"Gain over {result.names[1]}, by" if result.is_difference else "By"
    title = found.headline().replace("By", what, 1)
    return Grid(title, (found.by, "low", "high", "status", found.unit), tuple(rows))


def breaks(result: Result, *, above: float | None = None, below: float | None = None) -> tuple[str, ...]:
    """Up to which allowance a decision holds, in words; empty where there is no curve."""
    if result.curve is None:
        return ()
    return tuple(break_words(result.curve, above=above, below=below, stated=result.allowance))


def parts_grid(claims: Sequence[Claim]) -> Grid | None:
    """The parts of every end in a column each, with the digits that the interval deserves.

    None where no end splits into parts. A part that an end lacks is left empty, one that is 0 everywhere is left out, and so is
    rounding that no digit shows (`Claim.table` has it).
    """
    ends = [claim for claim in claims if claim.of("spread")]
    if not ends:
        return None
    length = abs(ends[-1].bound - ends[0].bound) or math.inf
    values, spreads = ([part.name for claim in ends for part in claim.of(role)] for role in ("value", "spread"))
    tables = [claim.table() for claim in ends]
    rows = [(name, *_cells(tables, name, lambda size: bound_text(size, 0, length))) for name in dict.fromkeys(values)]
    least = _WORTH_A_ROW * length if math.isfinite(length) else 0.0
    shown = [
        name for name in (*dict.fromkeys(spreads), "rounding") if any(table.get(name, 0.0) > least for table in tables)
    ]
    rows += [(name, *_cells(tables, name, three)) for name in shown]
    rows.append(("end point", *end_texts(ends)))
    return Grid("What each term contributes", ("term", *(f"{claim.end} end" for claim in ends)), tuple(rows))


def ends_cross(result: Result) -> bool:
    """Whether an end starts from a value that lies beyond the other end."""
    return any(not result.low <= claim.value.mid <= result.high for claim in result.claims if claim.of("spread"))


def _cells(tables: Sequence[dict[str, float]], name: str, text: Callable[[float], str]) -> list[str]:
    return [text(table[name]) if name in table else "" for table in tables]


def end_texts(ends: Sequence[Claim]) -> tuple[str, ...]:
    """The end points of a split interval, with the digits of its sentence; what is only rounding reads 0."""
    length = abs(ends[-1].bound - ends[0].bound)
    bounds = [0.0 if abs(claim.bound) <= _ROUNDING * length else claim.bound for claim in ends]
    if len(ends) == 2 and bounds[0] < bounds[1]:
        return ends_text(bounds[0], bounds[1])
    return tuple(bound_text(bound, int(claim.sign)) for bound, claim in zip(bounds, ends, strict=True))


def stacks_between(claims: Sequence[Claim], limits: ValueRange) -> tuple[float, float]:
    """Where the stacks of parts are drawn: they and the value range, or they alone where they fill less than a quarter of it."""
    ends = [float(place) for claim in claims for place in (claim.value.mid, claim.bound)] or [limits.low, limits.high]
    low, high = min(ends), max(ends)
    if not 0 < high - low < limits.width / 4:
        return min(low, limits.low), max(high, limits.high)
    margin = (high - low) / 10
    return low - margin, high + margin
