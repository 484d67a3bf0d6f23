"""Episodes of a problem as padded matrices: rewards, ratios pi/beta, and the range of what was not recorded.

All episodes are cut after the same number of steps T, so that each is either complete before T or has T rows. Then
the trajectory estimators are unbiased for the T-step value, and J* = J_T + tail with tail in [tail_low, tail_high].
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bondic.core.claims import Assumption, ErrorBudget
from bondic.core.errors import InvalidInput
from bondic.core.terms import Terms, ValueRange, discounted_steps, range_of, value_range
from bondic.data.episodes import Episodes
from bondic.rendering import counted
from bondic.rows import Rows
from bondic.rows.episodes import check_steps, episode_numbers, own_starts
from bondic_lab.baselines import outcome as out
from bondic_lab.baselines.base import Baseline
from bondic_lab.baselines.behavior import Behavior, behavior_ratios
from bondic_lab.baselines.starts import check_starts

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_FEW = 20


@dataclass(frozen=True, eq=False)
class Trajectories:
    """E episodes of at most T steps; entries after an episode's end have row -1, reward 0 and ratio 1."""

    terms: Terms
    rows: IntArray  # (E, T) position in the problem
    rewards: FloatArray  # (E, T)
    ratios: FloatArray  # (E, T) pi(a|s) / beta(a|s)
    discounts: FloatArray  # (T,) gamma^t
    returns: ValueRange  # of the T-step return; of any return when T is not fixed
    step_rewards: tuple[float, float]  # range of one step's reward, 0 after the end included
    total_discount: float  # 1 + gamma + ... + gamma^(T-1); 1 / (1 - gamma) when T is not fixed
    tail: ValueRange  # of the value of steps T, T + 1, ...
    complete: bool  # no episode was cut: nothing is missing
    fixed: bool  # T was not read off complete episodes: no episode that might have occurred is longer
    estimated_behavior: bool
    own_starts: bool  # no other initial states were stated than those of the log's episodes
    numbered: bool  # the log has timesteps, and they are 0, 1, ... in every episode
    few_cuts: str = ""  # how few early cut episodes set T for all, in words
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
        """The middle of the tail's range: with it a T-step estimate is one of J*, off by half that range at most."""
        return 0.5 * (self.tail.low + self.tail.high)

    def range_of(self, steps: BoolArray) -> ValueRange:
        """What the steps marked in (T,) may be worth. When T is only the longest length seen, the last one goes on.

        All steps from some time on are a return less its tail, which a stated value range bounds too.
        """
        size = float(self.discounts[steps].sum())
        if not self.fixed and steps[-1]:
            size += self.total_discount - float(self.discounts.sum())
        found = ValueRange(size * self.step_rewards[0], size * self.step_rewards[1])
        first = int(np.argmax(steps))
        if self.terms.value_range is None or not steps[first:].all():
            return found
        later = _tail(self.terms, first)
        return found.within((later.low - self.tail.high, later.high - self.tail.low))

    def effective_episodes(self) -> float:
        """(sum of weights)^2 / sum of squared weights, 0 without any weight."""
        rho = self.weights[:, -1]
        return float(rho.sum() ** 2 / np.sum(rho**2)) if rho.any() else 0.0

    def notes(self) -> dict[str, str]:
        """Entries of a result's choices."""
        found = {"episodes": self._worth()}
        if self.few_cuts:
            found["cut episodes"] = (
                f"{self.few_cuts}. If recording stopped there for reasons that have nothing to do with these episodes, leave "
                "them out of the log, or record them to the end; steps= states a T of your own, up to which all must last."
            )
        return found

    def _worth(self) -> str:
        text = f"{self.count} episodes of at most {counted(self.steps, 'step')}; later steps are worth "
        if self.tail.width == 0:
            return text + f"{self.tail.low:.6g}"
        return text + (
            f"between {self.tail.low:.6g} and {self.tail.high:.6g}, of which the estimate takes the middle, {self.tail_guess:.6g}"
        )


@dataclass(frozen=True, kw_only=True)
class OverTrajectories(Baseline, needs=("episode_ids", "behavior_action_probs")):
    """A method that weighs whole episodes by products of pi/beta, over the first `steps` steps (default: all recorded).

    `behavior="estimated"` replaces missing behavior probabilities by a fit: no guarantee.
    """

    steps: int | None = None
    behavior: Behavior = "logged"

    @abstractmethod
    def path_ends(self, problem: Rows, paths: Trajectories, budget: ErrorBudget, watch: out.Stopwatch) -> out.Outcome:
        """Ends of the T-step value; assumptions are those beyond the ones on episodes and behavior."""

    def ends(self, problem: Rows, budget: ErrorBudget, watch: out.Stopwatch) -> out.Outcome:
        paths = trajectories(problem, steps=self.steps, behavior=self.behavior)
        found = self.path_ends(problem, paths, budget, watch)
        return replace(
            found,
            low=found.low + paths.tail.low,
            high=found.high + paths.tail.high,
            estimate=found.estimate + paths.tail_guess,
            guarantee="none" if paths.estimated_behavior else found.guarantee,
            assumptions=(*_assumptions(paths), *found.assumptions),
        )


def _assumptions(paths: Trajectories) -> tuple[Assumption, ...]:
    behavior = out.ESTIMATED_BEHAVIOR if paths.estimated_behavior else out.EXACT_BEHAVIOR
    whole = "Every episode was recorded to its own end: none was left out or cut because it was long."
    # "does not depend on what happens" would be too little: which episodes were cut enters the choice of T
    cut = f"Every episode would have been recorded up to step {paths.steps}, had it lasted that long."
    if paths.few_cuts:
        cut = f"{cut} {paths.few_cuts}."
    recording = out.stated("recording", whole if paths.complete else cut)
    seen = "their timesteps are 0, 1, ..." if paths.numbered else "each starts where the one before it led to"
    steps = out.stated("steps", f"The rows of an episode are all its steps, from 0 on ({seen}).")
    found = [out.EPISODES, behavior, recording, steps]
    if not paths.own_starts:
        found.append(out.OWN_STARTS)
    if paths.length_stated:
        most = counted(paths.steps, "step")
        text = f"No episode lasts longer than {most}, neither under the behavior nor under the policy."
        found.append(out.stated("length", text))
    return tuple(found)


def trajectories(problem: Rows, *, steps: int | None = None, behavior: Behavior = "logged") -> Trajectories:
    """Cut the log into episodes, ask the policy at the logged states, and bound what was not recorded."""
    episodes = episode_numbers(problem)
    order = np.argsort(episodes, kind="stable")
    lengths = np.bincount(episodes)
    position = np.arange(order.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    check_steps(problem, Episodes(episodes))
    check_starts(problem, order[position == 0])
    # an episode is complete when its last row has no next point: it terminated, or reached the horizon
    last = order[np.cumsum(lengths) - 1]
    complete = ~problem.whole().continues[last]
    horizon = problem.terms.horizon
    limit, recorded_all = _cut_after(lengths, complete, steps, horizon)
    fixed = not recorded_all or steps is not None or horizon is not None
    keep = position < limit
    table = np.full((lengths.size, limit), -1, dtype=np.int64)
    table[episodes[order][keep], position[keep]] = order[keep]
    ratios, estimated = behavior_ratios(problem, behavior)
    inside = table >= 0
    terms = problem.terms
    low, high = terms.reward_range
    if terms.may_terminate:
        low, high = min(low, 0.0), max(high, 0.0)
    tail = ValueRange(0.0, 0.0) if recorded_all else _tail(terms, limit)
    return Trajectories(
        terms=terms,
        rows=table,
        rewards=np.where(inside, problem.whole().rewards[table], 0.0),
        ratios=np.where(inside, ratios[table], 1.0),
        discounts=np.asarray(problem.gamma ** np.arange(limit), dtype=np.float64),
        returns=_returns(terms, limit if fixed else None, tail),
        step_rewards=(low, high),
        total_discount=discounted_steps(terms.gamma, limit if fixed else None).upper,
        tail=tail,
        complete=recorded_all,
        fixed=fixed,
        estimated_behavior=estimated,
        own_starts=own_starts(problem),
        numbered=problem.log.has_timesteps,
        few_cuts=_few_cuts(lengths, complete) if steps is None and not recorded_all else "",
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


def _few_cuts(lengths: IntArray, complete: BoolArray) -> str:
    """Whether T would be longer by a tenth without one episode in twenty (or one in all): in words, else ""."""
    cut = np.sort(lengths[~complete])
    few = max(1, lengths.size // _FEW)
    if few >= lengths.size:
        return ""
    longer = int(cut[few]) if few < cut.size else int(lengths[complete].max())
    if longer <= 1.1 * cut[0]:
        return ""
    early = int((cut < longer).sum())
    which, them = ("1 episode was", "it") if early == 1 else (f"{early} episodes were", "them")
    return f"T is {int(cut[0])} because {which} cut early, out of {lengths.size}; without {them} T would be {longer}"


def _returns(terms: Terms, steps: int | None, tail: ValueRange) -> ValueRange:
    """Where the T-step return lies: what T rewards can be worth, within what the stated value range leaves.

    The whole return G lies in the range in force, and the T-step one is G less a tail, so in [v_lo - t_hi, v_hi - t_lo].
    """
    some = value_range(terms.gamma, terms.reward_range, may_terminate=terms.may_terminate, horizon=steps)
    if terms.value_range is None:
        return some
    whole = range_of(terms)
    return some.within((_outward(whole.low - tail.high, -1.0), _outward(whole.high - tail.low, 1.0)))


def _tail(terms: Terms, steps: int) -> ValueRange:
    """gamma^T times the values of a state reached after T steps; 0 too when the process may have ended."""
    later = range_of(terms, steps)
    low, high = (min(later.low, 0.0), max(later.high, 0.0)) if terms.may_terminate else (later.low, later.high)
    size = terms.gamma**steps
    return ValueRange(_outward(low * size, -1.0), _outward(high * size, 1.0))


def _outward(value: float, direction: float) -> float:
    return value + direction * 1e-12 * abs(value)
