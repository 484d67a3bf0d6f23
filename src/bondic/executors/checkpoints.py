"""Results of tasks on disk, so that a job that was stopped goes on where it stopped.

One folder for every job, named by the hash of all that it depends on: another log, policy or question is another folder. One
file for every task that is finished: the hash of its result, then the result. A file appears as a whole or not at all; one
that is damaged counts as missing.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from bondic.errors import ExecutorError, one_line

_HASH = 32
_ENDING = ".part"


@dataclass(frozen=True)
class Checkpoints:
    """A folder of the user's own: whoever can write there can change what is computed from it.

    Parameters
    ----------
    folder : Path
        Where to keep results. It can be deleted when the answer is there.
    """

    folder: Path

    def of(self, job: bytes) -> KeptResults:
        """The results of this very job."""
        return KeptResults(Path(self.folder) / hashlib.sha256(job).hexdigest()[:_HASH])


class KeptResults:
    """Results of one job by place."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with _told(folder):
            folder.mkdir(parents=True, exist_ok=True)
            found = (path.name.removesuffix(_ENDING) for path in folder.iterdir() if path.name.endswith(_ENDING))
            self._places = {int(name) for name in found if name.isdecimal()}

    def __contains__(self, place: int) -> bool:
        return place in self._places

    def read(self, place: int) -> bytes | None:
        """The result, or None where it is damaged; then it is removed."""
        path = self._path(place)
        with _told(self._folder):
            whole = path.read_bytes()
            if hashlib.sha256(whole[_HASH:]).digest() == whole[:_HASH]:
                return whole[_HASH:]
            path.unlink()
        self._places.discard(place)
        return None

    def write(self, place: int, data: bytes) -> None:
        """Under another name first: a file with the right name is complete."""
        path = self._path(place)
        partial = path.with_suffix(f".{os.getpid()}")
        with _told(self._folder):
            try:
                partial.write_bytes(hashlib.sha256(data).digest() + data)
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)
        self._places.add(place)

    def _path(self, place: int) -> Path:
        return self._folder / f"{place:08d}{_ENDING}"


class _told:
    """Trouble with the folder, in words: a full disk, no permission."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if isinstance(problem, OSError):
            raise ExecutorError(
                f"Results cannot be kept in {one_line(self._folder, 200)} ({problem.strerror or problem}). What is there "
                "already is kept: make room, or name another folder, and run the same again."
            ) from problem
