"""A result as one self-contained page for the reader who decides: opens offline, follows light and dark, prints.

Its sentences and grids are those of the summary that every format shows; pictures, counts of the log and a glossary are its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from bondic.advice.levers import next_steps
from bondic.core.claims import Assumption, Status
from bondic.core.errors import InvalidInput
from bondic.core.printed import number
from bondic.decisions.difference import today_value
from bondic.rendering import STATE_WORDS, Grid, confidence, grouped, sentence, three, unbroken
from bondic.rendering import escape as esc
from bondic.report.allowance import allowance_data, allowance_section
from bondic.report.drawings import action_bars, forest, reward_histogram, stacked_terms
from bondic.report.health import MIN_ROWS, Health, examine
from bondic.report.html import badge, document, facts, html_table
from bondic.report.subgroups import subgroups_section
from bondic.report.words import COVERED, FRAGILE, GLOSSARY, GUARANTEES, MEANINGS, STATES, STATUSES, TITLES
from bondic.result import NextStep, Result
from bondic.rows import Rows
from bondic.summary import Summary, all_assumptions, difference_words, ends_cross, named_assumption, ranges, summarize

_BOTH = 2
_FIRST = 3
"""Assumptions that are not folded away."""
_WIDE = 50
"""Percent of the value range from which on an interval says little."""


def report_page(
    result: Result, problem: Rows | None = None, *, title: str, no_rows: bool = False, command: str = ""
) -> str:
    """The whole report as HTML text.

    `problem` is the question that `result` answers, where the result no longer holds it. `no_rows` keeps every single row
    out: thin cells are left out, no row is listed. `command` is what a reader types to check the number, if there is such a
    command. A method without a proof, such as a baseline, has nothing to verify.
    """
    question = result.question if problem is None else problem
    if question is None:
        raise InvalidInput(
            "This result no longer holds its question: pass the problem, report_page(result, problem, ...)."
        )
    if question.log_hash != result.hashes["log"]:
        raise InvalidInput("The result belongs to another log than the problem (content hashes differ).")
    view = summarize(replace(result, steps=result.steps or next_steps(result, question, no_rows=no_rows)))
    health = examine(question.select(*result.rows), question.log, no_rows=no_rows)
    values = _values(result, question)
    beside = result.today if result.comparison is not None or len(values) < _BOTH else values[1][1]
    body = [
        _answer(view, result, values),
        allowance_section(result),
        subgroups_section(result, view.subgroups),
        _next_steps(view.steps),
        _assumptions(result, all_assumptions(result, beside)),
        _data_health(health, no_rows),
        _details(result, view, result.notes, command),
    ]
    return document(title, "".join(body), allowance_data(result))


def _section(name: str, title: str, body: str, css: str = "") -> str:
    return f'<section id="{name}"{css}><h2>{esc(title)}</h2>{body}</section>'


def _folded(title: str, body: str, name: str = "") -> str:
    """What a reader may open: a list, or a text; nothing where there is none."""
    shown = f'<ul class="items">{body}</ul>' if body.startswith("<li") else body
    named = f' id="{name}"' if name else ""
    return f"<details{named}><summary>{title}</summary>{shown}</details>" if body else ""


def _item(title: str, text: str, state: str = "") -> str:
    return f"<li><b>{esc(title)}</b>{state}<p>{esc(text)}</p></li>"


def _warnings(texts: Sequence[str]) -> str:
    return "".join(f'<p class="note"><b>Warning.</b> {esc(text)}</p>' for text in texts)


# --- the answer ---------------------------------------------------------------------------------------


def _values(result: Result, question: Rows) -> list[tuple[str, Result]]:
    """What is drawn on the axis of values: both policies where they are known, the evaluated one always."""
    if (compared := result.comparison) is not None:
        return list(zip(compared.names, compared.parts, strict=True))
    today = None
    if not result.is_difference and result.status is not Status.REJECTED and result.guarantee == "finite-sample":
        today = today_value(question, result.alpha)
    return [*([] if result.is_difference else [("new", result)]), *([] if today is None else [("today", today)])]


def _answer(view: Summary, result: Result, values: Sequence[tuple[str, Result]]) -> str:
    """What a decision maker quotes, the intervals on one axis, and what they are worth."""
    rejected, compared = result.status is Status.REJECTED, result.comparison
    difference = compared if compared is not None else result if result.is_difference else None
    pictures = forest(values, "the values on one axis") if values and not rejected else ""
    if difference is not None:
        name = f"{difference.names[0]} minus {difference.names[1]}"
        drawn = forest([(name, difference)], "the difference of the values", legend=False)
        pictures += f'<h3>Difference</h3>{drawn}<p class="soft">Dashed line: no difference.</p>'
    verdict = f'<p class="answer"><strong>{esc(view.verdict)}</strong></p>' if view.verdict else ""
    shown = _emphasized(view.answer, None if verdict else difference)
    return _section(
        "answer",
        "No answer: the log contradicts the assumptions" if rejected else "The answer",
        f'{verdict}{_warnings(view.warnings)}<p class="answer">{shown}</p><p>{_badges(result)}</p>'
        f"{pictures}<p class=soft>{esc(' '.join((*_meaning(result, values), *view.brief)))}</p>",
        ' class="rejected"' if rejected else "",
    )


def _emphasized(answer: str, difference: Result | None) -> str:
    """What is shown about the difference stands out."""
    shown = esc(answer)
    difference_text = "" if difference is None else esc("".join(difference_words(difference)))
    return shown.replace(difference_text, f"<strong>{difference_text}</strong>", 1) if difference_text else shown


def _meaning(result: Result, values: Sequence[tuple[str, Result]]) -> Iterator[str]:
    """What the numbers are."""
    one_step = result.proof is not None and result.proof.estimand.terms.gamma == 0
    yield f"The value is the expected {'reward of one decision' if one_step else 'discounted sum of rewards (not normalized)'}."
    if "today" in dict(values):
        yield (
            "Today is the policy that made the log, from the log's own starts; if it changed, the mean over the rows of what it "
            "was worth."
        )
    if len(values) > 1 and result.comparison is None:
        yield f"Each interval holds by itself, at {confidence(result.alpha)}."


def _badges(result: Result) -> str:
    """What is shown, how it is known, and at which level."""
    if result.status is Status.INTERVAL and not result.says_nothing_of_new:
        badges = [_shown(result), GUARANTEES[result.guarantee]]
        alike = any(one.allowance is not None for one in (result, *result.parts))
        badges += [("info", "if rows are as alike as you state")] if alike else []
        badges += [("good", "no assumption about the value function")] if result.is_assumption_free else []
    else:
        status = Status.TRIVIAL if result.says_nothing_of_new else result.status
        unstated = result.unstated or (result.says_nothing_of_new and result.parts[0].unstated)
        badges = [*_ruled(result), ("warn", "nothing is stated") if unstated else STATUSES[status]]
        trivial = result.status is Status.TRIVIAL
        badges += [("", f"follows from {ranges(result)[0]} alone")] if trivial else []
    badges.append(("", confidence(result.alpha)))
    return " ".join(badge(*one) for one in badges)


def _ruled(result: Result) -> list[tuple[str, str]]:
    """The verdict of a gate, where there is one."""
    colors = {"approve": "good", "refuse": "bad", "cannot tell": "warn"}
    return [] if result.ruling is None else [(colors[result.ruling.verdict], result.ruling.verdict)]


def _shown(result: Result) -> tuple[str, str]:
    """The verdict of a gate; better, worse or neither; without another policy, how much of the value range is left."""
    if ruled := _ruled(result):
        return ruled[0]
    if (compared := result.comparison) is not None or result.is_difference:
        word, _ = difference_words(compared or result)
        return {"better": "good", "worse": "bad"}.get(word, "warn"), word
    share = 100 * result.length / result.value_range.width
    return "good" if share < _WIDE else "warn", f"{three(share)}% of what is possible"


# --- what to do, what it is made of, what must be true ------------------------------------------------


def _next_steps(steps: Sequence[NextStep]) -> str:
    """The ways out of an answer that says little; nothing where the answer needs none."""
    if not steps:
        return ""
    items = "".join(f"<li{' class=loud' if step.loud else ''}>{esc(unbroken(str(step)))}</li>" for step in steps)
    changes = any(step.kind != "decision" for step in steps)
    caution = (
        " If you change a range, a radius or a method because of this result, the guarantee no longer holds for this log. Make "
        "the change for your next log."
    )
    note = f'<p class="soft">This is advice, not part of the guarantee.{caution if changes else ""}</p>'
    return _section("next", "What to do next", f'<ul class="steps">{items}</ul>{note}')


def _contributions(result: Result, parts: Grid | None) -> str:
    """What each part contributes; after a rejection there is no interval to explain."""
    if parts is None or result.status is Status.REJECTED:
        return ""
    covered = [(row[0], COVERED[row[0]]) for row in parts.rows if row[0] in COVERED]
    words = " ".join(f"<b>{esc(sentence(name))}</b> covers {text}." for name, text in covered)
    own = (
        " The two ends start from averages of their own: that of one may lie beyond the other end."
        if ends_cross(result)
        else ""
    )
    return (
        "<p>Each end starts from a weighted average of the log's rewards. Allowances are then added or subtracted."
        f"{own} {words}</p>{stacked_terms(result)}{html_table(parts.header, parts.rows, total=True)}"
    )


def _assumptions(result: Result, every: Sequence[Assumption]) -> str:
    """What must be true, in plain words: what fails most often in practice first, the rest folded away."""

    def listed(items: Sequence[Assumption]) -> str:
        return "".join(
            _item(_title(item, result), item.text, badge(STATES[item.state], STATE_WORDS[item.state])) for item in items
        )

    needed = sorted((item for item in every if item.state != "checked"), key=_order)
    first = [item for k, item in enumerate(needed) if k < _FIRST or item.state != "stated"]
    rest = [item for item in needed if item not in first]
    found = {item.state for item in every}
    meanings = " ".join(f"<b>{STATE_WORDS[state]}</b>: {words}." for state, words in MEANINGS.items() if state in found)
    return _section(
        "assumptions",
        "What must be true",
        f'<ul class="items">{listed(first)}</ul>'
        + _folded(f"{len(rest)} more that you state", listed(rest))
        + _folded("What was checked", listed([item for item in every if item.state == "checked"]))
        + f'<p class="soft">{meanings}</p>',
    )


def _order(item: Assumption) -> tuple[bool, bool, int]:
    """A contradiction first; then what the result itself rests on, by how often it fails in practice."""
    name, _, about = item.name.partition(" (")
    return item.state == "stated", bool(about), FRAGILE.index(name) if name in FRAGILE else len(FRAGILE)


def _title(item: Assumption, result: Result) -> str:
    """An assumption in plain words; what a baseline chose is not called stated."""
    name, whose = named_assumption(item.name, result)
    if name == "policy" and whose not in ("", f"({result.names[0]})"):
        name = "other policy"
    if name != "values":
        return f"{TITLES.get(name, name)} {whose}".rstrip()
    if result.allowance is not None:
        return "Rows in a group are as alike as you state"
    if item.state == "checked":
        return f"Nothing is assumed about the value function {whose}".rstrip()
    chosen = {"chosen": " that the baseline chose", "rejected": ""}
    return "The value function lies in the " + (
        f"class{chosen[item.state]}" if item.state in chosen else "stated class"
    )


# --- the log, and how to check ------------------------------------------------------------------------


def _data_health(health: Health, no_rows: bool) -> str:
    """Counts of the log, and how it was read."""
    known = [
        ("rows of the log", health.rows), ("rows used", health.certified), ("dropped beyond the horizon", health.dropped),
        ("episodes", health.episodes), ("terminations", health.terminations), ("truncations", health.truncations),
        ("rows without a next state", health.final),
        ("distinct situations", health.distinct),
    ]  # fmt: skip
    thin = f"below {MIN_ROWS}"
    items = [(name, thin if no_rows and n < MIN_ROWS else grouped(n)) for name, n in known if n]
    low, high = health.reward_range
    earned = f"Mean reward {three(health.reward_mean)}"
    if health.return_mean is not None:
        earned += f" per step; an episode of the log earns {three(health.return_mean)} on average, undiscounted"
    hidden = f" Bars of fewer than {MIN_ROWS} rows are not shown." if no_rows else ""
    return _section(
        "health",
        "Is it the right log?",
        f"{facts(items)}"
        f"<h3>Rewards in the stated range [{esc(number(low))}, {esc(number(high))}]</h3>{reward_histogram(health)}"
        f'<p class="soft">{esc(earned)}. Dashed lines: the stated range. Every possible reward '
        f"must lie inside.{hidden}</p>{_actions(health)}",
    )


def _actions(health: Health) -> str:
    """What the log did beside what the policy would do."""
    if not health.actions:
        return ""
    means = [[a.name, number(a.logged), number(a.target)] for a in health.actions]
    shown = (
        action_bars(health.actions)
        if health.discrete
        else html_table(["action", "mean logged", "mean of the policy"], means)
    )
    return (
        f'<h3>Actions</h3>{shown}<p class="soft">The policy\'s actions are those at the {esc(health.queried_at)}.</p>'
    )


def _details(result: Result, view: Summary, notes: Sequence[str], command: str) -> str:
    """What few readers need, folded away: where the number comes from, and how to check it."""
    absent = {"class Q, radius": result.robustness is None, "group, model, allowance": result.curve is None}
    lines = "".join(f"<li><p>{esc(line)}</p></li>" for line in (view.guarantee, *view.lines))
    choices = "".join(_item(*choice) for choice in result.choices.items())
    words = "".join(_item(word, meaning) for word, meaning in GLOSSARY.items() if not absent.get(word))
    read = "".join(f"<li><p>{esc(note)}</p></li>" for note in notes)
    folds = [
        _folded("More about this number", lines, "number"),
        _folded("What makes the interval long", _contributions(result, view.parts), "terms"),
        _folded("How the log was read", read, "reading"),
        _folded("Every choice that was made, in words", choices, "choices"),
        _folded("How to check this number", _verification(result, command), "verify"),
        _folded("Words on this page", words, "words"),
    ]
    return _section("details", "Details", "".join(folds))


def _verification(result: Result, command: str) -> str:
    """How to repeat the calculation; without a `command` the log's file (and the policy's) are blanks."""
    if result.proof is None:
        words = (
            f"The method {result.method} writes no certificate: run it again on the same log. bondic's own methods write one "
            "that can be verified."
        )
        return f"<p>{esc(words)}</p>"
    policies = result.proof.estimand.policies
    withheld = any(one.answers.next is None for one in policies)
    asked = withheld or not all(one.known_by_log for one in policies)
    command = command or f"bondic verify certificate.json LOG{' --policy POLICY' if asked else ''}"
    code = f'bondic.verify("certificate.json", log{", policy" if asked else ""})'
    needed = (
        "This certificate does not hold the policy's answers row by row, so the policy is needed again."
        if withheld
        else "With the policy the plan is made again, too, from the rows before each block; the rest needs neither."
    )
    today = (
        ""
        if result.today is None
        else " It is about the value of the new policy; --against today writes that of the difference."
    )
    return (
        "<p>The interval comes with a certificate: the weights found, and every number of the bound. A small program "
        f'recomputes it from the log alone. {needed}{esc(today)}</p><pre id="verify-command">{esc(command)}</pre>'
        f"<p>In Python:</p><pre>{esc(code)}</pre>"
    )
