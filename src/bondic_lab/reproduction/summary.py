"""What many trials say: medians, failure rates with an exact test, and fitted slopes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import stats

from bondic_lab.reproduction.store import Row

LEVEL = 0.05
"""Chance that any claim of a figure is called violated although all hold."""


def failed(row: Row) -> bool:
    """J* outside [low, high] by more than what the truth itself is known to; or rejected, though the assumptions hold."""
    return (
        row.get("status") == "REJECTED" or not row["low"] - row["slack"] <= row["truth"] <= row["high"] + row["slack"]
    )


def groups(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by the values of `keys`, in the order of their first appearance."""
    out: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        out.setdefault(tuple(row[key] for key in keys), []).append(row)
    return out


def along(rows: Iterable[Row], key: str) -> list[tuple[float, list[Row]]]:
    """Rows by the value of a number, in increasing order."""
    return sorted(((float(at), found) for (at,), found in groups(rows, key).items()), key=lambda item: item[0])


def median(rows: Sequence[Row], key: str) -> float:
    return float(np.median([row[key] for row in rows]))


def raw_length(row: Row) -> float:
    """F⁺ − F⁻, not cut to the value range: what a rate in n is about."""
    return float(row["raw_high"] - row["raw_low"])


def slope(sizes: Sequence[float], lengths: Sequence[float]) -> float:
    """b of the least-squares line log length = a + b log n."""
    return float(np.polyfit(np.log(sizes), np.log(lengths), 1)[0])


def efficiency_limit(variance: float, rows: int, alpha: float) -> float:
    """2 z_{1−α/2} sqrt(V*/n), section 10: the length of the best regular interval in the limit of many rows."""
    return float(2.0 * stats.norm.ppf(1.0 - alpha / 2.0) * math.sqrt(variance / rows))


@dataclass(frozen=True)
class Check:
    """Failures of one finite-sample method in one cell against its α: P( Bin(trials, α) ≥ failures )."""

    cell: str
    trials: int
    failures: int
    alpha: float
    p_value: float
    corrected: float  # Holm's, over all cells of the figure
    violated: bool

    def record(self) -> dict[str, Any]:
        return asdict(self)


def binomial_checks(rows: Iterable[Row], *keys: str) -> list[Check]:
    """Exact one-sided tests of every finite-sample cell, corrected by Holm's step-down for their number.

    Holm's correction holds whatever the dependence between cells (methods share logs here).
    """
    cells = groups([row for row in rows if row["guarantee"] == "finite-sample"], *keys, "method", "alpha")
    counts = [(key, len(found), sum(map(failed, found)), float(found[0]["alpha"])) for key, found in cells.items()]
    values = [
        float(stats.binomtest(failures, trials, alpha, alternative="greater").pvalue)
        for _, trials, failures, alpha in counts
    ]
    return [
        Check(" ".join(map(str, key)), trials, failures, alpha, value, corrected, corrected < LEVEL)
        for (key, trials, failures, alpha), value, corrected in zip(counts, values, holm(values), strict=True)
    ]


def holm(values: Sequence[float]) -> list[float]:
    """p_(i) → max_{j ≤ i} min(1, (m − j + 1) p_(j)), j = 1 … m in increasing order."""
    order = np.argsort(values, kind="stable")
    out, largest = [1.0] * len(values), 0.0
    for place, index in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - place) * values[index]))
        out[index] = largest
    return out
