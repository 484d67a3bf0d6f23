"""Figures by name: what `bondic reproduce` offers."""

from __future__ import annotations

from bondic.core.errors import InvalidInput
from bondic.errors import did_you_mean
from bondic_lab.reproduction import ablations, fig1, fig2, pendulum_ablations, tightness
from bondic_lab.reproduction.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    item.name: item
    for item in (
        fig1.EXPERIMENT,
        fig2.EXPERIMENT,
        ablations.RADIUS,
        ablations.TEMPERATURE,
        pendulum_ablations.BANDWIDTH,
        pendulum_ablations.BEHAVIOR,
        ablations.LENGTH,
        tightness.EXPERIMENT,
    )
}


def find_experiment(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        near = did_you_mean(name, EXPERIMENTS)
        raise InvalidInput(f"There is no figure {name!r}.{near} Choose one of {', '.join(EXPERIMENTS)}.")
    return EXPERIMENTS[name]
