"""Options that several commands share, in the groups of --help. Nothing heavy is loaded here: --help needs it all."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from bondic.core.errors import one_line
from bondic.data.hygiene.findings import ACCEPTABLE

Decorator = Callable[[Any], Any]

PATH = click.Path(path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)


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


class Grouped(click.Command):
    """A command whose --help lists its options in groups."""

    groups: Sequence[tuple[str, int]] = ()
    """Titles, and how many options each has, in order."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """A section per group; what belongs to none, such as --help, comes last."""
        found = [p.get_help_record(ctx) for p in self.get_params(ctx) if isinstance(p, click.Option)]
        records = [record for record in found if record is not None]
        for title, count in (*self.groups, ("Other", len(records))):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records[:count])
            records = records[count:]


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
    """One number, or two with a comma between them."""
    if value is None:
        return None
    try:
        found = [float(word) for word in str(value).split(",")]
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


# --- question -----------------------------------------------------------------------------------------

_RANGE: dict[str, Any] = {"type": float, "nargs": 2, "metavar": "LOW HIGH"}
ALPHA = default("--alpha", 0.1, "Probability that the interval misses the value: 0.1 for 90% confidence.")
LEVEL = [
    ALPHA,
    default("--side", "both", "Interval, or one bound.", type=click.Choice(["both", "lower", "upper"])),
]
ONE_STEP = flag("--one-step", "State that every row is an episode of its own (a bandit log): nothing follows it.")
GAMMA = option(
    "--gamma",
    "Discount in [0, 1): the weight of a reward one step later. 1 is allowed with --horizon. Not needed for single decisions.",
    type=float,
)
REWARD_RANGE = option(
    "--reward-range",
    "Range of every possible reward. It comes from what you know, not from the smallest and largest reward in the log.",
    required=True,
    **_RANGE,
)
HORIZON = option("--horizon", "Value of the first H steps only; needs timesteps in the log.", type=int)
QUESTION = [
    GAMMA,
    REWARD_RANGE,
    option(
        "--value-range",
        "State that every discounted sum of rewards lies in this range, from any state and action on, under any policy.",
        **_RANGE,
    ),
    HORIZON,
    ONE_STEP,
    flag("--never-terminates", "State that the process never ends."),
    option(
        "--initial",
        "File with the initial states, the whole distribution; a column `weight` may hold their weights. sample:FILE if they are "
        "independent draws from it. One state can be written out, as in 36 or 0.5,2. Default: the episode starts of the log.",
        metavar="[sample:]FILE",
    ),
]

# --- log ----------------------------------------------------------------------------------------------

READING = [
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
ACCEPT = several(
    "--accept",
    "KIND",
    "Accept a finding about the log or the policy that is not a fault in your case; the message about it names its kind. "
    "It becomes an assumption that you state. May be repeated.",
    type=click.Choice(list(ACCEPTABLE)),
)
MEMORY = option(
    "--memory", "Read the log (Parquet, CSV, Feather) in batches within this budget, e.g. 2GB.", metavar="SIZE"
)

# --- policy -------------------------------------------------------------------------------------------

POLICY_WORDS = (
    "The new policy: module:object, a file (ONNX, NPZ, ...), 'columns' (the log holds its probabilities of all actions), "
    "or 'logged' (the log holds its probabilities of the logged actions)."
)
POLICY_OUTPUT = choice(
    "--policy-output",
    ("probabilities", "logits", "actions"),
    "What an ONNX model returns, if its output's name is unclear.",
)

# --- method -------------------------------------------------------------------------------------------

RADIUS = option(
    "--radius",
    "State the radius of Q, the class of functions that holds the value function, in advance; 'paper' states the rule of the "
    "paper, 10 times the norm of a fitted q. Where states are numbers, a statement like --allowance.",
    type=str,
    callback=_radius,
    metavar="NUMBER|paper",
)
WITH = several(
    "--with",
    "[METHOD.]KEY=VALUE",
    "A setting for experts: of bondic's methods (pilot=0.2, gauge=paper, value_bandwidth=2), of propensities "
    "(min_propensity=0.05), of a baseline (steps=50), or of the draws from a continuous policy (draws=20, seed=1). "
    "May be repeated.",
)
METHOD = [
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
    option("--planned-rows", "Planned number of rows, if the log was stopped because of what it showed.", type=int),
    WITH,
]

# --- output -------------------------------------------------------------------------------------------

JSON = flag("--json as_json", "Print JSON and nothing else.")
OUTPUT = [
    JSON,
    flag("--force", "Replace files that exist."),
    flag("--quiet", "Print the answer in one line, nothing else."),
    flag("--verbose", "Print choices, stages and versions as well."),
]
