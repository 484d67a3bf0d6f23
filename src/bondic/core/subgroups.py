"""The value of a policy in every subgroup of starts, from the one proof of its value (section 15).

*Classes, tables, groups of states.* (13) is an identity for every distribution d_g of starts, with the same sum_i v_i Z_i:

    Λ J_g  =  Λ E_{d_g pi}[q̂] - sum_i v_i R̂q̂_i + <e, μ + Λ (ψ_g - ψ_0)> + sum_i v_i Z_i.                                 (29)

The events of a proof bound sums of Z_i and say where e lies; they do not see the starts. So with one set of weights the ends hold
for all d_g at once, and no part of alpha is divided. (Weights made for one of the d_g would be another event.) With a stated
allowance every d_g has start averages of its own, which are assumed too. Starts that are a sample are independent draws of d_0;
hence those of a subgroup are independent draws of d_g, given which subgroup every start is in. That they are near d_g is an event
of its own: the part of alpha for the starts is divided over the subgroups.

*Propensities.* The units (decisions, episodes) of a subgroup are chosen by their first state, known before the first action. So
Theorems 39 and 40 hold for these units alone, with the same q̂; alpha is divided over the subgroups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from bondic.core.bounded import FloatArray, IntArray
from bondic.core.cells.allowance import NOTHING_ALLOWED
from bondic.core.cells.proof import CellsProof
from bondic.core.claims import Assumption, Claim, Conclusion, End, ErrorBudget, conclude
from bondic.core.columns import Columns
from bondic.core.dual.proof import DualProof
from bondic.core.errors import InvalidInput
from bondic.core.proof import Claims, Proof
from bondic.core.propensities.proof import PropensityProof
from bondic.core.question import PolicyValue, Question
from bondic.core.sequential.proof import INITIAL, SequentialProof, claims_of
from bondic.core.starts import StartBets, used_starts
from bondic.core.sums.forms import Sums

Labeling = Callable[[FloatArray], Mapping[str, IntArray]]
"""From states (m, d) to the places, ascending, of those in each subgroup."""
_OneEvent = CellsProof | SequentialProof | DualProof


@dataclass(frozen=True)
class Subgroup:
    """What a proof shows about one subgroup."""

    claims: tuple[Claim, ...]
    conclusion: Conclusion
    count: int  # starts, or decisions (episodes), that were used


def conclude_by_subgroup(proof: Proof, question: Question, labels: Labeling, sums: Sums) -> dict[str, Subgroup]:
    """The intervals of all subgroups of starts: with the probability of the proof all of them hold at once."""
    if isinstance(proof, PropensityProof):
        return _by_units(proof, question, labels)
    if not isinstance(proof, CellsProof | SequentialProof | DualProof):
        raise InvalidInput(
            "This difference combines two intervals with separate proofs, so it has no subgroups. Evaluate each policy by "
            "itself, or name a method that bounds the difference directly: Table(), Propensities()."
        )
    return _by_starts(proof, question, labels, sums)


def subgroup_assumption(proof: Proof, question: Question) -> Assumption:
    """What is assumed beyond the assumptions of the proof, in words."""
    text = "The subgroups were fixed before looking at the rewards."
    if isinstance(proof, CellsProof) and proof.allowance is not None:
        text += " Averages over the starts of each subgroup are within the stated allowance, too."
    elif question.first.initial_states.kind != "sample" and not isinstance(proof, PropensityProof):
        return Assumption("subgroups", "Any subgroups may be looked at, also after the log was seen.", "checked")
    return Assumption("subgroups", text, "stated")


def shares(groups: Sequence[IntArray], known: int | None) -> list[float]:
    """How a probability is divided over groups of draws, by their places in the order of time; at most 1 in sum.

    None: the number of draws was fixed beforehand. Which group each of them is in says nothing about values within the groups,
    so all groups of the sample have the same share. Else the first `known` draws may be looked at: each of their m groups has
    1/(m+1), and the k-th one that comes later 1/(k (k+1)) of the last part.
    """
    rounded = 1 - 2.0**-50
    if known is None:
        return [rounded / len(groups) for _ in groups]
    first = [int(places[0]) for places in groups]
    part = rounded / (1 + sum(place < known for place in first))
    ranks = {place: rank for rank, place in enumerate(sorted(place for place in first if place >= known), 1)}
    return [part if place < known else part / (ranks[place] * (ranks[place] + 1)) for place in first]


def _likely(rows: Columns, labels: Labeling) -> dict[str, IntArray]:
    """The starts of every subgroup, those of weight 0 left out."""
    states = rows.initial_states
    found = {name: places[states.weights[places] > 0] for name, places in labels(states.observations).items()}
    return {name: places for name, places in found.items() if places.size}


def _scaled(budget: ErrorBudget, shares: Mapping[str, float]) -> ErrorBudget:
    """The parts of these names, times their shares."""
    return replace(budget, parts={name: part * shares.get(name, 1.0) for name, part in budget.parts.items()})


# --- one event ------------------------------------------------------------------------------------------


def _by_starts(proof: _OneEvent, question: Question, labels: Labeling, sums: Sums) -> dict[str, Subgroup]:
    """(29); a subgroup all of whose starts were used before the bets on them has no claims."""
    rows, bets, limits = question.first, _bets(proof), question.limits
    states = rows.initial_states
    skipped = 0 if bets is None else bets.skipped
    known = None if states.kind != "sample" or states.count_fixed else skipped
    groups = _likely(rows, labels)
    evaluated, found = _evaluator(proof, question, sums), {}
    for (name, places), share in zip(groups.items(), shares(list(groups.values()), known), strict=True):
        used, claims = places[places >= skipped], Claims(())
        if used.size:
            before, kept = places.size - used.size, np.concatenate([np.arange(skipped), used])
            part = used.size / (len(states) - skipped) if known is None else (1 + before) / (1 + skipped)
            claims = evaluated(_restricted(proof, rows, kept, share, part), _from(question, kept))
        conclusion = conclude(limits, claims.ends, claims.rejected, proof.side)
        found[name] = Subgroup(claims.ends, conclusion, int(used.size))
    return found


def _bets(proof: _OneEvent) -> StartBets | None:
    """Bets on starts that are a sample."""
    if isinstance(proof, CellsProof):
        return proof.events.start
    return proof.plan.start if isinstance(proof, SequentialProof) else None


def _restricted(proof: _OneEvent, rows: Columns, kept: IntArray, share: float, part: float) -> _OneEvent:
    """The proof for these starts: `share` of the probability of a sample, and rates for a `part` of its number."""
    budget, bets = _scaled(proof.budget, {INITIAL: share}), _bets(proof)
    if bets is not None:
        more = math.sqrt(1 / part)
        bets = replace(bets, hoeffding=bets.hoeffding * more, rates=tuple(rate * more for rate in bets.rates))
    if isinstance(proof, CellsProof):
        cells = proof.cells.pick_starts(rows.initial, kept)
        return replace(proof, budget=budget, cells=cells, events=replace(proof.events, start=bets))
    if isinstance(proof, SequentialProof):
        return replace(proof, budget=budget, plan=replace(proof.plan, start=bets))
    return replace(proof, budget=budget)


def _evaluator(proof: _OneEvent, question: Question, sums: Sums) -> Callable[[Any, Question], Claims]:
    """From a restricted proof and its question to claims; on cells the rows are added up, and the values located, once."""
    if not isinstance(proof, CellsProof):
        return lambda own, here: cast(Proof, own).claims(here, sums)
    if proof.cells.needs_allowance and proof.allowance is None:
        return lambda *_: Claims(())
    bound = proof.bound(proof.cells.answered(question))
    located = bound.locate(NOTHING_ALLOWED if proof.allowance is None else proof.allowance)

    def on_cells(own: CellsProof, here: Question) -> Claims:
        rows = own.cells.answered(here)
        used = used_starts(rows, 0 if own.events.start is None else own.events.start.skipped)
        starts = own.cells.last_starts(used).starts(used)
        return claims_of(own.evaluate_on(rows, replace(bound, starts=starts), located), own.budget)

    return on_cells


def _from(question: Question, places: IntArray) -> Question:
    """The same question from some of the starts."""
    return Question(tuple(PolicyValue(one.coefficient, one.columns.pick_starts(places)) for one in question.parts))


# --- propensities ---------------------------------------------------------------------------------------


def _by_units(proof: PropensityProof, question: Question, labels: Labeling) -> dict[str, Subgroup]:
    """Every subgroup from its own units, at its share of alpha. A number of units that was planned says nothing of theirs."""
    if not question.first.states_recorded:
        raise InvalidInput("The log has no observations, so the subgroup of a row is unknown.")
    columns, limits = proof.columns(question), question.limits
    groups = dict(labels(columns.first.observations[columns.first.starts]))
    listed: Mapping[str, IntArray] = {}
    if proof.value == "stated starts":
        listed = _likely(question.first, labels)
        groups = {name: places for name, places in groups.items() if name in listed}
    divided, found = shares(list(groups.values()), 0 if proof.beforehand or proof.rates else None), {}
    begun = sorted(int(units[0]) for units in groups.values())
    for (name, units), share in zip(groups.items(), divided, strict=True):
        part = 1.0 / (2 + begun.index(int(units[0])))  # of the units; how many there are is known later
        own = replace(
            proof,
            budget=_scaled(proof.budget, dict.fromkeys(proof.budget.parts, share)),
            planned=proof.planned if proof.beforehand or proof.rates else int(units.size),
            rates={end: _for_fewer(rates, proof, end, share, part) for end, rates in proof.rates.items()},
        )
        estimand = question if name not in listed else _from(question, listed[name])
        claims = own.claims_on(estimand, columns.pick(units))
        conclusion = conclude(limits, claims.ends, claims.rejected, proof.side)
        found[name] = Subgroup(claims.ends, conclusion, int(units.size))
    missing = {name: Subgroup((), conclude(limits, (), False, proof.side), 0) for name in listed if name not in found}
    return {**found, **missing}


def _for_fewer(
    rates: tuple[float, ...], proof: PropensityProof, end: End, share: float, part: float
) -> tuple[float, ...]:
    """sqrt( 2 log(1/delta) / (n s^2) ) for a part of the units, at a share of the probability."""
    delta = proof.budget[end]
    more = math.sqrt(math.log(1 / (delta * share)) / math.log(1 / delta) / (1.0 if proof.beforehand else part))
    return tuple(rate * more for rate in rates)
