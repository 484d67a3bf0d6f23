"""Centers of Q, fitted on the first 70 % of a pilot and judged on the rest: rho = the rms of r + gamma q̂(x') - q̂(x).

constant     the level that solves the mean Bellman equation: only to compare with, no ball is made around it
look-ahead   one step in a simulator of the pilot, or several with a rule that does mostly what the policy does, then a
             network of the state, fitted to returns that were simulated under the policy

A network that is fitted to the Bellman equation itself is no center: q* was farther from it than its residuals told on 2 of 22
logs. A center needs no truth in it: a bad one costs radius, and so length. All draws come from a fixed seed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bondic.classes.value_class import constant_function
from bondic.errors import PolicyError
from bondic.functions.functions import Function
from bondic.identity.residual import bellman_residual, values_at_rows
from bondic.rows import Batch, Rows
from bondic.search.sequential.simulator import Simulator, fit_simulator, moves_of
from bondic.terms import ValueRange, range_at_all_times
from bondic.tuning.look_ahead import Report, look_ahead

FIRST = 0.7
"""Share of the pilot that fits, where the rest judges."""
ENOUGH = 200
"""Rows below which nothing but a constant is fitted."""


@dataclass(frozen=True, eq=False)
class Center:
    """A candidate with its rms residual on rows that it was not fitted to."""

    name: str
    function: Function | None
    rho: float


@dataclass(frozen=True, eq=False)
class FittedCenters:
    """All candidates, the simulator where there is one, and what was left out."""

    every: tuple[Center, ...]
    simulator: Simulator | None
    note: str = ""

    def text(self) -> str:
        """All of them with their residuals."""
        found = ", ".join(f"{center.name} {center.rho:.3g}" for center in self.every)
        return f"rms residuals on held-out pilot rows: {found}" + (f"; {self.note}" if self.note else "")


def fit_centers(pilot: Rows, seed: int = 0, report: Report | None = None) -> FittedCenters:
    """The candidates that a pilot of this size allows."""
    limits, cut = range_at_all_times(pilot.terms), split_row(pilot)
    fit, judge = pilot.select(pilot.rows.start, cut).whole(), pilot.select(cut).whole()
    tell: Report = report or _silent

    def judged(name: str, function: Function | None) -> Center:
        residual = bellman_residual(judge, values_at_rows(judge, function))
        return Center(name, function, float(np.sqrt(np.mean(residual**2))))

    every = [judged("constant", constant_function(level(fit, limits), pilot.layout))]
    if len(pilot) < ENOUGH or pilot.layout.has_time or not limits.width:
        return FittedCenters(tuple(every), None)
    simulator = fit_simulator(moves_of(pilot).before(len(fit)), pilot.layout.slots)
    note = ""
    try:
        found = look_ahead(pilot, fit, simulator, limits, seed, tell)
    except PolicyError as problem:
        note = f"no look-ahead: the policy cannot be asked at simulated states ({problem})"
    else:
        names = (f"look-ahead of {one.ahead} steps" if one.ahead > 1 else "look-ahead" for one in found)
        every.extend(judged(name, one) for name, one in zip(names, found, strict=True))
    return FittedCenters(tuple(every), simulator, note)


def _silent(share: float) -> None:
    """Nobody watches."""
    del share


def split_row(pilot: Rows) -> int:
    """The row of the log where the judging rows of a pilot begin."""
    rows = pilot.whole().log_rows
    return int(rows[min(int(FIRST * len(rows)), len(rows) - 1)])


def level(rows: Batch, limits: ValueRange) -> float:
    """sum r / sum (1 - gamma alive): the constant whose residuals have mean 0, within the range."""
    left = float(np.sum(1 - rows.gamma * rows.continues))
    found = float(rows.rewards.sum()) / left if left > 0 else 0.5 * (limits.low + limits.high)
    return min(max(found, limits.low), limits.high)
