"""The dual bound's proof and one from outside keep the same laws; verify knows neither."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

import bondic
from bondic.claims import Assumption, Claim, ErrorBudget, Part, Side
from bondic.errors import InvalidInput
from bondic.proofs.asked import Asked
from bondic.proofs.proof import Claims, Proof
from bondic.rounding import Enclosure, certified_dot, log_enclosure
from builders import synthetic
from conformance_proofs import Answer, ProofCase

# --- a proof from outside: a coin-flip experiment with one state, Hoeffding's inequality ----------------


@bondic.register("proof", "test-uniform-bandit")
@dataclass(frozen=True, eq=False)
class BanditProof(Proof):
    """mean_i A pi(a_i) r_i -+ (width) sqrt( log(2/alpha) / (2 n) ) for actions drawn evenly, one state, gamma = 0."""

    asked: Asked
    budget: ErrorBudget
    side: Side = "both"
    guarantee = "finite-sample"

    def claims(self, rows, sums=None):
        del sums  # nothing here is a kernel sum
        slots, whole = rows.layout.slots, rows.whole()
        weights = slots * rows.initial.weights[0][whole.slots]
        mean = certified_dot(weights, whole.rewards) / float(len(rows))
        low, high = rows.terms.reward_range
        width = Enclosure(slots * float(rows.initial.weights.max())) * (max(high, 0.0) - min(low, 0.0))
        noise = width * (log_enclosure(Enclosure(2.0) / self.budget["noise"]) / (2.0 * len(rows))).sqrt()
        parts = (Part("weighted reward", mean, "value"), Part("chance", noise, "spread"))
        return Claims(tuple(Claim(end, parts) for end in ("lower", "upper")))

    def assumptions(self, rows, *, rejected):
        text = f"Actions were drawn evenly from {rows.layout.slots}, {len(rows)} times; there is one state."
        return (Assumption("data", text, "rejected" if rejected else "stated"),)


@dataclass(frozen=True)
class Bandit:
    """The method that makes it."""

    def run(self, problem, alpha, progress):
        del progress
        proof = BanditProof(Asked.of(problem), ErrorBudget(alpha, {"noise": alpha}))
        return bondic.Result.of(proof, problem, method="bandit", effective=float(len(problem)))


class TestBanditProof(ProofCase):
    @classmethod
    def make(cls) -> Answer:
        rng, n = np.random.default_rng(0), 500
        actions = rng.integers(0, 2, n)
        rewards = (rng.random(n) < np.where(actions == 1, 0.8, 0.3)).astype(np.float64)
        log = bondic.Transitions(np.zeros((n, 1)), actions, rewards, np.zeros((n, 1)), rng.random(n) < 0.5)
        policy = bondic.TablePolicy([[0.1, 0.9]])
        start = bondic.InitialStates.exact([[0.0]])
        problem = bondic.make_problem(log, policy, start, gamma=0.0, reward_range=(0.0, 1.0))
        result = bondic.estimate_interval(problem, alpha=0.1, method=Bandit())
        assert result.status is bondic.Status.INTERVAL
        spread = 1.8 * math.sqrt(math.log(20.0) / 1000.0)
        assert result.length == pytest.approx(min(result.high, 1.0) - result.low)
        assert result.claims[0]["chance"].mid == pytest.approx(spread)
        assert 0.75 in result.interval  # 0.1 x 0.3 + 0.9 x 0.8
        return Answer(result, problem, log, policy)


class TestDualProof(ProofCase):
    @classmethod
    def make(cls) -> Answer:
        mdp, log, policy, initial = synthetic(300, gamma=0.3)
        problem = bondic.make_problem(log, policy, initial, gamma=mdp.gamma, reward_range=mdp.reward_range)
        method = bondic.Dual(gauge=bondic.PlugIn(0.02), choices=bondic.Choices(pairs=8))
        return Answer(bondic.estimate_interval(problem, method=method), problem, log, policy)

    def test_what_only_the_dual_can_check_is_found(self, answer):
        checked = bondic.verify(answer.certificate, answer.log)
        assert any("W is said to come from rows" in line for line in checked.checks)
        assert any("really picked on those rows alone" in line for line in checked.unchecked)


def test_a_proof_without_a_radius_has_no_frontier():
    answer = TestBanditProof.make()
    with pytest.raises(InvalidInput, match="no proof with a class Q"):
        bondic.result_frontier(answer.result, answer.problem)
    assert 'id="what-if"' not in bondic.report_page(answer.result, answer.problem, title="t")
