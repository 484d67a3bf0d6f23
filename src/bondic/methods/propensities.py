"""Intervals from propensities as a method: read ratios, fit a control variate on earlier rows, bet, write it down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bondic.core.claims import End, ErrorBudget, Side, ends_of
from bondic.core.classes.balls import Provenance
from bondic.core.errors import InvalidInput, refuse
from bondic.core.proof import Proof
from bondic.core.propensities.bets import BETS, Value, estimate_of, ways
from bondic.core.propensities.control import Control
from bondic.core.propensities.control_fit import episode_control, linear_control
from bondic.core.propensities.decision_values import Stated
from bondic.core.propensities.decisions import Decisions, one_start, refuse_other_starts
from bondic.core.propensities.episode_values import cumulative, first_rows, largest_sum, last_rows
from bondic.core.propensities.proof import PropensityProof
from bondic.core.propensities.strata import Strata
from bondic.core.propensities.wealth import moderate
from bondic.core.sums.forms import Sums
from bondic.methods.clock import Clock, Progress
from bondic.methods.described import describe
from bondic.methods.listed import listing_options
from bondic.policies.logged_target import LoggedTarget
from bondic.rendering import three
from bondic.result import Result
from bondic.rows import Rows
from bondic.rows.asked import asked_of
from bondic.rows.decisions import ask_target, read_decisions, single_rows
from bondic.rows.episodes import own_starts
from bondic.rows.prefix import Prefixes
from bondic.search.controls import Regressor, regressor_control

FloatArray = npt.NDArray[np.float64]

NAME = "propensities"
PILOT = 0.05
"""Share of the rows before the first block of a control variate, and before the contexts whose value is estimated."""
_ENOUGH = 200
_BOTH: tuple[End, ...] = ("lower", "upper")
_MOST_NUMBERS = 2**24
"""Probabilities and predictions that a certificate holds at most: 128 MB each."""


@listing_options
@dataclass(frozen=True)
class Propensities:
    """Intervals from propensities, theory section 13: nothing is assumed about the value function, and nothing about overlap.

    The log holds b_i(a_i|s_i), the probability with which the behavior took the action; behavior may change from row to row
    (from episode to episode). Bets on the weighted rewards, with rates from earlier rows, make the interval; it holds at every
    number of rows at once. Not guaranteed: anything if the propensities are wrong by more than was stated, if rows are not in
    the order of time, or if a bound of the ratios was picked by looking at those of the log.

    Parameters
    ----------
    value : {"population", "contexts"}, default "population"
        The value over the initial distribution: the one that the log's states (starts of episodes) are drawn from, or, where an
        exact list of starts was stated, that list, answered from the decisions (episodes) that start there. Or over the states of
        the certified rows, wherever they come from (single decisions only).
    side : {"both", "lower", "upper"}, default "both"
        Which ends to compute; the other one is that of the value range.
    off_by : float, default 1
        Γ: no action was drawn with more than Γ times the probability that the log states.
    largest_ratio : float, default None
        No ratio π/b exceeds it, at any state and action. With it, or with the next one, rows are weighed doubly robustly too
        (episodes if a horizon bounds their products); without, the interval needs no bound at all.
    least_behavior_prob : float, default None
        The behavior takes no action with a smaller probability.
    model : "linear", None or a regressor, default "linear"
        The control variate: ridge regression that is fitted again when verifying; none; or any object with `fit(X, y)` and
        `predict(X)`, whose predictions are stored.
    pilot : float or int, default 0.05
        Decisions (episodes) before the first bet on doubly robust values, and before the first context of value="contexts": a
        share, or a number.
    planned : int, default None
        The number of decisions (episodes) that was planned, where the log may have stopped earlier or later; None: the number
        that it holds was fixed beforehand, which of episodes is more than a fixed number of rows.
    """

    value: Value = "population"
    side: Side = "both"
    off_by: float = 1.0
    largest_ratio: float | None = None
    least_behavior_prob: float | None = None
    model: Literal["linear"] | Regressor | None = "linear"
    pilot: float | int = PILOT
    planned: int | None = None

    def __post_init__(self) -> None:
        if self.value not in ("population", "contexts"):
            raise InvalidInput(f"value={self.value!r}: 'population' or 'contexts'.")
        if not (self.model is None or self.model == "linear" or isinstance(self.model, Regressor)):
            raise InvalidInput(f"model={self.model!r}: 'linear', None, or an object with fit(X, y) and predict(X).")
        if self.planned is not None and self.planned < 1:
            raise InvalidInput(f"planned={self.planned}: a number of decisions (episodes) of 1 or more.")
        _ = self.stated  # refuses bounds that are none

    @property
    def stated(self) -> Stated:
        return Stated(float(self.off_by), self.largest_ratio, self.least_behavior_prob)

    def _used(self) -> Stated:
        """Without a control variate no bound of the ratios is used."""
        return self.stated if self.model is not None else Stated(self.stated.off_by)

    def run(self, problem: Rows, alpha: float, progress: Progress | None) -> Result:
        clock = Clock(progress)
        clock.stage("ratios")
        value = self._asked_for(problem)
        contexts, drawn = value == "contexts", value == "population"
        single = single_rows(problem, drawn=drawn)
        if contexts and not single:
            raise InvalidInput(
                "The value over the certified contexts is for single decisions; these rows are episodes."
            )
        every = self._every_action(problem, single)
        # the certificate of a log that is read in batches asks the policy again: there is nothing to store
        target = ask_target(problem, every_action=every) if problem.log.held else None
        columns = read_decisions(problem, target, every_action=every, drawn=drawn)
        value = self._value(problem, columns)
        clock.done("ratios")
        clock.stage("fit")
        borders = self._borders(columns)
        if contexts and not borders:
            raise InvalidInput(
                f"A pilot of {self.pilot} rows cannot be set aside from a log of {len(columns.rows)} rows."
            )
        control = self._control(columns, borders) if borders and self._may_fit(columns) else None
        clock.done("fit")
        clock.stage("bets")
        certified = problem.select(borders[0]) if contexts else problem
        budget = ErrorBudget.split(alpha, dict.fromkeys(ends_of(self.side), 1.0))
        rates, provenance = None, Provenance()
        if contexts:
            rates = self._rates(columns, control, borders[0], budget)
            provenance = Provenance("rates", (problem.rows.start, borders[0]), problem.log_hash)
        proof = PropensityProof(
            asked_of(certified), budget, self.side, value, self._used(), self._planned(columns), target, control, rates,
            provenance, self.planned is not None,
        )  # fmt: skip
        planner = None if isinstance(self.model, Regressor) else describe(NAME, self, problem)
        return self._result(proof, certified, columns, clock, planner)

    def _asked_for(self, problem: Rows) -> Value:
        """Which value, of all that can be asked for; refused where starts were stated and another value was named."""
        if problem.initial_states.kind != "exact" and not own_starts(problem):
            refuse_other_starts(problem)
        if problem.initial_states.kind == "exact" and self.value == "contexts":
            raise InvalidInput(
                "value='contexts' is the mean over the states of the log's own rows, and a list of starts was stated (initial=, "
                "--initial): these are two questions. Leave one of them out."
            )
        return "stated starts" if problem.initial_states.kind == "exact" else self.value

    def _value(self, problem: Rows, columns: Decisions) -> Value:
        """The same, once units are known: a list of the one state that all of them start at is the log's own."""
        value, apart = self._asked_for(problem), columns.episodes is not None or single_rows(problem)
        return "population" if value == "stated starts" and apart and one_start(problem, columns) else value

    def replan(self, prefixes: Prefixes, proof: Proof, sums: Sums) -> tuple[Proof, tuple[str, ...]]:
        """Borders from the numbers of rows; predictions of a block, and rates, from the rows before it."""
        del sums
        refuse(not isinstance(proof, PropensityProof), "The proof is not one of the method propensities.")
        assert isinstance(proof, PropensityProof)
        problem = prefixes.problem
        columns = proof.columns(problem)
        value = self._value(problem, columns)
        planned, borders = self._planned(columns), self._borders(columns)
        method = replace(self, planned=planned)
        contexts, first, control = value == "contexts", problem.rows.start, None
        refuse(contexts and not borders, "The log is too short for the pilot.")
        if borders and method._may_fit(columns):
            seen = [proof.columns(prefixes.before(border)) for border in borders]
            fit = linear_control if columns.episodes is None else episode_control
            fits = [fit(known, borders[: k + 1]) for k, known in enumerate(seen)]
            control = replace(fits[0], borders=borders, coefficients=np.array([one.coefficients[-1] for one in fits]))
        budget = ErrorBudget.split(proof.budget.alpha, dict.fromkeys(ends_of(self.side), 1.0))
        rates, provenance = None, Provenance()
        if contexts:
            known = proof.columns(prefixes.before(borders[0]))
            rates = method._rates(known, control, borders[0], budget)
            provenance = Provenance("rates", (first, borders[0]), problem.log_hash)
            first = borders[0]
        refuse(first != proof.asked.rows[0], f"Rows from {first} on follow the pilot, not {proof.asked.rows[0]}.")
        again = replace(
            proof, budget=budget, value=value, stated=self._used(), planned=planned, control=control, rates=rates,
            provenance=provenance, beforehand=self.planned is not None,
        )  # fmt: skip
        return again, ("control", "start") if contexts else ("control",)

    def _result(
        self,
        proof: PropensityProof,
        certified: Rows,
        columns: Decisions,
        clock: Clock,
        planner: dict[str, Any] | None,
    ) -> Result:
        if certified.rows.start > columns.rows[0]:
            columns = proof.columns(certified)
        claims = proof.claims_on(certified, columns)
        exact = replace(self.stated, off_by=1.0)
        lower, upper = (ways(columns.seen_from(end), proof.control, exact) for end in _BOTH)
        strata = proof.strata(certified, columns)
        estimate = estimate_of(columns, lower, upper, strata)
        source = (
            {}
            if math.isnan(estimate)
            else {"estimate": f"mean over the {'log' if strata is None else 'stated starts'}, {lower[-1].name}"}
        )
        clock.done("bets")
        return Result.of(
            proof,
            certified,
            method=NAME,
            estimate=estimate,
            claims=claims,
            choices={
                **self._notes(columns, proof, [way.name for way in lower]),
                **_start_notes(columns, strata),
                **source,
            },
            effective=_effective(columns, strata),
            seconds=clock.seconds,
            planner=planner,
        )

    def _capped(self) -> bool:
        return self.model is not None and self.stated.cap() is not None and self.off_by == 1.0

    def _may_fit(self, columns: Decisions) -> bool:
        """Whether doubly robust values have a floor: ratios are bounded, and so are the steps of an episode."""
        cap = self.stated.cap()
        if cap is None or not self._capped():
            return False
        return columns.episodes is None or (columns.one_by_one and math.isfinite(largest_sum(columns.terms, cap)))

    def _every_action(self, problem: Rows, single: bool) -> bool:
        """Whether π(.|s) is asked for at every logged state: it goes into the certificate."""
        discrete = problem.layout.discrete and not isinstance(problem.policy, LoggedTarget)
        fits = len(problem.rows) * problem.layout.slots <= _MOST_NUMBERS
        cap = self.stated.cap()
        bounded = cap is not None and (single or math.isfinite(largest_sum(problem.terms, cap)))
        return discrete and fits and bounded and self._capped()

    def _planned(self, columns: Decisions) -> int:
        """Units that rates are made for."""
        return columns.units if self.planned is None else self.planned

    def _borders(self, columns: Decisions) -> tuple[int, ...]:
        """Rows of the log where blocks begin: after the pilot, then after twice as many units each; none for a short log."""
        count, planned = columns.units, self._planned(columns)
        if isinstance(self.pilot, float) and 0 < self.pilot < 1:
            place = max(math.ceil(self.pilot * planned), min(_ENOUGH, planned // 5))
        elif self.pilot >= 1 and float(self.pilot).is_integer():
            place = int(self.pilot)
        else:
            raise InvalidInput(f"pilot={self.pilot}: a share in (0, 1), or a whole number of decisions (episodes).")
        starts = columns.rows if columns.episodes is None else columns.rows[first_rows(columns)]
        found = []
        while place < count:
            found.append(int(starts[place]))
            place *= 2
        return tuple(found)

    def _control(self, columns: Decisions, borders: tuple[int, ...]) -> Control:
        if self.model == "linear":
            return (linear_control if columns.episodes is None else episode_control)(columns, borders)
        if columns.episodes is not None:
            raise InvalidInput(
                "A regressor is for single decisions; episodes have the control variate 'linear', or None."
            )
        assert isinstance(self.model, Regressor)
        slots = 1 if columns.probs is None else columns.probs.shape[1]
        if len(columns.rows) * slots > _MOST_NUMBERS:
            raise InvalidInput(
                f"Predictions for {len(columns.rows)} rows and {slots} actions do not fit into a certificate: model='linear'."
            )
        return regressor_control(columns, borders, self.model)

    def _rates(
        self, columns: Decisions, control: Control | None, border: int, budget: ErrorBudget
    ) -> dict[End, tuple[float, ...]]:
        """sqrt( 2 log(1/delta) / (n s^2) ), s^2 the variance of the values on the pilot; less where caps would cut most bets."""
        before = int(np.searchsorted(columns.rows, border))
        count = max(self._planned(columns) - before, 1)
        found: dict[End, tuple[float, ...]] = {}
        for end in ends_of(self.side):
            pilot, price = columns.first(before).seen_from(end), 2 * math.log(1 / budget[end]) / count
            (way,) = ways(pilot, None, self.stated)
            spread = max(float(moderate(way.values).var()), 1e-6 * pilot.limits.width**2)
            rates = [math.sqrt(price / spread)]
            if control is not None:
                room = max(pilot.sign * one - pilot.limits.low for one in control.clip)
                loss = max(float(self.stated.caps(pilot.probs, before).max()) * room, 1e-9 * pilot.limits.width)
                uncut = min(most / multiple for multiple, most in BETS) / loss
                rates.append(min(math.sqrt(price / control.expected[1]), uncut))
            found[end] = tuple(rates)
        return found

    def _notes(self, columns: Decisions, proof: PropensityProof, names: Sequence[str]) -> dict[str, str]:
        found = {"ratios": _ratio_words(columns), "weighed": " and ".join(names)}
        if self.planned is None:
            units = "decisions" if columns.episodes is None else "episodes"
            found["planned"] = f"{proof.planned} {units}, the log's own length"
        if proof.value == "contexts":
            found["pilot"] = f"rows before {proof.asked.rows[0]} set the rates, {proof.asked.rows} are certified"
        bounded = columns.episodes is None or columns.terms.horizon is not None
        if bounded and self.off_by == 1.0 and self.stated.cap() is None:
            found["control variate"] = (
                "none, as no bound of the ratios was stated: largest_ratio= or least_behavior_prob= may shorten the interval"
            )
        elif proof.control is None and self._capped():
            found["control variate"] = "none: too few decisions, or nothing bounds the products of ratios in an episode"
        elif proof.control is not None:
            found["control variate"] = (
                f"fitted on the rows before each of the blocks that begin at {proof.control.borders}"
            )
        return found


def _unit_ratios(columns: Decisions) -> FloatArray:
    """Of decisions, or of whole episodes: the products that returns are weighed by."""
    return columns.ratios.values if columns.episodes is None else cumulative(columns).values[last_rows(columns)]


def _ratio_words(columns: Decisions) -> str:
    ratios = _unit_ratios(columns)
    text = f"largest {three(float(ratios.max()))}, mean {three(float(moderate(ratios).mean()))} "
    text += "(1 where the behavior takes every action that the policy takes)"
    if columns.episodes is None:
        return text
    return f"of whole episodes: {text}; of single steps: largest {three(float(columns.ratios.values.max()))}"


def _start_notes(columns: Decisions, strata: Strata | None) -> dict[str, str]:
    """How much of the stated starts the log has."""
    if strata is None:
        return {}
    counts, units = strata.counts(), "decisions" if columns.episodes is None else "episodes"
    text = f"{int(counts.sum())} of {columns.units} {units} start at a stated state"
    missing = counts == 0
    if missing.any():
        lost = float(strata.weights[missing].sum())
        text += f"; {int(missing.sum())} of {counts.size} states never come (weight {three(lost)}) and count with the worst value"
    return {"stated starts": text}


def _effective(columns: Decisions, strata: Strata | None) -> float:
    """(sum of weights)^2 / sum of squared weights, over decisions or episodes: ratios, times the weights of stated starts."""
    ratios = _unit_ratios(columns) * (1.0 if strata is None else strata.shares())
    largest = float(ratios.max())
    if largest == 0.0:
        return 0.0
    shares = ratios / largest
    return float(shares.sum() ** 2 / np.sum(shares**2))
