"""What if the radius of Q were another, or alpha? Search ω for a range of both, certify all in one pass (section 5).

The radius cannot be proved from data; the curve over all radii can, and so can the radius at which a decision breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from bondic.core.claims import ErrorBudget, check_alpha
from bondic.core.codec import same
from bondic.core.dual.bound import ALLOWANCE, DISCREPANCY, VALUE, Setting
from bondic.core.dual.proof import DualProof
from bondic.core.errors import InvalidInput
from bondic.core.functions import Function
from bondic.core.sequential.proof import SequentialProof
from bondic.core.sums.forms import Sums
from bondic.engines.sums import STANDARD
from bondic.methods.dual import Dual
from bondic.methods.setting import make_setting
from bondic.result import Result
from bondic.rows import Rows
from bondic.search.model import Search
from bondic.search.search import evaluate_all, make_search
from bondic_lab.methods.frontier import Frontier, FrontierPoint

FloatArray = npt.NDArray[np.float64]
Progress = Callable[[str, float], None]

_OTHER_LEVELS = (0.2, 2.0)
"""The best ω depends on r and eps; eps moves with the root of log(2/alpha), so two more levels of it are enough."""

_LONG = 200_000
"""Rows from which half as many ω are certified: each costs a pass over the kernel sums (benchmarks/estimate.py)."""

_MAX_FLOOR = 1e300
"""A witness without |nu| rejects every radius; the floor stays a finite number all the same."""


def radius_sensitivity(
    problem: Rows,
    *,
    alpha: float = 0.1,
    radii: Sequence[float] | None = None,
    method: Dual | None = None,
    progress: Progress | None = None,
) -> Frontier:
    """Search ω for a range of radii (by default 1/30 to 10 times that of `method`), certify all in one pass.

    The curve may be read at any radius, also between and beyond those searched: it is valid everywhere and tight near
    them. W, the pilot and the noise bound are those of `method`. The curve is that of the dual bound.
    """
    check_alpha(alpha)
    options = Dual() if method is None else method
    setting, budget, _ = make_setting(options, problem, float(alpha))
    search = make_search(setting, options.rank)
    return _frontier(options, setting, budget, search, [], radii, progress)


def result_frontier(
    result: Result,
    problem: Rows,
    *,
    radii: Sequence[float] | None = None,
    progress: Progress | None = None,
    sums: Sums = STANDARD,
) -> Frontier:
    """The same for a result that is there already: its own end points are part of the frontier.

    `problem` is the question that was answered; `sums` say how, and where, kernel sums are computed.
    """
    proof = result.proof
    if isinstance(proof, SequentialProof):
        raise InvalidInput(
            "A sequential interval is planned for one radius and one alpha: there is no curve to read others off. method=Dual() "
            "has the whole curve."
        )
    if not isinstance(proof, DualProof):
        raise InvalidInput(f"The method {result.method!r} leaves no proof with a class Q: there is no radius to vary.")
    if problem.log_hash != proof.estimand.log_hash:
        raise InvalidInput("The result belongs to another log than the problem (content hashes differ).")
    setting = proof.setting(problem.select(*result.rows), sums)
    own = [omega for omega in proof.omegas.values() if omega is not None]
    options = Dual(side=result.side)
    # a search is only a source of proposals: whatever it is, what it proposes gets certified
    found = _frontier(options, setting, proof.budget, make_search(setting, options.rank), own, radii, progress)
    floor = 0.0 if result.rejection is None else result.rejection.minimal_radius
    return replace(found, floor=min(floor, _MAX_FLOOR))


def _frontier(
    options: Dual,
    setting: Setting,
    budget: ErrorBudget,
    search: Search,
    own: list[Function],
    radii: Sequence[float] | None,
    progress: Progress | None,
) -> Frontier:
    proposals = list(own)
    for omega in _proposals(setting, search, radii):
        if not any(same(omega, known) for known in proposals):  # the ends themselves are among what is searched again
            proposals.append(omega)
    report = None if progress is None else lambda share: progress("certify", share)
    points = tuple(
        FrontierPoint(
            claim[VALUE],
            claim[DISCREPANCY],
            setting.weights(omega, weighed),
            setting.slack(weighed),
            claim[ALLOWANCE],
        )
        for omega, (claim,), weighed in evaluate_all(setting, ("upper",), proposals, progress=report)[0]
        if claim.uses_log  # ω = 0 uses no row: it only repeats Q
    )
    alpha, shares = budget.alpha, {name: part / budget.alpha for name, part in budget.parts.items()}
    return Frontier(alpha, setting.ball.radius, options.side, shares, points, setting)


def _proposals(setting: Setting, search: Search, radii: Sequence[float] | None) -> list[Function]:
    """Omegas for every radius at the noise level of alpha and, unless radii were named, for a few at other levels."""
    kappa, middle = setting.epsilon().upper, setting.ball.radius or 1.0
    if radii is None and not setting.ball.has_radius:  # only alpha is varied
        requested = [(middle, level) for level in (1.0, *_OTHER_LEVELS)]
    elif radii is None:
        count, factors = (5, (1.0,)) if len(setting.problem) > _LONG else (11, (0.1, 1.0))
        requested = [(float(radius), 1.0) for radius in (middle, *np.geomspace(middle / 30, middle * 10, count))]
        requested += [(middle * factor, level) for level in _OTHER_LEVELS for factor in factors]
    else:
        requested = [(float(radius), 1.0) for radius in radii]
    out = []
    for radius, level in requested:
        for sign in (1.0, -1.0):
            omega = search.propose(sign=sign, radius=radius, kappa=level * kappa).omega
            if omega is not None:
                out.append(omega)
    return out
