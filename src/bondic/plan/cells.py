"""Weights for cells, block after block, each from the rows before it: proposes, and is never trusted.

With P and frequencies d_c as the earlier rows show them, w = (I - γ P A)^-T ψ_0 are the policy's discounted visits, and
v_c = Λ w_c / (n d_c) balances the log against it. What earlier blocks left unbalanced is the target of the later ones,
so that only the last fluctuation remains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.cells.ends import EndWeights
from bondic.core.cells.forecasts import LabelTally
from bondic.core.cells.localize import CellTails, VectorEvent
from bondic.core.cells.tally import Entries, Tally

FloatArray = npt.NDArray[np.float64]

FULL_BET = 0.98
"""The largest |v_i| B that is planned."""
_ROOM = 0.7
"""Part of it that the first plan uses: later blocks need the rest to balance what earlier ones left."""
_RATES, _CELL_RATES = 4, 3
"""Rates of the vector event, and of the event of a cell."""
_FASTEST = 0.7
"""The largest rate of the vector event, in units of the one that is best where noise is that of the pilot."""
_TRIED = 48


@dataclass(frozen=True, eq=False)
class CellModel:
    """What some rows show of the world, slightly smoothed."""

    following: FloatArray  # (p, J) P
    shares: FloatArray  # (p,) d
    outcome: FloatArray  # (p,) mean of o
    gamma: float
    atoms: FloatArray  # (J, p)
    layers: int = 1

    @staticmethod
    def of(tally: Tally) -> CellModel:
        """From a tally whose reference is 0, so that sums of R are those of -o.

        Cells that no row has shown yet change nothing: how many there will be is not known beforehand.
        """
        counts = tally.count.sum(axis=0)
        rows, seen = max(float(counts.sum()), 1.0), max(int((counts > 0).sum()), 1)
        prior = min(0.5, 0.05 * rows / seen)
        mass = tally.over_pairs(np.ones_like(tally.count), tally.mass)
        total, (layers, cells) = -tally.total.sum(axis=0), (tally.shape.layers, counts.size)
        # a cell with few rows is taken to be a little like the others of its layer
        usual = mass.reshape(layers, -1, mass.shape[1]).sum(axis=1) * (layers / rows)
        following = (mass + prior * np.repeat(usual, cells // layers, axis=0)) / (counts + prior)[:, None]
        mean = np.repeat(total.reshape(layers, -1).sum(axis=1) * (layers / rows), cells // layers)
        outcome = (total + prior * mean) / (counts + prior)
        shares = (counts + prior) / (rows + prior * seen)
        return CellModel(following, shares, outcome, tally.gamma, tally.shape.atoms, layers)

    def _solver(self) -> FloatArray:
        size = self.atoms.shape[0]
        return np.asarray(np.linalg.inv(np.eye(size) - self.gamma * (self.atoms @ self.following)))

    def visits(self, targets: FloatArray) -> FloatArray:
        """(k, p): (I - γ P A)^-T of each target."""
        onto = (targets @ self.following) @ self._solver()
        return np.asarray(targets + self.gamma * (onto @ self.atoms))

    def values(self) -> FloatArray:
        """(p,) solution of the Bellman equations."""
        ahead = self._solver() @ (self.atoms @ self.outcome)
        return np.asarray(self.outcome + self.gamma * (self.following @ ahead))


def mean_squares(own: Tally, labels: LabelTally | None = None) -> tuple[FloatArray, FloatArray]:
    """(p,) rows, and mean squares of what is left of them; cells with few rows are taken to be a little like the others."""
    counts, squares = own.count.sum(axis=0), own.square.sum(axis=0)
    if labels is not None:
        squares = np.bincount(labels.cell, labels.rows.square.sum(axis=0), minlength=counts.size)
    return counts, (squares + 2 * squares.sum() / max(float(counts.sum()), 1.0)) / (counts + 2)


def repeated(own: Tally, times: float) -> Tally:
    """As if every row had come so often: what a longer log may look like."""
    columns: dict[str, Any] = {name: getattr(own, name) * times for name in ("count", "total", "square", "size")}
    return replace(own, **columns, mass=own.mass * times, moment=own.moment * times)


def reference_of(tally: Tally, learned: npt.NDArray[np.bool_], middle: FloatArray | float) -> FloatArray:
    """Values on cells that solve the equations of all learned cells exactly; the others are in the middle of what is possible.

    The set of values is symmetric around the reference, so that any other point would make it larger.
    """
    (_, cell, atom), gamma, mixtures = tally.at, tally.gamma, tally.shape.entries
    counts, kept = np.maximum(tally.count.sum(axis=0), 1.0), learned[cell]
    shares = (tally.mass / counts[cell])[kept]
    following = Entries.added(cell[kept], atom[kept], shares, mixtures.shape[::-1])
    steps, own = mixtures.after(following), np.where(learned, -tally.total.sum(axis=0) / counts, middle)
    # of a long list of states few lead on to others: the rest needs no equation
    ahead, leading = mixtures.times(own), np.unique(steps.row)
    alone, place = ahead.copy(), np.full(ahead.size, -1)
    alone[leading], place[leading] = 0.0, np.arange(leading.size)
    equations, inside = np.eye(leading.size), place[steps.column] >= 0
    equations[place[steps.row[inside]], place[steps.column[inside]]] -= gamma * steps.value[inside]
    ahead[leading] = np.linalg.solve(equations, (ahead + gamma * steps.times(alone))[leading])
    return np.asarray(own + gamma * following.times(ahead))


@dataclass(frozen=True)
class Costs:
    """Logarithms of the probabilities of the events, and the width of the value range, or of that of every cell."""

    vector: float  # log(2/δ) of the vector event, before its rates share it
    cells: float  # log(2/δ) of the events of single cells, before these and their rates share it
    tails: float  # log(1/δ) of an end
    width: FloatArray | float


def propose_event(variance: FloatArray, counts: FloatArray, rows: float, costs: Costs, layers: int = 1) -> VectorEvent:
    """Rates from the one for the pilot's noise to the one for deviations of the whole range, where the fixed point begins.

    Of several layers each has the same share of the noise, as far as bets on the quieter ones can be that large.
    """
    cost, width = costs.vector + math.log(_RATES), np.broadcast_to(costs.width, variance.size)
    counts, variance, width = (own.reshape(layers, -1) for own in (counts, variance, width))
    width = width.max(axis=1)
    noise = (counts * variance).sum(axis=1) / np.maximum(counts.sum(axis=1), 1.0)
    noise = np.maximum(noise, 1e-12 * width**2)
    most = FULL_BET / (width * (_FASTEST * math.sqrt(2 * cost / (rows * layers * noise.max()))))
    shape = np.minimum(np.sqrt(noise.max() / noise), np.maximum(most, 1.0))
    together = math.sqrt(float((shape * width) @ (shape * width)))
    fast = min(_FASTEST * math.sqrt(2 * cost / (rows * float(shape**2 @ noise))), FULL_BET / together)
    slow = min(math.sqrt(2 * cost / rows) / together, fast)
    return VectorEvent(np.repeat(shape, counts.shape[1]), tuple(np.geomspace(fast, slow, _RATES).tolist()))


def propose_cell_events(variance: FloatArray, counts: FloatArray, rows: float, costs: Costs) -> CellTails:
    """Rates for every cell that has been seen, from the one for deviations of the whole range to the one for its noise."""
    expected = rows * (counts + 1.0) / (float(counts.sum()) + float((counts > 0).sum()) + 1.0)
    cost = costs.cells + math.log(max(int((counts > 0).sum()), 1) * _CELL_RATES)
    cap = np.asarray(FULL_BET / costs.width)
    slow = np.sqrt(2 * cost / expected) / costs.width
    noise = np.maximum(variance, 1e-12 * costs.width**2)
    fast = np.maximum(np.sqrt(2 * cost / (expected * noise)), slow)
    steps = np.linspace(0.0, 1.0, _CELL_RATES)[:, None]
    rates = np.minimum(slow ** (1 - steps) * np.minimum(fast, cap) ** steps, cap)
    return CellTails(np.where(counts > 0, rates, 0.0))


def propose_rate(
    visits: FloatArray, model: CellModel, variance: FloatArray, rows: float, costs: Costs
) -> tuple[float, float]:
    """Λ with the shortest half-length that the pilot predicts, and that half-length.

    log(1/δ)/Λ + sum of v^2 σ^2 / (2Λ) + what weights at their cap leave unbalanced, times what one knows of a cell: σ
    sqrt(2L/n) or less.
    """
    expected = rows * model.shares
    cap = _ROOM * FULL_BET / costs.width
    unknown = np.minimum(
        np.sqrt(2 * costs.vector * variance / expected) + costs.vector * costs.width / expected, costs.width
    )
    best = (0.0, math.inf)
    full = math.sqrt(2 * costs.tails / max(float(visits**2 @ (variance / expected)), 1e-300))
    for rate in full * np.geomspace(1e-4, 4.0, _TRIED):
        weights = within(rate * visits / expected, cap, model.layers)
        left = np.abs(visits - weights * expected / rate) + np.abs(visits) / np.sqrt(8 * expected + 1)
        length = costs.tails / rate + float(weights**2 @ (expected * variance)) / (2 * rate) + float(left @ unknown)
        if length < best[1]:
            best = (float(rate), length)
    return best


def propose_tails(
    history: Callable[[int], Tally],
    starts: Sequence[FloatArray],
    sizes: FloatArray,
    variance: FloatArray,
    costs: Costs,
    signs: Sequence[float],
) -> dict[float, EndWeights]:
    """Weights for every block after the first, the pilot.

    `history(b)` is a tally of the rows before block b, `starts[b]` is ψ_0 as known then, `sizes` are planned numbers of rows.
    """
    past = history(1)
    model, (blocks, cells) = CellModel.of(past), past.count.shape
    rate, _ = propose_rate(model.visits(starts[1][None])[0], model, variance, float(sizes[1:].sum()), costs)
    cap = FULL_BET / costs.width
    side = np.asarray(signs, dtype=np.float64)
    weights = np.zeros((side.size, blocks, cells))
    for block in range(1, blocks):
        if block > 1:
            past = history(block)
            model = CellModel.of(past)
        ahead = float(sizes[block:].sum())
        used = np.stack([_balanced(past, own) for own in weights])
        target = side[:, None] * rate * starts[block] - used
        weights[:, block] = within(model.visits(target) / (ahead * model.shares), cap, model.layers)
    return {float(sign): EndWeights(weights[k], rate) for k, sign in enumerate(signs)}


def within(weights: FloatArray, cap: FloatArray | float, layers: int) -> FloatArray:
    """(..., p) cut to the caps; bets of all layers on a row are one bet."""
    cut = np.clip(weights, -cap, cap)
    if layers == 1:
        return cut
    together = np.abs(cut / cap).reshape(*cut.shape[:-1], layers, -1).sum(axis=-2, keepdims=True)
    shares = cut.reshape(*cut.shape[:-1], layers, -1) / np.maximum(together, 1.0)
    return np.asarray(shares.reshape(cut.shape))


def _balanced(past: Tally, weights: FloatArray) -> FloatArray:
    """(p,) sum_i v_i T_i of the rows so far."""
    ahead = past.over_atoms(weights, past.mass) @ past.shape.atoms
    return np.asarray((weights * past.count).sum(axis=0) - past.gamma * ahead)
