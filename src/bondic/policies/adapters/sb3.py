"""stable-baselines3 models (extra `train`): PPO and A2C, DQN, SAC, TD3 and DDPG.

Stochastic policies are asked for their distribution; draws use the generator that is passed in, never torch's own.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.errors import InvalidInput, MissingExtra, PolicyError, one_line
from bondic.policies.adapters.outputs import to_probabilities

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BaselinesPolicy:
    """The policy of a trained model; `deterministic` models return one action per state."""

    model: Any
    deterministic: bool

    def action_probs(self, observations: FloatArray) -> FloatArray:
        import torch

        space = self.model.action_space
        if not hasattr(space, "n") or hasattr(space, "nvec") or np.ndim(space.n):
            raise PolicyError(f"The model acts in {one_line(space)}; the log has discrete actions.")
        if self.deterministic:
            chosen = np.asarray(self.model.predict(self._states(observations), deterministic=True)[0]).reshape(-1)
            return np.asarray(np.eye(int(space.n))[chosen - int(getattr(space, "start", 0))])
        with torch.no_grad():
            tensor, _ = self.model.policy.obs_to_tensor(self._states(observations))
            probs = self.model.policy.get_distribution(tensor).distribution.probs.cpu().numpy()
        return to_probabilities(probs, len(observations), "probabilities", "The model")

    def sample_action(self, observations: FloatArray, rng: np.random.Generator) -> FloatArray:
        import torch

        space, policy = self.model.action_space, self.model.policy
        if not hasattr(space, "low"):
            raise PolicyError(f"The model acts in {one_line(space)}; the log has continuous actions.")
        if self.deterministic:
            actions = self.model.predict(self._states(observations), deterministic=True)[0]
            return np.asarray(actions, dtype=np.float64).reshape(len(observations), -1)
        with torch.no_grad():
            tensor, _ = policy.obs_to_tensor(self._states(observations))
            if hasattr(policy, "actor") and hasattr(policy.actor, "get_action_dist_params"):  # SAC: tanh of a Gaussian
                mean, log_std, _ = policy.actor.get_action_dist_params(tensor)
                mean, std = mean.cpu().numpy(), log_std.exp().cpu().numpy()
                squashed = np.tanh(mean + std * rng.standard_normal(mean.shape))
                return np.asarray(policy.unscale_action(squashed), dtype=np.float64).reshape(len(observations), -1)
            normal = policy.get_distribution(tensor).distribution
            mean, std = normal.mean.cpu().numpy(), normal.stddev.cpu().numpy()
        actions = mean + std * rng.standard_normal(mean.shape)
        if getattr(policy, "squash_output", False):
            return np.asarray(policy.unscale_action(np.tanh(actions)), dtype=np.float64).reshape(len(observations), -1)
        clipped = np.clip(actions.reshape(len(observations), *space.shape), space.low, space.high)
        return np.asarray(clipped, dtype=np.float64).reshape(len(observations), -1)

    def _states(self, observations: FloatArray) -> npt.NDArray[Any]:
        space = self.model.observation_space
        if hasattr(space, "n") and not np.ndim(space.n):
            return observations[:, 0].astype(np.int64)
        shape = getattr(space, "shape", None)
        if not shape or int(np.prod(shape)) != observations.shape[1]:
            raise PolicyError(f"The model observes {one_line(space)}; the log has {observations.shape[1]} dimensions.")
        return observations.reshape(len(observations), *shape).astype(space.dtype)


def is_baselines_model(candidate: Any) -> bool:
    return any(kind.__module__.startswith("stable_baselines3.") for kind in type(candidate).__mro__) and hasattr(
        candidate, "policy"
    )


def wrap_baselines(model: Any) -> BaselinesPolicy:
    if getattr(model, "use_sde", False):
        raise PolicyError(
            "The model draws its noise per episode (use_sde): its actions are no function of the state alone."
        )
    names = {kind.__name__ for kind in type(model).__mro__}
    return BaselinesPolicy(model, deterministic=bool(names & {"DQN", "TD3"}))  # DDPG is a TD3


def load_baselines(path: Path) -> BaselinesPolicy:
    """A model saved by model.save(); loading unpickles, so the caller has made sure that the file is trusted."""
    name = _algorithm(path)
    try:
        import stable_baselines3
    except ImportError as problem:
        raise MissingExtra("stable-baselines3", "train", "Reading stable-baselines3 models") from problem
    try:
        model = getattr(stable_baselines3, name).load(path, device="cpu")
    except Exception as problem:  # unpickling raises anything
        raise InvalidInput(
            f"{one_line(path.name)} cannot be loaded as {name} ({type(problem).__name__}: {one_line(problem, 200)})."
        ) from problem
    return wrap_baselines(model)


def _algorithm(path: Path) -> str:
    """Which algorithm saved the file: told by the settings that are its own. Nothing is unpickled here."""
    try:
        with zipfile.ZipFile(path) as archive:
            settings = json.loads(archive.read("data"))
        keys = set(settings)
    except (OSError, KeyError, ValueError, TypeError, zipfile.BadZipFile) as problem:
        raise InvalidInput(
            f"{one_line(path.name)} is not a model saved by stable-baselines3 ({type(problem).__name__}: "
            f"{one_line(problem, 200)})."
        ) from problem
    marks = {"clip_range": "PPO", "exploration_fraction": "DQN", "target_policy_noise": "TD3", "target_entropy": "SAC"}
    for mark, name in marks.items():
        if mark in keys:
            return name
    if "gae_lambda" in keys:
        return "A2C"
    raise InvalidInput(f"{one_line(path.name)} was saved by an algorithm other than PPO, A2C, DQN, SAC, TD3 and DDPG.")
