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
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.data._arrays import FloatArray, IntArray
from bondic.data.hygiene.chance import RARE, surprise
from bondic.data.hygiene.consecutive import EpisodeIndex
from bondic.data.hygiene.findings import Finding
from bondic.data.hygiene.marks import Marks, mixed, placed

_MAX_REPEATS = 8
_PIECE = 16
"""Rows of a piece, on average."""
_CONTEXT = 4
_FEW_EPISODES = 24
_MAX_OFFSETS = 16
_SELDOM = float(np.log(1e4))
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


def copied_blocks(contents: Marks, row_at: Callable[[int], int], units: str = "episodes") -> Iterator[Finding]:
    """Blocks of units that come again; `row_at` gives the first row of a unit."""
    block = each_twice(contents) or repeated_block(contents)
    if block is not None:
        first, again = row_at(block.first), row_at(block.first + block.offset)
        what = "in a row are repeated" if block.offset > 1 else "come twice, one after the other"
        yield _finding(block.length, again, first, f"{block.length} {units} {what}")


def copied(episodes: EpisodeIndex, pieces: Pieces) -> Iterator[Finding]:
    """Blocks of episodes that come again; of few long episodes, long runs of rows that do."""
    blocks = list(copied_blocks(episodes.contents, lambda place: int(episodes.first_rows[place])))
    yield from blocks
    if not blocks and episodes.ids.size < _FEW_EPISODES:
        marks, rows = pieces.finished()
        block = repeated_block(marks, 0.5)
        if block is not None:
            length = int(rows[block.first + block.length - 1] - rows[block.first]) + 1
            first, again = (int(rows[k]) for k in (block.first, block.first + block.offset))
            yield _finding(length, again, first, f"A run of at least {length} rows is repeated")


def _finding(count: int, row: int, original: int, what: str) -> Finding:
    return Finding(
        "copies", "warn", count, row,
        f"{what} (at row {row}, as at row {original}). Rows that are logged twice are not new data: the interval would be too "
        "short.",
        "Keep each event once.",
    )  # fmt: skip


_MAX_ROWS, _MAX_CONTENTS = 1_000_000, 30_000_000


class EqualRows:
    """Marks of the first rows: of the states of a million, of the contents of more; and how often neighbors have one outcome."""

    def __init__(self) -> None:
        self._states: list[Marks] = []
        self._contents: list[Marks] = []
        self._rows = self._same = 0
        self._last: FloatArray | None = None

    def add(self, states: Marks, contents: Marks, outcomes: FloatArray) -> None:
        """The next rows; `outcomes` are their actions and rewards, (n, k)."""
        if self._rows < _MAX_CONTENTS:
            self._contents.append(contents)
        if self._rows < _MAX_ROWS:
            self._states.append(states)
            run = outcomes if self._last is None else np.concatenate([self._last, outcomes])
            self._same, self._last = self._same + int((run[1:] == run[:-1]).all(axis=1).sum()), outcomes[-1:]
        self._rows += contents.size

    def contents(self) -> Marks:
        return np.concatenate(self._contents)

    def findings(self, keys: str) -> Iterator[Finding]:
        """Rows that equal an earlier one, where rows of one state hardly differ and neighbors of any states do.

        One state may have one outcome more often than neighbors: here with the root of their share. `keys` are the columns that
        would tell events apart.
        """
        marks, states = self.contents(), np.concatenate(self._states)
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
        share = ((self._same + 1) / (states.size + 1)) ** 0.5
        alike = copies >= _ALL_BUT * met_again and surprise(copies, met_again, share) > _SELDOM
        if alike and 2 * np.count_nonzero(counts == 1) >= counts.sum():
            row, earlier = int(again[0]), int(original[later][0])
            yield Finding(
                "copies", "warn", again.size, row,
                f"{again.size} rows equal an earlier row in every value (first: row {row}, as row {earlier}), and hardly any "
                "two rows of one state differ. If they are the same event logged twice, they are not new data: the interval "
                "would be too short.",
                f"Pass {keys}, or remove them.",
            )  # fmt: skip
