"""`Groups` where q* is known: at the true averages of (23) the value is covered; without a statement nothing is stated."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import bondic
from bondic.core.cells.allowance import Allowance
from bondic.core.cells.ends import EndWeights
from bondic.core.cells.localize import CellTails, VectorEvent
from bondic.core.cells.proof import ALLOWED, TEST, CellsProof
from bondic.core.cells.rows import GroupCells
from bondic.core.claims import Status
from bondic.core.codec import same
from bondic.core.errors import InvalidInput, NumericalError, VerificationError
from bondic.core.question import Question
from bondic.engines.sums import STANDARD
from bondic.methods.groups import CUTS
from bondic.plan import boosting
from builders import part

sys.path.append(str(Path(__file__).resolve().parents[1]))  # last: only `experiments` is wanted from there

from experiments.number_worlds import number_worlds
from experiments.number_worlds_jumps import action_threshold, hours, state_threshold

ROWS = 2000


@pytest.fixture(scope="module", autouse=True)
def plain_models():
    """Models in NumPy alone: boosting is scikit-learn's, and takes most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boosting, "installed", lambda: False)
        yield


@cache
def worlds():
    return number_worlds()


def middle(world):
    """A model that knows nothing: the middle of the value range, everywhere."""
    low, high = world.value_range or (bound / (1 - world.gamma) for bound in world.reward_range)
    return lambda states, _: np.full(len(states), 0.5 * (low + high))


def rough(world):
    """A model that is wrong in every way: q* shrunk, bent, and moved where the first number of the state is large."""
    low, high = world.value_range or (bound / (1 - world.gamma) for bound in world.reward_range)

    def model(states, actions):
        return 0.6 * world.q_star(states, actions) + 0.1 * (high - low) * np.tanh(3 * states[:, 0]) + 0.1 * low

    return model


# --- the truth about (23) -------------------------------------------------------------------------------


def true_values(world, points, layout):
    """q* at every point, for every slot: (m, slots)."""
    if not layout.discrete:
        k = layout.action_dim
        return world.q_star(points[:, :-k], points[:, -k:])[:, None]
    return np.column_stack([world.q_star(points, np.full(len(points), a)) for a in range(layout.slots)])


def excess(world, cloud, group, value, mean, layout, count):
    """(count,) the policy's mean of ζ at every row of a cloud: V* - V̂ - (the policy's mean of ē)."""
    if not cloud.rows.size:
        return np.zeros(count)
    errors = true_values(world, cloud.points, layout) - mean.reshape(-1, layout.slots)[group]
    return np.bincount(cloud.rows, (cloud.weights * errors).sum(axis=1), minlength=count) - value


def fixed_errors(world, fitted, pilot):
    """ē: means of q* - q̂ over the pilot's pairs of every cell; where there are none, over all of them."""
    batch, slots = pilot.whole(), pilot.layout.slots
    own = true_values(world, batch.logged, pilot.layout)[np.arange(len(batch)), batch.slots if slots > 1 else 0]
    gap = own - fitted.values(batch.logged, batch.slots)
    cell = fitted.group(batch.logged) * slots + batch.slots
    count = np.bincount(cell, minlength=fitted.groups.n_cells)
    total = np.bincount(cell, gap, minlength=fitted.groups.n_cells)
    return np.where(count > 0, total / np.maximum(count, 1), gap.mean())


def true_allowance(world, problem, method):
    """The least β̄ and β_∞ for which (23) holds on the certified rows; and the least for both, for averages over halves."""
    pilot = method.pilot_of(problem)
    fitted = method.fit(problem, pilot, 0.1, lambda _: None)
    proof = method.prove(problem, pilot, fitted, 0.1)
    rows, cells, layout = problem.select(pilot.rows.stop), proof.cells, problem.layout
    batch, mean = rows.whole(), fixed_errors(world, fitted, pilot)
    cell = cells.group * layout.slots + batch.slots
    own = true_values(world, batch.logged, layout)[np.arange(len(batch)), batch.slots if layout.slots > 1 else 0]
    own = own - cells.value - mean[cell]
    ahead = excess(world, batch.next, cells.next_group, cells.next_value, mean, layout, len(batch))
    mass = np.bincount(batch.next.rows, batch.next.weights.sum(axis=1), minlength=len(batch))
    block = np.searchsorted(proof.events.stops, batch.log_rows, side="right")

    def largest(place):
        count, of_own, of_ahead, of_mass = (np.bincount(place, w) for w in (None, own, ahead, mass))
        after = np.abs(of_ahead[of_mass > 0]) / of_mass[of_mass > 0]
        return max(float(np.max(np.abs(of_own[count > 0]) / count[count > 0])), float(after.max(initial=0.0)))

    start = excess(world, rows.initial, cells.start_group, cells.start_value, mean, layout, len(rows.initial_states))
    averages = max(largest(block * fitted.groups.n_cells + cell), abs(float(rows.initial_states.weights @ start)))
    single = float(np.max(np.abs(ahead[mass > 0]) / mass[mass > 0], initial=0.0))
    return (averages, single), max(largest(2 * cell + cells.half), single)


# --- coverage -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part_of", range(4))
def test_at_the_true_averages_the_value_is_covered(part_of):
    """All 41 worlds, with a model that knows nothing or with one that is wrong, 2 to 6 groups; and some of them with both."""
    short = 0
    for k, world in enumerate(worlds()[part_of::4]):
        for seed, make in enumerate((middle, rough)):
            if k % 4 and k % 2 == seed:
                continue
            problem = world.problem(ROWS, 10 * part_of + seed, accept=None)
            method = bondic.Groups(model=make(world), count=2 + (k + seed) % 5)
            pair, of_halves = true_allowance(world, problem, method)
            result = bondic.estimate_interval(problem, method=replace(method, allowance=pair))
            assert result.status is not Status.REJECTED, world.name
            assert result.low <= world.truth <= result.high, world.name
            point = result.curve.at(pair)
            assert (point.low, point.high) == (result.low, result.high)
            assert result.curve.ruled_out <= of_halves, world.name
            short += result.high - result.low < 0.9 * result.value_range.width
    assert short >= 3, "an interval that says nothing cannot miss"


def test_less_than_the_true_averages_misses_where_they_matter():
    """The control: one hour that groups do not see. Averages count at rows and at starts: a third of them is too little."""
    missed, world = 0, hours(0.0)
    for seed in range(6):
        problem, method = world.problem(ROWS, seed, accept=None), bondic.Groups(model=middle(world), count=2)
        (averages, single), _ = true_allowance(world, problem, method)
        curve = bondic.estimate_interval(problem, method=method).curve
        assert curve.at((averages, single)).low <= world.truth <= curve.at((averages, single)).high
        third = curve.at((averages / 3, single))
        missed += not third.low <= world.truth <= third.high
    assert missed >= 5


# --- what is said ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def threshold():
    world = state_threshold(0.5)
    return world, world.problem(ROWS, 3, accept=None)


@pytest.fixture(scope="module")
def silent(threshold):
    world, problem = threshold
    return bondic.estimate_interval(problem, method=bondic.Groups(model=middle(world), count=4))


@pytest.fixture(scope="module")
def stated(threshold):
    """By the linear model or the tree of the library: nothing of the user's has a part in it."""
    _, problem = threshold
    return bondic.estimate_interval(problem, method=bondic.Groups(allowance=(0.02, 0.3), count=3))


def test_without_a_statement_nothing_is_said(silent):
    assert (silent.low, silent.high) == (silent.value_range.low, silent.value_range.high)
    assert silent.status is Status.TRIVIAL
    assert silent.guarantee == "finite-sample"
    assert silent.claims == ()
    values = next(item for item in silent.assumptions if item.name == "values")
    assert values.state == "checked"
    assert "Nothing is assumed" in values.text
    assert silent.curve.at(0.0).length < 0.5 * silent.value_range.width
    assert silent.choices["model"] == "your own"


def test_a_stated_allowance_is_a_statement(stated):
    values = next(item for item in stated.assumptions if item.name == "values")
    assert values.state == "stated"
    assert "at most 0.02" in values.text
    assert "at most 0.3" in values.text
    assert "before the curve was shown" in values.text
    assert stated.status is Status.INTERVAL
    assert stated.guarantee == "finite-sample"
    assert all(claim[ALLOWED].mid > 0 for claim in stated.claims)
    later = stated.curve.stated(Allowance(0.02, 0.3), first=False)
    after = next(i for i in later.assumptions(Question.value(stated.curve.rows), rejected=False) if i.name == "values")
    assert "after the curve was shown" in after.text


def test_one_end_has_the_groups_of_both():
    """An allowance is stated about groups: a gate must not speak of other ones. (The lower end alone would choose eight here.)"""
    problem = state_threshold(0.5).problem(ROWS, 3, accept=None)
    found = [bondic.Groups(side=side).run(problem, 0.3, None).choices["groups"] for side in ("both", "lower", "upper")]
    assert found == ["2 groups of states, 4 with actions"] * 3


def test_the_budget_is_spent_once(silent):
    parts = silent.proof.budget.parts
    assert parts.keys() == {"vector", "cells", TEST, "lower", "upper"}
    assert sum(parts.values()) == pytest.approx(0.1)
    assert silent.proof.events.stops[0] == math.ceil(CUTS[0] * ROWS)


def test_the_curve(silent, threshold):
    """Longer with every allowance, up to 1 %; ends where it says; where a decision breaks it breaks."""
    world, curve = threshold[0], silent.curve
    points, width = curve.line(), silent.value_range.width
    assert all(b.length >= a.length - 0.01 * width for a, b in pairwise(points))
    assert curve.at(width).length == pytest.approx(width)
    assert curve.at((0.01, 0.5)).length >= curve.at((0.01, 0.01)).length - 0.01 * width
    assert curve.at(0.01) == curve.at((0.01, 0.01)) == curve.at(Allowance(0.01))
    low, high = points[0].low, points[0].high
    for decision, inside in ((low - 0.05, True), (low + 0.05, False)):
        found = curve.breaks(above=decision)
        assert (found is not None) == inside
        if found is not None:
            assert curve.at(found).low >= decision > curve.at(found + 0.01).low
    found = curve.breaks(below=high + 0.1)
    assert curve.at(found).high <= high + 0.1 < curve.at(found + 0.01).high
    assert curve.breaks(above=-1.0) == math.inf
    with pytest.raises(InvalidInput, match=r"above= or below="):
        curve.breaks()
    with pytest.raises(InvalidInput, match=r"above= or below="):
        curve.breaks(above=0.0, below=1.0)
    assert curve.breaks(above=low - 0.05, single=0.05) <= curve.breaks(above=low - 0.05) + 0.05
    assert low <= world.truth <= high
    terms = curve.terms((0.01, 0.1))
    assert {claim.end for claim in terms} == {"lower", "upper"}
    marks = curve.all_marks()
    assert marks[0].certified
    assert marks[0].value == curve.ruled_out
    assert not any(mark.certified for mark in marks[1:])
    assert len(curve.groups) == 4


def test_every_point_of_the_curve_is_what_a_statement_gives(threshold, silent):
    world, problem = threshold
    for pair in ((0.0, 0.0), (0.02, 0.1)):
        method = bondic.Groups(allowance=pair, model=middle(world), count=4)
        result, point = bondic.estimate_interval(problem, method=method), silent.curve.at(pair)
        assert (result.low, result.high) == (point.low, point.high)
        assert same(result.proof.events, silent.proof.events)


def test_a_cliff_inside_a_group_is_ruled_out_with_enough_rows():
    """One group, all of the threshold inside: the halves are the two sides of it, and differ by ± .3."""
    world = state_threshold(0.0)
    problem = world.problem(3000, 1, accept=None)
    method = bondic.Groups(model=middle(world), groups=lambda states: np.zeros(len(states)))
    curve = bondic.estimate_interval(problem, method=method).curve
    assert 0.15 <= curve.ruled_out <= 0.33
    point = curve.at(curve.ruled_out)
    assert point.status is not Status.REJECTED


# --- certificates ---------------------------------------------------------------------------------------


def test_plans_with_functions_of_the_user_verify_and_cannot_be_replayed(threshold, silent):
    world, problem = threshold
    method = bondic.Groups(0.01, model=middle(world), count=2)
    result = bondic.estimate_interval(problem, method=method)
    checked = bondic.verify(result.certificate, problem.log, world.policy)
    assert (checked.low, checked.high) == (result.low, result.high)
    with pytest.raises(VerificationError, match="cannot be made again"):
        bondic.verify(result.certificate, problem.log, world.policy, replay=True)
    nothing = bondic.verify(silent.certificate, problem.log, world.policy)
    assert (nothing.low, nothing.high) == (silent.low, silent.high)


def forgeries(proof):
    events, cells, rng = proof.events, proof.cells, np.random.default_rng(0)
    bold = {end: EndWeights(tail.weights * 1.01, tail.rate) for end, tail in events.tails.items()}
    yield "weights", replace(proof, events=replace(events, tails=bold))
    yield (
        "rates",
        replace(proof, events=replace(events, vector=VectorEvent(events.vector.shape, events.vector.rates[:2]))),
    )
    yield "cells", replace(proof, events=replace(events, cells=CellTails(events.cells.rates * 1.01)))
    yield "a model of later rows", replace(proof, cells=replace(cells, value=np.clip(cells.value + 0.01, 0.0, 2.0)))
    yield "next values", replace(proof, cells=replace(cells, next_value=cells.next_value * 0.99))
    yield "the start's value", replace(proof, cells=replace(cells, start_value=cells.start_value * 0.99))
    moved, slot = rng.random(cells.group.size) < 0.1, cells.forecasts.cell[cells.label] % 2
    changes = {"group": np.where(moved, 0, cells.group), "label": np.where(moved, slot, cells.label)}
    yield "groups after looking", replace(proof, cells=replace(cells, **changes))
    yield "next groups", replace(proof, cells=replace(cells, next_group=cells.next_group[::-1].copy()))
    yield "starts in other groups", replace(proof, cells=replace(cells, start_group=0 * cells.start_group))
    plain = cells.forecasts.cell[cells.label]  # the first labels are the cells
    yield "labels after looking", replace(proof, cells=replace(cells, label=np.where(moved, plain, cells.label)))
    nearer = replace(cells.forecasts, offset=cells.forecasts.offset * 1.01)
    yield "forecasts", replace(proof, cells=replace(cells, forecasts=nearer))
    spread = replace(cells.forecasts, following=cells.forecasts.following * 0.99)
    yield "forecasts of what follows", replace(proof, cells=replace(cells, forecasts=spread))
    yield "halves", replace(proof, cells=replace(cells, half=1 - cells.half))
    yield "forecasts of rows", replace(proof, cells=replace(cells, predicted=0.99 * cells.predicted - 0.01))


@pytest.mark.parametrize("kind", range(14))
def test_forged_plans_are_refused_by_a_replay(threshold, stated, kind):
    world, problem = threshold
    name, proof = list(forgeries(stated.proof))[kind]
    rows = problem.select(*proof.estimand.rows)
    planner = stated.certificate.planner
    certificate = bondic.Result.of(proof, rows, method="groups", planner=planner).certificate
    unseen = bondic.verify(certificate, problem.log, world.policy, replay=False)
    assert "when the plan was made" in unseen.headline
    with pytest.raises(VerificationError):
        bondic.verify(certificate, problem.log, world.policy, replay=True)
    assert name


def test_an_allowance_is_not_part_of_the_plan(threshold, stated):
    """Another one is another statement, on the same event: the certificate is as good, and says so."""
    world, problem = threshold
    proof = replace(stated.proof, allowance=Allowance(0.05, 0.4), stated_first=False)
    rows = problem.select(*proof.estimand.rows)
    certificate = bondic.Result.of(proof, rows, method="groups", planner=stated.certificate.planner).certificate
    checked = bondic.verify(certificate, problem.log, world.policy, replay=True)
    point = stated.curve.at((0.05, 0.4))
    assert (checked.low, checked.high) == (point.low, point.high)
    assert any("after the curve was shown" in item.text for item in checked.assumptions)


def test_cells_that_do_not_fit_are_refused(threshold, stated):
    _, problem = threshold
    cells, rows = stated.proof.cells, problem.select(*stated.proof.estimand.rows)
    assert isinstance(cells, GroupCells)
    for changes in (
        {"group": cells.group + 100}, {"next_group": cells.next_group - 1}, {"half": cells.half + 1},
        {"value": cells.value[1:]}, {"label": cells.label[1:]},
        {"predicted": cells.predicted * math.nan}, {"next_value": cells.next_value * math.nan}, {"count": 0},
    ):  # fmt: skip
        with pytest.raises(InvalidInput):
            replace(cells, **changes)
    later = {name: getattr(cells, name)[1:] for name in ("group", "value", "next_value", "half", "label", "predicted")}
    short = replace(stated.proof, cells=replace(cells, **later))
    with pytest.raises(InvalidInput, match="rows"):
        short.claims(Question.value(rows), STANDARD)
    # next values count as well: at a cell without rows nothing else bounds what the model says
    for name in ("value", "next_value", "start_value"):
        far = replace(stated.proof, cells=replace(cells, **{name: getattr(cells, name) + 100.0}))
        with pytest.raises(NumericalError, match="leaves the value range"):
            far.claims(Question.value(rows), STANDARD)
    # as many groups of starts, and a value more: two places would take the values of other starts
    more = replace(cells, start_value=np.append(cells.start_value, 0.0))
    with pytest.raises(InvalidInput, match="initial points and states"):
        more.start_points(problem.initial)
    few = replace(stated.proof, cells=replace(cells, start_group=cells.start_group[1:]))
    with pytest.raises(InvalidInput, match="start has no group"):
        few.claims(Question.value(rows), STANDARD)
    events = stated.proof.events
    with pytest.raises(VerificationError, match="no quotas"):  # an allowance is about all rows of a block and cell
        replace(stated.proof, events=replace(events, quotas=np.full((len(events.stops), events.reference.size), 9.0)))
    assert isinstance(stated.proof, CellsProof)


# --- what a plan may see --------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: state_threshold(0.5), lambda: action_threshold(0.5)], ids=["state", "action"])
def test_groups_model_and_weights_do_not_see_later_rows(make):
    """From the certified rows on, then from the last block on, everything is another log's: the same plan before."""
    world = make()
    drop = ("episode_ids", "timesteps", "truncations")
    log, other = (part(world.make_log(1200, seed), drop=drop) for seed in (1, 2))

    def plan(rows):
        problem = bondic.make_problem(
            rows, world.policy, world.initial, gamma=world.gamma, reward_range=world.reward_range, accept=None
        )
        return bondic.estimate_interval(problem, method=bondic.Groups(count=3)).proof

    honest = plan(log)
    stops = (honest.estimand.rows[0], *honest.events.stops)
    for block in range(len(stops) - 1):
        mixed = {
            name: np.concatenate([getattr(log, name)[: stops[block]], getattr(other, name)[stops[block] : 1200]])
            for name in ("observations", "actions", "rewards", "next_observations", "terminations")
        }
        again = plan(bondic.Transitions(**mixed))
        assert again.events.stops == honest.events.stops
        assert again.events.vector.rates == honest.events.vector.rates
        assert np.array_equal(again.events.cells.rates, honest.events.cells.rates)
        kept = stops[block] - stops[0]
        assert same(again.cells.forecasts, honest.cells.forecasts)
        for name in ("group", "value", "half", "next_value", "label", "predicted"):
            assert np.array_equal(getattr(again.cells, name)[:kept], getattr(honest.cells, name)[:kept])
        assert np.array_equal(again.cells.start_value, honest.cells.start_value)
        for end, tail in honest.events.tails.items():
            assert np.array_equal(again.events.tails[end].weights[: block + 1], tail.weights[: block + 1])
            assert again.events.tails[end].rate == tail.rate
