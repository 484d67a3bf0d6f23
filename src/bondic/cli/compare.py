"""`bondic compare LOG`: several policies or methods side by side, one table, one picture."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from bondic.baselines.registry import BASELINES
from bondic.claims import ErrorBudget, Status
from bondic.cli.inputs import make_method, make_question, read_inputs
from bondic.cli.outputs import say_doubts
from bondic.errors import BondicError, Doubt, InvalidInput, printable
from bondic.estimate import Method, estimate_interval
from bondic.proofs.io import write_atomically
from bondic.report.exports import result_dict, split_notes
from bondic.report.plots import comparison_figure, save_plot
from bondic.report.progress import progress_bar
from bondic.result import CONDITIONAL, Result

_WIDEST, _NARROWEST = 40, 12
_LONGEST_NAME, _SHORTEST_NAME = 24, 8
_STATUS_COLOURS = {Status.INTERVAL: "green", Status.TRIVIAL: "yellow", Status.REJECTED: "red"}
_COLOURS = {"finite-sample": "green", CONDITIONAL: "yellow", "asymptotic": "yellow", "none": "red"}


@dataclass(frozen=True)
class Line:
    """One interval of the comparison, or why there is none."""

    policy: str
    method: str
    result: Result | None
    reason: str = ""


def command(log: str, **options: Any) -> int:
    """Every policy with every method, each line with its guarantee."""
    plot = options["plot"]
    if plot is not None and plot.exists() and not options["force"]:
        raise InvalidInput(f"{plot} exists already. Choose another name, or pass --force.")
    policies = list(dict.fromkeys(options["policies"]))
    methods = list(dict.fromkeys(["dual", *BASELINES] if "all" in options["methods"] else options["methods"]))
    inputs = read_inputs(log, options)
    alpha = _alpha(options["alpha"], policies, methods) if options["joint"] else options["alpha"]
    lines: list[Line] = []
    doubts: list[str] = []
    with progress_bar(Console(stderr=True, quiet=options["quiet"])) as progress:
        for policy in policies:
            question = make_question(inputs, policy, options)
            doubts += [Doubt(text if len(policies) == 1 else f"{policy}: {text}") for text in question.doubts]
            for name in methods:
                if progress is not None:
                    progress(f"{policy} {name}"[:40], 0.0)
                make = partial(make_method, name, options, inputs)
                lines.append(_line(policy, name, question, alpha, make, strict=len(methods) == 1))
                if progress is not None:
                    progress(f"{policy} {name}"[:40], 1.0)
    say_doubts(list(dict.fromkeys([*doubts, *inputs.notes])))
    if options["as_json"]:
        click.echo(json.dumps([_as_dict(line, inputs.notes) for line in lines], indent=1))
    else:
        console = Console()
        for note in split_notes(inputs.notes)[1] if options["verbose"] else ():
            console.print(f"note: {printable(note)}", highlight=False, markup=False, soft_wrap=True)
        _show(console, lines, _title(alpha, joint=options["joint"]))
        for words in _notes([line.result for line in lines if line.result is not None]):
            console.print(words, soft_wrap=True)
        for reason in dict.fromkeys(f"{line.method}: {line.reason}" for line in lines if line.result is None):
            console.print(Text(printable(reason), style="dim"), soft_wrap=True)
    if plot is not None:
        _save(lines, plot)
    return 0


def _show(console: Console, lines: list[Line], title: str) -> None:
    """A table, with a picture where there is room for one; on a narrow terminal names give way, then a block per line."""
    unlimited = console.options.update_width(10_000)
    room = console.width - Measurement.get(console, unlimited, _table(lines, 0, title)).maximum
    picture = min(_WIDEST, room - 2)
    policies = {line.policy for line in lines}
    whole = min(_LONGEST_NAME, max(len(policy) for policy in policies))
    name = whole + min(room, 0)
    told_apart = name == whole or len({policy[: max(name - 1, 0)] for policy in policies}) == len(policies)
    if told_apart and name >= min(_SHORTEST_NAME, whole):
        console.print(_table(lines, picture if picture >= _NARROWEST else 0, title, name))
        return
    for text in _blocks(lines, title):
        console.print(text, soft_wrap=True)


def _alpha(alpha: float, policies: list[str], methods: list[str]) -> float:
    """The share of one line: a reader may pick the policy *and* the method after seeing them all."""
    budget = ErrorBudget.split(alpha, {f"{policy} {method}": 1.0 for policy in policies for method in methods})
    return min(budget.parts.values())


def _title(alpha: float, *, joint: bool) -> str:
    if joint:
        return f"All finite-sample lines hold at once (alpha = {alpha:.3g} each)"
    return f"Each interval on its own (alpha = {alpha:.3g})"


def _line(policy: str, name: str, question: Any, alpha: float, make: Callable[[], Method], *, strict: bool) -> Line:
    """A method that cannot be used on this log, or lacks its library, says why; alone it is an error."""
    try:
        return Line(policy, name, estimate_interval(question, alpha=alpha, method=make()))
    except BondicError as problem:
        if strict:
            raise
        return Line(policy, name, None, str(problem))


def _as_dict(line: Line, notes: Sequence[str]) -> dict[str, Any]:
    found = {"reason": line.reason} if line.result is None else result_dict(line.result, notes=notes)
    return {"policy": line.policy, "method": line.method, **found}


def _table(lines: list[Line], width: int, title: str, longest: int = _LONGEST_NAME) -> Table:
    """Every interval in a line; `width` of the picture (0: none), `longest` name of a policy."""
    found = [line.result for line in lines if line.result is not None]
    low = min((result.value_range.low for result in found), default=0.0)
    high = max((result.value_range.high for result in found), default=1.0)
    table = Table(
        title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold"
    )
    table.add_column("policy", overflow="ellipsis", no_wrap=True, max_width=longest)
    table.add_column("method", no_wrap=True)
    for name in ("low", "estimate", "high"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("guarantee", no_wrap=True)
    ends = f"{low:.3g}", f"{high:.3g}"
    if width:
        table.add_column(ends[0] + " " * max(1, width - len(ends[0]) - len(ends[1])) + ends[1], no_wrap=True)
    for line in lines:
        if line.result is None:
            table.add_row(Text(line.policy), line.method, "", "", "", Text("see below", style="dim"))
            continue
        picture = [bar(line.result, low, high, width)] if width else []
        table.add_row(Text(line.policy), line.method, *_ends(line.result), *_labels(line.result), *picture)
    return table


def _notes(results: list[Result]) -> Iterator[Text]:
    """What a word or a mark of the table means, once, and what states were taken for."""
    if any(result.held == CONDITIONAL for result in results):
        yield Text("conditional: valid if the value function is no rougher than bondic assumes", style="yellow")
    if any(result.estimate_outside for result in results):
        yield Text("○ an estimate outside its interval: it has no guarantee")
    for states in dict.fromkeys(result.choices["states"] for result in results if "states" in result.choices):
        yield Text(f"states: {states}", style="dim")


def _ends(result: Result) -> tuple[str, str, str]:
    """low, estimate, high; a log that contradicts the assumptions gives no interval."""
    low, estimate, high = (f"{value:.4g}" for value in (result.low, result.estimate, result.high))
    return ("-", estimate, "-") if result.status is Status.REJECTED else (low, estimate, high)


def _labels(result: Result) -> tuple[Text, Text]:
    """Status and guarantee in a word each."""
    held = "-" if result.status is Status.REJECTED else result.held
    return (
        Text(result.status.name.lower(), style=_STATUS_COLOURS[result.status]),
        Text(held, style=_COLOURS.get(held, "")),
    )


def _blocks(lines: list[Line], title: str) -> Iterator[Text]:
    """Three short lines per interval, for terminals on which the table would lose its numbers."""
    yield Text(title)
    for line in lines:
        yield Text(f"{line.policy}, {line.method}", style="bold")
        if line.result is None:
            yield Text("  see below", style="dim")
            continue
        low, estimate, high = _ends(line.result)
        yield Text(f"  low {low}  estimate {estimate}  high {high}")
        status, held = _labels(line.result)
        yield Text.assemble("  ", status, ", ", held) if held.plain != "-" else Text.assemble("  ", status)


def bar(result: Result, low: float, high: float, width: int) -> str:
    """The interval on a line of characters, the estimate as a dot; hollow where it lies outside the interval."""
    span = (high - low) or 1.0

    def at(value: float) -> int:
        return min(width - 1, max(0, int((value - low) / span * width)))

    cells = ["·"] * width
    if result.status is not Status.REJECTED:
        cells[at(result.low) : at(result.high) + 1] = "━" * (at(result.high) + 1 - at(result.low))
    cells[at(result.estimate)] = "○" if result.estimate_outside else "●"
    return "".join(cells)


def _save(lines: list[Line], path: Path) -> None:
    named = [(f"{line.policy}, {line.method}", line.result) for line in lines if line.result is not None]
    temporary = path.with_name(f".{path.name}.tmp{path.suffix}")
    try:
        save_plot(comparison_figure(named), temporary)
        write_atomically(path, temporary.read_bytes())
    finally:
        temporary.unlink(missing_ok=True)
