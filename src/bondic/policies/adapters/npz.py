"""Policies as plain arrays (NPZ): nothing is executed.

A table: `probs` (states, actions); the state is the whole number in the first observation column.

A network: `w0` (d, h), `b0` (h,), `w1`, `b1`, ... with x W + b per layer and `activation` ("tanh", "relu" or
"identity") between layers. Optional `mean` and `scale` (d,): the input is (s - mean) / scale. What comes out are logits,
divided by `temperature` (1); with `std` (k,) it is the mean of a Gaussian action, clipped to `low` and `high` if given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput, PolicyError, one_line, shown
from bondic.data.io.npz import load_arrays
from bondic.policies.standard import GaussianPolicy, SoftmaxPolicy, TablePolicy

FloatArray = npt.NDArray[np.float64]

_ACTIVATIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "tanh": lambda x: np.asarray(np.tanh(x)),
    "relu": lambda x: np.maximum(x, 0.0),
    "identity": lambda x: x,
}
_SETTINGS = {"activation", "temperature", "mean", "scale", "std", "low", "high"}


@dataclass(frozen=True, eq=False)
class Network:
    """x -> W_L^T f(... f(W_0^T x + b_0) ...) + b_L."""

    weights: tuple[FloatArray, ...]
    biases: tuple[FloatArray, ...]
    activation: str
    mean: FloatArray
    scale: FloatArray

    def __call__(self, observations: FloatArray) -> FloatArray:
        x = np.asarray(observations, dtype=np.float64)
        if x.ndim != 2 or x.shape[1] != self.weights[0].shape[0]:
            raise PolicyError(
                f"The network expects {self.weights[0].shape[0]} observation dimensions, the log has shape {x.shape}."
            )
        x = (x - self.mean) / self.scale
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = x @ weight + bias
            x = x if layer == last else _ACTIVATIONS[self.activation](x)
        return x


def load_npz(path: Path) -> Any:
    """A table, a softmax network or a Gaussian network."""
    arrays, label = load_arrays(path), one_line(path.name)
    if not isinstance(arrays, dict):
        raise InvalidInput(f"{label} is one array; a policy file holds arrays by name (np.savez).")
    if "probs" in arrays:
        if len(arrays) > 1:
            raise InvalidInput(
                f"{label} holds `probs` and {shown(sorted(set(arrays) - {'probs'}))}: a table is `probs` alone."
            )
        return TablePolicy(_numbers(arrays, "probs", label))
    network = _network(arrays, label)
    if "std" in arrays:
        std = _numbers(arrays, "std", label)
        low, high = (_numbers(arrays, name, label) if name in arrays else None for name in ("low", "high"))
        return GaussianPolicy(network, std, low, high)
    return SoftmaxPolicy(network, float(_single(arrays, "temperature", 1.0, label)))


def _network(arrays: Mapping[str, npt.NDArray[Any]], label: str) -> Network:
    layers = sorted(int(hit[1]) for name in arrays if (hit := re.fullmatch(r"w(\d+)", name)))
    unknown = sorted(name for name in arrays if name not in _SETTINGS and not re.fullmatch(r"[wb]\d+", name))
    if not layers or layers != list(range(len(layers))) or unknown:
        raise InvalidInput(
            f"{label} holds {shown(sorted(arrays))}. A policy file holds `probs` (states, actions), or a network: w0, b0, w1, "
            "b1, ... and optionally activation, temperature, mean, scale, std, low, high."
        )
    weights = tuple(_numbers(arrays, f"w{k}", label) for k in layers)
    biases = tuple(_numbers(arrays, f"b{k}", label) for k in layers if f"b{k}" in arrays)
    shapes = [weight.shape for weight in weights]
    fits = all(len(shape) == 2 for shape in shapes) and all(a[1] == b[0] for a, b in pairwise(shapes))
    if not fits or [bias.shape for bias in biases] != [(shape[1],) for shape in shapes]:
        raise InvalidInput(
            f"{label}: layers {shapes} with biases {[bias.shape for bias in biases]} do not fit together; w_k is (inputs, "
            "outputs) and b_k is (outputs,). Transpose weights that were stored as (outputs, inputs)."
        )
    activation = str(_single(arrays, "activation", "tanh", label))
    if activation not in _ACTIVATIONS:
        raise InvalidInput(f"{label}: activation {one_line(activation)!r} is not known: {', '.join(_ACTIVATIONS)}.")
    size = shapes[0][0]
    mean = _numbers(arrays, "mean", label) if "mean" in arrays else np.zeros(size)
    scale = _numbers(arrays, "scale", label) if "scale" in arrays else np.ones(size)
    if mean.shape != (size,) or scale.shape != (size,) or np.any(scale <= 0):
        raise InvalidInput(f"{label}: `mean` and `scale` need {size} numbers each, `scale` positive.")
    return Network(weights, biases, activation, mean, scale)


def _numbers(arrays: Mapping[str, npt.NDArray[Any]], name: str, label: str) -> FloatArray:
    array = arrays[name]
    if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise InvalidInput(f"{label}: `{name}` must hold finite numbers, not dtype {array.dtype} or NaN.")
    return np.asarray(array, dtype=np.float64)


def _single(arrays: Mapping[str, npt.NDArray[Any]], name: str, default: Any, label: str) -> Any:
    if name not in arrays:
        return default
    if arrays[name].size != 1:
        raise InvalidInput(f"{label}: `{name}` is one value, not shape {arrays[name].shape}.")
    value = arrays[name].item()
    if not isinstance(value, type(default)) and not (isinstance(default, float) and isinstance(value, int)):
        raise InvalidInput(f"{label}: `{name}` is {one_line(repr(value))}, not a {type(default).__name__}.")
    return value
