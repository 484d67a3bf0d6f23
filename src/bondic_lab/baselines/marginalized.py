"""Marginalized importance sampling by minimax weight learning in closed form (Uehara, Huang and Jiang 2020).

w = phi . a minimizes  max_{|f| <= 1} | E_0[f] - (1/n) sum_i w_i ( f(x_i) - gamma f(x'_i) ) |^2 + lambda |a|^2:

a = (B'B + lambda)^-1 B' psi_0,   B = (1/n) sum_i ( psi_i - gamma psi'_i ) phi_i',   value = (1/n) sum_i w_i r_i.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput
from bondic.core.kernels.base import Kernel
from bondic_lab.baselines import outcome as out
from bondic_lab.baselines.features import Design, make_design
from bondic_lab.baselines.lstd import fit_lstd
from bondic_lab.baselines.units import OverUnits, Sample

FloatArray = npt.NDArray[np.float64]


def minimax_weights(weights: Design, critics: Design, *, ridge: float) -> FloatArray:
    """w_i at every logged row, (n,); `ridge` is relative to the largest squared singular value of B, over n."""
    if not ridge > 0:
        raise InvalidInput(f"ridge={ridge}; a positive number is needed.")
    n = len(weights)
    balance = (critics.logged - critics.gamma * critics.following).T @ weights.logged / n
    u, sigma, right = np.linalg.svd(balance, full_matrices=False)
    penalty = ridge * float(sigma.max(initial=0.0)) ** 2 / n + 1e-300
    a = right.T @ (sigma / (sigma**2 + penalty) * (u.T @ critics.start))
    return np.asarray(weights.logged @ a)


@dataclass(frozen=True)
class Marginalized(OverUnits, name="mis", words="minimax weights, normal interval"):
    """`mis`: a weighted mean of rewards with weights that balance every f of the critics' space.

    Asymptotic: the density ratio is a combination of the weight features and q* lies in the critics' space (default:
    both are the default features). The standard error takes q from LSTD: error = (1/n) sum w_i ( r_i + gamma q' - q ).
    With one space for both and no penalty the value equals that of LSTD.
    """

    kernel: Kernel | None = None
    critic_kernel: Kernel | None = None
    rank: int = 100
    ridge: float = 1e-9  # the rank limits the weights; a larger penalty shows up as bias that no interval knows of

    def unit_ends(self, sample: Sample) -> out.Outcome:
        problem = sample.problem
        design = make_design(problem, self.kernel, rank=self.rank)
        same = self.critic_kernel is None
        critics = design if same else make_design(problem, self.critic_kernel, rank=self.rank)
        w = minimax_weights(design, critics, ridge=self.ridge)
        q = fit_lstd(critics, ridge=critics.ridge(None))
        estimate = float(np.mean(w * problem.whole().rewards))
        error = sample.error(critics, q.theta, w * q.differences(critics) / len(problem))
        ratio = out.stated(
            "weights", "The ratio of visitations of policy and log is a combination of the weight features."
        )
        ratio = out.stated_if(self.kernel is not None, ratio)
        held = out.stated_if(self.kernel is not None or not same, out.REALIZABLE)
        return replace(
            sample.normal(estimate, error, weights=design.words, critics=critics.words),
            assumptions=(ratio, held),
            effective_sample_size=float(np.sum(np.abs(w)) ** 2 / np.sum(w**2)) if w.any() else 0.0,
        )
