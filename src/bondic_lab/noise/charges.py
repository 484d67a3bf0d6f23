"""Sums over the logged rows that a noise bound may ask for; each is read off the log once.

sum_i B_i^2 k(x_i, x_i), the same for every feature of W's kernel, and V = sum_i B_i^2 phi_i phi_i^T. None of them depends on
rewards or next states.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import U
from bondic.core.dual.noise import NoiseFacts, charge, once, weighted_rows
from bondic.core.functions import FeatureMap, term_feature_bounds, term_features
from bondic.core.kernels.normal_form import Term
from bondic_lab.noise.information import Information, read_information

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
T = TypeVar("T")

_BLOCK = 4096


@once
def feature_charges(facts: NoiseFacts) -> FloatArray:
    """sum_i B_i^2 phi_j(x_i)^2 for every feature of W's kernel, rounded up; InvalidInput if it has no list of features."""
    features = FeatureMap(facts.kernel, facts.layout)
    total = np.zeros(features.dimension)
    for points, slots, widths in weighted_rows(facts):
        for top in range(0, points.shape[0], _BLOCK):
            some = slice(top, top + _BLOCK)
            squares = [_squares(term, points[some], slots[some], widths[some]) for term in features.terms]
            total = (total + np.concatenate(squares)) * (1 + 2 * U)
    return total


@once
def information(facts: NoiseFacts) -> Information:
    """V = sum_i B_i^2 phi_i phi_i^T, phi_i = k(x_i, .), as far as it is known."""
    rows, trace = (lambda: weighted_rows(facts)), (lambda: charge(facts))
    return read_information(facts.kernel, facts.layout, rows, facts.count, trace)


def _squares(term: Term, points: FloatArray, slots: IntArray, widths: FloatArray) -> FloatArray:
    """sum_i B_i^2 phi_j(x_i)^2 for the features of a term, in the order of their coordinates, rounded up."""
    error, _ = term_feature_bounds(term, points)
    sizes = (np.abs(term_features(term, points)) + error) * widths[:, None]
    columns = term.embedding[slots]
    count = points.shape[0]
    total = (sizes * sizes).T @ (columns * columns)
    # count additions and a handful of products, each with its half ulp; what underflows is far below 1e-300
    return np.asarray(total.ravel() * (1 + 2 * (count + 16) * U) + 1e-300 * count)
