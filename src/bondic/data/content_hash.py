"""One hash for a log, whether it is held in memory or read in parts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

COLUMNS = (
    "observations", "actions", "rewards", "next_observations", "terminations", "truncations", "episode_ids", "timesteps",
    "behavior_action_probs", "behavior_log_probs", "target_action_probs", "target_log_probs",
)  # fmt: skip
_LATER = ("behavior_log_probs", "target_action_probs", "target_log_probs")
"""Columns that logs did not have when the hash was made: where they are absent they leave no trace."""


class ContentHash:
    """sha256 over (column, type, shape of a row, sha256 of its bytes) for all columns, and the number of rows.

    Each column has a hash of its own, so parts can be added one after the other: cuts leave no trace.
    """

    def __init__(self) -> None:
        self._columns: dict[str, tuple[str, Any]] = {}
        self._rows = 0

    def add(self, columns: Mapping[str, npt.NDArray[Any] | None]) -> None:
        """The next rows; a column that is None is absent from the log."""
        for name in COLUMNS:
            array = columns[name]
            kind = "none"
            data: Any = b""
            if array is not None:
                portable = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
                kind, data = f"{portable.dtype.str}:{portable.shape[1:]}", portable.data
            known, digest = self._columns.setdefault(name, (kind, hashlib.sha256()))
            assert known == kind, f"column {name} changed from {known} to {kind}"
            digest.update(data)
        self._rows += len(columns["rewards"])  # type: ignore[arg-type]

    def hexdigest(self) -> str:
        total = hashlib.sha256(f"bondic transitions 2|{self._rows}".encode())
        for name in COLUMNS:
            kind, digest = self._columns[name]
            if kind == "none" and name in _LATER:
                continue
            total.update(f"|{name}:{kind}:{digest.hexdigest()}".encode())
        return total.hexdigest()
