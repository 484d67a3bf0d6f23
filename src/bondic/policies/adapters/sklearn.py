"""Classifiers in the style of scikit-learn: predict_proba, with `classes_` naming the columns. Recognized by what they
offer; the library itself is imported by whoever built or stored the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.errors import PolicyError
from bondic.policies.adapters.fitted import given_to
from bondic.policies.adapters.outputs import in_order, to_probabilities

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ClassifierPolicy:
    """pi(a | s) = predict_proba(s)[class a]."""

    model: Any
    actions: Any = None  # number of actions, or their names in order
    names: tuple[str, ...] = ()  # of the log's columns, where they are known

    def action_probs(self, observations: FloatArray) -> FloatArray:
        what = f"The classifier {type(self.model).__name__}"
        answer = self.model.predict_proba(given_to(self.model, observations, self.names))
        probs = to_probabilities(answer, len(observations), "probabilities", what)
        return in_order(probs, self._classes(), self.actions, what)

    def _classes(self) -> Any:
        classes = getattr(self.model, "classes_", None)
        if classes is None or np.ndim(classes) != 1:
            raise PolicyError(
                f"The classifier {type(self.model).__name__} has no list `classes_`: it is not fitted, or predicts several "
                "outputs. One discrete action is needed."
            )
        return classes


def is_classifier(model: Any) -> bool:
    return callable(getattr(model, "predict_proba", None))
