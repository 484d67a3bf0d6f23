"""How much of what the policy would visit the pilot has never seen anything like: simulated, and compared by distance.

Rows say nothing about what happens where there are none. A reward that waits there is in no residual, so the radius of Q has to
leave room for it: as much of the value range as the share of discounted visits that lie apart from the pilot's rows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from bondic.rows import Batch, Rows
from bondic.search.sequential.simulator import Simulator
from bondic.tuning.visits import policy_action

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_NEIGHBORS = 3
_USUAL = 0.95
"""Rows of the pilot lie this often within the distance that counts as near."""
CHANCE = 0.1
"""Visits that lie apart by chance: twice the share of the pilot's own rows."""
_STARTS = 500


def unseen_share(pilot: Rows, simulator: Simulator, length: int, seed: int) -> float:
    """The discounted share of simulated visits with fewer rows near them than the pilot's own rows have, beyond chance."""
    rng = np.random.default_rng([seed, 4])
    rows, d = pilot.whole(), simulator.steps.state_dim
    begin = pilot.initial.points[:: pilot.initial.draws, :d]
    states = begin[rng.integers(0, len(begin), _STARTS)] if len(begin) > _STARTS else begin
    near = _Near(rows, simulator.steps.scale)
    weight, far, total = np.ones(len(states)), 0.0, 0.0
    for _ in range(length):
        points, slots = policy_action(pilot, states, rng)
        far += float(weight @ near.apart(points, slots))
        total += float(weight.sum())
        states, alive, _ = simulator.step(points, slots, rng)
        weight = weight * alive * pilot.gamma
    return max(0.0, far / max(total, 1e-300) - CHANCE)


def unseen_actions(pilot: Rows) -> float:
    """The share of the policy's actions, at initial and next states, of which the pilot has too few rows for any to be near."""
    if not pilot.layout.discrete:
        return 0.0
    rows = pilot.whole()
    rare = np.bincount(rows.slots, minlength=pilot.layout.slots) <= _NEIGHBORS
    weights = [cloud.weights for cloud in (pilot.initial, rows.next) if len(cloud.weights)]
    total = sum(float(one.sum()) for one in weights)
    return sum(float(one[:, rare].sum()) for one in weights) / max(total, 1e-300)


class _Near:
    """Pilot rows of every action, and how far the third nearest of them usually is."""

    def __init__(self, rows: Batch, scale: FloatArray) -> None:
        self.scale = scale
        self.trees: dict[int, tuple[cKDTree, float]] = {}
        for slot in np.unique(rows.slots):
            own = rows.logged[rows.slots == slot] / scale
            if len(own) > _NEIGHBORS:
                tree = cKDTree(own)
                third = tree.query(own, k=_NEIGHBORS + 1)[0][:, -1]
                self.trees[int(slot)] = tree, float(np.quantile(third, _USUAL))

    def apart(self, points: FloatArray, slots: IntArray) -> FloatArray:
        out = np.ones(len(points))
        for slot, (tree, usual) in self.trees.items():
            own = slots == slot
            if own.any():
                out[own] = tree.query(points[own] / self.scale, k=_NEIGHBORS)[0][:, -1] > usual
        return out
