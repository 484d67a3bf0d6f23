"""How long the dual interval is with each noise bound, on problems with known answers: the table of the theory page.

    python experiments/noise_bounds.py [--rows 2000 20000] [--seed 1]

Prints a Markdown table of F+ - F-, not yet cut to the value range, at alpha = 0.1, with r_Q = 10 |q*| where q* is a
formula, and W fixed beforehand.
The last columns are the self-normalized bound with rho as a share of n; "planned" is what gauge="self-normalized" takes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from bondic_lab.noise.self_normalized import SelfNormalized

if not __package__:  # run as a script: this folder must not be searched, or numba takes coverage.py for a library
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np

import bondic as b
from bondic.core.dual.noise import NoiseBound
from bondic_lab.reproduction.known import synthetic, tabular
from bondic_lab.reproduction.worlds import Setup, simulated

NAMES = ("paper", "half", "self-normalized")
SHARES = (1.0, 0.3, 0.1, 0.03, 0.01)
PROBLEMS: dict[str, Callable[[int, np.random.Generator], Setup]] = {
    "table of 8 pairs, γ = 0.5": lambda rows, rng: tabular(rows, rng, seed=7, gamma=0.5),
    "table of 8 pairs, γ = 0.9": lambda rows, rng: tabular(rows, rng, seed=7, gamma=0.9),
    "synthetic, γ = 0.5": lambda rows, rng: synthetic(rows, rng, gamma=0.5),
    "synthetic, γ = 0.9": lambda rows, rng: synthetic(rows, rng, gamma=0.9),
    "cart-pole, r_Q = 60": lambda rows, rng: _rough("cartpole", rows, rng),
    "pendulum, r_Q = 60": lambda rows, rng: _rough("pendulum", rows, rng),
}


def _rough(name: str, rows: int, rng: np.random.Generator) -> Setup:
    """A simulated world with a radius of the order of its q*, small enough for the noise to matter."""
    setup = simulated(name, rows, rng)
    return replace(setup, ball=setup.ball.with_radius(60.0))


def length(setup: Setup, gauge: str | NoiseBound) -> float:
    """F+ - F- with this noise bound."""
    method = b.Dual(instruments=setup.instruments, ball=setup.ball, gauge=gauge)
    ends = {claim.end: claim.bound for claim in b.estimate_interval(setup.problem, method=method).claims}
    return ends["upper"] - ends["lower"]


def table(sizes: list[int], seed: int) -> Iterator[str]:
    """The lines of the table, one problem and size each."""
    names = (*("planned" if name == "self-normalized" else name for name in NAMES), *(f"{s:g} n" for s in SHARES))
    yield "| problem | n | " + " | ".join(names) + " |"
    yield "|---|---|" + "---|" * len(names)
    for name, make in PROBLEMS.items():
        for rows in sizes:
            setup = make(rows, np.random.default_rng(seed))
            gauges = (*NAMES, *(SelfNormalized(share * rows) for share in SHARES))
            found = [f"{length(setup, gauge):.3g}" for gauge in gauges]
            yield f"| {name} | {rows} | " + " | ".join(found) + " |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[2000, 20_000])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for line in table(options.rows, options.seed):
        print(line, flush=True)
