"""A small tanh network as a function: a center of Q whose values can be certified.

    x = (z - mean) / scale,   h_0 = x,   h_l = tanh(h_{l-1} W_l + b_l),   f = clip( location + span (h_{L-1} W_L + b_L) )

The function is this formula in real numbers, for the floats x that one subtraction and one division give: these are rounded
alike wherever the point stands. Matrix products are not: their sums may run in another order in another batch, and numpy's
tanh may use other code for the last entries of an array. So computed values are off, and the bound of it covers every order:

    e_0 = 0,    e_l = |W_l|^T e_{l-1} + gamma_k ( |W_l|^T s_{l-1} + |b_l| + |W_l|^T e_{l-1} ) + error of tanh,

s_0 = the largest |x| of the batch, column by column, and s_l = 1: tanh is 1-Lipschitz and at most 1, as is the clip.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from bondic.codec import supplied
from bondic.errors import InvalidInput
from bondic.functions.functions import Function
from bondic.kernels.accuracy import check_elementary_functions
from bondic.kernels.base import TANH_ULP, fingerprint
from bondic.kernels.normal_form import Layout
from bondic.matrices import gamma
from bondic.registry import register
from bondic.rounding import TINY, Enclosure, U, inflate
from bondic.sums.forms import STANDARD, Sums

FloatArray = npt.NDArray[np.float64]

_PIECE = 8192


@dataclass(frozen=True, eq=False)
class TanhNetwork:
    """clip(location + span net((z - mean) / scale), low, high), with one output per column of the last matrix.

    Parameters
    ----------
    mean, scale : array of float, (D,)
        What inputs are standardized by.
    weights : tuple of array of float, (in, out) each
        W_l.
    biases : tuple of array of float, (out,) each
        b_l.
    location, span : float
        Unit of the outputs.
    low, high : float
        Values beyond are cut.
    """

    mean: FloatArray
    scale: FloatArray
    weights: tuple[FloatArray, ...]
    biases: tuple[FloatArray, ...]
    location: float
    span: float
    low: float
    high: float

    def __post_init__(self) -> None:
        put = object.__setattr__
        for name in ("mean", "scale"):
            put(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.float64))
        for name in ("weights", "biases"):
            put(self, name, tuple(np.ascontiguousarray(a, dtype=np.float64) for a in getattr(self, name)))
        for name in ("location", "span", "low", "high"):
            put(self, name, float(getattr(self, name)))
        arrays = (self.mean, self.scale, *self.weights, *self.biases)
        shaped = self.mean.shape == self.scale.shape and len(self.weights) == len(self.biases) > 0
        shaped = shaped and all(w.ndim == 2 and b.shape == w.shape[1:] for w, b in self.layers)
        shaped = shaped and self.weights[0].shape[:1] == self.mean.shape
        shaped = shaped and all(one.shape[1] == two.shape[0] for one, two in pairwise(self.weights))
        numbers = all(np.all(np.isfinite(a)) for a in arrays) and bool(np.all(self.scale > 0))
        numbers = numbers and bool(np.all(np.isfinite([self.location, self.span]))) and self.low <= self.high
        if not (shaped and numbers):
            raise InvalidInput("A network needs finite layers that fit each other, scales > 0 and low <= high.")
        check_elementary_functions()

    @property
    def layers(self) -> list[tuple[FloatArray, FloatArray]]:
        return list(zip(self.weights, self.biases, strict=True))

    @property
    def outputs(self) -> int:
        return int(self.weights[-1].shape[1])

    def values(self, points: FloatArray) -> tuple[FloatArray, float]:
        """(N, D) -> (N, outputs), and a bound of the error of every value."""
        parts, largest = [np.zeros((0, self.outputs))], np.zeros(self.mean.shape)
        for top in range(0, points.shape[0], _PIECE):
            inputs = (points[top : top + _PIECE] - self.mean) / self.scale
            largest = np.maximum(largest, np.abs(inputs).max(axis=0))
            parts.append(self._forward(inputs))
        out = np.concatenate(parts)
        error = self._error(largest)
        if not (np.all(np.isfinite(out)) and math.isfinite(error)):
            raise InvalidInput(
                "A network gives values that are not finite, or no bound of their error, at some point: the point or its weights "
                "are far too large."
            )
        return out, error

    def _forward(self, hidden: FloatArray) -> FloatArray:
        for weight, bias in self.layers[:-1]:
            hidden = np.tanh(hidden @ weight + bias)
        raw = hidden @ self.weights[-1] + self.biases[-1]
        return np.clip(self.location + self.span * raw, self.low, self.high)

    def _error(self, sizes: FloatArray) -> float:
        """e_L in units of value, for inputs of at most these sizes."""
        errors = np.zeros(sizes.shape)
        for layer, (weight, bias) in enumerate(self.layers):
            heavy, last = np.abs(weight), layer == len(self.layers) - 1
            carried = heavy.T @ errors
            raw = heavy.T @ sizes + np.abs(bias)
            errors = carried + gamma(weight.shape[0] + 4) * (raw + carried) + TINY
            if not last:
                errors, sizes = errors + TANH_ULP * U, np.ones(bias.shape)
        scaled = abs(self.span) * errors + 4 * U * (abs(self.location) + abs(self.span) * (raw + errors))
        # twice: these bounds are sums of floats themselves
        return inflate(2 * float(scaled.max(initial=0.0)))


@register("function", "network")
@dataclass(frozen=True, eq=False)
class NetworkFunction(Function):
    """f(z, a) = the network's output number a at z: one per discrete action, one in all where actions are part of z.

    Parameters
    ----------
    layout : Layout
        How the columns of a point are arranged, as in the problem (`Rows.layout`).
    network : TanhNetwork
        D inputs, as many outputs as slots.
    """

    layout: Layout = field(metadata=supplied("layout"))
    network: TanhNetwork

    def __post_init__(self) -> None:
        if self.network.outputs != self.layout.slots or self.network.mean.shape != (self.layout.dimension,):
            raise InvalidInput(
                f"A network of {self.network.mean.size} inputs and {self.network.outputs} outputs does not fit points of "
                f"{self.layout.dimension} columns and {self.layout.slots} actions."
            )

    @property
    def is_zero(self) -> bool:
        return False

    def values(self, points: FloatArray, sums: Sums = STANDARD) -> tuple[FloatArray, float]:
        del sums
        return self.network.values(points)

    def norm(self, sums: Sums = STANDARD) -> Enclosure:
        del sums
        refuse_norm("A network")

    def __repr__(self) -> str:
        return f"TanhNetwork({in_words(self.network)})"


def refuse_norm(what: str) -> NoReturn:
    """A function that is no element of a kernel space can be a center of Q, which needs values alone."""
    raise InvalidInput(f"{what} has no norm in a kernel space: it can be the center of Q, not a weight or a candidate.")


def in_words(network: TanhNetwork) -> str:
    """Sizes of the layers and a fingerprint of all numbers."""
    sizes = "-".join(str(size) for size in (network.mean.size, *(bias.size for bias in network.biases)))
    arrays = (network.mean, network.scale, *network.weights, *network.biases)
    return f"{sizes} tanh, sha256 {fingerprint(*arrays)}"
