"""What the prefix leaves of Q, as far as a proposal may know it: the fixed point of (14)-(18) on some rows of each block.

The evaluation takes all rows and all landmarks. A proposal must not see the coordinates of later landmarks, and needs no
bounds: here are the pilot's coordinates, and at most 500 rows of every block, each of which stands for others like it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bondic.core.betting import bet_cost, curvature
from bondic.core.bounded import Between, row_norms
from bondic.core.sequential.ellipsoids import Cylinder, Ellipsoid, Quadratic, supremum, whole_ball
from bondic.core.sequential.landmarks import Embedding
from bondic.core.sequential.localize import find_fixed_point, sets_of
from bondic.core.sequential.plan import Block, Plan, columns
from bondic.data.spread import spread_rows
from bondic.search.sequential.history import Prefix
from bondic.search.sequential.models import Predictions

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_KEPT = 500
_MOST = 0.995
"""Of a bet: g is infinite at 1."""


@dataclass(eq=False)
class RepresentativeRows:
    """Rows that stand for `weight` rows each."""

    index: IntArray  # (k,) position in the prefix
    weight: FloatArray  # (k,)
    size: FloatArray  # (k,) |λ_i φ_i|
    width: FloatArray  # (k,) B_i
    offsets: FloatArray  # (k,) a_i
    deviations: Embedding  # gamma D_i
    errors: Between  # bounds of a_i + gamma <e, D_i>

    def deviation_bound(self) -> FloatArray:
        """U_i (14)."""
        return np.asarray(np.minimum(self.width, self.errors.magnitude()))

    def sharpen(self, by: Ellipsoid) -> None:
        found = by.products(self.deviations)
        self.errors = self.errors.within(found + Between(self.offsets, self.offsets))

    def then(self, other: RepresentativeRows) -> RepresentativeRows:
        names = ("index", "weight", "size", "width", "offsets")
        joined = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in names}
        deviations = Embedding.joined([self.deviations, other.deviations])
        return RepresentativeRows(**joined, deviations=deviations, errors=self.errors.then(other.errors))


@dataclass(eq=False)
class FeasibleSet:
    """The ellipsoid so far; `absorb` adds the rows of a finished block."""

    size: int
    radius: float
    gamma: float
    log_term: float  # log(2 / delta_1)
    certified: int = 0
    kept: RepresentativeRows | None = None
    cylinder: Cylinder | None = None
    empty: bool = False  # sets that exclude everything are left out: a proposal goes on
    best: Ellipsoid = field(init=False)
    _matrix: FloatArray = field(init=False)
    _offset: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self.best = whole_ball(self.radius, self.size)
        self._matrix, self._offset = np.zeros((self.size, self.size)), np.zeros(self.size)

    def over_the_ball(self, sample: Predictions) -> FloatArray:
        """U_i before anything was learned."""
        found = whole_ball(self.radius, self.size).products(sample.deviations(self.gamma))
        return np.asarray(np.minimum(sample.width, np.abs(sample.miss) + found.magnitude()))

    def widths(self, rows: FloatArray) -> FloatArray:
        """sup <e - ē, f> for rows f (k, m)."""
        nothing = np.zeros(rows.shape[0])
        found = self.best.products(Embedding(rows, nothing, nothing))
        return 0.5 * (found.high - found.low)

    def absorb(self, prefix: Prefix, first: int, block: Block) -> None:
        """The rows first.. of the prefix were those of this block."""
        rows = prefix.rows.cut(slice(first, None))
        if not len(rows):
            return
        found = columns(block, self.gamma, rows.log_rows, rows.points, rows.slots, rows.coordinates, rows.limits)
        self._matrix += found.instruments.T @ (rows.coordinates - self.gamma * rows.following)
        self._offset += found.instruments.T @ (rows.values - rows.targets)
        self.certified += len(rows)
        chosen = spread_rows(len(rows), _KEPT)
        sample = Predictions.of(rows.cut(chosen), found.predicted[chosen], found.embedding[chosen], self.gamma)
        self._keep(sample, row_norms(found.instruments[chosen]), first + chosen, len(rows) / chosen.size)
        find_fixed_point(self)

    def _keep(self, sample: Predictions, sizes: FloatArray, index: IntArray, weight: float) -> None:
        deviations = sample.deviations(self.gamma)
        ball = whole_ball(self.radius, self.size).products(deviations)
        delta = Between(ball.low + sample.miss, ball.high + sample.miss)
        new = RepresentativeRows(
            index, np.full(index.size, weight), sizes, sample.width, sample.miss, deviations, delta
        )
        new.sharpen(self.best)
        self.kept = new if self.kept is None else self.kept.then(new)

    def vector_bound(self, candidates: list[Ellipsoid]) -> tuple[float, int]:
        """log(2/delta_1) + sum g(-λ |φ| |Delta|) (16): row by row, or jointly over one ellipsoid, whichever is less."""
        rows = self.kept
        assert rows is not None
        price, pick = cheapest(
            rows.weight, rows.size, rows.deviation_bound(), rows.offsets, rows.deviations, candidates
        )
        return self.log_term + price, pick

    def narrow(self, bound: float, before: Cylinder | None) -> list[Ellipsoid]:
        assert self.kept is not None
        self.cylinder = Cylinder(self._matrix, self._offset, bound)
        made = sets_of(self.radius, self.cylinder, before, Plan.shares, Plan.with_earlier)
        found = [one for one in made if not one.empty] or [self.best]
        for one in found:
            self.kept.sharpen(one)
        return found


def cheapest(
    weight: FloatArray,
    sizes: FloatArray,
    largest: FloatArray,
    offsets: FloatArray,
    deviations: Embedding,
    ellipsoids: Sequence[Ellipsoid],
) -> tuple[float, int]:
    """The price of rows that come `weight` times with bets of these sizes; and which ellipsoid gives the least joint one."""
    bets = np.minimum(sizes * largest, _MOST)
    single = float(weight @ bet_cost(-bets))
    form = Quadratic.of(weight * sizes**2 * curvature(-bets), offsets, deviations, ellipsoids[0].ball)
    joint = [supremum(one, np.zeros(form.linear.size), 0.0, form)[0] for one in ellipsoids]
    pick = int(np.argmin(joint))
    return min(single, joint[pick]), pick
