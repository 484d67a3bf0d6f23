"""What a log offers, in memory or not: other modules do not depend on which."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, ClassVar

from bondic.data.memory import MemoryPlan

if TYPE_CHECKING:
    from bondic.core.columns import RowRange
    from bondic.data.hygiene.inspection import Inspection
    from bondic.data.transitions import Transitions


class Log(ABC):
    """Checked transitions in the order of time. `Transitions` is one batch of itself; a stream reads them anew each time."""

    held: ClassVar[bool]  # the rows are in memory: what is made of them may be kept there, too
    plan: MemoryPlan | None = None  # the budget of memory that was stated for working on it
    reading: Mapping[str, Any] = {}  # what was stated about reading it, as arguments of `read_log`; nothing for arrays
    executor: Executor | None = None  # what works on blocks of a log of files; None: this process
    content_hash: str
    unrecorded: tuple[str, ...]  # columns that stand in for what was not recorded

    @property
    @abstractmethod
    def form(self) -> Transitions:
        """Some of its rows: columns, types and dimensions are those of all."""

    @property
    @abstractmethod
    def inspection(self) -> Inspection:
        """What looks wrong in this log: see `inspect_log`."""

    @property
    @abstractmethod
    def single_rows(self) -> bool:
        """Whether every row ends an episode that no column names."""

    @property
    @abstractmethod
    def reward_span(self) -> tuple[float, float]:
        """The least and the largest reward."""

    @property
    def observation_dim(self) -> int:
        return int(self.form.observations.shape[1])

    @property
    def observation_names(self) -> tuple[str, ...]:
        """Names of the columns of an observation, in order; () where the log does not know them, as arrays do not."""
        return ()

    @property
    def discrete_actions(self) -> bool:
        return self.form.actions.ndim == 1

    @property
    def action_dim(self) -> int:
        """0 for discrete actions."""
        return 0 if self.discrete_actions else int(self.form.actions.shape[1])

    def has(self, column: str) -> bool:
        """Whether the log holds this column, one of those that are optional."""
        return getattr(self.form, column) is not None

    @property
    def has_timesteps(self) -> bool:
        return self.has("timesteps")

    @property
    def has_episode_ids(self) -> bool:
        return self.has("episode_ids")

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def batches(self, rows: RowRange | None = None, size: int | None = None) -> Iterator[tuple[RowRange, Transitions]]:
        """These rows in order, `size` at a time (the last batch may be shorter); by default all rows, in batches of any size."""

    @abstractmethod
    def read(self, rows: RowRange | None = None) -> Transitions:
        """These rows as transitions in memory, with the hash of the whole log; by default all of them."""


def is_log(value: object) -> bool:
    """Whether this is a log at all: a border check for plain words."""
    return isinstance(value, Log)
