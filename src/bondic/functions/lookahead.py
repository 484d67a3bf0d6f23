"""One step ahead in a model, then a network: a center of Q for worlds whose next state can nearly be told.

    f(z, a) = r̂(s') + discount alive(s') V(s'),     s' = clip( s + scale p_a((z - mean) / scale) ),   p_a polynomials

alive and r̂ are constant on the leaves of a tree that compares columns of s' with thresholds, V is a network of s' that is
clipped to the value range. f jumps where s' crosses a threshold. It is one function all the same, and the same point has the
same value in every batch: s' is made by additions and multiplications entry by entry in a fixed order, each rounded as IEEE
754 prescribes, and the s' of the formula *is* that float. What follows the thresholds is off by the bound of the network.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bondic.codec import supplied
from bondic.errors import InvalidInput
from bondic.functions.functions import Function
from bondic.functions.networks import TanhNetwork, in_words, refuse_norm
from bondic.kernels.base import fingerprint
from bondic.kernels.normal_form import Layout
from bondic.registry import register
from bondic.rounding import Enclosure, U, inflate
from bondic.sums.forms import STANDARD, Sums

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

NOTHING = -1
"""A monomial's factor that is 1; a tree's node that is a leaf."""
_PIECE = 8192
_MOST_DEPTH = 64


@dataclass(frozen=True, eq=False)
class Polynomials:
    """s'(z, a) = clip(s + scale_s sum_m C_am prod_k x_{m_k}, low, high),  x = (z - mean) / scale: what a step does to a state.

    Parameters
    ----------
    mean, scale : array of float, (D,)
        What points are standardized by; the first d columns are the state.
    monomials : array of int, (M, degree)
        Columns that are multiplied, from the left; -1 stands for no factor.
    coefficients : array of float, (slots, M, d)
        C, for every discrete action.
    low, high : array of float, (d,)
        States beyond are cut.
    """

    mean: FloatArray
    scale: FloatArray
    monomials: IntArray
    coefficients: FloatArray
    low: FloatArray
    high: FloatArray

    def __post_init__(self) -> None:
        columns, (count, states) = self.mean.size, self.coefficients.shape[1:]
        shaped = self.mean.shape == self.scale.shape == (columns,) and self.monomials.ndim == 2
        shaped = shaped and self.monomials.shape[0] == count and self.low.shape == self.high.shape == (states,)
        shaped = shaped and states <= columns
        inside = bool(np.all((self.monomials >= NOTHING) & (self.monomials < columns)))
        arrays = (self.mean, self.scale, self.coefficients, self.low, self.high)
        if not (shaped and inside and all(np.all(np.isfinite(a)) for a in arrays) and np.all(self.scale > 0)):
            raise InvalidInput("Polynomials need finite coefficients (slots, M, d), columns that exist and scales > 0.")

    @property
    def state_dim(self) -> int:
        """Columns of a state."""
        return int(self.low.size)

    def terms(self, points: FloatArray) -> FloatArray:
        """Values of the monomials, (N, M)."""
        inputs = (points - self.mean) / self.scale
        out = np.ones((points.shape[0], self.monomials.shape[0]))
        for m, columns in enumerate(self.monomials):
            for column in columns[columns >= 0]:
                out[:, m] *= inputs[:, column]
        return out

    def next_states(self, points: FloatArray, slot: int) -> FloatArray:
        """s' for one action: sums in the order of the monomials, entry by entry, so that batches do not matter."""
        return self._moved(points, self.terms(points), slot)

    def at(self, points: FloatArray, slots: IntArray) -> FloatArray:
        """s' for the action of each point."""
        out = np.zeros((points.shape[0], self.state_dim))
        for slot in np.unique(slots):
            own = slots == slot
            out[own] = self.next_states(points[own], int(slot))
        return out

    def every(self, points: FloatArray) -> list[FloatArray]:
        """s' for every action."""
        terms = self.terms(points)
        return [self._moved(points, terms, slot) for slot in range(self.coefficients.shape[0])]

    def _moved(self, points: FloatArray, terms: FloatArray, slot: int) -> FloatArray:
        moves = np.zeros((points.shape[0], self.state_dim))
        for m, row in enumerate(self.coefficients[slot]):
            moves += terms[:, m : m + 1] * row
        states = points[:, : self.state_dim] + moves * self.scale[: self.state_dim]
        # beyond the largest float a state is cut like any other; the product of two such can be no number at all
        return np.clip(np.nan_to_num(states, nan=0.0, posinf=np.inf, neginf=-np.inf), self.low, self.high)


@dataclass(frozen=True, eq=False)
class SplitTree:
    """Two numbers (alive, reward) for every state: those of the leaf that comparisons of single columns lead to.

    Parameters
    ----------
    columns : array of int, (K,)
        The column that a node compares; -1 at leaves.
    thresholds : array of float, (K,)
        At most this goes left.
    left, right : array of int, (K,)
        Nodes that follow; they have larger numbers.
    leaves : array of float, (K, 2)
        alive and reward.
    """

    columns: IntArray
    thresholds: FloatArray
    left: IntArray
    right: IntArray
    leaves: FloatArray

    def __post_init__(self) -> None:
        count = self.columns.size
        own, inner = np.arange(count), self.columns >= 0
        shaped = all(a.shape == (count,) for a in (self.columns, self.thresholds, self.left, self.right))
        shaped = shaped and self.leaves.shape == (count, 2) and count > 0
        if not (shaped and np.all(np.isfinite(self.leaves)) and np.all(np.isfinite(self.thresholds))):
            raise InvalidInput("A tree needs as many finite thresholds, nodes and leaves as columns.")
        for following in (self.left, self.right):
            if not np.all((following[inner] > own[inner]) & (following[inner] < count)):
                raise InvalidInput("The nodes of a tree lead to nodes with larger numbers.")

    def values(self, states: FloatArray) -> FloatArray:
        """(N, d) -> (N, 2)."""
        place = np.zeros(states.shape[0], dtype=np.int64)
        for _ in range(_MOST_DEPTH):
            column = self.columns[place]
            going = np.flatnonzero(column >= 0)
            if not going.size:
                break
            node = place[going]
            goes_left = states[going, column[going]] <= self.thresholds[node]
            place[going] = np.where(goes_left, self.left[node], self.right[node])
        return self.leaves[place]


@register("function", "look-ahead")
@dataclass(frozen=True, eq=False)
class LookAhead(Function):
    """f(z, a) = r̂(s') + discount alive(s') V(s'),  s' the next state that the polynomials tell.

    Parameters
    ----------
    layout : Layout
        How the columns of a point are arranged, as in the problem (`Rows.layout`).
    steps : Polynomials
        The next state.
    tree : SplitTree
        Whether anything follows it, and its reward.
    network : TanhNetwork
        V, one output, of a state.
    discount : float
        gamma.
    """

    layout: Layout = field(metadata=supplied("layout"))
    steps: Polynomials
    tree: SplitTree
    network: TanhNetwork
    discount: float

    def __post_init__(self) -> None:
        steps, layout = self.steps, self.layout
        fits = steps.mean.shape == (layout.dimension,) and steps.coefficients.shape[0] == layout.slots
        fits = fits and self.network.mean.shape == (steps.state_dim,) and self.network.outputs == 1
        if not (fits and np.all(self.tree.columns < steps.state_dim) and 0 <= self.discount <= 1):
            raise InvalidInput(
                "Steps, tree and network of a look-ahead do not fit each other or the points of the log."
            )

    @property
    def is_zero(self) -> bool:
        return False

    def values(self, points: FloatArray, sums: Sums = STANDARD) -> tuple[FloatArray, float]:
        del sums
        out, error = np.zeros((points.shape[0], self.layout.slots)), 0.0
        for top in range(0, points.shape[0], _PIECE):
            here = slice(top, top + _PIECE)
            for slot, states in enumerate(self.steps.every(points[here])):
                out[here, slot], more = self._value(states)
                error = max(error, more)
        return out, inflate(error)

    def _value(self, states: FloatArray) -> tuple[FloatArray, float]:
        """r̂ + discount alive V, and what it is off by."""
        alive, reward = self.tree.values(states).T
        (later, error) = self.network.values(states)
        weight = self.discount * alive
        found = reward + weight * later[:, 0]
        most = float(np.abs(weight).max(initial=0.0))
        size = float((np.abs(reward) + np.abs(weight * later[:, 0])).max(initial=0.0))
        return found, inflate(most * error + 8 * U * (size + most * error))

    def norm(self, sums: Sums = STANDARD) -> Enclosure:
        del sums
        refuse_norm("A look-ahead")

    def __repr__(self) -> str:
        arrays = (self.steps.coefficients, self.tree.thresholds, self.tree.leaves)
        return f"LookAhead({self.tree.columns.size} nodes, sha256 {fingerprint(*arrays)}; V: {in_words(self.network)})"
