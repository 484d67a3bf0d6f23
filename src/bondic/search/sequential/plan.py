"""From rows to a plan: landmarks of the pilot, blocks one after the other, and landmarks for the evaluation (section 9)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from bondic.bounds.plan import Plan
from bondic.classes.ball import Ball
from bondic.classes.box import Box
from bondic.classes.landmarks import LandmarkBasis
from bondic.errors import InvalidInput
from bondic.kernels.normal_form import normal_form
from bondic.rows import Cloud, Rows
from bondic.search.sequential.basis import Pairs, candidates, diagonal, extended, pairs_of, pilot_basis
from bondic.search.sequential.blocks import CUTS, Budget, block_ends, make_blocks
from bondic.search.sequential.past import History, KnownStarts, known_starts, make_history
from bondic.search.table import table_kernel
from bondic.sums.forms import STANDARD, Sums

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MOST_SEEN, MOST_LANDMARKS = 150, 200
"""Landmarks of the pilot, and all of them."""
_WORST = 2000
"""Rows whose embeddings the pilot's landmarks miss most, among which more landmarks are looked for."""


def make_plan(
    problem: Rows,
    pilot: Rows,
    ball: Ball | Box,
    budget: Budget,
    *,
    planned: int,
    cuts: Sequence[float] = CUTS,
    seen: int = MOST_SEEN,
    landmarks: int = MOST_LANDMARKS,
    limits: tuple[float, float] | None = None,
    sums: Sums = STANDARD,
) -> Plan:
    """A plan for all rows after the pilot, made for a log of `planned` rows; every block is made from the rows before it.

    `problem` holds the pilot's rows too, and `pilot` them alone, with initial states that were known then. `limits` is the range
    of r + gamma q*(x') that Q implies, if any.
    """
    start = pilot.rows.stop
    starts = known_starts(problem, pilot)
    basis, space = _pilot_space(pilot, ball, starts.before(start), seen)
    history = make_history(problem, space, basis, starts, limits, sums)
    first = problem.rows.start
    ends = block_ends(start, first, first + planned, problem.rows.stop, cuts)
    blocks = make_blocks(history, start, ends, first + planned, budget)
    more = extended(basis, space.kernel, problem.layout, _missed(problem, history, space, starts), landmarks)
    return Plan(more, len(basis), blocks, limits)


def as_ball(ball: Ball | Box, count: int) -> Ball:
    """A box on so many pairs lies in the ball of their table whose radius is the half-width times the root of their number."""
    if isinstance(ball, Ball):
        return ball
    return Ball(table_kernel(0.0), ball.radius * math.sqrt(count), ball.center)


def _pilot_space(pilot: Rows, ball: Ball | Box, starts: Cloud, seen: int) -> tuple[LandmarkBasis, Ball]:
    if isinstance(ball, Box) and not pilot.layout.discrete:
        raise InvalidInput("A box as Q needs pairs that come again, and these actions are continuous: pass a Ball.")
    pool = candidates(pilot.whole(), starts)
    basis = pilot_basis(as_ball(ball, 1).kernel, pilot.layout, pool, seen)
    return basis, as_ball(ball, len(basis))


def _missed(problem: Rows, history: History, ball: Ball, starts: KnownStarts) -> Pairs:
    """Pairs of the whole log of which the pilot's landmarks leave most, and all initial ones."""
    rows = history.rows
    terms, logged = normal_form(ball.kernel, problem.layout), Pairs(rows.points, rows.slots)
    left = diagonal(terms, logged) - np.einsum("ij,ij->i", rows.coordinates, rows.coordinates)
    ahead = set(rows.log_rows[_largest(rows.beyond)].tolist())
    parts = [logged[_largest(left)], pairs_of(starts.cloud)]
    for batch in problem.batches():
        wanted = np.isin(batch.log_rows, list(ahead))[batch.next.rows]
        cloud = batch.next
        parts.append(pairs_of(replace(cloud, points=cloud.points[wanted], weights=cloud.weights[wanted])))
    return Pairs.join(parts).distinct(8 * _WORST)


def _largest(left: FloatArray) -> IntArray:
    count = min(_WORST, left.size)
    return np.sort(np.argpartition(-left, count - 1)[:count])
