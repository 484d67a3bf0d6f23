"""Look for witnesses against Q, one for each of its further tests; what is found is evaluated on all rows elsewhere."""

from __future__ import annotations

from bondic.bounds.dual import ClassTest, Setting
from bondic.classes.ball import Ball
from bondic.functions.functions import Function
from bondic.rows import Rows
from bondic.search.actions import Cap
from bondic.search.basis import Basis, capped_basis
from bondic.search.model import build_model
from bondic.search.search import KernelSearch

_MOST_ROWS = 10_000
"""Witnesses are looked for on this many of the certified rows."""
_RANK = 200
_CAP = Cap(800, 20)
_PROMISING = 0.5
"""A witness is evaluated on all rows if the rows it was found on show this share of what a rejection needs."""


def propose_refutations(setting: Setting) -> tuple[Function | None, ...]:
    """A witness per test; None where no q in Q is far from fitting."""
    if not setting.tests or not isinstance(setting.ball, Ball):
        return (None,) * len(setting.tests)
    rows = setting.problem.rows
    some = setting.problem.load(rows.start, rows.start + _MOST_ROWS)
    if some is None:
        return (None,) * len(setting.tests)
    values = capped_basis(setting.ball.kernel, some, some.some_points(_MOST_ROWS), rank=_RANK, cap=_CAP)
    return tuple(_witness(setting, test, values, some) for test in setting.tests)


def _witness(setting: Setting, test: ClassTest, values: Basis, some: Rows) -> Function | None:
    logged = some.whole().logged
    weights = capped_basis(test.instruments.kernel, some, logged, rank=_RANK, cap=_CAP, tolerance=1e-9)
    search = KernelSearch(build_model(some, weights, values, setting.ball.center))
    radius = setting.ball.radius
    if search.floor(radius) <= _PROMISING * setting.for_test(test).epsilon().upper:
        return None
    return search.floor_witness(radius)
