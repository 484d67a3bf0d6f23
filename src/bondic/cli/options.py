"""Options that several commands share, in the groups of --help. Nothing heavy is loaded here: --help needs it all."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from bondic.core.errors import InvalidInput, one_line
from bondic.data.hygiene.findings import ACCEPTABLE
from bondic.errors import did_you_mean

Decorator = Callable[[Any], Any]

PATH = click.Path(path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
ENGINES = ("auto", "pairs", "reference", "cuda")
"""Those of bondic.core.sums.standard."""


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


class _Settings(click.Option):
    """`--with`; `lines` are its settings and what they mean."""

    def __init__(self, *args: Any, lines: Sequence[tuple[str, str]] = (), **more: Any) -> None:
        super().__init__(*args, **more)
        self.lines = lines


class Grouped(click.Command):
    """A command whose --help lists its options in groups."""

    groups: Sequence[tuple[str, int]] = ()
    """Titles, and how many options each has, in order."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """A section per group, and one for settings; what belongs to none, such as --help, comes last."""
        options = [item for item in self.get_params(ctx) if isinstance(item, click.Option)]
        sections: list[tuple[str, Sequence[tuple[str, str]]]] = []
        settings = [("Settings of --with", item.lines) for item in options if isinstance(item, _Settings)]
        for title, count in (*self.groups, ("Other", len(options))):
            records = [item.get_help_record(ctx) for item in options[:count]]
            sections.append((title, [record for record in records if record is not None]))
            options = options[count:]
        for title, lines in (*sections[:-1], *settings, sections[-1]):
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)


def _names(ctx: click.Context, parameter: click.Parameter, value: Any) -> tuple[str, ...] | int | None:
    """`run,maintain` on the command line, a list of texts in a file: names that hold commas need the file. `10`: 0 to 9."""
    if value is None or type(value) is int:
        return value
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
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


class _Radius(click.ParamType[Any]):
    """A number, or "paper"."""

    name = "radius"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or the name of the rule."""
        return value if value == "paper" else click.FLOAT.convert(value, param, ctx)


SETTINGS: dict[str, tuple[click.ParamType[Any], Any]] = {
    "side": (click.Choice(["both", "lower", "upper"]), "both"),
    "never_terminates": (click.BOOL, False),
    "no_rows": (click.BOOL, False),
    "radius": (_Radius(), None),
    "require_below": (click.FLOAT, None),
    "groups": (click.STRING, None),
    "model": (click.STRING, None),
    "planned_rows": (click.INT, None),
    "state": (click.STRING, None),
    "learn_rows": (click.FLOAT, None),
    "learn_blocks": (click.IntRange(min=1), 1),
    "memory": (click.STRING, None),
    "engine": (click.Choice(ENGINES), None),
    "executor": (click.STRING, None),
    "trust_pickle": (click.BOOL, False),
    "policy_output": (click.Choice(["probabilities"]), None),
}
"""What `--with` may say whatever the method is, with its default; everything else belongs to a method."""
READERS = ("trust_pickle",)
CHECKERS = ("memory", "engine", "executor", "trust_pickle", "policy_output", "learn_rows", "learn_blocks")
WATCHERS = ("side", "never_terminates", "radius", "trust_pickle", "policy_output")


def split_setting(item: str) -> tuple[str | None, str, str]:
    """ "tis.steps=50" -> ("tis", "steps", "50"); "steps=50" -> (None, "steps", "50")."""
    key, sign, text = item.partition("=")
    method, dot, last = key.strip().rpartition(".")
    if not sign or not last.strip() or not text.strip():
        raise InvalidInput(f"--with {one_line(item)}: write KEY=VALUE, or METHOD.KEY=VALUE for one of several methods.")
    return (method if dot else None), last.replace("-", "_"), text.strip()


def settings(
    known: Sequence[str] = tuple(SETTINGS),
    *,
    words: str,
    lines: Sequence[tuple[str, str]] = (),
    methods: bool = False,
) -> Decorator:
    """`--with KEY=VALUE` for these settings; `methods`: keys that are none of them belong to a method.

    `lines`: settings and what they mean, each a line of its own in --help.
    """

    def read(ctx: click.Context, parameter: click.Parameter, items: tuple[str, ...]) -> tuple[str, ...]:
        found = {name: SETTINGS[name][1] for name in known}
        for item in items:
            method, key, text = split_setting(item)
            if key in known and method is None:
                found[key] = _converted(item, SETTINGS[key][0], text, parameter, ctx)
            elif not methods or (key in SETTINGS and method is None):
                raise click.BadParameter(
                    f"{one_line(item)}: there is no such setting.{did_you_mean(key, known)} There are {', '.join(known)}.",
                    ctx,
                    parameter,
                )
        ctx.params.update(found)
        return items

    form = "[METHOD.]KEY=VALUE" if methods else "KEY=VALUE"
    return several("--with", form, f"{words} May be repeated.", callback=read, cls=_Settings, lines=lines)


def _converted(item: str, kind: click.ParamType[Any], text: str, parameter: click.Parameter, ctx: click.Context) -> Any:
    try:
        return kind.convert(text, parameter, ctx)
    except click.BadParameter as problem:
        raise click.BadParameter(f"{one_line(item)}: {problem.message}", ctx, parameter) from problem


# --- question -----------------------------------------------------------------------------------------

_RANGE: dict[str, Any] = {"type": float, "nargs": 2, "metavar": "LOW HIGH"}
ALPHA = default("--alpha", 0.1, "Probability that the interval misses the value: 0.1 for 90% confidence.")
ONE_STEP = flag("--one-step", "State that every row is an episode of its own (a bandit log).")
GAMMA = option(
    "--gamma",
    "Discount in [0, 1), or 1 with --horizon. Not needed for single decisions.",
    type=float,
)
REWARD_RANGE = option(
    "--reward-range",
    "Smallest and largest possible reward: your knowledge, not the extremes of the log.",
    required=True,
    **_RANGE,
)
HORIZON = option("--horizon", "Value of the first H steps only. The log needs timesteps.", type=int)
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
    option(
        "--initial",
        "File with all initial states, and their weights in a column `weight`; sample:FILE if they are independent draws; one "
        "state as in 0.5,2. Default: the starts of this log.",
        metavar="[sample:]FILE",
    ),
    option(
        "--population",
        "States that starts (of single decisions: contexts) are independent draws of one population, and asks for its value. "
        "Default: the value in the situations of this log, wherever they come from.",
        type=click.Choice(["iid"]),
    ),
    ALPHA,
]

# --- log ----------------------------------------------------------------------------------------------

READING = [
    several(
        "--columns",
        "PART=COL[,COL...]",
        "Columns with unusual names, as in observations=age,dose or observations=lab_*. terminations=none: nothing ever ends. "
        "May be repeated.",
    ),
    option(
        "--propensity",
        "Probabilities with which the logged actions were taken: a column, 0.5 for each of two, or A=0.3,B=0.7.",
        metavar="COL|P|NAME=P,...",
    ),
    several(
        "--missing",
        "indicator|COL=VALUE",
        "Fill gaps in observations with 0 ('indicator') or VALUE, and add a 0/1 column. Default: gaps are refused. "
        "May be repeated.",
    ),
    several(
        "--text",
        "one-hot|codes|COL=NAME[,NAME...]",
        "How text in observations becomes numbers; or the values that a text column may have. May be repeated.",
    ),
    option(
        "--actions",
        "Names of text actions, in the order of the policy's probabilities; or how many actions there are, K for 0 to K - 1.",
        type=click.UNPROCESSED,
        callback=_names,
        metavar="NAME,NAME,...",
    ),
]
STATES = several(
    "--categorical",
    "obs|none|COL",
    "Observation columns that hold names, not quantities: all, none, or this one. Default: decided from the log. "
    "May be repeated.",
)
ACCEPT = several(
    "--accept",
    "KIND",
    "State that a finding about the log is no fault here; its message names the KIND. May be repeated.",
    type=click.Choice(list(ACCEPTABLE)),
)
# --- policy -------------------------------------------------------------------------------------------

POLICY_WORDS = (
    "The new policy: module:object, a file (NPZ, ...), an action, which it takes everywhere, or its probabilities in the "
    "log, of all actions ('columns') or of the logged one ('logged'). A function f(frame) gets a table with the log's column "
    "names, any other an array."
)

# --- method -------------------------------------------------------------------------------------------

WITH = settings(
    words="A setting of the list below, or of the method.",
    lines=(
        ("side=lower|upper", "One bound instead of two."),
        ("require_below=X", "A gate: the value has to be at most X."),
        ("never_terminates=yes", "State that no episode ever ends."),
        ("planned_rows=N", "Planned length of a log that grows."),
        ("state=FILE", "File of the earlier looks of a gate or choice."),
        ("radius=R|paper", "Radius of the class of value functions."),
        ("groups=COLUMN|SPEC", "Your own groups of states."),
        ("model=SPEC", "Your own model, module:function."),
        ("min_propensity=P", "Smallest probability that the log gives to an action."),
        ("learn_rows=0.5", "--policy learns on the first half of the rows."),
        ("learn_blocks=8", "It learns again before each of 8 blocks."),
        ("no_rows=yes", "Write no row of the log to report and certificate."),
        ("memory=2GB", "Read the log in batches."),
        ("engine=cuda", "Compute on a GPU."),
        ("executor=processes://4", "Compute in 4 processes."),
        ("policy_output=probabilities", "A classifier draws its action."),
        ("trust_pickle=yes", "Load pickled files, which can run code."),
        ("draws=20, seed=1", "Draws from a policy without probabilities, and their seed."),
        ("pilot=0.2, steps=50", "Examples of settings of a method."),
    ),
    methods=True,
)
ALLOWANCE = option(
    "--allowance",
    "State how much averages, and single rows, of a group of states may differ, in units of the value.",
    type=click.UNPROCESSED,
    callback=_allowance,
    metavar="A [B]",
)

BY = option(
    "--by",
    "Also intervals for subgroups of the starts, valid together: a column of the observations, or module:function.",
    metavar="COLUMN|SPEC",
)

# --- output -------------------------------------------------------------------------------------------

QUIET = option(
    "--quiet/--verbose",
    "Print one line; or every assumption and term, and how the log was read.",
    default=None,
)
JSON = flag("--json as_json", "Print JSON and nothing else.")
OUTPUT = [
    JSON,
    flag("--force", "Replace files that exist."),
    flag("--quiet", "Print the answer in one line, nothing else."),
]
EVALUATED = [*OUTPUT[:2], QUIET]
