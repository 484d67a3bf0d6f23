"""The difference of two policies on groups of states: models, labels and allowances of both (Lemma 65).

Events are made to hold *just so*, as in `test_paired_tables`, with arbitrary models, groups, labels, forecasts, rates and
weights. At the least allowance of each policy for which (23) holds the true difference has to lie between the ends.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from bondic import Groups, InitialStates, Transitions, evaluate_policy, make_problem, verify
from bondic.core.cells.allowance import CellAllowance
from bondic.core.cells.ends import CellBound, EndWeights
from bondic.core.cells.forecasts import Forecasts
from bondic.core.cells.localize import CellTails, Events, VectorEvent
from bondic.core.cells.paired import PairedGroups, PairedLayers, _coupled
from bondic.core.cells.proof import TEST, _StartDeviations
from bondic.core.cells.rows import GroupCells
from bondic.core.cells.tally import CellShape, tally
from bondic.core.errors import InvalidInput, NumericalError, VerificationError
from bondic.core.printed import bound_text
from bondic.core.question import Question
from bondic.curve import curve_dict
from bondic.report.allowance import allowance_section
from bondic.report.pens import result_markdown as to_text
from bondic.rows.paired import PairedRows
from bondic.summary import summarize
from test_paired_tables import World, answers, just_so


def random_cells(rng, world, rows, errors, clip):
    """Any groups, models that are wrong by up to `errors`, labels inside cells, and any forecasts."""
    states, actions = world.reward.shape
    _, groups = np.unique(rng.integers(0, 3, states), return_inverse=True)
    count, high = int(groups.max()) + 1, 1 / (1 - world.gamma)
    batch = rows.whole()
    state, group = batch.logged[:, 0].astype(int), groups[batch.logged[:, 0].astype(int)]
    cell = group * actions + batch.slots
    found = []
    for place, policy in enumerate(world.policies):
        model = np.clip(world.q(policy) + errors * high * rng.normal(size=(states, actions)), 0.0, high)
        means = (policy * model).sum(axis=1)
        atoms = count * actions ** (2 - place)
        finer = int(rng.integers(1, 3))
        label = cell * finer + rng.integers(0, finer, cell.size)
        size = rng.choice([0.0, 0.3, 1.0])
        forecasts = Forecasts(
            np.repeat(np.arange(count * actions), finer), size * high * rng.normal(size=count * actions * finer),
            size * rng.normal(size=(count * actions * finer, atoms)),
        )  # fmt: skip
        after = np.zeros(len(batch))
        after[batch.next.rows] = means[batch.next.points[:, 0].astype(int)]
        starts = rows.initial.points[:, 0].astype(int)
        own = GroupCells(
            count, group, groups[batch.next.points[:, 0].astype(int)], groups[starts], model[state, batch.slots], after,
            means[starts], np.zeros_like(group), label, size * high * rng.normal(size=cell.size), forecasts,
        )  # fmt: skip
        found.append((own, model))
    return PairedGroups(found[0][0], found[1][0], clip), groups, tuple(model for _, model in found)


def errors_of(rng, world, groups, models):
    """e_k of every cell, any mean over it, and ζ_k at every pair."""
    states, actions = world.reward.shape
    cells, found = groups[:, None] * actions + np.arange(actions), []
    for policy, model in zip(world.policies, models, strict=True):
        gap, weight = world.q(policy) - model, rng.random((states, actions)) + 1e-3
        mean = np.bincount(cells.ravel(), (weight * gap).ravel()) / np.bincount(cells.ravel(), weight.ravel())
        found.append((mean, gap - mean[cells]))
    return found


def random_case(seed, gamma, share):
    """A bound with everything arbitrary, and what nobody knows of its rows."""
    rng = np.random.default_rng([seed, int(100 * gamma), int(100 * share)])
    states, actions = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    world = World.random(rng, states, actions, gamma)
    log = world.log(rng, int(rng.integers(20, 500)), rng.integers(0, actions, states) if seed % 2 else None)
    rows = PairedRows.of(*world.problems(log))
    cells, groups, models = random_cells(rng, world, rows, rng.choice([0.0, 0.02, 0.5]), share / (1 - gamma))
    errors = errors_of(rng, world, groups, models)
    (one, _), (two, _) = errors
    truth = np.concatenate([one - two, two])
    stops = (*sorted({int(k) for k in rng.integers(1, rows.rows.stop, 2)}), rows.rows.stop)
    size, limits = cells.size(actions), cells.limits(rows)
    shape = CellShape(len(stops), cells.atoms(rows), cells.layers)
    reference = truth + rng.normal(0, rng.choice([0.0, 0.1, 1.0]), size)
    counted = tally(cells.parts(rows, stops), shape, gamma, reference)
    event = np.repeat(rng.uniform(0.2, 3.0, 2), size // 2) * rng.uniform(0.5, 1.5, size)
    most = 0.99 / np.linalg.norm((event * limits.width).reshape(2, -1), axis=0).max()
    vector = VectorEvent(event, tuple(most * rng.uniform(0.01, 1.0, 2)))
    single = CellTails(rng.uniform(0, 0.99, (2, size)) / limits.width * (rng.random((2, size)) < 0.8))
    together = rng.dirichlet(np.ones(2), (len(stops), size // 2)).transpose(0, 2, 1).reshape(len(stops), size)
    weights = 0.99 * rng.uniform(-1, 1, (len(stops), size)) * together / limits.width
    tails = {sign: EndWeights(sign * weights, float(rng.uniform(0.1, 1.0) / (1 - gamma))) for sign in (1.0, -1.0)}
    labels = cells.labels(counted, rows, stops, None, ())
    bound = CellBound(
        counted, labels, Events(vector, 0.5, single, 0.5), tails, {1.0: 0.5, -1.0: 0.5}, cells.starts(rows), limits
    )
    return world, rows, cells, stops, models, errors, truth, bound


def true_rows(world, rows, cells, stops, models, errors, truth, bound):
    """Z and Δ of every row in both layers, and the least allowance of each policy: slow, by the definitions."""
    batch, gamma = rows.whole(), world.gamma
    state, slots, n = batch.logged[:, 0].astype(int), batch.slots, len(batch)
    after = np.full(n, -1)
    after[batch.next.rows] = batch.next.points[:, 0].astype(int)
    goes_on = after >= 0
    values = [np.append((policy * world.q(policy)).sum(axis=1), 0.0)[after] for policy in world.policies]
    one, two = (world.q(policy)[state, slots] for policy in world.policies)
    outcome = np.concatenate([gamma * (values[0] - values[1]), batch.rewards + gamma * values[1]])
    noise = np.concatenate([one - two, two]) - outcome
    hats = [model[state, slots] for model in models]
    given = (cells.first.forecasts, cells.second.forecasts)
    first = given[0].following.shape[1]
    atoms = bound.tally.shape.atoms @ truth
    parts = ((hats[0] - hats[1], cells.first, atoms[:first]), (hats[1], cells.second, atoms[first:]))
    forecast = [
        hat + own.predicted + own.forecasts.offset[own.label] + gamma * (own.forecasts.following @ at)[own.label]
        for hat, own, at in parts
    ]
    reach = min(cells.clip, gamma / (1 - gamma))
    cut = np.concatenate([np.clip(forecast[0], -reach, reach), np.clip(forecast[1], 0.0, 1 / (1 - gamma))])
    cell = cells.first.group * rows.layout.slots + slots
    block = np.searchsorted(stops, batch.log_rows, side="right")
    key = block * (truth.size // 2) + cell
    averages, single = [], []
    for policy, (_, rest) in zip(world.policies, errors, strict=True):
        ahead = np.append((policy * rest).sum(axis=1), 0.0)[after]
        count, mass = np.bincount(key), np.bincount(key, goes_on)
        own = np.abs(np.bincount(key, rest[state, slots])[count > 0] / count[count > 0])
        next_ = np.abs(np.bincount(key, ahead)[mass > 0] / mass[mass > 0])
        states = rows.initial.points[:, 0].astype(int)
        start = abs(float(rows.initial_states.weights @ (policy * rest).sum(axis=1)[states]))
        averages.append(max(own.max(), next_.max(initial=0.0), start) * (1 + 1e-12))
        single.append(np.abs(ahead).max() * (1 + 1e-12))
    allowance = CellAllowance(*(np.repeat(own, truth.size // 2) for own in (averages, single)))
    return np.tile(block, 2), np.concatenate([cell, cell + truth.size // 2]), noise, outcome - cut, allowance


@pytest.mark.filterwarnings("ignore:gamma = 0 counts", "ignore:In all")
@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9, 0.98])
@pytest.mark.parametrize("seed", range(8))
def test_truth_lies_between_the_ends_at_the_true_allowance(gamma, seed):
    for share in (2.0, 0.5, 0.05):
        world, rows, cells, stops, models, errors, truth, bound = random_case(seed, gamma, share)
        block, cell, noise, deviation, allowance = true_rows(world, rows, cells, stops, models, errors, truth, bound)
        assert len(list(rows.batches())) == 1
        assert np.all(np.abs(deviation) <= bound.limits.width[cell])
        bound = just_so(bound, block, cell, noise, deviation)
        located = bound.locate(allowance)
        f = truth - bound.tally.reference
        assert np.all(f >= located.intervals.values.low - 1e-9)
        assert np.all(f <= located.intervals.values.high + 1e-9)
        assert np.all(np.abs(f) <= located.supports(np.eye(f.size)) + 1e-9)
        vector = bound.events.vector.shape[cell]
        assert float((vector * deviation) @ (vector * deviation)) <= located.energy_bound * (1 + 1e-9)
        true = world.difference(np.full(world.reward.shape[0], 1 / world.reward.shape[0]))
        for sign, end in bound.ends(located).items():
            assert sign * true <= sign * end.value.mid + end.spread + 1e-9


@pytest.mark.filterwarnings("ignore:gamma = 0 counts", "ignore:In all")
@pytest.mark.parametrize("seed", range(8))
def test_values_at_single_starts_are_those_of_both_policies(seed):
    """V_1 - V_2 at every start, against their mean: what varies inside the cells counts for both policies, and twice."""
    short = 0
    for gamma in (0.5, 0.9):
        case = random_case(seed, gamma, 2.0)
        world, rows, *_, errors, truth, bound = case
        block, cell, noise, deviation, allowance = true_rows(*case)
        located = just_so(bound, block, cell, noise, deviation).locate(allowance)
        starts = [np.abs((one * rest).sum(axis=1)).max() for one, (_, rest) in zip(world.policies, errors, strict=True)]
        single = np.repeat(np.maximum(allowance.single.reshape(2, -1)[:, 0], starts), truth.size // 2)
        values = np.subtract(*((policy * world.q(policy)).sum(axis=1) for policy in world.policies))
        values = values[rows.initial.points[:, 0].astype(int)]
        asked = SimpleNamespace(count=len(values)), SimpleNamespace(center=None, skipped=0)
        found, less = (
            _StartDeviations(
                case[2], replace(located, allowance=CellAllowance(allowance.averages, share * single)), rows
            )(*asked)
            for share in (1.0, 0.0)
        )
        assert np.all(found.low <= values - values.mean())
        assert np.all(values - values.mean() <= found.high)
        short += bool(np.any(less.high - less.low < found.high - found.low))
    assert short or all(np.abs(rest).max() < 1e-9 for _, rest in errors)


def two_states(policy, model=(0.5, 0.5)):
    """One group of two states; in the first only action 0 pays, in the second only action 1. Rows are in the second, the start
    in the first: all that is seen is the opposite of what is true, and every part of both allowances is needed in full."""
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, 4000)
    state = np.ones((4000, 1))
    log = Transitions(state, actions, (actions == 1).astype(float), state, np.ones(4000, dtype=bool))
    starts = InitialStates.exact([[0.0]])
    asking = {"gamma": 0.0, "reward_range": (0, 1), "initial": starts, "accept": None}
    rows = PairedRows.of(*(make_problem(log, answers(np.tile(one, (2, 1))), **asking) for one in policy))
    batch, zero = rows.whole(), np.zeros(4000, dtype=np.int64)
    forecasts = [Forecasts(np.arange(2), np.full(2, 0.5 * place), np.zeros((2, 4 - 2 * place))) for place in (0, 1)]
    first, second = (
        GroupCells(
            1, zero, zero[:0], zero[:1], np.full(4000, own), np.zeros(4000), np.full(1, own), zero, batch.slots,
            np.zeros(4000), one,
        ) for own, one in zip(model, forecasts, strict=True)
    )  # fmt: skip
    cells = PairedGroups(first, second, 2.0)
    shape, stops = CellShape(1, cells.atoms(rows), 2), (4000,)
    psi = cells.starts(rows).cells
    weights = 0.4 * psi[None] / cells.limits(rows).width.max()
    rate = float(weights[0, 0] / psi[0]) * 2000
    tails = {sign: EndWeights(sign * weights, rate) for sign in (1.0, -1.0)}
    counted = tally(cells.parts(rows, stops), shape, 0.0, np.array([0.0, 0.0, -0.5, 0.5]))
    events = Events(VectorEvent(np.ones(4), (0.1, 0.01)), 0.05, CellTails(np.zeros((1, 4))), 0.05)
    return CellBound(
        counted, cells.labels(counted, rows, stops, None, ()), events, tails, {1.0: 0.2, -1.0: 0.2},
        cells.starts(rows), cells.limits(rows),
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore:gamma = 0 counts")
def test_allowances_of_both_policies_add_up(monkeypatch):
    """q(first, 0) - q(first, 1) = 1, and the rows say -1: half for each policy at the rows, and half for each at the starts."""
    bound = two_states(((1.0, 0.0), (0.0, 1.0)))

    def upper(averages):
        end = bound.ends(bound.locate(CellAllowance(np.full(4, averages), np.full(4, 0.5))))[1.0]
        return end.value.mid + end.spread

    assert 1.0 <= upper(0.5) <= 1.2  # and it is attained, but for log(1/δ)
    assert upper(0.25) < 0.3
    monkeypatch.setattr(CellShape, "of_policies", lambda _, weights: weights * (np.arange(4) < 2))
    assert upper(0.5) < 0.6  # that of one policy alone


def test_a_width_of_one_value_is_wrong(monkeypatch):
    """[0, γB] as the range of a difference: some deviation is farther away."""
    right = PairedLayers.limits

    def narrow(self, rows):
        found = right(self, rows)
        width = np.array(found.width)
        width[: width.size // 2] = found.width[-1] * rows.gamma
        return replace(found, width=width)

    monkeypatch.setattr(PairedLayers, "limits", narrow)
    wrong = 0
    for seed in range(8):
        case = random_case(seed, 0.9, 2.0)
        _, cell, _, deviation, _ = true_rows(*case)
        wrong += bool(np.any(np.abs(deviation) > case[-1].limits.width[cell]))
    assert wrong >= 3


@pytest.mark.parametrize("actions", [1, 2, 4])
def test_coupled_actions_have_the_answers_of_both_policies_as_sums(actions):
    rng = np.random.default_rng(actions)
    one, two = rng.dirichlet(np.full(actions, 0.5), (2, 200))
    one[::3] = two[::3]
    point, pair, mass = _coupled(one, two)
    assert np.all(mass > 0)
    joint = np.zeros((200, actions, actions))
    joint[point, pair // actions, pair % actions] = mass
    np.testing.assert_allclose(joint.sum(axis=2), one, atol=1e-15)
    np.testing.assert_allclose(joint.sum(axis=1), two, atol=1e-15)
    assert np.all(pair[point % 3 == 0] % (actions + 1) == 0)  # where answers agree, so do the pairs
    with pytest.raises(InvalidInput, match="1 in all"):
        _coupled(one, 0.5 * two)


# --- the method -----------------------------------------------------------------------------------------


def numbers_log(rng, rows):
    """Two numbers a state; the first action pays more above one half of the first number, the second by the second number."""
    state, action = rng.random((rows, 2)), rng.integers(0, 2, rows)
    chance = 0.2 + 0.5 * (state[:, 0] > 0.5) * (action == 1) + 0.2 * state[:, 1] * (action == 0)
    after = np.clip(state + 0.1 * rng.normal(size=(rows, 2)), 0, 1)
    return Transitions(state, action, (rng.random(rows) < chance).astype(float), after, rng.random(rows) < 0.05)


def threshold(cut):
    return lambda states: np.where((states[:, :1] > cut), [[0.2, 0.8]], [[0.8, 0.2]])


NEW, OLD = threshold(0.5), threshold(0.9)
ASKING = {
    "gamma": 0.5, "reward_range": (0, 1), "accept": None,
    "initial": InitialStates.exact(np.random.default_rng(9).random((50, 2))),
}  # fmt: skip


@pytest.fixture(scope="module")
def log():
    return numbers_log(np.random.default_rng(1), 2000)


@pytest.fixture(scope="module")
def stated(log):
    return evaluate_policy(log, NEW, against=OLD, allowance=0.005, **ASKING)


@pytest.fixture(scope="module")
def silent(log):
    return evaluate_policy(log, NEW, against=OLD, **ASKING)


def test_one_event_is_shorter_than_two_intervals(log, stated):
    assert stated.method == "groups"
    assert isinstance(stated.proof.cells, PairedGroups)
    assert TEST not in stated.budget.parts
    problems = [make_problem(log, policy, **ASKING) for policy in (NEW, OLD)]
    apart = sum(Groups(allowance=0.005).run(one, 0.05, None).length for one in problems)
    assert stated.length < 0.8 * apart
    values = next(item for item in stated.assumptions if item.name == "values")
    assert "for both policies" in values.text
    assert "stated by you" in str(stated)
    # a policy of the user's own model has no model of the other one
    assert not Groups(model=lambda states, _: np.zeros(len(states))).differs(*problems, 0.1)


def test_certificate_of_a_difference_on_groups_is_checked_and_replayed(log, stated):
    again = verify(stated.certificate, log, NEW, against=OLD, replay=True)
    assert (again.low, again.high) == (stated.low, stated.high)
    with pytest.raises(VerificationError, match="policy"):
        verify(stated.certificate, log, OLD, against=NEW)
    proof = stated.proof
    question = Question.difference(
        *(make_problem(log, one, **ASKING).select(*proof.estimand.rows) for one in (NEW, OLD))
    )
    ends = proof.claims(question, None).ends
    assert [end.bound for end in ends] == [end.bound for end in stated.claims]
    cells, first = proof.cells, proof.cells.first

    def claims(**changed):
        return replace(proof, cells=replace(cells, **changed)).claims(question, None).ends

    for error, match, forged in (
        (NumericalError, "value range", {"first": replace(first, value=first.value + 10.0)}),
        (InvalidInput, "same groups", {"first": replace(first, group=np.zeros_like(first.group))}),
        (InvalidInput, "other cells", {"second": replace(cells.second, forecasts=first.forecasts)}),
        (InvalidInput, "another cell", {"first": replace(first, label=np.roll(first.label, 1))}),
        (InvalidInput, "positive number", {"clip": 0.0}),
    ):
        with pytest.raises(error, match=match):
            claims(**forged)
    # another model of the same range is another proof, and a valid one: a replay tells
    assert claims(first=replace(first, value=0.9 * first.value))[0].bound != ends[0].bound


def test_without_a_statement_the_curve_is_that_of_the_difference(stated, silent):
    assert (silent.low, silent.high) == (silent.value_range.low, silent.value_range.high)
    assert silent.curve.is_difference
    assert silent.at(0.005).ends == (stated.low, stated.high)
    later = silent.with_allowance(0.005)
    assert (later.low, later.high) == (stated.low, stated.high)
    assert later.is_difference
    most = silent.curve.breaks(above=0.0)
    assert silent.at(0.99 * most).low >= 0 > silent.at(1.01 * most).low
    shown = summarize(silent).curve
    assert "the difference of the two policies lies in its interval" in shown.head
    assert shown.decision.startswith(f"The new policy is better for every allowance up to {bound_text(most, -1)}")
    assert "is better for every allowance" in to_text(silent)
    data = curve_dict(silent.curve, None, first=False)
    assert data["better_up_to"] == most
    assert data["worse_up_to"] is None
    assert next(point["low"] for point in data["line"]) == silent.at(0.0).low
    assert "The difference is at" in allowance_section(silent)
    assert not any(mark.certified for mark in silent.curve.all_marks())


@pytest.mark.parametrize("kind", ["same", "exchanged"])
def test_exchanged_policies_have_the_exchanged_interval_nearly(log, silent, kind):
    """The same policy twice is worth the same, and the other way round worse."""
    first, second = (NEW, NEW) if kind == "same" else (OLD, NEW)
    found = evaluate_policy(log, first, against=second, **ASKING).at(0.0)
    if kind == "same":
        assert found.low <= 0 <= found.high
        assert found.length < 0.25 * silent.at(0.0).length
    else:
        assert found.high < 0
        assert found.length < 1.5 * silent.at(0.0).length


def test_sampled_starts_of_a_difference_on_groups(log):
    starts = InitialStates.sample(np.random.default_rng(3).random((800, 2)))
    found = evaluate_policy(log, NEW, against=OLD, **(ASKING | {"initial": starts}), allowance=0.0)
    assert isinstance(found.proof.cells, PairedGroups)
    assert found.status.name == "INTERVAL"
    again = verify(found.certificate, log, NEW, against=OLD, replay=True)
    assert (again.low, again.high) == (found.low, found.high)
