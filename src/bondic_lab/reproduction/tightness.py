"""Length against two rulers: the efficiency limit 2 z_{1−δ/2} sqrt(V*/n) of section 10, and an a-priori length.

The a-priori length puts the true density ratio ω* into (10) and bounds its discrepancy by Pinelis' inequality too:

    2 ( ε_n ‖ω*‖_{H_k} + r_Q (1 + γ) max|ω*| sqrt( 2 log(2/δ) / n ) ),   k̃(x, x) ≤ 1.

The searched ω minimizes (10), so the measured length may be far below; it cannot be below the efficiency limit for long
without failing. The second term treats rows as independent, so it is a yardstick here, not a bound.
"""

from __future__ import annotations

import math
import time

import numpy as np

from bondic.core.terms import Terms, range_of
from bondic_lab.reproduction.experiment import LABELS, Experiment, dual_rows, figure_data
from bondic_lab.reproduction.figures import Curve, FigureData, Panel
from bondic_lab.reproduction.known import tabular, tabular_world
from bondic_lab.reproduction.store import Row
from bondic_lab.reproduction.summary import along, efficiency_limit, groups, raw_length, slope
from bondic_lab.reproduction.trials import Cell
from bondic_lab.worlds.tabular import TabularMDP

WORLDS = ((11, 0.5), (11, 0.9), (12, 0.95))
ROWS, QUICK_ROWS = (1000, 4000, 16_000, 64_000), (500, 2000)
STEPS = 50
ALPHA = 0.1


def cells(quick: bool) -> list[tuple[Cell, int]]:
    return [
        ({"seed": seed, "gamma": gamma, "rows": n}, 2 if quick else 20)
        for seed, gamma in WORLDS
        for n in (QUICK_ROWS if quick else ROWS)
    ]


def trial(cell: Cell, rng: np.random.Generator) -> list[Row]:
    started = time.perf_counter()
    setup = tabular(cell["rows"], rng, seed=cell["seed"], gamma=cell["gamma"], length=STEPS)
    mdp, n = tabular_world(cell["seed"], cell["gamma"]), cell["rows"]
    limit = efficiency_limit(mdp.efficient_variance(mdp.log_distribution(STEPS)), n, ALPHA)
    prior = a_priori_length(mdp, n, ALPHA, setup.ball.radius)
    return dual_rows(setup, started, alphas=[ALPHA], rank=50, limit=limit, prior=prior)


def a_priori_length(mdp: TabularMDP, rows: int, alpha: float, radius: float) -> float:
    """The formula of the module's opening, with the constant "half" in ε_n."""
    ratio = mdp.density_ratio(mdp.log_distribution(STEPS)).ravel()
    gram = 0.5 * np.ones((ratio.size, ratio.size)) + 0.5 * np.eye(ratio.size)  # k of `known.tabular`
    norm = math.sqrt(float(ratio @ np.linalg.solve(gram, ratio)))
    width = range_of(Terms(mdp.gamma, mdp.reward_range, may_terminate=False)).width
    unit = math.sqrt(2.0 * math.log(2.0 / alpha) / rows)
    return 2.0 * unit * (0.5 * width * norm + float(radius) * (1.0 + mdp.gamma) * float(np.abs(ratio).max()))


def summarize(rows: list[Row]) -> FigureData:
    panels, notes = [], []
    for (seed, gamma), found in groups(rows, "seed", "gamma").items():
        series = []
        for (method,), part in groups(found, "method").items():
            points = along(part, "rows")
            ratios = [np.median([(row["high"] - row["low"]) / row["limit"] for row in same]) for _, same in points]
            sizes = tuple(n for n, _ in points)
            series.append(Curve(LABELS[method], sizes, tuple(map(float, ratios))))
            raw = [float(np.median([raw_length(row) for row in same])) for _, same in points]
            notes.append(
                f"γ = {gamma:g}, {LABELS[method]}: {ratios[-1]:.1f} times the limit at n = {sizes[-1]:g}; "
                f"slope of log(F⁺ − F⁻) in log n {slope(sizes, raw):.2f}"
            )
        points = along(found, "rows")
        prior = tuple(float(same[0]["prior"] / same[0]["limit"]) for _, same in points)
        series.append(Curve("a-priori length", tuple(n for n, _ in points), prior, kind="dashed"))
        limit = points[-1][1][0]["limit"]
        notes.append(
            f"γ = {gamma:g}, a-priori length: {prior[-1]:.1f} times the limit at n = {points[-1][0]:g}, which is {limit:.2g}"
        )
        title = f"tabular {seed}, γ = {gamma:g}"
        panels.append(Panel(title, "rows n", "length ÷ efficiency limit", tuple(series), x_log=True, y_log=True))
    return figure_data("How tight is the interval", panels, rows, "seed", "gamma", "rows", notes=notes)


EXPERIMENT = Experiment("tightness", cells, trial, summarize)
