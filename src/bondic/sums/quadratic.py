"""The interface of exact kernel sums: c^T K c and K C, each with a proved error (section 11).

Every engine returns block totals with a known relative summation error; this module adds what comes from the
kernel values and from the weights:

    | computed - exact | <= sum_terms sum_p m_p^2 ( value error + K_max ( 2 e_c + e_c^2 + summation error ) ),

m_p the sum of absolute weights of embedded column p and e_c the relative error of the weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.engines import choose, pairs, products
from bondic.engines.choose import Engine as Engine
from bondic.errors import InvalidInput
from bondic.kernels.accuracy import check_elementary_functions
from bondic.kernels.base import FeatureLeaf
from bondic.kernels.gaussian import Gaussian
from bondic.kernels.normal_form import Term
from bondic.rounding import TINY, Enclosure, U, certified_sum, inflate, upper_sum
from bondic.sums import reference
from bondic.sums.merge import merge_points
from bondic.sums.reference import Progress

FloatArray = npt.NDArray[np.float64]


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
    options: dict[str, Any] = {"weight_error": weight_error, "engine": engine, "progress": progress}
    return quadratic_forms(terms, points, weights[None], **options)[0]


def quadratic_forms(
    terms: tuple[Term, ...],
    points: FloatArray,
    groups: FloatArray,
    *,
    weight_error: float = 0.0,
    engine: Engine = "auto",
    progress: Progress | None = None,
) -> list[Enclosure]:
    """The same for several weightings of the same points in one pass; groups (G, N, slots)."""
    check_finite(points, groups)
    check_elementary_functions()
    count, _, slots = groups.shape
    carrying = np.any(groups != 0.0, axis=(0, 2))  # points without weight add exactly nothing
    if not carrying.any():
        return [Enclosure(0.0)] * count
    side_by_side = groups[:, carrying].transpose(1, 0, 2).reshape(-1, count * slots)
    distinct, merged, merge_error = merge_points(points[carrying], side_by_side)
    merged = merged.reshape(-1, count, slots)
    relative = weight_error + merge_error + (slots + 8) * U
    totals = [Enclosure(0.0)] * count
    for term in terms:
        values = _term_values(term, distinct, merged, engine, progress)
        size, _ = term.bounds(distinct, distinct)
        for g, value in enumerate(values):
            # absolute weights before merging: cancellation in a merged weight must not hide its error
            spread = _mass_square(groups[g], term) * size * (2 * relative + relative**2)
            totals[g] = totals[g] + Enclosure(
                value.mid, inflate(value.rad + spread + points.shape[0] * max(1.0, size) * TINY)
            )
    return totals


def _mass_square(weights: FloatArray, term: Term) -> float:
    """sum_p ( sum_i sum_a |v_ia| |E_ap| )^2, rounded up; an embedding may cancel, its roundings do not."""
    mass = np.array([upper_sum(np.abs(weights[:, slot])) for slot in range(weights.shape[1])]) @ np.abs(term.embedding)
    return inflate(float(mass @ mass) * (1 + 1e-12))


def _term_values(
    term: Term, points: FloatArray, weights: FloatArray, engine: Engine, progress: Progress | None
) -> list[Enclosure]:
    """One term for every group (N, G, slots), with the errors of kernel values and sums; weights taken as exact."""
    columns = np.ascontiguousarray(term.columns(weights))  # (N, G, p)
    count, groups, width = columns.shape
    squares = [_mass_square(weights[:, g], term) for g in range(groups)]
    size, error = term.bounds(points, points)
    flat = columns.reshape(count, groups * width)
    if not term.factors:
        sums = np.array([certified_sum(flat[:, c]).mid for c in range(groups * width)])
        return _gather(term.coefficient * sums[None] * sums, groups, [s * size * 8 * U for s in squares])
    if len(term.factors) == 1 and isinstance(term.factors[0][0], FeatureLeaf):
        totals, summation = _feature_sums(term, points, flat)
        return _gather(totals, groups, [s * (error + size * summation) for s in squares])
    planned = products.plan(term, points) if engine != "numpy" else None
    if planned is None:
        totals = reference.block_sums(term, points, flat, progress)
        return _gather(totals, groups, [s * (error + size * reference.sum_error(count)) for s in squares])
    gaussian = as_gaussian(term)
    if gaussian is None:
        totals = term.coefficient * products.block_sums(planned, points, flat, progress)
        relative = planned.bounds(points, points)[1] + size * (pairs.sum_error(count) + 2 * U)
        return _gather(totals, groups, [s * relative for s in squares])
    axes, scales = gaussian
    quick = choose.gaussian_forms(points[:, axes], scales, flat, groups, engine, progress)
    if quick is not None:
        return [Enclosure(term.coefficient) * value for value in quick]
    totals = term.coefficient * pairs.block_sums(points[:, axes], scales, flat, progress)
    relative = term.coefficient * pairs.value_error(len(axes)) + size * (pairs.sum_error(count) + 2 * U)
    return _gather(totals, groups, [s * relative for s in squares])


def _gather(totals: FloatArray, groups: int, spreads: list[float]) -> list[Enclosure]:
    """Block totals (blocks, G * p) -> one enclosure per group, blocks and columns added exactly."""
    out = []
    for part, spread in zip(np.split(totals, groups, axis=1), spreads, strict=True):
        value = certified_sum(np.ascontiguousarray(part))
        out.append(Enclosure(value.mid, inflate(value.rad + spread)))
    return out


def term_columns(term: Term, points: FloatArray, columns: FloatArray, engine: Engine = "auto") -> list[Enclosure]:
    """u_c^T K u_c of one term for every embedded column (N, C), by direct sums; columns are taken as exact."""
    planned = products.plan(term, points) if engine != "numpy" else None
    count, (size, error) = points.shape[0], term.bounds(points, points)
    if planned is None:
        totals = reference.block_sums(term, points, columns)
        relative = error + size * reference.sum_error(count)
    else:
        totals = term.coefficient * products.block_sums(planned, points, columns)
        relative = planned.bounds(points, points)[1] + size * (pairs.sum_error(count) + 2 * U)
    masses = [upper_sum(np.abs(columns[:, c])) for c in range(columns.shape[1])]
    underflow = count * max(1.0, size) * TINY
    return _gather(totals, columns.shape[1], [mass * mass * relative + underflow for mass in masses])


def cross_columns(
    term: Term, x: FloatArray, y: FloatArray, columns: FloatArray, engine: Engine = "auto"
) -> tuple[FloatArray, float]:
    """K(x, y) C of one term, and the error of an entry relative to the sum of absolute weights of its column."""
    planned = products.plan(term, y) if engine != "numpy" else None
    size, error = term.bounds(x, y)
    if planned is None:
        blocks = reference.COLUMNS + y.shape[0] // reference.COLUMNS
        return reference.cross_sums(term, x, y, columns), error + size * (blocks + 16) * U
    values = term.coefficient * products.cross_sums(planned, x, y, columns)
    error = max(error, planned.bounds(x, y)[1])
    return values, error + size * (pairs.TILE + y.shape[0] // pairs.TILE + 16) * U


def _feature_sums(term: Term, points: FloatArray, columns: FloatArray) -> tuple[FloatArray, float]:
    """|sum_i u_i phi(z_i)|^2 per column, linear in the number of points; (totals (1, p), relative summation error)."""
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
    return term.coefficient * np.sum(embedded * embedded, axis=1)[None], summation


def as_gaussian(term: Term) -> tuple[list[int], FloatArray] | None:
    """A product of Gaussians is one Gaussian on the joined columns."""
    return products.joined(term.factors) if all(isinstance(leaf, Gaussian) for leaf, _ in term.factors) else None


def evaluate(
    terms: tuple[Term, ...], x: FloatArray, y: FloatArray, weights: FloatArray, *, engine: Engine = "auto"
) -> tuple[FloatArray, float]:
    """f(x_i, a) = sum_j sum_b k((x_i, a), (y_j, b)) w_jb for every slot a: values (m, slots) and their error.

    The weights are taken as exact: they define the function.
    """
    check_finite(x, weights)
    check_finite(y, weights)
    check_elementary_functions()
    slots = weights.shape[1]
    values, error = np.zeros((x.shape[0], slots)), 0.0
    mass = np.array([upper_sum(np.abs(weights[:, slot])) for slot in range(slots)])
    for term in terms:
        columns = np.ascontiguousarray(term.columns(weights))
        size, value_error = term.bounds(x, y)
        planned = products.plan(term, y) if term.factors and engine != "numpy" else None
        if not term.factors:
            sums = np.array([certified_sum(columns[:, p]).mid for p in range(columns.shape[1])])
            part = np.broadcast_to(term.coefficient * sums, (x.shape[0], columns.shape[1]))
            blocks = 1
        elif planned is None:
            part = reference.cross_sums(term, x, y, columns)
            blocks = reference.COLUMNS + y.shape[0] // reference.COLUMNS
        else:
            part = term.coefficient * products.cross_sums(planned, x, y, columns)
            value_error = max(value_error, planned.bounds(x, y)[1])
            blocks = pairs.TILE + y.shape[0] // pairs.TILE
        values = values + part @ term.embedding.T
        column_mass = float((mass @ np.abs(term.embedding)).sum()) * float(np.abs(term.embedding).max())
        # every term is added to at most len(terms) others
        roundings = (blocks + 2 * slots + term.embedding.shape[1] + len(terms) + 16) * U
        underflow = (y.shape[0] + 16) * max(1.0, size) * max(1.0, float(np.abs(term.embedding).max())) * TINY
        error += column_mass * (value_error + size * roundings) + underflow
    return values, inflate(error * (1 + (len(terms) + 2) * U))


def check_finite(points: FloatArray, weights: FloatArray) -> None:
    """Non-finite numbers end here, with their row."""
    if not np.all(np.isfinite(points)):
        row = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
        raise InvalidInput(f"Point {row} of a kernel sum is not finite: {points[row]}.")
    if not np.all(np.isfinite(weights)):
        raise InvalidInput("A weight of a kernel sum is not finite.")
