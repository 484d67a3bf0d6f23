"""The question, and the log's rows in the form the bounds need: in memory, or part by part.

Points are rows z = (observation | time? | continuous action?). A discrete action is a *slot*: next and initial
points carry a row of slot weights pi(. | s'), so that means over next actions are exact sums. A continuous
next action is represented by m draws with weight 1/m each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bondic.data.blocks import RowRange
from bondic.data.initial import InitialStates
from bondic.errors import InvalidInput
from bondic.kernels.normal_form import Layout
from bondic.policies.answers import PolicyAnswers
from bondic.terms import Terms

if TYPE_CHECKING:
    from bondic.rows.rows import Problem

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Cloud:
    """Points with slot weights; `rows[j]` tells which row (or initial state) point j belongs to."""

    points: FloatArray  # (N, D)
    weights: FloatArray  # (N, slots)
    rows: IntArray  # (N,)

    def per_row(self, values: FloatArray, count: int) -> FloatArray:
        """sum over the points of a row of weights . values; values (N, slots) -> (count,)."""
        means = np.einsum("ij,ij->i", self.weights, values)
        return np.asarray(np.bincount(self.rows, weights=means, minlength=count))

    @property
    def roundings(self) -> int:
        """Float operations behind one entry of `per_row`."""
        longest = int(np.bincount(self.rows).max()) if self.rows.size else 0
        return int(longest + self.weights.shape[1] + 2)


class Question(ABC):
    """A policy-evaluation question over a stretch of a log; `parts` gives its rows in order.

    Sums over the log are sums over its parts, so whoever needs only sums works the same on a log in memory (one part)
    and on one that is read in batches.
    """

    terms: Terms
    layout: Layout
    initial: Cloud
    initial_states: InitialStates
    answers: PolicyAnswers
    rows: RowRange  # the stretch of the log this question covers, rows beyond the horizon included
    log_hash: str
    seed: int
    doubts: tuple[str, ...]  # warnings on log and policy, for the top of the answer
    stated: tuple[str, ...]  # what the user states by accepting what would be refused or warned about

    @abstractmethod
    def __len__(self) -> int:
        """Rows that count: those of the stretch within the horizon."""

    @abstractmethod
    def parts(self) -> Iterator[Problem]:
        """The rows in order, as problems in memory."""

    @abstractmethod
    def select(self, start: int, stop: int | None = None) -> Question:
        """The same question with rows start..stop-1 of the log only."""

    @abstractmethod
    def load(self, start: int, stop: int) -> Problem | None:
        """Rows start..stop-1 of the log as a problem in memory; None when none of them counts."""

    @abstractmethod
    def some_points(self, most_rows: int) -> FloatArray:
        """Logged and next points of rows spread over the stretch, initial points first: candidates for landmarks."""

    @property
    def gamma(self) -> float:
        return self.terms.gamma

    @property
    def dropped(self) -> int:
        """Rows of the stretch that lie at or beyond the horizon."""
        return len(self.rows) - len(self)

    @property
    def next_draws(self) -> int:
        """Draws per next state; 0 when means over actions are exact."""
        return 0 if self.answers.exact else int(self.answers.next.shape[1])

    @property
    def initial_draws(self) -> int:
        return 0 if self.answers.exact else int(self.answers.initial.shape[1])

    def checked_range(self, start: int, stop: int | None) -> RowRange:
        part = RowRange(start, self.rows.stop if stop is None else stop)
        if part.start < self.rows.start or part.stop > self.rows.stop:
            raise InvalidInput(f"{part} cannot be selected from a problem that covers {self.rows}.")
        return part

    def __repr__(self) -> str:
        actions = f"{self.layout.slots} actions" if self.layout.discrete else f"{self.layout.action_dim}-d actions"
        horizon = "" if self.terms.horizon is None else f", horizon={self.terms.horizon}"
        stated = "" if self.terms.value_range is None else f", value_range={self.terms.value_range}"
        return (
            f"{type(self).__name__}(n={len(self)}, observation_dim={self.layout.observation_dim}, {actions}, "
            f"gamma={self.gamma:g}, reward_range={self.terms.reward_range}, initial={self.initial_states.kind} x "
            f"{len(self.initial_states)}{horizon}{stated})"
        )
