"""The experiment that counts how often every baseline misses, and its page."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))  # last: only `experiments` is wanted from there

from experiments import baselines
from experiments.baselines_problems import make_cases


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
