"""One pass over a log, in memory or in parts: everything that can be checked without policy and terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput
from bondic.data._arrays import FloatArray, IntArray
from bondic.data.hygiene.chain import ChainCheck, StayCheck
from bondic.data.hygiene.consecutive import EpisodeIndex
from bondic.data.hygiene.copies import EqualRows, Pieces, copied
from bondic.data.hygiene.course import Course
from bondic.data.hygiene.findings import Finding
from bondic.data.hygiene.limits import LimitCheck, missing_episodes, widened
from bondic.data.hygiene.propensities import PropensityCheck
from bondic.data.hygiene.resets import ResetCheck

if TYPE_CHECKING:
    from bondic.data.log import Log
    from bondic.data.transitions import Transitions

_ORDER = {"refuse": 0, "warn": 1, "note": 2}


class Inspection:
    """Add the rows in order, then ask for the findings. Holds a few numbers per episode and the last row of some."""

    def __init__(self) -> None:
        self._episodes, self._pieces = EpisodeIndex(), Pieces()
        self._chain, self._resets, self._limits = ChainCheck(), ResetCheck(), LimitCheck()
        self._stays, self._equal, self._course = StayCheck(), EqualRows(), Course()
        self._discrete, self._timed = True, False
        self.action_counts: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)  # of discrete actions
        self.action_range: tuple[FloatArray, FloatArray] | None = None  # of continuous actions, per dimension
        self._propensities = PropensityCheck()

    def fits(self, part: Transitions) -> bool:
        """Whether these rows can be added."""
        del part
        return True

    def add(self, part: Transitions, first_row: int) -> None:
        """The next rows of the log."""
        rows = self._episodes.part(part, first_row)
        self._discrete &= rows.discrete
        self._timed = part.timesteps is not None
        self._chain.add(rows)
        self._resets.add(rows)
        self._limits.add(rows, self._episodes)
        self._pieces.add(rows.marks, first_row)
        self._stays.add(rows)
        if not (self._episodes.has_ids and self._timed):
            self._equal.add(rows.states, rows.marks, np.column_stack([part.actions, part.rewards]))
        self._add_columns(part)

    def _add_columns(self, part: Transitions) -> None:
        """What can be checked without knowing which row follows which."""
        self._course.add(part)
        if part.discrete_actions:
            more = np.bincount(part.actions)
            size = max(more.size, self.action_counts.size)
            self.action_counts = np.pad(more, (0, size - more.size)) + np.pad(
                self.action_counts, (0, size - self.action_counts.size)
            )
        else:
            self.action_range = widened(self.action_range, part.actions)
        self._propensities.add(part)

    @property
    def episode_lengths(self) -> IntArray:
        """Rows of every episode."""
        return self._episodes.lengths

    def contradicted_propensities(self, name: Callable[[int], str]) -> str:
        """Which propensities do not fit the actions, and in which rows, in words; "" if all do, or there are none."""
        return self._course.contradicted(name)

    @property
    def one_step(self) -> bool:
        """Whether every row ends an episode of its own."""
        return bool((self._episodes.lengths == 1).all() and (self._episodes.ends == 1).all())

    def findings(self, *, gamma: float | None = None, horizon: int | None = None) -> tuple[Finding, ...]:
        """Everything found, the worst first; `gamma` and `horizon` tell which ends are natural."""
        told_apart = self._episodes.has_ids and (self._timed or self.one_step)
        keys = "" if told_apart else "episode_ids" if self.one_step else "episode_ids and timesteps"
        found = [
            *(
                list(self._chain.findings(has_ids=self._episodes.has_ids, has_times=self._timed))
                or self._stays.findings()
            ),
            *self._resets.findings(),
            *(
                list(copied(self._episodes, self._pieces))
                or ([] if self._discrete or not keys else self._equal.findings(keys))
            ),
            *self._of_columns(None if self.one_step else self._episodes),
            *missing_episodes(self._episodes),
            *self._limits.findings(self._episodes, gamma=gamma, horizon=horizon),
        ]
        return self._sorted(found)

    def _of_columns(self, episodes: EpisodeIndex | None = None) -> Iterator[Finding]:
        yield from self._course.findings(episodes)
        yield from self._propensities.findings(self.action_counts)

    @staticmethod
    def _sorted(findings: Iterable[Finding]) -> tuple[Finding, ...]:
        return tuple(sorted(findings, key=lambda item: _ORDER[item.severity]))


def inspect_log(log: Log, *, gamma: float | None = None, horizon: int | None = None) -> tuple[Finding, ...]:
    """Silent data errors, the worst first; `make_problem` refuses or warns by them.

    Looked for: next observations that are not the following observation or were filled in, states of the next episode where
    one was cut, rows of a resetting environment, missing rows and episodes, time limits recorded as terminations, copies of
    rows and whole stretches, drift, rows and episodes that are sorted, propensities that were not recorded.

    Parameters
    ----------
    log : Transitions or LogStream
        The log.
    gamma, horizon : float and int, default None
        Of the question: ends that are natural for it are not reported.
    """
    if not (hasattr(log, "batches") and hasattr(log, "inspection")):
        raise InvalidInput(f"inspect_log(log) needs Transitions or a stream, not {type(log).__name__}: see read_log.")
    return log.inspection.findings(gamma=gamma, horizon=horizon)
