"""Dual bound (10): any omega gives a valid end point; this module evaluates it, outward rounded.

F+(omega) = J^(q^, omega) + r_Q |mu_omega| + eps |omega| + allowances
F-(omega) = J^(q^, omega) - r_Q |mu_omega| - eps |omega| - allowances
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from bondic.bounds.weighing import Candidate, Weighing, weigh
from bondic.classes.instruments import Instruments
from bondic.classes.value_class import ValueClass
from bondic.codec import same
from bondic.errors import InvalidInput
from bondic.functions.functions import Function
from bondic.identity.residual import mean_over_starts, values_at_starts
from bondic.noise.bound import Gauge, NoiseFacts
from bondic.noise.facts import counted_facts, noise_facts
from bondic.noise.start import initial_error
from bondic.noise.value_range import ValueRange, range_of
from bondic.rounding import Enclosure, U, inflate
from bondic.rows import Problem, Question, StreamedProblem
from bondic.sums.quadratic import Engine
from bondic.sums.reference import Progress

FloatArray = npt.NDArray[np.float64]
End = Literal["lower", "upper"]


@dataclass(frozen=True)
class BoundTerms:
    """One end point, split into the terms of its formula."""

    end: End
    value: Enclosure  # doubly robust value J^(q^, omega); the weighted reward when the center is 0
    discrepancy: Enclosure  # |mu_omega|
    weight_norm: Enclosure  # |omega|
    bias: Enclosure  # r_Q |mu_omega|, in the dual norm of Q
    noise: Enclosure  # eps |omega| and the rounding of omega
    initial: Enclosure  # initial distribution or initial actions seen through a sample
    misspecification: Enclosure
    bound: float  # the end point, rounded outward
    rounding: float  # how much of it is rounding

    def table(self) -> dict[str, float]:
        """Names and sizes of the terms; all but the first are added at the upper end, subtracted at the lower."""
        return {
            "doubly robust value": self.value.mid,
            "bias": self.bias.upper if self.bias.mid else 0.0,
            "noise": self.noise.upper if self.noise.mid else 0.0,
            "initial distribution": self.initial.upper if self.initial.mid else 0.0,
            "misspecification": self.misspecification.upper if self.misspecification.mid else 0.0,
            "rounding": self.rounding,
            "end point": self.bound,
        }


@dataclass(frozen=True, eq=False)
class ClassTest:
    """One more test of Q: instruments of its own, at its own share of alpha."""

    name: str
    instruments: Instruments
    probability: float


@dataclass(frozen=True, eq=False)
class Setting:
    """Everything a bound depends on besides omega: fixed before omega is looked for."""

    problem: Question
    ball: ValueClass
    instruments: Instruments
    gauge: Gauge
    noise_probability: float
    initial_probability: float | None
    sides: int  # 2 for an interval, 1 for a one-sided bound
    tests: tuple[ClassTest, ...] = ()

    def for_test(self, test: ClassTest) -> Setting:
        """The same question with the instruments and the level of a test."""
        return replace(self, instruments=test.instruments, noise_probability=test.probability, tests=())

    def facts(self) -> NoiseFacts:
        """What the gauge may know about the certified rows."""
        return self._facts

    @cached_property
    def _facts(self) -> NoiseFacts:
        p = self.problem
        kernel, fixed_count = self.instruments.kernel, len(p.rows)
        if isinstance(p, Problem):
            return noise_facts(kernel, p.layout, p.logged, p.slots, p.terms, times=p.times, fixed_count=fixed_count)
        assert isinstance(p, StreamedProblem)
        return counted_facts(kernel, p.layout, p.logged_rows, p.terms, p.time_counts, len(p), fixed_count=fixed_count)

    @cached_property
    def center_at_starts(self) -> tuple[FloatArray, float]:
        """The center of Q at the initial states, with a bound of the error."""
        return values_at_starts(self.problem, self.ball.center)

    def epsilon(self) -> Enclosure:
        return self.gauge.epsilon(self.facts(), self.noise_probability)

    def range(self) -> ValueRange:
        """[v_lo, v_hi] of the value itself, at time 0."""
        return problem_range(self.problem)

    def initial_term(self) -> Enclosure:
        """0 when d_0 and the means over initial actions are exact."""
        states = self.problem.initial_states
        if states.kind == "exact" and self.problem.answers.exact:
            return Enclosure(0.0)
        if self.initial_probability is None:
            raise InvalidInput("The initial distribution is sampled: a part of alpha must be set aside for it.")
        return initial_error(
            self.range().width,
            self.initial_probability,
            states.weights,
            draws=max(self.problem.initial_draws, 1) if states.kind == "exact" else 1,
            count_fixed=states.count_fixed,
            sides=self.sides,
        )


def problem_range(problem: Question) -> ValueRange:
    return range_of(problem.terms)


def check_weight_space(setting: Setting, omega: Function | None) -> None:
    """The noise bound eps |omega| needs the norm in the space of W's kernel, not of some other kernel."""
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
    epsilon: Enclosure | None = None,
    engine: Engine = "auto",
    progress: Progress | None = None,
) -> tuple[BoundTerms, ...]:
    """F-(omega) and/or F+(omega) with every term; omega = None is the function 0.

    The floats omega_i computed at the rows are used as the weights of (4) and (5). If they differ from the
    function's values by at most eta, the noise grows by at most eta * mean B_i, which is added. `weighing` is what
    `weigh` found for this omega, when it was one of several.
    """
    check_weight_space(setting, omega)
    problem, ball = setting.problem, setting.ball
    facts = setting.facts()
    eps = setting.gauge.epsilon(facts, setting.noise_probability) if epsilon is None else epsilon
    if weighing is None:
        (weighing,) = weigh(problem, ball, [Candidate(omega)], engine=engine, progress=progress)
    norm = Enclosure(0.0) if omega is None or omega.is_zero else omega.norm()
    noise = eps * norm
    slack = weighing.eta * facts.total_width / len(problem) * (1 + 8 * U)
    noise = Enclosure(noise.mid, inflate(noise.rad + slack))
    value = mean_over_starts(problem, *setting.center_at_starts) - weighing.correction
    allowance = misspecification_allowance(ball.misspecification, weighing.reach)
    return add_up(ball, value, weighing.size, norm, noise, setting.initial_term(), allowance, ends)


def add_up(
    ball: ValueClass,
    value: Enclosure,
    size: Enclosure,
    norm: Enclosure,
    noise: Enclosure,
    start: Enclosure,
    allowance: Enclosure,
    ends: tuple[End, ...],
) -> tuple[BoundTerms, ...]:
    """J^(q^, omega) -+ ( r_Q |mu_omega| + noise + initial + misspecification ) for any valid bound of the noise."""
    bias = Enclosure(ball.radius) * size
    spread = bias + noise + start + allowance
    out = []
    for end in ends:
        total = value + spread if end == "upper" else value - spread
        bound = total.upper if end == "upper" else total.lower
        out.append(BoundTerms(end, value, size, norm, bias, noise, start, allowance, bound, abs(bound - total.mid)))
    return tuple(out)


def misspecification_allowance(beta: float, reach: Enclosure) -> Enclosure:
    """beta ( 1 + (1/n) sum_i |omega_i| (1 + gamma 1[a next point exists]) ), `reach` the mean in it."""
    return Enclosure(0.0) if beta == 0 else Enclosure(beta) * (1.0 + reach)
