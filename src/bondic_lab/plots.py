"""The curve of a frontier as a picture."""

from __future__ import annotations

from typing import Any

import numpy as np

from bondic.report.plots import new_figure
from bondic_lab.methods.frontier import Frontier

_COLOR = "#1f6fb8"


def sensitivity_figure(frontier: Frontier, *, alpha: float | None = None) -> Any:
    """[F-(r), F+(r)] against r on a log axis; a matplotlib Figure. Contradicted radii are left out."""
    figure, axes = new_figure(6.0, 3.4)
    middle = frontier.radius or 1.0
    radii = np.geomspace(middle / 100, middle * 100, 160)
    ends = np.array([frontier.interval(float(radius), alpha) for radius in radii])
    ends[[frontier.contradicted(float(radius), alpha) for radius in radii]] = np.nan
    axes.fill_between(radii, ends[:, 0], ends[:, 1], color=_COLOR, alpha=0.25)
    axes.plot(radii, ends, color=_COLOR)
    axes.axvline(frontier.radius, color="black", linewidth=1, linestyle=":")
    axes.set_xscale("log")
    axes.set_ylim(frontier.value_range.low, frontier.value_range.high)
    axes.set_xlabel("radius of Q")
    axes.set_ylabel("value of the policy")
    return figure
