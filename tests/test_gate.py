"""Gates pass on what is proved or stated: without a statement numbers show nothing, and nothing opens them."""

import numpy as np
import pytest

import bondic
from bondic.core.errors import InvalidInput
from bondic.decisions.gate import gate
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
STATED = bondic.Default(radius=2.0)


def test_numbers_without_a_statement_open_no_gate():
    """A smooth class would be wrong at the jump: none is chosen, and the answer holds the truth."""
    found = ask(LOG)
    assert found.status is bondic.Status.TRIVIAL
    assert found.low <= TRUTH <= found.high
    assert gate(found.question, above=BOUND).verdict == "cannot tell"


def test_a_statement_opens_it_and_is_named():
    """The statement is wrong here: whoever states it reads it beside the interval, in every output."""
    found = ask(LOG, method=STATED)
    assert found.low > BOUND > TRUTH
    passed = gate(found.question, above=BOUND, method=STATED)
    assert passed.verdict == "approve"
    assert "This holds if what you stated does" in str(passed)
    assert gate(found.question, above=0.9, method=STATED).verdict != "approve"
    assert {item.name: item.state for item in found.assumptions}["values"] == "stated"
    for text in (found.to_markdown(), found._repr_html_(), report_page(found, found.question, title="t")):
        assert "radius as you state it" in text
    assert bondic.verify(found.certificate, LOG).guarantee == found.guarantee == "finite-sample"


@pytest.mark.parametrize("method", ["dual", "sequential", "feng2020"])
def test_methods_that_need_a_class_ask_for_it(method):
    with pytest.raises(InvalidInput, match="states are numbers: without a statement"):
        ask(log_of(rows=400), method=method)


def test_the_command_names_the_way_out_and_takes_a_statement(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez("log.npz", **{name: column for name, column in LOG.columns().items() if column is not None})
    (tmp_path / "rules.py").write_text(
        "import numpy as np\n\n\ndef fair(states):\n    return np.full((len(states), 2), 0.5)\n"
    )
    np.savetxt("starts.csv", STARTS, header="obs_0", comments="")
    asked = ["evaluate", "log.npz", "--policy", "rules.py:fair", "--one-step", "--reward-range", 0, 1]
    asked += ["--initial", "starts.csv", "--require-above", BOUND]
    code, out, err = run(capsys, *asked, "--out", "closed")
    assert code == 6
    assert "Cannot tell" in out
    assert "if this decision is wrong, groups differ by more than" in err
    said = " ".join(out.replace("│", " ").split())
    assert "nothing can be proved from rows that never repeat" in said
    assert "--allowance" in said
    for radius in ("2", "paper"):
        code, out, err = run(capsys, *asked, "--with", f"radius={radius}", "--out", f"open-{radius}")
        assert code == 0, err
        code, out, err = run(capsys, "verify", f"open-{radius}", "log.npz", "--replay")
        assert code == 0, err
        assert out.startswith("verified, except the policy")
    code, out, err = run(capsys, *asked, "--with", "radius=papers", "--out", "slip")
    assert code == 2
    assert "radius=papers" in err
