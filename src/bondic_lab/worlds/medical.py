"""A medical table: 700 states of severity, 25 treatments, reward 1 for who leaves the ward alive. Values are exact.

From (s, a) one of four states near s follows; each step ends the stay with probability 0.08, alive with a probability that rises
with s. q* is the fixed point of q(s, a) = 0.08 alive(s) + γ 0.92 Σ_k shares(s, a, k) v(next(s, a, k)), v = Σ_a π q.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import bondic

FloatArray = npt.NDArray[np.float64]
STATES, ACTIONS, NEIGHBORS, ENDS, GAMMA = 700, 25, 4, 0.08, 0.99
LAST = 400
"""0.92 to this power is below 1e-14: nobody stays longer."""


@dataclass(frozen=True, eq=False)
class MedicalTable:
    """`MedicalTable.make()` is always the same world. Doctors prefer a few treatments in every state."""

    following: npt.NDArray[np.int64]  # (S, A, K) states that may follow
    shares: FloatArray  # (S, A, K) their probabilities, if the stay goes on
    alive: FloatArray  # (S,) probability of being alive at the end
    doctors: FloatArray  # (S, A) probabilities of treatments
    starts: npt.NDArray[np.int64]  # (20,) states of admission, equally likely

    @staticmethod
    def make() -> MedicalTable:
        rng = np.random.default_rng(11)
        reach = rng.integers(-30, 31, size=(STATES, ACTIONS, NEIGHBORS))
        following = np.clip(np.arange(STATES)[:, None, None] + reach, 0, STATES - 1)
        shares = rng.dirichlet(np.ones(NEIGHBORS), size=(STATES, ACTIONS))
        doctors = rng.dirichlet(np.full(ACTIONS, 0.3), size=STATES)
        return MedicalTable(
            following, shares, np.linspace(0.2, 0.95, STATES), doctors, np.arange(0, STATES, STATES // 20)
        )

    def backup(self, values: FloatArray) -> FloatArray:
        """q(s, a) from v, (S, A)."""
        later = np.sum(self.shares * values[self.following], axis=2)
        return np.asarray(ENDS * self.alive[:, None] + GAMMA * (1 - ENDS) * later)

    def values(self, policy: FloatArray) -> FloatArray:
        """V of every state, (S,)."""
        values = np.zeros(STATES)
        for _ in range(LAST):
            values = np.sum(policy * self.backup(values), axis=1)
        return values

    def best(self, least: float = 0.0) -> FloatArray:
        """The best policy among treatments that doctors give with at least this probability, as a table of 0 and 1."""
        values, allowed = np.zeros(STATES), self.doctors >= min(least, float(self.doctors.max(axis=1).min()))
        for _ in range(LAST):
            q = np.where(allowed, self.backup(values), -1.0)
            values = q.max(axis=1)
        return np.asarray(np.eye(ACTIONS)[q.argmax(axis=1)])

    def log(self, stays: int, seed: int) -> bondic.Transitions:
        """Complete stays under the doctors, with the probabilities of their choices."""
        rng, rows = np.random.default_rng(seed), []
        people, step = np.arange(stays), 0
        state = rng.choice(self.starts, stays)
        below, shares = self.doctors.cumsum(axis=1), self.shares.cumsum(axis=2)
        while len(people):
            action = np.minimum((below[state] < rng.random(len(people))[:, None]).sum(axis=1), ACTIONS - 1)
            which = np.minimum((shares[state, action] < rng.random(len(people))[:, None]).sum(axis=1), NEIGHBORS - 1)
            ended, lives = rng.random(len(people)) < ENDS, rng.random(len(people)) < self.alive[state]
            after = self.following[state, action, which]
            rows.append((people, np.full(len(people), step), state, action, ended & lives, after, ended))
            people, state, step = people[~ended], after[~ended], step + 1
        columns = [np.concatenate(part) for part in zip(*rows, strict=True)]
        order = np.lexsort((columns[1], columns[0]))  # stay by stay
        people, steps, state, action, reward, after, ended = (column[order] for column in columns)
        return bondic.Transitions(
            state[:, None].astype(float), action, reward.astype(float), after[:, None].astype(float), ended,
            episode_ids=people, timesteps=steps, behavior_action_probs=self.doctors[state, action],
        )  # fmt: skip
