"""F on batches of rows: unbiased estimates of g.ω and |μ_ω|^2 for ω = sum_j alpha_j k(., x_j).

    g.ω     = -(1/n) sum_i ω_i R_i
    |μ_ω|^2 = |μ_0|^2 + (2/n) sum_i ω_i <μ_0, psi_i> + (1/n^2) sum_ij ω_i ω_j <psi_i, psi_j>,
    psi_i   = gamma k̃(x'_i) - k̃(x_i).

Kernel values are exact and made as needed. Untrusted, as every search is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bondic.core.balls import Ball
from bondic.core.columns import Batch
from bondic.core.dual.bound import Setting
from bondic.core.errors import InvalidInput
from bondic.core.functions import Function, KernelFunction
from bondic.core.identity import bellman_residual
from bondic.core.kernels.normal_form import normal_form
from bondic.core.terms import discounted_steps
from bondic.engines.sums import STANDARD
from bondic.rows.rows import rows_of
from bondic.search.model import SearchModel
from bondic_lab.identity.formulas import function_values

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_TILE = 256  # rows per block of pairs: bounds memory when a row has many next points
_BLIND = 0.1  # share of k(x, x) that landmarks may miss before a sample of rows is preferred to them


def some_rows(rng: np.random.Generator, n: int, size: int) -> IntArray:
    """`size` rows in order, all of them when there are no more."""
    return np.arange(n) if size >= n else np.sort(rng.choice(n, size=size, replace=False))


def coordinates(model: SearchModel, problem: Batch, rows: IntArray) -> FloatArray:
    """phi(x_i) in the coordinates of the search model: exact for feature kernels, otherwise seen by landmarks."""
    points, slots = problem.logged[rows], problem.slots[rows]
    parts = [(part.finish(part.raw(points)), part.term.embedding[slots]) for part in model.weights.parts]
    return np.hstack([(phi[:, :, None] * columns[:, None, :]).reshape(rows.size, -1) for phi, columns in parts])


@dataclass(frozen=True, eq=False)
class Centers:
    """ω from its coefficients: ω_i = row_features(rows) v with v = alpha, or v = sum_j alpha_j phi(x_j) if explicit."""

    model: SearchModel
    problem: Batch
    rows: IntArray  # whose points are the centers
    explicit: bool  # the kernel has a finite list of features
    phi: FloatArray  # (centers, D) in the model's coordinates
    table: FloatArray  # phi if explicit: |ω| = |table^T alpha|; otherwise k(x_i, x_j): |ω|^2 = alpha^T table alpha

    @staticmethod
    def of(model: SearchModel, setting: Setting, rows: IntArray) -> Centers:
        phi = coordinates(model, rows_of(setting.problem).whole(), rows)
        explicit = all(part.landmarks is None for part in model.weights.parts)
        blank = Centers(model, rows_of(setting.problem).whole(), rows, explicit, phi, phi)
        return blank if explicit else replace(blank, table=blank.row_features(rows))

    def row_features(self, rows: IntArray) -> FloatArray:
        """phi(x_i), or k(x_i, x_j) for all centers x_j."""
        if self.explicit:
            return coordinates(self.model, self.problem, rows)
        points, slots = self.problem.logged, self.problem.slots
        total = np.zeros((rows.size, self.rows.size))
        for term in (part.term for part in self.model.weights.parts):
            actions = term.embedding[slots[rows]] @ term.embedding[slots[self.rows]].T
            total += term.block(points[rows], points[self.rows]) * actions
        return total

    @property
    def blind(self) -> float:
        """Share of both kernels that the coordinates do not see."""
        whole = 0.0 if self.explicit else float(np.trace(self.table))
        missing = 1.0 - float((self.phi**2).sum()) / whole if whole > 0 else 0.0
        return max(missing, self.model.hidden)

    def gram(self, factors: FloatArray) -> FloatArray:
        """<ω_a, ω_b> for coefficients alpha = factors[:, a]."""
        image = self.table.T @ factors
        return image.T @ image if self.explicit else factors.T @ image

    def function(self, alpha: FloatArray) -> Function:
        if self.explicit:
            return self.model.function(self.phi.T @ alpha)
        weights = np.zeros((self.rows.size, self.problem.layout.slots))
        weights[np.arange(self.rows.size), self.problem.slots[self.rows]] = alpha
        return KernelFunction(self.model.weights.kernel, self.problem.layout, self.problem.logged[self.rows], weights)


@dataclass(frozen=True, eq=False)
class RowSample:
    """What b rows say about F."""

    features: FloatArray  # (b, size of v)
    residual: FloatArray  # (b,) of the center of Q
    start: FloatArray  # (b,) <μ_0, psi_i>,  psi_i = gamma k̃(x'_i) - k̃(x_i)
    pairs: FloatArray  # (b, b) <psi_i, psi_j>, weighted so that the sum is unbiased for (1/n^2) sum over all pairs
    factors: FloatArray  # (b,) 1 + gamma c_i


class RowSums:
    """Sums over the log: batches of rows with the exact kernels, and all rows in the model's coordinates."""

    def __init__(self, setting: Setting, centers: Centers, held: IntArray) -> None:
        problem, ball = rows_of(setting.problem).whole(), setting.ball
        if not isinstance(ball, Ball):
            raise InvalidInput("This search is for a Q that is a ball of a kernel space.")
        self.problem, self.centers, self.ball, self.epsilon = problem, centers, ball, setting.epsilon().upper
        self.residual = bellman_residual(problem, function_values(problem, ball.center, STANDARD))
        cloud = problem.initial
        weights = cloud.weights * problem.initial_states.weights[cloud.rows, None]
        origin = function_values(problem, KernelFunction(ball.kernel, problem.layout, cloud.points, weights), STANDARD)
        self.start = problem.gamma * origin.next - origin.logged
        self.start_square = max(0.0, float(problem.initial_states.weights @ origin.initial))
        self._order = np.argsort(problem.next.rows, kind="stable")
        self._ends = np.searchsorted(problem.next.rows[self._order], np.arange(len(problem) + 1))
        self._rows, self._features, self._pairs = held, centers.row_features(held), self._products(held)
        self.held = self._weighted(held, self._features, self._pairs)
        # alpha = unit everywhere gives ω the mean size 1 / (1 - gamma) that balance asks for
        v = centers.phi.sum(axis=0) if centers.explicit else np.ones(centers.rows.size)
        size, terms = float(np.abs(self._features @ v).mean()), problem.terms
        mean = discounted_steps(terms.gamma, terms.horizon).upper
        self.scale = mean * (self.epsilon + float(np.abs(self.residual).mean()))
        self.scale += ball.radius * math.sqrt(self.start_square)
        self.unit = mean / size if size > 0 and self.scale > 0 else 0.0
        self.in_coordinates = held.size < len(problem) and centers.blind <= _BLIND
        self.balance, self.gradient = centers.model.balance @ centers.phi.T, centers.phi @ centers.model.gradient

    @property
    def complete(self) -> bool:
        return self._rows.size == len(self.problem)

    def draw(self, rng: np.random.Generator, size: int) -> RowSample:
        if size >= len(self.problem) and self.complete:
            return self.held
        return self.batch(some_rows(rng, len(self.problem), size))

    def batch(self, rows: IntArray) -> RowSample:
        if self.complete:
            return self._weighted(rows, self._features[rows], self._pairs[np.ix_(rows, rows)])
        return self._weighted(rows, self.centers.row_features(rows), self._products(rows))

    def _weighted(self, rows: IntArray, features: FloatArray, products: FloatArray) -> RowSample:
        """Pairs i != j count (n-1) / (n b (b-1)) and i = j count 1 / (n b): their shares among all n^2 pairs."""
        n, b = len(self.problem), rows.size
        pairs = products * ((n - 1) / (n * b * max(b - 1, 1)))
        np.fill_diagonal(pairs, np.diagonal(products) / (n * b))
        factors = np.where(self.problem.continues[rows], 1.0 + self.problem.gamma, 1.0)
        return RowSample(features, self.residual[rows], self.start[rows], pairs, factors)

    def _products(self, rows: IntArray) -> FloatArray:
        """<psi_i, psi_j> in the space of k̃ for all pairs of these rows."""
        terms = normal_form(self.ball.kernel, self.problem.layout)
        tops = range(0, rows.size, _TILE)
        clouds = [self._cloud(rows[top : top + _TILE]) for top in tops]
        out = np.zeros((rows.size, rows.size))
        for i, (x, v, x_firsts) in zip(tops, clouds, strict=True):
            for j, (y, w, y_firsts) in zip(tops, clouds, strict=True):
                if j > i:
                    break
                total = np.zeros((x.shape[0], y.shape[0]))
                for term in terms:
                    total += term.block(x, y) * ((v @ term.embedding) @ (w @ term.embedding).T)
                tile = np.add.reduceat(np.add.reduceat(total, x_firsts, axis=0), y_firsts, axis=1)
                here, there = slice(i, i + x_firsts.size), slice(j, j + y_firsts.size)
                out[here, there], out[there, here] = tile, tile.T
        return out

    def _cloud(self, rows: IntArray) -> tuple[FloatArray, FloatArray, IntArray]:
        """The points of psi_i with slot weights, row by row (logged point first), and where each row begins."""
        problem = self.problem
        counts = self._ends[rows + 1] - self._ends[rows] + 1
        firsts = np.cumsum(counts) - counts
        points = np.zeros((int(counts.sum()), problem.layout.dimension))
        weights = np.zeros((points.shape[0], problem.layout.slots))
        points[firsts], weights[firsts, problem.slots[rows]] = problem.logged[rows], -1.0
        after = np.setdiff1d(np.arange(points.shape[0]), firsts)
        place = np.arange(points.shape[0]) - np.repeat(firsts + 1 - self._ends[rows], counts)
        picked = self._order[place[after]]
        points[after], weights[after] = problem.next.points[picked], problem.gamma * problem.next.weights[picked]
        return points, weights, firsts
