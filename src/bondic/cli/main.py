"""`bondic`: subcommands are imported when they are used, so that --help is instant."""

from __future__ import annotations

import importlib
import sys

import click

from bondic._version import __version__
from bondic.errors import BondicError, VerificationError

_COMMANDS = {
    "check": ("bondic.cli.check", "Say what is in a log and whether it can be used."),
    "compare": ("bondic.cli.compare", "Several policies or methods side by side."),
    "evaluate": ("bondic.cli.evaluate", "What would a policy have earned? An interval from a log."),
    "demo": ("bondic.cli.demo", "Evaluate a policy on the log that ships with bondic and write a report."),
    "reproduce": ("bondic.cli.reproduce", "Measure a figure of the paper again."),
    "verify": ("bondic.cli.verify", "Re-check a certificate against its log."),
}

BAD_INPUT = 2
NOT_VERIFIED = 1


class LazyGroup(click.Group):
    """Knows names and one-line helps without importing the commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(_COMMANDS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(_COMMANDS.items())])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
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
