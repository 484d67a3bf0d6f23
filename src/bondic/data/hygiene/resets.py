"""Where one episode ends and the next begins: s' of a cut row is the state that followed, not the next start.

Vector environments that reset at once hand out the first observation of the next episode as s' (harmless at a
termination, where s' is not used; wrong at a truncation). Those that reset on the next step write one more row, with the
last state as observation, an action that was ignored and reward 0.

The k-th end is compared with the k-th start after it. Equality by chance is counted out: with p(s) the share of starts at
s, chance gives mu = sum over ends of p(s') matches, and x matches or more have probability at most
exp(-(x log(x / mu) - x + mu)) (Chernoff). A world with one start state has mu = x, and is never judged.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from bondic.data._arrays import FloatArray
from bondic.data.hygiene.chance import RARE, poisson_surprise
from bondic.data.hygiene.consecutive import ConsecutiveRows, EpisodeRows
from bondic.data.hygiene.findings import Finding, Severity
from bondic.data.hygiene.marks import state_marks

_MAX_STATES = 100_000
_HARDLY = 0.1
_FAR = 3.0
"""A step this many times as long as the mean step inside episodes is no step of the process."""


class ResetCheck:
    """A few numbers for every start and every end."""

    def __init__(self) -> None:
        self._starts: list[npt.NDArray[np.void]] = []
        self._ends: list[npt.NDArray[np.void]] = []
        self._scale: FloatArray | None = None
        self._inner = np.zeros(2)  # sum and number of step lengths inside episodes
        self._zero_rewards = np.zeros(2)
        self._discrete = True
        self._inside: npt.NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)  # marks of states inside episodes

    def add(self, part: ConsecutiveRows) -> None:
        rows = part.rows.take(part.fresh)
        self._discrete &= part.discrete
        if self._scale is None:
            spread = part.rows.observations.std(axis=0)
            self._scale = np.where(spread > 0, spread, np.inf)
        ends = rows.terminated | rows.truncated
        inner = ~ends
        inner[part.starts - part.fresh[0]] = False
        self._inner += self._lengths(rows.take(np.flatnonzero(inner))).sum(), inner.sum()
        if self._discrete and self._inside.size < _MAX_STATES:
            inside = np.ones(inner.size, dtype=bool)
            inside[part.starts - part.fresh[0]] = False
            self._inside = np.union1d(self._inside, state_marks(rows.observations[inside]))
        self._zero_rewards += (rows.rewards == 0).sum(), rows.rewards.size
        self._starts.append(self._facts(part.rows.take(self._begins(part)), of_next=False))
        self._ends.append(self._facts(rows.take(np.flatnonzero(ends)), of_next=True))

    @staticmethod
    def _begins(part: ConsecutiveRows) -> npt.NDArray[np.int64]:
        """First rows of episodes, and rows that follow a truncated row of the same id: environments numbered as episodes."""
        return np.sort(np.concatenate([part.starts, part.after[part.rows.truncated[part.before]]]))

    def _lengths(self, rows: EpisodeRows) -> FloatArray:
        assert self._scale is not None
        return np.asarray(np.sqrt((((rows.following - rows.observations) / self._scale) ** 2).sum(axis=1)))

    def _facts(self, rows: EpisodeRows, *, of_next: bool) -> npt.NDArray[np.void]:
        """Row, mark of the state, length of the step, whether the row is truncated and whether its reward is 0."""
        kind = [("row", np.int64), ("mark", np.uint64), ("step", np.float64), ("cut", np.bool_), ("zero", np.bool_)]
        out = np.zeros(rows.number.size, dtype=kind)
        out["row"], out["cut"], out["zero"] = rows.number, rows.truncated, rows.rewards == 0
        out["mark"] = state_marks(rows.following if of_next else rows.observations)
        out["step"] = self._lengths(rows)
        return out

    def findings(self) -> Iterator[Finding]:
        starts, ends = np.concatenate(self._starts), np.concatenate(self._ends)
        if not ends.size or not starts.size:
            return
        open_before = int((starts["row"] <= ends["row"][0]).sum())  # episodes that run side by side
        count = min(ends.size, starts.size - open_before)
        ended, begun = ends[:count], starts[open_before : open_before + max(count, 0)]
        in_order = begun["row"] > ended["row"]
        ended, begun = ended[in_order], begun[in_order]
        same = ended["mark"] == begun["mark"]
        if (rows := self._ignored_actions(ended, begun, same, starts)) is not None:
            yield _reset_rows(rows)
            return
        wrong = same & ended["cut"]
        if self._beyond_chance(ended[ended["cut"]], wrong, starts):
            far = self._far(ended["step"][wrong])
            yield _resets(ended[wrong], int(ended["cut"].sum()), "refuse" if far else "warn")

    def _beyond_chance(
        self, ended: npt.NDArray[np.void], same: npt.NDArray[np.bool_], starts: npt.NDArray[np.void]
    ) -> bool:
        found = int(same.sum())
        if found < 2:
            return False
        values, counts = np.unique(starts["mark"], return_counts=True)
        if not self._discrete and values.size == starts.size:
            return True  # continuous states that never repeat: two equal ones are no chance
        place = np.minimum(np.searchsorted(values, ended["mark"]), values.size - 1)
        share = np.where(values[place] == ended["mark"], counts[place], 0) / starts.size
        return poisson_surprise(found, float(share.sum())) > RARE

    def _far(self, steps: FloatArray) -> bool:
        total, count = self._inner
        return bool(count and np.median(steps) > _FAR * total / count)

    def _ignored_actions(
        self,
        ended: npt.NDArray[np.void],
        begun: npt.NDArray[np.void],
        same: npt.NDArray[np.bool_],
        starts: npt.NDArray[np.void],
    ) -> npt.NDArray[np.void] | None:
        """Starts at the state that ended the episode before, with reward 0: where others are paid, where the step is a leap
        and the one before was none, or at states that end episodes and never occur inside one."""
        if not self._beyond_chance(ended, same, starts) or not begun["zero"][same].all():
            return None
        rows = begun[same]
        final = rows["mark"][~ended["cut"][same]]
        known = np.isin(final, self._inside) | (final == starts["mark"][0])
        if self._discrete and final.size > 1 and known.mean() < _HARDLY:
            return rows
        share = self._zero_rewards[0] / max(self._zero_rewards[1], 1.0)
        unpaid = 0 < share < 1 and -rows.size * np.log(share) > RARE
        return rows if (unpaid or self._far(rows["step"])) and not self._far(ended["step"][same]) else None


def _reset_rows(rows: npt.NDArray[np.void]) -> Finding:
    first = int(rows["row"][0])
    return Finding(
        "reset-rows", "refuse", rows.size, first,
        f"{rows.size} episodes begin at the very state in which the episode before ended, with reward 0 (first: row {first}): "
        "rows that a vector environment writes while it resets. Their actions were ignored, so they are no steps of the process.",
        "Drop the first row of these episodes.",
    )  # fmt: skip


def _resets(rows: npt.NDArray[np.void], cuts: int, severity: Severity) -> Finding:
    first = int(rows["row"][0])
    return Finding(
        "resets", severity, rows.size, first,
        f"In {rows.size} of {cuts} truncated rows `next_observations` is the first observation of the next episode (first: row "
        f"{first}): vector environments that reset at once write it. The value after the cut would be that of a new start.",
        "Write the state that really followed (Gymnasium keeps it in info['final_obs']).",
    )  # fmt: skip
