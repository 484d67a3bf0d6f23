"""Re-check a certificate against a log with the trusted core alone, whatever kind of proof it holds.

The answer is the interval that is computed here. A claim is not compared number by number: it passes if it says the same in the
digits that are printed, or less. When a plan was made cannot be seen in it; `replay` makes it again from the rows before each
block, and then nothing of the stored plan is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bondic.core import balls, separate
from bondic.core.cells import paired
from bondic.core.cells import proof as cells
from bondic.core.certificate import DAMAGED, Certificate, check_certificate, compute_digest
from bondic.core.claims import Assumption, Claim, Conclusion, Guarantee, Side, State, Status, conclude
from bondic.core.codec import decode
from bondic.core.columns import Columns
from bondic.core.dual import proof as dual
from bondic.core.errors import BondicError, VerificationError, clean_text, refuse
from bondic.core.kernels import features, leaves
from bondic.core.kernels.normal_form import Layout
from bondic.core.printed import interval_text, last_digit
from bondic.core.proof import (
    Estimand,
    Proof,
    Review,
    check_origin,
    check_rows,
    check_same_plan,
    describe_start,
    review_question,
)
from bondic.core.propensities import control
from bondic.core.propensities import proof as propensities
from bondic.core.question import Question
from bondic.core.sequential import plan
from bondic.core.sequential import proof as sequential
from bondic.core.subgroups import Labeling, conclude_by_subgroup, subgroup_assumption
from bondic.core.sums.forms import Sums
from bondic.core.sums.reference import REFERENCE
from bondic.core.terms import ValueRange

KNOWN = (
    dual, sequential, propensities, cells, paired, separate, plan, control, balls, features, leaves,
)  # fmt: skip
"""What a certificate can name is registered by these modules: proofs, and what they are written with."""
UserFunctions = Mapping[str, Callable[..., Any]]

UNREPLAYED = "when the plan was made"
"""Of a headline: the plan was not made again."""
_ONE_SUM = 1e-12
"""A few parts are added up: what another order of summation may change, relative to them."""
_BORDER = 0.05
"""Of one unit of the last printed digit: an end at a border of rounding may be printed one unit further in by another engine."""


@dataclass(frozen=True)
class Replayed:
    """A proof whose plan was made again, each block from a log that was cut before it."""

    proof: Proof
    made: tuple[str, ...] = ()  # assumptions that this shows, by name
    options: tuple[str, ...] = ()  # that the planner would not have chosen: when they were is not known
    stated: tuple[str, ...] = ()  # by a user, in words


@dataclass(frozen=True)
class Verification:
    """A passed verification: the recomputed interval (use this one) and what was checked."""

    low: float  # lower end, recomputed; that of the value range after a rejection
    high: float  # upper end, likewise
    status: str  # the name of a Status: INTERVAL, TRIVIAL or REJECTED
    alpha: float  # probability that the interval may miss the value
    side: Side  # which ends were computed
    guarantee: Guarantee  # "none": the formula was recomputed, and carries no guarantee
    claims: tuple[Claim, ...]  # the end points, recomputed part by part
    assumptions: tuple[Assumption, ...]  # recomputed: what the interval rests on
    checks: tuple[str, ...]  # what was compared and found right, in words
    unchecked: tuple[str, ...]  # what a reader might take for checked
    headline: tuple[str, ...]  # of the unchecked, what no reader may miss: belongs beside the interval
    stated: tuple[str, ...]  # what the maker chose and no planner would have, in words: belongs there, too
    rows: tuple[int, int]  # certified: first row and the row after the last
    left_out: tuple[int, int]  # rows of the log before and after them
    start: str  # the initial states in words
    subgroups: Mapping[str, Conclusion] = field(
        default_factory=dict
    )  # by subgroup of the starts, where they were requested


@contextmanager
def as_verification_error() -> Iterator[None]:
    """Whatever a certificate leads to is a VerificationError; numbers that are not finite end as errors, not as warnings."""
    try:
        with np.errstate(all="ignore"):
            yield
    except VerificationError as problem:
        raise VerificationError(clean_text(problem)) from problem
    except (BondicError, *DAMAGED) as problem:
        words = "cannot be evaluated" if isinstance(problem, BondicError) else f"is damaged ({type(problem).__name__})"
        raise VerificationError(clean_text(f"The certificate {words}: {problem}")) from problem


def opened(certificate: Certificate) -> Estimand:
    """The estimand, once format and digest are right."""
    check_certificate(certificate)
    same = compute_digest(certificate.body, certificate.arrays) == certificate.digest
    refuse(not same, "The digest does not match: the certificate was changed after it was made.")
    return certificate.estimand


def read_proof(certificate: Certificate, layout: Layout, functions: UserFunctions | None = None) -> Proof:
    """The proof itself, for points of this layout; `functions` are feature functions of the user, by their labels."""
    supplies = {"layout": layout, "functions": functions or {}}
    found: Proof = decode(Proof, certificate.body["proof"], certificate.arrays, "proof", **supplies)
    return found


def verify_columns(
    certificate: Certificate,
    question: Question,
    log_rows: int,
    *,
    policy: Review,
    start: Review,
    functions: UserFunctions | None = None,
    replay: Callable[[Proof], Replayed] | None = None,
    labels: Labeling | None = None,
    sums: Sums = REFERENCE,
) -> Verification:
    """Recompute the interval from the proof and the columns; VerificationError where the certificate claims more.

    `policy` and `start` say how the columns were compared with the policies and with the initial states that were given:
    nothing is read or queried here. The log has `log_rows` rows in all. With `labels` the subgroups of starts get intervals.
    """
    opened(certificate).check(question)
    columns, limits = question.first, question.limits
    stored = read_proof(certificate, columns.layout, functions)
    stored.check_learned()
    _check_stated(certificate, limits, stored.side)
    alpha, spent = stored.budget.alpha, math.fsum(stored.budget.parts.values())
    refuse(not spent >= alpha * (1 - 1e-9), f"The events spend {spent} of alpha = {alpha}.")
    _check_workload(stored.work(question), columns, log_rows)
    again = None if replay is None else replay(stored)
    proof = stored if again is None else again.proof
    check_same_plan(stored, proof)
    claims = proof.claims(question, sums)
    result = conclude(limits, claims.ends, claims.rejected, stored.side)
    _compare(certificate.conclusion, result)
    reviews = proof.reviews(question, claims, sums)
    rejected = result.status is Status.REJECTED
    refuse(
        certificate.assumptions != stored.all_assumptions(question, rejected=rejected),
        "The assumptions in the certificate are not those of its proof and rows.",
    )
    found = Review.all_of(
        [
            Review((*question.words, "digest matches the content", "log is the certified one")),
            policy,
            Review(tuple(f"{claim.end} end point recomputed" for claim in claims.ends)),
            *reviews,
            _review_plan(stored, again, described=certificate.planner is not None),
            review_question(stored.estimand),
            check_origin(stored),
            check_rows(columns.rows, log_rows, (*stored.provenances(), *stored.estimand.trained_on)),
            start,
            Review(("interval and status follow from the end points", "assumptions are those of the proof")),
        ]
    )
    shown = proof.all_assumptions(question, rejected=rejected)
    parts = {} if labels is None else conclude_by_subgroup(proof, question, labels, sums)
    shown += () if labels is None else (subgroup_assumption(proof, question),)
    rows = (columns.rows.start, columns.rows.stop)
    return Verification(
        result.low,
        result.high,
        result.status.name,
        proof.budget.alpha,
        proof.side,
        proof.guarantee,
        claims.ends,
        _as_known(shown, stored.needs_replay, () if again is None else again.made),
        found.checks,
        found.unchecked,
        tuple(sorted(found.headline, key=lambda item: item != UNREPLAYED)),
        found.stated,
        rows,
        (rows[0], log_rows - rows[1]),
        describe_start(columns.initial_states),
        {name: one.conclusion for name, one in parts.items()},
    )


_FREE_PAIRS, _PAIRS_PER_PAIR = 4e9, 1000.0
"""Some seconds of work for any certificate; beyond, a multiple of what the pairs of the log's own rows cost."""


def _check_workload(pairs: float, columns: Columns, log_rows: int) -> None:
    """The certificate must not decide how long its sums take: `pairs` is what they would run over."""
    own = float((1 + max(columns.next_draws, 1)) * log_rows)
    allowed = _FREE_PAIRS + _PAIRS_PER_PAIR * own * own * max(columns.layout.slots, 1)
    refuse(
        pairs > allowed,
        f"Evaluating this certificate would take about {pairs:.2g} pairs of points, and {allowed:.2g} are allowed for a log of "
        f"{log_rows} rows: it holds too many centers, starts or terms of kernels.",
    )


# --- when the plan was made -----------------------------------------------------------------------------


def _review_plan(stored: Proof, again: Replayed | None, *, described: bool) -> Review:
    """A plan that was made again, with options of unknown origin; or the certificate's word for it."""
    if not stored.has_plan:
        return Review()
    if again is None:
        text = f"{UNREPLAYED}: that it comes from earlier rows is the certificate's own statement"
        text += "; the policy (--policy) makes it again from them" if described else ", and it cannot be made again"
        return Review(unchecked=(text,), headline=(UNREPLAYED,))
    checks = ("plan made again from the rows before each block",)
    chosen = (f"when the options of the plan were chosen: {', '.join(again.options)}",) if again.options else ()
    return Review(checks, chosen, chosen, again.stated)


def _as_known(items: tuple[Assumption, ...], planned: tuple[str, ...], made: tuple[str, ...]) -> tuple[Assumption, ...]:
    """When a plan was made is a statement of the certificate's maker, unless it was made again."""

    def state(item: Assumption) -> State:
        known: State = "checked" if item.name in made else "stated"
        return known if item.name in planned and item.state != "rejected" else item.state

    return tuple(replace(item, state=state(item)) for item in items)


# --- what was claimed against what comes out ------------------------------------------------------------


def _check_stated(certificate: Certificate, limits: ValueRange, side: Side) -> None:
    """The claimed interval follows from the claimed end points."""
    stated, claimed = certificate.conclusion, certificate.claims
    follows = conclude(limits, claimed.ends, claimed.rejected, side)
    for name in ("low", "high"):
        expected, other = getattr(follows, name), getattr(stated, name)
        refuse(
            not math.isclose(other, expected, rel_tol=_ONE_SUM, abs_tol=_ONE_SUM * limits.width),
            f"The interval's {name} end is {expected!r} by the end points, {other!r} in the certificate.",
        )
    refuse(
        stated.status is not follows.status,
        f"The status is {follows.status.name} by the end points, {stated.status.name} in the certificate.",
    )


def _compare(stated: Conclusion, mine: Conclusion) -> None:
    """The claimed interval agrees with mine in the digits that are printed, or holds it.

    Engines and machines round differently, so no other digits are compared: the answer is my own interval. A claim may say less
    than I find (TRIVIAL for INTERVAL), never more.
    """
    room = _BORDER * last_digit(mine.low, mine.high)
    inside = stated.low > mine.low + room or stated.high < mine.high - room
    inside &= interval_text(stated.low, stated.high) != interval_text(mine.low, mine.high)
    weaker = stated.status is Status.TRIVIAL and mine.status is Status.INTERVAL
    refuse(
        inside or not (stated.status is mine.status or weaker),
        f"The interval is {_words(mine)} when recomputed, {_words(stated)} in the certificate.",
    )


def _words(conclusion: Conclusion) -> str:
    """With all digits: two intervals may differ after those that are printed."""
    return f"[{conclusion.low!r}, {conclusion.high!r}] ({conclusion.status.name})"
