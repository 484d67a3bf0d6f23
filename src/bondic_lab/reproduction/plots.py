"""Figures on paper, through matplotlib."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from bondic.errors import MissingExtra
from bondic.saving import write_atomically
from bondic_lab.reproduction.figures import Curve, FigureData, Panel

try:
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
except ImportError as problem:
    raise MissingExtra("matplotlib", "plot", "Drawing a figure") from problem

COLORS = ("#0b6e99", "#d1495b", "#3a9d5d", "#8d5a97", "#b8860b", "#555555", "#e07a1f")
"""Distinct in hue and in lightness; a method has the same color in all panels because order is the same."""

_STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.hashsalt": "bondic",  # equal figures are equal files
}


def save_figure(data: FigureData, folder: Path) -> tuple[Path, Path]:
    """Write NAME.png and NAME.svg; a figure is drawn whole before a file is touched."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / f"{data.name}.png", folder / f"{data.name}.svg"
    with matplotlib.rc_context(_STYLE):
        figure = draw(data)
        options: tuple[dict[str, Any], ...] = ({"dpi": 110}, {"metadata": {"Date": None}})
        for path, more in zip(paths, options, strict=True):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=path.suffix[1:], **more)
            write_atomically(path, buffer.getvalue())
    return paths


def draw(data: FigureData) -> Any:
    """All panels side by side, four as a square."""
    count = len(data.panels)
    columns = 2 if count == 4 else min(count, 3)
    lines = -(-count // columns)
    figure = Figure(figsize=(4.3 * columns + 0.4, 3.5 * lines + 0.3), layout="constrained")
    figure.suptitle(data.title, fontsize=11)
    grid = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes, panel in zip(grid, data.panels, strict=False):
        (_draw_heat if panel.heat else _draw_panel)(figure, axes, panel)
    _one_legend(figure, grid)
    return figure


def _one_legend(figure: Any, grid: Any) -> None:
    """Below all panels, each label once: panels share their methods and colors."""
    found: dict[str, Any] = {}
    for axes in grid:
        handles, labels = axes.get_legend_handles_labels()
        for handle, label in zip(handles, labels, strict=True):
            found.setdefault(label, handle)
    if found:
        columns = len(found) if len(found) <= 4 else -(-len(found) // 2)
        figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=columns)


def _draw_panel(figure: Any, axes: Any, panel: Panel) -> None:
    del figure
    axes.set_title(panel.title, fontsize=9)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    if panel.x_log:
        axes.set_xscale("log")
    if panel.y_log:
        axes.set_yscale("log")
    if panel.truth is not None:
        axes.axhline(panel.truth, color="black", linewidth=1.2, linestyle=":", label="J*", zorder=5)
    for place, series in enumerate(panel.series):
        _draw_series(axes, series, COLORS[place % len(COLORS)], width=max(1.2, 4.2 - place))
    if panel.ticks:
        slant = max(map(len, panel.ticks)) > 6
        turned = {"rotation": 35, "ha": "right"} if slant else {}
        axes.set_xticks(range(len(panel.ticks)), panel.ticks, **turned)
    elif panel.x_log:
        _name_sizes(axes, panel)
    if panel.y_log:
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
    if panel.note:
        if panel.y_log:  # room for the words below the lowest line
            axes.set_ylim(bottom=axes.get_ylim()[0] / 8.0)
        axes.text(0.02, 0.03, panel.note, transform=axes.transAxes, fontsize=7.5, va="bottom")


def _name_sizes(axes: Any, panel: Panel) -> None:
    """Ticks where something was measured, in plain numbers."""
    sizes = sorted({x for series in panel.series for x in series.x})
    axes.set_xticks(sizes, [f"{x / 1000:g}k" if x >= 1000 else f"{x:g}" for x in sizes])
    axes.xaxis.set_minor_locator(NullLocator())


def _draw_series(axes: Any, series: Curve, color: str, width: float) -> None:
    """Later lines are thinner, so that equal ones (trivial intervals, say) stay visible under one another."""
    shape = {"color": color, "marker": "o", "markersize": 3, "linewidth": width}
    if series.kind == "band":
        axes.plot(series.x, series.low, label=series.label, **shape)
        axes.plot(series.x, series.high, **shape)
    elif series.kind == "bars":
        axes.vlines(series.x, series.low, series.high, color=color, linewidth=6, alpha=0.45, label=series.label)
    elif series.kind == "points":
        axes.plot(series.x, series.y, ".", color="#333333", markersize=3, alpha=0.5, label=series.label)
    elif series.kind == "dashed":
        axes.plot(series.x, series.y, color="#888888", linestyle="--", label=series.label)
    else:
        axes.plot(series.x, series.y, label=series.label, **shape)
        if series.low:
            axes.fill_between(series.x, series.low, series.high, color=color, alpha=0.15)


def _draw_heat(figure: Any, axes: Any, panel: Panel) -> None:
    values = np.array(panel.heat)
    shown = axes.imshow(np.log10(values), cmap="viridis", origin="lower", aspect="auto")
    axes.grid(visible=False)
    axes.set_title(panel.title, fontsize=9)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.set_xticks(range(len(panel.ticks)), panel.ticks)
    axes.set_yticks(range(len(panel.y_ticks)), panel.y_ticks)
    middle = 0.5 * (np.log10(values).min() + np.log10(values).max())
    for (line, column), value in np.ndenumerate(values):
        color = "black" if np.log10(value) > middle else "white"
        axes.text(column, line, f"{value:.3g}", ha="center", va="center", color=color, fontsize=8)
    figure.colorbar(shown, ax=axes, label="log₁₀ length")
