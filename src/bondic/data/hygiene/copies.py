"""A log (or a stretch of it) pasted twice, under new episode numbers.

Honest logs repeat themselves: only equal keys (episode, timestep) are refused, where the log is made; what is found here is a
warning. Equal rows, and equal short episodes, are common where states are few. What chance does not give is a *block*:
episodes k, k+1, ..., l that come again, in the same order, d episodes later. An episode whose content occurs c times among m
repeats at a given place with probability c/m, so a block of matches weighs sum log(m/c) against the m^2 places where it could
stand. Where equal contents stand near each other (rows sorted by customer) they match more often: no match weighs more than
the share of other matches at this distance, and at distances like it, says: users who come back every day match often. Only
contents that occur rarely count: a policy that has converged repeats itself, and that is no copy.

Logs without episodes, or with few, are cut into pieces where the last four rows say so (by their hash): a copy is then cut at
the same places. A piece depends on the one before, so pieces weigh half.

Rows that equal an earlier one in every value, in a log without keys most of whose states come once: the same event logged
twice, where no rows of one state differ, and those of different states agree in action and reward too seldom to explain it.

Each unit twice in a row: units 2k and 2k + 1 are equal, and 2k + 1 and 2k + 2 are not.

Rows with the same (s, a, s') as another one, whatever their rewards: events that were logged twice and altered.

Continuous states come back by chance with probability 0. Where they come back for a reason (a wall, a fixed start with
everything that follows from it, a state that is measured coarsely), the behavior is free to act in another way. So judged are
the states of several rows whose row before is at a state of its own, in logs where most rows are. If two visits of one state
agreed in their action no more often than rows that follow each other do (a share q), D of G such states would agree in action
and next state with probability at most exp(-G KL(D/G, q)) (Chernoff).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.data._arrays import FloatArray, IntArray
from bondic.data.hygiene.chance import RARE, surprise
from bondic.data.hygiene.consecutive import ConsecutiveRows, EpisodeIndex
from bondic.data.hygiene.findings import Finding
from bondic.data.hygiene.marks import Marks, fingerprints, mixed, placed

_MAX_REPEATS = 8
_PIECE = 16
"""Rows of a piece, on average."""
_CONTEXT = 4
_FEW_EPISODES = 24
_MAX_OFFSETS = 16
_PRIOR = 10
"""Pairs of units that the share of matches at other distances counts for."""
_NEARLY_ALL = 0.9
_ALL_BUT = 0.98
"""Share of the rows in one state that equal the one before there: users who come back differ now and then."""


@dataclass(frozen=True)
class CopiedBlock:
    """`length` units that begin at `first` and come again `offset` units later."""

    first: int
    length: int
    offset: int


def repeated_block(marks: Marks, weight: float = 1.0) -> CopiedBlock | None:
    """The heaviest block that chance does not explain, if there is one."""
    count = marks.size
    if count < 2 or not repeated_marks(marks).size:
        return None
    _, inverse, counts = np.unique(marks, return_inverse=True, return_counts=True)
    repeats = counts[inverse]
    worth = np.where((repeats > 1) & (repeats <= _MAX_REPEATS), weight * np.log(count / repeats), 0.0)
    needed = 2.0 * float(np.log(count)) + RARE
    best: tuple[float, CopiedBlock] | None = None
    distances, weights = _pairs(inverse, worth)
    for offset in _offsets(distances, weights, needed):
        equal = np.concatenate([[False], marks[:-offset] == marks[offset:], [False]])
        begin, end = np.flatnonzero(np.diff(equal.astype(np.int8)) == 1), np.flatnonzero(np.diff(equal * 1) == -1)
        total = np.concatenate([[0.0], np.cumsum(np.where(equal[1:-1], worth[:-offset], 0.0))])
        top = int(np.argmax(total[end] - total[begin]))
        inside = slice(int(begin[top]), int(end[top]))
        block = inside.stop - inside.start
        elsewhere, places = int(equal.sum()) - block, count - offset - block
        usual = (elsewhere + _PRIOR * _match_rate(distances, count, offset, block)) / (places + _PRIOR)
        found = float(np.minimum(worth[inside], -np.log(usual)).sum())
        if found > needed and (best is None or found > best[0]):
            best = (found, CopiedBlock(inside.start, inside.stop - inside.start, offset))
    return None if best is None else best[1]


def each_twice(marks: Marks) -> CopiedBlock | None:
    """Nearly all units equal to their other half, where the ones between pairs do not."""
    same = marks[1:] == marks[:-1]
    for first in (0, 1):
        pairs, between = same[first::2], same[1 - first :: 2]
        usual = (int(between.sum()) + 1) / (between.size + 2)
        if pairs.size and pairs.mean() >= _NEARLY_ALL and surprise(int(pairs.sum()), pairs.size, usual) > RARE:
            return CopiedBlock(first + 2 * int(pairs.argmax()), int(pairs.sum()), 1)
    return None


def repeated_marks(marks: Marks) -> Marks:
    """Those that occur twice or more, in order; of most logs none, and then nothing else is made."""
    ordered = np.sort(marks)
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


def _pairs(codes: npt.NDArray[np.intp], worth: FloatArray) -> tuple[IntArray, FloatArray]:
    """The distance of two equal rare units, for all pairs of them, and the evidence of each."""
    rare = np.flatnonzero(worth > 0)
    order = rare[np.argsort(codes[rare], kind="stable")]
    gaps, weights = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
    for lag in range(1, _MAX_REPEATS):
        earlier, later = order[:-lag], order[lag:]
        same = codes[earlier] == codes[later]
        gaps.append((later - earlier)[same])
        weights.append(worth[earlier][same])
    return np.concatenate(gaps), np.concatenate(weights)


def _offsets(distances: IntArray, weights: FloatArray, needed: float) -> list[int]:
    """Distances at which rare units match so often that a block could be there."""
    if not distances.size:
        return []
    values, inverse = np.unique(distances, return_inverse=True)
    total = np.bincount(inverse, weights=weights)
    heavy = np.flatnonzero(total > needed)
    return [int(values[k]) for k in heavy[np.argsort(-total[heavy])][:_MAX_OFFSETS]]


def _match_rate(distances: IntArray, count: int, offset: int, block: int) -> float:
    """The share of matches among pairs of units whose distance is half to twice the offset, without those of the block."""
    least, most = (offset + 1) // 2, min(2 * offset, count - 1)
    matches = int(np.count_nonzero((distances >= least) & (distances <= most))) - block
    places = (most - least + 1) * (count - 0.5 * (least + most)) - block
    return float((max(matches, 0) + 1) / (max(places, 0.0) + 2))


class Pieces:
    """Cuts the rows of a log at places that depend on their content, across parts."""

    def __init__(self) -> None:
        self._context: Marks = np.zeros(_CONTEXT - 1, dtype=np.uint64)
        self._marks: list[Marks] = []
        self._rows: list[IntArray] = []
        self._open = (np.zeros(1, dtype=np.uint64), 0, 0)  # sum of the piece that has begun, its rows, its first row

    def add(self, marks: Marks, first_row: int) -> None:
        n = marks.size
        with_before = np.concatenate([self._context, marks])
        context = np.zeros(n, dtype=np.uint64)
        for back in range(_CONTEXT):
            context += placed(with_before[back : back + n], np.full(n, back, dtype=np.int64))
        self._context = with_before[n:]
        cuts = np.flatnonzero(mixed(context) % np.uint64(_PIECE) == 0)
        partial, before, start = self._open
        begins = np.concatenate([[0], cuts + 1])
        piece = np.searchsorted(cuts, np.arange(n), side="left")
        within = np.arange(n) - begins[piece] + np.where(piece == 0, before, 0)
        sums = np.zeros(cuts.size + 1, dtype=np.uint64)
        np.add.at(sums, piece, placed(marks, within))
        sums[:1] += partial
        firsts = np.concatenate([[start], first_row + cuts + 1])
        self._marks.append(sums[:-1])
        self._rows.append(firsts[:-1])
        left = n - int(begins[-1])
        self._open = (sums[-1:], left + (before if not cuts.size else 0), int(firsts[-1]))

    def finished(self) -> tuple[Marks, IntArray]:
        """Marks and first rows of all pieces that are complete."""
        return np.concatenate(self._marks), np.concatenate(self._rows)


def copied_blocks(
    contents: Marks, paths: Marks | None, row_at: Callable[[int], int], units: str = "episodes"
) -> Iterator[Finding]:
    """Blocks of units that come again: in every number, or, where `paths` are there, in all but what was paid.

    `row_at` gives the first row of a unit.
    """
    for marks, how in ((contents, ""), (paths, " in every state and action, with other rewards")):
        block = None if marks is None else each_twice(marks) or repeated_block(marks)
        if block is not None:
            first, again = row_at(block.first), row_at(block.first + block.offset)
            what = "in a row are repeated" if block.offset > 1 else "come twice, one after the other"
            yield _finding(block.length, again, first, f"{block.length} {units} {what}{how}")
            return


def copied(episodes: EpisodeIndex, pieces: Pieces, *, discrete: bool, keyed: bool) -> Iterator[Finding]:
    """Blocks of episodes that come again; equal episodes of continuous states; long runs of rows that come again."""
    paths = None if discrete or (episodes.lengths == 1).all() else episodes.paths  # users come back with what they have
    blocks = list(copied_blocks(episodes.contents, paths, lambda place: int(episodes.first_rows[place])))
    if blocks:
        yield from blocks
        return
    twins = _twins(episodes) if not discrete and keyed else np.zeros(0, dtype=np.int64)
    if twins.size:
        row = int(episodes.first_rows[twins[0]])
        original = int(episodes.first_rows[np.flatnonzero(episodes.paths == episodes.paths[twins[0]])[0]])
        what = f"{twins.size} episodes equal an earlier one in every state and action, although observations are continuous"
        yield _finding(twins.size, row, original, what)
        return
    if episodes.ids.size < _FEW_EPISODES:
        marks, rows = pieces.finished()
        block = repeated_block(marks, 0.5)
        if block is not None:
            length = int(rows[block.first + block.length - 1] - rows[block.first]) + 1
            first, again = (int(rows[k]) for k in (block.first, block.first + block.offset))
            yield _finding(length, again, first, f"A run of at least {length} rows is repeated")


def _twins(episodes: EpisodeIndex) -> IntArray:
    """Later copies of episodes of two rows or more, where no two different episodes have the same start.

    Without their rewards they are compared where most starts occur once: else a behavior and a world without chance may have
    repeated all but the rewards.
    """
    alone = np.unique(episodes.start_marks, return_counts=True)[1] == 1
    contents = episodes.paths if 2 * alone.sum() > alone.size else episodes.contents
    values, first = np.unique(contents, return_index=True)
    if alone.size != values.size or values.size < 2:
        return np.zeros(0, dtype=np.int64)
    later = np.ones(contents.size, dtype=bool)
    later[first] = False
    return np.flatnonzero(later & (episodes.lengths > 1))


def _finding(count: int, row: int, original: int, what: str) -> Finding:
    return Finding(
        "copies", "warn", count, row,
        f"{what} (at row {row}, as at row {original}). Rows that are logged twice are not new data: the interval would be too "
        "short.",
        "Keep each event once.",
    )  # fmt: skip


MAX_ROWS, MAX_CONTENTS = 1_000_000, 30_000_000
_NONE = np.uint64(0)


class Agreement:
    """How often a row has the values of the row before it; values with a column for each."""

    def __init__(self) -> None:
        self._last: FloatArray | None = None
        self._same = self._rows = 0

    def add(self, values: FloatArray) -> None:
        run = values if self._last is None else np.concatenate([self._last, values])
        self._same += int((run[1:] == run[:-1]).all(axis=1).sum())
        self._rows, self._last = self._rows + run.shape[0] - 1, values[-1:]

    @property
    def share(self) -> float:
        return (self._same + 1) / (self._rows + 2)


class NearCopies:
    """Marks of state, of (s, a, s'), and of the state of the row before, for the first rows of a continuous log; of more rows
    the marks of their whole content."""

    def __init__(self) -> None:
        self._contents: list[Marks] = []
        self._firsts: list[
            int
        ] = []  # row of the log at which each of these begins: parts of whole numbers are not judged
        self._marks: list[npt.NDArray[np.uint64]] = []
        self._rows: list[IntArray] = []
        self._held = 0
        self._actions, self._outcomes = Agreement(), Agreement()  # of actions; of actions and rewards

    def add(self, part: ConsecutiveRows, actions: npt.NDArray[np.float64]) -> None:
        """The next rows of the log, with the actions of the fresh ones."""
        if part.discrete:
            return
        if sum(map(len, self._contents)) < MAX_CONTENTS:
            self._contents.append(part.marks)
            self._firsts.append(int(part.rows.number[part.fresh[0]]))
        if self._held > MAX_ROWS:
            return
        states = fingerprints(part.rows.observations + 0.0)
        earlier = np.full(states.size, _NONE)
        earlier[part.after] = states[part.before]
        fresh = part.fresh
        self._marks.append(np.stack([states[fresh], part.paths, earlier[fresh]]))
        self._rows.append(part.rows.number[fresh])
        self._held += fresh.size
        self._actions.add(actions)
        self._outcomes.add(np.column_stack([actions, part.rows.rewards[fresh]]))

    def findings(self, *, keys: str) -> Iterator[Finding]:
        """`keys` are the columns that would identify events; empty where the log has them."""
        if self._marks:
            yield from list(self._altered()) or (self._equal(keys) if keys else ())

    def _equal(self, keys: str) -> Iterator[Finding]:
        states = np.concatenate(self._marks, axis=1)[0]
        return equal_rows(np.concatenate(self._contents), states, self._outcomes.share, self._row, keys)

    def _row(self, place: int) -> int:
        """The row of the log at this place of the contents."""
        ends = np.cumsum([marks.size for marks in self._contents])
        part = int(np.searchsorted(ends, place, side="right"))
        return self._firsts[part] + place - int(ends[part] - self._contents[part].size)

    def _altered(self) -> Iterator[Finding]:
        states, paths, earlier = np.concatenate(self._marks, axis=1)
        rows = np.concatenate(self._rows)
        if (np.diff(np.sort(states)) > 0).all():
            return
        values, group, counts = np.unique(states, return_inverse=True, return_counts=True)
        if 2 * (counts == 1).sum() <= states.size:
            return
        place = np.minimum(np.searchsorted(values, earlier), values.size - 1)
        own = (earlier != _NONE) & ~((values[place] == earlier) & (counts[place] > 1))
        judged = np.flatnonzero((counts > 1) & (np.bincount(group[own], minlength=values.size) > 0))
        kinds = np.bincount(group[np.unique(paths, return_index=True)[1]], minlength=values.size)
        copied = judged[kinds[judged] == 1]
        if copied.size < 2 or surprise(copied.size, judged.size, self._actions.share) <= RARE:
            return
        yield _near_finding(rows, group, np.flatnonzero(np.isin(group, copied)))


def equal_rows(marks: Marks, states: Marks, share: float, row_at: Callable[[int], int], keys: str) -> Iterator[Finding]:
    """Rows with the content of an earlier one; `states` are those of the first rows, `row_at` gives the row of a place.

    `share` of the neighboring rows agree in action and reward: one state may do so more often, here with its root.
    """
    repeated = repeated_marks(marks)
    if not repeated.size:
        return
    some = np.flatnonzero(np.isin(marks, repeated))
    _, first, inverse = np.unique(marks[some], return_index=True, return_inverse=True)
    original = some[first[inverse.reshape(-1)]]
    later = original != some
    again = some[later]
    kept = np.ones(states.size, dtype=bool)
    kept[again[again < states.size]] = False
    _, counts = np.unique(states[kept], return_counts=True)
    copies, met_again = int((~kept).sum()), states.size - counts.size
    alike = copies >= _ALL_BUT * met_again and surprise(copies, met_again, share**0.5) > RARE
    if alike and 2 * np.count_nonzero(counts == 1) >= counts.sum():
        row, earlier = row_at(int(again[0])), row_at(int(original[later][0]))
        yield Finding(
            "copies", "warn", again.size, row,
            f"{again.size} rows equal an earlier row in every value (first: row {row}, as row {earlier}), and hardly any "
            "two rows of one state differ. If they are the same event logged twice, they are not new data: the interval "
            "would be too short.",
            f"Pass {keys}, or remove them.",
        )  # fmt: skip


def _near_finding(rows: IntArray, group: npt.NDArray[np.intp], same: IntArray) -> Finding:
    _, first, inverse = np.unique(group[same], return_index=True, return_inverse=True)
    again = np.flatnonzero(first[inverse] != np.arange(same.size))
    row, original = (int(rows[same[k]]) for k in (again[0], first[inverse[again[0]]]))
    return Finding(
        "copies", "warn", again.size, row,
        f"{again.size} rows have the state, the action and the next state of an earlier row in every number, although "
        f"observations are continuous (first: row {row}, as row {original}); their rewards may differ. An event that is logged "
        "twice is not new data: the interval would be too short.",
        "Keep each event once, with the reward that was paid.",
    )  # fmt: skip
