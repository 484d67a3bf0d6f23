"""Executors by name, for the command line: serial, threads://N, processes://N, dask://HOST:PORT."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from bondic.cli.interrupt import end_workers
from bondic.cli.reading import elsewhere
from bondic.cli.say import say
from bondic.core.errors import InvalidInput, one_line
from bondic.core.sums.forms import Sums
from bondic.data.log import Log
from bondic.data.stream import LogStream
from bondic.engines.standard import named_engines
from bondic.engines.sums import STANDARD, EngineSums
from bondic.engines.threads import Serial, Threads
from bondic.errors import ExecutorError, MissingExtra
from bondic.modules import import_object
from bondic.policies.learned import LearnedPolicy
from bondic.rows.inputs import COLUMNS, LOGGED, TODAY, GivenLog, chosen_policy

FORMS = "serial, threads, threads://N, processes://N, dask://HOST:PORT"
_PATIENCE = 20.0
"""Seconds to wait for a scheduler."""


@contextmanager
def named_executor(text: str) -> Iterator[Threads | Executor]:
    """The executor that the text names, open as long as it is needed."""
    kind, _, rest = text.partition("://")
    if kind == "serial" and not rest:
        yield Serial()
    elif kind == "threads":
        yield Threads(_number(rest, text) if rest else None)
    elif kind == "processes":
        # not by fork: threads of compiled code would be lost in the copies. Ctrl-C ends them without a word, unless it is ignored
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        workers, quiet = _number(rest, text), (signal.SIGINT, signal.SIG_IGN if ignored else signal.SIG_DFL)
        processes = ProcessPoolExecutor(workers, get_context("spawn"), initializer=signal.signal, initargs=quiet)
        try:
            yield processes
        except KeyboardInterrupt:  # their pipes close: Python would complain of that if it ended before their thread
            end_workers()
            processes.shutdown(cancel_futures=True)
            raise
        finally:
            processes.shutdown(wait=False, cancel_futures=True)
    elif kind == "dask" and ":" in rest:
        with _dask(f"tcp://{rest}") as pool:
            yield pool
    else:
        raise InvalidInput(f"{one_line(text)} is no executor. There are {FORMS}.")


@contextmanager
def _dask(address: str) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError as problem:
        raise MissingExtra("distributed", "dask", "Work on a Dask cluster") from problem
    try:
        client = Client(address, timeout=_PATIENCE)
    except OSError as problem:
        raise ExecutorError(
            f"No Dask scheduler answers at {one_line(address)}. Start one, `dask scheduler`, and workers, `dask worker ADDRESS`."
        ) from problem
    try:
        yield client.get_executor(pure=False)
    finally:
        client.close()


def _number(rest: str, text: str) -> int:
    if not rest.isdecimal() or int(rest) < 1:
        raise InvalidInput(f"{one_line(text)}: a number of workers follows. There are {FORMS}.")
    return int(rest)


def choose_policy(spec: str, source: GivenLog, starts: int | None, options: Mapping[str, Any]) -> Any:
    """The policy that `spec` names: a file, an import path, an action, or columns of the log.

    One in columns has its probabilities at the first `starts` episode starts; None: the initial states are others.
    With `learn_rows` it is a function that learns the policy on that many rows.
    """
    rows, blocks = options.get("learn_rows"), options.get("learn_blocks", 1)
    if rows is not None:
        return LearnedPolicy(import_object(spec), int(rows) if rows >= 1 and float(rows).is_integer() else rows, blocks)
    if blocks > 1:
        raise InvalidInput("--with learn_blocks: state the rows before the first block as well, --with learn_rows=0.2.")
    loads = spec not in (COLUMNS, LOGGED, TODAY)
    how = {"trust_pickle": options["trust_pickle"], "output": options["policy_output"]} if loads else {}
    return chosen_policy(spec, source, starts, **how)


def not_elsewhere(options: Mapping[str, Any], method: str) -> None:
    """The sequential method plans from rows one after the other, and leaves other processes alone: say so."""
    if elsewhere(options) and "sequential" in method:
        say(f"The method {method} works in this process: the executor is not used.", err=True)


@contextmanager
def sums_of(options: Mapping[str, Any]) -> Iterator[Sums]:
    """Sums with the engine and the executor of the options; connections and processes are given back at the end."""
    engine = options["engine"]
    if options["executor"] is None:
        yield STANDARD if engine is None else EngineSums.named(engine)
        return
    with named_executor(options["executor"]) as executor:
        yield EngineSums(None if engine is None else named_engines(engine), executor)


def work_elsewhere(log: Log, sums: Sums) -> None:
    """A log of files has its blocks worked on by the executor of the options."""
    if isinstance(log, LogStream) and isinstance(sums, EngineSums):
        log.executor = sums.pool
