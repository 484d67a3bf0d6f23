"""What the command line writes and prints: folders as a whole, warnings, withheld rows, narrow terminals."""

import html
import json
import re
import shlex

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bondic
from bondic.core.printed import ends_text, interval_text, placed_text
from test_tool import MDP, QUESTION, also, columns, evaluate, place, run

assert place  # the fixture: a folder with the log in three formats, a policy file and initial states


def printed_result(place, folder="res"):
    """result.json of a folder."""
    return json.loads((place / folder / "result.json").read_text())


def test_force_replaces_the_whole_result_and_nothing_else(place, capsys):
    assert evaluate(capsys, "--out", "res", "--quiet", *also("csv", "markdown", "svg"))[0] == 0
    (place / "res" / "mine.txt").write_text("keep me")
    (place / "res" / "terms").mkdir()
    assert evaluate(capsys, "--out", "res", "--quiet", "--force", "--with", "no_rows=yes", "--method", "dm")[0] in (
        0,
        4,
    )
    names = {item.name for item in (place / "res").iterdir()}
    assert names == {"report.html", "result.json", "mine.txt", "terms"}
    assert printed_result(place)["method"] == "dm"
    assert not [item for item in place.iterdir() if item.name.startswith(".")]


def test_force_spares_files_that_no_result_stands_beside(place, capsys):
    (place / "own").mkdir()
    (place / "own" / "summary.md").write_text("my own words")
    code, _, err = evaluate(capsys, "--out", "own", "--quiet", "--force")
    assert code == 2
    assert "summary.md" in err
    (place / "own" / "result.json").write_text('{"accuracy": 1}')
    assert evaluate(capsys, "--out", "own", "--quiet", "--force")[0] == 2
    assert (place / "own" / "summary.md").read_text() == "my own words"
    assert evaluate(capsys, "--out", ".", "--quiet", "--force")[0] == 0  # no file there bears a name of ours
    assert (place / "report.html").exists()
    assert (place / "log.parquet").exists()


def test_warnings_reach_every_reader(place, capsys):
    table = columns()
    table["done"] = table.pop("terminated") | table.pop("truncated")
    pq.write_table(pa.table(table), "done.parquet")
    warned = "merely cut off, the interval is not valid"
    for extra in (["--json"], ["--quiet"]):
        code, out, err = evaluate(
            capsys, *also("markdown"), "--out", "res", "--force", "--accept", "time-limit", *extra, log="done.parquet"
        )
        assert code in (0, 4)
        assert (err.count(warned), err.count("warning: ")) == (1, 1)
        assert warned in out
    assert [warned in text for text in printed_result(place)["warnings"]] == [True]
    for name in ("report.html", "summary.md"):
        assert warned in (place / "res" / name).read_text()
    asked = ["compare", "done.parquet", "--policy", "policy.npz", *QUESTION, "--initial", "starts.csv", "--quiet"]
    code, out, err = run(capsys, *asked)
    assert (code, err.count(warned)) == (0, 1)
    code, out, err = evaluate(capsys, "--json", "--with", "memory=3GB", "--out", "stream", log="done.parquet")
    assert warned in err
    assert [warned in text for text in json.loads(out)["warnings"]] == [
        False,
        True,
    ]  # and a limit that all episodes have


@pytest.mark.parametrize("kind", ["plain", "streamed"])
def test_the_command_on_the_report_checks_the_number(kind, place, capsys):
    table = columns()
    table["how bad"] = table.pop("obs_0")
    table["next; bad"] = table.pop("next_obs_0")
    pq.write_table(pa.table(table), "my log.parquet")
    (place / "states.csv").write_text((place / "starts.csv").read_text().replace("obs_0", "how bad"))
    asked = ["evaluate", "my log.parquet", "--policy", "policy.npz", *QUESTION, "--initial", "states.csv", "--quiet"]
    asked += ["--columns", "observations=how bad", "--columns", "next_observations=next; bad", "--out", "some where"]
    extra = [] if kind == "plain" else ["--with", "no_rows=yes", "--with", "memory=3GB"]
    code, out, err = run(capsys, *asked, *extra)
    assert code == 0, err
    page = (place / "some where" / "report.html").read_text()
    command = html.unescape(re.search(r'<pre id="verify-command">(.*?)</pre>', page)[1])
    words = shlex.split(command)
    assert words[:4] == ["bondic", "verify", "some where/certificate.json", "my log.parquet"]
    assert "--policy" in words
    code, checked, err = run(capsys, *words[1:])
    assert code == (0 if kind == "plain" else 7), err  # a log in batches has no prefixes to plan on
    low, high = (float(word) for word in re.search(r"lies in \[(.*?), (.*?)\]", out).groups())
    found = json.loads((place / "some where" / "result.json").read_text())
    assert low <= found["low"] <= found["high"] <= high
    assert checked.startswith("verified" if kind == "plain" else "not checked: when the plan was made")
    assert f": {interval_text(found['low'], found['high'])} " in checked.splitlines()[0]


def test_a_rejected_log_has_no_interval_anywhere(place, capsys):
    code, out, _ = evaluate(capsys, "--with", "radius=1e-6", "--alpha", "0.5", *also("markdown"), "--out", "res")
    assert code == 3
    page, summary = ((place / "res" / name).read_text() for name in ("report.html", "summary.md"))
    for text in (" ".join(out.replace("│", " ").split()), page, summary, printed_result(place)["summary"]):
        assert "no interval is given (rejected" in text
        assert "policy lies in [" not in text
    assert "finite-sample" not in summary + out


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("extra", [[], ["--verbose"]])
def test_no_line_ends_in_spaces(capsys, monkeypatch, extra):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = evaluate(capsys, "--out", "padded", *extra)
    assert code in (0, 4)
    assert [line for line in out.splitlines() if line != line.rstrip()] == []


@pytest.mark.usefixtures("place")
def test_compare_shows_every_end_on_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    np.savez("policy-number-two.npz", probs=np.full_like(MDP.target, 1 / MDP.target.shape[1]))
    np.savez("policy-number-one.npz", probs=MDP.target)
    asked = ["compare", "log.parquet", "--policy", "policy-number-one.npz", "--policy", "policy-number-two.npz"]
    asked += [*QUESTION, "--initial", "starts.csv", "--method", "dual", "--method", "lstd"]
    code, out, _ = run(capsys, *asked)
    assert code == 0
    lines = json.loads(run(capsys, *asked, "--json")[1])
    words = out.split()
    for line in lines:
        ends = ends_text(line["low"], line["high"])
        assert {*ends, placed_text(line["estimate"], 0, line["low"], line["high"])} <= set(words)
        assert line["guarantee"] in words
    names = set(re.findall(r"^policy-\S+", out, re.MULTILINE))
    assert len({name.rstrip(",") for name in names}) == 2


def test_the_demo_overwrites_nothing_unless_told(place, capsys):
    (place / "report.html").write_text("my own report")
    for force in ([], ["--force"]):  # not a result of bondic
        assert run(capsys, "demo", "--out", ".", *force)[0] == 2
    assert (place / "report.html").read_text() == "my own report"
    code, out, err = run(capsys, "demo", "--out", "d", "--quiet")
    assert (code, out.count("\n"), err) == (0, 1, "")
    demo = bondic.load_demo()
    checked = bondic.verify(place / "d", demo.log, demo.policy)
    assert checked.low <= 4.466233 <= checked.high
    assert run(capsys, "demo", "--out", "d", "--quiet")[0] == 2
    code, out, _ = run(capsys, "demo", "--out", "d", "--json", "--force", "--alpha", "0.2")
    assert json.loads(out)["alpha"] == printed_result(place, "d")["alpha"] == 0.2
    (place / "d" / "result.json").unlink()  # what older versions left: a certificate and a page
    assert run(capsys, "demo", "--out", "d", "--quiet", "--force")[0] == 0
