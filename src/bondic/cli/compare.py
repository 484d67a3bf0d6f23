"""`bondic compare LOG`: several policies or methods side by side, one table, one picture."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from bondic.cli.inputs import Inputs, make_method, make_question, read_inputs
from bondic.cli.outputs import say_doubts
from bondic.core.certificate.io import write_atomically
from bondic.core.claims import unusual_alpha
from bondic.core.errors import Doubt, InvalidInput, ValidityWarning
from bondic.estimate import estimate_interval
from bondic.extensions import added_methods
from bondic.report.compare import joint_title, line_alpha, tried
from bondic.report.comparison import Line, comparison_page, print_comparison
from bondic.report.exports import result_dict
from bondic.report.plots import comparison_figure, save_plot
from bondic.report.progress import progress_bar
from bondic.result import Result
from bondic.rows import Rows


def command(log: str, **options: Any) -> int:
    """Every policy with every method, each line with its guarantee."""
    plot, page = options["plot"], options["report"]
    for path in (plot, page):
        if path is not None and path.exists() and not options["force"]:
            raise InvalidInput(f"{path} exists already. Choose another name, or pass --force.")
    policies = list(dict.fromkeys(options["policies"]))
    every = ["table", "groups", "sequential", "dual", "propensities", *added_methods()]
    methods = list(dict.fromkeys(every if "all" in options["methods"] else options["methods"]))
    inputs = read_inputs(log, options)
    pairs = [(policy, name) for policy in policies for name in methods]
    alpha = line_alpha(options["alpha"], pairs) if options["joint"] else options["alpha"]
    lines: list[Line] = []
    doubts: list[str] = [Doubt(text) for text in (unusual_alpha(alpha),) if text is not None]
    notes = list(inputs.notes)
    with progress_bar(Console(stderr=True, quiet=options["quiet"])) as progress:
        tell = progress or (lambda *_: None)
        for policy in policies:
            question = make_question(inputs, policy, options)
            doubts += [Doubt(text if len(policies) == 1 else f"{policy}: {text}") for text in question.doubts]
            notes = list(dict.fromkeys([*notes, *question.notes]))
            for name in methods:
                tell(f"{policy} {name}"[:40], 0.0)
                run = partial(_run, question, alpha, name, options, inputs)
                lines.append(tried(policy, name, run, strict=len(methods) == 1))
                tell(f"{policy} {name}"[:40], 1.0)
    say_doubts(list(dict.fromkeys([*doubts, *notes])))
    if options["as_json"]:
        click.echo(json.dumps([_as_dict(line) for line in lines], indent=1))
    else:
        console = Console()
        print_comparison(console, lines, joint_title(alpha, joint=options["joint"]))
    if plot is not None:
        _save(lines, plot)
    if page is not None:
        promise = joint_title(alpha, joint=options["joint"])
        write_atomically(page, comparison_page(_named(lines), promise, title="Comparison").encode())
    return 0


def _run(question: Rows, alpha: float, name: str, options: dict[str, Any], inputs: Inputs) -> Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)  # said once for all lines
        return estimate_interval(question, alpha=alpha, method=make_method(name, options, inputs))


def _named(lines: list[Line]) -> list[Line]:
    """Lines that say policy and method where both differ, and otherwise what differs."""
    policies, methods = {line.policy for line in lines}, {line.method for line in lines}
    if len(policies) == 1:
        return [replace(line, policy="") for line in lines]
    return [replace(line, policy=f"{line.policy}, {line.method}") for line in lines] if len(methods) > 1 else lines


def _as_dict(line: Line) -> dict[str, Any]:
    found = {"reason": line.reason} if line.result is None else result_dict(line.result)
    return {"policy": line.policy, "method": line.method, **found}


def _save(lines: list[Line], path: Path) -> None:
    named = [(f"{line.policy}, {line.method}", line.result) for line in lines if line.result is not None]
    temporary = path.with_name(f".{path.name}.tmp{path.suffix}")
    try:
        save_plot(comparison_figure(named), temporary)
        write_atomically(path, temporary.read_bytes())
    finally:
        temporary.unlink(missing_ok=True)
