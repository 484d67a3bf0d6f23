"""J(π) - J(π'): how far one policy exceeds another, or today's, on the same rows of one log.

Propensities, tables and groups bound the difference itself: what both policies have in common costs nothing. Elsewhere each
policy has an interval of its own at half of alpha, and the ends are subtracted (`core.separate`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from bondic.core.certificate import Certificate
from bondic.core.claims import Conclusion, ErrorBudget, Side, Status, check_alpha
from bondic.core.codec import with_arrays
from bondic.core.columns import RowRange
from bondic.core.errors import InvalidInput
from bondic.core.proof import Estimand, Proof
from bondic.core.propensities.bound import Units
from bondic.core.propensities.contrast import Contrast
from bondic.core.separate import SeparateProof
from bondic.data._arrays import FloatArray, IntArray
from bondic.data.episodes import Episodes
from bondic.data.hygiene.marks import Marks, fingerprints
from bondic.data.log import Log
from bondic.data.transitions import Transitions
from bondic.errors import kind_of
from bondic.estimate import as_method
from bondic.methods.base import Progress
from bondic.methods.candidates import Method
from bondic.methods.default import Default
from bondic.methods.groups import Groups
from bondic.methods.propensities import NAME as PROPENSITIES
from bondic.methods.propensities import Propensities
from bondic.methods.propensity_pilot import logged
from bondic.methods.table import NAME as TABLE
from bondic.methods.table import Table
from bondic.methods.value_range import degenerate_range
from bondic.policies.adapters.rule import action_words
from bondic.policies.logged_target import LoggedBehavior, LoggedTarget
from bondic.rendering import three
from bondic.result import Result
from bondic.rows import Rows
from bondic.rows.decisions import single_rows
from bondic.rows.estimand import rebuild, rows_of
from bondic.rows.inputs import LOGGED, TODAY, GivenLog, chosen_policy, take_policy
from bondic.rows.make import make_rows

RETURNS = "the log's own returns"
"""What today's value is read off."""
_ROUNDED = 1e-6
"""Propensities may have been stored with 32 bits."""
_OTHER: dict[Side, Side] = {"both": "both", "lower": "upper", "upper": "lower"}


def other_rows(problem: Rows, policy: Any) -> Rows:
    """The same question about another policy; "today" is the one that made the log."""
    if isinstance(policy, Rows):
        same = (policy.log_hash, policy.terms, policy.rows) == (problem.log_hash, problem.terms, problem.rows)
        if not (same and policy.initial_states.same(problem.initial_states)):
            raise InvalidInput(
                "Two policies are compared on the same rows of one log, with the same terms and starts. Build both problems "
                "with the same arguments."
            )
        return replace(policy, initial_states=problem.initial_states)  # one object: a certificate holds it once
    if isinstance(policy, LoggedTarget) or is_today(policy):
        answering: Any = policy if isinstance(policy, LoggedTarget) else chosen_policy(TODAY, problem.source, None)
        if policy == LOGGED and (problem.log.has("target_action_probs") or problem.log.has("target_log_probs")):
            raise InvalidInput(
                "'logged' may be the policy that made the log, or the one whose probabilities stand in its columns "
                "(--policy logged). Write 'today' for the first one; pass LoggedTarget() for the second."
            )
    else:
        starts = len(problem.initial_states) if problem.initial_states.from_rows else None
        answering, _ = take_policy(policy, problem.source or GivenLog(problem.log), starts, problem.actions)
    answers = problem.answers
    options: dict[str, Any] = {"draws": answers.draws, "initial_draws": answers.start_draws, "seed": problem.seed}
    made = make_rows(problem.log, answering, problem.initial_states, problem.terms, **options)
    known = {name: getattr(problem, name) for name in ("names", "reading", "encodings", "source")}
    made = replace(made.restricted(problem.rows), **known)
    vars(made).update({name: vars(problem)[name] for name in ("own_starts",) if name in vars(problem)})  # the same log
    return made


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
        As in `estimate_interval`. Propensities bound the difference itself, and so do tables and groups where that promises a
        shorter interval; otherwise each policy has its own interval at half of alpha.
    """
    check_alpha(alpha)
    if not isinstance(problem, Rows):
        raise InvalidInput(
            f"difference_interval takes a problem, not {kind_of(problem)}: make_problem(log, policy, ...)."
        )
    if known := degenerate_range(problem):
        raise InvalidInput(
            f"There is nothing to compare: {known}, for every policy. State the range of all rewards that are possible, not of "
            "those that came."
        )
    other, chosen, why = other_rows(problem, against), as_method(method), ""
    rows, paired = problem, chosen
    if isinstance(chosen, Default):
        choice = chosen.choice(problem, alpha)
        rows, paired, why = choice.rows, choice.method, choice.why
    names = ("new", TODAY) if is_today(other.policy) else policy_names(problem.policy, other.policy)
    if isinstance(paired, Table | Groups):
        together = paired.differs(rows, other_rows(rows, other.policy) if rows is not problem else other, float(alpha))
    else:
        together = isinstance(paired, Propensities)
    if not together:
        return replace(_separate(problem, other, float(alpha), chosen, progress), names=names)
    assert isinstance(paired, Propensities | Table | Groups)
    if rows is not problem:  # rows that the choice has looked at are not certified
        other = other.restricted(rows.rows)
    if isinstance(paired, Propensities):
        found = paired.run(rows, float(alpha), progress, against=other, why=why)
    else:
        found = paired.run(rows, float(alpha), progress, against=other).with_choice("method", why or paired.name)
    found = replace(found, names=names)
    if is_today(other.policy) and (words := behavior_change(rows)):
        found = found.with_choice(TODAY, words)
    return found


def policy_names(new: Any, other: Any) -> tuple[str, str]:
    """What two policies are called: by their functions, or as the user wrote them (rules.py:late is late)."""
    full = [policy_name(one) if not isinstance(one, str) else action_words(one) for one in (new, other)]
    short = [name.rpartition(":")[2] for name in full]
    names = short if short[0] != short[1] else full
    return (names[0], names[1]) if all(names) and names[0] != names[1] else ("new", names[1] or "the other policy")


def policy_name(policy: Any) -> str:
    """The name of its function, or of its action; empty where it has none."""
    name = str(getattr(getattr(policy, "function", policy), "__name__", ""))
    return "" if name.startswith("<") else name


def stated_conditions(result: Result) -> str:
    """What was stated about values, and a decision rests on: a sentence each, none where nothing was."""
    stated = [item for item in result.assumptions if item.name.startswith("values") and item.state == "stated"]
    return "".join(f" This holds if what you stated does: {item.text}" for item in stated)


def incumbent_words(policy: Any) -> str:
    """The policy that is kept unless another one is shown to be better."""
    return "today's policy" if is_today(policy) else policy_name(policy) or "the incumbent"


def is_today(policy: Any) -> bool:
    """Whether the policy is the one that made the log."""
    return isinstance(policy, LoggedBehavior) or (isinstance(policy, str) and policy in (TODAY, LOGGED))


def behavior_change(problem: Rows) -> str:
    """Decisions (episodes) that began with the same state and action, and other propensities, in words; empty: there are none.

    Then today's policy is no one function of the state, and its value the mean of several. Where no state comes again nothing
    is known of that.
    """
    if not ((problem.log.held or problem.log.single_rows) and problem.layout.discrete and logged(problem)):
        return ""
    known = _CHANGES.setdefault(problem.log, {})  # the same for all policies that are compared with today's
    if problem.rows not in known:
        known[problem.rows] = _behavior_change(problem)
    return known[problem.rows]


_CHANGES: WeakKeyDictionary[Log, dict[RowRange, str]] = WeakKeyDictionary()


def _behavior_change(problem: Rows) -> str:
    marks = np.concatenate([_begun(part)[1] for _, part in problem.log.batches(problem.rows)])
    marks.sort()
    again = np.unique(marks[1:][marks[1:] == marks[:-1]])
    if not again.size:  # as in most logs whose states are numbers
        return ""
    found = [_repeated(part, where.start, again) for where, part in problem.log.batches(problem.rows)]
    group, chances, first = (np.concatenate(one) for one in zip(*found, strict=True))
    order = np.lexsort((chances, group))
    begins = np.flatnonzero(np.concatenate([[True], group[order[1:]] != group[order[:-1]]]))
    ends = np.append(begins[1:], len(order)) - 1
    apart = np.flatnonzero(chances[order[ends]] > (1 + _ROUNDED) * chances[order[begins]])
    if not apart.size:
        return ""
    two = sorted((int(order[begins[apart[0]]]), int(order[ends[apart[0]]])))
    rows = " and ".join(str(int(first[one])) for one in two)
    return (
        f"the average behavior over these rows: rows {rows} have the same state and action, and propensities "
        f"{' and '.join(three(float(chances[one])) for one in two)}"
    )


def _begun(part: Transitions) -> tuple[IntArray, Marks]:
    """Where decisions (episodes) begin, and marks of their first states and actions."""
    first = np.arange(len(part)) if part.episode_ids is None else Episodes.of(part).first
    return first, fingerprints(np.column_stack([part.observations[first], part.actions[first]]))


def _repeated(part: Transitions, top: int, again: Marks) -> tuple[Marks, FloatArray, IntArray]:
    """Those with some of the marks: marks, propensities and rows of the log."""
    first, marks = _begun(part)
    here = np.isin(marks, again)
    logs, given = part.behavior_log_probs, part.behavior_action_probs
    chances = np.asarray(np.exp(logs) if given is None and logs is not None else given)
    return marks[here], chances[first[here]], first[here] + top


def paired_units(problem: Rows, other: Rows) -> Units:
    """The units of two policies, from columns of the log and answers of the policies: to look at, not to certify."""
    single = single_rows(problem)
    every = single and problem.layout.discrete and not (problem.policy_in_log or other.policy_in_log)
    first, second = (one.decisions(None, every_action=every) for one in (problem, other))
    return Contrast.of(first, second)


def with_values(result: Result, problem: Rows, against: Any, method: Method | str | None = None) -> Result:
    """The difference with the values of both policies beside it, each an interval by itself at the same alpha.

    Where one end was computed, that of the second policy is the one that it is subtracted with.
    """
    chosen, other = as_method(method), other_rows(problem, against)
    new = sided(chosen, result.side).run(problem, result.alpha, None)
    return replace(result, parts=(new, _own_value(other, sided(chosen, _OTHER[result.side]), result.alpha)))


def with_today(
    result: Result, problem: Rows, method: Method | str | None = None, progress: Progress | None = None
) -> Result:
    """The same result with the comparison with today's policy beside it (`result.today`), where the log says it cheaply.

    That is a log with propensities, or a table in memory: it takes about as long as the result did. The result itself, its
    alpha and its certificate stay as they are; the difference, and today's value, are intervals of their own at the same alpha.
    """
    informative = result.status is Status.INTERVAL or (
        result.status is Status.TRIVIAL and result.method == PROPENSITIES
    )
    cheap = result.method == PROPENSITIES or (result.method == TABLE and problem.log.held)
    if not (informative and cheap) or result.is_difference:
        return result
    value = today_value(problem, result.alpha, sided(as_method(method), _OTHER[result.side]))
    if value is None:
        return result
    try:
        gain = difference_interval(problem, alpha=result.alpha, method=method, progress=progress)
    except InvalidInput:  # against="today" says why
        return result
    return replace(result, today=replace(gain, parts=(result, value)))


def today_value(problem: Rows, alpha: float, method: Method | str | None = None) -> Result | None:
    """What the policy that made the log is worth; None where the log does not tell: few rows, no episodes, other starts."""
    try:
        found = _own_value(other_rows(problem, TODAY), as_method(method), alpha)
    except InvalidInput:
        return None
    return found if found.status is Status.INTERVAL else None


def _own_value(rows: Rows, method: Method, alpha: float, progress: Progress | None = None) -> Result:
    """The value of one policy; today's is the mean of the log's own returns, whatever answers about other policies."""
    if not isinstance(rows.policy, LoggedBehavior):
        return method.run(rows, alpha, progress)
    own = Propensities(side=getattr(method, "side", "both"), planned_rows=getattr(method, "planned_rows", None))
    return own.run(rows, alpha, progress)


def _separate(problem: Rows, other: Rows, alpha: float, method: Method, progress: Progress | None) -> Result:
    """Each policy at half of alpha; today's value is a mean over certified episodes, and the other one starts where they do."""
    side: Side = getattr(method, "side", "both")
    budget = ErrorBudget.split(alpha, {"1": 1.0, "2": 1.0})
    second = _own_value(other, sided(method, _OTHER[side]), budget["2"], progress)
    if is_today(other.policy) and problem.initial_states.kind == "log":
        problem = problem.starting_from(second.rows[0])
    first = sided(method, side).run(problem, budget["1"], progress)
    if first.proof is None or second.proof is None:
        raise InvalidInput(f"The method {first.method} leaves no proof: its interval cannot be part of a difference.")
    proof = separate_proof((first.proof, second.proof), budget, side)
    ends = tuple(Conclusion(one.low, one.high, one.status) for one in (first, second))
    tests = tuple(one.rejection for one in (first, second) if one.rejection is not None)
    rows, against = rows_of(rebuild(proof.estimand, problem.log, problem.policy, None, other.policy))
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
        effective=first.effective_sample_size,
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
    one, two = (part.estimand for part in parts)
    rows = (min(one.rows[0], two.rows[0]), max(one.rows[1], two.rows[1]))
    policies = (one.policies[0], replace(two.policies[0], coefficient=-1.0))
    estimand = Estimand(one.log_hash, one.terms, rows, one.seed, one.draws, one.initial_draws, policies)
    return SeparateProof(estimand, budget, side, parts)
