"""A folder of results: made beside its place under another name, then moved, so that nothing is left half-written.

Replacing a result replaces the whole: files of the old one that the new one does not have (a certificate with rows, a summary
of other numbers) go. Files that bondic did not write stay where they are.
A program that is killed leaves a hidden folder beside the place, `.NAME.bondic-...`, and the place as it was or as it will be.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bondic.core.errors import InvalidInput
from bondic.errors import did_you_mean

WRITTEN = (
    "report.html", "certificate.json", "certificate.npz", "result.json", "configuration.toml", "result.csv", "summary.md",
    "terms.png", "terms.svg", "terms.pdf",
)  # fmt: skip
"""Every name under which something is written into such a folder."""
_RESULT = "result.json"
RESULT_FORMAT = "bondic result 1"
"""The format in result.json: it marks a folder as written by bondic."""
UNFINISHED: set[Path] = set()
"""Folders that an end of the program in between has to remove."""
_WORKING = ".bondic-"
"""In the name of every folder that is written into, between the name of its place and eight characters of its own."""
_OLD = "old"
"""Inside of it: the result that is being replaced."""


@contextmanager
def result_folder(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """A folder to write into; it becomes `target` when the work is done, and disappears when it fails."""
    refuse_existing(target, overwrite=overwrite)
    with working_folder(target) as (working, place):
        UNFINISHED.add(working)
        try:
            yield working
            working.chmod(0o755)
            UNFINISHED.discard(working)
            _move(working, place)
        except OSError as problem:
            raise InvalidInput(
                f"{target} could not be written ({problem.strerror or problem}). Nothing was left behind."
            ) from problem
        finally:
            UNFINISHED.discard(working)


@contextmanager
def working_folder(target: Path) -> Iterator[tuple[Path, Path]]:
    """(A hidden folder beside the place of `target`, that place); the folder is gone afterwards, unless it was renamed."""
    place = target.resolve()  # `.` and links have no name of their own
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        working = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}{_WORKING}"))
    except OSError as problem:
        raise InvalidInput(f"{target.parent} cannot be written to ({problem.strerror or problem}).") from problem
    try:
        yield working, place
    finally:
        shutil.rmtree(working, ignore_errors=True)


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Files of a folder that is moved into its place as a whole."""
    for name, text in texts.items():
        (folder / name).write_bytes(text.encode())


def near(path: Path) -> str:
    """ " Did you mean `x`?", with the nearest name in the folder where the path should be; nothing where none is near."""
    try:
        names = [item.name for item in path.expanduser().parent.iterdir()]
    except (OSError, RuntimeError, ValueError):  # no such folder, no such user, no path at all
        return ""
    return did_you_mean(path.name, names)


def refuse_existing(target: Path, *, overwrite: bool) -> None:
    """Before any long work."""
    if target.is_file():
        raise InvalidInput(f"{target} is a file; a folder is needed.")
    if not target.is_dir() or not any(target.iterdir()):
        return
    if not overwrite:
        raise InvalidInput(
            f"{target} exists already and is not empty. Choose another folder (--out), or replace the result in it: "
            "overwrite=True (--force)."
        )
    taken = [name for name in WRITTEN if os.path.lexists(target / name)]
    if taken and not _is_result(target):
        raise InvalidInput(
            f"{target} holds {taken[0]}, and no result.json of bondic beside it: results of bondic are replaced, not files of "
            "others. Choose another folder (--out), or move the file away."
        )


def _is_result(folder: Path) -> bool:
    """Whether a command wrote this folder: its result.json says so, or its certificate (all that older versions left)."""
    certificate = _format(folder / "certificate.json")
    return _format(folder / _RESULT) == RESULT_FORMAT or certificate.startswith("bondic certificate ")


def _format(path: Path) -> str:
    """What a JSON file says about its own format; empty for every other file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(found.get("format")) if isinstance(found, dict) else ""


def _move(working: Path, place: Path) -> None:
    """The old result steps aside as a whole before the new one comes in, and returns if that fails: never a mixture.

    result.json goes last and comes first: whenever the program is killed, what is there can be told to be ours.
    """
    if not place.exists():
        working.rename(place)
        return
    new = sorted((item.name for item in working.iterdir()), key=lambda name: name != _RESULT)
    assert set(new) <= set(WRITTEN), new
    aside = working / _OLD
    aside.mkdir()
    try:
        for name in sorted(WRITTEN, key=lambda name: name == _RESULT):
            if os.path.lexists(place / name):
                os.replace(place / name, aside / name)
        for name in new:
            os.replace(working / name, place / name)
    except BaseException:
        for name in new:
            if not os.path.lexists(working / name):
                (place / name).unlink(missing_ok=True)
        try:
            for item in aside.iterdir():
                os.replace(item, place / item.name)
        except OSError:  # an old file that cannot return keeps a folder of its own
            aside.rename(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}.old."))
        raise
