"""Both ends of the value from cells: the identity (13) with the tail (15), over what the rows leave of the values.

For weights v_bc fixed before the rows of block b, |v_bc| B < 1, with probability at least 1 - δ

    sum_i v_i Z_i  <=  log(1/δ) + sum_i g(-v_i Δ_i)  <=  log(1/δ) + sum_i w_i (R_i + x_i(f) - γ ζ'_i)^2,    w_i = v_i^2 g(-y)/y^2

at the most negative y = -v_i Δ_i that E leaves a row of block and cell. With ψ_0 on cells, sign s = ±1, and μ = s Λ ψ_0
- sum_i v_i T_i,

    s Λ <f, ψ_0>  <=  log(1/δ) - sum_i v_i R_i + sup_E { <f, μ> + sum_i w_i (...)^2 } + sum_i |v_i| (β̄(c_i) + γ β̄'_i),   (24)

and J = E_{d_0 π}[q̂ + b] + <f, ψ_0> ± E_{d_0 π}[β̄]. A second bound needs no weights: s <f, ψ_0> <= sup_E. Both hold;
the shorter is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.betting import LARGEST_BET, curvature, tail_term
from bondic.core.bounded import Enclosure, certified_dot, inflate
from bondic.core.cells.localize import Located
from bondic.core.cells.tally import Tally
from bondic.core.errors import InvalidInput, NumericalError

FloatArray = npt.NDArray[np.float64]


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
        if not (np.all((self.cells >= 0) & (self.cells < np.inf)) and 0 <= self.error < np.inf):
            raise InvalidInput("The starts are probabilities of cells, and their error is a number of at least 0.")


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


def end_terms(located: Located, starts: StartMean, tail: EndWeights, sign: float, probability: float) -> EndTerms:
    """The upper end (sign 1) or the lower one (sign -1), the shorter of both bounds."""
    base = starts.center + certified_dot(located.system.tally.reference, starts.cells)
    base = Enclosure(
        base.mid, inflate(base.rad + starts.error * float(np.abs(located.system.tally.reference).max(initial=0.0)))
    )
    allowed = float(located.allowance.averages @ starts.cells)
    allowed = inflate(
        allowed * (1 + located.system.tally.relative)
        + starts.error * float(located.allowance.averages.max(initial=0.0))
    )
    known = located.support(located.system.direction(sign * starts.cells, starts.error))
    plain = EndTerms(base, 0.0, 0.0, known, allowed, False)
    weighed = _weighed(located, starts, tail, sign, probability, base, allowed)
    if weighed.value.mid * sign + weighed.spread < base.mid * sign + plain.spread:
        return weighed
    return plain


def _weighed(
    located: Located,
    starts: StartMean,
    tail: EndWeights,
    sign: float,
    probability: float,
    base: Enclosure,
    allowed: float,
) -> EndTerms:
    system, tally, weights = located.system, located.system.tally, tail.weights
    if weights.shape != tally.count.shape:
        raise InvalidInput("The weights of a tail are those of other blocks or cells.")
    if not np.all(np.abs(weights) * located.limits.width <= LARGEST_BET):
        raise NumericalError("A bet of a tail is too large for the value range.")
    grow = 1 + tally.relative
    residuals = float((weights * tally.total).sum())
    size = np.abs(weights) * (tally.count * tally.error + tally.relative * tally.size)
    off = inflate(float(size.sum()) * grow)
    by_label = system.spread(weights)
    balance, lost = _balance(tally, starts, tail, sign)
    noise, bias = _paid(located, by_label, balance, lost)
    share = Enclosure(tail.rate)
    allowance = (np.abs(weights) * tally.count).sum(axis=0) @ located.allowance.averages
    allowance += tally.gamma * float(
        tally.over_atoms(np.abs(weights), tally.mass) @ (tally.shape.atoms @ located.allowance.averages)
    )
    return EndTerms(
        base - sign * (Enclosure(residuals, off) / share),
        (tail_term(probability) / share).upper,
        (Enclosure(noise) / share).upper,
        (Enclosure(bias) / share).upper,
        inflate((Enclosure(inflate(float(allowance) * grow)) / share).upper + allowed),
        True,
    )


def _paid(located: Located, weights: FloatArray, balance: FloatArray, lost: float) -> tuple[float, float]:
    """sup_E { <f, μ> + sum_i g(-v_i Δ_i) } in two parts: what is there at the reference, or row by row, and what E adds.

    Blocks and labels are charged row by row (`Ranges.charges`) or by the form of Lemma 45: all in the first way, all in the
    second, and each in the way that looks cheaper.
    """
    system = located.system
    each = located.ranges.charges(weights, located.single, located.limits.width)
    alone = located.support(system.direction(balance, lost))
    found = [(inflate(float(each.sum()) * (1 + 4 * system.relative)), alone)]
    if located.sets:
        prices = weights**2 * _prices(located, weights) * (1 + 1e-15)
        cheaper = each < prices * located.ranges.reference_squares(located.row_reach)
        for apart in {cheaper.tobytes(): cheaper, b"": np.zeros_like(cheaper)}.values():
            energy = located.energy(np.where(apart, 0.0, prices))
            direction = system.direction(balance + energy.linear, lost + energy.linear_error)
            rows = inflate(float(each[apart].sum()) * (1 + 4 * system.relative))
            found.append((inflate(energy.constant + rows), located.excess(energy, direction)))
    return min(found, key=sum)


def _prices(located: Located, weights: FloatArray) -> FloatArray:
    """(B, Λ) g(-y)/y^2 at the most negative y of a block and label: -v Δ for every sign of v, within the range."""
    rows = located.system.rows
    row_reach = located.row_reach + rows.error
    most = np.where(weights > 0, row_reach - rows.low, row_reach + rows.high)
    deviation = np.clip(np.where(rows.count > 0, most, 0.0), 0.0, located.limits.width)
    return curvature(-(np.abs(weights) * deviation))


def _balance(tally: Tally, starts: StartMean, tail: EndWeights, sign: float) -> tuple[FloatArray, float]:
    """μ on cells, and a bound of the error of all its entries together."""
    weights = tail.weights
    own = (weights * tally.count).sum(axis=0)
    ahead = tally.gamma * (tally.over_atoms(weights, tally.mass) @ tally.shape.atoms)
    size = float((np.abs(weights) * tally.count).sum()) * (1 + tally.gamma) + tail.rate * float(starts.cells.sum())
    return sign * tail.rate * starts.cells - own + ahead, inflate(tally.relative * size + tail.rate * starts.error)
