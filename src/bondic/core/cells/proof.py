"""The proof of an interval on cells: tables, about which nothing is assumed, and groups of states with a stated allowance.

What was fixed before the rows: cells and the center's values, blocks, the vector event, the weights of both ends. The
allowance is none of it: one event serves them all (`bound`). Without a stated allowance a proof on groups claims nothing
beyond the value range.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from bondic.core.assumptions import fixed_before, length_assumption, list_assumptions
from bondic.core.balls import Box, Provenance
from bondic.core.bounded import Between, Enclosure, FloatArray, U
from bondic.core.cells.allowance import NOTHING_ALLOWED, Allowance, CellAllowance
from bondic.core.cells.ends import CellBound, EndTerms, EndWeights, ruled_out
from bondic.core.cells.forecasts import EarlierRows
from bondic.core.cells.localize import CellTails, Events, Located, VectorEvent
from bondic.core.cells.rows import Cells, within_quotas
from bondic.core.cells.tally import CellShape, tally
from bondic.core.claims import Assumption, Claim, End, ErrorBudget, Guarantee, Part, Side, ends_of
from bondic.core.columns import AnsweredRows
from bondic.core.dual.bound import BIAS, NOISE, START, UNMOVED, VALUE
from bondic.core.errors import VerificationError, refuse
from bondic.core.proof import Claims, Estimand, Proof, Review
from bondic.core.question import Question
from bondic.core.registry import register
from bondic.core.sequential.ends import RARE, Evaluation, mean_of_starts
from bondic.core.sequential.proof import INITIAL, VECTOR, claims_of
from bondic.core.starts import StartBets, StartTerms, start_cost, used_starts
from bondic.core.sums.forms import Sums
from bondic.core.terms import ValueRange, range_at_all_times

ALLOWED = "allowance"
SINGLE = "cells"
"""The share of alpha of the events of single cells."""
TEST = "test"
"""The share of alpha of what the log rules out: the vector event over halves of groups."""
_CHUNK = 1024
_SIGNS: Mapping[End, float] = {"lower": -1.0, "upper": 1.0}


@dataclass(frozen=True, eq=False)
class CellPlan:
    """All that is fixed before the rows it is used on."""

    stops: tuple[int, ...]  # rows of the log before which the blocks end
    vector: VectorEvent
    cells: CellTails
    tails: dict[str, EndWeights]  # by end
    reference: FloatArray  # (p,) b: may be anything, and may come from anywhere
    provenance: Provenance
    start: StartBets | None = None
    quotas: FloatArray | None = None  # (B, p) rows of a block and cell that get its weight, the first ones; None: all
    past: EarlierRows | None = None  # rows before the certified ones, for forecasts; None: groups have their own
    eras: tuple[int, ...] = ()  # blocks at whose beginning forecasts are made anew

    def __post_init__(self) -> None:
        refuse(not self.stops or sorted(set(self.stops)) != list(self.stops), "Blocks follow one another.")
        shape = (len(self.stops), self.reference.size)
        refuse(any(tail.weights.shape != shape for tail in self.tails.values()), "A tail has weights of other cells.")
        refuse(self.quotas is not None and self.quotas.shape != shape, "Quotas are those of other cells.")
        refuse((self.past is None) != (not self.eras) or list(self.eras) != sorted(set(self.eras)), "Eras have a past.")
        refuse(bool(self.eras) and self.eras[0] != 0, "The first era begins with the first block.")
        sizes = (self.vector.shape.size, self.cells.rates.shape[1])
        refuse(any(size != self.reference.size for size in sizes), "An event has other cells.")


@register("proof", "cells")
@dataclass(frozen=True, eq=False)
class CellsProof(Proof):
    """The ends (24) at the stated allowance; a table needs none."""

    estimand: Estimand
    budget: ErrorBudget  # parts: vector, lower, upper, and initial where starts are a sample
    side: Side
    cells: Cells
    events: CellPlan
    allowance: Allowance | None = None  # as stated; None for a table, or where nothing was stated
    stated_first: bool = True  # whether the allowance was stated before the curve was shown
    planned: int | None = None

    def __post_init__(self) -> None:
        ends = ends_of(self.side)
        refuse(self.planned is not None and self.planned < 1, "No rows were planned.")
        refuse(set(self.events.tails) != set(ends), "The weights of an end are missing.")
        refuse(
            any(not self.budget.parts.get(name, 0.0) > 0 for name in (VECTOR, SINGLE, *ends)),
            "An event has no part of alpha.",
        )
        needed = self.cells.needs_allowance
        refuse(not needed and self.allowance is not None, "A table needs no allowance.")
        # (23) is about averages over all rows of a block and cell, quotas weigh some of them
        refuse(needed and self.events.quotas is not None, "Groups have no quotas.")

    @property
    def guarantee(self) -> Guarantee:
        return "finite-sample"

    @property
    def needs_replay(self) -> tuple[str, ...]:
        return ("plan",)

    @property
    def any_length(self) -> bool:
        return self.planned is not None

    def bound(self, rows: AnsweredRows) -> CellBound:
        """The event and the tally of the rows: everything but an allowance."""
        events, count = self.events, len(self.events.stops)
        used = rows if events.start is None else used_starts(rows, events.start.skipped)
        cells = self.cells.last_starts(used)
        # before atoms take memory: their number is the certificate's own
        refuse(cells.size(rows.layout.slots) != events.reference.size, "The events are those of other cells.")
        shape = CellShape(count * (1 if events.quotas is None else 2), cells.atoms(used), cells.layers)
        parts = cells.parts(used, events.stops)
        parts = parts if events.quotas is None else within_quotas(parts, events.quotas)
        found = tally(parts, shape, rows.gamma, events.reference)
        return CellBound(
            found,
            cells.labels(found, used, events.stops, events.past, events.eras),
            Events(events.vector, self.budget[VECTOR], events.cells, self.budget[SINGLE]),
            {_SIGNS[end]: _padded(events.tails[end], shape.blocks) for end in ends_of(self.side)},
            {_SIGNS[end]: self.budget[end] for end in ends_of(self.side)},
            cells.starts(used),
            cells.limits(rows),
        )

    def ruled_out(self, rows: AnsweredRows, bound: CellBound) -> float:
        """β that the rows exclude (both numbers); 0 for a table, or where no part of alpha was set aside for it."""
        probability = self.budget.get(TEST)
        halves = None if probability is None else self.cells.halves(rows, self.events.stops, self.events.reference)
        return 0.0 if halves is None or probability is None else ruled_out(bound, halves, probability)

    def evaluate(self, rows: AnsweredRows, bound: CellBound, allowance: Allowance | CellAllowance) -> Evaluation:
        """The ends at an allowance, on the event of the proof."""
        return self.evaluate_on(rows, bound, bound.locate(allowance))

    def evaluate_on(self, rows: AnsweredRows, bound: CellBound, located: Located) -> Evaluation:
        """The ends over what the rows leave of the values."""
        everything, found = self.cells.value_range(rows), []
        for sign, terms in bound.ends(located).items():
            end: End = "upper" if sign > 0 else "lower"
            found.append(_claim(end, terms, everything))
        value, known = mean_of_starts(everything, found), _StartDeviations(self.cells, located, rows)
        claims = [
            Claim(
                claim.end,
                (*claim.parts, Part(START, self._start(rows, claim.end, value, known), "spread")),
                claim.uses_log,
            )
            for claim in found
        ]
        return Evaluation(tuple(claims), _crossed(claims, everything), (), bound.effective_rows())

    def _start(self, rows: AnsweredRows, end: End, value: ValueRange, known: _StartDeviations) -> Enclosure:
        # actions that were drawn at the starts of a list are terms of their own: the range bounds them
        drawn = rows.initial_states.kind != "sample"
        limits, ends = self.cells.value_range(rows), ends_of(self.side)
        spread = None if drawn else known
        return start_cost(rows, self.events.start, self.budget.get(INITIAL), ends, end, value, spread, limits)

    def claims(self, question: Question, sums: Sums) -> Claims:
        del sums
        rows = self.cells.answered(question)
        return self.claims_on(rows, self.bound(rows))

    def claims_on(self, rows: AnsweredRows, bound: CellBound) -> Claims:
        """The same where the rows were tallied before; nothing where groups have no stated allowance."""
        if self.cells.needs_allowance and self.allowance is None:
            return Claims(())
        allowance = NOTHING_ALLOWED if self.allowance is None else self.allowance
        return claims_of(self.evaluate(rows, bound, allowance), self.budget)

    def assumptions(self, question: Question, *, rejected: bool) -> tuple[Assumption, ...]:
        rows, seen = question.first, self.events.provenance
        text = "Groups, model, bets and weights were made from the rows before those that they are used on"
        count = rows.rows.stop - (rows.rows.start if seen.rows is None else seen.rows[0])
        own = [fixed_before("plan", text, seen, rows), length_assumption(count, self.planned)]
        limits = range_at_all_times(rows.terms)
        listed = list_assumptions(rows, Box.around(limits.low, limits.high, rows.layout), tuple(own), rejected=rejected)
        if self.allowance is None:
            return listed
        groups = self.cells.size(rows.layout.slots) // (rows.layout.slots * self.cells.layers)
        allowed = self._allowed(self.allowance, groups, rejected)
        return tuple(allowed if item.name == "values" else item for item in listed)

    def _allowed(self, allowance: Allowance, groups: int, rejected: bool) -> Assumption:
        averages, single = allowance.pair
        when = "before" if self.stated_first else "after"
        text = (
            f"Alike inside a group: in each of {groups} groups, for every action, averages of the model's error "
            f"(over the rows of a block, over what follows them, over the starts) differ from one number by at most "
            f"{averages:g}, and single values (after a row, at a sampled start) by at most {single:g}"
            f"{', for both policies' if self.cells.layers > 1 else ''}. Stated {when} the curve was shown."
        )
        return Assumption("values", text, "rejected" if rejected else "stated")

    def provenances(self) -> tuple[Provenance, ...]:
        return (self.events.provenance,)

    def work(self, question: Question) -> float:
        rows = question.first
        points = float((1 + max(rows.next_draws, 1)) * len(rows) + rows.initial.points.shape[0]) * self.cells.layers
        return 64.0 * points + 16.0 * float(self.events.reference.size) ** 2

    def reviews(self, question: Question, claims: Claims, sums: Sums) -> tuple[Review, ...]:
        rows = question.first
        del claims, sums
        if self.events.provenance.saw((rows.rows.start, rows.rows.stop), rows.log_hash):
            raise VerificationError("The plan was begun with rows that are certified, or with rows after them.")
        bets = "bets stay within the value range, row by row"
        if not self.cells.needs_allowance:
            return (Review((bets, "nothing is assumed about q*: there is no class to test")),)
        if self.allowance is None:
            return (Review(("nothing is claimed beyond the value range: no allowance was stated",)),)
        return (Review((bets,), ("whether groups are as alike as was stated: no log can show that",)),)


def _padded(tail: EndWeights, blocks: int) -> EndWeights:
    """Rows beyond their quota have no weight."""
    extra = np.zeros((blocks - tail.weights.shape[0], tail.weights.shape[1]))
    return EndWeights(np.concatenate([tail.weights, extra]), tail.rate)


def _claim(end: End, terms: EndTerms, limits: ValueRange) -> Claim:
    parts = [
        Part(VALUE, terms.value, "value"),
        Part(BIAS, Enclosure(terms.bias), "spread"),
        Part(NOISE, Enclosure(terms.noise), "spread"),
        Part(RARE, Enclosure(terms.log), "spread"),
    ]
    if terms.allowance > 1e-300:
        parts.append(Part(ALLOWED, Enclosure(terms.allowance), "spread"))
    claim = Claim(end, tuple(parts))
    gained = claim.gain(limits) > UNMOVED * limits.width
    return replace(claim, uses_log=gained)


def _crossed(claims: list[Claim], limits: ValueRange) -> bool:
    """Whether the ends leave nothing between them, or nothing of the value range."""
    low = max([claim.bound for claim in claims if claim.end == "lower"], default=limits.low)
    high = min([claim.bound for claim in claims if claim.end == "upper"], default=limits.high)
    return high < low or high < limits.low or low > limits.high


@dataclass(frozen=True, eq=False)
class _StartDeviations:
    """V(x_j) - R over E: R is a number, or the mean value of the compared starts."""

    cells: Cells
    located: Located
    rows: AnsweredRows  # with all starts
    found: dict[float | None, Between] = field(default_factory=dict, repr=False)  # the same for both ends

    def __call__(self, terms: StartTerms, bets: StartBets) -> Between:
        if bets.center not in self.found:
            self.found[bets.center] = self._between(terms, bets)
        return self.found[bets.center]

    def _between(self, terms: StartTerms, bets: StartBets) -> Between:
        count, skipped = len(self.rows.initial_states), bets.skipped
        reference = self.located.system.tally.reference
        single = self.cells.layers * float(self.located.allowance.single.max(initial=0.0))
        compared, base = np.zeros(reference.size), bets.center or 0.0
        if bets.center is None:
            seen, values = self.cells.start_cells(self.rows.initial, 0, terms.count)
            compared, single = seen.mean(axis=0), 2 * single
            base = float((values + seen @ reference).mean())
        middle, width = np.zeros(count - skipped), np.zeros(count - skipped)
        for first in range(skipped, count, _CHUNK):
            here = slice(first - skipped, min(first + _CHUNK, count) - skipped)
            cells, values = self.cells.start_cells(self.rows.initial, first, min(first + _CHUNK, count))
            middle[here] = values + cells @ reference - base
            width[here] = self._supports(cells - compared) + single
        size = self.cells.center_size(middle) + abs(base) + float(np.abs(reference).max(initial=0.0))
        width = width * (1 + 1e-12) + 64 * U * (reference.size + count + 8) * size
        return Between(middle - width, middle + width)

    def _supports(self, directions: FloatArray) -> FloatArray:
        """Of many starts that have few states, each state once."""
        marks = directions @ np.random.default_rng(0).random(directions.shape[1])
        _, one, place = np.unique(marks, return_index=True, return_inverse=True)
        if not np.array_equal(directions[one[place]], directions):  # two states have one mark
            return self.located.supports(directions)
        return self.located.supports(directions[one])[place]
