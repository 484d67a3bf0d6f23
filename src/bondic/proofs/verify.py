"""Re-check a certificate against a log with the trusted core alone, whatever kind of proof it holds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bondic.claims import Assumption, Claim, Conclusion, Held, Rejection, Side, Status, conclude, held
from bondic.data.initial import InitialStates
from bondic.data.log import Log
from bondic.errors import BondicError, VerificationError
from bondic.proofs.certificate import Certificate, UserFunctions, check_certificate, compute_digest
from bondic.proofs.limits import DAMAGED, check_workload, clean_text
from bondic.proofs.proof import Claims, Proof, Retest
from bondic.proofs.review import Review, check_origin, check_rows, check_start, describe_start
from bondic.rows import Rows
from bondic.sums.forms import STANDARD, Sums
from bondic.terms import ValueRange, range_of

_OTHER_MACHINES = 1e-12
"""What other orders of summation and other libraries of elementary functions may change, relative to the terms."""


@dataclass(frozen=True)
class Verification:
    """A passed verification: the recomputed interval (use this one) and what was checked."""

    low: float  # lower end, recomputed; that of the value range after a rejection
    high: float  # upper end, likewise
    status: str  # the name of a Status: INTERVAL, TRIVIAL or REJECTED
    alpha: float  # probability that the interval may miss the value
    side: Side  # which ends were computed
    guarantee: Held  # "conditional" on what bondic chose; "none": the formula was recomputed, and carries no guarantee
    assumptions: tuple[Assumption, ...]  # recomputed: what the interval rests on
    checks: tuple[str, ...]  # what was compared and found right, in words
    unchecked: tuple[str, ...]  # what a reader might take for checked
    headline: tuple[str, ...]  # of the unchecked, what no reader may miss: belongs beside the interval
    rows: tuple[int, int]  # certified: first row and the row after the last
    left_out: tuple[int, int]  # rows of the log before and after them
    start: str  # the initial states in words


def verify_certificate(
    certificate: Certificate,
    log: Log,
    policy: Any = None,
    *,
    functions: UserFunctions | None = None,
    initial: InitialStates | None = None,
    retest: Retest | None = None,
    sums: Sums = STANDARD,
) -> Verification:
    """Recompute the interval from the proof and the log; raise VerificationError on any disagreement.

    `bondic.verify` says what the arguments are. Here they have been read: nothing in this module opens a file.
    """
    with said_plainly():
        return _verify(certificate, log, policy, functions, initial, retest, sums)


@contextmanager
def said_plainly() -> Iterator[None]:
    """Whatever a certificate leads to is a VerificationError; numbers that are not finite end as errors, not as warnings."""
    try:
        with np.errstate(all="ignore"):
            yield
    except VerificationError as problem:
        raise VerificationError(clean_text(problem)) from problem
    except BondicError as problem:
        raise VerificationError(clean_text(f"The certificate cannot be evaluated: {problem}")) from problem
    except DAMAGED as problem:
        raise VerificationError(
            clean_text(f"The certificate is damaged ({type(problem).__name__}: {problem}).")
        ) from problem


def _verify(
    certificate: Certificate,
    log: Log,
    policy: Any,
    functions: UserFunctions | None,
    initial: InitialStates | None,
    retest: Retest | None,
    sums: Sums,
) -> Verification:
    rows, proof = _open(certificate, log, policy, functions, initial)
    checked = [
        Review(("digest matches the content", "log is the certified one")),
        proof.check_policy(rows, log, policy),
    ]
    check_workload(proof.work(rows), 1 + max(rows.next_draws, 1), len(log), rows.layout.slots)
    claims = proof.claims(rows, sums)
    _compare_claims(claims, certificate.claims, proof.slack)
    checked += [
        Review(tuple(f"{claim.end} end point recomputed" for claim in claims.ends)),
        *proof.reviews(rows, claims, log, retest, sums),
        check_origin(proof),
        check_rows(rows.rows, len(log), proof.provenances()),
        check_start(rows.initial_states, log, initial),
    ]
    result = _compare_conclusion(certificate, claims, range_of(rows.terms), proof.side)
    assumptions = proof.assumptions(rows, rejected=result.status is Status.REJECTED)
    _require(
        certificate.assumptions == assumptions,
        "The assumptions in the certificate are not those of its proof and rows.",
    )
    checked.append(Review(("interval and status follow from the end points", "assumptions are those of the proof")))
    found = Review.all_of(checked)
    return Verification(
        result.low,
        result.high,
        result.status.name,
        proof.budget.alpha,
        proof.side,
        held(proof.guarantee, assumptions, result.status),
        assumptions,
        found.checks,
        found.unchecked,
        found.headline,
        (rows.rows.start, rows.rows.stop),
        (rows.rows.start, len(log) - rows.rows.stop),
        describe_start(rows.initial_states),
    )


def _open(
    certificate: Certificate, log: Log, policy: Any, functions: UserFunctions | None, initial: InitialStates | None
) -> tuple[Rows, Proof]:
    """The rows that were asked about and the proof, once certificate and log are what they say."""
    check_certificate(certificate)
    _require(
        compute_digest(certificate.body, certificate.arrays) == certificate.digest,
        "The digest does not match: the certificate was changed after it was made.",
    )
    asked = certificate.asked
    _require(log.content_hash == asked.log_hash, "The log is not the one that was certified (content hashes differ).")
    rows = asked.rebuild(log, policy, initial)
    proof = certificate.proof(rows.layout, functions)
    alpha, spent = proof.budget.alpha, math.fsum(proof.budget.parts.values())
    _require(spent >= alpha * (1 - 1e-9), f"alpha is {alpha}, and the events were given {spent} of it.")
    return rows, proof


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise VerificationError(message)


# --- what was claimed against what comes out ------------------------------------------------------------


def _compare_claims(mine: Claims, claimed: Claims, slack: float) -> None:
    """End points part by part, whatever the parts are; tests number by number."""
    for what, counts in (
        ("end points", (len(mine.ends), len(claimed.ends))),
        ("tests", (len(mine.tests), len(claimed.tests))),
    ):
        _require(counts[0] == counts[1], f"There are {counts[0]} {what}, and {counts[1]} in the certificate.")
    for claim, other in zip(mine.ends, claimed.ends, strict=True):
        _compare_claim(claim, other, slack)
    for test, theirs in zip(mine.tests, claimed.tests, strict=True):
        _compare_test(test, theirs)


def _compare_claim(mine: Claim, claimed: Claim, slack: float) -> None:
    what = f"The {mine.end} end point"
    shape, other_shape = (
        (claim.end, claim.uses_log, *((part.name, part.role) for part in claim.parts)) for claim in (mine, claimed)
    )
    _require(shape == other_shape, f"{what} is made of {shape} when recomputed, of {other_shape} in the certificate.")
    for part, stored in zip(mine.parts, claimed.parts, strict=True):
        mid, other = part.size.mid, stored.size.mid
        near = abs(mid - other) <= _allowed(mid, part.size.rad, stored.size.rad) + slack * (abs(mid) + abs(other))
        _require(near, f"{what}: `{part.name}` is {mid!r} when recomputed, {other!r} in the certificate.")
    _compare_bound(what, mine, claimed, slack)


def _compare_conclusion(certificate: Certificate, mine: Claims, limits: ValueRange, side: Side) -> Conclusion:
    """What follows from my claims; the claimed interval has to follow from the claimed ones, which were compared with mine."""
    stated, claimed = certificate.conclusion, certificate.claims
    result = conclude(limits, mine.ends, mine.rejected, side)
    follows = conclude(limits, claimed.ends, claimed.rejected, side)
    for name in ("low", "high"):
        expected, other = getattr(follows, name), getattr(stated, name)
        _require(
            math.isclose(other, expected, rel_tol=_OTHER_MACHINES, abs_tol=_OTHER_MACHINES * limits.width),
            f"The interval's {name} end is {expected!r} by the end points, {other!r} in the certificate.",
        )
    _require(stated.status is result.status, f"The status is {result.status.name}, not the claimed one.")
    return result


def _allowed(mine: float, error: float, claimed_error: float) -> float:
    """Both numbers are within their own error of the exact one, so they differ by at most both errors.

    A claimed error is believed only up to what other engines or groupings could have caused.
    """
    return (error + min(claimed_error, 1e3 * error + 1e-9 * abs(mine))) * (1 + 1e-9)


def _compare_bound(what: str, mine: Claim, claimed: Claim, slack: float) -> None:
    """A claimed end may lie further out by the errors of both sides, but hardly further in.

    The exact end is at most 2 * rounding inside mine, and a right claim lies outside of it; the rest is for machines
    whose weights ω_i differ in the last digits.
    """
    scale = sum(abs(part.size.mid) for part in mine.parts if part.role != "detail")
    inward = 4 * mine.rounding + _OTHER_MACHINES * scale
    outward = 2 * _allowed(mine.bound, mine.rounding, claimed.rounding)
    more = slack * (abs(mine.bound) + abs(claimed.bound))
    _require(
        -outward - more <= claimed.gain(mine) <= inward + more,
        f"{what} is {mine.bound!r} when recomputed, {claimed.bound!r} in the certificate.",
    )


def _compare_test(mine: Rejection, claimed: Rejection) -> None:
    for key, value in asdict(mine).items():
        other = getattr(claimed, key)
        # a floor is a difference, and of interest beside eps alone: far below it other engines leave few digits of it
        room = max(1e-12, 1e-6 * mine.epsilon) if key == "loss_floor" else 1e-12
        same = value == other or math.isclose(value, other, rel_tol=1e-6, abs_tol=room)
        _require(
            same, f"A test of the assumptions: `{key}` is {value!r} when recomputed, {other!r} in the certificate."
        )
