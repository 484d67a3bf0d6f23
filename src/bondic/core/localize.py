"""What the rows leave of the values on cells: one vector event (16), and a fixed point in one number.

With rates r_1 > r_2 > ... and a shape s_c > 0 fixed before the rows, r_k s_c B < 1, each with probability at least 1 - δ/K,

    | ( r_k s_c sum_{i in c} Z_i )_c |  <=  ρ_k = log(2K/δ) + sum_i g( -r_k s_c |Δ_i| ).                                  (16)

Ŷ_i = clip(q̂(x_i) + e(c_i)) is known before the row, given q* and e, so that |Δ_i| <= min{ B, |R_i + x_i(f) - γ ζ'_i| }, where
x_i(f) = f(c_i) - γ sum_j π_ij F_j and ζ'_i is the policy's mean of ζ at s'_i. Let a_c = s_c n_c. The equations of the cells are
sum_{i in c} Z_i = n_c (t_c + mean R_i + mean η_i), η_i = ζ(x_i) - γ ζ'_i, hence

    t = t' + t'',   |(a_c t'_c)_c| <= ϱ = min_k ρ_k / r_k,   |t''_c| <= τ_c = |mean R_i| + β̄_c + γ sum_j P_cj β̄_j.   (17)

ρ_k depends on f through the energy of the deviations alone, which E bounds:

    sum_i s_c^2 (R_i + x_i(f) - γ ζ'_i)^2  <=  (1 + θ) ( S + 2 <f, X> + sum_i s_c^2 x_i(f)^2 ) + (1 + 1/θ) γ^2 sum_i s_c^2 β'_i^2.

So ϱ -> min_k ( log(2K/δ) + r_k^2 G_k energy(ϱ) ) / r_k, G_k = g(-y)/y^2 at the largest y = r_k s_c |Δ|, may be iterated
from the energy at the value range: every iterate is a true bound on the one event. Nothing else depends on the
allowance, and the event does not see it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.allowance import CellAllowance
from bondic.core.system import Direction, Energy, Feasible, System
from bondic.core.tally import Tally
from bondic.errors import InvalidInput
from bondic.noise.betting import LARGEST_BET, curvature, vector_term
from bondic.rounding import inflate

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

_ROUNDS = 200
"""Any number of rounds gives a bound. It is the same for every allowance, so that a larger one never has a smaller set."""
_REFINEMENTS = 3
"""How often the largest deviations are bounded again from the set that was found."""


@dataclass(frozen=True, eq=False)
class VectorEvent:
    """What (16) is made of; fixed before the rows."""

    shape: FloatArray  # (p,) s
    rates: tuple[float, ...]  # r_1, ..., r_K

    def __post_init__(self) -> None:
        fine = self.shape.ndim == 1 and bool(np.all((self.shape > 0) & np.isfinite(self.shape)))
        if not (fine and self.rates and all(0 < rate < math.inf for rate in self.rates)):
            raise InvalidInput("A vector event has a positive shape and at least one positive rate.")

    def log_term(self, probability: float) -> float:
        """log(2K/δ)."""
        return vector_term(probability / len(self.rates)).upper


@dataclass(frozen=True)
class ValueLimits:
    """What holds whatever the log says: the width B of the range of Y, and the ends of e on every cell."""

    width: float
    low: float
    high: float


def learned_cells(counts: FloatArray, event: VectorEvent, probability: float, limits: ValueLimits) -> BoolArray:
    """Cells whose equation can say more than the range of values. Any choice is valid; this one is a comparison of the two."""
    reach = 2 * event.log_term(probability) / max(event.rates)
    return np.asarray(event.shape * counts * limits.width >= reach)


def make_system(tally: Tally, event: VectorEvent, probability: float, limits: ValueLimits) -> System:
    learned = learned_cells(tally.count.sum(axis=0), event, probability, limits)
    return System(tally, learned, limits.low - tally.reference, limits.high - tally.reference)


@dataclass(frozen=True, eq=False)
class Located:
    """E for one allowance, with what bounds single rows over it."""

    feasible: Feasible
    allowance: CellAllowance
    reach: FloatArray  # (p,) a bound of |x_i(f) - γ ζ'_i| over E and over the rows of a cell
    limits: ValueLimits
    energy_bound: float  # of sum_i s_c^2 (R_i + x_i(f) - γ ζ'_i)^2

    @property
    def system(self) -> System:
        return self.feasible.system

    def energy(self, weights: FloatArray) -> RowEnergy:
        return RowEnergy.of(self.system, weights, self.allowance)


@dataclass(frozen=True, eq=False)
class RowEnergy:
    """sum_i w_i (R_i + x_i(f) - γ ζ'_i)^2 <= constant + <f, linear> + factor * sum_i w_i x_i(f)^2, for every f."""

    constant: float
    linear: FloatArray  # (p,) 2 (1 + θ) X on cells
    linear_error: float  # of all its entries together
    factor: float  # 1 + θ
    form: Energy

    @staticmethod
    def of(system: System, weights: FloatArray, allowance: CellAllowance) -> RowEnergy:
        tally, atoms = system.tally, system.tally.shape.atoms
        grow = 1 + tally.relative
        mass = float((weights * tally.count).sum()) * grow
        square = (math.sqrt(float((weights * tally.square).sum()) * grow) + tally.error * math.sqrt(mass)) ** 2
        single = tally.over_atoms(weights, tally.mass) @ (atoms @ allowance.single) ** 2
        further = tally.gamma**2 * float(single) * grow
        theta = math.sqrt(further / square) if square > 0 else 1.0
        theta = max(theta, 1e-150) if further > 0 else 0.0
        rest = (1 + 1 / theta) * further if theta else 0.0
        onto = tally.over_atoms(weights, tally.moment)
        linear = (weights * tally.total).sum(axis=0) - tally.gamma * (onto @ atoms)
        lost = (1 + tally.gamma) * (tally.relative * float((weights * tally.size).sum()) + tally.error * mass)
        factor = 1 + theta
        return RowEnergy(
            inflate((factor * square + rest) * (1 + 1e-14)),
            2 * factor * linear,
            inflate(2 * factor * lost * grow),
            factor * (1 + 1e-15),
            Energy.of(system, weights),
        )


def locate(
    system: System, event: VectorEvent, probability: float, limits: ValueLimits, allowance: CellAllowance
) -> Located:
    """E, by the fixed point; see the head of this file."""
    tally, counts = system.tally, system.counts
    if float(event.shape.max(initial=0.0)) * max(event.rates) * limits.width > LARGEST_BET:
        raise InvalidInput("A rate of the vector event is too large for the value range.")
    scale, slack = event.shape * counts, _slack(system, allowance)
    log_term = event.log_term(probability)
    weights = np.broadcast_to(event.shape**2 * (1 + 1e-15), tally.count.shape)
    energy = RowEnergy.of(system, weights, allowance)
    crude = inflate(float((weights * tally.count).sum()) * limits.width**2 * (1 + tally.relative))
    curve = _Growth.of(system, scale, slack, energy, crude)
    reach = np.full(counts.size, math.inf)
    radius, found = math.inf, crude
    for _ in range(_REFINEMENTS):
        costs = prices(event, tally, reach, limits)
        for _ in range(_ROUNDS):
            pairs = zip(event.rates, costs, strict=True)
            new = min((log_term / rate + price * rate * found) * (1 + 1e-14) for rate, price in pairs)
            radius = min(radius, inflate(new))
            found = min(found, curve.at(radius))
        feasible = Feasible(system, scale, radius, slack)
        reach = np.minimum(reach, _reach(feasible, allowance))
    return Located(feasible, allowance, reach, limits, found)


def _slack(system: System, allowance: CellAllowance) -> FloatArray:
    """(p,) τ; for cells that are not learned the range of f itself, as P = 0 there."""
    tally = system.tally
    counts = np.maximum(system.counts, 1.0)
    mean = np.abs(tally.total.sum(axis=0)) / counts
    rounding = tally.error + tally.relative * (tally.size.sum(axis=0) / counts + 4 * system.largest)
    allowed = allowance.averages + tally.gamma * system.following @ (tally.shape.atoms @ allowance.averages)
    allowed = allowed * (1 + tally.relative)
    own = np.maximum(np.abs(system.low), np.abs(system.high))
    return np.asarray(np.where(system.learned, mean + rounding + allowed, own) * (1 + 1e-14))


@dataclass(frozen=True)
class _Growth:
    """The energy as a function of ϱ: constant + (linear and root parts that ϱ multiplies, and those that it does not)."""

    constant: float
    linear: tuple[float, float]  # times ϱ, and beside it
    root: tuple[float, float]
    factor: float
    most: float

    @staticmethod
    def of(system: System, scale: FloatArray, slack: FloatArray, energy: RowEnergy, most: float) -> _Growth:
        one, rest = Feasible(system, scale, 1.0, np.zeros_like(slack)), Feasible(system, scale, 0.0, slack)
        direction = system.direction(energy.linear, energy.linear_error)
        pure = Direction(direction.weights, 0.0)
        return _Growth(
            energy.constant,
            (one.support(pure), rest.support(direction)),
            (one.root_energy(energy.form), rest.root_energy(energy.form)),
            energy.factor,
            most,
        )

    def at(self, radius: float) -> float:
        linear = radius * self.linear[0] + self.linear[1]
        root = radius * self.root[0] + self.root[1]
        return inflate(min(self.most, (self.constant + linear + self.factor * root**2) * (1 + 1e-14)))


def _reach(feasible: Feasible, allowance: CellAllowance) -> FloatArray:
    """|x_i(f) - γ ζ'_i| <= |t_c| + γ |P F - F_j| + γ max β_∞, per cell."""
    gamma, grow = feasible.system.tally.gamma, 1 + feasible.system.tally.relative
    single = float((feasible.system.tally.shape.atoms @ allowance.single).max(initial=0.0)) * grow
    return np.asarray((feasible.cells() + gamma * (feasible.next_differences() + single)) * (1 + 1e-14))


def prices(event: VectorEvent, tally: Tally, reach: FloatArray, limits: ValueLimits) -> list[float]:
    """For every rate the largest g(-y)/y^2 over the rows of all cells."""
    size = np.maximum(-tally.low, tally.high).max(axis=0) + tally.error
    deviation = np.minimum(np.where(tally.count.sum(axis=0) > 0, size + reach, 0.0), limits.width)
    return [float(curvature(-(rate * event.shape * deviation)).max(initial=0.5)) for rate in event.rates]
