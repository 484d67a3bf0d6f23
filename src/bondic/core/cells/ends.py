"""Both ends of the value from cells: the identity (13) with the tail (15), over what the rows leave of the values.

For weights v_bc fixed before the rows of block b, |v_bc| B < 1, with probability at least 1 - δ

    sum_i v_i Z_i  <=  log(1/δ) + sum_i g(-v_i Δ_i)  <=  log(1/δ) + sum_i w_i (D_i + x_i(f) - γ ζ'_i)^2,    w_i = v_i^2 g(-y)/y^2

at the most negative y = -v_i Δ_i that E leaves a row of block and label. With ψ_0 on cells, sign s = ±1, and μ = s Λ ψ_0
- sum_i v_i T_i,

    s Λ <f, ψ_0>  <=  log(1/δ) - sum_i v_i R_i + sup_E { <f, μ> + sum_i w_i (...)^2 } + sum_i |v_i| (β̄(c_i) + γ β̄'_i),   (24)

and J = E_{d_0 π}[q̂ + b] + <f, ψ_0> ± E_{d_0 π}[β̄]. A second bound needs no weights: s <f, ψ_0> <= sup_E. Both hold;
the shorter is used.

With layers a row of the log has a weight in each, and one tail bounds sum_i sum_l v^l_i Z^l_i where sum_l |v^l_i| B^l < 1. g is
convex and 0 at 0, so for *any* shares λ_l >= 0 of a block and place, sum_l λ_l <= 1,

    g( -sum_l v^l Δ^l )  <=  sum_l λ_l g( -v^l Δ^l / λ_l ),                                                              (26)

and rows of different layers are charged one by one, at the weight v/λ, λ times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bondic.core.betting import MAX_BET, curvature, tail_term
from bondic.core.bounded import Between, Enclosure, FloatArray, U, certified_dot, inflate
from bondic.core.cells.allowance import Allowance, CellAllowance
from bondic.core.cells.forecasts import LabelTally
from bondic.core.cells.intervals import most_negative
from bondic.core.cells.localize import Events, Ground, Located, ValueLimits, locate
from bondic.core.cells.tally import Tally
from bondic.core.errors import InvalidInput, NumericalError


@dataclass(frozen=True, eq=False)
class EndWeights:
    """The weights of one end, fixed before the rows of each block."""

    weights: FloatArray  # (B, p) v, about in proportion to s Λ times (the policy's visits / the log's)
    rate: float  # Λ

    def __post_init__(self) -> None:
        if not (self.weights.ndim == 2 and np.all(np.isfinite(self.weights)) and 0 < self.rate < np.inf):
            raise InvalidInput("A tail has finite weights for every block and cell, and a positive rate.")


@dataclass(frozen=True, eq=False)
class StartMean:
    """The mean over the starts: of the center, and of the cells that the policy takes there."""

    center: Enclosure  # E_{d_0 π}[q̂]
    cells: FloatArray  # (p,) ψ_0
    error: float  # of all entries of ψ_0 together

    def __post_init__(self) -> None:
        if not (np.all(np.isfinite(self.cells)) and 0 <= self.error < np.inf):
            raise InvalidInput("The starts are weights of cells, and their error is a number of at least 0.")


@dataclass(frozen=True)
class EndTerms:
    """One end, in parts: value + s (log + noise + bias + allowance)."""

    value: Enclosure
    log: float
    noise: float
    bias: float
    allowance: float
    uses_weights: bool  # whether rows are weighed, or only the set E is used

    @property
    def spread(self) -> float:
        return inflate(self.log + self.noise + self.bias + self.allowance)


@dataclass(frozen=True, eq=False)
class CellBound:
    """What was fixed before the rows, and their tally. Nothing in it depends on an allowance.

    So with the probability of the event, for all allowances at once, also for those that were chosen by looking at the
    result: if (23) holds at an allowance, the value lies between the ends at it.
    """

    tally: Tally  # of the certified rows
    labels: LabelTally
    events: Events
    tails: Mapping[float, EndWeights]  # by sign: 1 is the upper end, -1 the lower one
    probabilities: Mapping[float, float]  # of the tails
    starts: StartMean
    limits: ValueLimits

    @cached_property
    def ground(self) -> Ground:
        return Ground.of(self.tally, self.labels, self.events, self.limits)

    def locate(self, allowance: Allowance | CellAllowance) -> Located:
        """What the rows leave of the values on cells, if (23) holds at this allowance: one for all cells, or one of each."""
        return locate(self.ground, CellAllowance.of(allowance, self.tally.shape.cells))

    def ends(self, located: Located) -> dict[float, EndTerms]:
        return {
            sign: end_terms(located, self.starts, tail, sign, self.probabilities[sign])
            for sign, tail in self.tails.items()
        }

    def effective_rows(self) -> float:
        """Rows that count, of the end with fewer of them: (sum |v|)^2 / sum v^2; |v| of a row is the sum over its layers."""
        found, shape = [], self.tally.shape
        rows = shape.by_layer(self.tally.count)[:, 0]
        for tail in self.tails.values():
            each = shape.by_layer(np.abs(tail.weights)).sum(axis=-2)
            size, square = float((each * rows).sum()), float((each**2 * rows).sum())
            found.append(size * size / square if square > 0 else 0.0)
        return min(found, default=0.0)


def end_terms(located: Located, starts: StartMean, tail: EndWeights, sign: float, probability: float) -> EndTerms:
    """The upper end (sign 1) or the lower one (sign -1), the shorter of both bounds."""
    reference, averages, shape = located.system.tally.reference, located.allowance.averages, located.system.tally.shape
    base = starts.center + certified_dot(reference, starts.cells)
    base = Enclosure(base.mid, inflate(base.rad + starts.error * float(np.abs(reference).max(initial=0.0))))
    allowed = float(averages @ np.abs(shape.of_policies(starts.cells))) * (1 + located.system.tally.relative)
    allowed = inflate(allowed + shape.layers * starts.error * float(averages.max(initial=0.0)))
    plain = EndTerms(base, 0.0, 0.0, located.support(sign * starts.cells, starts.error), allowed, False)
    weighed = _weighed(located, starts, tail, sign, probability, plain)
    return weighed if sign * weighed.value.mid + weighed.spread < sign * base.mid + plain.spread else plain


def _weighed(
    located: Located, starts: StartMean, tail: EndWeights, sign: float, probability: float, plain: EndTerms
) -> EndTerms:
    tally, weights, averages = located.system.tally, tail.weights, located.allowance.averages
    if weights.shape != tally.count.shape:
        raise InvalidInput("The weights of a tail are those of other blocks or cells.")
    if not np.all(tally.shape.by_layer(np.abs(weights) * located.limits.width).sum(axis=-2) <= MAX_BET):
        raise NumericalError("A bet of a tail is too large for the value range.")
    grow = 1 + tally.relative
    size = np.abs(weights) * (tally.count * tally.error + tally.relative * tally.size)
    residuals = Enclosure(float((weights * tally.total).sum()), inflate(float(size.sum()) * grow))
    noise, bias = _paid(located, weights, *_balance(tally, starts, tail, sign))
    share = Enclosure(tail.rate)
    each = np.abs(tally.shape.of_policies(weights))
    own = float((each * tally.count).sum(axis=0) @ averages)
    ahead = float(tally.over_atoms(each, tally.mass) @ tally.shape.own_at_atoms(averages))
    return EndTerms(
        plain.value - sign * (residuals / share),
        (tail_term(probability) / share).upper,
        (Enclosure(noise) / share).upper,
        (Enclosure(bias) / share).upper,
        inflate((Enclosure(inflate((own + tally.gamma * ahead) * grow)) / share).upper + plain.allowance),
        True,
    )


def _paid(located: Located, weights: FloatArray, balance: FloatArray, lost: float) -> tuple[float, float]:
    """sup_E { <f, μ> + sum_i g(-v_i Δ_i) } in two parts: what is there at the reference, or row by row, and what E adds.

    Blocks and labels are charged row by row (`Intervals.charges`) or by the form of Lemma 45: all in the first way, all in the
    second, and each in the way that looks cheaper.
    """
    rows, labels, grow = located.system.rows, located.system.labels, 1 + 4 * located.system.relative
    shares = _shares(located, weights)
    # a little too large: shares of an exact division are then at most these
    weights = labels.spread(np.where(weights == 0, 0.0, weights / np.maximum(shares, 1e-300) * (1 + 8 * U)))
    shares = labels.spread(shares)
    each = shares * located.intervals.charges(weights, located.single, located.widths)
    found = [(inflate(float(each.sum()) * grow), located.support(balance, lost))]
    if located.sets:
        most = most_negative(Between(rows.low, rows.high).wider(rows.error), located.farthest, weights, located.widths)
        prices = shares * weights**2 * curvature(-(np.abs(weights) * most)) * (1 + 1e-15)
        cheaper = each < prices * (np.sqrt(rows.square) + np.sqrt(rows.count) * located.farthest) ** 2
        for apart in {cheaper.tobytes(): cheaper, b"": np.zeros_like(cheaper)}.values():
            energy = located.energy(np.where(apart, 0.0, prices))
            direction, error = balance + energy.linear, lost + energy.linear_error
            paid = inflate(energy.constant + inflate(float(each[apart].sum()) * grow))
            found.append((paid, min(one.excess(energy, direction, error) for one in located.sets)))
    return min(found, key=sum)


def _shares(located: Located, weights: FloatArray) -> FloatArray:
    """(B, p) λ of (26): in proportion to |v| times the root of the mean square deviation, and |v| B / λ < 1 in every layer."""
    tally, limits = located.system.tally, located.limits
    if tally.shape.layers == 1:
        return np.ones_like(weights)
    squares = located.system.over_labels(located.intervals.deviations(located.single, located.widths).sum(axis=0))
    sizes = tally.shape.by_layer(np.abs(weights) * np.sqrt(squares / np.maximum(located.system.counts, 1.0)))
    least = tally.shape.by_layer(np.abs(weights) * (limits.width / MAX_BET))
    shares = sizes / np.maximum(sizes.sum(axis=-2, keepdims=True), 1e-300)
    found = (least + (1 - least.sum(axis=-2, keepdims=True)).clip(0.0) * shares) * (1 - 32 * U)
    return np.asarray(found.reshape(weights.shape))


def _balance(tally: Tally, starts: StartMean, tail: EndWeights, sign: float) -> tuple[FloatArray, float]:
    """μ on cells, and a bound of the error of all its entries together."""
    weights = tail.weights
    own = (weights * tally.count).sum(axis=0)
    ahead = tally.gamma * (tally.over_atoms(weights, tally.mass) @ tally.shape.atoms)
    size = float((np.abs(weights) * tally.count).sum()) * (1 + tally.gamma * tally.shape.largest)
    size += tail.rate * float(np.abs(starts.cells).sum())
    return sign * tail.rate * starts.cells - own + ahead, inflate(tally.relative * size + tail.rate * starts.error)


_HALVINGS = 20


def ruled_out(bound: CellBound, halves: Tally, probability: float) -> float:
    """β such that averages and single values within β of one number per cell are excluded; 0 where nothing is.

    `halves` is a tally of the same rows at the same reference, with cells 2 c and 2 c + 1 for the halves h of cell c. Halves
    share e(c), so their equations overdetermine f. With a vector event (16) over halves, at the same rates, for every u

        sum_h u_h (mean_h R + <f, T_h>)  <=  ϱ |(u_h / (s_h n_h))_h| + β sum_h |u_h| m_h,     m_h = 1 + γ sum_j P_hj.

    u = 1 on one half of a cell, -1 on the other, and on all cells what makes sum_h u_h T_h vanish. Then f drops out, and
    averages over halves cannot all be within β < (|sum_h u_h mean_h R| - ϱ |(u_h / (s_h n_h))|) / sum_h |u_h| m_h: the largest
    counts. ϱ grows with β, which is found by bisection.
    """
    found, length, spread = _contrasts(bound, halves)

    def excess(allowance: float) -> float:
        """The largest β that is excluded, given that the energies are those at an allowance."""
        located = bound.locate(Allowance(allowance))
        radius = bound.ground.radius(probability, located.energy_bound, located.farthest)
        return float(((found - radius * (1 + 1e-12) * length) / spread).max(initial=0.0))

    low, high = 0.0, excess(0.0) if found.size else 0.0
    for _ in range(_HALVINGS if high > 0 else 0):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if middle < excess(middle) else (low, middle)
    return low


def _contrasts(bound: CellBound, halves: Tally) -> tuple[FloatArray, FloatArray, FloatArray]:
    """For every cell with rows in both halves |sum u_h mean_h R| less its error, |(u_h / (s_h n_h))|, and sum |u_h| m_h."""
    system, (atoms, gamma) = bound.ground.system, (bound.tally.shape.atoms, bound.tally.gamma)
    count, total, size = (x.sum(axis=0).reshape(-1, 2) for x in (halves.count, halves.total, halves.size))  # (p, 2)
    safe = np.maximum(count, 1.0)
    mass = halves.over_pairs(np.ones_like(halves.count), halves.mass).reshape(*count.shape, -1)  # (p, 2, J)
    following = mass / safe[:, :, None]
    tested = np.flatnonzero((count > 0).all(axis=1) & system.learned)
    weights, slack = system.directions(gamma * (following[tested, 0] - following[tested, 1]) @ atoms)  # (k, p)
    shares = count / np.maximum(count.sum(axis=1, keepdims=True), 1.0)
    contrast = weights[:, :, None] * np.where(system.learned[:, None], shares, 0.0)  # (k, p, 2)
    # cells that are not learned have no equation: what they would cancel is bounded through f
    lost = np.abs(weights) @ np.where(system.learned, 0.0, system.largest)
    contrast[np.arange(tested.size), tested] += [1.0, -1.0]
    rounding = halves.error + 4 * halves.relative * (size / safe + 2 * system.largest)
    found = np.abs(np.einsum("kch,ch->k", contrast, total / safe)) * (1 - 1e-12)
    found = found - np.einsum("kch,ch->k", np.abs(contrast), rounding) - slack - lost
    scale = np.where(count > 0, bound.events.vector.shape[:, None] * safe, np.inf)  # s_h n_h
    length = np.sqrt(np.einsum("kch,ch->k", contrast**2, scale**-2.0)) * (1 + 1e-12)
    spread = np.einsum("kch,ch->k", np.abs(contrast), 1.0 + gamma * following.sum(axis=2)) * (1 + 1e-12)
    return found, length, spread
