"""Every command with its options; what it does is imported when it runs, so that --help and completion are instant."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from bondic.cli import options as opt
from bondic.cli.config import load_config
from bondic.errors import did_you_mean, one_line

METHODS = (
    "auto", "table", "groups", "sequential", "dual", "propensities", "tis", "pdis", "sntis", "snpdis", "tis-hoeffding",
    "pdis-hoeffding", "is-percentile", "is-bca", "hcope", "pdis-betting", "dr-betting", "dm", "dm-neural", "dr", "mis", "lstd",
    "drl", "coindice", "model", "duan-wang", "feng2020", "lipschitz",
)  # fmt: skip
"""bondic's own, and the names of bondic.baselines.registry."""
KINDS = ("one-step", "episodes", "table", "continuous")
"""Those of bondic.advice.design."""
ENGINES = ("auto", "pairs", "series", "cutoff", "reference", "cuda", "cuda32")
"""Those of bondic.sums.standard."""
PICTURES = ("png", "svg", "pdf")


def _command(
    name: str, words: str, *parts: opt.Decorator | list[opt.Decorator], short: str | None = None
) -> click.Command:
    """A command with its options; what it does is a function `command` in the module of its name."""

    def run(**options: Any) -> Any:
        return importlib.import_module(f"bondic.cli.{name}").command(**options)

    groups = [part if isinstance(part, list) else [part] for part in parts]
    return click.command(name, help=words, short_help=short)(opt.add_options(*groups)(run))


def _methods(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    del ctx
    names = (*METHODS, "all") if parameter.multiple else METHODS
    return [CompletionItem(name) for name in names if name.startswith(begun)]


def _known_methods(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """A name that no method has is refused before a log is read."""
    known = (*METHODS, "all") if parameter.multiple else METHODS
    for name in value if parameter.multiple else [value]:
        if name not in known:
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


def _picture(ctx: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    """The word that evaluate takes does here as well, so that one file of options serves both."""
    del ctx, parameter
    return Path(f"comparison.{value}") if str(value) in PICTURES else value


_MEMORY = opt.option("--memory", "Read the log in batches within this budget, e.g. 2GB (Parquet).", metavar="SIZE")


_WORK = [
    _MEMORY,
    opt.choice(
        "--engine",
        ENGINES,
        "How sums over pairs are made; auto takes the cheapest, cuda and cuda32 (single precision) an NVIDIA GPU.",
    ),
    opt.option(
        "--executor",
        "Where the rows of a Parquet log are worked on: serial, threads://N, dask://HOST:PORT (a scheduler), dask://N (N "
        "processes of this machine), ray://HOST:PORT, ray://N. Default: threads of this process.",
        metavar="NAME",
    ),
    opt.option("--checkpoints", "Keep results of finished parts here: the same command continues.", type=opt.FOLDER),
    opt.flag("--send-policy-by-pickle", "Send the policy to other processes as a pickle, not as a file they read."),
]


def _begun(ctx: click.Context, parameter: click.Parameter, folder: Path) -> Path:
    """What was stated when the folder was begun need not be stated again."""
    stated = folder / "configuration.toml"
    if stated.is_file():
        load_config(ctx, parameter, stated)
    return folder


_FOLDER = click.argument("folder", type=opt.FOLDER, is_eager=True, callback=_begun)
_LOG = click.argument("log", shell_complete=_files)
_ONE = [
    opt.option(
        "--policy",
        "The new policy: module:object, a file (ONNX, NPZ, ...), 'columns' (the log holds its probabilities of all actions), "
        "or 'logged' (the log holds its probabilities of the logged actions).",
        required=True,
        metavar="SPEC",
    ),
    opt.default(
        "--method",
        "auto",
        "table, groups, sequential, dual, propensities, or the short name of a baseline. auto: propensities if the log has them "
        "and they are useful, else table or sequential where states are names, and groups where they are numbers: the value "
        "range, and what every allowance would give.",
        shell_complete=_methods,
        callback=_known_methods,
    ),
]
_REQUIRED = [
    opt.option(
        "--require-above",
        "End with exit code 5 unless the interval shows that the value is at least this. Answer and files are "
        "written either way. With groups the largest allowance up to which it is shown is printed.",
        type=float,
        metavar="X",
    ),
    opt.option("--require-below", "The same for a value of at most this, such as a cost.", type=float, metavar="X"),
]
_FILES = [
    opt.default("--out", Path("bondic-out"), "Folder for the results.", type=opt.PATH),
    opt.flag("--no-rows", "Keep single rows out of the report and the certificate."),
    opt.flag("--json as_json", "Print the result as JSON and nothing else."),
    opt.flag("--csv as_csv", "Also write result.csv."),
    opt.flag("--markdown", "Also write summary.md."),
    opt.choice("--plot", PICTURES, "Also write a picture of the terms."),
    opt.default("--title", "Policy evaluation", "Heading of the report."),
    *_WORK,
]
_LINES = [
    opt.several("--policy policies", "SPEC", "A policy, as in evaluate. May be repeated.", required=True),
    opt.several(
        "--method methods",
        None,
        "As in evaluate, or 'all'. May be repeated.",
        default=["auto"],
        show_default=True,
        shell_complete=_methods,
        callback=_known_methods,
    ),
    opt.flag("--joint", "Divide alpha over all lines (policies times methods), so that all hold at once."),
    opt.option(
        "--plot", "Write a picture (.png, .svg or .pdf; `png` is comparison.png).", type=opt.PATH, callback=_picture
    ),
    opt.option("--report", "Write picture and table as a page (.html).", type=opt.PATH),
    opt.flag("--json as_json", "Print JSON and nothing else."),
    _MEMORY,
]
_CHECKS = [
    opt.option(
        "--policy",
        "Also check that this policy gives the stored answers. Needed if the certificate stores none.",
        metavar="SPEC",
    ),
    *opt.POLICY_OUTPUT,
    opt.option("--initial", "File with the initial states, if the certificate does not hold them.", type=opt.PATH),
    opt.several(
        "--import modules",
        "MODULE|FILE.py",
        "Your module with a kernel, noise bound or proof that the certificate uses. Its code is run. May be repeated.",
    ),
    opt.flag(
        "--replay",
        "Make the plan again, every block from the log cut before it, and answer with the interval of that plan.",
    ),
    *_WORK,
]
_WATCHED = [
    opt.option(
        "--log", "New rows, or the whole log as it is now.", required=True, metavar="FILE", shell_complete=_files
    ),
    opt.option(
        "--policy",
        "module:object, a file (ONNX, NPZ, ...), 'columns' or 'logged' (the log holds its probabilities), as in evaluate.",
        required=True,
        metavar="SPEC",
    ),
    opt.option("--planned-rows", "About how many rows there will be.", type=int, required=True),
    opt.default("--alpha", 0.1, "Probability that any of the intervals misses the value."),
    opt.default("--side", "both", "Interval, or one bound.", type=click.Choice(["both", "lower", "upper"])),
    opt.RADIUS,
    opt.option(
        "--pilot", "First rows that are set aside for tuning: a share of the planned rows, or a number.", type=str
    ),
    opt.default(
        "--value-bandwidth", opt.VALUE_BANDWIDTH, "Bandwidth of the kernel behind --radius, in medians of distances."
    ),
    opt.several(
        "--with",
        "KEY=VALUE",
        "What you state about the log's propensities, such as least_behavior_prob=0.05 or off_by=1.2. May be repeated.",
    ),
    opt.flag("--json as_json", "Print the update as JSON and nothing else."),
    opt.flag("--quiet", "Print the answer in one line, nothing else."),
]
_PLANNED = [
    opt.choice("--kind", KINDS, "Kind of log, if there is no log yet."),
    opt.option("--length", "The length that the interval should have. The answer is a number of rows.", type=float),
    opt.option("--rows", "The number of rows that there will be. The answer is a length.", type=click.IntRange(min=1)),
    opt.default("--n-actions", 2, "Number of actions."),
    opt.default(
        "--n-states",
        10,
        "Number of states in a table; for numbers, your guess of how many different situations there are.",
    ),
    opt.default(
        "--largest-ratio",
        2.0,
        "With propensities: the largest ratio of an action's probability under the new policy to that in the log. Otherwise: "
        "at most how many times more often the policy visits a state-action pair than the log does.",
    ),
    opt.default(
        "--noise",
        0.1,
        "Standard deviation of one outcome as a share of the value range; 0 if state and action determine what follows.",
    ),
    opt.default("--alpha", 0.1, "Probability that the interval misses the value."),
    opt.option("--policy", "With a LOG: as in evaluate.", metavar="SPEC"),
    opt.flag("--json as_json", "Print JSON and nothing else."),
    _MEMORY,
]
_DEMO = [
    opt.default("--out", Path("bondic-demo"), "Folder for the results.", type=opt.FOLDER),
    opt.default("--alpha", 0.1, "Probability that the interval misses the value."),
    opt.flag("--json as_json", "Print the result as JSON and nothing else."),
    opt.flag("--force", "Replace an earlier result."),
    opt.flag("--quiet", "Print one line and no progress."),
]

COMMANDS = (
    _command(
        "check",
        "Read LOG, print how it was understood, and show its columns. If something is wrong, the message names the row and the "
        "exit code is 2.",
        *(_LOG, opt.CONFIG, opt.LOG, opt.STATES),
        short="Show what is in a log, and whether it can be used.",
    ),
    _command(
        "compare",
        """Evaluate every policy with every method on LOG. Each interval is shown with its guarantee.

        Without --joint each interval holds at 1 - alpha by itself. If you pick one of several policies or methods after seeing
        the intervals, you need --joint.
        """,
        *(_LOG, opt.CONFIG, _LINES, opt.QUESTION, opt.METHOD, opt.LOG, opt.STATES, opt.OUTPUT),
        short="Compare several policies or methods.",
    ),
    _command("demo", "Evaluate a policy on the log that ships with bondic and write a report.", _DEMO),
    _command(
        "evaluate",
        """Evaluate a policy on LOG: Parquet (file or folder), Feather, CSV, JSON lines, NPZ, HDF5, Vowpal Wabbit or minari:NAME.

        Exit codes: 0 an interval, 2 bad input, 3 the log contradicts the assumptions, 4 the log adds nothing, 5 a requirement
        is not met.
        """,
        *(_LOG, _ONE, opt.CONFIG, opt.QUESTION, opt.METHOD, opt.LOG, opt.STATES, _REQUIRED, _FILES, opt.OUTPUT),
        short="What would a policy have earned? An interval from a log.",
    ),
    _command(
        "monitor",
        """Evaluate a log that grows: an interval after every update, all of them valid at once.

        The first call creates FOLDER and records what you state. Later calls add rows: FILE holds the new rows, or the whole
        log as it is now. FOLDER/history.csv has a line and FOLDER/certificates a certificate for every update.

        The exit code is that of evaluate, for all updates together.
        """,
        *(_FOLDER, opt.CONFIG, _WATCHED, opt.QUESTION, opt.LOG, opt.STATES),
        short="Intervals for a log that grows, valid at every look.",
    ),
    _command(
        "plan",
        """Estimate how many rows an interval of a given length needs: before there is a log (--kind), or from the first rows of
        LOG.

        Lengths are expected, not guaranteed. No file is written.
        """,
        *(
            click.argument("log", required=False, shell_complete=_files),
            opt.CONFIG,
            _PLANNED,
            opt.QUESTION,
            opt.LOG,
            opt.STATES,
        ),
        short="How many rows will be needed?",
    ),
    _command(
        "verify",
        "Compute the interval again from a certificate and its log.\n\nCERTIFICATE is NAME.json (with NAME.npz beside it) or the "
        "folder of a result. LOG is the log it was made from, in any format that can be read.",
        *(click.argument("certificate", type=opt.PATH), _LOG, opt.CONFIG, _CHECKS, opt.LOG),
        short="Check a certificate against its log.",
    ),
)
