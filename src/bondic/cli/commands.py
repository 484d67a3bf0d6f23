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
    "auto", "sequential", "dual", "propensities", "tis", "pdis", "sntis", "snpdis", "tis-hoeffding", "pdis-hoeffding",
    "is-percentile", "is-bca", "hcope", "pdis-betting", "dr-betting", "dm", "dm-neural", "dr", "mis", "lstd", "drl",
    "coindice", "model", "duan-wang", "feng2020", "lipschitz",
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
        "module:object, a file (ONNX, NPZ, ...), 'columns' (the log holds its probabilities of all actions), or 'logged' (of "
        "the logged actions).",
        required=True,
        metavar="SPEC",
    ),
    opt.default(
        "--method",
        "auto",
        "sequential, dual, propensities, or the short name of a baseline; auto: propensities where the log "
        "has them and they are useful, else sequential where it applies, else dual.",
        shell_complete=_methods,
        callback=_known_methods,
    ),
]
_REQUIRED = [
    opt.option(
        "--require-above",
        "End with exit code 5 unless the interval shows that the value is at least this. Answer and files are "
        "written either way.",
        type=float,
        metavar="X",
    ),
    opt.option("--require-below", "The same for a value of at most this, such as a cost.", type=float, metavar="X"),
]
_FILES = [
    opt.default("--out", Path("bondic-out"), "Folder.", type=opt.PATH),
    opt.flag("--no-rows", "Keep every single row out of report and certificate."),
    opt.flag("--larger-radii", "Also the interval at 2 and 5 times the radius of Q: takes three times as long."),
    opt.flag("--json as_json", "Print the result as JSON and nothing else."),
    opt.flag("--csv as_csv", "Also write result.csv."),
    opt.flag("--markdown", "Also write summary.md."),
    opt.choice("--plot", PICTURES, "Also write a picture of the terms."),
    opt.default("--title", "Policy evaluation", "Heading of the report."),
    *_WORK,
]
_LINES = [
    opt.several("--policy policies", "SPEC", "May be repeated.", required=True),
    opt.several(
        "--method methods",
        None,
        "As in evaluate; may be repeated; 'all'.",
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
        "--policy", "Also check that this policy gives the stored answers (needed if none are).", metavar="SPEC"
    ),
    *opt.POLICY_OUTPUT,
    opt.option("--initial", "File with the initial states, where a sample of them was withheld.", type=opt.PATH),
    opt.several(
        "--import modules",
        "MODULE|FILE.py",
        "Your module that registers a kernel, noise bound or proof which the certificate uses. Its code runs. May be repeated.",
    ),
    opt.default(
        "--retest/--no-retest",
        True,
        "Test the class of value functions with instruments that the certificate does not name.",
    ),
    *_WORK,
]
_WATCHED = [
    opt.option(
        "--log", "New rows, or the whole log as it is now.", required=True, metavar="FILE", shell_complete=_files
    ),
    opt.option("--policy", "module:object, or a file (ONNX, NPZ, ...).", required=True, metavar="SPEC"),
    opt.option("--planned-rows", "About how many rows there will be.", type=int, required=True),
    opt.default("--alpha", 0.1, "Probability that any of all intervals may miss the value."),
    opt.default("--side", "both", "Interval, or one bound.", type=click.Choice(["both", "lower", "upper"])),
    opt.option("--radius", "Radius of Q, fixed beforehand. Default: chosen by bondic on the pilot.", type=float),
    opt.option("--pilot", "Rows before the first that count: a share of the planned ones, or a number.", type=str),
    opt.default("--value-bandwidth", opt.VALUE_BANDWIDTH, "Bandwidth of Q, in medians of distances."),
    opt.flag("--json as_json", "Print the update as JSON and nothing else."),
    opt.flag("--quiet", "Print the answer in one line, nothing else."),
]
_PLANNED = [
    opt.choice("--kind", KINDS, "Kind of log, where there is none yet."),
    opt.option("--length", "The length that the interval should have: how many rows does it take?", type=float),
    opt.option(
        "--rows", "The number of rows that there will be: how long will the interval be?", type=click.IntRange(min=1)
    ),
    opt.default("--n-actions", 2, "Actions to choose from."),
    opt.default("--n-states", 10, "States of a table; for numbers, how many situations differ."),
    opt.default(
        "--largest-ratio",
        2.0,
        "With propensities: the largest ratio of the policies' probabilities of an action. Else: how many times more often "
        "the policy visits a pair than the log does, at most.",
    ),
    opt.default(
        "--noise",
        0.1,
        "Deviation of one outcome as a share of the value range; 0 where state and action decide what follows.",
    ),
    opt.default("--alpha", 0.1, "Probability that the interval may miss the value."),
    opt.option("--policy", "With a LOG: as in evaluate.", metavar="SPEC"),
    opt.flag("--json as_json", "Print JSON and nothing else."),
    _MEMORY,
]
_DEMO = [
    opt.default("--out", Path("bondic-demo"), "Folder.", type=opt.FOLDER),
    opt.default("--alpha", 0.1, "Total error probability."),
    opt.flag("--json as_json", "Print the result as JSON and nothing else."),
    opt.flag("--force", "Replace an earlier result."),
    opt.flag("--quiet", "Print one line and no progress."),
]

COMMANDS = (
    _command(
        "check",
        "Read LOG, say how it was understood, and draw its columns; exit code 2 with the row when something is wrong.",
        *(_LOG, opt.CONFIG, opt.LOG, opt.STATES),
        short="Say what is in a log and whether it can be used.",
    ),
    _command(
        "compare",
        """Evaluate every policy with every method on LOG. Each interval carries its guarantee.

        Without --joint each interval holds at 1 - alpha on its own: whoever picks among several lines afterwards, policies
        or methods, needs --joint.
        """,
        *(_LOG, opt.CONFIG, _LINES, opt.QUESTION, opt.METHOD, opt.LOG, opt.STATES, opt.OUTPUT),
        short="Several policies or methods side by side.",
    ),
    _command("demo", "Evaluate a policy on the log that ships with bondic and write a report.", _DEMO),
    _command(
        "evaluate",
        """Evaluate a policy on LOG: Parquet (file or folder), Feather, CSV, JSON lines, NPZ, HDF5, Vowpal Wabbit or minari:NAME.

        Exit code: 0 interval, 3 the log contradicts the assumptions, 4 the log adds nothing, 5 a requirement is not met, 2 bad
        input.
        """,
        *(_LOG, _ONE, opt.CONFIG, opt.QUESTION, opt.METHOD, opt.LOG, opt.STATES, _REQUIRED, _FILES, opt.OUTPUT),
        short="What would a policy have earned? An interval from a log.",
    ),
    _command(
        "monitor",
        """Look at a log while it grows: an interval after every update, all of them valid at once.

        The first call makes FOLDER and writes down what is stated. Later calls append: FILE holds the new rows, or the whole
        log as it is now. FOLDER/history.csv has a line for every update, FOLDER/certificates what each has shown.

        Exit code as for evaluate, for all updates together.
        """,
        *(_FOLDER, opt.CONFIG, _WATCHED, opt.QUESTION, opt.LOG, opt.STATES),
        short="An interval that may be looked at while the log grows.",
    ),
    _command(
        "plan",
        """Say how many rows an interval of some length takes: before there is a log (--kind), or from the first rows of LOG.

        Expected lengths, not guaranteed ones. Nothing is written.
        """,
        *(
            click.argument("log", required=False, shell_complete=_files),
            opt.CONFIG,
            _PLANNED,
            opt.QUESTION,
            opt.LOG,
            opt.STATES,
        ),
        short="How many rows does it take?",
    ),
    _command(
        "verify",
        "CERTIFICATE is NAME.json (NAME.npz beside it) or the folder of a result, LOG the log it was made from, in any format "
        "that can be read.",
        *(click.argument("certificate", type=opt.PATH), _LOG, opt.CONFIG, _CHECKS, opt.LOG),
        short="Re-check a certificate against its log.",
    ),
)
