"""Words for what newcomers mistyped or misunderstood: each names what was meant, or does it."""

import json
from pathlib import Path

import numpy as np
import pytest

import bondic
from bondic.cli.options import spelled_pairs
from bondic.core.errors import InvalidInput
from test_mistakes import TABLE
from test_tool import run

ASKED = {"gamma": 0.5, "reward_range": (0, 1), "initial": bondic.InitialStates.exact([[0.0]])}
BEST = [1, 0, 1]


def ask(policy=1, log=TABLE, **changes):
    return bondic.evaluate_policy(log, policy, **ASKED | changes)


def words(match, **changes):
    with pytest.raises(InvalidInput, match=match):
        ask(**changes)


def test_a_missing_column_of_the_target_says_how_to_make_it():
    words(
        r"target_action_probs=NAME.*To make it, ask the policy at every logged state.*target_log_probs", policy="logged"
    )


def test_shuffled_rows_name_the_columns_to_sort_by():
    mixed = TABLE.rename(columns={"episode_id": "patient_id", "timestep": "step"}).sample(frac=1, random_state=0)
    words(r"Row \d+ \(timestep \d\) comes after row \d+.*sort_values\(\['patient_id', 'step'\]\)", log=mixed)
    assert ask(log=mixed.sort_values(["patient_id", "step"])).interval == ask().interval


@pytest.mark.parametrize(
    "policy",
    [lambda s: BEST[s], lambda s: np.array(BEST)[s], lambda s: dict(enumerate(BEST))[s], lambda s: BEST[s[0, 0]]],
    ids=["list", "array", "dict", "entry"],
)
def test_states_are_floats_and_come_all_at_once(policy):
    words(r"array of floats.*np.array\(actions\)\[states\[:, 0\].astype\(int\)\].*int\(s\[0\]\)", policy=policy)
    followed = ask(lambda states: np.array(BEST)[states[:, 0].astype(int)])
    one_by_one = ask(lambda states: np.array([BEST[int(s[0])] for s in states]))
    assert followed.interval == one_by_one.interval


def test_a_list_of_actions_by_state_is_answered_with_what_is_understood():
    words(r"One action for every state 0, 1, \.\.\.: dict\(enumerate\(actions\)\)", policy=BEST)
    assert ask(dict(enumerate(BEST))).interval == ask(lambda states: np.array(BEST)[states[:, 0].astype(int)]).interval


def test_propensities_that_are_all_1_are_doubted_and_can_be_accepted():
    """A filler in place of probabilities that nobody knows: every weight is wrong."""
    single = TABLE[["state", "action", "reward"]].assign(propensity=1.0)
    how = {"log": single, "one_step": True, "initial": None}
    with pytest.warns(
        bondic.ValidityWarning, match="All 300 propensities of the log are 1, although it took 2 different"
    ):
        found = ask(**how)
    assert "propensities of the log are 1" in found.warnings[0]
    accepted = ask(**how, accept=["sure-propensities"])
    assert not accepted.warnings
    assert any("Every action of the log was certain" in item.text for item in accepted.assumptions)
    ask(**how | {"log": single.assign(propensity=np.where(TABLE["timestep"] == 3, 0.9, 1.0))})
    ask(**how | {"log": single.assign(action=1)})  # there may be no other action
    with pytest.warns(bondic.ValidityWarning, match="propensities of the log are 1"):
        ask(**how | {"log": single.drop(columns="propensity").assign(logprob=0.0)})


def test_a_confidence_in_the_place_of_alpha_is_pointed_out():
    with pytest.warns(bondic.ValidityWarning, match=r"holds with probability 0\.05 alone.*alpha is 0\.05"):
        found = ask(alpha=0.95)
    assert "For 95% confidence alpha is 0.05" in found.warnings[0]
    assert not ask(alpha=0.5).warnings


def test_an_initial_state_is_counted_not_named():
    words(r"at initial state number 0 \(counted from 0\) sum to 1.4", policy=lambda s: np.full((len(s), 2), 0.7))


def test_arguments_and_parts_that_go_by_other_names():
    words(r"`behavior_action_probs` belong to the log.*columns=\{'behavior_action_probs': \.\.\.\}", propensities=[1.0])
    words("Did you mean `behavior_action_probs`", columns={"propensity": "p"})
    words("Did you mean `observations`", columns={"state": "state"})
    words(r"`pilot` is an option of a method: pass the method with it, method=Table\(pilot=", pilot=0.1)
    single = TABLE[["state", "action", "reward"]].assign(propensities=0.5)
    assert ask(log=single, one_step=True, initial=None).method == "propensities"


@pytest.mark.parametrize("kind", [bondic.Sequential, bondic.Dual, bondic.Propensities, bondic.Default])
def test_a_method_lists_its_options(kind):
    with pytest.raises(
        InvalidInput, match=rf"{kind.__name__} has no option `sied`. Did you mean `side`\? It has .*side"
    ):
        kind(sied="both")
    assert kind(side="lower").side == "lower"


@pytest.mark.parametrize("name", ["lgo.parquet", "sub/log.parquet"])
def test_a_path_that_is_not_there_suggests_one_that_is(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    TABLE.to_parquet("log.parquet")
    near = name == "lgo.parquet"
    with pytest.raises(InvalidInput, match="no file or folder") as said:
        bondic.read_log(name)
    assert ("Did you mean `log.parquet`?" in str(said.value)) == near
    (tmp_path / "rules.py").write_text("x = 1")
    np.savez("policy.npz", probs=np.eye(2))
    for wrong, right in (("polcy.npz", "policy.npz"), ("rule.py:x", "rules.py")):
        with pytest.raises(InvalidInput, match=f"Did you mean `{right}`"):
            bondic.load_policy(wrong)


@pytest.mark.parametrize("how", ["-100,-1", "[-100,-1]", "(-100, -1)"])
def test_a_range_may_be_written_with_a_comma(how):
    assert spelled_pairs(["x", "--reward-range", how, "--alpha"]) == ["x", "--reward-range", "-100", "-1", "--alpha"]
    assert spelled_pairs([f"--value-range={how}"]) == ["--value-range", "-100", "-1"]
    assert spelled_pairs(["--columns", "a,b", "--reward-range", "0", "1"]) == [
        "--columns",
        "a,b",
        "--reward-range",
        "0",
        "1",
    ]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    TABLE.to_parquet("log.parquet")
    np.savez("policy.npz", probs=np.full((3, 2), 0.5))
    return ["evaluate", "log.parquet", "--policy", "policy.npz", "--gamma", "0.5", "--out", "out"]


def test_the_command_line_understands_a_comma_and_a_state_and_warns_of_alpha(place, capsys):
    code, _, err = run(capsys, *place, "--reward-range", "0,1", "--initial", "2", "--alpha", "0.9")
    assert code == 0, err
    assert "warning: alpha is 0.9" in err
    assert "UserWarning" not in err
    written = json.loads(Path("out/result.json").read_text())
    assert written["value_range"] == pytest.approx([0, 2])
    exact = bondic.InitialStates.exact([[2.0]])
    half = bondic.TablePolicy(np.full((3, 2), 0.5))
    with pytest.warns(bondic.ValidityWarning):
        assert written["low"] == ask(half, initial=exact, alpha=0.9).low
    code, _, err = run(capsys, *place, "--force", "--reward-range", "0,1", "--initial", "2,3")
    assert code == 2
    assert "a state of 2 numbers (there is no such file); states of the log have 1" in err


def test_the_command_line_lists_options_and_files_that_there_are(place, capsys):
    asked = [*place, "--reward-range", "0", "1"]
    _, _, err = run(capsys, *asked, "--method", "sequential", "--with", "rank=3")
    assert "sequential: pilot, value_bandwidth" in err
    _, _, err = run(capsys, *asked, "--with", "least_behavior_probs=0.1")
    assert "Did you mean `least_behavior_prob`" in err
    assert "largest_ratio" in err
    _, _, err = run(capsys, *[word.replace("log.p", "lgo.p") for word in asked])
    assert "Did you mean `log.parquet`" in err
