"""f(x) = Σ_j φ_j exp(−λ (x − m_j)² / 2) on the line: its means under normal laws and its square are of the same form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bondic_lab.worlds.rollout import Floats

COVER_CELLS = 50_000  # of the proved range; more cells only make it tighter
SLACK = 1e-9  # relative; far above the rounding of these sums


@dataclass(frozen=True, eq=False)
class GaussianSum:
    """f(x) = Σ_j φ_j exp(−λ (x − m_j)² / 2)."""

    heights: Floats  # φ_j: (J,)
    places: Floats  # m_j: (J,)
    precision: float  # λ

    def at(self, points: Floats) -> Floats:
        """f(x_i): (n,) to (n,)."""
        squares = np.subtract.outer(points, self.places) ** 2
        return np.asarray(np.exp(-self.precision / 2.0 * squares) @ self.heights)

    def slopes(self, points: Floats) -> Floats:
        """f'(x_i): (n,) to (n,)."""
        gaps = np.subtract.outer(points, self.places)
        return np.asarray(-(gaps * np.exp(-self.precision / 2.0 * gaps**2)) @ (self.heights * self.precision))

    def smoothed(self, variance: float) -> GaussianSum:
        """x ↦ E f(x + ξ), ξ ~ N(0, v): heights over sqrt(1 + λ v), precision over 1 + λ v."""
        spread = 1.0 + self.precision * variance
        return GaussianSum(self.heights / np.sqrt(spread), self.places, self.precision / spread)

    def squared(self) -> GaussianSum:
        """f²: a product of two bumps is a bump of twice the precision at the middle of both."""
        apart = np.subtract.outer(self.places, self.places)
        heights = np.outer(self.heights, self.heights) * np.exp(-self.precision * apart**2 / 4.0)
        middles = np.add.outer(self.places, self.places) / 2.0
        return GaussianSum(heights.ravel(), middles.ravel(), 2.0 * self.precision)

    @property
    def curvature(self) -> float:
        """Σ_j |φ_j| λ ≥ |f''| everywhere."""
        return float(np.abs(self.heights).sum() * self.precision)

    def range(self) -> tuple[float, float]:
        """low ≤ f ≤ high on the whole line, proved: cells with the steepest slope, and |f| ≤ e^{−32} Σ|φ_j| beyond them.

        The slope of a bump is at most e^{−1/2} |φ_j| sqrt(λ).
        """
        total = float(np.abs(self.heights).sum())
        edge = 8.0 / np.sqrt(self.precision) + np.abs(self.places).max()
        step = 2.0 * edge / COVER_CELLS
        values = self.at(-edge + step * (np.arange(COVER_CELLS) + 0.5))
        half_width = np.exp(-0.5) * total * np.sqrt(self.precision) * step / 2.0 * (1.0 + SLACK)
        tail = total * np.exp(-32.0)
        return min(float(values.min() - half_width), -tail), max(float(values.max() + half_width), tail)
