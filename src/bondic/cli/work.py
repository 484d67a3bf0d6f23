"""The policy that the options name, and where the work is done. Nothing that searches is loaded here: `verify` uses it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from bondic.cli.executors import named_executor
from bondic.cli.reading import elsewhere
from bondic.core.sums.forms import Sums
from bondic.data.io.loaded import LoadedLog
from bondic.engines.standard import named_engines
from bondic.engines.sums import STANDARD, EngineSums
from bondic.rows.inputs import COLUMNS, LOGGED, chosen_policy


def choose_policy(spec: str, loaded: LoadedLog | None, starts: int | None, options: Mapping[str, Any]) -> Any:
    """The policy that `spec` names: a file, an import path, or columns of the log.

    One in columns has its probabilities at the first `starts` episode starts; None: the initial states are others.
    """
    asked = spec not in (COLUMNS, LOGGED)
    how = {"trust_pickle": options["trust_pickle"], "output": options["policy_output"]} if asked else {}
    return chosen_policy(spec, loaded, starts, **how)


def not_elsewhere(options: Mapping[str, Any], method: str) -> None:
    """Most methods hold their rows, or plan from them one after the other, and leave other processes alone: say so."""
    if elsewhere(options) and method != "dual":
        click.echo(
            f"The method {method} works in threads of this process: the executor is not used. --method dual uses it.",
            err=True,
        )


@contextmanager
def sums_of(options: Mapping[str, Any]) -> Iterator[Sums]:
    """Sums with the engine and the executor of the options; connections and processes are given back at the end."""
    engine = options["engine"]
    if options["executor"] is None:
        yield STANDARD if engine is None else EngineSums.named(engine)
        return
    with named_executor(options["executor"]) as executor:
        yield EngineSums(None if engine is None else named_engines(engine), executor)
