"""A folder of results: made beside its place under another name, then moved, so that nothing is left half-written.

Replacing a result replaces the whole folder in one step: files of the old one that the new one does not have (a certificate with
rows, a summary of other numbers) go. Files that bondic did not write are in both.
A program that is killed leaves the place as it was or as it will be, and perhaps a hidden folder beside it, `.NAME.bondic-...`.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bondic.core.errors import InvalidInput
from bondic.documents import read_json
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
_HERE, _EXCHANGE = -100, 2
"""AT_FDCWD and RENAME_EXCHANGE of Linux."""


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
    if taken and _stood_in(target.resolve()):
        raise InvalidInput(
            f"{target} is the folder that the program runs in, and a result in it is replaced with its folder. Run it from "
            "another folder, or choose another one (--out)."
        )


def _stood_in(place: Path) -> bool:
    """Whether a shell may stand there: it would be left in the old folder."""
    return Path.cwd().is_relative_to(place)


def _is_result(folder: Path) -> bool:
    """Whether a command wrote this folder: its result.json says so, or its certificate (all that older versions left)."""
    certificate = _format(folder / "certificate.json")
    return _format(folder / _RESULT) == RESULT_FORMAT or certificate.startswith("bondic certificate ")


def _format(path: Path) -> str:
    """What a JSON file says about its own format; empty for every other file."""
    try:
        return str(read_json(path).get("format"))
    except (OSError, InvalidInput):
        return ""


def _move(working: Path, place: Path) -> None:
    """The new folder comes in as a whole, with what others put into the old one: there is never none, or a mixture."""
    if not place.exists():
        working.rename(place)
        return
    if _stood_in(place):  # there is no result yet
        for item in working.iterdir():
            item.rename(place / item.name)
        return
    assert {item.name for item in working.iterdir()} <= set(WRITTEN)
    for item in place.iterdir():
        if item.is_dir() and not item.is_symlink():
            shutil.copytree(item, working / item.name, symlinks=True, copy_function=_same)
        elif item.name not in WRITTEN:
            _same(item, working / item.name)
    shutil.copymode(place, working)
    _exchange(working, place)


def _same(source: str | Path, target: str | Path) -> None:
    """The file under a second name; a copy where there can be none."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def _exchange(new: Path, old: Path) -> None:
    """Two folders change names: in one step on Linux, elsewhere with a moment at which the old one is hidden beside its place."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is not None and rename(_HERE, os.fsencode(new), _HERE, os.fsencode(old), _EXCHANGE) == 0:
        return
    aside = new.with_name(f"{new.name}.old")
    os.replace(old, aside)
    try:
        os.replace(new, old)
    except OSError:
        os.replace(aside, old)
        raise
    os.replace(aside, new)
