"""A question is linear: a difference of two policies is a question of two parts, answered with what the core has."""

import numpy as np
import pytest

import bondic
from bondic.core.betting import loss, tail_term
from bondic.core.bounded import Enclosure, certified_dot, upper_sum
from bondic.core.errors import InvalidInput
from bondic.core.question import Question
from bondic.core.terms import range_of

GAMMA, STATES, ACTIONS = 0.5, 3, 2


class World:
    """A table with two policies that differ in one state."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.following = rng.dirichlet(np.ones(STATES), (STATES, ACTIONS))
        self.means = rng.random((STATES, ACTIONS))
        first = rng.dirichlet(np.ones(ACTIONS), STATES)
        second = first.copy()
        second[0] = second[0][::-1]
        self.policies = first, second

    def value(self, policy):
        """J from uniform starts, and the discounted visits (S, A)."""
        steps = np.einsum("sap,pb->sapb", self.following, policy).reshape(STATES * ACTIONS, -1)
        inverse = np.linalg.inv(np.eye(STATES * ACTIONS) - GAMMA * steps)
        start = (policy / STATES).reshape(-1)
        return float(start @ inverse @ self.means.reshape(-1)), (start @ inverse).reshape(STATES, ACTIONS)

    def log(self, rows, seed):
        rng = np.random.default_rng(seed)
        s, a = rng.integers(0, STATES, rows), rng.integers(0, ACTIONS, rows)
        after = np.array([rng.choice(STATES, p=p) for p in self.following[s, a]])
        rewards = (rng.random(rows) < self.means[s, a]).astype(float)
        return bondic.Transitions(s[:, None], a, rewards, after[:, None], np.zeros(rows, bool))

    def questions(self, log):
        starts = bondic.InitialStates.exact(np.arange(STATES)[:, None])
        ask = {"gamma": GAMMA, "reward_range": (0, 1), "may_terminate": False}
        return [bondic.make_problem(log, lambda s, p=p: p[s[:, 0].astype(int)], starts, **ask) for p in self.policies]


def ends(question, weights, rate, delta):
    """(13) and (15) for sum_k c_k J_k at the worst e_k of the box, around the middle of the value range.

    v^k_i = weights[k] at x_i, λ_i = rate, all fixed before the rows. W_i = sum_k c_k v^k_i Y^k_i lies within `spread` of what is
    earned at once, and is compared with the middle of its range (constants of V cancel).
    """
    values = range_of(question.parts[0].columns.terms)
    half, middle = values.width / 2, (values.low + values.high) / 2
    earned, total_rate, prices = Enclosure(0.0), 0.0, {"upper": 0.0, "lower": 0.0}
    measures = [np.zeros((STATES, ACTIONS)) for _ in question.parts]
    for batches in question.batches():
        x = batches[0].logged[:, 0].astype(int), batches[0].slots
        v = np.array([part.coefficient * own[x] for part, own in zip(question.parts, weights, strict=True)])
        together, spread = v.sum(axis=0), GAMMA * np.abs(v).sum(axis=0) * half
        assert np.all(np.abs(together) / 2 + spread < 0.99)  # no outcome loses everything
        apart = together * batches[0].rewards - together / 2
        for end, sign in (("upper", -1.0), ("lower", 1.0)):
            prices[end] += upper_sum(np.maximum(loss(sign * (apart - spread)), loss(sign * (apart + spread))))
        earned, total_rate = earned + certified_dot(together, batches[0].rewards), total_rate + rate * len(batches[0])
        for own, batch, measure in zip(v, batches, measures, strict=True):
            np.subtract.at(measure, x, own)
            after = batch.next
            np.add.at(measure, after.points[:, 0].astype(int), GAMMA * own[after.rows, None] * after.weights)
    bias = 0.0
    for part, measure in zip(question.parts, measures, strict=True):
        start = part.columns.initial
        np.add.at(measure, start.points[:, 0].astype(int), part.coefficient * total_rate / STATES * start.weights)
        earned, bias = earned + middle * float(measure.sum()), bias + half * float(np.abs(measure).sum())
    price = {end: tail_term(delta) + noise + bias for end, noise in prices.items()}
    return ((earned - price["lower"]) / total_rate).lower, ((earned + price["upper"]) / total_rate).upper


def answer(world, seed, parts, rows=8000, delta=0.05):
    """The interval of one policy, or of their difference (None); weights proportional to the discounted visits."""
    questions = world.questions(world.log(rows, seed))
    question = Question.difference(*questions) if parts is None else Question.value(questions[parts])
    which = (0, 1) if parts is None else (parts,)
    rate = 0.03
    return ends(question, [rate * ACTIONS * STATES * world.value(world.policies[k])[1] for k in which], rate, delta)


def test_a_difference_of_two_policies_is_bounded_and_shorter_than_two_intervals():
    world = World(1)
    truths = [world.value(policy)[0] for policy in world.policies]
    missed = 0
    for seed in range(20):
        low, high = answer(world, seed, None)
        missed += not low <= truths[0] - truths[1] <= high
        if seed < 3:
            singles = [answer(world, seed, k, delta=0.025) for k in (0, 1)]
            apart = singles[0][1] - singles[1][0] - (singles[0][0] - singles[1][1])
            assert high - low < 0.8 * apart
    assert missed <= 4  # two tails of 0.05; 5 or more of 20 have a probability below 0.05


def test_a_difference_that_forgets_its_second_part_misses():
    """The control: the noise of one policy alone does not cover the difference from another."""
    world = World(1)
    truths = [world.value(policy)[0] for policy in world.policies]
    low, high = answer(world, 0, 0)
    assert not low <= truths[0] - truths[1] <= high


def test_one_policy_is_the_case_of_one_part():
    first, second = World(0).questions(World(0).log(50, 0))
    assert Question.value(first).columns is first
    assert Question.value(first).limits == range_of(first.terms)
    both = Question.difference(first, second)
    assert both.limits.low == pytest.approx(-2.0)
    assert both.limits.high == pytest.approx(2.0)
    with pytest.raises(InvalidInput, match="one policy"):
        _ = both.columns
    with pytest.raises(InvalidInput, match="same rows"):
        Question.difference(first, second.select(10))
