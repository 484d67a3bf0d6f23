"""Certificates on disk: NAME.json and NAME.npz, written under a temporary name and moved; no pickle."""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from bondic.certificate.certificate import Certificate
from bondic.errors import InvalidInput, VerificationError


def save_certificate(
    certificate: Certificate, path: str | os.PathLike[str], *, overwrite: bool = False
) -> tuple[Path, Path]:
    """Write `path`.json and `path`.npz; returns both paths. Nothing is left half-written."""
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


def load_certificate(path: str | os.PathLike[str]) -> Certificate:
    """Read a certificate; damaged files are refused with the reason."""
    base = Path(path)
    text = base if base.suffix == ".json" else base.with_name(base.name + ".json")
    try:
        document: dict[str, Any] = json.loads(text.read_text())
        digest, arrays_name = document.pop("digest"), document.pop("arrays")
        stream = io.BytesIO(text.with_name(Path(arrays_name).name).read_bytes())
        with np.load(stream, allow_pickle=False) as data:
            arrays = {name: data[name] for name in data.files}
    except FileNotFoundError as problem:
        raise InvalidInput(
            f"There is no file {problem.filename}. A certificate is NAME.json with NAME.npz beside it."
        ) from problem
    except (ValueError, KeyError, AttributeError, zipfile.BadZipFile, EOFError, OSError) as problem:
        raise VerificationError(
            f"{text} is not a readable certificate ({type(problem).__name__}: {problem})."
        ) from problem
    return Certificate(document, arrays, digest)


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
