"""One-step logs from published data: scikit-learn's classification sets, and the sample of Open Bandit.

The population is a finite list of rows with known labels (or click rates), contexts are drawn from it with replacement:
the value of a policy is a finite sum, over the population or over the contexts of a log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from experiments.defaults_cells import Cell, FloatArray, IntArray, Trial, one_step_log

import bondic

SETS = ("digits", "breast_cancer", "wine")
LATER = ("iris",)
CAMPAIGNS = ("all", "men", "women")
ROWS = 1000
LOGGED = 1000
FEW = 8
SKLEARN_ABSENT = "" if find_spec("sklearn") else "scikit-learn is not installed, cell not run"
OBP_ABSENT = "" if find_spec("obp") and find_spec("pandas") else "obp not installed, cell not run"


@cache
def labeled_data(name: str) -> tuple[FloatArray, IntArray]:
    """Features as they are given, unscaled, and labels 0, 1, ..."""
    from sklearn import datasets

    features, labels = getattr(datasets, f"load_{name}")(return_X_y=True)
    return np.asarray(features, dtype=np.float64), np.asarray(labels, dtype=np.int64)


def fitted_rule(features: FloatArray, labels: IntArray) -> Callable[[FloatArray], IntArray]:
    """A mediocre classifier: a decision tree with 15 leaves."""
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(max_leaf_nodes=15, random_state=0).fit(features, labels)
    return lambda contexts: np.asarray(tree.predict(contexts), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class LoggedLabels:
    """A classification set as a log of single decisions; what is not in the log, labels and population, is known here."""

    features: FloatArray  # (rows, d)
    labels: IntArray
    actions: IntArray
    propensities: FloatArray  # of the logged actions, at least `least`
    least: float
    policy: bondic.DeterministicPolicy
    population: FloatArray  # contexts are drawn from these
    truth: float  # how often the policy is right on the population

    @property
    def rewards(self) -> FloatArray:
        return (self.actions == self.labels).astype(np.float64)

    @property
    def right(self) -> FloatArray:
        """What the policy earns at each row of the log."""
        return (self.policy.action_probs(self.features).argmax(axis=1) == self.labels).astype(np.float64)


def logged_labels(features: FloatArray, labels: IntArray, rng: np.random.Generator, rows: int) -> LoggedLabels:
    """Half of the data fit the target, the other half is the population; r = 1 if the action is the label.

    Behavior: half uniform, half softmax of a random linear score.
    """
    actions = int(labels.max()) + 1
    order = rng.permutation(len(labels))
    fit, rest = order[: len(order) // 2], order[len(order) // 2 :]
    target = fitted_rule(features[fit], labels[fit])
    drawn = rng.choice(rest, rows)
    scores = (features[drawn] - features.mean(axis=0)) / (features.std(axis=0) + 1e-12)
    scores = scores @ rng.standard_normal((features.shape[1], actions)) / np.sqrt(features.shape[1])
    softmax = np.exp(scores - scores.max(axis=1, keepdims=True))
    least = 0.5 / actions
    probs = 0.5 * softmax / softmax.sum(axis=1, keepdims=True) + least
    taken = np.sum(rng.random(rows)[:, None] >= np.cumsum(probs, axis=1)[:, :-1], axis=1)
    return LoggedLabels(
        features[drawn],
        labels[drawn],
        taken,
        probs[np.arange(rows), taken],
        least,
        bondic.DeterministicPolicy(target, n_actions=actions),
        features[rest],
        float(np.mean(target(features[rest]) == labels[rest])),
    )


def classification_trial(
    features: FloatArray, labels: IntArray, rng: np.random.Generator, *, rows: int, known_contexts: bool
) -> Trial:
    """`known_contexts` states the list of the population; otherwise the value is over the contexts of the log."""
    data = logged_labels(features, labels, rng, rows)
    return Trial(
        one_step_log(data.features, data.actions, data.rewards),
        data.policy,
        0.0,
        (0.0, 1.0),
        data.truth if known_contexts else data.right,
        initial=bondic.InitialStates.exact(data.population) if known_contexts else None,
    )


def classification_cell(name: str, rows: int, known_contexts: bool, rng: np.random.Generator) -> Trial:
    return classification_trial(*labeled_data(name), rng, rows=rows, known_contexts=known_contexts)


@dataclass(frozen=True, eq=False)
class Campaign:
    """Logs of the random policy and of Bernoulli Thompson sampling (bts) on one campaign."""

    contexts: FloatArray  # of the random log: one-hot user features, then the position 0, 1, 2
    items: IntArray
    clicks: FloatArray
    shares: FloatArray  # of bts: (positions, items)
    rates: FloatArray  # clicks per showing of an item, both logs together
    propensities: FloatArray  # of the random log
    bts_mean: float
    bts_error: float


@cache
def campaign(name: str) -> Campaign:
    """Read the files that ship with the package obp; the package itself is not imported."""
    import pandas

    spec = find_spec("obp")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "dataset" / "obd"
    logs = {kind: pandas.read_csv(folder / kind / name / f"{name}.csv", index_col=0) for kind in ("random", "bts")}
    random, bts = logs["random"], logs["bts"]
    users = [column for column in random.columns if column.startswith("user_feature")]
    codes = pandas.get_dummies(random[users], drop_first=True).to_numpy(dtype=np.float64)  # as obp does
    places = {kind: log["position"].rank(method="dense").to_numpy(dtype=np.int64) - 1 for kind, log in logs.items()}
    items = int(max(log["item_id"].max() for log in logs.values())) + 1
    shares = np.zeros((int(places["bts"].max()) + 1, items))
    np.add.at(shares, (places["bts"], bts["item_id"].to_numpy()), 1.0)
    both = pandas.concat([random, bts])
    shown = np.bincount(both["item_id"], minlength=items)
    rates = np.bincount(both["item_id"], weights=both["click"], minlength=items) / np.maximum(shown, 1)
    clicks = bts["click"].to_numpy(dtype=np.float64)
    return Campaign(
        np.column_stack([codes, places["random"]]),
        random["item_id"].to_numpy(dtype=np.int64),
        random["click"].to_numpy(dtype=np.float64),
        shares / shares.sum(axis=1, keepdims=True),
        rates,
        random["propensity_score"].to_numpy(dtype=np.float64),
        float(clicks.mean()),
        float(clicks.std(ddof=1) / np.sqrt(len(clicks))),
    )


def shares_policy(shares: FloatArray) -> Any:
    """The item depends on the position, the last column, alone."""
    return bondic.CallablePolicy(lambda contexts: shares[contexts[:, -1].astype(np.int64)])


def fewer_items(data: Campaign, count: int) -> Campaign:
    """The `count` items that Thompson sampling shows most, as a campaign of their own."""
    kept = np.sort(np.argsort(-data.shares.sum(axis=0), kind="stable")[:count])
    rows = np.isin(data.items, kept)
    shares = data.shares[:, kept]
    return replace(
        data,
        contexts=data.contexts[rows],
        items=np.searchsorted(kept, data.items[rows]),
        clicks=data.clicks[rows],
        shares=shares / shares.sum(axis=1, keepdims=True),
        rates=data.rates[kept],
        propensities=data.propensities[rows] * (len(data.rates) / count),
    )


def open_bandit_trial(data: Campaign, rng: np.random.Generator) -> Trial:
    """Contexts of the random log drawn again, items at random, a click with the item's rate."""
    contexts = data.contexts[rng.integers(len(data.items), size=LOGGED)]
    shown = rng.integers(len(data.rates), size=LOGGED)
    clicks = (rng.random(LOGGED) < data.rates[shown]).astype(np.float64)
    values = data.shares @ data.rates
    return Trial(
        one_step_log(contexts, shown, clicks, np.full(LOGGED, 1 / len(data.rates))),
        shares_policy(data.shares),
        0.0,
        (0.0, 1.0),
        values[contexts[:, -1].astype(np.int64)],
    )


def open_bandit_cell(name: str, items: int | None, rng: np.random.Generator) -> Trial:
    data = campaign(name)
    return open_bandit_trial(data if items is None else fewer_items(data, items), rng)


def open_bandit_log(name: str, rng: np.random.Generator) -> Trial:
    """The real log; in place of the truth, what bts measured on its own days, with its standard error."""
    del rng
    data = campaign(name)
    return Trial(
        one_step_log(data.contexts, data.items, data.clicks, data.propensities),
        shares_policy(data.shares),
        0.0,
        (0.0, 1.0),
        data.bts_mean,
        error=data.bts_error,
    )


def bandit_cells() -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    for name in (*SETS, *LATER):
        words = (
            f"scikit-learn's {name} as a log of {ROWS} one-step decisions, reward 1 for the right label; target: a "
            "decision tree with 15 leaves fitted on the other half; over the contexts of the log"
        )
        cells[name] = Cell(words, partial(classification_cell, name, ROWS, False), missing=SKLEARN_ABSENT)
        cells[f"{name}, contexts known"] = Cell(
            "the same, with the list of the population's contexts stated",
            partial(classification_cell, name, ROWS, True),
            missing=SKLEARN_ABSENT,
        )
    for name in CAMPAIGNS:
        words = (
            f"Open Bandit, campaign {name}: {LOGGED} contexts of the random log drawn again (one-hot user features and position, "
            "no affinities), items at random with their probabilities in the log, clicks with each item's pooled rate; target: "
            "item shares of Thompson sampling by position; exact for the positions of the log"
        )
        cells[f"Open Bandit {name}"] = Cell(words, partial(open_bandit_cell, name, None), missing=OBP_ABSENT)
        cells[f"Open Bandit {name}, {FEW} items"] = Cell(
            f"the same with the {FEW} items that Thompson sampling shows most",
            partial(open_bandit_cell, name, FEW),
            missing=OBP_ABSENT,
        )
        cells[f"Open Bandit {name}, real log"] = Cell(
            "the random policy's log itself with its propensities, all rows; the mean of Thompson sampling's own log stands in "
            "for the truth",
            partial(open_bandit_log, name),
            missing=OBP_ABSENT,
            judged=False,
        )
    return cells
