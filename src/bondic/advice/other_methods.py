"""Which other methods with a guarantee may be shorter on this kind of log: what the default's rule knows, in words."""

from __future__ import annotations

from collections.abc import Iterator

from bondic.advice.length_guess import propensity_guess
from bondic.advice.situation import Situation
from bondic.methods import with_propensities
from bondic.methods.default import FEWEST_ROWS
from bondic.methods.propensities import NAME as PROPENSITIES
from bondic.methods.sequential import NAME as SEQUENTIAL
from bondic.view import NextStep

_SHORTER = 0.8
"""A guess must be shorter than this share of what there is."""
_SHORT_EPISODES = 20
_FEW_STATES, _VISITS = 500, 20
"""States that may be a table, and rows that each of them has on average."""


def other_methods(situation: Situation) -> Iterator[NextStep]:
    """Propensities that are there or could be recorded, the sequential method, states as names or numbers."""
    yield from _propensities(situation)
    yield from _sequential(situation)
    yield from _states(situation)
    yield from _caps(situation)


def _propensities(situation: Situation) -> Iterator[NextStep]:
    problem, result = situation.problem, situation.result
    if result.method == PROPENSITIES:
        return
    if with_propensities.logged(problem):
        guess = propensity_guess(situation.certified, result.alpha)
        share = 1.0 if guess is None else guess.share(guess.seen)
        if share < _SHORTER * situation.share:
            yield NextStep(
                "method",
                f"The log holds propensities: --method propensities is expected to give about {share:.0%} of the value range, "
                "and assumes nothing about the value function. Name a method before you see its interval.",
                "extrapolated",
                numbers={"share": share},
            )
        return
    if situation.facts.longest <= _SHORT_EPISODES and situation.facts.ends:
        yield NextStep(
            "method",
            f"Episodes are short ({situation.facts.longest} steps at most). If the probabilities with which actions were taken "
            "are known, log them (column behavior_action_probs): --method propensities then assumes nothing about the value "
            "function.",
        )


def _sequential(situation: Situation) -> Iterator[NextStep]:
    problem, method = situation.problem, situation.result.method
    if method in (SEQUENTIAL, PROPENSITIES):
        return
    rows = len(problem.rows)
    if rows < FEWEST_ROWS:
        words = f"The sequential method, whose intervals are far shorter, needs {FEWEST_ROWS} rows: the log has {rows}."
    else:
        words = "--method sequential allows only for the noise that the log shows. Its interval is usually shorter."
    yield NextStep("method", f"{words} Name a method before you see its interval.", numbers={"rows": rows})


def _states(situation: Situation) -> Iterator[NextStep]:
    result, facts = situation.result, situation.facts
    if result.method == PROPENSITIES or not facts.states:
        return
    few = facts.states <= _FEW_STATES and facts.rows >= _VISITS * facts.states
    if few and not result.is_assumption_free and "states" in result.choices and situation.uses_log:
        yield NextStep(
            "method",
            f"There are {facts.states} different states. If they are names, --categorical obs treats them as "
            "a table, and nothing is assumed about the value function.",
            "yours",
            numbers={"states": facts.states},
        )
    if result.is_assumption_free and facts.rows < _VISITS * facts.states * len(facts.logged):
        yield NextStep(
            "method",
            f"States are treated as names: {facts.rows} rows for {facts.states} states and {len(facts.logged)} actions. If they "
            "are quantities, --numeric lets near states learn from each other; bondic then chooses a class of value functions.",
            "yours",
            numbers={"states": facts.states},
        )


def _caps(situation: Situation) -> Iterator[NextStep]:
    """A bound of the ratios allows doubly robust values."""
    result = situation.result
    if result.method == PROPENSITIES and "may shorten" in result.choices.get("control variate", ""):
        yield NextStep(
            "method",
            "If no action was ever taken with less than some probability p, by design, state it (--with least_behavior_prob=p): "
            "the interval is then shorter where rewards can be predicted.",
            "yours",
        )
