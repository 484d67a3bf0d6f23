"""What no row can cure (a log that contradicts what was stated, actions that were never logged, starts that no row leaves), and
another method that applies to this log."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bondic.advice.lengths import propensity_guess
from bondic.advice.situation import Situation
from bondic.core.errors import InvalidInput
from bondic.errors import shown
from bondic.methods.default import Default
from bondic.methods.propensities import NAME as PROPENSITIES
from bondic.methods.propensity_pilot import logged
from bondic.methods.sequential import NAME as SEQUENTIAL
from bondic.methods.table import NAME as TABLE
from bondic.rendering import counted, sentence, three
from bondic.result import NextStep, Result

SOME = 0.1
"""Share of the length, or of the starts, that is worth a word where the answer is not sharp."""
_RARELY = 0.05
"""Logged this many times less often than the policy takes it: rarely. Also the share of unseen pairs that is worth a word."""
_SHORTER = 0.8
"""Another method is named if its predicted length is less than this share of the present one."""
_SHORT_EPISODES = 20
_FEW_STATES, _VISITS = 500, 20
"""States that may be a table, and rows that each of them has on average."""


# --- what no row can cure -----------------------------------------------------------------------------


def rejected(situation: Situation) -> Iterator[NextStep]:
    """What happened, faults of the data, then the assumption that is weakest."""
    result, found = situation.result, situation.result.rejection
    chance = f"{result.alpha:g}"
    if found is not None and found.p_value < result.alpha:
        chance = f"{max(found.p_value, 1e-12):.3g} (its p-value)"
    yield NextStep(
        "rejected",
        f"If all assumptions held, a log like this would have a probability of at most {chance}. At least one of them is wrong. "
        f"No interval is given, and none should be used.",
        loud=True,
        numbers={} if found is None else {"p_value": found.p_value},
    )
    if any(item.name == "propensities" for item in result.assumptions):
        noticed, problem = sentence(result.choices.get("propensities", "")), situation.problem
        words = problem.log.inspection.contradicted_propensities(problem.action_name) or (noticed and f"{noticed}.")
        if words:
            yield NextStep("rejected", words, loud=True)
    doubt = f" Begin with the warning about it: {result.warnings[0]}" if result.warnings else ""
    yield NextStep(
        "rejected",
        "Look at the log first: rows out of order or copied, rows left out because of their rewards, actions that are numbered "
        f"differently in the log and in the policy, a wrong reward range. `bondic check` shows the log.{doubt}",
    )
    radius = 0.0 if found is None else found.minimal_radius
    yield NextStep("rejected", _weakest(result, radius), numbers={"minimal_radius": radius} if radius else {})


def _weakest(result: Result, radius: float) -> str:
    """The assumption that most often fails."""
    elsewhere = "Choose it for reasons that do not come from this log, and use it on other rows."
    if any(item.name == "propensities" for item in result.assumptions):
        return (
            "Then the propensities: they must be those at the moment of the decision. If you know by which factor they may be "
            "off, state it: gamma_sensitivity=1.5 (--with gamma_sensitivity=1.5)."
        )
    if result.allowance is not None:
        return (
            "Then the allowance: groups may be less alike than you state. The curve shows from which allowance on there is an "
            f"interval again. {elsewhere}"
        )
    if result.is_assumption_free:
        return (
            "Nothing was assumed about the value function, so the fault is in the log, the ranges, or in states that do "
            "not hold all that matters for what follows (the past, a clock): add what is missing to the observations."
        )
    least = f" At this level the log rules out every radius below {three(radius)}." if radius > 0 else ""
    larger = "a larger radius, radius=R (--with radius=R), or a rougher kernel assumes less"
    return f"Then the class of value functions: {larger}.{least} {elsewhere}"


def starts_not_left(situation: Situation) -> Iterator[NextStep]:
    """A table knows nothing of a state that no row leaves, however long the log is."""
    facts = situation.facts
    if not situation.names or not facts.not_left >= SOME:
        return
    every = facts.not_left > 1 - 1e-6
    state = situation.problem.state_name(facts.first_not_left) if facts.first_not_left.size else ""
    where = "the start state" if every else f"{facts.not_left:.0%} of the starts"
    which = "" if situation.no_rows else f" ({'state' if every else 'the first is state'} {state})"
    yield NextStep(
        "start",
        f"The log never left {where}{which}: no row says what an action does there, so nothing is known about what follows. "
        "Take starts that the log leaves, initial= (--initial FILE), or log rows that begin there.",
        loud=True,
        numbers={"not_left": facts.not_left},
    )


def overlap(situation: Situation) -> Iterator[NextStep]:
    """Actions and pairs that the policy takes and the log does not: no method can say what they earn."""
    facts, result, rows = situation.facts, situation.result, situation.result.rows[1] - situation.result.rows[0]
    never = np.flatnonzero((facts.logged == 0) & (facts.target > 0)) if facts.target.size else np.zeros(0, dtype=int)
    share = float(facts.target[never].sum())
    if share >= 0.01:
        yield NextStep(
            "overlap",
            f"The log never took {_actions(situation, never)}, where the policy has {share:.1%} of its probability. No row says "
            "what they earn, and no method can: log them, or evaluate a policy without them.",
            loud=True,
            numbers={"never_logged": never.size, "share": share},
        )
    logged = facts.logged / max(facts.rows, 1)
    often = (facts.logged > 0) & (facts.target >= 0.01) if facts.target.size else np.zeros(0, dtype=bool)
    rare = np.flatnonzero(often & (logged < _RARELY * facts.target)) if often.size else never[:0]
    if rare.size:
        share = float(facts.target[rare].sum())
        yield NextStep(
            "overlap",
            f"The log hardly took {_actions(situation, rare)}: {logged[rare].sum():.2%} of its rows, and {share:.1%} of "
            "the policy's probability. More rows with them help most.",
            numbers={"rarely_logged": rare.size, "share": share},
        )
    if facts.unseen > _RARELY:
        yield NextStep(
            "overlap",
            f"{facts.unseen:.0%} of what the policy does at the {facts.states} states of the log was never tried there. Log "
            "these actions in these states, or evaluate a policy that stays closer to the log.",
            loud=facts.unseen > 0.5,
            numbers={"unseen_share": facts.unseen},
        )
    if 0 < result.effective_sample_size < _RARELY * rows and situation.uses_log:
        yield NextStep(
            "overlap",
            f"The {rows} rows count like about {result.effective_sample_size:.0f}: the policy is often where the log rarely is. "
            "A log from a policy closer to it helps more than a longer log.",
            numbers={"rows": rows, "worth": result.effective_sample_size},
        )


def _actions(situation: Situation, actions: np.typing.NDArray[np.int64]) -> str:
    """By their names, where they have some."""
    names = [situation.problem.action_name(int(one)) for one in actions]
    if all(name == f"action {one}" for name, one in zip(names, actions, strict=True)):
        return f"{'action' if actions.size == 1 else 'actions'} {shown(actions.tolist())}"
    return shown(names)


# --- another method --------------------------------------------------------------------------------


def other_methods(situation: Situation) -> Iterator[NextStep]:
    """The method that the default would take in place of the one that was named; or what a log could hold."""
    result, problem, facts = situation.result, situation.problem, situation.facts
    name = _of_default(situation)
    if name in (PROPENSITIES, SEQUENTIAL, TABLE):
        by_ratios = name == PROPENSITIES
        guess = propensity_guess(situation.certified, result.alpha) if by_ratios else situation.guess()
        share = 1.0 if guess is None else guess.share(guess.seen if by_ratios else len(problem.rows))
        if share < _SHORTER * situation.share:
            yield NextStep(
                "method",
                f"method={name!r} (--method {name}), which the default would take, is expected to give about {share:.0%} of "
                "the value range. Name a method before you see its interval.",
                "extrapolated",
                numbers={"share": share},
            )
    if not logged(problem) and facts.longest <= _SHORT_EPISODES and facts.ends:
        yield NextStep(
            "method",
            f"Episodes are short ({counted(facts.longest, 'step')} at most). If the probabilities with which actions were "
            "taken are known, log them (column behavior_action_probs): nothing is assumed about the value function then.",
        )
    yield from _states(situation)


def _of_default(situation: Situation) -> str:
    """The method that the default would choose; "" where it was used already, or would choose the same one."""
    result = situation.result
    if "method" in result.choices or result.curve is not None:
        return ""
    try:
        _, why = Default(side=result.side).choose(situation.problem, result.alpha)
    except InvalidInput:  # something has to be stated first
        return ""
    name = why.replace(",", " ").split()[0]
    return "" if name == result.method else name


def _states(situation: Situation) -> Iterator[NextStep]:
    """Names that were taken for quantities, or quantities for names."""
    result, facts = situation.result, situation.facts
    if result.method == PROPENSITIES or situation.states_stated or not facts.states:
        return
    few = facts.states <= _FEW_STATES and facts.rows >= _VISITS * facts.states
    if few and not result.is_assumption_free and "states" in result.choices and situation.uses_log:
        yield NextStep(
            "method",
            f"There are {facts.states} different states. If they are names, categorical=True (--categorical obs) treats them as "
            "a table, and nothing is assumed about the value function.",
            "yours",
            numbers={"states": facts.states},
        )
    if situation.names and facts.rows < _VISITS * facts.states * len(facts.logged):
        yield NextStep(
            "method",
            f"States are treated as names: {facts.rows} rows for {facts.states} states and {len(facts.logged)} actions. If they "
            "are quantities, categorical=False (--categorical none) with a radius that you state, radius=R (--with radius=R), "
            "lets near states learn from each other.",
            "yours",
            numbers={"states": facts.states},
        )
