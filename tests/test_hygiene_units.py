"""Rewards in another unit, next observations that were filled in, rows that were logged again with another reward."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import bondic

sys.path.append(str(Path(__file__).resolve().parents[1]))  # last: only `experiments` is wanted from there

from experiments import corruptions
from experiments.corruptions_honest import HARD, REWARDS, driven, slowly
from experiments.corruptions_logs import GOOD, another_unit, filled_next, near_copies, near_copies_without_keys


def rng(seed=0):
    return np.random.default_rng([8, seed])


def found(columns, kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bondic.ValidityWarning)
        return [item for item in bondic.inspect_log(bondic.Transitions(**columns)) if item.kind == kind]


@pytest.mark.parametrize("name", HARD)
def test_logs_that_look_faulty_and_are_not_are_left_in_peace(name):
    assert corruptions.false_alarms(name, 4) == []


# Rewards


@pytest.mark.parametrize(("name", "factor"), [("cart-pole", 100.0), ("few starts", 0.01), ("table", 12.0)])
def test_the_row_and_the_factor_of_another_unit_are_named(name, factor):
    columns = GOOD[name](rng())
    change = 2 * len(columns["rewards"]) // 3
    columns["rewards"][change:] *= factor
    (item,) = found(columns, "reward-scale")
    assert item.severity == "warn"
    assert abs(item.row - change) <= 20
    said = float(item.text.split("about ")[2].split()[0])
    assert said == pytest.approx(max(factor, 1 / factor), rel=0.1)
    assert f"times as {'large' if factor > 1 else 'small'}" in item.text
    assert "--accept reward-scale" in str(item)


@pytest.mark.parametrize("reward", ["squared distance", "exponential"])
def test_another_unit_is_seen_while_the_behavior_learns(reward):
    seen = [another_unit(driven(rng(seed), REWARDS[reward], slowly), rng(seed)) for seed in range(3)]
    assert all(found(columns, "reward-scale") for columns in seen)


def test_a_sum_is_no_factor_and_a_few_rewards_show_nothing():
    columns = GOOD["few starts"](rng())
    n = len(columns["rewards"])
    columns["rewards"] = columns["rewards"] + 50.0 * (np.arange(n) > n // 2)
    assert found(columns, "reward-scale") == []
    columns = GOOD["grid"](rng())
    columns["rewards"][len(columns["rewards"]) // 2 :] *= 100
    assert found(columns, "reward-scale") == []


# Next observations


def test_walls_and_waiting_are_no_filled_column():
    """The same rows in another order: nothing confirms a stay any more, and yet a wall is met again."""
    walled = driven(rng(), REWARDS["exponential"], lambda _: 0.0, noise=0.0, starts=np.array([[1.0, 1.0]]))
    shuffled = rng().permutation(len(walled["rewards"]))
    columns = {name: walled[name][shuffled] for name in ("observations", "actions", "rewards", "next_observations")}
    columns["terminations"] = np.zeros(shuffled.size, dtype=bool)
    assert (columns["observations"] == columns["next_observations"]).all(axis=1).sum() > 50
    assert found(columns, "next-observations") == []


def test_a_filled_column_is_named_once_with_its_first_row():
    columns = filled_next(GOOD["cart-pole"](rng()), rng())
    (item,) = found(columns, "next-observations")
    stays = (columns["observations"] == columns["next_observations"]).all(axis=1) & ~columns["terminations"]
    assert item.row == np.argmax(stays)
    assert 0.95 * stays.sum() < item.count <= stays.sum()
    keyed = GOOD["cart-pole"](rng())
    keyed["next_observations"] = keyed["observations"].copy()
    (item,) = found(keyed, "next-observations")
    assert item.severity == "refuse"  # here following rows contradict it


# Copies


@pytest.mark.parametrize("spoil", [near_copies, near_copies_without_keys])
def test_rows_with_other_rewards_are_named_with_their_original(spoil):
    columns = spoil(GOOD["cart-pole"](rng()), rng())
    (item,) = found(columns, "copies")
    row, original = item.row, int(item.text.split("as row ")[1].split(")")[0])
    assert original < row
    for name in ("observations", "actions", "next_observations"):
        np.testing.assert_array_equal(columns[name][row], columns[name][original])
    assert columns["rewards"][row] != columns["rewards"][original]


def test_equal_episodes_of_continuous_states_are_named_with_their_original():
    """Three of a hundred, not in a row: no block is repeated."""
    draws = rng()
    states = draws.normal(size=(100, 4, 2))
    for again, first in ((40, 3), (70, 12), (90, 55)):
        states[again] = states[first]
    steps = np.tile(np.arange(3), 100)
    columns = {
        "observations": states[:, :3].reshape(-1, 2), "actions": np.zeros(300, dtype=int), "rewards": draws.random(300),
        "next_observations": states[:, 1:].reshape(-1, 2), "terminations": steps == 2,
        "episode_ids": np.repeat(np.arange(100), 3), "timesteps": steps,
    }  # fmt: skip
    (item,) = found(columns, "copies")
    assert (item.count, item.row) == (3, 120)
    assert "3 episodes equal an earlier one" in item.text
    assert "as at row 9" in item.text


@pytest.mark.parametrize(("ids", "each", "scale"), [(300, 10, 1.0), (50, 20, 0.37), (1000, 5, 0.37)])
def test_rows_that_are_sorted_by_customer_are_no_copies(ids, each, scale):
    """Equal contents stand near each other there: matches at short distances are common all over the log."""
    for seed in range(5):
        draws = rng(seed)
        who = np.repeat(np.arange(ids), each)
        actions = draws.integers(0, 2, who.size)
        rewards = (draws.random(who.size) < draws.random(ids)[who] * 0.6 + 0.3 * actions).astype(float)
        with warnings.catch_warnings():
            warnings.simplefilter("error", bondic.ValidityWarning)
            log = bondic.Transitions.one_step(scale * who[:, None], actions, rewards)
        assert not [item for item in bondic.inspect_log(log) if item.kind == "copies"]


@pytest.mark.parametrize(("moves", "alarms"), [(False, 1), (True, 0)])
def test_states_that_are_few_and_never_left(moves, alarms):
    draws = rng()
    state = draws.integers(0, 3, 400)
    after = np.where((np.arange(400) == 17) & moves, (state + 1) % 3, state)
    columns = {
        "observations": state[:, None], "actions": draws.integers(0, 2, 400), "rewards": draws.random(400),
        "next_observations": after[:, None], "terminations": np.zeros(400, bool),
    }  # fmt: skip
    assert len(found(columns, "next-observations")) == alarms
    alone = {**columns, "observations": np.zeros((400, 1)), "next_observations": np.zeros((400, 1))}
    assert not found(alone, "next-observations")
