"""What other libraries say about a log in an npz file: `python benchmarks/cross_check_others.py LIBRARY LOG.npz`.

Run by cross_check.py in an interpreter that has the library; imports numpy and that library alone. Prints one line of JSON:
{"version": ..., "numbers": {name: number}}, or {"missing": why}. Exit status 0 in both cases.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

Arrays = dict[str, Any]
Numbers = dict[str, float]


def vw_estimators(log: Arrays) -> Numbers:
    """Counterfactual estimators of the Vowpal Wabbit project, fed one event at a time; one-step logs."""
    from estimators.bandits import ips, snips

    wanted = log["policy"][np.arange(log["actions"].size), log["actions"]]
    found = {}
    for name, estimator in (("tis", ips.Estimator()), ("sntis", snips.Estimator())):
        for logged, reward, target in zip(log["behavior"], log["rewards"], wanted, strict=True):
            estimator.add_example(float(logged), float(reward), float(target))
        found[name] = float(estimator.get())
    return found


def obp(log: Arrays) -> Numbers:
    """Open Bandit Pipeline; one-step logs."""
    from obp.ope import DoublyRobust, InverseProbabilityWeighting, SelfNormalizedInverseProbabilityWeighting

    given = {
        "reward": log["rewards"],
        "action": log["actions"],
        "pscore": log["behavior"],
        "action_dist": log["policy"][:, :, None],
        "position": np.zeros(log["rewards"].size, dtype=int),
    }
    return {
        "tis": float(InverseProbabilityWeighting().estimate_policy_value(**given)),
        "sntis": float(SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**given)),
        "dr": float(DoublyRobust().estimate_policy_value(**given, estimated_rewards_by_reg_model=log["q"][:, :, None])),
    }


def scope_rl(log: Arrays) -> Numbers:
    """SCOPE-RL; episodes of equal length. Its two-sided t interval puts t_{1-a} at both ends, so a is halved here."""
    from scope_rl.ope import discrete

    alpha = float(log["alpha"]) / 2
    given = {
        "step_per_trajectory": int(log["steps"]),
        "action": log["actions"],
        "reward": log["rewards"],
        "pscore": log["behavior"],
        "evaluation_policy_action_dist": log["policy"],
        "gamma": float(log["gamma"]),
    }
    found = {}
    for name, kind in (
        ("tis", discrete.TrajectoryWiseImportanceSampling),
        ("pdis", discrete.PerDecisionImportanceSampling),
        ("sntis", discrete.SelfNormalizedTIS),
        ("snpdis", discrete.SelfNormalizedPDIS),
    ):
        found[name] = float(kind().estimate_policy_value(**given))
        if name in ("tis", "pdis"):
            ends = kind().estimate_interval(**given, alpha=alpha, ci="ttest")
            found[f"{name} low"], found[f"{name} high"] = (
                float(next(value for key, value in ends.items() if end in key)) for end in ("lower", "upper")
            )
    found["dr"] = float(discrete.DoublyRobust().estimate_policy_value(**given, state_action_value_prediction=log["q"]))
    return found


def d3rlpy(log: Arrays) -> Numbers:
    """DiscreteFQE of d3rlpy on one-hot states; the next action is drawn from the policy's table at every step."""
    import torch
    from d3rlpy.dataset import MDPDataset
    from d3rlpy.logging import NoopAdapterFactory
    from d3rlpy.models.encoders import VectorEncoderFactory
    from d3rlpy.ope import DiscreteFQE, FQEConfig

    torch.set_num_threads(1)
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002  the library draws its batches from there
    table = torch.from_numpy(log["table"])

    class Drawn:
        def predict_best_action(self, states: Any) -> Any:
            return torch.multinomial(table[states.argmax(dim=1)], 1)[:, 0]

    class Policy:
        impl = Drawn()

    config = FQEConfig(
        gamma=float(log["gamma"]),
        learning_rate=1e-3,
        batch_size=256,
        target_update_interval=50,
        encoder_factory=VectorEncoderFactory(hidden_units=[32, 32]),
    )
    fqe = DiscreteFQE(algo=Policy(), config=config)
    dataset = MDPDataset(**stretched(log), action_size=table.shape[1])
    states = np.eye(table.shape[0], dtype=np.float32)
    steps, every, values = int(log["gradient_steps"]), 50, []
    training = fqe.fitter(
        dataset, n_steps=steps, n_steps_per_epoch=every, show_progress=False, logger_adapter=NoopAdapterFactory()
    )
    for epoch, _ in training:
        if epoch * every > 0.75 * steps:  # single networks wander with their batches: the last quarter is averaged
            q = np.column_stack([fqe.predict_value(states, np.full(len(states), a)) for a in range(table.shape[1])])
            values.append(float(log["initial"] @ np.sum(log["table"] * q, axis=1)))
    return {"fqe": float(np.mean(values)), "fqe spread": float(np.std(values))}


def stretched(log: Arrays) -> Arrays:
    """One row more for every cut episode: its last next state, which this library reads off the following row."""
    hot, out = np.eye(log["table"].shape[0], dtype=np.float32), []
    last = np.append(np.diff(log["episodes"]) != 0, True)
    for i in range(log["actions"].size):
        end = bool(log["terminations"][i])
        out.append((hot[log["states"][i]], log["actions"][i], log["rewards"][i], float(end), 0.0))
        if last[i] and not end:
            out.append((hot[log["next_states"][i]], 0, 0.0, 0.0, 1.0))
    states, actions, rewards, terminals, timeouts = (np.array(column) for column in zip(*out, strict=True))
    return {
        "observations": states,
        "actions": actions[:, None],
        "rewards": rewards.astype(np.float32)[:, None],
        "terminals": terminals.astype(np.float32),
        "timeouts": timeouts.astype(np.float32),
    }


LIBRARIES: dict[str, tuple[Callable[[Arrays], Numbers], str]] = {
    "vw-estimators": (vw_estimators, "vw-estimators"),
    "obp": (obp, "obp"),
    "scope-rl": (scope_rl, "scope-rl"),
    "d3rlpy": (d3rlpy, "d3rlpy"),
}


def main(name: str, path: str) -> None:
    ask, package = LIBRARIES[name]
    with np.load(path) as stored:
        log = dict(stored)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            numbers = ask(log)
        answer: dict[str, Any] = {"version": version(package), "numbers": numbers}
    except ImportError as problem:
        answer = {"missing": str(problem)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
