"""Centers of Q, fitted on the first 70 % of a pilot and judged on the rest: rho = the rms of r + gamma q̂(x') - q̂(x).

constant     the level that solves the mean Bellman equation
look-ahead   one step in a simulator of the pilot, then a network of the state, fitted to returns that were simulated
             under the policy

A network that is fitted to the Bellman equation itself is no center: q* was farther from it than its residuals told on 2 of 22
logs. A center needs no truth in it: a bad one costs radius, and so length. All draws come from a fixed seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.classes.value_class import constant_function
from bondic.errors import PolicyError
from bondic.functions.functions import Function
from bondic.functions.lookahead import LookAhead
from bondic.identity.residual import bellman_residual, values_at_rows
from bondic.rows import Batch, Rows
from bondic.search.sequential.simulator import Simulator, fit_simulator, moves_of
from bondic.terms import ValueRange, range_at_all_times
from bondic.tuning.training import Trainer
from bondic.tuning.visits import any_action, can_be_asked, policy_action

FloatArray = npt.NDArray[np.float64]
Report = Callable[[float], None]

FIRST = 0.7
"""Share of the pilot that fits, where the rest judges."""
ENOUGH = 200
"""Rows below which nothing but a constant is fitted."""
_RETURN_STEPS, _RETURN_BATCH = 7000, 512
_FULL, _LEAST, _MOST = 300, 0.5, 3.0
"""Rows at which that many steps are taken; the root of the number of rows counts, within these shares."""
_STARTS, _ASKED = 6000, 1_500_000
"""Most states that simulations begin at, and most states that the policy is asked at, about."""
_LEFT = 0.01
"""Share of the value that lies beyond the end of a simulation."""
_TARGETS = (0, 1, 2, 4, 8, 16, 32)
"""Steps of a simulation whose returns are targets."""
_TAIL = 10


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
    note = ""
    simulator = fit_simulator(moves_of(pilot).before(len(fit)), pilot.layout.slots)
    try:
        function = look_ahead(pilot, fit, simulator, limits, seed, tell)
    except PolicyError as problem:
        note = f"no look-ahead: the policy cannot be asked at simulated states ({problem})"
    else:
        if function is not None:
            every.append(judged("look-ahead", function))
    return FittedCenters(tuple(every), simulator, note)


def _silent(share: float) -> None:
    """Nobody watches."""
    del share


def split_row(pilot: Rows) -> int:
    """The row of the log where the judging rows of a pilot begin."""
    rows = pilot.whole().log_rows
    return int(rows[min(int(FIRST * len(rows)), len(rows) - 1)])


def _share(rows: Batch) -> float:
    return min(_MOST, max(_LEAST, math.sqrt(len(rows) / _FULL)))


def horizon_of(gamma: float) -> int:
    """Steps after which 1 % of the discounted weight is left; at most 1000."""
    return min(max(math.ceil(math.log(_LEFT) / math.log(gamma)), 2), 1000) if 0 < gamma < 1 else 2


def level(rows: Batch, limits: ValueRange) -> float:
    """sum r / sum (1 - gamma alive): the constant whose residuals have mean 0, within the range."""
    left = float(np.sum(1 - rows.gamma * rows.continues))
    found = float(rows.rewards.sum()) / left if left > 0 else 0.5 * (limits.low + limits.high)
    return min(max(found, limits.low), limits.high)


def look_ahead(
    pilot: Rows, rows: Batch, simulator: Simulator, limits: ValueRange, seed: int, tell: Report
) -> LookAhead | None:
    """A network of the state fitted to simulated returns, one simulated step ahead; None if the policy cannot be asked."""
    if not can_be_asked(pilot.policy):
        return None
    rng = np.random.default_rng([seed, 3])
    states, returns = [
        np.concatenate(parts) for parts in zip(*_returns(pilot, rows, simulator, limits, rng), strict=True)
    ]
    tell(0.5)
    trainer = Trainer(rows.logged[:, : simulator.steps.state_dim], 1, 0.5 * (limits.low + limits.high), limits, seed)
    inputs, wanted = trainer.inputs(states), trainer.units(returns)
    first = np.zeros(len(wanted), dtype=np.int64)
    for part in range(10):
        rates = tuple(3e-3 * (1e-4 / 3e-3) ** (k / 10) for k in (part, part + 1))
        steps = int(_share(rows) * _RETURN_STEPS / 10)
        trainer.regress(inputs, first, wanted, steps, (rates[0], rates[1]), rng, batch=_RETURN_BATCH, decay=1e-6)
        tell(0.5 + 0.05 * (part + 1))
    return LookAhead(pilot.layout, simulator.steps, simulator.tree, trainer.network(), pilot.gamma)


def _returns(
    pilot: Rows, rows: Batch, simulator: Simulator, limits: ValueRange, rng: np.random.Generator
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """States of simulations with the discounted returns from there on."""
    gamma, d = pilot.gamma, simulator.steps.state_dim
    length = horizon_of(gamma)
    repeats = 2 if length <= 200 else 1
    most = int(min(_STARTS, max(200, _ASKED / (2 * length * repeats))))
    known = np.concatenate([rows.logged[:, :d], rows.next.points[:: rows.next.draws, :d]])
    known = known[rng.permutation(len(known))[:most]]
    # one step with an action of any kind: where the log's own actions do not lead
    aside, alive, _ = simulator.step(*any_action(pilot, rows, known, rng), rng)
    begin = np.concatenate([known, aside[alive > 0.5]])
    for _ in range(repeats):
        yield from _simulated(pilot, simulator, begin, length, limits, rng)


def _simulated(
    pilot: Rows, simulator: Simulator, begin: FloatArray, length: int, limits: ValueRange, rng: np.random.Generator
) -> Iterator[tuple[FloatArray, FloatArray]]:
    states, kept, rewards, going = begin, [], [], []
    for step in range(length):
        if step in _TARGETS:
            kept.append(states)
        states, alive, reward = simulator.step(*policy_action(pilot, states, rng), rng)
        rewards.append(reward)
        going.append(alive)
    later = np.mean(rewards[-_TAIL:], axis=0) / max(1 - pilot.gamma, 1e-12)
    value = np.clip(later, limits.low, limits.high)
    returns = []
    for reward, alive in zip(reversed(rewards), reversed(going), strict=True):
        value = reward + pilot.gamma * alive * value
        returns.append(value)
    returns.reverse()
    live = np.ones(len(begin), dtype=bool)
    for step in range(length // 2 + 1):
        if step in _TARGETS:
            yield kept[_TARGETS.index(step)][live], np.clip(returns[step][live], limits.low, limits.high)
        live &= going[step] > 0.5
