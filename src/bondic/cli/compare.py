"""`bondic compare LOG`: several policies or methods side by side, one table, one picture."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from typing import Any

import click
from rich.console import Console

from bondic.cli.executors import sums_of
from bondic.cli.inputs import Inputs, make_method, make_question, other_question, read_inputs
from bondic.cli.outputs import say_doubts
from bondic.core.claims import unusual_alpha
from bondic.core.errors import InvalidInput
from bondic.decisions.ranking import rank_policies
from bondic.errors import Doubt, ValidityWarning
from bondic.estimate import OWN, estimate_interval
from bondic.extensions import added_methods
from bondic.report.compare import Comparison, Line, joint_title, line_alpha, print_comparison, tried
from bondic.report.exports import result_dict
from bondic.report.plots import save_plot
from bondic.report.progress import progress_bar
from bondic.result import Result


def command(log: str, **options: Any) -> int:
    """Every policy with every method, each line with its guarantee."""
    for path in (options["plot"], options["report"]):
        if path is not None and path.exists() and not options["force"]:
            raise InvalidInput(f"{path} exists already. Choose another name, or pass --force.")
    for key in ("require_below", "state"):
        if options[key] is not None:
            raise InvalidInput(
                f"--with {key}: a comparison decides nothing. `bondic evaluate` has gates, `bondic choose` takes one policy."
            )
    policies = list(dict.fromkeys(options["policies"]))
    every = [*(name for name in OWN if name != "auto"), *added_methods()]
    methods = list(dict.fromkeys(every if "all" in options["methods"] else options["methods"]))
    inputs = read_inputs(log, options)
    if options["against"] is not None:
        return _differences(inputs, policies, methods, options)
    pairs = [(policy, name) for policy in policies for name in methods]
    alpha = line_alpha(options["alpha"], pairs) if options["joint"] else options["alpha"]
    lines: list[Line] = []
    doubts: list[str] = [Doubt(text) for text in (unusual_alpha(alpha),) if text is not None]
    with progress_bar(Console(stderr=True, quiet=options["quiet"])) as progress, sums_of(options) as sums:
        for policy in policies:
            question = make_question(inputs, policy, options)
            doubts += [Doubt(text if len(policies) == 1 else f"{policy}: {text}") for text in question.doubts]
            doubts += question.notes
            for name in methods:
                if progress:
                    progress(f"{policy} {name}"[:40], 0.0)

                def run(name: str = name, question: Any = question) -> Result:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", ValidityWarning)  # said once for all lines
                        method = make_method(name, options, inputs, sums)
                        return estimate_interval(question, alpha=alpha, method=method)

                lines.append(tried(policy, name, run, strict=len(methods) == 1))
    say_doubts(list(dict.fromkeys([*doubts, *inputs.notes])))
    found = Comparison(tuple(_named(lines)), joint_title(alpha, joint=options["joint"]))
    _show(found, lines, options)
    return 0


def _differences(inputs: Inputs, policies: list[str], methods: list[str], options: dict[str, Any]) -> int:
    """How far every policy exceeds one, all differences together."""
    if len(methods) > 1:
        raise InvalidInput("--against compares policies by one method: name one --method, or none.")
    with progress_bar(Console(stderr=True, quiet=options["quiet"])) as progress, sums_of(options) as sums:
        first = make_question(inputs, policies[0], options)
        problems = {policies[0]: first}
        problems |= {name: other_question(first, inputs, name, options, learns=True) for name in policies[1:]}
        named = options["against"]
        against = other_question(first, inputs, named, options).policy
        method = make_method(methods[0], options, inputs, sums)
        ranking = rank_policies(problems, against, alpha=options["alpha"], method=method, progress=progress)
    say_doubts(list(dict.fromkeys([*(Doubt(text) for text in first.doubts), *first.notes])))
    lines = [Line(name, one.method, one) for name, one in ranking.differences.items()]
    found = Comparison(tuple(lines), ranking.headline())
    _show(found, lines, options, f"Gain over {ranking.against}")
    return 0


def _show(found: Comparison, lines: list[Line], options: dict[str, Any], title: str = "Comparison") -> None:
    if options["as_json"]:
        click.echo(json.dumps([_as_dict(line) for line in lines], indent=1))
    else:
        print_comparison(Console(), lines, found.title)
    if options["plot"] is not None:
        save_plot(found.plot(), options["plot"])
    if options["report"] is not None:
        found.report(options["report"], title=title)


def _named(lines: list[Line]) -> list[Line]:
    """Lines that say policy and method where both differ, and otherwise what differs."""
    policies, methods = {line.policy for line in lines}, {line.method for line in lines}
    if len(policies) == 1:
        return [replace(line, policy="") for line in lines]
    return [replace(line, policy=f"{line.policy}, {line.method}") for line in lines] if len(methods) > 1 else lines


def _as_dict(line: Line) -> dict[str, Any]:
    found = {"reason": line.reason} if line.result is None else result_dict(line.result)
    return {"policy": line.policy, "method": line.method, **found}
