"""What the rows leave of the values on cells: a vector event (16), an event (15) for every cell, and a fixed point.

With rates r_1 > r_2 > ... and a shape s_c > 0 fixed before the rows, r_k s_c B < 1, each with probability at least 1 - δ/K,

    | ( r_k s_c sum_{i in c} Z_i )_c |  <=  ρ_k = log(2K/δ) + sum_i g( -r_k s_c |Δ_i| ),                                  (16)

and for every cell, at rates of its own, |sum_{i in c} Z_i| <= ( log(2m/δ) + sum_{i in c} g(-r |Δ_i|) ) / r. Together they say how
far all cells are off at once (Euclidean: noise of many cells does not add up), and how far single cells are.

Ŷ_i = clip(q̂(x_i) + e(c_i)) is known before the row, given q* and e, so that |Δ_i| <= min{ B, |R_i + x_i(f) - γ ζ'_i| }, where
x_i(f) = f(c_i) - γ sum_j π_ij F_j and ζ'_i is the policy's mean of ζ at s'_i. Let a_c = s_c n_c. The equations of the cells are
sum_{i in c} Z_i = n_c (t_c + mean R_i + mean η_i), η_i = ζ(x_i) - γ ζ'_i, hence

    t = t' + t'',   |(a_c t'_c)_c| <= ϱ = min_k ρ_k / r_k,   |t''_c| <= τ_c = |mean R_i| + β̄_c + γ sum_j P_cj β̄_j,   (17)

and |t_c| <= ε_c + τ_c from the event of the cell. Both radii depend on f through the energy of the deviations alone,
g(-y) <= G y^2 with G = g(-y)/y^2 at the largest y, and E bounds the energy:

    sum_i s_c^2 (R_i + x_i(f) - γ ζ'_i)^2  <=  (1 + θ) ( S + 2 <f, X> + sum_i s_c^2 x_i(f)^2 ) + (1 + 1/θ) γ^2 sum_i s_c^2 β'_i^2.

So from the energy at the value range radii, sets and energies may be iterated: all of them are true on the one event. Nothing
else depends on the allowance, and the event does not see it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.betting import LARGEST_BET, curvature, vector_term
from bondic.core.bounded import U, inflate
from bondic.core.cells.allowance import CellAllowance
from bondic.core.cells.forecasts import ForecastTally
from bondic.core.cells.ranges import Bounds, Ranges
from bondic.core.cells.system import Direction, Energy, Feasible, System
from bondic.core.cells.tally import Tally
from bondic.core.errors import InvalidInput

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

_ROUNDS, _STEPS = 16, 200
_TOGETHER = (0.0, 1.0, 8.0, 1e300)
_SETTLED = 3e-3
"""Relative change of the energy at which iterating stops: any number of rounds gives a bound."""


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


@dataclass(frozen=True, eq=False)
class CellTails:
    """Tails (15) of both signs for single cells, at several rates; fixed before the rows."""

    rates: FloatArray  # (K, p); 0: no event

    def __post_init__(self) -> None:
        if not (self.rates.ndim == 2 and np.all(self.rates >= 0) and np.all(np.isfinite(self.rates))):
            raise InvalidInput("Events of cells have rates of at least 0.")

    def log_term(self, probability: float) -> float:
        """log(2 m / δ), m the number of rates that are not 0."""
        return vector_term(probability / max(int((self.rates > 0).sum()), 1)).upper


@dataclass(frozen=True, eq=False)
class Located:
    """E for one allowance: several sets, each of which holds t, intervals of f, and what bounds single rows over them."""

    sets: tuple[Feasible, ...]
    ranges: Ranges
    allowance: CellAllowance
    row_reach: FloatArray  # (Λ,) a bound of |x_i(f) - γ ζ'_i| over E and over the rows of a label
    limits: ValueLimits
    energy_bound: float  # of sum_i s_c^2 Δ_i^2

    @property
    def system(self) -> System:
        return self.ranges.system

    def support(self, direction: Direction) -> float:
        """An upper bound of <f, d>."""
        own = self.ranges.support(direction.cells, direction.error)
        return min([own, *(one.support(direction) for one in self.sets)])

    def supports(self, cells: FloatArray) -> FloatArray:
        """Upper bounds of |<f, d>| for many directions."""
        return np.asarray(np.minimum.reduce([self.ranges.supports(cells), *(one.supports(cells) for one in self.sets)]))

    @property
    def single(self) -> float:
        """A bound of |γ ζ'_i| at every row."""
        return largest_single(self.system, self.allowance)

    def energy(self, weights: FloatArray) -> RowEnergy:
        return RowEnergy.of(self.system, weights, self.allowance)

    def excess(self, energy: RowEnergy, direction: Direction) -> float:
        """An upper bound of <f, d> + factor * sum_i w_i x_i(f)^2; inf without sets."""
        found = (
            one.support(direction) + inflate(energy.factor * one.root_energy(energy.form) ** 2) for one in self.sets
        )
        return min(found, default=math.inf)


@dataclass(frozen=True, eq=False)
class RowEnergy:
    """sum_i w_i (R_i + x_i(f) - γ ζ'_i)^2 <= constant + <f, linear> + factor * sum_i w_i x_i(f)^2, for every f."""

    constant: float
    linear: FloatArray  # (p,) 2 (1 + θ) X on cells
    linear_error: float  # of all its entries together
    factor: float  # 1 + θ
    form: Energy

    @staticmethod
    def of(system: System, weights: FloatArray, allowance: CellAllowance, form: Energy | None = None) -> RowEnergy:
        """`weights`: (B, Λ), one for all rows of a block and label; `form`, where it was made of them before."""
        rows, atoms, gamma = system.rows, system.tally.shape.atoms, system.tally.gamma
        grow = 1 + system.relative
        mass = float((weights * rows.count).sum()) * grow
        square = (math.sqrt(float((weights * rows.square).sum()) * grow) + rows.error * math.sqrt(mass)) ** 2
        single = rows.over_atoms(weights, rows.mass) @ (atoms @ allowance.single) ** 2
        further = gamma**2 * float(single) * grow
        theta = math.sqrt(further / square) if square > 0 else 1.0
        theta = max(theta, 1e-150) if further > 0 else 0.0
        rest = (1 + 1 / theta) * further if theta else 0.0
        total, onto = (weights * rows.total).sum(axis=0), rows.over_atoms(weights, rows.moment)
        own = system.forecasts is None
        linear = total - gamma * (onto @ atoms) if own else gamma * ((total @ system.expected - onto) @ atoms)
        size = 1 + gamma * (1 + float(np.abs(system.expected).sum(axis=1).max(initial=0.0)))
        lost = size * (system.relative * float((weights * rows.size).sum()) + rows.error * mass)
        factor = 1 + theta
        return RowEnergy(
            inflate((factor * square + rest) * (1 + 1e-14)),
            2 * factor * linear,
            inflate(2 * factor * lost * grow),
            factor * (1 + 1e-15),
            form or Energy.of(system, weights),
        )


@dataclass(frozen=True, eq=False)
class Events:
    """Both kinds of events with their probabilities."""

    vector: VectorEvent
    vector_probability: float
    cells: CellTails
    cells_probability: float


@dataclass(frozen=True, eq=False)
class Ground:
    """What no allowance changes: the equations, and the energy of the vector event as a form."""

    system: System
    weights: FloatArray  # (B, Λ) s_c^2
    form: Energy | None  # None where there are too many cells for sets of all of them

    @staticmethod
    def of(tally: Tally, vector: VectorEvent, limits: ValueLimits, forecasts: ForecastTally | None = None) -> Ground:
        system = System(tally, limits.low - tally.reference, limits.high - tally.reference, forecasts)
        weights = np.broadcast_to(vector.shape[system.label_cell] ** 2 * (1 + 1e-15), system.rows.count.shape)
        return Ground(system, weights, None if system.large else Energy.of(system, weights))


def locate(
    tally: Tally,
    events: Events,
    limits: ValueLimits,
    allowance: CellAllowance,
    forecasts: ForecastTally | None = None,
    ground: Ground | None = None,
) -> Located:
    """E, by the fixed point; see the head of this file. `ground`, where it was made of the same before."""
    vector = events.vector
    largest = max(float(vector.shape.max(initial=0.0)) * max(vector.rates), float(events.cells.rates.max(initial=0.0)))
    if largest * limits.width > LARGEST_BET:
        raise InvalidInput("A rate of an event is too large for the value range.")
    ground = ground or Ground.of(tally, vector, limits, forecasts)
    return _FixedPoint(ground, events, limits, allowance).run()


class _FixedPoint:
    """All that is known so far; every step makes some of it smaller."""

    def __init__(self, ground: Ground, events: Events, limits: ValueLimits, allowance: CellAllowance) -> None:
        system, vector, labels = ground.system, events.vector, ground.system.label_cell.size
        self.ground, self.events, self.limits, self.allowance = ground, events, limits, allowance
        self.single = largest_single(system, allowance)
        self.scale, self.tau = vector.shape * system.counts, _slack(system, allowance)
        self.row_reach, self.radius = np.full(labels, math.inf), math.inf
        self.own = np.full(system.counts.size, math.inf)  # ε_c of the events of single cells
        self.roots = np.full(system.counts.size, math.inf)  # of the sums of x_i^2 over the rows of cells
        rounding = 4 * U * (abs(limits.low) + abs(limits.high) + np.abs(system.tally.reference))
        self.ranges = Ranges(system, Bounds(system.low, system.high).wider(rounding), self.own)
        self.sets: tuple[Feasible, ...] = ()
        rows = system.rows
        self.found = inflate(float((ground.weights * rows.count).sum()) * limits.width**2 * (1 + rows.relative))

    def run(self) -> Located:
        for _ in range(_ROUNDS):
            before, known = self.found, self.own
            self._step()
            if self.found >= before * (1 - _SETTLED) and not np.any(self.own < known * (1 - _SETTLED)):
                break
        return Located(self.sets, self.ranges, self.allowance, self.row_reach, self.limits, self.found)

    def _step(self) -> None:
        """Radii from what is known of the rows, then sets and intervals, then the rows again."""
        system, event = self.ground.system, self.events.vector
        squares = self.ranges.deviations(self.single, self.limits.width)
        grow = 1 + 4 * system.relative
        self.found = min(self.found, inflate(float((self.ground.weights * squares).sum()) * grow))
        costs = prices(event, system, self.row_reach, self.limits)
        self._shrink(costs)
        bounds = _own_bounds(self.events, system, self.row_reach, self.limits, self.roots, self.allowance, squares)
        self.own = np.minimum(self.own, bounds)
        if self.ground.form is not None:
            self._together(self.ground.form, costs)
        known = np.minimum(self.own, self.radius / np.where(self.scale > 0, self.scale, math.inf))
        equations = np.where(system.counts > 0, known + self.tau, math.inf)
        self.ranges = Ranges.of(system, self.ranges.values, equations)
        self.row_reach = np.minimum(self.row_reach, self.ranges.row_reach() + self.single)

    def _shrink(self, costs: list[float]) -> None:
        found = _radius(self.events.vector, self.events.vector_probability, costs, self.found)
        self.radius = min(self.radius, found)

    def _together(self, form: Energy, costs: list[float]) -> None:
        """Sets of all cells, and the radius that goes with their energy."""
        system = self.ground.system
        energy = RowEnergy.of(system, self.ground.weights, self.allowance, form)
        direction = system.direction(energy.linear, energy.linear_error)
        growths = [one.growth(energy.form, direction) for one in self._sets()]
        for _ in range(_STEPS):
            last = self.radius
            self.found = min(self.found, *(_at(energy, growth, self.radius) for growth in growths))
            self._shrink(costs)
            if self.radius >= last * (1 - 1e-6):
                break
        self.sets = self._sets()
        self.row_reach = np.minimum.reduce([self.row_reach, *(_row_reach(one, self.allowance) for one in self.sets)])
        self.roots = np.minimum.reduce([self.roots, *(one.cell_roots() for one in self.sets)])

    def _sets(self) -> tuple[Feasible, ...]:
        return _sets(self.ground.system, self.scale, self.radius, self.tau, self.own)


def _sets(system: System, scale: FloatArray, radius: float, tau: FloatArray, own: FloatArray) -> tuple[Feasible, ...]:
    """Cells one by one, all together, and between these: together those about which the vector event says more, or nearly so.

    Together, noise of many cells does not add up; alone, a cell with few rows does not spoil the others. Every set is valid.
    """
    everything = system.largest * (1 + system.tally.gamma)
    alone = np.where(system.learned, np.minimum(own + tau, everything), tau)
    known = np.minimum(own, everything)
    found: dict[bytes, Feasible] = {}
    for times in _TOGETHER:
        inside = system.learned & (radius <= times * known * scale)
        size = radius if inside.any() else 0.0
        found.setdefault(inside.tobytes(), Feasible(system, inside, scale, size, np.where(inside, tau, alone)))
    return tuple(found.values())


def _at(energy: RowEnergy, growth: tuple[float, float, float, float], radius: float) -> float:
    """The energy over a set at ϱ."""
    linear, root = radius * growth[0] + growth[1], radius * growth[2] + growth[3]
    return inflate((energy.constant + linear + energy.factor * root**2) * (1 + 1e-14))


def _radius(event: VectorEvent, probability: float, costs: list[float], energy: float) -> float:
    """ϱ = min_k ( log(2K/δ) / r_k + G_k r_k energy )."""
    log_term = event.log_term(probability)
    found = (log_term / rate + cost * rate * energy for rate, cost in zip(event.rates, costs, strict=True))
    return inflate(min(found) * (1 + 1e-14))


def _own_bounds(
    events: Events,
    system: System,
    row_reach: FloatArray,
    limits: ValueLimits,
    roots: FloatArray,
    allowance: CellAllowance,
    squares: FloatArray | None = None,
) -> FloatArray:
    """(p,) ε_c = min_k ( log(2m/δ) / r_k + G_k r_k sum_{i in c} Δ_i^2 ) / n_c: a bound of |mean Z_i| over the rows of a cell.

    sqrt( sum Δ_i^2 ) <= sqrt( sum R_i^2 ) + sqrt( sum x_i^2 ) + γ sqrt( sum β'_i^2 ), and the range bounds every row.
    `squares`: bounds of sum Δ_i^2 by block and label.
    """
    rows, counts, cell = system.rows, system.counts, system.label_cell
    grow = 1 + system.relative
    square = np.bincount(cell, rows.square.sum(axis=0), minlength=counts.size)
    single = largest_single(system, allowance)
    root = (np.sqrt(square) + roots + np.sqrt(counts) * (single + rows.error)) * grow
    energy = np.minimum(root**2 * (1 + 1e-14), counts * limits.width**2)
    if squares is not None:
        energy = np.minimum(energy, np.bincount(cell, squares.sum(axis=0), minlength=counts.size) * grow)
    deviation = np.zeros(counts.size)
    np.maximum.at(deviation, cell, _deviations(system, row_reach, limits))
    rates, log_term = events.cells.rates, events.cells.log_term(events.cells_probability)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (log_term / rates + curvature(-(rates * deviation)) * rates * energy) / counts
    found = np.where((rates > 0) & (counts > 0), found, np.inf)
    return np.asarray(found.min(axis=0, initial=np.inf) * (1 + 1e-13))


def _deviations(system: System, row_reach: FloatArray, limits: ValueLimits) -> FloatArray:
    """(Λ,) the largest |Δ_i| of the rows of a label."""
    rows = system.rows
    size = np.maximum(-rows.low, rows.high).max(axis=0) + rows.error
    return np.asarray(np.minimum(np.where(rows.count.sum(axis=0) > 0, size + row_reach, 0.0), limits.width))


def _slack(system: System, allowance: CellAllowance) -> FloatArray:
    """(p,) τ; for cells without rows the range of f itself, as P = 0 there."""
    tally = system.tally
    counts = np.maximum(system.counts, 1.0)
    mean = np.abs(tally.total.sum(axis=0)) / counts
    rounding = tally.error + tally.relative * (tally.size.sum(axis=0) / counts + 4 * system.largest)
    allowed = allowance.averages + tally.gamma * system.following @ (tally.shape.atoms @ allowance.averages)
    allowed = allowed * (1 + tally.relative)
    own = np.maximum(np.abs(system.low), np.abs(system.high))
    return np.asarray(np.where(system.learned, mean + rounding + allowed, own) * (1 + 1e-14))


def _row_reach(feasible: Feasible, allowance: CellAllowance) -> FloatArray:
    """(Λ,) |x_i(f) - γ ζ'_i| <= |t_c| (without forecasts) + γ |<F, κ> - F_j| + γ max β_∞."""
    system = feasible.system
    own = feasible.cells() if system.forecasts is None else 0.0
    moved = own + system.tally.gamma * feasible.next_differences()
    return np.asarray((moved + largest_single(system, allowance)) * (1 + 1e-14))


def largest_single(system: System, allowance: CellAllowance) -> float:
    """γ max β_∞ over atoms, rounded up."""
    most = float((system.tally.shape.atoms @ allowance.single).max(initial=0.0))
    return most * system.tally.gamma * (1 + 4 * system.relative)


def prices(event: VectorEvent, system: System, row_reach: FloatArray, limits: ValueLimits) -> list[float]:
    """For every rate the largest g(-y)/y^2 over the rows of all cells."""
    deviation = event.shape[system.label_cell] * _deviations(system, row_reach, limits)
    return [float(curvature(-(rate * deviation)).max(initial=0.5)) for rate in event.rates]
