"""Rejection test: a witness ω proves that no q in Q fits the log at level delta (section 5).

With h = (1/n) sum_i ω_i R̂q̂_i and nu = μ_ω - μ_0, every q in Q has |(1/n) sum_i ω_i R̂q_i| >= |h| - r_Q |nu|.
For q* the left side is at most N(ω) (eps |ω|, say) on the event of the noise bound. So

    |h| - r_Q |nu| > N(ω)   rejects (jointly) q* in Q, the reward range and the data assumption,
    |h| - r_Q |nu|  gives a p-value,   (|h| - N(ω)) / |nu|  is a lower bound of r_min.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice

from bondic.core.bounded import U
from bondic.core.claims import Rejection
from bondic.core.dual.bound import Setting, check_weight_space, misspecification_allowance, noise_term
from bondic.core.dual.weighing import Candidate, Weighing, weigh
from bondic.core.functions import Function


def evaluate_witness(setting: Setting, omega: Function | None, *, weighing: Weighing | None = None) -> Rejection:
    """Evaluate a proposed witness, outward rounded (toward not rejecting); `weighing` leaves the start out."""
    check_weight_space(setting, omega)
    if omega is None or omega.is_zero:
        return Rejection.none(setting.epsilon())
    problem, ball, facts = setting.problem, setting.ball, setting.facts()
    if weighing is None:
        (weighing,) = weigh(problem, ball, [Candidate(omega, start=False)], sums=setting.sums)
    weights = setting.weights(omega, weighing)
    noise, norm = setting.gauge.bound(weights, facts, setting.noise_probability), weights.norm.upper
    h = abs(noise_term(weighing.correction, setting.slack(weighing)))
    # beta: some q in Q is within beta of q*; its residual differs from that of q* by beta (1 + gamma 1[next]) at most
    allowance = (misspecification_allowance(ball.misspecification, weighing.mass) - ball.misspecification).upper
    seen = h - max(allowance, 0.0)
    size, free, nu = (seen - weighing.support.bias).lower, (seen - noise).lower, weighing.support.size.upper
    floor = max(0.0, size / norm * (1 - 4 * U)) if norm > 0 else 0.0
    radius = 0.0 if free <= 0 else math.inf if nu == 0 else free / nu * (1 - 4 * U)
    rejected = norm > 0 and size > noise.upper
    return Rejection(rejected, setting.gauge.level(weights, facts, size), floor, setting.epsilon().upper, radius)


def witness_candidates(witnesses: Sequence[Function | None]) -> list[Candidate]:
    """What has to be weighed for them: nothing for a witness that is 0."""
    return [Candidate(witness, start=False) for witness in witnesses if witness is not None and not witness.is_zero]


def combine_witnesses(
    setting: Setting, witnesses: Sequence[Function | None], weighed: Iterator[Weighing] | None = None
) -> Rejection:
    """The strongest of several witnesses: all refer to the same event.

    `weighed` is what `weigh` found for their candidates, in this order, when they were among others.
    """
    best, candidates = Rejection.none(setting.epsilon()), witness_candidates(witnesses)
    if weighed is None:
        found = weigh(setting.problem, setting.ball, candidates, sums=setting.sums) if candidates else []
    else:
        found = list(islice(weighed, len(candidates)))
    for candidate, weighing in zip(candidates, found, strict=True):
        best = best.combine(evaluate_witness(setting, candidate.omega, weighing=weighing))
    return best
