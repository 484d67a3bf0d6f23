"""A belief opens no gate: what rests on a choice of bondic is conditional everywhere, and shows nothing until it is accepted."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

import bondic
from bondic.errors import InvalidInput
from bondic.report.page import report_page
from test_tool import run

TRUTH, BOUND = 0.2, 0.3
"""The reward jumps from .8 to .2 at s = .5; the policy starts right above the jump."""
STARTS = [[0.501], [0.502]]
TERMS = {"gamma": 0.0, "reward_range": (0.0, 1.0)}
POLICY = bondic.UniformPolicy(2)


def log_of(seed=0, rows=2000):
    rng = np.random.default_rng(seed)
    states = rng.random((rows, 1))
    mean = np.where(states[:, 0] < 0.5, 0.8, TRUTH)
    return bondic.Transitions(
        states, rng.integers(0, 2, rows), (rng.random(rows) < mean).astype(float), rng.random((rows, 1)),
        np.ones(rows, bool), np.zeros(rows, bool),
    )  # fmt: skip


def ask(log, **options):
    return bondic.evaluate_policy(log, POLICY, initial=bondic.InitialStates.exact(STARTS), **TERMS, **options)


LOG = log_of()


@pytest.fixture(scope="module")
def result():
    return ask(LOG)


def test_an_interval_that_misses_for_its_class_opens_no_gate(result):
    assert result.low > BOUND > TRUTH  # the chosen class is too smooth: this is what must not be believed
    (reason,) = result.unmet(above=BOUND)
    assert "conditional" in reason
    assert "--accept chosen-class" in reason
    assert result.unmet(above=BOUND, accept=["chosen-class"]) == ()
    assert result.unmet(above=BOUND, accept="chosen-class") == ()
    reasons = result.unmet(above=0.9)
    assert ["conditional" in reasons[0], "lower end" in reasons[1]] == [True, True]
    assert len(result.unmet(above=0.9, accept=["chosen-class"])) == 1


def test_only_what_bondic_chooses_can_be_accepted(result):
    with pytest.raises(InvalidInput, match="'resets' is nothing that bondic chooses; the names are chosen-class"):
        result.unmet(above=BOUND, accept=["resets"])
    with pytest.raises(InvalidInput, match=r"chosen-klass.*chosen-class"):
        ask(LOG, accept=["chosen-klass"])


def test_accepting_is_printed_beside_the_answer():
    accepted = ask(LOG, accept=["chosen-class"])
    assert accepted.unmet(above=BOUND) == ()
    assert accepted.guarantee == "conditional"
    assert "you accept: chosen-class" in accepted.summary()
    assert [(item.name, item.state) for item in accepted.accepted] == [("chosen-class", "stated")]
    assert replace(accepted, question=None).unmet(above=BOUND) == ()
    assert "You accept this" in report_page(accepted, accepted.question, title="t")


def test_accepting_adds_nothing_where_nothing_was_chosen():
    demo = bondic.load_demo()
    first = bondic.Transitions(
        **{name: column[:3000] for name, column in demo.log.columns().items() if column is not None}
    )
    asked = {"gamma": 0.8, "reward_range": (0.0, 1.0), "initial": demo.initial}
    plain, accepted = (
        bondic.evaluate_policy(first, demo.policy, **asked, accept=how) for how in ((), ["chosen-class"])
    )
    assert plain.guarantee == accepted.guarantee == "finite-sample"
    assert plain.assumptions == accepted.assumptions
    assert plain.unmet(above=plain.low) == ()


def test_it_is_called_conditional_in_every_output(result):
    assert result.guarantee == result.to_dict()["guarantee"] == result.to_row()["guarantee"] == "conditional"
    assert next(csv.DictReader(bondic.result_csv(result).splitlines()))["guarantee"] == "conditional"
    assert "conditional" in repr(result)
    for text in (result.summary(), bondic.result_markdown(result), result._repr_html_()):
        assert "conditional" in text
        assert "finite-sample" not in text
    page = report_page(result, result.question, title="t")
    assert "proved for this finite log" not in page
    assert "conditional: valid if" in page
    table = bondic.compare({"new": result})
    assert table.to_rows()[0]["guarantee"] == "conditional"
    assert "conditional: valid if" in str(table)
    checked = bondic.verify(result.certificate, LOG)
    assert checked.guarantee == "conditional"


@pytest.mark.parametrize("method", ["dual", "feng2020"])
def test_other_methods_that_choose_a_class_are_conditional_too(method):
    found = ask(log_of(rows=400), method=method)
    assert found.chosen
    assert found.guarantee == ("conditional" if found.status is bondic.Status.INTERVAL else "finite-sample")
    assert found.unmet(above=-1.0)


def test_a_trivial_answer_rests_on_no_choice():
    found = ask(log_of(rows=60), method=bondic.Dual())
    assert found.status is bondic.Status.TRIVIAL
    assert found.guarantee == "finite-sample"


def test_the_command_keeps_the_gate_closed_until_the_name_is_given(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez("log.npz", **{name: column for name, column in LOG.columns().items() if column is not None})
    (tmp_path / "rules.py").write_text(
        "import numpy as np\n\n\ndef fair(states):\n    return np.full((len(states), 2), 0.5)\n"
    )
    np.savetxt("starts.csv", STARTS, header="obs_0", comments="")
    asked = ["evaluate", "log.npz", "--policy", "rules.py:fair", "--one-step", "--reward-range", 0, 1]
    asked += ["--initial", "starts.csv", "--require-above", BOUND, "--quiet"]
    code, out, err = run(capsys, *asked, "--out", "closed")
    assert code == 5
    assert "conditional" in out
    assert "requirement not met: the interval is conditional on what bondic chose" in err
    assert "--accept chosen-class" in err
    code, out, err = run(capsys, *asked, "--accept", "chosen-class", "--out", "open")
    assert code == 0
    assert "requirement met, as you accept chosen-class" in err
    assert "you accept: chosen-class" in out
    code, out, err = run(capsys, "verify", "closed", "log.npz", "--no-retest")
    assert code == 0, err
    assert out.startswith("verified, conditional on what bondic chose, except the policy")
    code, out, err = run(capsys, *asked, "--accept", "chosen-klass", "--out", "slip")
    assert code == 2
    assert "chosen-class" in err


def test_a_monitor_says_it_at_every_update(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez("log.npz", **{name: column for name, column in LOG.columns().items() if column is not None})
    (tmp_path / "rules.py").write_text("import bondic\n\nfair = bondic.UniformPolicy(2)\n")
    np.savetxt("starts.csv", STARTS, header="obs_0", comments="")
    asked = ["monitor", "watch", "--log", "log.npz", "--policy", "rules.py:fair", "--gamma", 0, "--reward-range", 0, 1]
    asked += ["--initial", "starts.csv", "--planned-rows", 2000]
    code, out, err = run(capsys, *asked)
    assert code == 0, err
    assert "conditional: valid if" in out.splitlines()[0]
    again = json.loads(run(capsys, "monitor", "watch", "--log", "log.npz", "--json")[1])
    assert again["guarantee"] == "conditional"
    (line,) = csv.DictReader((tmp_path / "watch" / "history.csv").read_text().splitlines())
    assert line["guarantee"] == "conditional"
