"""From the rows of a table to a plan without coordinates: block after block, each from the rows before it (section 9)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from bondic.core.betting import LARGEST_BET, loss
from bondic.core.classes.balls import Box, Provenance
from bondic.core.sequential.table_plan import TableBlock, TablePlan, expected, weights_of
from bondic.core.sums.forms import Sums
from bondic.engines.sums import STANDARD
from bondic.rows import Rows
from bondic.search.sequential.blocks import block_ends
from bondic.search.sequential.codes import Codes, make_codes
from bondic.search.sequential.flow import Capacity, Flow, best_flow
from bondic.search.sequential.visits import Visits

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_HALVINGS = 5
"""The last block is cut into halves so often, each of them of what is left: only the last fluctuation stays unbalanced."""
_FIRST = np.geomspace(0.3, 3000.0, 40)
"""Λ times the value range, for the first block."""
_LATER = np.array([1.0, 1.1, 1.25])
"""Later blocks may raise Λ, in units of the one before. Taking weight back was measured to cost more than it gains."""
_MOST = 3.0
"""In all by no more than this factor."""


def finer(cuts: Sequence[float]) -> tuple[float, ...]:
    """Every block in two parts, the last one in parts that halve: these plans are cheap, and their models learn quickly."""
    ends = [0.0, *cuts]
    found = [point for low, high in pairwise(ends) for point in (0.5 * (low + high), high)]
    last, length = ends[-1], ends[-1] - ends[-2]
    return tuple(sorted({*found, *(last - length * 0.5**k for k in range(1, _HALVINGS + 1))}))


@dataclass(eq=False)
class TableProposer:
    """Makes block after block, and keeps what their weights have balanced."""

    gamma: float
    radius: float
    planned: int  # the row of the log where the plan ends
    log_term: float  # log(1/delta) of an end
    blocks: list[TableBlock] = field(default_factory=list)
    _rates: float = 0.0  # Λ so far
    _paid: float = 0.0  # for noise so far
    _balanced: FloatArray = field(default_factory=lambda: np.zeros(0))  # (S A,) sum v_i T_i
    _most: float = math.inf  # Λ in all

    def aim(self, past: Codes, total: float | None) -> tuple[Capacity, Flow]:
        """Weights for the rows from the end of the past to the planned one; `total`: Λ of the block before."""
        share = len(past) / max(past.row - past.begin, 1)
        capacity = Capacity.of(Visits(past, self.gamma, self.radius), share * max(self.planned - past.row, 1))
        balanced = np.zeros(past.size)
        balanced[: self._balanced.size] = self._balanced
        first = _FIRST / float(past.widths.max())
        totals = first if total is None else np.minimum(total * _LATER, self._most)
        return capacity, best_flow(capacity, totals, balanced, self._paid, self.log_term)

    def extend(self, before: Callable[[int], Codes], begin: int, stops: Sequence[int]) -> None:
        """Blocks from row `begin` of the log to each of `stops`, each from what is known `before` it."""
        total, past = None, before(begin)
        for stop in stops:
            capacity, aim = self.aim(past, total)
            if total is None:
                self._most = _MOST * aim.total
            total = aim.total
            left = max(self.planned - begin, stop - begin) * len(past) / max(begin - past.begin, 1)
            rate = max(total - self._rates, 1e-3 * total) / left
            self.blocks.append(_block(stop, rate, capacity, aim, past.visited))
            known = before(stop)
            self._weigh(self.blocks[-1], known, len(past))
            begin, past = stop, known

    def _weigh(self, block: TableBlock, known: Codes, first: int) -> None:
        """Add the rows first.. of what is known by now to the sums."""
        pairs, after, widths = known.pairs[first:], known.after[first:], known.widths[first:]
        visited = known.visited
        numbers = np.full(known.size, -1)
        numbers[visited] = np.arange(visited.size)
        weights = weights_of(block, numbers[pairs], widths, np.zeros(visited.size, dtype=np.int64))
        balanced = np.asarray(np.bincount(pairs, weights, minlength=known.size), dtype=np.float64)
        on = after >= 0
        sent = np.bincount(after[on], weights[on], minlength=known.states.shape[0])
        balanced -= (self.gamma * sent[:, None] * known.answers).reshape(-1)
        balanced[: self._balanced.size] += self._balanced
        self._rates, self._balanced = self._rates + block.rate * pairs.size, balanced
        own = np.flatnonzero(weights)
        answers = np.where(on[own, None], known.answers[after[own]], 0.0)
        found = expected(block, known.answers, numbers[pairs[own]], after[own], answers, 0.0)
        apart = self.gamma * self.radius * found.apart + np.abs(known.targets[first:][own] - found.predicted)
        bets = np.minimum(np.abs(weights[own]) * np.minimum(apart, widths[own]), LARGEST_BET)
        self._paid += float(loss(-bets).sum())


def _block(stop: int, rate: float, capacity: Capacity, aim: Flow, pairs: IntArray) -> TableBlock:
    """As it is written down: pairs that were seen, and models of those that have a weight."""
    visits = capacity.visits
    known = pairs[: int(np.count_nonzero(visits.count))]
    weights = np.sign(aim.weights[known]) * aim.sizes[known]
    rows = visits.model[known]
    kept = np.repeat(weights != 0, np.diff(rows.indptr))
    lengths = np.where(weights != 0, np.diff(rows.indptr), 0)
    shares = (rows.data * np.repeat(visits.share[known], np.diff(rows.indptr)))[kept]
    return TableBlock(
        stop,
        rate,
        visits.predicted[known],
        weights,
        aim.wanted[known],
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        rows.indices[kept].astype(np.int64),
        shares,
    )


def make_table_plan(
    problem: Rows,
    pilot: Rows,
    box: Box,
    log_term: float,
    planned: int,
    cuts: Sequence[float],
    sums: Sums = STANDARD,
    replay: Callable[[int], Rows] | None = None,
) -> TablePlan:
    """A plan for all rows after the pilot; every block is made from the rows before it.

    `replay`: each from a log that is cut there, not from a view of the whole log.
    """
    codes, first, last = make_codes(problem, pilot, box, sums), problem.rows.start, problem.rows.stop

    def before(row: int) -> Codes:
        return codes.before(row) if replay is None else make_codes(replay(min(row, last)), pilot, box, sums)

    proposer = TableProposer(problem.gamma, box.radius, first + planned, log_term)
    proposer.extend(before, pilot.rows.stop, block_ends(pilot.rows.stop, first, first + planned, last, finer(cuts)))
    places, slots = np.divmod(codes.visited, codes.slots)
    seen = Provenance("begun", (first, pilot.rows.stop), problem.log_hash)
    return TablePlan(codes.states, codes.answers, places, slots, tuple(proposer.blocks), seen)


def predict_table_length(pilot: Rows, box: Box, log_term: float, planned: int, sums: Sums = STANDARD) -> float:
    """How long the interval of such a plan would be, from the pilot alone; longer than the range where it is that bad."""
    codes = make_codes(pilot, pilot, box, sums)
    proposer = TableProposer(pilot.gamma, box.radius, pilot.rows.start + planned, log_term)
    _, aim = proposer.aim(codes.before(pilot.rows.stop), None)
    return float(2 * aim.half(log_term))
