"""A cell: a question with a known answer, asked of many seeded logs with default settings only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

import bondic

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

EXACT = 1e-9
"""Relative rounding that is granted to a truth computed in closed form or by a linear solve."""


def truth_about(result: bondic.Result, values: float | FloatArray) -> float:
    """The number that an answer is about: `values` itself, or their mean over the decisions (episodes) of the answer.

    `values` has one entry for each row of the log, NaN where no episode begins. Propensities answer for the certified rows, cells
    for all starts of the log.
    """
    own = np.atleast_1d(values)
    return float(np.nanmean(own[slice(*result.rows)] if own.size > 1 and result.method == "propensities" else own))


@dataclass(frozen=True, eq=False)
class Trial:
    """One log, the question, and the true value up to `error`: a miss by less does not count.

    Where no starts are stated, `truth` is the policy's value from each row's own start, see `truth_about`.
    """

    log: bondic.Transitions
    policy: Any
    gamma: float
    reward_range: tuple[float, float]
    truth: float | FloatArray
    error: float = 0.0
    initial: bondic.InitialStates | None = None
    statements: dict[str, Any] = field(default_factory=dict)  # further keywords of evaluate_policy

    @property
    def slack(self) -> float:
        return self.error + EXACT * max(1.0, float(np.nanmax(np.abs(self.truth))))

    def evaluate(self, alpha: float) -> bondic.Result:
        """What a user would type: nothing but the question."""
        return bondic.evaluate_policy(
            self.log,
            self.policy,
            gamma=self.gamma,
            reward_range=self.reward_range,
            alpha=alpha,
            initial=self.initial,
            **self.statements,
        )


@dataclass(frozen=True, eq=False)
class Cell:
    """`make(rng)` draws a log; a cell that is not judged has one log and an estimate in place of the truth."""

    words: str
    make: Callable[[np.random.Generator], Trial]
    value_range: tuple[float, float] | None = None  # known to the user beyond the reward range
    missing: str = ""  # why it cannot be run here: what is not installed
    judged: bool = True

    def trial(self, rng: np.random.Generator) -> Trial:
        trial = self.make(rng)
        if self.value_range is None:
            return trial
        return replace(trial, statements={**trial.statements, "value_range": self.value_range})


def with_value_range(name: str, cell: Cell, known: tuple[float, float]) -> dict[str, Cell]:
    """The cell, and the same cell for a user who also states where values lie."""
    words = f"the same, stating that values lie in [{known[0]:g}, {known[1]:g}]"
    return {name: cell, f"{name}, values known": replace(cell, words=words, value_range=known)}


def one_step_log(contexts: Any, actions: Any, rewards: Any, propensities: Any = None) -> bondic.Transitions:
    """A log of single decisions: every row is an episode that ends at once, and equal rows are different events."""
    rows = len(actions)
    return bondic.Transitions(
        contexts,
        actions,
        rewards,
        contexts,
        np.ones(rows, dtype=bool),
        episode_ids=np.arange(rows),
        timesteps=np.zeros(rows, dtype=np.int64),
        behavior_action_probs=propensities,
    )


@dataclass
class Recorder:
    """Streams that run side by side, restarted where they end; row order is time."""

    starts: Callable[[int, np.random.Generator], FloatArray]  # (n, d) draws of the first state
    longest: int  # rows after which an episode is cut

    def log(
        self,
        act: Callable[[FloatArray, float, np.random.Generator], Any],
        step: Callable[[FloatArray, Any, np.random.Generator], tuple[Any, Any, Any]],
        *,
        rows: int,
        streams: int,
        rng: np.random.Generator,
    ) -> bondic.Transitions:
        """`rows` rows; `act(states, share, rng)` is told which share of the log is behind it."""
        states, ages = self.starts(streams, rng), np.zeros(streams, dtype=np.int64)
        ids, parts, turns = np.arange(streams), [], -(-rows // streams)
        for turn in range(turns):
            actions = act(states, turn / turns, rng)
            rewards, following, ends = step(states, actions, rng)
            cut = ~ends & (ages == self.longest - 1)
            parts.append((states, actions, rewards, following, ends, cut, ids, ages))
            over = ends | cut
            states, ages, ids = following.copy(), ages + 1, ids.copy()
            fresh = int(over.sum())
            if fresh:
                states[over], ages[over] = self.starts(fresh, rng), 0
                ids[over] = ids.max() + 1 + np.arange(fresh)
        columns = [np.concatenate(part)[:rows] for part in zip(*parts, strict=True)]
        return bondic.Transitions(*columns[:6], episode_ids=columns[6], timesteps=columns[7])


@dataclass(frozen=True, eq=False)
class OutcomeTable:
    """K outcomes of every (s, a) with their probabilities: all a finite environment is. Arrays are (S, A, K)."""

    probs: FloatArray
    following: IntArray
    rewards: FloatArray
    ends: npt.NDArray[np.bool_]

    def q_values(self, policy: FloatArray, gamma: float) -> FloatArray:
        """q* of a policy (S, A): v = (I - γ P_π)⁻¹ r_π, then one step back."""
        size, slots, _ = self.probs.shape
        means = np.sum(self.probs * self.rewards, axis=2)
        alive = np.where(self.ends, 0.0, self.probs)
        moves = np.zeros((size, slots, size))
        np.add.at(moves, (np.arange(size)[:, None, None], np.arange(slots)[None, :, None], self.following), alive)
        chain = np.einsum("sa,sat->st", policy, moves)
        values = np.linalg.solve(np.eye(size) - gamma * chain, np.sum(policy * means, axis=1))
        return np.asarray(means + gamma * moves @ values)

    def greedy(self, gamma: float) -> FloatArray:
        """The best policy as a table of 0 and 1, by policy iteration; ties go to the first action."""
        size, slots, _ = self.probs.shape
        policy = np.full((size, slots), 1.0 / slots)
        for _ in range(200):
            q = self.q_values(policy, gamma).round(9)
            better = np.eye(slots)[q.argmax(axis=1)]
            if np.array_equal(better, policy):
                break
            policy = better
        return policy

    def step(self, states: FloatArray, actions: Any, rng: np.random.Generator) -> tuple[Any, Any, Any]:
        """One draw per row; a state is its number, (n, 1)."""
        index = states[:, 0].astype(np.int64)
        below = np.cumsum(self.probs[index, actions], axis=1)[:, :-1]
        outcome = np.sum(rng.random(len(index))[:, None] >= below, axis=1)
        place = (index, actions, outcome)
        return self.rewards[place], self.following[place][:, None].astype(np.float64), self.ends[place]

    def renamed(self, codes: IntArray) -> OutcomeTable:
        """The same table with state s called codes[s]."""
        order = np.argsort(codes)
        return OutcomeTable(self.probs[order], codes[self.following[order]], self.rewards[order], self.ends[order])


def draw_actions(table: FloatArray, states: FloatArray, rng: np.random.Generator) -> IntArray:
    """a ~ table[s]: (n,)."""
    below = np.cumsum(table[states[:, 0].astype(np.int64)], axis=1)[:, :-1]
    return np.asarray(np.sum(rng.random(len(states))[:, None] >= below, axis=1), dtype=np.int64)


def table_trial(
    table: OutcomeTable,
    start: FloatArray,
    *,
    target: FloatArray,
    behavior: Callable[[float], FloatArray],
    gamma: float,
    reward_range: tuple[float, float],
    rows: int,
    longest: int,
    rng: np.random.Generator,
) -> Trial:
    """Whole numbers in one column, as people have them; `start` are the probabilities of the first state, which nobody states."""
    recorder = Recorder(lambda n, r: r.choice(len(start), (n, 1), p=start).astype(np.float64), longest)
    log = recorder.log(
        lambda states, share, r: draw_actions(behavior(share), states, r),
        table.step,
        rows=rows,
        streams=max(1, rows // (5 * longest)),
        rng=rng,
    )
    values = np.sum(target * table.q_values(target, gamma), axis=1)
    return Trial(log, bondic.TablePolicy(target), gamma, reward_range, at_starts(log, values))


def at_starts(log: bondic.Transitions, values: FloatArray) -> FloatArray:
    """Values of states at the first row of every episode, NaN at the others."""
    return np.where(log.timesteps == 0, values[log.observations[:, 0].astype(np.int64)], np.nan)
