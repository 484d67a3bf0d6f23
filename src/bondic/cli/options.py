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
ENGINES = ("auto", "pairs", "series", "reference", "cuda", "cuda32")
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


class _Radius(click.ParamType[Any]):
    """A number, or "paper"."""

    name = "radius"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or the name of the rule."""
        return value if value == "paper" else click.FLOAT.convert(value, param, ctx)


SETTINGS: dict[str, tuple[click.ParamType[Any], Any]] = {
    "side": (click.Choice(["both", "lower", "upper"]), "both"),
    "never_terminates": (click.BOOL, False),
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
    "policy_output": (click.Choice(["probabilities", "logits", "actions"]), None),
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


def settings(known: Sequence[str] = tuple(SETTINGS), *, words: str, methods: bool = False) -> Decorator:
    """`--with KEY=VALUE` for these settings; `methods`: keys that are none of them belong to a method."""

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
    return several("--with", form, f"{words} May be repeated.", callback=read)


def _converted(item: str, kind: click.ParamType[Any], text: str, parameter: click.Parameter, ctx: click.Context) -> Any:
    try:
        return kind.convert(text, parameter, ctx)
    except click.BadParameter as problem:
        raise click.BadParameter(f"{one_line(item)}: {problem.message}", ctx, parameter) from problem


# --- question -----------------------------------------------------------------------------------------

_RANGE: dict[str, Any] = {"type": float, "nargs": 2, "metavar": "LOW HIGH"}
ALPHA = default("--alpha", 0.1, "Probability that the interval misses the value: 0.1 for 90% confidence.")
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
    option(
        "--initial",
        "File with the initial states, the whole distribution; a column `weight` may hold their weights. sample:FILE if they are "
        "independent draws from it. One state can be written out, as in 36 or 0.5,2. Default: the episode starts of the log.",
        metavar="[sample:]FILE",
    ),
    ALPHA,
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
    several(
        "--text",
        "one-hot|codes|COL=NAME[,NAME...]",
        "How text in observations is turned into numbers, or all values that a text column may have (default: those that "
        "occur). May be repeated.",
    ),
    option(
        "--actions",
        "Names of the actions, if they are text, in the order of the policy's probabilities.",
        type=click.UNPROCESSED,
        callback=_names,
        metavar="NAME,NAME,...",
    ),
]
STATES = several(
    "--categorical",
    "obs|none|COL",
    "Observation columns that hold names, not quantities: 'obs' for all of them, 'none' for none (states are compared by "
    "their distance), or names or numbers (from 0) of columns. May be repeated. Default: decided from the log, and printed.",
)
ACCEPT = several(
    "--accept",
    "KIND",
    "Accept a finding about the log or the policy that is not a fault in your case; the message about it names its kind. "
    "It becomes an assumption that you state. May be repeated.",
    type=click.Choice(list(ACCEPTABLE)),
)
# --- policy -------------------------------------------------------------------------------------------

POLICY_WORDS = (
    "The new policy: module:object, a file (ONNX, NPZ, ...), 'columns' (the log holds its probabilities of all actions), "
    "or 'logged' (the log holds its probabilities of the logged actions)."
)

# --- method -------------------------------------------------------------------------------------------

WITH = settings(
    words="A setting for experts. Statements: side=lower|upper (one bound), radius=R|paper (of the class Q), "
    "require_below=X (a gate: the value may not exceed X), "
    "never_terminates=yes, planned_rows=N (of a log that was stopped because of what it showed, or grows), state=FILE (of a gate "
    "or choice that is looked at again as the log grows), groups=COLUMN|SPEC and "
    "model=SPEC (your own, module:function). Learning: learn_rows=0.5 (--policy is a function that learns one on the first half; "
    "the other half certifies it), learn_blocks=8 (it learns again before each of 8 blocks). "
    "Of a method: pilot=0.2, gauge=paper, min_propensity=0.05, steps=50. "
    "Work: memory=2GB (read in batches), engine=cuda, executor=processes://4. Files: policy_output=logits, "
    "trust_pickle=yes. Draws: draws=20, seed=1.",
    methods=True,
)
ALLOWANCE = option(
    "--allowance",
    "Where states are numbers: state how alike they are inside a group, in units of the value. One number, or two: "
    "averages and single rows.",
    type=click.UNPROCESSED,
    callback=_allowance,
    metavar="A [B]",
)

# --- output -------------------------------------------------------------------------------------------

JSON = flag("--json as_json", "Print JSON and nothing else.")
OUTPUT = [
    JSON,
    flag("--force", "Replace files that exist."),
    flag("--quiet", "Print the answer in one line, nothing else."),
]
