"""The estimand of a certificate, from rows and back: `rebuild` makes the rows of it again.

Answers that were not stored are computed again; initial states that were withheld are passed in, or read off the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bondic.core.bounded import U
from bondic.core.certificate import Certificate
from bondic.core.codec import instances
from bondic.core.columns import RowRange
from bondic.core.errors import InvalidInput, VerificationError, refuse
from bondic.core.proof import Answers, Estimand, Learned, Proof, Review, StoredPolicy, StoredStart, describe_start
from bondic.core.propensities.ratios import Target
from bondic.core.question import PolicyValue, Question
from bondic.core.starts import StartBets
from bondic.core.subgroups import Labeling
from bondic.core.sums.forms import Sums
from bondic.core.sums.reference import REFERENCE
from bondic.core.verify import (
    Replayed,
    UserFunctions,
    Verification,
    as_verification_error,
    opened,
    read_proof,
    verify_columns,
)
from bondic.data._arrays import FloatArray
from bondic.data.episodes import episode_starts
from bondic.data.initial import InitialStates, of_stream
from bondic.data.log import Log
from bondic.extensions import register_named
from bondic.policies.answers import StoredAnswers, same_answers
from bondic.policies.learned import PolicyMixture, training_provenance
from bondic.policies.logged_target import LoggedTarget, stand_in
from bondic.policies.protocol import check_probabilities
from bondic.rows.decisions import query_target
from bondic.rows.make import make_rows
from bondic.rows.rows import Rows


def estimand_of(rows: Rows, against: Rows | None = None) -> Estimand:
    """The value on these rows, or how far it exceeds that of the policy of `against`.

    Those of a log that is read in batches have no stored answers at next states: the policy is queried again.
    """
    answers = rows.answers
    parts = ((1.0, rows),) if against is None else ((1.0, rows), (-1.0, against))
    found = Estimand(
        rows.log_hash,
        rows.terms,
        (rows.rows.start, rows.rows.stop),
        rows.seed,
        answers.draws,
        answers.start_draws,
        tuple(_policy_of(coefficient, part) for coefficient, part in parts),
    )
    refuse_training_starts(found, [part for _, part in parts])
    return found


def refuse_training_starts(estimand: Estimand, parts: Sequence[Rows], proof: Proof | None = None) -> None:
    """InvalidInput where starts of rows that trained a policy are taken for draws: from the log, a proof leaves them out."""
    trained_until = [
        one.rows[1] for one in estimand.trained_on if one.rows is not None and one.log_hash in ("", estimand.log_hash)
    ]
    for rows in parts if trained_until else ():
        states = rows.initial_states
        if states.kind == "sample" and not states.from_rows and rows.own_starts:
            raise InvalidInput(
                "The policy was learned on rows of this log, and the sample of initial states contains the episode starts of "
                "these training rows: for this policy they are no independent draws. Leave `initial` out (no --initial); the "
                "starts of training rows are then left out."
            )
    bets = [] if proof is None else list(instances(proof, StartBets))
    if trained_until and bets and any(rows.initial_states.from_rows for rows in parts):
        trained = sum(
            int((rows.start + starts < max(trained_until)).sum()) for rows, _, starts in episode_starts(parts[0].log)
        )
        refuse(any(one.skipped < trained for one in bets), "Starts of the policy's training rows are used as draws.")


def _policy_of(coefficient: float, rows: Rows) -> StoredPolicy:
    states, answers = rows.initial_states, rows.answers
    # starts of a log that is read in batches are read off it again, and the policy is queried there again
    again = of_stream(states, rows.log)
    asked = again and not isinstance(rows.policy, LoggedTarget)
    known = "answers" if not isinstance(rows.policy, LoggedTarget) else rows.policy.known_by
    return StoredPolicy(
        coefficient,
        known,
        StoredStart(
            None if again else states.observations, states.weights, states.kind, states.count_fixed, states.from_rows
        ),
        Answers(rows.stored_answers(), None if asked else answers.initial, answers.discrete, answers.exact),
        training_provenance(rows.policy, rows.log_hash, len(rows.log)),
    )


def rebuild(
    estimand: Estimand, log: Log, policy: Any = None, initial: InitialStates | None = None, against: Any = None
) -> Question:
    """The rows that the question is about, for every policy of it."""
    given = (policy, against)
    refuse(len(estimand.policies) > len(given), "The certificate is about more than two policies.")
    parts = [_rows_of(estimand, mine, log, one, initial) for mine, one in zip(estimand.policies, given, strict=False)]
    return Question(
        tuple(PolicyValue(mine.coefficient, own) for mine, own in zip(estimand.policies, parts, strict=True))
    )


def question_of(parts: Sequence[Rows]) -> Question:
    """The value on these rows, or the difference from the second ones."""
    return Question.value(parts[0]) if len(parts) == 1 else Question.difference(*parts)


def rows_of(question: Question) -> tuple[Rows, ...]:
    """The rows behind the parts of a question, which this module made."""
    return tuple(part.columns for part in question.parts)  # type: ignore[misc]


def _rows_of(estimand: Estimand, mine: StoredPolicy, log: Log, policy: Any, initial: InitialStates | None) -> Rows:
    options: dict[str, Any] = {"seed": estimand.seed, "draws": estimand.draws, "initial_draws": estimand.initial_draws}
    if mine.known_by_log:
        policy = policy if isinstance(policy, PolicyMixture) else stand_in(mine.known_by)
    elif mine.answers.next is not None:
        policy = _stored(mine)
    elif policy is None:
        raise VerificationError(
            "This certificate does not hold the policy's answers at the next states of the log (it was streamed, or rows "
            "were withheld). Pass the policy: verify(certificate, log, policy) (--policy SPEC)."
        )
    return make_rows(log, policy, _states(mine.start, log, initial), estimand.terms, **options).select(*estimand.rows)


def _states(start: StoredStart, log: Log, initial: InitialStates | None) -> InitialStates:
    observations = start.observations
    refuse(observations is None and start.kind == "exact", "An exact list of initial states is not withheld.")
    if initial is not None:
        observations = _given(start, initial)
    elif observations is None:
        own = _read_off(start, log)
        if not log.held and own.count_fixed == start.count_fixed:
            return own
        observations = own.observations
    return InitialStates(observations, start.weights, start.kind, start.count_fixed, start.from_log)


def _given(start: StoredStart, initial: InitialStates) -> FloatArray:
    """Those given: of the kind and with the weights of the certificate's, withheld or not."""
    if not (
        initial.kind == start.kind
        and initial.count_fixed >= start.count_fixed
        and (start.observations is None or np.array_equal(initial.observations, start.observations))
        and initial.weights.shape == start.weights.shape
        and np.allclose(initial.weights, start.weights, rtol=1e-12, atol=0.0)
    ):
        raise VerificationError(
            f"The {len(initial)} initial states that were passed are not those of the certificate: states, kind, number or "
            "weights differ. Leave `initial` out where the certificate holds its own states."
        )
    return initial.observations


def _read_off(start: StoredStart, log: Log) -> InitialStates:
    """The sample of initial states that the certificate leaves out, where it came from the log."""
    count = int(start.weights.shape[0])
    if not start.from_log:
        raise VerificationError(
            f"This certificate withholds its {count} initial states, a sample that is not part of the log. Pass them: "
            "verify(..., initial=InitialStates.sample(states)) (--initial FILE)."
        )
    own = InitialStates.from_log(log, population="iid" if start.kind == "sample" else None)
    fits = start.kind == "log" or (not start.count_fixed and len(own) == count)
    return own if fits else InitialStates.from_log(log, count=count)


def _stored(estimand: StoredPolicy) -> StoredAnswers:
    """The stored answers in place of the policy, as strict as what was once made of them."""
    following, initial, exact = estimand.answers.next, estimand.answers.initial, estimand.answers.exact
    if following is None or initial is None:
        raise VerificationError("The certificate is incomplete: it holds only a part of the policy's answers.")
    if estimand.answers.discrete:
        slots = int(initial.shape[1])
        for name, values in (("next", following), ("initial", initial)):
            normal = check_probabilities(values, values.shape[0], f"{name} state", slots)
            wrong = np.any(np.abs(values - normal) > 8 * (slots + 2) * U)
            refuse(bool(wrong), f"The stored probabilities at the {name} states do not sum to 1.")
    else:
        several = not following.shape[1] == initial.shape[1] == 1
        refuse(exact and several, "Means over several drawn actions are not exact, although the certificate claims it.")
    return StoredAnswers(following, initial, estimand.answers.discrete, exact)


def _compare_policy(estimand: Estimand, name: str, mine: StoredPolicy, rows: Rows, log: Log, policy: Any) -> str:
    """The policy against the stored answers, at every row of the log."""
    following, initial = mine.answers.next, mine.answers.initial
    if following is None:
        if initial is not None:
            _compare(name, "initial", rows.answers.initial, initial)
        return f"{name.removeprefix('the ')} was queried again at every row"
    options = {"seed": estimand.seed, "draws": estimand.draws, "initial_draws": estimand.initial_draws}
    fresh = make_rows(log, policy, rows.initial_states, estimand.terms, **options)  # type: ignore[arg-type]
    wrong = fresh.answers.exact != mine.answers.exact
    refuse(wrong, "The certificate is wrong about whether the policy is deterministic.")
    before = 0
    for batch in fresh.batches():
        answered = batch.next_answers
        _compare(name, "next", answered, following[before : before + answered.shape[0]])
        before += answered.shape[0]
    _compare(name, "initial", fresh.answers.initial, rows.answers.initial)
    return f"{name.removeprefix('the ')} gives the stored answers"


def _compare(policy: str, name: str, mine: FloatArray, stored: FloatArray) -> None:
    same = same_answers(mine, stored)
    refuse(not same, f"{policy.capitalize()} answers differently at the {name} states: it is not the certified policy.")


def check_policies(proof: Proof, question: Question, log: Log, policies: Sequence[Any]) -> Review:
    """The policies against the answers that the proof rests on."""
    names = ("the policy", "the other policy")
    stored = zip(names, proof.estimand.policies, rows_of(question), proof.logged_answers, policies, strict=False)
    return Review.all_of([_check_policy(proof.estimand, *one, log) for one in stored])


def _check_policy(
    estimand: Estimand, name: str, mine: StoredPolicy, rows: Rows, target: Target | None, policy: Any, log: Log
) -> Review:
    """One of them; None: it is not there."""
    says = () if policy is None else training_provenance(policy, estimand.log_hash, len(log))
    refuse(
        bool(says) and says != mine.learned,
        f"{name.capitalize()} says that it was learned on other rows than the certificate's: {_learned_text(says)}, not "
        f"{_learned_text(mine.learned)}.",
    )
    if mine.known_by == "mixture":
        return _check_mixture(name, rows, target, policy)
    if mine.known_by_log:
        known = _KNOWN[mine.known_by]
        if not (policy is None or policy == stand_in(mine.known_by)):
            raise VerificationError(f"The certificate is about {known}: leave the policy out.")
        return Review((f"{name} is {known}",))
    if policy is None:
        text = f"{name}: whose answers these are is not known, pass the policy to compare it with them"
        return Review(unchecked=(text,), headline=(name,))
    found = Review((_compare_policy(estimand, name, mine, rows, log, policy),))
    if target is None:
        return found
    stretch = rows.restricted(RowRange(*target.rows))
    again = query_target(replace(stretch, policy=policy), every_action=target.probs.ndim == 2, again=True)
    near = again is not None and np.allclose(again.probs, target.probs, rtol=1e-9, atol=1e-12)
    refuse(not near, f"{name.capitalize()} answers differently at the logged states: it is not the certified policy.")
    return found


def _check_mixture(name: str, rows: Rows, target: Target | None, policy: Any) -> Review:
    """Policies that were learned again, each from the rows before its block, against the stored answers."""
    if policy is None:
        text = f"{name}: that each policy of the mixture was learned before its block is the certificate's own statement; pass "
        return Review(unchecked=(f"{text}the learner to learn them again",), headline=(name,))
    refuse(
        not isinstance(policy, PolicyMixture),
        "The certificate is about policies learned block by block: pass the learner.",
    )
    learned = f"{name.removeprefix('the ')} learned again from the rows before each block"
    if target is None:
        return Review((f"{learned} was queried again at every row",))
    again = query_target(
        replace(rows.restricted(RowRange(*target.rows)), policy=policy), every_action=target.probs.ndim == 2
    )
    near = again is not None and np.allclose(again.probs, target.probs, rtol=1e-9, atol=1e-12)
    refuse(not near, f"{name.capitalize()}, learned again, answers differently at the logged states.")
    return Review((f"{learned} gives the stored answers",))


def _learned_text(learned: Learned) -> str:
    return ", ".join(str(provenance) for _, provenance in learned) or "none"


_IN_LOG = ("target columns", "behavior")
_KNOWN = {
    "mixture": "a mixture of policies learned block by block",
    "target columns": "the one of the log's own columns",
    "behavior": "the one that made the log",
}


def check_start(states: InitialStates, log: Log, initial: InitialStates | None) -> Review:
    """The initial states against those given, or a sample against the episode starts of the log."""
    text = describe_start(states)
    if initial is not None:
        return Review((f"initial states are those given: {text}",))
    from_log = states.kind != "exact" and _is_from_log(states, log)
    refuse(
        states.kind == "log" and not from_log,
        "The certificate calls its initial states those of the log; they are not.",
    )
    if from_log:
        return Review((f"initial states are the episode starts of the log: {text}",))
    other = ", and no episode starts of this log" if states.kind == "sample" else ""
    return Review(
        unchecked=(
            f"the initial distribution, which is the certificate's own statement{other}: {text}; pass initial= (--initial "
            "FILE) to compare",
        ),
        stated=(f"{'a list' if states.kind == 'exact' else 'a sample'} of initial states, {len(states)} in all",),
    )


def _is_from_log(states: InitialStates, log: Log) -> bool:
    """Those of a sample whose number was fixed beforehand are the first of them; else they are all."""
    if of_stream(states, log):
        return True
    try:
        starts = InitialStates.from_log(log).observations
    except InvalidInput:  # no episode ids or ends, or episodes that do not begin at their first step
        return False
    expected = starts[: len(states)] if states.count_fixed and states.kind == "sample" else starts
    return np.array_equal(expected, states.observations)


def _different_starts(rows: Sequence[Rows]) -> list[InitialStates]:
    """Those of the first policy, and of others where they are not the same."""
    first, *others = (one.initial_states for one in rows)
    return [first, *(one for one in others if not one.same(first))]


Replay = Callable[..., Replayed]
"""Makes a plan again with what the certificate says about its planner; VerificationError where that cannot be done."""


def replayable(certificate: Certificate, log: Log, policies: Sequence[Any]) -> bool:
    """Whether the plan can be made again: its making is described, the log can be cut, and every policy is there."""
    stored = certificate.estimand.policies
    there = [given is not None or mine.known_by in _IN_LOG for mine, given in zip(stored, policies, strict=False)]
    return certificate.planner is not None and log.held and all(there)


def verify_certificate(
    certificate: Certificate,
    log: Log,
    policy: Any = None,
    *,
    against: Any = None,
    functions: UserFunctions | None = None,
    initial: InitialStates | None = None,
    replay: Replay | None = None,
    must_replay: bool = True,
    labels: Labeling | None = None,
    sums: Sums = REFERENCE,
) -> Verification:
    """The columns of the question from log and policies, which are compared with the certificate; the core does the rest.

    `must_replay`: a plan that cannot be made again is refused; else it is named as not checked.
    """
    with as_verification_error():
        estimand = opened(certificate)
        register_named(certificate)
        refuse(
            log.content_hash != estimand.log_hash, "The log is not the one that was certified (content hashes differ)."
        )
        refuse(
            against is not None and len(estimand.policies) == 1,
            "The certificate is about one policy: leave `against` out.",
        )
        question, policies = rebuild(estimand, log, policy, initial, against), (policy, against)
        rows = rows_of(question)
        stored = read_proof(certificate, rows[0].layout, functions)
        refuse_training_starts(estimand, rows, stored)
        own = tuple(
            one if other is None else replace(one, policy=other) for one, other in zip(rows, policies, strict=False)
        )
        if replay is None or not (must_replay or replayable(certificate, log, policies)):
            again = None
        else:
            again = partial(replay, certificate, rows=own, functions=functions, sums=sums)
        return verify_columns(
            certificate,
            question,
            len(log),
            policy=check_policies(stored, question, log, policies),
            start=Review.all_of([check_start(states, log, initial) for states in _different_starts(rows)]),
            functions=functions,
            replay=again,
            labels=labels,
            sums=sums,
        )
