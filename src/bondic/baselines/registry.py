"""Every interval by its short name, with the label it carries by default: what `compare` runs through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bondic.baselines.coindice import CoinDice
from bondic.baselines.double_rl import DoubleRL
from bondic.baselines.duan_wang import LinearFittedQ
from bondic.baselines.feng2020 import Feng2020
from bondic.baselines.fqe import FittedQ
from bondic.baselines.hcope import EmpiricalBernstein
from bondic.baselines.importance import ImportanceSampling
from bondic.baselines.lipschitz import Lipschitz
from bondic.baselines.lstd import Lstd
from bondic.baselines.marginalized import Marginalized
from bondic.baselines.model_based import ModelBased
from bondic.baselines.neural_fqe import NeuralFittedQ
from bondic.baselines.trajectory_dr import DoublyRobust
from bondic.claims import Guarantee
from bondic.errors import InvalidInput


@dataclass(frozen=True)
class Entry:
    """How to make a method, and what it promises under its own assumptions.

    `needs` names what the log must hold, `extra` the optional library without which it cannot be made.
    """

    make: Callable[..., Any]
    guarantee: Guarantee
    needs: tuple[str, ...]
    words: str
    extra: str | None = None


_EPISODES = ("episode_ids",)
_WEIGHTS = ("episode_ids", "behavior_action_probs")


def _sampling(weighting: str, interval: str = "t") -> Callable[..., Any]:
    def make(**options: Any) -> Any:
        return ImportanceSampling(**{"weighting": weighting, "interval": interval, **options})

    return make


BASELINES: dict[str, Entry] = {
    "tis": Entry(_sampling("tis"), "asymptotic", _WEIGHTS, "trajectory-wise importance sampling, Student t"),
    "pdis": Entry(_sampling("pdis"), "asymptotic", _WEIGHTS, "per-decision importance sampling, Student t"),
    "sntis": Entry(_sampling("sntis"), "asymptotic", _WEIGHTS, "self-normalised tis, Student t"),
    "snpdis": Entry(_sampling("snpdis"), "asymptotic", _WEIGHTS, "self-normalised pdis, Student t"),
    "tis-hoeffding": Entry(_sampling("tis", "hoeffding"), "finite-sample", _WEIGHTS, "tis, stated bound of ratios"),
    "pdis-hoeffding": Entry(_sampling("pdis", "hoeffding"), "finite-sample", _WEIGHTS, "pdis, stated bound of ratios"),
    "is-percentile": Entry(_sampling("pdis", "percentile"), "asymptotic", _WEIGHTS, "pdis, percentile bootstrap"),
    "is-bca": Entry(_sampling("pdis", "bca"), "asymptotic", _WEIGHTS, "pdis, BCa bootstrap"),
    "hcope": Entry(EmpiricalBernstein, "finite-sample", _WEIGHTS, "truncated weights, empirical Bernstein"),
    "dm": Entry(FittedQ, "asymptotic", _EPISODES, "fitted Q evaluation, bootstrap over episodes"),
    "dm-neural": Entry(NeuralFittedQ, "none", _EPISODES, "neural fitted Q evaluation, bootstrap", extra="torch"),
    "dr": Entry(DoublyRobust, "asymptotic", _WEIGHTS, "doubly robust over trajectories, Student t"),
    "mis": Entry(Marginalized, "asymptotic", (), "minimax weights, normal interval"),
    "lstd": Entry(Lstd, "asymptotic", (), "temporal differences, sandwich variance"),
    "drl": Entry(DoubleRL, "asymptotic", (), "double reinforcement learning, cross-fitted, normal interval"),
    "coindice": Entry(CoinDice, "asymptotic", (), "likelihood ball of reweighted rows"),
    "model": Entry(ModelBased, "asymptotic", _EPISODES, "most likely table, bootstrap over episodes"),
    "duan-wang": Entry(LinearFittedQ, "finite-sample", (), "linear fitted Q, self-normalised noise"),
    "feng2020": Entry(Feng2020, "finite-sample", (), "kernel Bellman loss, V-statistic threshold"),
    "lipschitz": Entry(Lipschitz, "none", (), "Lipschitz value iteration, slope estimated unless stated"),
}


def make_baseline(name: str, **options: Any) -> Any:
    """The method with this short name; options are its fields."""
    if name not in BASELINES:
        raise InvalidInput(f"There is no baseline {name!r}; choose one of {', '.join(BASELINES)}.")
    return BASELINES[name].make(**options)
