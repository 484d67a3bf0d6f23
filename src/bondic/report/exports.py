"""A result as plain data, JSON and CSV (one row), and as files: the page, or the folder of all that belongs to it.

JSON, format "bondic result 1": `low`, `high` (null after a rejection: there is no interval), `estimate` (null where the rows
decide none; choices.estimate says where it comes from), `alpha`, `side`,
`method`, `guarantee`, `status` (INTERVAL, TRIVIAL or REJECTED), `summary`, `headline`; `comparison` with another policy, or
with today's where the log says it cheaply (low, high, estimate, alpha, side, method, assumptions; `values` [{name, low,
high}] of both), or null:
each of its intervals holds by itself, and no certificate is written for that with today's; `value_range` [low, high];
`terms` per end ("lower", "upper"): the value that it starts from, then upper bounds of what is added or subtracted, and the
end point; `details` per end: numbers behind the terms;
`gap` per end (null when not searched); `rejection` (rejected, p_value, loss_floor, epsilon, minimal_radius); `rows` [first,
one after the last]; `budget` event -> probability; `assumptions` [{name, state, text}], state "stated" (by the user),
"chosen" (by a baseline), "checked" or "rejected"; `chosen`: those that the library made, the interval is valid if they
hold; `robustness` (radius, same_up_to, informative_up_to: multiples of the radius; breakdown_radius; null inside: without
limit) or null; `curve` (what every allowance would give: `line` [{averages, single, low, high, status}] with both numbers
alike, `marks` [{name, value, text, certified}], `groups` in words, `model`, `allowance` [averages, single] as stated or null,
`stated` "before the curve" or "after the curve") or null; `subgroups` (`by`, `unit`, `lines` [{subgroup, low, high,
estimate, status, and the count of `unit`}], which hold together) or null; `estimate_in_interval`;
`choices`, `seeds`, `versions`, `hashes`; `effective_sample_size`; `seconds`;
`warnings` [text]: all that touches validity, warnings about log and policy first; `notes` [text] on how
the log was read; `next_steps` [{kind, text, basis, loud, numbers}]: advice; `reading` argument -> value: what was stated
about reading the log, as arguments of `read_log` (`verify FOLDER LOG` reads it in the same way); `command`: what was
typed, null for a result made in Python. Numbers that are not finite are null.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from bondic.advice.levers import with_next_steps
from bondic.core.claims import Status
from bondic.core.errors import InvalidInput
from bondic.curve import curve_dict
from bondic.folders import RESULT_FORMAT, result_folder, write_texts
from bondic.report.page import report_page
from bondic.result import Result
from bondic.rows import Rows
from bondic.saving import save_certificate, write_atomically

CSV_COLUMNS = (
    "low", "high", "estimate", "alpha", "side", "method", "guarantee", "status", "range_low", "range_high", "first_row",
    "last_row", "effective_sample_size", "p_value", "minimal_radius", "log_hash", "certificate_hash", "bondic", "chosen",
    "same_up_to", "breakdown_radius", "allowance", "allowance_single",
)  # fmt: skip


def result_dict(result: Result, *, reading: Mapping[str, Any] | None = None, command: str = "") -> dict[str, Any]:
    """Plain data with the fields listed above; `reading` is that of the result's question, unless it is given."""
    plain = {
        "format": RESULT_FORMAT,
        "headline": result.headline(),
        "summary": result.summary(),
        "comparison": _comparison(result),
        **_ends(result),
        **{name: getattr(result, name) for name in ("estimate", "alpha", "side", "method", "guarantee")},
        "status": result.status.name,
        "value_range": [result.value_range.low, result.value_range.high],
        "terms": result.terms(),
        "details": {
            claim.end: {part.name: part.shown for part in claim.of("detail")}
            for claim in result.claims
            if claim.of("detail")
        },
        "gap": dict(zip(("lower", "upper"), result.gap, strict=True)),
        "rejection": None if result.rejection is None else asdict(result.rejection),
        "rows": result.rows,
        "budget": result.budget.parts,
        "assumptions": [asdict(item) for item in result.assumptions],
        "chosen": [asdict(item) for item in result.chosen],
        "robustness": None if result.robustness is None else result.robustness.to_dict(),
        "curve": _curve(result),
        "subgroups": _subgroups(result),
        "estimate_in_interval": not result.estimate_outside,
        **{name: getattr(result, name) for name in ("choices", "seeds", "versions", "hashes", "seconds")},
        "effective_sample_size": result.effective_sample_size,
        "warnings": list(result.warnings),
        "notes": list(result.notes),
        "next_steps": [step.to_dict() for step in result.steps],
        "reading": _reading(result, reading),
        "command": command or None,
    }
    finite: dict[str, Any] = _strict_json(plain)
    return finite


def _reading(result: Result, stated: Mapping[str, Any] | None) -> dict[str, Any]:
    reading = {} if result.question is None else result.question.reading
    return dict(reading if stated is None else stated)


def _comparison(result: Result) -> dict[str, Any] | None:
    """Two policies and how far the first exceeds the second; each interval at alpha by itself."""
    found = result.comparison
    if found is None:
        return None
    values = [{"name": name, **_ends(part)} for name, part in zip(found.names, found.parts, strict=True)]
    own = {name: getattr(found, name) for name in ("estimate", "alpha", "side", "method")}
    return {**_ends(found), **own, "values": values, "assumptions": [asdict(item) for item in found.assumptions]}


def _curve(result: Result) -> dict[str, Any] | None:
    if result.curve is None:
        return None
    return curve_dict(result.curve, result.allowance, first=getattr(result.proof, "stated_first", False))


def _subgroups(result: Result) -> dict[str, Any] | None:
    found = result.subgroups
    if found is None:
        return None
    return {"by": found.by, "unit": found.unit, "lines": found.to_rows()}


def _ends(result: Result) -> dict[str, float | None]:
    """low and high; nothing after a rejection."""
    given = result.status is not Status.REJECTED
    return {"low": result.low if given else None, "high": result.high if given else None}


def _strict_json(value: Any) -> Any:
    """Lists, texts and numbers as every JSON reader knows them: a number that is not finite becomes None."""
    if isinstance(value, dict):
        return {str(key): _strict_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_json(plain: dict[str, Any]) -> str:
    """The text of result.json."""
    return json.dumps(plain, indent=1, allow_nan=False) + "\n"


def result_row(result: Result) -> dict[str, Any]:
    """The result as one row of a table, by column; None where a method has no such number, for both ends after a rejection."""
    rejection, robustness, stated = result.rejection, result.robustness, result.allowance
    return {
        **_ends(result),
        "estimate": result.estimate if result.estimated else None,
        **{name: getattr(result, name) for name in CSV_COLUMNS[3:7]},
        "status": result.status.name,
        "range_low": result.value_range.low,
        "range_high": result.value_range.high,
        "first_row": result.rows[0],
        "last_row": result.rows[1] - 1,
        "effective_sample_size": result.effective_sample_size,
        "p_value": None if rejection is None else rejection.p_value,
        "minimal_radius": None if rejection is None else rejection.minimal_radius,
        "log_hash": result.hashes["log"],
        "certificate_hash": result.hashes.get("certificate"),
        "bondic": result.versions["bondic"],
        "chosen": " ".join(item.name for item in result.chosen),
        "same_up_to": None if robustness is None else robustness.same_up_to,
        "breakdown_radius": None if robustness is None else robustness.breakdown_radius,
        **dict(zip(("allowance", "allowance_single"), (None, None) if stated is None else stated.pair, strict=True)),
    }


def result_csv(result: Result, *, header: bool = True) -> str:
    """One row, so that many results make a table."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerow(result_row(result))
    return text.getvalue()


def frame(rows: list[dict[str, Any]]) -> Any:
    """Rows as a pandas DataFrame; pandas is imported only then."""
    try:
        pandas = import_module("pandas")
    except ImportError as problem:
        raise InvalidInput(
            "A DataFrame needs pandas: pip install pandas. Without it, to_row() has the same."
        ) from problem
    return pandas.DataFrame(rows)


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
        complete = with_next_steps(result, question, no_rows=no_rows)
        kept = complete.without_rows(question) if no_rows else complete
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
