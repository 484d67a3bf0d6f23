"""The proof from propensities: how rows are weighed, what was stated about propensities, and the control variate.

Rates of the bets on the population value are computed here from earlier rows, so that nothing is left to be believed about
them. A linear control variate is fitted again when verifying; stored predictions, and the rates for the value over these
contexts, are believed to come from earlier rows, and that is said.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bondic.core.assumptions import (
    fixed_before,
    process_assumption,
    range_assumption,
    reward_assumption,
    start_assumption,
)
from bondic.core.claims import Assumption, Claim, End, ErrorBudget, Guarantee, Side, State, ends_of
from bondic.core.classes.balls import Provenance
from bondic.core.columns import Columns, RowRange
from bondic.core.errors import InvalidInput, VerificationError, refuse
from bondic.core.proof import Asked, Claims, Proof, Review
from bondic.core.propensities.bets import Value, Way, contexts_claim, population_claim, starts_claim, ways
from bondic.core.propensities.control import Control, LinearControl
from bondic.core.propensities.control_fit import episode_control, linear_control, same_control
from bondic.core.propensities.decision_values import Stated
from bondic.core.propensities.decisions import (
    Decisions,
    Target,
    check_draws,
    refuse_other_starts,
    strata_of,
)
from bondic.core.propensities.strata import Strata
from bondic.core.registry import register
from bondic.core.sums.forms import Sums
from bondic.core.terms import in_full


@register("proof", "propensities")
@dataclass(frozen=True, eq=False)
class PropensityProof(Proof):
    """The ends (21), (21a), (22) for rows or episodes with propensities."""

    asked: Asked
    budget: ErrorBudget  # parts: lower, upper
    side: Side
    value: Value  # "population"; "contexts": the certified ones; "stated starts": an exact list
    stated: Stated
    planned: int  # units that rates are made for
    target: Target | None  # π at the logged states; None: columns of the log, or to be asked for again
    control: Control | None  # q̂; None: rewards are weighed as they are
    rates: dict[End, tuple[float, ...]] | None  # for "contexts": one for every way to weigh
    provenance: Provenance  # of the rates
    beforehand: bool = False  # whether `planned` was stated; else it is the log's own number

    def __post_init__(self) -> None:
        missing = any(not (self.budget.get(end) or 0.0) > 0 for end in ends_of(self.side))
        refuse(missing, "An end has no part of alpha.")
        refuse(self.planned < 1, "No rows were planned.")
        refuse(
            (self.rates is None) != (self.value in ("population", "stated starts")),
            "Rates are stored for the value over contexts, and only there.",
        )
        given = () if self.rates is None else tuple(rate for rates in self.rates.values() for rate in rates)
        refuse(not all(np.isfinite(rate) and rate > 0 for rate in given), "A rate is not positive.")
        lacking = self.rates is not None and any(end not in self.rates for end in ends_of(self.side))
        refuse(lacking, "An end has no rates.")

    @property
    def guarantee(self) -> Guarantee:
        return "finite-sample"

    @property
    def needs_replay(self) -> tuple[str, ...]:
        """The rows where predictions change, and rates that are stored; those of the population value are computed here."""
        fitted_again = isinstance(self.control, LinearControl)
        control = () if self.control is None else ("number",) if fitted_again else ("control",)
        return control if self.rates is None else (*control, "start")

    @property
    def logged_answers(self) -> Target | None:
        return self.target

    def columns(self, rows: Columns) -> Decisions:
        """What is weighed, as seen from the lower end."""
        asked = self.control is not None and self.control.by_action
        every = asked if self.target is None else self.target.probs.ndim == 2
        return rows.decisions(self.target, every_action=every, drawn=self.value == "population")

    def ways(self, columns: Decisions) -> tuple[Way, ...]:
        return ways(columns, self.control, self.stated)

    def strata(self, rows: Columns, columns: Decisions) -> Strata | None:
        """The units by stated starts, where these are what the value is over."""
        return strata_of(rows, columns) if self.value == "stated starts" else None

    def claims(self, rows: Columns, sums: Sums) -> Claims:
        del sums
        return self.claims_on(rows, self.columns(rows))

    def claims_on(self, rows: Columns, columns: Decisions) -> Claims:
        """The ends, from columns that were read before."""
        if self.value == "population":
            check_draws(rows, columns)
        if self.value == "contexts" and not rows.own_starts:
            refuse_other_starts(rows)
        strata = self.strata(rows, columns)
        return Claims(tuple(self._claim(columns.seen_from(end), strata) for end in ends_of(self.side)))

    def _claim(self, columns: Decisions, strata: Strata | None) -> Claim:
        probability, found = self.budget[columns.end], self.ways(columns)
        if self.rates is not None:
            return contexts_claim(columns, found, self.rates[columns.end], probability)
        if strata is not None:
            return starts_claim(columns, found, strata, self.stated, self.planned, probability)
        return population_claim(columns, found, self.stated, self.planned, probability)

    def assumptions(self, rows: Columns, *, rejected: bool) -> tuple[Assumption, ...]:
        joint: State = "rejected" if rejected else "stated"
        return (
            Assumption("data", _DATA, joint),
            Assumption("propensities", self._believed(), joint),
            *self._caps(joint),
            reward_assumption(rows, joint),
            *range_assumption(rows.terms, joint),
            Assumption("values", "Nothing is assumed about q*: no class of functions is used.", "checked"),
            *self._control(),
            Assumption("policy", self._policy_text(rows), "stated"),
            self._start(rows),
            Assumption("length", self._length(rows), "stated"),
            process_assumption(rows),
        )

    def _believed(self) -> str:
        text = (
            "The propensities are right: given everything before a row and its state, the logged action was drawn with "
        )
        if self.stated.off_by == 1.0:
            return text + "the probability (density) that the log states."
        return text + f"a probability (density) of at most {in_full(self.stated.off_by)} times what the log states."

    def _caps(self, state: State) -> tuple[Assumption, ...]:
        cap = self.stated.cap()
        if cap is None or self.control is None or self.stated.off_by > 1.0:
            return ()
        text = f"No ratio of target to behavior probability exceeds {cap:.6g}, at any state and action (no logged one does)."
        least = self.stated.least_behavior_prob
        if least is not None:
            text += f" The behavior takes no action of the target policy with a probability below {in_full(least)}."
        return (Assumption("ratios", text, state),)

    def _control(self) -> tuple[Assumption, ...]:
        found = []
        if isinstance(self.control, LinearControl):
            found.append(
                Assumption("control", "Predictions for a block of rows are fitted on rows before it.", "checked")
            )
        elif self.control is not None:
            text = "Predictions for a block of rows come from rows before it, which stored predictions do not show."
            found.append(Assumption("control", text, "stated"))
        return tuple(found)

    def _policy_text(self, rows: Columns) -> str:
        if rows.policy_in_log:
            return "The target policy takes the logged actions with the probabilities that the log's own columns state."
        return "The target policy takes the logged actions with the probabilities that it states."

    def _start(self, rows: Columns) -> Assumption:
        if self.value == "contexts":
            text = (
                f"The value is the mean over the states of the {len(rows)} certified rows: nothing is assumed about where they "
                "come from. Rates were fixed without them"
            )
            return fixed_before("start", text, self.provenance, rows)
        if self.value == "stated starts":
            return Assumption("start", self._starts_text(rows), "stated")
        text = (
            "Given everything before it, the state of every row is a draw from the initial distribution, whatever was done "
            "before. The value is the mean over the population of states."
        )
        return Assumption("start", text if self._single(rows) else _EPISODES, "stated")

    def _starts_text(self, rows: Columns) -> str:
        given = start_assumption(rows).text
        if self._single(rows):
            return f"{given} Every decision at one of its states counts: nothing is assumed about how often which of them came."
        return (
            f"{given} Every episode that starts at one of its states counts: nothing is assumed about how often which of them "
            "came. Episodes did not influence one another while running, but the behavior may change between them. None was left "
            "out, and none was cut because of what would have followed."
        )

    def _single(self, rows: Columns) -> bool:
        return rows.single_rows(drawn=self.value == "population")

    def _length(self, rows: Columns) -> str:
        """Rates and pilot are made for a number of units: the log's own is an assumption, one that was planned is not."""
        single = self._single(rows)
        units = "decisions" if single else "episodes"
        text = f"{self.planned} {units} were planned before the log was seen; it may have stopped earlier or later than that."
        if not self.beforehand:
            text = (
                f"The number of {units}, {self.planned}, was fixed beforehand: it is the log's own length, and the log did not "
                "end because of what it showed (planned= states another number)."
            )
            if not single:
                text += (
                    " A fixed number of rows is not enough: how many episodes fit into them depends on what happens in them. Any "
                    "planned= that was chosen without the log will do."
                )
        if self.control is None:
            return text
        return (
            text
            + f" The rows where blocks of predictions begin were fixed before, too: {_listed(self.control.borders)}."
        )

    def _fixed(self) -> str:
        return f"the planned number, {self.planned}, " + (
            "was fixed" if self.control is None else "and the rows where blocks of predictions begin were fixed"
        )

    def provenances(self) -> tuple[Provenance, ...]:
        return (self.provenance,)

    def work(self, rows: Columns) -> float:
        """A pass over the rows for every step of the search, and the control variate."""
        width = 0.0 if self.control is None else float(rows.layout.slots * (1 + rows.layout.observation_dim))
        return float(len(rows)) * (400.0 + width)

    def without_rows(self) -> PropensityProof:
        if self.control is not None and not isinstance(self.control, LinearControl):
            raise InvalidInput(
                "Stored predictions are one for every row: the certificate would show rows. Use the linear control variate, "
                'Propensities(model="linear"), or none.'
            )
        return replace(self, asked=self.asked.without_rows(), target=None)

    def reviews(self, rows: Columns, claims: Claims, sums: Sums) -> tuple[Review, ...]:
        del claims, sums
        if self.provenance.saw((rows.rows.start, rows.rows.stop), rows.log_hash):
            raise VerificationError("Rates were chosen with rows that are certified, or with rows after them.")
        bets = "no bet can lose everything" + ("; its rate comes from earlier rows" if self.rates is None else "")
        believed = [
            "the propensities: whether actions were drawn with the probabilities that the log states",
            f"whether {self._fixed()} before looking at the log",
        ]
        return Review((bets,), tuple(believed)), self._review_control(rows)

    def _review_control(self, rows: Columns) -> Review:
        control = self.control
        if control is None:
            return Review()
        if not isinstance(control, LinearControl):
            return Review()
        stretch = rows.restricted(RowRange(control.begun, rows.rows.stop))
        columns = self.columns(stretch)
        again = (linear_control if columns.episodes is None else episode_control)(columns, control.borders)
        near = same_control(again, control, columns.limits.width)
        refuse(not near, "The control variate is not the one that earlier rows give.")
        return Review(("the control variate of every block was fitted again on the rows before it",))


_DATA = (
    "Given everything before a row, its state and its action, reward and next state came from the environment. Rows are in the "
    "order of time, none was copied, and none was dropped because of its action, reward or next state."
)
_EPISODES = (
    "Given all earlier episodes, every episode starts from the initial distribution. Episodes did not influence one another "
    "while running, but the behavior may change between them. None was left out, and none was cut because of what would have "
    "followed."
)


def _listed(borders: tuple[int, ...]) -> str:
    return ", ".join(map(str, borders))
