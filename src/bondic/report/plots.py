"""Pictures for papers and slides through matplotlib (extra `plot`): PNG, SVG or PDF by the file's name."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from bondic.core.claims import Status
from bondic.core.errors import InvalidInput, printable
from bondic.curve import AllowanceCurve
from bondic.result import Result
from bondic.saving import write_atomically
from bondic.summary import stacks_between

_COLORS = ("#1f6fb8", "#d9822b", "#7a5bb5", "#3a9a8c", "#8a8f98")
_SEEN = 1e-4
"""Share of the axis below which a part has no width, and no place in the legend."""


def new_figure(width: float, height: float) -> tuple[Any, Any]:
    """A figure of its own that notebooks show: no global state, no window, whatever backend is set."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as problem:
        raise InvalidInput("Plots need matplotlib. Install it with: pip install 'bondic[plot]'.") from problem

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            return _written(self, "png")

    figure = Picture(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def terms_plot(result: Result, ax: Any = None) -> Any:
    """Both end points as stacks of their terms, with the interval and the estimate.

    The curve of allowances where there is no such end, as nothing was stated. On `ax`, which is returned; without, in a
    matplotlib Figure of its own.
    """
    if result.unstated and result.curve is not None:
        return _placed(ax, (6.0, 3.4), partial(_draw_curve, result.curve))
    return _placed(ax, (7.0, 2.6), partial(_draw_terms, result))


def _placed(ax: Any, size: tuple[float, float], draw: Callable[[Any], None]) -> Any:
    drawn, axes = (ax, ax) if ax is not None else new_figure(*size)
    draw(axes)
    return drawn


def _legend_below(axes: Any, columns: int) -> None:
    """Under the label of the axis, however tall the axes are: the distance is in letters."""
    axes.legend(
        fontsize="x-small", ncols=columns, loc="upper center", bbox_to_anchor=(0.5, 0), borderaxespad=6, frameon=False
    )


def _draw_terms(result: Result, axes: Any) -> None:
    if result.status is not Status.REJECTED:
        axes.axvspan(result.low, result.high, color=_COLORS[0], alpha=0.12, label="interval")
    label = "estimate (outside the interval)" if result.estimate_outside else "estimate"
    if result.estimated:
        axes.axvline(result.estimate, color="black", linewidth=1, linestyle=":", label=label)
    names = dict.fromkeys(name for claim in result.claims for name in claim.steps())
    colors = dict(zip(names, cycle(_COLORS), strict=False))
    for height, claim in enumerate(result.claims):
        place = claim.value.mid
        for name, size in claim.steps().items():
            axes.barh(height, claim.sign * size, left=place, height=0.5, color=colors[name])
            place += claim.sign * size
        axes.plot(claim.value.mid, height, "o", color="black", markersize=4)
    first, last = stacks_between(result.claims, result.value_range)
    for name, color in colors.items():
        if any(claim.steps().get(name, 0.0) > _SEEN * (last - first) for claim in result.claims):
            axes.plot([], [], "s", color=color, label=name)
    axes.set_yticks(range(len(result.claims)), [f"{claim.end} end" for claim in result.claims])
    axes.set_ylim(len(result.claims) - 0.4, -0.6)
    axes.set_xlim(first, last)
    axes.set_xlabel("difference of the values" if result.is_difference else "value of the policy")
    if axes.get_legend_handles_labels()[0]:  # a rejection may leave nothing to name
        _legend_below(axes, 4)


def _draw_curve(curve: AllowanceCurve, axes: Any) -> None:
    """A bar from low to high for every allowance, both numbers alike."""
    line, limits = curve.line(), curve.value_range
    for place, point in enumerate(line):
        if point.status is not Status.REJECTED:
            color = _COLORS[4] if point.status is Status.TRIVIAL else _COLORS[0]
            axes.bar(place, point.length, bottom=point.low, width=0.8, color=color, alpha=0.35, edgecolor=color)
    axes.set_xticks(range(len(line)), [f"{point.averages:g}" for point in line])
    axes.set_ylim(limits.low, limits.high)
    axes.set_xlabel("allowance ±, in units of the value")
    axes.set_ylabel("value of the policy")


def comparison_plot(results: Sequence[tuple[str, Result]], ax: Any = None) -> Any:
    """One line per named result: interval and estimate, colored by guarantee. A hollow estimate lies outside its interval."""
    return _placed(ax, (7.0, 1.2 + 0.35 * len(results)), partial(_draw_comparison, results))


def _draw_comparison(results: Sequence[tuple[str, Result]], axes: Any) -> None:
    colors = {"finite-sample": _COLORS[0], "asymptotic": _COLORS[2], "none": _COLORS[4]}
    for height, (_, result) in enumerate(results):
        color = colors[result.guarantee]
        if result.status is Status.REJECTED:  # no interval is given
            axes.plot(result.estimate, height, "x", color="#b3261e", markersize=6)
            continue
        axes.plot([result.low, result.high], [height, height], color=color, linewidth=4, solid_capstyle="butt")
        inside = "white" if result.estimate_outside else "black"
        axes.plot(result.estimate, height, "o", color="black", markerfacecolor=inside, markersize=4)
    given = [result for _, result in results if result.status is not Status.REJECTED]
    difference = any(result.is_difference for result in given)
    if difference:
        axes.axvline(0.0, color="black", linewidth=1, linestyle="--")
    for guarantee in dict.fromkeys(result.guarantee for result in given):
        axes.plot([], [], color=colors[guarantee], linewidth=4, label=f"guarantee: {guarantee}")
    if len(given) < len(results):
        axes.plot([], [], "x", color="#b3261e", label="rejected: estimate only")
    axes.set_yticks(range(len(results)), [printable(name) for name, _ in results])
    axes.set_ylim(len(results) - 0.4, -0.6)
    axes.set_xlabel("difference of the values" if difference else "value of the policy")
    if results:
        _legend_below(axes, 3)


def save_plot(figure: Any, path: str | os.PathLike[str]) -> Path:
    """Write a figure as a whole; the suffix chooses the format. No date and no machine name go into the file."""
    target = Path(path)
    if target.suffix not in (".png", ".svg", ".pdf"):
        raise InvalidInput(f"{target.name}: a plot is written as .png, .svg or .pdf.")
    write_atomically(target, _written(figure, target.suffix[1:]))
    return target


def _written(figure: Any, form: str) -> bytes:
    dateless: dict[str, dict[str, None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
    data = io.BytesIO()
    figure.savefig(data, dpi=160, format=form, metadata=dateless[form])
    return data.getvalue()
