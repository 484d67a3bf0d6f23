"""The sections of the page, one function each, in the order of the page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bondic.core.cells.proof import ALLOWED
from bondic.core.claims import Assumption, Status
from bondic.core.dual.bound import ALLOWANCE, BIAS, NOISE, START
from bondic.core.printed import interval_text, number
from bondic.core.sequential.ends import RARE
from bondic.rendering import STATE_WORDS, Grid, grouped, sentence, three, unbroken
from bondic.rendering import escape as esc
from bondic.report.drawings import action_bars, interval_picture, reward_histogram, stacked_terms
from bondic.report.health import FEWEST_ROWS, Health
from bondic.report.html import badge, facts, html_table
from bondic.report.logged_value import LoggedValue
from bondic.result import NextStep, Result
from bondic.summary import chosen_words, estimate_words, parts_grid, ranges, search_words

_STATUS = {Status.INTERVAL: ("good", "informative"), Status.TRIVIAL: ("warn", "the log adds nothing"),
           Status.REJECTED: ("bad", "assumptions contradicted")}  # fmt: skip
_GUARANTEE = {
    "finite-sample": ("good", "proved for this finite log"),
    "asymptotic": ("warn", "asymptotic only"),
    "none": ("bad", "no guarantee"),
}
_STATES = {"stated": "info", "chosen": "warn", "checked": "good", "rejected": "bad"}
_MEANINGS = {
    "stated": "you say so; no program can see it in the log",
    "chosen": "nobody has said so; the interval is valid only if it holds",
    "checked": "it was tested, and holds",
    "rejected": "the log contradicts it, alone or together with others",
}
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
_COVERED = {
    BIAS: "what the log does not tell about the value function where the policy goes",
    NOISE: "chance: there are only so many rows",
    RARE: "events that no row shows but that may still happen",
    START: "starts that are known only from a sample",
    ALLOWANCE: "the model error that you stated",
    ALLOWED: "what rows of a group may differ by, as you state",
}


# --- the answer ---------------------------------------------------------------------------------------


def answer(result: Result, doubts: Sequence[str] = (), logged: LoggedValue | None = None) -> str:
    """The interval in one sentence and one picture, what it is worth, and what the logging policy earned."""
    rejected = result.status is Status.REJECTED
    kind, words = ("warn", "nothing is stated") if result.unstated else _STATUS[result.status]
    badges = [badge(kind, words), *_held(result), badge("", f"{100 * (1 - result.alpha):g}% confidence")]
    warned = "".join(f'<p class="note"><b>Warning.</b> {esc(text)}</p>' for text in result.warnings)
    told = "".join(f"<p class=soft>{esc(sentence(text))}.</p>" for text in chosen_words(result))
    css = ' class="rejected"' if rejected else ""
    heading = "No answer: the log contradicts the assumptions" if rejected else "The answer"
    return (
        f'<section id="answer"{css}><h2>{heading}</h2>{warned}'
        f'<p class="answer">{esc(result.sentence())}</p><p>{" ".join(badges)}</p>{_pointer(doubts)}'
        f"{interval_picture(result, logged)}{_compared(logged, result)}{_condition(result)}"
        f"<p>The value is the expected discounted sum of rewards (not normalized). {_guess(result)} {_reading(result)}</p>"
        f"{told}</section>"
    )


def _guess(result: Result) -> str:
    """What the point estimate is worth."""
    advice = "; decide by the interval" if result.guarantee == "finite-sample" else ""
    if result.status is Status.REJECTED:  # no interval is given: there is nothing to guarantee
        advice = " and is no basis for a decision"
    words = f"{esc(sentence(estimate_words(result)))}{advice if result.estimated else ''}."
    beside = " <strong>The point estimate lies outside the interval: it has no guarantee.</strong>"
    return words + (beside if result.estimate_outside else "")


def _compared(logged: LoggedValue | None, result: Result) -> str:
    """What the logging policy earned, and under which assumption that is known."""
    if logged is None:
        return ""
    cut = (
        f" In {grouped(logged.cut)} episodes recording stopped early: the rest of each may be worth anything in the value range."
        if logged.cut
        else ""
    )
    between = esc(interval_text(logged.low, logged.high))
    return (
        f'<p class="soft">For comparison: the value of the policy that made the log lies in {between}, from the log\'s own '
        f"starts, at {100 * (1 - result.alpha):g}% confidence by itself. This holds if that policy did not change and the "
        f"log's {grouped(logged.episodes)} episodes are independent.{cut}</p>"
    )


def _held(result: Result) -> list[str]:
    """Badges on the guarantee."""
    if result.status is Status.REJECTED:
        return []
    if result.status is Status.TRIVIAL:
        return [badge("", f"follows from {ranges(result)[0]} alone")]
    badges = [badge(*_GUARANTEE[result.guarantee])]
    if result.allowance is not None:
        badges.append(badge("info", "if rows are as alike as you state"))
    if result.is_assumption_free:
        badges.append(badge("good", "no assumption about the value function"))
    return badges


def _condition(result: Result) -> str:
    """How much rougher the value function may be than the user states, right under the interval."""
    found = result.robustness
    if found is None:
        return ""
    same, most = _times(found.same_up_to), _times(found.informative_up_to)
    return (
        f'<p class="note" id="condition"><b>Valid if the value function is no rougher than you state</b> (radius '
        f"{three(found.radius)}). No log can prove it. The interval stays the same up to {same}, and says something up to "
        f"{most}.</p>"
    )


def _times(multiple: float) -> str:
    return f"{three(multiple)} times that radius" if math.isfinite(multiple) else "any radius"


def _pointer(doubts: Sequence[str]) -> str:
    if not doubts:
        return ""
    count = "There is a warning" if len(doubts) == 1 else f"There are {len(doubts)} warnings"
    return (
        f'<p class="note"><b>{count} about the log, under “Is it the right log?”.</b> If it applies, the interval is not '
        "valid.</p>"
    )


def _reading(result: Result) -> str:
    stated, imply = ranges(result)
    if result.status is Status.REJECTED:
        return (
            f"<strong>The log contradicts the assumptions taken together, so no number is given beyond what {stated} "
            f"{imply}. Do not widen anything until it is known which assumption failed.</strong>"
        )
    if result.unstated:
        return "What a statement on how alike rows are would give is below."
    if result.status is Status.TRIVIAL and result.allowance is not None:
        return "With the allowance that you state the log adds nothing. See below what smaller ones would give."
    if result.status is Status.TRIVIAL:
        return f"The log is too short, or too far from the policy, to say more than {stated} alone."
    if result.guarantee in ("asymptotic", "none"):
        return (
            "<strong>The noise bound behind it is an estimate, not a proof: the interval has no guarantee for a finite log. "
            "Use it for comparison only.</strong>"
        )
    return (
        "If the assumptions below hold, an interval made in this way misses the true value in at most "
        f"{esc(f'{100 * result.alpha:g}')}% of all logs."
    )


# --- what to do, what it is made of, what must be true ------------------------------------------------


def next_steps(steps: Sequence[NextStep]) -> str:
    """The ways out of an answer that says little; nothing where the answer needs none."""
    if not steps:
        return ""
    items = "".join(f"<li{' class=loud' if step.loud else ''}>{esc(unbroken(str(step)))}</li>" for step in steps)
    return (
        '<section id="next"><h2>What to do next</h2><ul class="steps">'
        f'{items}</ul><p class="soft">This is advice, not part of the guarantee. If you change a range, a radius or a method '
        "because of this result, the guarantee no longer holds for this log. Make the change for your next log.</p></section>"
    )


def contributions(result: Result) -> str:
    """What each part contributes, and what the rows are worth; after a rejection there is no interval to explain."""
    parts = parts_grid(result.claims)
    if parts is None or result.status is Status.REJECTED:
        return ""
    return (
        '<section id="terms"><h2>What makes the interval long</h2>'
        f"<p>Each end starts from a weighted average of the log's rewards. Allowances are then added or subtracted. "
        f"{_named(parts)}</p>"
        f"{stacked_terms(result)}{html_table(parts.header, parts.rows, total=True)}"
        f'<p class="soft">{esc(" ".join(_rest(result)))}</p></section>'
    )


def _named(parts: Grid) -> str:
    """What each part covers, of those that there are."""
    words = [f"<b>{esc(sentence(row[0]))}</b> covers {_COVERED[row[0]]}." for row in parts.rows if row[0] in _COVERED]
    return " ".join(words)


def _rest(result: Result) -> list[str]:
    """What the rows are worth, and what a better search could change."""
    rows, worth = result.rows[1] - result.rows[0], result.effective_sample_size
    words = [f"{sentence(search_words(result))}."] if search_words(result) else []
    if worth > 0 and any(claim.uses_log for claim in result.claims):
        even = f"{grouped(rows)} rows count like about {grouped(round(worth))} rows of equal weight."
        words.insert(0, f"Each row is weighted by how often the policy would be in its situation: the {even}")
    return words


def assumptions(result: Result) -> str:
    """What must be true, in plain words, the statements first; what was checked, and every choice, is folded away."""
    checked = [item for item in result.assumptions if item.state == "checked"]
    open_items = "".join(_assumption(item, result) for item in result.assumptions if item.state != "checked")
    choices = "".join(f"<li><b>{esc(name)}</b><p>{esc(text)}</p></li>" for name, text in result.choices.items())
    found = {item.state for item in result.assumptions}
    meanings = " ".join(f"<b>{STATE_WORDS[s]}</b>: {words}." for s, words in _MEANINGS.items() if s in found)
    return (
        f'<section id="assumptions"><h2>What must be true</h2><p>{meanings}</p><ul class="items">{open_items}</ul>'
        + _folded("What was checked", "".join(_assumption(item, result) for item in checked))
        + _folded("Every choice that was made, in words", choices)
        + "</section>"
    )


def _assumption(item: Assumption, result: Result) -> str:
    state = badge(_STATES[item.state], STATE_WORDS[item.state])
    return f"<li><b>{esc(_title(item, result))}</b>{state}<p>{esc(item.text)}</p></li>"


def _folded(title: str, items: str) -> str:
    return f'<details><summary>{title}</summary><ul class="items">{items}</ul></details>' if items else ""


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


# --- the log, and how to check ------------------------------------------------------------------------


def data_health(health: Health, no_rows: bool, doubts: Sequence[str] = (), notes: Sequence[str] = ()) -> str:
    """Counts of the log, and how it was read."""
    known = [
        ("rows of the log", health.rows), ("rows certified", health.certified), ("dropped beyond the horizon", health.dropped),
        ("episodes", health.episodes), ("terminations", health.terminations), ("truncations", health.truncations),
        ("rows without a next state", health.final), ("rows equal to an earlier one", health.copies),
        ("distinct situations", health.distinct),
    ]  # fmt: skip
    items = [(name, _count(value, no_rows)) for name, value in known if value]
    low, high = health.reward_range
    warned = "".join(f'<p class="note"><b>Warning.</b> {esc(doubt)}</p>' for doubt in doubts)
    read = _folded("How the log was read", "".join(f"<li><p>{esc(note)}</p></li>" for note in notes))
    hidden = f" Bars of fewer than {FEWEST_ROWS} rows are not shown." if no_rows else ""
    return (
        f'<section id="health"><h2>Is it the right log?</h2>{warned}{facts(items)}'
        f"<h3>Rewards in the stated range [{esc(number(low))}, {esc(number(high))}]</h3>{reward_histogram(health)}"
        f'<p class="soft">{esc(_earned(health))} Dashed lines: the stated range. Every possible reward '
        f"must lie inside.{hidden}</p>{_actions(health)}{read}</section>"
    )


def _count(value: int, no_rows: bool) -> str:
    return f"below {FEWEST_ROWS}" if no_rows and 0 < value < FEWEST_ROWS else grouped(value)


def _earned(health: Health) -> str:
    if health.return_mean is None:
        return f"Mean reward {three(health.reward_mean)}."
    whole = f"an episode of the log earns {three(health.return_mean)} on average, undiscounted"
    return f"Mean reward {three(health.reward_mean)} per step; {whole}."


def _actions(health: Health) -> str:
    """What the log did beside what the policy would do."""
    if not health.actions:
        return ""
    where = f'<p class="soft">The policy\'s actions are those at the {esc(health.asked_at)}.</p>'
    if health.discrete:
        return f"<h3>Actions</h3>{action_bars(health.actions)}{where}"
    means = [[a.name, number(a.logged), number(a.target)] for a in health.actions]
    return f"<h3>Actions</h3>{html_table(['action', 'mean logged', 'mean of the policy'], means)}{where}"


def verification(result: Result, command: str = "") -> str:
    """How anybody can repeat the calculation; without a `command` the log's file (and the policy's) are blanks."""
    title = '<section id="verify"><h2>How to check this number</h2>'
    if result.proof is None:
        return (
            f"{title}<p>The method {esc(result.method)} writes no certificate: run it again on the same log. bondic's own "
            "methods write one that anybody can check.</p></section>"
        )
    withheld = result.proof.asked.answers.next is None
    command = command or f"bondic verify certificate.json LOG{' --policy POLICY' if withheld else ''}"
    code = f'bondic.verify("certificate.json", log{", policy" if withheld else ""})'
    needed = (
        "This certificate does not hold the policy's answers row by row, so the policy is needed again."
        if withheld
        else "Neither the policy's code nor the search is needed."
    )
    return (
        f"{title}<p>The interval comes with a certificate: the weights found, and every number of the bound. A small program "
        f'recomputes it from the log alone. {needed}</p><pre id="verify-command">{esc(command)}</pre>'
        f"<p>In Python:</p><pre>{esc(code)}</pre></section>"
    )


# --- the words ----------------------------------------------------------------------------------------

_WORDS = {
    "policy": "a rule that says which action to take in which situation. The new policy is the one that is evaluated.",
    "value": "the sum of rewards that a policy earns on average from its start. Later rewards count less: each step by the "
    "factor γ, the discount.",
    "value range": "the smallest and the largest value that are possible at all, given the stated reward range.",
    "confidence, α": "α is the probability that the interval misses the true value. 90% confidence means α = 0.1.",
    "certified rows": "the rows of the log that the interval is computed from. Earlier rows (the pilot) only prepare it.",
    "weights ω": "how much each row counts. Rows that look like what the new policy would do count more.",
    "doubly robust value": "an estimate that combines a model of the value with weighted rewards. It is right if either is.",
    "value function, q*": "the value from a given situation and first action on. It is unknown.",
    "group, model, allowance": "situations that are treated alike; a guess, from earlier rows, of what each is worth; and how "
    "far rows of a group may be from alike, beyond that guess. Bad groups or a bad model need a larger allowance.",
    "class Q, radius": "Q is the set of functions that is assumed to contain q*. A larger radius allows larger and rougher "
    "functions.",
    "block, plan": "rows are used in blocks. What is done with a block is planned from earlier rows, so it is not fitted to it.",
    "bet": "how chance is measured: for every candidate value, bets on the rows that cannot win on average if the candidate is "
    "right. Candidates against which the bets have won a lot are ruled out.",
    "certificate": "a file with which anybody who has the log can compute the interval again.",
}


def glossary(*, groups: bool, radius: bool) -> str:
    """A section that is closed until somebody opens it; of classes and groups only what the page is about."""
    absent = {"class Q, radius": not radius, "group, model, allowance": not groups}
    told = {word: meaning for word, meaning in _WORDS.items() if not absent.get(word)}
    items = "".join(f"<li><b>{esc(word)}</b><p>{esc(meaning)}</p></li>" for word, meaning in told.items())
    return f'<section id="words">{_folded("Words on this page", items)}</section>'
