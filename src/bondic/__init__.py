"""bondic: intervals for the value of a policy from logged decisions, valid for finite data.

Names are imported on first use, so that `import bondic` stays instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bondic._version import __version__
from bondic.errors import did_you_mean

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
    "RowRange": "bondic.data.blocks",
    "RowProbabilities": "bondic.policies.protocol",
    "LoggedTarget": "bondic.policies.logged_target",
    "CallablePolicy": "bondic.policies.protocol",
    "CallableSampler": "bondic.policies.protocol",
    "TablePolicy": "bondic.policies.discrete",
    "SoftmaxPolicy": "bondic.policies.discrete",
    "DeterministicPolicy": "bondic.policies.discrete",
    "UniformPolicy": "bondic.policies.discrete",
    "GaussianPolicy": "bondic.policies.continuous",
    "MixturePolicy": "bondic.policies.mixture",
    "Gaussian": "bondic.kernels.gaussian",
    "Laplace": "bondic.kernels.laplace",
    "Matern": "bondic.kernels.matern",
    "Constant": "bondic.kernels.constant",
    "Dirac": "bondic.kernels.dirac",
    "ActionEmbedding": "bondic.kernels.dirac",
    "TimeMask": "bondic.kernels.masked",
    "Linear": "bondic.kernels.linear",
    "ExplicitFeatures": "bondic.kernels.linear",
    "RandomFeatures": "bondic.kernels.features",
    "GaussianSeries": "bondic.kernels.series",
    "Leaf": "bondic.kernels.base",
    "register": "bondic.registry",
    "load_demo": "bondic.demo",
    "Rows": "bondic.rows",
    "make_problem": "bondic.rows.problem",
    "Instruments": "bondic.classes.instruments",
    "Ball": "bondic.classes.ball",
    "Box": "bondic.classes.box",
    "Provenance": "bondic.classes.provenance",
    "KernelFunction": "bondic.functions.functions",
    "FeatureFunction": "bondic.functions.functions",
    "NoiseBound": "bondic.noise.bound",
    "Uniform": "bondic.noise.bound",
    "Pinelis": "bondic.noise.pinelis",
    "FixedLambda": "bondic.noise.fixed_lambda",
    "PlugIn": "bondic.noise.plug_in",
    "FiniteClass": "bondic.noise.finite_class",
    "SelfNormalized": "bondic.noise.self_normalized",
    "Default": "bondic.methods.default",
    "Table": "bondic.methods.table",
    "Groups": "bondic.methods.groups",
    "Allowance": "bondic.core.allowance",
    "AllowanceCurve": "bondic.curve",
    "Sequential": "bondic.methods.sequential",
    "Dual": "bondic.methods.dual",
    "Propensities": "bondic.methods.propensities",
    "breakdown_factor": "bondic.methods.propensity_breakdown",
    "SequentialMonitor": "bondic.methods.monitor",
    "Choices": "bondic.tuning.defaults",
    "Result": "bondic.result",
    "ConfidenceInterval": "bondic.result",
    "Robustness": "bondic.bounds.robustness",
    "result_table": "bondic.report.table",
    "report_page": "bondic.report.page",
    "compare": "bondic.report.compare",
    "Comparison": "bondic.report.compare",
    "Status": "bondic.claims",
    "LogDesign": "bondic.advice.lengths",
    "estimate_interval": "bondic.estimate",
    "evaluate_policy": "bondic.estimate",
    "Certificate": "bondic.proofs.certificate",
    "Verification": "bondic.proofs.verify",
    "verify": "bondic.verification",
    "save_certificate": "bondic.proofs.io",
    "load_certificate": "bondic.proofs.io",
    "BondicError": "bondic.errors",
    "InvalidInput": "bondic.errors",
    "PolicyError": "bondic.errors",
    "TunedOnCertifiedRows": "bondic.errors",
    "NoInterval": "bondic.errors",
    "NumericalError": "bondic.errors",
    "VerificationError": "bondic.errors",
    "ExecutorError": "bondic.errors",
    "ValidityWarning": "bondic.errors",
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
