"""Trees for groups: against an exhaustive search, nested, exact at cliffs, in words."""

from __future__ import annotations

import numpy as np
import pytest

from bondic.core.errors import InvalidInput
from bondic.plan.groups import propose_groups
from bondic.plan.model import UserModel
from bondic.plan.rows import TrainingRows
from bondic.plan.tree import grow


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


def test_nested_family() -> None:
    rng = np.random.default_rng(0)
    inputs = rng.random((3000, 4))
    targets = np.sin(6 * inputs[:, 0]) + inputs[:, 1] * inputs[:, 2]
    tree = grow(inputs, targets, leaves=32, min_rows=20)
    assert tree.leaves == 32
    fine = tree.codes(inputs)
    assert np.bincount(fine).min() >= 20
    losses = []
    for leaves in (16, 8, 4, 2, 1):
        coarse = tree.prune(leaves).codes(inputs)
        assert tree.prune(leaves) == grow(inputs, targets, leaves=leaves, min_rows=20)
        assert coarse.max() == leaves - 1
        pairs = np.unique(np.column_stack([fine, coarse]), axis=0)
        assert len(pairs) == 32, "every fine group lies in one coarse group"
        losses.append(sum(_loss(targets[coarse == code]) for code in range(leaves)))
    assert losses == sorted(losses)
    assert tree.prune(100) == tree


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
    assert tree.prune(1).describe(["angle", "speed"]) == ("all rows",)
    with pytest.raises(InvalidInput, match="2 columns; got 1 names"):
        tree.describe(["angle"])


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
    assert groups.prune(1).n_cells == 2
