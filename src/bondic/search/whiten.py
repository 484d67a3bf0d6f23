"""(11) with another norm: min_w  g.w + r |psi_0 + A w| + kappa |L^T w|,  L L^T = ( V + tau I ) / ( C + tau ).

V = sum_i B_i^2 phi_i phi_i^T and C = sum_i B_i^2 k(x_i, x_i), so that |L^T w|^2 is sum_i B_i^2 ω_i^2 + tau |w|^2 up to a
factor and at most |w|^2: the self-normalized bound (12). In the coordinates u = L^T w it is the problem for |u|, and every
solver of that one serves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.linalg import cholesky, solve_triangular

from bondic.core.columns import Batch
from bondic.core.kernels.normal_form import Term
from bondic.core.terms import row_widths
from bondic.search.basis import Basis
from bondic.search.model import SearchModel

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_BLOCK = 4096


def second_moments(batches: Iterable[Batch], weights: Basis) -> FloatArray:
    """sum_i B_i^2 phi_i phi_i^T in the coordinates of ω; plain floats."""
    total = np.zeros((weights.dimension, weights.dimension))
    for part in batches:
        widths = row_widths(part.terms, part.times, len(part))
        for top in range(0, len(part), _BLOCK):
            some = slice(top, top + _BLOCK)
            psi = [block.finish(block.raw(part.logged[some])) for block in weights.parts]
            for slot in np.unique(part.slots[some]):
                mine = np.flatnonzero(part.slots[some] == slot)
                parts = [(block.term, rows[mine]) for block, rows in zip(weights.parts, psi, strict=True)]
                places, values = embedded(parts, int(slot))
                values *= widths[some][mine, None]
                total[np.ix_(places, places)] += values.T @ values
    return total


def embedded(parts: list[tuple[Term, FloatArray]], slot: int) -> tuple[IntArray, FloatArray]:
    """Coordinates psi_t x E_t of points that share an action, all terms side by side; (places, values) of those that are not 0.

    `parts` holds the terms with their psi_t (n, m_t); places are those of all m_t p_t coordinates, row-major, term by term.
    """
    places, values, top = [], [], 0
    for term, psi in parts:
        row = term.embedding[slot]
        used = np.flatnonzero(row)
        places.append(top + (np.arange(psi.shape[1])[:, None] * row.size + used).ravel())
        values.append((psi[:, :, None] * row[used]).reshape(psi.shape[0], -1))
        top += psi.shape[1] * row.size
    return np.concatenate(places), np.hstack(values)


def whiten(model: SearchModel, moments: FloatArray, penalty: float, charge: float) -> SearchModel:
    """The model in the coordinates u = L^T w; `charge` is C."""
    form = moments / (charge + penalty)
    form[np.diag_indices_from(form)] += penalty / (charge + penalty)
    factor = cholesky(form, lower=True)
    return replace(
        model,
        balance=solve_triangular(factor, model.balance.T, lower=True).T,
        gradient=solve_triangular(factor, model.gradient, lower=True),
        unwhiten=solve_triangular(factor, np.eye(factor.shape[0]), lower=True).T,
    )
