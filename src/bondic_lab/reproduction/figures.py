"""A figure as plain data: what `plots.py` draws and tests can look at. No plotting library is known here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from bondic_lab.reproduction.summary import Check

Floats = tuple[float, ...]


@dataclass(frozen=True)
class Curve:
    """A line with an optional band; `band` and `bars` have ends `low`, `high` and no `y`; `points` are only dots."""

    label: str
    x: Floats
    y: Floats
    low: Floats = ()
    high: Floats = ()
    kind: Literal["line", "bars", "dashed", "band", "points"] = "line"


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Curve, ...] = ()
    truth: float | None = None
    x_log: bool = False
    y_log: bool = False
    ticks: tuple[str, ...] = ()  # names at x = 0, 1, ...
    heat: tuple[Floats, ...] = ()  # a matrix instead of series: rows y_ticks, columns ticks
    y_ticks: tuple[str, ...] = ()
    note: str = ""  # small print inside the axes


@dataclass(frozen=True)
class FigureData:
    """A figure, the numbers behind it and the verdict on finite-sample claims."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    table: tuple[dict[str, Any], ...]
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()
