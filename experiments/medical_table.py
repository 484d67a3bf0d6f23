"""A medical table of 700 states: the interval of bondic beside two bootstraps that are called 90 %.

    python experiments/medical_table.py [--seeds 20] [--stays 4000] [--jobs 1]

*WIS* is weighted (self-normalized) importance sampling with the true probabilities, *FQE* fitted Q evaluation on the table, where
a pair that no row shows has value 0. Both resample stays and take percentiles. Counted: the true value outside the interval, of
bondic over the stays that it certifies, of the others over all admissions.
"""

from __future__ import annotations

import argparse
import sys
from functools import cache
from multiprocessing import get_context
from pathlib import Path

if not __package__:  # run as a script: this folder must not be searched, or numba takes coverage.py for another one
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
from experiments.defaults_cells import at_starts, truth_about

import bondic
from bondic_lab.worlds.medical import ACTIONS, GAMMA, STATES, MedicalTable

NEAR, COMMON, BEST = "near the doctors", "best common treatment", "best treatment"
ALPHA, REPLICATES, SWEEPS = 0.1, 100, 150


@cache
def world() -> MedicalTable:
    return MedicalTable.make()


def policy(name: str):
    doctors = world().doctors
    if name == NEAR:
        return doctors**2 / (doctors**2).sum(axis=1, keepdims=True)
    return world().best(0.2 if name == COMMON else 0.0)


def percentiles(values):
    return tuple(np.quantile(values, [ALPHA / 2, 1 - ALPHA / 2]))


def wis(log, table, rng):
    """Σ w G / Σ w over resampled stays."""
    stay, state = log.episode_ids, log.observations[:, 0].astype(int)
    ratios = np.ones(stay.max() + 1)
    np.multiply.at(ratios, stay, table[state, log.actions] / log.behavior_action_probs)
    gains = np.bincount(stay, log.rewards * GAMMA**log.timesteps)
    counts = rng.multinomial(len(ratios), np.full(len(ratios), 1 / len(ratios)), size=1000)
    weights = counts @ ratios
    return percentiles(np.divide(counts @ (ratios * gains), weights, out=np.zeros(len(weights)), where=weights > 0))


def fqe(log, table, rng):
    """q = mean of r + γ v(s') over the rows of a pair, swept to its fixed point."""
    state, stays = log.observations[:, 0].astype(int), log.episode_ids.max() + 1
    pair, after = state * ACTIONS + log.actions, log.next_observations[:, 0].astype(int)
    found = []
    for _ in range(REPLICATES):
        weight = rng.multinomial(stays, np.full(stays, 1 / stays))[log.episode_ids].astype(float)
        total = np.bincount(pair, weight, STATES * ACTIONS)
        scale, alive = np.divide(1.0, total, out=np.zeros(len(total)), where=total > 0), ~log.terminations
        values = np.zeros(STATES)
        for _ in range(SWEEPS):
            target = weight * (log.rewards + GAMMA * alive * values[after])
            values = (table * (np.bincount(pair, target, len(total)) * scale).reshape(STATES, ACTIONS)).sum(axis=1)
        found.append(values[world().starts].mean())
    return percentiles(found)


def ours(log, table, _):
    """The ends, and what they are about."""
    result = bondic.evaluate_policy(
        log, bondic.TablePolicy(table), gamma=GAMMA, reward_range=(0, 1), value_range=(0, 1)
    )
    ends = (np.nan, np.nan) if result.status.name == "REJECTED" else result.interval  # counted as a miss
    return *ends, truth_about(result, at_starts(log, world().values(table)))


METHODS = {"bondic": ours, "WIS, bootstrap": wis, "FQE, bootstrap": fqe}


def trial(task):
    name, stays, seed = task
    table, log = policy(name), world().log(stays, seed)
    rng = np.random.default_rng([seed, 1])
    return {words: method(log, table, rng) for words, method in METHODS.items()}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--stays", type=int, default=4000)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    print("| policy | true value | method | misses | median interval |\n|---|---:|---|---:|---|", flush=True)
    missed = 0
    for name in (NEAR, COMMON, BEST):
        truth = world().values(policy(name))[world().starts].mean()
        tasks = [(name, given.stays, seed) for seed in range(given.seeds)]
        with get_context("spawn").Pool(given.jobs) as pool:
            answers = pool.map(trial, tasks, chunksize=1)
        for words in METHODS:
            ends = np.array([answer[words] for answer in answers])
            truths = ends[:, 2] if words == "bondic" else truth
            misses = int(np.sum(~((ends[:, 0] <= truths) & (truths <= ends[:, 1]))))
            missed += misses if words == "bondic" else 0
            low, high = np.nanmedian(ends[:, :2], axis=0)
            print(
                f"| {name} | {truth:.3f} | {words} | {misses} of {given.seeds} | [{low:.3f}, {high:.3f}] |", flush=True
            )
    return int(missed > 0.3 * given.seeds)


if __name__ == "__main__":
    sys.exit(main())
