"""The problems of experiments/defaults.py: their values agree with brute force, and the judge counts what it should."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

import bondic

sys.path.append(str(Path(__file__).resolve().parents[1]))  # last: only `experiments` is wanted from there

from experiments import defaults, defaults_judge
from experiments.defaults_cells import Cell, Trial, truth_about


def coin_trial(truth: float = 0.5) -> Trial:
    rng = np.random.default_rng(13)
    states = np.zeros((200, 1))
    log = bondic.Transitions(
        states, np.zeros(200, dtype=int), rng.integers(2, size=200), states, np.ones(200, dtype=bool)
    )
    start = bondic.InitialStates.exact(np.zeros((1, 1)))
    return Trial(log, bondic.UniformPolicy(1), 0.0, (0.0, 1.0), truth, initial=start)


def test_a_run_is_judged_by_its_truth():
    good = defaults_judge.ask("good", Cell("", lambda _: coin_trial()), 0, np.random.default_rng(0))
    bad = defaults_judge.ask("bad", Cell("", lambda _: coin_trial(5.0)), 0, np.random.default_rng(0))
    granted = defaults_judge.ask(
        "granted", Cell("", lambda _: replace(coin_trial(5.0), error=5.0)), 0, np.random.default_rng(0)
    )
    rows = [row | {"seed": seed} for row in (good, bad, granted) for seed in range(20)]
    lines = {line["cell"]: line for line in defaults_judge.summarize(rows)}
    assert [lines[name]["misses"] for name in ("good", "bad", "granted")] == [0, 20, 0]
    assert [lines[name]["violated"] for name in ("good", "bad", "granted")] == [False, True, False]
    assert lines["good"]["used"] == coin_trial().evaluate(0.1).method
    data = {
        "rows": rows,
        "not_run": {"x": "obp not installed, cell not run"},
        "limit": 9.0,
        "words": {"good": "a coin"},
    }
    text = defaults.page(data)
    assert re.search(r"\| bad \|.*\*\*violated\*\*", text)
    assert "- x: obp not installed, cell not run." in text


def test_without_stated_starts_the_truth_is_that_of_the_rows_an_answer_is_about():
    log, values = replace(coin_trial().log, behavior_action_probs=np.ones(200)), np.arange(200.0)
    for one, first in ((log, 40), (replace(log, behavior_action_probs=None), 0)):
        result = replace(coin_trial(), log=one, initial=None).evaluate(0.1)
        assert truth_about(result, values) == values[first:].mean()
        assert truth_about(result, np.where(values % 2, np.nan, values)) == values[first::2].mean()


def test_a_rejection_counts_as_a_miss_and_trivial_runs_are_no_evidence():
    """Every log satisfies what was stated: a tool that rejects it is as wrong as one whose interval misses."""
    row = {
        "cell": "a",
        "rows": 9,
        "gamma": 0.0,
        "truth": 0.5,
        "slack": 0.0,
        "alpha": 0.1,
        "method": "default",
        "width": 1.0,
    }
    row |= {"guarantee": "finite-sample", "used": "table", "seconds": 0.0}
    ends = {"INTERVAL": (0.4, 0.6), "missing": (0.6, 0.7), "TRIVIAL": (0.0, 1.0), "REJECTED": (0.0, 1.0)}
    rows = [
        {**row, "status": status if status.isupper() else "INTERVAL", "low": low, "high": high}
        for status, (low, high) in ends.items()
    ]
    (line,) = defaults_judge.summarize(rows)
    assert [line[name] for name in ("runs", "misses", "rejected", "trivial", "informative")] == [4, 2, 1, 1, 3]
    page = defaults.page({"rows": rows, "not_run": {}, "words": {}, "limit": 1.0})
    assert "2 misses in 3 informative runs (of 4)" in page
    assert "2 / 4" in page
