"""A model for worlds whose next state can nearly be told: what the predicted state looks like, corrected by a regression."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bondic.bounds.plan import LinearModel
from bondic.classes.basis import LandmarkBasis, landmark_values
from bondic.codec import supplied
from bondic.errors import InvalidInput
from bondic.functions.functions import Function
from bondic.functions.lookahead import Polynomials, SplitTree
from bondic.kernels.base import Kernel
from bondic.kernels.normal_form import Layout, Term, normal_form
from bondic.registry import register

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_EXTRA = 4
"""Regressors besides coordinates: 1, q̂(x), reward and alive."""


@register("model", "ahead")
@dataclass(frozen=True, eq=False)
class AheadModel(LinearModel):
    """[1, c(x), q̂(x), r̂(s'), alive(s'), alive(s') c(s', any action)] @ coefficients, s' the state that polynomials predict.

    The policy is not asked: the embedding of s' weighs all actions alike, and the regression knows the rest.

    Parameters
    ----------
    layout : Layout
        How the columns of a point are arranged, with discrete actions.
    kernel : Kernel
        k̃ of Q.
    basis : LandmarkBasis
        The coordinates that the model predicts.
    steps : Polynomials
        The next state.
    tree : SplitTree
        Whether anything follows it, and its reward.
    center : Function, default None
        q̂.
    coefficients : array of float, (4 + 2 seen, 1 + seen)
        Column 0 predicts r + gamma q̂(x').
    """

    layout: Layout = field(metadata=supplied("layout"))
    kernel: Kernel
    basis: LandmarkBasis
    steps: Polynomials
    tree: SplitTree
    center: Function | None
    coefficients: FloatArray

    def __post_init__(self) -> None:
        m, layout = len(self.basis), self.layout
        fits = layout.discrete and self.steps.mean.shape == (layout.dimension,)
        fits = fits and self.steps.coefficients.shape[0] == layout.slots and self.steps.state_dim == layout.dimension
        fits = fits and self.coefficients.shape == (_EXTRA + 2 * m, 1 + m)
        if not (fits and np.all(self.tree.columns < layout.dimension)):
            raise InvalidInput("A model of the next state does not fit the points and the landmarks of its plan.")

    @staticmethod
    def blank(
        layout: Layout,
        kernel: Kernel,
        basis: LandmarkBasis,
        steps: Polynomials,
        tree: SplitTree,
        center: Function | None,
    ) -> AheadModel:
        """One that predicts nothing yet."""
        m = len(basis)
        return AheadModel(layout, kernel, basis, steps, tree, center, np.zeros((_EXTRA + 2 * m, 1 + m)))

    def relearned(self, steps: Polynomials, tree: SplitTree) -> AheadModel:
        """The same with another idea of a step."""
        return replace(self, steps=steps, tree=tree)

    def refitted(self, coefficients: FloatArray) -> AheadModel:
        return replace(self, coefficients=coefficients)

    @cached_property
    def _terms(self) -> tuple[Term, ...]:
        return normal_form(self.kernel, self.layout)

    def design(self, points: FloatArray, slots: IntArray, coordinates: FloatArray) -> FloatArray:
        n = points.shape[0]
        after = self.steps.at(points, slots)
        alive, reward = self.tree.values(after).T
        weights = alive[:, None] * np.full(self.layout.slots, 1.0 / self.layout.slots)
        ahead = landmark_values(self._terms, after, weights, self.basis) @ self.basis.matrix.T
        value = np.zeros(n) if self.center is None else self.center.at(points, slots)[0]
        return np.column_stack([np.ones(n), coordinates, value, reward, alive, ahead])
