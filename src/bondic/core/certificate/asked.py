"""What was asked, as data: the log by its hash, statements, initial states, and the policy by its answers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from bondic.core.certificate.limits import MOST_DRAWS, refuse
from bondic.core.columns import Columns
from bondic.core.terms import Terms, make_terms

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StoredStart:
    """The initial states and their kind; a sample may be withheld."""

    observations: FloatArray | None
    weights: FloatArray
    kind: Literal["exact", "sample"]
    count_fixed: bool
    from_log: bool  # read off the log: verification finds them there again


@dataclass(frozen=True, eq=False)
class Answers:
    """The policy at all next states of the log and at the initial states, where they are stored."""

    next: FloatArray | None
    initial: FloatArray | None
    discrete: bool
    exact: bool


@dataclass(frozen=True, eq=False)
class Asked:
    """A question on certain rows of a log."""

    log_hash: str
    terms: Terms
    rows: tuple[int, int]
    seed: int
    draws: int
    initial_draws: int | None
    start: StoredStart
    answers: Answers

    def __post_init__(self) -> None:
        refuse(make_terms(**asdict(self.terms)) != self.terms, f"No problem can be asked with {self.terms}.")
        refuse(self.seed < 0, f"The seed {self.seed} is negative.")
        most = 1 if self.initial_draws is None else self.initial_draws
        fine = 1 <= self.draws <= MOST_DRAWS and 1 <= most <= 100 * MOST_DRAWS
        refuse(not fine, f"{self.draws} and {self.initial_draws} draws at a state: at most {MOST_DRAWS} are made.")

    def without_rows(self) -> Asked:
        """The same question without anything that is a single row."""
        answers = replace(self.answers, next=None)
        if self.known_by_log:
            return replace(self, start=replace(self.start, observations=None)) if self.start.kind == "sample" else self
        if self.start.kind == "exact":  # the list states the question, and is nobody's row
            return replace(self, answers=answers)
        return replace(self, start=replace(self.start, observations=None), answers=replace(answers, initial=None))

    @property
    def known_by_log(self) -> bool:
        """The policy is known by the log's own columns: it has no answers, and none is needed."""
        return self.answers.initial is not None and self.answers.initial.shape[0] == 0

    @property
    def actions(self) -> int | None:
        """How many actions the policy answers for; None where they are numbers, or no answer is held."""
        held = [one for one in (self.answers.initial, self.answers.next) if one is not None and one.size]
        return int(held[0].shape[1]) if held and self.answers.discrete else None

    def check(self, columns: Columns) -> None:
        """VerificationError unless the columns are those that were asked about: log, statements, rows, starts."""
        start, mine = self.start, columns.initial_states
        refuse(columns.log_hash != self.log_hash, "The log is not the one that was certified (content hashes differ).")
        same = columns.terms == self.terms and (columns.rows.start, columns.rows.stop) == self.rows
        same = same and columns.seed == self.seed and mine.kind == start.kind and mine.count_fixed == start.count_fixed
        same = same and np.allclose(mine.weights, start.weights, rtol=1e-12, atol=0.0)
        if start.observations is not None:
            same = same and np.array_equal(mine.observations, start.observations)
        refuse(not same, "The columns are not those of the question that was certified.")
