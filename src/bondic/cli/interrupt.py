"""Ctrl-C is obeyed within a second, whatever the program is doing.

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

from bondic.folders import UNFINISHED

INTERRUPTED = 130
_WORDS = "interrupted; nothing was left half-written"
_PATIENCE = 0.4
"""Seconds in which the main thread may clean up by itself, and as many again in which other threads may end."""
_SHOW_CURSOR = "\r\x1b[K\x1b[?25h"

_obeyed = threading.Event()


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
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        theirs.close()


def obeyed() -> int:
    """The main thread has cleaned up: say so; the exit code."""
    print(_WORDS, file=sys.stderr, flush=True)
    _obeyed.set()
    return INTERRUPTED


def _watch(watched: socket.socket) -> None:
    with watched:
        while heard := watched.recv(16):
            if signal.SIGINT in heard:
                _end()


def _end() -> None:
    """After a moment: tasks in other threads may go on for long, and the main thread may be inside of compiled code."""
    if not _obeyed.wait(_PATIENCE):
        for folder in tuple(UNFINISHED):
            shutil.rmtree(folder, ignore_errors=True)
        os.write(2, f"{_SHOW_CURSOR if os.isatty(2) else ''}{_WORDS}\n".encode())
    else:
        threading.Event().wait(_PATIENCE)  # the interpreter ends first, unless a task keeps it
    os._exit(INTERRUPTED)
