"""What is proposed from the pilot: forecasts through the next state, the number of groups, groups of a column of numbers."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import bondic
from bondic.core.cells.tally import CellShape, tally
from bondic.methods.group_cells import training_rows
from bondic.methods.group_labels import TransitionModel
from bondic.methods.groups import predicted_groups
from bondic.methods.on_cells import expected_starts
from bondic.plan.groups import mostly_new

sys.path.append(str(Path(__file__).resolve().parents[1]))  # last: only `experiments` is wanted from there

from experiments.number_worlds_actions import steering
from experiments.number_worlds_chains import smooth
from experiments.number_worlds_jumps import state_threshold
from experiments.number_worlds_physics import FALLING, pendulum, pole


def squares(cells, rows):
    """Mean square of D_i over all rows, at the reference 0."""
    shape, stops = CellShape(1, cells.atoms(rows)), (rows.rows.stop,)
    plain = tally(cells.parts(rows, stops), shape, rows.gamma, np.zeros(shape.cells))
    found = cells.labels(plain, rows, stops, None, ()).rows
    return float(found.square.sum() / found.count.sum())


def fitted(problem, **options):
    method = bondic.Groups(**options)
    pilot = method.pilot_of(problem)
    return pilot, method.fit(problem, pilot, 0.1, lambda _: None)


@pytest.mark.parametrize("world", [pendulum(), pole("falls", FALLING, 0.5, 0.15, 0.9)], ids=["pendulum", "falls"])
def test_outcomes_are_foreseen_where_the_next_state_is_no_chance(world):
    """On rows after the pilot; without the rows' own numbers, labels alone leave at least twice as much."""
    problem = world.problem(4000, 0, accept=None)
    pilot, found = fitted(problem, count=4)
    rows = problem.select(pilot.rows.stop)
    cells = found.cells(rows)
    assert squares(cells, rows) < 0.5 * squares(replace(cells, foreseen=np.zeros(len(rows))), rows)


def test_next_states_are_foreseen_and_chance_is_left_alone():
    falls = pole("falls", FALLING, 0.5, 0.15, 0.9)
    train, test = (training_rows(falls.problem(2000, seed, accept=None)) for seed in (0, 1))
    went = np.unique(test.next_pairs.rows)
    ahead = TransitionModel.of(train).ahead(test.states, test.actions)
    moved = test.next_states[went] - test.states[went]
    assert np.all(np.std(ahead.states[went] - test.next_states[went], axis=0) < 0.02 * moved.std(axis=0))
    assert ahead.answers.shape == (2000, 2)
    assert np.mean(ahead.answers[went].argmax(axis=1) == test.next_probabilities[went].argmax(axis=1)) > 0.95
    chance = smooth(0.5).problem(2000, 0, accept=None)
    _, found = fitted(chance, count=4)
    assert found.labels.shares[0] < 0.1


def test_actions_that_are_numbers():
    world = steering(0.9)
    problem = world.problem(1500, 0, accept=None)
    rows = training_rows(problem)
    ahead = TransitionModel.of(rows).ahead(rows.states, rows.actions)
    assert ahead.states.shape == rows.states.shape
    assert ahead.answers.shape == rows.actions.shape
    result = bondic.estimate_interval(problem, method=bondic.Groups(count=3))
    assert result.curve.at(0.0).length < result.value_range.width


@pytest.mark.parametrize("gamma", [0.0, 0.9])
def test_logs_in_which_nothing_follows(gamma):
    """Single decisions, at any discount: no forecast of a next state is made."""
    world = state_threshold(0.0)
    log = world.make_log(600, 0)
    problem = bondic.make_problem(
        log, world.policy, world.initial, gamma=gamma, reward_range=(0, 1), value_range=(0, 1), accept=None
    )
    _, found = fitted(problem, count=2)
    assert found.labels.transitions is None
    assert not found.cells(problem).foreseen.any()


@pytest.mark.parametrize("seed", range(2))
def test_the_number_of_groups_is_not_picked_by_rows_that_made_them(seed):
    """Coin flips: in its own pilot every further group looks better. The control has 32 of them."""
    world = smooth(0.9)
    problem = world.problem(5000, seed, accept=None)
    chosen, many = (bondic.estimate_interval(problem, method=bondic.Groups(count=count)).curve for count in (None, 32))
    assert len(chosen.groups) <= 8
    assert chosen.at(0.0).length < 0.2 * many.value_range.width < many.at(0.0).length


def test_sampled_starts_are_part_of_the_prediction():
    world = smooth(0.5)
    states = np.random.default_rng(0).random((120, 3))
    terms = {"gamma": 0.5, "reward_range": (0, 1), "may_terminate": False, "accept": None}
    problem = bondic.make_problem(world.make_log(4000, 0), world.policy, bondic.InitialStates.sample(states), **terms)
    method = bondic.Groups(0.0, count=2)
    pilot, found = fitted(problem, count=2)
    budget, cells = method.budget(problem, 0.1), found.cells(pilot)
    few, more, none = (predicted_groups(pilot, cells, budget, "both", 3200, starts) for starts in (20.0, 108.0, 0.0))
    assert none < 0.5 * more < more < few
    assert expected_starts(problem, pilot, 3200) == 108.0
    length = bondic.estimate_interval(problem, method=method).length
    assert 0.3 * length < more < 3 * length
    assert 0.3 * length < method.predicted_length(problem, 0.1) < 3 * length
    exact = bondic.make_problem(world.make_log(4000, 0), world.policy, world.initial, **terms)
    assert expected_starts(exact, pilot, 3200) == 0.0


def test_groups_of_a_column_of_numbers_are_intervals_of_it():
    world = smooth(0.5)
    log = world.make_log(3000, 0)
    names = {
        f"{kind}{k}": column[:, k]
        for kind, column in (("s", log.observations), ("n", log.next_observations))
        for k in range(3)
    }
    table = names | {"action": log.actions, "reward": log.rewards, "terminations": np.zeros(3000, dtype=bool)}
    columns = {"observations": ["s0", "s1", "s2"], "next_observations": ["n0", "n1", "n2"], "actions": "action"}
    loaded = bondic.read_log(table, columns=columns | {"rewards": "reward", "terminations": "terminations"})
    problem = bondic.make_problem(
        loaded, world.policy, world.initial, gamma=0.5, reward_range=(0, 1), may_terminate=False, accept=None
    )
    curve = bondic.estimate_interval(problem, method=bondic.Groups(groups="s1")).curve
    assert 2 <= len(curve.groups) <= 32
    assert all("s1" in words and "s0" not in words and "s2" not in words for words in curve.groups)
    assert curve.at(0.0).length < 0.5 * curve.value_range.width


def test_values_that_repeat_are_names():
    assert not mostly_new(np.tile(np.arange(10.0), 20), 100)
    assert mostly_new(np.arange(200.0), 100)
    assert not mostly_new(np.arange(3.0), 0)
