"""compare: several results, or several methods on one question, side by side: on a terminal, as rows, as a picture, on a page."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bondic.core.claims import ErrorBudget, Status, check_alpha
from bondic.core.errors import BondicError, InvalidInput, printable, printable_lines
from bondic.core.printed import ends_text, placed_text
from bondic.errors import kind_of
from bondic.estimate import estimate_interval, named_method
from bondic.methods.candidates import Method
from bondic.rendering import escape, three
from bondic.report.drawings import forest
from bondic.report.exports import frame
from bondic.report.html import document, html_table
from bondic.report.plots import comparison_plot
from bondic.result import Result
from bondic.rows import Rows
from bondic.saving import write_atomically

_NARROW = 76
"""Columns of a terminal below which an interval is a block of lines instead of a row."""
_COLORS = {"interval": "green", "trivial": "yellow", "rejected": "red", "finite-sample": "green", "asymptotic": "yellow",
           "none": "red"}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """One interval of the comparison, or why there is none."""

    policy: str  # or another name of the line; empty where the method says it all
    method: str
    result: Result | None
    reason: str = ""

    @property
    def name(self) -> str:
        return self.policy or self.method

    def to_row(self) -> dict[str, Any]:
        """Every number in full, and None for each where there is no interval."""
        found = self.result
        own = {} if found is None else found.to_row()
        row = {name: own.get(name) for name in ("guarantee", "status", "low", "high", "estimate", "alpha")}
        given = found is not None and found.status is not Status.REJECTED
        row |= {"length": found.length if found is not None and given else None}
        seconds = None if found is None else sum(found.seconds.values())
        return {"name": self.name, "method": self.method, **row, "seconds": seconds, "reason": self.reason}

    def cells(self) -> tuple[str, ...]:
        """Low, estimate, high, status, guarantee, length, seconds, as every table shows them."""
        if self.result is None:
            return ("", "", "", "see below", "", "", "")
        status, given = self.result.status.name.lower(), self.result.status is not Status.REJECTED
        held, length = (self.result.guarantee, three(self.result.length)) if given else ("-", "-")
        return (*line_ends(self.result), status, held, length, f"{sum(self.result.seconds.values()):.1f}")


def line_ends(result: Result) -> tuple[str, str, str]:
    """Low, estimate and high with as many decimals each; no ends after a rejection, no estimate where there is none."""
    if result.status is Status.REJECTED:
        return "-", three(result.estimate) if result.estimated else "-", "-"
    low, high = ends_text(result.low, result.high)
    if not result.estimated:
        return low, "-", high
    return low, placed_text(result.estimate, 0, result.low, result.high), high


def by_low(lines: Sequence[Line]) -> list[Line]:
    """The largest lower end first; lines without an interval last."""
    return sorted(lines, key=lambda line: math.inf if line.result is None else -line.result.low)


_HEADER = ("low", "estimate", "high", "status", "guarantee", "length", "seconds")


# --- the terminal ---------------------------------------------------------------------------------------


def print_comparison(console: Console, lines: Sequence[Line], title: str, *, costs: bool = False) -> None:
    """Every line, then what its words and marks mean, then why some lines have no interval; `costs` adds length and time."""
    if console.width < _NARROW:
        console.print(Text("\n").join(_blocks(lines, title)), soft_wrap=True)
    else:
        console.print(_table(lines, title, len(_HEADER) - (0 if costs else 2)))
    results = [line.result for line in lines if line.result is not None]
    if any(result.estimate_outside for result in results):
        console.print("An estimate outside its interval has no guarantee.")
    for states in dict.fromkeys(result.choices["states"] for result in results if "states" in result.choices):
        console.print(Text(f"states: {states}", style="dim"), soft_wrap=True)
    for reason in dict.fromkeys(f"{line.method}: {line.reason}" for line in lines if line.result is None):
        console.print(Text(printable(reason), style="dim"), soft_wrap=True)


def _table(lines: Sequence[Line], title: str, columns: int) -> Table:
    """Long names of policies are folded, numbers are not."""
    table = Table(
        title=title, title_justify="left", box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold"
    )
    named = any(line.policy for line in lines)
    if named:
        table.add_column("policy", overflow="fold")
    table.add_column("method", no_wrap=True)
    for name in _HEADER[:columns]:
        table.add_column(name, justify="left" if name in ("status", "guarantee") else "right", no_wrap=True)
    for line in lines:
        cells = (Text(cell, style=_COLORS.get(cell, "")) for cell in line.cells()[:columns])
        table.add_row(*([Text(line.policy)] if named else []), line.method, *cells)
    return table


def _blocks(lines: Sequence[Line], title: str) -> Iterator[Text]:
    """Three short lines per interval."""
    yield Text(title)
    for line in lines:
        low, estimate, high, status, held, *_ = line.cells()
        yield Text(", ".join(filter(None, (line.policy, line.method))), style="bold")
        if line.result is not None:
            yield Text(f"  low {low}  estimate {estimate}  high {high}")
        yield Text(f"  {', '.join(filter(None, (status, held)))}")


# --- the page -------------------------------------------------------------------------------------------


def comparison_page(lines: Sequence[Line], headline: str, *, title: str) -> str:
    """The whole page; `headline` says what the intervals show together."""
    found = [(line.name, line.result) for line in lines if line.result is not None]
    body = f'<p class="answer">{escape(headline)}.</p>'.replace("..</p>", ".</p>")
    body += forest(found, "intervals side by side") if found else ""
    for other in dict.fromkeys(result.names[1] for _, result in found if result.is_difference):
        body += f'<p class="soft">Bars show how far each policy exceeds {escape(other)}: right of 0 it is better.</p>'
    missing = "".join(
        f"<li><b>{escape(line.name)}</b><p>{escape(line.reason)}</p></li>" for line in lines if line.result is None
    )
    reasons = f'<section><h2>Without an interval</h2><ul class="items">{missing}</ul></section>' if missing else ""
    return document(title, f'<section id="comparison">{body}{comparison_table(lines)}</section>{reasons}')


def comparison_table(lines: Sequence[Line]) -> str:
    """The table alone, for the page and for notebooks; the method alone is said once."""
    first = 0 if any(line.name != line.method for line in lines) else 1
    rows = [(line.name, line.method, *line.cells()) for line in lines]
    return html_table(("", "method", *_HEADER)[first:], [row[first:] for row in rows])


_WIDTH = 120


@dataclass(frozen=True)
class Comparison:
    """Several intervals side by side: prints as a table, and leaves as rows, a DataFrame, a picture or a page."""

    lines: tuple[Line, ...]  # one per interval, with its name, or why there is none
    title: str  # what the intervals show together

    def __len__(self) -> int:
        return len(self.lines)

    def __iter__(self) -> Iterator[Line]:
        return iter(self.lines)

    def __getitem__(self, name: str) -> Result:
        """The result of this name."""
        found = {line.name: line for line in self.lines}
        if name not in found:
            raise InvalidInput(f"There is no line {name!r}; there are {', '.join(found)}.")
        result = found[name].result
        if result is None:
            raise InvalidInput(f"{name} gave no interval: {found[name].reason}")
        return result

    def __str__(self) -> str:
        text = io.StringIO()
        print_comparison(Console(file=text, width=_WIDTH, color_system=None), list(self.lines), self.title, costs=True)
        return printable_lines(text.getvalue().rstrip())

    def to_rows(self) -> list[dict[str, Any]]:
        """A dict per line: name, method, guarantee, ends, length, status, seconds; `reason` where there is no interval."""
        return [line.to_row() for line in self.lines]

    def to_frame(self) -> Any:
        """`to_rows` as a pandas DataFrame."""
        return frame(self.to_rows())

    def plot(self, ax: Any = None) -> Any:
        """All intervals in one picture (extra `plot`): a matplotlib Figure, or `ax`, drawn on."""
        return comparison_plot([(line.name, line.result) for line in self.lines if line.result is not None], ax)

    def report(self, path: str | os.PathLike[str], *, title: str = "Comparison") -> Path:
        """Write picture and table as one page that opens anywhere; returns the path."""
        target = Path(path)
        write_atomically(target, comparison_page(self.lines, self.title, title=title).encode())
        return target

    def _repr_html_(self) -> str:
        reasons = [f"<p>{escape(line.name)}: {escape(line.reason)}</p>" for line in self.lines if line.result is None]
        return f"<section><p>{escape(self.title)}</p>{comparison_table(self.lines)}{''.join(reasons)}</section>"


def compare(
    what: Sequence[Result] | Mapping[str, Result] | Rows,
    methods: Sequence[str | Method] | Mapping[str, str | Method] | None = None,
    *,
    alpha: float = 0.1,
    joint: bool = False,
) -> Comparison:
    """Results side by side, or what several methods say about one problem.

    Parameters
    ----------
    what : list of Result, dict of Result, or Rows
        Results, by name where they are a dict; or the problem that `make_problem` returns, and `methods` to run on it.
    methods : list or dict of str or Method, default None
        Names such as "sequential", "dual", "tis", or methods with options of their own, by name where they are a dict. One
        that cannot be used on this log has a line that says why.
    alpha : float, default 0.1
        Probability of a miss of each interval; only for a problem.
    joint : bool, default False
        Divide alpha over all methods, so that all finite-sample intervals hold at once and one may be picked afterwards.
    """
    if isinstance(what, Rows):
        return _methods(what, methods, alpha, joint)
    if methods is not None:
        raise InvalidInput("methods= is for a problem: compare(make_problem(...), ['sequential', 'dual']).")
    named = dict(what) if isinstance(what, Mapping) else _names(what)
    for name, result in named.items():
        if not isinstance(result, Result):
            raise InvalidInput(f"{name} is {kind_of(result)}, not a Result: pass what evaluate_policy returns.")
    if not named:
        raise InvalidInput("There is nothing to compare.")
    lines = tuple(Line("" if name == r.method else str(name), r.method, r) for name, r in named.items())
    return Comparison(lines, "Each interval holds by itself, at its own alpha")


def _names(results: Any) -> dict[str, Any]:
    """Results by method, those of the same method numbered."""
    if isinstance(results, Result | str) or not isinstance(results, Sequence):
        raise InvalidInput(
            f"compare takes a list of results, a dict of them by name, or a problem; it was given {kind_of(results)}."
        )
    return _numbered([(getattr(result, "method", f"entry {k}"), result) for k, result in enumerate(results)])


def _numbered(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Values by name; where a name comes several times, it is numbered."""
    names = [name for name, _ in pairs]
    return {
        f"{name} {index + 1}" if names.count(name) > 1 else name: value for index, (name, value) in enumerate(pairs)
    }


def _methods(problem: Rows, methods: Any, alpha: float, joint: bool) -> Comparison:
    check_alpha(alpha)
    if not methods or isinstance(methods, str) or not isinstance(methods, Sequence | Mapping):
        raise InvalidInput("Name the methods to compare in a list: compare(problem, ['sequential', 'dual', 'tis']).")
    listed = (
        dict(methods)
        if isinstance(methods, Mapping)
        else _numbered([(one if isinstance(one, str) else type(one).__name__.lower(), one) for one in methods])
    )
    chosen = {name: named_method(one) if isinstance(one, str) else one for name, one in listed.items()}
    share = line_alpha(alpha, [(name, "") for name in chosen]) if joint else alpha
    lines = [tried("", name, _running(problem, share, one), strict=len(chosen) == 1) for name, one in chosen.items()]
    return Comparison(tuple(lines), joint_title(share, joint=joint))


def _running(problem: Rows, alpha: float, method: Method) -> Callable[[], Result]:
    return lambda: estimate_interval(problem, alpha=alpha, method=method)


def line_alpha(alpha: float, lines: Sequence[tuple[str, str]]) -> float:
    """The share of one line: a reader may pick the policy *and* the method after seeing them all."""
    budget = ErrorBudget.split(alpha, {f"{first} {second}": 1.0 for first, second in lines})
    return min(budget.parts.values())


def joint_title(alpha: float, *, joint: bool) -> str:
    if joint:
        return f"All finite-sample lines hold at once (alpha = {alpha:.3g} each)"
    return f"Each interval holds by itself (alpha = {alpha:.3g})"


def tried(policy: str, name: str, run: Callable[[], Result], *, strict: bool) -> Line:
    """A method that cannot be used on this log, or lacks its library, says why; alone it is an error."""
    try:
        result = run()
        return Line(policy, result.method if name == "auto" else name, result)
    except BondicError as problem:
        if strict:
            raise
        return Line(policy, name, None, str(problem))
