"""Policies that were learned on rows of the log: who learns, what was learned, and what a policy says about it.

A policy that was trained on a certified row is flattered by it. So the learner of a `LearnedPolicy` gets the rows before those
that it is certified on, and nothing else. A policy of the user's own may say what it has seen, by two attributes:

    fitted_rows = (first, one after the last)     rows of a log
    fitted_log = log.content_hash                 of which log; left out: of the one that it is evaluated on

With `fitted_log` alone it has seen all rows of that log. What it says is compared with the certified rows, and stands in the
certificate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar

import numpy as np

from bondic.core.balls import Provenance
from bondic.core.errors import InvalidInput, one_line
from bondic.core.proof import MAX_POLICIES, Learned
from bondic.data._arrays import FloatArray, IntArray
from bondic.data.transitions import Transitions
from bondic.policies.answers import logged_action_probs, logged_state_probs
from bondic.policies.logged_target import KnownBy, LoggedTarget

_DEEPEST = 3
"""Policies are wrapped in one another: how far a statement is looked for."""


@dataclass(frozen=True)
class LearnedPolicy:
    """A policy to be learned on the first rows of the log and certified on the others; it goes where a policy goes.

    With several blocks it is learned again before each, from all earlier rows. The interval is then about the mixture: draw one
    of the policies, each with its block's share of the certified decisions (episodes) as the probability, and keep it.

    Parameters
    ----------
    fit : callable
        f(rows) -> policy: `rows` are Transitions, the first rows of the log; the policy is anything that `load_policy` takes.
        A learner that draws random numbers has to fix its seed, or `verify` cannot learn the same policy again.
    rows : float or int, default 0.5
        Rows to learn on first: a share, or a number. It is moved to the next episode start.
    blocks : int, default 1
        Blocks that the other rows are divided into. More than one needs propensities.

    Examples
    --------
    >>> LearnedPolicy(lambda rows: int(np.argmax(np.bincount(rows.actions, weights=rows.rewards))), rows=0.3).rows
    0.3
    """

    fit: Callable[[Transitions], Any]
    rows: float | int = 0.5
    blocks: int = 1

    def __post_init__(self) -> None:
        if not callable(self.fit):
            raise InvalidInput(f"A learner is a function of the first rows that returns a policy, not {self.fit!r}.")
        whole = isinstance(self.rows, int | np.integer) and self.rows >= 1
        if not (whole or 0 < self.rows < 1):
            raise InvalidInput(f"rows={one_line(repr(self.rows))}: a share in (0, 1), or a whole number of rows.")
        if not (isinstance(self.blocks, int | np.integer) and 1 <= self.blocks <= MAX_POLICIES):
            raise InvalidInput(f"blocks={one_line(repr(self.blocks))}: a whole number from 1 to {MAX_POLICIES}.")


@dataclass(frozen=True, eq=False)
class FittedPolicy:
    """A policy with what it was learned on; it answers as the policy does."""

    policy: Any
    fitted_rows: tuple[int, int]
    fitted_log: str

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in (
            "policy",
            "fitted_rows",
            "fitted_log",
        ):  # not there yet: while it is copied
            raise AttributeError(name)
        return getattr(self.policy, name)


@dataclass(frozen=True, eq=False)
class PolicyMixture(LoggedTarget):
    """Policies learned one after the other, each for a block of rows; of a certificate's, only their answers are known."""

    policies: tuple[Any, ...] = ()
    learned: Learned = ()  # the first row of every block, and what its policy has seen
    known_by: ClassVar[KnownBy] = "mixture"

    def blocks(self, rows: IntArray) -> IntArray:
        """The number of the block of every row."""
        return np.searchsorted([row for row, _ in self.learned], rows, side="right") - 1

    def logged_probs(
        self, part: Transitions, times: IntArray | None, first: int, *, every_action: bool = False
    ) -> FloatArray:
        """pi(a_i | s_i), or pi(. | s_i), of the policy of every row; row `first` of the log is the first of these."""
        if not self.policies:
            raise InvalidInput(
                "The certificate does not hold the answers of the learned policies: pass the learner (--policy SPEC, --with "
                "learn_rows=..., --with learn_blocks=...)."
            )
        rows = first + np.arange(len(part))
        blocks, found, slots = self.blocks(rows), list[FloatArray](), 0
        if blocks.min(initial=0) < 0:
            raise InvalidInput(
                f"The first learned policy answers from row {self.learned[0][0]} on, not at row {first}."
            )
        for number in np.unique(blocks).tolist():  # blocks follow one another
            mine = np.flatnonzero(blocks == number)
            policy, states, later = (
                self.policies[number],
                part.observations[mine],
                None if times is None else times[mine],
            )
            options: dict[str, Any] = {"slots": slots, "log_rows": rows[mine]}
            if every_action:
                found.append(logged_state_probs(policy, states, later, **options))
                slots = found[0].shape[1]
            else:
                found.append(logged_action_probs(policy, states, part.actions[mine], later, **options))
        return np.concatenate(found)


def training_provenance(policy: Any, log_hash: str, rows: int) -> Learned:
    """What a policy says that it was learned on, as far as it is this log of so many rows."""
    if isinstance(policy, PolicyMixture):
        return policy.learned
    found = (
        _provenance(provenance, log, rows)
        for provenance, log in _statements(policy, _DEEPEST)
        if log in (None, "", log_hash)
    )
    return tuple((0, provenance) for provenance in dict.fromkeys(found))


def _provenance(provenance: Any, log: str | None, rows: int) -> Provenance:
    try:
        first, stop = (0, rows) if provenance is None else (int(row) for row in provenance)
        return Provenance("learned", (first, stop), log or "")
    except (TypeError, ValueError) as problem:
        raise InvalidInput(
            f"The policy's `fitted_rows` are {one_line(repr(provenance))}: (first row, one after the last) of the log is needed."
        ) from problem


def _statements(policy: Any, deep: int) -> Iterator[tuple[Any, Any]]:
    """(fitted_rows, fitted_log) of the policy and of what it is made of."""
    rows, log = getattr(policy, "fitted_rows", None), getattr(policy, "fitted_log", None)
    if rows is not None or log is not None:
        yield rows, log
    if deep and is_dataclass(policy) and not isinstance(policy, type):
        for field in fields(policy):
            yield from _statements(getattr(policy, field.name), deep - 1)
