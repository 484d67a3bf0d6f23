"""Which rows make up an episode, and whether they can be what trajectory methods take them for: all steps from 0 on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bondic.core.bounded import portions
from bondic.core.columns import RowRange
from bondic.core.errors import InvalidInput
from bondic.data._arrays import BoolArray, FloatArray, IntArray
from bondic.data.episodes import Episodes, episode_starts
from bondic.data.initial import of_stream
from bondic.data.log import Log
from bondic.data.transitions import Transitions

if TYPE_CHECKING:
    from bondic.rows.rows import Rows

_JOIN = 1e-6
"""A next observation and the following row's observation may differ by this share of their size: one of them may have
been stored with 32 bits (6e-8)."""


def columns_of(problem: Rows) -> Transitions:
    """All columns of the log, episodes and steps among them."""
    problem.whole()  # refuses a log that is too long for that
    return problem.log.read()


@dataclass(frozen=True, eq=False)
class Keys:
    """What says which rows are one episode, and that none of its steps is missing: columns of the whole log."""

    terminations: BoolArray
    truncations: BoolArray
    episode_ids: IntArray | None
    timesteps: IntArray | None
    observations: FloatArray | None  # these two where there are no timesteps
    next_observations: FloatArray | None
    counted: IntArray  # rows of the log that are rows of the question
    left_out: IntArray | None = None  # rows of the stretch whose episode began before it


def read_keys(problem: Rows, *, whole: bool = False) -> Keys:
    """One pass over the log; `whole` leaves out episodes that began before the rows of the question."""
    names = ["terminations", "truncations", "episode_ids", "timesteps"]
    names += [] if problem.log.has_timesteps else ["observations", "next_observations"]
    parts = [[getattr(part, name) for name in names] for _, part in problem.log.batches()]
    found: dict[str, Any] = {"observations": None, "next_observations": None}
    for name, one in zip(names, zip(*parts, strict=True), strict=True):
        found[name] = one[0] if one[0] is None or len(one) == 1 else np.concatenate(one)
    counted = np.arange(problem.rows.start, problem.rows.stop)
    if problem.terms.horizon is not None:
        counted = counted[found["timesteps"][counted] < problem.terms.horizon]
    left = None
    if whole and found["episode_ids"] is not None and problem.rows.start:
        begun = np.isin(found["episode_ids"], found["episode_ids"][: problem.rows.start])
        left, counted = np.flatnonzero(begun), counted[~begun[counted]]
    return Keys(**found, counted=counted, left_out=left)


def episode_numbers(problem: Rows, keys: Keys | None = None) -> IntArray:
    """(n,) 0, 1, ... in order of first appearance; episodes that `select` cut in two are refused."""
    log = keys or read_keys(problem)
    if log.episode_ids is None and log.terminations.all():
        return np.arange(len(problem), dtype=np.int64)  # every row is an episode of its own
    if log.episode_ids is None:
        raise InvalidInput(
            "This method treats episodes as independent units, and the log has no `episode_ids`. Row "
            f"{int(np.argmin(log.terminations))} goes on, so rows are no episodes of their own. Pass `episode_ids`; if "
            "every row is a decision of its own, say so (every row terminated; one_step=True, --one-step); or use a method for "
            "single rows, such as Dual()."
        )
    ids = np.asarray(log.episode_ids)
    inside = np.zeros(ids.size, dtype=bool)
    inside[problem.rows.start : problem.rows.stop] = True
    if log.left_out is not None:
        inside[log.left_out] = False
    split = np.flatnonzero(inside & np.isin(ids, ids[~inside]))
    if split.size:
        raise InvalidInput(
            f"The episode of row {int(split[0])} lies partly outside the selected {problem.rows}. Select whole episodes: a "
            "weight needs all actions from the first one on, and a return all rewards."
        )
    return Episodes(ids[log.counted]).number


def check_steps(problem: Rows, episodes: Episodes, keys: Keys | None = None) -> None:
    """Row t of an episode must be its step t: a gap would leave a ratio out of the product."""
    log = keys or read_keys(problem)
    if log.timesteps is None:
        _check_joints(log, *(log.counted[side] for side in episodes.pairs))
        return
    for some in portions(log.counted.size):
        rows, steps = log.counted[some], episodes.step[some]
        wrong = np.flatnonzero(log.timesteps[rows] != steps)
        if wrong.size:
            row = int(rows[wrong[0]])
            raise InvalidInput(
                f"Row {row} is row {int(steps[wrong[0]])} of its episode but carries timestep {int(log.timesteps[row])}: rows "
                "are missing. A trajectory's weight is the product over all its steps from 0 on."
            )


def _check_joints(log: Keys, earlier: IntArray, later: IntArray) -> None:
    """Without timesteps: nothing follows a truncation, and each row starts where the one before it led to."""
    why = "A trajectory's weight is the product over all its steps from 0 on."
    cut = np.flatnonzero(np.asarray(log.truncations)[earlier])
    if cut.size:
        raise InvalidInput(
            f"Row {int(later[cut[0]])} follows row {int(earlier[cut[0]])} in the same episode, but row "
            f"{int(earlier[cut[0]])} is truncated: recording stopped there. {why} Give the rows after it an episode id of "
            "their own, or, if the episode did go on without a gap, pass `timesteps`."
        )
    assert log.observations is not None
    assert log.next_observations is not None
    led, started = log.next_observations[earlier], log.observations[later]
    # the second term: entries near 0 that were computed from others with 32 bits
    allowed = _JOIN * np.maximum(np.abs(led), np.abs(started)) + 0.1 * _JOIN * np.abs(log.observations).mean(axis=0)
    gaps = np.flatnonzero((np.abs(led - started) > allowed).any(axis=1))
    if gaps.size:
        one, two = int(earlier[gaps[0]]), int(later[gaps[0]])
        raise InvalidInput(
            f"Row {two} follows row {one} in the same episode but starts at {log.observations[two]}, while row {one} led to "
            f"{log.next_observations[one]}: rows are missing, or two episodes share an id. {why} Restore the rows, give every "
            "episode its own id, or, if nothing is missing (observations that are scaled anew at every step), pass "
            "`timesteps` (0, 1, ... in every episode)."
        )


def own_starts(problem: Rows) -> bool:
    """Whether the stated initial states are the first starts of the log's own episodes, as InitialStates.from_log reads them."""
    states = problem.initial_states
    if states.kind == "exact":
        return False
    if of_stream(states, problem.log):
        return True
    left = states.observations
    for _, part, starts in episode_starts(problem.log):
        here = (part.observations if starts.size == len(part) else part.observations[starts])[: len(left)]
        if not np.array_equal(here, left[: len(here)]):
            return False
        left = left[len(here) :]
        if not len(left):
            return True
    return False


def split_episodes(problem: Rows, rows: int) -> tuple[Rows, Rows] | None:
    """Whole episodes within the first `rows` rows, and all that begin after them; None where one of the two has none.

    The episode that the end of these rows falls into is likely a long one. Whether an episode is certified must not depend on how
    long it is, and another method would certify its later rows: so it is neither looked at nor certified.
    """
    last, first = episode_borders(problem.log, problem.rows, problem.rows.start + rows)
    if last is None or first is None:
        return None
    return problem.select(problem.rows.start, last), problem.select(first)


def episode_borders(log: Log, rows: RowRange, stop: int) -> tuple[int | None, int | None]:
    """The last row at or before `stop`, and the first at or after it, that begin an episode; None: there is none."""
    if not log.has_episode_ids:
        return (stop, stop) if rows.start < stop < rows.stop else (None, None)
    before, last = None, None
    for where, part in log.batches(rows):
        ids = np.asarray(part.episode_ids)
        begins = where.start + np.flatnonzero(
            np.concatenate([[last is not None and ids[0] != last], ids[1:] != ids[:-1]])
        )
        last = ids[-1]
        early = begins[begins <= stop]
        before = int(early[-1]) if early.size else before
        if begins.size and begins[-1] >= stop:
            return before, int(begins[begins >= stop][0])
    return before, None


@dataclass(frozen=True, eq=False)
class Recorded:
    """Episodes that begin in a stretch of rows, in order of their first row.

    Rows of an episode are taken in their order. Where a log is read in parts, an episode that goes on in a later part counts
    as cut there, and its rest is left out.
    """

    returns: FloatArray  # (episodes,) discounted, of what was recorded
    steps: IntArray  # (episodes,)
    ended: BoolArray  # (episodes,) terminated, or reached the horizon
    later: (
        tuple[float, float] | None
    )  # least and largest return from any row on, of episodes that ended; None: none did


def recorded_returns(problem: Rows) -> Recorded:
    """One pass over the rows of the problem; episodes by their ids, else by their ends."""
    horizon = problem.terms.horizon
    found: list[tuple[FloatArray, IntArray, BoolArray]] = []
    seen, later = np.zeros(0, dtype=np.int64), np.zeros(0)
    for _, part in problem.log.batches(problem.rows):
        episodes = Episodes.of(part)
        counts = episodes.step < horizon if horizon is not None else np.ones(len(part), dtype=bool)
        worth = np.where(counts, part.rewards * problem.gamma**episodes.step, 0.0)
        sums = np.asarray(np.bincount(episodes.number, weights=worth), dtype=np.float64)
        ended = np.bincount(episodes.number, weights=part.terminations) > 0
        ended |= episodes.lengths >= horizon if horizon is not None else False
        kept = np.ones(episodes.first.size, dtype=bool)
        if part.timesteps is not None:
            kept = np.asarray(part.timesteps[episodes.first] == 0)
        if part.episode_ids is not None:
            names = np.asarray(part.episode_ids)[episodes.first]
            kept &= ~np.isin(names, seen)
            seen = np.union1d(seen, names)
        found.append((sums[kept], episodes.lengths[kept], ended[kept]))
        whole = _returns_from(np.where(counts, part.rewards, 0.0), episodes, problem.gamma)[ended[episodes.number]]
        later = np.array([one(np.append(later, whole)) for one in (np.min, np.max)]) if whole.size else later
    return Recorded(
        np.concatenate([one[0] for one in found]),
        np.concatenate([one[1] for one in found]),
        np.concatenate([one[2] for one in found]),
        (float(later[0]), float(later[1])) if later.size else None,
    )


def _returns_from(rewards: FloatArray, episodes: Episodes, gamma: float) -> FloatArray:
    """(n,) the discounted return from every row on, within its episode."""
    before, after = episodes.pairs
    found, order = rewards.astype(np.float64), np.argsort(-episodes.step[before], kind="stable")
    steps = episodes.step[before][order]
    for some in np.split(order, np.flatnonzero(np.diff(steps)) + 1) if order.size else ():
        found[before[some]] += gamma * found[after[some]]
    return found
