"""A result as one self-contained page for the reader who decides: opens offline, follows light and dark, prints.

Its sentences and grids are those of the summary that every format shows; pictures, counts of the log and a glossary are its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bondic.advice.levers import next_steps
from bondic.core.claims import Assumption, Status
from bondic.core.errors import InvalidInput
from bondic.core.printed import interval_text, number
from bondic.rendering import STATE_WORDS, Grid, grouped, sentence, three, unbroken
from bondic.rendering import escape as esc
from bondic.report.allowance import allowance_data, allowance_section
from bondic.report.drawings import action_bars, interval_picture, reward_histogram, stacked_terms
from bondic.report.health import FEWEST_ROWS, Health, LoggedValue, examine, logged_value
from bondic.report.html import badge, document, facts, html_table
from bondic.report.subgroups import subgroups_section
from bondic.report.words import COVERED, GLOSSARY, GUARANTEES, MEANINGS, STATES, STATUSES, TITLES
from bondic.result import NextStep, Result
from bondic.rows import Rows
from bondic.summary import Summary, ranges, summarize


def report_page(
    result: Result, problem: Rows | None = None, *, title: str, no_rows: bool = False, command: str = ""
) -> str:
    """The whole report as HTML text.

    `problem` is the question that `result` answers, where the result no longer holds it. `no_rows` keeps every single row
    out: thin cells are left out, no row is listed. `command` is what a reader types to check the number, if there is such a
    command. A method without a proof, such as a baseline, has nothing to verify.
    """
    asked = result.question if problem is None else problem
    if asked is None:
        raise InvalidInput(
            "This result no longer holds its question: pass the problem, report_page(result, problem, ...)."
        )
    if asked.log_hash != result.hashes["log"]:
        raise InvalidInput("The result belongs to another log than the problem (content hashes differ).")
    doubts, notes = result.remarks()
    doubts = doubts[len(result.warnings) :]  # those are in the answer
    view = summarize(replace(result, steps=result.steps or next_steps(result, asked, no_rows=no_rows)))
    health = examine(asked.select(*result.rows), asked.log, no_rows=no_rows)
    body = [
        _answer(view, result, doubts, None if result.is_difference else logged_value(asked, result.alpha)),
        allowance_section(result),
        subgroups_section(result, view.subgroups),
        _next_steps(view.steps),
        _contributions(result, view.parts),
        _assumptions(result),
        _data_health(health, no_rows, doubts, notes),
        _verification(result, command),
        _glossary(groups=result.curve is not None, radius=result.robustness is not None),
    ]
    return document(title, "".join(body), allowance_data(result))


def _section(name: str, title: str, body: str, css: str = "") -> str:
    return f'<section id="{name}"{css}><h2>{esc(title)}</h2>{body}</section>'


def _folded(title: str, items: str) -> str:
    return f'<details><summary>{title}</summary><ul class="items">{items}</ul></details>' if items else ""


def _item(title: str, text: str, state: str = "") -> str:
    return f"<li><b>{esc(title)}</b>{state}<p>{esc(text)}</p></li>"


def _warnings(texts: Sequence[str]) -> str:
    return "".join(f'<p class="note"><b>Warning.</b> {esc(text)}</p>' for text in texts)


# --- the answer ---------------------------------------------------------------------------------------


def _answer(view: Summary, result: Result, doubts: Sequence[str], logged: LoggedValue | None) -> str:
    """The interval in one sentence and one picture, what it is worth, and what the logging policy earned."""
    rejected = result.status is Status.REJECTED
    difference = "; the interval is that of the difference of two values" if result.is_difference else ""
    count = "There is a warning" if len(doubts) == 1 else f"There are {len(doubts)} warnings"
    where = f"<b>{count} about the log, under “Is it the right log?”.</b>"
    pointer = f'<p class="note">{where} If it applies, the interval is not valid.</p>' if doubts else ""
    return _section(
        "answer",
        "No answer: the log contradicts the assumptions" if rejected else "The answer",
        f'{_warnings(view.warnings)}<p class="answer">{esc(view.answer)}</p><p>{_badges(result)}</p>'
        f"{pointer}{interval_picture(result, logged)}{_compared(logged, result)}"
        f"<p>The value is the expected discounted sum of rewards (not normalized){difference}. {esc(view.guarantee)}</p>"
        + "".join(f"<p class=soft>{esc(line)}</p>" for line in view.lines),
        ' class="rejected"' if rejected else "",
    )


def _badges(result: Result) -> str:
    """Status, guarantee and level."""
    badges = [("warn", "nothing is stated") if result.unstated else STATUSES[result.status]]
    if result.status is Status.TRIVIAL:
        badges.append(("", f"follows from {ranges(result)[0]} alone"))
    elif result.status is Status.INTERVAL:
        badges.append(GUARANTEES[result.guarantee])
        badges += [("info", "if rows are as alike as you state")] if result.allowance is not None else []
        badges += [("good", "no assumption about the value function")] if result.is_assumption_free else []
    badges.append(("", f"{100 * (1 - result.alpha):g}% confidence"))
    return " ".join(badge(*one) for one in badges)


def _compared(logged: LoggedValue | None, result: Result) -> str:
    """What the logging policy earned, and under which assumption that is known."""
    if logged is None:
        return ""
    cut = f" In {grouped(logged.cut)} episodes recording stopped early: the rest may be worth anything in the value range."
    return (
        '<p class="soft">For comparison: the value of the policy that made the log lies in '
        f"{esc(interval_text(logged.low, logged.high))}, from the log's own starts, at {100 * (1 - result.alpha):g}% "
        "confidence by itself. This holds if that policy did not change and the "
        f"log's {grouped(logged.episodes)} episodes are independent.{cut if logged.cut else ''}</p>"
    )


# --- what to do, what it is made of, what must be true ------------------------------------------------


def _next_steps(steps: Sequence[NextStep]) -> str:
    """The ways out of an answer that says little; nothing where the answer needs none."""
    if not steps:
        return ""
    items = "".join(f"<li{' class=loud' if step.loud else ''}>{esc(unbroken(str(step)))}</li>" for step in steps)
    return _section(
        "next",
        "What to do next",
        f'<ul class="steps">{items}</ul><p class="soft">This is advice, not part of the guarantee. If you change a range, a '
        "radius or a method because of this result, the guarantee no longer holds for this log. Make the change for your "
        "next log.</p>",
    )


def _contributions(result: Result, parts: Grid | None) -> str:
    """What each part contributes; after a rejection there is no interval to explain."""
    if parts is None or result.status is Status.REJECTED:
        return ""
    covered = [(row[0], COVERED[row[0]]) for row in parts.rows if row[0] in COVERED]
    words = " ".join(f"<b>{esc(sentence(name))}</b> covers {text}." for name, text in covered)
    return _section(
        "terms",
        "What makes the interval long",
        "<p>Each end starts from a weighted average of the log's rewards. Allowances are then added or subtracted. "
        f"{words}</p>{stacked_terms(result)}{html_table(parts.header, parts.rows, total=True)}",
    )


def _assumptions(result: Result) -> str:
    """What must be true, in plain words, the statements first; what was checked, and every choice, is folded away."""

    def listed(checked: bool) -> str:
        shown = [item for item in result.assumptions if (item.state == "checked") == checked]
        return "".join(
            _item(_title(item, result), item.text, badge(STATES[item.state], STATE_WORDS[item.state])) for item in shown
        )

    found = {item.state for item in result.assumptions}
    meanings = " ".join(f"<b>{STATE_WORDS[state]}</b>: {words}." for state, words in MEANINGS.items() if state in found)
    return _section(
        "assumptions",
        "What must be true",
        f'<p>{meanings}</p><ul class="items">{listed(False)}</ul>'
        + _folded("What was checked", listed(True))
        + _folded("Every choice that was made, in words", "".join(_item(*choice) for choice in result.choices.items())),
    )


def _title(item: Assumption, result: Result) -> str:
    """An assumption in plain words; what a baseline chose is not called stated."""
    if item.name != "values":
        return TITLES.get(item.name, item.name)
    if result.allowance is not None:
        return "Rows in a group are as alike as you state"
    if result.is_assumption_free:
        return "Nothing is assumed about the value function"
    chosen = {"chosen": " that the baseline chose", "rejected": ""}
    return "The value function lies in the " + (
        f"class{chosen[item.state]}" if item.state in chosen else "stated class"
    )


# --- the log, and how to check ------------------------------------------------------------------------


def _data_health(health: Health, no_rows: bool, doubts: Sequence[str], notes: Sequence[str]) -> str:
    """Counts of the log, and how it was read."""
    known = [
        ("rows of the log", health.rows), ("rows certified", health.certified), ("dropped beyond the horizon", health.dropped),
        ("episodes", health.episodes), ("terminations", health.terminations), ("truncations", health.truncations),
        ("rows without a next state", health.final), ("rows equal to an earlier one", health.copies),
        ("distinct situations", health.distinct),
    ]  # fmt: skip
    thin = f"below {FEWEST_ROWS}"
    items = [(name, thin if no_rows and n < FEWEST_ROWS else grouped(n)) for name, n in known if n]
    low, high = health.reward_range
    earned = f"Mean reward {three(health.reward_mean)}"
    if health.return_mean is not None:
        earned += f" per step; an episode of the log earns {three(health.return_mean)} on average, undiscounted"
    hidden = f" Bars of fewer than {FEWEST_ROWS} rows are not shown." if no_rows else ""
    return _section(
        "health",
        "Is it the right log?",
        f"{_warnings(doubts)}{facts(items)}"
        f"<h3>Rewards in the stated range [{esc(number(low))}, {esc(number(high))}]</h3>{reward_histogram(health)}"
        f'<p class="soft">{esc(earned)}. Dashed lines: the stated range. Every possible reward '
        f"must lie inside.{hidden}</p>{_actions(health)}"
        + _folded("How the log was read", "".join(f"<li><p>{esc(note)}</p></li>" for note in notes)),
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
    return f'<h3>Actions</h3>{shown}<p class="soft">The policy\'s actions are those at the {esc(health.asked_at)}.</p>'


def _verification(result: Result, command: str) -> str:
    """How anybody can repeat the calculation; without a `command` the log's file (and the policy's) are blanks."""
    title = "How to check this number"
    if result.proof is None:
        words = (
            f"The method {result.method} writes no certificate: run it again on the same log. bondic's own methods write one "
            "that anybody can check."
        )
        return _section("verify", title, f"<p>{esc(words)}</p>")
    withheld = any(one.answers.next is None for one in result.proof.asked.policies)
    command = command or f"bondic verify certificate.json LOG{' --policy POLICY' if withheld else ''}"
    code = f'bondic.verify("certificate.json", log{", policy" if withheld else ""})'
    needed = (
        "This certificate does not hold the policy's answers row by row, so the policy is needed again."
        if withheld
        else "Neither the policy's code nor the search is needed."
    )
    return _section(
        "verify",
        title,
        "<p>The interval comes with a certificate: the weights found, and every number of the bound. A small program "
        f'recomputes it from the log alone. {needed}</p><pre id="verify-command">{esc(command)}</pre>'
        f"<p>In Python:</p><pre>{esc(code)}</pre>",
    )


def _glossary(*, groups: bool, radius: bool) -> str:
    """A section that is closed until a reader opens it; of classes and groups only what the page is about."""
    absent = {"class Q, radius": not radius, "group, model, allowance": not groups}
    items = "".join(_item(word, meaning) for word, meaning in GLOSSARY.items() if not absent.get(word))
    return f'<section id="words">{_folded("Words on this page", items)}</section>'
