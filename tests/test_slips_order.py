"""Rows out of order, lines that were misread, and policies that got the wrong columns: each is said by name."""

import warnings

import numpy as np
import pandas as pd
import pytest

import bondic
from bondic.core.errors import InvalidInput, ValidityWarning
from test_mistakes import TABLE
from test_tool import run

SINGLE = TABLE[["state", "action", "reward"]]


def days():
    return pd.date_range("2024-01-01", periods=len(SINGLE), freq="h")


# --- the order of time ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stamps",
    [np.arange(len(SINGLE)), days(), days().astype(str), days().tz_localize("UTC"), days().date],
    ids=["numbers", "dates", "text", "zone", "days"],
)
def test_time_that_goes_back_is_doubted(stamps):
    for name in ("timestamp", "Time", "ts"):
        back = SINGLE.assign(**{name: stamps})[::-1].reset_index(drop=True)
        with pytest.warns(
            ValidityWarning, match=rf"column {name} goes back \d+ times \(first: at row \d+.*sort_values"
        ):
            bondic.read_log(back, one_step=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bondic.read_log(SINGLE.assign(timestamp=stamps), one_step=True)
        bondic.read_log(SINGLE.assign(timestamp=stamps[0]), one_step=True)  # equal stamps are fine
        bondic.read_log(back.rename(columns={"ts": "weight"}), one_step=True)


def test_time_is_compared_within_episodes():
    """Episodes may lie one after the other in the file although they ran at the same time."""
    stamped = TABLE.assign(time=TABLE["timestep"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bondic.read_log(stamped)
    with pytest.warns(ValidityWarning, match="column time goes back 270 times"):
        bondic.read_log(TABLE.assign(time=-TABLE["timestep"]))


def test_check_and_evaluate_say_that_time_goes_back(tmp_path, capsys):
    SINGLE.assign(timestamp=days())[::-1].to_csv(tmp_path / "log.csv", index=False)
    _, out, _ = run(capsys, "check", tmp_path / "log.csv", "--one-step")
    assert "warning: The rows are not in the order of time: column timestamp goes back 299 times" in out
    np.savez(tmp_path / "policy.npz", probs=np.full((3, 2), 0.5))
    files = [tmp_path / "log.csv", "--policy", tmp_path / "policy.npz", "--out", tmp_path / "out"]
    _, out, err = run(capsys, "evaluate", *files, "--one-step", "--reward-range", 0, 1)
    assert "column timestamp goes back 299 times" in out + err


@pytest.mark.parametrize("mixed", [TABLE[::-1], TABLE.sample(frac=1, random_state=0)], ids=["reversed", "shuffled"])
@pytest.mark.parametrize("dropped", [[], ["next_state"]], ids=["next", "following"])
def test_rows_out_of_order_are_to_be_sorted_not_dropped(mixed, dropped):
    ended = TABLE.assign(terminated=TABLE["timestep"] == 9)
    with pytest.raises(InvalidInput, match=r"Row \d+ \(timestep \d\) comes after row \d+.*sort_values") as told:
        bondic.read_log(ended.loc[mixed.index].drop(columns=dropped))
    assert "drop" not in str(told.value)
    with pytest.raises(InvalidInput, match=r"row \d+ is terminated.*If the rows are out of order, sort them"):
        bondic.read_log(ended.loc[mixed.index].drop(columns=["timestep"]))
