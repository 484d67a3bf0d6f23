"""Which search fits which Q and W."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bondic.core.balls import Ball
from bondic.core.dual.bound import Setting
from bondic.core.kernels.leaves import Dirac
from bondic.search.search import Search, kernel_search
from bondic.search.table import table_search, table_share

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
