"""The dual bound (10), and the test of Q (section 5): what any ω proves, outward rounded.

    F+(ω) = Ĵ(q̂, ω) + I_Q(ω) + N(ω) + allowances
    F-(ω) = Ĵ(q̂, ω) - I_Q(ω) - N(ω) - allowances,   I_Q = r_Q |μ_ω|,  N a noise bound, e.g. eps |ω|

by the identity (4): the bias is at most I_Q for q* in Q, the noise at most N on one event for all ω.

With h = (1/n) sum_i ω_i R̂q̂_i and nu = μ_ω - μ_0, every q in Q has |(1/n) sum_i ω_i R̂q_i| >= |h| - r_Q |nu|. For q* the left side
is at most N(ω) on that same event. So a witness ω with

    |h| - r_Q |nu| > N(ω)   rejects (jointly) q* in Q, the reward range and the data assumption,
    |h| - r_Q |nu|  gives a p-value,   (|h| - N(ω)) / |nu|  is a lower bound of r_min.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from bondic.core.balls import Instruments, ValueClass
from bondic.core.bounded import Enclosure, FloatArray, U, inflate
from bondic.core.claims import Claim, End, Part, Rejection
from bondic.core.codec import same
from bondic.core.columns import Columns
from bondic.core.dual.noise import NoiseBound, NoiseFacts, Weights
from bondic.core.dual.weighing import ProposedWeights, Weighing, weigh
from bondic.core.errors import InvalidInput
from bondic.core.functions import Function
from bondic.core.identity import mean_over_starts, values_at_starts
from bondic.core.starts import sampled_start
from bondic.core.sums.forms import Progress, Sums
from bondic.core.terms import ValueRange, range_of

VALUE, BIAS, NOISE, START, ALLOWANCE = (
    "doubly robust value", "bias", "noise", "initial distribution", "misspecification",
)  # fmt: skip
DISCREPANCY, NORM = "|mu|", "|omega|"
"""Names of the parts of (10), in the order in which they are added; |μ_ω| and |ω| are details."""
UNMOVED = 1e-3
"""An end that the log moves by less than this share of the value range is what Q says without it."""


@dataclass(frozen=True, eq=False)
class Setting:
    """Everything a bound depends on besides ω: fixed before ω is looked for."""

    problem: Columns
    ball: ValueClass
    instruments: Instruments
    gauge: NoiseBound
    noise_probability: float
    initial_probability: float | None
    sides: int  # 2 for an interval, 1 for a one-sided bound
    sums: Sums  # what evaluates functions and norms; every choice encloses the same numbers

    @cached_property
    def facts(self) -> NoiseFacts:
        """What the noise bound may know about the certified rows."""
        p = self.problem
        return NoiseFacts(self.instruments.kernel, p.layout, p.terms, p.logged_rows, len(p), len(p.rows), p.time_counts)

    @cached_property
    def center_at_starts(self) -> tuple[FloatArray, float]:
        """The center of Q at the initial states, with a bound of the error."""
        return values_at_starts(self.problem, self.ball.center, self.sums)

    def epsilon(self) -> Enclosure:
        """About the noise of an ω with |ω| = 1."""
        return self.gauge.epsilon(self.facts, self.noise_probability)

    def weights(self, omega: Function | None, weighing: Weighing) -> Weights:
        """What the noise bound may know about this ω."""
        norm = Enclosure(0.0) if omega is None or omega.is_zero else omega.norm(self.sums)
        return Weights(omega, norm, weighing.squares)

    def slack(self, weighing: Weighing) -> float:
        """The floats ω_i differ from the function's values by at most eta: eta mean B_i is added to the noise."""
        return weighing.eta * self.facts.total_width / len(self.problem) * (1 + 8 * U)

    def range(self) -> ValueRange:
        """[v_lo, v_hi] of the value itself, at time 0."""
        return range_of(self.problem.terms)

    def initial_term(self) -> Enclosure:
        """0 when d_0 and the means over initial actions are exact."""
        start = sampled_start(self.problem, self.sides)
        if start is None:
            return Enclosure(0.0)
        if self.initial_probability is None:
            raise InvalidInput("The initial distribution is sampled: a part of alpha must be set aside for it.")
        return start.error(self.initial_probability)


def check_weight_space(setting: Setting, omega: Function | None) -> None:
    """The noise bound needs the norm in the space of W's kernel, not of some other kernel."""
    if omega is not None and not omega.is_zero and not same(omega.kernel, setting.instruments.kernel):
        raise InvalidInput(
            f"omega lives in the space of {omega.kernel!r}, W is {setting.instruments.kernel!r}. The noise bound holds "
            "for the norm of W's own kernel: build omega with instruments.kernel."
        )


def dual_bound(
    setting: Setting,
    omega: Function | None,
    ends: tuple[End, ...] = ("lower", "upper"),
    *,
    weighing: Weighing | None = None,
    progress: Progress | None = None,
) -> tuple[Claim, ...]:
    """F-(ω) and/or F+(ω) with every term; `omega=None` is the function 0.

    The floats ω_i computed at the rows are used as the weights of (4) and (5). `weighing` is what `weigh` found for
    this ω, when it was one of several.
    """
    check_weight_space(setting, omega)
    problem, ball = setting.problem, setting.ball
    if weighing is None:
        (weighing,) = weigh(problem, ball, [ProposedWeights(omega)], sums=setting.sums, progress=progress)
    weights = setting.weights(omega, weighing)
    noise = noise_term(setting.gauge.bound(weights, setting.facts, setting.noise_probability), setting.slack(weighing))
    value = mean_over_starts(problem, *setting.center_at_starts) - weighing.correction
    allowance = misspecification_allowance(ball.misspecification, weighing.mass)
    return add_up(value, ball.radius, weighing.size, weights.norm, noise, setting.initial_term(), allowance, ends)


def noise_term(noise: Enclosure, slack: float) -> Enclosure:
    """A bound of the noise, with `slack` for ω_i that differ from the function's values by rounding."""
    return Enclosure(noise.mid, inflate(noise.rad + slack))


def add_up(
    value: Enclosure,
    radius: float,
    size: Enclosure,
    norm: Enclosure,
    noise: Enclosure,
    start: Enclosure,
    allowance: Enclosure,
    ends: tuple[End, ...],
) -> tuple[Claim, ...]:
    """Ĵ(q̂, ω) -+ ( bias + noise + initial + misspecification ) for any valid bounds of bias and noise."""
    spreads = {BIAS: Enclosure(radius) * size, NOISE: noise, START: start, ALLOWANCE: allowance}
    parts = (
        Part(VALUE, value, "value"),
        *(Part(name, spread, "spread") for name, spread in spreads.items()),
        Part(DISCREPANCY, size, "detail"),
        Part(NORM, norm, "detail"),
    )
    return tuple(Claim(end, parts, uses_log=norm.mid != 0) for end in ends)


def misspecification_allowance(beta: float, mass: Enclosure) -> Enclosure:
    """beta ( 1 + (1/n) sum_i |ω_i| (1 + gamma 1[a next point exists]) ), `mass` the mean in it."""
    return Enclosure(0.0) if beta == 0 else Enclosure(beta) * (1.0 + mass)


# --- the test of Q (section 5) ---------------------------------------------------------------------------


def evaluate_witness(setting: Setting, omega: Function | None, *, weighing: Weighing | None = None) -> Rejection:
    """Evaluate a proposed witness, outward rounded (toward not rejecting); `weighing` leaves the start out."""
    check_weight_space(setting, omega)
    if omega is None or omega.is_zero:
        return Rejection.none(setting.epsilon())
    problem, ball, facts = setting.problem, setting.ball, setting.facts
    if weighing is None:
        (weighing,) = weigh(problem, ball, [ProposedWeights(omega, start=False)], sums=setting.sums)
    weights = setting.weights(omega, weighing)
    noise, norm = setting.gauge.bound(weights, facts, setting.noise_probability), weights.norm.upper
    h = abs(noise_term(weighing.correction, setting.slack(weighing)))
    # beta: some q in Q is within beta of q*; its residual differs from that of q* by beta (1 + gamma 1[next]) at most
    allowance = (misspecification_allowance(ball.misspecification, weighing.mass) - ball.misspecification).upper
    seen = h - max(allowance, 0.0)
    size, free = (seen - Enclosure(ball.radius) * weighing.size).lower, (seen - noise).lower
    nu = weighing.size.upper
    floor = max(0.0, size / norm * (1 - 4 * U)) if norm > 0 else 0.0
    radius = 0.0 if free <= 0 else math.inf if nu == 0 else free / nu * (1 - 4 * U)
    rejected = norm > 0 and size > noise.upper
    return Rejection(rejected, setting.gauge.level(weights, facts, size), floor, setting.epsilon().upper, radius)


def witness_candidates(witnesses: Sequence[Function | None]) -> list[ProposedWeights]:
    """What has to be weighed for them: nothing for a witness that is 0."""
    return [
        ProposedWeights(witness, start=False) for witness in witnesses if witness is not None and not witness.is_zero
    ]


def combine_witnesses(setting: Setting, witnesses: Sequence[Function | None], weighed: Iterator[Weighing]) -> Rejection:
    """The strongest of several witnesses: all refer to the same event. `weigh` gave `weighed` for their candidates."""
    best = Rejection.none(setting.epsilon())
    for candidate in witness_candidates(witnesses):
        best = best.combine(evaluate_witness(setting, candidate.omega, weighing=next(weighed)))
    return best
