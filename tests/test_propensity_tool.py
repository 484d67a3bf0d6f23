"""`--method propensities`: from a table with two columns of probabilities to a verified interval."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bondic
from propensity_cases import LARGEST, STATES, TARGET, decisions, interval
from test_tool import run

QUESTION = ["--gamma", "0", "--reward-range", "0", "1"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = decisions(800)
    places = np.searchsorted(STATES[:, 0], log.observations[:, 0])
    table = {
        "observation": log.observations[:, 0],
        "action": [("left", "right")[a] for a in log.actions],
        "reward": log.rewards,
        "terminated": np.ones(800, dtype=bool),
        "episode": np.arange(800),
        "behavior_logprob": np.log(log.behavior_action_probs),
        "target_logprob": np.log(TARGET[places, log.actions]),
    }
    pq.write_table(pa.table(table), tmp_path / "log.parquet")
    return log


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--with", f"max_ratio={LARGEST}", "--with", "no_rows=yes"],
        ["--with", "value=contexts", "--with", "pilot=100"],
    ],
)
def test_a_table_of_probabilities_becomes_a_verified_interval(place, options, capsys):
    question = ["--policy", "logged", "--method", "propensities", *QUESTION]
    code, out, _ = run(capsys, "evaluate", "log.parquet", *question, *options, "--json")
    assert code == 0
    found = json.loads(out)
    assert found["method"] == "propensities"
    assert 0 < found["low"] < found["high"] < 1
    assert "The propensities are right" in out
    code, out, _ = run(capsys, "verify", "bondic-out/certificate.json", "log.parquet")
    assert code == 0
    assert "not checked: the propensities" in out
    if not options:
        expected = interval(place, bondic.Propensities())
        assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high), rel=1e-9)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--with", "planned_rows=500"], "--with planned=N"),
        (["--with", "value=these"], "one of population, contexts"),
        (["--with", "color=3"], "max_ratio"),
    ],
)
def test_mistakes_are_named(options, words, capsys):
    code, _, err = run(
        capsys, "evaluate", "log.parquet", "--policy", "logged", "--method", "propensities", *QUESTION, *options
    )
    assert code == 2
    assert words in " ".join(err.split())
