"""Linear features of a problem: phi(x_i), the mean of phi over the policy's next actions, and phi at the start."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.columns import Cloud
from bondic.core.errors import InvalidInput
from bondic.core.kernels.base import FeatureLeaf, Kernel
from bondic.core.kernels.leaves import Dirac
from bondic.core.kernels.normal_form import normal_form
from bondic.rows import Rows
from bondic.search.basis import Basis, make_basis
from bondic.tuning.defaults import Choices, default_value_kernel

FloatArray = npt.NDArray[np.float64]

_FEW_POINTS = 128


@dataclass(frozen=True, eq=False)
class Design:
    """phi at logged points (n, D), its mean at next points (n, D), 0 where nothing follows, and at starts (n_0, D)."""

    logged: FloatArray
    following: FloatArray
    starts: FloatArray
    rewards: FloatArray  # (n,)
    start_weights: FloatArray  # (n_0,)
    gamma: float
    table: bool  # indicators of (state, action): every function on the seen points is a combination
    fixed: bool  # the features do not depend on the log
    words: str
    start_draws: FloatArray | None = None  # (n_0, m, D) features of every drawn initial action; None: means are exact

    def __len__(self) -> int:
        return int(self.rewards.size)

    @property
    def dimension(self) -> int:
        return int(self.logged.shape[1])

    def counted(self, counts: FloatArray | None) -> FloatArray:
        """phi at the logged points, row i counted counts_i times (once unless given): (n, D)."""
        return self.logged if counts is None else self.logged * counts[:, None]

    def ridge(self, requested: float | None) -> float:
        """A penalty in rows: as asked, else next to none for a table and a tenth of a row for other features.

        A table needs none but for pairs without a row; landmarks are nearly dependent, and a prior of unit size against
        noise of the size of the rewards is worth about that much.
        """
        if requested is None:
            return 1e-6 if self.table else 0.1
        if not requested > 0:
            raise InvalidInput(f"ridge={requested}; a positive number (in rows) is needed.")
        return float(requested)

    @property
    def start(self) -> FloatArray:
        """phi_0 = E_{d_pi,0}[phi], (D,)."""
        return np.asarray(self.start_weights @ self.starts)


def table_kernel() -> Kernel:
    """Every function of (state, action), as if each pair were its own feature."""
    return Dirac(on="state") * Dirac(on="action")


def make_design(problem: Rows, kernel: Kernel | None = None, *, rank: int = 100) -> Design:
    """Features of `kernel`; by default a table when few distinct points repeat, else landmarks of the default kernel."""
    rows = problem.whole()
    everything = np.concatenate([problem.initial.points, rows.logged, rows.next.points])
    few = problem.layout.discrete and is_table(everything, len(problem))
    if kernel is None:
        kernel = table_kernel() if few else default_value_kernel(problem, Choices())
        rank = max(rank, _FEW_POINTS) if few else rank
    table = _is_table_kernel(kernel)
    basis = make_basis(kernel, problem.layout, everything, rank=everything.shape[0] if table else rank, tolerance=1e-9)
    explicit = all(
        isinstance(leaf, FeatureLeaf) for term in normal_form(kernel, problem.layout) for leaf, _ in term.factors
    )
    one = np.eye(problem.layout.slots)[rows.slots]
    return Design(
        logged=coordinates(basis, rows.logged, one),
        following=_cloud_rows(basis, rows.next, len(rows)),
        starts=_cloud_rows(basis, problem.initial, len(problem.initial_states)),
        rewards=rows.rewards,
        start_weights=problem.initial_states.weights,
        gamma=problem.gamma,
        table=table,
        fixed=table or explicit,
        words=f"{basis.dimension} features of {kernel!r}",
        start_draws=_draws(basis, problem),
    )


def _draws(basis: Basis, problem: Rows) -> FloatArray | None:
    if problem.answers.exact:
        return None
    ones = np.ones((problem.initial.points.shape[0], 1))
    return coordinates(basis, problem.initial.points, ones).reshape(len(problem.initial_states), -1, basis.dimension)


def _is_table_kernel(kernel: Kernel) -> bool:
    return repr(kernel) == repr(table_kernel())


def is_table(points: FloatArray, rows: int) -> bool:
    """Whether few distinct points repeat: at most 128, and a quarter of the rows."""
    distinct = np.unique(points, axis=0).shape[0]
    return bool(distinct <= min(_FEW_POINTS, max(rows // 4, 2)))


def coordinates(basis: Basis, points: FloatArray, slot_weights: FloatArray) -> FloatArray:
    """sum_a w_a phi(z, a) at every point: (N, D)."""
    blocks = []
    for part in basis.parts:
        local = part.finish(part.raw(points)) if points.shape[0] else np.zeros((0, part.size))
        columns = slot_weights @ part.term.embedding
        blocks.append((local[:, :, None] * columns[:, None, :]).reshape(points.shape[0], part.size * part.embedded))
    return np.hstack(blocks)


def _cloud_rows(basis: Basis, cloud: Cloud, count: int) -> FloatArray:
    total = np.zeros((count, basis.dimension))
    np.add.at(total, cloud.rows, coordinates(basis, cloud.points, cloud.weights))
    return total


def start_error(problem: Rows, design: Design, theta: FloatArray) -> float:
    """Standard error of E_0[v]: from a sample of initial states, or from draws of actions at an exact list; else 0."""
    if problem.initial_states.kind != "exact":
        values = design.starts @ theta
        return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else 0.0
    if design.start_draws is None or design.start_draws.shape[1] < 2:
        return 0.0
    spread = (design.start_draws @ theta).var(axis=1, ddof=1) / design.start_draws.shape[1]
    return float(np.sqrt(np.sum(design.start_weights**2 * spread)))
