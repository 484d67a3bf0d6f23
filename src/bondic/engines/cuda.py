"""All pairs on a GPU: the pair engine's recipes, by Triton where a term is Gaussian, by tiles of torch elsewhere.

In float64 every step is the one of the compiled engine, and so is its error. In float32, with u = 2^-24 and coordinates
that are scaled, centered and at most c in size,

    | computed - 2^-t | <= ( 1.43 c sqrt(d) + 0.37 (d + 4) + 8 ) u (1 + 1e-3) + 2^-100,

since | t - computed t | <= 4 u c sqrt(d t) + (d + 4) u t, sup sqrt(t) 2^-t <= 0.516, sup t 2^-t <= 0.531, and 2^t of the
chip is good to 2^-22 = 4 u, which is checked for every number of a GPU before it is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

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

Precision = Literal["float64", "float32"]
IntArray = npt.NDArray[np.int64]

U32 = 2.0**-24
SINGLE_EXP = 2.0**-22
"""Relative error of 2^t in float32."""
_MAX_SINGLE = 1e4
"""Largest scaled coordinate of the float32 engine: beyond, nothing would be left of its digits."""
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
    precision : "float64" or "float32", default "float64"
        Of coordinates and kernel values. float32 is three times as fast, does Gaussian terms alone, and its error of a few
        1e-6 of the squared mass of the weights widens an interval.
    device : str, default "cuda"
        A device of torch; "cpu" computes the same sums without a GPU, slowly.
    """

    block = 2**20

    def __init__(self, precision: Precision = "float64", device: str = "cuda") -> None:
        if precision not in ("float64", "float32"):
            raise InvalidInput(f"The precision of a GPU engine is float64 or float32, not {precision!r}.")
        self.precision, self.device = precision, device
        self.name = "cuda" if precision == "float64" else "cuda32"
        check_device(device)

    def __reduce__(self) -> tuple[type[Cuda], tuple[str, str]]:
        """Made anew in another process, which may lack the device."""
        return type(self), (self.precision, self.device)

    @property
    def single(self) -> bool:
        return self.precision == "float32"

    def cost(self, term: Term, survey: Survey) -> float | None:
        planned = plan(term, survey.points)
        if planned is None or ((gaussian := planned.gaussian()) is None and self.single):
            return None
        if gaussian is not None and not self._fits(survey.points[:, gaussian[0]], gaussian[1]):
            return None
        return 0.5 * survey.count * survey.count * (9.0 + survey.width) / _GAIN

    def _fits(self, points: FloatArray, scales: FloatArray) -> bool:
        half = 0.5 * np.ptp(points, axis=0) * (HALF_LOG2E / scales) if len(points) else np.zeros(1)
        return bool(half.max() <= self._farthest)

    @property
    def _farthest(self) -> float:
        return _MAX_SINGLE if self.single else _MAX_SCALED

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
        value = self._value_error(rows)
        if self.device.startswith("cuda") and width <= _MAX_FUSED:
            from bondic.engines import cuda_fused

            weights, powers = self._weights(columns)
            cut = 4 * _norm(rows) ** 2 > power.LARGEST
            totals = cuda_fused.symmetric(self._rounded(rows), weights, cut=cut, report=report)
            return np.ldexp(totals, 2 * powers), self._fused_error(value, count)
        totals = cuda_tiles.symmetric(
            self._rounded(rows), _squares(scales.size), self._put(columns), self._side, report
        )
        return totals, value + (1 + value) * (2 * self._side + 16) * U

    def _weights(self, columns: FloatArray) -> tuple[torch.Tensor, IntArray]:
        """Columns on the device, in float32 with largest entries of about 1; the powers of two that were taken out."""
        shrunk, powers = _shrunk(columns) if self.single else (columns, np.zeros(columns.shape[1], dtype=np.int64))
        return self._rounded(self._put(shrunk)), powers

    def _fused_error(self, value: float, count: int) -> float:
        """Of fused sums over so many points, per product of masses; `value` is the error of a kernel value."""
        from bondic.engines import cuda_fused

        roundings, rest = cuda_fused.chain(count)
        unit = U32 if self.single else U
        # float32: both weights are rounded, and those below 2^-126 of the largest one vanish
        extra = (roundings + 3) * unit * (1 + 1e-3) + rest + (count * 2.0**-100 if self.single else 0.0)
        return (1 + value) * extra + value

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
        value = max(self._value_error(part) for part in rows)
        cut = 4 * max(_norm(part) for part in rows) ** 2 > power.LARGEST
        (left, powers), (right, more) = self._weights(u), self._weights(v)
        mine, theirs = map(self._rounded, rows)
        totals = np.ldexp(cuda_fused.between((mine, theirs), (left, right), cut=cut), powers + more)
        error = term.coefficient * self._fused_error(value, len(points) + len(others))
        size = term.bounds(points, others)[0]
        return Share(term.coefficient * totals, inflate(error + 4 * size * U))

    def cross(self, term: Term, x: FloatArray, y: FloatArray, columns: FloatArray, executor: Threads) -> Crossed | None:
        del executor
        planned = plan(term, y)
        if planned is None or (self.single and planned.gaussian() is None):
            return None
        out = np.zeros((x.shape[0], columns.shape[1]))
        mine, others = planned.alive(x), planned.alive(y)
        x, y, columns = x[mine], y[others], columns[others]
        roundings = self._side + 2 + y.shape[0] // self._side
        if not (len(x) and len(y)):
            return Crossed(out, 0.0, roundings)
        recipe, rows, error = self._operands(planned, x, y)
        rows_x, rows_y = map(self._rounded, rows)
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
        error = max(self._value_error(part) for part in rows)
        return _squares(scales.size), rows, planned.coefficient * (1 + 4 * U) * error

    def _near(self, points: tuple[FloatArray, ...], scales: FloatArray) -> tuple[torch.Tensor, ...]:
        """Centered and scaled coordinates in float64: k = 2^-|x - y|^2."""
        low, high = (np.array([edge(part, axis=0) for part in points]) for edge in (np.min, np.max))
        center, factors = 0.5 * low.min(axis=0) + 0.5 * high.max(axis=0), HALF_LOG2E / scales
        rows = tuple((self._put(part) - self._put(center)) * self._put(factors) for part in points)
        if not (far := max(_largest(part) for part in rows)) <= self._farthest:
            raise InvalidInput(
                f"Points are {far:.2g} bandwidths from their center, too far for {self.precision} on a GPU. Use "
                f'{"precision float64, or " if self.single else ""}engine="pairs".'
            )
        return rows

    def _value_error(self, rows: torch.Tensor) -> float:
        """Of 2^-t for scaled, centered coordinates."""
        axes = rows.shape[1]
        if not self.single:
            return value_error(axes) + _NEAR_COST * _norm(rows) * U
        check_single(self.device)
        units = 1.43 * _largest(rows) * math.sqrt(axes) + 0.37 * (axes + 4) + 8
        return float(units * U32 * (1 + 1e-3) + 2.0**-100)

    @property
    def _side(self) -> int:
        return cuda_tiles.SIDE if self.device.startswith("cuda") else cuda_tiles.SMALL_SIDE

    def _put(self, rows: FloatArray) -> torch.Tensor:
        import torch

        return torch.as_tensor(np.ascontiguousarray(rows)).to(self.device)

    def _rounded(self, rows: torch.Tensor) -> torch.Tensor:
        """In the precision of the engine."""
        return rows.float() if self.single else rows


def _squares(axes: int) -> Recipe:
    return Recipe(np.array([NEAR]), np.array([axes]), np.ones(axes))


def _largest(rows: torch.Tensor) -> float:
    return float(rows.abs().max()) * (1 + 4 * U)


def _norm(rows: torch.Tensor) -> float:
    return 1.001 * math.sqrt(float((rows * rows).sum(dim=1).max()))


def _shrunk(columns: FloatArray) -> tuple[FloatArray, IntArray]:
    """Every column times a power of two, so that its largest weight is about 1; the powers."""
    largest = np.abs(columns).max(axis=0)
    powers = np.where(largest > 0, np.frexp(np.maximum(largest, np.finfo(float).tiny))[1], 0).astype(np.int64)
    return np.ldexp(columns, -powers), powers


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


@cache
def check_single(device: str) -> None:
    """2^t in float32 against float64: for every float32 that matters on a GPU, for one in 997 elsewhere."""
    import torch

    functions = [cuda_tiles.power_of_two]
    if device.startswith("cuda"):
        from bondic.engines import cuda_fused

        functions.append(cuda_fused.power_of_two)
    low, high = (int(torch.tensor(edge, dtype=torch.float32).view(torch.int32).item()) for edge in (2.0**-30, 127.0))
    stride = 1 if len(functions) == 2 else 997
    for start in range(low, high, 2**24):
        bits = torch.arange(start, min(start + 2**24, high), stride, dtype=torch.int32, device=device)
        t = -bits.view(torch.float32)
        exact = torch.exp2(t.to(torch.float64))
        for function in functions:
            off = float((((function(t).to(torch.float64) - exact).abs() - 2.0**-126) / exact).max())
            if not off <= SINGLE_EXP:
                raise InvalidInput(
                    f"2^t in float32 is off by {off:.1e} on this device, more than the {SINGLE_EXP:.1e} that is charged. Use "
                    "float64."
                )
