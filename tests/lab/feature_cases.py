"""Small worlds with features, logs with all that nobody knows of them, and events that hold on a log just so."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bondic.core.betting import bet_cost
from bondic.core.bounded import Enclosure
from bondic_lab.features.ends import FeatureBound, FeatureStarts, FeatureTail
from bondic_lab.features.sets import FeatureEvent
from bondic_lab.features.sums import EllipsoidShape, FeatureRows, Range, tally_features
from cells_cases import TrueRows, random_log, random_world

CAP = 0.995 * (1 - 1e-12)


@dataclass(frozen=True)
class FeatureLog:
    """A log of a world, features of its pairs, and the truth: θ, ζ."""

    rows: TrueRows
    features: np.ndarray  # (S, A, D)
    scale: np.ndarray  # (S, A) s
    theta: np.ndarray  # (D,)
    expected: np.ndarray  # (n,) ô
    forecast: np.ndarray  # (n, D) u
    instruments: np.ndarray  # (n, m)
    weights: np.ndarray  # (n, 2) of the lower and the upper end
    floors: np.ndarray  # (n, 2)
    rates: tuple[float, ...]
    tail_rates: tuple[float, float]
    bounded: bool

    @property
    def world(self):
        return self.rows.world

    @property
    def own(self):
        return self.features[self.rows.state, self.rows.action]

    @property
    def following(self):
        return np.einsum("nsa,sad->nd", self.rows.ahead, self.features)

    @property
    def rest(self):
        """(S, A) ζ."""
        return self.world.truth - self.world.model - self.features @ self.theta

    @property
    def allowance(self):
        """The least β that is true on this log."""
        seen = np.zeros(self.world.size, dtype=bool)
        seen[self.rows.state, self.rows.action] = True
        seen |= self.rows.ahead.any(axis=0) | (self.world.starts[:, None] * self.world.policy > 0)
        least = float((np.abs(self.rest) / self.scale)[seen].max(initial=0.0))
        return max(least, float(np.linalg.norm(self.theta))) if self.bounded else least

    def deviations(self, end=None):
        """Δ_i of the vector event, or of an end with its floors."""
        world, rows = self.world, self.rows
        center = world.model[rows.state, rows.action] + self.expected + self.forecast @ self.theta
        if end is not None:
            v, floor = self.weights[:, end], self.floors[:, end]
            center = np.where(v > 0, np.maximum(center, floor), np.where(v < 0, np.minimum(center, floor), center))
        outcome = rows.reward + world.gamma * rows.mean_ahead(world.truth)
        return outcome - np.clip(center, 0.0, world.high)

    def part(self):
        rows, world = self.rows, self.world
        return FeatureRows(
            rows.outcome, self.following, rows.mean_ahead(self.scale), world.model[rows.state, rows.action], self.own,
            self.scale[rows.state, rows.action], self.expected, self.forecast, self.instruments, self.weights,
            self.floors, 3 * world.high,
        )  # fmt: skip

    def equations(self):
        """H, and sum χ o."""
        return self.instruments.T @ (
            self.own - self.world.gamma * self.following
        ), self.instruments.T @ self.rows.outcome

    def starts(self):
        weights = self.world.starts[:, None] * self.world.policy
        center = Enclosure(float((weights * self.world.model).sum()), 1e-13)
        return FeatureStarts(
            center,
            np.einsum("sa,sad->d", weights, self.features),
            1e-13,
            float((weights * self.scale).sum()) * (1 + 1e-13),
        )

    def surpluses(self):
        """What log(2K/δ) and the two log(1/δ) have to exceed."""
        noise, size = self.rows.noise, np.linalg.norm(self.instruments, axis=1)
        total = np.linalg.norm(noise @ self.instruments)
        vector = max(r * total - bet_cost(-r * size * np.abs(self.deviations())).sum() for r in self.rates)
        ends = [v @ noise - bet_cost(-v * self.deviations(e)).sum() for e, v in enumerate(self.weights.T)]
        return float(vector), *(float(one) for one in ends)

    def bound(self, reference, shapes, least=1e-3, part=1.0, logs=None):
        """Events just so; `part` of their logarithms for controls."""
        vector, low, high = (part * max(one, least) for one in (self.surpluses() if logs is None else logs))
        chance = min(2 * len(self.rates) * np.exp(-vector), 1.0) * (1 - 1e-12)
        limits = Range(0.0, self.world.high)
        tally = tally_features([self.part()], self.world.gamma, reference, limits, self.rates[0], shapes)
        tails = {
            sign: FeatureTail(e, self.tail_rates[e], float(np.exp(-one)) * (1 - 1e-12))
            for e, (sign, one) in enumerate(((-1.0, low), (1.0, high)))
        }
        return FeatureBound(tally, FeatureEvent(self.rates, float(chance)), tails, self.starts(), self.bounded)


def random_features(rng, world, kind):
    """Dense features; indicators of pairs beside slopes; or all pairs (a table)."""
    states, actions = world.size
    if kind == "table":
        return np.eye(states * actions).reshape(states, actions, -1)
    features = rng.normal(size=(states, actions, int(rng.integers(1, 5))))
    if kind == "groups":
        group = np.eye(2)[rng.integers(2, size=(states, actions))]
        features = np.concatenate([group, group * rng.normal(size=(states, actions, 1))], axis=2)
    return features


def random_weights(rng, log, sign, cap, high, expected):
    """Weights that bet on this very noise; of one sign; arbitrary; all of them after the floors' one-sided ranges."""
    floors = expected + rng.normal(size=expected.size) * 0.3 * high if rng.random() < 0.5 else None
    kind, n = rng.integers(3), expected.size
    noise = log.noise
    v = (np.sign(noise) * rng.random(n), sign * rng.random(n), rng.normal(size=n) * 0.3)[kind]
    if rng.random() < 0.3:
        v = v * 0.05
    v = np.clip(v, -1, 1)
    if floors is None:
        return v * cap / high, np.where(v > 0, 0.0, high)
    ends = np.clip(floors, 0.0, high)
    room = np.maximum(np.where(v > 0, high - ends, ends), 0.02 * high)
    return v * cap / room, floors


def random_case(seed, rows=None, kind=None):
    rng = np.random.default_rng([seed, 2626])
    gamma, kind = (0.0, 0.3, 0.9, 0.97)[seed % 4], kind or ("dense", "groups", "table", "ball")[(seed // 4) % 4]
    world = random_world(rng, gamma, groups=2, rough=float(rng.choice([0.0, 0.3, 1.0])))
    count = rows or int(np.exp(rng.uniform(np.log(20), np.log(2000))))
    log = random_log(rng, world, count, 1, draws=3 if rng.random() < 0.3 else 0)
    features = random_features(rng, world, kind)
    gap = world.truth - world.model
    flat = features.reshape(-1, features.shape[2])
    theta = np.linalg.lstsq(flat, gap.ravel(), rcond=None)[0]
    if kind != "table" and rng.random() < 0.5:
        theta = theta + rng.normal(size=theta.size) * 0.1 * world.high
    own, ahead = features[log.state, log.action], np.einsum("nsa,sad->nd", log.ahead, features)
    forecast, expected = own, np.zeros(count)
    how = rng.integers(3)
    if how:
        onto = (
            np.linalg.lstsq(own, ahead, rcond=None)[0] if how == 1 else rng.normal(size=(theta.size, theta.size)) * 0.3
        )
        forecast, expected = (
            gamma * own @ onto,
            log.outcome.mean() + rng.normal(size=count) * 0.1 * world.high * (how - 1),
        )
    mix = rng.normal(size=(theta.size, theta.size)) * 0.3 + np.eye(theta.size)
    chi = own @ mix
    rates = np.sort(
        CAP / world.high / np.linalg.norm(chi, axis=1).max() * rng.choice([1.0, 0.3, 0.1, 0.03], 2, replace=False)
    )
    center = world.model[log.state, log.action] + expected + forecast @ theta
    ends = [random_weights(rng, log, sign, CAP, world.high, center) for sign in (-1.0, 1.0)]
    weights, floors = (np.column_stack(both) for both in zip(*ends, strict=True))
    tails = [float(np.abs(v).sum() * rng.uniform(0.1, 1.5) + 1e-3) for v in weights.T]
    start = np.einsum("s,sa,sad->d", world.starts, world.policy, features)
    balanced = chi @ np.linalg.lstsq((own - gamma * ahead).T @ chi, start, rcond=1e-10)[0]
    for e, sign in enumerate((-1.0, 1.0)):
        if rng.random() < 0.6:  # weights that balance this very log
            tails[e] = float(CAP / world.high / max(np.abs(balanced).max(), 1e-9) * rng.uniform(0.1, 1.0))
            weights[:, e] = sign * tails[e] * balanced
            floors[:, e] = np.where(weights[:, e] > 0, 0.0, world.high)
    scale = rng.uniform(0.2, 1.0, size=world.size) if rng.random() < 0.5 else np.ones(world.size)
    return rng, FeatureLog(
        log,
        features,
        scale,
        theta,
        expected,
        forecast,
        chi,
        weights,
        floors,
        tuple(rates[::-1]),
        tuple(tails),
        kind == "ball",
    )


def good_reference(log, ridge=0.0):
    matrix, right = log.equations()
    if ridge:
        return np.linalg.solve(matrix.T @ matrix + ridge * np.eye(matrix.shape[1]), matrix.T @ right)
    return np.linalg.lstsq(matrix, right, rcond=1e-10)[0]


def shapes_of(log, ridges, guess=1.0):
    matrix, _ = log.equations()
    found = []
    for ridge in ridges:
        values, vectors = np.linalg.eigh(matrix.T @ matrix + ridge * np.eye(matrix.shape[1]))
        found.append(EllipsoidShape(vectors / np.sqrt(np.maximum(values, 1e-13 * values.max() + 1e-300)), ridge, guess))
    return found
