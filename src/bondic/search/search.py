"""Where omegas come from: one interface for every kind of Q. What it returns is only proposed, never believed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from bondic.bounds.dual import Setting
from bondic.classes.ball import Ball
from bondic.errors import InvalidInput
from bondic.functions.functions import Function
from bondic.search import spectral
from bondic.search.basis import make_basis
from bondic.search.model import SearchModel, build_model

_LANDMARK_ROWS = 50_000
"""Landmarks are looked for among this many rows, spread over the log."""
_COORDINATES = 2400


@dataclass(frozen=True, eq=False)
class Found:
    """A proposed omega (None: 0 is best), how the search ended, and a value that no omega in its space can beat."""

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
    """The two-cone problem (11) in finite coordinates."""

    model: SearchModel

    @cached_property
    def spectrum(self) -> spectral.Spectrum:
        return spectral.Spectrum.of(self.model)

    @property
    def offset(self) -> float:
        return self.model.offset

    def propose(self, *, sign: float, radius: float, kappa: float) -> Found:
        found = spectral.propose(self.spectrum, sign=sign, radius=radius, kappa=kappa)
        omega = self.model.function(found.weights) if np.any(found.weights) else None
        note = f"{found.status} after {found.iterations} steps, {found.weights.size} coordinates"
        return Found(omega, note, found.primal)

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
    problem, ball, slots = setting.problem, setting.ball, setting.problem.layout.slots
    if not isinstance(ball, Ball):
        raise InvalidInput("This search is for a Q that is a ball of a kernel space.")
    everything = problem.some_points(_LANDMARK_ROWS)
    # with many actions each landmark stands for many coordinates
    values = make_basis(ball.kernel, problem.layout, everything, rank=max(20, min(rank, _COORDINATES // slots)))
    # a coarser basis than for values: its coordinates become weights of omega, whose size is paid for in rounding
    logged = next(problem.batches()).logged
    weights = make_basis(setting.instruments.kernel, problem.layout, logged, rank=rank, tolerance=1e-9)
    return KernelSearch(build_model(problem, weights, values, ball.center, progress=report))


def gap_of(attained: float, primal: float) -> float:
    """How far an end may be from the best omega of the searched space."""
    return max(0.0, attained - primal) if np.isfinite(primal) else math.inf
