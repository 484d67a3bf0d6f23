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
from bondic.sums import pairs, reference, separable
from bondic.sums.merge import merge_points
from bondic.sums.reference import Progress

FloatArray = npt.NDArray[np.float64]
Engine = Literal["auto", "pairs", "numpy"]

_TOLERANCE = 1e-10
"""First aim of the separable engine, relative to (sum |u|)^2; refined when the result turns out to be small."""


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
    carrying = np.any(weights != 0.0, axis=1)  # points without weight add exactly nothing
    distinct, merged, merge_error = merge_points(points[carrying], weights[carrying])
    # `mass` bounds the absolute weights before merging: cancellation in a merged weight must not hide its error
    mass = np.array([upper_sum(np.abs(weights[:, slot])) for slot in range(weights.shape[1])])
    relative = weight_error + merge_error + (weights.shape[1] + 8) * U
    total = Enclosure(0.0)
    for term in terms if distinct.shape[0] else ():
        value = _term_value(term, distinct, merged, engine, progress)
        size, _ = term.bounds(distinct, distinct)
        column_mass = mass @ np.abs(term.embedding)
        square = inflate(float(column_mass @ column_mass) * (1 + 1e-12))
        spread = square * size * (2 * relative + relative**2)
        total = total + Enclosure(value.mid, inflate(value.rad + spread + points.shape[0] * TINY))
    return total


def _term_value(
    term: Term, points: FloatArray, weights: FloatArray, engine: Engine, progress: Progress | None
) -> Enclosure:
    """One term with the errors of kernel values and summation; its weights are taken as exact."""
    columns = np.ascontiguousarray(term.columns(weights))
    # slot weights, not embedded ones: an embedding may cancel, its roundings do not
    mass = np.array([upper_sum(np.abs(weights[:, slot])) for slot in range(weights.shape[1])]) @ np.abs(term.embedding)
    square = inflate(float(mass @ mass) * (1 + 1e-12))
    size, error = term.bounds(points, points)
    if not term.factors:
        sums = [certified_sum(columns[:, p]).mid for p in range(columns.shape[1])]
        return _with_error([term.coefficient * value * value for value in sums], square * size * 8 * U)
    if len(term.factors) == 1 and isinstance(term.factors[0][0], FeatureLeaf):
        totals, summation = _feature_sums(term, points, columns)
        return _with_error(totals, square * (error + size * summation))
    gaussian = _as_gaussian(term) if engine != "numpy" else None
    if gaussian is None:
        totals = reference.block_sums(term, points, columns, progress)
        return _with_error(totals, square * (error + size * reference.sum_error(*columns.shape)))
    axes, scales = gaussian
    if engine == "auto":
        quick = _separable(points[:, axes], scales, columns, progress)
        if quick is not None:
            return Enclosure(term.coefficient) * quick
    totals = [term.coefficient * value for value in pairs.block_sums(points[:, axes], scales, columns, progress)]
    value_error = term.coefficient * pairs.value_error(len(axes))
    return _with_error(totals, square * (value_error + size * (pairs.sum_error(*columns.shape) + 2 * U)))


def _with_error(totals: list[float], spread: float) -> Enclosure:
    value = certified_sum(totals)
    return Enclosure(value.mid, inflate(value.rad + spread))


def _separable(
    points: FloatArray, scales: FloatArray, columns: FloatArray, progress: Progress | None
) -> Enclosure | None:
    """The separable engine where it is cheaper than pairs and accurate enough for the result it gives."""
    count, width = columns.shape
    if count < 1000:
        return None
    scaled = (points - points.mean(axis=0)) / scales
    norms, masses = separable.squared_norms(scaled), np.abs(columns)
    size = float((masses.sum(axis=0) ** 2).sum())
    aim = _TOLERANCE * size
    for _ in range(2):
        plan = separable.make_plan(norms, masses, scaled.shape[1], aim)
        # relative costs per pair and per feature, measured by benchmarks/sums.py
        if plan is None or plan.features * (2.0 + width) > 0.5 * count * (6.0 + width):
            return None
        found = separable.quadratic(scaled, columns, norms, plan, progress)
        if found.rad <= 1e-4 * abs(found.mid) or aim <= 1e-13 * size:
            return found
        aim = max(1e-5 * abs(found.mid), 1e-13 * size)
    return None


def _feature_sums(term: Term, points: FloatArray, columns: FloatArray) -> tuple[list[float], float]:
    """|sum_i u_i phi(z_i)|^2 per column, linear in the number of points; (totals, relative summation error)."""
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
    return [term.coefficient * float(np.sum(embedded * embedded))], summation


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
        merged = _as_gaussian(term) if term.factors and engine != "numpy" else None
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
