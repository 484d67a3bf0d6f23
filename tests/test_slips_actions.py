"""How many actions there are, what they are called, and which columns a policy was given."""

import pickle

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import bondic
from bondic import InvalidInput
from bondic.core.errors import PolicyError
from test_slips import ONE, PARTS, patients
from test_tool import run

TABLE = patients(seed=1)
TEXT = TABLE.assign(given=np.where(TABLE["given"] == 1, "warm", "cold"))
TREE = DecisionTreeClassifier(max_depth=1).fit(TEXT[["age", "dose"]], np.where(TEXT["dose"] > 0, "warm", "cold"))


def asked(policy, log=TABLE, **changes):
    return bondic.evaluate_policy(log, policy, **{**ONE, "columns": PARTS, **changes})


def choose(states):
    return (states[:, 1] > 0).astype(int)


@pytest.mark.parametrize("actions", [3, [0, 1, 2], range(3), np.int64(3), np.arange(3)], ids=str)
def test_a_number_of_actions_is_understood(actions):
    found = asked(choose, actions=actions)
    assert any("There are 3 actions, 0 to 2, as stated" in note for note in found.notes)
    assert found.estimate > 0.9
    assert asked(lambda s: np.eye(3)[choose(s)], actions=actions).interval == found.interval


@pytest.mark.parametrize("actions", [0, True, 2.5, [0, 2], "warm", [], object()], ids=lambda value: str(value)[:7])
def test_what_is_no_list_of_actions_is_refused_in_words(actions):
    with pytest.raises(InvalidInput, match=r"actions= \(--actions none,low,high\) lists the names.*10 for 0 to 9"):
        asked(choose, actions=actions)


def test_more_actions_than_stated_are_refused():
    with pytest.raises(InvalidInput, match=r"the action 1 at row \d+ is not among the 1 that actions="):
        asked(choose, actions=1)


def test_a_classifier_of_text_names_its_actions(tmp_path, capsys):
    found = asked(TREE, TEXT)
    assert found.estimate > 0.9
    assert asked(TREE, TEXT, actions=["warm", "cold"]).estimate == pytest.approx(found.estimate, abs=0.05)
    with pytest.raises(InvalidInput, match="nothing says which of them the policy's first probability"):
        asked(lambda s: np.eye(2)[choose(s)], TEXT)
    with pytest.raises(
        PolicyError, match=r"knows the actions warm, which are not among those of the log, cold\. Name all"
    ):
        asked(TREE, TEXT[TEXT["given"] == "cold"])
    (tmp_path / "tree.pkl").write_bytes(pickle.dumps(TREE))
    TEXT.to_parquet(tmp_path / "log.parquet")
    columns = [
        word for part, name in PARTS.items() for word in ("--columns", f"{part}={','.join(np.atleast_1d(name))}")
    ]
    given = [
        "--policy",
        tmp_path / "tree.pkl",
        "--with",
        "trust_pickle=yes",
        "--one-step",
        *columns,
        "--reward-range",
        0,
        1,
    ]
    code, _, err = run(capsys, "evaluate", tmp_path / "log.parquet", *given, "--out", tmp_path / "out")
    assert code == 0, err
    certificate = tmp_path / "out" / "certificate.npz"
    assert certificate.exists()


def test_a_strange_answer_names_the_columns_that_the_policy_was_given():
    words = r"sum to 0, not 1.*\(It was given 2 columns, age, dose\. If it needs others.*--columns observations=NAME"
    with pytest.raises(PolicyError, match=words):
        asked(lambda s: np.zeros((len(s), 2)))
    with pytest.raises(PolicyError, match=r"It was given column age\."):
        asked(lambda s: np.zeros((len(s), 2)), columns=PARTS | {"observations": "age"})
    arrays = bondic.Transitions.one_step(TABLE[["age", "dose"]].to_numpy(), TABLE["given"], TABLE["well"])
    with pytest.raises(PolicyError, match=r"sum to 0, not 1.*\(It was given states of 2 columns\.\)"):
        bondic.evaluate_policy(arrays, lambda s: np.zeros((len(s), 2)), gamma=0, reward_range=(0, 1))


# --- small words --------------------------------------------------------------------------------------------------------------


def test_a_column_without_a_name_is_shown_as_such():
    with pytest.raises(InvalidInput, match=r"the table has \(without a name\), age"):
        asked(choose, TABLE.rename(columns={"dose": ""})[["", "age", "given", "well", "p"]])


def test_an_int_is_an_int():
    with pytest.raises(InvalidInput, match="`initial` is an int, and does not say"):
        asked(choose, initial=36)


def test_actions_that_were_never_taken_are_not_told_by_next_states_that_there_are_none_of():
    with pytest.warns(
        bondic.ValidityWarning, match=r"action 2\. They get 100\.0% of its probability at the initial"
    ) as told:
        asked(lambda s: np.tile([0.0, 0.0, 1.0], (len(s), 1)))
    assert "next states" not in str(told[0].message)
