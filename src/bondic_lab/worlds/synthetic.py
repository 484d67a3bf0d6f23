"""q*(s, a) = c_0 + Σ_j θ_j g(s, z_j) 1[a = a_j] is given; the reward follows from theory (2).

Usual environments fix the reward and leave q* to simulation. Here q* is fixed, so J*, ‖q*‖ and every expected
residual are finite sums: s' takes finitely many values given (s, a), and there are finitely many actions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy.special import expit, softmax

from bondic_lab.worlds.rollout import ActionProbs, FiniteWorld, Flags, Floats, Integers, freeze, freeze_fields

QFunction = Callable[[Floats, Integers], Floats]
"""States (n, d) and actions (n,) to values (n,)."""

COVER_POINTS = 20_000  # cells of the proved reward bound; more cells only make it tighter
SLACK = 1e-9  # relative; far above the rounding of these sums, far below anything an interval resolves


@dataclass(frozen=True, eq=False)
class SyntheticMDP(FiniteWorld):
    """r(s, a) = q*(s, a) − γ (1 − T(s)) Σ_m p_m v*(ρ s + b_a + ξ_m),  v*(s) = Σ_a π(a|s) q*(s, a).

    g(s, z) = exp(−‖s − z‖² / (2 h²)); π ∝ exp(w_a·s / temperature); the episode ends with probability
    T(s) = κ / (1 + exp(−s_1)). This is theory (2) solved for the reward.
    The logged reward is r(s, a) ± `reward_noise`, each sign with probability 1/2.
    """

    gamma: float
    centers: Floats  # z_j: (J, d)
    center_actions: Integers  # a_j: (J,)
    weights: Floats  # θ_j: (J,)
    constant: float  # c_0
    bandwidth: float  # h
    reversion: float  # ρ
    drifts: Floats  # b_a: (K, d)
    jumps: Floats  # ξ_m: (M, d)
    jump_probs: Floats  # p_m: (M,)
    score_weights: Floats  # w_a: (K, d)
    initial_states: Floats  # (n_0, d)
    initial_probs: Floats  # (n_0,)
    offset: float = 1.0  # of the constant kernel in k̃ = g × Dirac + offset
    target_temperature: float = 0.1
    behavior_temperature: float = 1.0
    reward_noise: float = 0.0
    termination: float = 0.0  # κ

    def __post_init__(self) -> None:
        freeze_fields(self, integers=("center_actions",))
        _validate(self)

    @classmethod
    def default(
        cls,
        gamma: float = 0.95,
        *,
        seed: int = 0,
        dimension: int = 1,
        n_actions: int = 2,
        n_centers: int = 8,
        reward_noise: float = 0.0,
        termination: float = 0.0,
    ) -> Self:
        """θ_j ~ N(0, 1), z_j and 5 initial states uniform in [−1.5, 1.5]^d, ρ = 0.7, ξ = 0 or ±0.25 e_i."""
        rng = np.random.default_rng(seed)
        ladder = np.tile(np.linspace(-1.0, 1.0, n_actions)[:, None], (1, dimension))
        axes = 0.25 * np.eye(dimension)
        return cls(
            gamma=gamma,
            centers=rng.uniform(-1.5, 1.5, (n_centers, dimension)),
            center_actions=np.arange(n_centers) % n_actions,
            weights=rng.standard_normal(n_centers),
            constant=1.0,
            bandwidth=1.0,
            reversion=0.7,
            drifts=0.3 * rng.permuted(ladder, axis=0),
            jumps=np.concatenate([np.zeros((1, dimension)), axes, -axes]),
            jump_probs=np.concatenate([[0.5], np.full(2 * dimension, 0.25 / dimension)]),
            score_weights=rng.permuted(ladder, axis=0),
            initial_states=rng.uniform(-1.5, 1.5, (5, dimension)),
            initial_probs=np.full(5, 0.2),
            reward_noise=reward_noise,
            termination=termination,
        )

    @property
    def n_actions(self) -> int:
        """K."""
        return len(self.drifts)

    @property
    def q_norm(self) -> float:
        """‖q*‖_k̃ = sqrt( θᵀGθ + c_0² / offset ),  G_ij = g(z_i, z_j) 1[a_i = a_j],  k̃ = g × Dirac + offset.

        Exact, not only an upper bound: the Gaussian space on R^d holds no constant but 0.
        """
        gram = self._gaussian(self.centers) * (self.center_actions[:, None] == self.center_actions)
        return float(np.sqrt(self.weights @ gram @ self.weights + self.constant**2 / self.offset))

    @property
    def value(self) -> float:
        """J* = Σ_j p_j Σ_a π(a|s_j) q*(s_j, a), theory (3)."""
        return float(self.initial_probs @ self.state_values(self.initial_states))

    def q_values(self, states: Floats) -> Floats:
        """q*(s_i, a) = c_0 + Σ_j θ_j g(s_i, z_j) 1[a = a_j] for every action: (n, d) to (n, K)."""
        per_action = self.weights[:, None] * (self.center_actions[:, None] == np.arange(self.n_actions))
        return np.asarray(self.constant + self._gaussian(states) @ per_action)

    def q_star(self, states: Floats, actions: Integers) -> Floats:
        """q*(s_i, a_i): (n, d) and (n,) to (n,)."""
        return self.q_values(states)[np.arange(len(actions)), actions]

    def state_values(self, states: Floats) -> Floats:
        """v*(s_i) = Σ_a π(a|s_i) q*(s_i, a): (n, d) to (n,)."""
        return np.asarray(np.sum(self.target_probs(states) * self.q_values(states), axis=1))

    def target_probs(self, states: Floats) -> Floats:
        """π(a|s_i) ∝ exp(w_a·s_i / target_temperature): (n, d) to (n, K)."""
        return np.asarray(softmax(states @ self.score_weights.T / self.target_temperature, axis=1))

    def behavior_probs(self, states: Floats) -> Floats:
        """β(a|s_i) ∝ exp(w_a·s_i / behavior_temperature): (n, d) to (n, K)."""
        return np.asarray(softmax(states @ self.score_weights.T / self.behavior_temperature, axis=1))

    def termination_probs(self, states: Floats) -> Floats:
        """T(s_i) = κ / (1 + exp(−s_i1)): (n, d) to (n,)."""
        return np.asarray(self.termination * expit(states[:, 0]))

    def expected_rewards(self, states: Floats) -> Floats:
        """r(s_i, a) = q*(s_i, a) − γ (1 − T(s_i)) E v*(s') for every action: (n, d) to (n, K)."""
        return self.q_values(states) - self._discounted_next(self.state_values, states)

    def expected_residuals(self, q: QFunction, states: Floats, actions: Integers) -> Floats:
        """Rq(x_i) = E[ q(x) − γ q(x') − r | x = x_i ] for any q, exact, theory (2); 0 for q = q*."""

        def next_value(points: Floats) -> Floats:
            columns = [q(points, np.full(len(points), action)) for action in range(self.n_actions)]
            return np.asarray(np.sum(self.target_probs(points) * np.stack(columns, axis=1), axis=1))

        target = self.expected_rewards(states) + self._discounted_next(next_value, states)
        return q(states, actions) - target[np.arange(len(actions)), actions]

    def residual_variances(self, states: Floats, actions: Integers) -> Floats:
        """E[ (R̂q*)² | x_i ] = `reward_noise`² + γ² Var( v*(s') 1[not terminated] ), theory section 10."""
        alive = 1.0 - self.termination_probs(states)[:, None]
        mean = alive * self._expected_next(self.state_values, states)
        square = alive * self._expected_next(lambda points: self.state_values(points) ** 2, states)
        variances = self.reward_noise**2 + self.gamma**2 * (square - mean**2)
        return variances[np.arange(len(actions)), actions]

    @cached_property
    def state_box(self) -> tuple[Floats, Floats]:
        """[lo, hi] with ρ lo + min(b_a + ξ_m) ≥ lo and ρ hi + max(b_a + ξ_m) ≤ hi: no state ever leaves it.

        lo = min(initial states, min(b + ξ) / (1 − ρ)), hi likewise, both widened to cover rounding.
        """
        kicks = (self.drifts[:, None, :] + self.jumps).reshape(-1, self.drifts.shape[1])
        points = np.concatenate([self.initial_states, kicks / (1.0 - self.reversion)])
        low, high = points.min(axis=0), points.max(axis=0)
        slack = SLACK * (1.0 + np.maximum(np.abs(low), np.abs(high)))
        return freeze(low - slack), freeze(high + slack)

    @property
    def reward_slopes(self) -> Floats:
        """L_a = Lip(q_a) + γ ρ Lip(v) + γ (κ/4) max|v| ≥ the slope of r(·, a) anywhere: (K,).

        Lip(q_a) = Σ_{a_j = a} |θ_j| e^{−1/2} / h, from the steepest slope of g; Lip(v) = max_a Lip(q_a) +
        diam(w) range(q) / (4 temperature), from |Cov_π(w, q)| ≤ range(w) range(q) / 4; κ/4 is the slope of T.
        """
        same = self.center_actions[:, None] == np.arange(self.n_actions)
        q_slopes = np.abs(self.weights) @ same * np.exp(-0.5) / self.bandwidth
        spread = np.linalg.norm(self.score_weights[:, None] - self.score_weights, axis=2).max()
        low, high = self._q_range
        v_slope = q_slopes.max() + spread * (high - low) / (4.0 * self.target_temperature)
        ending = self.termination / 4.0 * max(abs(low), abs(high))
        return np.asarray(q_slopes + self.gamma * (self.reversion * v_slope + ending))

    @cached_property
    def reward_range(self) -> tuple[float, float]:
        """[min, max] over cells and a of r(cell center, a) ∓ L_a · (cell half-diagonal) ∓ `reward_noise`.

        A proof, not a sample: the cells cover the state box and L_a = `reward_slopes` bounds the slope of r.
        """
        points, radius = self._cover()
        rewards, half_width = self.expected_rewards(points), self.reward_slopes * radius
        # Few cells per axis in high dimension: there the plain interval of q − γ (1 − T) v can be tighter.
        q_low, q_high = self._q_range
        survival = np.array([1.0, 1.0 - self.termination])
        low = max(np.min(rewards - half_width), q_low - self.gamma * np.max(survival * q_high))
        high = min(np.max(rewards + half_width), q_high - self.gamma * np.min(survival * q_low))
        margin = self.reward_noise + SLACK * (1.0 + max(abs(q_low), abs(q_high)))
        return float(low - margin), float(high + margin)

    @property
    def policies(self) -> tuple[ActionProbs, ActionProbs]:
        return self.behavior_probs, self.target_probs

    def action_probs(self, policy: ActionProbs) -> ActionProbs:
        return policy

    def starts(self, n: int, rng: np.random.Generator) -> Floats:
        return np.asarray(self.initial_states[rng.choice(len(self.initial_probs), n, p=self.initial_probs)])

    def _gaussian(self, states: Floats) -> Floats:
        """g(s_i, z_j): (n, d) to (n, J)."""
        squares = np.zeros((len(states), len(self.centers)))
        for states_axis, centers_axis in zip(states.T, self.centers.T, strict=True):
            squares += np.subtract.outer(states_axis, centers_axis) ** 2
        return np.asarray(np.exp(-squares / (2.0 * self.bandwidth**2)))

    @property
    def _q_range(self) -> tuple[float, float]:
        """c_0 − max_a Σ_{a_j = a} θ_j⁻ ≤ q* ≤ c_0 + max_a Σ_{a_j = a} θ_j⁺, as 0 ≤ g ≤ 1."""
        same = self.center_actions[:, None] == np.arange(self.n_actions)
        falls, rises = np.maximum(-self.weights, 0.0) @ same, np.maximum(self.weights, 0.0) @ same
        return float(self.constant - falls.max()), float(self.constant + rises.max())

    def _means(self, states: Floats) -> Floats:
        """ρ s_i + b_a: (n, d) to (n, K, d)."""
        return self.reversion * states[:, None, :] + self.drifts

    def _expected_next(self, function: Callable[[Floats], Floats], states: Floats) -> Floats:
        """Σ_m p_m f(ρ s_i + b_a + ξ_m): (n, d) to (n, K)."""
        points = self._means(states)[:, :, None, :] + self.jumps
        values = function(points.reshape(-1, points.shape[3]))
        return np.asarray(values.reshape(points.shape[:3]) @ self.jump_probs)

    def _discounted_next(self, function: Callable[[Floats], Floats], states: Floats) -> Floats:
        """γ (1 − T(s_i)) E[ f(s') | s_i, a ]: (n, d) to (n, K)."""
        alive = 1.0 - self.termination_probs(states)[:, None]
        return self.gamma * alive * self._expected_next(function, states)

    def outcomes(self, states: Floats, rng: np.random.Generator) -> tuple[Floats, Floats, Flags]:
        shape = (len(states), self.n_actions)
        jumps = self.jumps[rng.choice(len(self.jump_probs), shape, p=self.jump_probs)]
        signs = 2.0 * rng.integers(2, size=shape) - 1.0
        ended = rng.random(shape) < self.termination_probs(states)[:, None]
        return self.expected_rewards(states) + self.reward_noise * signs, self._means(states) + jumps, ended

    def _cover(self) -> tuple[Floats, float]:
        """Cell centers of a regular grid on the state box, and the half-diagonal that covers each cell."""
        low, high = self.state_box
        per_axis = max(1, int(COVER_POINTS ** (1.0 / len(low))))
        step = (high - low) / per_axis
        axes = [start + width * (np.arange(per_axis) + 0.5) for start, width in zip(low, step, strict=True)]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
        return grid.reshape(-1, len(low)), float(np.linalg.norm(step)) / 2.0 * (1.0 + SLACK)


def _validate(mdp: SyntheticMDP) -> None:
    """Refuse what would make a formula of `SyntheticMDP` false; the message says which."""
    if not 0.0 <= mdp.gamma < 1.0:
        raise ValueError(f"`gamma` is {mdp.gamma}: the discounted sum J* needs 0 <= gamma < 1.")
    if not 0.0 <= mdp.reversion <= 0.999:
        raise ValueError(f"`reversion` is {mdp.reversion}: the state stays bounded only for 0 <= ρ <= 0.999.")
    if mdp.offset <= 0.0:
        raise ValueError(f"`offset` is {mdp.offset}: c_0 has a finite norm only for an offset > 0.")
    if min(mdp.bandwidth, mdp.target_temperature, mdp.behavior_temperature) <= 0.0:
        raise ValueError("`bandwidth` and both temperatures divide: they must be > 0.")
    if not 0.0 <= mdp.termination <= 1.0 or mdp.reward_noise < 0.0:
        raise ValueError("`termination` (a probability) must be in [0, 1], `reward_noise` >= 0.")
    for name in ("jump_probs", "initial_probs"):
        probs = getattr(mdp, name)
        if probs.min() < 0.0 or abs(probs.sum() - 1.0) > 1e-12:
            raise ValueError(f"`{name}` must be >= 0 and sum to 1, or expectations over it are not means.")
    if not set(mdp.center_actions.tolist()) <= set(range(mdp.n_actions)):
        raise ValueError(f"`center_actions` must lie in 0..{mdp.n_actions - 1}, the rows of `drifts`.")
