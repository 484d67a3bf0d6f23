"""Certificates from disk: NAME.json and NAME.npz; no pickle. What they say is checked by the core, wherever they come from.

`np.load` would trust the file: a quarter of a megabyte can unpack to gigabytes. Here the end of the archive, the list of members
and the header of each array are read first, and only what `np.savez` writes is accepted.
"""

from __future__ import annotations

import math
import os
import re
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.certificate import DAMAGED, DTYPES, MAX_MEMBERS, Certificate, check_certificate
from bondic.core.codec import decode
from bondic.core.errors import BondicError, InvalidInput, VerificationError, clean_text, one_line, refuse
from bondic.documents import damaged, read_json, refuse_devices

_TEXT = "certificate.json"
MAX_TEXT_BYTES = 4 * 2**20
"""The JSON file."""
MAX_ARRAY_BYTES = 256 * 2**20
"""All arrays together, unpacked; `load_certificate(..., most_bytes=)` for the answers of a policy at millions of states."""
_MAX_DIRECTORY = 2**20
_CHUNK = 2**20
_END = struct.Struct("<4s4H2LH")
_LOCATOR = 20
_HEADER = re.compile(
    rb"\{'descr': '([<>|])([a-zA-Z]\d{1,3})', 'fortran_order': (True|False), 'shape': \(([\d, ]{0,200})\), \} *\n"
)


_READING: dict[str, Any] = {
    "columns": dict[str, str | float | tuple[str, ...] | dict[str, float] | None],
    "missing": str | dict[str, float],
    "categorical": str | dict[str, str],
    "categories": dict[str, tuple[str, ...]],
    "actions": int | tuple[str, ...],
    "one_step": bool,
}
"""What decides how a log is read. What runs code (a policy, pickles) is never taken from a folder that need not be trusted."""


def load_certificate(path: str | os.PathLike[str], *, most_bytes: int = MAX_ARRAY_BYTES) -> Certificate:
    """Read a certificate: NAME.json, or the one in the folder of a result.

    Damaged files, and files that would take too much memory, are refused with the reason. The file need not be trusted:
    nothing in it is run.

    Parameters
    ----------
    path : path
        NAME.json with NAME.npz beside it, or a folder.
    most_bytes : int, default 2**28
        Limit of the unpacked arrays; the answers of a policy at n next states take 8 n times the number of actions.
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput(f"A certificate is read from a path, not from a {type(path).__name__}.")
    base = Path(path)
    base = base / _TEXT if base.is_dir() else base
    text = base if base.suffix == ".json" else base.with_name(base.name + ".json")
    try:
        document = read_json(text, MAX_TEXT_BYTES)
        digest, arrays_name = document.pop("digest"), document.pop("arrays")
        known = isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest)
        refuse(not known, "The certificate has no digest.")
        numbers = text.with_name(Path(arrays_name).name)
        refuse_devices(numbers)
        certificate = Certificate(document, read_arrays(numbers, most_bytes), digest)
        check_certificate(certificate)
    except FileNotFoundError as problem:
        raise InvalidInput(
            f"There is no file {clean_text(problem.filename, 200)}. A certificate is NAME.json with NAME.npz beside it."
        ) from problem
    except BondicError as problem:
        raise VerificationError(clean_text(f"{text} is not a readable certificate. {problem}")) from problem
    except DAMAGED as problem:
        raise VerificationError(
            clean_text(f"{text} is not a readable certificate ({type(problem).__name__}: {problem}).")
        ) from problem
    return certificate


def load_reading(path: str | os.PathLike[str]) -> dict[str, Any]:
    """How the log of a certificate was read, as arguments of `read_log`: the result.json beside it says so; {} without one."""
    base = Path(path)
    place = (base if base.is_dir() else base.parent) / "result.json"
    if not place.is_file():
        return {}
    held = read_json(place).get("reading", {})
    try:
        refuse(type(held) is not dict, "reading: a list of named values is needed.")
        return {name: decode(_READING[name], held[name], {}, f"reading.{name}") for name in _READING if held.get(name)}
    except VerificationError as problem:
        raise damaged(place, problem) from problem


def reading_words(reading: dict[str, Any]) -> str:
    """It in a sentence: what a column is taken for decides what is verified."""
    return one_line("; ".join(f"{name} {value}" for name, value in reading.items()), 400)


# --- the archive of arrays ------------------------------------------------------------------------------


def read_arrays(path: Path, most_bytes: int) -> dict[str, npt.NDArray[Any]]:
    """All arrays by name; VerificationError when the file is not a plain archive of at most `most_bytes` of numbers."""
    refuse(
        path.stat().st_size > most_bytes + _MAX_DIRECTORY, f"{path.name} is too large ({path.stat().st_size} bytes)."
    )
    _check_end(path)
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        _check_members(members, most_bytes)
        return {member.filename.removesuffix(".npy"): _read_member(archive, member) for member in members}


def _check_end(path: Path) -> None:
    """The record at the very end says how long the list of members is: reading a list of millions takes memory, too."""
    size = _END.size + _LOCATOR
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - size))
        tail = file.read(size)
    refuse(len(tail) < _END.size, f"{path.name} is not an archive of arrays.")
    mark, _, _, _, members, directory, _, comment = _END.unpack(tail[-_END.size :])
    plain = mark == b"PK\x05\x06" and comment == 0 and not tail[: -_END.size].startswith(b"PK\x06\x07")
    refuse(not plain, f"{path.name} is not an archive of arrays, or is incomplete.")
    refuse(members > MAX_MEMBERS or directory > _MAX_DIRECTORY, f"{path.name} lists more than {MAX_MEMBERS} arrays.")


def _check_members(members: list[zipfile.ZipInfo], most_bytes: int) -> None:
    names = [member.filename for member in members]
    refuse(len(names) > MAX_MEMBERS, f"The archive holds more than {MAX_MEMBERS} arrays.")
    refuse(len(set(names)) < len(names), "The archive holds two arrays of the same name.")
    for member in members:
        known = member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others unpack without a limit
        refuse(not known, f"The array {member.filename} is packed in a way that certificates are not.")
    total = sum(member.file_size for member in members)
    refuse(
        total > most_bytes,
        f"The arrays would take {total} bytes unpacked, and {most_bytes} are allowed. If you trust the file, pass a larger "
        "load_certificate(..., most_bytes=).",
    )


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> npt.NDArray[Any]:
    with archive.open(member) as stream:
        start = stream.read(10)
        refuse(start[:8] != b"\x93NUMPY\x01\x00" or len(start) < 10, f"{member.filename} is not an array.")
        (length,) = struct.unpack("<H", start[8:])
        dtype, shape, order = _header(stream.read(length), member.filename)
        size = math.prod(shape) * dtype.itemsize
        refuse(
            member.file_size != 10 + length + size,
            f"The array {member.filename} claims shape {shape} and type {dtype}, which is not the size it has.",
        )
        values = np.empty(size, dtype=np.uint8)
        for top in range(0, size, _CHUNK):
            piece = stream.read(min(_CHUNK, size - top))
            refuse(len(piece) < min(_CHUNK, size - top), f"The array {member.filename} is incomplete.")
            values[top : top + _CHUNK] = np.frombuffer(piece, dtype=np.uint8)
        stream.read(1)  # the end: only there the checksum is compared
    array = values.view(dtype).reshape(shape, order=order)
    return array.astype(dtype.newbyteorder("="), copy=False)


def _header(text: bytes, name: str) -> tuple[np.dtype[Any], tuple[int, ...], Any]:
    found = _HEADER.fullmatch(text)
    if found is None:
        raise VerificationError(clean_text(f"The array {name} has a header that certificates do not have."))
    kind = found[2].decode()
    refuse(kind not in DTYPES, f"The array {name} is of type {kind}; certificates hold {', '.join(DTYPES)} only.")
    shape = tuple(int(length) for length in found[4].replace(b" ", b"").split(b",") if length)
    refuse(len(shape) > 8 or any(length >= 2**48 for length in shape), f"The array {name} has no possible shape.")
    return np.dtype(found[1].decode() + kind), shape, "F" if found[3] == b"True" else "C"
