"""Where ω comes from: one interface for every kind of Q. What it returns is only proposed, never believed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from bondic.core.dual.bound import Setting
from bondic.core.errors import InvalidInput
from bondic.core.functions import Function
from bondic.rows.rows import rows_of
from bondic.search import spectral
from bondic.search.actions import Cap, sharing
from bondic.search.basis import capped_basis
from bondic.search.model import SearchModel, second_moments, whiten
from bondic.search.sample import sampled_model

FloatArray = npt.NDArray[np.float64]

_LANDMARK_ROWS = 50_000
"""Landmarks are looked for among this many rows, spread over the log."""
_CAP = Cap(2400, 20)
_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class Found:
    """A proposed ω (None: 0 is best), how the search ended, and a value that no ω in its space can beat."""

    omega: Function | None
    note: str
    primal: float  # of F+ - E[center], or E[center] - F-; -inf when unknown


class Search(Protocol):
    """Proposals for the ends and for the rejection test of one setting."""

    @property
    def offset(self) -> float:
        """E_{d_{pi,0}}[center]."""

    def propose(self, *, sign: float, radius: float, kappa: float) -> Found: ...

    def witnesses(self, *, radius: float, epsilon: float) -> tuple[Function | None, ...]: ...

    def estimate(self) -> float:
        """E[q] of a fit of the Bellman loss: a guess."""


@dataclass(frozen=True, eq=False)
class KernelSearch:
    """The two-cone problem (11) in finite coordinates; where ω pays sum_j c_j |w_j|, a few of them with other scales."""

    model: SearchModel
    costs: FloatArray | None = None  # c_j at the noise level kappa = `level`
    level: float = 1.0
    sample: str = ""  # in words, where the matrices are those of some rows

    @cached_property
    def spectrum(self) -> spectral.Spectrum:
        return spectral.Spectrum.of(self.model)

    @property
    def offset(self) -> float:
        return self.model.offset

    def propose(self, *, sign: float, radius: float, kappa: float) -> Found:
        found = spectral.propose(self.spectrum, sign=sign, radius=radius, kappa=kappa)
        weights = found.weights if self.costs is None else self._sparse(found.weights, sign, radius, kappa)
        omega = self.model.function(weights) if np.any(weights) else None
        shared = sharing(self.model.weights.layout.slots, _CAP)
        note = f"{found.status} after {found.iterations} steps, {found.weights.size} coordinates"
        note += "".join(f"; {words}" for words in (shared, self.sample) if words)
        return Found(omega, note, -math.inf if self.sample else found.primal)

    def _sparse(self, w: FloatArray, sign: float, radius: float, kappa: float) -> FloatArray:
        """Go on from w: sum_j c_j |w_j| is the least of sqrt( sum_j c_j^2 w_j^2 / s_j ) over s >= 0 that add up to 1.

        The best s is c_j |w_j| / sum; with s fixed it is (11) in scaled coordinates. Each round can only gain.
        """
        assert self.costs is not None
        costs, model = self.costs * (kappa / self.level), self.model
        shares = np.full(costs.size, 1.0 / costs.size)
        best, least = np.zeros(costs.size), radius * float(np.linalg.norm(model.start))
        for _ in range(_ROUNDS):
            value = sign * float(model.gradient @ w) + radius * float(np.linalg.norm(model.start + model.balance @ w))
            value += float(costs @ np.abs(w))
            if value < least:
                best, least = w, value
            if np.any(w):
                shares = costs * np.abs(w) / float(costs @ np.abs(w))
            scales = np.sqrt(shares + 1e-9) / costs
            scaled = replace(model, balance=model.balance * scales, gradient=model.gradient * scales)
            w = scales * spectral.propose(spectral.Spectrum.of(scaled), sign=sign, radius=radius, kappa=1.0).weights
        return best

    def witnesses(self, *, radius: float, epsilon: float) -> tuple[Function | None, ...]:
        """Directions that may prove a rejection or a minimal radius; none when q = center already fits."""
        out: list[Function | None] = []
        if spectral.minimal_radius(self.spectrum, epsilon) > 0:
            direction = spectral.witness(self.spectrum, kappa=epsilon)
            out.append(None if direction is None else self.model.function(direction))
            if self.floor(radius) > 1e-9 * epsilon:
                out.append(self.floor_witness(radius))
        return tuple(out)

    def floor(self, radius: float) -> float:
        """min L_W(q) over Q, in coordinates."""
        return spectral.loss_floor(self.spectrum, radius)[0]

    def floor_witness(self, radius: float) -> Function | None:
        direction = spectral.witness(self.spectrum, radius=radius)
        return None if direction is None else self.model.function(direction)

    def estimate(self) -> float:
        s = self.spectrum
        ridge = 1e-6 * float(s.sigma.max(initial=0.0)) ** 2 + 1e-300
        theta = -s.sigma * s.gradient / (s.sigma**2 + ridge)
        return self.offset + float(s.start @ theta)


def kernel_search(setting: Setting, rank: int, report: Callable[[float], None] | None = None) -> KernelSearch:
    """The matrices of (11) for a ball."""
    problem, ball = rows_of(setting.problem), setting.ball
    if ball.kernel is None:
        raise InvalidInput("This search is for a Q that is a ball of a kernel space.")
    everything = problem.some_points(_LANDMARK_ROWS)
    values = capped_basis(ball.kernel, problem, everything, rank=rank, cap=_CAP)
    # a coarser basis than for values: its coordinates become weights of ω, whose size is paid for in rounding
    logged = next(problem.batches()).logged
    weights = capped_basis(setting.instruments.kernel, problem, logged, rank=rank, cap=_CAP, tolerance=1e-9)
    level = setting.epsilon().upper
    looked = {"radius": ball.radius, "kappa": level}
    sampled = sampled_model(problem, weights, values, ball.center, progress=report, **looked)
    model, facts = sampled.model, setting.facts
    penalty = setting.gauge.penalty(facts)
    if penalty is not None:
        moments = second_moments(sampled.batches(), weights) * (len(problem) / sampled.rows)
        model = whiten(model, moments, *penalty)
    costs = setting.gauge.costs(facts, setting.noise_probability)
    return KernelSearch(model, costs, level, sampled.words(len(problem)))


def gap_of(attained: float, primal: float) -> float:
    """How far an end may be from the best ω of the searched space."""
    return max(0.0, attained - primal) if np.isfinite(primal) else math.inf
