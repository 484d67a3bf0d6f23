"""`bondic evaluate LOG`: from a log file to an interval, a certificate and a page."""

from __future__ import annotations

import resource
import sys
import time
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from bondic.advice.levers import with_next_steps
from bondic.cli.executors import not_elsewhere, sums_of
from bondic.cli.inputs import make_method, make_question, read_inputs
from bondic.cli.outputs import EXIT_CODES, NOT_MET, print_notes, say_doubts, this_command, verify_command
from bondic.errors import Doubt, ValidityWarning
from bondic.estimate import estimate_interval
from bondic.folders import refuse_existing, result_folder, write_texts
from bondic.methods.effort import effort_words
from bondic.report.exports import result_csv, write_result
from bondic.report.pens import result_markdown, result_table
from bondic.report.plots import save_plot, terms_figure
from bondic.report.progress import progress_bar
from bondic.result import Result
from bondic.rows import Rows


def command(**options: Any) -> int:
    """Estimate, write, print; the exit code tells the status."""
    begun = time.perf_counter()
    refuse_existing(options["out"], overwrite=options["force"])
    talk = Console(stderr=True, quiet=options["quiet"])
    with sums_of(options) as sums, progress_bar(talk) as progress:
        inputs = read_inputs(options["log"], options, progress and partial(progress, "reading"))
        question = make_question(inputs, options["policy"], options)
        method = make_method(options["method"], options, inputs, sums)
        if options["method"] == "auto" and (words := effort_words(question, method.choices, method.radius)):
            talk.print(words, highlight=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ValidityWarning)  # the result carries them to the top of the answer
            result = estimate_interval(question, alpha=options["alpha"], method=method, progress=progress)
        not_elsewhere(options, result.method)
        if progress:
            progress("report", 0.0)
        result = with_next_steps(result, question, no_rows=options["no_rows"])
        if options["no_rows"]:
            result = result.without_rows(question)
        files = _write(question, result, options)
    _print(result, question.notes, options)
    talk.print(_footer(files, options["out"], time.perf_counter() - begun), highlight=False, soft_wrap=True)
    return _code(result, options)


def _code(result: Result, options: dict[str, Any]) -> int:
    """The status, and then what was required: said on standard error, whatever else is asked for."""
    required = {"above": options["require_above"], "below": options["require_below"]}
    asked = any(bound is not None for bound in required.values())
    if asked and (reasons := result.unmet(**required)):
        click.echo(f"requirement not met: {'; '.join(reasons)}", err=True)
        return EXIT_CODES[result.status] or NOT_MET
    for words in result.breaks(**required) if asked else ():
        click.echo(words, err=True)
    return EXIT_CODES[result.status]


def _write(question: Rows, result: Result, options: dict[str, Any]) -> list[str]:
    """Everything that belongs to the result, in one folder."""
    command = "" if result.certificate is None else verify_command(options, result.certificate)
    title = f"{options['policy']} on {Path(options['log']).name}"
    shown = {"title": title, "no_rows": options["no_rows"], "command": command, "run": this_command()}
    with result_folder(options["out"], overwrite=options["force"]) as folder:
        write_result(folder, result, question, **shown)
        for form in options["also"]:
            if form == "csv":
                write_texts(folder, {"result.csv": result_csv(result)})
            elif form == "markdown":
                write_texts(folder, {"summary.md": result_markdown(result, title)})
            else:
                save_plot(terms_figure(result), folder / f"terms.{form}")
        return sorted(item.name for item in folder.iterdir())


def _print(result: Result, notes: Sequence[str], options: dict[str, Any]) -> None:
    say_doubts((*(Doubt(text) for text in result.warnings), *notes))
    if options["as_json"] or options["quiet"]:
        written = options["out"] / "result.json"
        click.echo(written.read_text(encoding="utf-8") if options["as_json"] else result.summary())
        return
    console = Console()
    print_notes(console, notes)
    console.print(result_table(result))


def _footer(files: list[str], out: Path, seconds: float) -> str:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    written = "\n".join(f"wrote {out / name}" for name in files)
    return f"{written}\n{seconds:.1f} s, peak memory {peak / 1e9:.2f} GB"
