"""q*(s, a) = c_0 + Σ_j θ_j exp(−((s − z_j)² + (a − u_j)²) / (2 h²)), s, a ∈ R, is given; the reward follows from theory (2).

Policies and transitions are Gaussian, so v*, E v*(s'), r, J*, ‖q*‖ and the variance of the residual of q* are closed forms.
Densities of visited pairs, and with them ω*, are in `worlds/occupancy.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from bondic.core.errors import InvalidInput
from bondic.policies.standard import GaussianPolicy, MixturePolicy
from bondic_lab.worlds.gaussians import SLACK, GaussianSum
from bondic_lab.worlds.rollout import Flags, Floats, Rollout, freeze, freeze_fields, simulate_draws

QFunction = Callable[[Floats, Floats], Floats]
"""States (n, 1) and actions (n, 1) to values (n,)."""

COVER_CELLS = 500  # per axis, of the proved reward bound; more cells only make it tighter
HERMITE_NODES = 40  # exact for polynomials of degree 79; for q of bandwidth 1 the error is below 1e-12
STATE_REACH = 40.0  # standard deviations that no normal draw of a simulation will ever leave
ACTION_REACH = 40.0


@dataclass(frozen=True, eq=False)
class ContinuousMDP:
    """r(s, a) = q*(s, a) − γ E v*(s'),  s' = ρ s + b a + σ ξ, ξ ~ N(0, 1),  v*(s) = ∫ π(a|s) q*(s, a) da.

    A policy of temperature τ has the density ∝ exp(−(a − κ s)² / (2 τ)). d_0 = N(μ_0, v_0). Nothing terminates. The logged
    reward is r(s, a) ± `reward_noise`, each sign with probability 1/2. States and actions are unbounded, rewards are not:
    `reward_range` is proved.
    """

    gamma: float
    state_centers: Floats  # z_j: (J,)
    action_centers: Floats  # u_j: (J,)
    weights: Floats  # θ_j: (J,)
    constant: float  # c_0
    bandwidth: float  # h
    reversion: float  # ρ
    push: float  # b
    noise: float  # σ
    gain: float  # κ
    initial_mean: float  # μ_0
    initial_variance: float  # v_0
    offset: float = 1.0  # of the constant kernel in k̃ = g + offset
    target_temperature: float = 0.1
    behavior_temperature: float = 1.0
    reward_noise: float = 0.0

    def __post_init__(self) -> None:
        freeze_fields(self)
        _validate(self)

    @classmethod
    def default(
        cls, gamma: float = 0.95, *, seed: int = 0, n_centers: int = 8, reward_noise: float = 0.0
    ) -> ContinuousMDP:
        """θ_j ~ N(0, 1), z_j and u_j uniform in [−1.5, 1.5], ρ = 0.5, b = 0.4, κ = 0.5, σ = 0.3, d_0 = N(0.5, 0.3)."""
        rng = np.random.default_rng(seed)
        return cls(
            gamma=gamma,
            state_centers=rng.uniform(-1.5, 1.5, n_centers),
            action_centers=rng.uniform(-1.5, 1.5, n_centers),
            weights=rng.standard_normal(n_centers),
            constant=1.0,
            bandwidth=1.0,
            reversion=0.5,
            push=0.4,
            noise=0.3,
            gain=0.5,
            initial_mean=0.5,
            initial_variance=0.3,
            reward_noise=reward_noise,
        )

    @property
    def q_norm(self) -> float:
        """‖q*‖_k̃ = sqrt( θᵀGθ + c_0² / offset ),  k̃ = g + offset with g the Gaussian of bandwidth h on (s, a).

        Exact, not only an upper bound: the Gaussian space on R² holds no constant but 0.
        """
        gram = self._gaussians(self.state_centers[:, None], self.action_centers[:, None])
        return float(np.sqrt(self.weights @ gram @ self.weights + self.constant**2 / self.offset))

    @property
    def value(self) -> float:
        """J* = E v*(s_0), s_0 ~ N(μ_0, v_0), theory (3)."""
        smooth = self.value_sum.smoothed(self.initial_variance)
        return self.constant + float(smooth.at(np.array([self.initial_mean]))[0])

    def q_star(self, states: Floats, actions: Floats) -> Floats:
        """q*(s_i, a_i): (n, 1) and (n, 1) to (n,)."""
        return np.asarray(self.constant + self._gaussians(states, actions) @ self.weights)

    def state_values(self, states: Floats) -> Floats:
        """v*(s_i) = ∫ π(a|s_i) q*(s_i, a) da: (n, 1) to (n,)."""
        return self.constant + self.value_sum.at(states[:, 0])

    def expected_rewards(self, states: Floats, actions: Floats) -> Floats:
        """r(s_i, a_i) = q*(s_i, a_i) − γ E[ v*(s') | s_i, a_i ]: (n, 1) and (n, 1) to (n,)."""
        following = self.constant + self.next_value_sum.at(self._drift(states, actions))
        return self.q_star(states, actions) - self.gamma * following

    def expected_residuals(self, q: QFunction, states: Floats, actions: Floats) -> Floats:
        """Rq(x_i) = E[ q(x) − γ q(x') − r | x = x_i ] for any smooth q, theory (2), by Gauss–Hermite in (s', a'); 0 at q*."""
        return (
            q(states, actions)
            - self.gamma * self.next_mean(q, states, actions)
            - self.expected_rewards(states, actions)
        )

    def next_mean(self, q: QFunction, states: Floats, actions: Floats) -> Floats:
        """E[ q(s', a') | s_i, a_i ], a' ~ π(·|s'), by Gauss–Hermite: (n, 1) and (n, 1) to (n,)."""
        points, masses = hermite_rule()
        following = self._drift(states, actions)[:, None] + self.noise * points
        return self._target_mean(q, following) @ masses

    def initial_mean_of(self, q: QFunction) -> float:
        """E q(s_0, a_0), s_0 ~ d_0, a_0 ~ π(·|s_0), by Gauss–Hermite; J* at q*."""
        points, masses = hermite_rule()
        return float(
            self._target_mean(q, self.initial_mean + np.sqrt(self.initial_variance) * points[None])[0] @ masses
        )

    def residual_variances(self, states: Floats, actions: Floats) -> Floats:
        """E[ (q* − γ v*(s') − r)² | x_i ] = `reward_noise`² + γ² Var v*(s'), theory section 10: the mean over a' is taken.

        A row whose a' is drawn has γ² E Var( q*(s', a') | s' ) more.
        """
        drift = self._drift(states, actions)
        square = self.value_sum.squared().smoothed(self.noise**2).at(drift)
        mean = self.next_value_sum.at(drift)
        return np.asarray(self.reward_noise**2 + self.gamma**2 * np.maximum(square - mean**2, 0.0))

    @cached_property
    def reward_range(self) -> tuple[float, float]:
        """[min, max] of r(x_c) ∓ ( ‖∇r(x_c)‖ d + M d² / 2 ) over cells around x_c, and of r outside all cells, ∓ noise.

        A proof, not a sample: d is the half-diagonal of a cell, M = `_reward_curvature`. The cells cover [−R, R]² with R = 6 h +
        the largest center; outside, q* − c_0 lies within Σ|θ_j| e^{−18} of 0, and E v* is bounded on the line.
        """
        edge = 6.0 * self.bandwidth + max(np.abs(self.state_centers).max(), np.abs(self.action_centers).max())
        step = 2.0 * edge / COVER_CELLS
        axis = -edge + step * (np.arange(COVER_CELLS) + 0.5)
        radius = step / np.sqrt(2.0) * (1.0 + SLACK)
        next_low, next_high = self.next_value_sum.range()
        tail, base = np.abs(self.weights).sum() * np.exp(-18.0), (1.0 - self.gamma) * self.constant
        low, high = base - self.gamma * next_high - tail, base - self.gamma * next_low + tail
        for state in axis:  # one column of cells at a time keeps the arrays small
            column = np.full((COVER_CELLS, 1), state)
            rewards = self.expected_rewards(column, axis[:, None])
            half_width = self._reward_slopes(column, axis[:, None]) * radius + self._reward_curvature * radius**2 / 2.0
            low, high = min(low, float(np.min(rewards - half_width))), max(high, float(np.max(rewards + half_width)))
        margin = self.reward_noise + SLACK * (1.0 + abs(self.constant) + np.abs(self.weights).sum())
        return float(low - margin), float(high + margin)

    @property
    def target(self) -> GaussianPolicy:
        """π(a|s) ∝ exp(−(a − κ s)² / (2 target_temperature)), as `make_problem` wants it."""
        return self._policy(self.target_temperature)

    @property
    def behavior(self) -> GaussianPolicy:
        """β(a|s) ∝ exp(−(a − κ s)² / (2 behavior_temperature))."""
        return self._policy(self.behavior_temperature)

    def mixture(self, rate: float) -> MixturePolicy:
        """α π + (1 − α) β, drawn anew at every step."""
        return MixturePolicy(rate, self.target, self.behavior)

    def starts(self, n: int, rng: np.random.Generator) -> Floats:
        """s_0 ~ d_0, n independent draws: (n, 1)."""
        return np.asarray(self.initial_mean + np.sqrt(self.initial_variance) * rng.standard_normal((n, 1)))

    def step(self, states: Floats, actions: Floats, rng: np.random.Generator) -> tuple[Floats, Floats, Flags]:
        """One draw of rewards (n,), next states (n, 1) and terminations (n,), none, given states and actions (n, 1)."""
        signs = 2.0 * rng.integers(2, size=len(states)) - 1.0
        following = self._drift(states, actions)[:, None] + self.noise * rng.standard_normal((len(states), 1))
        rewards = self.expected_rewards(states, actions) + self.reward_noise * signs
        return rewards, following, np.zeros(len(states), dtype=np.bool_)

    def rollout(
        self,
        n_episodes: int,
        length: int,
        rng: np.random.Generator,
        *,
        behavior: Literal["logging", "target"] | float | Any = "logging",
    ) -> Rollout:
        """(r_i, s'_i) ~ P(· | s_i, a_i), s_0 ~ d_0; a_i from β, π, the mixture of a given rate, or a policy with a density.

        Actions are (n, 1); `behavior_action_probs` holds densities, as everywhere for continuous actions.
        """
        known = {"logging": self.behavior, "target": self.target}
        if isinstance(behavior, str) and behavior not in known:
            raise InvalidInput(f"Unknown behavior {behavior!r}; use one of {sorted(known)}, a rate or a policy.")
        policy = known[behavior] if isinstance(behavior, str) else behavior
        if isinstance(policy, int | float):
            policy = self.mixture(policy)

        def draw(states: Floats, generator: np.random.Generator) -> tuple[Floats, Floats]:
            actions = policy.sample_action(states, generator)
            return actions, policy.action_density(states, actions)

        return simulate_draws(self.starts(n_episodes, rng), length, self.step, draw, rng=rng)

    @property
    def action_box(self) -> tuple[Floats, Floats]:
        """Finite low and high, (1,) each, that no action of π or β from within `state_box` will be seen to leave."""
        high = abs(self.gain) * self.state_box[1] + ACTION_REACH * np.sqrt(self.behavior_temperature)
        return -high, high

    @property
    def state_box(self) -> tuple[Floats, Floats]:
        """Finite low and high, (1,) each, around the states of an episode; generous, not tight."""
        wander = self.noise + abs(self.push) * np.sqrt(self.behavior_temperature)
        start = abs(self.initial_mean) + STATE_REACH * np.sqrt(self.initial_variance)
        high = np.array([start + STATE_REACH * wander / (1.0 - abs(self.contraction))])
        return -high, high

    @property
    def contraction(self) -> float:
        """ρ + b κ: E[s'|s] = (ρ + b κ) s under every policy of this world."""
        return self.reversion + self.push * self.gain

    @cached_property
    def value_sum(self) -> GaussianSum:
        """v* − c_0: the Gaussian integral over a, square completed."""
        square, wide = self.bandwidth**2, self.bandwidth**2 + self.target_temperature
        precision = 1.0 / square + self.gain**2 / wide
        places = (self.state_centers / square + self.gain * self.action_centers / wide) / precision
        rest = self.state_centers**2 / square + self.action_centers**2 / wide - precision * places**2
        heights = self.weights * np.sqrt(square / wide) * np.exp(-rest / 2.0)
        return GaussianSum(freeze(heights), freeze(places), float(precision))

    @cached_property
    def next_value_sum(self) -> GaussianSum:
        """E v*(s') − c_0 as a function of ρ s + b a."""
        return self.value_sum.smoothed(self.noise**2)

    @property
    def _reward_curvature(self) -> float:
        """M = Σ|θ_j| / h² + γ (ρ² + b²) max|(E v*)''| ≥ the second derivative of r in any direction.

        That of a bump is at most its height times its precision.
        """
        onward = (self.reversion**2 + self.push**2) * self.next_value_sum.curvature
        return float(np.abs(self.weights).sum() / self.bandwidth**2 + self.gamma * onward)

    def _reward_slopes(self, states: Floats, actions: Floats) -> Floats:
        """‖∇r(s_i, a_i)‖: (n, 1) and (n, 1) to (n,)."""
        gaussians = self._gaussians(states, actions) * (self.weights / self.bandwidth**2)
        onward = self.gamma * self.next_value_sum.slopes(self._drift(states, actions))
        by_state = np.sum(gaussians * (states - self.state_centers), axis=1) + onward * self.reversion
        by_action = np.sum(gaussians * (actions - self.action_centers), axis=1) + onward * self.push
        return np.asarray(np.hypot(by_state, by_action))

    def _gaussians(self, states: Floats, actions: Floats) -> Floats:
        """exp(−((s_i − z_j)² + (a_i − u_j)²) / (2 h²)): (n, 1) and (n, 1) to (n, J)."""
        squares = (states - self.state_centers) ** 2 + (actions - self.action_centers) ** 2
        return np.asarray(np.exp(-squares / (2.0 * self.bandwidth**2)))

    def _drift(self, states: Floats, actions: Floats) -> Floats:
        """ρ s_i + b a_i: (n,)."""
        return np.asarray(self.reversion * states[:, 0] + self.push * actions[:, 0])

    def _target_mean(self, q: QFunction, states: Floats) -> Floats:
        """∫ π(a|s) q(s, a) da at every entry of `states`, any shape, by Gauss–Hermite."""
        points, masses = hermite_rule()
        flat = states.reshape(-1, 1)
        actions = self.gain * flat + np.sqrt(self.target_temperature) * points
        pairs = np.broadcast_to(flat, actions.shape)
        values = q(pairs.reshape(-1, 1), actions.reshape(-1, 1)).reshape(actions.shape)
        return np.asarray((values @ masses).reshape(states.shape))

    def _policy(self, temperature: float) -> GaussianPolicy:
        return GaussianPolicy(lambda states: self.gain * states[:, :1], float(np.sqrt(temperature)))


def hermite_rule(count: int = HERMITE_NODES) -> tuple[Floats, Floats]:
    """x_k, p_k with Σ_k p_k f(x_k) ≈ E f(ξ), ξ ~ N(0, 1)."""
    points, masses = np.polynomial.hermite_e.hermegauss(count)
    return points, masses / masses.sum()


def _validate(mdp: ContinuousMDP) -> None:
    """Refuse what would make a formula of `ContinuousMDP` false; the message says which."""
    if not 0.0 <= mdp.gamma < 1.0:
        raise InvalidInput(f"`gamma` is {mdp.gamma}: the discounted sum J* needs 0 <= gamma < 1.")
    if not abs(mdp.contraction) <= 0.999:
        raise InvalidInput(
            f"reversion + push * gain is {mdp.contraction}: states settle only if it lies in [-0.999, 0.999]."
        )
    positive = ("bandwidth", "noise", "initial_variance", "offset", "target_temperature", "behavior_temperature")
    for name in positive:
        if not 0.0 < getattr(mdp, name) < np.inf:
            raise InvalidInput(
                f"`{name}` is {getattr(mdp, name)}: it divides in a formula, so it must be > 0 and finite."
            )
    if mdp.reward_noise < 0.0:
        raise InvalidInput(f"`reward_noise` is {mdp.reward_noise}: it is a size, >= 0.")
    shapes = {mdp.state_centers.shape, mdp.action_centers.shape, mdp.weights.shape}
    if len(shapes) != 1 or mdp.weights.ndim != 1 or not mdp.weights.size:
        raise InvalidInput("`state_centers`, `action_centers` and `weights` need one number per bump each, (J,).")
