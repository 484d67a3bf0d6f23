"""next_steps(result, problem): ways out of an answer that is trivial, wide or rejected, the most urgent first.

A sharp answer gets a hint where one part that a statement could spare is most of its length.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bondic.advice.allowance import state_allowance
from bondic.advice.discount import discount
from bondic.advice.largest import largest_part
from bondic.advice.more_rows import rows_needed
from bondic.advice.other_methods import bound_of_ratios, other_methods
from bondic.advice.overlap import overlap
from bondic.advice.ranges import ranges
from bondic.advice.rejected import rejected
from bondic.advice.situation import DOMINANT, Situation
from bondic.advice.start import cost_of_starts, starts_not_left
from bondic.bounds.dual import ALLOWANCE
from bondic.errors import InvalidInput
from bondic.proofs.cells import ALLOWED
from bondic.result import Result
from bondic.rows import Rows
from bondic.view import NextStep


def next_steps(result: Result, problem: Rows | None = None, *, no_rows: bool = False) -> tuple[NextStep, ...]:
    """What would help, for a trivial, wide or rejected result; for a sharp one what a statement would spare, if that is much.

    `problem` is the one that the result answers; a result that still holds it needs no other. Made after the interval, from
    the result, its problem and counts of its log; takes a second or two where no row was used.
    Nothing of it is guaranteed, and nothing of it moves an interval. What it suggests on the ground of this log is for the
    next one: a range, a radius or a method that is changed because of the outcome has no guarantee. `no_rows` leaves
    out what quotes the least or largest value of a row.
    """
    problem = result.question if problem is None else problem
    if problem is None:
        raise InvalidInput("This result no longer holds its question: pass the problem, next_steps(result, problem).")
    if problem.log_hash != result.hashes["log"]:
        raise InvalidInput("The result belongs to another log than the problem (content hashes differ).")
    situation = Situation(result, problem, no_rows)
    if situation.verdict == "sharp":
        return tuple(_hints(situation))
    if situation.verdict == "rejected":
        return tuple(rejected(situation))
    return tuple(sorted(_ways_out(situation), key=lambda step: not step.loud))


def with_next_steps(result: Result, problem: Rows | None = None, *, no_rows: bool = False) -> Result:
    """The same result with what to do next, which every view then shows."""
    return replace(result, steps=next_steps(result, problem, no_rows=no_rows))


def _hints(situation: Situation) -> Iterator[NextStep]:
    """Parts that can be spared by saying more, whatever the length: starts, an allowance, ratios without a bound."""
    yield from cost_of_starts(situation, DOMINANT)
    for part in (ALLOWANCE, ALLOWED):
        yield from largest_part(situation, only=part, share=DOMINANT)
    yield from bound_of_ratios(situation)


def _ways_out(situation: Situation) -> Iterator[NextStep]:
    yield from starts_not_left(situation)
    yield from overlap(situation)
    yield from state_allowance(situation)
    yield from largest_part(situation)
    yield from cost_of_starts(situation)
    yield from rows_needed(situation)
    yield from discount(situation)
    yield from ranges(situation)
    yield from other_methods(situation)
