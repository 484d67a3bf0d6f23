"""What newcomers did with real logs: every slip is met by words that name it, or by what was meant."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import bondic
from bondic import InvalidInput, load_policy
from bondic.core.errors import PolicyError
from test_mistakes import TABLE as EPISODES
from test_tool import run

ONE = {"gamma": 0, "reward_range": (0, 1), "one_step": True}
PARTS = {"observations": ["age", "dose"], "actions": "given", "rewards": "well", "behavior_action_probs": "p"}


def patients(rows=300, seed=0):
    """Two columns of very different meaning, and an action that should follow the second alone."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"age": rng.normal(size=rows), "dose": rng.normal(size=rows)})
    table["given"] = rng.integers(0, 2, rows)
    table["well"] = (table["given"] == (table["dose"] > 0)).astype(float)
    table["p"] = 0.5
    return table


TABLE = patients()
TREE = DecisionTreeClassifier(max_depth=1).fit(TABLE[["dose", "age"]], TABLE["dose"] > 0)
TREE.classes_ = np.array([0, 1])


def asked(policy, log=TABLE, **changes):
    return bondic.evaluate_policy(log, policy, **{**ONE, "columns": PARTS, **changes})


# --- models that were fitted on a table ------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [TREE, TREE.predict], ids=["probabilities", "predict"])
def test_a_model_is_asked_with_the_columns_in_the_order_of_its_fit(policy):
    """The tree looks at `dose`, its first column and the log's second: by position it would look at `age`."""
    found = asked(policy)
    assert found.estimate > 0.9
    assert any("in the order in which it was fitted: dose, age" in note for note in found.notes)
    same = asked(policy, columns=PARTS | {"observations": ["dose", "age"]})
    assert same.estimate == pytest.approx(found.estimate, abs=0.05)
    assert not any("in which it was fitted" in note for note in same.notes)


def test_a_model_leaves_out_columns_that_it_does_not_know():
    tree = DecisionTreeClassifier(max_depth=1).fit(TABLE[["dose"]], (TABLE["dose"] > 0).astype(int))
    found = asked(tree)
    assert found.estimate > 0.9
    assert any("does not use age" in note for note in found.notes)


def test_a_model_whose_columns_the_log_lacks_is_refused_by_their_names():
    other = TABLE.rename(columns={"dose": "milligrams"})
    parts = PARTS | {"observations": ["age", "milligrams"]}
    with pytest.raises(PolicyError, match=r"lack dose\. The log has milligrams besides.*--columns observations="):
        asked(TREE, other, columns=parts)


@pytest.mark.parametrize("make", [lambda m: m, lambda m: m.predict, load_policy], ids=["itself", "predict", "loaded"])
def test_another_number_of_columns_is_refused_with_those_that_were_taken(make):
    """26 columns where 13 were meant: a gap in every column adds its 0/1 column."""
    rng = np.random.default_rng(1)

    class Careless(LogisticRegression):
        """Takes whatever it gets, as many models of people's own do."""

        def predict_proba(self, states):
            return np.full((len(states), 2), 0.5)

        def predict(self, states):
            return np.zeros(len(states), dtype=int)

    model = make(Careless().fit(rng.normal(size=(20, 1)), np.arange(20) % 2))
    with pytest.raises(PolicyError, match=r"fitted on 1 columns.* have 2: age, dose.*--columns observations="):
        asked(model)
    arrays = bondic.Transitions.one_step(TABLE[["age", "dose"]].to_numpy(), TABLE["given"], TABLE["well"])
    with pytest.raises(PolicyError, match="fitted on 1 columns, and the states of the log have 2"):
        bondic.evaluate_policy(arrays, model, gamma=0, reward_range=(0, 1))


def test_states_without_names_are_taken_in_order_and_that_is_said():
    """Arrays have no names to go by, nor have the numbered columns of one."""
    states = TABLE[["dose", "age"]].to_numpy()
    log = {"observations": states, "actions": TABLE["given"], "rewards": TABLE["well"], "pscore": TABLE["p"]}
    for given in (log, bondic.read_log(log, one_step=True).transitions):
        more = {} if given is not log else {"one_step": True}
        found = bondic.evaluate_policy(given, TREE, gamma=0, reward_range=(0, 1), **more)
        assert found.estimate > 0.9
        assert any("have no names, and are taken to be these in this order" in note for note in found.notes)


def test_a_pipeline_that_looks_columns_up_by_name_can_be_asked():
    chain = make_pipeline(make_column_transformer((StandardScaler(), ["dose"])), DecisionTreeClassifier(max_depth=1))
    chain.fit(TABLE[["dose", "age"]], (TABLE["dose"] > 0).astype(int))
    assert asked(chain).estimate > 0.9


def test_the_command_line_asks_by_name_and_says_so(tmp_path, capsys):
    (tmp_path / "tree.pkl").write_bytes(pickle.dumps(TREE))
    TABLE.to_parquet(tmp_path / "log.parquet")
    words = ["evaluate", tmp_path / "log.parquet", "--policy", tmp_path / "tree.pkl", "--with", "trust_pickle=yes", "--one-step",
             "--columns", "observations=age,dose", "--columns", "actions=given", "--columns", "rewards=well",
             "--columns", "behavior_action_probs=p", "--reward-range", "0", "1"]  # fmt: skip
    estimates = []
    for number, more in enumerate(((), ("--with", "memory=1GB"))):
        _, out, _ = run(capsys, *words, "--out", tmp_path / str(number), *more)
        assert "in the order in which it was fitted: dose, age" in out
        estimates.append(json.loads((tmp_path / str(number) / "result.json").read_text())["estimate"])
    assert estimates[0] == estimates[1] > 0.9


def test_verifying_asks_by_name():
    found = asked(TREE)
    log = bondic.read_log(TABLE, columns=PARTS, one_step=True)
    assert "policy gives the stored answers" in " ".join(bondic.verify(found.certificate, log, TREE).checks)


# --- horizons and discounts ---------------------------------------------------------------------------------------------------


def test_a_horizon_that_cuts_episodes_says_what_is_evaluated(tmp_path, capsys):
    """A newcomer took the horizon for the length of a simulation, and the value for that of whole episodes."""
    found = bondic.make_problem(EPISODES, lambda s: np.full((len(s), 2), 0.5), gamma=1, reward_range=(0, 1), horizon=4)
    (note,) = (note for note in found.notes if "horizon" in note)
    assert note.startswith(
        "Only the first 4 steps count (horizon 4): what is earned later is no part of the value. 30 of"
    )
    assert "30 episodes (100%) are longer, up to 10 steps" in note
    whole = bondic.make_problem(EPISODES, lambda s: np.full((len(s), 2), 0.5), gamma=1, reward_range=(0, 1), horizon=10)
    assert not any("horizon" in note for note in whole.notes)
    np.savez(tmp_path / "policy.npz", probs=np.full((3, 2), 0.5))
    EPISODES.to_parquet(tmp_path / "log.parquet")
    files = [tmp_path / "log.parquet", "--policy", tmp_path / "policy.npz", "--out", tmp_path / "out"]
    _, out, _ = run(capsys, "evaluate", *files, "--gamma", 1, "--horizon", 4, "--reward-range", 0, 1)
    assert note in out


# --- advice that is of use ------------------------------------------------------------------------------------------------------


def images(rows=600, **changes):
    """One-step decisions about digits, without propensities; the policy is right about most of them."""
    pixels, digits = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    seen = rng.permutation(len(pixels))[:rows]
    taken = rng.integers(0, 10, rows)
    log = bondic.Transitions.one_step(pixels[seen], taken, (taken == digits[seen]).astype(float))
    model = LogisticRegression(max_iter=300).fit(pixels[:300] / 16, digits[:300])
    return bondic.evaluate_policy(log, lambda s: model.predict_proba(s / 16), gamma=0, reward_range=(0, 1), **changes)


def test_advice_names_no_option_that_is_in_force_and_the_real_reason():
    found = images()
    assert found.status.name == "TRIVIAL"
    assert found.choices["states"].startswith("states are numbers")
    words = " ".join(map(str, found.next_steps()))
    assert "--categorical none" not in words + found.choices["states"]
    assert "--allowance" in words  # what would help: the log itself has no more to say
    assert "smaller discount" not in words  # it is 0
    assert "1 steps" not in words
    assert "half the value range takes" not in words  # what foresaw these rows to be enough is no guide to more


def test_states_that_were_stated_to_be_names_are_not_questioned():
    rng = np.random.default_rng(0)
    log = bondic.Transitions.one_step(rng.integers(0, 40, (300, 1)), rng.integers(0, 2, 300), rng.random(300))
    for stated in (None, True):
        found = bondic.evaluate_policy(log, 1, gamma=0, reward_range=(0, 20), categorical=stated)
        assert ("--categorical none" in " ".join(map(str, found.next_steps()))) == (stated is None)


def test_a_discount_of_1_is_answered_with_what_serves_best():
    """A chain that ends: a discount just below 1 says something, a horizon makes a table of every step, and says nothing."""
    rng, rows = np.random.default_rng(0), []
    for episode in range(500):
        state, time = 0, 0
        while state < 3:
            action = int(rng.integers(0, 2))
            following = state + int(rng.random() < (0.5 if action else 0.3))
            rows.append((state, action, float(following == 3), following, following == 3, episode, time))
            state, time = following, time + 1
    table = pd.DataFrame(
        rows, columns=["state", "action", "reward", "next_state", "terminated", "episode_id", "timestep"]
    )
    asking = {"initial": bondic.InitialStates.exact([[0.0]]), "reward_range": (0, 1), "value_range": (0, 1)}
    with pytest.raises(InvalidInput, match=r"nothing bounds a sum.*just below 1.*value_range=.*gamma=0.99.*horizon=H"):
        bondic.evaluate_policy(table, 1, gamma=1, **asking)
    near, steps = (
        bondic.evaluate_policy(table, 1, **asking, **how) for how in ({"gamma": 0.999}, {"gamma": 1, "horizon": 50})
    )
    assert near.length < 0.5 * steps.length


@pytest.mark.parametrize("gamma", [None, 0, 0.9, 1])
def test_a_discount_means_nothing_where_every_row_stands_alone(gamma):
    """r / (1 - gamma) is ten times too long a range for one reward."""
    found = asked(1, gamma=gamma)
    assert (found.value_range.low, found.value_range.high) == pytest.approx((0, 1))
    assert found.interval == asked(1).interval
    assert any(f"gamma = {gamma} is not used" in note for note in found.notes) == bool(gamma)


def test_a_discount_means_nothing_on_the_command_line_either(tmp_path, capsys):
    table = TABLE.rename(columns={"age": "obs_0", "dose": "obs_1", "given": "action", "well": "reward", "p": "pscore"})
    table.to_parquet(tmp_path / "log.parquet")
    (tmp_path / "one.py").write_text("def always(states):\n    return [1] * len(states)\n")
    ends = []
    for number, more in enumerate(((), ("--gamma", "0.9"))):
        words = ["--policy", f"{tmp_path / 'one.py'}:always", "--one-step", "--reward-range", 0, 1, *more]
        code, out, err = run(capsys, "evaluate", tmp_path / "log.parquet", *words, "--out", tmp_path / str(number))
        assert code == 0, err
        ends.append(json.loads((tmp_path / str(number) / "result.json").read_text())["low"])
        assert ("gamma = 0.9 is not used" in out) == bool(more)
    assert ends[0] == ends[1]


def test_rows_that_all_end_raise_the_question_whether_anything_can_follow():
    log = bondic.Transitions.one_step(TABLE[["age", "dose"]], TABLE["given"], TABLE["well"])
    (note,) = (note for note in bondic.make_problem(log, 1, gamma=0.9, reward_range=(0, 1)).notes if "ends its" in note)
    assert "one reward in [0, 1]; gamma = 0.9 allows for [0, 10]" in note
    assert not any("ends its" in note for note in bondic.make_problem(log, 1, gamma=0, reward_range=(0, 1)).notes)
