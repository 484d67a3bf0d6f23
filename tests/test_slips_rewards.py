"""Rewards that do not count, and how a page sums them up."""

import re
import warnings

import numpy as np
import pytest

import bondic
from bondic.core.errors import ValidityWarning
from bondic.summary import summarize
from test_mistakes import TABLE
from test_slips import PARTS
from test_slips import TABLE as PATIENTS

ASKED = {"gamma": 0, "reward_range": (0, 1), "initial": bondic.InitialStates.exact([[0.0]])}


def even(states):
    return np.full((len(states), 2), 0.5)


def test_a_discount_of_0_says_that_first_rewards_alone_count():
    found = bondic.make_problem(TABLE, even, **ASKED)
    assert any("gamma = 0 counts the first reward of an episode alone" in note for note in found.notes)
    assert not any(
        "counts the first reward" in note for note in bondic.make_problem(TABLE, even, **ASKED | {"gamma": 0.5}).notes
    )
    late = TABLE.assign(reward=np.where(TABLE["timestep"] == 9, 1.0, 0.0))
    with pytest.warns(
        ValidityWarning, match="Every first reward of the log is 0, later ones are not: a discount near 1"
    ):
        told = bondic.make_problem(late, even, **ASKED)
    assert any(isinstance(note, bondic.core.errors.Doubt) and "first reward" in note for note in told.notes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nothing = bondic.make_problem(TABLE.assign(reward=0.0), even, **ASKED)
    assert any("first reward of an episode alone" in note for note in nothing.notes)


def page(tmp_path, log, **asked):
    path = tmp_path / "report.html"
    bondic.evaluate_policy(log, even, **asked).report(path)
    return " ".join(re.sub("<[^>]*>", " ", path.read_text()).split())


def test_equal_rows_of_a_one_step_log_are_no_copies(tmp_path):
    few = PATIENTS.assign(age=1.0, dose=np.sign(PATIENTS["dose"]))
    told = page(tmp_path, few, reward_range=(0, 1), one_step=True, columns=PARTS)
    assert "rows equal to an earlier one" not in told
    assert "Mean reward 0.5" in told
    assert "per step" not in told


def test_a_mean_reward_is_told_per_step_and_per_episode(tmp_path):
    told = page(tmp_path, TABLE, **ASKED | {"gamma": 0.5})
    earned = TABLE.groupby("episode_id")["reward"].sum().mean()
    assert re.search(
        rf"Mean reward 0\.\d+ per step; an episode of the log earns {earned:.3g} on average, undiscounted\.", told
    )


def test_rows_beyond_the_horizon_are_told_apart():
    found = bondic.evaluate_policy(TABLE, even, **ASKED | {"gamma": 0.5, "horizon": 4})
    first, stop = found.rows
    count = int((TABLE["timestep"][first:stop] < 4).sum())
    assert f"{stop - first} rows certified ({first} to {stop - 1}, {count} of them inside the horizon)" in " ".join(
        summarize(found).lines
    )
    assert any(f"the {count} certified rewards" in item.text for item in found.assumptions)
