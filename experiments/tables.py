"""Tables: how long the interval is, beside the efficiency limit.

Garnet worlds (P ~ Dirichlet(.15), Bernoulli rewards, uniform behavior, restarts every 50 rows) have exact values and an exact
limit, 2 z sqrt(V*/n). Gymnasium's toy tables and a sepsis-like table of 700 states and 25 actions have exact values.

    python experiments/tables.py [--seeds 5] [--first-seed 0] [--only REGEX] [--page out/table-lengths.md]
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path[0] = str(Path(__file__).resolve().parents[1])  # not this folder: its coverage.py is no library

import bondic  # noqa: E402

Z = 1.6448536269514722
PAGE = """# Lengths on tables

States that are names: nothing is assumed. `Table` is the bound on cells. Medians over logs, α = .1.
"limit" is 2 z (V*/n)^½, below which no
regular interval can be, even for large logs. Garnet worlds are random tables with coin-flip rewards; many logs of Gymnasium's
tables and of the sepsis-like one (700 states × 25 actions) have fewer rows than planned, as episodes end early. Seconds are those
of a machine with two busy cores.

```bash
python experiments/tables.py --seeds 3 --first-seed 10 --page out/table-lengths.md
```

"""


@dataclass(frozen=True)
class FiniteWorld:
    """P (S, A, S), terminal probability mass left out of it; mean rewards; a target policy; starts."""

    name: str
    gamma: float
    transition: np.ndarray
    reward: np.ndarray  # (S, A) mean
    noise: bool  # rewards are coin flips with this mean
    policy: np.ndarray  # (S, A)
    behavior: np.ndarray  # (S, A)
    start: np.ndarray  # (S,)
    reward_range: tuple[float, float]
    rows: tuple[int, ...]
    value_range: tuple[float, float] | None = None
    restart: int = 50

    @property
    def values(self):
        """V and q of the policy."""
        step = np.einsum("sa,sat->st", self.policy, self.transition)
        value = np.linalg.solve(np.eye(len(step)) - self.gamma * step, (self.policy * self.reward).sum(axis=1))
        return value, self.reward + self.gamma * self.transition @ value

    def log(self, rows, seed):
        rng, (states, actions) = np.random.default_rng(seed), self.reward.shape
        chains = -(-rows // self.restart)
        ahead = np.concatenate([self.transition, 1 - self.transition.sum(axis=2, keepdims=True)], axis=2).cumsum(axis=2)
        behavior = self.behavior.cumsum(axis=1)
        here, columns = rng.choice(states, size=chains, p=self.start), []
        alive = np.ones(chains, dtype=bool)
        for step in range(self.restart):
            action = np.minimum((behavior[here] < rng.uniform(size=chains)[:, None]).sum(axis=1), actions - 1)
            after = np.minimum((ahead[here, action] < rng.uniform(size=chains)[:, None]).sum(axis=1), states)
            mean = self.reward[here, action]
            reward = (rng.uniform(size=chains) < mean).astype(float) if self.noise else mean
            ended = after == states
            columns.append(
                (
                    np.arange(chains),
                    np.full(chains, step),
                    here,
                    action,
                    reward,
                    np.where(ended, here, after),
                    ended,
                    alive,
                )
            )
            alive, here = alive & ~ended, np.where(ended, here, after)
        episode, step, state, action, reward, after, ended, kept = (
            np.stack(c, axis=1).ravel() for c in zip(*columns, strict=True)
        )
        keep = np.flatnonzero(kept)[:rows]
        last = np.append(episode[keep][1:] != episode[keep][:-1], True)
        return bondic.Transitions(
            observations=state[keep, None].astype(float), actions=action[keep], rewards=reward[keep],
            next_observations=after[keep, None].astype(float), terminations=ended[keep], truncations=last & ~ended[keep],
            episode_ids=episode[keep], timesteps=step[keep],
        )  # fmt: skip

    def problem(self, rows, seed):
        known = np.flatnonzero(self.start > 0)
        starts = bondic.InitialStates.exact(known[:, None].astype(float), weights=self.start[known])
        policy = bondic.CallablePolicy(lambda states: self.policy[states[:, 0].astype(int)])
        ends = bool((self.transition.sum(axis=2) < 1 - 1e-9).any())
        return bondic.make_problem(
            self.log(rows, seed), policy, starts, gamma=self.gamma, reward_range=self.reward_range, may_terminate=ends,
            value_range=self.value_range,
        )  # fmt: skip

    def limit(self, log):
        """2 z sqrt(V*/n)."""
        value, q = self.values
        step = np.einsum("sa,sat->st", self.policy, self.transition)
        visits = np.linalg.solve(np.eye(len(step)) - self.gamma * step.T, self.start)[:, None] * self.policy
        count = np.zeros(self.reward.shape)
        np.add.at(count, (log.observations[:, 0].astype(int), log.actions), 1)
        chance = self.reward * (1 - self.reward) if self.noise else 0.0
        spread = chance + self.gamma**2 * (self.transition @ value**2) - (q - self.reward) ** 2
        share = np.where(visits > 0, visits**2 / np.maximum(count, 1e-9), 0.0)
        return 2 * Z * float(np.sqrt(max((share * spread).sum(), 0.0)))


def garnet(states, actions, gamma, rows):
    rng = np.random.default_rng(7)
    transition = rng.dirichlet(np.full(states, 0.15), size=(states, actions))
    reward, policy = rng.uniform(size=(states, actions)) ** 2, rng.dirichlet(np.full(actions, 0.5), size=states)
    uniform = np.full((states, actions), 1 / actions)
    name = f"garnet, {states} states × {actions} actions"
    return FiniteWorld(
        name, gamma, transition, reward, True, policy, uniform, np.full(states, 1 / states), (0.0, 1.0), rows
    )


def sepsis_like(states=700, actions=25):
    """Each action leads to a few states near the present one; each step pays by its state; the policy is a sharpened behavior."""
    rng = np.random.default_rng(11)
    transition = np.zeros((states, actions, states))
    for s in range(states):
        near = np.clip(s + rng.integers(-30, 31, size=(actions, 4)), 0, states - 1)
        shares = rng.dirichlet(np.ones(4), size=actions) * 0.92
        for a in range(actions):
            np.add.at(transition[s, a], near[a], shares[a])
    reward = 0.08 * np.linspace(0.2, 0.95, states)[:, None] * rng.uniform(0.9, 1.0, size=(states, actions))
    behavior = rng.dirichlet(np.full(actions, 0.3), size=states)
    policy = behavior**2 / (behavior**2).sum(axis=1, keepdims=True)
    start = np.zeros(states)
    start[:: states // 20] = 1.0
    return FiniteWorld(
        "sepsis-like", 0.99, transition, reward, False, policy, behavior, start / start.sum(), (0.0, 0.08), (50_000, 500_000),
        None, 30,
    )  # fmt: skip


def gym_table(name, rows, gamma=0.9, **options):
    import gymnasium

    env = gymnasium.make(name, **options).unwrapped
    states, actions = env.observation_space.n, env.action_space.n
    transition, reward = np.zeros((states, actions, states)), np.zeros((states, actions))
    for s in range(states):
        for a in range(actions):
            for chance, after, pay, ended in env.P[s][a]:
                reward[s, a] += chance * pay
                if not ended:
                    transition[s, a, after] += chance
    best = np.zeros((states, actions))
    value = np.zeros(states)
    for _ in range(2000):
        best = reward + gamma * transition @ value
        value = best.max(axis=1)
    greedy = np.eye(actions)[best.argmax(axis=1)]
    policy = 0.9 * greedy + 0.1 / actions
    behavior = 0.6 * greedy + 0.4 / actions
    start = np.asarray(env.initial_state_distrib, dtype=float)
    ends = (float(reward.min()), float(reward.max())) if name != "FrozenLake-v1" else (0.0, 1.0)
    return FiniteWorld(
        name, gamma, transition, reward, name == "FrozenLake-v1", policy, behavior, start, ends, rows, None, 100
    )


def worlds():
    return [
        garnet(8, 2, 0.9, (4_000, 20_000, 100_000)),
        garnet(50, 4, 0.95, (100_000, 300_000, 1_000_000)),
        sepsis_like(),
        gym_table("FrozenLake-v1", (20_000, 100_000)),
        gym_table("CliffWalking-v1", (20_000, 100_000)),
        gym_table("Taxi-v4", (100_000, 300_000)),
    ]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--page", default="")
    given = parser.parse_args()
    lines = [
        "| world | rows | logs | misses | Table | range | Table / limit | seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    missed = runs = 0
    for world in (w for w in worlds() if re.search(given.only, w.name)):
        truth = float(world.start @ world.values[0])
        for rows in world.rows:
            found, limits, times, misses = [], [], [], 0
            for seed in range(given.first_seed, given.first_seed + given.seeds):
                problem = world.problem(rows, seed)
                began = time.perf_counter()
                result = bondic.estimate_interval(problem, alpha=0.1, method=bondic.Table())
                times.append(time.perf_counter() - began)
                found.append(result.high - result.low)
                misses += not result.low <= truth <= result.high
                limits.append(world.limit(problem.log))
            length, seconds = float(np.median(found)), float(np.median(times))
            limit, width = float(np.median(limits)), result.value_range.width
            ratio = (
                f"{length / limit:.2f}" if 1e-6 * width < limit <= length else "–"
            )  # above it where pairs of the policy were never logged
            missed, runs = missed + misses, runs + given.seeds
            row = [
                f"{world.name}, γ {world.gamma:g}",
                rows,
                given.seeds,
                misses,
                f"{length:.3g}",
            ]
            row += [f"{width:.3g}", ratio, f"{seconds:.1f}"]
            lines.append(f"| {' | '.join(str(cell) for cell in row)} |")
            print(lines[-1], flush=True)
    print(f"{missed} misses of {runs}")
    if given.page:
        Path(given.page).write_text(PAGE + "\n".join(lines) + f"\n\n{missed} misses of {runs} at alpha = .1.\n")
    return int(missed > 0.1 * runs + 3)


if __name__ == "__main__":
    raise SystemExit(main())
