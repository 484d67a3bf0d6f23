"""Options of the command line that few need."""

import html
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bondic
import bondic_lab
import test_tool
from bondic.cli.commands import COMMANDS
from bondic.rendering import sentence
from test_tool import LOG, MDP, POLICY, QUESTION, START, columns, evaluate, run

place = test_tool.place  # the fixture: a folder with a log, a policy and initial states


@pytest.mark.usefixtures("place")
def test_a_log_without_terminations_and_one_with_gaps(capsys):
    pq.write_table(pa.table({k: v for k, v in columns().items() if k != "terminated"}), "endless.parquet")
    gap = pa.array(columns()["obs_0"], mask=np.arange(len(LOG)) == 17)
    pq.write_table(pa.table(columns() | {"obs_0": gap}), "gaps.parquet")
    for name, wanted, words in (
        ("endless.parquet", "--columns terminations=none", ["--columns", "terminations=none"]),
        ("gaps.parquet", "--missing obs_0=VALUE", ["--missing", "obs_0=2"]),
        ("gaps.parquet", "--missing", ["--missing", "indicator"]),
    ):
        code, _, err = run(capsys, "check", name)
        assert (code, wanted in err) == (2, True)
        assert run(capsys, "check", name, *words)[0] == 0
    assert run(capsys, "check", "gaps.parquet", "--missing", "indicator", "--missing", "obs_0=2")[0] == 2


@pytest.mark.usefixtures("place")
def test_baselines_take_their_own_options(capsys):
    question = [
        *QUESTION,
        "--initial",
        "starts.csv",
        "--horizon",
        "3",
        "--method",
        "pdis-hoeffding",
        "--method",
        "lstd",
    ]
    arguments = ["compare", "log.parquet", "--policy", "policy.npz", *question, "--json"]
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert "--with max_ratio" in json.loads(out)[0]["reason"]
    code, out, _ = run(capsys, *arguments, "--with", "pdis-hoeffding.min_propensity=0.01", "--with", "steps=3")
    assert code == 0
    problem = bondic.make_problem(LOG, POLICY, START, gamma=0.2, reward_range=MDP.reward_range, horizon=3)
    method = bondic_lab.make_baseline("pdis-hoeffding", min_propensity=0.01, steps=3)
    expected = bondic.estimate_interval(problem, alpha=0.1, method=method)
    assert (json.loads(out)[0]["low"], json.loads(out)[0]["high"]) == (expected.low, expected.high)


BAD_OPTIONS = {
    "unknown": (["--method", "tis", "--method", "lstd", "--with", "color=3"], "tis: steps, behavior, max_ratio"),
    "of the dual method": (["--method", "sequential", "--with", "gauge=half"], "sequential: pilot, value_bandwidth"),
    "side": (["--method", "tis", "--with", "side=left"], "'left' is not one of"),
    "no value": (["--method", "tis", "--with", "steps="], "KEY=VALUE"),
    "not a number": (["--method", "lstd", "--with", "ridge=much"], "`ridge` of lstd is a number or none"),
    "too small": (["--method", "dm", "--with", "replicates=0"], "at least 1"),
    "twice": (["--method", "tis", "--with", "steps=3", "--with", "steps=4"], "given twice"),
    "meanings differ": (["--method", "all", "--with", "constant=2"], "METHOD.KEY=VALUE"),
}


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_options_that_no_method_has_or_that_do_not_fit_are_refused(name, capsys):
    words, expected = BAD_OPTIONS[name]
    code, out, err = run(capsys, "compare", "log.parquet", "--policy", "policy.npz", *QUESTION, *words)
    assert (code, out) == (2, "")
    assert expected in err


# --- names or numbers --------------------------------------------------------------------------------------------------


def test_a_statement_on_the_states_is_used_printed_and_written(place, capsys):
    words = {"table": [], "named": ["--categorical", "obs_0"], "numbers": ["--categorical", "none"]}
    found = {}
    for out, option in words.items():
        code, printed, err = evaluate(capsys, *option, "--out", out)
        assert code in (0, 4), err
        found[out] = json.loads((place / out / "result.json").read_text())
        said = found[out]["choices"]["states"]
        assert f"{sentence(said)}." in " ".join(printed.replace("│", " ").split())
        assert f">{sentence(said)}.</p>" in html.unescape((place / out / "report.html").read_text())
        assert ("as you stated" in said) == bool(option)
    assert [data["status"] == "TRIVIAL" for data in found.values()] == [False, False, True]
    assert found["table"]["low"] == found["named"]["low"]


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--categorical", "ward"], "--categorical ward is no observation column"),
        (["--categorical", "1"], "their numbers are 0 to 0"),
        (["--categorical", "obs", "--categorical", "none"], "Keep one of them"),
    ],
)
def test_statements_that_cannot_be_meant_are_refused(words, message, capsys):
    for command in (["check", "log.parquet"], ["evaluate", "log.parquet", "--policy", "policy.npz", *QUESTION]):
        code, out, err = run(capsys, *command, *words)
        assert code == 2
        assert message in " ".join(err.split())
        assert "transitions" not in out


# --- which method ------------------------------------------------------------------------------------------------------


ASKED = ["log.parquet", "--policy", "policy.npz", *QUESTION, "--initial", "starts.csv"]


@pytest.mark.parametrize(
    ("words", "method"),
    [
        ((), "table"),
        (("--method", "dual"), "dual"),
        (("--with", "gauge=finite", "--with", "radius=paper"), "dual"),
        (("--with", "planned_rows=900", "--with", "pilot=100", "--with", "side=lower"), "table"),
        (("--method", "sequential", "--with", "radius=50", "--with", "side=lower"), "sequential"),
    ],
)
def test_the_method_follows_from_the_options(words, method, place, capsys):
    code, _, err = run(capsys, "evaluate", *ASKED, *words, "--out", "m", "--quiet")
    assert code in (0, 4), err
    data = json.loads((place / "m" / "result.json").read_text())
    assert data["method"] == method
    named = "--method" in words
    assert ("method" in data["choices"]) == (not named)
    if not named:
        assert data["choices"]["method"].startswith(method)


def test_help_lists_every_option_once_in_the_groups_of_the_question(capsys):
    _, out, _ = run(capsys, "evaluate", "--help")
    groups = ["Question:", "Log:", "Policy:", "Method:", "Output:"]
    assert [line for line in out.splitlines() if line in groups] == groups
    (described,) = (command for command in COMMANDS if command.name == "evaluate")
    names = [parameter.opts[0] for parameter in described.params if parameter.opts[0].startswith("--")]
    for name in names:
        assert sum(line.startswith(f"  {name} ") or line.strip() == name for line in out.splitlines()) == 1, name
    assert len(names) <= 25  # what is rarer is a setting of --with
