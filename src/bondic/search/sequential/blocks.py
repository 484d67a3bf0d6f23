"""Blocks of a plan: their models, instruments and weights are made from the rows before them (section 9)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from bondic.bounds.ahead import AheadModel
from bondic.bounds.plan import Block, LinearModel, Weighting, columns
from bondic.claims import End
from bondic.search.sequential.instruments import Forecast, VectorBets, forecast, propose_instruments, propose_margin
from bondic.search.sequential.models import FIRST, Fitted, RunningMoments, fit
from bondic.search.sequential.outlook import Outlook
from bondic.search.sequential.past import Past, Seen
from bondic.search.sequential.sample import Predictions, past_sample, prediction_noise
from bondic.search.sequential.simulator import fit_simulator
from bondic.search.sequential.weights import Aim, Balance, Problem, propose_aim

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

CUTS = (0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
"""Ends of blocks, as shares of the planned rows."""
_PART = 10
"""A sub-block is this part of the rows that are left in its block."""
_MOST_PARTS = 1000
_GROWTH = 1.5
_WORTH, _MOST_SIMULATED = 1.3, 10_000
"""A simulator is fitted anew when it can see this many times the rows, up to so many."""


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
    first: Fitted  # by the first 70 % of the past
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
class Proposer:
    """Makes block after block; it is shown pasts, and keeps sums over them."""

    model: LinearModel  # whose regressors predict what follows
    radius: float
    gamma: float
    start: int  # first certified row
    planned: int  # the row of the log where the plan ends
    budget: Budget
    moments: RunningMoments = field(init=False)
    outlook: Outlook = field(init=False)
    first: Draft | None = None  # the first block
    _sums: dict[End, _Sums] = field(init=False)
    _simulated: int = 0  # rows that the model's simulator has seen

    def __post_init__(self) -> None:
        self.moments = RunningMoments(self.model)
        self.outlook = Outlook(self.size, self.radius, self.gamma, self.budget.vector)
        self._sums = {end: _Sums(0.0, np.zeros(self.size)) for end in self.budget.ends}

    @property
    def size(self) -> int:
        """Coordinates that are seen."""
        return int(self.model.coefficients.shape[1]) - 1

    def prepare(self, past: Past, stop: int) -> Draft:
        """Model, instruments, clip and aims of the block that begins after this past and ends before row `stop`."""
        self._learn_steps(past)
        self.moments.advance(past)
        fitted, first = fit(self.moments, self.gamma)
        sample, noise = past_sample(past, fitted.model), prediction_noise(past, first)
        rows, by_then = past.share * (self.planned - self.start), past.share * (stop - self.start)
        instruments = propose_instruments(past, fitted, sample, self.outlook, noise, by_then)

        def after(count: float) -> Forecast:
            return forecast(sample, instruments.whitening, self.radius, self.budget.vector, noise, count)

        final = after(rows)
        today = after(self.outlook.certified) if self.outlook.certified else None
        margin = propose_margin(sample, final, today, self.outlook, noise, len(past))
        aims = {}
        for end, log_term in self.budget.ends.items():
            above, below = sample.caps(end, self.gamma, fitted.guess, margin)
            problem = Problem(sample.toward, above, below, past.start, noise, final, log_term, rows)
            aims[end] = propose_aim(problem)
        return Draft(fitted, first, noise, rows, sample, instruments, final, margin, aims)

    def _learn_steps(self, past: Past) -> None:
        """Fit the simulator of a model that has one anew, to the first 70 % of a past that has grown: the rest judges it."""
        known = int(FIRST * len(past))
        if past.moves is None or not isinstance(self.model, AheadModel):
            return
        if known < _WORTH * self._simulated or known > _MOST_SIMULATED:
            return
        found = fit_simulator(past.moves.before(known), self.model.layout.slots)
        self.model, self._simulated = self.model.relearned(found.steps, found.tree), known
        self.moments = RunningMoments(self.model)

    def block(self, before: Callable[[int], Past], start: int, stop: int) -> Block:
        """The block of rows start..stop-1; the corrections of its weights see the rows before their sub-block."""
        past = before(start)
        found = self.prepare(past, stop)
        self.first = self.first or found
        starts = sub_blocks(start, stop)
        bare = Block(
            stop,
            found.fitted.model,
            found.instruments.whitening,
            found.instruments.rate,
            found.instruments.usual,
            found.fitted.guess,
            found.margin,
            {},
        )
        block = replace(bare, weightings=self._weightings(before, found, bare, starts))
        self.outlook.absorb(before(stop), len(past), block)
        return block

    def _weightings(
        self, before: Callable[[int], Past], found: Draft, block: Block, starts: IntArray
    ) -> dict[End, Weighting]:
        """Directions of every sub-block, from the imbalance of all weights before it."""
        balances = {end: Balance(aim, found.final) for end, aim in found.aims.items()}
        directions = {end: np.zeros((starts.size, self.size)) for end in found.aims}
        past = before(int(starts[0]))
        for k, until in enumerate([*starts[1:], block.stop]):
            left = past.share * (block.stop - past.row)
            now = {}
            for end, balance in balances.items():
                sums = self._sums[end]
                directions[end][k] = balance.direction(sums.rates * past.start - sums.weighted, left)
                now[end] = Weighting(found.aims[end].rate, starts[k : k + 1], directions[end][k : k + 1])
            known, past = len(past), before(int(until))
            if len(past) > known:
                self._weigh(past.rows.cut(slice(known, None)), replace(block, weightings=now))
        return {end: Weighting(found.aims[end].rate, starts, rows) for end, rows in directions.items()}

    def _weigh(self, fresh: Seen, block: Block) -> None:
        """Add the rows of a sub-block to the sums of every end."""
        limits = fresh.limits
        found = columns(block, self.gamma, fresh.log_rows, fresh.points, fresh.slots, fresh.coordinates, limits)
        moved = fresh.coordinates - self.gamma * fresh.following
        for end, weights in found.weights.items():
            self._sums[end].rates += len(fresh) * found.rates[end]
            self._sums[end].weighted += weights @ moved


def sub_blocks(start: int, stop: int) -> IntArray:
    """Where sub-blocks begin: each takes a tenth of what is left, and at least a thousandth of the block."""
    least, row, found = max(1, (stop - start) // _MOST_PARTS), start, []
    while row < stop:
        found.append(row)
        row += max(least, (stop - row) // _PART)
    return np.array(found, dtype=np.int64)


def block_ends(start: int, first: int, planned: int, stop: int, cuts: Sequence[float] = CUTS) -> list[int]:
    """Rows where blocks end: shares of the planned rows first..planned-1, and earlier ones where the pilot is far shorter.

    A log that is longer than planned goes on in steps of a fifth; one that is shorter ends where it ends.
    """
    shares = [*cuts]
    while first + int(shares[-1] * (planned - first)) < stop:
        shares.append(shares[-1] + 0.2)
    ends = {min(first + int(share * (planned - first)), stop) for share in shares}
    early, regular = start - first, min(end for end in ends if end > start) - first
    while (early := int(_GROWTH * early) + 1) * _GROWTH < regular:
        ends.add(first + early)
    return sorted(end for end in ends if end > start)
