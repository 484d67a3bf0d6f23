"""Spectral against conic search at 512 features, both ends of one interval: time, optimum, status, peak memory.

    python benchmarks/solvers.py [--rows 2000] [--pairs 128] [--rank 400]

Both get the same matrices and one thread (Clarabel has no more). The spectral time includes its decomposition, which
both ends share. Processor time is shown beside the clock: on a busy machine it is the fairer of the two.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Callable

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # before numpy is loaded

import numpy as np
from machine import describe

import bondic
from bondic.core.kernels.features import RandomFeatures
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.search import spectral
from bondic.search.basis import make_basis
from bondic.search.model import SearchModel, build_model
from bondic_lab.search.conic import solve_dual
from bondic_lab.worlds.synthetic import SyntheticMDP

SIGNS = (1.0, -1.0)


def build(rows: int, pairs: int, rank: int) -> SearchModel:
    """4-d state, 2 actions: 2 x 2 x `pairs` features for W, `rank` landmarks per action and a constant for Q."""
    mdp = SyntheticMDP.default(0.9, seed=1, dimension=4)
    data = mdp.rollout(rows // 50, 50, np.random.default_rng(7))
    names = (
        "observations",
        "actions",
        "rewards",
        "next_observations",
        "terminations",
        "truncations",
        "episode_ids",
        "timesteps",
    )
    problem = bondic.make_problem(
        bondic.Transitions(*(getattr(data, name) for name in names)),
        bondic.CallablePolicy(mdp.target_probs),
        bondic.InitialStates.exact(mdp.initial_states, mdp.initial_probs),
        gamma=mdp.gamma,
        reward_range=mdp.reward_range,
    )
    weight = RandomFeatures.gaussian(pairs, 4, 1.0, seed=0) * Dirac()
    value = bondic.Gaussian(1.0) * Dirac() + Constant(1.0)
    points = np.concatenate([problem.initial.points, problem.whole().logged, problem.whole().next.points])
    weights = make_basis(weight, problem.layout, problem.whole().logged, rank=rank)
    values = make_basis(value, problem.layout, points, rank=rank)
    return build_model(problem, weights, values, None)


def timed(work: Callable[[], list[tuple[float, str]]]) -> dict[str, object]:
    start, busy = time.perf_counter(), time.process_time()
    ends = work()
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    return {
        "seconds": round(seconds, 4),
        "processor seconds": round(busy, 4),
        "upper": ends[0][0],
        "lower": -ends[1][0],
        "status": [status for _, status in ends],
        "peak GB so far": round(peak, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--pairs", type=int, default=128)
    parser.add_argument("--rank", type=int, default=400)
    args = parser.parse_args()
    print(json.dumps(describe()))
    model = build(args.rows, args.pairs, args.rank)
    # a noise level at which weights pay off, and room around the smallest q that fits
    kappa = 0.2 * float(np.linalg.norm(model.gradient))
    radius = 3.0 * spectral.minimal_radius(spectral.Spectrum.of(model), kappa)
    rows, columns = model.balance.shape
    print(json.dumps({"rows of A": rows, "features": columns, "radius": radius, "kappa": kappa}))

    def by_spectrum() -> list[tuple[float, str]]:
        spectrum = spectral.Spectrum.of(model)
        found = [spectral.propose(spectrum, sign=sign, radius=radius, kappa=kappa) for sign in SIGNS]
        return [(end.objective, end.status) for end in found]

    def by_cones() -> list[tuple[float, str]]:
        found = [solve_dual(model, sign=sign, radius=radius, kappa=kappa) for sign in SIGNS]
        return [(end.value, end.status) for end in found]

    fast = min((timed(by_spectrum) for _ in range(3)), key=lambda run: float(str(run["seconds"])))
    print(json.dumps({"method": "spectral", **fast}), flush=True)
    slow = timed(by_cones)
    print(json.dumps({"method": "conic", **slow}), flush=True)
    spectrum = spectral.Spectrum.of(model)
    start = time.perf_counter()
    for sign in SIGNS:
        spectral.propose(spectrum, sign=sign, radius=2.0 * radius, kappa=kappa)
    print(json.dumps({"method": "spectral, one more radius", "seconds": round(time.perf_counter() - start, 5)}))
    scale = radius * float(np.linalg.norm(model.start))
    apart = max(abs(float(str(fast[end])) - float(str(slow[end]))) for end in ("upper", "lower")) / scale
    ratio, busy = (float(str(slow[key])) / float(str(fast[key])) for key in ("seconds", "processor seconds"))
    print(
        f"the conic search takes {ratio:.0f} times as long ({busy:.0f} times the processor time); "
        f"optima differ by {apart:.1e} of r |psi_0|"
    )


if __name__ == "__main__":
    main()
