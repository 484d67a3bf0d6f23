"""Centers of Q that are fitted: one function in every batch, made from the pilot alone, certified and verified."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

import bondic
from bondic.bounds.ahead import AheadModel
from bondic.bounds.plan import Plan
from bondic.claims import ErrorBudget
from bondic.classes.value_class import constant_value
from bondic.codec import Encoder, decode, same
from bondic.errors import InvalidInput
from bondic.functions.functions import Function, KernelFunction
from bondic.functions.lookahead import LookAhead, PolicyRule, Polynomials, SplitTree
from bondic.functions.networks import NetworkFunction, TanhNetwork
from bondic.kernels.gaussian import Gaussian
from bondic.kernels.normal_form import Layout, normal_form
from bondic.methods.sequential import Sequential
from bondic.methods.setting import tuning_problem
from bondic.proofs.asked import Asked
from bondic.proofs.sequential import SequentialProof, probabilities
from bondic.search.sequential.basis import PointSlots, gram
from bondic.search.sequential.blocks import Budget
from bondic.search.sequential.plan import Shape, Simulated, make_plan
from bondic.search.sequential.simulator import Moves, fit_simulator, grow_tree
from bondic.terms import ValueRange, range_at_all_times
from bondic.tuning import look_ahead as fitting
from bondic.tuning.around_centers import Foresight, allowed_kappas, balls_around_center, centers_apply, radius_around
from bondic.tuning.bumps import bump_kernel
from bondic.tuning.centers import fit_centers, split_row
from bondic.tuning.coverage import unseen_share
from bondic.tuning.defaults import Choices, default_instruments
from bondic.tuning.radius import held_out_norm
from bondic.tuning.rollouts import as_before, simulated_returns, strayed
from bondic.tuning.rules import fit_rule
from bondic.tuning.sequential_class import choose_class
from bondic.tuning.training import Trainer

LAYOUT = Layout(observation_dim=3, has_time=False, action_dim=0, slots=2)


def network(inputs=3, outputs=2, seed=0, hidden=(7, 5)):
    rng = np.random.default_rng(seed)
    sizes = [inputs, *hidden, outputs]
    weights = tuple(rng.normal(size=(a, b)) for a, b in pairwise(sizes))
    biases = tuple(rng.normal(size=b) for b in sizes[1:])
    return TanhNetwork(rng.normal(size=inputs), rng.uniform(0.5, 2, inputs), weights, biases, 3.0, 10.0, -40.0, 40.0)


def look_ahead(seed=0):
    rng = np.random.default_rng(seed)
    monomials = np.array([[-1, -1], [0, -1], [1, -1], [2, -1], [0, 1], [2, 2]])
    coefficients = 0.3 * rng.normal(size=(2, 6, 3))
    steps = Polynomials(np.zeros(3), np.ones(3), monomials, coefficients, np.full(3, -5.0), np.full(3, 5.0))
    tree = SplitTree(
        np.array([0, -1, 2, -1, -1]), np.array([0.3, 0, -0.2, 0, 0]), np.array([1, 0, 3, 0, 0]), np.array([2, 0, 4, 0, 0]),
        np.array([[0, 0], [1, 0.5], [0, 0], [0.0, -1.0], [0.9, 2.0]]),
    )  # fmt: skip
    return LookAhead(LAYOUT, steps, tree, network(outputs=1), 0.9)


def far_look_ahead(ahead=6, seed=0):
    monomials = np.array([[-1, -1, -1], [0, -1, -1], [1, -1, -1], [0, 2, -1], [1, 1, 2]])
    weights = np.random.default_rng([seed, 4]).normal(size=(2, 5))
    rule = PolicyRule(np.array([0.1, 0.0, -0.2]), np.array([1.0, 2.0, 0.7]), monomials, weights)
    return replace(look_ahead(seed), rule=rule, ahead=ahead)


FUNCTIONS = {
    "network": lambda: NetworkFunction(LAYOUT, network()),
    "look-ahead": look_ahead,
    "far look-ahead": far_look_ahead,
}


def points(count=301, seed=1):
    return 2 * np.random.default_rng(seed).normal(size=(count, 3))


# ------------------------------------------------------------------------------------------------ functions


def exact_network(net, z):
    hidden = ((z - net.mean) / net.scale).astype(np.longdouble)
    for weight, bias in net.layers[:-1]:
        hidden = np.tanh(hidden @ weight.astype(np.longdouble) + bias)
    raw = hidden @ net.weights[-1].astype(np.longdouble) + net.biases[-1]
    return np.clip(net.location + net.span * raw, net.low, net.high)


def test_the_error_of_a_network_covers_long_arithmetic():
    net, z = network(), points()
    values, error = net.values(z)
    apart = float(np.abs(values - exact_network(net, z)).max())
    assert 0 < apart <= error <= 1e-11


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_point_has_one_value_in_every_batch(name):
    function, z = FUNCTIONS[name](), points()
    together, error = function.values(z)
    alone = np.vstack([function.values(z[k : k + 1])[0] for k in range(len(z))])
    shuffled = np.random.default_rng(2).permutation(len(z))
    again = function.values(np.asfortranarray(z[shuffled]))[0]
    assert error <= 1e-11
    assert np.abs(alone - together).max() <= 2 * error
    assert np.abs(again - together[shuffled]).max() <= 2 * error


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_slot_of_each_point_has_the_value_that_all_slots_have(name):
    function, z = FUNCTIONS[name](), points()
    slots = np.random.default_rng(3).integers(2, size=len(z))
    (every, error), (own, more) = function.values(z), function.at(z, slots)
    assert np.abs(own - every[np.arange(len(z)), slots]).max() <= error + more <= 1e-10


def test_a_step_is_what_single_floats_give():
    """Products from the left, sums in the order of the monomials, one rounding each: the floats that a certificate means."""
    steps, z = replace(look_ahead().steps, mean=np.array([0.1, -0.3, 0.7]), scale=np.array([1.3, 0.7, 2.1])), points(60)
    slots = np.random.default_rng(5).integers(2, size=60)
    for point, slot, after in zip(z.tolist(), slots, steps.at(z, slots), strict=True):
        inputs = [(x - m) / c for x, m, c in zip(point, steps.mean.tolist(), steps.scale.tolist(), strict=True)]
        for k in range(3):
            move = 0.0
            for columns, weights in zip(steps.monomials.tolist(), steps.coefficients[slot].tolist(), strict=True):
                product = 1.0
                for column in columns:
                    product *= inputs[column] if column >= 0 else 1.0
                move += weights[k] * product
            wanted = point[k] + move * float(steps.scale[k])
            assert after[k] == min(max(wanted, float(steps.low[k])), float(steps.high[k]))


def test_points_without_an_action_have_no_next_state():
    """Arrays of other lengths are a mistake of the caller, and must not give states of any other kind."""
    steps, z = look_ahead().steps, points(5)
    assert np.isnan(steps.at(z, np.array([0, 1, 0]))[3:]).all()
    with pytest.raises(InvalidInput, match="not finite"):
        look_ahead().at(z, np.array([0, 1, 0]))


def test_next_states_are_the_same_floats_in_every_batch():
    steps, z = look_ahead().steps, points()
    together = steps.every(z)
    for slot, states in enumerate(together):
        alone = np.vstack([steps.next_states(z[k : k + 1], slot) for k in range(len(z))])
        np.testing.assert_array_equal(alone, states)
    slots = np.random.default_rng(3).integers(2, size=len(z))
    np.testing.assert_array_equal(steps.at(z, slots), np.where(slots[:, None] == 0, *together))


def one_number_at_a_time(states, mean, scale, monomials, weights):
    """sum_m weights[m] prod x, with the floats of Python: the order of the definition."""
    out = []
    for state in states.tolist():
        x = [(value - a) / b for value, a, b in zip(state, mean.tolist(), scale.tolist(), strict=True)]
        total = 0.0
        for weight, columns in zip(weights.tolist(), monomials.tolist(), strict=True):
            product = 1.0
            for column in columns:
                product = product * x[column] if column >= 0 else product
            total += weight * product
        out.append(total)
    return np.array(out)


def test_a_far_look_ahead_is_its_formula():
    function, z = far_look_ahead(), points(60)
    values, error = function.values(z)
    steps, rule = function.steps, function.rule
    taken = set()
    for slot in range(2):
        states, actions = z, np.full(60, slot)
        total, weight = np.zeros(60, dtype=np.longdouble), np.ones(60, dtype=np.longdouble)
        for _ in range(function.ahead):
            moved = np.zeros_like(states)
            for column in range(3):
                every = np.array([
                    one_number_at_a_time(states, steps.mean, steps.scale, steps.monomials, steps.coefficients[a][:, column])
                    for a in range(2)
                ])  # fmt: skip
                moved[:, column] = states[:, column] + every[actions, np.arange(60)] * steps.scale[column]
            states = np.clip(moved, -5, 5)
            alive = np.where(states[:, 0] <= 0.3, 1.0, np.where(states[:, 2] <= -0.2, 0.0, 0.9))
            reward = np.where(states[:, 0] <= 0.3, 0.5, np.where(states[:, 2] <= -0.2, -1.0, 2.0))
            total += weight * reward
            weight = weight * alive * np.longdouble(0.9)
            scores = [
                one_number_at_a_time(states, rule.mean, rule.scale, rule.monomials, row) for row in rule.coefficients
            ]
            actions = np.where(scores[1] > scores[0], 1, 0)
            np.testing.assert_array_equal(rule.actions(states), actions)
            taken |= set(actions.tolist())
        total += weight * exact_network(function.network, states)[:, 0]
        assert 0 < float(np.abs(values[:, slot] - total).max()) <= error
    assert taken == {0, 1}
    assert error <= 1e-11


def test_one_step_and_a_rule_is_one_step():
    one, z = look_ahead(), points()
    np.testing.assert_array_equal(far_look_ahead(1).values(z)[0], one.values(z)[0])
    assert np.abs(far_look_ahead(2).values(z)[0] - one.values(z)[0]).max() > 0.1


def test_the_first_of_equal_scores_counts_and_no_number_never():
    rule = replace(far_look_ahead().rule, coefficients=np.zeros((2, 5)))
    assert not rule.actions(points()).any()
    huge = replace(rule, coefficients=np.array([[0.0, 1e308, 0.0, -1e308, 0.0], [-1.0, 0, 0, 0, 0]]))
    with np.errstate(over="ignore", invalid="ignore"):
        found = huge.actions(np.array([[1e308, 0.0, 1.0]]))
    assert found.tolist() == [1]


def test_a_look_ahead_is_its_formula():
    function, z = look_ahead(), points(40)
    values, error = function.values(z)
    for slot in range(2):
        x = (z - function.steps.mean) / function.steps.scale
        terms = np.column_stack([np.ones(40), x[:, 0], x[:, 1], x[:, 2], x[:, 0] * x[:, 1], x[:, 2] ** 2])
        after = np.clip(z + terms @ function.steps.coefficients[slot], -5, 5)
        alive = np.where(after[:, 0] <= 0.3, 1.0, np.where(after[:, 2] <= -0.2, 0.0, 0.9))
        reward = np.where(after[:, 0] <= 0.3, 0.5, np.where(after[:, 2] <= -0.2, -1.0, 2.0))
        later = exact_network(function.network, after)[:, 0].astype(float)
        np.testing.assert_allclose(values[:, slot], reward + 0.9 * alive * later, rtol=1e-10, atol=1e-10)
    assert error > 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_come_back_from_a_certificate(name):
    function = FUNCTIONS[name]()
    encoder = Encoder()
    data = encoder.encode(function, "center")
    again = decode(Function, data, encoder.arrays, "center", layout=LAYOUT)
    assert same(function, again)
    np.testing.assert_array_equal(again.values(points())[0], function.values(points())[0])
    assert not function.is_zero
    with pytest.raises(InvalidInput, match="center of Q"):
        function.norm()


def test_damaged_functions_are_refused():
    net, ahead, far = network(), look_ahead(), far_look_ahead()
    for wrong in (
        lambda: replace(net, scale=np.zeros(3)),
        lambda: replace(net, biases=net.biases[:2]),
        lambda: replace(net, weights=(net.weights[0], net.weights[2], net.weights[1])),
        lambda: replace(net, low=1.0, high=-1.0),
        lambda: NetworkFunction(LAYOUT, network(outputs=3)),
        lambda: replace(ahead, network=network(outputs=2)),
        lambda: replace(ahead, discount=1.5),
        lambda: replace(ahead.steps, monomials=ahead.steps.monomials + 2),
        lambda: replace(ahead.tree, left=np.zeros(5, dtype=np.int64)),
        lambda: replace(ahead.tree, leaves=np.full((5, 2), np.nan)),
        lambda: replace(ahead, ahead=2),
        lambda: replace(far, ahead=0),
        lambda: replace(far, ahead=101),
        lambda: replace(far, rule=replace(far.rule, coefficients=np.ones((3, 5)))),
        lambda: replace(far.rule, coefficients=np.ones((2, 4))),
        lambda: replace(far.steps, coefficients=np.ones((6, 3))),
        lambda: replace(far.rule, scale=np.zeros(3)),
        lambda: replace(far.rule, monomials=far.rule.monomials + 1),
        lambda: replace(far.rule, coefficients=np.full((2, 5), np.inf)),
    ):
        with pytest.raises(InvalidInput):
            wrong()


def test_values_without_a_bound_are_refused():
    """A bound that is no number must not be lost in a maximum."""
    big, layout = 1e200, Layout(observation_dim=1, has_time=False, action_dim=0, slots=2)
    weights = np.array([[big, big]]), big * np.eye(2), np.array([[1.0], [0.0]])
    net = TanhNetwork(np.zeros(1), np.ones(1), weights, (np.zeros(2), np.zeros(2), np.zeros(1)), 0.0, 1.0, -5.0, 5.0)
    steps = Polynomials(
        np.zeros(1), np.ones(1), np.array([[-1]]), np.zeros((2, 1, 1)), np.array([-5.0]), np.array([5.0])
    )
    tree = SplitTree(np.array([-1]), np.zeros(1), np.zeros(1, int), np.zeros(1, int), np.array([[1.0, 0.0]]))
    function = LookAhead(layout, steps, tree, net, 0.9)
    with np.errstate(all="ignore"):
        for ask in (net.values, function.values, lambda z: function.at(z, np.zeros(1, int))):
            with pytest.raises(InvalidInput, match="no bound of their error"):
                ask(np.ones((1, 1)))


def test_deep_trees_are_followed_to_their_leaves_and_single_precision_is_widened():
    depth = 100
    columns = np.array([0, -1] * depth + [-1])
    left, right = np.arange(2 * depth + 1) + 1, np.arange(2 * depth + 1) + 2
    leaves = np.column_stack([np.ones(2 * depth + 1), np.arange(2 * depth + 1)])
    tree = SplitTree(columns, np.repeat(np.arange(depth + 1.0), 2)[: 2 * depth + 1], left, right, leaves)
    assert tree.values(np.array([[1000.0], [79.5]]))[:, 1].tolist() == [200.0, 161.0]
    single = replace(tree, leaves=leaves.astype(np.float32), thresholds=tree.thresholds.astype(np.float32))
    assert single.leaves.dtype == single.thresholds.dtype == np.float64


# ------------------------------------------------------------------------------------------------ a rough world


def falling(count, seed, *, changed_from=None):
    """A stick that falls over at |s| > 1: alive is a cliff, the next state is told exactly."""
    rng = np.random.default_rng(seed)
    rows, s = [], np.array([0.0, 0.0])
    while len(rows) < count:
        a = int(rng.random() < 0.5 - 0.2 * np.tanh(3 * (s[0] + s[1])))
        after = np.array([s[0] + 0.3 * s[1], 0.95 * s[1] + 0.3 * s[0] + (0.25 if a else -0.25)])
        ended = abs(after[0]) > 1
        rows.append((s, a, 0.0 if ended else 1.0, after, ended))
        s = rng.uniform(-0.2, 0.2, 2) if ended else after
    s, a, r, after, ended = (np.array(column) for column in zip(*rows, strict=True))
    if changed_from is not None:
        later = np.arange(count) >= changed_from
        r, s = np.where(later & ~ended, 0.3, r), s + 0.1 * later[:, None]
    return bondic.Transitions(s, a, r, after, ended, None)


def balance(observations):
    left = 0.5 + 0.5 * np.tanh(4 * (observations[:, 0] + observations[:, 1]))
    return np.column_stack([left, 1 - left])


def stick(count=2500, seed=0, gamma=0.9, **changes):
    starts = bondic.InitialStates.exact(np.random.default_rng(5).uniform(-0.2, 0.2, (16, 2)))
    policy = bondic.CallablePolicy(balance)
    terms = {"gamma": gamma, "reward_range": (0.0, 1.0), "accept": None}
    return bondic.make_problem(falling(count, seed, **changes), policy, starts, **terms)


@pytest.fixture(autouse=True, scope="module")
def short_training():
    """A tenth of the steps: these tests are about what is fitted, not how well."""
    kept = fitting._STEPS
    fitting._STEPS = 1500
    yield
    fitting._STEPS = kept


@cache
def fitted(changed_from=None):
    problem = stick(changed_from=changed_from)
    return problem, fit_centers(tuning_problem(problem, 500))


def true_values(problem, states):
    """Values at initial states by simulation of the stick itself."""
    rng, s = np.random.default_rng(3), np.repeat(states, 200, axis=0)
    total, weight = np.zeros(len(s)), np.ones(len(s))
    for _ in range(100):
        a = rng.random(len(s)) > balance(s)[:, 0]
        s = np.column_stack([s[:, 0] + 0.3 * s[:, 1], 0.95 * s[:, 1] + 0.3 * s[:, 0] + np.where(a, 0.25, -0.25)])
        fine = np.abs(s[:, 0]) <= 1
        s = np.clip(s, -9, 9)
        total += weight * fine
        weight *= problem.gamma * fine
    return total.reshape(-1, 200).mean()


def test_the_simulator_finds_steps_and_cliffs():
    log = falling(1500, 1)
    moves = Moves(log.observations, log.actions, log.next_observations, log.rewards, log.terminations)
    found = fit_simulator(moves, 2)
    assert not len(found.residuals)
    np.testing.assert_allclose(found.steps.at(log.observations, log.actions), log.next_observations, atol=1e-4)
    right = (found.tree.values(log.next_observations)[:, 0] > 0.5) == ~log.terminations
    assert right.all()


@pytest.mark.parametrize(("bend", "degree"), [(0.0, 1), (0.3, 2)])
def test_a_higher_degree_has_to_pay_for_itself(bend, degree):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        s, a = rng.normal(size=(800, 3)), rng.integers(0, 2, 800)
        after = 0.9 * s + bend * s[:, ::-1] * s + 0.1 * rng.normal(size=s.shape)
        found = fit_simulator(Moves(s, a, after, np.zeros(800), np.zeros(800, dtype=bool)), 2)
        assert len(found.residuals)
        assert found.steps.monomials.shape[1] == degree


def test_leaves_of_a_tree_are_as_large_as_asked():
    rng = np.random.default_rng(0)
    states, wanted = rng.normal(size=(300, 2)), rng.normal(size=(300, 2))
    tree = grow_tree(states, wanted, 10)
    _, sizes = np.unique(tree.values(states), axis=0, return_counts=True)
    assert sizes.min() >= 10
    assert len(sizes) > 4


def test_a_tree_parts_neighboring_floats():
    low = 1.0 + np.spacing(1.0)  # the middle of this and the next float is rounded to the next one
    states = np.array([low, low, np.nextafter(low, 2.0)])[:, None]
    wanted = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    np.testing.assert_array_equal(grow_tree(states, wanted, 1).values(states), wanted)


def test_fitted_centers_have_smaller_residuals_on_a_rough_world():
    _, found = fitted()
    names = [center.name for center in found.every]
    assert names[:2] == ["constant", "look-ahead"]
    assert found.every[1].rho < 0.6 * found.every[0].rho
    assert "look-ahead" in found.text()


def test_returns_of_simulations_are_their_formula():
    problem, found = fitted()
    pilot, rng = tuning_problem(problem, 500), np.random.default_rng(0)
    limits = range_at_all_times(pilot.terms)
    begin = np.random.default_rng(1).uniform(-0.9, 0.9, (50, 2))
    later = np.linspace(0.0, 10.0, 50)
    steps = []

    class Kept:
        def step(self, points, slots, rng):
            steps.append((points, *found.simulator.step(points, slots, rng)))
            return steps[-1][1:]

    states, returns = simulated_returns(pilot, Kept(), begin, 6, lambda *_: later, limits, rng, (0, 2))
    expected = later
    for _, _, alive, reward in reversed(steps[2:]):
        expected = reward + 0.9 * alive * expected
    live = (steps[0][2] > 0.5) & (steps[1][2] > 0.5)
    assert 0 < live.sum() < 50
    np.testing.assert_array_equal(states, np.concatenate([begin, steps[2][0][live]]))
    np.testing.assert_allclose(returns[50:], expected[live], rtol=1e-12)
    for _, _, alive, reward in reversed(steps[:2]):
        expected = reward + 0.9 * alive * expected
    np.testing.assert_allclose(returns[:50], expected, rtol=1e-12)


def test_states_astray_are_alive_and_not_those_of_the_log():
    problem, found = fitted()
    pilot = tuning_problem(problem, 500)
    rows = pilot.whole()
    states = strayed(pilot, rows, found.simulator, rows.logged, 400, np.random.default_rng(0))
    assert 200 < len(states) <= 400
    assert np.all(found.simulator.tree.values(states)[:, 0] > 0.5)
    assert not {tuple(s) for s in states} & {tuple(s) for s in rows.logged}


def test_rounds_where_the_network_was_wrong_follow_a_cliff_better():
    """V of the fit against long simulations at states beside the cliff, with and without rounds."""
    problem, found = fitted()
    pilot, limits = tuning_problem(problem, 500), range_at_all_times(problem.terms)
    rows, rng = pilot.select(pilot.rows.start, split_row(pilot)).whole(), np.random.default_rng(0)
    beside = np.random.default_rng(2).uniform([0.3, 0.0], [0.9, 1.0], (300, 2))
    later, value = as_before(pilot.gamma, limits), 0.0
    for _ in range(20):
        _, once = simulated_returns(pilot, found.simulator, beside, 44, later, limits, rng)
        value = value + once / 20
    missed = []
    for share in (fitting._FIRST, 1.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fitting, "_FIRST", share)
            center, _ = fitting.look_ahead(pilot, rows, found.simulator, limits, 0, print)
        missed.append(np.sqrt(np.mean((center.network.values(beside)[0][:, 0] - value) ** 2)))
    assert missed[0] < 0.7 * missed[1]


def test_outputs_beyond_the_range_count_as_its_end():
    limits = ValueRange(0.0, 1.0)
    trainer = Trainer(np.linspace(-1, 1, 50)[:, None], 1, 0.5, limits, 0)
    trainer.biases[-1] += np.float32(10.0)
    before = [array.copy() for array in trainer.weights]
    inputs, top = trainer.inputs(np.linspace(-1, 1, 50)[:, None]), trainer.units(np.ones(50))
    none = np.zeros(50, dtype=np.int64)
    trainer.regress(inputs, none, top, 3, (1e-2, 1e-2), np.random.default_rng(0), batch=20)
    assert all(np.array_equal(one, two) for one, two in zip(before, trainer.weights, strict=True))
    trainer.regress(inputs, none, top - 1, 3, (1e-2, 1e-2), np.random.default_rng(0), batch=20)
    assert not np.array_equal(before[-1], trainer.weights[-1])


def test_fitting_sees_the_pilot_alone_and_no_chance():
    _, first = fitted()
    _, second = fitted(changed_from=500)
    for one, two in zip(first.every, second.every, strict=True):
        assert one.rho == two.rho
        assert same(one.function, two.function)


def test_centers_look_one_step_and_several_steps_ahead():
    problem, found = fitted()
    assert [center.name for center in found.every] == ["constant", "look-ahead", f"look-ahead of {fitting.FAR} steps"]
    near, far = (center.function for center in found.every[1:])
    assert (near.ahead, far.ahead, near.rule) == (1, fitting.FAR, None)
    assert far.network is near.network
    states = problem.whole().logged[500:]
    sure = np.abs(balance(states)[:, 0] - 0.5) > 0.1
    assert np.mean((far.rule.actions(states) == balance(states).argmax(axis=1))[sure]) > 0.98


def test_rules_are_for_discrete_actions_and_the_policy_is_told_from_another():
    rng = np.random.default_rng(0)
    pilot, states = tuning_problem(stick(1200), 500), rng.uniform(-1, 1, (2000, 2))
    rule = fit_rule(pilot, states, np.random.default_rng(1))
    assert len(rule.monomials) == 3  # a line parts the actions
    again = fit_rule(pilot, states, np.random.default_rng(1))
    np.testing.assert_array_equal(rule.coefficients, again.coefficients)

    def ring(s):
        inside = (s[:, 0] ** 2 + s[:, 1] ** 2 < 0.3).astype(float)
        return np.column_stack([inside, 1 - inside])

    other = fit_rule(replace(pilot, policy=bondic.CallablePolicy(ring)), states, np.random.default_rng(1))
    assert len(other.monomials) > 3
    assert np.mean(other.actions(states) == ring(states).argmax(axis=1)) > 0.97
    assert fit_rule(pilot, states[:10], np.random.default_rng(1)) is None


def test_a_short_pilot_has_a_constant_only():
    found = fit_centers(tuning_problem(stick(600), 150))
    assert [center.name for center in found.every] == ["constant"]
    assert found.simulator is None


def test_no_center_where_rows_hide_what_decides_values_or_nothing_follows():
    """The radius is twice the range for rows that are too few, whatever is fitted; events of a few rows must not decide."""
    pilot, patient = (tuning_problem(stick(1200, gamma=gamma), 500) for gamma in (0.9, 0.99))
    held = len(patient.select(split_row(patient)))
    assert held == 150
    assert radius_around(0.0, 10.0, 0.99, held, 0.0) == 20.0
    assert not centers_apply(patient)
    assert radius_around(0.0, 10.0, pilot.gamma, held, 0.0) < 20.0
    assert centers_apply(pilot)
    assert not centers_apply(tuning_problem(stick(1200, gamma=0.0), 500))
    log = pilot.log
    alone = bondic.make_problem(
        bondic.Transitions(log.observations, log.actions, log.rewards, log.next_observations, np.ones(len(log), bool), None),
        pilot.policy, pilot.initial_states, gamma=0.9, reward_range=(0.0, 1.0), accept=None,
    )  # fmt: skip
    assert not centers_apply(tuning_problem(alone, 500))


def test_a_policy_of_which_only_answers_are_known_gets_no_look_ahead():
    problem = stick(1200)
    rows = problem.whole()
    given = np.full((1200, 2), 0.5)
    given[rows.next.rows] = rows.next.weights
    policy = bondic.RowProbabilities(given, balance(problem.initial.points))
    again = bondic.make_problem(
        problem.log, policy, problem.initial_states, gamma=0.9, reward_range=(0.0, 1.0), accept=None
    )
    found = fit_centers(tuning_problem(again, 400))
    assert [center.name for center in found.every] == ["constant"]


def test_what_the_pilot_never_saw_is_counted():
    problem, found = fitted()
    pilot = tuning_problem(problem, 500)
    assert unseen_share(pilot, found.simulator, 40, 0) < 0.05
    far = bondic.InitialStates.exact(np.full((4, 2), 0.9))
    away = bondic.make_problem(
        problem.log, bondic.CallablePolicy(lambda s: np.tile([0.0, 1.0], (len(s), 1))), far, gamma=0.9,
        reward_range=(0.0, 1.0), accept=None,
    )  # fmt: skip
    assert unseen_share(tuning_problem(away, 500), found.simulator, 40, 0) > 0.3


# ------------------------------------------------------------------------------------------------ class and interval


def test_what_actions_differ_by_has_its_own_scale():
    problem, _ = fitted()
    pilot = tuning_problem(problem, 500)
    terms = normal_form(bump_kernel(pilot, 0.1, 5.0, ()), pilot.layout)
    here = PointSlots(np.zeros((2, 2)), np.array([0, 1]))
    np.testing.assert_allclose(
        gram(terms, here, here), 25 + 1.03 * (1 + 0.01 * np.array([[0.5, -0.5], [-0.5, 0.5]])), rtol=1e-12
    )


def test_the_radius_holds_what_rows_cannot_show():
    assert radius_around(0.0, 20.0, 0.95, 150, 0.0) == pytest.approx(2 * 20 * 3 * 20 / 150)
    assert radius_around(0.0, 20.0, 0.95, 10, 0.0) == pytest.approx(2 * 20.0)
    assert radius_around(0.0, 1.0, 0.95, 150, 0.5) == pytest.approx(2 * 2.5)
    assert radius_around(1.0, 20.0, 0.95, 10**9, 0.0) == pytest.approx(2 * 20.0)
    # ten steps at least, with few of them residuals do not cancel; what rows hide goes by the steps that there are
    assert radius_around(1.0, 20.0, 0.5, 10**9, 0.0) == pytest.approx(2 * 10.0)
    assert radius_around(0.0, 20.0, 0.5, 150, 0.0) == pytest.approx(2 * 20 * 3 * 2 / 150)
    assert allowed_kappas(2, 0.95) == (1.0, 0.3, 0.1)
    assert allowed_kappas(2, 0.9) == (1.0, 0.3)
    assert allowed_kappas(2, 0.0) == allowed_kappas(1, 0.99) == (1.0,)


def test_the_center_that_asks_for_the_smallest_radius_is_taken_and_no_constant():
    problem, found = fitted()
    pilot, (constant, near, far) = tuning_problem(problem, 500), found.every
    for rho, wanted in ((0.05, far), (5.0, near)):
        every = (replace(constant, rho=10.0), replace(near, rho=1.0), replace(far, rho=rho))
        balls = around(pilot, replace(found, every=every))
        assert all(one.ball.center is wanted.function for one in balls)
        assert all(f"a fitted {wanted.name} in" in one.note for one in balls)
    assert balls[0].ball.radius == pytest.approx(3.0 * radius_around(1.0, 10.0, 0.9, 150, 0.0), rel=0.2)
    assert not around(pilot, replace(found, every=(constant,)))


def around(pilot, centers):
    """Balls with three times the radius."""
    weights = default_instruments(pilot, pilot, Choices())
    return balls_around_center(pilot, centers, (), FORESIGHT, None, weights, 3.0)


def test_the_radius_holds_the_correction_that_later_rows_ask_for(monkeypatch):
    """Three times the norm of the way back, in the space of each scale, from rows that the center has not seen."""
    problem, found = fitted()
    pilot = tuning_problem(problem, 500)
    centers = replace(found, every=(found.every[0], replace(found.every[1], rho=0.0)))
    asked = []

    def norm(rows, kernel, _, *, center):
        asked.append((rows.rows, kernel, center))
        return 0.01 if len(asked) % 2 else 7.0

    monkeypatch.setattr("bondic.tuning.around_centers.held_out_norm", norm)
    balls = around(pilot, centers)
    later = pilot.select(split_row(pilot)).rows
    assert asked == [(later, one.ball.kernel, found.every[1].function) for one in balls]
    least = radius_around(0.0, 10.0, 0.9, 150, 0.0)
    assert [one.ball.radius for one in balls] == pytest.approx([3 * least, 3 * 3 * 7.0])
    assert [one.note.rpartition(", ")[2] for one in balls] == ["a correction of norm 0.01", "a correction of norm 7"]


def test_rows_without_anything_to_learn_ask_for_no_correction(monkeypatch):
    problem, found = fitted()
    pilot = tuning_problem(problem, 500)
    monkeypatch.setattr("bondic.tuning.around_centers.weakness", lambda _: "every reward is 1")
    balls = around(pilot, replace(found, every=(found.every[0], replace(found.every[1], rho=0.0))))
    assert [one.ball.radius for one in balls] == pytest.approx([3 * radius_around(0.0, 10.0, 0.9, 150, 0.0)] * 2)


def test_a_correction_is_what_a_center_lacks():
    """q* is three times a bump. Around 0 later rows ask for it, around q* for next to nothing, around its double for it again."""
    rng = np.random.default_rng(4)
    states, following, actions = rng.uniform(-1, 1, (800, 2)), rng.uniform(-1, 1, (800, 2)), rng.integers(0, 2, 800)
    here, there = (3.0 * np.exp(-0.5 * np.sum(x**2, axis=1)) for x in (states, following))
    problem = bondic.make_problem(
        bondic.Transitions(states, actions, here - 0.5 * there, following, np.zeros(800, bool), None),
        bondic.CallablePolicy(lambda s: np.full((len(s), 2), 0.5)), bondic.InitialStates.exact(states[:5]),
        gamma=0.5, reward_range=(-2.0, 4.0), accept=None,
    )  # fmt: skip
    kernel, weights = Gaussian(1.0, on="state"), default_instruments(problem, problem, Choices()).kernel

    def lacks(share):
        center = KernelFunction(kernel, problem.layout, np.zeros((1, 2)), np.array([[3.0 * share, 0.0]]))
        return held_out_norm(problem, kernel, weights, center=center)

    assert held_out_norm(problem, kernel, weights) == pytest.approx(3.0, rel=0.1)
    assert lacks(1.0) < 0.01
    assert lacks(2.0) == pytest.approx(3.0, rel=0.1)


def test_with_few_steps_a_center_has_to_tell_what_rewards_differ_by():
    """gamma <= 0.9: half the residuals of a constant; with more steps a constant may have the smaller ones."""
    problem, found = fitted()
    ten, (constant, near, _) = tuning_problem(problem, 500), found.every
    more, fewer = (tuning_problem(stick(2500, gamma=gamma), 500) for gamma in (0.91, 0.8))
    every = replace(constant, rho=1.0), replace(near, rho=0.6)
    assert around(more, replace(found, every=every))
    for pilot in (ten, fewer):
        assert not around(pilot, replace(found, every=every))
        assert around(pilot, replace(found, every=(every[0], replace(near, rho=0.4))))


FORESIGHT = Foresight(2500, Budget.of(0.02, {"lower": 0.04, "upper": 0.04}), 60)


def test_a_smooth_problem_keeps_its_ball():
    rng = np.random.default_rng(0)
    s = rng.uniform(-1, 1, (4000, 1))
    a = rng.integers(2, size=4000)
    log = bondic.Transitions(s, a, 0.5 + 0.2 * s[:, 0], 0.5 * s + 0.2 * (a[:, None] - 0.5), np.zeros(4000, bool), None)
    starts = bondic.InitialStates.exact(np.zeros((1, 1)))
    problem = bondic.make_problem(
        log, bondic.CallablePolicy(lambda x: np.full((len(x), 2), 0.5)), starts, gamma=0.5, reward_range=(0, 1),
        accept=None,
    )  # fmt: skip
    found = choose_class(None, None, bondic.Choices(), tuning_problem(problem, 400), FORESIGHT)
    assert isinstance(found.ball, bondic.Ball)
    assert "candidates" not in found.notes


def ahead_proof(problem, found):
    """A plan whose models look ahead, for a ball of smooth functions around the fitted center."""
    ball = bondic.Ball(bondic.Gaussian(1.0, on="state") + bondic.Constant(25.0), 20.0, found.every[-1].function)
    pilot, budget = tuning_problem(problem, 500), ErrorBudget.split(0.1, probabilities("both", 0.2))
    simulated = Simulated(found.simulator.steps, found.simulator.tree)
    shape = Shape(len(problem.rows), seen=40, landmarks=50)
    plan = make_plan(problem, pilot, ball, budget, ("lower", "upper"), shape, simulated=simulated)
    certified = problem.select(500)
    return SequentialProof(Asked.of(certified), budget, "both", ball, plan), certified


def test_a_model_that_looks_ahead_is_learned_again_and_comes_back():
    problem, found = fitted()
    proof, certified = ahead_proof(problem, found)
    models = [block.model for block in proof.plan.blocks]
    assert all(isinstance(model, AheadModel) for model in models)
    assert not np.array_equal(models[0].tree.thresholds, models[-1].tree.thresholds)
    encoder = Encoder()
    data = encoder.encode(proof.plan, "plan")
    again = decode(Plan, data, encoder.arrays, "plan", layout=problem.layout)
    assert same(proof.plan, again)
    evaluation = proof.evaluate(proof.evidence(certified))
    ends = {claim.end: claim.bound for claim in evaluation.claims}
    assert ends["lower"] < ends["upper"]


def test_later_rows_leave_earlier_blocks_as_they_are():
    (first, one), (second, two) = fitted(), fitted(changed_from=1500)
    before, after = (ahead_proof(*pair)[0].plan.blocks for pair in ((first, one), (second, two)))
    for left, right in zip(before, after, strict=True):
        if left.stop <= 1500:
            assert same(left, right)


def test_a_rough_problem_is_certified_around_its_fitted_center(tmp_path):
    problem = stick(4000, seed=2)
    result = bondic.estimate_interval(problem, alpha=0.1, method=Sequential(rank=60))
    assert constant_value(result.proof.ball.center) is None
    assert "look-ahead" in result.choices["centers"]
    assert result.low <= true_values(problem, problem.initial_states.observations) <= result.high
    path = tmp_path / "certificate"
    bondic.save_certificate(result.certificate, path)
    again = bondic.verify(bondic.load_certificate(path), problem.log)
    assert (again.low, again.high) == pytest.approx((result.low, result.high), abs=1e-6)
