"""What the lab adds to the command line; as there, nothing heavy is imported before a command runs."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import click

FIGURES = (
    "fig1", "fig2", "ablation-radius", "ablation-temperature", "ablation-bandwidth", "ablation-behavior",
    "ablation-length", "tightness",
)  # fmt: skip
"""The names of bondic_lab.reproduction.registry."""


@click.command("reproduce", help="Reproduce a figure of the paper.")
@click.argument("figure", type=click.Choice(FIGURES))
@click.option("--quick", is_flag=True, help="Few trials and short logs: at most two minutes on two cores.")
@click.option("--trials", type=click.IntRange(min=1), help="Number of trials per cell. Default: that of the figure.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Number of processes.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/reproduction"),
    show_default=True,
    help="Folder for the results.",
)
def reproduce(**options: Any) -> None:
    """Run, store, draw, print."""
    importlib.import_module("bondic_lab.reproduction.command").command(**options)


COMMANDS: tuple[click.Command, ...] = (reproduce,)
