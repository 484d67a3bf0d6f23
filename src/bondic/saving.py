"""Files that are written under a temporary name and moved: certificates, pages, tables."""

from __future__ import annotations

import io
import json
import os
import tempfile
from pathlib import Path

import numpy as np

from bondic.core.certificate import Certificate
from bondic.core.errors import InvalidInput


def save_certificate(
    certificate: Certificate, path: str | os.PathLike[str], *, overwrite: bool = False
) -> tuple[Path, Path]:
    """Write `path`.json and `path`.npz; returns both paths. Nothing is left half-written.

    Parameters
    ----------
    certificate : Certificate
        `result.certificate`.
    path : path
        Where to, without an ending.
    overwrite : bool, default False
        Whether files that exist are replaced.
    """
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
