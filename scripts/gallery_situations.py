"""The questions whose reports are in the gallery: sharp, wide, trivial, rejected, one-step, many actions, several methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import bondic
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.decisions.difference import with_today
from bondic.report.compare import Comparison
from bondic.report.page import report_page
from bondic.rows.rows import Rows
from bondic_lab.worlds.synthetic import SyntheticMDP

COLUMNS = (
    "observations", "actions", "rewards", "next_observations", "terminations", "truncations", "episode_ids", "timesteps",
)  # fmt: skip
METHODS = ("sequential", "dual", "duan-wang", "hcope", "dm", "lstd", "drl", "model")


@dataclass(frozen=True)
class Situation:
    """A question with its heading, and the method where it is not the default."""

    title: str
    ask: Callable[[], Rows]
    method: Any = None

    def page(self) -> str:
        problem = self.ask()
        result = with_today(bondic.estimate_interval(problem, method=self.method), problem, self.method)
        return report_page(result, problem, title=self.title)


def machine(rows: int | None = None, gamma: float = 0.8) -> Rows:
    """The demonstration, or its first rows as a log of their own."""
    demo = bondic.load_demo()
    columns = {name: column[:rows] for name, column in demo.log.columns().items() if column is not None}
    log = bondic.Transitions(**columns)
    return bondic.make_problem(log, demo.policy, demo.initial, gamma=gamma, reward_range=(0.0, 1.0))


def smooth() -> Rows:
    """States that are numbers, and few rows."""
    world = SyntheticMDP.default(0.8, seed=1)
    rollout = world.rollout(20, 20, np.random.default_rng(0))
    log = bondic.Transitions(**{name: getattr(rollout, name) for name in COLUMNS})
    start = bondic.InitialStates.exact(world.initial_states, world.initial_probs)
    policy = bondic.CallablePolicy(world.target_probs)
    return bondic.make_problem(
        log, policy, start, gamma=0.8, reward_range=(-1.0, 1.1)
    )  # a round one around the world's


def offers(rows: int, actions: int) -> Rows:
    """Single decisions: which of many offers to show, with the probabilities with which they were shown."""
    rng = np.random.default_rng(0)
    visitors = rng.normal(size=(rows, 3))
    shown = rng.dirichlet(np.full(actions, 8.0))
    wanted = rng.dirichlet(np.full(actions, 1.0))
    taken = rng.choice(actions, rows, p=shown)
    clicks = (rng.random(rows) < 0.05 + 0.3 * (taken % 5 == 0)).astype(float)
    log = bondic.Transitions(
        visitors, taken, clicks, np.zeros_like(visitors), np.ones(rows, dtype=bool), behavior_action_probs=shown[taken]
    )
    policy = bondic.CallablePolicy(lambda states: np.tile(wanted, (len(states), 1)))
    return bondic.make_problem(log, policy, gamma=0.0, reward_range=(0.0, 1.0))


TINY = bondic.Ball(bondic.Gaussian(1.0) * Dirac() + Constant(1.0), 1e-3)
SITUATIONS = {
    "sharp": Situation("When to maintain the machine", machine),
    "wide": Situation("A short log with states that are numbers", smooth, bondic.Default(radius="paper")),
    "trivial": Situation("Too few rows for so long a view", lambda: machine(400, 0.98)),
    "rejected": Situation("A radius that the log contradicts", lambda: machine(4000), bondic.Dual(ball=TINY)),
    "one-step": Situation("Which of three offers to show", lambda: offers(1000, 3)),
    "many-actions": Situation("Which of 34 offers to show", lambda: offers(3000, 34)),
}


def comparison() -> Comparison:
    """The demonstration's first rows: on the whole log most intervals are shorter than their dot."""
    return bondic.compare(machine(2000), METHODS)
