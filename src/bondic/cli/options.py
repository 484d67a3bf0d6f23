"""Options that several commands share, and the TOML file they may live in."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from bondic.errors import InvalidInput

Command = TypeVar("Command", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)


def _names(ctx: click.Context, parameter: click.Parameter, value: Any) -> tuple[str, ...] | None:
    """`run,maintain` on the command line, a list of texts in a file: names that hold commas need the file."""
    if value is None:
        return None
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else list(value)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise click.BadParameter("names with commas between them are needed, such as run,maintain.", ctx, parameter)
    return tuple(names)


def _load_config(ctx: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    """Values of the file become the defaults of the options; the command line overrides them."""
    del parameter
    if path is None:
        return None
    try:
        content = tomllib.loads(path.read_text())
    except OSError as problem:
        raise InvalidInput(f"{path} cannot be read ({problem.strerror or problem}).") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise InvalidInput(f"{path} is not a TOML file ({problem}).") from problem
    known = {
        long.removeprefix("--"): option.name
        for option in ctx.command.params
        for long in option.opts
        if long.startswith("--") and long != "--config" and option.name
    }
    unknown = sorted(name for name in content if name.replace("_", "-") not in known)
    if unknown:
        raise InvalidInput(
            f"{path}: `{unknown[0]}` is not an option of {ctx.command.name}. Options: {', '.join(sorted(known))}."
        )
    values: dict[str, Any] = {known[name.replace("_", "-")]: value for name, value in content.items()}
    if isinstance(values.get("columns"), dict):
        values["columns"] = [
            f"{part}={group if isinstance(group, str) else ','.join(group)}"
            for part, group in values["columns"].items()
        ]
    ctx.default_map = {**(ctx.default_map or {}), **values}
    return path


CONFIG: list[Any] = [
    click.option(
        "--config",
        type=PATH,
        is_eager=True,
        callback=_load_config,
        help="TOML file with options by their long names; the command line overrides it.",
    )
]
LOG: list[Any] = [
    click.option(
        "--columns",
        multiple=True,
        metavar="PART=COL[,COL...]",
        help="Columns that hold a part of a transition, where their names do not tell. May be repeated.",
    ),
    click.option(
        "--missing",
        type=click.Choice(["indicator"]),
        help="What to do with gaps in observations: fill 0 and add a 0/1 column. Without it they are refused.",
    ),
    click.option(
        "--categorical", type=click.Choice(["one-hot", "codes"]), help="How text in observations becomes numbers."
    ),
    click.option(
        "--actions",
        type=click.UNPROCESSED,
        callback=_names,
        metavar="NAME,NAME,...",
        help="Names of actions that are text, in the order of the policy's probabilities.",
    ),
    click.option("--trust-pickle", is_flag=True, help="Allow files that run code when they are loaded (pickles)."),
]
QUESTION: list[Any] = [
    click.option("--gamma", type=float, required=True, help="Discount in [0, 1); 1 with --horizon."),
    click.option(
        "--reward-range",
        type=float,
        nargs=2,
        required=True,
        metavar="LOW HIGH",
        help="Range of every possible reward: your knowledge, not the log's extremes.",
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
    click.option("--never-terminates", is_flag=True, help="State that the process never ends."),
    click.option("--draws", type=int, default=5, show_default=True, help="Action draws of a continuous policy."),
    click.option("--seed", type=int, default=0, show_default=True, help="Seed of action draws and random features."),
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
    click.option("--radius", type=float, help="Radius of Q, fixed beforehand. Default: tuned on the pilot rows."),
    click.option("--pilot", type=str, help="Rows set aside for tuning: a share such as 0.2, or a whole number."),
    click.option("--planned-rows", type=int, help="Planned length of the log, when it was stopped by looking at it."),
    click.option(
        "--misspecification", type=float, default=0.0, show_default=True, help="Distance of q* to Q, at most."
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


def parse_columns(items: tuple[str, ...]) -> dict[str, str | list[str]] | None:
    """("observations=x,y", "rewards=payoff") -> {"observations": ["x", "y"], "rewards": "payoff"}."""
    out: dict[str, str | list[str]] = {}
    for item in items:
        part, sign, names = item.partition("=")
        if not sign or not part.strip() or not names.strip():
            raise InvalidInput(f"--columns {item}: write PART=COLUMN, or PART=COLUMN,COLUMN,... for several.")
        group = [name.strip() for name in names.split(",")]
        out[part.strip()] = group[0] if len(group) == 1 else group
    return out or None


def parse_pilot(text: str | float | int | None) -> float | int:
    """ "0.2" is a share, "500" a number of rows."""
    if text is None:
        return 0.2
    try:
        value = float(text)
    except ValueError as problem:
        raise InvalidInput(f"--pilot {text}: a share such as 0.2 or a whole number of rows is needed.") from problem
    return int(value) if value >= 1 and value.is_integer() else value


def to_toml(values: dict[str, Any]) -> str:
    """The effective configuration as a TOML file that --config reads again."""
    lines = ["# the configuration behind the result beside this file; run it again with --config"]
    for name, value in values.items():
        if value is None or value == ():
            continue
        lines.append(f"{name.replace('_', '-')} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return json.dumps(str(value), ensure_ascii=False)
