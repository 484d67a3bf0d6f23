"""Small problems that several test files share."""

from __future__ import annotations

import numpy as np

import bondic
from bondic_lab.worlds.synthetic import SyntheticMDP
from bondic_lab.worlds.tabular import TabularMDP


def as_log(rollout: object) -> bondic.Transitions:
    return bondic.Transitions(**{name: getattr(rollout, name) for name in rollout.__dataclass_fields__})


COLUMNS = ("observations", "actions", "rewards", "next_observations", "terminations", "truncations", "episode_ids",
           "timesteps", "behavior_action_probs")  # fmt: skip


def part(
    log: object, keep: object = slice(None), *, drop: tuple[str, ...] = (), **changed: object
) -> bondic.Transitions:
    """Some rows of a log or rollout, without the columns in `drop`, and with others in place of some."""
    found = {name: getattr(log, name) for name in COLUMNS if name not in drop}
    columns = {name: column[keep] for name, column in found.items() if column is not None}
    return bondic.Transitions(**{**columns, **changed})


def synthetic(rows: int = 400, seed: int = 0, gamma: float = 0.8, **more: object):
    """(MDP, log, policy, initial states) of the continuous-state problem with known q*."""
    mdp = SyntheticMDP.default(gamma, seed=1, **more)
    log = as_log(mdp.rollout(max(1, rows // 20), min(rows, 20), np.random.default_rng(seed)))
    return (
        mdp,
        log,
        bondic.CallablePolicy(mdp.target_probs),
        bondic.InitialStates.exact(mdp.initial_states, mdp.initial_probs),
    )


def tabular(rows: int = 400, seed: int = 0, gamma: float = 0.8, **more: object):
    """(MDP, log, policy, initial states) of a random tabular problem."""
    mdp = TabularMDP.random(np.random.default_rng(11), gamma=gamma, **more)
    log = as_log(mdp.rollout(max(1, rows // 20), min(rows, 20), np.random.default_rng(seed)))
    states = np.arange(mdp.initial_probs.size, dtype=float)[:, None]
    return mdp, log, bondic.TablePolicy(mdp.target), bondic.InitialStates.exact(states, mdp.initial_probs)


def continuous(rows: int = 200, seed: int = 0):
    """(log, policy, initial states) with one-dimensional continuous actions."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(rows, 2))
    actions = rng.normal(size=(rows, 1))
    following = 0.7 * states + 0.2 * actions + 0.1 * rng.normal(size=(rows, 2))
    rewards = np.tanh(states[:, 0] - 0.3 * actions[:, 0] ** 2)
    log = bondic.Transitions(states, actions, rewards, following, rng.random(rows) < 0.05)
    policy = bondic.GaussianPolicy(lambda s: 0.4 * s[:, :1], 0.2)
    return log, policy, bondic.InitialStates.exact(rng.normal(size=(6, 2)))


LAKE_TABLE = np.tile([0.2, 0.8], (6, 1))
LAKE_POLICY = bondic.TablePolicy(LAKE_TABLE)
LAKE_START = bondic.InitialStates.exact([[2.0]])
LAKE_GAMMA = 0.95


def lake(episodes: int = 150, seed: int = 0, limit: int = 40, slip: float = 0.2) -> dict[str, np.ndarray]:
    """Columns of a frozen lake on a line: place 5 pays 1 and ends, place 0 ends, a step goes the other way with `slip`."""
    rng = np.random.default_rng(seed)
    rows = []
    for episode in range(episodes):
        place = 2
        for time in range(limit):
            action = int(rng.random() < 0.6)
            following = place + (1 if action == (rng.random() >= slip) else -1)
            over = following in (0, 5)
            cut = time == limit - 1 and not over
            rows.append((place, action, following == 5, following, over, cut, episode, time, (0.4, 0.6)[action]))
            if over:
                break
            place = following
    place, action, reward, following, over, cut, episode, time, prob = map(np.array, zip(*rows, strict=True))
    return {
        "observations": place[:, None].astype(float),
        "actions": action,
        "rewards": reward.astype(float),
        "next_observations": following[:, None].astype(float),
        "terminations": over,
        "truncations": cut,
        "episode_ids": episode,
        "timesteps": time,
        "behavior_action_probs": prob,
    }


def lake_problem(data: dict[str, np.ndarray] | None = None, **statements: object) -> bondic.Rows:
    """Walk to the right with probability 0.8; gamma = 0.95 and rewards in [0, 1] unless stated otherwise."""
    log = bondic.Transitions(**(lake() if data is None else data))
    terms = {"gamma": LAKE_GAMMA, "reward_range": (0, 1)} | statements
    return bondic.make_problem(log, LAKE_POLICY, LAKE_START, **terms)
