"""Episodes of a problem as padded matrices: rewards, ratios pi/beta, and the range of what was not recorded.

All episodes are cut after the same number of steps T, so that each is either complete before T or has T rows. Then
the trajectory estimators are unbiased for the T-step value, and J* = J_T + tail with tail in [tail_low, tail_high].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bondic.baselines.behavior import estimate_behavior
from bondic.concentration.value_range import ValueRange, discounted_steps, value_range
from bondic.errors import InvalidInput
from bondic.policies.logged import logged_action_probs
from bondic.problem import Problem, Source

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Behavior = Literal["logged", "estimated"]


def source_of(problem: Problem) -> Source:
    if problem.source is None:
        raise InvalidInput(
            "This problem was rebuilt without its log and policy, which trajectory methods need: build it with make_problem."
        )
    return problem.source


def episode_numbers(problem: Problem) -> IntArray:
    """(n,) 0, 1, ... in order of first appearance; episodes that `select` cut in two are refused."""
    log = source_of(problem).log
    if log.episode_ids is None:
        raise InvalidInput(
            "This method treats episodes as independent units, and the log has no `episode_ids`. Pass them to Transitions, "
            "or use a method for single rows, such as Dual()."
        )
    ids = np.asarray(log.episode_ids)
    inside = np.zeros(len(log), dtype=bool)
    inside[problem.rows.start : problem.rows.stop] = True
    split = np.flatnonzero(inside & np.isin(ids, ids[~inside]))
    if split.size:
        raise InvalidInput(
            f"The episode of row {int(split[0])} lies partly outside the selected {problem.rows}. Select whole episodes: a "
            "weight needs all actions from the first one on, and a return all rewards."
        )
    _, first, inverse = np.unique(ids[problem.log_rows], return_index=True, return_inverse=True)
    order = np.empty(first.size, dtype=np.int64)
    order[np.argsort(first)] = np.arange(first.size)
    return order[inverse.reshape(-1)]


@dataclass(frozen=True, eq=False)
class Trajectories:
    """E episodes of at most T steps; entries after an episode's end have row -1, reward 0 and ratio 1."""

    rows: IntArray  # (E, T) position in the problem
    rewards: FloatArray  # (E, T)
    ratios: FloatArray  # (E, T) pi(a|s) / beta(a|s)
    discounts: FloatArray  # (T,) gamma^t
    returns: ValueRange  # of the T-step return; of any return when T is not fixed
    step_rewards: tuple[float, float]  # range of one step's reward, 0 after the end included
    reach: float  # 1 + gamma + ... + gamma^(T-1); 1 / (1 - gamma) when T is not fixed
    tail: ValueRange  # of the value of steps T, T + 1, ...
    complete: bool  # no episode was cut: nothing is missing
    fixed: bool  # T was not read off complete episodes: no episode that might have occurred is longer
    estimated_behavior: bool
    length_stated: bool = False  # nothing is missing only because steps= says that no episode is longer

    @property
    def count(self) -> int:
        return int(self.rows.shape[0])

    @property
    def steps(self) -> int:
        return int(self.rows.shape[1])

    @property
    def weights(self) -> FloatArray:
        """rho_{0:t}: products of ratios up to and including step t, (E, T)."""
        with np.errstate(over="ignore"):
            products = np.cumprod(self.ratios, axis=1)
        if not np.all(np.isfinite(products)):
            raise InvalidInput(
                "Products of ratios overflow: the policies differ too much over so many steps; pass steps= (--with steps=N)."
            )
        return np.asarray(products)

    @property
    def tail_guess(self) -> float:
        """The smallest tail: what a T-step estimate stands for when nothing is known about later steps."""
        return float(np.clip(0.0, self.tail.low, self.tail.high))

    def note(self) -> str:
        return (
            f"{self.count} episodes of at most {self.steps} steps; later steps are worth between {self.tail.low:.6g} and "
            f"{self.tail.high:.6g}"
        )


def trajectories(problem: Problem, *, steps: int | None = None, behavior: Behavior = "logged") -> Trajectories:
    """Cut the log into episodes, ask the policy at the logged states, and bound what was not recorded."""
    episodes = episode_numbers(problem)
    order = np.argsort(episodes, kind="stable")
    lengths = np.bincount(episodes)
    position = np.arange(order.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    _check_steps(problem, order, position)
    _check_starts(problem, order[position == 0])
    # an episode is complete when its last row has no next point: it terminated, or reached the horizon
    last = order[np.cumsum(lengths) - 1]
    complete = ~problem.continues[last]
    horizon = problem.terms.horizon
    limit, recorded_all = _cut_after(lengths, complete, steps, horizon)
    fixed = not recorded_all or steps is not None or horizon is not None
    keep = position < limit
    table = np.full((lengths.size, limit), -1, dtype=np.int64)
    table[episodes[order][keep], position[keep]] = order[keep]
    ratios, estimated = _ratios(problem, behavior)
    inside = table >= 0
    terms = problem.terms
    low, high = terms.reward_range
    if terms.may_terminate:
        low, high = min(low, 0.0), max(high, 0.0)
    return Trajectories(
        rows=table,
        rewards=np.where(inside, problem.rewards[table], 0.0),
        ratios=np.where(inside, ratios[table], 1.0),
        discounts=np.asarray(problem.gamma ** np.arange(limit), dtype=np.float64),
        returns=value_range(
            terms.gamma, terms.reward_range, may_terminate=terms.may_terminate, horizon=limit if fixed else None
        ),
        step_rewards=(low, high),
        reach=discounted_steps(terms.gamma, limit if fixed else None).upper,
        tail=ValueRange(0.0, 0.0) if recorded_all else _tail(problem, limit),
        complete=recorded_all,
        fixed=fixed,
        estimated_behavior=estimated,
        length_stated=recorded_all and steps is not None and (horizon is None or limit < horizon),
    )


def _cut_after(lengths: IntArray, complete: BoolArray, steps: int | None, horizon: int | None) -> tuple[int, bool]:
    """T, and whether nothing is missing after it: all steps when every episode is complete, else the shortest cut one."""
    if steps is not None:
        if int(steps) != steps or steps < 1:
            raise InvalidInput(f"steps={steps!r}; a whole number >= 1 is needed.")
        steps = int(steps) if horizon is None else min(int(steps), horizon)
        short = ~complete & (lengths < steps)
        if short.any():
            raise InvalidInput(
                f"steps={steps}, but {int(short.sum())} episodes were cut earlier, the first after "
                f"{int(lengths[short][0])} steps: their later weights are unknown. Pass at most {int(lengths[~complete].min())}."
            )
        return steps, bool(complete.all() and lengths.max() <= steps)
    if complete.all():
        return int(lengths.max()) if horizon is None else horizon, True
    return int(lengths[~complete].min()), False


def _tail(problem: Problem, steps: int) -> ValueRange:
    """gamma^T times the values of a state reached after T steps; 0 too when the process may have ended."""
    terms = problem.terms
    later = value_range(
        terms.gamma, terms.reward_range, may_terminate=terms.may_terminate, horizon=terms.horizon, time=steps
    )
    low, high = (min(later.low, 0.0), max(later.high, 0.0)) if terms.may_terminate else (later.low, later.high)
    size = terms.gamma**steps
    return ValueRange(_outward(low * size, -1.0), _outward(high * size, 1.0))


def _outward(value: float, direction: float) -> float:
    return value + direction * 1e-12 * abs(value)


def _check_steps(problem: Problem, order: IntArray, position: IntArray) -> None:
    """Row t of an episode must be its step t: a gap would leave a ratio out of the product."""
    times = source_of(problem).log.timesteps
    if times is None:
        return
    wrong = np.flatnonzero(times[problem.log_rows[order]] != position)
    if wrong.size:
        row = int(problem.log_rows[order[wrong[0]]])
        raise InvalidInput(
            f"Row {row} is row {int(position[wrong[0]])} of its episode but carries timestep {int(times[row])}: rows are "
            "missing. A trajectory's weight is the product over all its steps from 0 on."
        )


def _check_starts(problem: Problem, first: IntArray) -> None:
    """Weighted returns are values of the episodes' own starts, so these must be draws of the stated d_0."""
    if problem.initial_states.kind == "sample":
        return
    listed = {row.tobytes() for row in problem.initial_states.observations + 0.0}
    observed = source_of(problem).log.observations[problem.log_rows[first]] + 0.0
    strange = [k for k, row in enumerate(observed) if row.tobytes() not in listed]
    if strange:
        row = int(problem.log_rows[first[strange[0]]])
        raise InvalidInput(
            f"The episode of row {row} starts at {observed[strange[0]]}, which is not in the exact list of initial states. "
            "Trajectory methods estimate the value from the episodes' own starts: pass InitialStates.from_log(log), or use "
            "a method that starts elsewhere, such as Dual()."
        )


def starts_are_episodes(problem: Problem) -> bool:
    """Whether initial state j is the first state of episode j, as InitialStates.from_log makes them."""
    states = problem.initial_states
    if problem.source is None or problem.source.log.episode_ids is None or states.kind == "exact":
        return False
    numbers = episode_numbers(problem)
    _, first = np.unique(numbers, return_index=True)
    own = source_of(problem).log.observations[problem.log_rows[first]]
    return bool(own.shape == states.observations.shape and np.array_equal(own, states.observations))


def _ratios(problem: Problem, behavior: Behavior) -> tuple[FloatArray, bool]:
    source, rows = source_of(problem), problem.log_rows
    log = source.log
    if behavior not in ("logged", "estimated"):
        raise InvalidInput(f"behavior={behavior!r}; choose 'logged' or 'estimated'.")
    if behavior == "logged" and log.behavior_action_probs is None:
        raise InvalidInput(
            "Importance weights need `behavior_action_probs`, the probability with which each logged action was taken, and "
            "the log has none. Pass them to Transitions, ask for an estimate with behavior='estimated' (--with "
            "behavior=estimated; no guarantee), or use Dual(), which does not need them."
        )
    observations: Any = log.observations[rows]
    target = logged_action_probs(
        source.policy, observations, log.actions[rows], problem.times, slots=problem.layout.slots, log_rows=rows
    )
    if behavior == "logged":
        assert log.behavior_action_probs is not None
        return np.asarray(target / log.behavior_action_probs[rows]), False
    if not problem.layout.discrete:
        raise InvalidInput("Behaviour can be estimated for discrete actions only; pass `behavior_action_probs`.")
    return np.asarray(target / estimate_behavior(observations, log.actions[rows], problem.layout.slots)), True
