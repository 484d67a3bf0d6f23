"""Re-check a certificate against a log with the trusted core alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.bounds.dual import Setting, dual_bound
from bondic.bounds.rejection import combine_witnesses, join_tests, run_tests
from bondic.bounds.weighing import Candidate, weigh
from bondic.claims import Assumption, Claim, Conclusion, Guarantee, Rejection, Side, Status, conclude, ends_of
from bondic.codec import Decoder
from bondic.data.blocks import RowRange
from bondic.data.initial import InitialStates
from bondic.data.stream import LogStream
from bondic.data.transitions import Transitions
from bondic.errors import BondicError, VerificationError
from bondic.functions.functions import Function
from bondic.proofs.assumptions import assumes_nothing, list_assumptions
from bondic.proofs.certificate import Certificate, Spec, claim_spec, compute_digest
from bondic.proofs.foreign_text import clean_text
from bondic.proofs.limits import DAMAGED, check_workload
from bondic.proofs.provenance_check import (
    Finding,
    check_instruments,
    check_rows,
    check_start,
    check_use_of_log,
    describe_start,
)
from bondic.proofs.rebuild import UserFunctions, reader_of, rebuild
from bondic.proofs.shape import check_certificate
from bondic.rows import Question, make_problem

Retest = Callable[[Setting], Rejection | None]
"""A test of Q by whoever verifies, at a level of its own: a certificate need not hold the best witness."""

_POLICY_TOLERANCE = 1e-9
_ASKED_AGAIN = 1e-8
"""A policy that is asked again may answer with other last digits; claims may differ by this much then, relatively."""
_OTHER_MACHINES = 1e-12
"""What other orders of summation and other libraries of elementary functions may change, relative to the terms."""


@dataclass(frozen=True)
class Verification:
    """A passed verification: the recomputed interval (use this one) and what was checked."""

    low: float
    high: float
    status: str
    alpha: float
    side: Side
    guarantee: Guarantee  # "none": the formula was recomputed, and carries no guarantee
    assumptions: tuple[Assumption, ...]  # recomputed: what the interval rests on
    checks: tuple[str, ...]
    unchecked: tuple[str, ...]  # what a reader might take for checked
    headline: tuple[str, ...]  # of the unchecked, what no reader may miss: belongs beside the interval
    rows: tuple[int, int]  # certified: first row and the row after the last
    left_out: tuple[int, int]  # rows of the log before and after them
    start: str  # the initial states in words


def verify(
    certificate: Certificate,
    log: Transitions | LogStream,
    policy: Any = None,
    *,
    functions: UserFunctions | None = None,
    initial: InitialStates | None = None,
    retest: Retest | None = None,
) -> Verification:
    """Recompute the interval from omega and the log; raise VerificationError on any disagreement.

    No policy code is needed: the certificate holds the policy's answers. Give `policy` to check those as well,
    and `functions` when a kernel uses feature functions of your own. The certificate of a streamed log, and one from
    which rows were withheld, does not hold the answers at its next states; there the policy is needed and asked again.
    A sample of initial states that was withheld is read off the log, unless `initial` is given; other initial states are
    compared with `initial`. `retest` is a test of its own (`bondic.rich_test`): a certificate
    need not hold the best witness.
    The certificate may come from anybody: what it only states is listed in `unchecked`, and nothing in it is run.
    """
    try:
        with np.errstate(all="ignore"):  # numbers that are not finite end as errors, not as warnings
            return _verify(certificate, log, policy, functions, initial, retest)
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
    log: Transitions | LogStream,
    policy: Any,
    functions: UserFunctions | None,
    initial: InitialStates | None,
    retest: Retest | None,
) -> Verification:
    check_certificate(certificate)
    body, checks, unchecked, headline = certificate.body, [], [], []
    _require(
        compute_digest(body, certificate.arrays) == certificate.digest,
        "The digest does not match: the certificate was changed after it was made.",
    )
    checks.append("digest matches the content")
    _require(
        log.content_hash == body["problem"]["log_hash"],
        "The log is not the one that was certified (content hashes differ).",
    )
    checks.append("log is the certified one")
    setting, budget = rebuild(certificate, log, functions, policy=policy, initial=initial)
    spent = math.fsum(budget.parts.values())
    _require(spent >= budget.alpha * (1 - 1e-9), f"alpha is {budget.alpha}, and the events were given {spent} of it.")
    if policy is not None:
        checks.append(_check_policy(setting.problem, log, policy, body["problem"]["answers"], certificate.arrays))
    else:
        unchecked.append("the policy: whose answers these are is not known, pass the policy to compare it with them")
        headline.append("the policy")
    reader = reader_of(certificate, setting.problem.layout, functions)
    check_workload(setting, _functions(setting, reader, body), len(log))
    _require(
        set(body["ends"]) == set(ends_of(body["side"])), "The certificate lacks an end point, or has one too many."
    )
    claims = _recompute_claims(setting, reader, body, checks)
    rejection = _check_rejection(setting, reader, body["rejection"])
    for finding in (
        _judge_rejection(setting, body["rejection"], rejection, retest),
        check_use_of_log(setting, claims),
        check_rows(setting, len(log)),
        check_instruments(setting, log),
        check_start(setting, log, initial),
    ):
        checks += finding.checks
        unchecked += finding.unchecked
        headline += finding.headline
    result = conclude(setting.range(), claims, rejection.rejected, body["side"])
    _compare_interval(body, setting, claims, result)
    _require(
        body["claims"]["status"] == result.status.name, f"The status is {result.status.name}, not the claimed one."
    )
    checks.append("interval and status follow from the end points")
    assumptions = list_assumptions(setting, rejected=result.status is Status.REJECTED)
    _require(
        body["assumptions"] == [asdict(item) for item in assumptions],
        "The assumptions in the certificate are not those of its problem, W, Q and noise bound.",
    )
    checks.append("assumptions are those of the problem, W, Q and the noise bound")
    return Verification(
        result.low,
        result.high,
        result.status.name,
        budget.alpha,
        body["side"],
        setting.gauge.guarantee,
        assumptions,
        tuple(checks),
        tuple(unchecked),
        tuple(headline),
        (setting.problem.rows.start, setting.problem.rows.stop),
        (setting.problem.rows.start, len(log) - setting.problem.rows.stop),
        describe_start(setting.problem.initial_states),
    )


def _functions(setting: Setting, reader: Decoder, body: Spec) -> list[Function | None]:
    """Everything that will be evaluated."""
    rejection = body["rejection"]
    tests = [test["witness"] for test in rejection["tests"]]
    specs = [*(found["omega"] for found in body["ends"].values()), *rejection["witnesses"], *tests]
    return [setting.ball.center, *(_function(reader, spec, "a function") for spec in specs)]


def _function(reader: Decoder, spec: Any, place: str) -> Function | None:
    found: Function | None = reader.decode(Function | None, spec, place)
    return found


def _judge_rejection(setting: Setting, spec: Spec, found: Rejection, retest: Retest | None) -> Finding:
    """What the given witnesses show, and what one would have to look for."""
    witnesses = [*spec["witnesses"], *(test["witness"] for test in spec["tests"])]
    given = any(witness is not None for witness in witnesses)
    if found.rejected:
        return Finding(("rejection test recomputed from its witnesses",))
    if assumes_nothing(setting):
        return Finding(("nothing is assumed about q*: there is no class to test",))
    own = None if retest is None else retest(setting)
    if own is not None:
        _require(
            not own.rejected,
            "The log contradicts the assumptions: a test that the certificate does not hold rejects them "
            f"(p = {own.p_value:.3g}).",
        )
        return Finding(
            (f"rejection test recomputed; a test of its own does not reject either (p = {own.p_value:.3g})",)
        )
    if given:
        text = "the given witnesses were recomputed and do not reject; whether another would is not known"
    else:
        text = "whether the log contradicts Q: the certificate holds no witness, and none was looked for"
    return Finding(unchecked=(text,))


def _recompute_claims(setting: Setting, reader: Decoder, body: Spec, checks: list[str]) -> tuple[Claim, ...]:
    """Both end points from their omegas, in one pass over the log."""
    present = ends_of(body["side"])
    omegas = [_function(reader, body["ends"][end]["omega"], f"ends.{end}.omega") for end in present]
    weighed = weigh(setting.problem, setting.ball, [Candidate(omega) for omega in omegas])
    claims: list[Claim] = []
    for end, omega, weighing in zip(present, omegas, weighed, strict=True):
        claims += dual_bound(setting, omega, (end,), weighing=weighing)
        _compare_claim(claims[-1], body["ends"][end]["claim"], _slack(body))
        checks.append(f"{end} end point recomputed from omega")
    return tuple(claims)


def _slack(body: Spec) -> float:
    return _ASKED_AGAIN if body["problem"]["answers"]["next"] is None else 0.0


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise VerificationError(message)


def _allowed(mine: float, error: float, claimed_error: float) -> float:
    """Both numbers are within their own error of the exact one, so they differ by at most both errors.

    A claimed error is believed only up to what other engines or groupings could have caused.
    """
    return (error + min(claimed_error, 1e3 * error + 1e-9 * abs(mine))) * (1 + 1e-9)


def _compare_claim(mine: Claim, claimed: Spec, slack: float = 0.0) -> None:
    """Part by part, whatever the parts are; then what they come to."""
    what, own = f"The {mine.end} end point", claim_spec(mine)
    for key in ("name", "role"):
        names, others = ([part[key] for part in spec["parts"]] for spec in (own, claimed))
        _require(names == others, f"{what} has the parts {names} when recomputed, {others} in the certificate.")
    _require(
        own["uses_log"] == claimed["uses_log"], f"{what}: the certificate is wrong about whether it rests on the log."
    )
    for part, stored in zip(mine.parts, claimed["parts"], strict=True):
        mid, (other, theirs) = part.size.mid, stored["size"]
        ok = abs(mid - other) <= _allowed(mid, part.size.rad, theirs) + slack * (abs(mid) + abs(other))
        _require(ok, f"{what}: `{part.name}` is {mid!r} when recomputed, {other!r} in the certificate.")
    _compare_bound(what, mine, claimed["bound"], claimed["rounding"], slack)


def _compare_bound(what: str, mine: Claim, claimed: float, claimed_error: float, slack: float) -> None:
    """A claimed end may lie further out by the errors of both sides, but hardly further in.

    The exact end is at most 2 * rounding inside mine, and a right claim lies outside of it; the rest is for machines
    whose weights omega_i differ in the last digits.
    """
    scale = sum(abs(part.size.mid) for part in mine.parts if part.role != "detail")
    inward = 4 * mine.rounding + _OTHER_MACHINES * scale
    outward = 2 * _allowed(mine.bound, mine.rounding, claimed_error)
    more = slack * (abs(mine.bound) + abs(claimed))
    further_in = mine.sign * (mine.bound - claimed)
    _require(
        -outward - more <= further_in <= inward + more,
        f"{what} is {mine.bound!r} when recomputed, {claimed!r} in the certificate.",
    )


def _compare_interval(body: Spec, setting: Setting, claims: tuple[Claim, ...], result: Conclusion) -> None:
    """The claimed interval has to follow from the claimed end points, which were compared with mine."""
    limits = setting.range()
    rejected = result.status is Status.REJECTED
    used = [] if rejected else [claim.end for claim in claims if claim.uses_log]
    bounds = {end: body["ends"][end]["claim"]["bound"] for end in used}
    follows = limits.cut(bounds.get("lower", -math.inf), bounds.get("upper", math.inf))
    for name, expected in zip(("low", "high"), follows, strict=True):
        other = body["claims"][name]
        _require(
            math.isclose(other, expected, rel_tol=_OTHER_MACHINES, abs_tol=_OTHER_MACHINES * limits.width),
            f"The interval's {name} end is {expected!r} by the end points, {other!r} in the certificate.",
        )


def _check_rejection(setting: Setting, reader: Decoder, spec: Spec) -> Rejection:
    """Every test of Q from its witnesses, and all of them as one."""
    main = combine_witnesses(
        setting, [_function(reader, witness, "rejection.witnesses") for witness in spec["witnesses"]]
    )
    tests = run_tests(setting, [_function(reader, test["witness"], "rejection.tests") for test in spec["tests"]])
    for found, test in zip(tests, spec["tests"], strict=True):
        _compare_rejection(found, test["claim"])
    joined = join_tests(setting, main, tests)
    _compare_rejection(joined, spec["claim"])
    return joined


def _compare_rejection(found: Rejection, claimed: Spec) -> None:
    for key, value in asdict(found).items():
        other = claimed[key]
        same = value == other or math.isclose(value, other, rel_tol=1e-6, abs_tol=1e-12)
        _require(same, f"The rejection test: `{key}` is {value!r} when recomputed, {other!r} in the certificate.")


def _check_policy(
    problem: Question, log: Transitions | LogStream, policy: Any, stored: Spec, arrays: Mapping[str, npt.NDArray[Any]]
) -> str:
    terms, answers = problem.terms, problem.answers
    if stored["next"] is None:
        if stored["initial"] is not None:
            _compare_answers("initial", answers.initial, arrays[stored["initial"]["array"]])
        return "policy was asked again at every row"
    log = log if isinstance(log, Transitions) else log.read(RowRange(0, len(log)))
    fresh = make_problem(
        log,
        policy,
        problem.initial_states,
        gamma=terms.gamma,
        reward_range=terms.reward_range,
        horizon=terms.horizon,
        may_terminate=terms.may_terminate,
        time_varying=terms.time_varying,
        value_range=terms.value_range,
        draws=1 if answers.discrete else int(answers.next.shape[1]),
        initial_draws=1 if answers.discrete else int(answers.initial.shape[1]),
        seed=problem.seed,
        accept=None,
    ).answers
    _require(fresh.exact == answers.exact, "The certificate is wrong about whether the policy is deterministic.")
    for name in ("next", "initial"):
        _compare_answers(name, getattr(fresh, name), getattr(answers, name))
    return "policy gives the stored answers"


def _compare_answers(name: str, mine: npt.NDArray[Any], stored: npt.NDArray[Any]) -> None:
    same = mine.shape == stored.shape and bool(
        np.all(np.abs(mine - stored) <= _POLICY_TOLERANCE * (1 + np.abs(stored)))
    )
    _require(same, f"The policy answers differently at the {name} states: it is not the certified policy.")


__all__ = ["Retest", "Verification", "verify"]
