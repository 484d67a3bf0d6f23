"""What is fixed beforehand for a table: per block a model of every pair, and a weight with a budget; the columns they give.

No coordinates: e = q* - q̂ is known to lie in a box, |e(x)| <= r at every pair, and nothing is learned about it. So a plan may
speak of as many pairs as the log has. For a row with x_i = (state, action)

    ŷ_i = y0(x) + γ <e, κ_x>,     κ_x = sum_s P(s | x) sum_a w_s(a) 1_(s, a),     w_s the policy's answers at s,
    v_i = what is left of the budget b_x in its block, at most |v_x|, with the sign of v_x.

The budget counts earlier rows with the same pair: it is known before the row, and makes the sum of the weights of a pair what
it was meant to be, however often the pair comes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import gamma
from bondic.core.classes.balls import Provenance
from bondic.core.classes.basis import positions
from bondic.core.errors import InvalidInput
from bondic.core.sequential.plan import FULL_BET, StartBets

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TableBlock:
    """Rows up to `stop`, and all that was decided about them before the first of them was seen."""

    stop: int  # row of the log where the block ends; it begins where the one before ends
    rate: float  # λ_i of (13), the same for all rows of the block
    predicted: FloatArray  # (k,) y0 of the first k pairs of the plan, those that were known then
    weights: FloatArray  # (k,) v_x
    budgets: FloatArray  # (k,) b_x: how much weight all rows of the pair may have together
    firsts: IntArray  # (k + 1,) where the states of every pair begin in the next two
    following: IntArray  # (l,) states of the plan that are expected after a pair, ascending for each pair
    shares: FloatArray  # (l,) P(s | x) of each


@dataclass(frozen=True, eq=False)
class TablePlan:
    """All that is fixed before the rows it is used on.

    Parameters
    ----------
    states : array of float, (S, D)
        Different states.
    answers : array of float, (S, A)
        w_s: weights of the policy's actions at every state, for the models.
    places : array of int, (m,)
        The state of every pair, in the order in which pairs became known.
    slots : array of int, (m,)
        Its action.
    blocks : tuple of TableBlock
        In the order of the rows, without gaps.
    provenance : Provenance
        The rows before the first block that it was begun with.
    start : StartBets, default None
        For initial states that are a sample; None: Hoeffding's inequality for any number of them.
    """

    states: FloatArray
    answers: FloatArray
    places: IntArray
    slots: IntArray
    blocks: tuple[TableBlock, ...]
    provenance: Provenance = field(default_factory=Provenance)
    start: StartBets | None = None

    def __post_init__(self) -> None:
        stops = [block.stop for block in self.blocks]
        if not self.blocks or sorted(set(stops)) != stops:
            raise InvalidInput("The blocks of a plan follow one another, and there is at least one.")
        size, slots = self.answers.shape if self.answers.ndim == 2 else (0, 0)
        fine = self.states.ndim == 2 and self.states.shape[0] == size > 0 and self.slots.shape == self.places.shape
        fine = fine and np.unique(self.states + 0.0, axis=0).shape[0] == size
        fine = fine and bool(np.all(np.isfinite(self.states)) and np.all(np.isfinite(self.answers)))
        fine = fine and _inside(self.places, size) and _inside(self.slots, slots)
        fine = fine and np.unique(self.places * slots + self.slots).size == self.places.size
        if not fine:
            raise InvalidInput("The states and pairs of a table are not all different, or not all there.")
        for block in self.blocks:
            _check(block, self.places.size, size)

    @cached_property
    def numbers(self) -> IntArray:
        """(S, A): the number of a pair; -1 where it is none."""
        found = np.full(self.answers.shape, -1)
        found[self.places, self.slots] = np.arange(self.places.size)
        return found

    def pairs(self, points: FloatArray, slots: IntArray) -> IntArray:
        """The number of each pair; -1: not in the plan."""
        places = positions(self.states, points)
        return np.asarray(np.where(places >= 0, self.numbers[places, slots], -1))


def _inside(numbers: IntArray, size: int) -> bool:
    return numbers.ndim == 1 and bool(np.all((numbers >= 0) & (numbers < size)))


def _check(block: TableBlock, pairs: int, states: int) -> None:
    count, length = block.weights.size, block.following.size
    fine = count <= pairs and all(a.shape == (count,) for a in (block.predicted, block.weights, block.budgets))
    fine = fine and block.firsts.shape == (count + 1,) and block.shares.shape == (length,) and 0 < block.rate < math.inf
    fine = fine and _inside(block.following, states) and block.firsts[0] == 0 and block.firsts[-1] == length
    fine = fine and bool(np.all(np.diff(block.firsts) >= 0))
    numbers = (block.predicted, block.weights, block.budgets, block.shares)
    if not (fine and all(np.all(np.isfinite(own)) for own in numbers) and np.all(np.diff(_keys(block, states)) > 0)):
        raise InvalidInput(f"The block that ends at row {block.stop} is not complete.")


def _keys(block: TableBlock, states: int) -> IntArray:
    """One number for every (pair, state that is expected after it), ascending."""
    return np.asarray(np.repeat(np.arange(block.weights.size), np.diff(block.firsts)) * states + block.following)


def weights_of(block: TableBlock, pairs: IntArray, widths: FloatArray, used: IntArray) -> FloatArray:
    """v_i of consecutive rows of a block: pairs that were not known get none, and no bet exceeds 0.99 of the range.

    `used` (m,) counts the rows of each pair in the block so far, and is advanced.
    """
    out = np.zeros(pairs.size)
    known = (pairs >= 0) & (pairs < block.weights.size)
    own = pairs[known]
    before = used[own] + repeats(own)
    np.add.at(used, own, 1)
    size = np.abs(block.weights[own])
    left = np.clip(block.budgets[own] - before * size, 0.0, size)
    out[known] = np.sign(block.weights[own]) * np.minimum(left, FULL_BET / np.maximum(widths[known], 1e-300))
    return out


def repeats(values: IntArray) -> IntArray:
    """How many entries before each one are equal to it."""
    order = np.argsort(values, kind="stable")
    new = np.flatnonzero(np.diff(values[order], prepend=-1))
    ranks = np.arange(values.size) - np.repeat(new, np.diff(np.append(new, values.size)))
    out = np.empty(values.size, dtype=np.int64)
    out[order] = ranks
    return out


@dataclass(frozen=True, eq=False)
class Expected:
    """The model of a block at some rows: y0_i, and how much of κ_i and of x'_i - κ_i there is."""

    predicted: FloatArray  # (n,) y0
    mass: FloatArray  # (n,) |κ_i|_1, rounded up
    apart: FloatArray  # (n,) |x'_i - κ_i|_1, rounded up


def expected(
    block: TableBlock, table: FloatArray, pairs: IntArray, after: IntArray, answers: FloatArray, error: float
) -> Expected:
    """For rows whose pairs were known: `after` the state that follows (-1: none, or not in the plan), `answers` (n, A) there.

    `table` (S, A) are the plan's own answers w_s.

    |x' - κ|_1 = sum_a |w'(a) - P(s') w_s'(a)| + sum_{s other} P(s) sum_a w_s(a): pairs of other states are others. Each entry
    of `answers` is off by at most the share `error` of itself.
    """
    size, slots = table.shape
    masses = np.abs(table).sum(axis=1)
    keys, length = _keys(block, size), np.diff(block.firsts)
    rows = np.repeat(np.arange(block.weights.size), length)
    totals = np.bincount(rows, np.abs(block.shares) * masses[block.following], minlength=block.weights.size)[pairs]
    wanted = pairs * size + after
    at = np.minimum(np.searchsorted(keys, wanted), max(keys.size - 1, 0))
    there = (after >= 0) & (keys[at] == wanted) if keys.size else np.zeros(pairs.size, dtype=bool)
    share = np.where(there, block.shares[at], 0.0) if keys.size else np.zeros(pairs.size)
    place = np.where(there, after, 0)
    others = np.maximum(totals - np.abs(share) * masses[place], 0.0)
    here = np.abs(answers - share[:, None] * table[place]).sum(axis=1)
    terms = int(length.max(initial=0)) + 2 * slots + 16
    rounding = 2 * gamma(terms) * (2 * totals + np.abs(answers).sum(axis=1)) + 2 * error * np.abs(answers).sum(axis=1)
    mass = np.asarray(totals * (1 + gamma(terms)), dtype=np.float64)
    return Expected(block.predicted[pairs], mass, others + here + rounding)
