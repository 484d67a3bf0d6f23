"""What a proof is: an estimand as data, the data that a bound needs, and the trusted recomputation of what it shows.

A proof is a frozen dataclass registered under a name; a certificate holds its fields. Verification knows nothing else. What the
certificate says about where its choices come from is compared with the log where it can be (`Review`); the rest is listed, so
that it is not taken for checked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, Self

import numpy as np

from bondic.core.assumptions import learning_assumption
from bondic.core.balls import Provenance
from bondic.core.bounded import FloatArray
from bondic.core.claims import Assumption, Claim, ErrorBudget, Guarantee, Rejection, Side
from bondic.core.codec import first_difference, instances
from bondic.core.columns import Kind, RowRange, Starts
from bondic.core.errors import InvalidInput, refuse
from bondic.core.kernels.base import fingerprint
from bondic.core.propensities.ratios import Target
from bondic.core.question import PolicyValue, Question
from bondic.core.registry import from_outside, kind, registered
from bondic.core.sums.forms import Sums
from bondic.core.terms import Terms, in_full, make_terms

MAX_DRAWS, MAX_POLICIES = 4096, 64
"""Actions drawn at a state, and policies of one question: what a foreign certificate may ask for."""
_SAME_PLAN = 1e-4
"""Relative: other machines, engines and portions of rows changed plans by 1e-8 at most. A plan is made again to be used, so what
is granted here changes no answer."""
_SHOWN_STATES, _SHOWN_NUMBERS = 3, 4


# --- the question ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class StoredStart:
    """The initial states and their kind; a sample may be withheld."""

    observations: FloatArray | None
    weights: FloatArray
    kind: Kind
    count_fixed: bool
    from_log: bool  # read off the log: verification finds them there again


@dataclass(frozen=True, eq=False)
class Answers:
    """The policy at all next states of the log and at the initial states, where they are stored."""

    next: FloatArray | None
    initial: FloatArray | None
    discrete: bool
    exact: bool


Learned = tuple[tuple[int, Provenance], ...]
"""What a policy says that it was learned on, and from which row on that holds: 0, or the first row of a block of a mixture."""


@dataclass(frozen=True, eq=False)
class StoredPolicy:
    """One part c J(pi; d) of an estimand."""

    coefficient: float
    known_by: Literal["answers", "target columns", "behavior", "mixture"]
    start: StoredStart
    answers: Answers
    learned: Learned = ()

    def __post_init__(self) -> None:
        empty = self.answers.initial is not None and self.answers.initial.shape[0] == 0
        refuse(
            empty != self.known_by_log,
            "Answers are stored exactly where the log does not hold the policy's probabilities.",
        )
        begun = [row for row, _ in self.learned]
        refuse(len(begun) > MAX_POLICIES, f"A policy was learned at most {MAX_POLICIES} times.")
        ordered = bool(begun) and begun == sorted(set(begun))
        refuse(
            self.known_by == "mixture" and not ordered, "The blocks of a mixture are out of order, or there are none."
        )

    @property
    def known_by_log(self) -> bool:
        """The policy is known at the logged actions alone, or made the log: it has no answers, and none is needed."""
        return self.known_by != "answers"

    @property
    def answered(self) -> bool:
        """Whether the policy was queried at the logged states: its probabilities of all actions are known there."""
        return self.known_by in ("answers", "mixture")

    @property
    def kind(self) -> tuple[float, str, str, bool, Learned]:
        """Coefficient, how the policy is known, what its starts are, and what it was learned on."""
        return self.coefficient, self.known_by, self.start.kind, self.start.count_fixed, self.learned

    @property
    def actions(self) -> int | None:
        """How many actions the policy answers for; None where they are numbers, or no answer is held."""
        held = [one for one in (self.answers.initial, self.answers.next) if one is not None and one.size]
        return int(held[0].shape[1]) if held and self.answers.discrete else None

    def without_rows(self) -> StoredPolicy:
        """The same without anything that is a single row."""
        answers = replace(self.answers, next=None)
        if self.known_by_log:
            return replace(self, start=replace(self.start, observations=None)) if self.start.kind != "exact" else self
        if self.start.kind == "exact":  # the list is part of the problem, and no row of the log
            return replace(self, answers=answers)
        return replace(self, start=replace(self.start, observations=None), answers=replace(answers, initial=None))

    def check(self, part: PolicyValue) -> bool:
        """Whether these columns are those of the part: coefficient and starts."""
        start, mine = self.start, part.columns.initial_states
        same = part.coefficient == self.coefficient
        same = same and mine.kind == start.kind and mine.count_fixed == start.count_fixed
        same = same and np.allclose(mine.weights, start.weights, rtol=1e-12, atol=0.0)
        return same and (start.observations is None or np.array_equal(mine.observations, start.observations))


@dataclass(frozen=True, eq=False)
class Estimand:
    """What a certificate is about, as data: the value of which policies, on which rows of which log, under which terms."""

    log_hash: str
    terms: Terms
    rows: tuple[int, int]
    seed: int
    draws: int
    initial_draws: int | None
    policies: tuple[StoredPolicy, ...]  # the parts of the estimand, in order

    def __post_init__(self) -> None:
        refuse(make_terms(**asdict(self.terms)) != self.terms, f"There is no problem with {self.terms}.")
        refuse(self.seed < 0, f"The seed {self.seed} is negative.")
        refuse(not 1 <= len(self.policies) <= MAX_POLICIES, f"A question is about 1 to {MAX_POLICIES} policies.")
        most = 1 if self.initial_draws is None else self.initial_draws
        fine = 1 <= self.draws <= MAX_DRAWS and 1 <= most <= 100 * MAX_DRAWS
        refuse(not fine, f"{self.draws} and {self.initial_draws} draws at a state: at most {MAX_DRAWS} are made.")

    @property
    def start(self) -> StoredStart:
        """Where the first policy starts."""
        return self.policies[0].start

    @property
    def trained_on(self) -> tuple[Provenance, ...]:
        """What the policies were learned on, as they say."""
        return tuple(provenance for policy in self.policies for _, provenance in policy.learned)

    def same_log(self, other: Estimand) -> bool:
        """Whether both are about one log, with the same statements."""
        return (self.log_hash, self.terms, self.seed) == (other.log_hash, other.terms, other.seed)

    def without_rows(self) -> Estimand:
        """The same question without anything that is a single row."""
        return replace(self, policies=tuple(policy.without_rows() for policy in self.policies))

    def check_learned(self) -> None:
        """InvalidInput where a policy says that it was learned on rows that are certified, or on later ones."""
        for policy in self.policies:
            for row, provenance in policy.learned:
                first = max(row, self.rows[0])
                if provenance.saw((first, self.rows[1]), self.log_hash) and provenance.rows is not None:
                    begin, stop = provenance.rows
                    other = (
                        "" if provenance.log_hash else " If these are rows of another log, state it by `fitted_log`."
                    )
                    raise InvalidInput(
                        f"The policy says that it was learned on rows {begin} to {stop - 1} of this log, and it is certified "
                        f"from row {first} on: its training rows flatter it, and no interval covers that. Certify later rows "
                        f"only, problem.select({stop}); or hold rows out while it is learned, LearnedPolicy(fit, rows=0.5) "
                        f"(--policy SPEC of the function that learns, --with learn_rows=0.5).{other}"
                    )
            begun = min((row for row, _ in policy.learned), default=0)
            refuse(
                policy.known_by == "mixture" and begun > self.rows[0],
                f"The first policy of the mixture answers from row {begun} on, and row {self.rows[0]} is certified.",
            )

    def learning(self) -> tuple[Assumption, ...]:
        """What the policies were learned on, as they say."""
        names = ("learning", "learning (other policy)")
        return tuple(
            learning_assumption(name, policy.learned, mixture=policy.known_by == "mixture")
            for name, policy in zip(names, self.policies, strict=False)
            if policy.learned
        )

    def check(self, question: Question) -> None:
        """VerificationError unless the columns are those of the estimand: log, statements, rows, starts."""
        columns = question.first  # the parts agree in all that is compared here
        refuse(columns.log_hash != self.log_hash, "The log is not the one that was certified (content hashes differ).")
        same = columns.terms == self.terms and (columns.rows.start, columns.rows.stop) == self.rows
        same = same and columns.seed == self.seed and len(question.parts) == len(self.policies)
        same = same and all(mine.check(part) for mine, part in zip(self.policies, question.parts, strict=True))
        refuse(not same, "The columns are not those of the certified estimand.")


# --- what is claimed, and what was compared -------------------------------------------------------------


@dataclass(frozen=True)
class Claims:
    """What a proof shows: the end points that it claims, and tests of what it assumes."""

    ends: tuple[Claim, ...]
    tests: tuple[Rejection, ...] = ()

    @property
    def rejected(self) -> bool:
        return any(test.rejected for test in self.tests)


@dataclass(frozen=True)
class Review:
    """What was compared, and what is the certificate's own statement; `headline` if no reader may miss it.

    `stated` is what somebody chose and no planner would have: numbers of the question and of the plan, in words.
    """

    checks: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    headline: tuple[str, ...] = ()
    stated: tuple[str, ...] = ()

    @staticmethod
    def all_of(reviews: Sequence[Review]) -> Review:
        found = zip(*((f.checks, f.unchecked, f.headline, f.stated) for f in reviews), strict=True)
        return Review(*(sum(items, ()) for items in found))


def check_origin(proof: object) -> Review:
    """Proofs, kernels, functions, classes and noise bounds from outside the library: their own code was run and believed."""
    outside = {type(value) for value in instances(proof, object) if from_outside(value)}
    names = {cls: name for cls in outside if (name := registered(cls)) is not None}
    known = sorted(f"the {kind} {name!r} of the module {cls.__module__}" for cls, (kind, name) in names.items())
    unchecked = tuple(
        f"{one} is not part of bondic: its formulas were run, whether they are true is not known" for one in known
    )
    return Review(unchecked=unchecked, headline=tuple(known))


def check_rows(rows: RowRange, log_rows: int, choices: tuple[Provenance, ...]) -> Review:
    """Which rows are certified; rows left out after them may have been left out because of what they say."""
    front, end = rows.start, log_rows - rows.stop
    text = f"certified are rows {rows.start} to {rows.stop - 1} of {log_rows}"
    left = [f"{count} {where} them" for count, where in ((front, "before"), (end, "after")) if count]
    checks = (f"{text}; left out: {', '.join(left)}" if left else text,)
    unchecked = []
    if front and not any(choice.rows is not None and choice.rows[1] >= front for choice in choices):
        unchecked.append(
            f"why the first {front} rows were left out: the certificate names no choice that was made with them"
        )
    if end:
        unchecked.append(f"why the last {end} rows were left out: the end may have been picked with the rows in view")
    return Review(checks, tuple(unchecked), (f"the choice of rows ({end} left out at the end)",) if end else ())


def review_question(estimand: Estimand) -> Review:
    """What whoever asks may choose, and an end may be better with: ranges, draws of a policy, a number of starts."""
    start, terms, stated = estimand.start, estimand.terms, []
    if terms.value_range is not None:
        stated.append(f"values in [{in_full(terms.value_range[0])}, {in_full(terms.value_range[1])}]")
    if not terms.may_terminate:
        stated.append("the process never ends")
    if not all(policy.known_by_log or policy.answers.exact for policy in estimand.policies):
        stated.append(f"seed {estimand.seed} and {estimand.draws} actions of the policy drawn at a state")
    if start.from_log and start.count_fixed and start.kind == "sample":
        stated.append(f"the first {start.weights.size} starts of the log")
    elif start.from_log and start.kind == "sample":
        stated.append("starts are draws of one population")
    today = any(policy.known_by == "behavior" for policy in estimand.policies)  # episodes of both are the same
    if start.kind == "log" and not start.weights.all() and not today:
        stated.append(f"the last {int(np.count_nonzero(start.weights))} starts of the log")
    return Review(stated=tuple(stated))


def describe_start(states: Starts) -> str:
    """Number, kind, fingerprint and the first initial states."""
    rows = [_state(row) for row in states.observations[:_SHOWN_STATES]]
    more = ", …" if len(states) > _SHOWN_STATES else ""
    distinct = np.unique(states.observations, axis=0).shape[0]
    copies = f", {distinct} of them distinct" if distinct < len(states) else ""
    left = int(np.count_nonzero(states.weights == 0.0)) if states.kind == "log" else 0
    kind = {"log": "the starts of the log, a list", "exact": "exact list", "sample": "sample"}[states.kind]
    count = "1 state" if len(states) == 1 else f"{len(states)} states"
    print_of = fingerprint(states.observations, states.weights)
    later = f", the first {left} with weight 0" if left else ""
    return f"{kind} of {count}{copies}{later}: {', '.join(rows)}{more} (sha256 {print_of})"


def _state(row: np.ndarray) -> str:
    more = ", …" if row.size > _SHOWN_NUMBERS else ""
    return "[" + ", ".join(f"{value:.4g}" for value in row[:_SHOWN_NUMBERS]) + more + "]"


# --- the proof ------------------------------------------------------------------------------------------


@kind("proof")
class Proof(ABC):
    """One way to prove an interval: fields are data, methods recompute from the rows.

    Nothing that a method returns may be taken from a field that says what was found; everything is computed again.
    """

    estimand: Estimand
    budget: ErrorBudget  # of alpha, which is spent on the events that the proof rests on
    side: Side

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee: ...

    @property
    def needs_replay(self) -> tuple[str, ...]:
        """Assumptions on when something was chosen, by name: the proof itself cannot show them."""
        return ()

    @property
    def has_plan(self) -> bool:
        """Whether anything was chosen that could be chosen with the rows in view: a part of alpha, a rate, a first row."""
        return bool(self.needs_replay)

    @property
    def any_length(self) -> bool:
        """Whether the claims hold at every number of rows at once: then the log may be looked at again as it grows."""
        return False

    @abstractmethod
    def claims(self, question: Question, sums: Sums) -> Claims:
        """All that the proof shows on the rows of the question, with outward rounding."""

    @abstractmethod
    def assumptions(self, question: Question, *, rejected: bool) -> tuple[Assumption, ...]:
        """Everything that the guarantee rests on, in words."""

    def check_learned(self) -> None:
        """InvalidInput where a policy says that it was learned on rows that are certified."""
        self.estimand.check_learned()

    def all_assumptions(self, question: Question, *, rejected: bool) -> tuple[Assumption, ...]:
        """Those of this kind of proof, and what the policies say that they were learned on."""
        return (*self.assumptions(question, rejected=rejected), *self.estimand.learning())

    def reviews(self, question: Question, claims: Claims, sums: Sums) -> tuple[Review, ...]:
        """What only this kind of proof can compare, or has to name as not compared; VerificationError refuses it."""
        del question, claims, sums
        return ()

    @property
    def logged_answers(self) -> tuple[Target | None, ...]:
        """Of every policy, its answers at the logged states where the proof holds them."""
        return (None,) * len(self.estimand.policies)

    def without_rows(self) -> Self:
        """The same proof without anything that is a single row."""
        return replace(self, estimand=self.estimand.without_rows())  # type: ignore[type-var]

    def provenances(self) -> tuple[Provenance, ...]:
        """Where the choices behind the proof come from, as it says."""
        return ()

    def work(self, question: Question) -> float:
        """About how many pairs of points `claims` runs over."""
        return float(len(question.rows) * len(question.parts))


def check_same_plan(stored: Proof, again: Proof, *, entrywise: bool = False) -> None:
    """VerificationError with the first piece of a proof that was made again and came out differently.

    `entrywise` where something of the stored plan is used on.
    """
    place = first_difference(stored, again, "proof", _SAME_PLAN, entrywise=entrywise)
    refuse(
        bool(place),
        f"{place} is not what the rows before it give: the plan was made with other rows, or by another rule.",
    )
