"""The engines by name.

| engine | cost in units of a pair and a weight column | good for |
|---|---|---|
| constant, features | n | terms whose sums are linear in the points: constants, single leaves with explicit features |
| pairs | n^2 / 2 | everything else |
| cuda | n^2 / 2 on a GPU | everything, where there is one and it is named |

The cheapest is taken; that decides cost and radius, every engine encloses the same numbers.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Literal, Self, get_args

import numpy as np

from bondic.core.bounded import FloatArray, U, certified_sum
from bondic.core.errors import InvalidInput
from bondic.core.kernels.base import FeatureLeaf
from bondic.core.kernels.normal_form import Term
from bondic.core.sums.forms import Crossed, Share
from bondic.engines.engine import Engine, Partial, Serializable, Survey
from bondic.engines.spool import NumpyPairs
from bondic.engines.threads import Threads

BLOCK = 2048


class Constants(Engine):
    """coefficient * ( sum_i u_i )^2."""

    name = "constant"

    def cost(self, term: Term, survey: Survey) -> float | None:
        return None if term.factors else float(survey.count)

    def begin(self, term: Term, survey: Survey) -> Partial:
        return _ConstantSum(term, survey.width)

    def cross(self, term: Term, x: FloatArray, y: FloatArray, columns: FloatArray, executor: Threads) -> Crossed | None:
        del y, executor
        if term.factors:
            return None
        sums = term.coefficient * _totals(columns)
        return Crossed(np.broadcast_to(sums, (x.shape[0], sums.size)), 0.0, 1)


def _totals(columns: FloatArray) -> FloatArray:
    return np.array([certified_sum(columns[:, c]).mid for c in range(columns.shape[1])])


class _ConstantSum(Serializable):
    def __init__(self, term: Term, width: int) -> None:
        self._term, self._width = term, width
        self._sums: list[FloatArray] = []  # of every batch

    def add(self, points: FloatArray, columns: FloatArray) -> None:
        del points
        self._sums.append(_totals(columns))

    def fork(self) -> Self:
        return type(self)(self._term, self._width)

    def merge(self, other: Self) -> None:
        self._sums += other._sums

    def value(self) -> Share:
        """Two roundings of each sum, twice because it is squared; two products."""
        sums = _totals(np.array(self._sums).reshape(-1, self._width))
        return Share(self._term.coefficient * sums[None] * sums, self._term.coefficient * (1 + 1e-12) * 8 * U)


class Features(Engine):
    """coefficient * | sum_i u_i phi(z_i) |^2."""

    name = "features"

    def cost(self, term: Term, survey: Survey) -> float | None:
        single = len(term.factors) == 1 and isinstance(term.factors[0][0], FeatureLeaf)
        return float(survey.count) if single else None

    def begin(self, term: Term, survey: Survey) -> Partial:
        return _FeatureSum(term, survey.width)


class _FeatureSum(Serializable):
    def __init__(self, term: Term, width: int) -> None:
        self._term, self._width = term, width
        self._embedded: FloatArray | None = None
        self._blocks, self._size, self._error = 0, 0.0, 0.0

    def add(self, points: FloatArray, columns: FloatArray) -> None:
        leaf, axes = self._term.factors[0]
        assert isinstance(leaf, FeatureLeaf)
        self._raise(*self._term.bounds(points, points))
        for top in range(0, points.shape[0], BLOCK):
            cut = slice(top, top + BLOCK)
            self._gather(columns[cut].T @ leaf.features(points[cut][:, axes]), 1)

    def _raise(self, size: float, error: float) -> None:
        self._size, self._error = max(self._size, size), max(self._error, error)

    def _gather(self, part: FloatArray, blocks: int) -> None:
        self._embedded = part if self._embedded is None else self._embedded + part
        self._blocks += blocks

    def fork(self) -> Self:
        return type(self)(self._term, self._width)

    def merge(self, other: Self) -> None:
        if other._embedded is not None:
            self._raise(other._size, other._error)
            self._gather(other._embedded, other._blocks)

    def value(self) -> Share:
        """Blocks are added in sequence: (block + number of blocks) roundings, twice because it is squared."""
        if self._embedded is None:
            return Share(np.zeros((1, self._width)), 0.0)
        dimension = self._embedded.shape[1]
        summation = 2.02 * (BLOCK + self._blocks + 8 + dimension) * U * np.sqrt(dimension)
        totals = self._term.coefficient * np.sum(self._embedded * self._embedded, axis=1)[None]
        return Share(totals, float(self._error + self._size * summation))


EngineName = Literal["auto", "pairs", "reference", "cuda"]
"""How sums over pairs are made: `auto` and `pairs` by compiled code, `reference` from the definition, slow; `cuda` on a GPU
(extra cuda).
"""


def check_name(name: str) -> None:
    if name not in get_args(EngineName):
        raise InvalidInput(f"An engine is one of {', '.join(get_args(EngineName))}, not {name!r}.")


@cache
def named_engines(name: str) -> tuple[Engine, ...]:
    """Those that a name stands for, imported when a sum first needs them; the cheapest of them is taken."""
    check_name(name)
    if name == "reference":
        return (Constants(), Features(), NumpyPairs())
    if name == "cuda":
        from bondic.engines.cuda import Cuda  # needs torch, and nothing that is compiled here

        return (Constants(), Features(), Cuda(), NumpyPairs())
    if name == "auto" and not _compiles():
        return _without_numba()
    from bondic.engines.products import Pairs

    return (Constants(), Features(), Pairs(), NumpyPairs())


def _compiles() -> bool:
    try:
        return find_spec("numba") is not None
    except ValueError:  # sys.modules holds None in its place
        return False


def _without_numba() -> tuple[Engine, ...]:
    """A machine that has NumPy, SciPy and perhaps torch: its GPU, or the definition."""
    try:
        return named_engines("cuda")
    except InvalidInput:
        return named_engines("reference")
