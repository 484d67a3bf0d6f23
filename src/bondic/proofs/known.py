"""The library's own proofs, kernels, functions, classes and noise bounds: importing this module makes their names known."""

from __future__ import annotations

from bondic.bounds import control, plan
from bondic.classes import ball, box
from bondic.functions import functions
from bondic.kernels import constant, dirac, features, gaussian, laplace, linear, masked, matern, series
from bondic.noise import finite_class, fixed_lambda, pinelis, plug_in, self_normalized
from bondic.proofs import cells, dual, propensities, sequential

HOMES = (
    dual, sequential, propensities, cells, plan, control, ball, box, functions, constant, dirac, features, gaussian, laplace,
    linear, masked, matern, series, finite_class, fixed_lambda, pinelis, plug_in, self_normalized,
)  # fmt: skip
