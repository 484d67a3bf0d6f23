"""`bondic compare LOG`: several policies or methods side by side, one table, one picture."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bondic.cli.executors import sums_of
from bondic.cli.inputs import Inputs, make_method, make_question, other_question, read_inputs
from bondic.cli.outputs import print_validity_notes
from bondic.cli.say import say
from bondic.cli.terminal import PlainConsole, Terminal
from bondic.core.claims import unusual_alpha
from bondic.core.errors import InvalidInput
from bondic.decisions.difference import RETURNS, today_value
from bondic.decisions.ranking import rank_policies
from bondic.errors import ValidityNote, ValidityWarning
from bondic.estimate import OWN, estimate_interval
from bondic.extensions import added_methods
from bondic.report.compare import Comparison, Line, by_low, joint_title, line_alpha, print_comparison, tried
from bondic.report.exports import result_dict
from bondic.report.plots import save_plot
from bondic.report.progress import progress_bar
from bondic.result import Result
from bondic.rows.inputs import TODAY


def command(log: str, **options: Any) -> int:
    """Every policy with every method, each line with its guarantee."""
    for path in (options["plot"], options["report"]):
        if path is not None and path.exists() and not options["force"]:
            raise InvalidInput(f"{path} exists already. Choose another name, or pass --force.")
    for key in ("require_below", "state"):
        if options[key] is not None:
            raise InvalidInput(
                f"--with {key}: a comparison makes no decision. `bondic evaluate` has gates, `bondic choose` picks one policy."
            )
    policies = list(dict.fromkeys(options["policies"]))
    every = [*(name for name in OWN if name != "auto"), *added_methods()]
    methods = list(dict.fromkeys(every if "all" in options["methods"] else options["methods"]))
    inputs = read_inputs(log, options)
    if options["against"] is not None:
        return _differences(inputs, policies, methods, options, log)
    pairs = [(policy, name) for policy in policies for name in methods]
    alpha = line_alpha(options["alpha"], pairs) if options["joint"] else options["alpha"]
    lines: list[Line] = []
    validity_notes: list[str] = [ValidityNote(text) for text in (unusual_alpha(alpha),) if text is not None]
    with progress_bar(PlainConsole(stderr=True, quiet=options["quiet"])) as progress, sums_of(options) as sums:
        for policy in policies:
            question = make_question(inputs, policy, options)
            validity_notes += [
                ValidityNote(text if len(policies) == 1 else f"{policy}: {text}") for text in question.validity_notes
            ]
            validity_notes += question.notes
            for name in methods:
                if progress:
                    progress(f"{policy} {name}"[:40], 0.0)

                def run(name: str = name, question: Any = question) -> Result:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", ValidityWarning)  # said once for all lines
                        method = make_method(name, options, inputs, sums)
                        return estimate_interval(question, alpha=alpha, method=method)

                lines.append(tried(policy, name, run, strict=len(methods) == 1))
    print_validity_notes(list(dict.fromkeys([*validity_notes, *inputs.notes])))
    table, title = _short(lines), joint_title(alpha, joint=options["joint"])
    if len(policies) > 1 and len(methods) == 1:
        method = make_method(methods[0], options, inputs)
        today = None if options["joint"] else today_value(question, alpha, method)
        table = by_low([*table, *([] if today is None else [Line(TODAY, RETURNS, today)])])
        title += "" if today is None else ". Which are better than today? --against today compares all of them at once"
    _show(Comparison(tuple(_named(table)), title), lines, options, log, table)
    return 0


def _differences(inputs: Inputs, policies: list[str], methods: list[str], options: dict[str, Any], log: str) -> int:
    """How far every policy exceeds one, all differences together."""
    if len(methods) > 1:
        raise InvalidInput("--against compares policies by one method: name one --method, or none.")
    with progress_bar(PlainConsole(stderr=True, quiet=options["quiet"])) as progress, sums_of(options) as sums:
        first = make_question(inputs, policies[0], options)
        problems = {policies[0]: first}
        problems |= {name: other_question(first, inputs, name, options, learns=True) for name in policies[1:]}
        named = options["against"]
        against = other_question(first, inputs, named, options).policy
        method = make_method(methods[0], options, inputs, sums)
        short = short_names([*policies, named])
        problems = {short[name]: problem for name, problem in problems.items()}
        level = {"alpha": options["alpha"], "method": method, "progress": progress}
        ranking = rank_policies(problems, against, named=short[named], **level)
    print_validity_notes(list(dict.fromkeys([*(ValidityNote(text) for text in first.validity_notes), *first.notes])))
    lines = [Line(name, one.method, one) for name, one in ranking.differences.items()]
    written = {short[policy]: policy for policy in policies}
    full = [replace(line, policy=written[line.policy]) for line in lines]
    _show(Comparison(tuple(lines), ranking.headline()), full, options, log, lines)
    return 0


def short_names(specs: Sequence[str]) -> dict[str, str]:
    """What policies are called in tables: rules.py:late is late, unless another one is called so as well."""
    short = {spec: spec.rpartition(":")[2] for spec in specs}
    return {spec: name if list(short.values()).count(name) == 1 else spec for spec, name in short.items()}


def _show(comparison: Comparison, lines: list[Line], options: dict[str, Any], log: str, table: Sequence[Line]) -> None:
    """The table, or JSON with the policies as they were written; --quiet: the answer, where there is one."""
    if options["as_json"]:
        say(json.dumps([_as_dict(line) for line in lines], indent=1))
    elif options["quiet"] and options["against"] is not None:
        say(comparison.title)
    else:
        print_comparison(Terminal(), table, comparison.title)
    if options["plot"] is not None:
        save_plot(comparison.plot(), options["plot"])
    if options["report"] is not None:
        comparison.report(options["report"], title=f"Comparison on {Path(log).name}")


def _short(lines: list[Line]) -> list[Line]:
    short = short_names(list(dict.fromkeys(line.policy for line in lines)))
    return [replace(line, policy=short[line.policy]) for line in lines]


def _named(lines: list[Line]) -> list[Line]:
    """Lines that say policy and method where both differ, and otherwise what differs."""
    policies, methods = {line.policy for line in lines}, {line.method for line in lines if line.policy != TODAY}
    if len(policies) == 1:
        return [replace(line, policy="") for line in lines]
    return [replace(line, policy=f"{line.policy}, {line.method}") for line in lines] if len(methods) > 1 else lines


def _as_dict(line: Line) -> dict[str, Any]:
    found = {"reason": line.reason} if line.result is None else result_dict(line.result)
    return {"policy": line.policy, "method": line.method, **found}
