"""Every kind of proof, and one from outside, keep the same laws; verify knows none of them."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import bondic
from bondic.core.bounded import Enclosure, certified_dot, log_enclosure
from bondic.core.claims import Assumption, Claim, ErrorBudget, Part, Side
from bondic.core.functions import KernelFunction
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.core.proof import Claims, Estimand, Proof
from bondic.core.registry import register
from bondic.rows.estimand import estimand_of
from bondic.tuning.defaults import Advanced
from bondic_lab.noise.plug_in import PlugIn
from builders import synthetic
from conformance_proofs import ProofCase

# --- a proof from outside: a coin-flip experiment with one state, Hoeffding's inequality ----------------


@register("proof", "test-uniform-bandit")
@dataclass(frozen=True, eq=False)
class BanditProof(Proof):
    """mean_i A pi(a_i) r_i -+ (width) sqrt( log(2/alpha) / (2 n) ) for actions drawn evenly, one state, gamma = 0."""

    estimand: Estimand
    budget: ErrorBudget
    side: Side = "both"
    guarantee = "finite-sample"

    def claims(self, question, sums=None):
        del sums  # nothing here is a kernel sum
        rows = question.columns
        slots, whole = rows.layout.slots, rows.whole()
        weights = slots * rows.initial.weights[0][whole.slots]
        mean = certified_dot(weights, whole.rewards) / float(len(rows))
        low, high = rows.terms.reward_range
        width = Enclosure(slots * float(rows.initial.weights.max())) * (max(high, 0.0) - min(low, 0.0))
        noise = width * (log_enclosure(Enclosure(2.0) / self.budget["noise"]) / (2.0 * len(rows))).sqrt()
        parts = (Part("weighted reward", mean, "value"), Part("chance", noise, "spread"))
        return Claims(tuple(Claim(end, parts) for end in ("lower", "upper")))

    def assumptions(self, question, *, rejected):
        rows = question.columns
        text = f"Actions were drawn evenly from {rows.layout.slots}, {len(rows)} times; there is one state."
        return (Assumption("data", text, "rejected" if rejected else "stated"),)


@dataclass(frozen=True)
class Bandit:
    """The method that makes it."""

    def run(self, problem, alpha, progress):
        del progress
        proof = BanditProof(estimand_of(problem), ErrorBudget(alpha, {"noise": alpha}))
        return bondic.Result.of(proof, problem, method="bandit", effective=float(len(problem)))


class TestBanditProof(ProofCase):
    @classmethod
    def ask(cls):
        rng, n = np.random.default_rng(0), 500
        actions = rng.integers(0, 2, n)
        rewards = (rng.random(n) < np.where(actions == 1, 0.8, 0.3)).astype(np.float64)
        log = bondic.Transitions(np.zeros((n, 1)), actions, rewards, np.zeros((n, 1)), rng.random(n) < 0.5)
        policy = bondic.TablePolicy([[0.1, 0.9]])
        start = bondic.InitialStates.exact([[0.0]])
        problem = bondic.make_problem(log, policy, start, gamma=0.0, reward_range=(0.0, 1.0))
        return problem, log, policy, Bandit()

    def test_it_is_the_formula(self, answer):
        spread = 1.8 * math.sqrt(math.log(20.0) / 1000.0)
        assert answer.result.claims[0]["chance"].mid == pytest.approx(spread)
        assert 0.75 in answer.result.interval  # 0.1 x 0.3 + 0.9 x 0.8


# --- those of the library: small logs, every method that plans ------------------------------------------


def world(n):
    """States that are numbers, with a policy and exact starts."""
    mdp, log, policy, initial = synthetic(n, gamma=0.3)
    return log, policy, initial, {"gamma": mdp.gamma, "reward_range": mdp.reward_range}


def asked(log, policy, initial, statements, method):
    return bondic.make_problem(log, policy, initial, **statements), log, policy, method


def table(method, n=600):
    """Two states with names, and some rows that end."""
    rng = np.random.default_rng(3)
    states, actions = rng.integers(0, 2, (n, 1)).astype(float), rng.integers(0, 2, n)
    rewards = (rng.random(n) < 0.2 + 0.5 * actions).astype(np.float64)
    log = bondic.Transitions(states, actions, rewards, rng.integers(0, 2, (n, 1)).astype(float), rng.random(n) < 0.1)
    policy = bondic.TablePolicy([[0.1, 0.9], [0.6, 0.4]])
    statements = {"gamma": 0.5, "reward_range": (0.0, 1.0)}
    return asked(log, policy, bondic.InitialStates.exact([[0.0]]), statements, method)


class TestDualProof(ProofCase):
    replayed = ("instruments",)

    @classmethod
    def ask(cls):
        return asked(*world(300), bondic.Dual(radius="paper", gauge=PlugIn(0.02), advanced=Advanced(pairs=8)))

    def test_what_only_the_dual_can_check_is_found(self, answer):
        checked = bondic.verify(answer.certificate, answer.log)
        assert any("W comes from rows" in line for line in checked.checks)


class TestTableByDefault(ProofCase):
    replayed = ("plan",)

    @classmethod
    def ask(cls):
        return table(None)


class TestTableOnCells(ProofCase):
    replayed = ("plan",)

    @classmethod
    def ask(cls):
        return table(bondic.Table(pilot=100), 1500)


class TestStatedAllowance(ProofCase):
    replayed = ("plan",)
    withheld = "row by row"

    @classmethod
    def ask(cls):
        return asked(*world(1200), bondic.Groups(allowance=(0.01, 0.1), count=2))


class TestStatedBall(ProofCase):
    """Q around a center, with initial states that are a sample."""

    replayed = ("plan",)
    withheld = "would show rows"

    @classmethod
    def ask(cls):
        log, policy, initial, statements = world(600)
        layout = bondic.make_problem(log, policy, initial, **statements).layout
        center = KernelFunction(Constant(1.0), layout, np.zeros((1, 1)), np.array([[0.7, 0.7]]))
        ball = bondic.Ball(bondic.Gaussian(0.5) * Dirac() + Constant(1.0), 1.0, center)
        rng = np.random.default_rng(5)
        some = rng.choice(initial.observations[:, 0], (3000, 1), p=initial.weights)
        return asked(log, policy, bondic.InitialStates.sample(some), statements, bondic.Sequential(ball=ball))


class TestOwnStarts(ProofCase):
    """Q with a radius as stated, and the log's own starts."""

    replayed = ("plan",)
    withheld = "would show rows"

    @classmethod
    def ask(cls):
        log, policy, _, statements = world(1500)
        return asked(log, policy, bondic.InitialStates.from_log(log), statements, bondic.Sequential(radius=2.0))


class TestRuleOfThePaper(ProofCase):
    replayed = ("plan",)
    withheld = "would show rows"

    @classmethod
    def ask(cls):
        return asked(*world(800), bondic.Sequential(radius="paper"))

    def test_the_rule_is_replayed_without_the_policy(self, answer):
        """It looks at the pilot and its stored answers alone."""
        assert any(
            "plan made again" in line for line in bondic.verify(answer.certificate, answer.log, replay=True).checks
        )


# --- another number of threads --------------------------------------------------------------------------

CASES = ("TestDualProof", "TestTableOnCells", "TestStatedBall")
PROPENSITIES = ("TestDoublyRobust",)
_ELSEWHERE = """
import sys
sys.path.insert(0, sys.argv[1])
import bondic, test_proofs
for name, case in test_proofs.every_case():
    loaded = bondic.load_certificate(f"{sys.argv[2]}/{name}")
    problem, log, policy, method = case.ask()
    for replay in (False, True):
        checked = bondic.verify(loaded, log, policy, replay=replay)
        assert any("plan made again" in line for line in checked.checks) == replay
    print(name)
"""


def every_case():
    """Conformance cases of all proofs with a plan."""
    for module, names in ((sys.modules[__name__], CASES), (import_module("test_propensities"), PROPENSITIES)):
        yield from ((name, getattr(module, name)) for name in names)


def test_certificates_of_another_number_of_threads_are_verified(tmp_path):
    """Made here, verified and replayed in a process with two threads, which sums in other orders."""
    for name, case in every_case():
        bondic.save_certificate(case.make().certificate, tmp_path / name)
    threads = dict.fromkeys(("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "2")
    threads["OPENBLAS_THREAD_TIMEOUT"] = "4"  # idle threads sleep: other tests may need the cores
    words = [sys.executable, "-c", _ELSEWHERE, str(Path(__file__).parent), str(tmp_path)]
    done = subprocess.run(words, env={**os.environ, **threads}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [*CASES, *PROPENSITIES]
