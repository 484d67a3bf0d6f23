"""Ctrl-C and SIGTERM are obeyed within a second, whatever the program is doing; what it was started with as ignored stays so.

Python hands an interrupt to the main thread between two steps of the interpreter, and a long call of compiled code (a
decomposition, a policy's network) keeps it waiting. A second thread hears of the interrupt at once, gives the main thread
a moment to leave by itself, and else ends the program after removing what is half-written.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import active_children
from typing import Any

from bondic.folders import UNFINISHED

_WORDS = "interrupted; nothing was left half-written"
_PATIENCE = 0.4
"""Seconds in which the main thread may clean up by itself, and as many again in which other threads may end."""
_SHOW_CURSOR = "\r\x1b[K\x1b[?25h"

_obeyed = threading.Event()
_heard = [signal.SIGINT]
"""The last one is the signal that ends the program: its exit code is 128 and the number of it, as shells have it."""


@contextmanager
def obeying_interrupts() -> Iterator[None]:
    """What runs inside, in the main thread, can be interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(ours,), daemon=True, name="interrupts").start()
    ending = signal.getsignal(signal.SIGTERM)
    if ending is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        if ending is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, ending)
        signal.set_wakeup_fd(before)
        theirs.close()


def obeyed() -> int:
    """The main thread has cleaned up: say so; the exit code."""
    print(_WORDS, file=sys.stderr, flush=True)
    _obeyed.set()
    return 128 + _heard[-1]


def end_workers() -> None:
    """Processes that this one started, and that have not heard of its end."""
    for worker in active_children():
        worker.terminate()


def _terminate(number: int, frame: Any) -> None:
    del frame
    _heard.append(signal.Signals(number))
    raise KeyboardInterrupt


def _watch(watched: socket.socket) -> None:
    with watched:
        while heard := watched.recv(16):
            for number in {signal.SIGINT, signal.SIGTERM}.intersection(heard):
                _end(number)


def _end(number: int) -> None:
    """After a moment: tasks in other threads may go on for long, and the main thread may be inside of compiled code."""
    if not _obeyed.wait(_PATIENCE):
        for folder in tuple(UNFINISHED):
            shutil.rmtree(folder, ignore_errors=True)
        end_workers()
        os.write(2, f"{_SHOW_CURSOR if os.isatty(2) else ''}{_WORDS}\n".encode())
    else:
        threading.Event().wait(_PATIENCE)  # the interpreter ends first, unless a task keeps it
    os._exit(128 + number)
