"""Sums over the logged rows that a noise bound may ask for; each is read off the log once.

sum_i B_i^2 k(x_i, x_i), the same for every feature of W's kernel, and V = sum_i B_i^2 phi_i phi_i^T. None of them depends on
rewards or next states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import Enclosure, U, certified_dot
from bondic.core.dual.noise import NoiseFacts
from bondic.core.functions import FeatureMap, term_feature_bounds, term_features
from bondic.core.kernels.base import Kernel
from bondic.core.kernels.normal_form import Layout, Term, normal_form
from bondic.core.terms import row_widths
from bondic_lab.noise.information import Information, Weighted, read_information

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
T = TypeVar("T")

_BLOCK = 4096


def _once(compute: Callable[[NoiseFacts], T]) -> Callable[[NoiseFacts], T]:
    """The same number for the same facts, as long as they are in use."""
    known: WeakKeyDictionary[NoiseFacts, T] = WeakKeyDictionary()

    def read(facts: NoiseFacts) -> T:
        if facts not in known:
            known[facts] = compute(facts)
        return known[facts]

    return read


def _weighted(facts: NoiseFacts) -> Iterable[Weighted]:
    """Points, slots and widths B_i."""
    return ((x, slots, row_widths(facts.terms, times, x.shape[0])) for x, slots, times in facts.rows())


@_once
def charge(facts: NoiseFacts) -> Enclosure:
    """sum_i B_i^2 k(x_i, x_i)."""
    total = Enclosure(0.0)
    for points, slots, widths in _weighted(facts):
        diag = diagonal(facts.kernel, facts.layout, points, slots)
        total = total + certified_dot(widths * widths * (1 + 1e-15), diag)
    return total


@_once
def feature_charges(facts: NoiseFacts) -> FloatArray:
    """sum_i B_i^2 phi_j(x_i)^2 for every feature of W's kernel, rounded up; InvalidInput if it has no list of features."""
    features = FeatureMap(facts.kernel, facts.layout)
    total = np.zeros(features.dimension)
    for points, slots, widths in _weighted(facts):
        for top in range(0, points.shape[0], _BLOCK):
            some = slice(top, top + _BLOCK)
            squares = [_squares(term, points[some], slots[some], widths[some]) for term in features.terms]
            total = (total + np.concatenate(squares)) * (1 + 2 * U)
    return total


@_once
def information(facts: NoiseFacts) -> Information:
    """V = sum_i B_i^2 phi_i phi_i^T, phi_i = k(x_i, .), as far as it is known."""
    rows, trace = (lambda: _weighted(facts)), (lambda: charge(facts))
    return read_information(facts.kernel, facts.layout, rows, facts.count, trace)


def diagonal(kernel: Kernel, layout: Layout, points: FloatArray, slots: IntArray) -> FloatArray:
    """k(x_i, x_i), rounded up, and never more than K_max."""
    total = np.zeros(points.shape[0])
    for term in normal_form(kernel, layout):
        squares = np.einsum("ij,ij->i", term.embedding, term.embedding)[slots]
        total += term.diag(points) * squares
        size, error = term.bounds(points, points)
        total += (error + 8 * U * (term.embedding.shape[1] + 2) * size) * squares
    return np.asarray(np.minimum(total, kernel.sup_diag * (1 + 64 * U)))


def _squares(term: Term, points: FloatArray, slots: IntArray, widths: FloatArray) -> FloatArray:
    """sum_i B_i^2 phi_j(x_i)^2 for the features of a term, in the order of their coordinates, rounded up."""
    error, _ = term_feature_bounds(term, points)
    sizes = (np.abs(term_features(term, points)) + error) * widths[:, None]
    columns = term.embedding[slots]
    count = points.shape[0]
    total = (sizes * sizes).T @ (columns * columns)
    # count additions and a handful of products, each with its half ulp; what underflows is far below 1e-300
    return np.asarray(total.ravel() * (1 + 2 * (count + 16) * U) + 1e-300 * count)
