"""Kernel sums in one line each, for tests: the engine by name, weights (N, slots) or (G, N, slots)."""

from bondic.core.sums.measure import Measure
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
