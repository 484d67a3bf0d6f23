"""The proof from propensities: what was stated about them, how the wealth is bet, and the control variate.

Rates of the bets on the population value, and on stated starts, are computed here from earlier rows by the numbers of the
strategy. That a control variate with its shares of the wealth, rates for the value over these contexts, and a strategy other than
the library's own were chosen without the rows they are used on cannot be seen in them: a replay makes them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from bondic.core import assumptions as words
from bondic.core.balls import Provenance
from bondic.core.claims import Assumption, Claim, End, ErrorBudget, Guarantee, Rejection, Side, State, ends_of
from bondic.core.columns import Columns
from bondic.core.errors import InvalidInput, VerificationError, refuse
from bondic.core.proof import Claims, Estimand, Proof, Review
from bondic.core.propensities.betting import Strategy
from bondic.core.propensities.bound import LowerEnd, Units, one_start, refuse_other_starts
from bondic.core.propensities.contrast import Contrast
from bondic.core.propensities.control import Control
from bondic.core.propensities.decisions import Decisions, Estimator
from bondic.core.propensities.ratios import Stated, Target
from bondic.core.propensities.sampling import SAMPLING, SamplingCheck
from bondic.core.propensities.strata import Strata
from bondic.core.question import Question
from bondic.core.registry import register
from bondic.core.sums.forms import Sums
from bondic.core.terms import in_full

Value = Literal["population", "contexts", "stated starts"]
PerEnd = dict[End, tuple[float, ...]]


@register("proof", "propensities")
@dataclass(frozen=True, eq=False)
class PropensityProof(Proof):
    """The ends (40), (21a), (22) for rows or episodes with propensities."""

    estimand: Estimand
    budget: ErrorBudget  # parts: lower, upper, and propensities where they are checked
    side: Side
    value: Value  # "population"; "contexts": the certified ones; "stated starts": an exact list
    stated: Stated
    strategy: Strategy
    planned: int  # units that rates are made for
    beforehand: bool  # whether `planned` was stated; else it is the log's own number
    targets: tuple[
        Target | None, ...
    ]  # of every policy, π at the logged states; None: columns of the log, or asked for again
    every_action: bool  # whether π(.|s_i) of all actions is used, or of the logged ones alone
    control: Control | None  # q̂; None: rewards are weighed as they are
    shares: PerEnd  # of the wealth where bets on q̂ begin, one for every estimator; empty without q̂, or for other values
    rates: PerEnd  # for "contexts", one for every estimator; else empty
    provenance: Provenance  # of the rates

    def __post_init__(self) -> None:
        ends, contexts = ends_of(self.side), self.value == "contexts"
        refuse(any(not (self.budget.get(end) or 0.0) > 0 for end in ends), "An end has no part of alpha.")
        refuse(self.planned < 1, "No rows were planned.")
        refuse(
            len(self.targets) != len(self.estimand.policies),
            "The number of policies with answers at the logged states is not that of the estimand.",
        )
        known = zip(self.targets, self.estimand.policies, strict=True)
        refuse(
            any(target is not None and not policy.answered for target, policy in known),
            "The log holds the probabilities of a policy, and the certificate others for it.",
        )
        refuse(
            self.changes and not contexts,
            "The value of the behavior, and that of a mixture, is the mean over the certified units.",
        )
        robust = self.value == "population" and self.control is not None
        for name, stored, needed in (("shares", self.shares, robust), ("rates", self.rates, contexts)):
            refuse(
                set(stored) != (set(ends) if needed else set()), f"An end has no {name}, or has some that are not used."
            )
            fine = all(0 < number < np.inf for numbers in stored.values() for number in numbers)
            refuse(not fine, f"A number among the {name} is not positive.")

    @property
    def guarantee(self) -> Guarantee:
        return "finite-sample"

    @property
    def needs_replay(self) -> tuple[str, ...]:
        chosen = {"control": self.control is not None, "rates": bool(self.rates), "bets": self._own_strategy}
        return tuple(name for name, there in chosen.items() if there)

    @property
    def has_plan(self) -> bool:
        return True

    @property
    def any_length(self) -> bool:
        return self.beforehand

    @property
    def logged_answers(self) -> tuple[Target | None, ...]:
        return self.targets

    @property
    def _weighs(self) -> bool:
        """Whether propensities are used: for the value of the behavior alone they are not."""
        return any(policy.known_by != "behavior" for policy in self.estimand.policies)

    @property
    def changes(self) -> bool:
        """Whether a policy of the question is another one on other rows: the behavior that made the log, or a mixture."""
        return any(policy.known_by in ("behavior", "mixture") for policy in self.estimand.policies)

    @property
    def drawn(self) -> bool:
        """Whether every unit begins at a start, so that no row that follows another one is a unit."""
        return self.value != "stated starts"

    @property
    def _own_strategy(self) -> bool:
        """Whether the numbers of the bets are not the library's, which are older than the log."""
        return self.strategy != Strategy()

    def columns(self, question: Question) -> Units:
        """What is weighed, as seen from the lower end."""
        if self.stated.min_propensity is not None and not question.first.layout.discrete:
            raise InvalidInput(_DENSITIES)
        found, cap = list[Decisions](), self.stated.cap()
        for part, policy, target in zip(question.parts, self.estimand.policies, self.targets, strict=True):
            if found and policy.known_by == "behavior":
                found.append(found[0].of_today())
                continue
            every = self.every_action and policy.answered
            states = cap is not None or part.columns.initial_states.kind == "exact"
            found.append(part.columns.decisions(target, every_action=every, drawn=self.drawn, states=states))
        coefficients = tuple(part.coefficient for part in question.parts)
        if coefficients == (1.0,):
            return found[0]
        refuse(coefficients != (1.0, -1.0), "Propensities answer about one policy, or about the difference of two.")
        starts = [part.columns.initial_states for part in question.parts]
        refuse(not starts[0].same(starts[1]), "The two policies have different starts, so their units differ.")
        return Contrast.of(found[0], found[1])

    def strata(self, question: Question, columns: Units) -> Strata | None:
        """The units by stated starts, where these are what the value is over."""
        return Strata.of(question.first, columns.first) if self.value == "stated starts" else None

    def claims(self, question: Question, sums: Sums) -> Claims:
        del sums
        return self.claims_on(question, self.columns(question))

    def claims_on(
        self,
        question: Question,
        columns: Units,
        known: Mapping[End, tuple[Estimator, ...]] | None = None,
        each: Callable[[Callable[[End], Claim], Sequence[End]], Iterable[Claim]] = map,
    ) -> Claims:
        """The ends, from columns that were read before; `known` are their estimators, as seen from each end.

        `each` applies a function to both ends, as `map` does.
        """
        refuse(
            self.value == "population" and question.first.initial_states.kind == "log",
            "The question is about the starts of this log, and the bets are about a population that nobody stated.",
        )
        one_state = self.value != "stated starts" and one_start(question.first, columns.first)
        if not (question.first.own_starts or one_state or self.value == "stated starts"):
            refuse_other_starts(question.first)
        strata = self.strata(question, columns)
        made = known or {}

        def claim(end: End) -> Claim:
            units = columns.from_end(end)
            return self._claim(units, made.get(end) or units.estimators(self.control, self.stated), strata)

        return Claims(tuple(each(claim, ends_of(self.side))), self._tests(question))

    def sampling(self, question: Question) -> SamplingCheck | None:
        """The check of the propensities, where a part of alpha is for it."""
        return None if self.budget.get(SAMPLING) is None else question.first.sampling(self.stated.gamma_sensitivity)

    def _tests(self, question: Question) -> tuple[Rejection, ...]:
        found = self.sampling(question)
        return () if found is None else (Rejection(found.rejects(self.budget[SAMPLING]), found.p_value, 0.0, 0.0, 0.0),)

    def _claim(self, columns: Units, estimators: tuple[Estimator, ...], strata: Strata | None) -> Claim:
        cap = self.stated.robust_cap()
        later = cap is not None and columns.bounds_weights(cap)
        end = LowerEnd(columns, estimators, self.strategy, later, self.planned, self.budget[columns.end])
        if self.rates:
            return end.contexts(self.rates[columns.end])
        return end.population(self.shares.get(columns.end, ())) if strata is None else end.starts(strata)

    def assumptions(self, question: Question, *, rejected: bool) -> tuple[Assumption, ...]:
        rows = question.first
        joint: State = "rejected" if rejected else "stated"
        return (
            Assumption("data", _DATA, joint),
            *([Assumption("propensities", self._propensities(), joint)] if self._weighs else []),
            *self._ratios(joint),
            words.reward_assumption(rows, joint),
            *words.range_assumption(rows.terms, joint),
            Assumption("values", "Nothing is assumed about q*: no class of functions is used.", "checked"),
            *self._chosen_before(),
            *(Assumption(name, text, "stated") for name, text in self._policies()),
            *self._starts(rows),
            Assumption("length", self._length(rows), "stated"),
            words.process_assumption(rows, self._over(rows)),
        )

    def _policies(self) -> list[tuple[str, str]]:
        """Whose value it is."""
        names = ("policy", "other policy")
        known = (policy.known_by for policy in self.estimand.policies)
        return [(name, _POLICIES[known_by]) for name, known_by in zip(names, known, strict=False)]

    def _propensities(self) -> str:
        text = (
            "The propensities are right: given everything before a row and its state, the logged action was drawn with "
        )
        if self.stated.gamma_sensitivity == 1.0:
            return text + "the probability (density) that the log states."
        return (
            text
            + f"a probability (density) of at most {in_full(self.stated.gamma_sensitivity)} times what the log states."
        )

    def _ratios(self, state: State) -> tuple[Assumption, ...]:
        cap, least = self.stated.robust_cap(), self.stated.min_propensity
        if cap is None or self.control is None:
            return ()
        text = f"No ratio of target to behavior probability exceeds {cap:.6g}, at any state and action (no logged one does)."
        if least is not None:
            text += f" The behavior takes no action of the target policy with a probability below {in_full(least)}."
        return (Assumption("ratios", text, state),)

    def _chosen_before(self) -> tuple[Assumption, ...]:
        """Of these a replay shows that no later row was used."""
        found = []
        if self.control is not None:
            text = "Predictions for a block of rows, and the shares of the wealth that are bet on them, come from rows before it."
            found.append(Assumption("control", text, "stated" if self.control.holds_rows else "checked"))
        if self._own_strategy:
            found.append(Assumption("bets", "The numbers of the betting strategy were fixed before the log.", "stated"))
        return tuple(found)

    def _over(self, rows: Columns) -> str:
        """Whose situations the mean is over, where that is the certified ones."""
        if self.value != "contexts":
            return ""
        where = f"states of the {len(rows)} certified rows" if self.single(rows) else "starts of the certified episodes"
        what = "difference of the values" if len(self.estimand.policies) > 1 else "value"
        text = f"The {what} is the mean over the {where}: nothing is assumed about where they come from."
        policies = self.estimand.policies
        paired = self.every_action and len(policies) > 1 and all(policy.answered for policy in policies)
        if self.changes and self.control is None and not paired:  # there centers know the state
            text += " If starts are draws of the initial distribution, it is the mean over that distribution, too."
        return text

    def _starts(self, rows: Columns) -> tuple[Assumption, ...]:
        if self.value == "contexts":
            rates = words.fixed_before("rates", "Rates were fixed without the certified rows", self.provenance, rows)
            return (rates,) if self.single(rows) else (rates, Assumption("episodes", _EPISODES.strip(), "stated"))
        units, more = self._units(rows), "" if self.single(rows) else _EPISODES
        text = f"Given all earlier {units}, the start of one is a draw from the initial distribution, whatever was done before."
        if self.value == "stated starts":
            counted = f"All {units} that start at its states count: nothing is assumed about how often they came."
            text = f"{words.start_assumption(rows).text} {counted}"
        return (Assumption("start", text + more, "stated"),)

    def single(self, rows: Columns) -> bool:
        """Whether units are rows, not episodes."""
        return rows.single_rows(drawn=self.drawn)

    def _units(self, rows: Columns) -> str:
        return "decisions" if self.single(rows) else "episodes"

    def _length(self, rows: Columns) -> str:
        """Rates and pilot are made for a number of units: the log's own is an assumption, one that was planned is not."""
        units, text = self._units(rows), ""
        if self.beforehand:
            text = (
                f"The number of rows was planned before the log was seen, for about {self.planned} {units}; it may have stopped "
                "earlier or later than that."
            )
        else:
            text = (
                f"The number of rows was fixed beforehand, for about {self.planned} {units}: it is the log's own length, and the "
                "log did not end because of what it showed (planned_rows= states another number)."
            )
        if self.control is None:
            return text
        borders = ", ".join(map(str, self.control.borders))
        return f"{text} The rows where blocks of predictions begin were fixed before, too: {borders}."

    def provenances(self) -> tuple[Provenance, ...]:
        return (self.provenance,)

    def work(self, question: Question) -> float:
        """A pass over the rows for every step of the search, and the control variate."""
        rows = question.first
        width = 0.0 if self.control is None else float(rows.layout.slots * (1 + rows.layout.observation_dim))
        return float(len(rows)) * (400.0 + width)

    def without_rows(self) -> PropensityProof:
        if self.control is not None and self.control.holds_rows:
            raise InvalidInput(
                "Stored predictions are one for every row: the certificate would show rows. Use the linear control variate, "
                'Propensities(model="linear"), or none.'
            )
        return replace(self, estimand=self.estimand.without_rows(), targets=(None,) * len(self.targets))

    def reviews(self, question: Question, claims: Claims, sums: Sums) -> tuple[Review, ...]:
        del claims, sums
        rows = question.first
        if self.provenance.saw((rows.rows.start, rows.rows.stop), rows.log_hash):
            raise VerificationError("Rates were chosen with rows that are certified, or with rows after them.")
        bets = "no bet can lose everything" + ("" if self.rates else "; its rate comes from earlier rows")
        fixed = "was" if self.control is None else "and the rows where blocks of predictions begin were"
        drawn = "the propensities: whether actions were drawn with the probabilities that the log states"
        believed = (
            *([drawn] if self._weighs else []),
            f"whether the planned number, {self.planned}, {fixed} fixed before looking at the log",
        )
        return (Review((bets,), believed),)


_DENSITIES = (
    "min_propensity= bounds ratios of probabilities, which are at most 1. Actions of this log are numbers and have densities: "
    "that of the policy may be as large as it likes. State the largest ratio itself (max_ratio=), or nothing."
)
_DATA = (
    "Given everything before a row, its state and its action, reward and next state came from the environment. Rows are in the "
    "order of time, none was copied, and none was dropped because of its action, reward or next state."
)
_POLICIES = {
    "answers": "The policy takes the logged actions with the probabilities that it states.",
    "target columns": "The policy takes the logged actions with the probabilities that the log's own columns state.",
    "mixture": "The policy of a row's block takes the logged action with the probability that the certificate states.",
    "behavior": (
        "Today's policy is the one that made the log. If it changed from row to row, its value is the mean over the certified "
        "rows of what it was worth at each of them."
    ),
}
_EPISODES = (
    " Episodes did not influence one another while running, but the behavior may change between them. None was left out, and "
    "none was cut because of what would have followed."
)
