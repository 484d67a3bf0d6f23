"""Where the work is done: the executor that the options name, open as long as it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from bondic.errors import InvalidInput
from bondic.executors.named import named_executor
from bondic.executors.remote import Remote
from bondic.policies.travel import PolicyFile, PolicyPickle
from bondic.sums.forms import Sums

WORK = ("executor", "checkpoints", "send_policy_by_pickle")
"""Options that say where the work is done; the result is the same wherever it is."""
_BUDGET = "2GB"
"""Memory of a log whose rows are read by other processes, if nothing is said."""


def reads_in_parts(options: dict[str, Any]) -> dict[str, Any]:
    """Rows that are worked on elsewhere, or whose results are kept, are read part by part: the log is not held here."""
    named = (options["executor"] or "").partition("://")[0] in ("dask", "ray") or options["checkpoints"] is not None
    return {**options, "memory": options["memory"] or _BUDGET} if named else options


def not_elsewhere(method: str) -> str:
    """That a method holds its rows, or plans from them one after the other, and leaves other processes alone."""
    words = f"The method {method} works in threads of this process: neither executor nor checkpoints are used."
    return f"{words} --method dual uses them."


@contextmanager
def sums_of(options: dict[str, Any]) -> Iterator[Sums]:
    """Sums with the engine and the executor of the options; connections and processes are given back at the end."""
    sums = Sums() if options["engine"] is None else Sums.named(options["engine"])
    text, folder = options["executor"], options["checkpoints"]
    if text is None and folder is None:
        if options["send_policy_by_pickle"]:
            raise InvalidInput(
                "--send-policy-by-pickle says how other processes get the policy: name them (--executor)."
            )
        yield sums
        return
    executor = named_executor(text or "serial", policy=_policy(options), checkpoints=folder)
    if isinstance(executor, Remote):
        with executor:
            yield replace(sums, executor=executor)
    else:
        yield replace(sums, executor=executor)


def _policy(options: dict[str, Any]) -> PolicyFile | PolicyPickle | None:
    if options["send_policy_by_pickle"]:
        return PolicyPickle()
    if options["policy"] is None:
        return None
    return PolicyFile(options["policy"], options["trust_pickle"], output=options["policy_output"])
