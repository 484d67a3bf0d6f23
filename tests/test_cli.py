"""The command line and what people see."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

import bondic
from bondic.cli import main as cli
from bondic.report.pens import result_table
from bondic.report.progress import progress_bar
from builders import tabular


@pytest.fixture(scope="module")
def result():
    mdp, log, policy, initial = tabular(600, gamma=0.5)
    return bondic.evaluate_policy(log, policy, initial=initial, gamma=0.5, reward_range=mdp.reward_range), log


def test_demo_prints_the_interval_and_writes_report_and_certificate(tmp_path):
    done = CliRunner().invoke(cli.group, ["demo", "--out", str(tmp_path / "out")], catch_exceptions=False)
    assert done.exit_code == 0
    assert "At 90% confidence the value of the policy lies in [4.4541, 4.4739]" in " ".join(
        done.output.replace("│", " ").split()
    )
    assert "verified again" in done.output
    assert "no assumption about the value function" in " ".join(done.output.replace("│", " ").split())
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"report.html", "result.json", "certificate.json", "certificate.npz"}
    demo = bondic.load_demo()
    checked = bondic.verify(bondic.load_certificate(tmp_path / "out" / "certificate.json"), demo.log, demo.policy)
    assert checked.low <= 4.466233 <= checked.high


def test_verify_command_says_what_it_checked_and_fails_on_another_log(result, tmp_path):
    answer, log = result
    bondic.save_certificate(answer.certificate, tmp_path / "c")
    names = ("observations", "actions", "rewards", "next_observations", "terminations", "truncations", "episode_ids",
             "timesteps", "behavior_action_probs")  # fmt: skip
    columns = {name: getattr(log, name) for name in names}
    np.savez(tmp_path / "log.npz", **columns)
    columns["rewards"] = np.where(np.arange(len(log)) == 5, 0.0, columns["rewards"])
    np.savez(tmp_path / "other.npz", **columns)
    command = [sys.executable, "-m", "bondic", "verify", str(tmp_path / "c.json")]
    good = subprocess.run([*command, str(tmp_path / "log.npz")], capture_output=True, text=True, check=False)
    assert good.returncode == 0
    assert good.stdout.startswith("verified, except the policy; when the plan was made: [")
    bad = subprocess.run([*command, str(tmp_path / "other.npz")], capture_output=True, text=True, check=False)
    assert bad.returncode == cli.NOT_VERIFIED
    assert bad.stderr.startswith("not verified: The log is not the one")
    missing = subprocess.run([*command, str(tmp_path / "none.npz")], capture_output=True, text=True, check=False)
    assert missing.returncode == cli.BAD_INPUT
    assert "Traceback" not in missing.stderr


def test_table_and_html_show_every_term_and_assumption(result):
    answer, _ = result
    console = Console(width=140, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(result_table(answer))
    text = console.export_text()
    page = answer._repr_html_()
    for name in set(answer.terms()["lower"]) - {"rounding"}:  # no digit shows it
        assert name in text
        assert name in page
    for item in answer.assumptions:
        assert item.name in text
    assert "<script" not in page
    assert "http" not in page
    console.file.close()


def test_repr_says_what_it_is(result):
    answer, _ = result
    assert repr(answer).startswith("Result(90% interval [")
    assert "guarantee='finite-sample'" in repr(answer)
    assert answer.low in answer.interval
    assert answer.to_dict()["alpha"] == answer.alpha


def test_progress_moves_on_terminals():
    console = Console(force_terminal=True, record=True, width=60)
    with progress_bar(console) as report:
        assert report is not None
        report("search", 0.5)
        report("search", 1.0)


def test_stages_are_reported_in_order():
    seen = []
    mdp, log, policy, initial = tabular(200, gamma=0.5)
    bondic.evaluate_policy(
        log,
        policy,
        initial=initial,
        gamma=0.5,
        reward_range=mdp.reward_range,
        method=bondic.Sequential(),
        progress=lambda s, x: seen.append((s, x)),
    )
    assert list(dict.fromkeys(stage for stage, _ in seen)) == ["pilot", "plan", "evaluate"]
    assert all(0 <= share <= 1 for _, share in seen)
