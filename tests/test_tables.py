"""Tables without coordinates: plans for any number of pairs, their columns, both ends, and who decides to use them."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import bondic
from bondic.core.certificate.asked import Asked
from bondic.core.claims import ErrorBudget
from bondic.core.classes.basis import positions
from bondic.core.classes.box import Box
from bondic.core.rounding import Enclosure
from bondic.core.sequential.bound import Evaluation
from bondic.core.sequential.plan import FULL_BET
from bondic.core.sequential.proof import SequentialProof, claims_of
from bondic.core.sequential.table import apply_table, evaluate_table
from bondic.core.sequential.table_plan import TableBlock, TablePlan, expected, weights_of
from bondic.core.terms import range_at_all_times
from bondic.search.sequential.blocks import CUTS
from bondic.search.sequential.codes import make_codes
from bondic.search.sequential.tables import finer, make_table_plan, predict_table_length
from sequential_cases import World


def EXACT(_end, _value):
    return Enclosure(0.0)


TAILS = {"lower": 0.05, "upper": 0.05}


def g(y):
    return y - math.log1p(y)


def random_plan(world, rows, rng, *, stops, bold=1.0):
    """Models, weights and budgets from nowhere: implications do not ask where a plan comes from."""
    batch = rows.whole()
    states = np.unique(np.concatenate([batch.logged, batch.next.points]), axis=0)
    states = states[rng.permutation(len(states))][: max(2, len(states) - 1)]  # one state is in no plan
    slots = world.slots
    listed = rng.permutation(len(states) * slots)[: rng.integers(len(states), len(states) * slots + 1)]
    width = float(np.ptp(range_at_all_times(rows.terms).cut()))
    blocks = []
    for stop in stops:
        count = int(rng.integers(listed.size // 2, listed.size + 1))
        model = rng.dirichlet(np.full(len(states), 0.3), count) * rng.uniform(0, 1.2, (count, 1))
        model[model < 0.05] = 0.0
        at, following = np.nonzero(model)
        firsts = np.concatenate([[0], np.cumsum(np.bincount(at, minlength=count))])
        weights = rng.normal(size=count) * bold / width
        budgets = np.abs(weights) * rng.uniform(0, 6, count)
        predicted = rng.normal(size=count) * width / 4
        rate = float(rng.uniform(0.1, 1) / width)
        blocks.append(
            TableBlock(int(stop), rate, predicted, weights, budgets, firsts, following.astype(np.int64), model[at, following])
        )  # fmt: skip
    answers = rng.dirichlet(np.ones(slots), len(states))
    return TablePlan(states, answers, listed // slots, listed % slots, tuple(blocks))


class Twin:
    """The same by plain loops over dictionaries of pairs."""

    def __init__(self, world, rows, box, plan):
        self.world, self.rows, self.box, self.plan = world, rows, box, plan
        self.batch = rows.whole()
        self.names = [tuple(state) for state in plan.states.tolist()]
        self.columns = [self._row(i) for i in range(len(self.batch))]

    def _block(self, i):
        return next(block for block in self.plan.blocks if self.batch.log_rows[i] < block.stop)

    def _number(self, i):
        key = (tuple(self.batch.logged[i].tolist()), int(self.batch.slots[i]))
        listed = [(self.names[place], int(slot)) for place, slot in zip(self.plan.places, self.plan.slots, strict=True)]
        return listed.index(key) if key in listed else None

    def next_measure(self, i):
        cloud = self.batch.next
        return {
            (tuple(cloud.points[j].tolist()), a): float(cloud.weights[j, a])
            for j in np.flatnonzero(cloud.rows == i)
            for a in range(self.world.slots)
        }

    def _row(self, i):
        block, number = self._block(i), self._number(i)
        if number is None or number >= block.weights.size:
            return 0.0, 0.0, {}
        before = sum(self._block(j) is block and self._number(j) == number for j in range(i))
        size = abs(block.weights[number])
        left = min(max(block.budgets[number] - before * size, 0.0), size)
        low, high = self.limits(i)
        v = math.copysign(min(left, FULL_BET / (high - low)), block.weights[number])
        kappa = {}
        for k in range(block.firsts[number], block.firsts[number + 1]):
            s = block.following[k]
            for a in range(self.world.slots):
                kappa[self.names[s], a] = float(block.shares[k] * self.plan.answers[s, a])
        return v, float(block.predicted[number]), kappa

    def limits(self, i):
        time = 0 if self.batch.times is None else int(self.batch.times[i])
        found = bondic.core.terms.range_of(self.rows.terms, time)
        return found.low, found.high

    def middle(self, i):
        return (self.world.center or 0.0) * sum(self.next_measure(i).values())

    def delta(self, i, e):
        """Y - clip(ŷ) for one e."""
        _, predicted, kappa = self.columns[i]
        outcome = self.batch.rewards[i] + self.world.gamma * (
            self.middle(i) + sum(w * e(x) for x, w in self.next_measure(i).items())
        )
        guess = predicted + self.world.gamma * sum(w * e(x) for x, w in kappa.items())
        return outcome - min(max(guess, self.limits(i)[0]), self.limits(i)[1])

    def imbalance(self, rate):
        found = Counter()
        initial, states = self.rows.initial, self.rows.initial_states
        for j in range(len(initial.points)):
            for a in range(self.world.slots):
                weight = initial.weights[j, a] * states.weights[initial.rows[j]]
                found[tuple(initial.points[j].tolist()), a] += rate * weight
        for i in range(len(self.batch)):
            v = self.columns[i][0]
            found[tuple(self.batch.logged[i].tolist()), int(self.batch.slots[i])] -= v
            for x, w in self.next_measure(i).items():
                found[x] += self.world.gamma * v * w
        return found

    def apart(self, i):
        """The largest |x' - κ|_1, entry by entry."""
        ahead, kappa = self.next_measure(i), self.columns[i][2]
        return sum(abs(ahead.get(x, 0.0) - kappa.get(x, 0.0)) for x in {*ahead, *kappa})


def case(seed, horizon=None, center=0.4, bold=2.0):
    rng = np.random.default_rng(seed)
    world = World("table", rng, n=24, horizon=horizon, center=center, slots=int(rng.integers(1, 4)), ending=0.2)
    rows = world.rows(rng.normal(size=24) * 0.3)
    plan = random_plan(world, rows, rng, stops=(7, 15, 24), bold=bold)
    box = world.ball(rows.layout)
    return world, rows, box, plan, Twin(world, rows, box, plan)


class TestEnds:
    @pytest.mark.parametrize("seed", range(12))
    @pytest.mark.parametrize("horizon", [None, 3])
    def test_columns_are_those_of_plain_loops(self, seed, horizon):
        world, rows, box, plan, twin = case(seed, horizon)
        found = apply_table(rows, box, plan)
        assert found.weights == pytest.approx([v for v, _, _ in twin.columns], abs=1e-15)
        assert np.count_nonzero(found.weights) > 0
        for i in np.flatnonzero(found.weights):
            truth = twin.delta(i, lambda x: float(world.e(np.array([x[0]]), np.array([x[1]]))[0]))
            assert found.deviations.low[i] <= truth <= found.deviations.high[i]

    @pytest.mark.parametrize("seed", range(12))
    @pytest.mark.parametrize("horizon", [None, 3])
    def test_ends_hold_for_every_function_of_the_box(self, seed, horizon):
        """At any e:  Λ end >= base + <e, μ> + log + Σ g, and at the true one base + <e, μ> = Λ J* - Σ v Z."""
        world, rows, box, plan, twin = case(seed, horizon)
        rng, found = np.random.default_rng(seed), apply_table(rows, box, plan)
        off = twin.imbalance(found.rate)
        own = {x: float(world.e(np.array([x[0]]), np.array([x[1]]))[0]) for x in off}
        candidates = [own, *({x: float(box.radius * rng.choice([-1, 1])) for x in off} for _ in range(5))]
        worst = {x: box.radius * math.copysign(1.0, w) for x, w in off.items()}
        candidates += [worst, {x: -value for x, value in worst.items()}]
        keyed = [lambda x, e=e: e.get(x, 0.0) for e in candidates]
        residual = found.weights @ found.residual
        for claim in evaluate_table(rows, box, plan, TAILS, EXACT).claims:
            if not claim.uses_log:
                continue
            base = claim.sign * (found.rate * (world.center or 0.0) - residual)
            for e, at in zip(candidates, keyed, strict=True):
                prices = [g(-claim.sign * twin.columns[i][0] * twin.delta(i, at)) for i in range(len(twin.batch))]
                total = base + claim.sign * sum(w * e[x] for x, w in off.items()) + math.log(20.0) + math.fsum(prices)
                assert claim.sign * claim.bound * found.rate >= total * (1 - 1e-12) - 1e-12

    @pytest.mark.parametrize("seed", range(6))
    def test_nothing_is_lost_but_roundings(self, seed):
        _, rows, box, plan, twin = case(seed, bold=0.5)
        found = apply_table(rows, box, plan)
        bias = box.radius * sum(map(abs, twin.imbalance(found.rate).values()))
        for claim in evaluate_table(rows, box, plan, TAILS, EXACT).claims:
            if claim.uses_log:
                assert claim["bias"].mid * found.rate == pytest.approx(bias, rel=1e-9)
        for i in np.flatnonzero(found.weights):
            v, predicted, _ = twin.columns[i]
            middle = twin.batch.rewards[i] + rows.gamma * twin.middle(i) - predicted
            half = rows.gamma * box.radius * twin.apart(i)
            assert found.deviations.high[i] <= max(middle + half, 0.0) + 1e-9 or found.deviations.high[i] <= half + 1e-9
            assert v != 0

    def test_a_world_without_chance_pays_for_unseen_events_alone(self):
        problem, _ = ring(states=5, rows=2000)
        found = run(problem, bondic.Sequential(coordinates=False))
        assert found.proof.plan is None
        terms = found.terms()["upper"]
        assert terms["noise"] < 1e-9
        assert terms["rare events"] > 0

    def test_blocks_that_end_early_are_refused(self):
        _, rows, box, plan, _ = case(0)
        with pytest.raises(bondic.InvalidInput, match="end before the rows"):
            apply_table(rows, box, replace(plan, blocks=plan.blocks[:2]))

    @pytest.mark.parametrize(
        "change",
        [
            lambda b: replace(b, rate=0.0),
            lambda b: replace(b, weights=b.weights * math.nan),
            lambda b: replace(b, budgets=b.budgets[:-1]),
            lambda b: replace(b, firsts=b.firsts[::-1].copy()),
            lambda b: replace(b, following=b.following[::-1].copy() + 99),
        ],
    )
    def test_a_block_that_is_not_whole_is_refused(self, change):
        plan = case(1)[3]
        with pytest.raises(bondic.InvalidInput, match="not complete"):
            replace(plan, blocks=(change(plan.blocks[0]), *plan.blocks[1:]))

    def test_states_and_pairs_are_different(self):
        plan = case(1)[3]
        with pytest.raises(bondic.InvalidInput, match="not all different"):
            replace(plan, states=np.zeros_like(plan.states))
        with pytest.raises(bondic.InvalidInput, match="not all different"):
            replace(plan, places=plan.places * 0, slots=plan.slots * 0)


def simple_block(weights, budgets):
    k = len(weights)
    none = np.zeros(0)
    firsts, following = np.zeros(k + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    return TableBlock(9, 1.0, np.zeros(k), np.array(weights), np.array(budgets), firsts, following, none)


class TestColumns:
    def test_a_budget_is_used_up(self):
        block = simple_block([0.2, -0.3], [0.5, 10.0])
        pairs = np.array([0, 1, 0, 5, -1, 0, 0, 1])
        found = weights_of(block, pairs, np.ones(8), np.zeros(6, dtype=np.int64))
        assert found == pytest.approx([0.2, -0.3, 0.2, 0.0, 0.0, 0.1, 0.0, -0.3])

    def test_in_parts_as_in_one(self):
        rng = np.random.default_rng(0)
        block = simple_block(rng.normal(size=4), np.abs(rng.normal(size=4)) * 5)
        pairs = rng.integers(-1, 6, 60)
        whole = weights_of(block, pairs, np.ones(60), np.zeros(6, dtype=np.int64))
        used = np.zeros(6, dtype=np.int64)
        parts = [weights_of(block, pairs[k : k + 7], np.ones(len(pairs[k : k + 7])), used) for k in range(0, 60, 7)]
        assert np.array_equal(whole, np.concatenate(parts))

    def test_no_bet_exceeds_the_range(self):
        block = simple_block([5.0], [100.0])
        found = weights_of(block, np.zeros(3, dtype=np.int64), np.array([1.0, 10.0, 0.1]), np.zeros(1, dtype=np.int64))
        assert np.all(found * [1.0, 10.0, 0.1] <= 0.995)

    def test_what_is_foreseen_exactly_is_not_apart(self):
        answers = np.array([[0.3, 0.7], [1.0, 0.0]])
        block = replace(
            simple_block([1.0], [1.0]), firsts=np.array([0, 1]), following=np.array([0]), shares=np.array([1.0])
        )
        zero, one = np.array([0]), np.array([1])
        assert expected(block, answers, zero, zero, answers[:1], 0.0).apart[0] < 1e-13
        assert expected(block, answers, zero, one, answers[1:], 0.0).apart[0] == pytest.approx(2.0)
        assert expected(block, answers, zero, -one, np.zeros((1, 2)), 0.0).apart[0] == pytest.approx(1.0)
        other = np.array([[0.7, 0.3]])  # a policy that answers otherwise than the plan was told
        assert expected(block, answers, zero, zero, other, 0.0).apart[0] == pytest.approx(0.8)

    def test_positions(self):
        known = np.array([[2.0, 0.0], [1.0, 5.0], [-0.0, 1.0]])
        points = np.array([[1.0, 5.0], [2.0, 1.0], [0.0, 1.0], [2.0, 0.0]])
        assert positions(known, points).tolist() == [1, -1, 2, 0]
        assert positions(known, points[:0]).size == 0


def ring(states=5, rows=600, slots=2, chance=0.0, seed=0, length=25, starts="exact"):
    """A ring of names: action 0 stays, any other goes on; with a `chance` it goes anywhere."""
    rng = np.random.default_rng([seed, states, rows])
    following = np.zeros((states, slots, states))
    for s in range(states):
        following[s, 0, s] = following[s, 1:, (s + 1) % states] = 1.0
    following = (1 - chance) * following + chance / states
    rewards = rng.uniform(size=(states, slots))
    target = np.full((states, slots), 0.1 / max(slots - 1, 1))
    target[:, -1] = 0.9
    moves = np.einsum("sat,tb->satb", following, target).reshape(states * slots, -1)
    q = np.linalg.solve(np.eye(states * slots) - 0.8 * moves, rewards.reshape(-1)).reshape(states, slots)
    s, a, after, now = [], [], [], 0
    for k in range(rows):
        now = int(rng.integers(states)) if k % length == 0 else now
        action = int(rng.integers(slots))
        s.append(now)
        a.append(action)
        now = int(rng.choice(states, p=following[now, action]))
        after.append(now)
    s, a, after = np.array(s), np.array(a), np.array(after)
    begin = np.arange(rows) % length == 0
    log = bondic.Transitions(
        s[:, None].astype(float), a, rewards[s, a], after[:, None].astype(float), np.zeros(rows, dtype=bool),
        truncations=np.roll(begin, -1), episode_ids=np.cumsum(begin), timesteps=np.arange(rows) % length,
    )  # fmt: skip
    names = np.arange(float(states))[:, None]
    initial = {
        "exact": bondic.InitialStates.exact(names),
        "sample": bondic.InitialStates.sample(rng.integers(states, size=(400, 1)).astype(float)),
        "log": bondic.InitialStates.from_log(log),
    }[starts]
    policy = bondic.TablePolicy(target)
    problem = bondic.make_problem(log, policy, initial, gamma=0.8, reward_range=(0.0, 1.0), may_terminate=False)
    return problem, float((target * q).sum(axis=1).mean())


def run(problem, method):
    return bondic.estimate_interval(problem, alpha=0.1, method=method)


def part_of(log, first, stop):
    columns = {name: column[first:stop] for name, column in log.columns().items() if column is not None}
    return bondic.Transitions(**columns)


def box_of(problem):
    limits = range_at_all_times(problem.terms)
    return Box.around(limits.low, limits.high, problem.layout)


def plan_of(problem, pilot, planned=None):
    method = bondic.Sequential(pilot=pilot)
    first = method.pilot_of(problem, pilot)
    return make_table_plan(problem, first, box_of(problem), math.log(20), planned or len(problem.rows), CUTS)


def same(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("rate", "predicted", "weights", "budgets", "firsts", "following", "shares", "stop")
    )


class TestPlans:
    def test_blocks_do_not_see_their_own_rows(self):
        """Whatever comes after the row where a block begins, new states included, changes no bit of it."""
        for starts in ("exact", "log"):
            problem, _ = ring(states=6, rows=1200, chance=0.2, starts=starts)
            log = problem.log
            rng = np.random.default_rng(1)
            for cut in (300, 700):
                states = log.observations.copy()
                following = log.next_observations.copy()
                rewards = log.rewards.copy()
                states[cut:] = rng.integers(0, 9, (1200 - cut, 1)) - 2.0
                following[cut:] = rng.integers(0, 9, (1200 - cut, 1)) - 2.0
                rewards[cut:] = rng.uniform(size=1200 - cut)
                other = replace(log, observations=states, next_observations=following, rewards=rewards)
                policy = bondic.CallablePolicy(lambda s: np.tile([0.1, 0.9], (len(s), 1)))
                made = []
                for one in (log, other):
                    first = bondic.InitialStates.from_log(one) if starts == "log" else problem.initial_states
                    terms = {"gamma": 0.8, "reward_range": (0.0, 1.0), "may_terminate": False, "accept": None}
                    made.append(bondic.make_problem(one, policy, first, **terms))
                plans = [plan_of(one, 60) for one in made]
                begins = [60, *(block.stop for block in plans[0].blocks[:-1])]
                early = [k for k, begin in enumerate(begins) if begin <= cut]
                assert len(early) > 5
                assert all(same(plans[0].blocks[k], plans[1].blocks[k]) for k in early)
                assert not all(same(*pair) for pair in zip(plans[0].blocks, plans[1].blocks, strict=True))

    def test_a_log_that_stopped_early_has_the_same_blocks(self):
        problem, _ = ring(rows=1000, chance=0.1)
        whole, part = plan_of(problem, 60, 1000), plan_of(problem[:500], 60, 1000)
        assert all(same(*pair) for pair in zip(whole.blocks, part.blocks, strict=False))
        assert len(part.blocks) < len(whole.blocks)

    def test_codes_know_what_was_known(self):
        problem, _ = ring(rows=400, chance=0.3, starts="log")
        first = bondic.Sequential(pilot=60).pilot_of(problem, 60)
        codes = make_codes(problem, first, box_of(problem))
        early = codes.before(7)
        assert len(early) == 7
        assert early.states.shape[0] <= codes.states.shape[0]
        assert early.pairs.max() < early.size
        assert early.start.sum() == pytest.approx(1.0)
        batch = problem.whole()
        assert np.array_equal(codes.states[codes.pairs // codes.slots], batch.logged)
        assert np.array_equal(codes.states[codes.after], batch.next.points)
        seen = Counter()
        for k, pair in enumerate(codes.pairs.tolist()):
            assert codes.earlier[k] == seen[pair]
            seen[pair] += 1

    def test_cuts(self):
        found = finer(CUTS)
        assert sorted(set(found)) == list(found)
        assert found[-1] == 1.0
        assert set(CUTS) <= set(found)
        assert 1.0 - found[-2] < 0.01

    def test_weights_balance(self):
        problem, _ = ring(states=8, rows=4000)
        plan = plan_of(problem, 200)
        found = evaluate_table(problem.select(200), box_of(problem), plan, TAILS, EXACT)
        claim = {one.end: one for one in found.claims}["upper"]
        assert claim["bias"].upper < claim["rare events"].upper

    def test_a_predicted_length_is_not_far_off(self):
        problem, _ = ring(states=8, rows=4000)
        pilot = bondic.Sequential(pilot=200).pilot_of(problem, 200)
        predicted = predict_table_length(pilot, box_of(problem), math.log(20), 4000)
        found = run(problem, bondic.Sequential(pilot=200)).length
        assert 0.3 < found / predicted < 3


class TestMethod:
    def test_more_pairs_than_landmarks(self):
        problem, truth = ring(states=150, rows=30_000, length=100)
        found = run(problem, bondic.Sequential())
        assert truth in found.interval
        assert found.length < 0.2 * found.value_range.width
        assert found.is_assumption_free
        assert found.proof.plan is None
        assert set(found.budget.parts) == {"lower", "upper"}
        assert bondic.verify(found.certificate, problem.log, problem.policy).status == found.status.name

    def test_coordinates_where_they_learn_enough(self):
        demo = bondic.load_demo()
        problem = bondic.make_problem(demo.log, demo.policy, demo.initial, gamma=0.8, reward_range=(0.0, 1.0))
        found = run(problem, bondic.Sequential())
        assert found.proof.table is None
        assert set(found.budget.parts) == {"vector", "lower", "upper"}

    def test_the_shorter_prediction_is_picked(self):
        """One plan, the one whose interval the pilot predicts to be shorter; it has all of alpha."""
        for chance, rows in ((0.4, 1500), (0.0, 600)):
            problem, truth = ring(states=10, rows=rows, chance=chance)
            method = bondic.Sequential()
            pilot, shape = method.pilot_of(problem, method.pilot_rows(problem)), method.shape(rows)
            chosen = method.choose(pilot, problem, 0.1, shape)
            lengths = method._predicted_lengths(problem, pilot, chosen.ball, 0.1, shape)
            assert len(lengths) == 2
            found = run(problem, method)
            assert (found.proof.plan is None) == (lengths[True] < lengths[False])
            assert math.fsum(found.budget.parts.values()) == pytest.approx(0.1)
            assert truth in found.interval

    def test_a_short_pilot_does_not_hide_what_coordinates_can_learn(self):
        """The first 4 000 rows of the demonstration log: 0.2 with coordinates, 1.1 without, and the pilot has 200 rows."""
        demo = bondic.load_demo()
        problem = bondic.make_problem(demo.log, demo.policy, demo.initial, gamma=0.8, reward_range=(0.0, 1.0))
        found = run(problem[:4000], bondic.Sequential())
        assert found.proof.table is None
        assert found.length < 0.3

    @pytest.mark.parametrize("starts", ["sample", "log"])
    def test_sampled_starts_have_their_own_part(self, starts):
        problem, truth = ring(states=120, rows=12_000, slots=3, starts=starts)
        found = run(problem, bondic.Sequential())
        assert found.proof.plan is None
        assert set(found.budget.parts) == {"lower", "upper", "initial"}
        assert found.terms()["upper"]["initial distribution"] > 0
        assert truth in found.interval

    def test_a_plan_that_is_named(self):
        problem, _ = ring(states=6, rows=1200, chance=0.3)
        parts = [set(run(problem, bondic.Sequential(coordinates=own)).budget.parts) for own in (True, False)]
        assert parts == [{"vector", "lower", "upper"}, {"lower", "upper"}]
        ball = bondic.Ball(bondic.Gaussian(1.0), 5.0)
        with pytest.raises(bondic.InvalidInput, match="needs a box"):
            run(problem, bondic.Sequential(ball=ball, coordinates=False))

    def test_sampled_starts_that_differ_are_counted_against_the_plan_that_learns_nothing(self):
        """One decision in two situations: the values of both are learned with coordinates, and range over all of it without."""
        rng, rows = np.random.default_rng(0), np.arange(6000)
        state, arm = (rng.random(6000) < 0.4).astype(float), rng.integers(0, 3, 6000)
        rewards = (rng.random(6000) < 0.1 + 0.05 * arm).astype(float)
        log = bondic.Transitions.one_step(state[:, None], arm, rewards, episode_ids=rows)
        found = bondic.evaluate_policy(
            log,
            lambda s: np.tile([0.0, 0.0, 1.0], (len(s), 1)),
            gamma=0.0,
            reward_range=(0, 1),
            method=bondic.Sequential(),
        )
        assert found.proof.table is None
        named = bondic.Sequential(coordinates=False)
        other = bondic.evaluate_policy(
            log, lambda s: np.tile([0.0, 0.0, 1.0], (len(s), 1)), gamma=0.0, reward_range=(0, 1), method=named
        )
        assert found.length < 0.8 * other.length

    def test_one_side(self):
        problem, truth = ring(states=100, rows=12_000, slots=2)
        found = run(problem, bondic.Sequential(side="lower"))
        assert set(found.budget.parts) == {"lower"}
        assert found.low < truth
        assert found.low > run(problem, bondic.Sequential()).low

    @pytest.mark.parametrize(("states", "chance"), [(90, 0.0), (20, 0.4)])
    @pytest.mark.parametrize("starts", ["exact", "log"])
    def test_a_log_that_grows(self, tmp_path, states, chance, starts):
        """Updates give what one look at the rows so far gives; a monitor that was away goes on alike."""
        problem, truth = ring(states=states, rows=3000, chance=chance, starts=starts)
        log, initial = problem.log, None if starts == "log" else problem.initial_states
        terms = {"gamma": 0.8, "reward_range": (0.0, 1.0), "may_terminate": False}
        monitor = bondic.SequentialMonitor(problem.policy, initial, planned_rows=3000, **terms)
        for first, stop in ((0, 1100), (1100, 1900), (1900, 3000)):
            found = monitor.update(part_of(log, first, stop))
            own = initial or bondic.InitialStates.from_log(part_of(log, 0, stop))
            seen = bondic.make_problem(part_of(log, 0, stop), problem.policy, own, **terms)
            once = run(seen, bondic.Sequential(planned_rows=3000))
            assert (found.low, found.high) == (once.low, once.high)
            assert (found.proof.plan is None) == (chance == 0)
            assert bondic.verify(found.certificate, monitor.log, problem.policy).status == found.status.name
            monitor.save(tmp_path / "folder")
            monitor = bondic.SequentialMonitor.load(tmp_path / "folder", problem.policy)
        assert truth in found.interval

    def test_models_of_few_rows_are_not_given_away(self):
        """y0 of a pair that was seen once is the reward of that row."""
        problem, _ = ring(states=100, rows=12_000)
        found = run(problem, bondic.Sequential())
        block, first = found.proof.table.blocks[0], problem.select(0, found.rows[0]).whole()
        pairs = found.proof.table.pairs(first.logged, first.slots)
        once = np.flatnonzero(np.bincount(pairs, minlength=block.weights.size) == 1)
        rewards = block.predicted[once] - 0.8 * 2.5
        assert rewards == pytest.approx([float(first.rewards[pairs == pair][0]) for pair in once])
        with pytest.raises(bondic.InvalidInput, match="models of pairs"):
            found.without_rows(problem)
        private = run(problem, bondic.Default(no_rows=True))
        assert private.method == "sequential"
        assert private.proof.table is None
        assert private.without_rows(problem).certificate is not None

    def test_rows_of_few_are_not_given_away(self):
        problem, _ = ring(states=5, rows=12_000)
        found = run(problem, bondic.Sequential(coordinates=False))
        assert found.without_rows(problem).certificate is not None
        log = problem.log
        lone = log.observations.copy()
        lone[50] = 777.0
        changed = replace(log, observations=lone)
        policy = bondic.CallablePolicy(lambda s: np.tile([0.1, 0.9], (len(s), 1)))
        terms = {"gamma": 0.8, "reward_range": (0.0, 1.0), "may_terminate": False, "accept": None}
        other = bondic.make_problem(changed, policy, problem.initial_states, **terms)
        with pytest.raises(bondic.InvalidInput, match="fewer than"):
            run(other, bondic.Sequential(coordinates=False)).without_rows(other)

    def test_no_room_for_coordinates(self, monkeypatch):
        problem, truth = ring(states=60, rows=4000)
        monkeypatch.setattr("bondic.methods.default.MOST_BYTES", 4000 * 450)
        monkeypatch.setattr(bondic.Table, "predicted", lambda *_: float("inf"))
        found = bondic.estimate_interval(problem, alpha=0.1)
        assert found.method == "sequential"
        assert found.proof.plan is None
        assert truth in found.interval

    @pytest.mark.parametrize("coordinates", [True, False])
    def test_ends_that_cross_do_not_owe_it_to_the_starts(self, coordinates):
        """Both speak of one mean over sampled starts, whose share is not spent by a rejection."""
        problem, _ = ring(rows=600, starts="sample")
        budget = bondic.Sequential().budget(problem, 0.1, coordinates=coordinates)
        (test,) = claims_of(Evaluation((), True, (), 0.0), budget).tests
        assert test.p_value == pytest.approx(0.09)

    @pytest.mark.parametrize("coordinates", [None, True, False])
    def test_rewards_of_one_value(self, coordinates):
        problem, _ = ring(rows=400)
        log = replace(problem.log, rewards=np.zeros(400))
        for starts in (problem.initial_states, bondic.InitialStates.from_log(log)):
            terms = {"gamma": 0.8, "reward_range": (0.0, 0.0)}
            none = bondic.make_problem(log, problem.policy, starts, **terms)
            found = run(none, bondic.Sequential(coordinates=coordinates))
            assert (found.low, found.high) == (0.0, 0.0)
            assert bondic.verify(found.certificate, log, problem.policy).status == found.status.name
        monitor = bondic.SequentialMonitor(
            problem.policy,
            problem.initial_states,
            planned_rows=400,
            method=bondic.Sequential(coordinates=coordinates),
            **terms,
        )
        for first, stop in ((0, 30), (30, 300), (300, 400)):
            found = monitor.update(part_of(log, first, stop))
            assert (found.low, found.high) == (0.0, 0.0)

    def test_proofs_that_lack_something(self):
        problem, _ = ring(rows=600)
        rows, plan, box = problem.select(60), plan_of(problem, 60), box_of(problem)
        budget = ErrorBudget(0.1, {"lower": 0.05, "upper": 0.05})
        make = Asked.of(rows), budget, "both", box
        with pytest.raises(bondic.BondicError, match="has one plan"):
            SequentialProof(*make, None, None)
        with pytest.raises(bondic.BondicError, match="needs a box"):
            SequentialProof(*make[:3], bondic.Ball(bondic.Gaussian(1.0), 1.0), None, plan)
        with pytest.raises(bondic.BondicError, match="part of alpha is missing"):
            SequentialProof(make[0], ErrorBudget(0.1, {"lower": 0.1}), "both", box, None, plan)
        with pytest.raises(bondic.InvalidInput, match="without coordinates"):
            SequentialProof(*make, None, plan).evidence(rows)


def test_intervals_hold():
    """Small worlds with chance, pilots that saw few pairs: at alpha = 0.3 at most a few of 60 intervals miss."""
    missed = 0
    for seed in range(60):
        problem, truth = ring(states=2 + seed % 5, rows=300, chance=0.15 * (seed % 4), seed=seed, length=1 + seed % 7)
        plan = plan_of(problem, 40)
        tails = {"lower": 0.15, "upper": 0.15}
        claims = evaluate_table(problem.select(40), box_of(problem), plan, tails, EXACT).claims
        missed += any(claim.sign * (truth - claim.bound) > 0 for claim in claims)
    assert missed <= 9
