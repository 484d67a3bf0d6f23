"""`bondic plan`: how many rows a length takes, before there is a log or from the first rows of one."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from bondic.advice.design import LogDesign
from bondic.advice.length_guess import propensity_guess, sequential_guess
from bondic.advice.more_rows import rounded
from bondic.cli.inputs import make_question, read_inputs
from bondic.errors import InvalidInput
from bondic.rendering import number, three
from bondic.rows import Rows
from bondic.terms import ValueRange, range_of

_SHARES = (0.5, 0.25, 0.1, 0.05)
_MULTIPLES = (1.0, 4.0, 16.0, 64.0)
_LABEL = "expected, not guaranteed"


@dataclass(frozen=True)
class _Plan:
    """What is printed: lengths by rows, and where they come from."""

    limits: ValueRange
    lines: tuple[tuple[float, float], ...]  # rows, expected length
    basis: str
    asked: tuple[float, float] | None  # rows and length of what was asked for


def command(log: str | None, **options: Any) -> int:
    """Print the plan; nothing is written."""
    if options["rows"] is not None and options["length"] is not None:
        raise InvalidInput("--rows and --length exclude each other: rows give a length, or a length takes rows.")
    made = _before_a_log(options) if log is None else _from_a_log(log, options)
    if options["as_json"]:
        click.echo(json.dumps(_as_dict(made), indent=1))
    else:
        _print(made, Console())
    return 0


def _before_a_log(options: dict[str, Any]) -> _Plan:
    if options["kind"] is None:
        raise InvalidInput(
            "Without a LOG the kind of log must be given: --kind one-step, episodes, table or continuous."
        )
    if options["gamma"] is None and options["kind"] != "one-step":
        raise InvalidInput("--gamma is needed, or --kind one-step.")
    names = ("reward_range", "horizon", "n_actions", "n_states", "largest_ratio", "noise", "alpha")
    given = {name: options[name] for name in names}
    design = LogDesign(options["kind"], gamma=options["gamma"] or 0.0, **given)
    width = design.limits.width
    lines = [(design.rows_for(share * width), share * width) for share in _SHARES]
    return _plan(design.limits, lines, design.basis, design.length, design.rows_for, options)


def _from_a_log(log: str, options: dict[str, Any]) -> _Plan:
    """What the methods foresee from the rows at hand."""
    if options["policy"] is None:
        raise InvalidInput("A plan from a LOG needs the policy in question: --policy.")
    problem = make_question(read_inputs(log, {**options, "method": "auto", "with": ()}), options["policy"], options)
    share, words = _foreseen(problem, options["alpha"])
    limits, rows = range_of(problem.terms), float(len(problem.rows))
    lines = [(multiple * rows, limits.width * share(multiple * rows)) for multiple in _MULTIPLES]

    def rows_for(length: float) -> float:
        tried = rows
        while share(tried) * limits.width > length:
            tried *= 2.0
            if tried > 4096 * rows:
                return math.inf
        return tried

    return _plan(limits, lines, words, lambda wanted: share(wanted) * limits.width, rows_for, options)


def _foreseen(problem: Rows, alpha: float) -> tuple[Callable[[float], float], str]:
    """The shorter of two guesses: by propensities, where the log has them, and by the sequential method."""
    found = {
        "the method propensities": propensity_guess(problem, alpha),
        "the sequential method": sequential_guess(problem, alpha),
    }
    known = {name: guess for name, guess in found.items() if guess is not None}
    if not known:
        raise InvalidInput(
            "Nothing can be foreseen from this log: it is too short, or its states are numbers, about which nothing is proved "
            "without a statement. Plan without it, by --kind."
        )
    seen = max(guess.seen for guess in known.values())
    words = f"what {' or '.join(known)} predicts from {seen} rows of this log: within a factor of two or three"
    return lambda rows: min(guess.share(rows) for guess in known.values()), words


def _plan(
    limits: ValueRange,
    lines: list[tuple[float, float]],
    basis: str,
    length: Callable[[float], float],
    rows_for: Callable[[float], float],
    options: dict[str, Any],
) -> _Plan:
    asked = None
    if options["rows"] is not None:
        asked = float(options["rows"]), length(float(options["rows"]))
    elif options["length"] is not None:
        asked = rows_for(options["length"]), options["length"]
    return _Plan(limits, tuple(lines), basis, asked)


def _as_dict(made: _Plan) -> dict[str, Any]:
    def plain(line: tuple[float, float]) -> dict[str, float | None]:
        return {"rows": line[0] if math.isfinite(line[0]) else None, "length": line[1]}

    return {
        "value_range": [made.limits.low, made.limits.high],
        "asked": None if made.asked is None else plain(made.asked),
        "lines": [plain(line) for line in made.lines],
        "basis": made.basis,
        "guaranteed": False,
    }


def _print(made: _Plan, console: Console) -> None:
    low, high = number(made.limits.low), number(made.limits.high)
    if made.asked is not None:
        rows, length = made.asked
        words = f"about {rounded(rows)} rows" if math.isfinite(rows) else "too many rows to give a number"
        share = length / made.limits.width
        console.print(
            f"{words}: an interval of length {three(length)}, {share:.0%} of [{low}, {high}] ({_LABEL})",
            highlight=False,
        )
    table = Table(title=f"Value range [{low}, {high}]", title_justify="left", show_edge=False)
    for name in ("rows", "length", "share of the range"):
        table.add_column(name, justify="right")
    for rows, length in made.lines:
        shown = rounded(rows) if math.isfinite(rows) else "too many"
        table.add_row(shown, three(length), f"{length / made.limits.width:.0%}")
    console.print(table)
    console.print(f"Basis: {made.basis}. {_LABEL.capitalize()}.", highlight=False)
