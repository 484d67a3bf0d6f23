"""`bondic plan`: how many rows a length takes, before there is a log. From a log on, `evaluate` says what to do next."""

from __future__ import annotations

import json
import math
from typing import Any

from rich.console import Console
from rich.table import Table

from bondic.advice.lengths import LogDesign
from bondic.advice.levers import rounded
from bondic.cli.say import say
from bondic.cli.terminal import Terminal
from bondic.core.errors import InvalidInput
from bondic.core.printed import number
from bondic.rendering import three

_SHARES = (0.5, 0.25, 0.1, 0.05)
_LABEL = "expected, not guaranteed"


def command(*, rows: int | None, length: float | None, as_json: bool, **options: Any) -> int:
    """Print the plan; nothing is written."""
    if rows is not None and length is not None:
        raise InvalidInput(
            "--rows and --length exclude each other: --rows N predicts a length, --length L the number of rows."
        )
    if options["gamma"] is None and options["kind"] != "one-step":
        raise InvalidInput("--gamma is needed, or --kind one-step.")
    design = LogDesign(**{**options, "gamma": options["gamma"] or 0.0})
    lines = [(design.rows_for(share * design.limits.width), share * design.limits.width) for share in _SHARES]
    requested = None if rows is None else (float(rows), design.length(rows))
    requested = requested if length is None else (design.rows_for(length), length)
    if as_json:
        say(json.dumps(_as_dict(design, lines, requested), indent=1))
    else:
        _print(design, lines, requested, Terminal())
    return 0


def _as_dict(
    design: LogDesign, lines: list[tuple[float, float]], requested: tuple[float, float] | None
) -> dict[str, Any]:
    def plain(line: tuple[float, float]) -> dict[str, float | None]:
        return {"rows": line[0] if math.isfinite(line[0]) else None, "length": line[1]}

    return {
        "value_range": [design.limits.low, design.limits.high],
        "answer": None if requested is None else plain(requested),
        "lines": [plain(line) for line in lines],
        "basis": design.basis,
        "guaranteed": False,
    }


def _print(
    design: LogDesign, lines: list[tuple[float, float]], requested: tuple[float, float] | None, console: Console
) -> None:
    low, high, width = number(design.limits.low), number(design.limits.high), design.limits.width
    if requested is not None:
        words = (
            f"about {rounded(requested[0])} rows" if math.isfinite(requested[0]) else "too many rows to give a number"
        )
        share = f"{requested[1] / width:.0%} of [{low}, {high}] ({_LABEL})"
        console.print(f"{words}: an interval of length {three(requested[1])}, {share}", highlight=False)
    table = Table(title=f"Value range [{low}, {high}]", title_justify="left", show_edge=False)
    for name in ("rows", "length", "share of the range"):
        table.add_column(name, justify="right")
    for rows, length in lines:
        table.add_row(rounded(rows) if math.isfinite(rows) else "too many", three(length), f"{length / width:.0%}")
    console.print(table)
    console.print(f"Basis: {design.basis}. {_LABEL.capitalize()}.", highlight=False)
