"""Small tanh networks fitted by Adam, in single precision: they propose centers of Q, and nothing here is trusted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from bondic.functions.networks import TanhNetwork
from bondic.terms import ValueRange

FloatArray = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]

HIDDEN = (64, 64, 64)
_MEANS, _SQUARES = 0.9, 0.999
_FIRST_OUTPUT = 0.1
"""Last layers begin with weights of a tenth of the usual size, so that the first function is nearly constant."""


class Trainer:
    """A network in the making: standardized inputs, outputs around `location` in units of half the value range."""

    def __init__(self, points: FloatArray, outputs: int, location: float, limits: ValueRange, seed: int) -> None:
        rng = np.random.default_rng([seed, 1])
        spread = points.std(axis=0)
        self.mean, self.scale = points.mean(axis=0), np.where(spread > 1e-9, spread, 1.0)
        self.location, self.span, self.limits = location, 0.5 * limits.width or 1.0, limits
        sizes = [points.shape[1], *HIDDEN, outputs]
        self.weights = [
            (rng.standard_normal((above, below)) / np.sqrt(above)).astype(np.float32)
            for above, below in pairwise(sizes)
        ]
        self.weights[-1] *= np.float32(_FIRST_OUTPUT)
        self.biases = [np.zeros(size, dtype=np.float32) for size in sizes[1:]]
        self._means = [np.zeros_like(array) for array in (*self.weights, *self.biases)]
        self._squares = [np.zeros_like(array) for array in (*self.weights, *self.biases)]
        self._steps = 0

    def inputs(self, points: FloatArray) -> Singles:
        return np.asarray((points - self.mean) / self.scale, dtype=np.float32)

    def units(self, values: FloatArray) -> Singles:
        """Values in the units of the outputs."""
        return np.asarray((values - self.location) / self.span, dtype=np.float32)

    def values(self, inputs: Singles) -> FloatArray:
        """Outputs in units of value, clipped to the range: (N, outputs)."""
        raw = self._forward(inputs)[1].astype(np.float64)
        return np.clip(self.location + self.span * raw, self.limits.low, self.limits.high)

    def network(self) -> TanhNetwork:
        """What it has become, in double precision."""
        weights, biases = (tuple(a.astype(np.float64) for a in arrays) for arrays in (self.weights, self.biases))
        limits = self.limits.low, self.limits.high
        return TanhNetwork(self.mean, self.scale, weights, biases, self.location, self.span, *limits)

    def regress(
        self,
        inputs: Singles,
        slots: IntArray,
        wanted: Singles,
        steps: int,
        rates: tuple[float, float],
        rng: np.random.Generator,
        *,
        batch: int = 256,
        decay: float = 0.0,
    ) -> None:
        """Steps of Adam on (output[slot] - wanted)^2; the rate falls from the first to the second number.

        Outputs beyond the value range count as its end, which is what they are cut to: a cliff may be as steep as it likes.
        """
        count, here = inputs.shape[0], np.arange(batch)
        low, high = self.units(np.array([self.limits.low, self.limits.high]))
        for step in range(steps):
            rows = rng.integers(0, count, batch)
            layers, out = self._forward(inputs[rows])
            slope = np.zeros_like(out)
            slope[here, slots[rows]] = (np.clip(out[here, slots[rows]], low, high) - wanted[rows]) / batch
            self._descend(layers, slope, rates[0] * (rates[1] / rates[0]) ** (step / steps), decay)

    def _forward(self, inputs: Singles) -> tuple[list[Singles], Singles]:
        layers = [inputs]
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            layers.append(np.tanh(layers[-1] @ weight + bias))
        return layers, np.asarray(layers[-1] @ self.weights[-1] + self.biases[-1])

    def _descend(self, layers: list[Singles], slope: Singles, rate: float, decay: float) -> None:
        by_weight: list[Singles] = []
        by_bias: list[Singles] = []
        for layer in range(len(self.weights) - 1, -1, -1):
            by_weight.insert(0, layers[layer].T @ slope + np.float32(decay) * self.weights[layer])
            by_bias.insert(0, slope.sum(axis=0))
            if layer:
                slope = (slope @ self.weights[layer].T) * (1 - layers[layer] ** 2)
        self._adam([*by_weight, *by_bias], rate)

    def _adam(self, slopes: Sequence[Singles], rate: float) -> None:
        self._steps += 1
        first, second = 1 - _MEANS**self._steps, 1 - _SQUARES**self._steps
        every = zip((*self.weights, *self.biases), slopes, self._means, self._squares, strict=True)
        for array, slope, mean, square in every:
            mean *= np.float32(_MEANS)
            mean += np.float32(1 - _MEANS) * slope
            square *= np.float32(_SQUARES)
            square += np.float32(1 - _SQUARES) * slope * slope
            array -= np.float32(rate / first) * mean / (np.sqrt(square / np.float32(second)) + np.float32(1e-7))
