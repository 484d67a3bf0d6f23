"""The top of the page: the interval, what it is worth, and who has stated what it rests on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bondic.claims import Assumption, Status
from bondic.rendering import STATE_WORDS, interval_text, number, sentence, three
from bondic.report.drawings import interval_picture
from bondic.report.elements import badge, esc, facts
from bondic.report.logged_value import LoggedValue
from bondic.result import Result

_STATUS = {Status.INTERVAL: ("good", "informative"), Status.TRIVIAL: ("warn", "the log adds nothing"),
           Status.REJECTED: ("bad", "assumptions contradicted")}  # fmt: skip
_GUARANTEE = {
    "finite-sample": ("good", "proved for this finite log"),
    "asymptotic": ("warn", "asymptotic only"),
    "none": ("bad", "no guarantee"),
}
_STATES = {"stated": "info", "chosen": "warn", "checked": "good", "rejected": "bad"}
_PLAIN = {
    "data": "The log is complete and unaltered, in the order of time",
    "rewards": "No reward can lie outside the stated range",
    "propensities": "Actions were drawn with the probabilities that the log states",
    "ratios": "No ratio of the two policies exceeds the stated bound",
    "control": "Predictions were made from earlier rows",
    "values": "The value function lies in the stated class",
    "instruments": "The space of weights was chosen without the rows they are used on",
    "plan": "Every block was planned from rows before it",
    "noise": "How large chance effects can be",
    "policy": "What the new policy would do",
    "start": "Where it starts",
    "length": "How many rows the log has",
    "process": "What the value is",
    "log": "What you accept about the log",
}


def answer(result: Result, doubts: Sequence[str] = (), elsewhere: str = "", logged: LoggedValue | None = None) -> str:
    """The interval in one sentence and one picture, and under it what a stated radius means for it, and where that is varied."""
    kind, words = ("warn", "nothing is stated") if result.unstated else _STATUS[result.status]
    badges = [badge(kind, words), *_held(result), badge("", f"{100 * (1 - result.alpha):g}% confidence")]
    advice = "; decide by the interval" if result.guarantee == "finite-sample" else ""
    rejected = result.status is Status.REJECTED
    if rejected:  # no interval is given: there is nothing to guarantee
        advice = " and is no basis for a decision"
    outside = (
        " <strong>The point estimate lies outside the interval: it has no guarantee.</strong>"
        if result.estimate_outside
        else ""
    )
    guess = f"{esc(sentence(result.estimate_words))}{advice if result.estimated else ''}."
    told = "".join(f"<p class=soft>{esc(sentence(text))}.</p>" for text in result.told)
    heading = "No answer: the log contradicts the assumptions" if rejected else "The answer"
    css = ' class="rejected"' if rejected else ""
    return (
        f'<section id="answer"{css}><h2>{heading}</h2>{_loud(result)}<p class="answer">{esc(result.sentence())}</p>'
        f"<p>{' '.join(badges)}</p>{_pointer(doubts)}"
        f"{interval_picture(result, logged)}{_compared(logged, result)}{_condition(result, elsewhere)}"
        f"<p>The value is the expected discounted sum of rewards (not normalized). {guess}{outside} {_reading(result)}</p>"
        f"{told}</section>"
    )


def _compared(logged: LoggedValue | None, result: Result) -> str:
    """What the logging policy earned, and under which assumption that is known."""
    if logged is None:
        return ""
    cut = (
        f" In {logged.cut} episodes recording stopped early: the rest of each may be worth anything in the value range."
        if logged.cut
        else ""
    )
    between = esc(interval_text(logged.low, logged.high))
    return (
        f'<p class="soft">For comparison: the value of the policy that made the log lies in {between}, from the log\'s own '
        f"starts, at {100 * (1 - result.alpha):g}% confidence by itself. This holds if that policy did not change and the "
        f"log's {logged.episodes} episodes are independent.{cut}</p>"
    )


def _held(result: Result) -> list[str]:
    """Badges on the guarantee."""
    if result.status is Status.REJECTED:
        return []
    if result.status is Status.TRIVIAL:
        return [badge("", f"follows from {result.ranges[0]} alone")]
    badges = [badge(*_GUARANTEE[result.guarantee])]
    if result.allowance is not None:
        badges.append(badge("info", "if rows are as alike as you state"))
    if result.is_assumption_free:
        badges.append(badge("good", "no assumption about the value function"))
    return badges


def _condition(result: Result, elsewhere: str) -> str:
    """How much rougher the value function may be than the user states, right under the interval."""
    found = result.robustness
    if found is None:
        return ""
    tiles = facts(
        [
            ("roughness that you state", f"radius {three(found.radius)}"),
            ("the interval stays the same up to", _times(found.same_up_to)),
            ("it says something up to", f"{_times(found.informative_up_to)}: radius {_limit(found.breakdown_radius)}"),
        ]
    )
    return (
        '<p class="note" id="condition"><b>Valid if the value function is no rougher than you state.</b> '
        f"No log can prove it. {esc(elsewhere)}</p>"
        f"{tiles}"
    )


def _limit(value: float) -> str:
    return three(value) if math.isfinite(value) else "without limit"


def _times(multiple: float) -> str:
    return f"{three(multiple)} × that" if math.isfinite(multiple) else "any roughness"


def _loud(result: Result) -> str:
    return "".join(f'<p class="note"><b>Warning.</b> {esc(text)}</p>' for text in result.warnings)


def _pointer(doubts: Sequence[str]) -> str:
    if not doubts:
        return ""
    count = "There is a warning" if len(doubts) == 1 else f"There are {len(doubts)} warnings"
    return (
        f'<p class="note"><b>{count} about the log, under “Is it the right log?”.</b> If it applies, the interval is not '
        "valid.</p>"
    )


def _reading(result: Result) -> str:
    ranges, imply = result.ranges
    if result.status is Status.REJECTED:
        return (
            f"<strong>The log contradicts the assumptions taken together, so no number is given beyond what {ranges} "
            f"{imply}. Do not widen anything until it is known which assumption failed.</strong>"
        )
    if result.unstated:
        return "What a statement on how alike rows are would give is below."
    if result.status is Status.TRIVIAL and result.allowance is not None:
        return "With the allowance that you state the log adds nothing. See below what smaller ones would give."
    if result.status is Status.TRIVIAL:
        return f"The log is too short, or too far from the policy, to say more than {ranges} alone."
    if result.guarantee in ("asymptotic", "none"):
        return (
            "<strong>The noise bound behind it is an estimate, not a proof: the interval has no guarantee for a finite log. "
            "Use it for comparison only.</strong>"
        )
    return (
        "If the assumptions below hold, an interval made in this way misses the true value in at most "
        f"{esc(f'{100 * result.alpha:g}')}% of all logs."
    )


def assumptions(result: Result) -> str:
    """What must be true, in plain words, and what was checked."""
    items = []
    for item in result.assumptions:
        title = _title(item, result)
        state = badge(_STATES[item.state], STATE_WORDS[item.state])
        items.append(f"<li><b>{esc(title)}</b>{state}<p>{esc(item.text)}</p></li>")
    rejection, tested = result.rejection, []
    if rejection is not None and rejection.p_value < 1:
        tested.append(f"The p-value of all assumptions together is at most {max(rejection.p_value, 1e-12):.3g}.")
    if rejection is not None and rejection.minimal_radius > 0:
        tested.append(f"At this α the log rules out radii below {number(rejection.minimal_radius)}.")
    listed = "".join(f"<li><b>{esc(name)}</b><p>{esc(text)}</p></li>" for name, text in result.choices.items())
    return (
        '<section id="assumptions"><h2>What must be true</h2><p><b>stated by you</b>: you say so; no program can see it in the '
        "log. <b>chosen by the baseline</b>: nobody has said so; the interval is valid only if it holds. <b>checked</b>: it was "
        "tested, and holds. <b>rejected</b>: the log contradicts it, alone or together with others.</p>"
        f'<ul class="items">{"".join(items)}</ul><p>{esc(" ".join(tested))}</p>'
        "<details><summary>Every choice that was made, in words</summary>"
        f'<ul class="items">{listed}</ul></details></section>'
    )


def _title(item: Assumption, result: Result) -> str:
    """An assumption in plain words; what a baseline chose is not called stated."""
    if item.name == "values" and result.allowance is not None:
        return "Rows in a group are as alike as you state"
    if item.name == "values" and item.state == "chosen":
        return "The value function lies in the class that the baseline chose"
    if item.name == "values" and result.is_assumption_free:
        return "Nothing is assumed about the value function"
    if item.name == "values" and item.state == "rejected":
        return "The value function lies in the class"
    return _PLAIN.get(item.name, item.name)
