"""Rejection test: a witness omega proves that no q in Q fits the log at level delta (section 5).

With h = (1/n) sum_i omega_i R^q^_i and nu = mu_omega - mu_0, every q in Q has L_W(q) |omega| >= |h| - r_Q |nu|.
On the event of the gauge L_W(q*) <= eps. So

    |h| - r_Q |nu| > eps |omega|   rejects (jointly) q* in Q, the reward range and the data assumption,
    eps_obs = (|h| - r_Q |nu|) / |omega|  gives a p-value,   (|h| - eps |omega|) / |nu|  is a lower bound of r_min.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from bondic.bounds.dual import Setting, check_weight_space, misspecification_allowance
from bondic.bounds.weighing import Candidate, Weighing, weigh
from bondic.claims import Rejection
from bondic.functions.functions import Function
from bondic.rounding import Enclosure, U, inflate


def evaluate_witness(setting: Setting, omega: Function | None, *, weighing: Weighing | None = None) -> Rejection:
    """Evaluate a proposed witness, outward rounded (toward not rejecting); `weighing` leaves the start out."""
    check_weight_space(setting, omega)
    facts = setting.facts()
    eps = setting.gauge.epsilon(facts, setting.noise_probability)
    if omega is None or omega.is_zero:
        return Rejection.none(eps)
    problem, ball = setting.problem, setting.ball
    if weighing is None:
        (weighing,) = weigh(problem, ball, [Candidate(omega, start=False)], sums=setting.sums)
    h, nu = weighing.correction, weighing.size
    spread = weighing.eta * facts.total_width / len(problem)
    h = Enclosure(h.mid, inflate(h.rad + spread * (1 + 8 * U)))
    # beta: some q in Q is within beta of q*; its residual differs from that of q* by beta (1 + gamma 1[next]) at most
    size = (misspecification_allowance(ball.misspecification, weighing.reach) - ball.misspecification).upper
    size = max(size, 0.0)
    norm = omega.norm(setting.sums)
    reach = (abs(h) - Enclosure(ball.radius) * nu - size).lower
    floor = max(0.0, reach / norm.upper * (1 - 4 * U)) if norm.upper > 0 else 0.0
    free = (abs(h) - eps * norm - size).lower
    radius = 0.0 if free <= 0 else math.inf if nu.upper == 0 else free / nu.upper * (1 - 4 * U)
    rejected = floor > eps.upper
    return Rejection(rejected, setting.gauge.level(facts, floor), floor, eps.upper, radius)


def combine_witnesses(setting: Setting, witnesses: Sequence[Function | None]) -> Rejection:
    """The strongest of several witnesses: all refer to the same event."""
    best = Rejection.none(setting.epsilon())
    found = [witness for witness in witnesses if witness is not None and not witness.is_zero]
    candidates = [Candidate(witness, start=False) for witness in found]
    weighed = weigh(setting.problem, setting.ball, candidates, sums=setting.sums) if found else []
    for witness, weighing in zip(found, weighed, strict=True):
        best = best.combine(evaluate_witness(setting, witness, weighing=weighing))
    return best


def run_tests(setting: Setting, witnesses: Sequence[Function | None]) -> tuple[Rejection, ...]:
    """Every further test of Q with its own witness, instruments and level."""
    return tuple(
        combine_witnesses(setting.for_test(test), [witness])
        for test, witness in zip(setting.tests, witnesses, strict=True)
    )


def join_tests(setting: Setting, main: Rejection, tests: Sequence[Rejection]) -> Rejection:
    """All tests as one: Q is rejected when any of them rejects at its own level.

    The p-value is the smallest total level, divided as it was, at which one of them rejects (weighted Bonferroni); floors
    and eps stay those of W.
    """
    total = math.fsum([setting.noise_probability, *(test.probability for test in setting.tests)])
    p_value = main.p_value * (total / setting.noise_probability)
    radius, rejected = main.minimal_radius, main.rejected
    for test, found in zip(setting.tests, tests, strict=True):
        p_value = min(p_value, found.p_value * (total / test.probability))
        radius, rejected = max(radius, found.minimal_radius), rejected or found.rejected
    p_value = min(p_value * (1 + 8 * U), 1.0) if setting.tests else main.p_value
    return replace(main, rejected=rejected, p_value=p_value, minimal_radius=radius)
