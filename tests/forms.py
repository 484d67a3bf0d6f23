"""Kernel sums in one line each, for tests: the engine by name, weights (N, slots) or (G, N, slots)."""

import numpy as np

from bondic.core.sums.forms import enclose
from bondic.core.sums.measure import Measure
from bondic.engines import moments
from bondic.engines.moments import Bands
from bondic.engines.sums import EngineSums


def quadratic_forms(terms, points, groups, *, error=0.0, engine="auto", progress=None):
    """c^T K c for every weighting."""
    return EngineSums.named(engine).squares(terms, Measure(points, groups, error), progress)


def quadratic_form(terms, points, weights, **options):
    """c^T K c for one weighting (N, slots)."""
    return quadratic_forms(terms, points, weights[None], **options)[0]


def evaluate(terms, x, y, weights, *, engine="auto"):
    """K(x, y) w and the error."""
    return EngineSums.named(engine).values(terms, x, y, weights)


def series_form(scaled, columns, norms, degree, progress=None):
    """u_p^T K u_p of every column by the moments of one degree, without far points."""
    sums = moments.Moments(degree, scaled.shape[1], columns.shape[1])
    sums.add(scaled, columns, progress=progress)
    masses, largest = moments.column_masses(columns), float(norms.max(initial=0.0))
    roots = moments.tail_roots(norms, np.abs(columns), degree)[None]
    share = moments.near_share(sums, masses, roots, Bands(np.zeros(0), np.array([degree])), largest, scaled.shape)
    return enclose([share], columns.shape[1])
