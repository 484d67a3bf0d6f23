"""What a user is told about a log: how often each finding is raised on logs that stand still, and on logs that have the fault.

    python experiments/findings.py [--still 200] [--faulty 40]

Still logs are of several kinds: decisions with propensities, A/B tests without states, users who come back, panels, episodes,
tables, long trajectories, rare rewards, heavy tails. Exit status 1 where a finding is raised in more than 1 of 100 of them, or a
fault is seen in fewer than 9 of 10 logs.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: this folder must not be searched
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
import pandas as pd
from experiments.corruptions_logs import GOOD

import bondic

Frame = pd.DataFrame
SOFT = 1.2


def decisions(rng: np.random.Generator, n: int = 3000, paid: float = 0.3) -> Frame:
    """Contexts that never come again, two actions, a behavior that looks at them, right propensities, times of feedback."""
    x = rng.normal(size=(n, 2))
    p = 1 / (1 + np.exp(-SOFT * x[:, 0]))
    action = (rng.random(n) < p).astype(int)
    reward = (rng.random(n) < paid * (0.7 + 0.4 * action + 0.2 * np.tanh(x[:, 1]))).astype(float)
    shown = np.sort(rng.random(n)) * 30
    return pd.DataFrame({
        "x": x[:, 0], "y": x[:, 1], "action": action, "reward": reward, "propensity": np.where(action == 1, p, 1 - p),
        "shown_at": shown, "feedback_time": shown + rng.exponential(1.0, n),
    })  # fmt: skip


def trial(rng: np.random.Generator, n: int = 2000) -> Frame:
    """An A/B test: one constant for a state."""
    action = (rng.random(n) < 0.3).astype(int)
    reward = (rng.random(n) < 0.1 + 0.03 * action).astype(float)
    return pd.DataFrame({"x": 0.0, "action": action, "reward": reward, "propensity": np.where(action == 1, 0.3, 0.7)})


def three_arms(rng: np.random.Generator, n: int = 2000) -> Frame:
    """Three arms in turn, and numbers as rewards."""
    action = np.arange(n) % 3
    return pd.DataFrame({"x": rng.normal(size=n), "action": action, "reward": rng.beta(2, 5, n)})


def returning(rng: np.random.Generator, n: int = 2000) -> Frame:
    """Covariates of users who come back at random; nobody wrote down who they are."""
    users = rng.normal(size=(1500, 2))
    rate = rng.random(1500)
    who = rng.integers(0, 1500, n)
    action = rng.integers(0, 2, n)
    reward = (rng.random(n) < 0.2 + 0.6 * rate[who]).astype(float)
    return pd.DataFrame({"x": users[who, 0], "y": users[who, 1], "action": action, "reward": reward, "propensity": 0.5})


def panel(rng: np.random.Generator, days: int = 8, users: int = 250) -> Frame:
    """The same users every day, in one order, each with one arm; most days nothing happens."""
    arm, level = rng.integers(0, 2, users), rng.integers(0, 40, users) / 4
    reward = (rng.random(days * users) < 0.1 * (1 + np.tile(arm, days))).astype(float)
    return pd.DataFrame({"x": np.tile(level, days), "action": np.tile(arm, days), "reward": reward, "propensity": 0.5})


def discrete(rng: np.random.Generator, n: int = 1500) -> Frame:
    """A table of prices and ages in classes."""
    columns = {"price": rng.integers(1, 60, n) / 4, "age": rng.integers(18, 90, n) + 0.5}
    action = rng.integers(0, 2, n)
    return pd.DataFrame({**columns, "action": action, "reward": (rng.random(n) < 0.1).astype(float), "propensity": 0.5})


def heavy(rng: np.random.Generator, n: int = 2000) -> Frame:
    """Amounts of many sizes, most of them 0."""
    log = decisions(rng, n)
    log["reward"] = np.where(rng.random(n) < 0.2, np.exp(1.2 * rng.normal(size=n)), 0.0).clip(0, 100)
    return log


def rare(rng: np.random.Generator) -> Frame:
    """One row in a hundred is paid."""
    return decisions(rng, 3000, 0.01)


def short(rng: np.random.Generator) -> Frame:
    """A hundred and fifty rows."""
    return decisions(rng, 150)


def episodes(rng: np.random.Generator, count: int = 300) -> dict[str, Any]:
    """Episodes of 2 to 12 steps in five states, some with a good day; two actions."""
    rows: list[tuple[Any, ...]] = []
    for k in range(count):
        state, luck = int(rng.integers(0, 5)), rng.normal()
        for t in range(int(rng.integers(2, 13))):
            action = int(rng.random() < 0.3 + 0.1 * state)
            after = int(np.clip(state + (1 if rng.random() < 0.3 + 0.3 * action else -1), 0, 4))
            rows.append((state, action, float(rng.random() < 0.2 + 0.1 * after + 0.05 * np.tanh(luck)), after, k, t))
            state = after
    s, a, r, f, k, t = map(np.array, zip(*rows, strict=True))
    last = np.append(k[1:] != k[:-1], True)
    return {
        "observations": s[:, None].astype(float), "actions": a, "rewards": r, "next_observations": f[:, None].astype(float),
        "terminations": last, "episode_ids": k, "timesteps": t,
    }  # fmt: skip


def trajectory(rng: np.random.Generator, n: int = 4000) -> dict[str, Any]:
    """One long walk in six states."""
    state = np.zeros(n + 1, dtype=int)
    action = rng.integers(0, 2, n)
    for i in range(n):
        state[i + 1] = (state[i] + (1 if rng.random() < 0.3 + 0.4 * action[i] else 5)) % 6
    return {
        "observations": state[:-1, None].astype(float), "actions": action, "rewards": (state[1:] == 3).astype(float),
        "next_observations": state[1:, None].astype(float), "terminations": np.zeros(n, dtype=bool),
    }  # fmt: skip


STILL: dict[str, Callable[[np.random.Generator], Any]] = {
    "decisions, propensities": decisions, "A/B test": trial, "three arms in turn": three_arms, "users return, unnamed": returning,
    "panel of 250 users": panel, "prices and classes": discrete, "heavy tails": heavy, "rare rewards": rare, "150 rows": short,
    "episodes": episodes, "one long table": trajectory, **{f"{name} (episodes)": make for name, make in GOOD.items()},
}  # fmt: skip


def drifting(rng: np.random.Generator) -> Frame:
    """Rewards fall from .45 to .15 on the way."""
    log = decisions(rng)
    return log.assign(reward=(rng.random(len(log)) < np.linspace(0.45, 0.15, len(log))).astype(float))


def seasons(rng: np.random.Generator) -> Frame:
    """Four seasons."""
    log = decisions(rng)
    rate = 0.4 + 0.2 * np.sin(8 * np.pi * np.arange(len(log)) / len(log))
    return log.assign(reward=(rng.random(len(log)) < rate).astype(float))


def behavior(rng: np.random.Generator) -> Frame:
    """The share of arm 1 goes from .3 to .7."""
    log = trial(rng)
    p = np.linspace(0.3, 0.7, len(log))
    action = (rng.random(len(log)) < p).astype(int)
    return log.assign(action=action, propensity=np.where(action == 1, p, 1 - p))


def by(column: str, *, fall: bool = False) -> Callable[[np.random.Generator], Any]:
    return lambda rng: decisions(rng).sort_values(column, kind="stable", ascending=not fall)


def episodes_by(key: str) -> Callable[[np.random.Generator], Any]:
    """Episodes by return, by length, or in no order with their numbers."""

    def made(rng: np.random.Generator) -> dict[str, Any]:
        log = episodes(rng)
        ids = log["episode_ids"]
        returns, lengths = np.bincount(ids, weights=log["rewards"]), np.bincount(ids)
        order = np.argsort({"return": returns, "length": lengths, "ids": rng.random(lengths.size)}[key], kind="stable")
        place = np.argsort(order)
        rows = np.lexsort((log["timesteps"], place[ids]))
        log = {name: column[rows] for name, column in log.items()}
        return log if key == "ids" else log | {"episode_ids": place[ids][rows]}

    return made


def fitted(penalty: float) -> Callable[[np.random.Generator], Any]:
    def made(rng: np.random.Generator) -> Frame:
        from sklearn.linear_model import LogisticRegression

        log = decisions(rng)
        p = LogisticRegression(C=penalty).fit(log[["x", "y"]], log.action).predict_proba(log[["x", "y"]])[:, 1]
        return log.assign(propensity=np.where(log.action == 1, p, 1 - p))

    return made


def twice(rng: np.random.Generator) -> Frame:
    return decisions(rng).loc[np.repeat(np.arange(3000), 2)]


FAULTY: dict[str, tuple[Callable[[np.random.Generator], Any], str]] = {
    "rewards drift": (drifting, "does not stand still"),
    "four seasons": (seasons, "does not stand still"),
    "the behavior changes": (behavior, "does not stand still"),
    "rows sorted by action": (by("action"), "sorted by their action"),
    "rows sorted by outcome": (by("reward"), "sorted by their reward"),
    "rows sorted by outcome, best first": (by("reward", fall=True), "sorted by their reward"),
    "rows in the order of feedback": (by("feedback_time"), "in which the feedback came"),
    "episodes sorted by return": (episodes_by("return"), "sorted by their return"),
    "episodes sorted by length": (episodes_by("length"), "sorted by their length"),
    "episode numbers out of order": (episodes_by("ids"), "Episode numbers go back"),
    "each row twice in a row": (twice, "come twice, one after the other"),
    "log pasted twice": (lambda rng: pd.concat([log := decisions(rng), log]), "are repeated"),
    "users come back": (lambda rng: decisions(rng).assign(user_id=rng.integers(0, 1000, 3000)), "Users come back"),
    "logistic propensities": (fitted(1.0), "fit the log's own actions"),
    "logistic propensities, no penalty": (fitted(1e9), "fit the log's own actions"),
    "propensities of the other arm": (
        lambda rng: (log := decisions(rng)).assign(propensity=1 - log.propensity), "the action that was not taken",
    ),
    "range of 100 rewards": (lambda rng: decisions(rng).assign(reward=lambda log: log.reward / 100), "times as wide"),
}  # fmt: skip
_NOT_LOGS = "outside of its own interval"


def told(source: Any) -> tuple[str, ...]:
    """The warnings of a result, by its public surface."""
    log = bondic.Transitions(**source) if isinstance(source, dict) else source
    single = not isinstance(source, dict)
    rewards = source["rewards"] if isinstance(source, dict) else source["reward"]
    limits = (min(0.0, float(np.min(rewards))), max(1.0, float(np.max(rewards))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bondic.ValidityWarning)
        actions = source["actions"] if isinstance(source, dict) else source["action"]
        asked: dict[str, Any] = {"one_step": True} if single else {"gamma": 0.9}
        if isinstance(source, dict) and "episode_ids" not in source:
            asked["initial"] = bondic.InitialStates.exact(source["observations"][:1])
        policy = bondic.UniformPolicy(int(np.max(actions)) + 1)
        if single:
            columns = [name for name in source.columns if name in ("x", "y", "price", "age")]
            asked["columns"] = {"observations": columns}
        problem = bondic.make_problem(log, policy, reward_range=limits, **asked)
        texts = (*problem.validity_notes, *(note for note in problem.notes if type(note).__name__ == "ValidityNote"))
        if single and "propensity" in source:
            texts += tuple(text for text in bondic.estimate_interval(problem).warnings if _NOT_LOGS in text)
    return texts


def kind_of(text: str) -> str:
    """A finding by its first words."""
    return " ".join(word for word in text.split()[:7] if not any(letter.isdigit() for letter in word))


def rng_of(*words: object) -> np.random.Generator:
    return np.random.default_rng([sum(map(ord, str(word))) for word in words])


def still_table(count: int) -> tuple[str, bool]:
    lines, fine = ["| logs that stand still | logs | with a finding | findings |", "|---|---:|---:|---|"], True
    for name, make in STILL.items():
        found = [told(make(rng_of("still", name, seed))) for seed in range(count)]
        raised = Counter(kind_of(text) for texts in found for text in dict.fromkeys(texts))
        fine &= all(100 * times <= count for times in raised.values())
        words = "; ".join(f"{kind} ({times})" for kind, times in raised.most_common())
        lines.append(f"| {name} | {count} | {sum(map(bool, found))} | {words} |")
    return "\n".join(lines), fine


def faulty_table(count: int) -> tuple[str, bool]:
    lines, fine = ["| fault | logs | seen |", "|---|---:|---:|"], True
    for name, (make, words) in FAULTY.items():
        seen = sum(any(words in text for text in told(make(rng_of("faulty", name, seed)))) for seed in range(count))
        fine &= 10 * seen >= 9 * count
        lines.append(f"| {name} | {count} | {seen} |")
    return "\n".join(lines), fine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--still", type=int, default=200)
    parser.add_argument("--faulty", type=int, default=40)
    options = parser.parse_args()
    still, quiet = still_table(options.still)
    faulty, seen = faulty_table(options.faulty)
    print(still, faulty, sep="\n\n")
    return 0 if quiet and seen else 1


if __name__ == "__main__":
    sys.exit(main())
