"""The library's own proofs, kernels, functions, classes and noise bounds: importing this module makes their names known."""

from __future__ import annotations

from bondic.core import functions
from bondic.core.cells import proof as cells
from bondic.core.classes import ball, box
from bondic.core.dual import proof as dual
from bondic.core.kernels import features, leaves, series
from bondic.core.noise import finite_class, fixed_lambda, pinelis, plug_in, self_normalized
from bondic.core.propensities import control
from bondic.core.propensities import proof as propensities
from bondic.core.sequential import plan
from bondic.core.sequential import proof as sequential

HOMES = (
    dual, sequential, propensities, cells, plan, control, ball, box, functions, features, leaves, series,
    finite_class, fixed_lambda, pinelis, plug_in, self_normalized,
)  # fmt: skip
