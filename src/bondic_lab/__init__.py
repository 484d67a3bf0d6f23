"""Baselines, worlds, shipped policies and the reproduction of the paper: beside the library, never imported by it.

Names are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "make_baseline": "bondic_lab.baselines.registry",
    "Primal": "bondic_lab.methods.primal",
    "kernel_bellman_loss": "bondic_lab.identity.loss",
    "primal_point": "bondic_lab.bounds.primal",
    "oracle_interval": "bondic_lab.methods.oracle",
    "ConicSearch": "bondic_lab.search.conic",
    "NeuralSearch": "bondic_lab.search.neural",
    "FiniteClass": "bondic_lab.noise.finite_class",
    "SelfNormalized": "bondic_lab.noise.self_normalized",
    "PlugIn": "bondic_lab.noise.plug_in",
    "VStatistic": "bondic_lab.noise.v_statistic",
}

__all__ = [*_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bondic_lab' has no attribute {name!r}.")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
