"""A few steps ahead in a model, then a network: a center of Q for worlds whose next state can nearly be told.

    f(z, a) = sum_{j=1..k} w_j r̂(s_j) + w_{k+1} V(s_k),        w_1 = 1,  w_{j+1} = w_j discount alive(s_j)
    s_1 = clip( s + scale p_a((z - mean) / scale) ),            s_{j+1} the same from s_j with the action of a rule there

p_a are polynomials, and so are the scores of the rule, which takes the action with the largest one. alive and r̂ are constant
on the leaves of a tree that compares columns of a state with thresholds, V is a network that is clipped to the value range.
f jumps where a state crosses a threshold. It is one function all the same, and the same point has the same value in every
batch: states, scores and weights are made by additions and multiplications entry by entry in a fixed order, each rounded as
IEEE 754 prescribes, and the s_j and w_j of the formula *are* those floats. What follows from them is off by the bound of the
network, and by the rounding of the sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bondic.codec import supplied
from bondic.errors import InvalidInput
from bondic.functions.functions import Function, widen
from bondic.functions.networks import TanhNetwork, in_words, refuse_norm
from bondic.kernels.base import fingerprint
from bondic.kernels.normal_form import Layout
from bondic.registry import register
from bondic.rounding import TINY, Enclosure, U, inflate
from bondic.sums.forms import STANDARD, Sums

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

NOTHING = -1
"""A monomial's factor that is 1; a tree's node that is a leaf."""
_PIECE = 4096
_FARTHEST = 100


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
        widen(self, "mean", "scale", "coefficients", "low", "high")
        if self.coefficients.ndim != 3:
            raise InvalidInput(f"Coefficients of steps have the shape (slots, M, d), not {self.coefficients.shape}.")
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
        return monomial_values((points - self.mean) / self.scale, self.monomials)

    def next_states(self, points: FloatArray, slot: int) -> FloatArray:
        """s' for one action."""
        return self._moved(points, self.terms(points), self.coefficients[slot])

    def at(self, points: FloatArray, slots: IntArray) -> FloatArray:
        """s' for the action of each point."""
        out = np.full((points.shape[0], self.state_dim), np.nan)
        for slot in np.unique(slots):
            own = np.flatnonzero(slots == slot)
            for top in range(0, own.size, _PIECE):
                here = own[top : top + _PIECE]
                out[here] = self.next_states(points[here], slot)
        return out

    def every(self, points: FloatArray) -> list[FloatArray]:
        """s' for every action."""
        terms = self.terms(points)
        return [self._moved(points, terms, one) for one in self.coefficients]

    def _moved(self, points: FloatArray, terms: FloatArray, weights: FloatArray) -> FloatArray:
        """One step of points that all take the action with these coefficients, (M, d)."""
        moves = _combined(terms, weights).T
        states = points[:, : self.state_dim] + moves * self.scale[: self.state_dim]
        # beyond the largest float a state is cut like any other; the product of two such can be no number at all
        return np.clip(np.nan_to_num(states, nan=0.0, posinf=np.inf, neginf=-np.inf), self.low, self.high)


@dataclass(frozen=True, eq=False)
class PolicyRule:
    """The action with the largest score sum_m C_am prod_k x_{m_k},  x = (s - mean) / scale; the first one of equals.

    Parameters
    ----------
    mean, scale : array of float, (d,)
        What states are standardized by.
    monomials : array of int, (M, degree)
        Columns that are multiplied, from the left; -1 stands for no factor.
    coefficients : array of float, (slots, M)
        C, for every discrete action.
    """

    mean: FloatArray
    scale: FloatArray
    monomials: IntArray
    coefficients: FloatArray

    def __post_init__(self) -> None:
        widen(self, "mean", "scale", "coefficients")
        shaped = self.mean.shape == self.scale.shape == (self.mean.size,) and self.monomials.ndim == 2
        shaped = shaped and self.coefficients.ndim == 2 and self.coefficients.shape[1] == self.monomials.shape[0]
        inside = bool(np.all((self.monomials >= NOTHING) & (self.monomials < self.mean.size)))
        arrays = (self.mean, self.scale, self.coefficients)
        if not (shaped and inside and all(np.all(np.isfinite(a)) for a in arrays) and np.all(self.scale > 0)):
            raise InvalidInput("A rule needs finite coefficients (slots, M), columns that exist and scales > 0.")

    def actions(self, states: FloatArray) -> IntArray:
        """(N, d) -> (N,)"""
        terms = monomial_values((states - self.mean) / self.scale, self.monomials)
        scores = _combined(terms, self.coefficients.T)
        # where sums exceed the largest float they may be no number, which is no largest score
        found: IntArray = np.argmax(np.nan_to_num(scores, nan=-np.inf, posinf=np.inf, neginf=-np.inf), axis=0)
        return found


def monomial_values(inputs: FloatArray, monomials: IntArray) -> FloatArray:
    """Products of columns, (N, M), entry by entry."""
    out, rows = np.ones((monomials.shape[0], inputs.shape[0])), np.ascontiguousarray(inputs.T)
    for product, columns in zip(out, monomials, strict=True):
        for column in columns[columns >= 0]:
            product *= rows[column]
    return out.T


def _combined(terms: FloatArray, weights: FloatArray) -> FloatArray:
    """sum_m weights[m, k] terms[n, m] as (K, N): entry by entry in the order of m, so that batches do not matter."""
    out = np.zeros((weights.shape[1], terms.shape[0]))
    product = np.empty_like(out)
    for term, weight in zip(terms.T, weights, strict=True):
        np.multiply(weight[:, None], term, out=product)
        out += product
    return out


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
        widen(self, "thresholds", "leaves")
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
        column = self.columns[place]
        while (going := np.flatnonzero(column >= 0)).size:  # numbers of nodes grow: there is an end
            node = place[going]
            goes_left = states[going, column[going]] <= self.thresholds[node]
            place[going] = np.where(goes_left, self.left[node], self.right[node])
            column = self.columns[place]
        return self.leaves[place]


@register("function", "look-ahead")
@dataclass(frozen=True, eq=False)
class LookAhead(Function):
    """f(z, a) = sum_j w_j r̂(s_j) + w_{k+1} V(s_k),  s_1, ..., s_k the states that the polynomials tell.

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
    rule : PolicyRule, default None
        Actions after the first one; needed where ahead > 1.
    ahead : int, default 1
        k.
    """

    layout: Layout = field(metadata=supplied("layout"))
    steps: Polynomials
    tree: SplitTree
    network: TanhNetwork
    discount: float
    rule: PolicyRule | None = None
    ahead: int = 1

    def __post_init__(self) -> None:
        steps, layout = self.steps, self.layout
        fits = steps.mean.shape == (layout.dimension,) and steps.coefficients.shape[0] == layout.slots
        fits = fits and self.network.mean.shape == (steps.state_dim,) and self.network.outputs == 1
        if not (fits and np.all(self.tree.columns < steps.state_dim) and 0 <= self.discount <= 1):
            raise InvalidInput(
                "Steps, tree and network of a look-ahead do not fit each other or the points of the log."
            )
        rule = self.rule
        alone = rule is None and self.ahead == 1
        led = rule is not None and layout.discrete and 1 <= self.ahead <= _FARTHEST
        led = led and rule is not None and rule.coefficients.shape[0] == layout.slots
        led = led and rule is not None and rule.mean.shape == (steps.state_dim,) == (layout.dimension,)
        if not (alone or led):
            raise InvalidInput(
                f"A look-ahead of {self.ahead} steps (1 to {_FARTHEST}) needs a rule for discrete actions that fits its states."
            )

    @property
    def is_zero(self) -> bool:
        return False

    def values(self, points: FloatArray, sums: Sums = STANDARD) -> tuple[FloatArray, float]:
        del sums
        out, error = np.zeros((points.shape[0], self.layout.slots)), 0.0
        for top in range(0, points.shape[0], _PIECE):
            here = slice(top, top + _PIECE)
            found, more = self._value(np.concatenate(self.steps.every(points[here])))
            out[here], error = found.reshape(self.layout.slots, -1).T, max(error, more)
        return out, inflate(error)

    def at(self, points: FloatArray, slots: IntArray, sums: Sums = STANDARD) -> tuple[FloatArray, float]:
        del sums
        return self._value(self.steps.at(points, slots))

    def _value(self, states: FloatArray) -> tuple[FloatArray, float]:
        """The sum from s_1 on, and what it is off by: w_j has 2 (j - 1) roundings, its product one, the sum at most k."""
        alive, reward = self.tree.values(states).T
        found, size, weight = reward, np.abs(reward), self.discount * alive
        for _ in range(self.ahead - 1):
            assert self.rule is not None
            states = self.steps.at(states, self.rule.actions(states))
            alive, reward = self.tree.values(states).T
            found, size = found + weight * reward, size + np.abs(weight * reward)
            weight = weight * (self.discount * alive)
        (later, error) = self.network.values(states)
        found, size = found + weight * later[:, 0], size + np.abs(weight * later[:, 0])
        most, largest = float(np.abs(weight).max(initial=0.0)), float(size.max(initial=0.0))
        rounded = 8 * self.ahead * (U * (largest + most * error) + TINY * (1.0 + float(np.abs(later).max(initial=0.0))))
        off = inflate(most * error + rounded)
        if not (np.all(np.isfinite(found)) and math.isfinite(off)):
            raise InvalidInput(
                "A look-ahead gives values that are not finite, or no bound of their error, at some point."
            )
        return found, off

    def norm(self, sums: Sums = STANDARD) -> Enclosure:
        del sums
        refuse_norm("A look-ahead")

    def __repr__(self) -> str:
        arrays = [self.steps.coefficients, self.tree.thresholds, self.tree.leaves]
        if self.rule is not None:
            arrays.append(self.rule.coefficients)
        steps = "one step" if self.ahead == 1 else f"{self.ahead} steps"
        return f"LookAhead({steps}, {self.tree.columns.size} nodes, sha256 {fingerprint(*arrays)}; V: {in_words(self.network)})"
