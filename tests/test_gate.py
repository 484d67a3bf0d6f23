"""Gates pass on what is proved or stated: without a statement numbers show nothing, and nothing opens them."""

import json

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
    assert passed.result.to_markdown().splitlines()[2].startswith("**Approve: ")
    assert passed.result.next_steps()[0].text.startswith("Take the new policy")
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


# --- the verdict comes first, and advice follows it -----------------------------------------------------


@pytest.fixture
def offers(tmp_path, monkeypatch):
    """Two actions, each with probability 0.5, that earn 0.3 and 0.6 on average: always the second gains 0.15."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    states, actions = rng.integers(0, 3, 3000), rng.integers(0, 2, 3000)
    rewards = (rng.random(3000) < np.where(actions == 1, 0.6, 0.3)).astype(int)
    lines = [f"{s},{a},{r},0.5" for s, a, r in zip(states, actions, rewards, strict=True)]
    (tmp_path / "log.csv").write_text("\n".join(["store,action,reward,behavior_action_probs", *lines]))
    (tmp_path / "rules.py").write_text(
        "import numpy as np\n\n\ndef second(states):\n    return np.eye(2)[np.ones(len(states), int)]\n"
    )
    return [
        "log.csv",
        "--policy",
        "rules.py:second",
        "--one-step",
        "--reward-range",
        0,
        1,
        "--columns",
        "observations=store",
    ]


@pytest.mark.parametrize(
    ("required", "code", "verdict", "advice", "never"),
    [
        (0.05, 0, "Approve", "Take the new policy", "Keep"),
        (0.12, 6, "Cannot tell", "Keep today's policy for now", "Take the new policy"),
        (
            0.4,
            5,
            "Refuse",
            "Keep today's policy: the log shows that the new policy does not meet",
            "Take the new policy",
        ),
    ],
)
def test_the_verdict_of_a_gate_is_the_first_line_and_the_first_advice(
    required, code, verdict, advice, never, offers, tmp_path, capsys
):
    asked = [*offers, "--require-better-than", "today", "--require-above", required, "--out", "res"]
    found, out, err = run(capsys, "evaluate", *asked)
    assert found == code, err
    assert out.startswith(verdict)
    said = " ".join(out.split())
    assert f"What to do next - {advice}" in said
    assert never not in said
    assert "state it: --with min_propensity=0.5." in said  # the largest lever is not hidden by a gate
    held = json.loads((tmp_path / "res" / "result.json").read_text())
    page = (tmp_path / "res" / "report.html").read_text()
    answer = page[page.index('id="answer"') : page.index('id="next"')]
    assert answer.index(f"<strong>{verdict}") < answer.index("each at 90% confidence")
    badges = answer[answer.index('class="badge') :]
    assert badges[: badges.index("</span>")].endswith(verdict.lower())
    assert ">better</span>" not in page
    assert never not in page
    if verdict == "Cannot tell":
        assert held["low"] > 0  # better than today is shown, what was required is not
        assert "rows like these in all would show that it does" in said
        assert held["next_steps"][0]["numbers"]["rows"] > 3000


def test_rows_that_a_gate_needs_are_those_at_which_its_end_gets_there(offers, tmp_path, capsys):
    """By hand: the distance from the estimate to the end falls like 1 / sqrt(rows)."""
    asked = [*offers, "--require-better-than", "today", "--require-above", 0.12, "--out", "res"]
    run(capsys, "evaluate", *asked)
    held = json.loads((tmp_path / "res" / "result.json").read_text())
    rows, gain = held["rows"][1] - held["rows"][0], held["estimate"]
    needed = held["next_steps"][0]["numbers"]["rows"]
    assert gain - (gain - held["low"]) * (rows / needed) ** 0.5 == pytest.approx(0.12)


# --- a value of which the log says nothing --------------------------------------------------------------


def test_a_difference_to_today_without_a_statement_says_that_nothing_is_known(tmp_path, monkeypatch, capsys):
    """Numbers that never come again: today's value is known, the new policy's is the whole range until something is stated."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = 4000
    step, states = np.arange(rows) % 20, rng.random((rows + 1, 1))
    np.savez(
        "log.npz", observations=states[:-1], actions=rng.integers(0, 2, rows), rewards=rng.random(rows),
        next_observations=states[1:], terminations=step == 19, truncations=np.zeros(rows, bool),
        episode_ids=np.arange(rows) // 20, timesteps=step,
    )  # fmt: skip
    (tmp_path / "rules.py").write_text(
        "import numpy as np\n\n\ndef right(states):\n    return np.eye(2)[(states[:, 0] > 0.5).astype(int)]\n"
    )
    asked = [
        "evaluate",
        "log.npz",
        "--policy",
        "rules.py:right",
        "--gamma",
        0.5,
        "--reward-range",
        0,
        1,
        "--against",
        "today",
    ]
    code, out, err = run(capsys, *asked, "--out", "silent")
    said = " ".join(out.split())
    assert code == 4, err
    assert "The log says nothing about the new policy (trivial: nothing is stated" in said
    assert "Ask for its value alone" in said
    assert "Proved for" not in said
    page = (tmp_path / "silent" / "report.html").read_text()
    assert ">nothing is stated</span>" in page
    assert ">proved for this finite log</span>" not in page
    code, out, err = run(capsys, *asked, "--allowance", 0.05, "--out", "stated")
    said = " ".join(out.split())
    assert code == 0, err
    assert "stated by you: " in said
    assert "± 0.05" in said
    assert "if rows are as alike as you state" in (tmp_path / "stated" / "report.html").read_text()
