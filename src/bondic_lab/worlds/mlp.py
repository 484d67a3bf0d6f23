"""pi(a | s) proportional to exp( z_a(s) / temperature ), z = W_L tanh( ... tanh(W_1 s + b_1) ... ) + b_L."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput
from bondic.policies.standard import SoftmaxPolicy

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MLPPolicy:
    """A small network of tanh layers whose outputs are scores of actions; numpy is all that it needs.

    The policy *is* these numbers in double precision: a network trained in single precision is copied, not approximated.
    """

    weights: tuple[FloatArray, ...]  # (out, in) each
    biases: tuple[FloatArray, ...]  # (out,) each
    temperature: float = 1.0

    def __post_init__(self) -> None:
        weights = tuple(np.array(weight, dtype=np.float64) for weight in self.weights)
        biases = tuple(np.array(bias, dtype=np.float64) for bias in self.biases)
        _check_layers(weights, biases)
        for array in (*weights, *biases):
            array.setflags(write=False)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "biases", biases)
        SoftmaxPolicy(self.scores, self.temperature)  # refuses a temperature that is not positive

    @classmethod
    def load(cls, source: str | Path | bytes, temperature: float = 1.0) -> MLPPolicy:
        """From an NPZ file, or its bytes, with weight_0, bias_0, weight_1, bias_1, …"""
        stream = BytesIO(source) if isinstance(source, bytes) else source
        with np.load(stream, allow_pickle=False) as data:
            arrays = {name: data[name] for name in data.files}
        depth = len(arrays) // 2
        requested = [f"{kind}_{layer}" for layer in range(depth) for kind in ("weight", "bias")]
        if not depth or set(arrays) != set(requested):
            raise InvalidInput(
                f"A policy file has weight_0, bias_0, weight_1, …; this one has {', '.join(sorted(arrays)) or 'nothing'}. "
                "Write it with MLPPolicy.save."
            )
        layers = range(depth)
        return cls(
            tuple(arrays[f"weight_{i}"] for i in layers), tuple(arrays[f"bias_{i}"] for i in layers), temperature
        )

    def save(self, path: str | Path) -> None:
        """Writes what `load` reads, in single precision where that loses nothing; the temperature is not part of it."""
        arrays = {f"weight_{i}": array for i, array in enumerate(self.weights)}
        arrays |= {f"bias_{i}": array for i, array in enumerate(self.biases)}
        np.savez_compressed(path, **{name: _narrow(array) for name, array in arrays.items()})  # type: ignore[arg-type]

    def scores(self, observations: FloatArray) -> FloatArray:
        """z(s): (n, d) -> (n, actions)."""
        hidden = np.asarray(observations, dtype=np.float64)
        if hidden.ndim != 2 or hidden.shape[1] != self.weights[0].shape[1]:
            raise InvalidInput(
                f"Observations have shape {hidden.shape}; this network reads (rows, {self.weights[0].shape[1]})."
            )
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            hidden = np.tanh(hidden @ weight.T + bias)
        return np.asarray(hidden @ self.weights[-1].T + self.biases[-1])

    def action_probs(self, observations: FloatArray) -> FloatArray:
        """pi(a | s): (n, d) -> (n, actions)."""
        return SoftmaxPolicy(self.scores, self.temperature).action_probs(observations)


def _narrow(array: FloatArray) -> npt.NDArray[np.floating]:
    single = array.astype(np.float32)
    return single if np.array_equal(single.astype(np.float64), array) else array


def _check_layers(weights: tuple[FloatArray, ...], biases: tuple[FloatArray, ...]) -> None:
    if not weights or len(weights) != len(biases):
        raise InvalidInput(
            f"A network has as many weights as biases, at least one; got {len(weights)} and {len(biases)}."
        )
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        if weight.ndim != 2 or bias.shape != weight.shape[:1]:
            raise InvalidInput(
                f"Layer {layer}: weight {weight.shape} and bias {bias.shape}; (out, in) and (out,) are needed."
            )
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise InvalidInput(
                f"Layer {layer} holds numbers that are not finite; the policy would not be a distribution."
            )
    for layer, (first, second) in enumerate(pairwise(weights)):
        if second.shape[1] != first.shape[0]:
            raise InvalidInput(
                f"Layer {layer} gives {first.shape[0]} numbers, layer {layer + 1} reads {second.shape[1]}."
            )
