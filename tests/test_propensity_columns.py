"""Probabilities of the logged actions, their logarithms, and the policy that is known by them alone."""

import hashlib
import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bondic as b
import bondic_lab
from bondic.cli import main as cli
from bondic.core.columns import RowRange
from bondic.data.propensities import PROPENSITIES

N = 40
STATED = {"gamma": 0.0, "reward_range": (0.0, 1.0)}


def columns(n=N, seed=0, **changes):
    rng = np.random.default_rng(seed)
    out = {
        "observations": rng.normal(size=(n, 2)),
        "actions": rng.integers(0, 3, size=n),
        "rewards": rng.uniform(size=n),
        "next_observations": np.zeros((n, 2)),
        "terminations": np.ones(n, dtype=bool),
    }
    return out | changes


def probs(n=N, seed=1):
    return np.random.default_rng(seed).uniform(0.1, 1.0, size=n)


def with_logs(**changes):
    """A log with logarithms of both, the target's -inf in one row."""
    target = np.log(probs(seed=2))
    target[7] = -np.inf
    return columns(behavior_log_probs=np.log(probs()), target_log_probs=target, **changes)


def with_probs(**changes):
    target = probs(seed=2)
    target[7] = 0.0
    return columns(behavior_action_probs=probs(), target_action_probs=target, **changes)


# --- what is kept, and what is refused -----------------------------------------------------------------


@pytest.mark.parametrize("given", [with_logs(), with_probs()], ids=["logs", "probabilities"])
def test_values_are_kept_frozen_and_cut_with_the_rows(given):
    log = b.Transitions(**given)
    for name in PROPENSITIES:
        assert log.has(name) == (name in given)
        if name in given:
            np.testing.assert_array_equal(getattr(log, name), given[name])
            np.testing.assert_array_equal(getattr(log.cut(RowRange(5, 9)), name), given[name][5:9])
            with pytest.raises(ValueError, match="read-only"):
                getattr(log, name)[0] = 0


@pytest.mark.parametrize(
    ("name", "bad", "needles"),
    [
        ("behavior_log_probs", -np.inf, ("not finite at row 3",)),
        ("behavior_log_probs", 0.1, ("0.1 at row 3", "at most 0")),
        ("behavior_action_probs", 0.0, ("0.0 at row 3", "positive")),
        ("target_action_probs", -1e-9, ("at row 3", "0 or more")),
        ("target_action_probs", 1.1, ("1.1 at row 3", "at most 1")),
        ("target_action_probs", np.nan, ("not finite at row 3",)),
    ],
)
def test_values_out_of_range_name_their_row(name, bad, needles):
    values = np.log(probs()) if "log" in name else probs()
    values[3] = bad
    with pytest.raises(b.InvalidInput) as caught:
        b.Transitions(**columns(**{name: values}))
    for needle in (name, *needles):
        assert needle in str(caught.value)


@pytest.mark.parametrize("who", ["behavior", "target"])
def test_a_probability_and_its_logarithm_are_one_too_many(who):
    both = {f"{who}_action_probs": probs(), f"{who}_log_probs": np.log(probs())}
    with pytest.raises(
        b.InvalidInput, match=rf"{who}_action_probs` and `{who}_log_probs` are the same probabilities twice"
    ):
        b.Transitions(**columns(**both))
    data = columns(**both)
    with pytest.raises(b.InvalidInput, match=rf"--columns {who}_action_probs=none"):
        b.read_log(data)
    log = b.read_log(data, columns={f"{who}_action_probs": None}).transitions
    assert not log.has(f"{who}_action_probs")
    np.testing.assert_array_equal(getattr(log, f"{who}_log_probs"), both[f"{who}_log_probs"])


# --- the hash ------------------------------------------------------------------------------------------

FORMER = (
    "observations", "actions", "rewards", "next_observations", "terminations", "truncations", "episode_ids", "timesteps",
    "behavior_action_probs",
)  # fmt: skip


def slow_hash(log, names):
    digest = hashlib.sha256(f"bondic transitions 2|{len(log)}".encode())
    types = {"actions": "<i8", "terminations": "|b1", "truncations": "|b1"}
    for name in names:
        column, form, content = getattr(log, name), "none", b""
        if column is not None:
            kind = types.get(name, "<f8")
            form, content = f"{kind}:{column.shape[1:]}", column.astype(kind).tobytes()
        digest.update(f"|{name}:{form}:{hashlib.sha256(content).hexdigest()}".encode())
    return digest.hexdigest()


def test_logs_without_the_new_columns_keep_their_hash():
    for more in ({}, {"behavior_action_probs": probs()}):
        log = b.Transitions(**columns(**more))
        assert log.content_hash == slow_hash(log, FORMER)


def test_the_new_columns_enter_the_hash():
    log = b.Transitions(**with_logs())
    assert log.content_hash == slow_hash(log, (*FORMER, "behavior_log_probs", "target_log_probs"))
    hashes = {log.content_hash, b.Transitions(**with_probs()).content_hash, b.Transitions(**columns()).content_hash}
    for name in ("behavior_log_probs", "target_log_probs"):
        given = with_logs()
        given[name] = np.nextafter(given[name], -np.inf)
        hashes.add(b.Transitions(**given).content_hash)
    assert len(hashes) == 5


# --- formats -------------------------------------------------------------------------------------------


def table(data):
    return pa.table({n: pa.array(c.tolist()) if c.ndim == 2 else pa.array(c) for n, c in data.items()})


def text(data):
    def cell(value):
        return json.dumps(value).replace("-Infinity", "-inf")

    lines = ["\t".join(data)]
    lines += ["\t".join(cell(value) for value in row) for row in zip(*(c.tolist() for c in data.values()), strict=True)]
    return "\n".join(lines) + "\n"


WRITERS = {
    "log.parquet": lambda data, path: pq.write_table(table(data), path),
    "log.tsv": lambda data, path: path.write_text(text(data)),
    "log.npz": lambda data, path: np.savez(path, **data),
}


@pytest.mark.parametrize(("name", "given"), [*zip(WRITERS, (with_logs(), with_probs(), with_logs()), strict=True)])
def test_every_format_gives_the_same_log(name, given, tmp_path):
    WRITERS[name](given, tmp_path / name)
    assert b.read_log(tmp_path / name).transitions.content_hash == b.Transitions(**given).content_hash
    assert b.read_log(table(given)).transitions.content_hash == b.Transitions(**given).content_hash


@pytest.mark.parametrize("given", [with_logs(), with_probs()], ids=["logs", "probabilities"])
def test_streams_hold_them(given, tmp_path):
    WRITERS["log.parquet"](given, tmp_path / "log.parquet")
    for stream in (b.stream_log(tmp_path / "log.parquet", batch_rows=7), b.stream_log(given, batch_rows=7)):
        assert stream.content_hash == b.Transitions(**given).content_hash
        for name in PROPENSITIES:
            assert stream.has(name) == (name in given)
            if name in given:
                found = np.concatenate([getattr(part, name) for _, part in stream.batches()])
                np.testing.assert_array_equal(found, given[name])


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ("behavior_logprobs", "behavior_log_probs"),
        ("logprobs", "behavior_log_probs"),
        ("target_logprob", "target_log_probs"),
        ("propensity_score", "behavior_action_probs"),
    ],
)
def test_usual_names_are_understood(given, part):
    values = np.log(probs()) if "log" in part else probs()
    log = b.read_log(columns(**{given: values})).transitions
    np.testing.assert_array_equal(getattr(log, part), values)


def test_lists_and_numbered_columns_are_the_policy_at_all_actions():
    rows = np.full((N, 3), 1 / 3)
    for data in (
        columns(target_action_probs=rows),
        columns(**{f"target_probs_{k}": rows[:, k] for k in range(3)}),
        columns(logged_action_probs=rows, target_prob=probs()),
    ):
        loaded = b.read_log(data)
        np.testing.assert_array_equal(loaded.logged_action_probs, rows)
        assert loaded.transitions.has("target_action_probs") == ("target_prob" in data)


# --- the stand-in for a policy -------------------------------------------------------------------------


def question(log=None, **stated):
    log = b.Transitions(**with_logs()) if log is None else log
    return b.make_problem(log, b.LoggedTarget(), b.InitialStates.from_log(log), **{**STATED, **stated})


def test_rows_of_a_logged_target_hold_what_is_known():
    problem = question()
    batch = problem.whole()
    assert len(problem) == N
    np.testing.assert_array_equal(batch.rewards, problem.log.read().rewards)
    assert len(problem.select(3, 9).whole()) == 6
    assert problem.stored_answers() is None
    for cloud in (problem.initial, batch.next):
        with pytest.raises(b.InvalidInput, match="LoggedTarget"):
            cloud.per_row(np.zeros((N, 1)), N)


@pytest.mark.parametrize("method", [b.Dual(), b.Sequential(radius=5.0)], ids=lambda method: type(method).__name__)
def test_methods_that_need_a_policy_refuse_it(method):
    n = 400
    more = {"behavior_log_probs": np.log(probs(n)), "target_log_probs": np.log(probs(n))}
    log = b.Transitions(**columns(n, **more))
    with pytest.raises(b.InvalidInput, match=r"LoggedTarget.*--policy logged.*RowProbabilities"):
        b.estimate_interval(question(log), method=method)


@pytest.mark.parametrize("name", ["lstd", "model", "lipschitz"])
def test_baselines_that_need_a_policy_refuse_it(name):
    more = {
        "behavior_log_probs": np.log(probs(400)),
        "target_log_probs": np.log(probs(400)),
        "episode_ids": np.arange(400),
    }
    log = b.Transitions(**columns(400, **more))
    own = {"constant": 1.0} if name == "lipschitz" else {}
    with pytest.raises(b.InvalidInput, match="LoggedTarget"):
        b.estimate_interval(question(log), method=bondic_lab.make_baseline(name, **own))


def test_a_log_without_target_columns_has_no_logged_target():
    with pytest.raises(b.InvalidInput, match="--columns target_action_probs=NAME"):
        question(b.Transitions(**columns(behavior_action_probs=probs())))


def run(capsys, monkeypatch, *arguments):
    """(exit code, output, messages) of the tool."""
    monkeypatch.setattr(sys, "argv", ["bondic", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    return stop.value.code, *capsys.readouterr()


def test_check_shows_the_new_columns(tmp_path, capsys, monkeypatch):
    WRITERS["log.parquet"](with_logs(), tmp_path / "log.parquet")
    code, shown, _ = run(capsys, monkeypatch, "check", tmp_path / "log.parquet")
    assert code == 0
    for word in ("behavior log-prob", "target log-prob", "-inf"):
        assert word in shown
