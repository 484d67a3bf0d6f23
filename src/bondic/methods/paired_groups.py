"""Groups of states for two policies at once: a model of each, the same groups, and labels for their difference. Never trusted.

The groups are those of the first policy: what differs between the two is for the models to say.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bondic.core.cells.forecasts import Forecasts
from bondic.core.cells.paired import PairedGroups
from bondic.core.columns import Batch
from bondic.curve import Mark
from bondic.methods.group_cells import AnyGroups, FittedGroups, fit_groups, marks_of, training_rows
from bondic.methods.group_labels import CrossFits, Labels, labels_of
from bondic.rows import Rows
from bondic.rows.paired import answered_by

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FittedPair:
    """Models of both policies; what is asked of a fit is answered about their difference."""

    first: FittedGroups
    second: FittedGroups
    labels: Labels | None = None  # of the first layer
    clip: float = math.inf  # where forecasts of differences are cut

    @property
    def groups(self) -> AnyGroups:
        return self.first.groups

    @property
    def name(self) -> str:
        return " and ".join(dict.fromkeys((self.first.name, self.second.name)))

    def split(self, points: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        return self.first.split(points)

    def group(self, points: FloatArray) -> IntArray:
        return self.first.group(points)

    def likely(self, group: IntArray, answers: FloatArray) -> IntArray:
        """The group with the most likely action of each policy."""
        one, two = np.split(answers, 2, axis=1)
        return self.second.likely(self.first.likely(group, one), two)

    def values(self, points: FloatArray, slots: IntArray) -> FloatArray:
        return self.first.values(points, slots) - self.second.values(points, slots)

    def means(self, points: FloatArray, weights: FloatArray) -> FloatArray:
        one, two = np.split(weights, 2, axis=1)
        return self.first.means(points, one) - self.second.means(points, two)

    def cells(self, problem: Rows) -> PairedGroups:
        """Everything as numbers, block by block."""
        one = replace(self.first, labels=None).cells(answered_by(problem, 0))
        two = self.second.cells(answered_by(problem, 1))
        slots = problem.layout.slots
        count = self.groups.n_cells
        forecasts = Forecasts(np.arange(count), np.zeros(count), np.zeros((count, count * slots)))
        if self.labels is not None:
            forecasts, found = self.labels.forecasts, problem.over_batches(self._labeled)
            label, predicted = (np.concatenate(column) for column in zip(*found, strict=True))
            one = replace(one, label=label, predicted=predicted)
        # one array each: a certificate holds it once
        two = replace(two, group=one.group, next_group=one.next_group, start_group=one.start_group)
        return PairedGroups(replace(one, forecasts=forecasts), two, self.clip)

    def _labeled(self, batch: Batch) -> tuple[IntArray, FloatArray]:
        assert self.labels is not None
        cell = self.group(batch.logged) * batch.layout.slots + batch.slots
        return self.labels.of(self, batch.logged, batch.slots, cell)

    def marks(self, pilot: Rows) -> tuple[Mark, ...]:
        """Of either policy, the larger one."""
        found = [marks_of(fit, answered_by(pilot, place)) for place, fit in enumerate((self.first, self.second))]
        return tuple(max(both, key=lambda mark: mark.value) for both in zip(*found, strict=False))


def fit_pair(
    pilot: Rows,
    groups: object,
    count: int | None,
    length: Callable[[FittedGroups, Rows], float],
    report: Callable[[str], object],
) -> FittedPair:
    """From the pilot alone; `length`, for the number of groups, is that of the first policy by itself."""
    slots = pilot.layout.slots
    each = slots * (slots + 1)  # atoms of a group
    first = fit_groups(answered_by(pilot, 0), None, groups, count, length, report, each)
    second = fit_groups(answered_by(pilot, 1), None, first.groups, None, length, report, each)
    bare = FittedPair(first, second)
    parts = list(bare.cells(pilot).parts(pilot, (pilot.rows.stop,)))[::2]
    training = training_rows(pilot)
    known = CrossFits.of(replace(training, rewards=np.zeros(len(training))))
    sizes = (bare.groups.n_cells, bare.groups.n_cells * slots)
    return replace(bare, labels=labels_of(bare, parts, sizes, pilot, known))
