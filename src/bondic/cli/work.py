"""Where the work is done: the executor that the options name, open as long as it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bondic.cli.executors import named_executor
from bondic.core.sums.forms import Sums
from bondic.engines.standard import named_engines
from bondic.engines.sums import STANDARD, EngineSums

_BUDGET = "2GB"
"""Memory of a log whose rows are read by other processes, if nothing is said."""


def in_other_processes(options: dict[str, Any]) -> bool:
    """Whether the executor of the options works in other processes."""
    return (options["executor"] or "").partition("://")[0] in ("dask", "processes")


def reads_in_parts(options: dict[str, Any]) -> dict[str, Any]:
    """Rows that are worked on in other processes are read part by part: the log is not held here."""
    return {**options, "memory": options["memory"] or _BUDGET} if in_other_processes(options) else options


def not_elsewhere(method: str) -> str:
    """That a method holds its rows, or plans from them one after the other, and leaves other processes alone."""
    return f"The method {method} works in threads of this process: the executor is not used. --method dual uses it."


@contextmanager
def sums_of(options: dict[str, Any]) -> Iterator[Sums]:
    """Sums with the engine and the executor of the options; connections and processes are given back at the end."""
    engine = options["engine"]
    if options["executor"] is None:
        yield STANDARD if engine is None else EngineSums.named(engine)
        return
    with named_executor(options["executor"]) as executor:
        yield EngineSums(None if engine is None else named_engines(engine), executor)
