"""Look-aheads as centers of Q: one step in a simulator of the pilot, or several, then a network V of the state.

V is fitted to returns that were simulated under the policy: first to long ones from states of the log, then, in rounds, to
short ones with V itself at their end. Values have cliffs, beside which something falls or does not, and a log has few states
there: V then follows the states that it was fitted to, and not those between them. So most states that a round begins at are
drawn near those where V was wrong most, and the others a few steps of any kind away from the log.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from bondic.functions.lookahead import LookAhead
from bondic.rows import Batch, Rows
from bondic.search.sequential.simulator import Simulator
from bondic.terms import ValueRange
from bondic.tuning.rollouts import as_before, horizon_of, simulated_returns, strayed
from bondic.tuning.rules import fit_rule
from bondic.tuning.training import Trainer
from bondic.tuning.visits import any_action, can_be_asked

FloatArray = npt.NDArray[np.float64]
Report = Callable[[float], None]

FAR = 8
"""Steps of the center that looks farther: beside a cliff, V is asked where it is decided on which side one is."""
_STEPS, _BATCH = 7000, 512
_FULL, _LEAST, _MOST = 300, 0.5, 3.0
"""Rows at which that many steps are taken; the root of the number of rows counts, within these shares."""
_STARTS, _ASKED = 6000, 1_500_000
"""Most states that long simulations begin at, and most states that the policy is asked at for them, about."""
_TARGETS = (0, 1, 2, 4, 8, 16, 32)
"""Steps of a long simulation whose returns are targets."""
_FIRST = 0.2
"""Share of the steps for long simulations."""
_ROUNDS, _AGAIN, _ASKED_AGAIN = 5, 20_000, 4_000_000
"""How often simulations begin again, at most at so many states, and states that the policy is asked at for all of them."""
_SHORT = 5
"""Simulations of later rounds are shorter by this factor."""
_NEAR, _JITTER = 0.7, 0.05
"""Share of states near those where V was wrong, and how near: standard deviations of every column."""
_FAST, _SLOW, _SLOWEST = 3e-3, 3e-4, 1e-4
"""Rates of Adam: every fit goes from the first to the second, the last one to the third."""


def look_ahead(
    pilot: Rows, rows: Batch, simulator: Simulator, limits: ValueRange, seed: int, tell: Report
) -> list[LookAhead]:
    """Centers fitted to these rows of the pilot, with one step and with several; none if the policy cannot be asked."""
    if not can_be_asked(pilot.policy):
        return []
    rng = np.random.default_rng([seed, 3])
    d = simulator.steps.state_dim
    known = np.concatenate([rows.logged[:, :d], rows.next.points[:: rows.next.draws, :d]])
    trainer = Trainer(rows.logged[:, :d], 1, 0.5 * (limits.low + limits.high), limits, seed)
    steps = min(_MOST, max(_LEAST, math.sqrt(len(rows) / _FULL))) * _STEPS
    states, returns = _long_returns(pilot, rows, simulator, known, limits, rng)
    _fit(trainer, states, returns, int(_FIRST * steps), _SLOW, rng)
    for turn in range(_ROUNDS):
        tell((1 + turn) / (1 + _ROUNDS))
        missed = np.abs(_value(trainer, states) - returns)
        more = _short_returns(
            pilot, simulator, _begin(pilot, rows, simulator, known, states, missed, rng), trainer, limits, rng
        )
        states, returns = np.concatenate([states, more[0]]), np.concatenate([returns, more[1]])
        slowest = _SLOWEST if turn == _ROUNDS - 1 else _SLOW
        _fit(trainer, states, returns, int((1 - _FIRST) * steps / _ROUNDS), slowest, rng)
    parts = (pilot.layout, simulator.steps, simulator.tree, trainer.network(), pilot.gamma)
    rule = fit_rule(pilot, states, rng)
    tell(1.0)
    return [LookAhead(*parts), *(() if rule is None else (LookAhead(*parts, rule, FAR),))]


def _value(trainer: Trainer, states: FloatArray) -> FloatArray:
    return trainer.values(trainer.inputs(states))[:, 0]


def _fit(
    trainer: Trainer, states: FloatArray, returns: FloatArray, steps: int, slowest: float, rng: np.random.Generator
) -> None:
    first = np.zeros(len(returns), dtype=np.int64)
    inputs, wanted = trainer.inputs(states), trainer.units(returns)
    trainer.regress(inputs, first, wanted, steps, (_FAST, slowest), rng, batch=_BATCH, decay=1e-6)


def _long_returns(
    pilot: Rows, rows: Batch, simulator: Simulator, known: FloatArray, limits: ValueRange, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Returns over the whole horizon from states of the log, and from there one step of any kind away."""
    length = horizon_of(pilot.gamma)
    repeats = 2 if length <= 200 else 1
    most = int(min(_STARTS, max(200, _ASKED / (2 * length * repeats))))
    chosen = known[rng.permutation(len(known))[:most]]
    # one step with an action of any kind: where the log's own actions do not lead
    aside, alive, _ = simulator.step(*any_action(pilot, rows, chosen, rng), rng)
    begin = np.repeat(np.concatenate([chosen, aside[alive > 0.5]]), repeats, axis=0)
    targets = tuple(step for step in _TARGETS if step <= length // 2)
    return simulated_returns(pilot, simulator, begin, length, as_before(pilot.gamma, limits), limits, rng, targets)


def _begin(
    pilot: Rows,
    rows: Batch,
    simulator: Simulator,
    known: FloatArray,
    states: FloatArray,
    missed: FloatArray,
    rng: np.random.Generator,
) -> FloatArray:
    """Where a round begins: near states drawn with chances in proportion to what V missed there, and astray."""
    count = int(min(_AGAIN, max(200, _ASKED_AGAIN / (_ROUNDS * _short(pilot.gamma)))))
    away = strayed(pilot, rows, simulator, known, int((1 - _NEAR) * count), rng)
    total = float(missed.sum())
    chances = missed / total if total > 0 else None
    near = states[rng.choice(len(states), int(_NEAR * count), p=chances)]
    steps = simulator.steps
    near = near + _JITTER * steps.scale[: steps.state_dim] * rng.standard_normal(near.shape)
    near = np.clip(near, steps.low, steps.high)
    return np.concatenate([away, near[simulator.tree.values(near)[:, 0] > 0.5]])


def _short(gamma: float) -> int:
    return max(2, horizon_of(gamma) // _SHORT)


def _short_returns(
    pilot: Rows, simulator: Simulator, begin: FloatArray, trainer: Trainer, limits: ValueRange, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Returns over a fifth of the horizon, with the network's value after that."""

    def later(states: FloatArray, rewards: FloatArray) -> FloatArray:
        del rewards
        return _value(trainer, states)

    return simulated_returns(pilot, simulator, begin, _short(pilot.gamma), later, limits, rng)
