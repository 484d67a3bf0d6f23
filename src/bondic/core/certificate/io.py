"""Certificates on disk: NAME.json and NAME.npz, written under a temporary name and moved; no pickle."""

from __future__ import annotations

import io
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bondic.core.certificate.archive import read_arrays
from bondic.core.certificate.certificate import Certificate, check_certificate
from bondic.core.certificate.limits import DAMAGED, MOST_ARRAY_BYTES, MOST_DIGITS, MOST_TEXT_BYTES, clean_text, refuse
from bondic.core.errors import BondicError, InvalidInput, VerificationError


def save_certificate(
    certificate: Certificate, path: str | os.PathLike[str], *, overwrite: bool = False
) -> tuple[Path, Path]:
    """Write `path`.json and `path`.npz; returns both paths. Nothing is left half-written."""
    if not isinstance(certificate, Certificate):
        raise InvalidInput(
            f"save_certificate(certificate, path) needs a certificate, not {type(certificate).__name__}. A method without a "
            "proof leaves none: result.certificate is None."
        )
    base = Path(path)
    base = base.with_suffix("") if base.suffix in (".json", ".npz") else base
    text, numbers = base.with_name(base.name + ".json"), base.with_name(base.name + ".npz")
    for target in (text, numbers):
        if target.exists() and not overwrite:
            raise InvalidInput(f"{target} exists already. Choose another name or pass overwrite=True.")
    if not base.parent.is_dir():
        raise InvalidInput(f"The folder {base.parent} does not exist.")
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **dict(certificate.arrays))
    write_atomically(numbers, buffer.getvalue())
    document = {"digest": certificate.digest, "arrays": numbers.name, **certificate.body}
    write_atomically(text, (json.dumps(document, indent=1, allow_nan=True) + "\n").encode())
    return text, numbers


def load_certificate(path: str | os.PathLike[str], *, most_bytes: int = MOST_ARRAY_BYTES) -> Certificate:
    """Read a certificate: NAME.json, or the one in the folder of a result.

    Damaged files, and files that would take more memory than is good, are refused with the reason.

    `most_bytes` limits the arrays once they are unpacked; the answers of a policy at n next states take 8 n times the
    number of actions. The file may come from anybody: nothing in it is run.
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput(f"A certificate is read from a path, not from a {type(path).__name__}.")
    base = Path(path)
    base = base / "certificate.json" if base.is_dir() else base
    text = base if base.suffix == ".json" else base.with_name(base.name + ".json")
    try:
        document = _read_document(text)
        digest, arrays_name = document.pop("digest"), document.pop("arrays")
        known = isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest)
        refuse(not known, "The certificate has no digest.")
        numbers = text.with_name(Path(arrays_name).name)
        _refuse_devices(numbers)
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


def _read_document(text: Path) -> dict[str, Any]:
    _refuse_devices(text)
    size = text.stat().st_size
    refuse(size > MOST_TEXT_BYTES, f"{text.name} is too large for the text of a certificate ({size} bytes).")
    document = json.loads(text.read_bytes().decode(), object_pairs_hook=_once, parse_int=_whole_number)
    refuse(type(document) is not dict, "The certificate is damaged: it is not a list of named values.")
    return dict(document)


def _refuse_devices(path: Path) -> None:
    """Reading a pipe or a device may never end."""
    refuse(path.exists() and not path.is_file(), f"{path.name} is not a plain file.")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two values of one name, different readers would take different ones."""
    found = dict(pairs)
    refuse(len(found) < len(pairs), "The certificate holds two values of the same name.")
    return found


def _whole_number(digits: str) -> int:
    refuse(len(digits) > MOST_DIGITS + 1, f"The certificate holds a whole number of {len(digits)} digits.")
    return int(digits)


def write_atomically(target: Path, content: bytes) -> None:
    """Write to a temporary file in the same folder, then rename; an interruption leaves the old state."""
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
