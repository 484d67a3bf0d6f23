"""Twenty answers that say little: the way out that bondic names is followed, without a look at the truth.

    python experiments/ways_out.py [--only TEXT] [--page out/ways-out.md]

Logs are small and made from fixed seeds: a few minutes of one core. Exit status 1 when fewer than four in five keep their word.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: this folder must not be searched, or numba takes coverage.py for another one
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
import numpy.typing as npt
from experiments.coverage import write_atomically
from experiments.defaults_cells import truth_about

import bondic
from bondic.advice.levers import next_steps
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.rendering import three
from bondic.result import NextStep
from bondic.rows.rows import Rows
from bondic_lab.worlds.tabular import TabularMDP

LENIENT = 1.5
"""A guess of a length is kept where what comes out is at most so many times longer."""
KEPT = 0.8
COLUMNS = (
    "observations", "actions", "rewards", "next_observations", "terminations", "truncations", "episode_ids", "timesteps",
    "behavior_action_probs",
)  # fmt: skip


@dataclass(frozen=True)
class Estimand:
    """A question that can be asked again with more rows or other statements."""

    problem: Rows
    method: Any = None
    truth: float | npt.NDArray[np.float64] = math.nan  # see `truth_about`; nothing that follows advice looks at it

    def answer(self) -> bondic.Result:
        return bondic.estimate_interval(self.problem, method=self.method)


@dataclass(frozen=True)
class Case:
    """An answer that says little, the kind of way out to follow, how to follow it, and what that promises."""

    name: str
    ask: Callable[..., Estimand]  # keywords change the question
    kind: str
    follow: Callable[[NextStep, bondic.Result], dict[str, Any]]  # what to change
    promise: Callable[[NextStep, float], float]  # from the share before to the share that is promised
    said: str = ""  # a word of the step, where several are of one kind


def _log(rollout: Any, drop: tuple[str, ...] = ()) -> bondic.Transitions:
    return bondic.Transitions(**{name: getattr(rollout, name) for name in COLUMNS if name not in drop})


def table(states: int = 6, actions: int = 3, noise: float = 0.1, **fixed: Any) -> Callable[..., Estimand]:
    """A random table; `rows`, `gamma`, `starts` and statements may be changed."""

    def ask(**changed: Any) -> Estimand:
        given = {"rows": 1000, "gamma": 0.9, "starts": "exact", "method": None, "seed": 0, **fixed, **changed}
        rows, gamma = int(given.pop("rows")), given.pop("gamma")
        world = TabularMDP.random(
            np.random.default_rng(11), gamma=gamma, n_states=states, n_actions=actions, reward_noise=noise
        )
        rng = np.random.default_rng(given.pop("seed"))
        log = _log(world.rollout(-(-rows // 20), 20, rng), ("behavior_action_probs",))
        places = np.arange(states, dtype=float)[:, None]
        exact = bondic.InitialStates.exact(places, world.initial_probs)
        own = bondic.InitialStates.from_log(log, population="iid")
        start = exact if given.pop("starts") == "exact" else own
        target = bondic.TablePolicy(world.target)
        method, stated = given.pop("method"), {"reward_range": world.reward_range, **given}
        return Estimand(
            bondic.make_problem(log, target, start, gamma=gamma, accept=None, **stated), method, world.value
        )

    return ask


def decisions(**fixed: Any) -> Callable[..., Estimand]:
    """Single decisions with two actions; the log takes the second one with probability `second`."""

    def ask(**changed: Any) -> Estimand:
        given = {
            "rows": 60,
            "second": 0.2,
            "wanted": 0.8,
            "method": None,
            "propensities": True,
            "seed": 3,
            **fixed,
            **changed,
        }
        rng, count = np.random.default_rng(given["seed"]), int(given["rows"])
        states = rng.integers(0, 3, count).astype(float)
        actions = (rng.random(count) < given["second"]).astype(np.int64)
        rewards = (rng.random(count) < 0.3 + 0.3 * actions + 0.1 * states).astype(float)
        probs = np.where(actions == 1, given["second"], 1 - given["second"])
        known = {"behavior_action_probs": probs} if given["propensities"] else {}
        log = bondic.Transitions(
            states[:, None], actions, rewards, np.zeros((count, 1)), np.ones(count, dtype=bool), **known
        )
        wanted = given["wanted"]
        policy = bondic.CallablePolicy(lambda s: np.tile([1 - wanted, wanted], (len(s), 1)))
        stated = {"gamma": 0.0, "reward_range": given.get("reward_range", (0.0, 1.0))}
        worth = 0.3 + 0.1 * states + 0.3 * wanted
        return Estimand(bondic.make_problem(log, policy, accept=None, **stated), given["method"], worth)

    return ask


def ending(**fixed: Any) -> Callable[..., Estimand]:
    """Episodes of three steps on four states, one reward of 0 or 1 at the end."""

    def ask(**changed: Any) -> Estimand:
        given = {"rows": 150, "gamma": 0.95, **fixed, **changed}
        rng, count = np.random.default_rng(5), int(given.pop("rows")) // 3
        steps = np.tile(np.arange(3), count)
        states = np.where(steps == 0, 0, rng.integers(1, 4, 3 * count)).astype(float)
        following = np.concatenate([states[1:], [0.0]])
        actions = rng.integers(0, 2, 3 * count)
        rewards = np.where(steps == 2, rng.random(3 * count) < 0.3 + 0.4 * actions, 0.0)
        log = bondic.Transitions(
            states[:, None], actions, rewards, following[:, None], steps == 2,
            episode_ids=np.repeat(np.arange(count), 3), timesteps=steps,
        )  # fmt: skip
        policy = bondic.CallablePolicy(lambda s: np.tile([0.3, 0.7], (len(s), 1)))
        start = bondic.InitialStates.exact([[0.0]])
        gamma = given.pop("gamma")
        problem = bondic.make_problem(log, policy, start, gamma=gamma, reward_range=(0.0, 1.0), accept=None, **given)
        return Estimand(problem, truth=gamma**2 * 0.58)

    return ask


def lake(**fixed: Any) -> Callable[..., Estimand]:
    """A slippery lake of sixteen squares, crossed at random in the log: a step goes where it should one time in three."""
    places = np.arange(16)
    row, column = places // 4, places % 4
    to = np.stack([row * 4 + np.maximum(column - 1, 0), np.minimum(row + 1, 3) * 4 + column,
                   row * 4 + np.minimum(column + 1, 3), np.maximum(row - 1, 0) * 4 + column])  # fmt: skip
    over = np.isin(places, [5, 7, 11, 12, 15])
    chosen = np.array([0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0])

    def ask(**changed: Any) -> Estimand:
        given = {"rows": 10_000, "gamma": 0.95, "seed": 0, **fixed, **changed}
        rng, rows, gamma = np.random.default_rng(given.pop("seed")), int(given.pop("rows")), given.pop("gamma")
        states, actions, nexts, ids = [], rng.integers(0, 4, rows), [], []
        state = episode = 0
        for action, slip in zip(actions, rng.integers(-1, 2, rows), strict=True):
            states.append(state)
            ids.append(episode)
            state = int(to[(action + slip) % 4, state])
            nexts.append(state)
            state, episode = (0, episode + 1) if over[state] else (state, episode)
        log = bondic.Transitions(
            np.array(states, float)[:, None], actions, (np.array(nexts) == 15).astype(float),
            np.array(nexts, float)[:, None], over[nexts], episode_ids=np.array(ids),
        )  # fmt: skip
        worth = np.zeros(16)
        for _ in range(500):
            ways = [to[(chosen + slip) % 4, places] for slip in (-1, 0, 1)]
            worth = np.where(over, 0.0, sum((way == 15) + gamma * worth[way] for way in ways) / 3)
        policy = bondic.TablePolicy(np.eye(4)[chosen])
        stated = {"reward_range": (0.0, 1.0), **given}
        problem = bondic.make_problem(log, policy, gamma=gamma, accept=None, **stated)
        return Estimand(problem, truth=float(worth[0]))

    return ask


def shop(**fixed: Any) -> Callable[..., Estimand]:
    """Forty banners shown evenly, one click in two hundred; the policy likes the best eight."""

    def ask(**changed: Any) -> Estimand:
        given = {"rows": 10_000, "method": None, **fixed, **changed}
        rng, rows, banners = np.random.default_rng(4), int(given["rows"]), 40
        rate = 0.01 * rng.random(banners)
        shown = rng.integers(0, banners, rows)
        clicks = (rng.random(rows) < rate[shown]).astype(float)
        policy = np.where(np.argsort(np.argsort(-rate)) < 8, 0.105, 0.005)
        log = bondic.Transitions(
            np.zeros((rows, 1)), shown, clicks, np.zeros((rows, 1)), np.ones(rows, bool),
            behavior_action_probs=np.full(rows, 1 / banners),
        )  # fmt: skip
        problem = bondic.make_problem(
            log, lambda s: np.tile(policy, (len(s), 1)), gamma=0.0, reward_range=(0.0, 1.0), accept=None
        )
        return Estimand(problem, given["method"], float(policy @ rate))

    return ask


def calls(**fixed: Any) -> Callable[..., Estimand]:
    """Episodes of four steps with propensities; each step may pay."""

    def ask(**changed: Any) -> Estimand:
        given = {"episodes": 800, "gamma": 0.9, "rate": (0.2, 0.2), "reward_range": (0.0, 1.0), **fixed, **changed}
        rng, episodes, (base, gain) = np.random.default_rng(6), int(given.pop("episodes")), given.pop("rate")
        steps, size, gamma = np.tile(np.arange(4), episodes), 4 * episodes, given.pop("gamma")
        mood, called = rng.integers(0, 3, size).astype(float), rng.integers(0, 2, size)
        rewards = (rng.random(size) < base + gain * called).astype(float)
        log = bondic.Transitions(
            mood[:, None], called, rewards, np.append(mood[1:], 0.0)[:, None], steps == 3,
            episode_ids=np.repeat(np.arange(episodes), 4), timesteps=steps, behavior_action_probs=np.full(size, 0.5),
        )  # fmt: skip
        policy = bondic.CallablePolicy(lambda s: np.tile([0.2, 0.8], (len(s), 1)))
        problem = bondic.make_problem(log, policy, gamma=gamma, accept=["time-limit"], **given)
        return Estimand(problem, truth=(base + 0.8 * gain) * sum(gamma**t for t in range(4)))

    return ask


def _rows(step: NextStep, result: bondic.Result) -> dict[str, Any]:
    """A new log of that many rows, those that are set aside on top."""
    return {"rows": step.numbers["rows"] + result.rows[0], "seed": 1}


def _between(name: str) -> Callable[[NextStep, bondic.Result], dict[str, Any]]:
    """The range that the step names."""
    return lambda step, _: {name: (step.numbers["low"], step.numbers["high"])}


def _horizon(step: NextStep, _: bondic.Result) -> dict[str, Any]:
    return {"horizon": int(step.numbers["horizon"])}


def _to(**changes: Any) -> Callable[[NextStep, bondic.Result], dict[str, Any]]:
    return lambda *_: changes


def _half_range(*_: Any) -> float:
    return 0.5


def _half(_: NextStep, before: float) -> float:
    return before / 2


def _anything(*_: Any) -> float:
    """An interval, whatever its length: a rejection promises no more."""
    return 1.0


def _shorter(_: NextStep, before: float) -> float:
    return 0.9 * before / LENIENT


def _expected(step: NextStep, _: float) -> float:
    """The length that the step names; `follow` divides it by the value range."""
    return step.numbers["length"]


def _foreseen(step: NextStep, _: float) -> float:
    return step.numbers["share"]


TINY = bondic.Ball(bondic.Gaussian(1.0) * Dirac() + Constant(1.0), 1e-3)
CASES = (
    Case("table of 6 states, 600 rows, γ = 0.9", table(rows=600), "rows", _rows, _half_range),
    Case("table of 6 states, 1000 rows, γ = 0.95", table(gamma=0.95), "rows", _rows, _half_range),
    Case("table of 6 states, 3000 rows, γ = 0.99", table(rows=3000, gamma=0.99), "rows", _rows, _half_range),
    Case("table of 20 states, 1000 rows, γ = 0.9", table(20), "rows", _rows, _half_range),
    Case("table of 6 states, 2000 rows, γ = 0.95: wide", table(rows=2000, gamma=0.95), "rows", _rows, _half),
    Case("60 decisions, propensities", decisions(), "rows", _rows, _half),
    Case("table, 2500 rows, γ = 0.9, starts as draws", table(rows=2500, starts="drawn"), "start", _to(starts="exact"), _shorter),
    Case("table, 1500 rows, γ = 0.8, starts as draws", table(rows=1500, gamma=0.8, starts="drawn"), "start", _to(starts="exact"),
         _shorter),
    Case("table, 1000 rows, γ = 0.8, rewards in [-10, 10] stated", table(gamma=0.8, reward_range=(-10.0, 10.0)), "range",
         _between("reward_range"), _expected, "reward_range="),
    Case("episodes with one reward at the end, 150 rows", ending(), "range", _between("value_range"), _expected,
         "value_range="),
    Case("episodes of 3 steps, 60 rows, γ = 0.98", ending(rows=60, gamma=0.98), "range", _horizon, _expected, "horizon="),
    Case("slippery lake, 20 000 rows, γ = 0.95", lake(rows=20_000), "range", _between("value_range"), _expected, "value_range="),
    Case("40 banners, click rate .005", shop(), "method", _to(method=bondic.Propensities(min_propensity=1 / 40)), _shorter,
         "min_propensity"),
    Case("episodes of 4 steps with propensities, γ = 0.9", calls(), "range", _horizon, _expected, "horizon="),
    Case("episodes of 4 steps with propensities, γ = 0.99", calls(gamma=0.99), "range", _between("value_range"), _expected,
         "value_range="),
    Case("table, 20 000 rows, γ = 0.99, rewards in [-20, 20] stated", table(rows=20_000, gamma=0.99, reward_range=(-20.0, 20.0)),
         "range", _between("reward_range"), _expected, "reward_range="),
    Case("table, 4000 rows, 500 planned", table(rows=4000, gamma=0.8, method=bondic.Table(planned_rows=500)), "rows",
         _to(method=bondic.Table()), _shorter, "were planned"),
    Case("300 decisions, second action never logged", decisions(rows=300, second=0.0, propensities=False), "overlap",
         _to(second=0.2, propensities=True), _shorter, "never took"),
    Case("300 decisions, dual method", decisions(rows=300, method=bondic.Dual()), "method", _to(method=None), _foreseen,
         "method='propensities'"),
    Case("table, 3000 rows, γ = 0.9, dual method", table(rows=3000, method=bondic.Dual()), "method",
         _to(method=bondic.Table()), _shorter, "method='table'"),
    Case("table, 4000 rows, γ = 0.5, radius 0.001 stated", table(rows=4000, gamma=0.5, method=bondic.Dual(ball=TINY)), "rejected",
         _to(method=bondic.Dual(ball=TINY.with_radius(10.0))), _anything, "radius"),
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    case: Case
    before: bondic.Result
    step: NextStep | None
    after: bondic.Result | None
    promised: float  # share of the value range before the way out was taken
    truth: Any = math.nan  # of the question that was asked then

    @property
    def share(self) -> float:
        """What came out, in units of the value range before: a smaller range is a gain, too."""
        assert self.after is not None
        return (self.after.high - self.after.low) / self.before.value_range.width

    @property
    def holds(self) -> str:
        """Whether the interval that came out holds the truth."""
        assert self.after is not None
        if self.after.status is bondic.Status.REJECTED:
            return ""
        return "yes" if self.after.low <= truth_about(self.after, self.truth) <= self.after.high else "**no**"

    @property
    def kept(self) -> bool:
        given = self.after is not None and self.after.status is not bondic.Status.REJECTED
        return given and self.share <= LENIENT * self.promised


def follow(case: Case) -> Outcome:
    """Ask, read the advice, follow it, ask again."""
    asked = case.ask()
    before = asked.answer()
    steps = [step for step in next_steps(before, asked.problem) if step.kind == case.kind and case.said in step.text]
    if not steps:
        return Outcome(case, before, None, None, 0.0)
    share = min((before.high - before.low) / before.value_range.width, 1.0)
    asked = case.ask(**case.follow(steps[0], before))
    promised = case.promise(steps[0], share) / (before.value_range.width if case.promise is _expected else 1.0)
    return Outcome(case, before, steps[0], asked.answer(), promised, asked.truth)


def line(outcome: Outcome) -> str:
    before = outcome.before
    status = before.status.name.lower() if before.status is not bondic.Status.INTERVAL else "wide"
    share = f"{_percent(before.length / before.value_range.width)}" if status == "wide" else status
    if outcome.step is None or outcome.after is None:
        return f"| {outcome.case.name} | {share} | no such way out | | | | **no** |"
    said = _short(outcome.case.follow(outcome.step, before))
    promised = _percent(outcome.promised)
    if outcome.case.promise is _shorter:
        promised = "shorter"
    kept = "yes" if outcome.kept else "**no**"
    return f"| {outcome.case.name} | {share} | {said} | {promised} | {_percent(outcome.share)} | {outcome.holds} | {kept} |"


def _percent(share: float) -> str:
    return f"{three(float(f'{100 * share:.2g}'))}%"


def _short(changes: dict[str, Any]) -> str:
    shown = {name: three(value) if isinstance(value, float) else value for name, value in changes.items()}
    names = {"method": "another method, class or plan", "second": "log the action"}
    if "rows" in changes:
        names = {"method": "same Q"}
    return ", ".join(
        names[name] if name in names else f"{name.replace('_', ' ')} {value}"
        for name, value in shown.items()
        if name not in ("propensities", "seed")
    )


PAGE = """# Advice, followed

Small logs whose answer is trivial, wide or rejected. For such answers bondic says what would
help. Here the advice was followed word for word, with the numbers that it names and without a
look at the truth. The table shows what was promised and what came out. Lengths are shares of the value range before the
advice was taken. "Kept" allows a factor of {lenient}: these are guesses, labeled as such, and no part of a guarantee. Ranges
were taken from the log, as the advice quotes it, which you should not do: where that made the interval miss, the column says
so. In practice such advice is for the *next* log, or for a statement that you can make without this one. This page is written by

```sh
python experiments/ways_out.py --page out/ways-out.md  # part of make experiments
```

| log | answer | advice | promised | came out | holds the truth | kept |
|---|---|---|---|---|---|---|
{lines}

{kept} of {count} were kept. Advice and cases were made together, so this is no independent test. Until this version the lake,
both logs of short episodes with propensities and the banners were given no way out, or one that does not help.
"""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="")
    options.add_argument("--page", type=Path)
    given = options.parse_args()
    outcomes = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bondic.ValidityWarning)
        for case in CASES:
            if given.only in f"{case.kind} {case.name}":
                outcomes.append(follow(case))
                print(line(outcomes[-1]), flush=True)
    kept = sum(outcome.kept for outcome in outcomes)
    print(f"{kept} of {len(outcomes)} kept")
    if given.page is not None:
        lines = "\n".join(map(line, outcomes))
        text = PAGE.format(lenient=LENIENT, lines=lines, kept=kept, count=len(outcomes))
        write_atomically(given.page, text)
    return 0 if kept >= KEPT * len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
