"""What starts cost that are only a sample: an exact list, a sample, and the log's own as a list or as a sample.

    python experiments/sampled_starts.py [--only TEXT]

For every log: ends, the start's part of the longer end, and Hoeffding's term B sqrt(log(2/delta_0)/(2 n_0)) beside it. Where the
part is far above Hoeffding's term the lemma for starts is broken; where starts are all equal it is B log(1/delta_0)/n_0.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: this folder must not be searched, or numba takes coverage.py for another one
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
import numpy.typing as npt
from experiments.defaults_cells import Trial
from experiments.defaults_problems_gym import gym_log, pole_cell, table_cell

import bondic

FloatArray = npt.NDArray[np.float64]
ALPHA, START_SHARE = 0.1, 0.1
TORQUES = np.array([-2.0, 0.0, 2.0])


def swing(states: FloatArray) -> Any:
    """Pendulum: the torque that adds energy below, that damps near the top."""
    cosine, sine, speed = np.atleast_2d(states).T
    top = cosine > 0.9
    torque = np.where(top, -8 * np.arctan2(sine, cosine) - 2 * speed, 2 * np.sign(speed))
    return np.abs(np.clip(torque, -2, 2)[:, None] - TORQUES).argmin(axis=1)


def pendulum(rows: int, rng: np.random.Generator) -> Trial:
    """Three torques; behavior: half the controller, half random."""
    chosen: list[int] = []

    def act(state: FloatArray) -> FloatArray:
        chosen.append(int(swing(state)[0]) if rng.random() < 0.5 else int(rng.integers(3)))
        return TORQUES[[chosen[-1]]].astype(np.float32)

    log = gym_log("Pendulum-v1", act, rows, int(rng.integers(2**31)))
    numbered = bondic.Transitions(
        log.observations, np.array(chosen), log.rewards, log.next_observations, log.terminations,
        truncations=log.truncations, episode_ids=log.episode_ids, timesteps=log.timesteps,
    )  # fmt: skip
    policy = bondic.DeterministicPolicy(swing, n_actions=3)
    return Trial(numbered, policy, 0.95, (-16.2736044, 0.0), math.nan, statements={"may_terminate": False})


def pole(rows: int, rng: np.random.Generator) -> Trial:
    return pole_cell("standing", rows, rng)


LOGS: dict[str, tuple[Callable[[np.random.Generator], Trial], int]] = {
    "CartPole-v1, gamma 0.99, 60 000 rows": (partial(pole, 60_000), 5000),
    "Pendulum-v1, gamma 0.95, 20 000 rows": (partial(pendulum, 20_000), 2000),
    "CliffWalking, gamma 0.9, 20 000 rows": (partial(table_cell, "CliffWalking"), 1000),
    "FrozenLake, gamma 0.95, 20 000 rows": (partial(table_cell, "FrozenLake"), 1000),
}


def more_starts(name: str, trial: Trial, count: int, rng: np.random.Generator) -> FloatArray:
    """Starts that stand in no row of the log."""
    if name.startswith("CartPole"):
        return rng.uniform(-0.05, 0.05, (count, 4)).astype(np.float32).astype(np.float64)
    if name.startswith("Pendulum"):
        angle, speed = rng.uniform(-np.pi, np.pi, count), rng.uniform(-1, 1, count)
        return np.column_stack([np.cos(angle), np.sin(angle), speed]).astype(np.float32).astype(np.float64)
    return np.repeat(bondic.InitialStates.from_log(trial.log).observations[:1], count, axis=0)


def lines(name: str) -> list[str]:
    make, count = LOGS[name]
    rng = np.random.default_rng(0)
    trial = make(rng)
    given = more_starts(name, trial, count, rng)
    kinds = {
        "exact list": bondic.InitialStates.exact(given),
        "sample": bondic.InitialStates.sample(given),
        "this log's": bondic.InitialStates.from_log(trial.log),
        "this log's, of a population": bondic.InitialStates.from_log(trial.log, population="iid"),
    }
    out = []
    for kind, initial in kinds.items():
        began = time.perf_counter()
        found = bondic.evaluate_policy(
            trial.log, trial.policy, gamma=trial.gamma, reward_range=trial.reward_range, alpha=ALPHA, initial=initial,
            **trial.statements,
        )  # fmt: skip
        width, starts = found.value_range.width, len(initial)
        part = max((sides.get("initial distribution", 0.0) for sides in found.terms().values()), default=0.0)
        plain = (
            0.0 if initial.kind != "sample" else width * math.sqrt(math.log(2 / (START_SHARE * ALPHA)) / (2 * starts))
        )
        out.append(
            f"| {name} | {kind} | {starts} | [{found.low:.4g}, {found.high:.4g}] | {part:.3g} | {plain:.3g} | {width:.4g} "
            f"| {time.perf_counter() - began:.0f} |"
        )
        print(out[-1], flush=True)
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT")
    given = parser.parse_args()
    print(
        "| log | starts | n_0 | interval | start's part | Hoeffding | value range | seconds |\n|---|---|---|---|---|---|---|---|"
    )
    for name in LOGS:
        if given.only in name:
            lines(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
