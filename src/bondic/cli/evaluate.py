"""`bondic evaluate LOG`: from a log file to an interval, a certificate and a page."""

from __future__ import annotations

import math
import resource
import sys
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bondic.advice.levers import with_next_steps
from bondic.cli.executors import not_elsewhere, sums_of
from bondic.cli.inputs import make_method, make_question, other_question, read_inputs
from bondic.cli.outputs import (
    EXIT_CODES,
    GATE_CODES,
    print_notes,
    print_validity_notes,
    this_command,
    verify_command,
)
from bondic.cli.say import say
from bondic.cli.terminal import PlainConsole, Terminal
from bondic.core.claims import Status
from bondic.core.errors import InvalidInput
from bondic.decisions.difference import difference_interval, is_today, policy_names, with_today, with_values
from bondic.decisions.gate import Gate, gate
from bondic.decisions.looks import complete_episodes
from bondic.decisions.subgroups import with_subgroups
from bondic.errors import TooFewRows, ValidityNote, ValidityWarning, command_words
from bondic.estimate import estimate_interval
from bondic.folders import refuse_existing, result_folder, write_texts
from bondic.methods.effort import effort_words, outlook_words
from bondic.methods.propensities import NAME as PROPENSITIES
from bondic.report.exports import result_csv, write_result
from bondic.report.pens import result_markdown, result_table
from bondic.report.plots import save_plot
from bondic.report.progress import progress_bar
from bondic.result import Result
from bondic.rows import Rows
from bondic.rows.subgroups import labels_of


def command(**options: Any) -> int:
    """Estimate, write, print; the exit code tells the status."""
    begun = time.perf_counter()
    refuse_existing(options["out"], overwrite=options["force"])
    talk = PlainConsole(stderr=True, quiet=bool(options["quiet"]))
    with sums_of(options) as sums, progress_bar(talk) as progress:
        inputs = read_inputs(options["log"], options, progress and partial(progress, "reading"))
        question, required = make_question(inputs, options["policy"], options), _requirement(options)
        against = options["against"] if required is None or required.better_than is None else required.better_than
        if options["by"] is not None:
            if options["state"] is not None:
                raise InvalidInput(
                    "--by is about one look at a log, and --with state keeps many: leave one of them out."
                )
            labels_of(question, options["by"])  # a slip here need not wait for a long evaluation
        if options["state"] is not None:
            if required is None:
                raise InvalidInput(
                    "--with state keeps the looks of a gate (--require-above, --require-better-than) at a log that grows. For "
                    "intervals of such a log: bondic monitor."
                )
            with suppress(TooFewRows):  # the gate says so
                question = complete_episodes(question, today=against is not None and is_today(against))
        verdict: Gate | None = None
        method = make_method(options["method"], options, inputs, sums)
        if options["method"] == "auto" and (words := effort_words(question, method.choices, method.radius)):
            talk.print(words, highlight=False)
        if options["method"] in ("auto", PROPENSITIES) and (words := outlook_words(question, options["alpha"])):
            talk.print(words, highlight=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ValidityWarning)  # the result carries them to the top of the answer
            level = {"alpha": options["alpha"], "method": method, "progress": progress}
            other = None if against is None else other_question(question, inputs, against, options)
            if required is not None:
                verdict = gate(question, better_than=other, **required.bounds, **level, state=options["state"])
                result = verdict.result
            elif other is None:
                result = with_today(estimate_interval(question, **level), question, method, progress)
            else:
                result = difference_interval(question, other, **level).with_question(question)
            if other is not None and not (verdict and verdict.waiting):
                named = result.names if is_today(other.policy) else policy_names(options["policy"], against)
                result = replace(with_values(result, question, other, method), names=named)
        if options["by"] is not None:
            result = with_subgroups(result, options["by"], other, sums=sums)
        not_elsewhere(options, result.method)
        if progress:
            progress("report", 0.0)
        result = with_next_steps(result, question, no_rows=options["no_rows"], command=True)
        result = replace(result, warnings=tuple(ValidityNote(command_words(text)) for text in result.warnings))
        if verdict is not None:
            result = result.with_choice("gate", str(verdict))
        if options["no_rows"]:
            result = result.without_rows(question)
        files = _write(question, result, options)
    _print(result, question.notes, options, "" if verdict is None else str(verdict))
    talk.print(_footer(files, options["out"], time.perf_counter() - begun), highlight=False, soft_wrap=True)
    if verdict is None or required is None:
        return EXIT_CODES[Status.TRIVIAL if result.says_nothing_of_new else result.status]
    for words in result.breaks(**required.bounds):
        say(words, err=True)
    return EXIT_CODES[result.status] if result.status is Status.REJECTED else GATE_CODES[verdict.verdict]


@dataclass(frozen=True)
class _Requirement:
    """The requirement of a gate."""

    bound: float
    upward: bool
    better_than: str | None = None

    @property
    def bounds(self) -> dict[str, Any]:
        return {"above" if self.upward else "below": self.bound}


def _requirement(options: dict[str, Any]) -> _Requirement | None:
    """The gate of --require-above and its kin; refused where they contradict each other."""
    given, below = options["require"], options["require_below"]
    if not given and below is None:
        return None
    numbers, policies = ([one for one in given if _is_number(one) is kind] for kind in (True, False))
    if len(numbers) + (below is not None) > 1 or len(policies) > 1:
        raise InvalidInput(
            "A gate has one requirement: one number (--require-above, --with require_below), and at most one policy that the "
            "gain is counted from (--require-better-than)."
        )
    policy = policies[0] if policies else None
    if policy is not None and options["against"] not in (None, policy):
        raise InvalidInput(f"--against {options['against']} and a gate on {policy}: name one policy.")
    if below is not None:
        return _Requirement(float(below), upward=False, better_than=policy)
    return _Requirement(float(numbers[0]) if numbers else 0.0, upward=True, better_than=policy)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _write(question: Rows, result: Result, options: dict[str, Any]) -> list[str]:
    """Everything that belongs to the result, in one folder."""
    command = "" if result.certificate is None else verify_command(options, result.certificate)
    against = options["against"] or next((one for one in options["require"] if not _is_number(one)), None)
    title = f"{options['policy']}{f' against {against}' if against else ''} on {Path(options['log']).name}"
    shown = {"title": title, "no_rows": options["no_rows"], "command": command, "run": this_command()}
    with result_folder(options["out"], overwrite=options["force"]) as folder:
        write_result(folder, result, question, **shown)
        for form in options["also"]:
            if form == "csv":
                write_texts(folder, {"result.csv": result_csv(result)})
            elif form == "markdown":
                write_texts(folder, {"summary.md": result_markdown(result, title)})
            else:
                save_plot(result.plot(), folder / f"terms.{form}")
        return sorted(item.name for item in folder.iterdir())


def _print(result: Result, notes: Sequence[str], options: dict[str, Any], verdict: str) -> None:
    brief = options["as_json"] or options["quiet"]
    seen = not brief and sys.stdout.isatty()  # above the answer, on the same screen
    print_validity_notes([ValidityNote(text) for text in result.warnings if not seen])
    if verdict and brief:
        say(verdict, err=options["as_json"])
        if not options["as_json"]:
            return
    if brief:
        written = options["out"] / "result.json"
        say(written.read_text(encoding="utf-8") if options["as_json"] else str(result))
        return
    console, verbose = Terminal(), options["quiet"] is False
    console.print(result_table(result, verbose=verbose, width=console.width))
    if verbose:
        print_notes(console, notes)
    else:
        console.print(
            f"More: {options['out'] / 'report.html'}, or --verbose.", style="dim", highlight=False, soft_wrap=True
        )


def _footer(files: list[str], out: Path, seconds: float) -> str:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    written = "\n".join(f"wrote {out / name}" for name in files)
    return f"{written}\n{seconds:.1f} s, peak memory {peak / 1e9:.2f} GB"
