"""Worlds and trained policies that ship with the library, and very short logs."""

from __future__ import annotations

from functools import partial

import numpy as np
from experiments.defaults_cells import Cell, Recorder, Trial, draw_actions

import bondic
from bondic_lab.worlds.continuous import ContinuousMDP
from bondic_lab.worlds.shipped import ENVIRONMENTS, ground_truth, shipped_policy
from bondic_lab.worlds.synthetic import SyntheticMDP
from bondic_lab.worlds.tabular import TabularMDP

STARTS = 500


def shipped_cell(name: str, stage: str, rows: int, rng: np.random.Generator) -> Trial:
    """Behavior: the same network at temperature 1; d_0: a sample whose size was fixed."""
    world = ENVIRONMENTS[name]()
    behavior, truth = shipped_policy(name, stage, 1.0), ground_truth(name, stage)
    recorder = Recorder(world.starts, world.horizon)

    def act(states: np.ndarray, _: float, r: np.random.Generator) -> np.ndarray:
        below = np.cumsum(behavior.action_probs(states), axis=1)[:, :-1]
        return np.sum(r.random(len(states))[:, None] >= below, axis=1)

    return Trial(
        recorder.log(act, world.step, rows=rows, streams=10, rng=rng),
        shipped_policy(name, stage),
        world.gamma,
        world.reward_range,
        truth.value,
        error=4.0 * truth.standard_error + truth.truncation_bias,
        initial=bondic.InitialStates.sample(world.starts(STARTS, rng)),
        statements={"may_terminate": world.may_terminate},
    )


def table_world(gamma: float) -> TabularMDP:
    """Six states, three actions, a reward of 0.2 to 0.8 with a fair noise of 0.2."""
    return TabularMDP.random(np.random.default_rng(4), gamma=gamma, reward_noise=0.2)


def table_world_cell(gamma: float, rows: int, rng: np.random.Generator) -> Trial:
    world = table_world(gamma)
    recorder = Recorder(world.starts, 20)
    log = recorder.log(
        lambda states, _, r: draw_actions(world.behavior, states, r), world.step, rows=rows, streams=2, rng=rng
    )
    return Trial(
        log,
        bondic.TablePolicy(world.target),
        gamma,
        world.reward_range,
        world.value,
        initial=bondic.InitialStates.exact(np.arange(6.0)[:, None], world.initial_probs),
    )


def line_world_cell(gamma: float, rows: int, rng: np.random.Generator) -> Trial:
    """q* is a sum of eight Gaussian bumps on the line, for two actions."""
    world = SyntheticMDP.default(gamma, reward_noise=0.1)
    recorder = Recorder(world.starts, 20)

    def act(states: np.ndarray, _: float, r: np.random.Generator) -> np.ndarray:
        return (r.random(len(states)) >= world.behavior_probs(states)[:, 0]).astype(np.int64)

    return Trial(
        recorder.log(act, world.step, rows=rows, streams=2, rng=rng),
        bondic.CallablePolicy(world.target_probs),
        gamma,
        world.reward_range,
        world.value,
        initial=bondic.InitialStates.exact(world.initial_states, world.initial_probs),
    )


def plane_world_cell(gamma: float, rows: int, rng: np.random.Generator) -> Trial:
    """q* is a sum of eight Gaussian bumps on the plane of states and continuous actions; nothing ever ends."""
    world = ContinuousMDP.default(gamma, reward_noise=0.1)
    recorder = Recorder(world.starts, 20)
    return Trial(
        recorder.log(
            lambda states, _, r: world.behavior.sample_action(states, r), world.step, rows=rows, streams=2, rng=rng
        ),
        world.target,
        gamma,
        world.reward_range,
        world.value,
        initial=bondic.InitialStates.sample(world.starts(STARTS, rng)),
    )


def library_cells() -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    for name, stage, rows in (("pendulum", "partly", 1000), ("glucose", "good", 1000)):
        words = (
            f"the library's {name}, its policy “{stage}”, behavior at temperature 1, {rows} rows; value by 100 000 episodes, "
            "4 standard errors are granted"
        )
        cells[f"{name}, {stage}"] = Cell(words, partial(shipped_cell, name, stage, rows))
    for rows in (20, 50, 100):
        words = f"six states, three actions, noisy rewards, γ = 0.9, {rows} rows; linear solve"
        cells[f"six states, {rows}"] = Cell(words, partial(table_world_cell, 0.9, rows))
    for rows in (20, 50, 100):
        words = f"a line with two actions where q* is a sum of Gaussian bumps, γ = 0.9, {rows} rows; closed form"
        cells[f"bumps, {rows}"] = Cell(words, partial(line_world_cell, 0.9, rows))
    return cells
