"""Further sections of the page, one function each: terms, support, health of the log, how to verify."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bondic.bounds.dual import ALLOWANCE, BIAS, NOISE, START
from bondic.bounds.ends import RARE
from bondic.claims import Status
from bondic.proofs.cells import ALLOWED
from bondic.rendering import grouped, html_table, number, sentence, three, unbroken
from bondic.report.bins import FEWEST_ROWS
from bondic.report.drawings import action_bars, reward_histogram, stacked_terms, support_map
from bondic.report.elements import esc, facts
from bondic.report.health import Health
from bondic.report.support import Support
from bondic.result import Result
from bondic.view import Grid, NextStep


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
    """What each part contributes; after a rejection there is no interval to explain."""
    parts = result.view().parts
    if parts is None or result.status is Status.REJECTED:
        return ""
    return (
        '<section id="terms"><h2>What makes the interval long</h2>'
        f"<p>Each end starts from a weighted average of the log's rewards. Allowances are then added or subtracted. "
        f"{_named(parts)}</p>"
        f"{stacked_terms(result)}{html_table(parts.header, parts.rows, total=True)}"
        f"{_searched(result)}</section>"
    )


_COVERED = {
    BIAS: "what the log does not tell about the value function where the policy goes",
    NOISE: "chance: there are only so many rows",
    RARE: "events that no row shows but that may still happen",
    START: "starts that are known only from a sample",
    ALLOWANCE: "the model error that you stated",
    ALLOWED: "what rows of a group may differ by, as you state",
}


def _named(parts: Grid) -> str:
    """What each part covers, of those that there are."""
    words = [f"<b>{esc(sentence(row[0]))}</b> covers {_COVERED[row[0]]}." for row in parts.rows if row[0] in _COVERED]
    return " ".join(words)


def _searched(result: Result) -> str:
    return f'<p class="soft">{esc(sentence(result.search_words))}.</p>' if result.search_words else ""


def support(result: Result, found: Support | None, rows: int, no_rows: bool) -> str:
    """Where the log supports the policy, and which of the certified `rows` matter most."""
    share = result.effective_sample_size / rows if rows else 0.0
    title = '<section id="support"><h2>Where the log supports the policy</h2>'
    head = (
        f"{title}<p>Each row is weighted by how often the policy would be in its situation. With these weights, the "
        f"{grouped(rows)} rows count like about {grouped(round(result.effective_sample_size))} rows of equal weight "
        f"({100 * share:.3g}%).</p>"
    )
    if result.status is Status.REJECTED:
        return ""
    if not any(claim.uses_log for claim in result.claims) or result.effective_sample_size == 0:
        return f"{title}<p>No row has weight: the ends of the interval do not use the log.</p></section>"
    if found is None:
        return f"{head}</section>"
    spread = [[f"{100 * a:g}% of the rows", f"{100 * b:.3g}%"] for a, b in found.shares]
    hidden = f" {found.suppressed} cells with fewer than {FEWEST_ROWS} rows are not shown." if found.suppressed else ""
    return (
        f"{head}{support_map(found)}<p class=soft>The two columns that explain the weights best "
        f"({100 * found.explained[0]:.0f}% and {100 * found.explained[1]:.0f}% of their variance). Strong color: the policy "
        f"needs these situations more often than the log visits them.{hidden}</p>"
        f"<h3>How evenly the weight is spread</h3>{html_table(['the heaviest', 'have of the weight'], spread)}"
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
    return f"<details><summary>The rows that matter most</summary>{html_table(header, rows)}</details>"


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
    used = _actions(health) if health.actions else ""
    warned = "".join(f'<p class="note"><b>Warning.</b> {esc(doubt)}</p>' for doubt in doubts)
    read = "".join(f"<li><p>{esc(note)}</p></li>" for note in notes)
    read = f'<details><summary>How the log was read</summary><ul class="items">{read}</ul></details>' if notes else ""
    hidden = f" Bars of fewer than {FEWEST_ROWS} rows are not shown." if no_rows else ""
    return (
        f'<section id="health"><h2>Is it the right log?</h2>{warned}{facts(items)}'
        f"<h3>Rewards in the stated range [{esc(number(low))}, {esc(number(high))}]</h3>{reward_histogram(health)}"
        f'<p class="soft">{esc(_earned(health))} Dashed lines: the stated range. Every possible reward '
        f"must lie inside.{hidden}</p>{used}{read}</section>"
    )


def _earned(health: Health) -> str:
    if health.return_mean is None:
        return f"Mean reward {three(health.reward_mean)}."
    whole = f"an episode of the log earns {three(health.return_mean)} on average, undiscounted"
    return f"Mean reward {three(health.reward_mean)} per step; {whole}."


def _actions(health: Health) -> str:
    """What the log did beside what the policy would do."""
    where = f'<p class="soft">The policy\'s actions are those at the {esc(health.asked_at)}.</p>'
    if health.discrete:
        return f"<h3>Actions</h3>{action_bars(health.actions)}{where}"
    means = [[a.name, number(a.logged), number(a.target)] for a in health.actions]
    return f"<h3>Actions</h3>{html_table(['action', 'mean logged', 'mean of the policy'], means)}{where}"


def _count(value: int, no_rows: bool) -> str:
    return f"below {FEWEST_ROWS}" if no_rows and 0 < value < FEWEST_ROWS else grouped(value)


def no_proof(result: Result) -> str:
    """What stands in the place of a certificate."""
    return (
        f'<section id="verify"><h2>How to check this number</h2><p>The method {esc(result.method)} writes no certificate: run it '
        "again on the same log. The methods sequential, dual and propensities write one that anybody can check.</p>"
        f'<p>log<br><span class="hash">{esc(result.hashes["log"])}</span></p></section>'
    )


def verification(result: Result, withheld: bool, command: str = "") -> str:
    """How anybody can repeat the calculation; without a `command` the log's file (and the policy's) are blanks."""
    policy = ", policy" if withheld else ""
    more = (
        "<p>This certificate does not hold the policy's answers row by row, so the policy is needed again.</p>"
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
