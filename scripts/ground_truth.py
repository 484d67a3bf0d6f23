"""Makes src/bondic_lab/worlds/data/ground_truth.json: J* of the shipped policies by simulation, with standard errors.

python scripts/ground_truth.py              # all; or name some: cartpole pendulum glucose
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

from bondic_lab.worlds.shipped import (
    BEHAVIOR_TEMPERATURE,
    ENVIRONMENTS,
    STAGES,
    TARGET_TEMPERATURE,
    GroundTruth,
    shipped_policy,
)

PATH = Path(__file__).parent.parent / "src" / "bondic_lab" / "worlds" / "data" / "ground_truth.json"
EPISODES = {"cartpole": 100_000, "pendulum": 100_000, "glucose": 8_000}
LENGTH = 250  # 0.95^250 = 2.7e-6: what is cut is worth less than 6e-5 of values up to 20
SEED = 20210503


def simulate(environment: str, stage: str, temperature: float) -> GroundTruth:
    """Mean and standard error of the discounted sum of rewards over independent episodes."""
    dynamics, policy = ENVIRONMENTS[environment](), shipped_policy(environment, stage, temperature)
    returns = dynamics.returns(policy.action_probs, EPISODES[environment], LENGTH, rng=np.random.default_rng(SEED))
    error = float(returns.std(ddof=1) / np.sqrt(len(returns)))
    bias = dynamics.truncation_bias(LENGTH)
    shape = (len(returns), LENGTH, SEED)
    return GroundTruth(environment, stage, temperature, dynamics.gamma, float(returns.mean()), error, bias, *shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=[], help=f"some of {', '.join(ENVIRONMENTS)}; all if none is named")
    names = parser.parse_args().names or list(ENVIRONMENTS)
    kept = json.loads(PATH.read_text(encoding="utf-8"))["values"] if PATH.exists() else []
    values = [entry for entry in kept if entry["environment"] not in names]
    for name in names:
        for stage in STAGES:
            for temperature in (TARGET_TEMPERATURE, BEHAVIOR_TEMPERATURE):
                start = time.perf_counter()
                truth = simulate(name, stage, temperature)
                print(
                    f"{name} {stage} at temperature {temperature}: {truth.value:.4f} ± {truth.standard_error:.4f} "
                    f"(one standard error), {time.perf_counter() - start:.0f} s",
                    flush=True,
                )
                values.append(asdict(truth))
    values.sort(
        key=lambda entry: (list(ENVIRONMENTS).index(entry["environment"]), entry["stage"], entry["temperature"])
    )
    document = {"command": "python scripts/ground_truth.py", "values": values}
    PATH.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
