"""Search for a box with tables as instruments: min_w  sign g.w + r sum_x |psi_0 + A w|_x + kappa |w|_H.

    A = (1/n) sum_i ( gamma pi(x'_i) - 1_{x_i} ) 1_{x_i}^T,   g = -(1/n) sum_i 1_{x_i} R̂center_i

Rows of A are state-action pairs that occur anywhere, columns the logged ones.
|w|_H^2 = w^T H w, where H = I, or ( V + tau I ) / ( C + tau ) as in `search.model.whiten` for the self-normalized bound.
Majorize-minimize: |m| <= m^2 / (2 t) + t / 2 and |w| <= |w|^2 / (2 s) + s / 2 turn every step into one linear system.
Small |m| are smoothed by a length that shrinks from step to step. Whatever comes out is a proposal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse import block_array, coo_array, csc_array, csr_array, diags_array, eye_array, hstack
from scipy.sparse.linalg import splu

from bondic.core.columns import Batch
from bondic.core.dual.bound import Setting
from bondic.core.errors import InvalidInput
from bondic.core.functions import ExpansionFunction, Function, TermExpansion
from bondic.core.identity import bellman_residual, values_at_rows, values_at_starts
from bondic.core.kernels.base import Kernel, Product, Scaled, Sum
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.core.kernels.normal_form import Layout
from bondic.core.terms import row_widths
from bondic.engines.sums import STANDARD
from bondic.rows import Rows
from bondic.rows.rows import rows_of
from bondic.search.model import SearchResult

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TableModel:
    """The search's view of a log with few distinct states; nothing of it is believed."""

    states: FloatArray  # (M, D) distinct points
    slots: int
    pairs: IntArray  # (L,) logged pairs, as state * slots + slot, most visited first
    balance: csr_array  # (M * slots, L) A
    gradient: FloatArray  # (L,) g
    charges: FloatArray  # (L,) sum of B_i^2 over the rows of a pair
    start: FloatArray  # (M * slots,) d_{pi,0}
    offset: float  # E[center]


def table_model(question: Rows, center: Function | None, most_pairs: int) -> TableModel:
    """One pass over the rows; at most `most_pairs` logged pairs, the most visited, carry weight."""
    states = _distinct(question)
    slots, n = question.layout.slots, len(question)
    size = states.shape[0] * slots
    visits, gradient, charges = np.zeros(size), np.zeros(size), np.zeros(size)
    blocks = []
    for part in question.batches():
        pair = _positions(states, part.logged) * slots + part.slots
        residual = bellman_residual(part, values_at_rows(part, center, STANDARD))
        visits += np.bincount(pair, minlength=size)
        charges += np.bincount(pair, weights=row_widths(part.terms, part.times, len(part)) ** 2, minlength=size)
        gradient -= np.bincount(pair, weights=residual, minlength=size) / n
        blocks.append(_flow(part, states, pair, size, n))
    flow = sum(blocks[1:], start=blocks[0])
    logged = np.argsort(-visits, kind="stable")[: min(most_pairs, int((visits > 0).sum()))]
    cloud = question.initial
    weights = cloud.weights * question.initial_states.weights[cloud.rows, None]
    start = np.zeros((states.shape[0], slots))
    np.add.at(start, _positions(states, cloud.points), weights)
    offset = float(question.initial_states.weights @ values_at_starts(question, center, STANDARD)[0])
    balance = csr_array(flow.tocsc()[:, logged])
    return TableModel(states, slots, logged, balance, gradient[logged], charges[logged], start.ravel(), offset)


def _distinct(question: Rows) -> FloatArray:
    found = np.unique(question.initial.points + 0.0, axis=0)
    for part in question.batches():
        found = np.unique(np.concatenate([found, part.logged + 0.0, part.next.points + 0.0]), axis=0)
    return np.asarray(found)


def _positions(states: FloatArray, points: FloatArray) -> IntArray:
    """Index of each point among the distinct ones."""
    _, inverse = np.unique(np.concatenate([states, points + 0.0]), axis=0, return_inverse=True)
    return np.asarray(inverse.reshape(-1)[states.shape[0] :], dtype=np.int64)


def _flow(part: Batch, states: FloatArray, pair: IntArray, size: int, n: int) -> csr_array:
    cloud, slots = part.next, part.layout.slots
    targets = _positions(states, cloud.points)[:, None] * slots + np.arange(slots)
    sources = np.repeat(pair[cloud.rows], slots)
    there = coo_array((part.gamma * cloud.weights.ravel() / n, (targets.ravel(), sources)), shape=(size, size))
    here = coo_array((np.full(pair.size, -1.0 / n), (pair, pair)), shape=(size, size))
    return csr_array(there.tocsr() + here.tocsr())


_MAX_PAIRS = 20_000
_DENSE = 600
"""Smaller systems are solved as full matrices."""
_STEPS = 40
_SHRINK = 0.6


def table_kernel(share: float) -> Kernel:
    """share * constant + (1 - share) * state-action table; K_max = 1. share 0 is the table alone."""
    local = Dirac(on="state") * Dirac(on="action")
    return local if share == 0 else share * Constant(1.0) + (1.0 - share) * local


def table_share(kernel: Kernel) -> float | None:
    """The share of the constant in a kernel made by `table_kernel`; None for any other kernel."""
    if _is_table(kernel):
        return 0.0
    if not isinstance(kernel, Sum) or len(kernel.parts) != 2:
        return None
    first, second = kernel.parts
    fits = isinstance(first, Scaled) and isinstance(second, Scaled) and isinstance(first.part, Constant)
    if not fits or not _is_table(second.part) or first.part.value != 1.0:  # type: ignore[attr-defined]
        return None
    return float(first.factor) if first.factor + second.factor == 1.0 else None  # type: ignore[attr-defined]


def _is_table(kernel: Kernel) -> bool:
    return (
        isinstance(kernel, Product)
        and len(kernel.parts) == 2
        and all(isinstance(part, Dirac) for part in kernel.parts)
        and [part.on for part in kernel.parts] == ["state", "action"]  # type: ignore[attr-defined]
    )


@dataclass(frozen=True, eq=False)
class TableSearch:
    """Omegas that are tables plus a constant, for a Q that is a box."""

    model: TableModel
    kernel: Kernel
    share: float
    layout: Layout
    penalty: float | None = None  # tau of H; None: H = I

    @property
    def offset(self) -> float:
        return self.model.offset

    @cached_property
    def _balance(self) -> csr_array:
        """A in the coordinates of W: the table scaled by sqrt(1 - share), then the constant's column."""
        scaled = self.model.balance * math.sqrt(1.0 - self.share)
        if self.share == 0:
            return csr_array(scaled)
        ones = np.asarray(self.model.balance.sum(axis=1)).reshape(-1, 1) * math.sqrt(self.share)
        return csr_array(hstack([scaled, csr_array(ones)]))

    @cached_property
    def _gradient(self) -> FloatArray:
        scaled = self.model.gradient * math.sqrt(1.0 - self.share)
        return scaled if self.share == 0 else np.append(scaled, self.model.gradient.sum() * math.sqrt(self.share))

    @cached_property
    def _form(self) -> csc_array:
        """H: V is diagonal in the table, and the constant's row and column sum it up."""
        if self.penalty is None:
            return csc_array(eye_array(self._gradient.size, format="csc"))
        charges = self.model.charges
        form = diags_array(charges * (1.0 - self.share))
        if self.share > 0:
            border = csr_array((charges * math.sqrt(self.share * (1.0 - self.share))).reshape(-1, 1))
            form = block_array([[form, border], [border.T, csr_array([[self.share * charges.sum()]])]])
        scale = float(charges.sum()) + self.penalty
        return csc_array((form + self.penalty * eye_array(form.shape[0])) / scale)

    def _dual(self, v: FloatArray) -> FloatArray:
        """H^-1 v."""
        return v if self.penalty is None else _solve(self._form, v, dense=int(self.share > 0))

    def solve(self, *, sign: float, radius: float, kappa: float) -> tuple[FloatArray, float, float]:
        """(w, its objective, a lower bound of the best objective or -inf)."""
        a, g, psi, form = self._balance, sign * self._gradient, self.model.start, self._form
        best, value = np.zeros(g.size), radius * float(np.abs(psi).sum())
        w, primal = best, -math.inf
        smooth, size = 1.0, 1.0 / max(float(np.abs(psi).sum()), 1e-300)
        for _ in range(_STEPS):
            lengths = np.maximum(np.abs(psi + a @ w), smooth * size / psi.size + 1e-14)
            norm = max(math.sqrt(float(w @ (form @ w))), 1e-9 + smooth)
            weights = radius / lengths
            system = csc_array(a.T @ diags_array(weights) @ a) + kappa / norm * form
            try:
                w = -_solve(system, g + a.T @ (weights * psi), dense=int(self.share > 0))
            except (LinAlgError, RuntimeError):  # singular in floating point: what was found so far is proposed
                break
            rest = psi + a @ w
            now = float(g @ w + radius * np.abs(rest).sum() + kappa * math.sqrt(float(w @ (form @ w))))
            if not np.isfinite(now):
                break
            if now < value:
                best, value = w, now
            primal = max(primal, self._feasible(np.clip(weights * rest, -radius, radius), g, kappa))
            smooth *= _SHRINK
        return best, value, primal

    def _feasible(self, theta: FloatArray, g: FloatArray, kappa: float) -> float:
        """psi_0 . theta if theta is (or becomes, pulled toward the center) a q that the log does not contradict."""
        moved = self._balance.T @ theta
        image = self._dual(moved)
        inner, b, square = float(g @ self._dual(g)), float(g @ image), float(moved @ image)
        c = inner - kappa**2
        if c + 2 * b + square <= 0:
            return float(self.model.start @ theta)
        if c >= 0:
            return -math.inf
        # |g + t moved| is convex in t: the largest feasible t lies on the segment to the center
        share = (-b + math.sqrt(b * b - square * c)) / square
        return min(share, 1.0) * float(self.model.start @ theta)

    def propose(self, *, sign: float, radius: float, kappa: float) -> SearchResult:
        w, _, primal = self.solve(sign=sign, radius=radius, kappa=kappa)
        note = f"{_STEPS} steps, {w.size} coordinates"
        return SearchResult(self.function(w) if np.any(w) else None, note, primal)

    def function(self, w: FloatArray) -> Function:
        """ω = phi . w as tables over states, in the form the trusted core evaluates."""
        model, count = self.model, self.model.pairs.size
        table = np.zeros(model.states.shape[0] * model.slots)
        # the kernel's coefficient 1 - share multiplies what stands in the table
        table[model.pairs] = w[:count] / math.sqrt(1.0 - self.share)
        used = np.unique(model.pairs // model.slots)
        local = TermExpansion(model.states[used], table.reshape(-1, model.slots)[used])
        if self.share == 0:
            return ExpansionFunction(self.kernel, self.layout, (local,))
        flat = TermExpansion(model.states[:1], np.array([[w[-1] / math.sqrt(self.share)]]))
        return ExpansionFunction(self.kernel, self.layout, (flat, local))

    def witnesses(self, *, radius: float, epsilon: float) -> tuple[Function | None, ...]:
        """A box holds q* by the ranges alone, so only these could be contradicted: the direction of the residual."""
        del radius
        g = self._dual(self._gradient)
        size = math.sqrt(float(self._gradient @ g))
        return (self.function(-g / size),) if size > epsilon else ()

    def estimate(self) -> float:
        """E[q] of the table that solves the empirical Bellman equation; unseen pairs stay at the center."""
        a, g = self._balance, self._gradient
        system = csc_array(a.T @ a)
        ridge = 1e-9 * float(system.trace()) / max(g.size, 1) + 1e-300
        theta = -(a @ _solve(system + ridge * eye_array(g.size), g, dense=int(self.share > 0)))
        return self.offset + float(self.model.start @ theta)


def _solve(system: csc_array, right: FloatArray, *, dense: int) -> FloatArray:
    """system^-1 right; of large systems the last `dense` rows and columns (the constant) are eliminated first.

    Pairs are coupled only through the pairs they lead to, so what is left of a large table is sparse.
    """
    size = system.shape[0]
    if size <= _DENSE:
        return np.asarray(cho_solve(cho_factor(system.toarray(), check_finite=False), right))
    inner = size - dense
    system = csc_array(system)
    core = splu(csc_array(system[:inner, :inner]))
    first = core.solve(right[:inner])
    if not dense:
        return np.asarray(first)
    border = system[:inner, inner:].toarray()[:, 0]
    solved = core.solve(border)
    rest = float(system[inner, inner]) - float(border @ solved)
    last = (float(right[inner]) - float(border @ first)) / rest
    return np.append(first - last * solved, last)


def table_search(setting: Setting) -> TableSearch:
    """The search for a box and instruments made by `table_kernel`."""
    share = table_share(setting.instruments.kernel)
    if share is None or setting.ball.kernel is not None:
        raise InvalidInput("This search is for a box with tables as instruments.")
    model = table_model(rows_of(setting.problem), setting.ball.center, _MAX_PAIRS)
    penalty = setting.gauge.penalty(setting.facts)
    tau = None if penalty is None else penalty[0]
    return TableSearch(model, setting.instruments.kernel, share, setting.problem.layout, tau)
