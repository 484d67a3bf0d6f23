"""What is proposed from the pilot: forecasts through the next state, and the number of groups."""

import sys
from pathlib import Path

import numpy as np
import pytest

import bondic
from bondic.methods.group_cells import training_rows
from bondic.methods.group_labels import TransitionModel

sys.path.append(str(Path(__file__).resolve().parents[1]))  # last: only `experiments` is wanted from there

from experiments.number_worlds_chains import smooth
from experiments.number_worlds_physics import FALLING, pole


def fitted(problem, **options):
    method = bondic.Groups(**options)
    pilot = method.pilot_of(problem)
    return pilot, method.fit(problem, pilot, 0.1, lambda _: None)


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


@pytest.mark.parametrize("seed", range(2))
def test_the_number_of_groups_is_not_picked_by_rows_that_made_them(seed):
    """Coin flips: in its own pilot every further group looks better. The control has 32 of them."""
    world = smooth(0.9)
    problem = world.problem(5000, seed, accept=None)
    chosen, many = (bondic.estimate_interval(problem, method=bondic.Groups(count=count)).curve for count in (None, 32))
    assert len(chosen.groups) <= 8
    assert chosen.at(0.0).length < 0.2 * many.value_range.width < many.at(0.0).length
