"""A result as one self-contained page for whoever decides: opens offline, follows light and dark, prints."""

from __future__ import annotations

from collections.abc import Sequence

from bondic.advice.levers import next_steps
from bondic.core.errors import InvalidInput
from bondic.data.log import Log
from bondic.report import sections
from bondic.report.allowance import allowance_data, allowance_section
from bondic.report.exports import split_notes
from bondic.report.health import examine
from bondic.report.html import document
from bondic.report.logged_value import logged_value
from bondic.result import Result
from bondic.rows import Rows


def report_page(
    result: Result,
    problem: Rows,
    *,
    title: str,
    no_rows: bool = False,
    log: Log | None = None,
    notes: Sequence[str] = (),
    command: str = "",
) -> str:
    """The whole report as HTML text.

    `problem` is the question that `result` answers; `log` adds episodes, ends and copies to the data health (a streamed
    problem knows its log). `no_rows` keeps every single row out: thin cells are left out, no row is listed. `notes` are
    those of `read_log`: what touches validity is shown first. `command` is what a reader types to check the number, if there
    is such a command. A method without a proof, such as a baseline, has nothing to verify.
    """
    if problem.log_hash != result.hashes["log"]:
        raise InvalidInput("The result belongs to another log than the problem (content hashes differ).")
    doubts, others = split_notes(notes)
    steps = result.steps or next_steps(result, problem, no_rows=no_rows)
    body = [
        sections.answer(result, doubts, logged_value(problem, result.alpha)),
        allowance_section(result),
        sections.next_steps([step for step in steps if step.kind != "allowance"]),  # that one is said with the curve
        sections.contributions(result),
        sections.assumptions(result),
        sections.data_health(examine(problem.select(*result.rows), log, no_rows=no_rows), no_rows, doubts, others),
        sections.verification(result, command),
        sections.glossary(groups=result.curve is not None, radius=result.robustness is not None),
    ]
    return document(title, "".join(body), allowance_data(result))
