"""What newcomers did with real logs: every slip is met by words that name it, or by what was meant."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import bondic
from bondic import ValidityWarning
from bondic.core.errors import InvalidInput
from test_mistakes import TABLE as EPISODES
from test_tool import run

ONE = {"gamma": 0, "reward_range": (0, 1), "one_step": True}
PARTS = {"observations": ["age", "dose"], "actions": "given", "rewards": "well", "behavior_action_probs": "p"}
TERMS = {"gamma": 0.5, "reward_range": (0, 1), "initial": bondic.InitialStates.exact([[0.0]])}
SINGLE = EPISODES[["state", "action", "reward"]]
BEST = np.array([1, 0, 1])


def patients(rows=300, seed=0):
    """Two columns of very different meaning, and an action that should follow the second alone."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"age": rng.normal(size=rows), "dose": rng.normal(size=rows)})
    table["given"] = rng.integers(0, 2, rows)
    return table.assign(well=(table["given"] == (table["dose"] > 0)).astype(float), p=0.5)


TABLE = patients()
TEXT = TABLE.assign(given=np.where(TABLE["given"] == 1, "warm", "cold"))
TREE = DecisionTreeClassifier(max_depth=1).fit(TABLE[["dose", "age"]], (TABLE["dose"] > 0).astype(int))
NAMING = DecisionTreeClassifier(max_depth=1).fit(TEXT[["age", "dose"]], np.where(TEXT["dose"] > 0, "warm", "cold"))
ARRAYS = bondic.Transitions.one_step(TABLE[["age", "dose"]].to_numpy(), TABLE["given"], TABLE["well"])


class Careless(LogisticRegression):
    """Takes whatever it gets, as many models of people's own do; fitted on one column."""

    def predict_proba(self, states):
        return np.full((len(states), 2), 0.5)

    def predict(self, states):
        return np.zeros(len(states), dtype=int)


CARELESS = Careless().fit(np.linspace(0, 1, 20)[:, None], np.arange(20) % 2)


def asked(policy, log=TABLE, **changes):
    return bondic.evaluate_policy(log, policy, **{**ONE, "columns": PARTS, **changes})


def ask(policy=1, log=EPISODES, **changes):
    return bondic.evaluate_policy(log, policy, **TERMS | changes)


def choose(states):
    return (states[:, 1] > 0).astype(int)


def nothing(states):
    return np.zeros((len(states), 2))


def ended(order, without=()):
    """Episodes that end, their rows in another order."""
    return EPISODES.assign(terminated=EPISODES["timestep"] == 9).loc[order].drop(columns=list(without))


BACKWARDS, MIXED = EPISODES.index[::-1], EPISODES.sample(frac=1, random_state=0).index
SPELLED = EPISODES.drop(columns="next_state").rename(columns={"state": "obs_x"})
SPELLED = SPELLED.assign(obs_y=0.0, next_obs_x=0.0, next_obs_y=0.0)
OUT_OF_ORDER = r"Row \d+ \(timestep \d\) comes after row \d+.*sort_values\(\['episode_id', 'timestep'\]\)"
OTHER_WIDTH = "fitted on 1 columns, and the states of the log have 2"
LISTS = r"actions= \(--actions none,low,high\) lists the names.*10 for 0 to 9"
FLOATS = r"array of floats.*np.array\(actions\)\[states\[:, 0\].astype\(int\)\].*int\(s\[0\]\)"
REFUSED = {
    "a model lacks a column": (
        lambda: asked(TREE, TABLE.rename(columns={"dose": "mg"}), columns=PARTS | {"observations": ["age", "mg"]}),
        r"lack dose\. The log has mg besides.*--columns observations=",
    ),
    "a model of other columns": (lambda: asked(CARELESS), f"{OTHER_WIDTH}: age, dose.*--columns observations="),
    "a model on arrays": (lambda: bondic.evaluate_policy(ARRAYS, CARELESS, gamma=0, reward_range=(0, 1)), OTHER_WIDTH),
    "probabilities of named actions": (
        lambda: asked(lambda s: np.eye(2)[choose(s)], TEXT), "the order of the policy's answers is unknown",
    ),
    "a class that the log never took": (
        lambda: asked(NAMING, TEXT[TEXT["given"] == "cold"]), "the action 'warm', which is not among cold",
    ),
    **{
        f"actions={str(value)[:7]}": (lambda value=value: asked(choose, actions=value), LISTS)
        for value in (0, True, [0, 2], "warm")
    },
    "fewer actions than there are": (lambda: asked(choose, actions=1), r"the action 1 at row \d+ is not among the 1 that"),
    "no probabilities": (lambda: asked(nothing), r"sum to 0, not 1.*2 columns, age, dose\..*--columns observations=NAME"),
    "no column of the target": (lambda: ask("logged"), "target_action_probs=NAME.*at every logged state.*target_log_probs"),
    "states looked up in a list": (lambda: ask(lambda s: BEST.tolist()[s]), FLOATS),
    "a list of actions by state": (lambda: ask(BEST.tolist()), r"every state 0, 1, \.\.\.: dict\(enumerate\(actions\)\)"),
    "propensities as an argument": (lambda: ask(propensities=[1.0]), "`behavior_action_probs` belong to the log"),
    "another name of a part": (lambda: ask(columns={"propensity": "p"}), "Did you mean `behavior_action_probs`"),
    "a column for a part": (lambda: ask(columns={"state": "state"}), "Did you mean `observations`"),
    "an option of a method": (lambda: ask(pilot=0.1), r"`pilot` is an option of a method.*method=Table\(pilot="),
    "an option that no method has": (lambda: bondic.Dual(sied="both"), r"Dual has no option `sied`. Did you mean `side`\?"),
    "states under names of their own": (
        lambda: ask(log=SPELLED),
        "observations=.*obs_x.*obs_y.*next_observations=.*next_obs_x.*next_obs_y",
    ),
    "reversed rows": (lambda: bondic.read_log(ended(BACKWARDS)), OUT_OF_ORDER),
    "shuffled rows without next states": (lambda: bondic.read_log(ended(MIXED, ["next_state"])), OUT_OF_ORDER),
    "shuffled rows without times": (
        lambda: bondic.read_log(ended(MIXED, ["timestep"])), r"row \d+ is terminated.*If the rows are out of order, sort them",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("slip", "words"), REFUSED.values(), ids=REFUSED)
def test_slips_are_refused_with_the_way_out(slip, words):
    with pytest.raises(InvalidInput, match=words):
        slip()


@pytest.mark.parametrize("name", ["lgo.parquet", "sub/log.parquet"])
def test_a_path_that_is_not_there_suggests_one_that_is(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.parquet").touch()
    (tmp_path / "rules.py").touch()
    with pytest.raises(InvalidInput, match="no file or folder") as said:
        bondic.read_log(name)
    assert ("Did you mean `log.parquet`?" in str(said.value)) == (name == "lgo.parquet")
    with pytest.raises(InvalidInput, match=r"Did you mean `rules.py`"):
        bondic.load_policy("rule.py:x")


# --- models that were fitted on a table ------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [TREE, TREE.predict, TREE.predict_proba], ids=["itself", "predict", "probabilities"])
def test_a_model_is_asked_with_the_columns_in_the_order_of_its_fit(policy):
    """The tree looks at `dose`, its first column and the log's second: by position it would look at `age`."""
    found = asked(policy)
    assert found.estimate > 0.9
    assert any("in the order in which it was fitted: dose, age" in note for note in found.notes)
    same = asked(policy, columns=PARTS | {"observations": ["dose", "age"]})
    assert same.estimate == pytest.approx(found.estimate, abs=0.05)
    assert not any("in which it was fitted" in note for note in same.notes)
    one = DecisionTreeClassifier(max_depth=1).fit(TABLE[["dose"]], (TABLE["dose"] > 0).astype(int))
    assert any("does not use age" in note for note in asked(one).notes)
    log = bondic.read_log(TABLE, columns=PARTS, one_step=True)
    assert "policy gives the stored answers" in " ".join(bondic.verify(found.certificate, log, policy).checks)


def test_models_that_look_columns_or_actions_up_by_name_can_be_asked():
    chain = make_pipeline(make_column_transformer((StandardScaler(), ["dose"])), DecisionTreeClassifier(max_depth=1))
    chain.fit(TABLE[["dose", "age"]], (TABLE["dose"] > 0).astype(int))
    assert asked(chain).estimate > 0.9
    found = asked(NAMING, TEXT)
    assert found.estimate > 0.9
    assert asked(NAMING, TEXT, actions=["warm", "cold"]).estimate == pytest.approx(found.estimate, abs=0.05)


def segments(rows=2000, seed=3):
    """Text and a number; an action that should follow both, and labels of which one in four is wrong."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"age": rng.integers(18, 80, rows), "segment": rng.choice(["home", "work"], rows)})
    best = (table["segment"] == "work") & (table["age"] > 40)
    labels = np.where(best ^ (rng.uniform(size=rows) < 0.25), "call", "mail")
    table["given"], table["p"] = rng.choice(["call", "mail"], rows), 0.5
    return table.assign(well=(table["given"] == np.where(best, "call", "mail")).astype(float)), labels


def test_a_pipeline_gets_the_columns_of_the_frame_and_its_prediction_is_the_policy():
    """The prediction is worth 1, votes in proportion to its probabilities about 0.75."""
    table, labels = segments()
    encode = make_column_transformer((OneHotEncoder(), ["segment"]), remainder="passthrough")
    model = make_pipeline(encode, DecisionTreeClassifier(max_depth=3)).fit(table[["segment", "age"]], labels)
    stated = {"columns": PARTS | {"observations": ["age", "segment"]}}
    found = asked(model, table, **stated)
    assert found.low > 0.9
    assert any("To draw it" in note for note in found.notes)
    assert asked(model, pl.DataFrame(table.to_dict("list")), **stated).interval == found.interval
    votes = asked(model.predict_proba, table, **stated)
    assert votes.high < 0.85
    same = asked(bondic.load_policy(model, actions=["call", "mail"], output="probabilities"), table, **stated)
    assert same.interval == votes.interval
    better = asked(model, table, against=model.predict_proba, **stated)
    assert better.low > 0.15


def test_against_takes_what_policy_takes():
    """Frames, names and text reach the other policy as they reach the first."""
    table, _ = segments()
    stated = {"columns": PARTS | {"observations": ["age", "segment"]}}

    def best(frame):
        return np.where((frame["segment"] == "work") & (frame["age"] > 40), "call", "mail")

    found = asked(best, table, against=lambda frame: np.where(frame["segment"] == "work", "call", "mail"), **stated)
    one, two = (
        asked(one, table, **stated)
        for one in (best, lambda frame: np.where(frame["segment"] == "work", "call", "mail"))
    )
    assert [part.interval for part in found.parts] == [one.interval, two.interval]
    assert 0 < found.low < found.high
    assert asked(best, table, against="mail", **stated).low > 0


def test_text_of_numbers_is_text():
    """In states as well: such a column holds names, in pandas as in polars, and one with a spoiled number is refused."""
    table = pd.DataFrame({"zone": TABLE["given"].astype(str), "given": TABLE["given"], "well": TABLE["well"], "p": 0.5})
    columns = PARTS | {"observations": "zone"}
    log = bondic.read_log(table, columns=columns, one_step=True)
    assert log.names == ("zone=0", "zone=1")
    table.loc[3, "zone"] = "n/a"
    with pytest.raises(InvalidInput, match=r"zone is text although.*'n/a' at row 3"):
        bondic.read_log(table, columns=columns, one_step=True)


# --- actions -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("actions", [3, [0, 1, 2], np.arange(3)], ids=str)
def test_a_number_of_actions_is_understood(actions):
    how = {**ONE, "columns": PARTS, "actions": actions}
    found, same = (bondic.make_problem(TABLE, policy, **how) for policy in (choose, lambda s: np.eye(3)[choose(s)]))
    assert any("There are 3 actions, 0 to 2, as stated" in note for note in found.notes)
    np.testing.assert_array_equal(found.answers.initial, same.answers.initial)


def test_actions_that_were_never_taken_are_not_told_by_next_states_that_there_are_none_of():
    with pytest.warns(ValidityWarning, match=r"action 2\. They get 100\.0% of its probability at the initial") as told:
        asked(lambda s: np.tile([0.0, 0.0, 1.0], (len(s), 1)))
    assert "next states" not in str(told[0].message)


# --- discounts, horizons, rewards ---------------------------------------------------------------------------------------------


def notes(log=EPISODES, policy=1, **changes):
    return " ".join(bondic.make_problem(log, policy, **TERMS | changes).notes)


@pytest.mark.parametrize("gamma", [None, 0.9, 1])
def test_a_discount_means_nothing_where_every_row_stands_alone(gamma):
    """r / (1 - gamma) is ten times too long a range for one reward."""
    found = asked(1, gamma=gamma)
    assert (found.value_range.low, found.value_range.high) == pytest.approx((0, 1))
    assert any(f"gamma = {gamma} is not used" in note for note in found.notes) == bool(gamma)


def test_a_discount_of_0_says_that_first_rewards_alone_count():
    alone = "gamma = 0 counts the first reward of an episode alone"
    assert alone in notes(gamma=0)
    assert alone not in notes()
    late = EPISODES.assign(reward=np.where(EPISODES["timestep"] == 9, 1.0, 0.0))
    with pytest.warns(ValidityWarning, match="Every first reward of the log is 0, later ones are not"):
        notes(late, gamma=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert alone in notes(EPISODES.assign(reward=0.0), gamma=0)


def test_propensities_that_are_all_1_are_doubted_and_can_be_accepted():
    """A filler in place of probabilities that nobody knows: every weight is wrong."""
    single, how = SINGLE.assign(propensity=1.0), {"one_step": True, "initial": None}
    for log in (single, single.drop(columns="propensity").assign(logprob=0.0)):
        with pytest.warns(ValidityWarning, match="All 300 propensities of the log are 1, although it took 2 different"):
            notes(log, **how)
    accepted = ask(log=single, accept=["sure-propensities"], **how)
    assert not accepted.warnings
    assert any("Every action of the log was certain" in item.text for item in accepted.assumptions)
    notes(single.assign(propensity=np.where(EPISODES["timestep"] == 3, 0.9, 1.0)), **how)
    notes(single.assign(action=1), **how)  # there may be no other action


# --- the order of time ------------------------------------------------------------------------------------------------------

DAYS = pd.date_range("2024-01-01", periods=len(SINGLE), freq="h")
STAMPS = {"timestamp": np.arange(len(SINGLE)), "ts": DAYS.astype(str), "event_time": DAYS.tz_localize("UTC")}


@pytest.mark.parametrize(("name", "stamps"), STAMPS.items(), ids=STAMPS)
def test_time_that_goes_back_is_doubted(name, stamps):
    back = SINGLE.assign(**{name: stamps})[::-1].reset_index(drop=True)
    with pytest.warns(ValidityWarning, match=rf"column {name} goes back 299 times \(first: at row 1,.*sort_values"):
        bondic.read_log(back, one_step=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bondic.read_log(SINGLE.assign(timestamp=stamps), one_step=True)
        bondic.read_log(SINGLE.assign(timestamp=stamps[0]), one_step=True)  # equal stamps are fine
        bondic.read_log(back.rename(columns={name: "weight"}), one_step=True)


def test_time_is_compared_within_episodes():
    """Episodes may lie one after the other in the file although they ran at the same time."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bondic.read_log(EPISODES.assign(time=EPISODES["timestep"]))
    with pytest.warns(ValidityWarning, match="column time goes back 270 times"):
        bondic.read_log(EPISODES.assign(time=-EPISODES["timestep"]))


# --- lines with episodes ------------------------------------------------------------------------------------------------------

LINES = [
    {"old_logprobs": [-0.7, -0.1], "new_logprobs": [-0.2, -0.1], "score": 1.0},
    {"old_logprobs": [-1.6], "new_logprobs": [-3.0], "score": 0.0},
    {"old_logprobs": [-1.6, -0.5, -0.3], "new_logprobs": [-3.0, -0.2, -0.1], "score": 0.5},
]
USUAL = {"old_logprobs": "logprobs", "new_logprobs": "target_logprobs", "score": "reward"}
NAMED = {"behavior_log_probs": "old_logprobs", "target_log_probs": "new_logprobs", "rewards": "score"}


def written(folder, lines=LINES, between="\n"):
    path = folder / "log.jsonl"
    path.write_text(between.join(map(json.dumps, lines)))
    return path


def usual(**changes):
    """The lines under usual names, the last with other values."""
    lines = [{USUAL[name]: value for name, value in line.items()} for line in LINES]
    lines[2] |= changes
    return lines


def test_a_log_of_probabilities_is_told_what_it_lacks(tmp_path):
    path = written(tmp_path)
    options = " ".join(f"--columns {part}={name}" for part, name in NAMED.items())
    with pytest.raises(InvalidInput, match=rf"--policy logged\) observations and actions are not needed.*{options}"):
        bondic.read_log(path)
    told = bondic.read_log(path, columns=NAMED).transitions
    np.testing.assert_array_equal(told.target_log_probs, [-0.2, -0.1, -3.0, -3.0, -0.2, -0.1])
    steps = [[{"p": {"old": o, "new": n}} for o, n in zip(*list(line.values())[:2], strict=True)] for line in LINES]
    lines = [{"steps": each, "reward": line["score"]} for each, line in zip(steps, LINES, strict=True)]
    nested = {"behavior_log_probs": "steps.p.old", "target_log_probs": "steps.p.new"}
    found = bondic.read_log(written(tmp_path, lines), columns=nested)  # lists of objects are lists of their values
    assert found.transitions.content_hash == told.content_hash


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"target_logprobs": [-3.0, 0.2, -0.1]}, r"at row 4.*\(In the file row 4 is step 1 of line 5\.\)"),
        ({"target_logprobs": [-3.0, -0.1]}, r"log\.jsonl: line 5 is an episode whose lists differ"),
        ({"target_logprobs": [-3.0, [], -0.1]}, r"log\.jsonl: step 1 of line 5 has a list"),
        ({"reward": "good"}, r"In the file row 5 is step 2 of line 5"),
    ],
)
def test_what_is_wrong_is_named_by_the_line_of_the_file(tmp_path, changes, words):
    with pytest.raises(InvalidInput, match=words):
        bondic.read_log(written(tmp_path, usual(**changes), "\n\n"))


def test_a_row_per_line_is_named_by_its_line_and_columns_that_nobody_uses_may_be_anything(tmp_path):
    rows = [
        {"state": 0, "action": 1, "reward": 0.5, "m": "hi"},
        {"state": 1, "action": 1, "reward": 1, "m": [{"text": 1}]},
    ]
    assert len(bondic.read_log(written(tmp_path, rows), one_step=True).transitions) == 2
    rows[1]["reward"] = None
    with pytest.raises(InvalidInput, match=r"missing at row 1.*In the file row 1 is line 3"):
        bondic.read_log(written(tmp_path, rows, "\n\n"), one_step=True)


# --- the command line -----------------------------------------------------------------------------------------------------------


def test_the_command_line_understands_a_comma_and_a_state_and_warns_of_alpha(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    EPISODES.assign(time=-EPISODES["timestep"]).to_parquet("log.parquet")
    np.savez("policy.npz", probs=np.full((3, 2), 0.5))
    place = ["evaluate", "log.parquet", "--policy", "policy.npz", "--gamma", "0.5", "--out", "out"]
    code, out, err = run(capsys, *place, "--reward-range", "[0, 1]", "--initial", "2", "--alpha", "0.9")
    assert code == 0, err
    assert "warning: alpha is 0.9" in err
    assert "column time goes back 270 times" in out + err
    exact, half = bondic.InitialStates.exact([[2.0]]), bondic.TablePolicy(np.full((3, 2), 0.5))
    with pytest.warns(ValidityWarning):
        assert json.loads(Path("out/result.json").read_text())["low"] == ask(half, initial=exact, alpha=0.9).low
    code, _, err = run(capsys, *place, "--reward-range", "0,1", "--force", "--initial", "2,3")
    assert code == 2
    assert "a state of 2 numbers" in err
