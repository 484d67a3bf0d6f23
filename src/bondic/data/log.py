"""What a log offers, in memory or not: nobody above asks which kind it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from bondic.core.columns import RowRange
from bondic.data.memory import MemoryPlan
from bondic.data.transitions import Transitions

if TYPE_CHECKING:
    from bondic.data.hygiene.inspection import Inspection


class Log(Protocol):
    """Checked transitions in the order of time. `Transitions` is one batch of itself; a stream reads them anew each time."""

    @property
    def content_hash(self) -> str: ...

    @property
    def inspection(self) -> Inspection: ...

    @property
    def observation_dim(self) -> int: ...

    @property
    def observation_names(self) -> tuple[str, ...]:
        """Names of the columns of an observation, in order; () where the log does not know them."""
        ...

    @property
    def action_dim(self) -> int:
        """0 for discrete actions."""
        ...

    @property
    def has_timesteps(self) -> bool: ...

    @property
    def has_episode_ids(self) -> bool: ...

    @property
    def held(self) -> bool:
        """The rows are in memory: what is made of them may be kept there, too."""
        ...

    @property
    def plan(self) -> MemoryPlan | None:
        """The budget of memory that was stated for working on it."""
        ...

    @property
    def reading(self) -> Mapping[str, Any]:
        """What was stated about reading it, as arguments of `read_log`; nothing for arrays."""
        ...

    @property
    def unrecorded(self) -> tuple[str, ...]:
        """Columns that stand in for what was not recorded."""
        ...

    def has(self, column: str) -> bool:
        """Whether the log holds this column, one of those that are optional."""
        ...

    def __len__(self) -> int: ...

    def batches(self, rows: RowRange | None = None, size: int | None = None) -> Iterator[tuple[RowRange, Transitions]]:
        """These rows in order, `size` at a time (the last batch may be shorter); all rows, in any cut, unless told."""
        ...

    def read(self, rows: RowRange | None = None) -> Transitions:
        """These rows as transitions in memory; all of them unless told."""
        ...

    def timesteps_of(self, rows: RowRange) -> Iterator[npt.NDArray[np.int64]]:
        """The column `timesteps` of these rows, in any cut."""
        ...


def is_log(given: object) -> bool:
    """Whether this is a log at all: a border check for plain words."""
    return hasattr(given, "batches") and hasattr(given, "content_hash")
