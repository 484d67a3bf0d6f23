"""Arrays of an NPZ archive or an NPY file. Pickled objects inside are refused."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from bondic.core.errors import InvalidInput, one_line

_BROKEN = (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, MemoryError, NotImplementedError,
           RuntimeError, SyntaxError, TypeError, UnicodeDecodeError)  # fmt: skip
"""What reading damaged archives raises."""


def load_arrays(path: Path) -> Any:
    """All arrays of the archive by name, or the one array of an NPY file."""
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded
            with loaded:
                return {name: loaded[name] for name in loaded.files}
    except _BROKEN as problem:
        if "pickle" in str(problem):
            raise InvalidInput(
                f"{one_line(path.name)} holds Python objects (a pickle, or dtype object), which run code when they are "
                "loaded. They are never read: save plain arrays of numbers or text."
            ) from problem
        raise InvalidInput(
            f"{one_line(path.name)} cannot be read as {path.suffix} ({type(problem).__name__}: {one_line(problem, 200)}). "
            "The file is damaged or incomplete: write it again."
        ) from problem
