"""Every interval by its short name, with the label it carries by default: what `compare` runs through."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from bondic.core.errors import InvalidInput, one_line
from bondic.errors import did_you_mean
from bondic_lab.baselines.base import ShortName
from bondic_lab.baselines.betting import DoublyRobustBetting, PerDecisionBetting
from bondic_lab.baselines.coindice import CoinDice
from bondic_lab.baselines.double_rl import DoubleRL
from bondic_lab.baselines.duan_wang import LinearFittedQ
from bondic_lab.baselines.feng2020 import Feng2020
from bondic_lab.baselines.fqe import FittedQ
from bondic_lab.baselines.hcope import EmpiricalBernstein
from bondic_lab.baselines.importance import ImportanceSampling
from bondic_lab.baselines.lipschitz import Lipschitz
from bondic_lab.baselines.lstd import Lstd
from bondic_lab.baselines.marginalized import Marginalized
from bondic_lab.baselines.model_based import ModelBased
from bondic_lab.baselines.neural_fqe import NeuralFittedQ
from bondic_lab.baselines.trajectory_dr import DoublyRobust

_METHODS = (
    ImportanceSampling, EmpiricalBernstein, PerDecisionBetting, DoublyRobustBetting, FittedQ, NeuralFittedQ, DoublyRobust,
    Marginalized, Lstd, DoubleRL, CoinDice, ModelBased, LinearFittedQ, Feng2020, Lipschitz,
)  # fmt: skip
BASELINES: dict[str, ShortName] = {short.name: short for method in _METHODS for short in method.short_names()}


def make_baseline(name: str, **options: Any) -> Any:
    """The method with this short name; options are its fields."""
    if name not in BASELINES:
        raise InvalidInput(
            f"There is no baseline {one_line(repr(name))}.{did_you_mean(name, BASELINES)} Choose one of {', '.join(BASELINES)}."
        )
    method: Any = BASELINES[name].method
    known = [field.name for field in fields(method) if field.init]
    for option in options:
        if option not in known:
            raise InvalidInput(
                f"{name} has no option `{one_line(option)}`.{did_you_mean(option, known)} It has {', '.join(known)}."
            )
    return BASELINES[name].make(**options)
