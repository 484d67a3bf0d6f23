"""Models by fitted Q evaluation, close to known values and chosen on held-out rows; trees against an exhaustive search."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from bondic.plan import boosting, learners
from bondic.plan.fitted import candidates, choose_model, fit_model
from bondic.plan.groups import propose_groups
from bondic.plan.rows import TrainingRows, UserModel
from bondic.plan.tree import grow

needs_sklearn = pytest.mark.skipif(not boosting.installed(), reason="scikit-learn is not installed")
LEARNERS = [
    pytest.param(learners.linear, id="linear"),
    pytest.param(learners.tree, id="tree"),
    pytest.param(boosting.boosting, id="boosting", marks=needs_sklearn),
]
RICH = LEARNERS[1:]


def _chain(n: int, gamma: float, seed: int = 0) -> tuple[TrainingRows, np.ndarray]:
    """Five states in a row; action 1 steps right, action 0 stays, each slips with .2; state 4 pays 1 and ends. And q*."""
    rng = np.random.default_rng(seed)
    states, actions = rng.integers(0, 5, n), rng.integers(0, 2, n)
    steps = np.where(rng.random(n) < 0.2, 1 - actions, actions)
    following = np.minimum(states + steps, 4)
    policy = np.array([0.3, 0.7])
    weights = np.where((states == 4)[:, None], 0.0, policy)
    rows = TrainingRows(
        states[:, None] * 1.0, actions, (states == 4) * 1.0, following[:, None] * 1.0, gamma, (0.0, 1.0), 2, weights
    )
    table = np.zeros((5, 2))
    table[4] = 1.0
    for state in (3, 2, 1, 0):  # V(s) = p γ V(s + 1) + (1 − p) γ V(s), p the chance of a step
        after = table[state + 1] @ policy
        chance = 0.3 * 0.2 + 0.7 * 0.8
        here = chance * gamma * after / (1 - (1 - chance) * gamma)
        table[state] = [gamma * (0.2 * after + 0.8 * here), gamma * (0.8 * after + 0.2 * here)]
    return rows, table


@pytest.mark.parametrize("gamma", [0.0, 0.9, 0.99])
@pytest.mark.parametrize("learner", RICH)
def test_values_of_a_chain(learner: Any, gamma: float) -> None:
    """At γ = .99 plain sweeps would need 300: eight are enough, because slow parts are solved on cells."""
    rows, table = _chain(4000, gamma)
    model = fit_model(rows, learner)
    values = model.value_table(np.arange(5.0)[:, None])
    np.testing.assert_allclose(values, table, atol=0.05)
    np.testing.assert_array_equal(values[[2, 4], [1, 0]], model.values(np.array([[2.0], [4.0]]), np.array([1, 0])))


def _smooth(n: int, gamma: float, seed: int) -> TrainingRows:
    """s' = .8 s + .2 (a − ½) + noise, r = s₁ + a/4 + noise; a = 1 with probability ½: q* is linear in s."""
    rng = np.random.default_rng(seed)
    states, actions = rng.normal(size=(n, 2)), rng.integers(0, 2, n)
    following = 0.8 * states + 0.2 * (actions[:, None] - 0.5) + 0.6 * rng.normal(size=(n, 2))
    rewards = states[:, 0] + actions / 4 + 0.1 * rng.normal(size=n)
    return TrainingRows(states, actions, rewards, following, gamma, (-30.0, 30.0), 2, np.full((n, 2), 0.5))


def _smooth_values(states: np.ndarray, actions: np.ndarray, gamma: float) -> np.ndarray:
    slope = 1 / (1 - 0.8 * gamma)
    constant = 0.125 / (1 - gamma)  # E_π of the action's terms, which have mean zero but for a/4
    return slope * states[:, 0] + actions / 4 + gamma * (slope * 0.2 * (actions - 0.5) + constant)


def test_a_linear_world_is_found_by_the_linear_model_and_chosen() -> None:
    rows, test = _smooth(3000, 0.9, 0), _smooth(500, 0.9, 1)
    choice = choose_model(rows)
    assert choice.name == "linear"
    assert min(choice.scores, key=choice.scores.__getitem__) == "linear"
    error = choice.model.values(test.states, test.actions) - _smooth_values(test.states, test.actions, 0.9)
    assert np.sqrt((error**2).mean()) < 0.25, "of values with a standard deviation of 3.6"


def test_the_choice_is_not_the_least_squared_residual() -> None:
    """The constant has the smaller residuals, because its next values have no noise: the naive rule takes it."""
    rows, test = _smooth(3000, 0.9, 0), _smooth(3000, 0.9, 1)
    naive = {
        name: np.mean(test.residuals(fit_model(rows, candidates()[name]).values) ** 2)
        for name in ("constant", "linear")
    }
    assert naive["constant"] < naive["linear"] / 2
    choice = choose_model(rows, {name: candidates()[name] for name in naive})
    assert choice.name == "linear"
    assert choice.scores["linear"] < choice.scores["constant"] / 10


def _halves(n: int, seed: int) -> TrainingRows:
    """A step in the state, γ = .9: the half s ≥ ½ pays .8, the other .2; nobody changes sides. q* = 8 or 2."""
    rng = np.random.default_rng(seed)
    states, actions = rng.random((n, 2)), rng.integers(0, 2, n)
    right = states[:, 0] >= 0.5
    rewards = (rng.random(n) < np.where(right, 0.8, 0.2)) * 1.0
    following = np.column_stack([(rng.random(n) + right) / 2, rng.random(n)])
    return TrainingRows(states, actions, rewards, following, 0.9, (0.0, 10.0), 2, np.full((n, 2), 0.5))


@pytest.mark.parametrize("sklearn", [pytest.param(True, marks=needs_sklearn), False])
def test_a_step_is_found(sklearn: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not sklearn:
        _hide(monkeypatch)
    rows, test = _halves(3000, 0), _halves(1000, 1)
    choice = choose_model(rows)
    assert choice.name == ("boosting" if sklearn else "tree")
    error = choice.model.values(test.states, test.actions) - np.where(test.states[:, 0] >= 0.5, 8.0, 2.0)
    assert np.abs(error).mean() < 0.4


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_same_twice_and_for_any_cut_of_the_rows(learner: Any) -> None:
    rows, test = _halves(2000, 0), _halves(150_000, 1)
    first, second = fit_model(rows, learner), fit_model(rows, learner)
    together = first.values(test.states, test.actions)
    np.testing.assert_array_equal(together, second.values(test.states, test.actions))
    np.testing.assert_allclose(
        together[70_000:70_100], first.values(test.states[70_000:70_100], test.actions[70_000:70_100])
    )


def _hide(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sklearn", "sklearn.ensemble"):
        monkeypatch.setitem(sys.modules, name, None)


# --- Trees for groups: against an exhaustive search, nested, exact at cliffs, in words.


def _loss(targets: np.ndarray) -> float:
    return float(((targets - targets.mean(axis=0)) ** 2).sum())


def _naive_codes(inputs: np.ndarray, targets: np.ndarray, leaves: int, min_rows: int) -> np.ndarray:
    """Best-first growth by trying every threshold of every column of every leaf."""
    codes = np.zeros(len(inputs), dtype=int)
    for new in range(1, leaves):
        best, right_rows = 1e-9 * _loss(targets), None
        for leaf in range(new):
            rows = np.flatnonzero(codes == leaf)
            for column in range(inputs.shape[1]):
                for threshold in np.unique(inputs[rows, column])[1:]:
                    right = inputs[rows, column] >= threshold
                    if min(right.sum(), (~right).sum()) < min_rows:
                        continue
                    gain = _loss(targets[rows]) - _loss(targets[rows[right]]) - _loss(targets[rows[~right]])
                    if gain > best:
                        best, right_rows = gain, rows[right]
        if right_rows is None:
            break
        codes[right_rows] = new
    return codes


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("outputs", [1, 3])
def test_growth_is_the_exhaustive_search(seed: int, outputs: int) -> None:
    rng = np.random.default_rng(seed)
    inputs = np.column_stack([rng.normal(size=90), rng.integers(0, 5, 90), rng.random(90)])
    targets = rng.normal(size=(90, outputs)) + 3 * (inputs[:, :1] > 0.3) * inputs[:, 1:2]
    tree = grow(inputs, targets, leaves=7, min_rows=6)
    np.testing.assert_array_equal(tree.codes(inputs), _naive_codes(inputs, targets, 7, 6))


def test_words_decide_like_the_tree() -> None:
    rng = np.random.default_rng(2)
    inputs = rng.normal(size=(2000, 2))
    targets = np.sin(3 * inputs[:, 0]) * (inputs[:, 1] > 0.5)
    tree = grow(inputs, targets, leaves=12, min_rows=30)
    codes = tree.codes(inputs)
    for code, words in enumerate(tree.describe(["angle", "speed"])):
        inside = np.ones(len(inputs), dtype=bool)
        for part in words.split(" and "):
            left, *rest = part.split(" ")
            column = inputs[:, ["angle", "speed"].index(rest[1] if left[0] in "-0123456789" else left)]
            if left[0] in "-0123456789":
                inside &= (float(left) <= column) & (column < float(rest[3]))
            else:
                inside &= column < float(rest[1]) if rest[0] == "<" else column >= float(rest[1])
        np.testing.assert_array_equal(inside, codes == code)


def _rows(n: int = 3000, seed: int = 0) -> TrainingRows:
    """Two states of nature, cut at .4 of the first column; action 1 pays 1 there, and both columns start anew."""
    rng = np.random.default_rng(seed)
    states, actions = rng.random((n, 2)), rng.integers(0, 2, n)
    rewards = ((states[:, 0] >= 0.4) & (actions == 1)).astype(float)
    half = np.full((n, 2), 0.5)
    return TrainingRows(states, actions, rewards, rng.random((n, 2)), 0.5, (0.0, 2.0), 2, half)


@pytest.mark.parametrize("known", [True, False])
def test_groups_find_the_threshold_from_values_or_from_residuals(known: bool) -> None:
    """A model that knows the cliff shows it by its values; one that does not by its residuals."""
    rows = _rows()
    model = UserModel(lambda s, a: known * (s[:, 0] >= 0.4) * (a == 1) + 0.3, 2)
    groups = propose_groups(rows, model, count=2)
    ((column, threshold, _),) = groups.tree.splits
    assert column == 0
    assert threshold == pytest.approx(0.4, abs=0.001)
    assert (groups.count, groups.n_cells) == (2, 4)
    cells = groups.cells(rows.states, rows.actions)
    np.testing.assert_array_equal(cells, 2 * (rows.states[:, 0] >= threshold) + rows.actions)
