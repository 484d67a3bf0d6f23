"""How short the intervals are: every finite-sample method, and two limits that no valid method can beat, on the same logs.

    python experiments/tightness.py [--rows 1000,5000,20000,100000] [--seeds 3] [--problems synthetic,table,gym]
                                    [--out out/tightness.json] [--page out/tightness.md]

All methods see the same log, the same class Q and alpha = 0.1. Limits: the efficient length 2 z sqrt(V*/n), and for unseen
events (20) with one pair, or one region, and beta = 1/2, both ends together. Every interval is held against the true value.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: this folder must not be searched, or numba takes coverage.py for another one
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
from experiments.coverage import write_atomically
from experiments.coverage_checks import missed
from experiments.defaults_cells import table_trial, truth_about
from experiments.defaults_problems_gym import TABLES, gym_table
from scipy.stats import norm

import bondic
from bondic.core.balls import Box
from bondic.core.kernels.normal_form import Layout
from bondic.methods.sequential import Sequential
from bondic_lab.baselines.registry import make_baseline
from bondic_lab.worlds.continuous import ContinuousMDP
from bondic_lab.worlds.occupancy import density_ratio, efficient_variance, log_distribution, pair_grid
from bondic_lab.worlds.tabular import TabularMDP

ALPHA = 0.1
REGION = 0.02
"""Share of the rows in the region where an unseen event is hidden, in the world without single pairs."""
LENGTH = 50
"""Rows of an episode."""
STARTS = 100_000
RADIUS = 10.0
"""Of Q in the synthetic world: ten times the norm of q*."""


@dataclass(frozen=True, eq=False)
class Case:
    """A problem with its truth, its limits, and the class that all methods are given."""

    name: str
    make: Callable[..., Any]  # rows, seed -> problem
    truth: float
    efficiency: float  # V*
    unseen: float  # sum over both ends of max ω* (distance of q* to that end of the range)
    ball: Any
    methods: tuple[str, ...]
    most: dict[str, int] = field(default_factory=dict)  # rows beyond which a method is left out


def synthetic_world() -> ContinuousMDP:
    """Twenty bumps of bandwidth 1.5, scaled to norm 1; a sharp target, a wide behavior; nothing but the dynamics is noisy."""
    rng = np.random.default_rng(0)
    places, heights = rng.normal(size=(20, 2)) * (1.0, 0.8), rng.normal(size=20)
    gram = np.exp(-((places[:, None] - places) ** 2).sum(axis=2) / 4.5)
    heights /= math.sqrt(heights @ gram @ heights)
    return ContinuousMDP(
        gamma=0.95,
        state_centers=places[:, 0],
        action_centers=places[:, 1],
        weights=heights,
        constant=0.0,
        bandwidth=1.5,
        reversion=0.8,
        push=0.5,
        noise=0.2,
        gain=-0.6,
        initial_mean=0.0,
        initial_variance=0.25,
        target_temperature=0.05,
        behavior_temperature=0.5,
    )


def synthetic(value_range: tuple[float, float] = (-14.0, 4.8)) -> Case:
    world = synthetic_world()

    def make(rows: int, seed: int, own_starts: bool = False) -> Any:
        rng = np.random.default_rng([seed, rows])
        log = world.rollout(-(-rows // LENGTH), LENGTH, rng)
        starts = None if own_starts else bondic.InitialStates.sample(world.starts(STARTS, rng))
        statements: dict[str, Any] = {"value_range": value_range, "may_terminate": False, "initial_draws": 1}
        return bondic.make_problem(
            _transitions(log, rows),
            world.target,
            starts,
            gamma=world.gamma,
            reward_range=world.reward_range,
            accept=None,
            seed=seed,
            population="iid" if own_starts else None,
            **statements,
        )

    law = log_distribution(world, LENGTH)
    states, actions, _ = pair_grid(world)
    place, act = states.reshape(-1, 1), actions.reshape(-1, 1)
    share = law.density(place, act)
    ratio, values = np.nan_to_num(density_ratio(world, law)(place, act)), world.q_star(place, act)
    least = max(value_range[0], world.reward_range[0] - world.gamma * RADIUS)  # an unseen state is in Q, too
    most = min(value_range[1], world.reward_range[1] + world.gamma * RADIUS)
    ends = ratio * (values - least), ratio * (most - values)
    unseen = sum(_mean_of_top(end, share) for end in ends)
    ball = bondic.Ball(bondic.Gaussian(1.5, on="point"), RADIUS)
    methods = ("sequential", "self-normalized", "half", "paper", "feng2020", "hcope", "propensities", "dm")
    name = f"synthetic, range [{value_range[0]:g}, {value_range[1]:g}]"
    variance = efficient_variance(world, law)
    return Case(name, make, world.value, variance, unseen, ball, methods, {"feng2020": 5000})


def _mean_of_top(values: Any, share: Any) -> float:
    """The mean of the largest values, over the region that has a fiftieth of the rows."""
    order = np.argsort(-values)
    below = np.cumsum(share[order]) / share.sum()
    top = order[: int(np.searchsorted(below, REGION)) + 1]
    return float(np.average(values[top], weights=share[top]))


def table() -> Case:
    rng = np.random.default_rng(7)
    transitions = rng.dirichlet(np.full(8, 0.15), (8, 2))
    means, target = rng.uniform(size=(8, 2)) ** 2, rng.dirichlet([0.5, 0.5], 8)
    start = np.full(8, 1 / 8)
    world = TabularMDP(transitions, means, start, target, np.full((8, 2), 0.5), 0.9, (0.0, 1.0))

    def make(rows: int, seed: int, own_starts: bool = False) -> Any:
        """Rewards are 0 or 1 with these means."""
        own = np.random.default_rng([seed, rows])
        log = _transitions(world.rollout(-(-rows // LENGTH), LENGTH, own), rows)
        rewards = (own.random(rows) < means[log.observations[:, 0].astype(int), log.actions]).astype(float)
        initial = None if own_starts else bondic.InitialStates.exact(np.arange(8.0)[:, None], start)
        return bondic.make_problem(
            _with_rewards(log, rewards),
            bondic.TablePolicy(target),
            initial,
            gamma=0.9,
            reward_range=(0.0, 1.0),
            may_terminate=False,
            accept=None,
            population="iid" if own_starts else None,
        )

    occupied, now = np.zeros(8), start
    for _ in range(LENGTH):
        occupied, now = occupied + now, np.einsum("s,sat->t", now / 2, transitions)
    law = np.repeat(occupied[:, None] / LENGTH / 2, 2, axis=1)
    q = world.q_star
    visits = np.linalg.solve((np.eye(16) - 0.9 * _moves(transitions, target)).T, (start[:, None] * target).ravel())
    ratio = (visits / law.ravel()).reshape(8, 2)
    values = (target * q).sum(axis=1)
    spread = means * (1 - means) + 0.81 * (transitions @ values**2 - (transitions @ values) ** 2)
    variance = float((law * ratio**2 * spread).sum())
    unseen = float((ratio * q).max() + (ratio * (10.0 - q)).max())
    box = Box.around(0.0, 10.0, Layout(1, False, 0, 2))
    methods = ("sequential", "self-normalized", "half", "paper", "hcope", "propensities", "dm")
    return Case("table, 16 pairs, nothing assumed", make, world.value, variance, unseen, box, methods)


def _moves(transitions: Any, target: Any) -> Any:
    return (transitions[..., None] * target[None, None]).reshape(16, 16)


def _transitions(log: Any, rows: int) -> bondic.Transitions:
    names = (
        "observations", "actions", "rewards", "next_observations", "terminations", "truncations", "episode_ids", "timesteps",
        "behavior_action_probs",
    )  # fmt: skip
    return bondic.Transitions(**{name: getattr(log, name)[:rows] for name in names})


def _with_rewards(log: bondic.Transitions, rewards: Any) -> bondic.Transitions:
    from dataclasses import replace

    return replace(log, rewards=rewards)


def method_of(name: str, ball: Any) -> Any:
    if name == "sequential":
        return Sequential(ball=ball) if isinstance(ball, bondic.Ball) else bondic.Table()
    if name in ("self-normalized", "half", "paper"):
        return bondic.Dual(ball=ball, gauge=name)
    return bondic.Propensities() if name == "propensities" else make_baseline(name)


def gym_rows(seed: int, rows: int = 100_000, gamma: float = 0.9) -> Iterator[dict[str, Any]]:
    """Gymnasium's tables with nothing assumed: half the best action and half any was logged, nine tenths the best is asked."""
    for name, (identifier, settings, _, reward_range, _, longest) in TABLES.items():
        world, start = gym_table(identifier, **settings)
        best = world.greedy(gamma)
        even = np.full(best.shape, 1.0 / best.shape[1])
        trial = table_trial(
            world,
            start,
            target=0.9 * best + 0.1 * even,
            behavior=lambda _, best=best, even=even: 0.5 * best + 0.5 * even,
            gamma=gamma,
            reward_range=reward_range,
            rows=rows,
            longest=longest,
            rng=np.random.default_rng(seed),
        )
        begun = time.perf_counter()
        result = trial.evaluate(ALPHA)
        yield _row(name, rows, seed, result, truth_about(result, trial.truth), begun, "default")


def _row(case: str, rows: int, seed: int, result: Any, truth: float, begun: float, method: str) -> dict[str, Any]:
    return {
        "case": case,
        "rows": rows,
        "seed": seed,
        "method": method,
        "used": result.method,
        "low": result.low,
        "high": result.high,
        "range": [result.value_range.low, result.value_range.high],
        "status": result.status.name,
        "guarantee": result.guarantee,
        "truth": truth,
        "held": not missed(result, truth),
        "seconds": time.perf_counter() - begun,
    }


def run(case: Case, rows: int, seed: int) -> Iterator[dict[str, Any]]:
    problem = case.make(rows, seed)
    for name in case.methods:
        if rows > case.most.get(name, rows):
            continue
        begun = time.perf_counter()
        try:
            # episodes begin with draws of d_0: propensities weigh these, and no other starts
            asked = case.make(rows, seed, own_starts=True) if name == "propensities" else problem
            result = bondic.estimate_interval(asked, alpha=ALPHA, method=method_of(name, case.ball))
        except bondic.BondicError as problem_found:
            print(f"  {case.name} {rows} {name}: {problem_found}", flush=True)
            continue
        yield _row(case.name, rows, seed, result, case.truth, begun, name)


def limits(case: Case, rows: int) -> tuple[float, float]:
    """Efficient length, and what unseen events cost at both ends together (beta = 1/2, alpha/2 each)."""
    efficient = 2 * float(norm.ppf(1 - ALPHA / 2)) * math.sqrt(case.efficiency / rows)
    return efficient, math.log(0.5 / (ALPHA / 2)) / rows * case.unseen


def page(found: list[dict[str, Any]], cases: list[Case]) -> str:
    text = [
        "# How short the intervals are",
        "",
        "Lengths of 90 % intervals on the same logs, with the same class Q, against two limits that no valid method can beat "
        "(limits). *trivial* means that the log added nothing to the value range. Seconds are those of the "
        "whole call. Written by",
        "",
        "```sh",
        "python experiments/tightness.py --page out/tightness.md  # part of make experiments",
        "```",
        "",
    ]
    for case in cases:
        own = [row for row in found if row["case"] == case.name]
        counts = sorted({row["rows"] for row in own})
        text += [f"## {case.name[0].upper()}{case.name[1:]}", "", f"True value {case.truth:.4f}.", ""]
        text += [
            "| method | guarantee | " + " | ".join(f"n = {n}" for n in counts) + " |",
            "|---|---|" + "---|" * len(counts),
        ]
        for name in case.methods:
            rows = [row for row in own if row["method"] == name]
            if rows:
                cells = [_cell([row for row in rows if row["rows"] == n]) for n in counts]
                text.append(f"| {name} | {rows[0]['guarantee']} | " + " | ".join(cells) + " |")
        both = [limits(case, n) for n in counts]
        text.append("| *efficiency limit* | | " + " | ".join(f"{a:.3g}" for a, _ in both) + " |")
        text.append("| *unseen-event limit* | | " + " | ".join(f"{b:.3g}" for _, b in both) + " |")
        ratios = []
        for n, (a, b) in zip(counts, both, strict=True):
            lengths = [r["high"] - r["low"] for r in own if r["method"] == "sequential" and r["rows"] == n]
            mean = sum(lengths) / len(lengths)
            ratios.append(f"{mean / a:.2g} × efficiency, {mean / (a + b):.2g} × both")
        text += ["| *sequential, as a multiple* | | " + " | ".join(ratios) + " |", ""]
    gym = [row for row in found if row["method"] == "default"]
    if gym:
        text += ["## Gymnasium's tables", "", "100 000 rows, γ = 0.9, nothing assumed, default settings.", ""]
        text += ["| world | method | interval | value | share of the range | seconds |", "|---|---|---|---|---|---|"]
        for row in gym:
            low, high = row["range"]
            share = (row["high"] - row["low"]) / (high - low)
            held = "" if row["held"] else " **missed**"
            text.append(
                f"| {row['case']} | {row['used']} | [{row['low']:.4g}, {row['high']:.4g}]{held} | {row['truth']:.4g} | "
                f"{share:.3g} | {row['seconds']:.0f} |"
            )
        text.append("")
    return "\n".join(text)


def _cell(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "–"
    length = sum(row["high"] - row["low"] for row in rows) / len(rows)
    misses = sum(not row["held"] for row in rows)
    words = "trivial" if all(row["status"] == "TRIVIAL" for row in rows) else f"{length:.3g}"
    rejected = sum(row["status"] == "REJECTED" for row in rows)
    notes = [f"{misses} of {len(rows)} missed"] * bool(misses) + [f"{rejected} of them rejected"] * bool(rejected)
    seconds = sum(row["seconds"] for row in rows) / len(rows)
    return f"{words} ({seconds:.0f} s)" + (f" **{', '.join(notes)}**" if notes else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1000,5000,20000,100000")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--problems", default="synthetic,table,gym")
    parser.add_argument("--out", type=Path, default=Path("out/tightness.json"))
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    wanted = options.problems.split(",")
    known = {"synthetic": synthetic, "table": table}
    cases = [make() for name, make in known.items() if name in wanted]
    found: list[dict[str, Any]] = []
    for seed in range(1, options.seeds + 1):
        for case in cases:
            for rows in map(int, options.rows.split(",")):
                for row in run(case, rows, seed):
                    found.append(row)
                    print(f"{row['case']} n={rows} {row['method']}: [{row['low']:.4g}, {row['high']:.4g}] "
                          f"{row['seconds']:.0f} s", flush=True)  # fmt: skip
        if "gym" in wanted:
            for row in gym_rows(seed):
                found.append(row)
                print(
                    f"{row['case']}: [{row['low']:.4g}, {row['high']:.4g}] {row['truth']:.4g} {row['seconds']:.0f} s",
                    flush=True,
                )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(options.out, json.dumps(found, indent=1))
    if options.page is not None:
        write_atomically(options.page, page(found, cases))
    wrong = [row for row in found if row["guarantee"] == "finite-sample" and not row["held"]]
    return 1 if len(wrong) > 1 + 0.1 * len(found) else 0


if __name__ == "__main__":
    raise SystemExit(main())
