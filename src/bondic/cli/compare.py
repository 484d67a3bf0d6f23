"""`bondic compare LOG`: several policies or methods side by side, one table, one picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bondic.baselines.registry import BASELINES
from bondic.certificate.io import write_atomically
from bondic.cli.inputs import make_method, make_question, read_inputs
from bondic.cli.options import CONFIG, LOG, METHOD, OUTPUT, QUESTION, add_options
from bondic.cli.outputs import say_doubts
from bondic.concentration.budget import ErrorBudget
from bondic.errors import BondicError, InvalidInput
from bondic.estimate import estimate_interval
from bondic.report.exports import result_dict, split_notes
from bondic.report.plots import comparison_figure, save_plot
from bondic.report.progress import progress_bar
from bondic.result import Result

_WIDEST, _NARROWEST = 40, 12
_COLOURS = {"finite-sample": "green", "asymptotic": "yellow", "none": "red"}


@dataclass(frozen=True)
class Line:
    """One interval of the comparison, or why there is none."""

    policy: str
    method: str
    result: Result | None
    reason: str = ""


_MORE: list[Any] = [
    click.option("--policy", "policies", multiple=True, required=True, metavar="SPEC", help="May be repeated."),
    click.option(
        "--method", "methods", multiple=True, default=["dual"], show_default=True, help="May be repeated; 'all'."
    ),
    click.option(
        "--joint", is_flag=True, help="Divide alpha over all lines (policies times methods), so that all hold at once."
    ),
    click.option("--plot", type=click.Path(path_type=Path), help="Write a picture (.png, .svg or .pdf)."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else."),
    click.option("--memory", metavar="SIZE", help="Read the log in batches within this budget, e.g. 2GB (Parquet)."),
]


@click.command("compare", short_help="Several policies or methods side by side.")
@click.argument("log")
@add_options(CONFIG, _MORE, QUESTION, METHOD, LOG, OUTPUT)
def command(log: str, **options: Any) -> int:
    """Evaluate every policy with every method on LOG. Each interval carries its guarantee.

    Without --joint each interval holds at 1 - alpha on its own: whoever picks among several lines afterwards, policies
    or methods, needs --joint.
    """
    plot = options["plot"]
    if plot is not None and plot.exists() and not options["force"]:
        raise InvalidInput(f"{plot} exists already. Choose another name, or pass --force.")
    policies = list(dict.fromkeys(options["policies"]))
    methods = list(dict.fromkeys(["dual", *BASELINES] if "all" in options["methods"] else options["methods"]))
    inputs = read_inputs(log, options)
    alpha = _alpha(options["alpha"], policies, methods) if options["joint"] else options["alpha"]
    lines: list[Line] = []
    with progress_bar(Console(stderr=True, quiet=options["quiet"])) as progress:
        for policy in policies:
            question = make_question(inputs, policy, options)
            for name in methods:
                if progress is not None:
                    progress(f"{policy} {name}"[:40], 0.0)
                lines.append(_line(policy, name, question, alpha, options, strict=len(methods) == 1))
                if progress is not None:
                    progress(f"{policy} {name}"[:40], 1.0)
    say_doubts(inputs.notes)
    if options["as_json"]:
        click.echo(json.dumps([_as_dict(line, inputs.notes) for line in lines], indent=1))
    else:
        console = Console()
        for note in split_notes(inputs.notes)[1] if options["verbose"] else ():
            console.print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)
        # names, three numbers and the label need some seventy characters; the picture gets what is left, if it is enough
        width = min(_WIDEST, console.width - 72)
        console.print(_table(lines, width if width >= _NARROWEST else 0, _title(alpha, joint=options["joint"])))
        for line in lines:
            if line.result is None:
                console.print(Text(f"{line.method}: {line.reason}", style="dim"), soft_wrap=True)
    if plot is not None:
        _save(lines, plot)
    return 0


def _alpha(alpha: float, policies: list[str], methods: list[str]) -> float:
    """The share of one line: a reader may pick the policy *and* the method after seeing them all."""
    budget = ErrorBudget.split(alpha, {f"{policy} {method}": 1.0 for policy in policies for method in methods})
    return min(budget.parts.values())


def _title(alpha: float, *, joint: bool) -> str:
    if joint:
        return f"All finite-sample lines hold at once (alpha = {alpha:.3g} each)"
    return f"Each interval on its own (alpha = {alpha:.3g})"


def _line(policy: str, name: str, question: Any, alpha: float, options: dict[str, Any], *, strict: bool) -> Line:
    """A method that cannot be used on this log, or lacks its library, says why; alone it is an error."""
    try:
        return Line(policy, name, estimate_interval(question, alpha=alpha, method=make_method(name, options)))
    except BondicError as problem:
        if strict:
            raise
        return Line(policy, name, None, str(problem))


def _as_dict(line: Line, notes: Sequence[str]) -> dict[str, Any]:
    found = {"reason": line.reason} if line.result is None else result_dict(line.result, notes=notes)
    return {"policy": line.policy, "method": line.method, **found}


def _table(lines: list[Line], width: int, title: str) -> Table:
    found = [line.result for line in lines if line.result is not None]
    low = min((result.value_range.low for result in found), default=0.0)
    high = max((result.value_range.high for result in found), default=1.0)
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("policy", overflow="ellipsis", no_wrap=True, min_width=8, max_width=24)
    table.add_column("method", no_wrap=True)
    for name in ("low", "estimate", "high"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("guarantee", no_wrap=True)
    ends = f"{low:.3g}", f"{high:.3g}"
    if width:
        table.add_column(ends[0] + " " * max(1, width - len(ends[0]) - len(ends[1])) + ends[1], no_wrap=True)
    for line in lines:
        if line.result is None:
            table.add_row(Text(line.policy), line.method, "", "", "", Text("see below", style="dim"))
            continue
        found_ends = [f"{value:.4g}" for value in (line.result.low, line.result.estimate, line.result.high)]
        label = Text(line.result.guarantee, style=_COLOURS[line.result.guarantee])
        picture = [bar(line.result, low, high, width)] if width else []
        table.add_row(Text(line.policy), line.method, *found_ends, label, *picture)
    return table


def bar(result: Result, low: float, high: float, width: int) -> str:
    """The interval on a line of characters, the estimate as a dot."""
    span = (high - low) or 1.0

    def at(value: float) -> int:
        return min(width - 1, max(0, int((value - low) / span * width)))

    cells = ["·"] * width
    for place in range(at(result.low), at(result.high) + 1):
        cells[place] = "━"
    cells[at(result.estimate)] = "●"
    return "".join(cells)


def _save(lines: list[Line], path: Path) -> None:
    named = [(f"{line.policy}, {line.method}", line.result) for line in lines if line.result is not None]
    temporary = path.with_name(f".{path.name}.tmp{path.suffix}")
    try:
        save_plot(comparison_figure(named), temporary)
        write_atomically(path, temporary.read_bytes())
    finally:
        temporary.unlink(missing_ok=True)
