"""Every command with its options; what it does is imported when it runs, so that --help and completion are instant."""

from __future__ import annotations

import importlib
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from bondic.cli import options as opt
from bondic.core.errors import one_line
from bondic.documents import damaged, read_json
from bondic.errors import did_you_mean
from bondic.extensions import added_methods

METHODS = ("auto", "table", "groups", "sequential", "dual", "propensities")
"""bondic's own; those of other packages are found by bondic.extensions."""
KINDS = ("one-step", "episodes", "table")
"""Those of bondic.advice.lengths."""
FORMATS = ("csv", "markdown", "png", "svg", "pdf")
STATED = "stated.json"
"""What was stated when the folder of a monitor was begun."""


def _command(
    name: str,
    words: str,
    *groups: tuple[str, list[opt.Decorator]],
    arguments: list[opt.Decorator],
    short: str | None = None,
) -> click.Command:
    """A command with its options in groups; what it does is a function `command` in the module of its name."""

    def run(**options: Any) -> Any:
        return importlib.import_module(f"bondic.cli.{name}").command(**options)

    decorators = [*arguments, *chain.from_iterable(items for _, items in groups)]
    decorated = reduce(lambda made, item: item(made), reversed(decorators), run)
    command = click.command(name, cls=opt.Grouped, help=words, short_help=short)(decorated)
    command.groups = [(title, len(items)) for title, items in groups]
    return command


def _methods(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    del ctx
    return [CompletionItem(name) for name in _every_method(parameter) if name.startswith(begun)]


def _every_method(parameter: click.Parameter) -> tuple[str, ...]:
    return (*METHODS, *added_methods(), *(("all",) if parameter.multiple else ()))


def _known_methods(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """A name that no method has is refused before a log is read."""
    for name in value if parameter.multiple else [value]:
        if name not in METHODS and name not in (known := _every_method(parameter)):
            raise click.BadParameter(
                f"there is no method {one_line(name)!r}.{did_you_mean(name, known)} There are {', '.join(known)}.",
                ctx,
                parameter,
            )
    return value


def _files(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """A log is a file or a folder as a rule, and sometimes minari:NAME: its reader judges it."""
    del ctx, parameter
    return [CompletionItem(begun, type="file")]


def _begun(ctx: click.Context, parameter: click.Parameter, folder: Path) -> Path:
    """What was stated when the folder was begun need not be stated again."""
    del parameter
    try:
        held = read_json(folder / STATED)
    except OSError:
        return folder
    ctx.default_map = {name: value for name, value in held.items() if value not in (None, [])}
    for option in ctx.command.params:
        if option.name in ctx.default_map:
            try:
                option.process_value(ctx, ctx.default_map[option.name])
            except (AttributeError, TypeError, ValueError, click.BadParameter) as problem:
                raise damaged(folder / STATED, f"{option.name}: {problem}") from problem
    return folder


_LOG = click.argument("log", shell_complete=_files)
_READ = ("Log", [*opt.READING, opt.STATES, opt.ACCEPT])
_POLICY = ("Policy", [opt.option("--policy", opt.POLICY_WORDS, required=True, metavar="SPEC")])
_POLICIES = [opt.several("--policy policies", "SPEC", "A policy, as in evaluate. May be repeated.", required=True)]
_METHOD = opt.default(
    "--method",
    "auto",
    "table, groups, sequential, dual, propensities, or a baseline. auto: propensities if the log has them, else table where "
    "states are names, and groups where they are numbers.",
    shell_complete=_methods,
    callback=_known_methods,
)
_SEVERAL_METHODS = opt.several(
    "--method methods",
    None,
    "As in evaluate, or 'all'. May be repeated.",
    default=["auto"],
    show_default=True,
    shell_complete=_methods,
    callback=_known_methods,
)
_AGAINST = opt.option(
    "--against",
    "By how much the new policy exceeds another one, or 'today', the one that made the log.",
    metavar="today|SPEC",
)
_FILES = [
    opt.several(
        "--require-above --require-better-than require",
        "X|today|SPEC",
        "A gate: the value (with --against: the gain) has to reach X, or exceed that of a policy. Exit code 0 if this is shown, "
        "5 if the opposite is, 6 if neither.",
    ),
    opt.default("--out", Path("bondic-out"), "Folder for the results.", type=opt.PATH),
    opt.several(
        "--also",
        "|".join(FORMATS),
        "Also write a table, a text or a picture. May be repeated.",
        type=click.Choice(FORMATS),
    ),
]
_TABLES = [
    opt.flag("--joint", "Divide alpha over all lines, so that all intervals hold together."),
    opt.option("--plot", "Write a picture (.png, .svg or .pdf).", type=opt.PATH),
    opt.option("--report", "Write picture and table as a page (.html).", type=opt.PATH),
]
_CHECKS = [
    opt.option(
        "--policy",
        "Check that this policy gives the stored answers, or give them where none are stored.",
        metavar="SPEC",
    ),
    opt.option("--against", "The same for the other policy of a difference.", metavar="SPEC"),
    opt.option("--initial", "Initial states, if the certificate does not hold them.", metavar="FILE"),
    opt.several(
        "--import modules",
        "MODULE|FILE.py",
        "Your module that the certificate uses. Its code is run. May be repeated.",
    ),
    opt.option("--by", "Also the intervals of all subgroups, as in evaluate.", metavar="COLUMN|SPEC"),
    opt.flag(
        "--replay",
        "Refuse where the plan cannot be made again. With --policy it is made again anyway, every block from the rows before it.",
    ),
    opt.settings(
        opt.CHECKERS,
        words="A setting of the list below.",
        lines=(
            ("memory=2GB", "Read the log in batches."),
            ("engine=reference", "Sums from the definition."),
            ("executor=processes://4", "Compute in 4 processes."),
            ("policy_output=probabilities", "A classifier draws its action."),
            ("learn_rows=0.5", "--policy is the function that learns."),
            ("trust_pickle=yes", "Load pickled files, which can run code."),
        ),
    ),
]
_PLANNED = [
    opt.choice("--kind", KINDS, "Kind of log: one-step and episodes have propensities.", required=True),
    opt.option("--length", "Length of the interval; the answer is a number of rows.", type=float),
    opt.option("--rows", "Number of rows; the answer is a length.", type=click.IntRange(min=1)),
    opt.default("--n-actions", 2, "Number of actions."),
    opt.default("--n-states", 10, "Number of states in a table."),
    opt.default(
        "--max-ratio",
        2.0,
        "Largest ratio of the new policy to the log: of an action's probability; for a table, of visits to a state-action "
        "pair.",
    ),
    opt.default(
        "--noise",
        0.1,
        "Standard deviation of one outcome, as a share of the value range.",
    ),
]

COMMANDS = (
    _command(
        "check",
        "Show how LOG is read, its columns and its faults.\n\nExit codes: 0 it can be used, 2 it cannot, and the message names "
        "the row.",
        (
            "Log",
            [
                opt.ONE_STEP,
                *opt.READING,
                opt.STATES,
                opt.settings(opt.READERS, words="trust_pickle=yes: load pickled files, which can run code."),
            ],
        ),
        arguments=[_LOG],
        short="Show what is in a log, and whether it can be used.",
    ),
    _command(
        "compare",
        """Evaluate every policy with every method on LOG. Each interval is shown with its guarantee.

        Without --joint each interval holds at 1 - alpha by itself: use --joint if you pick one after seeing them. With
        --against the intervals are those of differences, and hold together.
        """,
        ("Question", opt.QUESTION),
        _READ,
        ("Policies", [*_POLICIES, _AGAINST]),
        ("Methods", [_SEVERAL_METHODS, opt.ALLOWANCE, opt.WITH]),
        ("Output", [*_TABLES, *opt.OUTPUT]),
        arguments=[_LOG],
        short="Compare several policies or methods.",
    ),
    _command(
        "choose",
        """Take the policy that LOG shows to be better than the incumbent, or keep the incumbent.

        A policy that is worse than the incumbent is taken with probability at most alpha. Exit codes: 0 a policy is taken, 2 bad
        input, 6 the incumbent is kept.
        """,
        ("Question", opt.QUESTION),
        _READ,
        (
            "Policies",
            [
                *_POLICIES,
                opt.default(
                    "--incumbent",
                    "today",
                    "The policy that is kept unless another one is shown to be better.",
                    metavar="today|SPEC",
                ),
            ],
        ),
        ("Method", [_METHOD, opt.ALLOWANCE, opt.WITH]),
        ("Output", [opt.JSON, opt.flag("--quiet", "Print the answer in one line, nothing else.")]),
        arguments=[_LOG],
        short="Which policy is shown to be better than today's?",
    ),
    _command(
        "demo",
        "Evaluate a policy on a log that ships with bondic. A report is written.",
        (
            "Options",
            [
                opt.default("--out", Path("bondic-demo"), "Folder for the results.", type=opt.FOLDER),
                opt.ALPHA,
                *opt.EVALUATED,
            ],
        ),
        arguments=[],
    ),
    _command(
        "evaluate",
        """An interval for the value of a new policy.

        LOG: Parquet (file or folder), Feather, CSV, JSON lines, NPZ or minari:NAME.

        Exit codes: 0 an interval (a gate: approved), 2 bad input, 3 the log contradicts the assumptions, 4 the log adds nothing,
        5 a gate refuses, 6 a gate cannot tell.
        """,
        ("Question", opt.QUESTION),
        _READ,
        ("Policy", [*_POLICY[1], _AGAINST, opt.BY]),
        ("Method", [_METHOD, opt.ALLOWANCE, opt.WITH]),
        ("Output", [*_FILES, *opt.EVALUATED]),
        arguments=[_LOG],
        short="What would a policy have earned? An interval from a log.",
    ),
    _command(
        "monitor",
        """Evaluate a log that grows: an interval after every update, all of them valid at once.

        The first call creates FOLDER and records what you state. Later calls add rows: FILE holds the new rows, or the whole
        log as it is now. FOLDER/history.csv has a line and FOLDER/certificates a certificate for every update.

        The exit code is that of evaluate, for all updates together.
        """,
        (
            "Question",
            [
                *opt.QUESTION,
                opt.option("--planned-rows", "Number of rows that you plan, roughly.", type=int, required=True),
            ],
        ),
        (
            "Log",
            [
                opt.option(
                    "--log",
                    "New rows, or the whole log as it is now.",
                    required=True,
                    metavar="FILE",
                    shell_complete=_files,
                ),
                *opt.READING,
                opt.STATES,
                opt.ACCEPT,
            ],
        ),
        _POLICY,
        (
            "Method",
            [
                opt.settings(
                    opt.WATCHERS,
                    words="side, never_terminates, radius, trust_pickle, policy_output, as in evaluate, or a setting of the "
                    "method.",
                    methods=True,
                )
            ],
        ),
        ("Output", [opt.JSON, opt.flag("--quiet", "Print the answer in one line, nothing else.")]),
        arguments=[click.argument("folder", type=opt.FOLDER, is_eager=True, callback=_begun)],
        short="Intervals for a log that grows, valid at every look.",
    ),
    _command(
        "plan",
        """Estimate how many rows an interval of a given length needs, or how long it will be, before there is a log.

        Lengths are expected, not guaranteed. No file is written. With a log, `evaluate` says how many rows are missing.
        """,
        ("Plan", _PLANNED),
        ("Question", [opt.GAMMA, opt.REWARD_RANGE, opt.HORIZON, opt.ALPHA]),
        ("Output", [opt.JSON]),
        arguments=[],
        short="How many rows will be needed?",
    ),
    _command(
        "verify",
        "Compute the interval again from a certificate and its log.\n\nCERTIFICATE is NAME.json (with NAME.npz beside it) or the "
        "folder of a result. LOG is the log it was made from, in any format that can be read.\n\nExit codes: 0 verified, 1 not "
        "verified, 2 bad input, 7 all follows, but when the plan was made was not checked (pass --policy).",
        ("Check", _CHECKS),
        ("Log", [opt.ONE_STEP, *opt.READING]),
        arguments=[click.argument("certificate", type=opt.PATH), _LOG],
        short="Check a certificate against its log.",
    ),
)
