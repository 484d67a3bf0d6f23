"""What people see of a curve of allowances: terminal, JSON, gate and page show the numbers of the curve."""

from __future__ import annotations

import html
import json
import math
import re
import shlex

import numpy as np
import pytest

import bondic
from bondic.core.cells.allowance import Allowance
from bondic.core.errors import InvalidInput
from bondic.core.printed import ends_text, interval_text
from bondic.report.page import report_page
from test_tool import run

TERMS = {"gamma": 0.5, "reward_range": (0.0, 1.0)}
STARTS = [[0.2, 0.3], [0.7, 0.6]]


def log_of(rows=1500, seed=3):
    """Two numbers, two actions; rewards vary slowly."""
    rng = np.random.default_rng(seed)
    states, actions = rng.random((rows + 1, 2)), rng.integers(0, 2, rows)
    mean = 0.3 + 0.3 * states[:-1, 0] + 0.2 * actions
    return bondic.Transitions(
        states[:-1], actions, (rng.random(rows) < mean).astype(float), states[1:], np.zeros(rows, bool), np.zeros(rows, bool)
    )  # fmt: skip


LOG = log_of()


def ask(**options):
    return bondic.evaluate_policy(
        LOG, bondic.UniformPolicy(2), initial=bondic.InitialStates.exact(STARTS), **TERMS, **options
    )


@pytest.fixture(scope="module")
def unstated():
    return ask()


@pytest.fixture(scope="module")
def stated():
    return ask(allowance=0.01)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A folder with the log, its policy and its starts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    np.savez("log.npz", **{name: column for name, column in LOG.columns().items() if column is not None})
    (tmp_path / "rules.py").write_text(
        "import numpy as np\n\n\n"
        "def fair(states):\n    return np.full((len(states), 2), 0.5)\n\n\n"
        "def side(states):\n    return (states[:, 0] > 0.5).astype(int)\n\n\n"
        "def middle(states, actions):\n    return np.full(len(states), 1.0)\n"
    )
    np.savetxt("starts.csv", STARTS, delimiter=",", header="obs_0,obs_1", comments="")
    return tmp_path


def asked(*more, out="out"):
    return [
        "evaluate", "log.npz", "--policy", "rules.py:fair", "--gamma", 0.5, "--reward-range", 0, 1, "--initial", "starts.csv",
        "--out", out, "--force", *more,
    ]  # fmt: skip


def flat(text):
    return " ".join(text.replace("│", " ").split())


# --- results -----------------------------------------------------------------------------------------------------------


def test_without_a_statement_the_range_stands_and_the_curve_beside_it(unstated):
    assert unstated.unstated
    assert unstated.status is bondic.Status.TRIVIAL
    assert unstated.allowance is None
    point = unstated.at(0.01)
    assert unstated.low < point.low < point.high < unstated.high
    assert unstated.at((0.01, 0.5)).length > point.length


def test_an_allowance_stated_afterwards_is_the_one_stated_before_but_for_the_record(unstated, stated):
    later = unstated.with_allowance(0.01)
    assert (later.low, later.high) == (stated.low, stated.high) == (unstated.at(0.01).low, unstated.at(0.01).high)
    assert later.allowance == stated.allowance == Allowance(0.01)
    texts = [next(item.text for item in found.assumptions if item.name == "values") for found in (stated, later)]
    assert "before the curve" in texts[0]
    assert "after the curve" in texts[1]
    assert {item.name for item in later.assumptions} == {item.name for item in stated.assumptions}
    assert bondic.verify(later.certificate, LOG).low == later.low
    assert stated.with_allowance(0.01) is stated
    assert later.with_allowance((0.01, 0.2)).length > later.length


def test_results_without_groups_say_so():
    found = ask(method=bondic.Default(radius=2.0))
    for call in (found.at, found.with_allowance):
        with pytest.raises(InvalidInput, match=r"no curve of allowances.*Groups\(\)"):
            call(0.1)
    assert found.breaks(above=0.5) == ()
    assert found.to_dict()["curve"] is None
    with pytest.raises(InvalidInput, match="at least 0"):
        ask().at(-0.1)


# --- files -------------------------------------------------------------------------------------------------------------


def test_json_holds_the_line_the_marks_and_what_was_stated(unstated, stated):
    for found, when in (
        (unstated, None),
        (stated, "before the curve"),
        (unstated.with_allowance(0.02), "after the curve"),
    ):
        read = json.loads(json.dumps(found.to_dict(), allow_nan=False))["curve"]
        assert read["stated"] == when
        assert read["allowance"] == (None if when is None else list(found.allowance.pair))
        line = [(point["averages"], point["low"], point["high"]) for point in read["line"]]
        assert line == [(point.averages, point.low, point.high) for point in found.curve.line()]
        assert read["marks"][0]["certified"]
        assert [mark["value"] for mark in read["marks"]] == [mark.value for mark in found.curve.all_marks()]
        assert len(read["groups"]) == len(found.curve.groups)
    assert stated.to_row()["allowance"] == 0.01
    assert unstated.to_row()["allowance"] is None


def test_the_page_has_the_section_and_the_sliders_the_values_of_the_curve(unstated, stated):
    for found in (unstated, stated, unstated.with_allowance((0.003, 0.07))):
        page = report_page(found, found.question, title="t")
        assert '<section id="allowance">' in page
        data = json.loads(re.search(r'id="bondic-data">(.*?)</script>', page).group(1))
        for row in data["rows"]:
            for point in row:
                same = found.at((point["averages"], point["single"]))
                assert (point["low"], point["high"], point["status"]) == (same.low, same.high, same.status.name)
                assert point["words"] == list(ends_text(same.low, same.high))
        assert {row[0]["averages"] for row in data["rows"]} >= set(found.curve.averages)
        pairs = [(point["averages"], point["single"]) for row in data["rows"] for point in row]
        assert found.allowance is None or found.allowance.pair in pairs
        for words in found.curve.groups:
            assert f"<li>{html.escape(words)}</li>" in page
        assert "radius" not in page[: page.index("<script")].replace("border-radius", "")


# --- the command -------------------------------------------------------------------------------------------------------


def test_the_terminal_shows_proved_interval_curve_and_the_way_on(capsys, unstated):
    code, out, err = run(capsys, *asked())
    assert code == 4, err
    assert f"lies in {interval_text(unstated.low, unstated.high)}" in flat(out)
    rows = re.findall(r"^ ± ([\d.e-]+) +│ +(\S.*?) *$", out, re.MULTILINE)
    assert [float(average) for average, _ in rows] == list(unstated.curve.averages)
    for (_, shown), point in zip(rows, unstated.curve.line(), strict=True):
        trivial = point.status is bondic.Status.TRIVIAL
        assert shown == ("whole range" if trivial else interval_text(point.low, point.high))
    assert "State --allowance" in flat(out)
    assert max(map(len, out.splitlines())) <= 80


def test_one_or_two_numbers_are_stated(place, capsys, unstated):
    code, out, err = run(capsys, *asked("--allowance", "0.01", "0.3"))
    assert code == 0, err
    point = unstated.at((0.01, 0.3))
    assert f"{interval_text(point.low, point.high)} (stated by you:" in flat(out)
    written = json.loads((place / "out" / "result.json").read_text())
    assert (written["low"], written["high"]) == (point.low, point.high)
    again = shlex.split(written["command"].replace("--out out", "--out again"))
    assert run(capsys, *again[1:])[0] == 0
    assert json.loads((place / "again" / "result.json").read_text())["low"] == point.low
    code, out, err = run(capsys, "verify", "out", "log.npz", "--replay")
    assert code == 0, err
    assert out.startswith(
        "verified, except the policy (as stated: allowance=(0.01, 0.3), a list of initial states, 2 in all): ["
    )


def test_models_groups_and_what_no_method_has(capsys):
    code, out, err = run(
        capsys, *asked("--allowance", 0.05, "--with", "groups=rules.py:side", "--with", "model=rules.py:middle")
    )
    assert code == 0, err
    assert "your model" in flat(out)
    for words, reason in [
        (["--allowance", "-1"], "is no allowance"),
        (["--method", "dual", "--allowance", "0.1"], "--allowance is no option of the method dual"),
        (["--with", "groups=age"], "is no column of the states"),
        (["--with", "model=rules.py:nothing"], "has no `nothing`"),
        (["--allowance", "0.1", "--with", "no_rows=yes"], "held row by row"),
    ]:
        code, _, err = run(capsys, *asked(*words))
        assert code == 2
        assert reason in flat(err)


def test_the_gate_passes_on_a_statement_and_always_says_where_it_breaks(capsys, unstated):
    threshold = unstated.at(0.01).low - 0.02
    most = unstated.curve.breaks(above=threshold)
    for words, expected in (([], 6), (["--allowance", "0.01"], 0), (["--allowance", 2 * most], 6)):
        code, out, err = run(capsys, *asked(*words, "--require-above", threshold, "--quiet"))
        assert code == expected, err
        shown = float(re.search(r"groups differ by more than ([\d.e-]+) in value", err).group(1))
        assert most < 1.02 * shown < 1.5 * most  # a gate spends all of alpha on one end
        assert "groups differ" not in out
    assert math.isfinite(most)
