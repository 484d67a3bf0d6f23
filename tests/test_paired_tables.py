"""The difference of two policies on a table: two layers of cells, one tail, one vector event (Lemmas 60 to 62).

Events are made to hold *just so*: probabilities are those at which the true sums meet the bounds with equality. Then the
true difference has to lie between the ends, on every log, with any weights, rates, references, forecasts and clips.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from bondic import InitialStates, Table, Transitions, make_problem, verify
from bondic.core.betting import bet_cost
from bondic.core.bounded import Between
from bondic.core.cells import ends, localize
from bondic.core.cells.allowance import NOTHING_ALLOWED, CellAllowance
from bondic.core.cells.ends import CellBound, EndWeights
from bondic.core.cells.forecasts import EarlierRows
from bondic.core.cells.intervals import Intervals
from bondic.core.cells.localize import CellTails, Events, Located, VectorEvent
from bondic.core.cells.paired import Paired, PairedCells
from bondic.core.cells.tally import CellShape, tally
from bondic.core.errors import InvalidInput, NumericalError, VerificationError
from bondic.core.question import Question
from bondic.core.terms import range_of
from bondic.decisions.difference import difference_interval
from bondic.rows.paired import PairedRows

MIN_LOG = 1e-3


@dataclass
class World:
    """A finite decision process whose episodes may end, and two policies that agree at some states."""

    following: np.ndarray  # (S, A, S), at most 1 in all
    reward: np.ndarray  # (S, A): the probability of a reward of 1
    policies: tuple[np.ndarray, np.ndarray]
    gamma: float

    @staticmethod
    def random(rng, states, actions, gamma):
        following = (
            rng.dirichlet(np.full(states, 0.3), (states, actions))
            * rng.choice([1.0, 0.8], (states, actions))[..., None]
        )
        first, second = rng.dirichlet(np.ones(actions), (2, states))
        second = np.where(rng.random(states)[:, None] < 0.6, first, second)
        return World(following, rng.random((states, actions)), (first, second), gamma)

    def q(self, policy):
        states, actions = self.reward.shape
        moves = np.einsum("sat,tb->satb", self.following, policy).reshape(states * actions, -1)
        return np.linalg.solve(np.eye(states * actions) - self.gamma * moves, self.reward.reshape(-1)).reshape(
            states, actions
        )

    def difference(self, starts):
        one, two = ((policy * self.q(policy)).sum(axis=1) for policy in self.policies)
        return float(starts @ (one - two))

    def log(self, rng, count, favorite=None):
        states, actions = self.reward.shape
        state, action = rng.integers(states, size=count), rng.integers(actions, size=count)
        if favorite is not None:  # a behavior that depends on what it has seen is allowed
            action = np.where(rng.random(count) < 0.7, favorite[state], action)
        ends = 1.0 - self.following.sum(axis=2)
        moves = np.cumsum(np.concatenate([self.following, ends[..., None]], axis=2), axis=2)
        after = (rng.random(count)[:, None] > moves[state, action]).sum(axis=1).clip(0, states)
        reward = (rng.random(count) < self.reward[state, action]).astype(float)
        over = after == states
        return Transitions(
            state[:, None].astype(float), action, reward, np.where(over, 0, after)[:, None].astype(float), over
        )

    def problems(self, log, starts=None):
        states = self.reward.shape[0]
        initial = InitialStates.exact(np.arange(states)[:, None].astype(float), starts)
        asking = {"gamma": self.gamma, "reward_range": (0, 1), "initial": initial, "accept": ["unseen-actions"]}
        return [make_problem(log, answers(policy), **asking) for policy in self.policies]


def answers(policy):
    return lambda states: policy[states[:, 0].astype(int)]


def random_bound(rng, world, problems, clip, reference=None):
    """Arbitrary plans: blocks, references, forecasts, rates and weights."""
    rows = PairedRows.of(*problems)
    states, actions = world.reward.shape
    cells = PairedCells(np.arange(states)[:, None].astype(float), clip)
    stops = (*sorted({int(k) for k in rng.integers(1, rows.rows.stop, 2)}), rows.rows.stop)
    size, limits = cells.size(actions), cells.limits(rows)
    shape = CellShape(len(stops), cells.atoms(rows), cells.layers)
    high = 1 / (1 - world.gamma)
    truth = np.concatenate(
        [world.q(world.policies[0]) - world.q(world.policies[1]), world.q(world.policies[1])]
    ).reshape(-1)
    reference = truth + rng.normal(0, rng.choice([0.0, 0.1, 1.0]) if reference is None else reference, size)
    counted = tally(cells.parts(rows, stops), shape, world.gamma, reference)
    past = EarlierRows(
        np.full(size, 2.0), rng.uniform(-1, 1, size), np.arange(size), rng.integers(0, 2 * states, size) % states
        + states * (np.arange(size) >= size // 2), np.full(size, rng.random()) * 2,
    )  # fmt: skip
    labels = cells.labels(counted, rows, stops, past, (0, *range(1, len(stops)))[: len(stops)])
    layer = np.repeat(rng.uniform(0.2, 3.0, 2), size // 2)
    event_shape = layer * rng.uniform(0.5, 1.5, size)
    most = 0.99 / np.linalg.norm((event_shape * limits.width).reshape(2, -1), axis=0).max()
    vector = VectorEvent(event_shape, tuple(most * rng.uniform(0.01, 1.0, 2)))
    single = CellTails(rng.uniform(0, 0.99, (2, size)) / limits.width * (rng.random((2, size)) < 0.8))
    together = rng.dirichlet(np.ones(2), (len(stops), size // 2)).transpose(0, 2, 1).reshape(len(stops), size)
    weights = 0.99 * rng.uniform(-1, 1, (len(stops), size)) * together / limits.width
    if rng.random() < 0.5:  # signs of a plan that balances something
        weights = np.abs(weights)
    tails = {sign: EndWeights(sign * weights, float(rng.uniform(0.1, 1.0) * high)) for sign in (1.0, -1.0)}
    events = Events(vector, 0.5, single, 0.5)
    return (
        rows,
        cells,
        stops,
        truth,
        CellBound(counted, labels, events, tails, {1.0: 0.5, -1.0: 0.5}, cells.starts(rows), limits),
    )


def true_rows(rows, cells, stops, truth, bound, world, clip):
    """Z and Δ of every row of the log in both layers, (layers, n), with block and cell: slow, by the definitions."""
    parts = list(cells.parts(rows, stops))
    block, cell = np.concatenate([p.block for p in parts]), np.concatenate([p.cell for p in parts])
    outcome, values = [], bound.tally.shape.atoms @ truth
    for part in parts:
        ahead = np.zeros(part.cell.size)
        ahead[part.owner] = values[part.atom]
        outcome.append(part.outcome + world.gamma * ahead)
    outcome = np.concatenate(outcome)
    size, apart = truth.size, 1 / (1 - world.gamma)
    eras = bound.labels.cell.size // size
    label = np.minimum(block, eras - 1) * size + cell
    f = truth - bound.tally.reference
    forecast = bound.labels.rows.reference + world.gamma * bound.labels.expected.dense @ (bound.tally.shape.atoms @ f)
    reach = min(clip, world.gamma * apart)
    first = cell < size // 2
    cut = np.where(first, np.clip(forecast[label], -reach, reach), np.clip(forecast[label], 0.0, apart))
    return block, cell, truth[cell] - outcome, outcome - cut


def just_so(bound, block, cell, noise, deviation):
    """Probabilities at which every event holds with equality."""
    half = cell.size // 2  # the rows of the second layer follow those of the first
    count = bound.tally.shape.cells
    vector, worst = bound.events.vector, MIN_LOG
    for rate in vector.rates:
        sums = np.bincount(cell, rate * vector.shape[cell] * noise, minlength=count)
        each = (rate * vector.shape[cell] * deviation).reshape(2, half)
        worst = max(worst, np.linalg.norm(sums) - float(bet_cost(-np.linalg.norm(each, axis=0)).sum()))
    single, alone = bound.events.cells.rates, MIN_LOG
    for rate in single:
        sums = np.abs(np.bincount(cell, noise, minlength=count)) * rate
        paid = np.bincount(cell, bet_cost(-rate[cell] * np.abs(deviation)), minlength=count)
        alone = max(alone, float((sums - paid)[rate > 0].max(initial=0.0)))
    rates = max(int((single > 0).sum()), 1)
    tails = {}
    for sign, tail in bound.tails.items():
        weight = tail.weights[block, cell]
        joint = (weight * deviation).reshape(2, half).sum(axis=0)
        tails[sign] = max(MIN_LOG, float(weight @ noise) - float(bet_cost(-joint).sum()))
    events = replace(
        bound.events,
        vector_probability=2 * len(vector.rates) * math.exp(-worst) * (1 - 1e-12),
        cells_probability=2 * rates * math.exp(-alone) * (1 - 1e-12),
    )
    return replace(
        bound, events=events, probabilities={sign: math.exp(-own) * (1 - 1e-12) for sign, own in tails.items()}
    )


@pytest.mark.filterwarnings("ignore:gamma = 0 counts")
@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9, 0.98])
@pytest.mark.parametrize("seed", range(6))
def test_truth_lies_between_the_ends_where_the_events_hold(gamma, seed):
    rng = np.random.default_rng([seed, int(100 * gamma)])
    states, actions = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    world = World.random(rng, states, actions, gamma)
    log = world.log(rng, int(rng.integers(20, 400)), rng.integers(0, actions, states) if seed % 2 else None)
    problems = world.problems(log)
    for share in (2.0, 0.5, 0.05):
        clip = share / (1 - gamma)
        rows, cells, stops, truth, bound = random_bound(rng, world, problems, clip)
        block, cell, noise, deviation = true_rows(rows, cells, stops, truth, bound, world, clip)
        # parts of several batches would interleave the layers
        assert len(list(rows.batches())) == 1
        bound = just_so(bound, block, cell, noise, deviation)
        located = bound.locate(NOTHING_ALLOWED)
        f = truth - bound.tally.reference
        assert np.all(f >= located.intervals.values.low - 1e-9)
        assert np.all(f <= located.intervals.values.high + 1e-9)
        assert np.all(np.abs(f) <= located.supports(np.eye(f.size)) + 1e-9)
        true = world.difference(np.full(states, 1 / states))
        for sign, end in bound.ends(located).items():
            assert sign * true <= sign * end.value.mid + end.spread + 1e-9


def known_exactly(bound):
    """E is the truth alone: what is paid is then what the rows themselves cost."""
    ground, size = bound.ground, bound.tally.shape.cells
    nothing, allowance = np.zeros(size), CellAllowance.of(NOTHING_ALLOWED, size)
    start = localize._FixedPoint(ground, allowance)
    start._clip(np.zeros(bound.labels.cell.size))  # f = 0 at the truth
    intervals = Intervals(ground.system, Between(nothing, nothing))
    return Located(ground, (), intervals, allowance, start.single, start.single, 0.0)


def paid_for(seed, change=lambda located: located):
    """What `ends` pays for the rows, and what they cost, for the upper end; and the same for the vector event."""
    rng = np.random.default_rng(seed)
    world = World.random(rng, 3, 2, 0.9)
    problems, clip = world.problems(world.log(rng, 300)), 0.3
    rows, cells, stops, truth, bound = random_bound(rng, world, problems, clip, 0.0)
    block, cell, _, deviation = true_rows(rows, cells, stops, truth, bound, world, clip)
    weights = np.abs(bound.tails[1.0].weights) * np.sign(
        np.bincount(cell, deviation, minlength=truth.size)
    )  # they add up
    located = change(known_exactly(bound))
    joint = (weights[block, cell] * deviation).reshape(2, -1).sum(axis=0)
    paid, _ = ends._paid(located, weights, np.zeros(truth.size), 0.0)
    vector = bound.events.vector
    shape = vector.shape[cell]
    each = np.linalg.norm((shape * deviation).reshape(2, -1), axis=0)
    radius = bound.ground.radius(0.5, float((shape**2 * deviation**2).sum()), located.single)
    needed = min((math.log(2 * len(vector.rates) / 0.5) + float(bet_cost(-r * each).sum())) / r for r in vector.rates)
    return paid, float(bet_cost(-joint).sum()), radius, needed


SEEDS = range(20)


def test_what_is_paid_covers_what_rows_cost():
    for seed in SEEDS:
        paid, cost, radius, needed = paid_for(seed)
        assert paid >= cost * (1 - 1e-12)
        assert radius >= needed * (1 - 1e-12)


def test_layers_charged_without_shares_are_wrong(monkeypatch):
    monkeypatch.setattr(ends, "_shares", lambda _, weights: np.ones_like(weights))
    assert any(paid < cost * (1 - 1e-6) for paid, cost, _, _ in map(paid_for, SEEDS))


def test_a_clip_that_costs_nothing_is_wrong():
    def change(located):
        return replace(located, single=np.zeros_like(located.single), farthest=np.zeros_like(located.farthest))

    assert any(paid < cost * (1 - 1e-6) for paid, cost, _, _ in (paid_for(seed, change) for seed in SEEDS))


def test_a_width_of_one_value_is_wrong(monkeypatch):
    """[0, γB] as the range of a difference."""
    right = PairedCells.limits

    def narrow(self, rows):
        found = right(self, rows)
        width = np.array(found.width)
        width[: width.size // 2] = 0.1
        return replace(found, width=width)

    monkeypatch.setattr(PairedCells, "limits", narrow)
    with pytest.raises(NumericalError, match="can lose all wealth"):  # by the true deviations of some row
        list(map(paid_for, SEEDS))


def test_the_layers_solve_the_bellman_equations_of_the_difference():
    rng = np.random.default_rng(5)
    world = World.random(rng, 4, 3, 0.9)
    rows = PairedRows.of(*world.problems(world.log(rng, 200)))
    cells = PairedCells(np.arange(4.0)[:, None], 1.0)
    one, two = (world.q(policy) for policy in world.policies)
    truth = np.concatenate([(one - two).reshape(-1), two.reshape(-1)])
    ahead = cells.atoms(rows) @ truth
    values = [(policy * q).sum(axis=1) for policy, q in zip(world.policies, (one, two), strict=True)]
    np.testing.assert_allclose(ahead, np.concatenate([values[0] - values[1], values[1]]), atol=1e-12)
    starts = cells.starts(rows)
    assert starts.cells @ truth == pytest.approx(world.difference(np.full(4, 0.25)), abs=1e-12)


def test_one_bet_on_both_layers_by_enumeration():
    """(26), and the joint norm of the vector event, on a grid; with shares that add up to more than 1 it fails."""
    grid = np.linspace(-0.45, 0.45, 13)
    x, y, share = (own.reshape(-1) for own in np.meshgrid(grid, grid, [0.5, 0.6, 0.75], indexing="ij"))
    keep = (np.abs(x / share) < 1) & (np.abs(y / (1 - share)) < 1)
    x, y, share = x[keep], y[keep], share[keep]
    paid = share * bet_cost(x / share) + (1 - share) * bet_cost(y / (1 - share))
    assert np.all(bet_cost(x + y) <= paid + 1e-12)
    assert np.any(bet_cost(x + y) > bet_cost(x) + bet_cost(y) + 1e-3)  # one by one, without shares, is not enough
    norm = np.hypot(x, y)
    assert np.any(bet_cost(-norm) > bet_cost(-np.abs(x)) + bet_cost(-np.abs(y)) + 1e-6)  # nor are norms


def test_what_a_clip_adds():
    rng = np.random.default_rng(3)
    outcome, forecast, clip = rng.uniform(-3, 3, (3, 10_000))
    clip = np.abs(clip)
    cut = np.clip(forecast, -clip, clip)
    assert np.all(np.abs(outcome - cut) <= np.abs(outcome - forecast) + np.maximum(np.abs(forecast) - clip, 0) + 1e-12)
    assert np.any(np.abs(outcome - cut) > np.abs(outcome - forecast) + 1e-3)  # without it the reading is wrong


@pytest.fixture(scope="module")
def compared():
    rng = np.random.default_rng(11)
    world = World.random(rng, 6, 2, 0.8)
    log = world.log(rng, 20_000)
    return world, log, world.problems(log)


def test_difference_of_tables_is_shorter_and_covers(compared):
    world, _, (first, second) = compared
    found = Table().run(first, 0.1, None, against=second)
    true = world.difference(np.full(6, 1 / 6))
    apart = [Table().run(one, 0.05, None) for one in (first, second)]
    assert found.low <= true <= found.high
    assert found.high - found.low < 0.6 * sum(one.high - one.low for one in apart)
    assert found.is_difference
    assert difference_interval(first, answers(world.policies[1]), alpha=0.1).method == "table"


def test_certificate_of_a_difference_is_checked_and_replayed(compared):
    world, log, (first, second) = compared
    found = Table().run(first, 0.1, None, against=second)
    one, two = (answers(policy) for policy in world.policies)
    again = verify(found.certificate, log, one, against=two, replay=True)
    assert (again.low, again.high) == (found.low, found.high)
    with pytest.raises(VerificationError, match="policy"):
        verify(found.certificate, log, two, against=one)
    proof = found.proof
    wrong = replace(proof, cells=replace(proof.cells, clip=proof.cells.clip / 4))
    narrower = wrong.claims(found_question(first, second, proof), None)
    assert narrower.ends[0].bound != proof.claims(found_question(first, second, proof), None).ends[0].bound


def found_question(first, second, proof):
    return Question.difference(*(one.select(*proof.estimand.rows) for one in (first, second)))


def test_sampled_starts_of_a_difference(compared):
    """Starts of episodes are a sample: their error is that of V_1 - V_2, whose range is twice as wide."""
    world, _, _ = compared
    rng = np.random.default_rng(2)
    log = world.log(rng, 20_000)
    starts = rng.integers(6, size=3000)[:, None].astype(float)
    asking = {"gamma": world.gamma, "reward_range": (0, 1), "initial": InitialStates.sample(starts)}
    first, second = (make_problem(log, answers(policy), **asking) for policy in world.policies)
    found = Table().run(first, 0.1, None, against=second)
    assert found.low <= world.difference(np.full(6, 1 / 6)) <= found.high
    assert found.high - found.low < 0.5


def test_what_cannot_be_compared_on_a_table(compared):
    world, log, (first, _) = compared
    other = make_problem(
        log, answers(world.policies[1]), gamma=0.8, reward_range=(0, 1), initial=InitialStates.exact([[0.0]])
    )
    with pytest.raises(InvalidInput, match="same starts"):
        Paired(first, other)
    with pytest.raises(InvalidInput, match="positive number"):
        PairedCells(np.zeros((1, 1)), 0.0)


def test_one_policy_is_the_case_of_one_part(compared):
    _, _, (first, second) = compared
    assert Question.value(first).columns is first
    assert Question.value(first).limits == range_of(first.terms)
    together = Question.difference(first, second)
    assert together.limits.low == pytest.approx(-5.0)
    assert together.limits.high == pytest.approx(5.0)
    with pytest.raises(InvalidInput, match="one policy"):
        _ = together.columns
    with pytest.raises(InvalidInput, match="same rows"):
        Question.difference(first, second.select(10))
