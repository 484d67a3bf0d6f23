"""bondic: intervals for the value of a policy from logged decisions, valid for finite data.

What a user types is here; everything else is imported from the module that defines it (docs/reference).
Names are imported on first use, so that `import bondic` stays instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bondic._version import __version__ as __version__
from bondic.errors import did_you_mean

_HOMES = {
    "Transitions": "bondic.data.transitions",
    "InitialStates": "bondic.data.initial",
    "read_log": "bondic.data.io.read",
    "stream_log": "bondic.data.open",
    "inspect_log": "bondic.data.hygiene.inspection",
    "load_policy": "bondic.policies.adapters.load",
    "LoggedTarget": "bondic.policies.logged_target",
    "CallablePolicy": "bondic.policies.protocol",
    "TablePolicy": "bondic.policies.standard",
    "SoftmaxPolicy": "bondic.policies.standard",
    "DeterministicPolicy": "bondic.policies.standard",
    "UniformPolicy": "bondic.policies.standard",
    "GaussianPolicy": "bondic.policies.standard",
    "MixturePolicy": "bondic.policies.standard",
    "load_demo": "bondic.demo",
    "make_problem": "bondic.rows.problem",
    "evaluate_policy": "bondic.estimate",
    "estimate_interval": "bondic.estimate",
    "compare": "bondic.report.compare",
    "verify": "bondic.verification",
    "save_certificate": "bondic.saving",
    "load_certificate": "bondic.loading",
    "Default": "bondic.methods.default",
    "Table": "bondic.methods.table",
    "Groups": "bondic.methods.groups",
    "Sequential": "bondic.methods.sequential",
    "Dual": "bondic.methods.dual",
    "Propensities": "bondic.methods.propensities",
    "SequentialMonitor": "bondic.methods.monitor",
    "Allowance": "bondic.core.cells.allowance",
    "Ball": "bondic.core.balls",
    "Gaussian": "bondic.core.kernels.leaves",
    "Laplace": "bondic.core.kernels.leaves",
    "Matern": "bondic.core.kernels.leaves",
    "Result": "bondic.result",
    "Certificate": "bondic.core.certificate",
    "Status": "bondic.core.claims",
    "BondicError": "bondic.core.errors",
    "InvalidInput": "bondic.core.errors",
    "ValidityWarning": "bondic.errors",
}

__all__ = [*_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bondic' has no attribute {name!r}.{did_you_mean(name, _HOMES)}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
