"""All pairs on a GPU: the pair engine's recipes, by Triton where a term is Gaussian, by tiles of torch elsewhere.

Every step is the one of the compiled engine, in float64, and so is its error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from bondic.core.bounded import FloatArray, U, inflate
from bondic.core.errors import InvalidInput
from bondic.core.kernels.normal_form import Term
from bondic.core.sums.forms import Crossed, Progress, Share
from bondic.engines import cuda_tiles, power
from bondic.engines.engine import Survey
from bondic.engines.recipes import HALF_LOG2E, NEAR, ProductPlan, Recipe, certain, labels, plan, value_error
from bondic.engines.spool import Direct, PointBlock
from bondic.engines.threads import Threads

if TYPE_CHECKING:
    import torch

_MAX_SCALED = 1e7
_NEAR_COST = 5.8
"""Scaled and centered coordinates of norm R cost 5.8 R U of a kernel value (README.md, Lemma 17a)."""
_MAX_FUSED = 128
"""Weight columns that are worth passes of their own; more of them go through products of matrices."""
_GAIN = 1000.0
"""A GPU does about as many pairs while a core does one; only the order of engines depends on it."""


class Cuda(Direct):
    """All pairs on a device of torch.

    Parameters
    ----------
    device : str, default "cuda"
        A device of torch; "cpu" computes the same sums without a GPU, slowly.
    """

    name, block = "cuda", 2**20

    def __init__(self, device: str = "cuda") -> None:
        self.device = device
        check_device(device)

    def __reduce__(self) -> tuple[type[Cuda], tuple[str]]:
        """Made anew in another process, which may lack the device."""
        return type(self), (self.device,)

    def cost(self, term: Term, survey: Survey) -> float | None:
        planned = plan(term, survey.points)
        if planned is None:
            return None
        if (gaussian := planned.gaussian()) is not None and not self._fits(survey.points[:, gaussian[0]], gaussian[1]):
            return None
        return 0.5 * survey.count * survey.count * (9.0 + survey.width) / _GAIN

    def _fits(self, points: FloatArray, scales: FloatArray) -> bool:
        half = 0.5 * np.ptp(points, axis=0) * (HALF_LOG2E / scales) if len(points) else np.zeros(1)
        return bool(half.max() <= _MAX_SCALED)

    def own(
        self, term: Term, points: FloatArray, columns: FloatArray, executor: Threads, progress: Progress | None = None
    ) -> Share:
        del executor  # the device has its own
        planned, size = certain(plan(term, points)), term.bounds(points, points)[0]
        keep = planned.alive(points)
        if not keep.all():
            points, columns = points[keep], columns[keep]
        gaussian = planned.gaussian()
        report = progress or (lambda done: None)  # noqa: ARG005
        if gaussian is None:
            shared = labels(planned.equal, points)[0] if planned.equal else None
            recipe, rows = planned.recipe(points, shared)
            totals = cuda_tiles.symmetric(self._put(rows), recipe, self._put(columns), self._side, report)
            error = planned.bounds(points, points)[1] + size * (2 * self._side + 16) * U
        else:
            totals, error = self._gaussian(points[:, gaussian[0]], gaussian[1], columns, report)
            error *= term.coefficient
        return Share(term.coefficient * totals, inflate(error + 4 * size * U))

    def _gaussian(
        self, points: FloatArray, scales: FloatArray, columns: FloatArray, report: Callable[[float], None]
    ) -> tuple[FloatArray, float]:
        """Totals, and their error per product of masses."""
        count, width = columns.shape
        if not count:
            return np.zeros((0, width)), 0.0
        (rows,) = self._near((points,), scales)
        value = _value_error(rows)
        if self.device.startswith("cuda") and width <= _MAX_FUSED:
            from bondic.engines import cuda_fused

            cut = 4 * _norm(rows) ** 2 > power.LARGEST
            totals = cuda_fused.symmetric(rows, self._put(columns), cut=cut, report=report)
            return totals, _fused_error(value, count)
        totals = cuda_tiles.symmetric(rows, _squares(scales.size), self._put(columns), self._side, report)
        return totals, value + (1 + value) * (2 * self._side + 16) * U

    def between(self, term: Term, x: PointBlock, y: PointBlock, executor: Threads) -> Share:
        planned = certain(plan(term, x[0]))
        gaussian = planned.gaussian()
        if gaussian is None or not self.device.startswith("cuda") or x[1].shape[1] > _MAX_FUSED:
            return super().between(term, x, y, executor)
        from bondic.engines import cuda_fused

        axes, scales = gaussian
        (points, u), (others, v) = (
            (part[0][keep], part[1][keep]) for part in (x, y) for keep in (planned.alive(part[0]),)
        )
        if not (len(points) and len(others)):
            return Share(np.zeros((1, u.shape[1])), 0.0)
        rows = self._near((points[:, axes], others[:, axes]), scales)
        value = max(_value_error(part) for part in rows)
        cut = 4 * max(_norm(part) for part in rows) ** 2 > power.LARGEST
        totals = cuda_fused.between((rows[0], rows[1]), (self._put(u), self._put(v)), cut=cut)
        error = term.coefficient * _fused_error(value, len(points) + len(others))
        size = term.bounds(points, others)[0]
        return Share(term.coefficient * totals, inflate(error + 4 * size * U))

    def cross(self, term: Term, x: FloatArray, y: FloatArray, columns: FloatArray, executor: Threads) -> Crossed | None:
        del executor
        planned = plan(term, y)
        if planned is None:
            return None
        out = np.zeros((x.shape[0], columns.shape[1]))
        mine, others = planned.alive(x), planned.alive(y)
        x, y, columns = x[mine], y[others], columns[others]
        roundings = self._side + 2 + y.shape[0] // self._side
        if not (len(x) and len(y)):
            return Crossed(out, 0.0, roundings)
        recipe, (rows_x, rows_y), error = self._operands(planned, x, y)
        found = cuda_tiles.crossed(rows_x, rows_y, recipe, self._put(columns), self._side)
        out[mine] = term.coefficient * found
        return Crossed(out, error, roundings)

    def _operands(
        self, planned: ProductPlan, x: FloatArray, y: FloatArray
    ) -> tuple[Recipe, tuple[torch.Tensor, ...], float]:
        """Recipe, coordinates of both sets, and the error of a value, coefficient included."""
        gaussian = planned.gaussian()
        if gaussian is None:
            mine, others = labels(planned.equal, x, y) if planned.equal else (None, None)
            recipe, rows_x = planned.recipe(x, mine)
            return recipe, (self._put(rows_x), self._put(planned.recipe(y, others)[1])), planned.bounds(x, y)[1]
        axes, scales = gaussian
        rows = self._near((x[:, axes], y[:, axes]), scales)
        error = max(_value_error(part) for part in rows)
        return _squares(scales.size), rows, planned.coefficient * (1 + 4 * U) * error

    def _near(self, points: tuple[FloatArray, ...], scales: FloatArray) -> tuple[torch.Tensor, ...]:
        """Centered and scaled coordinates in float64: k = 2^-|x - y|^2."""
        low, high = (np.array([edge(part, axis=0) for part in points]) for edge in (np.min, np.max))
        center, factors = 0.5 * low.min(axis=0) + 0.5 * high.max(axis=0), HALF_LOG2E / scales
        rows = tuple((self._put(part) - self._put(center)) * self._put(factors) for part in points)
        if not (far := max(float(part.abs().max()) for part in rows)) <= _MAX_SCALED:
            raise InvalidInput(
                f'Points are {far:.2g} bandwidths from their center, too far for a GPU. Use engine="pairs".'
            )
        return rows

    @property
    def _side(self) -> int:
        return cuda_tiles.SIDE if self.device.startswith("cuda") else cuda_tiles.SMALL_SIDE

    def _put(self, rows: FloatArray) -> torch.Tensor:
        import torch

        return torch.as_tensor(np.ascontiguousarray(rows)).to(self.device)


def _squares(axes: int) -> Recipe:
    return Recipe(np.array([NEAR]), np.array([axes]), np.ones(axes))


def _value_error(rows: torch.Tensor) -> float:
    """Of 2^-t for scaled, centered coordinates."""
    return value_error(rows.shape[1]) + _NEAR_COST * _norm(rows) * U


def _fused_error(value: float, count: int) -> float:
    """Of fused sums over so many points, per product of masses; `value` is the error of a kernel value."""
    from bondic.engines import cuda_fused

    roundings, rest = cuda_fused.chain(count)
    return (1 + value) * ((roundings + 3) * U * (1 + 1e-3) + rest) + value


def _norm(rows: torch.Tensor) -> float:
    return 1.001 * math.sqrt(float((rows * rows).sum(dim=1).max()))


def check_device(device: str) -> None:
    """Refuse a device that is not there, and say what to do."""
    try:
        import torch
    except ImportError as problem:
        raise InvalidInput(
            'The engine "cuda" needs PyTorch: pip install "bondic[cuda]", or use engine="auto", which needs no GPU.'
        ) from problem
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise InvalidInput(
            'The engine "cuda" needs an NVIDIA GPU that PyTorch can use, and there is none here (torch.cuda.is_available() is '
            'False). Use engine="auto", which computes the same numbers on processors.'
        )
