"""How long an interval will be: guesses, never bounds. From the rows at hand, or before there is a log.

From rows: what the methods themselves predict, with all rows at hand in the place of their pilot.

Before there is a log (`LogDesign`): with propensities the spread that bets leave (section 13), with ratios that are 0 or as large
as was said, and rewards at the ends of their range, the worst that can be:

    length  =  sum over both ends of  sqrt( 2 s² log(2/α) / n ) + w log(2/α) / n.

Without propensities, M = 1/(1-γ) steps (s_H with a horizon), outcomes r + γ q*(x') with a deviation of σ times the width B:

    length  =  1.5 ( efficiency limit + unseen-event limit ) + B ( 5 pairs M / n )^1.5,

the limits of section 10 with the largest ratio of visits in place of ω*/M. The factor and the last part, what it takes to learn
the value function, were read off measured lengths (`experiments/tightness.py`): a rule of thumb, within a factor of about three.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal

from bondic.core.claims import Side, check_alpha
from bondic.core.errors import InvalidInput, NumericalError
from bondic.core.propensities.crossing import crossing
from bondic.core.terms import Terms, ValueRange, discounted_steps, make_terms, range_of
from bondic.methods.propensities import Propensities
from bondic.methods.propensity_pilot import expected_spread
from bondic.methods.setting import tuning_problem
from bondic.methods.table import Table
from bondic.rows import Rows

_MAX_ROWS = 3000
"""Rows that a guess is made from."""
_GROWTH = 4.0
_MAX_GROWTH = 256.0


@dataclass(frozen=True, eq=False)
class LengthGuess:
    """A guess of the length, as a share of the value range, for any number of certified rows."""

    seen: int  # rows that it was made from
    share: Callable[[float], float]  # rows -> length / width, at most 1

    def rows_for(self, share: float, begin: float) -> float | None:
        """The number of rows at which the guess falls to `share`, from above, up to a factor of 2; None where it stays above."""
        low, high = begin, begin
        while self.share(high) > share:
            if high > _MAX_GROWTH * begin:
                return None
            low, high = high, _GROWTH * high
        middle = math.sqrt(low * high)
        return float(middle if self.share(middle) <= share else high)


def table_guess(problem: Rows, alpha: float, side: Side = "both", gamma: float | None = None) -> LengthGuess | None:
    """The interval of a table, from the first rows of a problem, at its own discount or another; None: no prediction."""
    width = range_of(problem.terms if gamma is None else replace(problem.terms, gamma=gamma)).width
    first = tuning_problem(problem, min(len(problem.rows), _MAX_ROWS)) if problem.layout.discrete and width else None
    if first is None or not first.answers.exact:
        return None
    if gamma is not None:  # neither the next states nor the policy's answers depend on it
        terms = replace(first.terms, gamma=gamma)
        kept = None if first.kept is None else tuple(replace(batch, terms=terms) for batch in first.kept)
        first = replace(first, terms=terms, kept=kept)

    def share(rows: float) -> float:
        try:
            return min(1.0, Table(side).predicted_length(first, alpha, max(math.ceil(rows), 1)) / width)
        except NumericalError:  # no plan can be made from these rows
            return 1.0

    return LengthGuess(len(first.rows), share)


def propensity_guess(problem: Rows, alpha: float) -> LengthGuess | None:
    """The interval from propensities; None where starts were stated that are not the log's, or it has too little to tell."""
    method, rows, width = Propensities(), len(problem.rows), range_of(problem.terms).width
    known = method.applies(problem) is None and problem.own_starts
    if not known or math.isinf(method.predicted_length(problem, alpha)):
        return None
    return LengthGuess(rows, lambda count: method.predicted_length(problem, alpha, count) / width)


DesignKind = Literal["one-step", "episodes", "table"]
KINDS: tuple[DesignKind, ...] = ("one-step", "episodes", "table")
BASIS = {
    "one-step": "expected length of an interval from propensities, in the worst case for the largest ratio",
    "episodes": "expected length of an interval from propensities, in the worst case for the largest ratio of one decision",
    "table": "a rule of thumb from the limits of the theory and measured lengths: within a factor of about three",
}
"""How far the numbers are known, in words; none of them is guaranteed."""
_TIGHTNESS, _LEARNING, _LEARNING_RATE = 1.5, 5.0, 1.5
_MAX_PLANNED = 1e12


@dataclass(frozen=True)
class LogDesign:
    """What is known before there is a log.

    Parameters
    ----------
    kind : {"one-step", "episodes", "table"}
        Single decisions or episodes whose propensities are logged; a table of states without them.
    reward_range : (float, float)
        Range of every possible reward.
    gamma : float, default 0
        The discount; 1 with a horizon.
    horizon : int, default None
        Steps that count, if they are limited; for episodes with propensities the length of an episode.
    n_actions : int, default 2
        Actions to choose from.
    n_states : int, default 10
        States of the table.
    max_ratio : float, default 2
        With propensities the largest ratio of the two policies' probabilities of an action; without, how many times more often
        the policy visits a pair of state and action than the log does, at most.
    noise : float, default 0.1
        Deviation of r + γ q*(x') as a share of the value range: 0 where states and actions decide what follows, at most 0.5.
    mean : float, default 0.5
        Where in its range the reward is expected to be, 0 to 1.
    alpha : float, default 0.1
        Probability that the interval may miss the value.
    """

    kind: DesignKind
    reward_range: tuple[float, float]
    gamma: float = 0.0
    horizon: int | None = None
    n_actions: int = 2
    n_states: int = 10
    max_ratio: float = 2.0
    noise: float = 0.1
    mean: float = 0.5
    alpha: float = 0.1

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        if self.kind not in KINDS:
            raise InvalidInput(f"kind={self.kind!r}: one of {', '.join(KINDS)}.")
        if not (self.max_ratio >= 1 and 0 <= self.noise <= 0.5 and 0 <= self.mean <= 1):
            raise InvalidInput("`max_ratio` is at least 1, `noise` in [0, 0.5] and `mean` in [0, 1].")
        if self.n_actions < 1 or self.n_states < 1:
            raise InvalidInput("`n_actions` and `n_states` are at least 1.")
        if self.kind == "episodes" and self.horizon is None:
            raise InvalidInput("Episodes with propensities need their length: horizon= (--horizon).")
        if not self.limits.width > 0:
            raise InvalidInput("The reward range leaves one possible value: there is nothing to learn.")

    @property
    def terms(self) -> Terms:
        gamma, horizon = (0.0, None) if self.kind == "one-step" else (self.gamma, self.horizon)
        return make_terms(gamma, self.reward_range, horizon, True, False)

    @property
    def limits(self) -> ValueRange:
        """What the reward range alone implies."""
        return range_of(self.terms)

    @property
    def basis(self) -> str:
        """How far its numbers are known, in words."""
        return BASIS[self.kind]

    def length(self, rows: float) -> float:
        """The expected length for so many rows; the value range is the most."""
        found = self._with_propensities(rows) if self.kind in ("one-step", "episodes") else self._without(rows)
        return min(found, self.limits.width)

    def rows_for(self, length: float) -> float:
        """Rows for an expected length."""
        if not 0 < length < self.limits.width:
            raise InvalidInput(
                f"A length of {length:g} is not possible: it is between 0 and {self.limits.width:g}, that of the value range."
            )
        if self.length(_MAX_PLANNED) > length:
            return math.inf

        def over(log_rows: float) -> float:
            return self.length(math.exp(log_rows)) - length

        most = math.log(_MAX_PLANNED)
        return math.exp(crossing(over, (0.0, over(0.0)), (most, over(most)), 1e-9))

    def _with_propensities(self, rows: float) -> float:
        """Ratios are 0 or the largest, rewards the least or the largest: what is worst for their spread."""
        steps = 1 if self.kind == "one-step" or self.horizon is None else self.horizon
        gamma, ratio = (0.0 if steps == 1 else self.gamma), self.max_ratio
        low, high = self.reward_range
        total = 0.0
        for mean in (self.mean, 1.0 - self.mean):
            # deviations of the steps are added: they may all move together
            spread = sum(gamma**t * math.sqrt(max(ratio ** (t + 1) * mean - mean**2, 0.0)) for t in range(steps))
            width = sum(gamma**t * ratio ** (t + 1) for t in range(steps))
            scale = high - low
            total += expected_spread((scale * spread) ** 2, scale * width, rows / steps, self.alpha / 2)
        return total

    def _without(self, rows: float) -> float:
        width, steps = self.limits.width, discounted_steps(self.gamma, self.horizon).mid
        pairs = self.n_states * self.n_actions
        visits, price = steps * self.max_ratio, math.log(2 / self.alpha)
        deviation = self.noise * width * steps * math.sqrt(self.max_ratio)
        efficiency = 2 * NormalDist().inv_cdf(1 - self.alpha / 2) * deviation / math.sqrt(rows)
        unseen = price * visits * width / rows
        learning = (_LEARNING * pairs * steps / rows) ** _LEARNING_RATE if self.noise else 0.0
        return _TIGHTNESS * (efficiency + unseen) + width * min(learning, 1.0)
