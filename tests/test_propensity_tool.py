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
        ["--population", "iid", "--with", "planned_rows=900"],
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
        (["--with", "planned=500"], "planned_rows"),
        (["--with", "value=contexts"], "none of the methods has an option `value`"),
        (["--population", "mine"], "iid"),
        (["--with", "color=3"], "max_ratio"),
    ],
)
def test_mistakes_are_named(options, words, capsys):
    code, _, err = run(
        capsys, "evaluate", "log.parquet", "--policy", "logged", "--method", "propensities", *QUESTION, *options
    )
    assert code == 2
    assert words in " ".join(err.split())


def test_many_decisions_are_read_in_batches_with_the_same_answer(tmp_path, monkeypatch, capsys):
    """A certificate of a log in memory would hold every start; text or gaps need the whole log, and have it."""
    rng, rows = np.random.default_rng(2), 900
    action = rng.integers(2, size=rows)
    columns = {"x": rng.random(rows), "action": action, "reward": 1.0 * (rng.random(rows) < 0.3 + 0.3 * action)}
    pq.write_table(pa.table(columns | {"behavior_action_probs": np.full(rows, 0.5)}), tmp_path / "log.parquet")
    rules = "import numpy as np\ndef often(states): return np.tile([0.2, 0.8], (len(states), 1))\n"
    (tmp_path / "rules.py").write_text(rules)
    monkeypatch.chdir(tmp_path)
    question = ["log.parquet", "--policy", "rules.py:often", "--columns", "observations=x", "--reward-range", "0", "1"]
    found = []
    for place, least in (("held", 2**24), ("batches", 1000)):
        monkeypatch.setattr("bondic.cli.reading.MANY_DECISIONS", least)
        code, out, _ = run(capsys, "evaluate", *question, "--one-step", "--out", place, "--json")
        result = json.loads(out)
        assert code == 0
        assert ("read in batches" in " ".join(result["notes"])) is (place == "batches")
        found.append((result["low"], result["high"], result["comparison"]["low"], result["comparison"]["high"]))
        assert run(capsys, "check", "log.parquet", *question[3:5], "--one-step")[0] == 0  # it needs the whole log
        words = ["verify", f"{place}/certificate.json", *question[:5], "--one-step"]
        assert run(capsys, *words)[0] == 0
    assert found[0] == found[1]
    sizes = [(tmp_path / place / "certificate.npz").stat().st_size for place in ("held", "batches")]
    assert sizes[1] < sizes[0] / 2
