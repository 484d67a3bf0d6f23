"""Gradient boosting of scikit-learn, extra `sklearn`; a learner like those of `learners`.

One thread per call: the threads of its boosting wait for each other in a spinning loop, and where a core was busy two of
them took 7 to 100 times as long as one. Rows of long logs are predicted in chunks, side by side.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from os import cpu_count
from typing import Any

import numpy as np

from bondic.errors import MissingExtra
from bondic.plan.rows import Actions, ActionValue, Floats, joined

_CHUNK = 16_384


def installed() -> bool:
    """Whether scikit-learn can be imported."""
    return find_spec("sklearn") is not None


def boosting(states: Floats, actions: Actions, targets: Floats) -> ActionValue:
    """Boosted trees on (state, action), one indicator column for each action code.

    Smaller trees and a stronger penalty than scikit-learn's own: targets of fitted Q evaluation are noisy, and with 31
    leaves and no penalty errors on 2 000 rows of four worlds were 1.0 to 1.5 times as large.
    """
    library, threads = _libraries()
    regressor = library.HistGradientBoostingRegressor(
        max_iter=80, max_leaf_nodes=15, l2_regularization=20.0, early_stopping=False, random_state=0
    )
    kinds = np.unique(actions) if actions.ndim == 1 else None
    with threads.limit(limits=1, user_api="openmp"):
        regressor.fit(_columns(states, actions, kinds), targets)
    return _Boosted(regressor, kinds)


@dataclass(frozen=True, eq=False)
class _Boosted:
    """A fitted regressor, which other processes can be sent."""

    regressor: Any
    kinds: Actions | None  # action codes; None where actions are numbers

    def __call__(self, states: Floats, actions: Actions) -> Floats:
        _, threads = _libraries()

        def chunk(states: Floats, actions: Actions) -> Floats:
            with threads.limit(limits=1, user_api="openmp"):
                return np.asarray(self.regressor.predict(_columns(states, actions, self.kinds)), dtype=np.float64)

        cuts = range(_CHUNK, len(states), _CHUNK)
        with ThreadPoolExecutor(cpu_count()) as pool:
            return np.concatenate(list(pool.map(chunk, np.split(states, cuts), np.split(actions, cuts))))


def _columns(states: Floats, actions: Actions, kinds: Actions | None) -> Floats:
    return joined(states, actions if kinds is None else actions[:, None] == kinds)


@cache
def _libraries() -> tuple[Any, Any]:
    try:
        import sklearn.ensemble
        import threadpoolctl  # comes with scikit-learn
    except ImportError as problem:
        raise MissingExtra("scikit-learn", "sklearn", "A model by gradient boosting") from problem
    return sklearn.ensemble, threadpoolctl.ThreadpoolController()
