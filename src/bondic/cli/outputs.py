"""What every command says: exit codes, warnings and notes, and the command that checks a result."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from bondic.cli.options import SETTINGS
from bondic.cli.say import say
from bondic.core.certificate import Certificate
from bondic.core.claims import Status
from bondic.core.errors import printable
from bondic.errors import ValidityNote, command_words

EXIT_CODES = {Status.INTERVAL: 0, Status.REJECTED: 3, Status.TRIVIAL: 4}
"""What a command that evaluates ends with."""
GATE_CODES = {"approve": 0, "refuse": 5, "cannot tell": 6}
"""What a gate ends with, unless the log contradicts the assumptions."""
_READING = ("memory", "columns", "missing", "text", "actions", "one_step", "trust_pickle")
"""Options of `evaluate` and `verify` that say how the log is read."""


def print_validity_notes(notes: Sequence[str]) -> None:
    """What touches validity goes to standard error, with --quiet and --json as well."""
    for note in notes:
        if isinstance(note, ValidityNote):
            say(f"warning: {command_words(printable(note))}", err=True)


def print_notes(console: Console, notes: Sequence[str]) -> None:
    """How the log was read; what touches validity was printed already."""
    for note in notes:
        if not isinstance(note, ValidityNote):
            console.print(f"note: {command_words(printable(note))}", highlight=False, markup=False, soft_wrap=True)


def verify_command(options: Mapping[str, Any], certificate: Certificate) -> str:
    """What a reader types to check the result: the log as it was named, and every option that says how to read it."""
    estimand, needed = certificate.estimand, list(_READING)
    if (
        estimand.policies[0].answers.next is None or not estimand.policies[0].known_by_log
    ):  # with it the plan is made again
        learned = ["learn_rows", "learn_blocks"] if options.get("learn_rows") is not None else []
        needed = ["policy", "policy_output", *learned, *needed]
    if any(not policy.known_by_log for policy in estimand.policies[1:]):
        needed = ["against", *needed]
    if estimand.start.observations is None:
        needed = ["initial", *needed]
    needed.append("by")
    words = [word for name in needed for word in _words_of(name, options.get(name))]
    return shlex.join(["bondic", "verify", str(options["out"] / "certificate.json"), options["log"], *words])


def _words_of(name: str, value: Any) -> list[str]:
    """An option, or a setting, as words of the command line; nothing where it says nothing."""
    if value in (None, False, ()):
        return []
    if name in SETTINGS:
        return ["--with", f"{name}={'yes' if value is True else value}"]
    option = f"--{name.replace('_', '-')}"
    if value is True:
        return [option]
    items = value if isinstance(value, tuple) and name != "actions" else [value]
    return [word for item in items for word in (option, ",".join(item) if isinstance(item, tuple) else str(item))]


def this_command() -> str:
    """What was typed."""
    return shlex.join(["bondic", *sys.argv[1:]])
