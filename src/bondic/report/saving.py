"""A result as files: the page alone, or the folder of everything that belongs to it."""

from __future__ import annotations

import os
from pathlib import Path

from bondic.advice.steps import with_next_steps
from bondic.errors import InvalidInput
from bondic.folders import result_folder, write_texts
from bondic.methods.frontier import Frontier
from bondic.proofs.io import save_certificate, write_atomically
from bondic.report.configuration import CONFIGURATION, reading_toml
from bondic.report.exports import result_json
from bondic.report.page import report_page
from bondic.result import Result
from bondic.rows import Rows


def write_report(result: Result, path: str | os.PathLike[str], *, title: str = "Policy evaluation") -> Path:
    """Write the report of a result to `path`, as a whole; returns the path."""
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        raise InvalidInput(
            f"{target} cannot be written: a file in a folder that exists is needed, such as report.html."
        )
    write_atomically(target, _page(result, _question(result), title).encode())
    return target


def save_result(
    result: Result,
    folder: str | os.PathLike[str],
    *,
    title: str = "Policy evaluation",
    overwrite: bool = False,
    no_rows: bool = False,
) -> Path:
    """Write result.json, the report, the certificate where the method leaves a proof, and what was stated about reading the
    log (columns=, ...), so that `bondic verify` reads it in the same way; returns the folder.

    The folder appears when it is complete. `overwrite` replaces an earlier result as a whole, `no_rows` keeps every single
    row out of report and certificate.
    """
    target = Path(folder)
    question = _question(result)
    with result_folder(target, overwrite=overwrite) as working:
        told = with_next_steps(result, question, no_rows=no_rows)
        kept = told.without_rows(question) if no_rows else told
        write_result(working, kept, question, title=title, no_rows=no_rows)
        if question.reading:
            write_texts(working, {CONFIGURATION: reading_toml(question.reading)})
    return target


def write_result(
    folder: Path,
    result: Result,
    question: Rows,
    *,
    title: str,
    sensitivity: Frontier | None = None,
    no_rows: bool = False,
    command: str = "",
) -> None:
    """The files that every result has, into a folder that is moved into its place as a whole."""
    texts = {"result.json": result_json(result)}
    if result.certificate is not None:
        save_certificate(result.certificate, folder / "certificate")
    texts["report.html"] = _page(result, question, title, sensitivity, no_rows=no_rows, command=command)
    write_texts(folder, texts)


def _page(
    result: Result,
    question: Rows,
    title: str,
    sensitivity: Frontier | None = None,
    *,
    no_rows: bool = False,
    command: str = "",
) -> str:
    return report_page(
        result,
        question,
        title=title,
        sensitivity=sensitivity,
        no_rows=no_rows,
        log=question.log,
        columns=question.names,
        notes=result.notes,
        command=command,
    )


def _question(result: Result) -> Rows:
    if result.question is None:
        raise InvalidInput(
            "This result no longer holds its question (its rows were withheld, or it was put together by hand). Make the page "
            "with report_page(result, problem, title=...), and the certificate with save_certificate(result.certificate, path)."
        )
    return result.question
