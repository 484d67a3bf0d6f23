"""`bondic`: the group of commands, and errors as messages and exit codes."""

from __future__ import annotations

import sys

import click

from bondic._version import __version__
from bondic.cli.commands import COMMANDS
from bondic.errors import BondicError, VerificationError

BAD_INPUT = 2
NOT_VERIFIED = 1


@click.group(
    commands={str(command.name): command for command in COMMANDS},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="bondic")
def group() -> None:
    """Intervals for the value of a policy from logged decisions, valid for finite data."""


def main() -> None:
    """Run the command line; errors of ours become one message and an exit code."""
    try:
        code = group(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo("interrupted; nothing was left half-written", err=True)
        sys.exit(130)
    except click.ClickException as problem:
        problem.show()
        sys.exit(BAD_INPUT)
    except VerificationError as problem:
        click.echo(f"not verified: {problem}", err=True)
        sys.exit(NOT_VERIFIED)
    except BondicError as problem:
        click.echo(f"error: {problem}", err=True)
        sys.exit(BAD_INPUT)
    except OSError as problem:
        click.echo(f"error: {problem.strerror or problem}: {problem.filename or 'a file'}", err=True)
        sys.exit(BAD_INPUT)
    except MemoryError:
        click.echo("error: not enough memory. For Parquet logs pass --memory, e.g. --memory 2GB.", err=True)
        sys.exit(BAD_INPUT)
