"""Columns with a meaning of their own: ids in four codings, a clock with a change of regime, a subgroup, marketing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from experiments.defaults_cells import FloatArray
from experiments.number_worlds_base import Boxes, NumberWorld, discrete_world, uniform_actions
from experiments.number_worlds_jumps import place

IDS, STARTED = 100, 12
CODINGS = ("integers", "scaled", "random floats", "embeddings")
CHANGE = 0.7
REGIONS = 10
AGES, SPENDS = (18.0, 30.0, 55.0, 80.0), (0.0, 50.0, 200.0, 1000.0)


def codes(coding: str) -> FloatArray:
    """One row of numbers per id; neighbors mean nothing."""
    rng = np.random.default_rng(7)
    drawn = {
        "integers": np.arange(IDS)[:, None],
        "scaled": np.arange(IDS)[:, None] / IDS,
        "random floats": rng.random((IDS, 1)),
        "embeddings": rng.standard_normal((IDS, 8)),
    }
    return np.asarray(drawn[coding], dtype=np.float64)


def lookup(table: FloatArray) -> Callable[[FloatArray], Any]:
    """The id of a row of codes: first numbers are all different."""
    order = np.argsort(table[:, 0])
    return lambda s: order[np.searchsorted(table[order, 0], s[:, 0])]


def ids(coding: str, gamma: float) -> NumberWorld:
    """Every id has its own chances, drawn from [.1, .9]; the policy starts in the best twelve. γ > 0: a random chain of ids."""
    rng = np.random.default_rng(11)
    chances, chain = rng.uniform(0.1, 0.9, (IDS, 2)), rng.dirichlet(np.full(IDS, 0.05), (IDS, 2))
    table = codes(coding)
    number = lookup(table)
    probs = np.tile([0.2, 0.8], (IDS, 1))
    best = np.argsort(-np.sum(probs * chances, axis=1))[:STARTED]
    return discrete_world(
        f"ids as {coding}, γ {gamma:g}",
        Boxes(table, table),
        lambda s, a: chances[number(s), a],
        lambda s: probs[number(s)],
        table[best],
        gamma=gamma,
        moves=(lambda s, a: chain[number(s), a]) if gamma else None,
    )


def regime() -> NumberWorld:
    """A clock (share of the log that has passed) and a number. At .7 the two actions change places; the starts are after."""

    def chance(s: FloatArray, a: Any) -> FloatArray:
        return np.where(a == (s[:, 0] >= CHANGE), 0.75, 0.25) + 0.1 * np.sin(np.pi * s[:, 1])

    return discrete_world(
        "regime change in time, γ 0",
        Boxes.grid([0.0, CHANGE, 1.0], [0.0, 1.0]),
        chance,
        lambda s: np.tile([0.1, 0.9], (len(s), 1)),
        np.column_stack([np.linspace(0.9, 0.999, 25), np.linspace(0.02, 0.98, 25)]),
        contexts=lambda n, rng: np.column_stack([np.arange(n) / n, rng.random(n)]),
    )


def subgroup(gamma: float) -> NumberWorld:
    """The best action is 1 from x = .5 on, the other way round for the 5 % with the mark; the policy does not look at it."""
    boxes, upper = Boxes.grid(("at", 0.0, 1.0), [0.0, 0.5, 1.0]), place([0.0, 0.5, 1.0])
    shares = np.array([0.475, 0.475, 0.025, 0.025])

    def chance(s: FloatArray, a: Any) -> FloatArray:
        best = np.where(s[:, 0] == 1.0, 1 - upper(s[:, 1]), upper(s[:, 1]))
        return np.where(a == best, 0.8, 0.3)

    def moves(s: FloatArray, a: Any) -> FloatArray:
        """A mark stays; a good action leads upwards."""
        up = np.where(chance(s, a) > 0.5, 0.7, 0.4)[:, None]
        halves = np.concatenate([1 - up, up], axis=1)
        marked = s[:, :1] == 1.0
        return np.concatenate([halves * ~marked, halves * marked], axis=1)

    return discrete_world(
        f"subgroup, γ {gamma:g}",
        boxes,
        chance,
        lambda s: np.where(np.arange(2) == upper(s[:, 1])[:, None], 0.95, 0.05),
        np.array([[mark, x] for mark in (0.0, 1.0) for x in np.linspace(0.05, 0.95, 10)]),
        gamma=gamma,
        moves=moves if gamma else None,
        begin=shares,
    )


def marketing(gamma: float) -> NumberWorld:
    """Region code, age, spend; no mail, a mail, a coupon. γ > 0: a coupon lifts next month's spend class; customers may leave."""
    boxes = Boxes.grid(("at", *range(REGIONS)), AGES, SPENDS)
    rates = np.random.default_rng(3).uniform(0.1, 0.5, REGIONS)
    age, spend = place(AGES), place(SPENDS)
    lift = np.array([[0.0, 0.02, 0.2], [0.0, 0.15, 0.1], [0.0, 0.1, -0.05]])  # (age class, action)
    raised = np.array([0.1, 0.2, 0.5])
    shares = np.tile(np.outer([0.3, 0.45, 0.25], [0.6, 0.3, 0.1]).ravel(), REGIONS) / REGIONS

    def chance(s: FloatArray, a: Any) -> FloatArray:
        loyal = 0.05 * np.log1p(s[:, 2]) * (spend(s[:, 2]) > 0)
        return np.clip(rates[s[:, 0].astype(np.int64)] + lift[age(s[:, 1]), a] + 0.3 * loyal, 0.0, 1.0)

    def moves(s: FloatArray, a: Any) -> FloatArray:
        up = raised[a]
        level = spend(s[:, 2])
        after = np.zeros((len(s), len(boxes)))
        first, rows = 9 * s[:, 0].astype(np.int64) + 3 * age(s[:, 1]), np.arange(len(s))
        for target, share in ((np.minimum(level + 1, 2), up), (level, 0.6 - up), (np.maximum(level - 1, 0), 0.3)):
            after[rows, first + target] += share
        return after

    return discrete_world(
        f"marketing columns, γ {gamma:g}",
        boxes,
        chance,
        lambda s: np.where(np.arange(3) == np.where(s[:, 2] < 200.0, 2, 1)[:, None], 0.9, 0.05),
        boxes.draw(np.random.default_rng(5).choice(len(boxes), 200, p=shares), np.random.default_rng(6)),
        gamma=gamma,
        moves=moves if gamma else None,
        terminates=gamma > 0,
        begin=shares,
        behave=uniform_actions(3),
    )


def column_worlds() -> list[NumberWorld]:
    return [
        *(ids(coding, 0.0) for coding in CODINGS),
        ids("random floats", 0.9),
        regime(),
        subgroup(0.0),
        subgroup(0.5),
        marketing(0.0),
        marketing(0.5),
    ]
