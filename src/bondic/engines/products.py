"""All pairs of a product of leaves (module recipes), compiled: the pair engine with points sorted, masked, and errors named."""

from __future__ import annotations

import numpy as np

from bondic.core.bounded import FloatArray, U
from bondic.core.kernels.normal_form import Term
from bondic.core.sums.forms import Crossed, Progress, Share
from bondic.engines import pairs
from bondic.engines.engine import Survey
from bondic.engines.pairs import ALL_CORES
from bondic.engines.recipes import ProductPlan, certain, joined_gaussian, plan, value_error
from bondic.engines.recipes import labels as labels_of
from bondic.engines.spool import Direct
from bondic.engines.threads import Threads


def block_sums(
    planned: ProductPlan,
    points: FloatArray,
    columns: FloatArray,
    *,
    executor: Threads = ALL_CORES,
    progress: Progress | None = None,
) -> FloatArray:
    """Totals of u_ip k(z_i, z_j) u_jp over tiles, without the coefficient: (tiles, columns)."""
    keep = planned.alive(points)
    points, columns = (points, columns) if keep.all() else (points[keep], columns[keep])
    gaussian = planned.gaussian()
    if gaussian is not None:
        return pairs.block_sums(points[:, gaussian[0]], gaussian[1], columns, executor=executor, progress=progress)
    if not planned.equal:
        recipe, rows = planned.recipe(points, None)
        return pairs.symmetric(rows, recipe, columns, executor=executor, progress=progress)
    (labels,) = labels_of(planned.equal, points)
    order = np.argsort(labels, kind="stable")
    labels, points, columns = labels[order], points[order], columns[order]
    recipe, rows = planned.recipe(points, labels)
    stops = np.searchsorted(labels, labels, side="right")
    return pairs.symmetric(rows, recipe, columns, stops, executor=executor, progress=progress)


def cross_sums(
    planned: ProductPlan, x: FloatArray, y: FloatArray, columns: FloatArray, *, executor: Threads = ALL_CORES
) -> FloatArray:
    """K(x, y) C without the coefficient."""
    out = np.zeros((x.shape[0], columns.shape[1]))
    rows, others = planned.alive(x), planned.alive(y)
    x, y, columns = x[rows], y[others], columns[others]
    if len(x) == 0 or len(y) == 0:
        return out
    gaussian = planned.gaussian()
    if gaussian is not None:
        axes, scales = gaussian
        out[rows] = pairs.cross_sums(x[:, axes], y[:, axes], scales, columns, executor=executor)
        return out
    if not planned.equal:
        recipe, rows_x = planned.recipe(x, None)
        out[rows] = pairs.crossed(rows_x, planned.recipe(y, None)[1], recipe, columns, executor=executor)
        return out
    labels_x, labels_y = labels_of(planned.equal, x, y)
    order_x, order_y = np.argsort(labels_x, kind="stable"), np.argsort(labels_y, kind="stable")
    labels_x, labels_y = labels_x[order_x], labels_y[order_y]
    recipe, rows_x = planned.recipe(x[order_x], labels_x)
    rows_y = planned.recipe(y[order_y], labels_y)[1]
    limits = np.searchsorted(labels_y, labels_x, side="left"), np.searchsorted(labels_y, labels_x, side="right")
    out[np.flatnonzero(rows)[order_x]] = pairs.crossed(
        rows_x, rows_y, recipe, columns[order_y], limits, executor=executor
    )
    return out


class Pairs(Direct):
    """All pairs, compiled."""

    name = "pairs"

    def cost(self, term: Term, survey: Survey) -> float | None:
        return None if plan(term, survey.points) is None else pairs.pair_cost(survey.count, survey.width)

    def own(
        self, term: Term, points: FloatArray, columns: FloatArray, executor: Threads, progress: Progress | None = None
    ) -> Share:
        planned, size = certain(plan(term, points)), term.bounds(points, points)[0]
        totals = term.coefficient * block_sums(planned, points, columns, executor=executor, progress=progress)
        gaussian = joined_gaussian(term.factors)
        error = planned.bounds(points, points)[1]
        if gaussian is not None:
            error = term.coefficient * value_error(len(gaussian[0]))
        return Share(totals, error + size * (pairs.sum_error(points.shape[0]) + 2 * U))

    def cross(self, term: Term, x: FloatArray, y: FloatArray, columns: FloatArray, executor: Threads) -> Crossed | None:
        planned = plan(term, y)
        if planned is None:
            return None
        values = term.coefficient * cross_sums(planned, x, y, columns, executor=executor)
        return Crossed(values, planned.bounds(x, y)[1], pairs.TILE + y.shape[0] // pairs.TILE)
