"""Stochastic search over neural weights: ω = sum_j alpha_j k(., x_j), alpha_j = net(x_j; theta), by Adam.

    F(theta) = +-g.ω + r |μ_ω| + eps |ω| + beta mean_i |ω_i| (1 + gamma c_i)       (10) up to constants

All centers x_j enter every step, so |ω| is exact. g.ω and |μ_ω|^2 are sums over rows and over pairs of
rows, estimated without bias on a random batch of rows. The root of an estimate is biased, so the norms are replaced
by their majorants (|.|^2 / t + t) / 2 of Theorem 13; t is the norm itself or, when rows are sampled, the root of a
moving average of the estimates. F is convex in ω, hence in alpha and in the last layer, but not in theta. Nothing
is promised about how close it comes to its least value, and nothing here is trusted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.columns import Batch as RowBatch
from bondic.core.dual.bound import Setting
from bondic.core.errors import InvalidInput
from bondic.core.functions import Function
from bondic.errors import MissingExtra
from bondic.search import spectral
from bondic.search.model import SearchModel
from bondic_lab.search.row_batches import Centers, RowSample, RowSums, some_rows

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_HELD = 1024  # rows whose kernel values (8 MB) are computed once; a log of so few rows is looked at as a whole
_COMPARISONS = 20  # how often candidates are compared
_MEMORY = 0.95  # of the moving average of |μ|^2: about 20 batches
_SIGNS = np.array([1.0, -1.0])  # upper end, lower end: trained side by side on the same batches


def _torch() -> Any:
    try:
        import torch
    except ImportError as problem:
        raise MissingExtra("torch", "torch", "The neural search") from problem
    return torch


@dataclass(frozen=True)
class NeuralSearch:
    """Proposes one ω per end, the best it has seen there; made for `Dual(solver=NeuralSearch())`.

    Results depend on `seed` only (and, in the last digits, on the machine's libraries).

    Parameters
    ----------
    hidden : tuple of int, default (64, 64)
        Widths of the layers.
    steps : int, default 1000
        Gradient steps: more may find a shorter interval.
    batch : int, default 256
        Rows per step; all pairs of them are formed.
    learning_rate : float, default 0.01
        Of Adam at the first step; it falls to 0 by the last.
    seed : int, default 0
        Draws the first weights, the centers and the batches.
    centers : int, default 1024
        Most logged points that carry coefficients, drawn at random.
    refit : bool, default True
        Now and then also fit the last layer by the spectral method; without it the search is Adam alone.
    """

    hidden: tuple[int, ...] = (64, 64)
    steps: int = 1000
    batch: int = 256
    learning_rate: float = 1e-2
    seed: int = 0
    centers: int = 1024
    refit: bool = True

    def __post_init__(self) -> None:
        _torch()
        object.__setattr__(self, "hidden", tuple(int(width) for width in self.hidden))
        for name, least in (("steps", 1), ("batch", 2), ("centers", 1)):
            if getattr(self, name) < least:
                raise InvalidInput(
                    f"`{name}` of the neural search is {getattr(self, name)}; at least {least} is needed."
                )
        if any(width < 1 for width in self.hidden):
            raise InvalidInput(f"`hidden` lists the widths of the layers, all of them >= 1; got {self.hidden}.")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise InvalidInput(f"`learning_rate` must be positive and finite, not {self.learning_rate}.")

    def __call__(self, model: SearchModel, setting: Setting) -> list[Function]:
        """Weights for the upper and for the lower end; an end at which ω = 0 looks best proposes nothing."""
        rng = np.random.default_rng(self.seed)
        centers = Centers.of(model, setting, some_rows(rng, len(setting.problem), self.centers))
        data = RowSums(setting, centers, some_rows(rng, len(setting.problem), _HELD))
        return _Search(self, data, rng).run() if data.unit > 0 else []


class _Network:
    """Two multilayer perceptrons, one per end, with SiLU units, at the centers. Parameters are drawn from `rng`."""

    def __init__(self, torch: Any, rng: np.random.Generator, inputs: FloatArray, hidden: tuple[int, ...]) -> None:
        self.torch, self.inputs = torch, torch.from_numpy(inputs).expand(2, -1, -1)
        self.parameters: list[Any] = []
        widths = [inputs.shape[1], *hidden]
        for above, below in pairwise(widths):
            self._layer(
                rng.standard_normal((2, above, below)) * math.sqrt(2 / above), rng.standard_normal((2, 1, below))
            )
        # the outputs begin close to 1: ω = 0 has no gradient
        self._layer(rng.standard_normal((2, widths[-1], 1)) * math.sqrt(0.01 / widths[-1]), np.ones((2, 1, 1)))

    def _layer(self, matrix: FloatArray, shift: FloatArray) -> None:
        self.parameters += [self.torch.from_numpy(array).requires_grad_() for array in (matrix, shift)]

    def trunk(self) -> Any:
        """What the last layer combines: (2, number of centers, width)."""
        out = self.inputs
        for matrix, shift in zip(self.parameters[:-2:2], self.parameters[1:-2:2], strict=True):
            out = self.torch.nn.functional.silu(self.torch.baddbmm(shift, out, matrix))
        return out

    def __call__(self) -> Any:
        """(number of centers, 2)."""
        return self.torch.baddbmm(self.parameters[-1], self.trunk(), self.parameters[-2])[:, :, 0].T


def _inputs(problem: RowBatch, rows: IntArray) -> FloatArray:
    """The centers as the network sees them: standardized coordinates, and a discrete action in one-hot form."""
    points = problem.logged[rows]
    spread = points.std(axis=0)
    scaled = (points - points.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return np.hstack([scaled, np.eye(problem.layout.slots)[problem.slots[rows]]])


@dataclass(frozen=True, eq=False)
class _Parts:
    """The pieces of F at two ω, (2,) each: |μ|^2 = start + 2 move + square."""

    start: float
    linear: Any  # +-g.ω
    allowance: Any  # the share of the misspecification
    move: Any
    square: Any
    norm_square: Any


class _Search:
    """Adam with a cosine schedule; now and then candidates are compared and the best is kept."""

    def __init__(self, options: NeuralSearch, data: RowSums, rng: np.random.Generator) -> None:
        self.torch, self.options, self.data, self.rng = _torch(), options, data, rng
        self.network = _Network(self.torch, rng, _inputs(data.problem, data.centers.rows), options.hidden)
        self.table, self.signs = self.torch.from_numpy(data.centers.table), self.torch.from_numpy(_SIGNS)
        self.best_value = [data.ball.radius * math.sqrt(self._start)] * 2  # ω = 0
        self.best_alpha: list[FloatArray | None] = [None, None]

    @property
    def _start(self) -> float:
        data = self.data
        return float(data.centers.model.start @ data.centers.model.start) if data.in_coordinates else data.start_square

    def run(self) -> list[Function]:
        optimizer = self.torch.optim.Adam(self.network.parameters, lr=self.options.learning_rate)
        steps, every = self.options.steps, max(1, self.options.steps // _COMPARISONS)
        average, tail, count = None, np.zeros((self.data.centers.rows.size, 2)), 0
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = self.options.learning_rate * 0.5 * (1 + math.cos(math.pi * step / steps))
            alpha = self.network() * self.data.unit
            now = alpha.detach().numpy()
            tail, count = tail + now, count + 1
            batch = self.data.draw(self.rng, self.options.batch)
            parts = self.parts(alpha, batch)
            average = self._average(average, parts, batch, now)
            loss = self.majorant(parts, average)
            if not bool(self.torch.isfinite(loss)):
                break  # F is unbounded below, that is, the log contradicts Q: the best so far says so
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % every == every - 1 or step == steps - 1:
                self._keep_best(now)
                self._keep_best(tail / count)  # F is convex in alpha: the mean evens out the sampling
                self._keep_best(self._refitted() if self.options.refit else None)
                tail, count = np.zeros_like(tail), 0
        return [self.data.centers.function(alpha) for alpha in self.best_alpha if alpha is not None]

    def _average(self, average: Any, parts: _Parts, batch: RowSample, first: FloatArray) -> Any:
        """|μ|^2 for the majorant: exact with all rows, otherwise remembered over batches from the held one on."""
        estimate = (parts.start + 2 * parts.move + parts.square).detach()
        if batch is self.data.held:
            return estimate
        if average is None:
            held = self.parts(self.torch.from_numpy(first), self.data.held)
            average = held.start + 2 * held.move + held.square
        return _MEMORY * average + (1 - _MEMORY) * estimate

    def parts(self, alpha: Any, batch: RowSample) -> _Parts:
        """F's pieces for alpha (centers, 2), sums over rows estimated on the batch."""
        tensor, b = self.torch.from_numpy, batch.residual.size
        v = self.table.T @ alpha if self.data.centers.explicit else alpha
        omega = tensor(batch.features) @ v  # (b, 2)
        linear = -self.signs * (tensor(batch.residual) @ omega) / b
        allowance = self.data.ball.misspecification * (tensor(batch.factors) @ omega.abs()) / b
        move = tensor(batch.start) @ omega / b
        square = (omega * (tensor(batch.pairs) @ omega)).sum(dim=0)
        dual = v if self.data.centers.explicit else self.table @ v
        return _Parts(self.data.start_square, linear, allowance, move, square, (v * dual).sum(dim=0))

    def majorant(self, parts: _Parts, average: Any) -> Any:
        """Both ends together, constants left out: at t^2 = |μ|^2 its gradient is that of F."""
        t = average.clamp(min=1e-12 * self.data.start_square + 1e-300).sqrt()
        s = parts.norm_square.detach().clamp(min=1e-300).sqrt()
        bias = self.data.ball.radius * (2 * parts.move + parts.square) / (2 * t)
        noise = self.data.epsilon * parts.norm_square / (2 * s)
        return (parts.linear + parts.allowance + bias + noise).sum() / self.data.scale

    def _refitted(self) -> FloatArray | None:
        """The last layer by the spectral method: (11) in its coefficients, over all rows. None if training blew up."""
        with self.torch.no_grad():
            trunk = self.network.trunk().numpy()
        if not np.all(np.isfinite(trunk)):
            return None
        out = []
        for sign, units in zip(_SIGNS, trunk, strict=True):
            factors = np.hstack([units, np.ones((units.shape[0], 1))])
            values, vectors = np.linalg.eigh(self.data.centers.gram(factors))
            keep = values > 1e-12 * max(float(values[-1]), 1e-300)
            factors = factors @ (vectors[:, keep] / np.sqrt(values[keep]))  # now |ω| = |coefficients|
            reduced = replace(
                self.data.centers.model, balance=self.data.balance @ factors, gradient=self.data.gradient @ factors
            )
            found = spectral.propose(
                spectral.Spectrum.of(reduced), sign=float(sign), radius=self.data.ball.radius, kappa=self.data.epsilon
            )
            out.append(factors @ found.weights)
        return np.stack(out, axis=1)

    def _keep_best(self, alpha: FloatArray | None) -> None:
        """F at the best multiple of ω, on as much of the log as can be seen well; keep it if it is the least."""
        if alpha is None:
            return
        data = self.data
        with self.torch.no_grad():
            parts = self.parts(self.torch.from_numpy(alpha), data.held)
        linear, move, square = (np.asarray(values) for values in (parts.linear, parts.move, parts.square))
        if data.in_coordinates:
            with np.errstate(over="ignore"):
                image = data.balance @ alpha
                linear = _SIGNS * (data.gradient @ alpha)
                move, square = data.centers.model.start @ image, (image**2).sum(axis=0)
        noise = data.epsilon * np.sqrt(np.maximum(np.asarray(parts.norm_square), 0.0))
        slopes = linear + np.asarray(parts.allowance) + noise
        for end in range(2):
            factor, value = best_multiple(
                float(slopes[end]), data.ball.radius, self._start, float(move[end]), float(square[end])
            )
            if value < self.best_value[end]:
                self.best_value[end], self.best_alpha[end] = value, factor * alpha[:, end]


def best_multiple(slope: float, radius: float, start: float, move: float, square: float) -> tuple[float, float]:
    """argmin and min over c >= 0 of  slope c + radius sqrt(start + 2 move c + square c^2), c = 0 and c = 1 at hand."""

    def value(c: float) -> float:
        return slope * c + radius * math.sqrt(max(0.0, start + 2 * move * c + square * c * c))

    choices = [0.0, 1.0]
    steepest = radius * math.sqrt(max(square, 0.0))
    lean = -slope / steepest if steepest > 0 else math.inf
    if abs(lean) < 1:  # the two slopes cancel at a finite c
        apart = math.sqrt(max(0.0, start - move * move / square))
        choices.append(max(0.0, (lean / math.sqrt(1 - lean * lean) * apart * math.sqrt(square) - move) / square))
    best = min(choices, key=value)
    return best, value(best)


__all__ = ["NeuralSearch"]
