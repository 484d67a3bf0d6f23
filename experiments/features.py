"""Groups x (1, s) through the core of features, beside plain groups: lengths, allowances that are needed, coverage.

python -m experiments.features lengths smooth.9 --seeds 2
python -m experiments.features coverage --seeds 20
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from experiments.feature_plan import Columns, Plan, interval, make_bound
from experiments.number_worlds import number_worlds
from experiments.number_worlds_base import NumberWorld
from experiments.number_worlds_chains import smooth
from experiments.number_worlds_jumps import hours
from experiments.number_worlds_physics import physics_worlds

import bondic
from bondic.core.cells.allowance import Allowance
from bondic.core.terms import largest_width, range_at_all_times

MIN_ROWS = 60
"""Rows of the pilot in a cell that has slopes."""
COUNTS = (4, 8, 16)


def worlds() -> dict[str, tuple[Callable[[], NumberWorld], int]]:
    """World and rows by name."""
    found: dict[str, tuple[Callable[[], NumberWorld], int]] = {
        "smooth.5": (lambda: smooth(0.5), 10_000),
        "smooth.9": (lambda: smooth(0.9), 10_000),
        "pendulum": (lambda: next(w for w in physics_worlds() if "pendulum" in w.name), 20_000),
    }
    halves = [w for w in number_worlds() if "halves" in w.name]
    return found | {f"halves {k}": (lambda w=w: w, 10_000) for k, w in enumerate(halves)}


class GroupFeatures:
    """Indicators of cells, and (s - mean) / sd inside of those with enough rows; cells without rows share one feature."""

    def __init__(self, fitted: Any, pilot: Any, slopes: bool) -> None:
        batch, self.slots, self.fitted = pilot.whole(), pilot.layout.slots, fitted
        cell, count = self.cells(batch.logged, batch.slots), fitted.groups.n_cells
        seen, width = np.bincount(cell, minlength=count), batch.logged.shape[1]
        self.mean, self.spread = np.zeros((count, width)), np.full((count, width), np.inf)
        for c in np.flatnonzero(seen >= MIN_ROWS) if slopes else []:
            own = batch.logged[cell == c]
            self.mean[c], spread = own.mean(axis=0), own.std(axis=0)
            self.spread[c] = np.where(spread > 1e-9, spread, np.inf)
        self.first = np.where(seen > 0, np.cumsum(seen > 0) - 1, int((seen > 0).sum()))
        place = np.full((count, width), -1)
        sloped = np.isfinite(self.spread)
        place[sloped] = self.first.max() + 1 + np.arange(int(sloped.sum()))
        self.place, self.dimension = place, int(self.first.max()) + 1 + int(sloped.sum())

    def cells(self, points: Any, slots: Any) -> Any:
        return self.fitted.group(points) * self.slots + slots

    def at(self, points: Any, cells: Any, weights: Any, owner: Any, rows: int) -> Any:
        """(rows, D): sums over points of weights times features."""
        found = np.zeros((rows, self.dimension))
        np.add.at(found, (owner, self.first[cells]), weights)
        scaled = np.clip((points - self.mean[cells]) / self.spread[cells], -4, 4)
        for j in range(points.shape[1]):
            on = np.flatnonzero(self.place[cells, j] >= 0)
            np.add.at(found, (owner[on], self.place[cells[on], j]), weights[on] * scaled[on, j])
        return found

    def of_cloud(self, cloud: Any, rows: int) -> Any:
        point, slot = np.nonzero(cloud.weights)
        cells = self.cells(cloud.points[point], slot)
        return self.at(cloud.points[point], cells, cloud.weights[point, slot], cloud.rows[point], rows)


def columns_of(problem: Any, fitted: Any, pilot: Any, slopes: bool) -> Columns:
    """All rows, the pilot first; forecasts by the leaves of the tree of labels, shrunk towards linear ones."""
    batch, gamma, features = problem.whole(), problem.gamma, GroupFeatures(fitted, pilot, slopes)
    n, n0 = len(batch), len(pilot.whole())
    cell = features.cells(batch.logged, batch.slots)
    own = features.at(batch.logged, cell, np.ones(n), np.arange(n), n)
    following, cloud, ahead = np.zeros_like(own), batch.next, np.zeros(n)
    if cloud.rows.size:
        following = features.of_cloud(cloud, n)
        ahead = np.bincount(cloud.rows, fitted.means(cloud.points, cloud.weights), minlength=n)
    mass = np.bincount(cloud.rows, cloud.weights.sum(axis=1), minlength=n).astype(float)
    value, weights, first = fitted.values(batch.logged, batch.slots), problem.initial_states.weights, problem.initial
    outcome, known = batch.rewards + gamma * ahead - value, range_at_all_times(problem.terms)
    start_value = np.bincount(first.rows, fitted.means(first.points, first.weights), minlength=len(weights))
    gram = own[:n0].T @ own[:n0] / n0
    inverse = np.linalg.inv(gram + 1e-3 * np.trace(gram) / len(gram) * np.eye(len(gram))) @ own[:n0].T / n0
    expected, forecast = own @ (inverse @ outcome[:n0]), own @ (inverse @ following[:n0])
    label, _ = fitted.labels.of(fitted, batch.logged, batch.slots, cell)
    count = fitted.labels.forecasts.cell.size
    rows = np.bincount(label[:n0], minlength=count) + 5.0
    rest, onto = np.bincount(label[:n0], (outcome - expected)[:n0], minlength=count), np.zeros((count, len(gram)))
    np.add.at(onto, label[:n0], (following - forecast)[:n0])
    expected, forecast = expected + (rest / rows)[label], gamma * (forecast + (onto / rows[:, None])[label])
    size = float(np.abs(batch.rewards).max() + np.abs(value).max() + np.abs(ahead).max())
    return Columns(
        own, following, outcome, value, np.ones(n), mass, weights @ features.of_cloud(first, len(weights)),
        float(weights @ start_value), 1.0, gamma, known.low, known.high, size, (expected, forecast),
    )  # fmt: skip


def true_allowance(world: NumberWorld, problem: Any, fitted: Any, data: Columns, n0: int) -> float:
    """sup |ζ| over rows, next means and starts, θ the least-squares fit of q* - q̂ over the pilot's pairs (discrete actions)."""
    batch, first = problem.whole(), problem.initial

    def truth(cloud: Any, rows: int) -> Any:
        slots = range(cloud.weights.shape[1])
        values = np.column_stack([world.q_star(cloud.points, np.full(len(cloud.points), a)) for a in slots])
        both = (values * cloud.weights).sum(axis=1) - fitted.means(cloud.points, cloud.weights)
        return np.bincount(cloud.rows, both, minlength=rows)

    own = world.q_star(batch.logged, batch.slots) - data.value
    theta = np.linalg.lstsq(data.features[:n0], own[:n0], rcond=1e-10)[0]
    rest = [np.abs(own - data.features @ theta)[n0:]]
    if batch.next.rows.size:
        rest.append(np.abs(truth(batch.next, len(batch)) - data.following @ theta)[n0:])
    starts = problem.initial_states.weights
    at_starts = abs(float(starts @ truth(first, len(starts))) - float(data.start @ theta))
    return max(at_starts, *(float(one.max()) for one in rest))


def needed(ends: Callable[[float], tuple[float, float]], truth: float, most: float) -> float:
    """The least allowance at which the interval holds the truth, by bisection."""

    def holds(beta: float) -> bool:
        low, high = ends(beta)
        return low <= truth <= high

    if holds(0.0):
        return 0.0
    below, above = 0.0, most
    for _ in range(8):
        middle = 0.5 * (below + above)
        below, above = (below, middle) if holds(middle) else (middle, above)
    return above


def lengths(which: str, seeds: int) -> None:
    for name, (make, rows) in worlds().items():
        if not name.startswith(which):
            continue
        world = make()
        for seed in range(seeds):
            problem, model = world.problem(rows, seed, accept=None), None
            for count in COUNTS:
                method = bondic.Groups(count=count, model=model)
                pilot = method.pilot_of(problem)
                fitted = method.fit(problem, pilot, 0.1, lambda _: None)
                model = fitted.model.values if model is None else model
                proof, certified = method.prove(problem, pilot, fitted, 0.1), problem.select(pilot.rows.stop)
                cells = proof.bound(certified)

                def by_cells(beta: float, proof=proof, certified=certified, cells=cells) -> tuple[float, float]:
                    found = {c.end: c.bound for c in proof.evaluate(certified, cells, Allowance(beta)).claims}
                    return found["lower"], found["upper"]

                width = largest_width(problem.terms)
                line = f"{name} seed {seed} G {count:2d} | cells {_told(by_cells, world.truth, width)}"
                for slopes in (False, True):
                    data, began = columns_of(problem, fitted, pilot, slopes), time.time()
                    bound = make_bound(data, Plan(len(pilot.whole())))

                    def by_features(beta: float, bound=bound) -> tuple[float, float]:
                        return interval(bound, beta)

                    told = _told(by_features, world.truth, data.high - data.low)
                    line += f" | {'slopes' if slopes else 'features'} D {data.start.size} {told} {time.time() - began:.1f} s"
                print(line, flush=True)


def _told(ends: Callable[[float], tuple[float, float]], truth: float, width: float) -> str:
    low, high = ends(0.0)
    return f"length {min(high - low, width):.3f}, needed {needed(ends, truth, min(0.02 * width, 1.0)):.4f}"


def coverage(seeds: int) -> None:
    """At sup |ζ| with slopes in a smooth world; and one group in a world of hours, where an eighth of it is too little."""
    world, held, short = smooth(0.5), 0, []
    for seed in range(seeds):
        problem, method = world.problem(5000, seed, accept=None), bondic.Groups(count=2)
        pilot = method.pilot_of(problem)
        fitted = method.fit(problem, pilot, 0.1, lambda _: None)
        data = columns_of(problem, fitted, pilot, True)
        beta = true_allowance(world, problem, fitted, data, len(pilot.whole()))
        low, high = interval(make_bound(data, Plan(len(pilot.whole()))), beta)
        held += low <= world.truth <= high
        short.append(high - low)
    print(f"smooth.5, slopes, 5000 rows: {held} of {seeds} hold J* at sup |ζ|; mean length {np.mean(short):.3f}")
    whole, part = (sum(one) for one in zip(*(hour_held(seed, 3000) for seed in range(seeds)), strict=True))
    print(f"hours, one group, 3000 rows: {whole} of {seeds} hold J* at sup |ζ|, {part} at an eighth of it")


def hour_held(seed: int, rows: int) -> tuple[bool, bool]:
    """One group where one hour differs: whether the interval holds J* at sup |ζ|, and at an eighth of it."""
    world = hours(0.0)
    problem, method = world.problem(rows, seed, accept=None), bondic.Groups(count=1, model=_middle(world))
    pilot = method.pilot_of(problem)
    fitted = method.fit(problem, pilot, 0.1, lambda _: None)
    data = columns_of(problem, fitted, pilot, False)
    beta = true_allowance(world, problem, fitted, data, len(pilot.whole()))
    bound = make_bound(data, Plan(len(pilot.whole())))
    ends = [interval(bound, share * beta) for share in (1.0, 0.125)]
    return tuple(low <= world.truth <= high for low, high in ends)


def _middle(world: NumberWorld) -> Any:
    low, high = world.value_range or (bound / (1 - world.gamma) for bound in world.reward_range)
    return lambda states, _: np.full(len(states), 0.5 * (low + high))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("lengths", "coverage"))
    parser.add_argument("world", nargs="?", default="")
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    if given.what == "lengths":
        lengths(given.world, given.seeds)
    else:
        coverage(given.seeds)


if __name__ == "__main__":
    main()
