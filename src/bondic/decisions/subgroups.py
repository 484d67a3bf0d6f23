"""A result by subgroup of its starts: the store, the age band, the start state. One proof serves all of them (section 15)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from bondic.core.claims import Status
from bondic.core.errors import InvalidInput
from bondic.core.propensities.proof import PropensityProof
from bondic.core.subgroups import Subgroup, conclude_by_subgroup, subgroup_assumption
from bondic.core.sums.forms import Sums
from bondic.decisions.difference import other_rows
from bondic.engines.sums import STANDARD
from bondic.result import Result, Subgroups
from bondic.rows import Rows
from bondic.rows.estimand import rebuild
from bondic.rows.subgroups import labels_of, words_by


def with_subgroups(result: Result, by: Any, against: Any = None, *, sums: Sums = STANDARD) -> Result:
    """The same result with intervals for every subgroup of starts, which hold together with probability at least 1 - alpha.

    Parameters
    ----------
    result : Result
        What `estimate_interval`, `evaluate_policy` or `difference_interval` returns, with its question.
    by : str, int or callable
        A column of the observations, by its name or number; or a function of all states that returns a label for each.
    against : policy, Rows or "today", default None
        The other policy, where the result is a difference.
    """
    proof, problem = result.proof, result.question
    if proof is None or problem is None:
        raise InvalidInput(
            f"The result of the method {result.method} has no subgroups: they need its proof and its question. Name one of "
            "bondic's own methods."
        )
    other = other_rows(problem, against).policy if against is not None else None
    question = rebuild(proof.estimand, problem.log, problem.policy, None, other)
    found = conclude_by_subgroup(proof, question, labels_of(problem, by), sums)
    unit = f"{proof.columns(question).unit}s" if isinstance(proof, PropensityProof) else "starts"
    results = {name: part_of(result, one) for name, one in found.items()}
    counts = {name: one.count for name, one in found.items()}
    assumptions = (*result.assumptions, subgroup_assumption(proof, question))
    return replace(result, subgroups=Subgroups(words_by(by), results, counts, unit), assumptions=assumptions)


def subgroup_problems(problem: Rows, by: Any) -> dict[str, Rows]:
    """The question by subgroup of stated starts, each for an evaluation of its own: K of them hold together at alpha / K each.

    `with_subgroups` answers for all of them with the weights that were made for all starts; own weights are shorter where
    subgroups are few, or have very different values. Each evaluation has its own certificate.

    Parameters
    ----------
    problem : Rows
        What `make_problem` returns, with starts that are stated: a list, or a sample.
    by : str, int or callable
        As in `with_subgroups`.
    """
    states = problem.initial_states
    if states.from_rows:
        raise InvalidInput(
            "The starts are those of the log's episodes, of which plans see the first ones. State them: "
            "initial=InitialStates.exact(states) for the value from these states, or .sample(states) if they are other draws."
        )
    groups = labels_of(problem, by)(states.observations)
    return {name: problem.pick_starts(places) for name, places in groups.items() if states.weights[places].any()}


def part_of(whole: Result, one: Subgroup) -> Result:
    """An interval that the proof of the whole shows, beside its own; all else is that of the whole."""
    low, high, status = one.conclusion.low, one.conclusion.high, one.conclusion.status
    middles = [claim.value.mid for claim in one.claims if claim.uses_log]
    estimate = sum(middles) / 2 if len(middles) == 2 and status is Status.INTERVAL else math.nan
    hashes = {name: text for name, text in whole.hashes.items() if name != "certificate"}
    more: dict[str, Any] = {"curve": None, "parts": (), "steps": (), "subgroups": None, "robustness": None}
    return replace(
        whole, low=low, high=high, status=status, claims=one.claims, estimate=estimate, certificate=None, rejection=None,
        gap=(math.nan, math.nan), effective_sample_size=0.0, hashes=hashes, **more,
    )  # fmt: skip
