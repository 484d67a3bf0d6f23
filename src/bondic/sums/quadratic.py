"""The interface of exact kernel sums: c^T K c and K C, each with a proved error (section 11).

Every engine returns block totals with a known relative summation error; this module adds what comes from the
kernel values and from the weights:

    | computed - exact | <= sum_terms sum_p m_p^2 ( value error + K_max ( 2 e_c + e_c^2 + summation error ) ),

m_p the sum of absolute weights of embedded column p and e_c the relative error of the weights.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from bondic.errors import InvalidInput
from bondic.kernels.accuracy import check_elementary_functions
from bondic.kernels.base import FeatureLeaf, per_dimension
from bondic.kernels.gaussian import Gaussian
from bondic.kernels.normal_form import Term
from bondic.rounding import TINY, Enclosure, U, certified_sum, inflate, upper_sum
from bondic.sums import pairs, reference
from bondic.sums.merge import merge_points
from bondic.sums.reference import Progress

FloatArray = npt.NDArray[np.float64]
Engine = Literal["auto", "numpy"]


def quadratic_form(
    terms: tuple[Term, ...],
    points: FloatArray,
    weights: FloatArray,
    *,
    weight_error: float = 0.0,
    engine: Engine = "auto",
    progress: Progress | None = None,
) -> Enclosure:
    """sum_{i,j,a,b} v_ia k((z_i, a), (z_j, b)) v_jb with its error; points (N, D), weights v (N, slots)."""
    _check_finite(points, weights)
    check_elementary_functions()
    distinct, merged, merge_error = merge_points(points, weights)
    # `mass` bounds the absolute weights before merging: cancellation in a merged weight must not hide its error
    mass = np.array([upper_sum(np.abs(weights[:, slot])) for slot in range(weights.shape[1])])
    relative = weight_error + merge_error + (weights.shape[1] + 8) * U
    total = Enclosure(0.0)
    for term in terms:
        totals, engine_error, summation = _term_sums(term, distinct, merged, engine, progress)
        size, numpy_error = term.bounds(distinct, distinct)
        error = max(engine_error * term.coefficient, numpy_error)
        column_mass = mass @ np.abs(term.embedding)
        square = inflate(float(column_mass @ column_mass) * (1 + 1e-12))
        spread = square * (error + size * (2 * relative + relative**2 + summation))
        value = certified_sum(totals)
        total = total + Enclosure(value.mid, inflate(value.rad + spread + points.shape[0] * TINY))
    return total


def _term_sums(
    term: Term, points: FloatArray, weights: FloatArray, engine: Engine, progress: Progress | None
) -> tuple[list[float], float, float]:
    """(block totals, value error of the engine, relative summation error)."""
    columns = np.ascontiguousarray(term.columns(weights))
    if not term.factors:
        sums = [certified_sum(columns[:, p]).mid for p in range(columns.shape[1])]
        return [term.coefficient * value * value for value in sums], 0.0, 8 * U
    if len(term.factors) == 1 and isinstance(term.factors[0][0], FeatureLeaf):
        return _feature_sums(term, points, columns)
    merged = _as_gaussian(term) if engine == "auto" else None
    if merged is None:
        return reference.block_sums(term, points, columns, progress), 0.0, reference.sum_error(*columns.shape)
    axes, scales = merged
    totals = pairs.block_sums(points[:, axes], scales, columns, progress)
    error = pairs.value_error(len(axes))
    return [term.coefficient * value for value in totals], error, pairs.sum_error(*columns.shape) + 2 * U


def _feature_sums(term: Term, points: FloatArray, columns: FloatArray) -> tuple[list[float], float, float]:
    """|sum_i u_i phi(z_i)|^2 per column: linear in the number of points."""
    leaf, axes = term.factors[0]
    assert isinstance(leaf, FeatureLeaf)
    step = reference.COLUMNS
    parts = [
        columns[top : top + step].T @ leaf.features(points[top : top + step][:, axes])
        for top in range(0, points.shape[0], step)
    ]
    embedded = np.sum(np.array(parts), axis=0)
    # vector sums of blocks in sequence: (block + number of blocks) roundings, twice because it is squared
    summation = 2.02 * (step + len(parts) + 8 + embedded.shape[1]) * U * np.sqrt(embedded.shape[1])
    return [term.coefficient * float(np.sum(embedded * embedded))], 0.0, summation


def _as_gaussian(term: Term) -> tuple[list[int], FloatArray] | None:
    """A product of Gaussians is one Gaussian on the joined columns."""
    axes: list[int] = []
    scales: list[FloatArray] = []
    for leaf, columns in term.factors:
        if not isinstance(leaf, Gaussian):
            return None
        axes.extend(columns)
        scales.append(per_dimension(leaf.bandwidth, len(columns), "The Gaussian kernel"))
    return axes, np.concatenate(scales)


def evaluate(
    terms: tuple[Term, ...], x: FloatArray, y: FloatArray, weights: FloatArray, *, engine: Engine = "auto"
) -> tuple[FloatArray, float]:
    """f(x_i, a) = sum_j sum_b k((x_i, a), (y_j, b)) w_jb for every slot a: values (m, slots) and their error.

    The weights are taken as exact: they define the function.
    """
    _check_finite(x, weights)
    _check_finite(y, weights)
    check_elementary_functions()
    slots = weights.shape[1]
    values, error = np.zeros((x.shape[0], slots)), 0.0
    mass = np.array([upper_sum(np.abs(weights[:, slot])) for slot in range(slots)])
    for term in terms:
        columns = np.ascontiguousarray(term.columns(weights))
        size, value_error = term.bounds(x, y)
        merged = _as_gaussian(term) if term.factors and engine == "auto" else None
        if not term.factors:
            sums = np.array([certified_sum(columns[:, p]).mid for p in range(columns.shape[1])])
            part = np.broadcast_to(term.coefficient * sums, (x.shape[0], columns.shape[1]))
            blocks = 1
        elif merged is None:
            part = reference.cross_sums(term, x, y, columns)
            blocks = reference.COLUMNS + y.shape[0] // reference.COLUMNS
        else:
            axes, scales = merged
            part = term.coefficient * pairs.cross_sums(x[:, axes], y[:, axes], scales, columns)
            value_error = max(value_error, term.coefficient * pairs.value_error(len(axes)))
            blocks = pairs.TILE + y.shape[0] // pairs.TILE
        values = values + part @ term.embedding.T
        column_mass = float((mass @ np.abs(term.embedding)).sum()) * float(np.abs(term.embedding).max())
        roundings = (blocks + 2 * slots + term.embedding.shape[1] + 16) * U
        error += column_mass * (value_error + size * roundings)
    return values, inflate(error * (1 + (len(terms) + 2) * U))


def _check_finite(points: FloatArray, weights: FloatArray) -> None:
    if not np.all(np.isfinite(points)):
        row = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
        raise InvalidInput(f"Point {row} of a kernel sum is not finite: {points[row]}.")
    if not np.all(np.isfinite(weights)):
        raise InvalidInput("A weight of a kernel sum is not finite.")
