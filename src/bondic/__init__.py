"""bondic: intervals for the value of a policy from logged decisions, valid for finite data.

Names are imported on first use, so that `import bondic` stays instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bondic._version import __version__
from bondic.core.errors import did_you_mean

_HOMES = {
    "Transitions": "bondic.data.transitions",
    "InitialStates": "bondic.data.initial",
    "LogStream": "bondic.data.stream",
    "stream_log": "bondic.data.open",
    "inspect_log": "bondic.data.hygiene.inspection",
    "Finding": "bondic.data.hygiene.findings",
    "read_log": "bondic.data.io.read",
    "LoadedLog": "bondic.data.io.loaded",
    "load_policy": "bondic.policies.adapters.load",
    "RowRange": "bondic.core.columns",
    "RowProbabilities": "bondic.policies.protocol",
    "LoggedTarget": "bondic.policies.logged_target",
    "CallablePolicy": "bondic.policies.protocol",
    "CallableSampler": "bondic.policies.protocol",
    "TablePolicy": "bondic.policies.standard",
    "SoftmaxPolicy": "bondic.policies.standard",
    "DeterministicPolicy": "bondic.policies.standard",
    "UniformPolicy": "bondic.policies.standard",
    "GaussianPolicy": "bondic.policies.standard",
    "MixturePolicy": "bondic.policies.standard",
    "Gaussian": "bondic.core.kernels.leaves",
    "Laplace": "bondic.core.kernels.leaves",
    "Matern": "bondic.core.kernels.leaves",
    "Constant": "bondic.core.kernels.leaves",
    "Dirac": "bondic.core.kernels.leaves",
    "ActionEmbedding": "bondic.core.kernels.leaves",
    "TimeMask": "bondic.core.kernels.leaves",
    "Linear": "bondic.core.kernels.features",
    "ExplicitFeatures": "bondic.core.kernels.features",
    "RandomFeatures": "bondic.core.kernels.features",
    "GaussianSeries": "bondic.core.kernels.series",
    "Leaf": "bondic.core.kernels.base",
    "register": "bondic.core.registry",
    "load_demo": "bondic.demo",
    "Rows": "bondic.rows",
    "make_problem": "bondic.rows.problem",
    "Instruments": "bondic.core.classes.balls",
    "Ball": "bondic.core.classes.balls",
    "Box": "bondic.core.classes.balls",
    "Provenance": "bondic.core.classes.balls",
    "KernelFunction": "bondic.core.functions",
    "FeatureFunction": "bondic.core.functions",
    "NoiseBound": "bondic.core.dual.noise",
    "Pinelis": "bondic.core.dual.noise",
    "Default": "bondic.methods.default",
    "Table": "bondic.methods.table",
    "Groups": "bondic.methods.groups",
    "Allowance": "bondic.core.cells.allowance",
    "AllowanceCurve": "bondic.curve",
    "Sequential": "bondic.methods.sequential",
    "Dual": "bondic.methods.dual",
    "Propensities": "bondic.methods.propensities",
    "breakdown_factor": "bondic.methods.propensity_breakdown",
    "SequentialMonitor": "bondic.methods.monitor",
    "Choices": "bondic.tuning.defaults",
    "Result": "bondic.result",
    "ConfidenceInterval": "bondic.result",
    "Robustness": "bondic.robustness",
    "result_table": "bondic.report.table",
    "report_page": "bondic.report.page",
    "compare": "bondic.report.compare",
    "Comparison": "bondic.report.compare",
    "Status": "bondic.core.claims",
    "LogDesign": "bondic.advice.lengths",
    "estimate_interval": "bondic.estimate",
    "evaluate_policy": "bondic.estimate",
    "Certificate": "bondic.core.certificate",
    "Verification": "bondic.core.verify",
    "verify": "bondic.verification",
    "save_certificate": "bondic.saving",
    "load_certificate": "bondic.core.files",
    "BondicError": "bondic.core.errors",
    "InvalidInput": "bondic.core.errors",
    "PolicyError": "bondic.core.errors",
    "TunedOnCertifiedRows": "bondic.core.errors",
    "NoInterval": "bondic.core.errors",
    "NumericalError": "bondic.core.errors",
    "VerificationError": "bondic.core.errors",
    "ExecutorError": "bondic.core.errors",
    "ValidityWarning": "bondic.core.errors",
}

__all__ = ["__version__", *_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bondic' has no attribute {name!r}.{did_you_mean(name, _HOMES)}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
