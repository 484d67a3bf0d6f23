"""A monitor on disk: a folder whose monitor.json is written last, so that a killed update leaves the state before it.

monitor.json                 what was stated, and a line for every update
statements.npz               the initial states and Q, where they were given
updates/000001.npz           the rows of an update, with the policy's answers
certificates/000001.json     what an update shows, with 000001.npz; the plan of the last one is used again
history.csv                  the lines of monitor.json as a table
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.certificate import Certificate, compute_digest
from bondic.core.errors import InvalidInput, one_line
from bondic.data.io.npz import load_arrays
from bondic.folders import working_folder
from bondic.loading import load_certificate
from bondic.methods.monitor_history import UpdateRecord
from bondic.saving import save_certificate, write_atomically

Arrays = dict[str, npt.NDArray[Any]]

FORMAT = "bondic monitor 2"
STATE, HISTORY = "monitor.json", "history.csv"
_STATEMENTS = "statements.npz"


@dataclass(frozen=True, eq=False)
class Saved:
    """Everything that a monitor is made of, as plain data."""

    statements: dict[str, Any]  # JSON
    arrays: Arrays  # that belong to them
    log_hash: str  # of all rows
    updates: tuple[UpdateRecord, ...]
    part: Callable[[int], Arrays]  # rows and answers of an update, by its number from 0 on
    certificate: Certificate | None  # of the last update
    reading: dict[str, Any] | None = None  # JSON: how files were read, for those that follow

    @property
    def document(self) -> dict[str, Any]:
        lines = [asdict(update) for update in self.updates]
        reading = {} if self.reading is None else {"reading": self.reading}
        return {"format": FORMAT, "statements": self.statements, **reading, "log": self.log_hash, "updates": lines}


def certificate_path(folder: Path, update: int) -> Path:
    """Where the certificate of an update stands, by its number from 1 on."""
    return folder / "certificates" / f"{update:06d}.json"


def write_folder(folder: str | os.PathLike[str], saved: Saved, texts: Mapping[str, str]) -> None:
    """Write what the folder does not have yet; a new folder comes into being as a whole. `texts` are further files."""
    target = Path(folder)
    if target.is_dir() and any(target.iterdir()):
        _write_into(target, saved, _known(target, saved), texts)
        return
    with working_folder(target) as (working, place):
        try:
            working.chmod(0o755)
            _write_into(working, saved, 0, texts)
            working.replace(place)
        except OSError as problem:
            raise InvalidInput(f"{target} could not be written ({problem.strerror or problem}).") from problem


def _known(folder: Path, saved: Saved) -> int:
    """How many updates the folder has already: the first ones of this very monitor, or it is refused."""
    held, mine = read_document(folder), saved.document
    lines = held["updates"]
    mine_then = mine["updates"][: len(lines)]
    if held["statements"] != mine["statements"] or [UpdateRecord(**line) for line in lines] != [
        UpdateRecord(**line) for line in mine_then
    ]:
        raise InvalidInput(
            f"{folder} holds another monitor, or has gone on since this one was read from it. Save to another folder, or load it "
            "again and update that."
        )
    return len(lines)


def _write_into(place: Path, saved: Saved, known: int, texts: Mapping[str, str]) -> None:
    """What is new, then monitor.json: until that is there the update has not happened, and its files go if it fails."""
    for name in ("updates", "certificates"):
        (place / name).mkdir(exist_ok=True)
    if known == 0:
        write_atomically(place / _STATEMENTS, _packed(saved.arrays))
    count, made = len(saved.updates), []
    try:
        for number in range(known + 1, count + 1):
            made.append(_update_path(place, number))
            write_atomically(made[-1], _packed(saved.part(number - 1)))
        if saved.certificate is not None and count > known:
            text = certificate_path(place, count)
            made += [text, text.with_suffix(".npz")]
            save_certificate(saved.certificate, text, overwrite=True)
        for name, content in texts.items():
            write_atomically(place / name, content.encode())
        write_atomically(place / STATE, (json.dumps(saved.document, indent=1) + "\n").encode())
    except BaseException:
        if not is_monitor(place) or len(read_document(place)["updates"]) < count:
            for path in made:
                path.unlink(missing_ok=True)
        raise
    write_atomically(place / HISTORY, history_text(saved.updates).encode())


def _update_path(folder: Path, update: int) -> Path:
    return folder / "updates" / f"{update:06d}.npz"


def _packed(arrays: Arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def history_text(updates: tuple[UpdateRecord, ...]) -> str:
    """A line per update; ends of a rejection are empty."""
    buffer = io.StringIO()
    table = csv.DictWriter(buffer, [field.name for field in fields(UpdateRecord)], lineterminator="\n")
    table.writeheader()
    table.writerows(update.told() for update in updates)
    return buffer.getvalue()


def is_monitor(folder: Path) -> bool:
    return (folder / STATE).is_file()


def read_document(folder: Path) -> dict[str, Any]:
    """monitor.json, as far as its format."""
    path = folder / STATE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise InvalidInput(
            f"{folder} holds no monitor ({problem.strerror or problem}: {STATE}). Choose a folder that a monitor was saved to, "
            "or one that does not exist yet."
        ) from problem
    except ValueError as problem:
        raise InvalidInput(f"{path} is damaged ({one_line(problem, 200)}).") from problem
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InvalidInput(f"{path} is not a monitor of the format {FORMAT!r}.")
    return found


def read_folder(folder: str | os.PathLike[str]) -> Saved:
    """What was saved last."""
    place = Path(folder)
    document = read_document(place)
    try:
        updates = tuple(UpdateRecord(**line) for line in document["updates"])
        statements, log_hash = dict(document["statements"]), str(document["log"])
    except (KeyError, TypeError, ValueError) as problem:
        raise InvalidInput(f"{place / STATE} is damaged ({one_line(problem, 200)}).") from problem
    certificate = None
    if updates and updates[-1].certificate:
        certificate = load_certificate(certificate_path(place, len(updates)), most_bytes=2**40)
        if compute_digest(certificate.body, certificate.arrays) != updates[-1].certificate:
            raise InvalidInput(f"{certificate_path(place, len(updates))} is not the certificate of the last update.")

    def part(number: int) -> Arrays:
        return dict(load_arrays(_update_path(place, number + 1)))

    arrays = load_arrays(place / _STATEMENTS)
    return Saved(statements, arrays, log_hash, updates, part, certificate, document.get("reading"))
