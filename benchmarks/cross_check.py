"""Our baselines against independent libraries on the same logs.

    python benchmarks/cross_check.py --python OTHER/bin/python [--only d3rlpy] [--steps 6000]

OTHER is an environment with any of vw-estimators, obp, scope-rl and d3rlpy (their pins and ours do not fit into one); repeat
--python for several. The logs go through a temporary file, the libraries are called by cross_check_others.py there. What is
missing is skipped and said so. Exit status 1 when a difference is above its tolerance.

Estimators that are identities of the log must agree to 1e-9 of the value range (SCOPE-RL adds 1e-10 to normalizing sums).
Fitted Q values must agree as far as networks do: 0.2 % of the value range (2 % of the spread of q* in this table). The exact
value of the table stands beside them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import bondic
from bondic.errors import MissingExtra
from bondic.rows.episodes import episode_numbers
from bondic.rows.rows import Rows
from bondic_lab.baselines.features import make_design
from bondic_lab.baselines.lstd import restrict
from bondic_lab.baselines.registry import make_baseline
from bondic_lab.baselines.trajectories import trajectories
from bondic_lab.baselines.trajectory_dr import control_variates
from bondic_lab.baselines.units import fold_numbers
from bondic_lab.worlds.tabular import TabularMDP

IDENTITY = 1e-9
TRAINING = 0.002
ALPHA = 0.1
OTHERS = Path(__file__).with_name("cross_check_others.py")


@dataclass(frozen=True)
class Case:
    """A log, our numbers for it, and what else the libraries need to be told."""

    name: str
    libraries: tuple[str, ...]
    arrays: dict[str, Any]
    ours: dict[str, float]  # by the name of their number
    words: dict[str, str]  # our method behind each of ours
    truth: float
    scale: float  # width of the value range
    tolerance: float


def world(gamma: float, termination: float, seed: int) -> TabularMDP:
    mdp = TabularMDP.random(
        np.random.default_rng(seed),
        n_states=4,
        n_actions=3,
        gamma=gamma,
        reward_range=(-1.0, 1.0),
        termination=termination,
    )
    mild = 0.5 * mdp.target + 0.5 * mdp.behavior
    return TabularMDP(
        mdp.transitions, mdp.rewards, mdp.initial_probs, mild, mdp.behavior, gamma, mdp.reward_range, mdp.termination
    )


def question(mdp: TabularMDP, rollout: Any, **more: Any) -> Rows:
    """The value is the mean over the starts of the episodes, as the other libraries have it."""
    log = bondic.Transitions(**{name: getattr(rollout, name) for name in rollout.__dataclass_fields__})
    return bondic.make_problem(
        log, bondic.TablePolicy(mdp.target), gamma=mdp.gamma, reward_range=mdp.reward_range, **more
    )


def plain(mdp: TabularMDP, rollout: Any) -> dict[str, Any]:
    """The log as arrays that any library can read."""
    states = rollout.observations[:, 0].astype(int)
    return {
        "states": states,
        "next_states": rollout.next_observations[:, 0].astype(int),
        "actions": rollout.actions.astype(int),
        "rewards": rollout.rewards,
        "terminations": rollout.terminations,
        "episodes": rollout.episode_ids,
        "behavior": rollout.behavior_action_probs,
        "policy": mdp.target[states],
        "table": mdp.target,
        "initial": mdp.initial_probs,
        "gamma": mdp.gamma,
        "alpha": ALPHA,
    }


def cross_fitted_q(problem: Rows, mdp: TabularMDP, states: np.ndarray) -> np.ndarray:
    """q_t(s_i, .) of the folds that `dr` does not use for row i, (n, actions): what it takes as control variate."""
    paths, times = trajectories(problem), problem.log.timesteps
    design, episodes = make_design(problem), episode_numbers(problem)
    fold = fold_numbers(np.arange(episodes.max() + 1), 2, 0)[episodes]
    found = np.empty((len(problem), mdp.target.shape[1]))
    for k in range(2):
        thetas = control_variates(paths, restrict(design, fold != k), design.ridge(None))
        for t in range(paths.steps):
            table, here = np.full(mdp.target.shape, np.nan), (fold == k) & (times == t)
            table[states, problem.whole().slots] = design.logged @ thetas[t]
            found[here] = table[states[here]]
    if np.isnan(found).any():
        raise RuntimeError("a pair (s, a) is missing in the log: take more episodes")
    return found


def weighting_case(
    name: str, libraries: tuple[str, ...], mdp: TabularMDP, episodes: int, steps: int, seed: int
) -> Case:
    """Importance sampling with everything recorded (a horizon of `steps`), and dr on the same log."""
    rollout = mdp.rollout(episodes, steps, np.random.default_rng(seed))
    recorded, open_ended = question(mdp, rollout, horizon=steps), question(mdp, rollout)
    arrays = plain(mdp, rollout) | {"steps": steps}
    arrays["q"] = cross_fitted_q(open_ended, mdp, arrays["states"])
    ours = {}
    for weighting in ("tis", "pdis", "sntis", "snpdis"):
        result = bondic.estimate_interval(recorded, alpha=ALPHA, method=make_baseline(weighting))
        ours[weighting] = result.estimate
        if weighting in ("tis", "pdis"):
            ours[f"{weighting} low"], ours[f"{weighting} high"] = result.low, result.high
    tail = trajectories(open_ended).tail_guess
    ours["dr"] = bondic.estimate_interval(open_ended, alpha=ALPHA, method=make_baseline("dr")).estimate - tail
    words = {key: f"`{key.split()[0]}` {key.partition(' ')[2]}".strip() for key in ours}
    width = recorded_range(recorded)
    return Case(name, libraries, arrays, ours, words, mdp.finite_value(steps), width, IDENTITY)


def recorded_range(problem: Rows) -> float:
    low, high = problem.terms.reward_range
    steps = problem.terms.horizon or 0
    return float((high - low) * np.sum(problem.gamma ** np.arange(steps)))


def fitted_case(episodes: int, gradient_steps: int) -> Iterator[Case]:
    """Fitted Q evaluation: our table, our networks (with torch), and the networks of the other library."""
    mdp = world(0.9, 0.1, 2)
    rollout = mdp.rollout(episodes, 20, np.random.default_rng(5))
    log = bondic.Transitions(**{name: getattr(rollout, name) for name in rollout.__dataclass_fields__})
    initial = bondic.InitialStates.exact(np.arange(4.0)[:, None], mdp.initial_probs)
    problem = bondic.make_problem(
        log, bondic.TablePolicy(mdp.target), initial, gamma=mdp.gamma, reward_range=mdp.reward_range
    )
    arrays = plain(mdp, rollout) | {"gradient_steps": gradient_steps}
    width = float(np.diff(mdp.reward_range)[0] / (1 - mdp.gamma))
    for name in ("dm", "dm-neural"):
        try:
            method = make_baseline(name, replicates=4)
        except MissingExtra as problem_found:
            print(f"skipped: {name} ({problem_found})")
            continue
        value = bondic.estimate_interval(problem, alpha=ALPHA, method=method).estimate
        title = f"fitted Q, {len(problem)} rows"
        yield Case(title, ("d3rlpy",), arrays, {"fqe": value}, {"fqe": f"`{name}`"}, mdp.value, width, TRAINING)


def ask(python: str, library: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """The answer of one library in another interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.npz")
        np.savez(path, **arrays)
        try:
            done = subprocess.run(
                [python, "-W", "ignore", str(OTHERS), library, str(path)], capture_output=True, text=True, cwd=folder
            )
        except OSError as problem:
            return {"missing": f"no interpreter: {problem.strerror}"}
    if done.returncode:
        return {
            "missing": f"failed: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else done.returncode}"
        }
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def compare(case: Case, library: str, answer: dict[str, Any]) -> tuple[list[str], bool]:
    """Lines of the table, and whether all numbers agree."""
    lines, fine = [], True
    for key, theirs in answer["numbers"].items():
        if key not in case.ours:
            continue
        difference = abs(case.ours[key] - theirs) / case.scale
        agrees = difference <= case.tolerance
        fine &= agrees
        truth = f"{case.truth:.6f}" if not key.endswith(("low", "high")) else ""
        lines.append(
            f"| {case.name} | {case.words[key]} | {library} {answer['version']} | {case.ours[key]:.9f} | {theirs:.9f} | "
            f"{difference:.1e} | {case.tolerance:.0e} | {truth} |" + ("" if agrees else " DIFFERS")
        )
    return lines, fine


def cases(gradient_steps: int, only: str | None) -> Iterator[Case]:
    bandit, chain = world(0.9, 0.0, 1), world(0.9, 0.0, 2)
    yield weighting_case("1 step, 500 episodes", ("vw-estimators", "obp", "scope-rl"), bandit, 500, 1, 3)
    yield weighting_case("5 steps, 400 episodes", ("scope-rl",), chain, 400, 5, 4)
    if only in (None, "d3rlpy"):
        yield from fitted_case(200, gradient_steps)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", default=[], metavar="PATH", help="an interpreter; may be repeated")
    parser.add_argument("--only", help="one library")
    parser.add_argument("--steps", type=int, default=6000, help="gradient steps of the other library's networks")
    options = parser.parse_args(arguments)
    if not options.python:
        print("skipped: pass --python PATH, an interpreter with vw-estimators, obp, scope-rl or d3rlpy")
        return 0
    lines, fine = [], True
    answers: dict[tuple[str, str], dict[str, Any]] = {}
    for case in cases(options.steps, options.only):
        for library in case.libraries:
            if options.only not in (None, library):
                continue
            key = (case.name, library)
            for python in options.python:
                if "numbers" not in answers.get(key, {}):
                    answers[key] = ask(python, library, case.arrays)
            if "numbers" not in answers[key]:
                print(f"skipped: {library} on {case.name} ({answers[key]['missing']})")
                continue
            more, agrees = compare(case, library, answers[key])
            lines, fine = lines + more, fine and agrees
    print("| log | ours | theirs | our number | their number | difference / range | tolerance | exact value |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    print("\n".join(lines))
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
