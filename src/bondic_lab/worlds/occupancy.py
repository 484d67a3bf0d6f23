"""Which pairs (s, a) of a `ContinuousMDP` are visited how often, and ω* = d_π / d_log, by quadrature on a line of states.

Under every policy of that world s' = c s + η with c = ρ + b κ and η normal, or a mixture of two normals, so laws of states are
smooth. Sums over an even grid (trapezoid rule) then converge faster than any power of the step: with five nodes per narrowest
standard deviation and ten standard deviations to each side the error is that of rounding (tests: 1e-10 relative against
closed forms, where they exist).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bondic.core.errors import InvalidInput
from bondic_lab.worlds.continuous import ContinuousMDP
from bondic_lab.worlds.rollout import Floats, freeze

NODES_PER_DEVIATION = 5.0
REACH = 10.0  # standard deviations to each side: 1e-23 of a normal law lies beyond

PairFunction = Callable[[Floats, Floats], Floats]
"""States (n, 1) and actions (n, 1) to values (n,)."""


@dataclass(frozen=True, eq=False)
class Occupancy:
    """d(s, a) = ( start · N(s; μ_0, v_0) + Σ_j mass_j N_α(s − c s_j) ) · (α π + (1 − α) β)(a|s).

    The law of pairs visited under a mixture policy, not necessarily of mass 1: `mass_j` stands at node s_j for the pairs
    that lead on to s, N_α is the law of η under the mixture.
    """

    mdp: ContinuousMDP
    rate: float  # α
    start: float
    nodes: Floats  # (N,)
    masses: Floats  # (N,)

    def state_density(self, states: Floats) -> Floats:
        """Density of states, (n, 1) to (n,)."""
        mdp = self.mdp
        distinct, place = np.unique(states[:, 0], return_inverse=True)  # a grid of pairs repeats each state
        first = self.start * _normal(distinct - mdp.initial_mean, mdp.initial_variance)
        onward = _step_density(mdp, self.rate, distinct, self.nodes) @ self.masses
        return np.asarray((first + onward)[place])

    def density(self, states: Floats, actions: Floats) -> Floats:
        """Density of pairs, (n, 1) and (n, 1) to (n,)."""
        offsets = actions[:, 0] - self.mdp.gain * states[:, 0]
        return self.state_density(states) * _action_density(self.mdp, self.rate, offsets)


@dataclass(frozen=True, eq=False)
class LogDistribution:
    """d_log = mean of the occupancies of its parts: episodes of `length` rows, equally many rows of each mixture rate."""

    length: int
    parts: tuple[Occupancy, ...]

    def density(self, states: Floats, actions: Floats) -> Floats:
        """d_log(s_i, a_i): (n, 1) and (n, 1) to (n,)."""
        return np.asarray(sum(part.density(states, actions) for part in self.parts) / len(self.parts))


def visitation(mdp: ContinuousMDP) -> Occupancy:
    """d_π(s, a) = Σ_t γ^t p_t(s) π(a|s), of mass 1/(1 − γ), theory section 10: d = p_0 + γ K d on the grid."""
    nodes, step = state_grid(mdp)
    first = _normal(nodes - mdp.initial_mean, mdp.initial_variance)
    moves = _step_density(mdp, 1.0, nodes, nodes) * step
    density = np.linalg.solve(np.eye(nodes.size) - mdp.gamma * moves, first)
    return Occupancy(mdp, 1.0, 1.0, nodes, freeze(mdp.gamma * step * density))


def log_distribution(mdp: ContinuousMDP, length: int, rates: Sequence[float] = (0.0,)) -> LogDistribution:
    """d_log(s, a) = (1/T) Σ_{t<T} p_t(s) β_α(a|s), averaged over the mixture rates α of the logging policies."""
    if length < 1 or not len(rates) or any(not 0.0 <= rate <= 1.0 for rate in rates):
        raise InvalidInput(f"A log has episodes of at least one row and rates in [0, 1]: {length=}, {rates=}.")
    return LogDistribution(int(length), tuple(_logged(mdp, length, float(rate)) for rate in rates))


def density_ratio(mdp: ContinuousMDP, log: LogDistribution) -> PairFunction:
    """ω* = d_π / d_log as a function of states and actions; its mean under the log is 1/(1 − γ)."""
    reached = visitation(mdp)

    def ratio(states: Floats, actions: Floats) -> Floats:
        return reached.density(states, actions) / log.density(states, actions)

    return ratio


def efficient_variance(mdp: ContinuousMDP, log: LogDistribution) -> float:
    """V* = E_log[ ω*² E[(R̂q*)²|s, a] ]: the length limit is 2 z sqrt(V*/n), theory section 10."""
    _refuse_thin_tails(mdp, log)
    reached = visitation(mdp)

    def integrand(states: Floats, actions: Floats) -> Floats:
        ratio = reached.density(states, actions) / log.density(states, actions)
        return ratio * mdp.residual_variances(states, actions)

    return mean_under(reached, integrand)


def mean_under(law: Occupancy | LogDistribution, function: PairFunction) -> float:
    """∫∫ law(s, a) f(s, a) ds da on the product of two even grids; not divided by the law's mass."""
    part = law.parts[0] if isinstance(law, LogDistribution) else law
    states, actions, cell = pair_grid(part.mdp)
    return float(cell * np.sum(law.density(states, actions) * function(states, actions)))


def state_grid(mdp: ContinuousMDP) -> tuple[Floats, float]:
    """Even nodes that cover the states of every policy of the world, and their distance."""
    kicks = [_kick(mdp, heat) for heat in (mdp.target_temperature, mdp.behavior_temperature)]
    largest = np.sqrt(max(mdp.initial_variance, max(kicks) / (1.0 - mdp.contraction**2)))
    step = np.sqrt(min(mdp.initial_variance, *kicks)) / NODES_PER_DEVIATION
    means = (0.0, mdp.initial_mean, mdp.contraction * mdp.initial_mean)
    ends = np.array([min(means), max(means)])
    low, high = ends + REACH * largest * np.array([-1.0, 1.0])
    count = int(np.ceil((high - low) / step)) + 1
    return freeze(low + step * np.arange(count)), float(step)


def pair_grid(mdp: ContinuousMDP) -> tuple[Floats, Floats, float]:
    """(s, a) with s on `state_grid` and a − κ s on an even grid, flat, (n, 1) each, and the area of a cell."""
    nodes, step = state_grid(mdp)
    temperatures = mdp.target_temperature, mdp.behavior_temperature
    width = float(np.sqrt(min(temperatures))) / NODES_PER_DEVIATION
    half = int(np.ceil(REACH * np.sqrt(max(temperatures)) / width))
    offsets = width * np.arange(-half, half + 1)
    states, around = np.meshgrid(nodes, offsets, indexing="ij")
    return states.reshape(-1, 1), (mdp.gain * states + around).reshape(-1, 1), step * width


def _logged(mdp: ContinuousMDP, length: int, rate: float) -> Occupancy:
    """Σ_{t<T−1} p_t on the grid, each divided by T: what leads on to rows 1 … T − 1."""
    nodes, step = state_grid(mdp)
    moves = _step_density(mdp, rate, nodes, nodes) * step
    density, total = _normal(nodes - mdp.initial_mean, mdp.initial_variance), np.zeros(nodes.size)
    for _ in range(length - 1):
        total += density
        density = moves @ density
    return Occupancy(mdp, rate, 1.0 / length, nodes, freeze(step * total / length))


def _step_density(mdp: ContinuousMDP, rate: float, states: Floats, origins: Floats) -> Floats:
    """Density of s' at `states` (n,), given s at `origins` (N,), under the mixture: (n, N)."""
    jumps = np.subtract.outer(states, mdp.contraction * origins)
    parts = ((rate, mdp.target_temperature), (1.0 - rate, mdp.behavior_temperature))
    return np.asarray(sum(share * _normal(jumps, _kick(mdp, heat)) for share, heat in parts if share > 0.0))


def _action_density(mdp: ContinuousMDP, rate: float, offsets: Floats) -> Floats:
    """(α π + (1 − α) β)(κ s + offset | s)."""
    parts = ((rate, mdp.target_temperature), (1.0 - rate, mdp.behavior_temperature))
    return np.asarray(sum(share * _normal(offsets, heat) for share, heat in parts if share > 0.0))


def _kick(mdp: ContinuousMDP, temperature: float) -> float:
    """σ² + b² τ: the variance of s' given s."""
    return mdp.noise**2 + mdp.push**2 * temperature


def _normal(offsets: Floats, variance: float) -> Floats:
    return np.asarray(np.exp(-(offsets**2) / (2.0 * variance)) / np.sqrt(2.0 * np.pi * variance))


def _refuse_thin_tails(mdp: ContinuousMDP, log: LogDistribution) -> None:
    """E_log ω*² = ∫ d_π² / d_log is finite if no variance of d_π reaches twice the largest of d_log; grids cover 1.5 times."""
    settled = _kick(mdp, mdp.target_temperature) / (1.0 - mdp.contraction**2)
    reached, logged, hottest = max(mdp.initial_variance, settled), 0.0, 0.0
    for part in log.parts:
        heat = mdp.target_temperature
        if part.rate < 1.0:
            heat = max(mdp.behavior_temperature, heat if part.rate > 0.0 else 0.0)
        variance = mdp.initial_variance
        for _ in range(log.length):
            logged, hottest = max(logged, variance), max(hottest, heat)
            variance = mdp.contraction**2 * variance + _kick(mdp, heat)
    if reached > 1.5 * logged or mdp.target_temperature > 1.5 * hottest:
        raise InvalidInput(
            f"The target spreads wider than the log (variances of states {reached:.3g} and {logged:.3g}, of actions "
            f"{mdp.target_temperature:.3g} and {hottest:.3g}): ω* has no finite second moment, or none that the grid can tell. "
            "Take longer episodes or a hotter behavior."
        )
