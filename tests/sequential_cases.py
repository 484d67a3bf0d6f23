"""Small worlds with a known q* for the sequential interval, random plans, and the truth behind every bound.

Nothing here is drawn from a law: the bounds are implications. If the true left sides of (15) and (16) are within their right
sides at the true deviations, every set must hold e = q* - q̂, every row bound the true deviation, and both ends the value.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from unittest import mock

import numpy as np

import bondic
from bondic.core.balls import constant_function
from bondic.core.claims import ErrorBudget, ends_of
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.core.sequential import bound as sequential
from bondic.core.sequential import localize
from bondic.core.sequential.basis import LandmarkBasis
from bondic.core.sequential.embedded import limits_from_class
from bondic.core.sequential.plan import Block, Plan, RidgeModel, Weighting, columns
from bondic.core.sequential.proof import SequentialProof
from bondic.core.terms import Terms
from bondic.engines.sums import STANDARD
from bondic.policies.answers import StoredAnswers
from bondic.rows.estimand import estimand_of
from bondic.rows.make import make_rows

CONSTANT = 0.3


@dataclass
class World:
    """Points of rows, next points with weights, starts; and q* as a function of (point, slot)."""

    kind: str  # "discrete" or "continuous"
    rng: np.random.Generator
    n: int = 30
    gamma: float = 0.8
    radius: float = 2.0
    inside: float = 1.0  # |e| as a share of the radius
    bandwidth: float = 1.0
    scale: float = 1.0  # of values
    center: float | None = None
    horizon: int | None = None
    ending: float = 0.1
    slots: int = 2
    stated: bool = False  # a value range just wide enough

    def __post_init__(self):
        rng, n = self.rng, self.n
        self.slots = 1 if self.kind == "continuous" else self.slots
        self.states, self.begin = rng.normal(size=(n, 2)), rng.normal(size=(3, 2))
        self.nexts = 0.7 * self.states + 0.3 * rng.normal(size=(n, 2))
        self.terminal = rng.random(n) < self.ending
        self.times = self._times() if self.horizon else None
        self.weights = rng.dirichlet(np.ones(3))
        if self.kind == "continuous":
            self.actions = rng.normal(size=(n, 1))
            self.draws = rng.normal(size=(n, 2, 1))
            self.first = rng.normal(size=(3, 1, 1))
        else:
            self.actions = rng.integers(0, self.slots, size=n)
            self.next_probs, self.first_probs = (rng.dirichlet(np.full(self.slots, 0.5), k) for k in (n, 3))
            for probs in (self.next_probs, self.first_probs):  # policies that are sure
                sure = rng.random(len(probs)) < 0.3
                probs[sure] = np.eye(self.slots)[rng.integers(0, self.slots, sure.sum())]
        self._choose_truth()

    def _times(self):
        times = [0]
        for ended in self.terminal[:-1]:
            times.append(0 if ended or times[-1] + 1 == self.horizon else times[-1] + 1)
        return np.array(times)

    # ------------------------------------------------------------------------------------------ the truth

    def _choose_truth(self):
        rng, count = self.rng, 8
        points = rng.normal(size=(count, self.dimension))
        if self.horizon:
            points[:, 2] = rng.integers(0, self.horizon, count)
        self.centers, self.center_slots = points, rng.integers(0, self.slots, count)
        weights = rng.normal(size=count)
        gram = self.kernel_values(points, self.center_slots, points, self.center_slots)
        self.alpha = weights * self.inside * self.radius / np.sqrt(weights @ gram @ weights)

    @property
    def dimension(self):
        return 2 + bool(self.horizon) + (self.kind == "continuous")

    def kernel_values(self, x, a, y, b):
        square = ((x[:, None] - y[None]) ** 2).sum(-1)
        return np.exp(-square / (2 * self.bandwidth**2)) * (a[:, None] == b[None]) + CONSTANT

    def e(self, points, slots):
        return self.kernel_values(points, slots, self.centers, self.center_slots) @ self.alpha

    def q(self, points, slots):
        return (self.center or 0.0) + self.e(points, slots)

    def mean(self, cloud, count, function):
        """Mean of a function over the policy, for every row of a cloud."""
        values = sum(
            cloud.weights[:, a] * function(cloud.points, np.full(len(cloud.points), a)) for a in range(self.slots)
        )
        return np.bincount(cloud.rows, weights=values, minlength=count)

    # ---------------------------------------------------------------------------------------- the question

    @property
    def kernel(self):
        if self.kind == "continuous":
            return bondic.Gaussian(self.bandwidth, on="point") + Constant(CONSTANT)
        return bondic.Gaussian(self.bandwidth, on="state") * Dirac() + Constant(CONSTANT)

    def ball(self, layout):
        center = None if self.center is None else constant_function(self.center, layout)
        return bondic.Ball(self.kernel, self.radius, center)

    def rows(self, noise):
        """Rewards such that Z_i = -noise_i, and ranges that hold."""
        rows = self._rows(np.zeros(self.n), (-1.0, 1.0), None)
        batch = rows.whole()
        keep = batch.log_rows
        here = self.q(batch.logged, batch.slots)
        following = self.mean(batch.next, len(batch), self.q)
        rewards = np.zeros(self.n)
        rewards[keep] = here - self.gamma * following + noise[keep]
        outcome = rewards[keep] + self.gamma * following
        everything = np.abs(
            np.concatenate([here, outcome, self.q(rows.initial.points, np.zeros(len(rows.initial.points), int))])
        )
        size = max(float(everything.max()), float(np.abs(rewards).max()), abs(self.center or 0.0) + self.reach)
        size *= 1 + 1e-9
        return self._rows(rewards, (-size, size), (-1.5 * size, 1.5 * size) if self.stated else None)

    @property
    def reach(self):
        return self.radius * np.sqrt(1 + CONSTANT)

    def _rows(self, rewards, reward_range, value_range):
        log = bondic.Transitions(
            self.states, self.actions, rewards, self.nexts, self.terminal, timesteps=self.times,
            episode_ids=np.arange(self.n) if self.times is None else np.cumsum(self.times == 0),
        )  # fmt: skip
        terms = Terms(
            self.gamma,
            reward_range,
            horizon=self.horizon,
            time_varying=self.horizon is not None,
            value_range=value_range,
        )
        going_on = ~self.terminal if self.times is None else ~self.terminal & (self.times + 1 < self.horizon)
        if self.kind == "continuous":
            answers = StoredAnswers(self.draws[going_on], self.first, discrete=False, exact=True)
        else:
            answers = StoredAnswers(self.next_probs[going_on], self.first_probs, discrete=True, exact=True)
        return make_rows(log, answers, bondic.InitialStates.exact(self.begin, self.weights), terms)

    def value(self, rows):
        return float(rows.initial_states.weights @ self.mean(rows.initial, 3, self.q))


# ----------------------------------------------------------------------------------------------- plans


def landmarks(world, rows, count, near):
    """Points of the log, some of them `near` each other, and the inverse of a factor of their Gram matrix."""
    rng, batch = world.rng, rows.whole()
    pick = rng.permutation(len(batch))[:count]
    points, slots = batch.logged[pick].copy(), batch.slots[pick].copy()
    if near and count > 1:
        points[-1], slots[-1] = points[0] + near, slots[0]
    gram = world.kernel_values(points, slots, points, slots)
    matrix = np.tril(np.linalg.inv(np.linalg.cholesky(gram)))
    return LandmarkBasis(points, slots, matrix)


def make_plan(
    world, rows, *, count=8, near=0.0, blocks=2, bold=1.0, margin=np.inf, side="both", limits=False, width=None
):
    """Models and weights from all rows: implications do not ask where a plan comes from."""
    rng = world.rng
    basis = landmarks(world, rows, count, near)
    m = len(basis)
    seen = m if m < 3 else int(rng.integers(max(1, m - 2), m + 1))
    ball = world.ball(rows.layout)
    first = Plan(basis, seen, (_empty_block(seen, 10**9),))
    proof = make_proof(rows, ball, first, side)
    data = proof.evidence(rows, STANDARD).data
    step = data.step.coordinates[:, :seen]
    here = np.column_stack([np.ones(len(data)), data.here[:, :seen]])
    target = np.column_stack([data.outcome, data.next.coordinates[:, :seen]])
    ridge = here.T @ here + 0.05 * np.eye(seen + 1)
    model = RidgeModel(np.linalg.solve(ridge, here.T @ target) + 0.02 * rng.normal(size=(seen + 1, seen + 1)))
    spread = step.T @ step / len(data)
    values, vectors = np.linalg.eigh(spread)
    p = seen if width is None else min(width, seen)
    white = (vectors / np.sqrt(np.maximum(values, 0) + 0.01 * values.sum() + 1e-9))[:, -p:]
    start = proof.evidence(rows, STANDARD).start.coordinates[:seen]
    theta = np.linalg.solve(step.T @ step + 0.1 * np.eye(seen), start)
    cuts = np.unique(rng.integers(1, world.n, size=blocks - 1))
    stops = [*map(int, cuts), world.n + int(rng.integers(0, 3))]
    made, begin = [], 0
    for stop in stops:
        weightings = {}
        for end in ends_of(side):
            starts = np.unique([begin, (begin + stop) // 2]).astype(np.int64)
            directions = bold * theta + 0.1 * bold * np.abs(theta).mean() * rng.normal(size=(len(starts), seen))
            weightings[end] = Weighting(bold / len(data), starts, directions)
        guess = rng.normal(size=seen) * world.radius * 0.3
        usual = float(rng.choice([0.0, np.sqrt(seen), 1e9]))
        made.append(Block(stop, model, white, float(10 ** rng.uniform(-3, 3)), usual, guess, margin, weightings))
        begin = stop
    found = limits_from_class(ball, rows.terms) if limits else None
    return Plan(basis, seen, tuple(made), limits=None if found is None else (found.low, found.high))


def _empty_block(seen, stop):
    weightings = {end: Weighting(1.0, np.zeros(1, dtype=np.int64), np.zeros((1, seen))) for end in ("lower", "upper")}
    zero = RidgeModel(np.zeros((seen + 1, seen + 1)))
    return Block(stop, zero, np.ones((seen, 1)), 1.0, 1.0, np.zeros(seen), np.inf, weightings)


def make_proof(rows, ball, plan, side="both", alpha=0.4):
    shares = {"vector": 0.5} | dict.fromkeys(ends_of(side), 0.5 / len(ends_of(side)))
    blocks = tuple(
        replace(block, weightings={end: block.weightings[end] for end in ends_of(side)}) for block in plan.blocks
    )
    return SequentialProof(
        estimand_of(rows), ErrorBudget.split(alpha, shares), side, ball, replace(plan, blocks=blocks)
    )


# --------------------------------------------------------------------------------- what came out, and the truth


@dataclass
class Seen:
    """Everything that an evaluation made on its way."""

    ellipsoids: list = field(default_factory=list)
    cylinders: list = field(default_factory=list)
    localizers: list = field(default_factory=list)
    deltas: list = field(default_factory=list)
    prices: list = field(default_factory=list)  # (rows, right side of (16))
    claims: list = field(default_factory=list)  # (tail, claim)


@contextmanager
def watching():
    seen = Seen()
    real_enclose, real_begin, real_delta = localize.enclose, localize.Localizer.begin, sequential.clipped_deviation

    def enclose(radius, cylinders, shares):
        seen.cylinders += cylinders
        found = real_enclose(radius, cylinders, shares)
        seen.ellipsoids += [] if found is None else [found]
        return found

    def begin(*given):
        seen.localizers.append(real_begin(*given))
        return seen.localizers[-1]

    def delta(*given):
        found = real_delta(*given)
        seen.deltas.append(found)
        return found

    real_price, real_claim = localize.Localizer.vector_bound, sequential.Tail.claim

    def price(self, candidates):
        found = real_price(self, candidates)
        seen.prices.append((len(self.offsets), found[0]))
        return found

    def claim(self, *given):
        found = real_claim(self, *given)
        seen.claims.append((self, found))
        return found

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(localize.Localizer, "vector_bound", price))
        stack.enter_context(mock.patch.object(sequential.Tail, "claim", claim))
        stack.enter_context(mock.patch.object(localize, "enclose", enclose))
        stack.enter_context(mock.patch.object(localize.Localizer, "begin", staticmethod(begin)))
        stack.enter_context(mock.patch.object(sequential, "clipped_deviation", delta))
        yield seen


@dataclass
class Truth:
    """The true left sides, deviations and coordinates."""

    world: World
    question: object
    plan: Plan
    side: str

    def __post_init__(self):
        w, data, plan = self.world, self.question.data, self.plan
        rows = self.question.rows
        batch = rows.whole()
        self.y = batch.rewards + w.gamma * w.mean(batch.next, len(batch), w.q)
        self.z = w.q(batch.logged, batch.slots) - self.y
        at = w.e(plan.basis.points, plan.basis.slots)
        self.coordinates = plan.basis.matrix @ at
        self.applied = [
            columns(block, data.gamma, data.log_rows[part], data.points[part], data.slots[part],
                    data.here[part, : plan.visible], data.stretch(part).limits)
            for block, part in plan.pieces(data.log_rows)
        ]  # fmt: skip
        self.predicted = np.concatenate(
            [own.predicted + w.gamma * own.embedding @ self.coordinates[: plan.visible] for own in self.applied]
        )
        gram = plan.basis.matrix @ w.kernel_values(*[plan.basis.points, plan.basis.slots] * 2) @ plan.basis.matrix.T
        along = self.coordinates @ np.linalg.solve(gram, self.coordinates)
        self.perp_square = max((w.inside * w.radius) ** 2 - along, 0.0)

    def price(self, rows):
        """The true right side of (16) after so many rows."""
        limits = self.question.data.limits
        delta = self.y - np.clip(self.predicted, limits.low, limits.high)
        sizes = np.concatenate([np.linalg.norm(own.instruments, axis=1) for own in self.applied])
        return np.log(2 / self.question.probabilities["vector"]) + _g(-sizes * np.abs(delta))[:rows].sum()

    def weights(self, end):
        return (1 if end == "upper" else -1) * np.concatenate([own.weights[end] for own in self.applied])

    def tail_price(self, end):
        """The true right side of (15)."""
        return np.log(1 / self.question.probabilities[end]) + _g(-self.weights(end) * self.deviation()).sum()

    def events_hold(self):
        """(16) at every block end, and (15) for every end that is asked for."""
        total, first = np.zeros(max(own.instruments.shape[1] for own in self.applied)), 0
        for own in self.applied:
            part = slice(first, first + len(own.predicted))
            first = part.stop
            total[: own.instruments.shape[1]] += own.instruments.T @ self.z[part]
            if np.linalg.norm(total) > self.price(first):
                return False
        return all(self.weights(end) @ self.z <= self.tail_price(end) for end in ends_of(self.side))

    def deviation(self):
        clip = [np.concatenate([getattr(own.clip, side) for own in self.applied]) for side in ("low", "high")]
        return self.y - np.clip(self.predicted, *clip)

    def violations(self, seen, evaluation, slack=1e-9):
        """What is not as it must be when the events hold."""
        bad, tiny = [], slack * (1 + self.world.reach)
        if evaluation.empty:
            bad.append("the truth was excluded")
        value = self.world.value(self.question.rows)
        wrong = [claim for claim in evaluation.claims if claim.sign * (value - claim.bound) > tiny]
        bad += [f"{claim.end} end {claim.bound} excludes {value}" for claim in wrong]
        for k, one in enumerate(seen.ellipsoids):
            y = np.linalg.solve(one.shape, self.coordinates - one.center)
            if (1 - one.skew) * (y @ y) + one.alpha * self.perp_square > one.rho_square * (1 + 1e-6) + 1e-7:
                bad.append(f"ellipsoid {k} of {len(seen.ellipsoids)}")
        for k, one in enumerate(seen.cylinders):
            if np.linalg.norm(one.offset + one.matrix @ self.coordinates) > one.size * (1 + 1e-9) + tiny:
                bad.append(f"cylinder {k} of {len(seen.cylinders)}")
        for localizer in seen.localizers[-1:]:
            apart = (self.y - self.predicted)[: len(localizer.offsets)]
            if np.any(apart < localizer.errors.low - tiny) or np.any(apart > localizer.errors.high + tiny):
                bad.append("a row bound of Y - ŷ")
        bad += [f"(16) after {rows} rows" for rows, bound in seen.prices if bound < self.price(rows) * (1 - slack)]
        for tail, claim in seen.claims:
            # sharper than the end itself: the bound holds for the right side of (15), not only for its left side
            exact = tail.rate * claim.sign * value - self.weights(tail.end) @ self.z + self.tail_price(tail.end)
            if tail.rate * claim.sign * claim.bound < exact - slack * (1 + abs(exact) + tail.rate * self.world.reach):
                bad.append(f"{tail.end} tail is short by {exact - tail.rate * claim.sign * claim.bound}")
        for one in seen.deltas:
            delta = self.deviation()
            if np.any(delta < one.low - tiny) or np.any(delta > one.high + tiny):
                bad.append("a bound of Delta")
        return bad


def _g(y):
    return y - np.log1p(y)


def attack(world, noise, **options):
    """(events hold, violations, evaluation): one evaluation of a random plan on rows with this noise."""
    rows = world.rows(noise)
    side = options.get("side", "both")
    plan = make_plan(world, rows, **options)
    proof = make_proof(rows, world.ball(rows.layout), plan, side)
    question = proof.evidence(rows, STANDARD)
    truth = Truth(world, question, proof.plan, side)
    with watching() as seen:
        evaluation = sequential.evaluate(question, proof.plan, ends_of(side))
    return truth.events_hold(), truth.violations(seen, evaluation), evaluation
