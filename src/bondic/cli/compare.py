"""`bondic compare LOG`: several policies or methods side by side, one table, one picture."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from bondic.baselines.registry import BASELINES
from bondic.claims import ErrorBudget
from bondic.cli.inputs import make_method, make_question, read_inputs
from bondic.cli.outputs import print_notes, say_doubts
from bondic.errors import BondicError, Doubt, InvalidInput
from bondic.estimate import Method, estimate_interval
from bondic.proofs.io import write_atomically
from bondic.report.comparison import Line, print_comparison
from bondic.report.exports import result_dict
from bondic.report.plots import comparison_figure, save_plot
from bondic.report.progress import progress_bar


def command(log: str, **options: Any) -> int:
    """Every policy with every method, each line with its guarantee."""
    plot = options["plot"]
    if plot is not None and plot.exists() and not options["force"]:
        raise InvalidInput(f"{plot} exists already. Choose another name, or pass --force.")
    policies = list(dict.fromkeys(options["policies"]))
    methods = list(
        dict.fromkeys(
            ["sequential", "dual", "propensities", *BASELINES] if "all" in options["methods"] else options["methods"]
        )
    )
    inputs = read_inputs(log, options)
    alpha = _alpha(options["alpha"], policies, methods) if options["joint"] else options["alpha"]
    lines: list[Line] = []
    doubts: list[str] = []
    with progress_bar(Console(stderr=True, quiet=options["quiet"])) as progress:
        tell = progress or (lambda *_: None)
        for policy in policies:
            question = make_question(inputs, policy, options)
            doubts += [Doubt(text if len(policies) == 1 else f"{policy}: {text}") for text in question.doubts]
            for name in methods:
                tell(f"{policy} {name}"[:40], 0.0)
                make = partial(make_method, name, options, inputs)
                lines.append(_line(policy, name, question, alpha, make, strict=len(methods) == 1))
                tell(f"{policy} {name}"[:40], 1.0)
    say_doubts(list(dict.fromkeys([*doubts, *inputs.notes])))
    if options["as_json"]:
        click.echo(json.dumps([_as_dict(line, inputs.notes) for line in lines], indent=1))
    else:
        console = Console()
        print_notes(console, inputs.notes if options["verbose"] else ())
        print_comparison(console, lines, _title(alpha, joint=options["joint"]))
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


def _line(policy: str, name: str, question: Any, alpha: float, make: Callable[[], Method], *, strict: bool) -> Line:
    """A method that cannot be used on this log, or lacks its library, says why; alone it is an error."""
    try:
        result = estimate_interval(question, alpha=alpha, method=make())
        return Line(policy, result.method if name == "auto" else name, result)
    except BondicError as problem:
        if strict:
            raise
        return Line(policy, name, None, str(problem))


def _as_dict(line: Line, notes: Sequence[str]) -> dict[str, Any]:
    found = {"reason": line.reason} if line.result is None else result_dict(line.result, notes=notes)
    return {"policy": line.policy, "method": line.method, **found}


def _save(lines: list[Line], path: Path) -> None:
    named = [(f"{line.policy}, {line.method}", line.result) for line in lines if line.result is not None]
    temporary = path.with_name(f".{path.name}.tmp{path.suffix}")
    try:
        save_plot(comparison_figure(named), temporary)
        write_atomically(path, temporary.read_bytes())
    finally:
        temporary.unlink(missing_ok=True)
