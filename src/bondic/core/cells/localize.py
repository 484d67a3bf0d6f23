"""What the rows leave of the values on cells: a vector event (16), an event (15) for every cell, and a fixed point.

With rates r_1 > r_2 > ... and a shape s_c > 0 fixed before the rows, r_k s_c B < 1, each with probability at least 1 - δ/K,

    | ( r_k s_c sum_{i in c} Z_i )_c |  <=  ρ_k = log(2K/δ) + sum_i g( -r_k s_c |Δ_i| ),                                  (16)

and for every cell, at rates of its own, |sum_{i in c} Z_i| <= ( log(2m/δ) + sum_{i in c} g(-r |Δ_i|) ) / r. Together they say how
far all cells are off at once (Euclidean: noise of many cells does not add up), and how far single cells are.

Ŷ_i (`forecasts`) is known before the row, given q* and e, so that |Δ_i| <= min{ B, |D_i + x_i(f) - γ ζ'_i| }, where ζ'_i is the
policy's mean of ζ at s'_i. Let a_c = s_c n_c. The equations of the cells are sum_{i in c} Z_i = n_c (t_c + mean R_i + mean
η_i), η_i = ζ(x_i) - γ ζ'_i, hence

    t = t' + t'',   |(a_c t'_c)_c| <= ϱ = min_k ρ_k / r_k,   |t''_c| <= τ_c = |mean R_i| + β̄_c + γ sum_j P_cj β̄_j,   (17)

an ellipsoid, and |t_c| <= ε_c + τ_c, a box, from the events of the cells. Both radii depend on f through the energy of the
deviations alone, g(-y) <= G y^2 with G = g(-y)/y^2 at the largest y, and the sets bound the energy:

    sum_i s_c^2 (D_i + x_i(f) - γ ζ'_i)^2  <=  (1 + θ) ( S + 2 <f, X> + sum_i s_c^2 x_i(f)^2 ) + (1 + 1/θ) γ^2 sum_i s_c^2 β'_i^2.

So from the energy at the value range radii, sets and energies may be iterated: all of them are true on the one event. Nothing
else depends on the allowance, and the event does not see it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bondic.core.betting import MAX_BET, curvature, vector_term
from bondic.core.bounded import Between, FloatArray, U, inflate, row_norms
from bondic.core.cells.allowance import CellAllowance
from bondic.core.cells.forecasts import LabelTally
from bondic.core.cells.intervals import Intervals, largest_by_label
from bondic.core.cells.system import Energy, Feasible, Form, System
from bondic.core.cells.tally import Tally
from bondic.core.errors import InvalidInput

_ROUNDS = 16
_CONVERGED = 3e-3
"""Relative change of energies at which iterating stops: any number of rounds gives a bound."""


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
class Events:
    """Both kinds of events with their probabilities."""

    vector: VectorEvent
    vector_probability: float
    cells: CellTails
    cells_probability: float


@dataclass(frozen=True, eq=False)
class ValueLimits:
    """What holds whatever the log says, on every cell: the width B of the range of Y, and the ends of e; one for all, or each."""

    width: FloatArray | float  # (p,) of |Y - Ŷ|
    low: FloatArray | float
    high: FloatArray | float
    clip: FloatArray | float = math.inf  # Ŷ is cut to [-clip, clip]; inf: to the range of Y

    @property
    def middle(self) -> FloatArray | float:
        return 0.5 * (self.low + self.high)

    @property
    def magnitude(self) -> FloatArray | float:
        """|e|."""
        return np.abs(self.low) + np.abs(self.high)


@dataclass(frozen=True, eq=False)
class Ground:
    """What no allowance changes: the equations, the events, and the energy of the vector event as a form."""

    system: System
    events: Events
    limits: ValueLimits

    @staticmethod
    def of(tally: Tally, labels: LabelTally, events: Events, limits: ValueLimits) -> Ground:
        vector, single = events.vector, events.cells.rates
        together = tally.shape.by_layer(vector.shape * limits.width)
        largest = float(np.linalg.norm(together, axis=0).max(initial=0.0)) * max(vector.rates)
        if max(largest, float((single * limits.width).max(initial=0.0))) > MAX_BET:
            raise InvalidInput("A rate of an event is too large for the value range.")
        return Ground(
            System(tally, labels, limits.low - tally.reference, limits.high - tally.reference), events, limits
        )

    @cached_property
    def widths(self) -> FloatArray:
        """(Λ,) B of the rows of a label."""
        return np.broadcast_to(self.limits.width, self.system.counts.size)[self.system.labels.cell]

    @cached_property
    def weights(self) -> FloatArray:
        """(B, Λ) s_c^2."""
        shape = self.events.vector.shape[self.system.labels.cell]
        return np.broadcast_to(shape**2 * (1 + 1e-15), self.system.rows.count.shape)

    @cached_property
    def scale(self) -> FloatArray:
        """(p,) 1 / a_c; 0 for cells without rows."""
        size = self.events.vector.shape * np.maximum(self.system.counts, 1.0)
        return np.where(self.system.learned, 1.0 / size, 0.0)

    @cached_property
    def form(self) -> Form:
        return Form.of(self.system, self.weights)

    def deviations(self, farthest: FloatArray) -> FloatArray:
        """(Λ,) the largest |Δ_i| of the rows of a label."""
        rows = self.system.rows
        size = np.maximum(-rows.low, rows.high).max(axis=0) + rows.error
        return np.asarray(np.minimum(np.where(rows.count.sum(axis=0) > 0, size + farthest, 0.0), self.widths))

    def radius(self, probability: float, energy: float, farthest: FloatArray) -> float:
        """ϱ = min_k ( log(2K/δ) / r_k + G_k r_k energy ), G_k the largest g(-y)/y^2 over the rows of all cells.

        A row of the log is a vector with one entry in every layer: y is its norm.
        """
        vector, each = self.events.vector, np.zeros(self.system.counts.size)
        np.maximum.at(each, self.system.labels.cell, vector.shape[self.system.labels.cell] * self.deviations(farthest))
        deviation = float(row_norms(self.system.tally.shape.by_layer(each).T).max(initial=0.0))
        rates, log_term = np.array(vector.rates), vector.log_term(probability)
        found = log_term / rates + curvature(-(rates * deviation)) * rates * energy
        return inflate(float(found.min()) * (1 + 1e-14))


@dataclass(frozen=True, eq=False)
class Located:
    """E for one allowance: sets that hold t, intervals of f, and what bounds single rows over them."""

    ground: Ground
    sets: tuple[Feasible, ...]  # none where there are too many cells
    intervals: Intervals
    allowance: CellAllowance
    single: FloatArray  # (Λ,) a bound of |γ ζ'_i| at every row, and of what the clip of Ŷ adds to |Δ_i|
    farthest: FloatArray  # (Λ,) a bound of |x_i(f) - γ ζ'_i| over E and over the rows of a label, clip included
    energy_bound: float  # of sum_i s_c^2 Δ_i^2

    @property
    def system(self) -> System:
        return self.ground.system

    @property
    def limits(self) -> ValueLimits:
        return self.ground.limits

    @property
    def widths(self) -> FloatArray:
        return self.ground.widths

    def support(self, cells: FloatArray, error: float = 0.0) -> float:
        """An upper bound of <f, d>, where the entries of d are off by at most `error` together."""
        return min([self.intervals.support(cells, error), *(one.support(cells, error) for one in self.sets)])

    def supports(self, cells: FloatArray) -> FloatArray:
        """Upper bounds of |<f, d>| for many directions."""
        return np.asarray(
            np.minimum.reduce([self.intervals.supports(cells), *(one.supports(cells) for one in self.sets)])
        )

    def energy(self, weights: FloatArray) -> Energy:
        beyond = self.single - largest_single(self.system, self.allowance)
        return Energy.of(self.system, weights, self.allowance, Form.of(self.system, weights), beyond)


def locate(ground: Ground, allowance: CellAllowance) -> Located:
    """E, by the fixed point; see the head of this file."""
    return _FixedPoint(ground, allowance).run()


class _FixedPoint:
    """All that is known so far; every step makes some of it smaller."""

    def __init__(self, ground: Ground, allowance: CellAllowance) -> None:
        system, limits = ground.system, ground.limits
        self.ground, self.system, self.allowance = ground, system, allowance
        self.tau, self.allowed = _slack(system, allowance), largest_single(system, allowance)
        self.clip = np.broadcast_to(limits.clip, system.counts.size)[system.labels.cell]
        self.beyond = np.where(self.clip < math.inf, np.inf, 0.0)
        self.farthest, self.radius = np.full(system.labels.cell.size, math.inf), math.inf
        self.own = np.full(system.counts.size, math.inf)  # ε_c of the events of single cells
        self.roots = np.full(system.counts.size, math.inf)  # of the sums of x_i^2 over the rows of cells
        rounding = 4 * U * (limits.magnitude + np.abs(system.tally.reference))
        self.intervals = Intervals(system, Between(system.low, system.high).wider(rounding))
        self.energy_bound = inflate(
            float((ground.weights * system.rows.count * ground.widths**2).sum()) * (1 + 2 * system.relative)
        )

    @property
    def single(self) -> FloatArray:
        """(Λ,) a bound of |γ ζ'_i|, and of what the clip adds: |Y - clip(Ŷ)| <= |Y - Ŷ| + (|Ŷ| - clip)_+."""
        return self.allowed + self.beyond

    def _clip(self, predicted: FloatArray) -> None:
        """From bounds (Λ,) of |<F, κ>|."""
        rows = self.system.rows
        size = np.abs(rows.reference) + self.system.labels.center + self.system.tally.gamma * predicted
        size = size * (1 + 16 * self.system.relative)
        self.beyond = np.minimum(self.beyond, np.maximum(size + rows.error - self.clip, 0.0))

    def run(self) -> Located:
        for _ in range(_ROUNDS):
            before, known = self.energy_bound, self.own
            self._step()
            if self.energy_bound >= before * (1 - _CONVERGED) and not np.any(self.own < known * (1 - _CONVERGED)):
                break
        return Located(
            self.ground, self._sets(), self.intervals, self.allowance, self.single, self.farthest, self.energy_bound
        )

    def _step(self) -> None:
        """Radii from what is known of the rows, then sets and intervals, then the rows again."""
        system, ground = self.system, self.ground
        self._clip(self.intervals.predicted.magnitude())
        squares = self.intervals.deviations(self.single, ground.widths)
        self.energy_bound = min(
            self.energy_bound, inflate(float((ground.weights * squares).sum()) * (1 + 4 * system.relative))
        )
        self._shrink()
        self.own = np.minimum(self.own, self._own_bounds(squares))
        sets = self._sets()
        for one in sets:
            if np.any(self.beyond > 0):
                self._clip(one.predicted())
        energy = Energy.of(system, ground.weights, self.allowance, ground.form, self.beyond)
        for one in sets:
            more = one.excess(energy, energy.linear, energy.linear_error)
            self.energy_bound = min(self.energy_bound, inflate((energy.constant + more) * (1 + 1e-14)))
            self.farthest = np.minimum(self.farthest, largest_by_label(system, one.by_successor) + self.single)
            self.roots = np.minimum(self.roots, one.cell_roots())
        self._shrink()
        known = np.minimum(self.own, self.radius * ground.scale)
        self.intervals = self.intervals.tightened(np.where(system.learned, known + self.tau, math.inf))
        self.farthest = np.minimum(self.farthest, self.intervals.farthest() + self.single)

    def _shrink(self) -> None:
        probability = self.ground.events.vector_probability
        self.radius = min(self.radius, self.ground.radius(probability, self.energy_bound, self.farthest))

    def _sets(self) -> tuple[Feasible, ...]:
        """No cells together, those about which the vector event says more, and all of them.

        Alone, a cell with few rows does not spoil the others; together, noise of many cells does not add up. Every set is valid.
        """
        system, scale, known = self.system, self.ground.scale, self.intervals.by_successor.magnitude()
        if system.large:
            return ()
        everything = system.largest * (1 + system.tally.gamma * system.tally.shape.largest)
        alone = np.where(system.learned, np.minimum(self.own + self.tau, everything), self.tau)
        found: dict[bytes, Feasible] = {}
        for times in (0.0, 1.0, 1e300):
            inside = system.learned & (self.radius * scale <= times * np.minimum(self.own, everything))
            slack, radius = np.where(inside, self.tau, alone), self.radius if inside.any() else 0.0
            found.setdefault(inside.tobytes(), Feasible(system, np.where(inside, scale, 0.0), radius, slack, known))
        return tuple(found.values())

    def _own_bounds(self, squares: FloatArray) -> FloatArray:
        """(p,) ε_c = min_k ( log(2m/δ) / r_k + G_k r_k sum_{i in c} Δ_i^2 ) / n_c: a bound of |mean Z_i| over the rows of a cell.

        sqrt( sum Δ_i^2 ) <= sqrt( sum D_i^2 ) + sqrt( sum x_i^2 ) + γ sqrt( sum β'_i^2 ); `squares` bound it by block and label.
        """
        system, rows, counts, events = self.system, self.system.rows, self.system.counts, self.ground.events
        grow = 1 + system.relative
        square = system.over_labels(rows.square.sum(axis=0))
        extra = system.over_labels(rows.count.sum(axis=0) * (self.single + rows.error) ** 2)
        root = (np.sqrt(square) + self.roots + np.sqrt(extra)) * grow
        energy = np.minimum(root**2 * (1 + 1e-14), system.over_labels(squares.sum(axis=0)) * grow)
        deviation = np.zeros(counts.size)
        np.maximum.at(deviation, system.labels.cell, self.ground.deviations(self.farthest))
        rates, log_term = events.cells.rates, events.cells.log_term(events.cells_probability)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = (log_term / rates + curvature(-(rates * deviation)) * rates * energy) / counts
        found = np.where((rates > 0) & (counts > 0), found, np.inf)
        return np.asarray(found.min(axis=0, initial=np.inf) * (1 + 1e-13))


def _slack(system: System, allowance: CellAllowance) -> FloatArray:
    """(p,) τ; for cells without rows the range of f itself, as P = 0 there."""
    tally = system.tally
    counts = np.maximum(system.counts, 1.0)
    mean = np.abs(tally.total.sum(axis=0)) / counts
    rounding = tally.error + tally.relative * (
        tally.size.sum(axis=0) / counts + 4 * tally.shape.largest * system.largest
    )
    allowed = tally.shape.at_cells(allowance.averages)
    allowed = allowed + tally.gamma * system.after.times(tally.shape.at_atoms(allowance.averages))
    allowed = allowed * (1 + tally.relative)
    own = np.maximum(np.abs(system.low), np.abs(system.high))
    return np.asarray(np.where(system.learned, mean + rounding + allowed, own) * (1 + 1e-14))


def largest_single(system: System, allowance: CellAllowance) -> FloatArray:
    """(Λ,) γ max β_∞ over atoms of the label's layer, rounded up."""
    shape = system.tally.shape
    most = np.zeros(shape.layers)
    np.maximum.at(most, shape.atom_layers, shape.at_atoms(allowance.single))
    layer = system.labels.cell // (shape.cells // shape.layers)
    return np.asarray(most[layer] * system.tally.gamma * (1 + 4 * system.relative))
