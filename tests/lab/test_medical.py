"""The medical table: its exact values beside simulated stays, and what its policies are."""

import numpy as np
import pytest

from bondic_lab.worlds.medical import ACTIONS, ENDS, GAMMA, STATES, MedicalTable

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def world():
    return MedicalTable.make()


@pytest.fixture(scope="module")
def log(world):
    return world.log(20_000, seed=1)


def returns(log, gamma):
    return np.bincount(log.episode_ids, log.rewards * gamma**log.timesteps)


@pytest.mark.parametrize(("gamma", "fits"), [(GAMMA, True), (0.9, False)])
def test_the_value_is_the_mean_return(world, log, gamma, fits):
    found = returns(log, gamma)
    error = found.std() / np.sqrt(len(found))
    assert bool(abs(found.mean() - world.values(world.doctors)[world.starts].mean()) < 4 * error) == fits


def test_stays_are_complete_and_choices_are_the_doctors(world, log):
    assert log.terminations.sum() == 20_000
    assert abs(1 / log.terminations.mean() - 1 / ENDS) < 0.5
    assert np.allclose(
        log.behavior_action_probs, world.doctors[log.observations[:, 0].astype(int), log.actions], rtol=0, atol=0
    )
    assert returns(log, 1.0).max() == 1.0


def test_more_freedom_is_worth_more(world):
    some, best = world.best(0.2), world.best()
    assert some.shape == best.shape == (STATES, ACTIONS)
    worth = [world.values(policy)[world.starts].mean() for policy in (world.doctors, some, best)]
    assert worth == sorted(worth)
    assert np.all(world.doctors[some > 0] >= min(0.2, world.doctors.max(axis=1).min()))
