"""What is fixed before it is used: per block a model, instruments, bets and weights; and the columns they give (section 9).

Everything in a block was made from rows before it (the directions of a sub-block: from rows before the sub-block). Applied
to row i it sees x_i = (point, slot) and its coordinates, never the reward or what follows. Whatever floats come out *are*
the predictable quantities: nothing has to be computed exactly here; verification only has to compute the same.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from bondic.core.balls import Provenance
from bondic.core.betting import MAX_BET
from bondic.core.bounded import Between, BoolArray, FloatArray, IntArray, row_norms
from bondic.core.claims import End
from bondic.core.codec import Extended
from bondic.core.errors import InvalidInput
from bondic.core.registry import kind, register
from bondic.core.sequential.basis import GROUP, LandmarkBasis
from bondic.core.starts import StartBets

MAX_ROUNDS, MAX_FEEDBACK = 20, 12
"""Rounds of the fixed point at one block end, and of feeding the interval back; a plan cannot prescribe more."""
MAX_SETS = 16
_PART = 8192


@kind("model")
class NextModel(ABC):
    """Predicts what follows x: used as a control variate, never trusted. A wrong model costs length, not validity."""

    @abstractmethod
    def predict(self, points: FloatArray, slots: IntArray, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """r + gamma q̂(x') as predicted (n,), and coordinates of the predicted embedding of x' (n, visible).

        `coordinates` (n, visible) are those of x. Nothing else may enter: no reward, no next state, no draw of a next action.
        """


@register("model", "ridge")
@dataclass(frozen=True, eq=False)
class RidgeModel(NextModel):
    """[1, c(x)] @ coefficients = [ r + gamma q̂(x'), embedding of x' ]: a regressed conditional mean embedding.

    Parameters
    ----------
    coefficients : array of float, (1 + visible, 1 + visible)
        Row 0 is the intercept, column 0 the prediction of r + gamma q̂(x').
    """

    coefficients: FloatArray

    @staticmethod
    def design(coordinates: FloatArray) -> FloatArray:
        """Regressors [1, c(x)], (n, 1 + visible)."""
        return np.hstack([np.ones((coordinates.shape[0], 1)), coordinates])

    def predict(self, points: FloatArray, slots: IntArray, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        del points, slots
        out = self.design(coordinates) @ self.coefficients
        return out[:, 0], out[:, 1:]


@dataclass(frozen=True, eq=False)
class Weighting:
    """Weights of one end in one block: v_i = θ . T̄_i, capped; θ changes from sub-block to sub-block to stay in balance."""

    rate: float  # λ_i of (13), the same for all rows of the block
    starts: IntArray  # (k,) row of the log where each sub-block begins
    directions: FloatArray  # (k, visible) θ of each sub-block


@dataclass(frozen=True, eq=False)
class Block:
    """Rows up to `stop`, and all that was decided about them before the first of them was observed."""

    stop: int  # row of the log where the block ends; it begins where the one before ends
    model: NextModel
    whitening: FloatArray  # (visible, p): φ_i = T̄_i @ whitening
    rate: float  # λ of the vector event
    typical: float  # rows with a larger |φ_i| are unlike those before, and get a small bet
    predicted_error: FloatArray  # (visible,) coordinates of q* - q̂, predicted from earlier rows: the middle of the clip
    margin: Extended  # half-width of the clip of the tails; infinite: the whole range
    weightings: dict[End, Weighting]
    largest_bet: float = 0.99  # as a share of what would lose everything
    unusual_bet: float = 0.2  # the same for rows unlike those before


@dataclass(frozen=True, eq=False)
class Plan:
    """All that is fixed before the rows it is used on; and what the evaluation of it needs in order to be repeated.

    Parameters
    ----------
    basis : LandmarkBasis
        Coordinates of the space of Q. Landmarks after the first `visible` ones may come from anywhere: only the evaluation uses
        them.
    visible : int
        How many leading coordinates come from rows before the first block; models, instruments and weights use these alone.
    blocks : tuple of Block
        In the order of the rows, without gaps.
    provenance : Provenance
        The rows before the first block that it was begun with.
    start : StartBets, default None
        For initial states that are a sample; None: Hoeffding's inequality for any number of them.
    limits : pair of float, default None
        A range of r + gamma q*(x') that is narrower than the value range because Q says so; None: the value range.
    shares : tuple of float
        Shares τ of weight on the newest cylinder for which ellipsoids (18) are made.
    with_earlier : (float, float)
        Shares on the newest cylinder and on that of the block before it, in the ellipsoid that knows both.
    slab_shares : tuple of float
        Shares of weight on the interval that is fed back; the cylinder keeps τ times the rest.
    rounds : tuple of int
        Rounds of the fixed point at every block end, and of feeding the interval back.
    """

    basis: LandmarkBasis
    visible: int
    blocks: tuple[Block, ...]
    provenance: Provenance = field(default_factory=Provenance)
    start: StartBets | None = None
    limits: tuple[float, float] | None = None
    shares: tuple[float, ...] = (0.5, 0.9, 0.98)
    with_earlier: tuple[float, float] = (0.6, 0.35)
    slab_shares: tuple[float, ...] = (0.2, 0.5)
    rounds: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        stops = [block.stop for block in self.blocks]
        if not self.blocks or sorted(set(stops)) != stops:
            raise InvalidInput("The blocks of a plan follow one another, and there is at least one.")
        if not 1 <= self.visible <= len(self.basis):
            raise InvalidInput(f"{self.visible} of {len(self.basis)} coordinates cannot be visible to the models.")
        for shares in (self.shares, self.slab_shares):
            if not all(0 < share < 1 for share in shares) or not 1 <= len(shares) <= MAX_SETS:
                raise InvalidInput(f"1 to {MAX_SETS} shares of weight lie strictly between 0 and 1.")
        if not (min(self.with_earlier) > 0 and math.fsum(self.with_earlier) < 1):
            raise InvalidInput("Shares of weight on two cylinders are positive, and leave some for the ball.")
        if len(self.rounds) > len(self.blocks) + 1 or not all(0 <= count <= MAX_ROUNDS for count in self.rounds):
            raise InvalidInput(
                f"Rounds are at most {MAX_ROUNDS} per block end, and at most one number more than blocks."
            )
        if np.any(self.basis.matrix[: self.visible, self.visible :]):
            raise InvalidInput(
                f"The first {self.visible} functions of the basis use landmarks after the first {self.visible}, which may come "
                "from anywhere: what models and weights see would not be fixed beforehand. The matrix is lower triangular."
            )
        for block in self.blocks:
            _check(block, self.visible)

    def pieces(self, log_rows: IntArray) -> Iterator[tuple[Block, slice]]:
        """Every block with the positions of its rows."""
        ends = np.searchsorted(log_rows, [block.stop for block in self.blocks])
        if ends[-1] != len(log_rows):
            raise InvalidInput("The blocks of the plan end before the rows do.")
        first = 0
        for block, end in zip(self.blocks, ends, strict=True):
            yield block, slice(first, int(end))
            first = int(end)


def _check(block: Block, visible: int) -> None:
    shape = block.whitening.shape
    fine = len(shape) == 2 and shape[0] == visible and 1 <= shape[1] <= visible
    fine = fine and block.predicted_error.shape == (visible,)
    fine = fine and block.rate > 0 and block.typical >= 0 and block.margin > 0
    fine = fine and 0 < block.unusual_bet <= block.largest_bet <= MAX_BET
    for weighting in block.weightings.values():
        count = len(weighting.starts)
        fine = fine and weighting.starts.ndim == 1 and count > 0 and weighting.directions.shape == (count, visible)
        fine = fine and 0 < weighting.rate < math.inf
        fine = fine and bool(np.all(np.diff(weighting.starts) > 0)) and bool(np.all(np.isfinite(weighting.directions)))
    if not (fine and np.all(np.isfinite(block.whitening)) and np.all(np.isfinite(block.predicted_error))):
        raise InvalidInput(f"The block that ends at row {block.stop} is not complete.")


@dataclass(frozen=True, eq=False)
class Predictable:
    """The predictable columns of one block: whatever floats these are, the theorems hold for them."""

    predicted: FloatArray  # (n,) of r + gamma q̂(x')
    embedding: FloatArray  # (n, visible) κ_i
    instruments: FloatArray  # (n, p) λ_i φ_i
    clip: Between  # of the tails
    weights: dict[End, FloatArray]  # v_i per end
    rates: dict[End, float]  # λ_i per end, of rows that count
    counted: BoolArray  # (n,) rows that may carry a bet

    def total(self, end: End) -> float:
        """sum_i λ_i."""
        return self.rates[end] * int(np.count_nonzero(self.counted))


def columns(
    block: Block,
    gamma: float,
    log_rows: IntArray,
    points: FloatArray,
    slots: IntArray,
    here: FloatArray,
    limits: Between,
) -> Predictable:
    """Apply a block to its rows; `here` are the coordinates of x_i that may be visible, `limits` the ranges [lo_i, hi_i] of Y_i.

        T̄_i = c(x_i) - γ κ_i,    φ_i = T̄_i @ whitening,    λ_i = min( rate, bet / (B_i |φ_i|) )
        [A_i, C_i] = y_i ± margin, inside the range;        y_i = y0_i + γ κ_i . guess, clipped to the range
        v_i = θ . T̄_i, capped:  upper end  -bet / (C_i - lo_i) <= v_i <= bet / (hi_i - A_i),  lower end the two swapped

    with the bet of the block, a smaller one for rows unlike those before, and 0 where x_i has no visible coordinate:
    such rows do not count, λ_i = v_i = 0. The floats of a row are the same, bit for bit, however many rows follow it: a log that
    grows keeps them.
    """
    predicted, kappa, raw = _predicted(block, gamma, points, slots, here)
    step = here - gamma * kappa
    sizes, width = row_norms(raw), np.maximum(limits.high - limits.low, 1e-300)
    counted = np.asarray(here.any(axis=1))
    bet = np.where(counted, np.where(sizes > block.typical, block.unusual_bet, block.largest_bet), 0.0)
    rate = np.minimum(block.rate, bet / (width * np.maximum(sizes, 1e-300)))
    middle = np.clip(predicted + gamma * np.einsum("ij,j->i", kappa, block.predicted_error), limits.low, limits.high)
    clip = Between(np.maximum(limits.low, middle - block.margin), np.minimum(limits.high, middle + block.margin))
    above, below = bet / np.maximum(limits.high - clip.low, 1e-300), bet / np.maximum(clip.high - limits.low, 1e-300)
    weights = {}
    for end, weighting in block.weightings.items():
        caps = (above, below) if end == "upper" else (below, above)
        place = np.searchsorted(weighting.starts, log_rows, side="right") - 1
        if np.any(place < 0):
            raise InvalidInput("A sub-block begins after the first row of its block.")
        weights[end] = np.clip(_projections(step, weighting.directions, place), -caps[1], caps[0])
    rates = {end: weighting.rate for end, weighting in block.weightings.items()}
    for column in (predicted, kappa, raw, *weights.values()):
        if not np.all(np.isfinite(column)):
            raise InvalidInput(f"The block that ends at row {block.stop} gives numbers that are not finite.")
    return Predictable(predicted, kappa, raw * rate[:, None], clip, weights, rates, counted)


def _predicted(
    block: Block, gamma: float, points: FloatArray, slots: IntArray, here: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """y0_i, κ_i and φ_i, group by group; the last group is filled up with its first row.

    Libraries sum a product of matrices in an order that depends on their shapes: all groups have one.
    """
    count = len(here)
    predicted, kappa, raw = np.empty(count), np.empty(here.shape), np.empty((count, block.whitening.shape[1]))
    for top in range(0, count, GROUP):
        group = np.arange(top, top + GROUP)
        group[group >= count] = top
        outcomes, embeddings = block.model.predict(points[group], slots[group], here[group])
        if outcomes.shape != (GROUP,) or embeddings.shape != (GROUP, here.shape[1]):
            raise InvalidInput(
                f"A model predicts ({GROUP},) and {(GROUP, here.shape[1])} for {GROUP} rows, not {outcomes.shape} and "
                f"{embeddings.shape}."
            )
        own = slice(0, min(GROUP, count - top))
        rows = slice(top, top + GROUP)
        predicted[rows], kappa[rows] = outcomes[own], embeddings[own]
        raw[rows] = ((here[group] - gamma * embeddings) @ block.whitening)[own]
    return predicted, kappa, raw


def _projections(step: FloatArray, directions: FloatArray, place: IntArray) -> FloatArray:
    """θ . T̄_i with the θ of each row's sub-block, row by row."""
    parts = [slice(top, top + _PART) for top in range(0, len(step), _PART)]
    return np.concatenate([np.zeros(0), *(np.einsum("ij,ij->i", step[p], directions[place[p]]) for p in parts)])
