"""Blocks of a plan: their models, instruments and weights are made from the rows before them (section 9)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from bondic.core.claims import End
from bondic.core.sequential.plan import Block, Weighting, columns
from bondic.search.sequential.feasible import FeasibleSet
from bondic.search.sequential.history import EmbeddedRows, Prefix
from bondic.search.sequential.instruments import (
    SMALL_BET,
    Forecast,
    VectorBets,
    forecast,
    propose_instruments,
    propose_margin,
)
from bondic.search.sequential.models import (
    Fitted,
    Predictions,
    RunningMoments,
    fit,
    prediction_noise,
    sample_of,
    sampled_rows,
)
from bondic.search.sequential.starts import FULL_BET
from bondic.search.sequential.weights import Aim, Balance, Problem, propose_aim

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

CUTS = (0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
"""Ends of blocks, as shares of the planned rows."""
_PART = 10
"""A sub-block is this part of the rows that are left in its block."""
_MAX_PARTS = 1000
_GROWTH = 1.5
_STEP = 0.2


@dataclass(frozen=True)
class Budget:
    """What the events cost: log(2/delta_1) of the vector event, log(1/delta) of each end."""

    vector: float
    ends: dict[End, float]

    @staticmethod
    def of(vector: float, ends: dict[End, float]) -> Budget:
        """From the probabilities of the events."""
        return Budget(math.log(2 / vector), {end: math.log(1 / share) for end, share in ends.items()})


@dataclass(frozen=True, eq=False)
class Draft:
    """Everything about a block but the corrections of its weights."""

    fitted: Fitted
    first: Fitted  # by the first 70 % of the prefix
    noise: float
    rows: float  # that are planned and count
    sample: Predictions
    instruments: VectorBets
    final: Forecast
    margin: float
    aims: dict[End, Aim]


@dataclass(eq=False)
class _Sums:
    """Lambda and sum v_i T_i of one end, over the rows so far."""

    rates: float
    weighted: FloatArray  # (m,)


@dataclass(eq=False)
class _Open:
    """A block whose rows are still coming: directions of the sub-blocks that have begun."""

    begin: int
    draft: Draft
    bare: Block  # without weights
    starts: IntArray  # of all sub-blocks
    balances: dict[End, Balance]
    directions: dict[End, list[FloatArray]]
    weighed: int = 0  # sub-blocks whose rows are all in the sums

    def block(self) -> Block:
        """As far as it goes."""
        weightings = {
            end: Weighting(self.draft.aims[end].rate, self.starts[: len(rows)], np.array(rows))
            for end, rows in self.directions.items()
        }
        return replace(self.bare, weightings=weightings)


@dataclass(eq=False)
class BlockPlanner:
    """Makes block after block; it is shown pasts, and keeps sums over them.

    What it has proposed never changes, however the log goes on: where a block ends is fixed before it begins, and a log that
    stops inside a block has used a part of it.
    """

    size: int  # coordinates that are seen
    radius: float
    gamma: float
    start: int  # first certified row
    planned: int  # the row of the log where the plan ends
    budget: Budget
    moments: RunningMoments = field(init=False)
    feasible: FeasibleSet = field(init=False)
    first: Draft | None = None  # the first block
    _finished: list[Block] = field(init=False, default_factory=list)
    _open: _Open | None = field(init=False, default=None)
    _sums: dict[End, _Sums] = field(init=False)

    def __post_init__(self) -> None:
        self.moments = RunningMoments(self.size)
        self.feasible = FeasibleSet(self.size, self.radius, self.gamma, self.budget.vector)
        self._sums = {end: _Sums(0.0, np.zeros(self.size)) for end in self.budget.ends}

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All that have a row, the last one as far as it goes."""
        return (*self._finished, *(() if self._open is None else (self._open.block(),)))

    def extend(self, before: Callable[[int], Prefix], stops: Sequence[int], known: int, ahead: int = 0) -> None:
        """Go on to the log's row `known`, the first that is not known; blocks end at `stops`.

        With ahead=1 what is used on that row is planned, too.
        """
        for stop in stops[len(self._finished) :]:
            begin = self._finished[-1].stop if self._finished else self.start
            if begin >= known + ahead:
                return
            self._open = self._open or self._begin(before(begin), begin, stop)
            if not self._follow(self._open, before, known, ahead):
                return
            self._finished.append(self._open.block())
            self.feasible.absorb(before(stop), len(before(begin)), self._finished[-1])
            self._open = None

    def prepare(self, prefix: Prefix, stop: int) -> Draft:
        """Model, instruments, clip and aims of the block that begins after this prefix and ends before row `stop`."""
        self.moments.advance(prefix)
        fitted, first = fit(self.moments, self.gamma)
        sample, noise = sample_of(sampled_rows(prefix), fitted.model, self.gamma), prediction_noise(prefix, first)
        rows, by_then = prefix.share * (self.planned - self.start), prefix.share * (stop - self.start)
        instruments = propose_instruments(prefix, fitted, sample, self.feasible, noise, by_then)

        def after(count: float) -> Forecast:
            return forecast(sample, instruments.whitening, self.radius, self.budget.vector, noise, count)

        final = after(rows)
        today = after(self.feasible.certified) if self.feasible.certified else None
        margin = propose_margin(sample, final, today, self.feasible, noise, len(prefix))
        bets, aims = instruments.bets(sample), {}
        for end, log_term in self.budget.ends.items():
            above, below = sample.caps(end, self.gamma, fitted.predicted_error, margin, bets)
            aims[end] = propose_aim(Problem(sample.toward, above, below, prefix.start, noise, final, log_term, rows))
        return Draft(fitted, first, noise, rows, sample, instruments, final, margin, aims)

    def _begin(self, prefix: Prefix, begin: int, stop: int) -> _Open:
        """Everything about the block of rows begin..stop-1 but the corrections of its weights."""
        found = self.prepare(prefix, stop)
        self.first = self.first or found
        bare = Block(
            stop,
            found.fitted.model,
            found.instruments.whitening,
            found.instruments.rate,
            found.instruments.typical,
            found.fitted.predicted_error,
            found.margin,
            {},
            FULL_BET,
            SMALL_BET,
        )
        balances = {end: Balance(aim, found.final) for end, aim in found.aims.items()}
        return _Open(begin, found, bare, sub_blocks(begin, stop), balances, {end: [] for end in found.aims})

    def _follow(self, work: _Open, before: Callable[[int], Prefix], known: int, ahead: int) -> bool:
        """Directions of the sub-blocks that begin before row `known`, from the imbalance of all weights before each.

        True when all rows of the block are known.
        """
        ends = [*work.starts[1:].tolist(), work.bare.stop]
        while work.weighed < len(ends):
            k, prefix = work.weighed, before(int(work.starts[work.weighed]))
            if prefix.row >= known + ahead:
                return False
            for end, made in work.directions.items():
                if len(made) == k:
                    sums, left = self._sums[end], prefix.share * (work.bare.stop - prefix.row)
                    made.append(work.balances[end].direction(sums.rates * prefix.start - sums.weighted, left))
            if ends[k] > known:
                return False
            fresh = before(ends[k]).rows.cut(slice(len(prefix), None))
            if len(fresh):
                self._weigh(fresh, work.block())
            work.weighed += 1
        return True

    def _weigh(self, fresh: EmbeddedRows, block: Block) -> None:
        """Add the rows of a sub-block to the sums of every end."""
        limits = fresh.limits
        found = columns(block, self.gamma, fresh.log_rows, fresh.points, fresh.slots, fresh.coordinates, limits)
        moved = fresh.coordinates - self.gamma * fresh.following
        for end, weights in found.weights.items():
            self._sums[end].rates += found.total(end)
            self._sums[end].weighted += weights @ moved


def sub_blocks(start: int, stop: int) -> IntArray:
    """Where sub-blocks begin: each takes a tenth of what is left, and at least a thousandth of the block."""
    least, row, found = max(1, (stop - start) // _MAX_PARTS), start, []
    while row < stop:
        found.append(row)
        row += max(least, (stop - row) // _PART)
    return np.array(found, dtype=np.int64)


def block_ends(start: int, first: int, planned: int, stop: int) -> list[int]:
    """Rows where blocks end: shares of the planned rows first..planned-1, and earlier ones where the pilot is far shorter.

    A log that is longer than planned goes on in steps of a fifth; one that is shorter stops inside a block. So nothing but the
    number of ends depends on where the log stops, which may have been decided by looking at it: the last is the first that
    does not lie before row `stop`.
    """
    shares, length = [*CUTS], planned - first
    while first + int(shares[-1] * length) < max(stop, start + 1):
        shares.append(shares[-1] + _STEP)
    ends = {first + int(share * length) for share in shares}
    early, regular = start - first, min(end for end in ends if end > start) - first
    while (early := int(_GROWTH * early) + 1) * _GROWTH < regular:
        ends.add(first + early)
    found = sorted(end for end in ends if end > start)
    return found[: 1 + sum(end < stop for end in found)]
