"""Further sections of the page, one function each: terms, support, health of the log, how to verify."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bondic.bounds.dual import BIAS
from bondic.bounds.ends import RARE
from bondic.rendering import html_table, number, sentence
from bondic.report.bins import FEWEST_ROWS
from bondic.report.drawings import reward_histogram, stacked_terms, support_map
from bondic.report.elements import esc, facts
from bondic.report.health import Health
from bondic.report.support import Support
from bondic.result import Result
from bondic.view import Grid


def contributions(result: Result) -> str:
    """What each part contributes."""
    parts = result.view().parts
    if parts is None:  # nothing is left of Q, so there are no end points to split
        return ""
    return (
        '<section id="terms"><h2>What makes the interval long</h2>'
        f"<p>Each end starts from a weighted average of the log's rewards. {_named(parts)}</p>"
        f"{stacked_terms(result)}{html_table(parts.header, parts.rows, total=True)}"
        f"{_searched(result)}</section>"
    )


def _named(parts: Grid) -> str:
    """What the parts pay for; with propensities there is no bias."""
    if not any(row[0] == BIAS for row in parts.rows):
        return "<b>Noise</b> pays for chance in finitely many rows; the rest is the computer's rounding."
    return (
        "<b>Bias</b> pays for situations that the policy reaches and the log does not balance; <b>noise</b> for chance in "
        f"finitely many rows; {_rare(parts)}the rest for sampled starting points, a stated model error and the computer's "
        "rounding."
    )


def _rare(parts: Grid) -> str:
    named = any(row[0] == RARE for row in parts.rows)
    return f"<b>{RARE}</b> for the confidence that is asked for; " if named else ""


def _searched(result: Result) -> str:
    return f'<p class="soft">{esc(sentence(result.search_words))}.</p>' if result.search_words else ""


def support(result: Result, found: Support | None, no_rows: bool) -> str:
    """Where the log supports the policy, and which rows carry the bound."""
    rows = result.rows[1] - result.rows[0]
    share = result.effective_sample_size / rows if rows else 0.0
    head = (
        '<section id="support"><h2>Where the log supports the policy</h2>'
        f"<p>{result.effective_sample_size:.0f} rows' worth of evidence out of {rows} ({100 * share:.3g}%): the bound rests "
        "on rows weighted by how much the policy would be in their situation.</p>"
    )
    if found is None and result.effective_sample_size > 0:
        return f"{head}</section>"
    if found is None:
        return f"{head}<p>No row carries weight: the end points do not use the log.</p></section>"
    spread = [[f"{100 * a:g}% of the rows", f"{100 * b:.3g}%"] for a, b in found.shares]
    hidden = f" {found.suppressed} cells with fewer than {FEWEST_ROWS} rows are not shown." if found.suppressed else ""
    return (
        f"{head}{support_map(found)}<p class=soft>The two columns that explain the weights best "
        f"({100 * found.explained[0]:.0f}% and {100 * found.explained[1]:.0f}% of their variance). Strong color: the policy "
        f"needs these situations more often than the log visits them.{hidden}</p>"
        f"<h3>How evenly the weight is spread</h3>{html_table(['the heaviest', 'carry of the weight'], spread)}"
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
    return f"<details><summary>The rows that carry most</summary>{html_table(header, rows)}</details>"


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
    where = f'<p class="soft">The target policy was asked at the {esc(health.asked_at)}.</p>'
    used = f"<h3>Actions</h3>{html_table(header, actions)}{where}" if actions else ""
    warned = "".join(f'<p class="note"><b>Warning.</b> {esc(doubt)}</p>' for doubt in doubts)
    read = "".join(f"<li><p>{esc(note)}</p></li>" for note in notes)
    read = f'<details><summary>How the log was read</summary><ul class="items">{read}</ul></details>' if notes else ""
    hidden = f" Bars of fewer than {FEWEST_ROWS} rows are not shown." if no_rows else ""
    return (
        f'<section id="health"><h2>Is it the right log?</h2>{warned}{facts(items)}'
        f"<h3>Rewards in the stated range [{esc(number(low))}, {esc(number(high))}]</h3>{reward_histogram(health)}"
        f'<p class="soft">Mean reward {esc(number(health.reward_mean))}. Dashed: the stated range, within which every possible '
        f"reward must lie.{hidden}</p>{used}{read}</section>"
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
