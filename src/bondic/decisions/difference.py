"""J(π) - J(π'): how far one policy exceeds another, or today's, on the same rows of one log.

Propensities bound the difference itself: what both policies have in common costs nothing. Elsewhere each policy has an interval
of its own at half of alpha, and the ends are subtracted (`core.separate`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bondic.core.certificate import Certificate
from bondic.core.claims import Conclusion, ErrorBudget, Side, check_alpha
from bondic.core.codec import with_arrays
from bondic.core.errors import InvalidInput
from bondic.core.proof import Asked, Proof
from bondic.core.propensities.bound import Units
from bondic.core.propensities.contrast import Contrast
from bondic.core.separate import SeparateProof
from bondic.errors import kind_of
from bondic.estimate import as_method, estimate_interval
from bondic.methods.base import Progress
from bondic.methods.candidates import Method
from bondic.methods.default import Default
from bondic.methods.propensities import Propensities
from bondic.policies.logged_target import LoggedBehavior, LoggedTarget
from bondic.result import Result
from bondic.rows import Rows
from bondic.rows.asked import rebuild, rows_of
from bondic.rows.decisions import single_rows
from bondic.rows.inputs import LOGGED, TODAY, GivenLog, take_policy
from bondic.rows.make import make_rows

RETURNS = "the log's own returns"
"""What today's value is read off."""
_OTHER: dict[Side, Side] = {"both": "both", "lower": "upper", "upper": "lower"}


def other_rows(problem: Rows, policy: Any, source: GivenLog | None = None) -> Rows:
    """The same question about another policy; "today" is the one that made the log."""
    if isinstance(policy, Rows):
        same = (policy.log_hash, policy.terms, policy.rows) == (problem.log_hash, problem.terms, problem.rows)
        if not (same and policy.initial_states.same(problem.initial_states)):
            raise InvalidInput(
                "Both policies are compared on the same rows of one log, with the same statements and starts."
            )
        return replace(policy, initial_states=problem.initial_states)  # one object: a certificate holds it once
    if isinstance(policy, LoggedTarget) or is_today(policy):
        asked: Any = policy if isinstance(policy, LoggedTarget) else LoggedBehavior()
        if policy == LOGGED and (problem.log.has("target_action_probs") or problem.log.has("target_log_probs")):
            raise InvalidInput(
                "'logged' may be the policy that made the log, or the one whose probabilities stand in its columns "
                "(--policy logged). Write 'today' for the first one; pass LoggedTarget() for the second."
            )
    else:
        starts = len(problem.initial_states) if problem.initial_states.from_rows else None
        asked, _ = take_policy(policy, source or GivenLog(problem.log), starts, problem.actions)
    answers = problem.answers
    drawn = None if answers.discrete else int(answers.initial.shape[1])
    asking: dict[str, Any] = {"draws": answers.draws, "initial_draws": drawn, "seed": problem.seed}
    made = make_rows(problem.log, asked, problem.initial_states, problem.terms, **asking)
    return replace(made.restricted(problem.rows), names=problem.names, reading=problem.reading)


def difference_interval(
    problem: Rows,
    against: Any = "today",
    *,
    alpha: float = 0.1,
    method: Method | str | None = None,
    progress: Progress | None = None,
) -> Result:
    """An interval for J(π) - J(π'), π the policy of the problem and π' that of `against`.

    It holds with probability at least 1 - alpha, for finite data, under the printed assumptions. `result.parts` are the values of
    both policies, each with an interval at the same alpha by itself.

    Parameters
    ----------
    problem : Rows
        What `make_problem` returns for the new policy.
    against : policy, Rows or "today", default "today"
        The other policy, in any form that `make_problem` takes; or the one that made the log.
    alpha : float, default 0.1
        Probability that the interval may miss the difference.
    method : Method or str, default None
        As in `estimate_interval`. Propensities bound the difference itself; with any other method each policy has its own
        interval at half of alpha.
    """
    check_alpha(alpha)
    if not isinstance(problem, Rows):
        raise InvalidInput(
            f"difference_interval takes a problem, not {kind_of(problem)}: make_problem(log, policy, ...)."
        )
    other, chosen, why = other_rows(problem, against), as_method(method), ""
    rows, paired = problem, chosen
    if isinstance(chosen, Default):
        choice = chosen.choice(problem, alpha)
        rows, paired, why = choice.rows, choice.method, choice.why
    if not isinstance(paired, Propensities):
        return _separate(problem, other, float(alpha), chosen, progress)
    if rows is not problem:  # rows that the choice has looked at are not certified
        other = other.restricted(rows.rows)
    return paired.run(rows, float(alpha), progress, against=other, why=why)


def incumbent_words(policy: Any) -> str:
    """The policy that is kept unless another one is shown to be better."""
    return "today's policy" if is_today(policy) else "the incumbent"


def is_today(policy: Any) -> bool:
    """Whether the policy is the one that made the log."""
    return isinstance(policy, LoggedBehavior) or (isinstance(policy, str) and policy in (TODAY, LOGGED))


def paired_units(problem: Rows, other: Rows) -> Units:
    """The units of two policies, from columns of the log and answers of the policies: to look at, not to certify."""
    single = single_rows(problem)
    every = single and problem.layout.discrete and not (problem.policy_in_log or other.policy_in_log)
    first, second = (one.decisions(None, every_action=every) for one in (problem, other))
    return Contrast.of(first, second)


def with_values(found: Result, problem: Rows, against: Any, method: Method | str | None = None) -> Result:
    """The difference with the values of both policies beside it, each an interval by itself at the same alpha."""
    rows = (problem, other_rows(problem, against))
    parts = tuple(estimate_interval(one, alpha=found.alpha, method=_own(one, as_method(method))) for one in rows)
    return replace(found, parts=parts)


def _own(rows: Rows, method: Method) -> Method:
    """Today's value is the mean of the log's own returns, whatever answers about other policies."""
    if not isinstance(rows.policy, LoggedBehavior):
        return method
    return Propensities(side=getattr(method, "side", "both"))


def _separate(problem: Rows, other: Rows, alpha: float, method: Method, progress: Progress | None) -> Result:
    """Each policy at half of alpha."""
    side: Side = getattr(method, "side", "both")
    budget = ErrorBudget.split(alpha, {"1": 1.0, "2": 1.0})
    first = sided(method, side).run(problem, budget["1"], progress)
    second = _own(other, sided(method, _OTHER[side])).run(other, budget["2"], progress)
    if first.proof is None or second.proof is None:
        raise InvalidInput(f"The method {first.method} leaves no proof: its interval cannot be part of a difference.")
    proof = separate_proof((first.proof, second.proof), budget, side)
    ends = tuple(Conclusion(one.low, one.high, one.status) for one in (first, second))
    tests = tuple(one.rejection for one in (first, second) if one.rejection is not None)
    rows, against = rows_of(rebuild(proof.asked, problem.log, problem.policy, None, other.policy))
    names = (
        RETURNS if isinstance(one.policy, LoggedBehavior) else found.method
        for one, found in ((problem, first), (other, second))
    )
    words = " and ".join(dict.fromkeys(names))
    return Result.of(
        proof,
        rows,
        against=against,
        method=words,
        estimate=first.estimate - second.estimate,
        claims=proof.claims_of(ends, tests),
        choices={
            "method": f"{words}, each policy by itself at half of alpha",
            "estimate": "difference of two estimates",
        },
        effective=min(first.effective_sample_size, second.effective_sample_size),
        seconds={name: first.seconds.get(name, 0.0) + second.seconds.get(name, 0.0) for name in first.seconds},
        planner=_planners(first.certificate, second.certificate),
    )


def _planners(*certificates: Certificate | None) -> dict[str, Any] | None:
    """How both plans were made; None where one cannot be made again."""
    made = [None if one is None else with_arrays(one.planner, one.arrays) for one in certificates]
    return None if None in made else {"parts": made}


def sided(method: Method, side: Side) -> Method:
    """The same method for one end, where it has sides."""
    return replace(method, side=side) if hasattr(method, "side") else method  # type: ignore[type-var]


def separate_proof(parts: tuple[Proof, Proof], budget: ErrorBudget, side: Side) -> SeparateProof:
    """J_1 - J_2 from a proof of each."""
    one, two = (part.asked for part in parts)
    rows = (min(one.rows[0], two.rows[0]), max(one.rows[1], two.rows[1]))
    policies = (one.policies[0], replace(two.policies[0], coefficient=-1.0))
    asked = Asked(one.log_hash, one.terms, rows, one.seed, one.draws, one.initial_draws, policies)
    return SeparateProof(asked, budget, side, parts)
