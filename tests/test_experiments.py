"""A plain experiment at the first try: arms, outcomes and propensities in whatever form people have them, and no state."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import bondic
from bondic.core.errors import InvalidInput
from pages import run_bondic

RNG = np.random.default_rng(5)
ROWS = 2000
ARM = RNG.choice(["A", "B"], ROWS, p=[0.3, 0.7])
OUTCOME = (RNG.uniform(size=ROWS) < np.where(ARM == "B", 0.6, 0.4)).astype(float)  # B is better by 0.2
CHANCE = {"A": 0.3, "B": 0.7}
PLAIN = pd.DataFrame({"user_id": np.arange(ROWS), "arm": ARM, "outcome": OUTCOME})
WHOLE = PLAIN.assign(propensity=[CHANCE[arm] for arm in ARM])
CODES = (ARM == "B").astype(int)
RANGE = {"reward_range": (0, 1)}


def gain(log, policy="B", against="A", **more):
    return bondic.evaluate_policy(log, policy, against=against, **RANGE | more)


@pytest.fixture(scope="module")
def expected():
    """The same log as arrays, with a policy for each arm."""
    state = np.zeros((ROWS, 1))
    log = bondic.Transitions.one_step(state, CODES, OUTCOME, behavior_action_probs=WHOLE["propensity"].to_numpy())
    found = bondic.evaluate_policy(log, 1, against=0, gamma=0.0, **RANGE)
    assert found.low <= 0.2 <= found.high
    return found.interval


NUMBERED = {0: 0.3, 1: 0.7}
FORMS = {
    "a column": (WHOLE, "B", "A", {}),
    "its name": (WHOLE.rename(columns={"propensity": "p"}), "B", "A", {"propensity": "p"}),
    "a number for every arm": (PLAIN, "B", "A", {"propensity": CHANCE}),
    "polars": (pl.DataFrame(WHOLE.to_dict("list")), "B", "A", {}),
    "a lazy frame": (pl.LazyFrame(WHOLE.to_dict("list")), "B", "A", {}),
    "categories of polars": (
        pl.DataFrame(WHOLE.to_dict("list")).with_columns(pl.col("arm").cast(pl.Categorical)), "B", "A", {},
    ),
    "whole numbers": (PLAIN.assign(arm=CODES), 1, 0, {"propensity": NUMBERED}),
    "their words": (PLAIN.assign(arm=CODES), "1", "0", {"propensity": NUMBERED}),
    "floats": (PLAIN.assign(arm=CODES.astype(float)), 1, 0, {"propensity": NUMBERED}),
    "text of numbers": (PLAIN.assign(arm=CODES.astype(str)), "1", "0", {"propensity": NUMBERED}),
    "text of numbers by number": (PLAIN.assign(arm=CODES.astype(str)), 1, 0, {"propensity": NUMBERED}),
    "functions that answer with it": (
        PLAIN.assign(arm=CODES.astype(str)), lambda s: np.repeat("1", len(s)), lambda s: np.repeat("0", len(s)),
        {"propensity": NUMBERED},
    ),
    "ids as text": (
        PLAIN.assign(arm=np.where(CODES, "9002", "9001")), "9002", "9001", {"propensity": {9001: 0.3, 9002: 0.7}},
    ),
    "functions": (WHOLE, lambda frame: np.repeat("B", len(frame)), lambda frame: np.repeat("A", len(frame)), {}),
    "other columns": (
        WHOLE.assign(age=40), "B", "A",
        {"columns": {"actions": "arm", "rewards": "outcome", "observations": None}, "one_step": True},
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_an_experiment_needs_no_state(expected, form):
    log, policy, against, more = FORMS[form]
    assert gain(log, policy, against, **more).interval == expected


def test_equal_chances_are_one_number():
    arm = np.arange(ROWS) % 2
    log = pd.DataFrame({"arm": arm, "outcome": OUTCOME})
    columns = [gain(log.assign(propensity=0.5), 1, 0), gain(log, 1, 0, propensity=0.5)]
    assert columns[0].interval == columns[1].interval


REFUSED = {
    "chances that are not 1 in all": ({"propensity": 0.3}, r"A: 0.3, B: 0.3: 0.6 in all.*\{'A': 0.3, 'B': 0.7\}"),
    "an arm without a number": ({"propensity": {"A": 1.0}}, "no number for B, but for A"),
    "no number": ({"propensity": {"A": "much", "B": 0.5}}, "it is a column, the probability of every action"),
    "two statements": ({"propensity": 0.5, "columns": {"behavior_action_probs": "arm"}}, "the same twice"),
    "an arm that there is not": ({"policy": "C"}, "There is no file C.*or an action of the log: A, B"),
    "probabilities in an unknown order": ({"policy": lambda s: np.full((len(s), 2), 0.5)}, "the order of the policy's"),
    "an unknown order of the other policy": ({"against": lambda s: np.full((len(s), 2), 0.5)}, "the order of the policy's"),
}  # fmt: skip


@pytest.mark.parametrize("slip", REFUSED)
def test_slips_in_an_experiment(slip):
    changes, words = REFUSED[slip]
    with pytest.raises(InvalidInput, match=words):
        gain(PLAIN, **{"propensity": CHANCE} | changes)


def test_what_may_be_a_state_is_not_left_out_without_a_word():
    columns = {"actions": "arm", "rewards": "outcome"}
    with pytest.raises(InvalidInput, match=r"No column for `observations`.*columns=\{'observations': None\}"):
        gain(WHOLE.assign(age=40), columns=columns)
    episodes = WHOLE.assign(episode_id=np.arange(ROWS) // 2, terminated=np.arange(ROWS) % 2 == 1)
    with pytest.raises(InvalidInput, match="No column for `observations`"):
        gain(episodes, columns=columns, gamma=0.5)


def test_without_propensities_the_answer_says_what_it_rests_on():
    with pytest.warns(bondic.ValidityWarning, match="no columns for observations and propensities"):
        found = gain(PLAIN)
    assert found.method == "table"
    assert found.low <= 0.2 <= found.high


def test_an_action_that_is_called_like_a_policy_of_the_log_is_refused():
    log = WHOLE.assign(arm=np.where(ARM == "A", "today", "B"))
    with pytest.raises(InvalidInput, match="'today' is an action of the log"):
        gain(log, against="today")


def test_the_command_line_asks_in_the_same_words(tmp_path, monkeypatch, expected):
    monkeypatch.chdir(tmp_path)
    WHOLE.to_csv("whole.csv", index=False)
    PLAIN.to_csv("plain.csv", index=False)
    PLAIN.assign(arm=np.where(ARM == "B", 5, 2)).to_csv("numbers.csv", index=False)
    PLAIN.assign(arm=CODES.astype(float)).to_csv("floats.csv", index=False)
    asked = {
        "whole": ["--policy", "B", "--against", "A"],
        "plain": ["--policy", "B", "--against", "A", "--propensity", "A=0.3,B=0.7"],
        "numbers": ["--policy", "5", "--against", "2", "--propensity", "2=0.3,5=0.7"],
        "floats": ["--policy", "1", "--against", "0", "--propensity", "0=0.3,1=0.7"],
    }
    for name, words in asked.items():
        assert (
            run_bondic(["evaluate", f"{name}.csv", *words, "--reward-range", "0", "1", "--out", name, "--quiet"])[0]
            == 0
        )
        found = json.loads((tmp_path / name / "result.json").read_text())
        assert (found["low"], found["high"]) == pytest.approx(expected)
        assert run_bondic(["verify", name, f"{name}.csv", "--replay", *words[:4]])[0] == 0
    streamed = ["evaluate", "whole.csv", *asked["whole"], "--actions", "A,B", "--with", "memory=1GB", "--reward-range"]
    assert run_bondic([*streamed, "0", "1", "--out", "streamed", "--quiet"])[0] == 0
    assert json.loads((tmp_path / "streamed" / "result.json").read_text())["low"] == pytest.approx(expected.low)


def test_floats_in_batches_are_read_as_in_memory(tmp_path):
    log = PLAIN.assign(arm=CODES.astype(float), propensity=WHOLE["propensity"])
    log.to_csv(tmp_path / "log.csv", index=False)
    stream = bondic.stream_log(tmp_path / "log.csv", batch_rows=300)
    assert stream.content_hash == bondic.read_log(log).transitions.content_hash
    log.loc[ROWS - 1, "arm"] = 0.5
    log.to_csv(tmp_path / "log.csv", index=False)
    assert not bondic.read_log(log).transitions.discrete_actions
    with pytest.raises(InvalidInput, match=r"the action at row 1999 is 0\.5"):
        bondic.stream_log(tmp_path / "log.csv", batch_rows=300)
