"""`bondic`: the group of commands, and errors as messages and exit codes."""

from __future__ import annotations

import os
import sys

import click

from bondic._version import __version__
from bondic.cli.commands import COMMANDS
from bondic.cli.lab import Commands, lab_commands
from bondic.errors import BondicError, VerificationError, one_line

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
    """Intervals for the value of a policy from logged decisions, valid for finite data."""


def _reader_left(stop: SystemExit) -> bool:
    """Click and rich turn a closed pipe into an exit with code 1, and nothing else ends like that inside the group.

    Errors arrive as exceptions, calls of a policy that ends the program are caught; completion of an unknown shell is
    the exception.
    """
    return stop.code == 1 and "_BONDIC_COMPLETE" not in os.environ


def main() -> None:
    """Run the command line; errors of ours become one message and an exit code."""
    try:
        code = group(standalone_mode=False)
        sys.stdout.flush()
    except SystemExit as stop:
        if _reader_left(stop):
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - what is still buffered has no reader, either
            sys.exit(READER_LEFT)
        raise
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo("interrupted; nothing was left half-written", err=True)
        sys.exit(130)
    except click.ClickException as problem:
        problem.show()
        sys.exit(BAD_INPUT)
    except VerificationError as problem:
        click.echo(f"not verified: {one_line(problem, _LONGEST)}", err=True)
        sys.exit(NOT_VERIFIED)
    except BondicError as problem:
        click.echo(f"error: {one_line(problem, _LONGEST)}", err=True)
        sys.exit(BAD_INPUT)
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        sys.exit(READER_LEFT)
    except OSError as problem:
        words = f"{problem.strerror or problem}: {problem.filename or 'a file'}"
        click.echo(f"error: {one_line(words, _LONGEST)}", err=True)
        sys.exit(BAD_INPUT)
    except MemoryError:
        click.echo("error: not enough memory. For Parquet logs pass --memory, e.g. --memory 2GB.", err=True)
        sys.exit(BAD_INPUT)
    sys.exit(code if isinstance(code, int) else 0)
