"""A folder of results: made beside its place under another name, then moved, so that nothing is left half-written.

`--force` replaces a whole result: files of the old one that the new one does not have (a certificate with rows, a summary
of other numbers) go. Files that bondic did not write stay where they are.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from bondic.claims import Status
from bondic.cli.interrupt import unfinished
from bondic.data.io.encode import category_note
from bondic.data.io.loaded import LoadedLog
from bondic.errors import Doubt, InvalidInput, printable
from bondic.proofs.certificate import Certificate
from bondic.report.exports import FORMAT as RESULT_FORMAT

WRITTEN = (
    "report.html", "certificate.json", "certificate.npz", "result.json", "configuration.toml", "result.csv", "summary.md",
    "terms.png", "terms.svg", "terms.pdf",
)  # fmt: skip
"""Every name under which a command writes into its folder."""


EXIT_CODES = {Status.INTERVAL: 0, Status.REJECTED: 3, Status.TRIVIAL: 4}
"""What a command that evaluates ends with."""
_READING = ("memory", "columns", "missing", "text", "actions", "one_step", "trust_pickle")
"""Options of `evaluate` and `verify` that say how the log is read."""


def say_doubts(notes: Sequence[str]) -> None:
    """What touches validity is said on standard error, whatever else is asked for: --quiet and --json as well."""
    for note in notes:
        if isinstance(note, Doubt):
            click.echo(f"warning: {printable(note)}", err=True)


def print_notes(console: Console, notes: Sequence[str]) -> None:
    """How the log was read; what touches validity was said already."""
    for note in notes:
        if not isinstance(note, Doubt):
            console.print(f"note: {printable(note)}", highlight=False, markup=False, soft_wrap=True)


def shareable_notes(notes: Sequence[str], loaded: LoadedLog | None) -> tuple[str, ...]:
    """Notes without those that list the values of an observation: one of them may be a single row's."""
    codings = {} if loaded is None else loaded.encodings
    listing = {category_note(name, coding) for name, coding in codings.items() if coding.kind != "actions"}
    return tuple(note for note in notes if note not in listing)


def verify_command(options: Mapping[str, Any], certificate: Certificate) -> str:
    """What a reader types to check the result: the log as it was named, and every option that says how to read it."""
    words = ["bondic", "verify", str(options["out"] / "certificate.json"), options["log"]]
    asked, told = certificate.asked, list(_READING)
    if asked.answers.next is None:
        told = ["policy", "policy_output", *told]
    if asked.start.observations is None:
        told = ["initial", *told]
    for name in told:
        value = options.get(name)
        if name == "actions" and value:
            value = ",".join(value)
        for item in value if isinstance(value, tuple | list) else [value]:
            if item not in (None, False):
                words += [f"--{name.replace('_', '-')}", *([] if item is True else [str(item)])]
    return shlex.join(words)


@contextmanager
def result_folder(target: Path, *, force: bool) -> Iterator[Path]:
    """A folder to write into; it becomes `target` when the work is done, and disappears when it fails."""
    refuse_existing(target, force=force)
    place = target.resolve()  # `.` and links have no name of their own
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        working = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}."))
    except OSError as problem:
        raise InvalidInput(f"{target.parent} cannot be written to ({problem.strerror or problem}).") from problem
    try:
        with unfinished(working):
            yield working
            working.chmod(0o755)
        _move(working, place)
    except OSError as problem:
        raise InvalidInput(
            f"{target} could not be written ({problem.strerror or problem}). Nothing was left behind."
        ) from problem
    finally:
        shutil.rmtree(working, ignore_errors=True)


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Files of a folder that is moved into its place as a whole."""
    for name, text in texts.items():
        (folder / name).write_bytes(text.encode())


def refuse_existing(target: Path, *, force: bool) -> None:
    """Before any long work."""
    if target.is_file():
        raise InvalidInput(f"{target} is a file; --out names a folder.")
    if not target.is_dir() or not any(target.iterdir()):
        return
    if not force:
        raise InvalidInput(f"{target} exists already and is not empty. Choose another --out, or pass --force.")
    taken = [name for name in WRITTEN if os.path.lexists(target / name)]
    if taken and not _is_result(target):
        raise InvalidInput(
            f"{target} holds {taken[0]}, and no result.json of bondic beside it: --force replaces results of bondic, not "
            "files of others. Choose another --out, or move the file away."
        )


def _is_result(folder: Path) -> bool:
    """Whether a command wrote this folder: its result.json says so, or its certificate (all that older versions left)."""
    certificate = _format(folder / "certificate.json")
    return _format(folder / "result.json") == RESULT_FORMAT or certificate.startswith("bondic certificate ")


def _format(path: Path) -> str:
    """What a JSON file says about its own format; empty for every other file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(found.get("format")) if isinstance(found, dict) else ""


def _move(working: Path, place: Path) -> None:
    """The old result steps aside as a whole before the new one comes in, and returns if that fails: never a mixture."""
    if not place.exists():
        working.rename(place)
        return
    new = sorted(item.name for item in working.iterdir())
    assert set(new) <= set(WRITTEN), new
    aside = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}.old."))
    try:
        for name in WRITTEN:
            if os.path.lexists(place / name):
                os.replace(place / name, aside / name)
        for name in new:
            os.replace(working / name, place / name)
    except BaseException:
        for name in new:
            if not os.path.lexists(working / name):
                (place / name).unlink(missing_ok=True)
        for item in aside.iterdir():
            os.replace(item, place / item.name)
        aside.rmdir()  # an old file that could not return keeps its folder
        raise
    shutil.rmtree(aside, ignore_errors=True)
