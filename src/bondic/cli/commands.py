"""Every command with its options; what it does is imported when it runs, so that --help and completion are instant."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from bondic.cli.options import CONFIG, LOG, METHOD, OUTPUT, PATH, POLICY_OUTPUT, QUESTION, STATES, add_options

METHODS = (
    "dual", "tis", "pdis", "sntis", "snpdis", "tis-hoeffding", "pdis-hoeffding", "is-percentile", "is-bca", "hcope", "dm",
    "dm-neural", "dr", "mis", "lstd", "drl", "coindice", "model", "duan-wang", "feng2020", "lipschitz",
)  # fmt: skip
"""`dual` and the names of bondic.baselines.registry."""
PICTURES = ("png", "svg", "pdf")


def _later(module: str) -> Callable[..., Any]:
    """The implementation of a command, a function `command` of bondic.cli."""
    found: Callable[..., Any] = importlib.import_module(f"bondic.cli.{module}").command
    return found


def _methods(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    del ctx
    names = (*METHODS, "all") if parameter.multiple else METHODS
    return [CompletionItem(name) for name in names if name.startswith(begun)]


def _files(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """A log is a file or a folder as a rule, and sometimes minari:NAME: its reader judges it."""
    del ctx, parameter
    return [CompletionItem(begun, type="file")]


def _picture(ctx: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    """The word that evaluate takes does here as well, so that one file of options serves both."""
    del ctx, parameter
    return Path(f"comparison.{value}") if str(value) in PICTURES else value


_MEMORY = click.option(
    "--memory", metavar="SIZE", help="Read the log in batches within this budget, e.g. 2GB (Parquet)."
)
_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command("check", short_help="Say what is in a log and whether it can be used.")
@click.argument("log", shell_complete=_files)
@add_options(CONFIG, LOG, STATES)
def check(log: str, **options: Any) -> int:
    """Read LOG, say how it was understood, and draw its columns; exit code 2 with the row when something is wrong."""
    return int(_later("check")(log, **options))


_FILES: list[Any] = [
    click.option("--out", type=PATH, default=Path("bondic-out"), show_default=True, help="Folder."),
    click.option("--no-rows", is_flag=True, help="Keep every single row out of report and certificate."),
    click.option("--json", "as_json", is_flag=True, help="Print the result as JSON and nothing else."),
    click.option("--csv", "as_csv", is_flag=True, help="Also write result.csv."),
    click.option("--markdown", is_flag=True, help="Also write summary.md."),
    click.option("--plot", type=click.Choice(PICTURES), help="Also write a picture of the terms."),
    click.option("--title", default="Policy evaluation", show_default=True, help="Heading of the report."),
    _MEMORY,
]


@click.command("evaluate", short_help="What would a policy have earned? An interval from a log.")
@click.argument("log", shell_complete=_files)
@click.option("--policy", required=True, metavar="SPEC", help="module:object, a file (ONNX, NPZ, ...), or 'columns'.")
@click.option(
    "--method",
    default="dual",
    show_default=True,
    shell_complete=_methods,
    help="dual, or the short name of a baseline.",
)
@add_options(CONFIG, QUESTION, METHOD, LOG, STATES, _FILES, OUTPUT)
@click.pass_context
def evaluate(ctx: click.Context, /, **options: Any) -> int:
    """Evaluate a policy on LOG: Parquet (file or folder), CSV, NPZ, HDF5 or minari:NAME.

    Exit code: 0 interval, 3 the log contradicts the assumptions, 4 the log adds nothing, 2 bad input.
    """
    return int(_later("evaluate")(ctx, **options))


_LINES: list[Any] = [
    click.option("--policy", "policies", multiple=True, required=True, metavar="SPEC", help="May be repeated."),
    click.option(
        "--method",
        "methods",
        multiple=True,
        default=["dual"],
        show_default=True,
        shell_complete=_methods,
        help="May be repeated; 'all'.",
    ),
    click.option(
        "--joint", is_flag=True, help="Divide alpha over all lines (policies times methods), so that all hold at once."
    ),
    click.option(
        "--plot", type=PATH, callback=_picture, help="Write a picture (.png, .svg or .pdf; `png` is comparison.png)."
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else."),
    _MEMORY,
]


@click.command("compare", short_help="Several policies or methods side by side.")
@click.argument("log", shell_complete=_files)
@add_options(CONFIG, _LINES, QUESTION, METHOD, LOG, STATES, OUTPUT)
def compare(log: str, **options: Any) -> int:
    """Evaluate every policy with every method on LOG. Each interval carries its guarantee.

    Without --joint each interval holds at 1 - alpha on its own: whoever picks among several lines afterwards, policies
    or methods, needs --joint.
    """
    return int(_later("compare")(log, **options))


_CHECKS: list[Any] = [
    click.option(
        "--policy", metavar="SPEC", help="Also check that this policy gives the stored answers (needed if none are)."
    ),
    *POLICY_OUTPUT,
    click.option("--initial", type=PATH, help="File with the initial states, where a sample of them was withheld."),
    click.option(
        "--retest/--no-retest",
        default=True,
        show_default=True,
        help="Test the class of value functions with instruments that the certificate does not name.",
    ),
    _MEMORY,
]


@click.command("verify", short_help="Re-check a certificate against its log.")
@click.argument("certificate", type=PATH)
@click.argument("log", shell_complete=_files)
@add_options(CONFIG, _CHECKS, LOG)
def verify(certificate: Path, log: str, **options: Any) -> None:
    """CERTIFICATE is NAME.json (NAME.npz beside it), LOG the log it was made from, in any format that can be read."""
    _later("verify")(certificate, log, **options)


@click.command("demo", help="Evaluate a policy on the log that ships with bondic and write a report.")
@click.option("--out", type=_FOLDER, default=Path("bondic-demo"), show_default=True, help="Folder.")
@click.option("--alpha", default=0.1, show_default=True, help="Total error probability.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON and nothing else.")
@click.option("--force", is_flag=True, help="Replace an earlier result.")
@click.option("--quiet", is_flag=True, help="Print one line and no progress.")
def demo(**options: Any) -> Any:
    """Evaluate, print, write, verify."""
    return _later("demo")(**options)


COMMANDS: tuple[click.Command, ...] = (check, compare, demo, evaluate, verify)
