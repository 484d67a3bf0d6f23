"""Tabular problems with a known value on which every interval is tried, and what each of them breaks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

import bondic
from bondic.rows.rows import Rows
from bondic_lab.worlds.tabular import TabularMDP

COLUMNS = ("observations", "actions", "rewards", "next_observations", "terminations", "truncations", "episode_ids",
           "timesteps", "behavior_action_probs")  # fmt: skip

MANY_STEPS = "rows of an episode depend on one another"
ADAPTIVE = "the behavior depends on earlier episodes"
RANDOM = "the environment is random"

_ROW_METHODS = ("feng2020", "coindice")
_EPISODE_METHODS = (
    "tis", "pdis", "sntis", "snpdis", "tis-hoeffding", "pdis-hoeffding", "is-percentile", "is-bca", "hcope", "dm", "dr",
    "mis", "lstd", "drl", "model",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One problem: how its log arises, its true value, and the methods whose assumptions it breaks."""

    words: str
    mdp: TabularMDP
    episodes: int
    steps: int
    behavior: str = "logging"
    horizon: int | None = None
    broken: dict[str, str] = field(default_factory=dict)  # method -> which assumption fails

    @property
    def truth(self) -> float:
        return self.mdp.value if self.horizon is None else self.mdp.finite_value(self.horizon)

    @property
    def max_ratio(self) -> float:
        """max pi / beta over the whole table: knowledge of the experimenter, not a sample maximum."""
        slots = self.mdp.target.shape[1]
        rates = (0.1, 0.9) if self.behavior == "adaptive" else (0.0,)
        return max(float((self.mdp.target / ((1 - rate) * self.mdp.behavior + rate / slots)).max()) for rate in rates)

    @property
    def slope(self) -> float:
        """The steepest slope of q* between neighboring states, for the Lipschitz interval."""
        return float(np.abs(np.diff(self.mdp.q_star, axis=0)).max())

    def problem(self, rng: np.random.Generator, *, own_starts: bool = False) -> Rows:
        """The question from d_0 as an exact list, or from the episodes' own starts, which are draws of it."""
        rollout = self.mdp.rollout(self.episodes, self.steps, rng, behavior=self.behavior)  # type: ignore[arg-type]
        log = bondic.Transitions(**{name: getattr(rollout, name) for name in COLUMNS})
        states = np.arange(self.mdp.initial_probs.size, dtype=float)[:, None]
        return bondic.make_problem(
            log,
            bondic.TablePolicy(self.mdp.target),
            None if own_starts else bondic.InitialStates.exact(states, self.mdp.initial_probs),
            population="iid" if own_starts else None,
            gamma=self.mdp.gamma,
            reward_range=self.mdp.reward_range,
            horizon=self.horizon,
            may_terminate=bool(np.any(self.mdp.termination)),
        )


def _random(gamma: float, seed: int = 11, **more: float) -> TabularMDP:
    return TabularMDP.random(np.random.default_rng(seed), n_states=4, n_actions=2, gamma=gamma, **more)


def _rare() -> TabularMDP:
    """Two actions; the behavior takes action 1, which pays, once in twenty times; the target nearly always."""
    transitions = np.full((2, 2, 2), 0.5)
    rewards = np.array([[0.1, 0.6], [0.2, 0.9]])
    target, behavior = np.tile([0.1, 0.9], (2, 1)), np.tile([0.95, 0.05], (2, 1))
    return TabularMDP(transitions, rewards, np.array([0.5, 0.5]), target, behavior, 0.9, (0.0, 1.0))


def _chain(states: int = 5) -> TabularMDP:
    """Left or right on a line; the reward is the place. Nothing is random but the actions."""
    transitions = np.zeros((states, 2, states))
    for s in range(states):
        transitions[s, 0, max(s - 1, 0)] = transitions[s, 1, min(s + 1, states - 1)] = 1.0
    rewards = np.repeat(np.linspace(0.0, 1.0, states)[:, None], 2, axis=1)
    target, behavior = np.tile([0.3, 0.7], (states, 1)), np.tile([0.5, 0.5], (states, 1))
    return TabularMDP(transitions, rewards, np.full(states, 1 / states), target, behavior, 0.8, (0.0, 1.0))


def make_cases() -> dict[str, Case]:
    """Short names to problems; broken assumptions are stated here, before anything is run."""
    off = _random(0.8, reward_noise=0.1)
    on = replace(off, target=off.behavior)
    rows = dict.fromkeys(_ROW_METHODS, MANY_STEPS) | {"lipschitz": RANDOM}
    adaptive = rows | dict.fromkeys(_EPISODE_METHODS, ADAPTIVE)
    chain = {name: why for name, why in rows.items() if name != "lipschitz"}
    even = replace(off, initial_probs=np.full(4, 0.25))
    return {
        "independent rows": Case(
            "4000 single steps from random states, else as off-policy", even, 4000, 1, broken={"lipschitz": RANDOM}
        ),
        "on-policy": Case("target equal to behavior, gamma 0.8, 200 episodes of 20 steps", on, 200, 20, broken=rows),
        "off-policy": Case("another target, gamma 0.8, 200 episodes of 20 steps", off, 200, 20, broken=rows),
        "long horizon": Case(
            "gamma 0.97, 100 episodes of 100 steps", _random(0.97, reward_noise=0.1), 100, 100, broken=rows
        ),
        "rare large weights": Case(
            "ratios up to 18, horizon 3, gamma 0.9, 300 episodes", _rare(), 300, 3, horizon=3, broken=rows
        ),
        "adaptive": Case(
            "exploration depends on all earlier rewards, else as off-policy", off, 200, 20, "adaptive", broken=adaptive
        ),
        "deterministic": Case(
            "a line of 5 places, gamma 0.8, 100 episodes of 20 steps", _chain(), 100, 20, broken=chain
        ),
    }
