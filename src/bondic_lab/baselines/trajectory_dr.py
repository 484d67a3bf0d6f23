"""Doubly robust estimation over trajectories (Jiang and Li 2016; Thomas and Brunskill 2016).

x_e = E_0[v_0] + sum_{t<T} gamma^t rho_{0:t} ( r_t + gamma v_{t+1}(s_{t+1}) - q_t(s_t, a_t) ),   v_t(s) = sum_a pi(a|s) q_t(s, a)

Unbiased for the T-step value whatever q_0, ..., q_{T-1} are (fitted on other episodes; q_T = 0 unless nothing is
missing), because each correction pairs rho_{0:t} q_t(s_t, a_t) with rho_{0:t-1} v_t(s_t), of equal mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.assumptions import start_assumption
from bondic.core.claims import ErrorBudget
from bondic.core.kernels.base import Kernel
from bondic.rows import Rows
from bondic.rows.episodes import episode_numbers
from bondic_lab.baselines import outcome as out
from bondic_lab.baselines.features import Design, make_design, start_error
from bondic_lab.baselines.fqe import fit_q, fit_steps
from bondic_lab.baselines.intervals import need_units, student_around
from bondic_lab.baselines.lstd import restrict
from bondic_lab.baselines.starts import starts_are_episodes
from bondic_lab.baselines.trajectories import OverTrajectories, Trajectories
from bondic_lab.baselines.units import fold_numbers

FloatArray = npt.NDArray[np.float64]


def control_variates(paths: Trajectories, design: Design, ridge: float) -> FloatArray:
    """theta of q_0, ..., q_T, (T + 1, D): q_t is the value of steps t to T - 1, so that q_T = 0.

    The estimate is of T steps: the value of all later ones would leave gamma^(T-1) rho (r - q) in the last correction.
    When nothing is missing all q_t are the same, the value of everything that follows.
    """
    if paths.complete:
        return np.broadcast_to(fit_q(design, ridge=ridge), (paths.steps + 1, design.dimension))
    return fit_steps(design, ridge=ridge, steps=paths.steps)[::-1]


def corrections(paths: Trajectories, design: Design, thetas: FloatArray) -> FloatArray:
    """sum_t gamma^t rho_{0:t} ( r_t + gamma v_{t+1}(s_{t+1}) - q_t(s_t, a_t) ) per episode, (E,); thetas (T + 1, D)."""
    differences = np.zeros(paths.rows.shape)
    for t in range(paths.steps):
        inside = np.flatnonzero(paths.rows[:, t] >= 0)
        rows = paths.rows[inside, t]
        q, v = design.logged[rows] @ thetas[t], design.following[rows] @ thetas[t + 1]
        differences[inside, t] = design.rewards[rows] + design.gamma * v - q
    return np.asarray((paths.weights * paths.discounts * differences).sum(axis=1))


@dataclass(frozen=True)
class DoublyRobust(OverTrajectories, name="dr", words="doubly robust over trajectories, Student t"):
    """`dr`: importance sampling with a fitted q as control variate, and a Student t interval. Asymptotic.

    q_t comes from fitted Q evaluation on the other folds of episodes, T - t regressions deep. Start values
    use the initial distribution of the problem, of which the episodes' first states must be draws.
    """

    kernel: Kernel | None = None
    rank: int = 100
    ridge: float | None = None  # in rows
    folds: int = 2
    seed: int = 0

    def path_ends(self, problem: Rows, paths: Trajectories, budget: ErrorBudget, watch: out.Stopwatch) -> out.Outcome:
        episodes = episode_numbers(problem)
        design = make_design(problem, self.kernel, rank=self.rank)
        ridge = design.ridge(self.ridge)
        fold = fold_numbers(np.arange(paths.count), self.folds, self.seed)
        own = starts_are_episodes(problem)  # then start and correction of an episode belong together
        values, mean_theta = np.zeros(paths.count), np.zeros(design.dimension)
        for k in range(self.folds):
            thetas = control_variates(paths, restrict(design, fold[episodes] != k), ridge)
            mine = fold == k
            values[mine] = (design.starts @ thetas[0])[mine] if own else design.start @ thetas[0]
            values[mine] += corrections(paths, design, thetas)[mine]
            mean_theta += mine.mean() * thetas[0]
            watch((k + 1) / self.folds)
        estimate = float(values.mean())
        need_units(values.size, 2, "A Student t interval")
        # starts that are not the episodes' own add their variance
        apart = 0.0 if own else start_error(problem, design, mean_theta)
        error = math.hypot(float(values.std(ddof=1)) / math.sqrt(values.size), apart)
        return out.Outcome(
            *student_around(estimate, error, values.size, budget),
            estimate,
            (start_assumption(problem), out.COVERED, out.ASYMPTOTIC),
            choices={"features": design.words, "folds": str(self.folds), **paths.notes()},
            seeds={"folds": self.seed},
        )
