"""What a result can be turned into: pair, dict, row, frame, picture, page, folder; and several of them into a table."""

import json
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import bondic
from bondic.core.claims import Status
from bondic.core.errors import InvalidInput
from bondic.errors import NoInterval
from bondic.folders import WRITTEN
from test_tool import run
from test_ways_in import ASKED, LOG, TABLE, _probabilities, ask


@pytest.fixture(scope="module")
def result():
    return ask(TABLE)


@pytest.fixture(scope="module")
def problem():
    stated = {name: value for name, value in ASKED.items() if name != "method"}
    return bondic.make_problem(TABLE, _probabilities, **stated)


def test_the_interval_is_a_pair(result):
    low, high = result.interval
    assert (low, high) == (result.low, result.high) == tuple(result.interval)
    assert result.interval.length == result.length
    assert (low + high) / 2 in result.interval
    assert high + 1 not in result.interval
    assert "a word" not in result.interval


def test_a_row_and_a_frame(result, monkeypatch):
    frame = pd.concat([result.to_frame(), replace(result, method="another").to_frame()], ignore_index=True)
    assert frame["low"].tolist() == [result.low, result.low]
    assert frame["method"].tolist() == ["table", "another"]
    assert list(frame.columns) == list(result.to_row())
    header, line = result.to_csv().splitlines()
    assert header.split(",") == list(result.to_row())
    assert float(line.split(",")[0]) == result.low
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InvalidInput, match=r"pip install pandas.*to_row"):
        result.to_frame()


def test_a_report_is_one_file(result, tmp_path):
    path = result.report(tmp_path / "page.html", title="Wear & tear")
    assert "<h1>Wear &amp; tear</h1>" in path.read_text()
    assert result.report(str(path)) == path  # written again, as a whole
    for wrong in (tmp_path, tmp_path / "absent" / "page.html"):
        with pytest.raises(InvalidInput, match="a folder that exists"):
            result.report(wrong)
    with pytest.raises(InvalidInput, match="no longer holds its question"):
        replace(result, question=None).report(path)


def test_a_folder_is_that_of_the_command_and_can_be_verified(result, tmp_path):
    folder = result.save(tmp_path / "out")
    names = {path.name for path in folder.iterdir()}
    assert names == {"certificate.json", "certificate.npz", "report.html", "result.json"}
    assert names <= set(WRITTEN)
    assert bondic.verify(folder, LOG).low == pytest.approx(result.low)
    assert bondic.verify(str(folder / "certificate.json"), TABLE, _probabilities).headline == ()
    assert bondic.verify(result, LOG).headline == ("when the plan was made", "the policy")
    with pytest.raises(InvalidInput, match="overwrite=True"):
        result.save(folder)
    (folder / "mine.txt").write_text("keep me")
    assert (result.save(folder, overwrite=True) / "mine.txt").read_text() == "keep me"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_without_rows_withholds_them(tmp_path):
    table = TABLE.assign(ward="a", next_ward="a")
    table.loc[TABLE["truncated"], "next_ward"] = "rarely"
    columns = {"observations": ["state", "ward"], "next_observations": ["next_state", "next_ward"]}
    found = ask(table, columns=columns, initial=None, method=bondic.Default(no_rows=True))
    assert "rarely" in (found.save(tmp_path / "open") / "result.json").read_text()
    folder = found.save(tmp_path / "closed", no_rows=True)
    assert not any(b"rarely" in path.read_bytes() for path in folder.iterdir())
    assert bondic.load_certificate(folder).estimand.policies[0].answers.next is None


def test_a_method_without_a_proof_leaves_a_result_and_a_page(problem, tmp_path):
    found = bondic.estimate_interval(problem, method="lstd")
    assert sorted(path.name for path in found.save(tmp_path / "out").iterdir()) == ["report.html", "result.json"]
    assert "writes no certificate" in found.report(tmp_path / "page.html").read_text()
    with pytest.raises(InvalidInput, match="whose method leaves one"):
        bondic.verify(found, LOG)


# --- requirements -------------------------------------------------------------------------------------------------------


# --- comparisons --------------------------------------------------------------------------------------------------------


def test_results_side_by_side(result, tmp_path):
    other = replace(result, method="another", low=result.low - 1)
    table = bondic.compare([result, other])
    assert [line.name for line in table] == ["table", "another"]
    assert table["another"] is other
    assert len(table) == 2
    rows = table.to_rows()
    assert [row["length"] for row in rows] == [result.length, other.length]
    assert rows[0]["guarantee"] == result.guarantee
    assert rows[0]["seconds"] > 0
    assert table.to_frame()["method"].tolist() == ["table", "another"]
    for word in ("method", "low", "high", "guarantee", "length", "seconds", "another"):
        assert word in str(table)
    assert "another" in table.report(tmp_path / "table.html").read_text()
    assert "policy" not in str(table)


def test_methods_side_by_side(problem):
    table = bondic.compare(problem, ["table", bondic.Dual(), "tis", "lstd"])
    assert [line.name for line in table] == ["table", "dual", "tis", "lstd"]
    assert table["table"].low == bondic.estimate_interval(problem, method="table").low
    tis = table.to_rows()[2]
    assert tis["low"] is None
    assert "exact list of initial states" in tis["reason"]
    assert "exact list of initial states" in str(table)
    with pytest.raises(InvalidInput, match="tis gave no interval"):
        table["tis"]
    with pytest.raises(InvalidInput, match="no line 'dm'"):
        table["dm"]
    with pytest.raises(bondic.BondicError, match="exact list of initial states"):
        bondic.compare(problem, ["tis"])  # alone it is an error


@pytest.mark.parametrize(
    ("what", "methods", "words"),
    [
        ([], None, "nothing to compare"),
        ([3], None, "not a Result"),
        ("results", None, "a list of results"),
        ([], ["dual"], "methods= is for a problem"),
    ],
)
def test_what_cannot_be_compared(what, methods, words):
    with pytest.raises(InvalidInput, match=words):
        bondic.compare(what, methods)


# --- a rejection has no interval -------------------------------------------------------------------------------------------


def test_a_rejected_result_has_no_interval_anywhere(result):
    """`low, high = result.interval` is an error, no table or file shows ends, and no comparison with them shows anything."""
    limits = result.value_range
    rejected = replace(result, status=Status.REJECTED, low=limits.low, high=limits.high)
    for name in ("interval", "length"):
        with pytest.raises(NoInterval, match=r"REJECTED.*next_steps\(\)"):
            getattr(rejected, name)
    assert "no interval at 90%" in repr(rejected)
    assert "no interval is given" in str(rejected)
    assert [rejected.to_row()[name] for name in ("low", "high")] == [None, None]
    assert rejected.to_frame()["low"].isna().all()
    assert [rejected.to_dict()[name] for name in ("low", "high")] == [None, None]
    assert rejected.to_csv(header=False).startswith(",,")
    line = bondic.compare({"wrong": rejected, "right": result})
    assert [line.to_rows()[0][name] for name in ("low", "high", "length")] == [None, None, None]
    assert line.to_rows()[1]["length"] == result.length
    assert str(line)
    assert line.to_frame()["low"].isna().tolist() == [True, False]
    assert not rejected.low > limits.low


def test_a_log_that_was_read_in_its_own_way_is_verified_from_its_folder(tmp_path, capsys):
    """Columns, fill values, text, names of actions: the folder of `save` says what the command line would have to say."""
    names = {0: "run", 1: "repair"}
    table = TABLE.rename(columns={"reward": "income"}).assign(
        reward=0.0,
        action=TABLE["action"].map(names),
        ward=np.where(TABLE["state"] > 1, "b", "a"),
        next_ward=np.where(TABLE["next_state"] > 1, "b", "a"),
    )
    table.loc[table["state"] == 0, "state"] = np.nan
    table.loc[table["next_state"] == 0, "next_state"] = np.nan
    table.to_csv(tmp_path / "log.csv", index=False)
    columns = {"rewards": "income", "observations": ["state", "ward"], "next_observations": ["next_state", "next_ward"]}
    loaded = bondic.read_log(
        tmp_path / "log.csv", columns=columns, missing={"state": -1}, categorical="codes", actions=["run", "repair"]
    )
    found = bondic.evaluate_policy(loaded, _probabilities, gamma=0.5, reward_range=(0, 1))
    folder = found.save(tmp_path / "out")
    stated = json.loads((folder / "result.json").read_text())["reading"]
    assert stated == {
        "columns": columns, "missing": {"state": -1}, "categorical": "codes", "actions": ["run", "repair"],
    }  # fmt: skip
    code, _, err = run(capsys, "verify", str(folder), str(tmp_path / "log.csv"))
    assert code == 7, err
    assert all(word in err for word in ("columns", "missing", "categorical", "actions"))
