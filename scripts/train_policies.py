"""Makes src/bondic_lab/worlds/data/<environment>-<stage>.npz: small PPO policies, "partly" and "good", seeds fixed.

    python scripts/train_policies.py              # all; or name some: cartpole pendulum glucose

Needs the extra `train`. The networks are trained once and shipped; nothing at run time needs torch. Bits of the files depend on
the machine's libraries, so a policy is defined by its file, not by this script.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

from bondic_lab.worlds.cartpole import CartPole
from bondic_lab.worlds.dynamics import Dynamics
from bondic_lab.worlds.glucose import Glucose
from bondic_lab.worlds.gym import GymEnvironment
from bondic_lab.worlds.mlp import MLPPolicy
from bondic_lab.worlds.pendulum import InvertedPendulum

DATA = Path(__file__).parent.parent / "src" / "bondic_lab" / "worlds" / "data"
COPIES = 8  # episodes side by side while training


@dataclass(frozen=True)
class Plan:
    """Steps of the environment before "partly" and before "good" is saved, and the length of training episodes."""

    dynamics: Dynamics
    partly: int
    good: int
    length: int
    settings: dict[str, float | int] = field(default_factory=dict)


PLANS = {
    "cartpole": Plan(CartPole(), 4_096, 81_920, 500),
    "pendulum": Plan(InvertedPendulum(), 6_144, 122_880, 200),
    "glucose": Plan(Glucose(), 16_384, 163_840, 96),
}


def train(plan: Plan, seed: int) -> dict[str, MLPPolicy]:
    """Proximal policy optimization with γ of the environment; 32 × 32 tanh units."""
    environments = DummyVecEnv([lambda: GymEnvironment(plan.dynamics, plan.length)] * COPIES)
    environments.seed(seed)
    settings = {
        "n_steps": 256,
        "batch_size": 256,
        "n_epochs": 10,
        "learning_rate": 1e-3,
        "ent_coef": 0.0,
        **plan.settings,
    }
    model = PPO(
        "MlpPolicy",
        environments,
        gamma=plan.dynamics.gamma,
        policy_kwargs={"net_arch": {"pi": [32, 32], "vf": [64, 64]}},
        seed=seed,
        device="cpu",
        **settings,
    )
    stages = {}
    for stage, steps in (("partly", plan.partly), ("good", plan.good - plan.partly)):
        model.learn(steps, reset_num_timesteps=stage == "partly")
        stages[stage] = export(model)
    return stages


def export(model: PPO) -> MLPPolicy:
    """The network's layers as numpy arrays: they are the policy."""
    layers = [*model.policy.mlp_extractor.policy_net, model.policy.action_net]
    linear = [layer for layer in layers if isinstance(layer, torch.nn.Linear)]
    return MLPPolicy(
        tuple(layer.weight.detach().numpy() for layer in linear), tuple(layer.bias.detach().numpy() for layer in linear)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=[], help=f"some of {', '.join(PLANS)}; all if none is named")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=DATA)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.names or PLANS:
        start = time.perf_counter()
        for stage, policy in train(PLANS[name], arguments.seed).items():
            path = arguments.out / f"{name}-{stage}.npz"
            policy.save(path)
            print(f"{path.name}: {path.stat().st_size} bytes, {time.perf_counter() - start:.0f} s in all", flush=True)


if __name__ == "__main__":
    main()
