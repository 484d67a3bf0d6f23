"""A folder of results: made beside its place under another name, then moved, so that nothing is left half-written."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bondic.errors import InvalidInput


@contextmanager
def result_folder(target: Path, *, force: bool) -> Iterator[Path]:
    """A folder to write into; it becomes `target` when the work is done, and disappears when it fails."""
    refuse_existing(target, force=force)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        working = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    except OSError as problem:
        raise InvalidInput(f"{target.parent} cannot be written to ({problem.strerror or problem}).") from problem
    try:
        yield working
        working.chmod(0o755)
        _move(working, target)
    except OSError as problem:
        raise InvalidInput(
            f"{target} could not be written ({problem.strerror or problem}). Nothing was left behind."
        ) from problem
    finally:
        shutil.rmtree(working, ignore_errors=True)


def refuse_existing(target: Path, *, force: bool) -> None:
    """Before any long work."""
    if target.is_file():
        raise InvalidInput(f"{target} is a file; --out names a folder.")
    if target.is_dir() and any(target.iterdir()) and not force:
        raise InvalidInput(f"{target} exists already and is not empty. Choose another --out, or pass --force.")


def _move(working: Path, target: Path) -> None:
    if not target.exists():
        working.rename(target)
        return
    for item in sorted(working.iterdir()):
        os.replace(item, target / item.name)
