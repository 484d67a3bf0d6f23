"""A log of files that was opened and checked, as data: for other processes, which need not check it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from bondic.data.log import Log

Stamp = tuple[str, int, int]
"""Path of a part below the root, its size, the time of its last change in nanoseconds."""


@dataclass(frozen=True, eq=False)
class OpenedParquet:
    """Where the files are and what they looked like; files that look otherwise are refused."""

    path: str
    stamps: tuple[Stamp, ...]
    columns: dict[str, tuple[str, ...]]
    actions: tuple[str, ...] | None
    one_step: bool
    form: dict[str, npt.NDArray[Any]]  # the columns of the first row
    discrete_observations: bool | None
    unrecorded: tuple[str, ...]
    content_hash: str

    def reopen(self) -> Log:
        """The same log in this process."""
        from bondic.data.files import FileStream  # nobody else waits for its library to load

        return FileStream.reopened(self)
