"""From rows to a plan: landmarks of the pilot, blocks one after the other, and landmarks for the evaluation (section 9).

A plan may grow with its log. Rows are shown to it in order, and what was planned for rows before they were seen stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from bondic.core.balls import Ball, Provenance
from bondic.core.claims import End, ErrorBudget
from bondic.core.errors import InvalidInput
from bondic.core.identity import values_at_starts
from bondic.core.kernels.normal_form import normal_form
from bondic.core.sequential.basis import LandmarkBasis
from bondic.core.sequential.embedded import limits_from_class
from bondic.core.sequential.plan import Block, Plan
from bondic.core.starts import StartBets
from bondic.core.sums.forms import Sums
from bondic.core.terms import range_of
from bondic.engines.sums import STANDARD
from bondic.rows import Rows
from bondic.rows.prefix import Prefixes
from bondic.search.sequential.basis import Embedder, PointSlots, candidates, diagonal, extended, pairs_of, pilot_basis
from bondic.search.sequential.blocks import BlockPlanner, Budget, block_ends, sub_blocks
from bondic.search.sequential.history import History, make_history
from bondic.search.sequential.starts import KnownStarts, known_starts, propose_bets

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MAX_VISIBLE, MAX_LANDMARKS = 150, 200
"""Landmarks of the pilot, and all of them."""
_WORST = 2000
"""Rows whose embeddings the pilot's landmarks miss most, among which more landmarks are looked for."""


@dataclass(frozen=True)
class Shape:
    """How a plan is cut: fixed before any row is seen.

    Parameters
    ----------
    planned : int
        Rows of the log, pilot included, for which rates are made.
    visible : int
        Most landmarks of the pilot: those that models, instruments and weights see.
    landmarks : int
        Most landmarks in all.
    """

    planned: int
    visible: int = MAX_VISIBLE
    landmarks: int = MAX_LANDMARKS

    def __post_init__(self) -> None:
        if self.planned < 1:
            raise InvalidInput(f"planned_rows={self.planned}: at least one row is planned.")


@dataclass(eq=False)
class Planner:
    """A plan that grows with its log."""

    pilot: Rows
    ball: Ball
    budget: ErrorBudget
    ends: tuple[End, ...]
    shape: Shape
    sums: Sums
    embedder: Embedder
    limits: tuple[float, float] | None
    block_planner: BlockPlanner
    history: History | None = None

    @staticmethod
    def begin(
        problem: Rows,
        pilot: Rows,
        ball: Ball,
        budget: ErrorBudget,
        ends: tuple[End, ...],
        shape: Shape,
        sums: Sums = STANDARD,
        basis: LandmarkBasis | None = None,
    ) -> Planner:
        """From the pilot alone; `basis`, if it was made from it before.

        `problem` holds the pilot's rows too, and `pilot` them alone, with initial states that were known then.
        """
        embedder = _pilot_space(pilot, ball, known_starts(problem, pilot), shape.visible, basis)
        planned = problem.rows.start + shape.planned
        size = len(embedder.basis)
        block_planner = BlockPlanner(size, ball.radius, problem.gamma, pilot.rows.stop, planned, costs_of(budget, ends))
        limits = _limits(ball, problem)
        return Planner(pilot, ball, budget, ends, shape, sums, embedder, limits, block_planner)

    def extend(self, problem: Rows, ahead: int = 0) -> None:
        """Take in the rows of a grown log that were not there before, and plan as far as they go, and `ahead` rows further."""
        starts = known_starts(problem, self.pilot)
        self.history = make_history(
            problem, self.ball, self.embedder, starts, self.limits, self.sums, before=self.history
        )
        first, stop, block_planner = problem.rows.start, problem.rows.stop, self.block_planner
        stops = block_ends(block_planner.start, first, block_planner.planned, stop + ahead)
        block_planner.extend(self.history.before, stops, stop, ahead)

    def plan(self, problem: Rows, before: Plan | None = None) -> Plan:
        """The plan for the rows so far, with landmarks that suit them; what the plan `before` has fixed stays as it is.

        The same machine would plan it the same way again, bit for bit. Another one may not, in the last digits.
        """
        assert self.history is not None
        missed = _missed(problem, self.history, self.embedder)
        basis = extended(self.embedder.basis, self.ball.kernel, problem.layout, missed, self.shape.landmarks)
        bets = _start_bets(problem, self, self.history, self.sums)
        visible = Provenance("begun", (problem.rows.start, self.pilot.rows.stop), problem.log_hash)
        blocks = self.block_planner.blocks
        if before is not None:
            blocks = (
                *before.blocks[:-1],
                _continued(before.blocks[-1], blocks[len(before.blocks) - 1]),
                *blocks[len(before.blocks) :],
            )
            bets = before.start
        return Plan(basis, len(self.embedder.basis), blocks, visible, bets, self.limits)


def _continued(before: Block, now: Block) -> Block:
    """The same block, with the directions of further sub-blocks."""
    weightings = {}
    for end, old in before.weightings.items():
        new = now.weightings[end]
        directions = np.concatenate([old.directions, new.directions[len(old.starts) :]])
        weightings[end] = replace(old, starts=new.starts, directions=directions)
    return replace(before, weightings=weightings)


def make_plan(
    problem: Rows,
    pilot: Rows,
    ball: Ball,
    budget: ErrorBudget,
    ends: tuple[End, ...],
    shape: Shape,
    sums: Sums = STANDARD,
    before: Plan | None = None,
) -> Plan:
    """A plan for all rows after the pilot; every block is made from the rows before it.

    `before` is the plan of an earlier part of the log: what it has fixed stays as it is.
    """
    basis = None
    if before is not None:
        known, visible = before.basis, slice(before.visible)
        basis = LandmarkBasis(known.points[visible], known.slots[visible], known.matrix[visible, visible])
    planner = Planner.begin(problem, pilot, ball, budget, ends, shape, sums, basis)
    planner.extend(problem)
    return planner.plan(problem, before)


def predicted_length(
    pilot: Rows, ball: Ball, planned: int, budget: Budget, visible: int = MAX_VISIBLE, sums: Sums = STANDARD
) -> float:
    """How long the interval of a plan would be for a log of so many rows; longer than the range where it is that bad."""
    starts = known_starts(pilot, pilot)
    embedder = _pilot_space(pilot, ball, starts, visible)
    history = make_history(pilot, ball, embedder, starts, _limits(ball, pilot), sums)
    prefix, stop = history.before(pilot.rows.stop), pilot.rows.start + planned
    block_planner = BlockPlanner(prefix.start.size, ball.radius, pilot.gamma, prefix.row, stop, budget)
    return sum(aim.length for aim in block_planner.prepare(prefix, stop).aims.values())


def costs_of(budget: ErrorBudget, ends: tuple[End, ...]) -> Budget:
    return Budget.of(budget["vector"], {end: budget[end] for end in ends})


def _limits(ball: Ball, problem: Rows) -> tuple[float, float] | None:
    """The range of r + gamma q*(x') that Q implies, where it is narrower than the one in force."""
    implied = limits_from_class(ball, problem.terms)
    known = range_of(problem.terms)
    if implied is None or (implied.low <= known.low and implied.high >= known.high):
        return None
    return implied.low, implied.high


def _pilot_space(
    pilot: Rows, ball: Ball, starts: KnownStarts, visible: int, basis: LandmarkBasis | None = None
) -> Embedder:
    if basis is None:
        pool = candidates(pilot.whole(), starts.before(pilot.rows.stop))
        basis = pilot_basis(ball.kernel, pilot.layout, pool, visible)
    return Embedder(normal_form(ball.kernel, pilot.layout), basis)


def _missed(problem: Rows, history: History, embedder: Embedder) -> PointSlots:
    """Pairs of the whole log of which the pilot's landmarks leave most, and all initial ones."""
    rows = history.rows
    logged = PointSlots(rows.points, rows.slots)
    left = diagonal(embedder.terms, logged) - np.einsum("ij,ij->i", rows.coordinates, rows.coordinates)
    ahead = rows.log_rows[_largest(rows.beyond)]
    parts = [logged[_largest(left)], pairs_of(history.starts.starts.cloud)]
    for batch in problem.batches():
        cloud, needed = batch.next, np.isin(batch.log_rows, ahead)[batch.next.rows]
        parts.append(pairs_of(replace(cloud, points=cloud.points[needed], weights=cloud.weights[needed])))
    return PointSlots.join(parts).distinct(8 * _WORST)


def _largest(left: FloatArray) -> IntArray:
    count = min(_WORST, left.size)
    return np.sort(np.argpartition(-left, count - 1)[:count])


def _start_bets(problem: Rows, planner: Planner, history: History, sums: Sums) -> StartBets | None:
    """Bets on initial states that are a sample, or on actions drawn at them; guess and spread are those of fitted values."""
    block_planner, budget = planner.block_planner, planner.budget
    if "initial" not in budget.parts or block_planner.first is None:
        return None
    path, prefix, limits = history.starts, history.before(block_planner.start), range_of(problem.terms)
    fitted, skipped = block_planner.first.fitted.predicted_error, path.starts.skipped
    values = prefix.rows.coordinates @ fitted + prefix.rows.values
    if skipped:
        center, _ = values_at_starts(problem, planner.ball.center, sums)
        values = path.embeddings[:skipped] @ fitted + center[:skipped]
    guess = float(np.clip(values.mean(), limits.low, limits.high))
    each = budget["initial"] / len(planner.ends)
    return propose_bets(problem, planner.pilot, block_planner.planned, each, guess, float(values.std()))


def replay_plan(
    prefixes: Prefixes,
    pilot: Rows,
    ball: Ball,
    budget: ErrorBudget,
    ends: tuple[End, ...],
    shape: Shape,
    sums: Sums = STANDARD,
) -> Plan:
    """What `make_plan` plans for all rows; a planner that looked at later ones would plan something else here.

    Landmarks after the first `visible` serve the evaluation, and come from all rows.
    """
    whole, first = prefixes.problem, prefixes.before(pilot.rows.stop)
    planner = Planner.begin(first, pilot, ball, budget, ends, shape, sums)
    planner.extend(first, ahead=1)
    start = planner.plan(prefixes.with_unseen_starts(first, known_starts(first, pilot).skipped)).start
    for row in _borders(whole, pilot, shape):
        planner.extend(prefixes.before(row), ahead=1)
    planner.extend(whole)
    return replace(planner.plan(whole), start=start)


def _borders(whole: Rows, pilot: Rows, shape: Shape) -> Iterator[int]:
    """Rows where sub-blocks begin: a function of numbers of rows alone."""
    first, stop = whole.rows.start, whole.rows.stop
    stops = block_ends(pilot.rows.stop, first, first + shape.planned, stop)
    for begin, end in pairwise([pilot.rows.stop, *stops]):
        yield from (row for row in sub_blocks(begin, end).tolist() if row < stop)
