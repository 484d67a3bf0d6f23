"""A result as files: the page alone, or the folder of everything that belongs to it."""

from __future__ import annotations

import os
from pathlib import Path

from bondic.advice.levers import with_next_steps
from bondic.core.errors import InvalidInput
from bondic.folders import result_folder, write_texts
from bondic.report.exports import as_json, result_dict
from bondic.report.page import report_page
from bondic.result import Result
from bondic.rows import Rows
from bondic.saving import save_certificate, write_atomically


def write_report(result: Result, path: str | os.PathLike[str], *, title: str = "Policy evaluation") -> Path:
    """Write the report of a result to `path`, as a whole; returns the path."""
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        raise InvalidInput(
            f"{target} cannot be written: a file in a folder that exists is needed, such as report.html."
        )
    write_atomically(target, report_page(result, _question(result), title=title).encode())
    return target


def save_result(
    result: Result,
    folder: str | os.PathLike[str],
    *,
    title: str = "Policy evaluation",
    overwrite: bool = False,
    no_rows: bool = False,
) -> Path:
    """Write result.json, the report, and the certificate where the method leaves a proof; returns the folder.

    The folder appears when it is complete. `overwrite` replaces an earlier result as a whole, `no_rows` keeps every single
    row out of report and certificate.
    """
    target = Path(folder)
    question = _question(result)
    with result_folder(target, overwrite=overwrite) as working:
        told = with_next_steps(result, question, no_rows=no_rows)
        kept = told.without_rows(question) if no_rows else told
        write_result(working, kept, question, title=title, no_rows=no_rows)
    return target


def write_result(
    folder: Path, result: Result, question: Rows, *, title: str, no_rows: bool = False, command: str = "", run: str = ""
) -> None:
    """The files that every result has, into a folder that is moved into its place as a whole.

    `run` is the command behind the result, `command` the one that checks it, where there are such commands.
    """
    if result.certificate is not None:
        save_certificate(result.certificate, folder / "certificate")
    page = report_page(result, question, title=title, no_rows=no_rows, command=command)
    plain = result_dict(result, reading=question.reading, command=run)
    write_texts(folder, {"result.json": as_json(plain), "report.html": page})


def _question(result: Result) -> Rows:
    if result.question is None:
        raise InvalidInput(
            "This result no longer holds its question (its rows were withheld, or it was put together by hand). Make the page "
            "with report_page(result, problem, title=...), and the certificate with save_certificate(result.certificate, path)."
        )
    return result.question
