"""Logs of other tools: each read on what its library documents, row by row, with what it cannot know said."""

import gzip
import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import bondic as b
from bondic.core.columns import RowRange


def refused(source, *needles, **more):
    with pytest.raises(b.InvalidInput) as caught:
        b.read_log(source, **more)
    for needle in needles:
        assert needle in str(caught.value), str(caught.value)


def bandit(n=30, seed=0):
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=n), "action": rng.integers(0, 4, size=n), "reward": rng.uniform(size=n)}


# --- patterns of column names --------------------------------------------------------------------------


def test_patterns_take_numbered_columns_in_the_order_of_their_numbers():
    n = 6
    data = {"action": np.arange(n) % 2, "reward": np.ones(n)}
    data |= {f"user_feature_{k}": np.full(n, float(k)) for k in (10, 2, 0, 1)} | {"age": np.arange(n) * 1.5}
    loaded = b.read_log(data, columns={"observations": ["age", "user_feature_*"]}, one_step=True)
    assert loaded.names == ("age", "user_feature_0", "user_feature_1", "user_feature_2", "user_feature_10")
    assert b.read_log(data, columns={"observations": "user_feature_?"}, one_step=True).names[-1] == "user_feature_2"
    refused(data, "item_*", "but the table has", columns={"observations": "item_*"}, one_step=True)


# --- JSON lines ----------------------------------------------------------------------------------------


def lines(path, rows):
    text = "\n".join(json.dumps(row) for row in rows) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["log.ndjson", "log.jsonl.gz"])
def test_a_line_for_every_row(name, tmp_path):
    data = bandit()
    rows = [
        {"state": {"b": [x, 2 * x], "a": x}, "action": int(a), "reward": float(r)}
        for x, a, r in zip(data["x"], data["action"], data["reward"], strict=True)
    ]
    path = lines(tmp_path / name, rows)
    loaded = b.read_log(path, columns={"observations": ["state.a", "state.b"]}, one_step=True)
    x = data["x"]
    expected = b.Transitions.one_step(np.column_stack([x, x, 2 * x]), data["action"], data["reward"])
    assert loaded.transitions.content_hash == expected.content_hash


def spoken(seed=0, episodes=12):
    """Episodes of 1 to 5 tokens with their log-probabilities and one reward."""
    rng = np.random.default_rng(seed)
    for k in range(episodes):
        steps = 1 + int(rng.integers(0, 5))
        yield {
            "prompt": f"p{k}",
            "tokens": [f"t{i}" for i in rng.integers(0, 50, size=steps)],
            "logprobs": (-rng.exponential(size=steps)).tolist(),
            "target_logprobs": [-float("inf") if i == 3 else -0.5 for i in range(steps)],
            "reward": float(k % 3 == 0),
        }


def test_a_line_for_every_episode_with_a_reward_at_its_end(tmp_path):
    given = list(spoken())
    log = b.read_log(path := lines(tmp_path / "log.jsonl", given)).transitions
    lengths = [len(line["logprobs"]) for line in given]
    ends = np.cumsum(lengths) - 1
    assert log.unrecorded == ("observations", "actions")
    np.testing.assert_array_equal(np.flatnonzero(log.terminations), ends)
    np.testing.assert_array_equal(log.rewards[ends], [line["reward"] for line in given])
    assert log.rewards.sum() == sum(line["reward"] for line in given)
    np.testing.assert_array_equal(log.timesteps, np.concatenate([np.arange(steps) for steps in lengths]))
    for name, column in (("behavior_log_probs", "logprobs"), ("target_log_probs", "target_logprobs")):
        np.testing.assert_array_equal(getattr(log, name), np.concatenate([line[column] for line in given]))
    table = pa.Table.from_pylist(given)
    pq.write_table(table, tmp_path / "log.parquet")
    feather.write_feather(table, tmp_path / "log.feather")
    for source in (path, tmp_path / "log.parquet", tmp_path / "log.feather", table):
        assert b.read_log(source).transitions.content_hash == log.content_hash


def test_turns_of_several_tokens_have_the_sum_of_their_logarithms(tmp_path):
    """Lists inside of lists: a step is a turn, and its probability the product over its tokens."""
    turns = [
        {"logprobs": [[-0.5, -0.25], [-1.0]], "target_logprobs": [[-1.0, -0.5], [-2.0]], "reward": 1.0},
        {"logprobs": [[-0.125], [-0.5, -1.5]], "target_logprobs": [[-math.inf], -0.75], "reward": 0.0},
    ]
    loaded = b.read_log(lines(tmp_path / "log.jsonl", turns))
    np.testing.assert_array_equal(loaded.transitions.behavior_log_probs, [-0.75, -1.0, -0.125, -2.0])
    np.testing.assert_array_equal(loaded.transitions.target_log_probs, [-1.5, -2.0, -math.inf, -0.75])
    assert any("one per token, were summed" in note for note in loaded.notes)


def test_lists_of_the_policys_probabilities_are_those_of_all_actions(tmp_path):
    rows = [{"x": 0.5 * k, "action": k % 2, "reward": 1.0, "target_probs": [0.25, 0.75]} for k in range(4)]
    loaded = b.read_log(lines(tmp_path / "log.jsonl", rows), columns={"observations": "x"}, one_step=True)
    np.testing.assert_array_equal(loaded.logged_action_probs, np.tile([0.25, 0.75], (4, 1)))


def test_rewards_of_steps_and_cut_episodes(tmp_path):
    short = {"rewards": [0.0, 1.0], "obs": [[0.5, 1], [2, 3]], "action": [0, 1], "truncated": False, "weight": 3.5}
    states = {"obs": [[1, 1], [2, 2], [3, 3]], "action": [1, 1, 0]}
    given = [short, {"rewards": [1.0, 0.0, 1.0], **states, "truncated": True, "weight": 2.5}]
    path = lines(tmp_path / "log.jsonl", given)
    log = b.read_log(path, columns={"observations": ["obs", "weight"]})
    assert "weight" in log.names
    np.testing.assert_array_equal(log.transitions.observations[:2], [[0.5, 1, 3.5], [2, 3, 3.5]])
    assert list(log.transitions.terminations) == [False, True, False, False]  # the last cut row has no next observation
    del given[0]["truncated"], given[1]["truncated"]
    with pytest.warns(b.ValidityWarning, match="give `truncated`"):
        b.read_log(lines(tmp_path / "log.jsonl", given))


FAULTS = [
    ([{"reward": 1.0}, "x"], "line 2"),
    ([{"logprobs": [-1.0, -2.0], "target_logprobs": [-1.0], "reward": 1}], "target_logprobs 1"),
    ([{"logprobs": [], "target_logprobs": [], "reward": 1}], "empty"),
    ([{"logprobs": [[-1.0], []], "target_logprobs": [-1.0, -1.0], "reward": 1}], "step 1"),
    ([{"behavior_prob": [[0.5, 0.5], [0.5]], "target_logprobs": [-1.0, -1.0], "reward": 1}], "product over its tokens"),
]


@pytest.mark.parametrize(("rows", "needle"), FAULTS)
def test_faults_of_lines_name_them(rows, needle, tmp_path):
    refused(lines(tmp_path / "log.jsonl", rows), "line", needle)


# --- what was not recorded -----------------------------------------------------------------------------


def steps(n=40):
    rng = np.random.default_rng(3)
    last = np.arange(n) % 5 == 4
    return {
        "reward": rng.uniform(size=n), "terminated": last, "episode": np.arange(n) // 5, "t": np.arange(n) % 5,
        "behavior_logprob": -rng.exponential(size=n), "target_logprob": -rng.exponential(size=n),
    }  # fmt: skip


def test_stand_ins_are_said_and_serve_a_logged_target_alone():
    log = b.read_log(steps()).transitions
    assert log.unrecorded == ("observations", "actions")
    assert log.cut(RowRange(3, 9)).unrecorded == log.unrecorded
    stated = {"gamma": 0.9, "reward_range": (0.0, 1.0)}
    assert len(b.make_problem(log, b.LoggedTarget(), b.InitialStates.from_log(log), **stated)) == 40
    with pytest.raises(b.InvalidInput, match=r"no observations and no actions.*LoggedTarget"):
        b.make_problem(log, b.UniformPolicy(2), b.InitialStates.from_log(log), **stated)


def test_steps_are_counted_where_no_column_has_them():
    data = steps()
    whole = b.read_log(data).transitions
    for left_out in (("t",), ("t", "episode")):
        log = b.read_log({name: column for name, column in data.items() if name not in left_out}).transitions
        assert log.content_hash == whole.content_hash


def test_a_stream_keeps_what_stands_in(tmp_path):
    data = steps()
    pq.write_table(pa.table(data), tmp_path / "log.parquet")
    stream = b.stream_log(tmp_path / "log.parquet", batch_rows=7)
    assert stream.unrecorded == ("observations", "actions")
    assert stream.content_hash == b.read_log(data).transitions.content_hash
    assert stream.read(RowRange(2, 5)).unrecorded == stream.unrecorded
    pq.write_table(pa.table(data).drop_columns(["t"]), tmp_path / "other.parquet")
    with pytest.raises(b.InvalidInput, match="cannot count steps"):
        b.stream_log(tmp_path / "other.parquet", batch_rows=7)


# --- Feather -------------------------------------------------------------------------------------------


# --- Open Bandit Dataset --------------------------------------------------------------------------------


def test_tables_of_the_open_bandit_dataset_are_recognized(tmp_path):
    header = ",timestamp,item_id,position,click,propensity_score,user_feature_0,user_feature_1,user-item_affinity_0"
    rows = [f"{k},2019-11-24 00:00:0{k},{k % 3},{1 + k % 2},{k % 2},0.25,u{k % 2},v,{k / 4}" for k in range(8)]
    (tmp_path / "all.csv").write_text("\n".join([header, *rows]))
    loaded = b.read_log(tmp_path / "all.csv")
    log = loaded.transitions
    assert loaded.names == ("user_feature_0=u0", "user_feature_0=u1", "user_feature_1=v", "position")
    np.testing.assert_array_equal(log.actions, np.arange(8) % 3)
    np.testing.assert_array_equal(log.rewards, np.arange(8) % 2)
    assert set(log.behavior_action_probs) == {0.25}
    assert loaded.one_step
    assert b.make_problem(loaded, b.UniformPolicy(3), reward_range=(0, 1), gamma=None).gamma == 0  # no discount
