"""Where the work is done: the executor that the options name, open as long as it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from bondic.core.sums.forms import Sums
from bondic.executors.named import named_executor

_BUDGET = "2GB"
"""Memory of a log whose rows are read by other processes, if nothing is said."""


def reads_in_parts(options: dict[str, Any]) -> dict[str, Any]:
    """Rows that are worked on elsewhere are read part by part: the log is not held here."""
    elsewhere = (options["executor"] or "").partition("://")[0] in ("dask", "processes")
    return {**options, "memory": options["memory"] or _BUDGET} if elsewhere else options


def not_elsewhere(method: str) -> str:
    """That a method holds its rows, or plans from them one after the other, and leaves other processes alone."""
    return f"The method {method} works in threads of this process: the executor is not used. --method dual uses it."


@contextmanager
def sums_of(options: dict[str, Any]) -> Iterator[Sums]:
    """Sums with the engine and the executor of the options; connections and processes are given back at the end."""
    sums = Sums() if options["engine"] is None else Sums.named(options["engine"])
    if options["executor"] is None:
        yield sums
        return
    with named_executor(options["executor"]) as executor:
        yield replace(sums, executor=executor)
