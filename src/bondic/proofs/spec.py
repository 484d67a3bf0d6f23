"""Kernels, functions and gauges as plain data: JSON numbers plus named arrays, no pickle, no code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.errors import VerificationError
from bondic.functions.functions import ExpansionFunction, FeatureFunction, Function, KernelFunction, TermExpansion
from bondic.kernels.base import Kernel, Leaf, Product, Scaled, Sum
from bondic.kernels.constant import Constant
from bondic.kernels.dirac import ActionEmbedding, Dirac
from bondic.kernels.features import RandomFeatures
from bondic.kernels.gaussian import Gaussian
from bondic.kernels.laplace import Laplace
from bondic.kernels.linear import ExplicitFeatures, Linear
from bondic.kernels.masked import TimeMask
from bondic.kernels.matern import Matern
from bondic.kernels.normal_form import Layout
from bondic.kernels.series import GaussianSeries
from bondic.noise.bound import Gauge
from bondic.noise.fixed_lambda import FixedLambda
from bondic.noise.pinelis import Pinelis
from bondic.noise.plug_in import PlugIn
from bondic.noise.v_statistic import VStatistic

Spec = dict[str, Any]
Arrays = dict[str, npt.NDArray[Any]]
UserFunctions = Mapping[str, Callable[..., Any]]

_LEAVES: tuple[type[Leaf], ...] = (
    Gaussian, Laplace, Matern, Constant, Dirac, ActionEmbedding, TimeMask, Linear, ExplicitFeatures, RandomFeatures,
    GaussianSeries,
)  # fmt: skip
LEAVES: dict[str, type[Leaf]] = {leaf.name: leaf for leaf in _LEAVES}
GAUGES: dict[str, type[Gauge]] = {gauge.name: gauge for gauge in (Pinelis, FixedLambda, PlugIn, VStatistic)}


class Writer:
    """Turns objects into specs and collects their arrays under short names."""

    def __init__(self) -> None:
        self.arrays: Arrays = {}

    def array(self, name: str, values: npt.NDArray[Any]) -> Spec:
        key = name
        while key in self.arrays:
            key = f"{key}_"
        self.arrays[key] = np.ascontiguousarray(values)
        return {"array": key}

    def kernel(self, kernel: Kernel, name: str) -> Spec:
        if isinstance(kernel, Sum):
            return {"sum": [self.kernel(part, f"{name}.{k}") for k, part in enumerate(kernel.parts)]}
        if isinstance(kernel, Product):
            return {"product": [self.kernel(part, f"{name}.{k}") for k, part in enumerate(kernel.parts)]}
        if isinstance(kernel, Scaled):
            return {"scaled": self.kernel(kernel.part, name), "factor": kernel.factor}
        assert isinstance(kernel, Leaf)
        parameters = {
            key: self.array(f"{name}.{key}", value) if isinstance(value, np.ndarray) else value
            for key, value in kernel.parameters().items()
        }
        return {"leaf": kernel.name, "parameters": parameters}

    def function(self, function: Function | None, name: str) -> Spec | None:
        if function is None or function.is_zero:
            return None
        if isinstance(function, FeatureFunction):
            return {
                "features": self.kernel(function.kernel, f"{name}.k"),
                "w": self.array(f"{name}.w", function.coordinates),
            }
        if isinstance(function, KernelFunction):
            return {
                "kernel": self.kernel(function.kernel, f"{name}.k"),
                "centers": self.array(f"{name}.centers", function.centers),
                "weights": self.array(f"{name}.weights", function.weights),
            }
        assert isinstance(function, ExpansionFunction)
        parts = [
            {"centers": self.array(f"{name}.c{k}", part.centers), "weights": self.array(f"{name}.w{k}", part.weights)}
            for k, part in enumerate(function.parts)
        ]
        return {"expansion": self.kernel(function.kernel, f"{name}.k"), "parts": parts}

    @staticmethod
    def gauge(gauge: Gauge) -> Spec:
        return {"gauge": gauge.name, **vars(gauge)}


class Reader:
    """Builds the same objects back; anything unknown is refused."""

    def __init__(
        self, arrays: Mapping[str, npt.NDArray[Any]], layout: Layout, functions: UserFunctions | None = None
    ) -> None:
        self.arrays, self.layout, self.functions = arrays, layout, dict(functions or {})

    def array(self, spec: Spec) -> npt.NDArray[Any]:
        try:
            return self.arrays[spec["array"]]
        except KeyError as problem:
            raise VerificationError(f"The certificate lacks the array {problem}.") from problem

    def kernel(self, spec: Spec) -> Kernel:
        if not spec.get("sum", True) or not spec.get("product", True):
            raise VerificationError("The certificate is damaged: a sum or product of kernels has no parts.")
        if "sum" in spec:
            return Sum(tuple(self.kernel(part) for part in spec["sum"]))
        if "product" in spec:
            return Product(tuple(self.kernel(part) for part in spec["product"]))
        if "scaled" in spec:
            return Scaled(spec["factor"], self.kernel(spec["scaled"]))
        if spec.get("leaf") not in LEAVES:
            raise VerificationError(f"The certificate names an unknown kernel {spec.get('leaf')!r}.")
        parameters = {
            key: self.array(value) if isinstance(value, dict) else value for key, value in spec["parameters"].items()
        }
        if any(isinstance(value, bool) for value in parameters.values()):
            raise VerificationError("The certificate is damaged: true or false stands where a kernel has a number.")
        label = parameters.get("label")
        if spec["leaf"] == ExplicitFeatures.name and isinstance(label, str) and label in self.functions:
            parameters["function"] = self.functions[label]
        return LEAVES[spec["leaf"]].from_parameters(parameters)

    def function(self, spec: Spec | None) -> Function | None:
        if spec is None:
            return None
        if "features" in spec:
            return FeatureFunction(self.kernel(spec["features"]), self.layout, self.array(spec["w"]))
        if "kernel" in spec:
            return KernelFunction(
                self.kernel(spec["kernel"]), self.layout, self.array(spec["centers"]), self.array(spec["weights"])
            )
        parts = tuple(TermExpansion(self.array(p["centers"]), self.array(p["weights"])) for p in spec["parts"])
        return ExpansionFunction(self.kernel(spec["expansion"]), self.layout, parts)

    @staticmethod
    def gauge(spec: Spec) -> Gauge:
        fields = {key: value for key, value in spec.items() if key != "gauge"}
        if spec.get("gauge") not in GAUGES:
            raise VerificationError(f"The certificate names an unknown noise bound {spec.get('gauge')!r}.")
        return GAUGES[spec["gauge"]](**fields)
