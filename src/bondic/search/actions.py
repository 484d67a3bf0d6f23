"""Many actions: some of them share coordinates, so that a search stays a matter of seconds.

With a Dirac on A actions every landmark stands for A coordinates. Where these are too many, actions are put into groups, and the
search looks at the span of

    k̃(l, .) 1[a in group],   a subspace: norms and values of a function in it are those of the whole space.

So what is proposed there is feasible, and evaluated as anything else; what the groups cost is length. The actions with most
weight stay alone; the others are sorted by how much more often the policy takes them than the log, and cut into groups
of equal number: weights ω are near that ratio.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bondic.core.kernels.normal_form import Term
from bondic.rows import Rows

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_ALONE = 0.5
"""Share of the groups that are single actions."""


@dataclass(frozen=True)
class Cap:
    """Most coordinates of a term, and how many landmarks or features each group of actions has at least.

    Parameters
    ----------
    coordinates : int
        Most coordinates of a term, about.
    least : int
        Landmarks for each action; where actions are too many for that, they are put into groups.
    """

    coordinates: int
    least: int

    @property
    def groups(self) -> int:
        """Most actions, or groups of them."""
        return max(self.coordinates // self.least, 1)

    def rank(self, rank: int, slots: int) -> int:
        """Landmarks for each action or group, at most `rank`."""
        return min(rank, max(self.least, self.coordinates // min(slots, self.groups)))


def action_groups(rows: Rows, most: int) -> IntArray | None:
    """The group of every action, from the first block of these rows; None: no more actions than `most`, each is its own."""
    slots = rows.layout.slots
    if slots <= most:
        return None
    first = next(rows.batches())
    logged = np.bincount(first.slots, minlength=slots) + 1.0
    target = _mean(rows.initial.weights) + _mean(first.next.weights)
    return grouped(logged / logged.sum(), target, most)


def sharing(slots: int, cap: Cap) -> str:
    """What the cap does to so many actions, in words; empty where each has its own coordinates."""
    if slots <= cap.groups:
        return ""
    return f"{slots} actions share the coordinates of {cap.groups} groups, which may cost length but not validity"


def _mean(weights: FloatArray) -> FloatArray:
    return weights.mean(axis=0) if len(weights) else np.zeros(weights.shape[1])


def grouped(logged: FloatArray, target: FloatArray, most: int) -> IntArray:
    """Groups 0..most-1 of actions with these shares in the log and in the policy."""
    alone = int(_ALONE * most)
    heavy = np.argsort(-(logged + target), kind="stable")[:alone]
    rest = np.setdiff1d(np.arange(logged.size), heavy)
    rest = rest[np.argsort(target[rest] / logged[rest], kind="stable")]
    out = np.empty(logged.size, np.int64)
    out[heavy] = np.arange(alone)
    for number, part in enumerate(np.array_split(rest, most - alone)):
        out[part] = alone + number
    return out


def one_hot_groups(groups: IntArray) -> FloatArray:
    """(actions, groups): 1 where an action is in a group."""
    return np.eye(int(groups.max()) + 1)[groups]


def shared_columns(term: Term, groups: IntArray | None) -> tuple[Term, FloatArray | None]:
    """The term on a subspace of its action embedding, and its orthonormal basis (p, groups); None: all of it."""
    if groups is None or term.embedding.shape[1] <= int(groups.max()) + 1:
        return term, None
    members = one_hot_groups(groups)
    if np.array_equal(term.embedding, np.eye(groups.size)):
        mixing = members / np.sqrt(members.sum(axis=0))
    else:
        mixing = np.linalg.qr(term.embedding.T @ members)[0]
    return replace(term, embedding=term.embedding @ mixing), mixing
