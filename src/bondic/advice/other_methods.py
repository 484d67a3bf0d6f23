"""Which other methods with a guarantee may be shorter on this kind of log: what the default's rule knows, in words."""

from __future__ import annotations

from collections.abc import Iterator

from bondic.advice.length_guess import propensity_guess, sequential_guess
from bondic.advice.situation import Situation
from bondic.bounds.dual import BIAS
from bondic.methods import with_propensities
from bondic.methods.default import FEWEST_ROWS
from bondic.methods.propensities import NAME as PROPENSITIES
from bondic.methods.sequential import NAME as SEQUENTIAL
from bondic.rendering import counted
from bondic.view import NextStep

_SHORTER = 0.8
"""A guess must be shorter than this share of what there is."""
_SHORT_EPISODES = 20
_MANY_COLUMNS = 10
"""Columns beyond which distances between states tell them hardly apart."""
_FEW_STATES, _VISITS = 500, 20
"""States that may be a table, and rows that each of them has on average."""


def other_methods(situation: Situation) -> Iterator[NextStep]:
    """Many columns, propensities that are there or could be recorded, the sequential method, states."""
    yield from _columns(situation)
    yield from _propensities(situation)
    yield from _sequential(situation)
    yield from _states(situation)
    yield from bound_of_ratios(situation)


def _columns(situation: Situation) -> Iterator[NextStep]:
    """States of many columns, in which no row is near another."""
    spreads, columns = situation.spreads, situation.problem.layout.observation_dim
    biased = bool(spreads) and max(spreads, key=spreads.__getitem__) == BIAS
    if situation.names is False and biased and columns >= _MANY_COLUMNS:
        yield NextStep(
            "method",
            f"States have {columns} columns, and hardly two of {situation.facts.rows} rows are near each other there: a row says "
            "little about others. If fewer columns hold all that matters for rewards and for what follows, and all that the "
            "policy looks at, name them (--columns observations=...).",
            "yours",
            numbers={"columns": columns},
        )


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
            f"Episodes are short ({counted(situation.facts.longest, 'step')} at most). If the probabilities with which actions "
            "were taken are known, log them (column behavior_action_probs): --method propensities then assumes nothing about the "
            "value function.",
        )


def _sequential(situation: Situation) -> Iterator[NextStep]:
    """Only where it is expected to be shorter: what it promises is known before it is named."""
    problem, result = situation.problem, situation.result
    if result.method in (SEQUENTIAL, PROPENSITIES) or result.curve is not None:
        return
    rows = len(problem.rows)
    if rows < FEWEST_ROWS:
        text = f"The sequential method, whose intervals are far shorter, needs {FEWEST_ROWS} rows: the log has {rows}."
        yield NextStep("method", text, numbers={"rows": rows})
        return
    guess = sequential_guess(problem, result.alpha, result.side, **situation.known)
    share = 1.0 if guess is None else guess.share(rows)
    if share < _SHORTER * situation.share:
        yield NextStep(
            "method",
            f"--method sequential allows only for the noise that the log shows: it is expected to give about {share:.0%} of the "
            "value range. Name a method before you see its interval.",
            "extrapolated",
            numbers={"share": share, "rows": rows},
        )


def _states(situation: Situation) -> Iterator[NextStep]:
    result, facts = situation.result, situation.facts
    if result.method == PROPENSITIES or situation.states_stated or not facts.states:
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
    if situation.names and facts.rows < _VISITS * facts.states * len(facts.logged):
        yield NextStep(
            "method",
            f"States are treated as names: {facts.rows} rows for {facts.states} states and {len(facts.logged)} actions. If they "
            "are quantities, --numeric with a radius that you state (--radius) lets near states learn from each other.",
            "yours",
            numbers={"states": facts.states},
        )


def bound_of_ratios(situation: Situation) -> Iterator[NextStep]:
    """A bound of the ratios allows doubly robust values."""
    result = situation.result
    if result.method == PROPENSITIES and "may shorten" in result.choices.get("control variate", ""):
        yield NextStep(
            "method",
            "If no action could be taken with less than some probability p, by design, state it (--with least_behavior_prob=p); "
            "or the largest ratio of the two policies' probabilities (--with largest_ratio=R). The interval is then shorter "
            "where rewards can be predicted. Take the number from how the log was made, never from what it shows.",
            "yours",
        )
