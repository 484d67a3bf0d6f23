"""`bondic`: the group of commands, and errors as messages and exit codes."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

from bondic._version import __version__
from bondic.cli.commands import COMMANDS
from bondic.cli.interrupt import obeyed, obeying_interrupts
from bondic.cli.options import spelled_pairs
from bondic.cli.say import say
from bondic.core.errors import BondicError, VerificationError, one_line
from bondic.errors import command_words

LAB = "bondic_lab"
"""The package whose `commands.COMMANDS` join those of the library, where it is installed."""
_ITS_COMMANDS = ("reproduce",)


def lab_commands() -> tuple[click.Command, ...]:
    """What the lab offers; nothing when it is not installed."""
    try:
        found: tuple[click.Command, ...] = importlib.import_module(f"{LAB}.commands").COMMANDS
    except ModuleNotFoundError as missing:
        if missing.name != LAB:  # it is there, and something that it needs is not
            raise
        return ()
    return found


class Commands(click.Group):
    """A group that names the package of a laboratory command that is not installed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As every group does it; pairs of numbers may be written with a comma."""
        return super().parse_args(ctx, spelled_pairs(args))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """As every group does it, with a hint."""
        if args and args[0] in _ITS_COMMANDS and self.get_command(ctx, args[0]) is None:
            ctx.fail(
                f"The command '{args[0]}' belongs to the package {LAB}, which is not installed. It holds simulated worlds and "
                "experiments, and comes with bondic: install bondic again from its wheel or its sources."
            )
        return super().resolve_command(ctx, args)


BAD_INPUT = 2
NOT_VERIFIED = 1
_LONGEST = 4000
"""Characters of a message; it may quote files of other people, and is printed as one line without anything to obey."""
READER_LEFT = 141
"""128 + SIGPIPE, what a shell shows for programs whose output is cut short, as in `bondic check LOG | head -1`."""


@click.group(
    cls=Commands,
    commands={str(command.name): command for command in (*COMMANDS, *lab_commands())},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="bondic")
def group() -> None:
    """What would a new policy have earned? Intervals from a log of past decisions, valid for finite logs."""


def main() -> None:
    """Run the command line; errors of ours become one message and an exit code."""
    # blocks of rows are worked on in threads of our own: those of a matrix product would wait for one another, at full speed
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy is not loaded yet
    try:
        with obeying_interrupts():
            code = group(standalone_mode=False)
            sys.stdout.flush()
    except SystemExit as stop:
        # click and rich turn a closed pipe into an exit with code 1, and nothing else ends like that inside the group:
        # errors arrive as exceptions, calls of a policy that ends the program are caught; completion of an unknown shell is
        # the exception
        if stop.code != 1 or "_BONDIC_COMPLETE" in os.environ:
            raise
        code = _forget_output()
    except BrokenPipeError:
        code = _forget_output()
    except (click.exceptions.Abort, KeyboardInterrupt):
        code = obeyed()
    except click.ClickException as problem:
        problem.show()
        code = BAD_INPUT
    except VerificationError as problem:
        code = _say(f"not verified: {command_words(one_line(problem, _LONGEST))}", NOT_VERIFIED)
    except BondicError as problem:
        code = _say(f"error: {command_words(one_line(problem, _LONGEST))}", BAD_INPUT)
    except OSError as problem:
        words = f"{problem.strerror or problem}: {problem.filename or 'a file'}"
        code = _say(f"error: {one_line(words, _LONGEST)}", BAD_INPUT)
    except MemoryError:
        code = _say("error: not enough memory. Read the log in batches: --with memory=2GB.", BAD_INPUT)
    sys.exit(code if isinstance(code, int) else 0)


def _say(words: str, code: int) -> int:
    say(words, err=True)
    return code


def _forget_output() -> int:
    """What is still buffered has no reader, either."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    return READER_LEFT
