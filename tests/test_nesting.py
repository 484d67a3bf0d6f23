"""How the bounds of the theory contain one another, on problems whose q* and J* are known.

J* in oracle, inside oracle_W, inside primal (on the event L_W(q*) <= eps), inside dual at every omega.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import bondic as b
import builders
from bondic.core.balls import Instruments
from bondic.core.dual.bound import dual_bound
from bondic.core.identity import bellman_residual
from bondic.core.kernels.features import RandomFeatures
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.search import spectral
from bondic_lab.bounds.primal import primal_point
from bondic_lab.identity.formulas import function_values
from bondic_lab.identity.loss import residual_loss
from bondic_lab.methods.oracle import oracle_interval
from bondic_lab.worlds.synthetic import SyntheticMDP
from bondic_lab.worlds.tabular import TabularMDP
from core_cases import Given


class World:
    """A problem with its q*: everything that the comparisons need."""

    def __init__(self, problem, kernel, truth, value, *, instruments, factor=1.5):
        self.problem, self.truth, self.value = problem, truth, value
        self.ball = b.Ball(kernel, factor * truth.norm().upper)
        self.instruments = Instruments(instruments)
        self.setting = builders.setting_of(problem, self.ball, instruments)
        self.model = builders.search_model(self.setting)
        self.spectrum = spectral.Spectrum.of(self.model)
        self.scale = self.ball.radius * float(np.linalg.norm(self.model.start))

    @property
    def loss(self):
        """L_W(q*)."""
        return primal_point(self.setting, self.truth).loss.upper

    def primal(self, kappa):
        """(low, high) of { E[q] : q in Q, L_W(q) <= kappa }."""
        ends = [
            spectral.propose(self.spectrum, sign=sign, radius=self.ball.radius, kappa=kappa) for sign in (-1.0, 1.0)
        ]
        assert all(end.status in ("optimal", "zero is optimal") for end in ends)
        return -ends[0].objective, ends[1].objective


def synthetic_world(seed, *, rows=60, **options):
    mdp = SyntheticMDP.default(seed=seed, **options)
    problem = builders.synthetic_problem(mdp, mdp.rollout(rows // 10, 10, np.random.default_rng(seed)))
    waves = RandomFeatures.gaussian(10, problem.layout.observation_dim, 1.0, seed=seed)
    weights = 0.5 * Constant(1.0) + 0.5 * (waves * Dirac())
    truth = builders.synthetic_truth(mdp, problem.layout)
    return mdp, World(problem, builders.synthetic_kernel(mdp), truth, mdp.value, instruments=weights)


def tabular_world(seed, *, rows=80, **options):
    rng = np.random.default_rng(seed)
    mdp = TabularMDP.random(rng, n_states=4, n_actions=2, gamma=0.7, **options)
    problem = builders.tabular_problem(mdp, builders.as_log(mdp.rollout(rows // 8, 8, rng)))
    truth = builders.table_function(mdp.q_star, problem.layout)
    weights = 0.5 * builders.table_kernel() + Constant(0.5)
    return mdp, World(problem, builders.table_kernel(), truth, mdp.value, instruments=weights)


WORLDS = [
    (synthetic_world, 0, {}),
    (synthetic_world, 4, {"reward_noise": 0.3, "termination": 0.2}),
    (synthetic_world, 5, {"dimension": 2, "n_actions": 3}),
    (tabular_world, 0, {"reward_noise": 0.2, "termination": 0.3}),
    (tabular_world, 4, {}),
]


def inside(inner, outer, slack):
    return outer[0] - slack <= inner[0] and inner[1] <= outer[1] + slack


@pytest.mark.parametrize(("make", "seed", "options"), WORLDS)
def test_nesting(make, seed, options):
    """Each bound holds the one before it; the slack is 1e-6 of the trivial width (1e-4 for the oracle's cut-off)."""
    _, world = make(seed, **options)
    slack = 1e-6 * world.scale
    oracle = oracle_interval(world.problem, world.ball, world.truth)
    loss, epsilon = world.loss, world.setting.epsilon().upper
    assert loss <= epsilon  # the event; it has probability >= 0.9 and holds in each of these logs
    chain = [(world.value, world.value), (oracle.low, oracle.high)]
    chain += [world.primal(kappa) for kappa in (loss, 1.3 * loss, 3.0 * loss, max(epsilon, 3.0 * loss))]
    assert inside(chain[0], chain[1], slack)
    assert inside(chain[1], chain[2], 100 * slack)
    for inner, outer in pairwise(chain[2:]):
        assert inside(inner, outer, slack)
    lengths = [high - low for low, high in chain]
    assert lengths[1] < 0.9 * lengths[3] or lengths[3] < 1e-3 * world.scale
    rng = np.random.default_rng(seed)
    best = spectral.propose(world.spectrum, sign=1.0, radius=world.ball.radius, kappa=loss).weights
    others = (best + rng.standard_normal(best.size), rng.standard_normal(best.size))
    for w in (np.zeros_like(best), best, 2 * best, *others):
        omega = world.model.function(w) if w.any() else None
        lower, upper = dual_bound(world.setting, omega)
        assert inside(chain[-1], (lower.bound, upper.bound), slack)
        # the dual at L_W(q*) holds its own primal, for every omega
        tight = residual_loss(
            world.problem.whole(),
            world.instruments.kernel,
            bellman_residual(world.problem.whole(), function_values(world.problem.whole(), world.truth)),
        )
        lower, upper = dual_bound(replace(world.setting, gauge=Given(tight)), omega)
        assert lower.bound <= world.value <= upper.bound
        assert inside(chain[2], (lower.bound, upper.bound), slack)


# ----------------------------------------------------------------------------------------------------- without Q
