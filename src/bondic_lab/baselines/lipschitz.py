"""Lipschitz value iteration for deterministic environments (Tang, Feng, Zhang, Peng and Liu 2020).

u_i <- min( u_i, r_i + gamma sum_a pi(a|s'_i) Q+(s'_i, a) ),   Q+(x) = min( v_hi, min_j u_j + L d(x, x_j) ),

from u = v_hi; the upper end is E_0[Q+]. Every iterate is an upper bound of q*, and the lower end is its mirror image.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from bondic.core.assumptions import start_assumption
from bondic.core.claims import ErrorBudget
from bondic.core.columns import Cloud
from bondic.core.errors import InvalidInput
from bondic.core.terms import range_at_all_times
from bondic.rows import Rows
from bondic_lab.baselines import outcome as out
from bondic_lab.baselines.base import Baseline
from bondic_lab.baselines.features import make_design
from bondic_lab.baselines.lstd import fit_lstd

FloatArray = npt.NDArray[np.float64]

_SLOPE_FACTOR = 2.0
_SLOPE_ROWS = 500


@dataclass(frozen=True)
class Lipschitz(
    Baseline, name="lipschitz", words="Lipschitz value iteration, slope estimated unless stated", guarantee="none"
):
    """`lipschitz`: holds with certainty if rewards and next states are functions of (s, a) and q* has the stated slope.

    `constant` bounds |q*(x) - q*(y)| / |x - y| for points with the same discrete action (all columns count alike:
    scale them beforehand). Left out, it is twice the steepest slope of a fitted q, and nothing is guaranteed.
    Only the first `most_rows` rows are used: any subset gives valid ends.
    """

    constant: float | None = None
    most_rows: int = 1500
    iterations: int = 400

    def budget(self, problem: Rows, alpha: float) -> ErrorBudget:
        """The interval itself never fails; a sampled initial distribution may."""
        events = out.initial_events(problem)
        return ErrorBudget.split(alpha, events) if events else ErrorBudget(alpha, {})

    def ends(self, problem: Rows, budget: ErrorBudget, watch: out.Stopwatch) -> out.Outcome:
        if self.constant is not None and not self.constant >= 0:
            raise InvalidInput(f"constant={self.constant}; a slope >= 0 is needed.")
        if not problem.answers.exact:
            raise InvalidInput(
                "Lipschitz value iteration needs exact means over the policy's actions, not draws of them."
            )
        part = problem
        if len(problem) > self.most_rows:
            part = problem.select(problem.rows.start, int(problem.whole().log_rows[self.most_rows]))
        refuse_randomness(part)
        slope = steepest(part) if self.constant is None else float(self.constant)
        high = upper_end(part, slope, self.iterations, sign=1.0)
        watch(0.5)
        low = upper_end(part, slope, self.iterations, sign=-1.0)
        extra = out.initial_allowance(problem, budget, self.side)
        sure = out.stated(
            "environment", "Reward and next state are functions of (s, a); no logged pair contradicts it."
        )
        smooth = out.stated("slope", f"|q*(x) - q*(y)| <= {slope:.6g} |x - y| for points with the same action.")
        stated = self.constant is not None
        return out.Outcome(
            low - extra,
            high + extra,
            0.5 * (low + high),
            (sure, out.stated_if(stated, smooth), start_assumption(problem)),
            guarantee="finite-sample" if stated else None,
            choices={"rows": str(len(part)), "slope": f"{slope:.6g}" + ("" if stated else ", estimated")},
        )


def refuse_randomness(problem: Rows) -> None:
    """Equal (s, a) with another reward or next state contradict a deterministic environment."""
    rows = problem.whole()
    following = np.zeros((len(problem), problem.layout.observation_dim))
    following[rows.next.rows] = rows.next.points[:, : problem.layout.observation_dim]
    pairs = np.column_stack([rows.logged, rows.slots])
    outcomes = np.column_stack([rows.rewards, rows.continues, following])
    _, first, inverse = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    other = np.flatnonzero((outcomes != outcomes[first[inverse.reshape(-1)]]).any(axis=1))
    if other.size:
        row, twin = int(other[0]), int(first[inverse.reshape(-1)[other[0]]])
        raise InvalidInput(
            f"Rows {int(rows.log_rows[twin])} and {int(rows.log_rows[row])} have equal (s, a) but another reward or "
            "next state: the environment is random, and Lipschitz value iteration is for deterministic ones. Use Dual()."
        )


def upper_end(problem: Rows, slope: float, iterations: int, *, sign: float) -> float:
    """The upper end for sign 1; for sign -1 the lower end, as minus the upper end of the problem with rewards -r."""
    seen = problem.whole()
    # all times: with a finite horizon values of later steps lie outside those of the first one
    limits = range_at_all_times(problem.terms)
    top = limits.high if sign > 0 else -limits.low
    slots = problem.layout.slots
    # equal pairs have equal outcomes: one row of each is enough
    _, kept = np.unique(np.column_stack([seen.logged, seen.slots]), axis=0, return_index=True)
    rewards, logged = sign * seen.rewards[kept], seen.logged[kept]
    members = [np.flatnonzero(seen.slots[kept] == a) for a in range(slots)]
    place = np.full(len(problem), -1)
    place[kept] = np.arange(kept.size)
    ahead = place[seen.next.rows] >= 0
    cloud = Cloud(seen.next.points[ahead], seen.next.weights[ahead], place[seen.next.rows[ahead]])

    def envelope(points: FloatArray) -> list[FloatArray]:
        return [slope * cdist(points, logged[rows]) for rows in members]

    def bound(costs: list[FloatArray], u: FloatArray) -> FloatArray:
        columns = [
            np.minimum(top, (cost + u[rows]).min(axis=1, initial=np.inf))
            for cost, rows in zip(costs, members, strict=True)
        ]
        return np.stack(columns, axis=1)

    u = np.full(kept.size, top)
    following = envelope(cloud.points)
    for _ in range(iterations):
        new = np.minimum(u, rewards + problem.gamma * cloud.per_row(bound(following, u), kept.size))
        done = bool(np.max(u - new) <= 1e-9 * (1.0 + abs(top)))
        u = new
        if done:
            break
    starts = bound(envelope(problem.initial.points), u)
    means = problem.initial.per_row(starts, len(problem.initial_states))
    return sign * float(problem.initial_states.weights @ means)


def steepest(problem: Rows) -> float:
    """Twice the steepest slope of a fitted q between logged points with the same action: an estimate, not a bound."""
    seen = problem.whole()
    design = make_design(problem)
    q = design.logged @ fit_lstd(design, ridge=design.ridge(None)).theta
    largest = 0.0
    for a in range(problem.layout.slots):
        rows = np.flatnonzero(seen.slots == a)[:_SLOPE_ROWS]
        apart = cdist(seen.logged[rows], seen.logged[rows])
        rise = np.abs(q[rows][:, None] - q[rows][None, :])
        largest = max(largest, float(np.divide(rise, apart, out=np.zeros_like(rise), where=apart > 0).max(initial=0.0)))
    return _SLOPE_FACTOR * largest
