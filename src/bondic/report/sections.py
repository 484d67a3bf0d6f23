"""Sections of the page, one function each; every text is escaped here."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from bondic.certificate.conclude import Status
from bondic.methods.frontier import Frontier
from bondic.rendering import gap_text, number
from bondic.report.bins import FEWEST_ROWS
from bondic.report.drawings import interval_picture, reward_histogram, stacked_terms, support_map
from bondic.report.health import Health
from bondic.report.support import Support
from bondic.result import Result

_STATUS = {Status.INTERVAL: ("good", "informative"), Status.TRIVIAL: ("warn", "says nothing new"),
           Status.REJECTED: ("bad", "assumptions contradicted")}  # fmt: skip
_GUARANTEE = {
    "finite-sample": ("good", "proved for this finite log"),
    "asymptotic": ("warn", "asymptotic only"),
    "none": ("bad", "no guarantee"),
}
_STATES = {"stated": "warn", "checked": "good", "rejected": "bad"}
_PLAIN = {
    "data": "The log is an honest record, in the order of time",
    "rewards": "No reward can leave the stated range",
    "values": "The value function lies in the stated class",
    "instruments": "The yardsticks were chosen without the rows they measure",
    "noise": "How chance is bounded",
    "policy": "What the new policy would do",
    "start": "Where it starts",
    "process": "What is added up",
    "log": "What you accept about the log",
}


def esc(value: object) -> str:
    return html.escape(str(value))


def badge(kind: str, words: str) -> str:
    return f'<span class="badge {kind}">{esc(words)}</span>'


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, total: bool = False) -> str:
    """A table whose columns after the first hold numbers; `total` marks the last row."""
    head = "".join(f"<th{'' if k == 0 else ' class=num'}>{esc(cell)}</th>" for k, cell in enumerate(header))
    lines = []
    for index, row in enumerate(rows):
        cells = "".join(f"<td{'' if k == 0 else ' class=num'}>{esc(cell)}</td>" for k, cell in enumerate(row))
        lines.append(f"<tr{' class=total' if total and index == len(rows) - 1 else ''}>{cells}</tr>")
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def facts(items: Sequence[tuple[str, str]]) -> str:
    return '<dl class="facts">' + "".join(f"<div><dt>{esc(k)}</dt><dd>{esc(v)}</dd></div>" for k, v in items) + "</dl>"


def answer(result: Result, doubts: Sequence[str] = ()) -> str:
    """The interval in one sentence and one picture."""
    kind, words = _STATUS[result.status]
    badges = [badge(kind, words), badge("", f"{100 * (1 - result.alpha):g}% confidence")]
    advice = "; decide by the interval" if result.guarantee == "finite-sample" else ""
    if result.status is Status.REJECTED:  # no interval is given: there is nothing to guarantee
        advice = ", and no basis for a decision"
    else:
        badges.insert(1, badge(*_GUARANTEE.get(result.guarantee, ("warn", result.guarantee))))
    return (
        f'<section id="answer"><h2>The answer</h2>{_loud(result)}<p class="answer">{esc(result.sentence())}</p>'
        f"<p>{' '.join(badges)}</p>{_pointer(doubts)}"
        f"{interval_picture(result)}"
        f"<p>The value is a discounted sum of rewards, not normalised. The point estimate {esc(number(result.estimate))} is a "
        f"guess without a guarantee of its own{advice}. {_reading(result)}</p></section>"
    )


def _loud(result: Result) -> str:
    return "".join(f'<p class="note"><b>Warning.</b> {esc(text)}</p>' for text in result.warnings)


def _pointer(doubts: Sequence[str]) -> str:
    if not doubts:
        return ""
    count = "A warning about the log stands" if len(doubts) == 1 else f"{len(doubts)} warnings about the log stand"
    return f'<p class="note"><b>{count} under “Is it the right log?”.</b> Where one applies, the interval is not valid.</p>'


def _reading(result: Result) -> str:
    if result.status is Status.REJECTED:
        return (
            "<strong>The log contradicts the assumptions taken together, so no number is given beyond what the reward range "
            "implies. Do not widen anything until it is known which assumption failed.</strong>"
        )
    if result.status is Status.TRIVIAL:
        return "The log is too short, or too far from the policy, to say more than the reward range alone."
    if result.guarantee != "finite-sample":
        return (
            "<strong>The noise bound behind it is an estimate, not a proof: the interval has no guarantee for a finite log "
            "and is fit for comparison only.</strong>"
        )
    return (
        f"If the assumptions below hold, a procedure like this is wrong in at most {esc(f'{100 * result.alpha:g}')}% of the "
        "logs it is used on."
    )


def contributions(result: Result) -> str:
    """What each term contributes."""
    terms = result.terms()
    names = list(next(iter(terms.values())))
    rows = [[name, *(number(end[name]) for end in terms.values())] for name in names]
    return (
        '<section id="terms"><h2>What makes the interval long</h2>'
        "<p>Each end starts from a weighted average of the log's rewards. <b>Bias</b> pays for situations that the policy "
        "reaches and the log does not balance; <b>noise</b> for chance in finitely many rows; the rest for sampled starting "
        "points, a stated model error and the computer's rounding.</p>"
        f"{stacked_terms(result)}{table(['term', *(f'{end} end' for end in terms)], rows, total=True)}"
        f"{_gap(result)}</section>"
    )


def _gap(result: Result) -> str:
    known = [value for value in result.gap if value == value]
    if not all(math.isfinite(value) for value in known):
        return '<p class="soft">How much a better search could gain is not known.</p>'
    return f'<p class="soft">A better ω in the searched space could gain at most {esc(gap_text(result.gap))}.</p>'


def assumptions(result: Result) -> str:
    """What must be true, in plain words, and what was checked."""
    items = []
    for item in result.assumptions:
        title = _PLAIN.get(item.name, item.name)
        items.append(f"<li><b>{esc(title)}</b>{badge(_STATES[item.state], item.state)}<p>{esc(item.text)}</p></li>")
    rejection, tested = result.rejection, []
    if rejection is not None and rejection.p_value < 1:
        tested.append(f"The p-value of all assumptions together is at most {max(rejection.p_value, 1e-12):.3g}.")
    if rejection is not None and rejection.minimal_radius > 0:
        tested.append(f"At this α the log rules out radii below {number(rejection.minimal_radius)}.")
    listed = "".join(f"<li><b>{esc(name)}</b><p>{esc(text)}</p></li>" for name, text in result.choices.items())
    return (
        '<section id="assumptions"><h2>What must be true</h2><p><b>checked</b>: the log was examined for it. <b>stated</b>: '
        "somebody vouches for it; no program can see it in the log. <b>rejected</b>: the log speaks against it.</p>"
        f'<ul class="items">{"".join(items)}</ul><p>{esc(" ".join(tested))}</p>'
        "<details><summary>Every choice that was made, in words</summary>"
        f'<ul class="items">{listed}</ul></details></section>'
    )


_PROVED = (
    "the valid interval", "is proved", "For one α the curve holds for all radii at once; an interval picked because its result "
    "pleased has no guarantee.",
)  # fmt: skip
_GUESSED = (
    "a guess of the interval", "would follow, were the noise what it was estimated to be,", "The noise bound is an estimate: "
    "<b>none of these intervals has a guarantee</b>, whatever is chosen.",
)  # fmt: skip


def what_if(frontier: Frontier, *, fixed_alpha: bool, rejected: bool = False) -> str:
    """Sliders for the radius and alpha; the numbers are recomputed in the page."""
    note = "<p>For this noise bound α cannot be moved.</p>" if fixed_alpha else ""
    if rejected:
        note += (
            "<p>The log contradicts the reported choice. A larger radius mends that only if the radius was what was wrong: "
            "the intervals here hold under all the other assumptions.</p>"
        )
    guarantee = frontier.setting.gauge.guarantee
    what, follows, terms = _PROVED if guarantee == "finite-sample" else _GUESSED
    return f"""<section id="what-if" data-guarantee="{esc(guarantee)}"><h2>What if the assumption were weaker?</h2>
<p>The radius r<sub>Q</sub> says how large and how rough the value function may be. Data can contradict it, not prove it. Here is
{what} for every radius and every error probability α, computed in this page from certified numbers.</p>
<p class="note">Choose r<sub>Q</sub> and α <b>before</b> looking. {terms}</p>
<div class="controls"><div><label for="radius-slider">radius r<sub>Q</sub></label><div class="pair">
<input id="radius-slider" type="range" min="0" max="1000" step="1" value="500">
<input id="radius-number" type="number" min="0" step="any" aria-label="radius as a number"></div></div>
<div><label for="alpha-slider">error probability α</label><div class="pair">
<input id="alpha-slider" type="range" min="0" max="1000" step="1">
<input id="alpha-number" type="number" min="0" max="1" step="any" aria-label="alpha as a number"></div></div></div>{note}
<div class="reading"><span>from <output id="what-low"></output></span><span>to <output id="what-high"></output></span>
<button id="what-reset" type="button">back to the reported choice</button></div>
<p id="what-verdict" class="verdict" aria-live="polite"></p><div id="curve"></div>
<h3>When would the decision break?</h3>
<p>The value is <select id="break-direction" aria-label="direction"><option value="above">above</option>
<option value="below">below</option></select>
<input id="break-threshold" type="number" step="any" aria-label="threshold" placeholder="threshold"></p>
<p id="break-out" hidden>{follows} <b id="break-radius"></b> at the α above, and <b id="break-alpha"></b> with the radius
above.</p>
<noscript><p>The sliders need JavaScript; the reported interval above does not.</p></noscript></section>"""


def support(result: Result, found: Support | None, no_rows: bool) -> str:
    """Where the log supports the policy, and which rows carry the bound."""
    rows = result.rows[1] - result.rows[0]
    share = result.effective_sample_size / rows if rows else 0.0
    head = (
        '<section id="support"><h2>Where the log supports the policy</h2>'
        f"<p>{result.effective_sample_size:.0f} rows' worth of evidence out of {rows} ({100 * share:.3g}%): the bound rests "
        "on rows weighted by how much the policy would be in their situation.</p>"
    )
    if found is None:
        return f"{head}<p>No row carries weight: the end points do not use the log.</p></section>"
    spread = [[f"{100 * a:g}% of the rows", f"{100 * b:.3g}%"] for a, b in found.shares]
    hidden = f" {found.suppressed} cells with fewer than {FEWEST_ROWS} rows are not shown." if found.suppressed else ""
    return (
        f"{head}{support_map(found)}<p class=soft>The two columns that explain the weights best "
        f"({100 * found.explained[0]:.0f}% and {100 * found.explained[1]:.0f}% of their variance). Strong colour: the policy "
        f"needs these situations more often than the log visits them.{hidden}</p>"
        f"<h3>How evenly the weight is spread</h3>{table(['the heaviest', 'carry of the weight'], spread)}"
        f"{_heavy_rows(found, no_rows)}</section>"
    )


def _heavy_rows(found: Support, no_rows: bool) -> str:
    if no_rows:
        return "<p>Single rows are withheld from this page.</p>"
    shown = range(min(len(found.names), 6))
    header = ["row", *(found.names[k] for k in shown), "reward", "weight", "share"]
    rows = [
        [str(r.row), *(number(r.values[k]) for k in shown), number(r.reward), number(r.weight), f"{100 * r.share:.2g}%"]
        for r in found.heavy
    ]
    return f"<details><summary>The rows that carry most</summary>{table(header, rows)}</details>"


def data_health(health: Health, no_rows: bool, doubts: Sequence[str] = (), notes: Sequence[str] = ()) -> str:
    """Counts of the log, and how it was read."""
    known = [
        ("rows of the log", health.rows), ("rows certified", health.certified), ("dropped beyond the horizon", health.dropped),
        ("episodes", health.episodes), ("terminations", health.terminations), ("truncations", health.truncations),
        ("certified rows without a next state", health.final), ("rows equal to an earlier one", health.copies),
        ("distinct situations certified", health.distinct),
    ]  # fmt: skip
    items = [(name, _count(value, no_rows)) for name, value in known if value is not None]
    low, high = health.reward_range
    if health.discrete:
        header, form = ["action", "rows", "logged", "target policy"], "{:.3g}%"
        actions = [
            [a.name, "few" if a.rows < 0 else str(a.rows), "few" if a.rows < 0 else form.format(100 * a.logged),
             form.format(100 * a.target)]
            for a in health.actions
        ]  # fmt: skip
    else:
        header = ["action", "mean logged", "mean of the target policy"]
        actions = [[a.name, number(a.logged), number(a.target)] for a in health.actions]
    warned = "".join(f'<p class="note"><b>Warning.</b> {esc(doubt)}</p>' for doubt in doubts)
    read = "".join(f"<li><p>{esc(note)}</p></li>" for note in notes)
    read = f'<details><summary>How the log was read</summary><ul class="items">{read}</ul></details>' if notes else ""
    hidden = f" Bars of fewer than {FEWEST_ROWS} rows are not shown." if no_rows else ""
    return (
        f'<section id="health"><h2>Is it the right log?</h2>{warned}{facts(items)}'
        f"<h3>Rewards in the stated range [{esc(number(low))}, {esc(number(high))}]</h3>{reward_histogram(health)}"
        f'<p class="soft">Mean reward {esc(number(health.reward_mean))}. Dashed: the stated range, within which every possible '
        f"reward must lie.{hidden}</p><h3>Actions</h3>{table(header, actions)}"
        f'<p class="soft">The target policy was asked at the next states of the log.</p>{read}</section>'
    )


def _count(value: int, no_rows: bool) -> str:
    return f"below {FEWEST_ROWS}" if no_rows and 0 < value < FEWEST_ROWS else f"{value:,}".replace(",", " ")


def verification(result: Result, withheld: bool, command: str = "") -> str:
    """How anybody can repeat the calculation; without a `command` the log's file (and the policy's) are blanks."""
    policy = ", policy" if withheld else ""
    more = (
        "<p>This certificate does not hold the policy's answers row by row: verification asks the policy again.</p>"
        if withheld
        else "<p>Neither the policy's code nor the search is needed.</p>"
    )
    command = command or f"bondic verify certificate.json LOG{' --policy POLICY' if withheld else ''}"
    code = (
        "import bondic\n"
        f'checked = bondic.verify(bondic.load_certificate("certificate.json"), log{policy})\n'
        "print(checked.low, checked.high, checked.checks)"
    )
    seconds = sum(v for v in result.seconds.values() if math.isfinite(v))
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    return (
        '<section id="verify"><h2>How to check this number</h2><p>The interval comes with a certificate: the weights found, '
        "and every number of the bound. A small program recomputes it from the log alone.</p>"
        f'<pre id="verify-command">{esc(command)}</pre><pre>{esc(code)}</pre>{more}'
        f'<p>log<br><span class="hash">{esc(result.hashes["log"])}</span></p>'
        f'<p>certificate<br><span class="hash">{esc(result.hashes["certificate"])}</span></p>'
        f'<p class="soft">Made in {seconds:.1f} s with {esc(versions)}; method {esc(result.method)}, rows {result.rows[0]} to '
        f"{result.rows[1] - 1}.</p></section>"
    )
