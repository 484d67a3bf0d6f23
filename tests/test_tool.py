"""`bondic evaluate`, `check`, `compare` and `verify` as a person types them."""

import json
import math
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import bondic
from bondic.cli import main as cli
from builders import tabular

MDP, LOG, POLICY, START = tabular(1500, gamma=0.2)
QUESTION = ["--gamma", "0.2", "--reward-range", str(MDP.reward_range[0]), str(MDP.reward_range[1])]


def columns():
    out = {name: np.asarray(column) for name, column in LOG.columns().items() if column is not None}
    return {
        "obs_0": out["observations"][:, 0],
        "action": out["actions"],
        "reward": out["rewards"],
        "next_obs_0": out["next_observations"][:, 0],
        "terminated": out["terminations"],
        "truncated": out["truncations"],
        "episode_id": out["episode_ids"],
        "timestep": out["timesteps"],
        "behavior_prob": out["behavior_action_probs"],
    }


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with the log in three formats, a policy file and initial states."""
    monkeypatch.chdir(tmp_path)
    table = pa.table(columns())
    pq.write_table(table, "log.parquet")
    pyarrow.csv.write_csv(table, "log.csv")
    np.savez("log.npz", **{name: column for name, column in LOG.columns().items() if column is not None})
    np.savez("policy.npz", probs=MDP.target)
    states = pa.table({"obs_0": START.observations[:, 0], "weight": START.weights})
    pyarrow.csv.write_csv(states, "starts.csv")
    return tmp_path


def run(capsys, *arguments):
    """(exit code, stdout, stderr) of the command line, in this process."""
    capsys.readouterr()
    before = sys.argv
    sys.argv = ["bondic", *map(str, arguments)]
    try:
        with pytest.raises(SystemExit) as ended:
            cli.main()
    finally:
        sys.argv = before
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


def evaluate(capsys, *arguments, log="log.parquet", policy="policy.npz"):
    return run(capsys, "evaluate", log, "--policy", policy, *QUESTION, "--initial", "starts.csv", *arguments)


def also(*forms):
    return [word for form in forms for word in ("--also", form)]


def test_evaluate_writes_everything_and_says_where(place, capsys):
    code, out, err = evaluate(capsys, *also("csv", "markdown", "svg"), "--out", "res")
    assert code == 0
    assert "At 90% confidence" in out
    assert "wrote res/report.html" in err
    assert "peak memory" in err
    names = {item.name for item in (place / "res").iterdir()}
    assert names == {
        "certificate.json", "certificate.npz", "report.html", "result.csv", "result.json", "summary.md", "terms.svg",
    }  # fmt: skip
    expected = bondic.evaluate_policy(LOG, POLICY, initial=START, gamma=0.2, reward_range=MDP.reward_range)
    found = json.loads((place / "res" / "result.json").read_text())
    assert found["low"] == pytest.approx(expected.low, abs=1e-9)
    assert found["high"] == pytest.approx(expected.high, abs=1e-9)
    assert found["command"].startswith("bondic evaluate log.parquet")
    assert "--also csv --also markdown" in found["command"]
    assert "--alpha" not in found["command"]  # what was not typed
    code, out, _ = run(capsys, *shlex.split(found["command"])[1:], "--force", "--json")
    assert (code, json.loads(out)["low"]) == (0, found["low"])
    check = ["verify", "res/certificate.json", "log.csv"]
    code, out, _ = run(capsys, *check)
    assert code == 7
    assert out.startswith("not checked: when the plan was made; the policy, verified otherwise (as stated: a list of")
    code, out, _ = run(capsys, *check, "--policy", "policy.npz", "--initial", "starts.csv")
    assert code == 0
    assert out.startswith("verified: [")


@pytest.mark.usefixtures("place")
def test_the_same_log_in_every_format_gives_the_identical_interval(capsys, monkeypatch):
    ends = []
    for log in ("log.parquet", "log.csv", "log.npz"):
        code, out, _ = evaluate(capsys, "--json", "--out", f"res-{log}", log=log)
        assert code == 0
        ends.append((json.loads(out)["low"], json.loads(out)["high"], json.loads(out)["hashes"]["log"]))
    assert len(set(ends)) == 1
    code, out, _ = evaluate(capsys, "--json", "--out", "res-stream", "--with", "memory=3GB")
    assert json.loads(out)["low"] == pytest.approx(ends[0][0], abs=1e-3)
    monkeypatch.setattr("bondic.cli.reading.LARGE", 1000)
    for log, batches in (("log.parquet", True), ("log.npz", False)):  # an archive of arrays cannot be read in batches
        code, large, _ = evaluate(capsys, "--json", "--out", f"res-large-{log}", log=log)
        assert ("read in batches" in " ".join(json.loads(large)["notes"])) is batches
        assert json.loads(large)["low"] == json.loads(out)["low"]


@pytest.mark.parametrize(
    ("fault", "expected", "words"),
    [(OSError(28, "No space left"), 2, "No space left"), (KeyboardInterrupt(), 130, "interrupted")],
)
def test_what_fails_or_is_interrupted_leaves_nothing_behind(fault, expected, words, place, capsys, monkeypatch):
    monkeypatch.setattr("bondic.report.exports.report_page", lambda *_, **__: (_ for _ in ()).throw(fault))
    before = sorted(item.name for item in place.iterdir())
    code, _, err = evaluate(capsys, "--out", "res")
    assert (code, words in err) == (expected, True), err
    assert sorted(item.name for item in place.iterdir()) == before


def text_log(**more):
    """The log with words for actions whose sorted order is not that of the policy's probabilities."""
    words = np.array(["run", "maintain", "idle"][: MDP.target.shape[1]])
    assert list(words) != sorted(words)
    table = columns() | {"action": words[LOG.actions]} | more
    pq.write_table(pa.table(table), "text.parquet")
    return ",".join(words)


def test_text_actions_need_their_order(place, capsys):
    order = text_log()
    code, out, err = evaluate(capsys, "--json", log="text.parquet")
    assert (code, out, "--actions" in err) == (2, "", True)
    code, out, _ = evaluate(capsys, "--actions", order, "--json", "--out", "text", log="text.parquet")
    assert code == 0
    plain = json.loads(evaluate(capsys, "--json", "--out", "plain")[1])
    assert (json.loads(out)["low"], json.loads(out)["high"]) == (plain["low"], plain["high"])
    assert json.loads((place / "text" / "result.json").read_text())["reading"]["actions"] == order.split(",")
    assert f"action 0 = {order.split(',')[0]}" in run(capsys, "check", "text.parquet", "--actions", order)[1]
    # the log of the certificate is the coded one: verify takes the order from result.json, or has to be told
    assert run(capsys, "verify", "text/certificate.json", "text.parquet", "--actions", order)[0] == 7
    code, _, err = run(capsys, "verify", "text/certificate.json", "text.parquet")
    assert (code, "actions" in err) == (7, True)
    (place / "text" / "result.json").unlink()
    code, _, err = run(capsys, "verify", "text/certificate.json", "text.parquet")
    assert (code, "--actions" in err) == (2, True)


def test_no_rows_keeps_rows_out_of_report_and_certificate(place, capsys):
    code, _, _ = evaluate(capsys, "--with", "no_rows=yes", "--out", "res", "--quiet")
    assert code == 0
    with np.load(place / "res" / "certificate.npz") as arrays:
        assert not any(array.shape[:1] == (len(LOG),) for array in arrays.values())
    code, _, err = run(capsys, "verify", "res/certificate.json", "log.parquet")
    assert code == 1
    assert "policy" in err
    assert run(capsys, "verify", "res/certificate.json", "log.parquet", "--policy", "policy.npz")[0] == 0


def test_a_withheld_sample_of_initial_states_is_asked_for(place, capsys):
    # draws that are not the log's starts: with those instead, an honest certificate would look wrong
    states = np.random.default_rng(3).integers(0, MDP.target.shape[0], 40)
    (place / "draws.csv").write_text("obs_0\n" + "\n".join(map(str, states)) + "\n")
    (place / "others.csv").write_text("obs_0\n" + "\n".join(map(str, np.zeros(40))) + "\n")
    words = "evaluate log.parquet --policy policy.npz --quiet --initial sample:draws.csv"
    arguments = [*words.split(), *QUESTION]
    assert run(capsys, *arguments, "--with", "no_rows=yes", "--out", "res")[0] in (0, 4)
    check = ["verify", "res/certificate.json", "log.parquet", "--policy", "policy.npz"]
    code, _, err = run(capsys, *check)
    assert (code, "--initial" in err) == (1, True)
    code, out, err = run(capsys, *check, "--initial", "draws.csv", "--replay")
    assert code == 0, err
    assert "plan made again" in out
    assert run(capsys, *check, "--initial", "others.csv")[0] == 1
    # states that the certificate holds are compared
    assert run(capsys, *arguments, "--out", "open")[0] in (0, 4)
    check = ["verify", "open/certificate.json", "log.parquet"]
    assert run(capsys, *check, "--initial", "draws.csv")[0] == 7
    code, _, err = run(capsys, *check, "--initial", "others.csv")
    assert (code, "others.csv" in err) == (1, True)


@pytest.mark.usefixtures("place")
def test_check_says_what_was_understood(capsys):
    code, out, _ = run(capsys, "check", "log.csv")
    assert code == 0
    assert f"{len(LOG)} transitions" in out
    assert "column reward" in out
    assert "█" in out
    table = columns()
    table["reward"] = np.where(np.arange(len(LOG)) == 17, np.nan, table["reward"])
    pq.write_table(pa.table(table), "gap.parquet")
    code, _, err = run(capsys, "check", "gap.parquet")
    assert code == 2
    assert "17" in err


def test_compare_shows_policies_and_methods_side_by_side(place, capsys):
    np.savez("uniform.npz", probs=np.full_like(MDP.target, 1 / MDP.target.shape[1]))
    arguments = ["compare", "log.parquet", "--policy", "policy.npz", "--policy", "uniform.npz", *QUESTION]
    code, out, _ = run(capsys, *arguments, "--method", "dual", "--method", "lstd", "--plot", "c.png")
    assert code == 0
    assert "uniform.npz" in out
    assert "asymptotic" in out
    assert (place / "c.png").stat().st_size > 1000
    code, out, _ = run(capsys, *arguments, "--json", "--joint")
    assert [line["alpha"] for line in json.loads(out)] == pytest.approx([0.05] * 2, rel=1e-14)
    # whoever sees two policies by two methods may pick any of four lines: each gets a quarter, repeated names count once
    twice = ["--policy", "policy.npz", "--method", "dual", "--method", "lstd", "--method", "dual"]
    code, out, _ = run(capsys, *arguments, *twice, "--json", "--joint")
    spent = [line["alpha"] for line in json.loads(out)]
    assert spent == pytest.approx([0.025] * 4, rel=1e-14)
    assert math.fsum(spent) <= 0.1
    code, _, err = run(capsys, *arguments, "--method", "magic")
    assert code == 2
    assert "magic" in err
    assert run(capsys, *arguments, "--plot", "c.png")[0] == 2


BAD_COMMANDS = {
    "no policy": ["evaluate", "log.parquet", *QUESTION],
    "no log": ["evaluate", "nowhere.parquet", "--policy", "policy.npz", *QUESTION],
    "malformed log": ["evaluate", "half.parquet", "--policy", "policy.npz", *QUESTION],
    "policy file": ["evaluate", "log.parquet", "--policy", "nobody.npz", *QUESTION],
    "policy raises": ["evaluate", "log.parquet", "--policy", "angry.py:policy", *QUESTION],
    "states": ["evaluate", "log.parquet", "--policy", "policy.npz", *QUESTION, "--initial", "policy.npz"],
    "memory": ["evaluate", "log.parquet", "--policy", "policy.npz", *QUESTION, "--with", "memory=5MB"],
    "certificate": ["verify", "nothing.json", "log.parquet"],
    "unknown option": ["evaluate", "log.parquet", "--color", "red"],
    "pickle": ["check", "log.pkl"],
    "pickle that exits": ["check", "exit.pkl", "--with", "trust_pickle=yes"],
    "policy exits": ["evaluate", "log.parquet", "--policy", "exits.py:policy", *QUESTION],
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_COMMANDS)
def test_bad_commands_end_with_one_screen(name, place, capsys):
    (place / "half.parquet").write_bytes((place / "log.parquet").read_bytes()[:900])
    (place / "angry.py").write_text("def policy(observations):\n    raise RuntimeError('not today')\n")
    (place / "log.pkl").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    (place / "exit.pkl").write_bytes(b"csys\nexit\n(I0\ntR.")
    (place / "exits.py").write_text("import sys\ndef policy(observations):\n    sys.exit(0)\n")
    code, out, err = run(capsys, *BAD_COMMANDS[name])
    assert code == 2
    assert "Traceback" not in out + err
    assert 0 < err.count("\n") <= 24
    assert ("SystemExit" in err) == ("exits" in name)
    assert not (place / "bondic-out").exists()


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("words", [["evaluate", "--help"], ["compare"]])
def test_a_reader_that_leaves_is_no_failed_verification(words):
    """`bondic check log.csv | head -1`: the pipe is closed before anything was written to it."""
    if words == ["compare"]:
        words = ["compare", "log.csv", "--policy", "policy.npz", *QUESTION, "--initial", "starts.csv", "--quiet"]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "bondic", *words], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(writing)
    assert done.returncode == cli.READER_LEFT
    assert done.stderr == ""


@pytest.mark.usefixtures("place")
def test_completion_is_offered():
    command = [str(Path(sys.executable).parent / "bondic")]
    environment = os.environ | {"_BONDIC_COMPLETE": "bash_source"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert "_bondic_completion" in done.stdout
    expected = {
        "bondic evaluate log.parquet --method tis-": "tis-hoeffding",
        "bondic reproduce ablation-le": "ablation-length",
    }
    for line, word in expected.items():
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1), "_BONDIC_COMPLETE": "bash_complete"}
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | words, check=False)
        assert [item.partition(",")[2] for item in done.stdout.split()] == [word], line
