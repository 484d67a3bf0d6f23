"""Fitted Q evaluation: q ← regression of r + γ Σ_a π(a|s') q(s', a) on (s, a), until the targets stand still.

Plain sweeps forget their start at the rate γ: 300 of them at γ = .99. So the first sweeps also add to their values the
solution of Bellman's equation on the cells of a tree grown on the residuals: what moves slowly is solved, not waited for.

Candidates are compared on held-out rows by their mean squared Bellman error, as estimated by

    mean (Y − q̂(x))² − min over regressions h of mean (Y − h(x))²,     Y = r + γ Σ_a π(a|s') q̂(s', a),

h fitted to Y on the training rows (Farahmand and Szepesvári 2011). Without the second term the noise of Y would count
as error, and models with flat next values, the constant first of all, would win.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bondic.plan import boosting, learners
from bondic.plan.groups import cell_errors, tree_groups
from bondic.plan.learners import Learner
from bondic.plan.rows import Actions, ActionValue, Floats, TrainingRows, value_table

_SWEEPS = 8
_SOLVED_SWEEPS = 3
_STILL = 0.05
"""Sweeps end when targets move by less than this share of their standard deviation."""
_CELLS = 32
_CHOICE_ROWS, _SWEEP_ROWS, _LAST_ROWS = 20_000, 50_000, 200_000
"""Rows that candidates are compared on, that sweeps use, and that the last regression uses: bounds on time."""


@dataclass(frozen=True)
class FittedModel:
    """q̂, clipped to the value range; deterministic in the rows."""

    predict: ActionValue
    value_range: tuple[float, float]
    n_actions: int | None

    def values(self, states: Floats, actions: Actions) -> Floats:
        """q̂(s, a), row by row."""
        return np.clip(self.predict(states, actions), *self.value_range) if len(states) else np.zeros(0)

    def value_table(self, states: Floats) -> Floats:
        """(m, A): the value of every action code."""
        return value_table(self.values, states, self.n_actions)


@dataclass(frozen=True)
class ModelChoice:
    """The model of the candidate with the least held-out Bellman error, fitted again on all rows."""

    model: FittedModel
    name: str
    scores: Mapping[str, float]
    early: FittedModel  # the same of the rows before `held_out_from`


def candidates() -> dict[str, Learner]:
    """Regressions by name: gradient boosting where scikit-learn is installed, a single tree where it is not."""
    plain: dict[str, Learner] = {"constant": learners.constant, "linear": learners.linear}
    return plain | ({"boosting": boosting.boosting} if boosting.installed() else {"tree": learners.tree})


def held_out_from(rows: int) -> int:
    """The first row that candidates are scored on: after two thirds."""
    return max(2 * rows // 3, 1)


def choose_model(rows: TrainingRows, among: Mapping[str, Learner] | None = None) -> ModelChoice:
    """The best of the candidates: fitted on the first two thirds of the rows, scored on the last, refitted on all."""
    among = candidates() if among is None else among
    cut = held_out_from(len(rows))
    train, held_out = rows.take(slice(None, cut)), rows.take(slice(cut, None)) if cut < len(rows) else rows
    train, held_out = train.thinned(2 * _CHOICE_ROWS // 3), held_out.thinned(_CHOICE_ROWS // 3)
    models = {name: fit_model(train, learner) for name, learner in among.items()}
    scores = dict.fromkeys(among, 0.0)
    if len(among) > 1:
        scores = {name: _bellman_error(train, held_out, model, among) for name, model in models.items()}
    name = min(scores, key=scores.__getitem__)
    return ModelChoice(fit_model(rows, among[name]), name, scores, models[name])


def _bellman_error(
    train: TrainingRows, held_out: TrainingRows, model: FittedModel, among: Mapping[str, Learner]
) -> float:
    targets, backup = train.backup(model.values), held_out.backup(model.values)

    def error(value: ActionValue) -> float:
        return float(np.mean((backup - value(held_out.states, held_out.actions)) ** 2))

    floor = min(error(regression(train.states, train.actions, targets)) for regression in among.values())
    return error(model.values) - floor


def fit_model(rows: TrainingRows, learner: Learner) -> FittedModel:
    """Fitted Q evaluation with one regression."""
    value = _swept(rows.thinned(_SWEEP_ROWS), learner) if rows.gamma > 0 else _zero
    last = rows.thinned(_LAST_ROWS)
    return _regression(last, learner, last.backup(value))


def half_models(rows: TrainingRows, learner: Learner) -> tuple[FittedModel, FittedModel]:
    """Two models, of the first and of the second half of the rows: how far they differ is a mark on the curve."""
    cut = (len(rows) + 1) // 2
    return fit_model(rows.take(slice(None, cut)), learner), fit_model(rows.take(slice(len(rows) - cut, None)), learner)


def _regression(rows: TrainingRows, learner: Learner, targets: Floats) -> FittedModel:
    return FittedModel(learner(rows.states, rows.actions, targets), rows.value_range, rows.n_actions)


def _swept(rows: TrainingRows, learner: Learner) -> ActionValue:
    """The function whose backup is the last target."""
    value, next_values = _solved(rows, _zero, np.zeros(len(rows.next_pairs.rows)))
    targets = rows.backup_of(next_values)
    for sweep in range(1, _SWEEPS + 1):
        value = _regression(rows, learner, targets).values
        next_values = value(rows.next_pairs.states, rows.next_pairs.actions)
        if sweep <= _SOLVED_SWEEPS:
            value, next_values = _solved(rows, value, next_values)
        moved, targets = targets, rows.backup_of(next_values)
        if np.std(moved - targets) <= _STILL * np.std(targets):
            break
    return value


def _solved(rows: TrainingRows, value: ActionValue, next_values: Floats) -> tuple[ActionValue, Floats]:
    """The function, and its values at the next pairs, plus what solves Bellman's equation on average in every cell."""
    residuals = rows.backup_of(next_values) - value(rows.states, rows.actions)
    count = max(2, _CELLS // (rows.n_actions or 1))
    groups = tree_groups(rows, residuals, count=count, min_rows=max(20, len(rows) // 50))
    errors = cell_errors(rows, groups, residuals)

    def shifted(states: Floats, actions: Actions) -> Floats:
        return np.clip(value(states, actions) + errors[groups.cells(states, actions)], *rows.value_range)

    pairs = rows.next_pairs
    shift = errors[groups.cells(pairs.states, pairs.actions)]
    return shifted, np.clip(next_values + shift, *rows.value_range)


def _zero(states: Floats, _: Actions) -> Floats:
    return np.zeros(len(states))
