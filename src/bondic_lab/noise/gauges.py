"""The noise bounds by their gauge names, as `Dual(gauge=...)` finds them: each is planned before a certified row is seen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bondic.core.dual.noise import NoiseBound
from bondic.core.errors import InvalidInput
from bondic.core.functions import FeatureMap
from bondic.core.identity import bellman_residual, values_at_rows
from bondic.core.terms import largest_width
from bondic.engines.sums import STANDARD
from bondic.extensions import GaugeQuestion
from bondic.methods.setting import mean_square_width
from bondic.search.basis import make_basis
from bondic.search.model import build_model
from bondic_lab.noise.finite_class import FiniteClass
from bondic_lab.noise.plug_in import PlugIn
from bondic_lab.noise.self_normalized import SelfNormalized

_PLUG_IN_ROWS = 20_000
_PLUG_IN_RANK = 300


def finite(question: GaugeQuestion) -> NoiseBound:
    kernel, layout = question.instruments.kernel, question.problem.layout
    if not FeatureMap.exists(kernel, layout):
        raise InvalidInput(
            f"gauge='finite' is a union bound over the features of W, and {kernel!r} has no finite list of them: take "
            "states for numbers (categorical=False, --categorical none), pass a bandwidth (Choices(weight_bandwidth=1.0), "
            "--with weight_bandwidth=1) or instruments= of random or explicit features, or use another gauge."
        )
    return FiniteClass.planned(kernel, layout, question.rows, **_level(question))


def self_normalized(question: GaugeQuestion) -> NoiseBound:
    terms = question.problem.terms
    return SelfNormalized.planned(
        question.rows,
        sup_diag=question.instruments.kernel.sup_diag,
        mean_square_width=mean_square_width(terms),
        largest_width=largest_width(terms),
    )


def plug_in(question: GaugeQuestion) -> NoiseBound:
    """K_max times the mean squared residual of a fitted q: an estimate, hence no guarantee."""
    problem, ball, kernel = question.problem, question.ball, question.instruments.kernel
    if ball.kernel is None:
        raise InvalidInput("gauge='plug-in' needs a Q that is a ball of a kernel space: pass ball= or radius=.")
    some, rank = problem.some_points(_PLUG_IN_ROWS), min(question.rank, _PLUG_IN_RANK)
    values = make_basis(ball.kernel, problem.layout, some, rank=rank, tolerance=1e-9)
    weights = make_basis(kernel, problem.layout, some, rank=_PLUG_IN_RANK, tolerance=1e-9)
    model = build_model(problem, weights, values, ball.center)
    u, sigma, right = np.linalg.svd(model.balance, full_matrices=False)
    ridge = 1e-6 * float(sigma.max(initial=1e-300)) ** 2
    theta = u @ (-sigma * (right @ model.gradient) / (sigma**2 + ridge))
    shift, total = values.function(theta), 0.0
    for part in problem.batches():
        fitted = values_at_rows(part, shift, STANDARD)
        residual = bellman_residual(part, values_at_rows(part, ball.center, STANDARD))
        total += float(np.sum((residual + fitted.logged - part.gamma * fitted.next) ** 2))
    return PlugIn(float(kernel.sup_diag * total / len(problem)))


GAUGES: dict[str, Callable[[GaugeQuestion], NoiseBound]] = {
    "finite": finite,
    "self-normalized": self_normalized,
    "plug-in": plug_in,
}


def _level(question: GaugeQuestion) -> dict[str, float]:
    return {
        "probability": question.probability,
        "mean_square_width": mean_square_width(question.problem.terms),
    }
