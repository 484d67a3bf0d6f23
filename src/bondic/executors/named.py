"""Executors by name: serial, threads://N, dask://HOST:PORT, dask://N, ray://HOST:PORT, ray://N."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bondic.errors import InvalidInput, one_line
from bondic.executors.checkpoints import Checkpoints
from bondic.executors.here import Here
from bondic.executors.remote import Remote
from bondic.executors.threads import Serial, Threads
from bondic.policies.travel import PolicyFile, PolicyPickle

FORMS = "serial, threads, threads://N, dask://HOST:PORT, dask://N, ray://HOST:PORT, ray://N"


def named_executor(
    text: str, *, policy: PolicyFile | PolicyPickle | None = None, checkpoints: Path | None = None
) -> Serial | Threads | Remote:
    """The executor that the text names; N is a number of threads, or of processes on this machine."""
    kind, _, rest = text.partition("://")
    given: dict[str, Any] = {
        "policy": policy,
        "checkpoints": None if checkpoints is None else Checkpoints(checkpoints),
    }
    if kind in ("serial", "threads") and checkpoints is not None:
        return Here(**given)
    if kind == "serial" and not rest:
        return Serial()
    if kind == "threads":
        return Threads(_number(rest, text) if rest else None)
    if kind not in ("dask", "ray"):
        raise InvalidInput(f"{one_line(text)} is no executor. There are {FORMS}.")
    if ":" not in rest:
        given["workers"] = _number(rest, text) if rest else None
    else:
        given["address"] = f"tcp://{rest}" if kind == "dask" and "//" not in rest else rest if kind == "dask" else text
    if kind == "dask":
        from bondic.executors.dask import Dask

        return Dask(**given)
    from bondic.executors.ray import Ray

    return Ray(**given)


def _number(rest: str, text: str) -> int:
    if not rest.isdecimal() or int(rest) < 1:
        raise InvalidInput(f"{one_line(text)}: a number of workers, or HOST:PORT, follows. There are {FORMS}.")
    return int(rest)
