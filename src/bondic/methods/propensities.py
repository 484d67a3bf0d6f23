"""Intervals from propensities as a method: read ratios, fit a control variate on earlier rows, bet, write it down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from bondic.core.balls import Provenance
from bondic.core.bounded import PORTION, portions
from bondic.core.claims import End, ErrorBudget, Side, ends_of
from bondic.core.columns import Kind
from bondic.core.errors import InvalidInput, refuse
from bondic.core.proof import Proof
from bondic.core.propensities.betting import Strategy, moderate
from bondic.core.propensities.bound import Units, one_start, refuse_other_starts
from bondic.core.propensities.control import Control, LinearControl
from bondic.core.propensities.decisions import Decisions, Estimator, weight_sum
from bondic.core.propensities.proof import PerEnd, PropensityProof, Value
from bondic.core.propensities.ratios import Stated
from bondic.core.propensities.sampling import SAMPLING
from bondic.core.propensities.strata import Strata
from bondic.core.sums.forms import Sums
from bondic.core.terms import ValueRange, range_of
from bondic.engines.threads import Serial, Threads
from bondic.errors import TooFewRows
from bondic.methods.base import Clock, Progress, check_proof, describe, listing_options
from bondic.methods.propensity_pilot import logged, predicted
from bondic.plan.controls import Regressor, linear_control, regressor_control, wealth_shares, with_expected
from bondic.policies.learned import PolicyMixture
from bondic.policies.logged_target import LoggedBehavior
from bondic.rendering import three
from bondic.result import Result
from bondic.rows import Rows
from bondic.rows.decisions import query_target, single_rows
from bondic.rows.estimand import estimand_of, question_of
from bondic.rows.prefix import Prefixes

FloatArray = npt.NDArray[np.float64]

NAME = "propensities"
PILOT = 0.05
"""Share of the rows before the first block of a control variate, and before the certified ones where rates come from a pilot."""
_ENOUGH = 200
"""Decisions (episodes) that a pilot of a share waits for, up to a fifth of the rows."""
_CHECKED = 0.001
"""Probability at which right propensities are refuted by chance, at most a fiftieth of alpha."""
_SHORT = 0.5
"""Share of the value range below which a predicted length decides for this method."""
_BOTH: tuple[End, ...] = ("lower", "upper")
_VALUES: dict[Kind, Value] = {"log": "contexts", "sample": "population", "exact": "stated starts"}
_OTHER_END: dict[End, End] = {"lower": "upper", "upper": "lower"}
_MAX_NUMBERS = 2**24
"""Probabilities and predictions that a certificate holds at most: 128 MB each."""


@listing_options
@dataclass(frozen=True)
class Propensities:
    """Intervals from propensities, theory sections 13 and 17: nothing is assumed about the value function, or about overlap.

    The log holds b_i(a_i|s_i), the probability with which the behavior took the action; behavior may change from row to row
    (from episode to episode). The value is the mean over the starts of this log; over a population where one was stated; over a
    stated list of starts, answered from the decisions (episodes) that start there. Bets on the weighted rewards, with rates from
    earlier rows, make the interval. Not guaranteed: anything if the propensities are wrong by more than was stated, if rows are
    not in the order of time, or if a bound of the ratios was picked by looking at those of the log.

    Parameters
    ----------
    side : {"both", "lower", "upper"}, default "both"
        Which ends to compute; the other one is that of the value range.
    gamma_sensitivity : float, default 1
        Γ: no action was drawn with more than Γ times the probability that the log states.
    max_ratio : float, default None
        No ratio π/b exceeds it, at any state and action. With it, or with the next one, rows are weighed doubly robustly too
        (episodes if a horizon bounds their products); without, the interval needs no bound at all.
    min_propensity : float, default None
        The behavior takes no action with a smaller probability. Not for actions that are numbers: densities bound no ratio.
    model : "linear", None or a regressor, default "linear"
        The control variate: ridge regression, which a replay fits again; none; or any object with `fit(X, y)` and
        `predict(X)`, whose predictions are stored.
    pilot : float or int, default 0.05
        Rows that set the rates and are not certified, a share of the planned ones or a number. Of single decisions of a stated
        population, or from stated starts, only bets on doubly robust values wait for them.
    planned_rows : int, default None
        The number of rows that was planned, where the log may have stopped earlier or later; None: the number that it holds was
        fixed beforehand. How many episodes that makes is told by the pilot.
    """

    side: Side = "both"
    gamma_sensitivity: float = 1.0
    max_ratio: float | None = None
    min_propensity: float | None = None
    model: Literal["linear"] | Regressor | None = "linear"
    pilot: float | int = PILOT
    planned_rows: int | None = None
    name: ClassVar[str] = NAME
    assumes: ClassVar[Literal["nothing"]] = "nothing"

    def __post_init__(self) -> None:
        if not (self.model is None or self.model == "linear" or isinstance(self.model, Regressor)):
            raise InvalidInput(f"model={self.model!r}: 'linear', None, or an object with fit(X, y) and predict(X).")
        if self.planned_rows is not None and self.planned_rows < 1:
            raise InvalidInput(f"planned_rows={self.planned_rows}: a number of rows of 1 or more.")
        _ = self.stated  # refuses bounds that are none

    @property
    def stated(self) -> Stated:
        return Stated(float(self.gamma_sensitivity), self.max_ratio, self.min_propensity)

    def _used(self) -> Stated:
        """Without a control variate no bound of the ratios is used."""
        return self.stated if self.model is not None else Stated(self.stated.gamma_sensitivity)

    def applies(self, problem: Rows) -> str | None:
        """None, or why not; it reads where episodes end."""
        if not logged(problem):
            return "the log holds no propensities"
        if problem.initial_states.kind != "exact" and not problem.own_starts:
            return "the initial states are not the log's own"
        units = problem.log.has_episode_ids or single_rows(problem)
        return None if units else "nothing says which rows are one episode"

    def predicted_length(self, problem: Rows, alpha: float, rows: float | None = None) -> float:
        """The length of the interval of so many rows like these, in units of value; inf where they cannot tell."""
        return predicted(self.stated, problem, alpha, len(problem.rows) if rows is None else rows)

    def advantage(self, pilot: Rows, rows: float, alpha: float) -> str:
        """What the whole episodes of a pilot say for this method, if so many rows follow; empty where nothing does."""
        if single_rows(pilot) and pilot.own_starts:
            return f"the log holds propensities and the first {len(pilot.rows)} rows are episodes of one step"
        share = self.predicted_length(pilot, alpha, rows) / range_of(pilot.terms).width
        if share >= _SHORT:
            return ""
        return (
            f"the log holds propensities, and the episodes in the first {len(pilot.rows)} rows predict a length of about "
            f"{100 * share:.2g} % of the value range without assuming anything about q*"
        )

    def run(
        self, problem: Rows, alpha: float, progress: Progress | None, against: Rows | None = None, why: str = ""
    ) -> Result:
        """The value of the policy; with `against`, how far it exceeds that of another one on the same rows.

        `why` it is this method, where that was not stated.
        """
        clock = Clock(progress)
        clock.stage("ratios")
        parts: tuple[Rows, ...] = (problem,) if against is None else (problem, against)
        changes = any(isinstance(one.policy, LoggedBehavior | PolicyMixture) for one in parts)
        value = self._question(problem, changes=changes)
        drawn = value != "stated starts"
        single = single_rows(problem, drawn=drawn)
        every = self._every_action(problem, single, against)
        # the certificate of a log that is read in batches queries the policy again: nothing is stored
        targets = tuple(
            query_target(one, every_action=every) if one.log.held or one.policy_in_log else None for one in parts
        )
        empty = PropensityProof(
            estimand_of(problem, against), self._budget(problem, parts, alpha), self.side, value, self._used(), Strategy(), 1,
            False, targets, every, None, {}, dict.fromkeys(ends_of(self.side), (1.0,)) if value == "contexts" else {},
            Provenance(),
        )  # fmt: skip
        columns = empty.columns(question_of(parts))
        clock.done("ratios")
        clock.stage("fit")
        borders = self._borders(problem, columns)
        control = self._control(columns, borders) if borders and self._may_fit(columns) else None
        clock.done("fit")
        clock.stage("bets")
        proof, first = self._plan(empty, problem, columns, borders, control, columns)
        if first > problem.rows.start:
            parts = tuple(one.select(first) for one in parts)
            proof = replace(proof, estimand=estimand_of(*parts))
            columns = columns.since(first)
        planner = None if isinstance(self.model, Regressor) else describe(NAME, self, problem)
        return self._result(proof, parts, columns, clock, planner, {"method": why} if why else {})

    def replan(
        self, prefixes: Prefixes, proof: Proof, sums: Sums, against: Prefixes | None = None
    ) -> tuple[Proof, tuple[str, ...]]:
        """Borders from the numbers of rows; predictions of a block, and rates, from the rows before it."""
        del sums
        proof = check_proof(proof, PropensityProof, NAME)
        problem, both = prefixes.problem, (prefixes,) if against is None else (prefixes, against)
        budget = self._budget(problem, [one.problem for one in both], proof.budget.alpha)
        proof = replace(proof, budget=budget)
        single = single_rows(problem, drawn=proof.drawn)
        every = self._every_action(problem, single, None if against is None else against.problem)
        refuse(every != proof.every_action, "proof.every_action is not what the planner gives.")
        columns = proof.columns(question_of([one.problem for one in both]))
        borders, control, known = self._borders(problem, columns), None, columns
        if borders:
            seen = [proof.columns(question_of([one.before(border) for one in both])) for border in borders]
            # episodes that all ended at once so far are episodes as well
            seen = [
                one if one.unit == columns.unit else columns.part(slice(0, columns.before(border)))
                for one, border in zip(seen, borders, strict=True)
            ]
            known = seen[0]
            if self._may_fit(columns):
                fits = [self._linear(one, borders[: k + 1]) for k, one in enumerate(seen)]
                coefficients = np.array([one.coefficients[-1] for one in fits])
                control = replace(fits[0], borders=borders, coefficients=coefficients)
        again, first = self._plan(proof, problem, columns, borders, control, known)
        refuse(first != proof.estimand.rows[0], f"Rows from {first} on follow the pilot, not {proof.estimand.rows[0]}.")
        return again, proof.needs_replay

    def _plan(
        self,
        proof: PropensityProof,
        problem: Rows,
        columns: Units,
        borders: tuple[int, ...],
        control: Control | None,
        known: Units,
    ) -> tuple[PropensityProof, int]:
        """The proof with everything that is chosen, and its first certified row; rates come from `known` rows."""
        cap, value = self._cap(), self._value(problem, columns, changes=proof.changes)
        budget, first, provenance = proof.budget, problem.rows.start, Provenance()
        planned = self._rows_planned(problem)
        rates: PerEnd = {}
        shares: PerEnd = {}
        if value == "contexts" or columns.unit == "episode":
            if not borders:
                raise TooFewRows(
                    f"No {columns.unit} of these {len(problem.rows)} rows begins after a pilot, which sets the rates "
                    f"(pilot={self.pilot})."
                )
            looked, first = borders[0] - first, borders[0]
            provenance = Provenance("rates", (problem.rows.start, first), problem.log_hash)
            units = int(np.searchsorted(columns.first.start_rows, first))
            planned = max(round((planned - looked) * units / looked), 1)
        if value == "contexts":
            rates = self._rates(known, control, first, planned, budget)
        if value == "population" and control is not None and cap is not None:
            pilot = known.part(slice(0, known.before(borders[0])))
            usual = self._usual_cap(pilot)
            for end in ends_of(self.side):
                shares[end] = wealth_shares(pilot.from_end(end), control, Strategy(), usual, planned, budget[end])
        made = replace(
            proof, budget=budget, value=value, stated=self._used(), strategy=Strategy(), planned=planned, control=control,
            shares=shares, rates=rates, provenance=provenance, beforehand=self.planned_rows is not None,
        )  # fmt: skip
        return made, first

    def _budget(self, problem: Rows, parts: Sequence[Rows], alpha: float) -> ErrorBudget:
        """alpha over the ends, less what the check of the propensities takes where a policy is weighed by them."""
        weighed = any(not isinstance(one.policy, LoggedBehavior) for one in parts)
        checked = weighed and problem.layout.discrete and "actions" not in problem.log.unrecorded
        share, ends = (min(_CHECKED / alpha, 0.02) if checked else 0.0), ends_of(self.side)
        shares = ({SAMPLING: share} if checked else {}) | dict.fromkeys(ends, (1.0 - share) / len(ends))
        return ErrorBudget.split(alpha, shares)

    def _question(self, problem: Rows, *, changes: bool) -> Value:
        """Which value the initial states ask for; refused where they are no starts of the log, or another list than it has."""
        kind = problem.initial_states.kind
        if not (kind == "exact" or problem.own_starts):
            refuse_other_starts(problem)
        if not changes:
            return _VALUES[kind]
        # another policy on other rows: its value is a mean over them
        if kind == "exact" and np.unique(problem.initial_states.observations, axis=0).shape[0] > 1:
            raise InvalidInput(
                "Today's policy may have changed, and a mixture learned block by block does: the value is the mean over the "
                "log's own decisions (episodes), from where each of them started, and a list of several starts weighs them "
                "in another way. Leave `initial` out (no --initial) to compare over the log's own starts; or, if today's "
                "policy is one that you can write down, compare with that one (against=function, --against "
                "rules.py:current)."
            )
        return "contexts"

    def _value(self, problem: Rows, columns: Units, *, changes: bool) -> Value:
        """The same, once units are known: a list of the one state that all of them start at is the log's own."""
        value, draws = self._question(problem, changes=changes), columns.unit == "episode" or single_rows(problem)
        return "population" if value == "stated starts" and draws and one_start(problem, columns.first) else value

    def _result(
        self,
        proof: PropensityProof,
        parts: Sequence[Rows],
        columns: Units,
        clock: Clock,
        planner: dict[str, Any] | None,
        chosen: dict[str, str],
    ) -> Result:
        question, exact = question_of(parts), replace(self.stated, gamma_sensitivity=1.0)
        each = (Threads() if columns.units > PORTION else Serial()).run  # of both ends
        made = each(lambda end: columns.from_end(end).estimators(proof.control, exact), _BOTH)
        estimators = dict(zip(_BOTH, made, strict=True))
        claims = proof.claims_on(question, columns, estimators if exact == proof.stated else {}, each)
        strata = proof.strata(question, columns)
        estimate = _estimate(columns.limits, estimators["lower"][-1], estimators["upper"][-1], strata)
        names = [one.name for one in estimators["lower"]]
        notes = {**chosen, **self._notes(columns, proof, names), **_start_notes(columns.first, strata)}
        if not math.isnan(estimate):
            over = "log" if strata is None else "stated starts"
            notes["estimate"] = f"mean over the {over}, {names[-1]}"
        if (found := proof.sampling(question)) is not None and found.rejects(proof.budget[SAMPLING]):
            notes["propensities"] = (
                f"{parts[0].action_name(found.action)} has weights 1/p of {three(found.weight)} in rows {found.rows[0]} to "
                f"{found.rows[1] - 1}, where about {found.rows[1] - found.rows[0]} are due: actions were not drawn with the "
                "probabilities that the log states"
            )
        clock.done("bets")
        return Result.of(
            proof,
            *parts[:1],
            against=parts[1] if len(parts) > 1 else None,
            method=NAME,
            estimate=estimate,
            claims=claims,
            choices=notes,
            effective=_effective(columns.first, strata),
            seconds=clock.seconds,
            planner=planner,
        )

    def _cap(self) -> float | None:
        """The bound of the ratios that doubly robust values use."""
        return None if self.model is None else self.stated.robust_cap()

    def _usual_cap(self, pilot: Units) -> float:
        """Of most ratios of a policy; two policies share their predictions, and the stated bound."""
        cap = self._cap()
        assert cap is not None
        return pilot.usual_cap(self.stated, pilot.units) if isinstance(pilot, Decisions) else cap

    def _may_fit(self, columns: Units) -> bool:
        """Whether doubly robust values have a floor: ratios are bounded, and so are the steps of an episode."""
        cap = self._cap()
        return cap is not None and columns.consecutive and columns.bounds_weights(cap)

    def _every_action(self, problem: Rows, single: bool, against: Rows | None) -> bool:
        """Whether π(.|s) is needed at every logged state: it goes into the certificate."""
        paired = against is not None and _answers(against)
        if not (against is None or paired or isinstance(against.policy, LoggedBehavior)):
            return False
        cap, discrete = self._cap(), problem.layout.discrete and _answers(problem)
        slots = int(problem.log.inspection.action_counts.size) if problem.policy_in_log else problem.layout.slots
        fits = len(problem.rows) * slots <= _MAX_NUMBERS
        if paired and single and discrete and fits:  # the distance of two policies at a state
            return True
        return cap is not None and discrete and fits and (single or math.isfinite(weight_sum(problem.terms, cap)))

    def _rows_planned(self, problem: Rows) -> int:
        return len(problem.rows) if self.planned_rows is None else self.planned_rows

    def _borders(self, problem: Rows, columns: Units) -> tuple[int, ...]:
        """Rows where blocks begin: with the first unit after the pilot, then after twice as many rows each; none for a short log.

        Rows count, not units: how many episodes follow depends on how long they are, and that on what happens in them.
        """
        starts, planned = columns.first.start_rows - problem.rows.start, self._rows_planned(problem)
        if isinstance(self.pilot, float) and 0 < self.pilot < 1:
            enough = int(starts[_ENOUGH]) if starts.size > _ENOUGH else planned
            place = max(math.ceil(self.pilot * planned), min(enough, planned // 5))
        elif self.pilot >= 1 and float(self.pilot).is_integer():
            place = int(self.pilot)
        else:
            raise InvalidInput(f"pilot={self.pilot}: a share in (0, 1), or a whole number of rows.")
        place = max(place, int(starts[:1].sum()) + 1)  # a pilot has a unit
        found: list[int] = []
        while (unit := int(np.searchsorted(starts, place))) < starts.size:
            found.append(problem.rows.start + int(starts[unit]))
            place = 2 * int(starts[unit])
        return tuple(found)

    def _linear(self, columns: Units, borders: tuple[int, ...]) -> LinearControl:
        return with_expected(linear_control(columns.first, borders), columns)

    def _control(self, units: Units, borders: tuple[int, ...]) -> Control:
        if not isinstance(self.model, Regressor):
            return self._linear(units, borders)
        columns = units.first
        if columns.unit == "episode":
            raise InvalidInput(
                "A regressor is for single decisions; episodes have the control variate 'linear', or None."
            )
        slots = 1 if columns.probs is None else columns.probs.shape[1]
        if len(columns.rows) * slots > _MAX_NUMBERS:
            raise InvalidInput(
                f"Predictions for {len(columns.rows)} rows and {slots} actions do not fit into a certificate: model='linear'."
            )
        return with_expected(regressor_control(columns, borders, self.model), units)

    def _rates(self, columns: Units, control: Control | None, border: int, planned: int, budget: ErrorBudget) -> PerEnd:
        """sqrt( 2 log(1/delta) / (n s^2) ), s^2 the variance of the values on the pilot; less where caps would cut most bets."""
        before, cap = columns.before(border), self._cap()
        uncut = min(risk / multiple for multiple, risk in Strategy().bets)
        found: PerEnd = {}
        for end in ends_of(self.side):
            pilot, mirrored = (columns.part(slice(0, before)).from_end(one) for one in ((end, _OTHER_END[end])))
            price = 2 * math.log(1 / budget[end]) / planned
            rates = []
            ends = (one.estimators(None, self.stated) for one in (pilot, mirrored))
            for free, other in zip(*ends, strict=True):
                # ρ B of one policy, (ρ¹ - ρ²) B of two: what a value changes by if the reward is the largest, not the least
                swing = moderate(free.values) + moderate(other.values) + (2 - len(pilot.policies)) * pilot.limits.width
                # as if one more row had a reward of the largest variance: where all were 0, rare rewards are likely
                possible = float(np.mean(swing**2)) / (4 * (pilot.units + 1))
                spread = max(float(moderate(free.values).var()), possible, 1e-12 * pilot.limits.width**2)
                # how far below the mean of the pilot a value can be
                lost = float(
                    free.centers(np.full(free.values.size, moderate(free.values).mean()), slice(None))[1].max()
                )
                rates.append(min(math.sqrt(price / spread), uncut / max(lost, 1e-9 * pilot.limits.width)))
            if control is not None and cap is not None:
                # how far below its center a doubly robust value can be
                most, lost = float(self.stated.caps(cap, pilot.first.probs, before).max()), 0.0
                for policy in pilot.policies:
                    room = max(policy.sign * one - policy.limits.low for one in control.clip)
                    lost += policy.limits.width if policy.of_behavior else most * room
                rates.append(min(math.sqrt(price / control.expected[1]), uncut / max(lost, 1e-9 * pilot.limits.width)))
            found[end] = tuple(rates)
        return found

    def _notes(self, columns: Units, proof: PropensityProof, names: Sequence[str]) -> dict[str, str]:
        found = {"ratios": _ratio_words(columns.first), "weighed": " and ".join(names)}
        if self.planned_rows is None:
            found["planned"] = f"about {proof.planned} {columns.unit}s, for the log's own number of rows"
        if proof.provenance.rows is not None:
            found["pilot"] = f"rows before {proof.estimand.rows[0]} set the rates, {proof.estimand.rows} are certified"
        bounded = columns.unit == "decision" or columns.first.terms.horizon is not None
        if proof.control is not None:
            found["control variate"] = (
                f"fitted on the rows before each of the blocks that begin at {proof.control.borders}"
            )
        elif bounded and self.gamma_sensitivity == 1.0 and self.stated.cap() is None:
            found["control variate"] = (
                "none, as no bound of the ratios was stated: max_ratio= (named actions: min_propensity=) may shorten the interval"
            )
        elif self._cap() is not None:
            found["control variate"] = "none: too few decisions, or nothing bounds the products of ratios in an episode"
        return found


def _answers(rows: Rows) -> bool:
    """Whether the policy has probabilities of all actions at the logged states."""
    return not rows.policy_in_log or isinstance(rows.policy, PolicyMixture)


def _estimate(limits: ValueRange, lower: Estimator, upper: Estimator, strata: Strata | None) -> float:
    """A guess of the value without a guarantee: the doubly robust mean, or the least varying mix of both ends' values.

    Values from below use v_lo as a control variate, those from above v_hi; the mix of them that varies least on these rows
    has a control variate in between. NaN where they differ by a constant (no row has a weight that tells), and where a stated
    start was never met.
    """
    own, count = None if strata is None else strata.since(lower.first), lower.values.size
    shares = np.broadcast_to(1.0 / count, count) if own is None else own.shares()
    least, most = moderate(lower.values[:1]), moderate(-upper.values[:1])
    first = np.concatenate([least, most - least]) if count else np.zeros(2)
    sums, products, means = np.zeros(2), np.zeros((2, 2)), np.zeros(2)  # of low and gap, counted from the first of them
    for some in portions(count):
        low, high = moderate(lower.values[some]), moderate(-upper.values[some])
        both = np.stack([low, high - low]) - first[:, None]
        sums, products, means = sums + both.sum(axis=1), products + both @ both.T, means + both @ shares[some]
    if (own is not None and not own.counts().all()) or (first[1] != 0 and products[1, 1] == 0):
        return math.nan
    spread = products - np.outer(sums, sums) / count
    mix = float(np.clip(-spread[0, 1] / spread[1, 1], 0.0, 1.0)) if spread[1, 1] > 0 and count > 1 else 0.5
    low, gap = first + means / float(shares.sum())
    return float(np.clip(low + mix * gap, limits.low, limits.high))


def _ratio_words(columns: Decisions) -> str:
    ratios = columns.unit_ratios
    mean = sum(float(moderate(ratios[some]).sum()) for some in portions(ratios.size)) / ratios.size
    text = f"largest {three(float(ratios.max()))}, mean {three(mean)} "
    text += "(1 where the behavior takes every action that the policy takes)"
    if columns.unit == "decision":
        return text
    return f"of whole episodes: {text}; of single steps: largest {three(float(columns.ratios.values.max()))}"


def _start_notes(columns: Decisions, strata: Strata | None) -> dict[str, str]:
    """How much of the stated starts the log has."""
    if strata is None:
        return {}
    counts = strata.counts()
    text = f"{int(counts.sum())} of {columns.units} {columns.unit}s start at a stated state"
    missing = counts == 0
    if missing.any():
        lost = float(strata.weights[missing].sum())
        text += f"; {int(missing.sum())} of {counts.size} states never come (weight {three(lost)}) and count with the worst value"
    return {"stated starts": text}


def _effective(columns: Decisions, strata: Strata | None) -> float:
    """(sum of weights)^2 / sum of squared weights, over decisions or episodes: ratios, times the weights of stated starts."""
    ratios = columns.unit_ratios if strata is None else columns.unit_ratios * strata.shares()
    largest = float(ratios.max())
    if largest == 0.0:
        return 0.0
    total = squares = 0.0
    for some in portions(ratios.size):
        shares = ratios[some] / largest
        total, squares = total + float(shares.sum()), squares + float(shares @ shares)
    return total**2 / squares
