"""Error probability is spent here and nowhere else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

from bondic.errors import InvalidInput


@dataclass(frozen=True)
class ErrorBudget:
    """alpha divided over events; every function below takes the probability of *its* event from here."""

    alpha: float
    parts: dict[str, float]

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        # written so that a part that is not a number is refused as well
        if not (math.fsum(self.parts.values()) <= self.alpha and all(p >= 0 for p in self.parts.values())):
            raise InvalidInput(f"The parts {self.parts} spend more than alpha = {self.alpha}.")

    @staticmethod
    def split(alpha: float, shares: dict[str, float]) -> ErrorBudget:
        """Divide alpha in proportion to the shares of the events that happen to be needed."""
        check_alpha(alpha)
        alpha = float(alpha)
        total = math.fsum(shares.values())
        parts = {name: alpha * share / total for name, share in shares.items()}
        # division may round up: shrink by a hair so that the parts never exceed alpha
        return ErrorBudget(
            alpha, {name: part * (1 - 2.0**-50) if len(parts) > 1 else alpha for name, part in parts.items()}
        )

    def __getitem__(self, event: str) -> float:
        return self.parts[event]

    def get(self, event: str) -> float | None:
        return self.parts.get(event)


def check_alpha(alpha: float) -> None:
    if isinstance(alpha, bool) or not isinstance(alpha, Real) or not 0 < alpha < 1:
        raise InvalidInput(f"`alpha` is {alpha!r}; the total error probability lies strictly between 0 and 1.")
