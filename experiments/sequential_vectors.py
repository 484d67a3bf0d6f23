"""The vector event of the sequential interval, theory (16): ‖Σ λ_i φ_i Z_i‖ ≤ log(2/δ) + Σ g(−λ_i‖φ_i‖|Δ_i|) at every n.

Instruments φ_i in p dimensions are chosen from the past: along the sum so far, which is the worst direction, or whitened
anew by the rows of earlier blocks. As in `sequential_tails` every case runs all its logs side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from experiments.coverage_checks import FloatArray
from experiments.sequential_tails import CAP, DELTA, JUMP, LOG, Finding, g
from scipy import stats

LOG_TWO = math.log(2.0 / DELTA)
CHUNK = 2000
"""Logs whose instruments are kept in memory at a time."""

Generator = np.random.Generator


class VectorExcess:
    """‖Σ λ φ Z‖ − Σ g(−λ‖φ‖|Δ|), at its worst moment so far."""

    def __init__(self, logs: int, dimension: int) -> None:
        self.sums, self.spent = np.zeros((logs, dimension)), np.zeros(logs)
        self.worst = np.zeros(logs)

    def add(self, instruments: FloatArray, noise: FloatArray, deviation: FloatArray) -> None:
        """One more row; `instruments` (logs, p) are λ_i φ_i."""
        size = np.sqrt(np.einsum("ij,ij->i", instruments, instruments))
        self.sums += instruments * noise[:, None]
        self.spent += g(-size * np.abs(deviation))
        length = np.sqrt(np.einsum("ij,ij->i", self.sums, self.sums))
        np.maximum(self.worst, length - self.spent, out=self.worst)

    def directions(self) -> FloatArray:
        """Unit vectors along the sums; the first axis where there is none yet."""
        length = np.linalg.norm(self.sums, axis=1, keepdims=True)
        first = np.eye(1, self.sums.shape[1])
        return np.where(length > 0.0, self.sums / np.where(length > 0.0, length, 1.0), first)


def rare_jumps(rng: Generator, logs: int) -> Iterator[Finding]:
    """Y = 1, rarely 0, one direction, model predicts 1: a log without a jump breaks the bound after log(2/δ)/(x p) rows."""

    def worst(rows: int) -> FloatArray:
        excess = VectorExcess(logs, 1)
        for jump in rng.random((rows, logs)) < JUMP:
            excess.add(np.full((logs, 1), CAP), -JUMP + jump, -1.0 * jump)
        return excess.worst

    rows = math.ceil(LOG_TWO / (CAP * JUMP))
    yield Finding(f"no jump in {rows} rows", worst(rows) > LOG_TWO, rate=float(stats.binom.pmf(0, rows, JUMP)))
    half = math.ceil(0.5 * LOG_TWO / (CAP * JUMP))
    rate = float(stats.binom.pmf(0, half, JUMP))
    yield Finding(f"no jump in {half} rows, half of the log term", worst(half) > 0.5 * LOG_TWO, "control", rate)
    # |λφ| = 0.99 / (range/2): without a jump the sum is twice as long, and nothing is paid for it
    yield Finding(f"no jump in {half} rows, range believed half", 2.0 * worst(half) > LOG_TWO, "control", rate)


def along_the_sum(dimension: int, rng: Generator, logs: int) -> Iterator[Finding]:
    """Fair coin, Ŷ = q, φ_i along the sum so far: nothing is lost by the dimension, and little by small steps."""
    excess = VectorExcess(logs, dimension)
    excess.sums[:] = 1e-9 * rng.normal(size=excess.sums.shape)  # a direction to begin with
    for _ in range(1500):
        noise = rng.integers(2, size=logs) - 0.5
        excess.add(0.25 * excess.directions(), noise, noise)
    yield Finding("φ along the sum so far", excess.worst > LOG_TWO)
    yield Finding("φ along the sum so far, half of the log term", excess.worst > 0.5 * LOG_TWO, "control")
    yield Finding("φ along the sum so far, log(1/δ) for log(2/δ)", excess.worst > LOG, "no guarantee")


def renewed(dimension: int, rng: Generator, logs: int, *, wrong: bool = False) -> Iterator[Finding]:
    """Coins, every fifth row a rare jump; instruments whitened by all earlier blocks, rows that lie along the sum so far."""
    parts = [_renewed_part(dimension, rng, min(CHUNK, logs - first), wrong) for first in range(0, logs, CHUNK)]
    worst, label = np.concatenate(parts), "whitened at each block" + (", centers off at random" if wrong else "")
    yield Finding(label, worst > LOG_TWO)
    yield Finding(f"{label}, half of the log term", worst > 0.5 * LOG_TWO, "control")


def _renewed_part(dimension: int, rng: Generator, logs: int, wrong: bool) -> FloatArray:
    excess = VectorExcess(logs, dimension)
    second = np.tile(np.diag(1.0 / (1.0 + np.arange(dimension))), (logs, 1, 1))
    for rows in (20, 40, 80, 160):
        root = np.linalg.cholesky(second)  # of the second moments of earlier rows; φ = root⁻¹ raw
        whitening = np.linalg.inv(root)
        for row in range(rows):
            wanted = excess.directions() + 0.3 * rng.normal(size=(logs, dimension)) / math.sqrt(dimension)
            raw = np.einsum("ijk,ik->ij", root, wanted)  # the pair that adaptive behavior goes to
            phi = np.einsum("ijk,ik->ij", whitening, raw)
            mean, center = (1.0 - JUMP, 1.0) if row % 5 == 4 else (0.5, 0.5)
            guess = np.clip(center + (rng.uniform(-0.1, 0.1, logs) if wrong else np.zeros(logs)), 0.0, 1.0)
            value = (rng.random(logs) < mean).astype(float)
            excess.add(0.5 * phi / np.linalg.norm(phi, axis=1, keepdims=True), mean - value, value - guess)
            if dimension <= 10 or row % 4 == 0:  # any predictable whitening will do
                second += raw[:, :, None] * raw[:, None, :] / rows
    return excess.worst


VECTORS: dict[str, Callable[[Generator, int], Iterator[Finding]]] = {
    "vector, rare jumps": rare_jumps,
    **{f"vector, p = {p}": partial(along_the_sum, p) for p in (1, 2, 10, 50)},
    **{f"vector, whitened, p = {p}": partial(renewed, p) for p in (1, 2, 10, 50)},
    "vector, wrong centers, p = 2": partial(renewed, 2, wrong=True),
    "vector, wrong centers, p = 10": partial(renewed, 10, wrong=True),
}
