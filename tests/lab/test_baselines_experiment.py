"""The experiment that counts how often every baseline misses, and its page."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
from conformance_baselines import BaselineCase

import bondic
import bondic_lab

sys.path.append(str(Path(__file__).resolve().parents[2]))  # last: only `experiments` is wanted from there

from experiments import baselines
from experiments.baselines_problems import make_cases


def test_the_experiment_counts_and_writes_its_page(tmp_path):
    target = tmp_path / "baselines.json"
    page = tmp_path / "page.md"
    assert baselines.main(["--only", "deterministic", "--logs", "2", "--out", str(target), "--page", str(page)]) == 0
    text = page.read_text()
    assert "| `lipschitz` | finite-sample |" in text
    assert "violated within their assumptions: none" in text
    assert "| method | label | deterministic | time |" in text
    assert re.search(r"\n\| `pdis` \| asymptotic \| [^|]* \| [<0-9. ]+ s \|\n", text)
    assert re.search(r"\n\| seconds per log \| deterministic \|\n", text)
    assert "Not in the table: `dm-neural`, which needs an optional library (torch)." in text
    assert '"case": "deterministic"' in target.read_text()
    again = tmp_path / "again.md"
    assert baselines.main(["--render", "--out", str(target), "--page", str(again)]) == 0
    assert again.read_text() == text


def test_times_are_means_over_logs_and_problems():
    fast, slow = baselines.Tally("a", "tis", guarantee="asymptotic"), baselines.Tally("b", "tis")
    result = bondic.estimate_interval(BaselineCase.ask(BaselineCase.log()), method=bondic_lab.make_baseline("tis"))
    for seconds in (0.2, 0.4):
        fast.add(result, 0.0, seconds)
    slow.add(result, 0.0, 1.3)
    refused = baselines.Tally("b", "lipschitz", refused="why")
    rows = [row.record() for row in (fast, slow, refused)]
    text = baselines.page({"logs": 2, "seed": 0, "cases": {"a": "first", "b": "second"}, "rows": rows})
    assert re.search(r"\n\| `tis` \| asymptotic \| .* \| 0.8 s \|\n", text)  # of 0.3 and 1.3
    assert "\n| `tis` | 0.3 | 1.3 |\n" in text
    assert "\n| `lipschitz` | – | – |\n" in text


def test_make_experiments_writes_the_page():
    makefile = (Path(__file__).resolve().parents[2] / "Makefile").read_text()
    assert re.search(r"experiments/baselines\.py .*--page docs/baselines\.md", makefile)


def test_the_same_seed_gives_the_same_counts():
    case = make_cases()["rare large weights"]
    first, second = (baselines.run_case("x", case, seed=1, logs=1) for _ in range(2))
    assert [row.lengths for row in first] == [row.lengths for row in second]
    assert {row.method for row in first} == set(baselines.NAMES)


def test_a_violated_claim_is_called_so():
    bad = baselines.Tally("case", "hcope", guarantee="finite-sample", logs=100, misses=30)
    assert bad.violated
    assert not baselines.Tally("case", "hcope", guarantee="finite-sample", logs=100, misses=15).violated
    assert not baselines.Tally("case", "hcope", guarantee="finite-sample", broken="why", logs=100, misses=30).violated
    assert not baselines.Tally("case", "tis", guarantee="asymptotic", logs=100, misses=30).violated


def test_stated_ratios_bound_the_logged_ones():
    for name, case in make_cases().items():
        problem = case.problem(np.random.default_rng(0))
        log = problem.log
        target = case.mdp.target[log.observations[:, 0].astype(int), log.actions]
        assert (target / log.behavior_action_probs).max() <= case.max_ratio * (1 + 1e-12), name
