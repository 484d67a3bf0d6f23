"""Stochastic search over neural weights: omega = sum_j alpha_j k(., x_j), alpha_j = net(x_j; theta), by Adam.

    F+-(theta) = +- g.omega + r |mu_omega| + eps |omega| + beta mean |omega_i| (1 + gamma c_i)      (10) without constants

|omega| is exact: all centers enter every step. g.omega and |mu_omega|^2 are sums over rows and over pairs of rows,
estimated without bias on a random batch of rows. A square root of an estimate is biased, so both norms are replaced
by their majorants (|.|^2 / t + t) / 2 (Theorem 13), t being the norm itself or, when rows are sampled, the root of
a moving average of its estimates. Nothing here is trusted, and nothing is promised about how close F comes to its least
value: F is convex in omega, not in theta, and alpha_j sees x_j alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.bellman.residual import bellman_residual, function_values
from bondic.bounds.dual import Setting
from bondic.errors import InvalidInput, MissingExtra
from bondic.kernels.normal_form import Term, normal_form
from bondic.problem import Problem
from bondic.solvers.model import SearchModel
from bondic.spaces.functions import FeatureFunction, FeatureMap, Function, KernelFunction, term_features

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_HELD_ROWS = 1024  # rows of the fixed evaluation batch; their kernel values (8 MB) are computed once
_TILE = 256  # rows per block of pairs: bounds memory when a row has many next points
_LOOKS = 40  # evaluations of the fixed batch, spread evenly over the steps
_MEMORY = 0.95  # of the moving average of |mu|^2: about 20 batches
_SIGNS = np.array([1.0, -1.0])  # upper end, lower end: trained side by side on the same batches


def _torch() -> Any:
    try:
        import torch
    except ImportError as problem:
        raise MissingExtra("torch", "torch", "The neural search") from problem
    return torch


@dataclass(frozen=True)
class NeuralSearch:
    """Proposes one omega per end, each the best seen on a fixed batch of rows; pass it as `Dual(solver=...)`.

    Logged points, at most `centers` of them drawn at random, carry the coefficients. `batch` rows (all pairs of them)
    make one of `steps` gradient steps; with `batch` >= n and `centers` >= n nothing is random but the first network.
    """

    hidden: tuple[int, ...] = (64, 64)
    steps: int = 2000
    batch: int = 256
    learning_rate: float = 3e-3
    seed: int = 0
    centers: int = 1024

    def __post_init__(self) -> None:
        _torch()
        object.__setattr__(self, "hidden", tuple(int(width) for width in self.hidden))
        for name, smallest in (("steps", 1), ("batch", 2), ("centers", 1)):
            if getattr(self, name) < smallest:
                raise InvalidInput(f"`{name}` of the neural search is {getattr(self, name)}; at least {smallest}.")
        if any(width < 1 for width in self.hidden):
            raise InvalidInput(f"`hidden` lists the widths of the layers, all >= 1; got {self.hidden}.")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise InvalidInput(f"`learning_rate` is positive and finite, not {self.learning_rate}.")

    def __call__(self, model: SearchModel, setting: Setting) -> list[Function]:
        """Weights for the upper and the lower end; an end at which omega = 0 looked best proposes nothing."""
        torch = _torch()
        rng = np.random.default_rng(self.seed)
        problem = setting.problem
        n = len(problem)
        chosen = np.sort(rng.choice(n, size=min(self.centers, n), replace=False))
        space = _Space.on(setting, model.weights.layout, chosen)
        data = _Data(setting, space, _some_rows(rng, n, _HELD_ROWS))
        network = _Network(torch, rng, _inputs(problem, chosen), self.hidden)
        return _Search(torch, data, space, network, self, rng).run()


@dataclass(frozen=True, eq=False)
class _Space:
    """omega from its coefficients: v = reduce(alpha), omega_i = lift(rows) v, |omega|^2 = v^T metric v."""

    setting: Setting
    terms: tuple[Term, ...]
    rows: IntArray  # rows of the log whose points are the centers
    explicit: bool  # the kernel has features: v = sum_j alpha_j phi(x_j), metric = identity

    @staticmethod
    def on(setting: Setting, layout: Any, rows: IntArray) -> _Space:
        kernel = setting.instruments.kernel
        return _Space(setting, normal_form(kernel, layout), rows, FeatureMap.exists(kernel, layout))

    def lift(self, rows: IntArray) -> FloatArray:
        """phi(x_i), or k(x_i, center_j)."""
        if self.explicit:
            return np.hstack([self._features(term, rows) for term in self.terms])
        return self._kernel(rows)

    def _features(self, term: Term, rows: IntArray) -> FloatArray:
        problem = self.setting.problem
        phi, columns = term_features(term, problem.logged[rows]), term.embedding[problem.slots[rows]]
        return (phi[:, :, None] * columns[:, None, :]).reshape(rows.size, -1)

    def _kernel(self, rows: IntArray) -> FloatArray:
        problem = self.setting.problem
        total = np.zeros((rows.size, self.rows.size))
        for term in self.terms:
            here, there = term.embedding[problem.slots[rows]], term.embedding[problem.slots[self.rows]]
            total += term.block(problem.logged[rows], problem.logged[self.rows]) * (here @ there.T)
        return total

    @cached_property
    def at_centers(self) -> FloatArray:
        return self.lift(self.rows)

    def function(self, alpha: FloatArray) -> Function:
        problem, kernel = self.setting.problem, self.setting.instruments.kernel
        if self.explicit:
            return FeatureFunction(kernel, problem.layout, self.at_centers.T @ alpha)
        weights = np.zeros((self.rows.size, problem.layout.slots))
        weights[np.arange(self.rows.size), problem.slots[self.rows]] = alpha
        return KernelFunction(kernel, problem.layout, problem.logged[self.rows], weights)


@dataclass(frozen=True, eq=False)
class _Batch:
    """What one batch of b rows says about F: arrays (b, ...)."""

    lift: FloatArray
    residual: FloatArray  # of the center of Q
    start: FloatArray  # <mu_0, psi_i>,  psi_i = gamma k~(x'_i) - k~(x_i)
    pairs: FloatArray  # <psi_i, psi_j> with the weight that makes the sum unbiased for (1/n^2) sum over all pairs
    reach: FloatArray  # 1 + gamma c_i


class _Data:
    """Batches of rows; the evaluation batch is held, and serves all others when it is the whole log."""

    def __init__(self, setting: Setting, space: _Space, held: IntArray) -> None:
        problem, ball = setting.problem, setting.ball
        self.problem, self.space = problem, space
        self.terms = normal_form(ball.kernel, problem.layout)
        self.residual = bellman_residual(problem, function_values(problem, ball.center))
        cloud = problem.initial
        weights = cloud.weights * problem.initial_states.weights[cloud.rows, None]
        origin = function_values(problem, KernelFunction(ball.kernel, problem.layout, cloud.points, weights))
        self.start = problem.gamma * origin.next - origin.logged
        self.start_square = max(0.0, float(problem.initial_states.weights @ origin.initial))
        self.radius, self.beta = ball.radius, ball.misspecification
        self.epsilon = setting.epsilon().upper
        self.total = setting.facts().reach  # 1 / (1 - gamma), or its finite-horizon form: the mean of a balancing omega
        self._order = np.argsort(problem.next.rows, kind="stable")
        self._ends = np.searchsorted(problem.next.rows[self._order], np.arange(len(problem) + 1))
        self.held_rows = held
        self._lift, self._pairs = space.lift(held), self._gram(held)
        self.held = self._batch(held, self._lift, self._pairs.copy())

    def batch(self, rng: np.random.Generator, size: int) -> _Batch:
        n = len(self.problem)
        if size >= n and self.held_rows.size == n:
            return self.held
        rows = _some_rows(rng, n, size)
        if self.held_rows.size == n:
            return self._batch(rows, self._lift[rows], self._pairs[np.ix_(rows, rows)])
        return self._batch(rows, self.space.lift(rows), self._gram(rows))

    def _batch(self, rows: IntArray, lift: FloatArray, pairs: FloatArray) -> _Batch:
        """Scale pairs i != j by (n-1) / (n b (b-1)) and i = j by 1 / (n b): their shares among all n^2 pairs."""
        n, b = len(self.problem), rows.size
        diagonal = np.diagonal(pairs) / (n * b)
        pairs *= (n - 1) / (n * b * (b - 1)) if b > 1 else 0.0
        np.fill_diagonal(pairs, diagonal)
        reach = 1.0 + self.problem.gamma * self.problem.continues[rows]
        return _Batch(lift, self.residual[rows], self.start[rows], pairs, reach)

    def _gram(self, rows: IntArray) -> FloatArray:
        """<psi_i, psi_j> in the space of k~ for all pairs of these rows."""
        tiles = [self._cloud(rows[top : top + _TILE]) for top in range(0, rows.size, _TILE)]
        out = np.zeros((rows.size, rows.size))
        for i, (x, v, x_firsts) in enumerate(tiles):
            for j, (y, w, y_firsts) in enumerate(tiles[: i + 1]):
                total = sum(t.block(x, y) * ((v @ t.embedding) @ (w @ t.embedding).T) for t in self.terms)
                tile = np.add.reduceat(np.add.reduceat(total, x_firsts, axis=0), y_firsts, axis=1)
                here, there = (
                    slice(k * _TILE, k * _TILE + size) for k, size in ((i, len(x_firsts)), (j, len(y_firsts)))
                )
                out[here, there], out[there, here] = tile, tile.T
        return out

    def _cloud(self, rows: IntArray) -> tuple[FloatArray, FloatArray, IntArray]:
        """The points of psi_i of these rows with slot weights, row by row, and where each row begins."""
        problem = self.problem
        counts = self._ends[rows + 1] - self._ends[rows] + 1  # the logged point itself comes first
        firsts = np.cumsum(counts) - counts
        points = np.empty((int(counts.sum()), problem.layout.dimension))
        weights = np.zeros((points.shape[0], problem.layout.slots))
        points[firsts] = problem.logged[rows]
        weights[firsts, problem.slots[rows]] = -1.0
        after = np.ones(points.shape[0], dtype=bool)
        after[firsts] = False
        offset = np.arange(points.shape[0]) - np.repeat(firsts, counts) - 1
        picked = self._order[(np.repeat(self._ends[rows], counts) + offset)[after]]
        points[after] = problem.next.points[picked]
        weights[after] = problem.gamma * problem.next.weights[picked]
        return points, weights, firsts


def _some_rows(rng: np.random.Generator, n: int, size: int) -> IntArray:
    return np.arange(n) if size >= n else np.sort(rng.choice(n, size=size, replace=False))


def _inputs(problem: Problem, rows: IntArray) -> FloatArray:
    """The centers as the network sees them: standardised coordinates, and the action's slot in one-hot form."""
    points = problem.logged[rows]
    spread = points.std(axis=0)
    scaled = (points - points.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    slots = np.eye(problem.layout.slots)[problem.slots[rows]]
    return np.hstack([scaled, slots]) if problem.layout.slots > 1 else scaled


class _Network:
    """Two multilayer perceptrons (one per end) with SiLU units, evaluated at the centers; drawn from `rng`."""

    def __init__(self, torch: Any, rng: np.random.Generator, inputs: FloatArray, hidden: tuple[int, ...]) -> None:
        self.torch = torch
        self.inputs = torch.from_numpy(inputs).expand(2, -1, -1)
        self.parameters: list[Any] = []
        widths = [inputs.shape[1], *hidden, 1]
        for k, (fan_in, fan_out) in enumerate(zip(widths[:-1], widths[1:], strict=True)):
            last = k == len(widths) - 2
            matrix = rng.standard_normal((2, fan_in, fan_out)) * math.sqrt((0.01 if last else 2.0) / max(fan_in, 1))
            # the same first layer for both ends would do as well; biases spread the kinks over the data
            shift = np.ones((2, 1, 1)) if last else rng.standard_normal((2, 1, fan_out))
            self.parameters += [torch.from_numpy(array).requires_grad_() for array in (matrix, shift)]

    def __call__(self) -> Any:
        """(number of centers, 2)."""
        out = self.inputs
        for k in range(0, len(self.parameters), 2):
            out = out if k == 0 else self.torch.nn.functional.silu(out)
            out = self.torch.baddbmm(self.parameters[k + 1], out, self.parameters[k])
        return out[:, :, 0].T


@dataclass(frozen=True, eq=False)
class _Parts:
    """The pieces of F for both ends, (2,) each; `move` and `square` as in |mu|^2 = |mu_0|^2 + 2 move + square."""

    linear: Any  # g.omega with its sign, and the misspecification's share
    move: Any
    square: Any
    norm_square: Any  # |omega|^2


class _Search:
    """Adam with a cosine schedule, looking at the fixed batch now and then and keeping the best coefficients."""

    def __init__(
        self, torch: Any, data: _Data, space: _Space, network: _Network, options: NeuralSearch, rng: np.random.Generator
    ) -> None:
        self.torch, self.data, self.space, self.network = torch, data, space, network
        self.options, self.rng = options, rng
        self.at_centers, self.signs = torch.from_numpy(space.at_centers), torch.from_numpy(_SIGNS)
        self.best_value = np.full(2, data.radius * math.sqrt(data.start_square))  # omega = 0
        self.best_alpha: list[FloatArray | None] = [None, None]
        self.unit = 1.0

    def run(self) -> list[Function]:
        torch, data = self.torch, self.data
        with torch.no_grad():
            self.unit = self._unit()
            first = self._parts(self.network() * self.unit, data.held)
            average = data.start_square + 2 * first.move + first.square
        optimiser = torch.optim.Adam(self.network.parameters, lr=self.options.learning_rate)
        steps = self.options.steps
        every = max(1, steps // _LOOKS)
        tail, count = 0.0, 0
        for step in range(steps):
            for group in optimiser.param_groups:
                group["lr"] = self.options.learning_rate * 0.5 * (1 + math.cos(math.pi * step / steps))
            alpha = self.network() * self.unit
            tail, count = tail + alpha.detach(), count + 1
            if step % every == every - 1 or step == steps - 1:
                self._look(alpha.detach())
                self._look(tail / count)
                tail, count = 0.0, 0
            batch = data.batch(self.rng, self.options.batch)
            parts = self._parts(alpha, batch)
            estimate = (data.start_square + 2 * parts.move + parts.square).detach()
            average = estimate if batch is data.held else _MEMORY * average + (1 - _MEMORY) * estimate
            loss = self._majorant(parts, average)
            if not bool(torch.isfinite(loss)):
                break  # F is unbounded below: the log contradicts Q, and the best so far will show it
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        found = [alpha for alpha in self.best_alpha if alpha is not None]
        return [self.space.function(alpha) for alpha in found]

    def _unit(self) -> float:
        """Coefficients 1 / unit everywhere would give omega the mean size that balance asks for."""
        ones = self.torch.ones((self.at_centers.shape[0], 1), dtype=self.torch.float64)
        omega = self.torch.from_numpy(self.data.held.lift) @ self._coordinates(ones)
        size = float(omega.abs().mean())
        return self.data.total / size if size > 0 else 1.0

    def _coordinates(self, alpha: Any) -> Any:
        return self.at_centers.T @ alpha if self.space.explicit else alpha

    def _parts(self, alpha: Any, batch: _Batch) -> _Parts:
        torch, b = self.torch, batch.residual.size
        v = self._coordinates(alpha)
        omega = torch.from_numpy(batch.lift) @ v  # (b, 2)
        linear = -self.signs * (torch.from_numpy(batch.residual) @ omega) / b
        if self.data.beta > 0:
            linear = linear + self.data.beta * (torch.from_numpy(batch.reach) @ omega.abs()) / b
        move = torch.from_numpy(batch.start) @ omega / b
        square = (omega * (torch.from_numpy(batch.pairs) @ omega)).sum(dim=0)
        metric = v if self.space.explicit else self.at_centers @ v
        return _Parts(linear, move, square, (v * metric).sum(dim=0))

    def _majorant(self, parts: _Parts, average: Any) -> Any:
        """F of both ends together, with |.| replaced by |.|^2 / (2t): the gradient of the majorant in theta."""
        scale = self.data.radius * math.sqrt(self.data.start_square) + self.data.epsilon * self.data.total + 1e-300
        t = average.clamp(min=1e-12 * self.data.start_square + 1e-300).sqrt()
        s = parts.norm_square.detach().clamp(min=1e-300).sqrt()
        balance = self.data.radius * (2 * parts.move + parts.square) / (2 * t)
        return (parts.linear + balance + self.data.epsilon * parts.norm_square / (2 * s)).sum() / scale

    def _look(self, alpha: Any) -> None:
        """Value on the fixed batch at the best multiple of omega; keep it if it is the least so far."""
        with self.torch.no_grad():
            parts = self._parts(alpha, self.data.held)
        for end in range(2):
            slope = float(parts.linear[end]) + self.data.epsilon * math.sqrt(max(0.0, float(parts.norm_square[end])))
            move, square = float(parts.move[end]), float(parts.square[end])
            factor, value = _best_multiple(slope, self.data.radius, self.data.start_square, move, square)
            if value < self.best_value[end] and factor > 0:
                self.best_value[end] = value
                self.best_alpha[end] = factor * alpha[:, end].numpy()


def _best_multiple(slope: float, radius: float, start: float, move: float, square: float) -> tuple[float, float]:
    """argmin and min over c >= 0 of  slope c + radius sqrt(start + 2 move c + square c^2)."""

    def value(c: float) -> float:
        return slope * c + radius * math.sqrt(max(0.0, start + 2 * move * c + square * c * c))

    candidates = [0.0, 1.0]
    if square > 0 and radius > 0:
        lean = -slope / (radius * math.sqrt(square))  # cosine at which the two slopes cancel
        if abs(lean) < 1:
            apart = math.sqrt(max(0.0, start - move * move / square))
            crossing = lean * apart / math.sqrt(1 - lean * lean)
            candidates.append(max(0.0, (crossing * math.sqrt(square) - move) / square))
    best = min(candidates, key=value)
    return best, value(best)


__all__ = ["NeuralSearch"]
