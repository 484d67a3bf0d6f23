"""Plain lines of a command: names of other people among them hold no code that a terminal would obey."""

from __future__ import annotations

import click

from bondic.core.errors import printable_lines


def say(words: object, *, err: bool = False, nl: bool = True) -> None:
    """On standard output, or standard error."""
    click.echo(printable_lines(words), err=err, nl=nl)
