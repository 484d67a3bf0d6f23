"""q* = (I − γ M)⁻¹ r with M(x, x') = (1 − T(x)) P(s'|x) π(a'|s'): everything is a linear solve.

The oracle of the library: q*, J*, the discounted visitation, the density ratio ω* and the efficiency limit of
theory section 10 are exact here, for any finite problem.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np

from bondic_lab.worlds.rollout import ActionProbs, FiniteWorld, Flags, Floats, freeze, freeze_fields

TOLERANCE = 1e-12  # for sums to 1 and means of 0: rounding of the caller's own arithmetic


@dataclass(frozen=True, eq=False)
class TabularMDP(FiniteWorld):
    """P(s'|s, a), r = R(s, a, s') + ζ, terminated with probability T(s, a); theory (1)–(3).

    S states, A actions. The reward may depend on s' (R of shape (S, A) means it does not); the noise ζ has a
    finite support, mean 0, and is independent of the rest. Termination is independent of s' given (s, a).
    """

    transitions: Floats  # P: (S, A, S)
    rewards: Floats  # R: (S, A, S), or (S, A)
    initial_probs: Floats  # d_0: (S,)
    target: Floats  # π: (S, A)
    behavior: Floats  # β: (S, A)
    gamma: float
    reward_range: tuple[float, float]
    termination: Floats | float = 0.0  # T: (S, A), or one number
    noise_values: Floats = field(default_factory=lambda: np.zeros(1))  # ζ: (M,)
    noise_probs: Floats = field(default_factory=lambda: np.ones(1))  # (M,)

    def __post_init__(self) -> None:
        shape = self.transitions.shape
        rewards = self.rewards if self.rewards.ndim == 3 else self.rewards[:, :, None]
        object.__setattr__(self, "rewards", np.broadcast_to(rewards, shape))
        object.__setattr__(self, "termination", np.broadcast_to(self.termination, shape[:2]))
        freeze_fields(self)
        _validate(self)

    @classmethod
    def random(
        cls,
        rng: np.random.Generator,
        *,
        n_states: int = 6,
        n_actions: int = 3,
        gamma: float = 0.9,
        reward_range: tuple[float, float] = (0.0, 1.0),
        reward_noise: float = 0.0,
        termination: float = 0.0,
    ) -> Self:
        """P, d_0, π ~ Dirichlet(1), R + ζ in the range, ζ = ±`reward_noise`, T ~ U[0, `termination`]."""
        low, high = reward_range
        ones_s, ones_a = np.ones(n_states), np.ones(n_actions)
        # Half uniform: the log visits everything, so that ω* is bounded.
        behavior = 0.5 * rng.dirichlet(ones_a, n_states) + 0.5 / n_actions
        return cls(
            transitions=rng.dirichlet(ones_s, (n_states, n_actions)),
            rewards=rng.uniform(low + reward_noise, high - reward_noise, (n_states, n_actions)),
            initial_probs=rng.dirichlet(ones_s),
            target=rng.dirichlet(ones_a, n_states),
            behavior=behavior,
            gamma=gamma,
            reward_range=reward_range,
            termination=rng.uniform(0.0, termination, (n_states, n_actions)),
            noise_values=np.array([-reward_noise, reward_noise]),
            noise_probs=np.array([0.5, 0.5]),
        )

    @classmethod
    def saturating(cls, *, gamma: float = 0.9, reward_range: tuple[float, float] = (0.0, 1.0)) -> Self:
        """R̂q* = ±B/2 with probability 1/2 each, B = (r_hi − r_lo)/(1 − γ): the most theory (6) allows.

        State 0 jumps to state 1 (r_hi for ever) or to state 2 (r_lo for ever). The jump already pays the
        reward of the state it leads to; a fixed reward would leave ±γB/2. With `rollout(n, 1, rng)` every row
        starts in state 0.
        """
        low, high = reward_range
        transitions = np.zeros((3, 1, 3))
        transitions[0, 0, 1:] = 0.5
        transitions[1, 0, 1] = transitions[2, 0, 2] = 1.0
        rewards = np.broadcast_to(np.array([(low + high) / 2.0, high, low]), (3, 1, 3))
        one = np.ones((3, 1))
        return cls(transitions, rewards, np.array([1.0, 0.0, 0.0]), one, one, gamma, reward_range)

    @cached_property
    def expected_rewards(self) -> Floats:
        """r(s, a) = Σ_{s'} P(s'|s, a) R(s, a, s'): (S, A)."""
        return freeze(np.sum(self.transitions * self.rewards, axis=2))

    @cached_property
    def q_star(self) -> Floats:
        """q* = (I − γ M)⁻¹ r: (S, A), theory (2)."""
        flat = np.linalg.solve(self._bellman_matrix, self.expected_rewards.ravel())
        return freeze(flat.reshape(self._shape))

    @property
    def v_star(self) -> Floats:
        """v*(s) = Σ_a π(a|s) q*(s, a): (S,)."""
        return self._state_values(self.q_star)

    @property
    def value(self) -> float:
        """J* = Σ_s d_0(s) v*(s), theory (3)."""
        return float(self.initial_probs @ self.v_star)

    @property
    def initial_pairs(self) -> Floats:
        """d_{π,0}(s, a) = d_0(s) π(a|s): (S, A)."""
        return self.initial_probs[:, None] * self.target

    @cached_property
    def visitation(self) -> Floats:
        """d_π(s, a) = Σ_t γ^t P_π(s_t = s, a_t = a, not terminated before t): (S, A), theory section 10.

        Its mass is Σ_t γ^t P(not terminated before t), which is 1/(1 − γ) without termination.
        """
        flat = np.linalg.solve(self._bellman_matrix.T, self.initial_pairs.ravel())
        return freeze(flat.reshape(self._shape))

    def density_ratio(self, log_distribution: Floats) -> Floats:
        """ω*(s, a) = d_π(s, a) / d_log(s, a): (S, A); 0 where neither goes, refused where only π goes."""
        uncovered = (log_distribution <= 0.0) & (self.visitation > TOLERANCE)
        if uncovered.any():
            pair = tuple(int(index) for index in np.argwhere(uncovered)[0])
            raise ValueError(f"the log never visits {pair} but the target policy does: ω* does not exist.")
        covered = log_distribution > 0.0
        return np.divide(self.visitation, log_distribution, out=np.zeros(self._shape), where=covered)

    def log_distribution(self, length: int) -> Floats:
        """d_log(s, a) = Σ_{t<length} P_β(s_t = s, a_t = a, alive) / Σ_{t<length} P_β(alive): (S, A)."""
        states, total = self.initial_probs, np.zeros(self._shape)
        for _ in range(length):
            pairs = states[:, None] * self.behavior
            total += pairs
            states = np.einsum("sa,sat->t", (1.0 - self.termination) * pairs, self.transitions)
        return np.asarray(total / total.sum())

    def finite_horizon(self, horizon: int) -> Floats:
        """q*_t = r + γ (1 − T) P π q*_{t+1},  q*_H = 0: (H + 1, S, A), theory section 12; γ = 1 too."""
        table = np.zeros((horizon + 1, *self._shape))
        for time in reversed(range(horizon)):
            table[time] = self.expected_rewards + self._expected_next(self._state_values(table[time + 1]))
        return table

    def finite_value(self, horizon: int) -> float:
        """J*_H = Σ_{s,a} d_0(s) π(a|s) q*_0(s, a) = E Σ_{t<H} γ^t r_t, theory section 12."""
        return float(np.sum(self.initial_pairs * self.finite_horizon(horizon)[0]))

    def expected_residuals(self, q: Floats, q_next: Floats | None = None) -> Floats:
        """Rq(s, a) = q − γ (1 − T) P π q_next − r: (S, A), theory (2); `q_next` is q unless given."""
        following = self._state_values(q if q_next is None else q_next)
        return q - self._expected_next(following) - self.expected_rewards

    @cached_property
    def residual_variances(self) -> Floats:
        """E[ (R̂q*)² | s, a ] = Var(ζ) + Σ_{s'} P ( (1−T) (R + γv* − q*)² + T (R − q*)² ): (S, A)."""
        gain = self.rewards - self.q_star[:, :, None]
        ended = np.asarray(self.termination)[:, :, None]
        square = (1.0 - ended) * (gain + self.gamma * self.v_star) ** 2 + ended * gain**2
        return freeze(np.sum(self.transitions * square, axis=2) + self.noise_probs @ self.noise_values**2)

    def efficient_variance(self, log_distribution: Floats) -> float:
        """V* = Σ_{s,a} d_log ω*² E[(R̂q*)²|s, a]: the length limit is 2 z sqrt(V*/n), theory section 10."""
        ratio = self.density_ratio(log_distribution)
        return float(np.sum(log_distribution * ratio**2 * self.residual_variances))

    @property
    def policies(self) -> tuple[Floats, Floats]:
        return self.behavior, self.target

    def action_probs(self, policy: Floats) -> ActionProbs:
        """A table (S, A) as a function: an observation is the state's index as a float, shape (n, 1)."""
        return lambda states: np.asarray(policy[states[:, 0].astype(np.int64)])

    @property
    def n_actions(self) -> int:
        """A."""
        return self._shape[1]

    @property
    def state_box(self) -> tuple[Floats, Floats]:
        """[0, S − 1], (1,) each: a state is observed as its index."""
        return np.zeros(1), np.full(1, self._shape[0] - 1.0)

    def starts(self, n: int, rng: np.random.Generator) -> Floats:
        return rng.choice(len(self.initial_probs), (n, 1), p=self.initial_probs).astype(np.float64)

    @property
    def _shape(self) -> tuple[int, int]:
        return self.transitions.shape[0], self.transitions.shape[1]

    @cached_property
    def _bellman_matrix(self) -> Floats:
        """I − γ M with M(x, x') = (1 − T(x)) P(s'|x) π(a'|s'): (SA, SA)."""
        alive = 1.0 - np.asarray(self.termination)
        if self.gamma * alive.max() >= 1.0:
            raise ValueError(
                "with gamma = 1 and pairs that never terminate the infinite sum J* need not exist; "
                "use gamma < 1 or `finite_horizon`."
            )
        steps = np.einsum("sa,sat,tb->satb", alive, self.transitions, self.target)
        size = alive.size
        return freeze(np.eye(size) - self.gamma * steps.reshape(size, size))

    def _state_values(self, q: Floats) -> Floats:
        """Σ_a π(a|s) q(s, a): (S, A) to (S,)."""
        return np.asarray(np.sum(self.target * q, axis=1))

    def _expected_next(self, values: Floats) -> Floats:
        """γ (1 − T(s, a)) Σ_{s'} P(s'|s, a) v(s'): (S,) to (S, A)."""
        return np.asarray(self.gamma * (1.0 - self.termination) * (self.transitions @ values))

    def outcomes(self, states: Floats, rng: np.random.Generator) -> tuple[Floats, Floats, Flags]:
        index = states[:, 0].astype(np.int64)
        shape = (len(index), self._shape[1])
        # Inverse distribution function; the last column is left out, so rounding of the sum cannot overrun.
        cumulative = np.cumsum(self.transitions, axis=2)[index, :, :-1]
        following = np.sum(rng.random(shape)[:, :, None] >= cumulative, axis=2)
        noise = self.noise_values[rng.choice(len(self.noise_probs), shape, p=self.noise_probs)]
        rewards = self.rewards[index[:, None], np.arange(shape[1]), following] + noise
        ended = rng.random(shape) < np.asarray(self.termination)[index]
        return rewards, following[:, :, None].astype(np.float64), ended


def _validate(mdp: TabularMDP) -> None:
    """Refuse tables that are no distributions and rewards that leave the range every interval rests on."""
    for name in ("transitions", "initial_probs", "target", "behavior", "noise_probs"):
        probs = getattr(mdp, name)
        if probs.min() < 0.0 or np.abs(probs.sum(axis=-1) - 1.0).max() > TOLERANCE:
            raise ValueError(f"`{name}` must be >= 0 and sum to 1 along its last axis: it is a distribution.")
    ended = np.asarray(mdp.termination)
    if not 0.0 <= mdp.gamma <= 1.0 or ended.min() < 0.0 or ended.max() > 1.0:
        raise ValueError("`gamma` (a discount) and `termination` (a probability) must lie in [0, 1].")
    if abs(mdp.noise_probs @ mdp.noise_values) > TOLERANCE:
        raise ValueError("`noise_values` must have mean 0 under `noise_probs`; move the mean into `rewards`.")
    low, high = mdp.reward_range
    possible = mdp.rewards[mdp.transitions > 0.0]
    reached = possible.min() + mdp.noise_values.min(), possible.max() + mdp.noise_values.max()
    if reached[0] < low or reached[1] > high:
        raise ValueError(
            f"rewards reach {reached}, outside `reward_range` [{low}, {high}], which every bound rests on. "
            "Pass a wider range."
        )
