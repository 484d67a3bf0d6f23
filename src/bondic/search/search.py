"""Where ω comes from, and which of several is kept. What is proposed here is never believed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bondic.core.balls import Ball
from bondic.core.claims import Claim, End
from bondic.core.columns import Batch
from bondic.core.dual.bound import Setting, dual_bound
from bondic.core.dual.weighing import ProposedWeights, Weighing, weigh
from bondic.core.errors import InvalidInput
from bondic.core.functions import Function
from bondic.core.kernels.leaves import Dirac
from bondic.core.sums.forms import Progress
from bondic.data.spread import spread_rows
from bondic.rows import Rows
from bondic.rows.rows import rows_of
from bondic.search import spectral
from bondic.search.actions import Cap, sharing
from bondic.search.basis import capped_basis
from bondic.search.model import ModelSums, Search, SearchModel, SearchResult, second_moments, whiten
from bondic.search.table import table_search, table_share


@dataclass(frozen=True, eq=False)
class CertifiedEnd:
    """An end point, the ω behind it, and how many rows carry it."""

    claim: Claim
    omega: Function | None
    effective: float


Ends = dict[End, CertifiedEnd]


def best_bounds(
    setting: Setting,
    ends: tuple[End, ...],
    proposals: list[Function],
    *,
    also: list[ProposedWeights] | None = None,
    progress: Progress | None = None,
) -> tuple[Ends, list[Weighing]]:
    """Evaluate every proposal at every end with the trusted core, in one pass, and keep the tightest end points.

    `also` is weighed in the same pass. Any ω is valid on the *same* event (the noise bound covers all ω at once), so choosing
    costs nothing. ω = 0 only repeats Q: it is kept where no other ω says more than the value range.
    """
    best: Ends = {}
    evaluated, others = evaluate_all(setting, ends, proposals, also=also, progress=progress)
    for omega, found, weighing in evaluated:
        for claim in found:
            known = best.get(claim.end)
            if known is None or _better(setting, claim, known.claim):
                best[claim.end] = CertifiedEnd(claim, omega, weighing.effective)
    return best, others


def evaluate_all(
    setting: Setting,
    ends: tuple[End, ...],
    proposals: list[Function],
    *,
    also: list[ProposedWeights] | None = None,
    progress: Progress | None = None,
) -> tuple[list[tuple[Function | None, tuple[Claim, ...], Weighing]], list[Weighing]]:
    """Claims of every proposal, ω = 0 first, and what else was to be weighed, from one pass over the points."""
    found: list[Function | None] = [None, *(omega for omega in proposals if not omega.is_zero)]
    candidates = [*(ProposedWeights(omega) for omega in found), *(also or ())]
    weighed = weigh(setting.problem, setting.ball, candidates, sums=setting.sums, progress=progress)
    claims = [
        (omega, dual_bound(setting, omega, ends, weighing=weighing), weighing)
        for omega, weighing in zip(found, weighed, strict=False)
    ]
    return claims, weighed[len(found) :]


def _better(setting: Setting, new: Claim, old: Claim) -> bool:
    if new.uses_log and not old.uses_log and new.gain(setting.range()) > 0:
        return True
    return new.gain(old) > 0


FloatArray = npt.NDArray[np.float64]

_LANDMARK_ROWS = 50_000
"""Landmarks are looked for among this many rows, spread over the log."""
_CAP = Cap(2400, 20)
_ROUNDS = 20
MAX_ROWS = 200_000
"""Of a search: what is proposed is certified on every row, whatever it was found from."""
_MIN_ROWS, _READ = 50_000, 2**20
"""However long rows are; and rows that are read for a sample."""
_MAX_NUMBERS = 24_000_000
"""Numbers of points and weights that are held for a sample."""


@dataclass(frozen=True, eq=False)
class KernelSearch:
    """The two-cone problem (11) in finite coordinates; where ω pays sum_j c_j |w_j|, a few of them with other scales."""

    model: SearchModel
    costs: FloatArray | None = None  # c_j at the noise level kappa = `level`
    level: float = 1.0
    sample: str = ""  # in words, where the matrices are those of some rows

    @cached_property
    def spectrum(self) -> spectral.Spectrum:
        return spectral.Spectrum.of(self.model)

    @property
    def offset(self) -> float:
        return self.model.offset

    def propose(self, *, sign: float, radius: float, kappa: float) -> SearchResult:
        found = spectral.propose(self.spectrum, sign=sign, radius=radius, kappa=kappa)
        weights = found.weights if self.costs is None else self._sparse(found.weights, sign, radius, kappa)
        omega = self.model.function(weights) if np.any(weights) else None
        shared = sharing(self.model.weights.layout.slots, _CAP)
        note = f"{found.status} after {found.iterations} steps, {found.weights.size} coordinates"
        note += "".join(f"; {words}" for words in (shared, self.sample) if words)
        return SearchResult(omega, note, -math.inf if self.sample else found.primal)

    def _sparse(self, w: FloatArray, sign: float, radius: float, kappa: float) -> FloatArray:
        """Go on from w: sum_j c_j |w_j| is the least of sqrt( sum_j c_j^2 w_j^2 / s_j ) over s >= 0 that add up to 1.

        The best s is c_j |w_j| / sum; with s fixed it is (11) in scaled coordinates. Each round can only gain.
        """
        assert self.costs is not None
        costs, model = self.costs * (kappa / self.level), self.model
        shares = np.full(costs.size, 1.0 / costs.size)
        best, least = np.zeros(costs.size), radius * float(np.linalg.norm(model.start))
        for _ in range(_ROUNDS):
            value = sign * float(model.gradient @ w) + radius * float(np.linalg.norm(model.start + model.balance @ w))
            value += float(costs @ np.abs(w))
            if value < least:
                best, least = w, value
            if np.any(w):
                shares = costs * np.abs(w) / float(costs @ np.abs(w))
            scales = np.sqrt(shares + 1e-9) / costs
            scaled = replace(model, balance=model.balance * scales, gradient=model.gradient * scales)
            w = scales * spectral.propose(spectral.Spectrum.of(scaled), sign=sign, radius=radius, kappa=1.0).weights
        return best

    def witnesses(self, *, radius: float, epsilon: float) -> tuple[Function | None, ...]:
        """Directions that may prove a rejection or a minimal radius; none when q = center already fits."""
        out: list[Function | None] = []
        if spectral.minimal_radius(self.spectrum, epsilon) > 0:
            direction = spectral.witness(self.spectrum, kappa=epsilon)
            out.append(None if direction is None else self.model.function(direction))
            if self.floor(radius) > 1e-9 * epsilon:
                out.append(self.floor_witness(radius))
        return tuple(out)

    def floor(self, radius: float) -> float:
        """min L_W(q) over Q, in coordinates."""
        return spectral.loss_floor(self.spectrum, radius)[0]

    def floor_witness(self, radius: float) -> Function | None:
        direction = spectral.witness(self.spectrum, radius=radius)
        return None if direction is None else self.model.function(direction)

    def estimate(self) -> float:
        s = self.spectrum
        ridge = 1e-6 * float(s.sigma.max(initial=0.0)) ** 2 + 1e-300
        theta = -s.sigma * s.gradient / (s.sigma**2 + ridge)
        return self.offset + float(s.start @ theta)


def kernel_search(setting: Setting, rank: int, report: Callable[[float], None] | None = None) -> KernelSearch:
    """The matrices of (11) for a ball; from some of the rows where there are very many, spread over the log."""
    problem, ball = rows_of(setting.problem), setting.ball
    if ball.kernel is None:
        raise InvalidInput("This search is for a Q that is a ball of a kernel space.")
    everything = problem.some_points(_LANDMARK_ROWS)
    values = capped_basis(ball.kernel, problem, everything, rank=rank, cap=_CAP)
    # a coarser basis than for values: its coordinates become weights of ω, whose size is paid for in rounding
    logged = next(problem.batches()).logged
    weights = capped_basis(setting.instruments.kernel, problem, logged, rank=rank, cap=_CAP, tolerance=1e-9)

    def searched(batches: Callable[[], Iterable[Batch]], words: str = "") -> KernelSearch:
        sums = ModelSums(problem, weights, values, ball.center)
        sums.add(batches(), None if report is None else lambda rows: report(min(rows / len(problem), 1.0)))
        model, facts = sums.model(), setting.facts
        penalty = setting.gauge.penalty(facts)
        if penalty is not None:
            model = whiten(model, second_moments(batches(), weights) * (len(problem) / sums.rows), *penalty)
        costs = setting.gauge.costs(facts, setting.noise_probability)
        note = words and f"looked at {sums.rows} of {len(problem)} rows"
        return KernelSearch(model, costs, setting.epsilon().upper, note)

    if len(problem) > MAX_ROWS:
        sample = sampled_rows(problem)
        found = searched(lambda: sample, "sample")
        if (
            found.floor(ball.radius) <= found.level
        ):  # else the sample contradicts Q, which its noise can do: take all rows
            return found
    return searched(problem.batches)


def sampled_rows(problem: Rows) -> list[Batch]:
    """At most about `MAX_ROWS` rows, at uneven places of blocks that are spread over the log; fewer where rows are long."""
    layout, draws = problem.layout, problem.answers.draws
    numbers = 2 * layout.dimension + (layout.dimension + layout.slots) * draws
    most = min(MAX_ROWS, max(_MIN_ROWS, _MAX_NUMBERS // numbers))
    share = most / min(len(problem), _READ)
    blocks = problem.spread_blocks(_READ)
    return [batch.pick(spread_rows(len(batch), max(int(share * len(batch)), 1))) for batch in blocks]


def gap_of(attained: float, primal: float) -> float:
    """How far an end may be from the best ω of the searched space."""
    return max(0.0, attained - primal) if np.isfinite(primal) else math.inf


_SOME_ROWS = 50_000


def make_search(setting: Setting, rank: int, report: Callable[[float], None] | None = None) -> Search:
    """Tables for a box with tables as instruments, else the two-cone problem.

    For a box with other instruments a ball around it stands in: |μ|_1 <= sqrt(N) |μ|_2 over N points.
    """
    if setting.ball.kernel is not None:
        return kernel_search(setting, rank, report)
    if table_share(setting.instruments.kernel) is not None:
        return table_search(setting)
    points = np.unique(setting.problem.some_points(_SOME_ROWS), axis=0).shape[0] * setting.problem.layout.slots
    table = Dirac(on="state") * Dirac(on="action") if setting.problem.layout.discrete else Dirac(on="point")
    ball = Ball(table, setting.ball.radius * math.sqrt(points), setting.ball.center)
    return kernel_search(replace(setting, ball=ball), rank, report)
