"""The dual bound as a method: tune on earlier rows, search ω, certify it, write everything down."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from bondic.core.balls import Ball, Box, Instruments
from bondic.core.claims import End, Side, Status, ends_of
from bondic.core.dual.bound import ALLOWANCE, START, Setting, combine_witnesses, witness_candidates
from bondic.core.dual.noise import NoiseBound
from bondic.core.dual.proof import DualProof
from bondic.core.dual.weighing import ProposedWeights, Weighing
from bondic.core.errors import InvalidInput, refuse
from bondic.core.functions import Function
from bondic.core.proof import Claims, Proof, check_same_plan
from bondic.core.sequential.ends import decided_by_rows
from bondic.core.sums.forms import Sums
from bondic.core.terms import Terms, discounted_steps, range_at_all_times
from bondic.engines.standard import EngineName
from bondic.methods.base import Clock, Progress, check_proof, describe, listing_options, planned_length
from bondic.methods.setting import make_setting
from bondic.methods.user_classes import check_noise_bound, check_stated
from bondic.result import Result
from bondic.robustness import robustness
from bondic.rows import Rows
from bondic.rows.estimand import estimand_of
from bondic.rows.prefix import Prefixes
from bondic.rows.rows import rows_of
from bondic.search.model import Search, SearchModel
from bondic.search.search import Ends, KernelSearch, best_bounds, gap_of, make_search
from bondic.tuning.defaults import Advanced, Choices, Radius
from bondic.tuning.states import PILOT_SHARE

NAME = "dual"
_FIT = "least-squares fit of the Bellman equation to the certified rows"
_LARGER = (2.0, 5.0)
"""Multiples of the radius at which weights are looked for when none are best at the radius itself."""


@listing_options
@dataclass(frozen=True)
class Dual:
    """The dual bound of Feng et al.: min over ω of Ĵ(q̂, ω) + r_Q |μ_ω| + eps |ω|.

    W is picked on pilot rows where it is left out. Q is a box where states are names (nothing is assumed); where they are
    numbers it has to be stated: `ball`, or `radius`.

    Parameters
    ----------
    instruments : Instruments, default None
        W. None: random features, with a bandwidth picked on the pilot rows.
    ball : Ball or Box, default None
        Q, the functions that q* is assumed to be among. None: a box where states are names, else the ball of `radius`.
    gauge : str or NoiseBound, default "half"
        The noise bound: "half", "range", "paper" (constants of (9), from the smallest on), or an object. The laboratory adds
        "fixed-lambda" (what "half" means with a horizon or planned_rows), "finite" (a union bound over the features of W),
        "self-normalized" (depends on the mean square of ω; for features and tables) and "plug-in" (no guarantee).
    side : {"both", "lower", "upper"}, default "both"
        Which ends to compute; the other one is that of the value range.
    radius : float or "paper", default None
        Radius of Q around 0 for the kernel Gaussian on the state (bandwidth: `choices.value_bandwidth` times the median distance)
        × Dirac on actions + 1. "paper": around the middle of the value range, 10 times the norm of a q that is fitted on the
        pilot. Not together with `ball`.
    misspecification : float, default 0
        How far q* may be from Q anywhere, in units of value. It widens the interval.
    pilot : float or int, default 0.2
        Rows set aside for tuning, the first ones: a share below 1, or a number. They are not certified. None are set
        aside where W is given.
    planned_rows : int, default None
        Turns on the form that holds when the log may stop at any time: the number of rows that was planned.
    choices : Choices
        What W, and the kernel of a Q that is stated by its radius, are made of.
    solver : callable, default None
        Another search, such as `ConicSearch()` or `NeuralSearch()` of `bondic_lab`; its ω are tried as well.
    engine : str or Sums, default "auto"
        How sums are computed: a name, or sums with engines and an executor of your own. The interval stays valid with
        any.
    advanced : Advanced
        Options of the search.
    """

    instruments: Instruments | None = None
    ball: Ball | Box | None = None
    gauge: str | NoiseBound = "half"
    side: Side = "both"
    radius: Radius | None = None
    misspecification: float = 0.0
    pilot: float | int = PILOT_SHARE
    planned_rows: int | None = None
    choices: Choices = field(default_factory=Choices)
    solver: Callable[[SearchModel, Setting], list[Function]] | None = None
    engine: EngineName | Sums = "auto"
    advanced: Advanced = field(default_factory=Advanced)
    name: ClassVar[str] = NAME

    def __post_init__(self) -> None:
        if isinstance(self.gauge, NoiseBound):
            check_noise_bound(self.gauge)
        for given in (self.instruments, self.ball, *self.advanced.candidates):
            if given is not None:
                check_stated(given)

    @property
    def rank(self) -> int:
        """Most coordinates of a kernel in the search."""
        return 600 if self.advanced.rank is None else self.advanced.rank

    @property
    def assumes(self) -> Literal["nothing", "stated"]:
        return "nothing" if self.ball is None and self.radius is None else "stated"

    def applies(self, problem: Rows) -> str | None:
        """To any log; where states are numbers, `run` refuses if no class Q is stated."""
        del problem
        return None

    def predicted_length(self, problem: Rows, alpha: float) -> float:
        """(v_hi - v_lo) sqrt(n* / n), at most the range: the noise of weights that balance constants, and no other cost."""
        rows = planned_length(problem, self.planned_rows)
        return range_at_all_times(problem.terms).width * min(math.sqrt(dual_needs(problem.terms, alpha) / rows), 1.0)

    def run(self, problem: Rows, alpha: float, progress: Progress | None) -> Result:
        return _run_dual(self, problem, alpha, progress)

    def replan(self, prefixes: Prefixes, proof: Proof, sums: Sums) -> tuple[Proof, tuple[str, ...]]:
        """The noise bound and Q as the rows before the certified ones give them; W, if it is that one.

        ω may have seen every row. It lives in the space of the stored W, which is compared number by number, not exchanged.
        """
        proof = check_proof(proof, DualProof, NAME)
        problem, first = prefixes.problem, proof.estimand.rows[0]
        known = prefixes.announced(first) if first > problem.rows.start else problem  # else nothing was tuned
        setting, budget, _ = make_setting(replace(self, engine=sums), problem, proof.budget.alpha, known)
        refuse(
            setting.problem.rows.start != first,
            f"Rows from {setting.problem.rows.start} on follow the pilot, not {first}.",
        )
        parts = {"ball": setting.ball, "instruments": setting.instruments, "noise": setting.gauge}
        again = replace(proof, budget=budget, **parts)  # type: ignore[arg-type]
        check_same_plan(proof, again, entrywise=True)
        return replace(again, instruments=proof.instruments), ("instruments",) if self.instruments is None else ()


def _run_dual(method: Dual, problem: Rows, alpha: float, progress: Progress | None) -> Result:
    clock = Clock(progress)
    clock.stage("tuning")
    setting, budget, notes = make_setting(method, problem, alpha)
    clock.done("tuning")
    search = make_search(setting, method.rank, clock.stage("search"))
    clock.done("search")
    clock.stage("test")
    witnesses = search.witnesses(radius=setting.ball.radius, epsilon=setting.epsilon().upper)
    clock.done("test")
    also = witness_candidates(witnesses)
    ends, weighed, gaps, searched = _end_points(method, setting, search, also, clock)
    clock.done("certify")
    shown = Claims(tuple(end.claim for end in ends.values()), (combine_witnesses(setting, witnesses, weighed),))
    proof = DualProof(
        estimand_of(rows_of(setting.problem)),
        budget,
        method.side,
        setting.ball,
        setting.instruments,
        setting.gauge,
        {end: found.omega for end, found in ends.items()},
        witnesses,
    )
    decided = any(decided_by_rows(claim) for claim in shown.ends)
    result = Result.of(
        proof,
        rows_of(setting.problem),
        method=NAME,
        estimate=search.estimate() if decided else math.nan,
        claims=shown,
        gap=gaps,
        choices={**notes, **searched, **({"estimate": _FIT} if decided else {})},
        seeds={"features": method.choices.seed},
        effective=min((end.effective for end in ends.values() if end.claim.uses_log), default=0.0),
        seconds=clock.seconds,
        planner=describe(NAME, method, problem),
    )
    resting = tuple(claim for claim in shown.ends if claim.uses_log) if result.status is Status.INTERVAL else ()
    return replace(result, robustness=robustness(setting, result.low, result.high, resting))


def _end_points(
    method: Dual, setting: Setting, search: Search, also: list[ProposedWeights], clock: Clock
) -> tuple[Ends, Iterator[Weighing], tuple[float, float], dict[str, str]]:
    """Search each end, certify the proposals and weigh what else there is, keep the best; the gap compares with a feasible q."""
    epsilon = setting.epsilon().upper
    extra = list(method.advanced.candidates)
    if method.solver is not None:
        if not isinstance(search, KernelSearch):
            raise InvalidInput("`solver` is for a Q that is a ball of a kernel space; this one is a box (a table).")
        extra.extend(method.solver(search.model, setting))
    requested = ends_of(method.side)
    notes: dict[str, str] = {}
    primal: dict[End, float] = {}
    proposals: list[Function] = []
    for end in requested:
        sign = 1.0 if end == "upper" else -1.0
        found = search.propose(sign=sign, radius=setting.ball.radius, kappa=epsilon)
        notes[f"search {end}"] = found.note
        primal[end] = found.primal if setting.gauge.uniform else -math.inf
        omega = found.omega
        for more in () if omega is not None else _LARGER:  # Q alone is best: look for an end that rests on the log
            omega = search.propose(sign=sign, radius=more * setting.ball.radius, kappa=epsilon).omega
            if omega is not None:
                break
        if omega is not None:
            proposals.append(omega)
    report = clock.stage("certify")
    ends, weighed = best_bounds(setting, requested, [*proposals, *extra], also=also, progress=report)
    gaps = {"lower": float("nan"), "upper": float("nan")}
    for end, found_end in ends.items():
        claim = found_end.claim
        attained = claim.sign * (claim.bound - search.offset) - (claim[START].mid + claim[ALLOWANCE].mid)
        gaps[end] = gap_of(attained, primal[end])
    return ends, iter(weighed), (gaps["lower"], gaps["upper"]), notes


def dual_needs(terms: Terms, alpha: float) -> float:
    """n* = 2 M^2 log(2/alpha): with fewer rows the noise (9) of weights that balance constants exceeds the value range.

    M = 1/(1 - gamma), or s_H; processes that end by themselves may need fewer.
    """
    return 2 * discounted_steps(terms.gamma, terms.horizon).upper ** 2 * math.log(2 / alpha)
