"""What a newcomer meets: messages in the words of the place, columns that are proposed, policies that see names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bondic
from bondic.cli.reading import read_initial
from bondic.core.errors import InvalidInput
from bondic.data.io.read import read_states
from bondic.errors import PolicyError, command_words, python_words
from bondic.report.page import report_page


@pytest.mark.parametrize(
    ("text", "python", "command"),
    [
        ("pass horizon=3 (--horizon 3) if so.", "pass horizon=3 if so.", "pass --horizon 3 if so."),
        (
            "columns={'a': ['x', 'y'], 'b': None} (--columns a=x,y --columns b=none)?",
            "columns={'a': ['x', 'y'], 'b': None}?",
            "--columns a=x,y --columns b=none?",
        ),
        ("Take LoggedTarget() (--policy logged), which", "Take LoggedTarget(), which", "Take --policy logged, which"),
        ("a narrower range (--value-range)", "a narrower range (--value-range)", "a narrower range (--value-range)"),
        (
            "LearnedPolicy(fit, rows=0.5) (--with learn_rows=0.5).",
            "LearnedPolicy(fit, rows=0.5).",
            "--with learn_rows=0.5.",
        ),
        ("a=1 (--a 1), b=2 (--b 2 (or more)).", "a=1, b=2.", "--a 1, --b 2 (or more)."),
        ("not closed: a=1 (--a 1", "not closed: a=1 (--a 1", "not closed: a=1 (--a 1"),
    ],
)
def test_a_way_out_is_named_in_the_words_of_the_place(text, python, command):
    assert python_words(text) == python
    assert command_words(text) == command


def wards(rows=400, **more):
    """Two wards; the second action pays in the north only."""
    rng = np.random.default_rng(0)
    ward, dose = rng.choice(["north", "south"], rows), rng.choice(["high", "low"], rows)
    paid = (rng.random(rows) < np.where((ward == "north") & (dose == "high"), 0.8, 0.2)).astype(int)
    return pd.DataFrame(
        {"ward": ward, "age": rng.integers(20, 70, rows), "dose": dose, "paid": paid, "prob": 0.5, **more}
    )


COLUMNS = {"actions": "dose", "rewards": "paid", "behavior_action_probs": "prob"}


def by_ward(frame):
    return np.where(frame["ward"] == "north", "high", "low")


def value(table, policy, states):
    return bondic.evaluate_policy(
        table, policy, columns={**COLUMNS, "observations": states}, one_step=True, reward_range=(0, 1), gamma=0.0
    )


def test_a_policy_that_takes_a_frame_sees_names_and_text_and_no_column_shifts_another():
    """Names of actions need no order, either; a column before the others changes nothing."""
    first = value(wards(), by_ward, ["ward", "age"])
    assert first.low < 0.5 < first.high
    assert first.length < 0.3
    table = wards()
    table.insert(0, "bed", np.arange(len(table)) % 7)
    assert value(table, by_ward, ["bed", "ward", "age"]).interval == first.interval
    # an array has lost them: the same rule by position is another policy once a column comes before
    shifted = value(table, lambda states: np.where(states[:, 0] == 1, "high", "low"), ["bed", "ward", "age"])
    assert shifted.interval != first.interval


def test_a_frame_of_codes_and_of_gaps_is_text_again():
    seen = []

    def watch(frame):
        seen.append(frame)
        return by_ward(frame)

    table = wards()
    table.loc[3, "ward"] = None
    value_of = {**COLUMNS, "observations": ["ward", "age"]}
    log = bondic.read_log(table, columns=value_of, one_step=True, missing="indicator", categorical="codes")
    bondic.evaluate_policy(log, watch, reward_range=(0, 1), gamma=0.0)
    frame = max(seen, key=len)
    assert list(frame) == ["ward", "age"]
    assert set(frame["ward"]) == {"north", "south", "(missing)"}
    with pytest.raises(InvalidInput, match="this log has none"):
        bondic.evaluate_policy(bondic.load_demo().log, by_ward, gamma=0.5, reward_range=(0, 1))


def misspelt(frame):
    return np.where(frame["wrad"] == "north", "high", "low")


def as_array(df):
    return np.where(df["ward"] == "north", "high", "low")


def as_attribute(table):
    return np.where(table.ward == "north", "high", "low")


def half_a_rule(frame):
    return frame["ward"].map({"north": "high"})


def unknown_name(frame):
    return np.where(frame["ward"] == "north", "hgih", "low")


@pytest.mark.parametrize(
    ("policy", "needles", "never"),
    [
        (misspelt, ("a table with 2 columns, ward, age", "Did you mean `ward`?"), "array of floats"),
        (as_array, ("called `frame`", "ward, age"), "looked up by"),
        (as_attribute, ("called `frame`", "ward, age"), "looked up by"),
        (half_a_rule, ("no action (NaN or None)", "ward = south", "age = "), "dtype"),
        (unknown_name, ("'hgih'", "at the state ward = north, age = ", "Did you mean `high`?"), "state 0"),
        (lambda states: np.where(states[:, 0] == 1, 9, 0), ("takes action 9 at the state ward = ",), "of 400"),
        (lambda states: np.where(states[:, 0] == 1, np.nan, 0), ("no action (NaN or None)", "ward = "), "column_stack"),
        (lambda states: states["ward"] + states.ward, ("called `frame`",), "looked up by"),
    ],
)
def test_what_a_policy_does_wrong_is_said_with_the_columns_and_the_state(policy, needles, never):
    log = bondic.read_log(
        wards(), columns={**COLUMNS, "observations": ["ward", "age"]}, one_step=True, actions=["high", "low"]
    )
    with pytest.raises(PolicyError) as told:
        bondic.evaluate_policy(log, policy, reward_range=(0, 1), gamma=0.0)
    for needle in needles:
        assert needle in str(told.value)
    assert never not in str(told.value)


def test_states_without_names_are_shown_as_numbers():
    demo = bondic.load_demo().log
    with pytest.raises(PolicyError, match=r"takes action 9 at the state \(-?[\d.]+"):
        bondic.evaluate_policy(demo, lambda states: np.full(len(states), 9), gamma=0.5, reward_range=(0, 1))


def test_every_missing_part_is_named_at_once_with_a_proposal():
    table = wards(patient_id=1, step=0)
    with pytest.raises(InvalidInput) as told:
        bondic.read_log(table)
    words = command_words(str(told.value))
    for part in ("observations", "actions", "rewards", "terminations"):
        assert f"`{part}`" in words
    assert "columns={" not in words
    assert "--columns observations=ward,age --columns actions=dose --columns rewards=paid" in words
    assert "--columns behavior_action_probs=prob" in words
    shop = {
        "item": np.zeros(4, int),
        "click": np.zeros(4),
        "sku": np.zeros(4),
        **{f"p_{k}": np.zeros(4) for k in range(5)},
    }
    with pytest.raises(InvalidInput, match=r"--columns observations=sku,p_\*"):
        bondic.read_log(shop, one_step=True)


def logs_with_unusual_names():
    """What strangers call their columns, with the parts that are proposed for them."""
    rng = np.random.default_rng(1)
    n = 40
    flag, text = rng.integers(0, 2, n), rng.choice(["good", "bad"], n)
    number = rng.standard_normal(n)
    rewards, done = rng.random(n), np.arange(n) % 4 == 3
    keys = {"user": np.array([f"u{i // 4}" for i in range(n)]), "turn": np.arange(n) % 4}
    cart = {"x": number, "v": number[::-1], "push": flag, "reward": rewards, "next_x": number, "next_v": number[::-1]}
    return {
        "offers": (
            {"customer_id": np.arange(n), "age": np.arange(n), "offer": text, "offer_probability": 0.5, "bought": flag},
            ("observations=age ", "actions=offer ", "rewards=bought ", "behavior_action_probs=offer_probability"),
        ),
        "ward": (
            {**keys, "status": text, "care": text[::-1], "score": rewards, "next_status": text, "left_study": done},
            ("observations=status ", "actions=care ", "rewards=score ", "next_observations=next_status ", "left_study"),
        ),
        "sessions": (
            {
                **keys,
                "topic": text,
                "mood": flag,
                "reply": text[::-1],
                "logprob": -0.7,
                "reward": rewards,
                "done": done,
            },
            ("observations=topic,mood ", "actions=reply ", "episode_ids=user ", "timesteps=turn"),
        ),
        "cart": (
            cart | {"terminated": done},
            ("observations=x,v ", "actions=push ", "next_observations=next_x,next_v"),
        ),
        "unnamed": (
            {"x": number, "next_x": number, "u": text, "reward": rewards, "done": done},
            ("observations=x ", "actions=u ", "next_observations=next_x"),
        ),
    }


@pytest.mark.filterwarnings("ignore::bondic.ValidityWarning")
@pytest.mark.parametrize("name", logs_with_unusual_names())
def test_what_is_proposed_gives_each_column_one_role_and_runs(name):
    table, parts = logs_with_unusual_names()[name]
    table = pd.DataFrame(table)
    with pytest.raises(InvalidInput) as told:
        bondic.read_log(table)
    words = command_words(str(told.value)).split("Perhaps ")[1].split("?")[0]
    for part in parts:
        assert part in words
    proposed = dict(piece.split("=") for piece in words.split(",  with")[0].split() if "=" in piece)
    columns = {part: names.strip(",").split(",") for part, names in proposed.items()}
    given = [column for group in columns.values() for column in group]
    assert len(given) == len(set(given))
    log = bondic.read_log(table, columns=columns, one_step="--one-step" in words)
    assert len(log.transitions) == len(table)


def test_what_may_be_an_outcome_is_no_state_and_is_named_as_what_it_may_be():
    rng = np.random.default_rng(2)
    age, flag = rng.standard_normal(40), rng.integers(0, 2, 40)
    table = pd.DataFrame({"age": age, "arm": flag, "y": flag[::-1], "ward": "x"})
    with pytest.raises(InvalidInput) as told:
        bondic.read_log(table, one_step=True)
    assert "`rewards` may be in y, age." in str(told.value)
    assert "'observations': 'age'" not in str(told.value)
    with pytest.raises(InvalidInput, match=r"'rewards': 'y'.*No column is left for `observations`"):
        bondic.read_log(table[["arm", "y"]], one_step=True)
    with pytest.raises(InvalidInput, match=r"No column is left that may hold `rewards`: paid is in `observations`\."):
        bondic.read_log(wards(), columns={"observations": ["ward", "age", "paid"], "actions": "dose"}, one_step=True)
    # with the outcome named, the rest is what is left, and what looks like another outcome is not
    table["recovered"] = flag
    with pytest.raises(InvalidInput) as told:
        bondic.read_log(table, columns={"rewards": "y"}, one_step=True)
    assert "--columns observations=age,ward --columns actions=arm" in command_words(str(told.value))


@pytest.mark.parametrize(
    ("columns", "needles"),
    [
        ({"observations": ["age", "paid"]}, ("paid", "`rewards`", "--columns observations=age)")),
        ({"observations": ["age", "dose"]}, ("dose", "`actions`", "not known before the decision")),
        ({"observations": ["paid"]}, ("paid", "name another one")),
        ({"observations": "*"}, ("paid", "--columns observations=age,prob,ward)")),
        ({"observations": "age", "actions": "paid"}, ("paid", "`actions` and for `rewards`")),
        ({"observations": ["age", "end"], "terminations": "end"}, ("end", "`terminations`")),
    ],
)
def test_an_outcome_or_a_decision_is_refused_as_a_part_of_the_state(columns, needles, tmp_path):
    """It is not known before the decision: the interval would be of another problem, and too short."""
    table = wards(end=False) if "terminations" in columns else wards()
    columns = {**COLUMNS, **columns}
    with pytest.raises(InvalidInput) as told:
        bondic.read_log(table, columns=columns, one_step="terminations" not in columns)
    for needle in needles:
        assert needle in str(told.value)
    if "terminations" not in columns:  # a log in parts says the same
        table.to_parquet(tmp_path / "log.parquet")
        with pytest.raises(InvalidInput, match="is given for"):
            bondic.stream_log(tmp_path / "log.parquet", columns=columns, one_step=True, actions=["high", "low"])
    # a copy is a statement, and a reward may be read off the next state
    following = {"observations": "age", "next_observations": "paid", "terminations": "end"}
    bondic.read_log(wards(end=False), columns={**COLUMNS, **following})
    kept = {"actions": "dose", "rewards": "paid", "observations": ["age", "before"]}
    bondic.read_log(wards(before=0), columns=kept, one_step=True)


def test_actions_and_states_have_their_names_in_advice_and_on_the_page():
    table = wards()
    table = table[(table["dose"] == "low") | (table.index < 3)].reset_index(drop=True)
    result = value(table, by_ward, ["ward"])
    page = report_page(result, title="wards")
    assert "high" in page
    assert "action 0" not in page
    assert not any("action 0" in str(step) for step in result.next_steps())


def test_everything_that_is_wrong_with_a_file_is_said_at_once():
    table = wards().astype({"paid": float, "age": float})
    table.loc[5, "age"], table.loc[7, "dose"], table["prob"] = np.nan, None, "half"
    with pytest.raises(InvalidInput) as told:
        bondic.read_log(table, columns={**COLUMNS, "observations": ["ward", "age"]}, one_step=True)
    words = str(told.value)
    assert words.count(" Also: ") == 2
    assert all(part in words for part in ("age is missing at row 5", "`actions`) is missing at row 7", "'half'"))


@pytest.mark.parametrize("categorical", ["one-hot", "codes"])
def test_initial_states_in_words_are_those_of_the_log(categorical, tmp_path):
    """Text in a file of starts becomes the numbers that it has in the log, in whatever order its columns stand."""
    table = wards()
    chosen = {**COLUMNS, "observations": ["age", "ward"]}
    log = bondic.read_log(table, columns=chosen, one_step=True, categorical=categorical)
    starts, width = tmp_path / "starts.csv", log.transitions.observation_dim
    table.loc[[3, 5, 11], ["ward", "age"]].assign(weight=[0.5, 0.25, 0.25]).to_csv(starts, index=False)
    states, weights = read_initial(starts, log.transitions, log)
    assert states.shape == (3, width)
    assert np.array_equal(states, log.transitions.observations[[3, 5, 11]])
    assert np.array_equal(weights, [0.5, 0.25, 0.25])
    table.loc[[3], ["age", "ward"]].rename(columns={"age": "a", "ward": "b"}).to_csv(starts, index=False)
    assert np.array_equal(read_initial(starts, log.transitions, log)[0], states[:1])  # other names: by position
    written = Path(f"{table['age'][3]},{table['ward'][3]}")
    assert np.array_equal(read_initial(written, log.transitions, log)[0], states[:1])
    pd.DataFrame(log.transitions.observations[:4], columns=list(log.names)).to_csv(starts, index=False)
    assert np.array_equal(read_initial(starts, log.transitions, log)[0], log.transitions.observations[:4])
    starts.write_text("ward,age\nnorht,30\n")
    with pytest.raises(InvalidInput, match=r"'norht' at row 0, .*north, south\. Did you mean `north`\?"):
        read_initial(starts, log.transitions, log)
    starts.write_text("ward,age\nnorth,old\n")
    with pytest.raises(InvalidInput, match=r"column age holds text; in the log's observations it is numbers"):
        read_initial(starts, log.transitions, log)
    with pytest.raises(InvalidInput, match="no such state"):
        read_initial(Path("30,norht"), log.transitions, log)


def test_one_category_and_one_state_written_as_a_word():
    log = bondic.read_log(wards(), columns={**COLUMNS, "observations": "ward"}, one_step=True)
    for row, word in enumerate(wards()["ward"][:5]):
        assert np.array_equal(read_initial(Path(word), log.transitions, log)[0], log.transitions.observations[[row]])
    with pytest.raises(
        InvalidInput, match=r"no such file, and no such state, since ward is one of north, south\. Did you mean"
    ):
        read_initial(Path("nroth"), log.transitions, log)
    alone = bondic.read_log(wards(bed="b"), columns={**COLUMNS, "observations": "bed"}, one_step=True)
    assert np.array_equal(read_states({"bed=b": np.ones(2)}, alone.names, 1, alone.encodings)[0], np.ones((2, 1)))
    assert np.array_equal(read_states({"bed": np.array(["b"])}, alone.names, 1, alone.encodings)[0], np.ones((1, 1)))


def test_a_column_of_the_state_that_is_called_weight_is_no_weight_of_a_start():
    states, weights = read_states({"weight": [50.0, 60.0], "p": [0.5, 0.5]}, ("weight",), 1)
    assert (states.tolist(), weights.tolist()) == ([[50.0], [60.0]], [0.5, 0.5])
    assert read_states({"x": [1.0], "weight": [1.0]}, ("x",), 1)[1].tolist() == [1.0]
