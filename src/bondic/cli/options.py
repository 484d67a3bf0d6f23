"""Options that several commands share. Nothing heavy is loaded here: --help needs it all."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import Any

import click

from bondic.cli.config import load_config
from bondic.data.hygiene.findings import ACCEPTABLE
from bondic.errors import one_line

Decorator = Callable[[Any], Any]

PATH = click.Path(path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
VALUE_BANDWIDTH = 1.0
"""The default of Choices.value_bandwidth."""


def option(names: str, words: str, **more: Any) -> Decorator:
    """An option `--name`, or `--name argument` where the argument has another name, with its line of help."""
    return click.option(*names.split(), help=words, **more)


def choice(name: str, among: tuple[str, ...], words: str, **more: Any) -> Decorator:
    return option(name, words, type=click.Choice(among), **more)


def default(name: str, value: Any, words: str, **more: Any) -> Decorator:
    """An option whose default is shown."""
    return option(name, words, default=value, show_default=True, **more)


def flag(names: str, words: str) -> Decorator:
    return option(names, words, is_flag=True)


def several(names: str, form: str | None, words: str, **more: Any) -> Decorator:
    """An option that may be repeated."""
    return option(names, words, multiple=True, metavar=form, **more)


def add_options(*groups: list[Decorator]) -> Decorator:
    """Decorate a command with groups of options, first group first in the help."""
    return lambda command: reduce(lambda made, item: item(made), reversed([*chain(*groups)]), command)


def _names(ctx: click.Context, parameter: click.Parameter, value: Any) -> tuple[str, ...] | None:
    """`run,maintain` on the command line, a list of texts in a file: names that hold commas need the file."""
    if value is None:
        return None
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else list(value)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise click.BadParameter("names with commas between them are needed, such as run,maintain.", ctx, parameter)
    return tuple(names)


_PAIRS = ("--reward-range", "--value-range")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_PAIR = re.compile(r"[\[(]?\s*([^,\s]+)\s*,\s*([^,\s]+?)\s*[\])]?")


def spelled_pairs(args: Sequence[str]) -> list[str]:
    """`--reward-range -100,-1` as `--reward-range -100 -1`; also with brackets, and with `=`.

    `--allowance 0.02 0.5`, which may have one number or two, as `--allowance 0.02,0.5`.
    """
    out: list[str] = []
    for word in args:
        name, sign, value = word.partition("=")
        if sign and name in _PAIRS and (pair := _PAIR.fullmatch(value)):
            out += [name, *pair.groups()]
        elif out and out[-1] in _PAIRS and (pair := _PAIR.fullmatch(word)):
            out += pair.groups()
        elif len(out) > 1 and out[-2] == "--allowance" and _NUMBER.fullmatch(out[-1]) and _NUMBER.fullmatch(word):
            out[-1] += f",{word}"
        else:
            out.append(word)
    return out


def _allowance(ctx: click.Context, parameter: click.Parameter, value: Any) -> float | tuple[float, float] | None:
    """One number, or two with a comma between them; in a file a number or a list of two."""
    if value is None:
        return None
    words = value.split(",") if isinstance(value, str) else value
    try:
        found = [float(word) for word in (words if isinstance(words, list | tuple) else [words])]
    except ValueError:
        found = []
    if len(found) not in (1, 2) or not all(0 <= number < math.inf for number in found):
        raise click.BadParameter(
            f"{one_line(str(value))!r} is no allowance: one number of at least 0 is needed, in units of the value, or two "
            "(averages, single rows), such as 0.02 or 0.02,0.5.",
            ctx,
            parameter,
        )
    return found[0] if len(found) == 1 else (found[0], found[1])


def _radius(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """A number, or "paper"."""
    return value if value in (None, "paper") else click.FLOAT.convert(value, parameter, ctx)


RADIUS = option(
    "--radius",
    "State the radius of Q, the class of functions that holds the value function, in advance; 'paper' states the rule of the "
    "paper, 10 times the norm of a fitted q. Needed where states are numbers.",
    type=str,
    callback=_radius,
    metavar="NUMBER|paper",
)
CONFIG = [
    option(
        "--config",
        "TOML file with options by their long names; the command line overrides it.",
        type=PATH,
        is_eager=True,
        callback=load_config,
    )
]
LOG = [
    several(
        "--columns",
        "PART=COL[,COL...]",
        "Which columns hold a part of a transition, if their names are unusual. 'user_feature_*' means all columns with such "
        "names; terminations=none (or truncations=none) states that there are none. May be repeated.",
    ),
    several(
        "--missing",
        "indicator|COL=VALUE",
        "What to do with gaps in observations: fill 0 ('indicator') or your value (COL=VALUE, may be repeated), and "
        "add a 0/1 column. Without this option gaps are refused.",
    ),
    choice("--text", ("one-hot", "codes"), "How text in observations is turned into numbers."),
    several(
        "--categories",
        "COL=NAME[,NAME...]",
        "All values that a text column of the observations may have. Default: those that occur. May be repeated.",
    ),
    option(
        "--actions",
        "Names of the actions, if they are text, in the order of the policy's probabilities.",
        type=click.UNPROCESSED,
        callback=_names,
        metavar="NAME,NAME,...",
    ),
    flag("--one-step", "State that every row is an episode of its own (a bandit log): nothing follows it."),
    flag("--trust-pickle", "Allow files that run code when they are loaded (pickles)."),
]
STATES = [
    several(
        "--categorical",
        "obs|COL",
        "Observation columns that hold names, not quantities: 'obs' for all of them, or names or numbers (from 0) of "
        "columns. May be repeated. Default: decided from the log, and printed.",
    ),
    flag("--numeric", "All observation columns hold quantities: states are compared by their distance."),
]
_OUTPUTS = ("probabilities", "logits", "actions")
POLICY_OUTPUT = [
    choice("--policy-output", _OUTPUTS, "What an ONNX or torch model returns, if its output's name is unclear.")
]
_RANGE: dict[str, Any] = {"type": float, "nargs": 2, "metavar": "LOW HIGH"}
QUESTION = [
    *POLICY_OUTPUT,
    option(
        "--gamma",
        "Discount in [0, 1): the weight of a reward one step later. 1 is allowed with --horizon. Not needed with --one-step.",
        type=float,
    ),
    option(
        "--reward-range",
        "Range of every possible reward. It comes from what you know, not from the smallest and largest reward in the log.",
        required=True,
        **_RANGE,
    ),
    option(
        "--value-range",
        "State that every discounted sum of rewards lies in this range, from any state and action on, under any policy.",
        **_RANGE,
    ),
    option(
        "--initial",
        "File with the initial states; a column `weight` may hold their weights. One state can be written out, as in 36 or "
        "0.5,2. Default: the episode starts of the log.",
        type=PATH,
    ),
    default(
        "--initial-kind",
        "exact",
        "exact: the file is the whole initial distribution. sample: it holds independent draws from it.",
        type=click.Choice(["exact", "sample"]),
    ),
    option(
        "--initial-count",
        "Use the first N episode starts of the log, with an N that was fixed beforehand. Default: all starts.",
        type=int,
    ),
    option("--horizon", "Value of the first H steps only; needs timesteps in the log.", type=int),
    several(
        "--accept",
        None,
        "Accept a finding about the log or the policy that is not a fault in your case. "
        "It becomes an assumption that you state. May be repeated.",
        type=click.Choice(list(ACCEPTABLE)),
    ),
    flag("--never-terminates", "State that the process never ends."),
    default("--draws", 5, "Number of actions that are drawn per state from a continuous policy."),
    default("--seed", 0, "Seed of the action draws and random features.", type=click.IntRange(min=0)),
]
METHOD = [
    default("--alpha", 0.1, "Probability that the interval misses the value: 0.1 for 90% confidence."),
    default("--side", "both", "Interval, or one bound.", type=click.Choice(["both", "lower", "upper"])),
    choice(
        "--gauge",
        ("half", "range", "paper", "finite", "self-normalized", "plug-in"),
        "Noise bound of the dual method; this option selects that method. Default: half.",
    ),
    option(
        "--allowance",
        "Where states are numbers: state how alike they are inside a group, in units of the value. One number, or two: "
        "averages and single rows.",
        type=click.UNPROCESSED,
        callback=_allowance,
        metavar="A [B]",
    ),
    option(
        "--groups", "Groups of your own: a column of the states, or module:function of states.", metavar="COLUMN|SPEC"
    ),
    option(
        "--model",
        "A model of your own for groups: module:function with q(states, actions) -> values. Its code is run.",
        metavar="SPEC",
    ),
    RADIUS,
    option("--pilot", "First rows that are set aside for tuning: a share such as 0.2, or a whole number.", type=str),
    option("--planned-rows", "Planned number of rows, if the log was stopped because of what it showed.", type=int),
    default(
        "--misspecification", 0.0, "How far the value function q* may be from Q; more than 0 selects the dual method."
    ),
    option(
        "--weight-bandwidth",
        "Bandwidth of W, the space of weights, in medians of distances; fixed beforehand. W is then made of random features. "
        "This option selects the dual method. Default: picked on the pilot rows.",
        type=float,
    ),
    default("--value-bandwidth", VALUE_BANDWIDTH, "Bandwidth of the kernel behind --radius, in medians of distances."),
    several(
        "--with",
        "[METHOD.]KEY=VALUE",
        "An option of a baseline or of propensities, such as steps=50 or least_behavior_prob=0.05. May be repeated.",
    ),
]
OUTPUT = [
    flag("--force", "Replace files that exist."),
    flag("--quiet", "Print the answer in one line, nothing else."),
    flag("--verbose", "Print choices, stages and versions as well."),
]
