"""The commands of `bondic_lab`, which stands beside the library: the one place that knows its name, and by name alone."""

from __future__ import annotations

import importlib
from typing import Any

import click

from bondic.cli.options import spelled_pairs

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
    """A group that tells where a command of the lab is to be had when it is asked for one that is absent."""

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
