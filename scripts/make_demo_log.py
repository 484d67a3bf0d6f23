"""Makes src/bondic/demo_log.npz: a wearing machine, operators who run or maintain it. Prints the true value."""

from pathlib import Path

import numpy as np

from bondic_lab.worlds.tabular import TabularMDP

LEVELS = 6
EARNINGS = [1.0, 0.95, 0.85, 0.7, 0.4, 0.05]  # per step of running, by wear
MAINTENANCE = 0.25
EPISODES, LENGTH, SEED = 1000, 50, 20210503


def machine() -> TabularMDP:
    """Running wears the machine with probability 1/2; maintenance renews it with probability 0.9."""
    transitions, rewards = np.zeros((LEVELS, 2, LEVELS)), np.zeros((LEVELS, 2))
    for level in range(LEVELS):
        transitions[level, 0, level] += 0.5
        transitions[level, 0, min(level + 1, LEVELS - 1)] += 0.5
        transitions[level, 1, 0] += 0.9
        transitions[level, 1, level] += 0.1
        rewards[level] = EARNINGS[level], MAINTENANCE
    target = np.array([[1.0, 0.0]] * 3 + [[0.1, 0.9]] + [[0.0, 1.0]] * 2)
    behavior = np.tile([0.7, 0.3], (LEVELS, 1))
    return TabularMDP(transitions, rewards, np.eye(LEVELS)[0], target, behavior, 0.8, (0.0, 1.0))


def main() -> None:
    mdp = machine()
    log = mdp.rollout(EPISODES, LENGTH, np.random.default_rng(SEED))
    path = Path(__file__).parent.parent / "src" / "bondic" / "demo_log.npz"
    np.savez_compressed(
        path,
        observations=log.observations.astype(np.int8),
        actions=log.actions.astype(np.int8),
        rewards=log.rewards,
        next_observations=log.next_observations.astype(np.int8),
        terminations=log.terminations,
        truncations=log.truncations,
        episode_ids=log.episode_ids.astype(np.int32),
        timesteps=log.timesteps.astype(np.int16),
        policy=mdp.target,
    )
    print(f"{path.name}: {len(log.rewards)} rows, {path.stat().st_size} bytes; true value {mdp.value:.6f}")


if __name__ == "__main__":
    main()
