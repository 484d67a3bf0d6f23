"""Policies that ship with the library, and J* of each by simulation with its standard error."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from bondic.core.errors import InvalidInput
from bondic_lab.worlds.cartpole import CartPole
from bondic_lab.worlds.dynamics import Dynamics
from bondic_lab.worlds.glucose import Glucose
from bondic_lab.worlds.mlp import MLPPolicy
from bondic_lab.worlds.pendulum import InvertedPendulum

ENVIRONMENTS: dict[str, type[Dynamics]] = {kind.name: kind for kind in (CartPole, InvertedPendulum, Glucose)}
STAGES = ("partly", "good")
TARGET_TEMPERATURE, BEHAVIOR_TEMPERATURE = 0.1, 1.0


@dataclass(frozen=True)
class GroundTruth:
    """Mean of `episodes` independent Σ_{t < length} γ^t r_t; |E mean − J*| ≤ `truncation_bias`."""

    environment: str
    stage: str
    temperature: float
    gamma: float
    value: float
    standard_error: float
    truncation_bias: float
    episodes: int
    length: int
    seed: int


def shipped_policy(environment: str, stage: str = "good", temperature: float = TARGET_TEMPERATURE) -> MLPPolicy:
    """A small network trained by scripts/train_policies.py for an environment with default settings."""
    if environment not in ENVIRONMENTS or stage not in STAGES:
        raise InvalidInput(
            f"There is no policy {stage!r} for {environment!r}; the library ships {' and '.join(STAGES)} "
            f"for {', '.join(ENVIRONMENTS)}."
        )
    return MLPPolicy.load(_data().joinpath(f"{environment}-{stage}.npz").read_bytes(), temperature)


def ground_truth(environment: str, stage: str = "good", temperature: float = TARGET_TEMPERATURE) -> GroundTruth:
    """J* of `shipped_policy` with the same arguments, simulated once by scripts/ground_truth.py."""
    stored = json.loads(_data().joinpath("ground_truth.json").read_text(encoding="utf-8"))["values"]
    for entry in stored:
        if (entry["environment"], entry["stage"], entry["temperature"]) == (environment, stage, temperature):
            return GroundTruth(**entry)
    known = ", ".join(f"{e['environment']} {e['stage']} {e['temperature']}" for e in stored)
    raise InvalidInput(
        f"No value is stored for {environment!r}, {stage!r}, temperature {temperature}; there are {known}. "
        "Simulate it with Dynamics.returns."
    )


def _data() -> Traversable:
    return files("bondic_lab.worlds").joinpath("data")
