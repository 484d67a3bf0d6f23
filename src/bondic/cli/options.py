"""Options that several commands share, and their small syntaxes. Nothing heavy is loaded here: --help needs it all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from bondic.cli.config import load_config
from bondic.data.hygiene.findings import ACCEPTABLE

Command = TypeVar("Command", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)
VALUE_BANDWIDTH = 1.0
"""The default of Choices.value_bandwidth."""


def _names(ctx: click.Context, parameter: click.Parameter, value: Any) -> tuple[str, ...] | None:
    """`run,maintain` on the command line, a list of texts in a file: names that hold commas need the file."""
    if value is None:
        return None
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else list(value)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise click.BadParameter("names with commas between them are needed, such as run,maintain.", ctx, parameter)
    return tuple(names)


CONFIG: list[Any] = [
    click.option(
        "--config",
        type=PATH,
        is_eager=True,
        callback=load_config,
        help="TOML file with options by their long names; the command line overrides it.",
    )
]
LOG: list[Any] = [
    click.option(
        "--columns",
        multiple=True,
        metavar="PART=COL[,COL...]",
        help="Columns that hold a part of a transition, where their names do not tell; terminations=none (or "
        "truncations=none) states that there are none. May be repeated.",
    ),
    click.option(
        "--missing",
        multiple=True,
        metavar="indicator|COL=VALUE",
        help="What to do with gaps in observations: fill 0 ('indicator') or your value (COL=VALUE, may be repeated), and "
        "add a 0/1 column. Without it they are refused.",
    ),
    click.option("--text", type=click.Choice(["one-hot", "codes"]), help="How text in observations becomes numbers."),
    click.option(
        "--actions",
        type=click.UNPROCESSED,
        callback=_names,
        metavar="NAME,NAME,...",
        help="Names of actions that are text, in the order of the policy's probabilities.",
    ),
    click.option("--trust-pickle", is_flag=True, help="Allow files that run code when they are loaded (pickles)."),
]
STATES: list[Any] = [
    click.option(
        "--categorical",
        multiple=True,
        metavar="obs|COL",
        help="Observation columns that hold names, not quantities: 'obs' for all of them, or names or numbers (from 0) of "
        "columns. May be repeated. Default: taken from the log, and said.",
    ),
    click.option(
        "--numeric", is_flag=True, help="All observation columns hold quantities: states are related by distance."
    ),
]
POLICY_OUTPUT: list[Any] = [
    click.option(
        "--policy-output",
        type=click.Choice(["probabilities", "logits", "actions"]),
        help="What an ONNX or torch model returns, where its output's name does not tell.",
    ),
]
QUESTION: list[Any] = [
    *POLICY_OUTPUT,
    click.option("--gamma", type=float, required=True, help="Discount in [0, 1); 1 with --horizon."),
    click.option(
        "--reward-range",
        type=float,
        nargs=2,
        required=True,
        metavar="LOW HIGH",
        help="Range of every possible reward: your knowledge, not the log's extremes.",
    ),
    click.option(
        "--value-range",
        type=float,
        nargs=2,
        metavar="LOW HIGH",
        help="State that every discounted return, from any state-action pair and whichever policy follows, lies in it.",
    ),
    click.option("--initial", type=PATH, help="File with initial states, and weights in a column `weight`."),
    click.option(
        "--initial-kind",
        type=click.Choice(["exact", "sample"]),
        default="exact",
        show_default=True,
        help="Whether the file *is* the initial distribution or independent draws of it.",
    ),
    click.option(
        "--initial-count",
        type=int,
        help="Use the first N episode starts of the log; N was fixed beforehand. Default: all starts.",
    ),
    click.option("--horizon", type=int, help="Value of the first H steps only; needs timesteps in the log."),
    click.option(
        "--accept",
        multiple=True,
        type=click.Choice(list(ACCEPTABLE)),
        help="A kind of finding about log or policy that is right as it is; it is then printed as an assumption that you "
        "state. May be repeated.",
    ),
    click.option("--never-terminates", is_flag=True, help="State that the process never ends."),
    click.option("--draws", type=int, default=5, show_default=True, help="Action draws of a continuous policy."),
    click.option(
        "--seed",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Seed of action draws and random features.",
    ),
]
METHOD: list[Any] = [
    click.option("--alpha", type=float, default=0.1, show_default=True, help="Total error probability."),
    click.option(
        "--side",
        type=click.Choice(["both", "lower", "upper"]),
        default="both",
        show_default=True,
        help="Interval, or one bound.",
    ),
    click.option(
        "--gauge",
        type=click.Choice(["half", "range", "paper", "plug-in"]),
        default="half",
        show_default=True,
        help="Noise bound of the dual method.",
    ),
    click.option("--radius", type=float, help="Radius of Q, fixed beforehand. Default: chosen by bondic."),
    click.option("--pilot", type=str, help="Rows set aside for tuning: a share such as 0.2, or a whole number."),
    click.option("--planned-rows", type=int, help="Planned length of the log, when it was stopped by looking at it."),
    click.option(
        "--misspecification", type=float, default=0.0, show_default=True, help="Distance of q* to Q, at most."
    ),
    click.option(
        "--weight-bandwidth",
        type=float,
        help="Bandwidth of W in medians of distances, fixed beforehand; W is then made of random features. Default: "
        "picked on the pilot rows.",
    ),
    click.option(
        "--value-bandwidth",
        type=float,
        default=VALUE_BANDWIDTH,
        show_default=True,
        help="Bandwidth of Q, in medians of distances.",
    ),
    click.option(
        "--with",
        multiple=True,
        metavar="[METHOD.]KEY=VALUE",
        help="A baseline's own option, such as steps=50 or behavior=estimated. May be repeated.",
    ),
]
OUTPUT: list[Any] = [
    click.option("--force", is_flag=True, help="Replace files that exist."),
    click.option("--quiet", is_flag=True, help="Print the answer in one line, nothing else."),
    click.option("--verbose", is_flag=True, help="Print choices, stages and versions as well."),
]


def add_options(*groups: list[Any]) -> Callable[[Command], Command]:
    """Decorate a command with groups of options, first group first in the help."""

    def decorate(command: Command) -> Command:
        for option in reversed([option for group in groups for option in group]):
            command = option(command)
        return command

    return decorate
