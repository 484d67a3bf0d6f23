"""What the law of the log promises before a log is seen, on the world with s, a ∈ R: the paper's c/n^α + ε_n ‖ω*‖.

ω* is not in the space of finitely many features, so its place is taken by ω_λ, the ridge fits of balance under the law itself,

    2 min_λ ( ε_n ‖ω_λ‖ + r_Q ( ‖μ_{ω_λ}‖ + sqrt( ((1 + γ)² + offset (1 − γ)²) E ω_λ² / n ) ) ),
    μ_ω = E_log[ ω(x) (k̃_x − γ E k̃_{x'}) ] − E k̃_{x_0}.

Without the last root this is the length if balance could be seen without noise ("ideal"). The root bounds the root mean
square of the noise of μ for independent rows: ‖k̃_x − γ k̃_{x'}‖ is at most 1 + γ in the Gaussian part and
sqrt(offset) (1 − γ) in the constant one. A yardstick, not a bound: rows of one episode are dependent. Integrals are sums on the
grid of `occupancy`; k̃ is seen through landmarks on the region that is visited.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from bondic.core.kernels.leaves import Gaussian
from bondic.core.terms import Terms, range_of
from bondic_lab.reproduction.known import synthetic_world, weight_features
from bondic_lab.worlds.continuous import ContinuousMDP
from bondic_lab.worlds.gaussians import GaussianSum
from bondic_lab.worlds.occupancy import LogDistribution, log_distribution, mean_under, pair_grid
from bondic_lab.worlds.rollout import Floats

LANDMARKS = np.linspace(-3.5, 3.5, 17)
"""Per axis, 0.44 bandwidths apart: finer or wider ones change ‖μ‖ by less than a thousandth of ‖μ_0‖ (tests)."""

RIDGES = np.geomspace(1e-14, 1e2, 161)
NEGLIGIBLE = 1e-12


@dataclass(frozen=True, eq=False)
class LogMoments:
    """ω = w · ψ: ‖ω‖ = |w|, μ_ω = A w − b in coordinates of k̃, E ω² = wᵀ S w; variance of the residual of q*."""

    balance: Floats  # A: (landmarks, features)
    start: Floats  # b: (landmarks,)
    second: Floats  # S: (features, features)
    residual_variance: float

    def length(self, epsilon: float, radius: float, noise: float) -> float:
        """2 min_λ ( ε |w| + r ( |A w − b| + noise sqrt(wᵀ S w) ) ) along the ridge path; w = 0 is its end."""
        left, sigma, right = np.linalg.svd(self.balance, full_matrices=False)
        target, best = left.T @ self.start, float(radius * np.linalg.norm(self.start))
        for ridge in RIDGES * float(sigma[0]) ** 2:
            weights = right.T @ (sigma / (sigma**2 + ridge) * target)
            miss = float(np.linalg.norm(self.balance @ weights - self.start))
            spread = math.sqrt(float(weights @ self.second @ weights))
            best = min(best, epsilon * float(np.linalg.norm(weights)) + radius * (miss + noise * spread))
        return 2.0 * best


@cache
def population(gamma: float, length: int) -> LogMoments:
    """The law of the log of `known.synthetic` with one behavior."""
    mdp = synthetic_world(gamma)
    return describe(mdp, log_distribution(mdp, length), LANDMARKS)


def describe(mdp: ContinuousMDP, log: LogDistribution, axis: Floats) -> LogMoments:
    """All means by sums on the grid of pairs, E k̃_{x'} and E k̃_{x_0} in closed form."""
    states, actions, cell = pair_grid(mdp)
    law = cell * log.density(states, actions)
    kept = law > NEGLIGIBLE * law.max()
    states, actions, law = states[kept], actions[kept], law[kept]
    # a world whose q* has one bump of height 1 at every landmark: its value functions, bump by bump, are means of k̃
    places, pushes = (part.ravel() for part in np.meshgrid(axis, axis, indexing="ij"))
    gaussians = replace(mdp, state_centers=places, action_centers=pushes, weights=np.ones(places.size))
    now = Gaussian(mdp.bandwidth).block(np.hstack([states, actions]), np.column_stack([places, pushes]))
    later = _each(gaussians.next_value_sum, mdp.reversion * states[:, 0] + mdp.push * actions[:, 0])
    first = _each(gaussians.value_sum.smoothed(mdp.initial_variance), np.array([mdp.initial_mean]))[0]
    features = weight_features(np.hstack([states, actions]))
    weighted = law[:, None] * features
    marks = np.column_stack([places, pushes])
    whiten = _whitening(Gaussian(mdp.bandwidth).block(marks, marks))
    constant = math.sqrt(mdp.offset) * (1.0 - mdp.gamma) * weighted.sum(axis=0)
    balance = np.vstack([whiten @ ((now - mdp.gamma * later).T @ weighted), constant[None]])
    start = np.append(whiten @ first, math.sqrt(mdp.offset))
    variance = mean_under(log, mdp.residual_variances)
    return LogMoments(balance, start, features.T @ weighted, variance)


@dataclass(frozen=True)
class Promise:
    """Lengths before a log is seen: with the noise of the discrepancy (`prior`), and as if μ_ω were known (`ideal`)."""

    prior: float
    ideal: float


def promise(gauge: str, rows: int, radius: float, alpha: float, *, gamma: float = 0.95, length: int = 50) -> Promise:
    """The formula of the module's opening; ε_n from the reward range ("paper", "half") or from the true residuals.

    "plug-in" takes the variance of the residual with the mean over next actions: the limit of many draws. K_max = 1.
    """
    mdp, law = synthetic_world(gamma), population(gamma, length)
    width = range_of(Terms(gamma, mdp.reward_range, may_terminate=False)).width
    largest = max(map(abs, mdp.reward_range))
    scales = {"paper": 2.0 * largest / (1.0 - gamma), "half": 0.5 * width, "plug-in": math.sqrt(law.residual_variance)}
    epsilon = scales[gauge] * math.sqrt(2.0 * math.log(2.0 / alpha) / rows)
    noise = math.sqrt(((1.0 + gamma) ** 2 + mdp.offset * (1.0 - gamma) ** 2) / rows)
    return Promise(law.length(epsilon, radius, noise), law.length(epsilon, radius, 0.0))


def _each(gaussians: GaussianSum, points: Floats) -> Floats:
    """Every bump by itself: (n,) to (n, J)."""
    squares = np.subtract.outer(points, gaussians.places) ** 2
    return np.asarray(gaussians.heights * np.exp(-gaussians.precision / 2.0 * squares))


def _whitening(gram: Floats) -> Floats:
    """V with ‖Σ c_l k̃_l‖² = |V K c|²: K^{−1/2}, directions below 1e-12 of the largest left out."""
    sizes, directions = np.linalg.eigh(gram)
    kept = sizes > NEGLIGIBLE * sizes[-1]
    return np.asarray(directions[:, kept].T / np.sqrt(sizes[kept])[:, None])
