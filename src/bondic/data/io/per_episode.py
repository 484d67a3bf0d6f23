"""Tables in which a line is a whole episode, with a list entry for every step.

A line is an episode when a part that belongs to single steps (rewards, probabilities, their logarithms) is a list. A reward
that is one number is then paid at the last step. What is one value per episode is repeated for its steps. A step of several
tokens may hold the logarithms of their probabilities as a list of its own, which is summed.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bondic.core.errors import InvalidInput, one_line
from bondic.data.io.arrow import arrays_table, arrow_table
from bondic.data.io.table import SourceTable, refuse_twins
from bondic.data.names import PART_OF
from bondic.data.propensities import PROPENSITIES
from bondic.errors import ValidityNote

_OF_STEPS = ("rewards", "actions", "timesteps", "terminations", "truncations", *PROPENSITIES)
_TELLING = ("rewards", "behavior_action_probs", "behavior_log_probs", "target_log_probs")
"""Parts that are lists only where a line holds several steps; a list of actions may be one action of several dimensions, and
one of the target policy's probabilities those of all actions."""

_ONE_NUMBER = ("behavior_action_probs", "behavior_log_probs", "target_log_probs")
"""Parts of which a step has one number; a list of the target policy's probabilities is that of all actions."""

NamedValues = dict[str, Any]


def parts_of(names: Iterable[str], stated: Mapping[str, Any]) -> dict[str, str]:
    """The part of a transition that each column holds, by statement or by its usual names."""
    present = set(names)
    by_name = {name: PART_OF[name.lower()] for name in present if name.lower() in PART_OF}
    named = {name: part for part, name in stated.items() if isinstance(name, str) and name in present}
    return {name: part for name, part in by_name.items() if part not in stated} | named


def telling(part_of: Mapping[str, str]) -> list[str]:
    """Columns that tell episodes from rows, if they hold lists."""
    return [name for name, part in part_of.items() if part in _TELLING]


def whole_table(table: pa.Table, label: str, stated: Mapping[str, Any] | None = None, **more: Any) -> SourceTable:
    """The columns of a table that is all there; one whose lines are episodes gets a row for every step."""
    refuse_twins(label, table.column_names)
    part_of = parts_of(table.column_names, stated or {})
    for name in telling(part_of):
        column = table.column(name)
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            lengths = set(pc.unique(pc.list_value_length(column)).to_pylist())
            if lengths - {1, None}:  # lists of one number are that number
                return spread_episodes(table.to_pylist(), part_of, label)
    return arrow_table(table, label, **more)


def spread_episodes(
    lines: list[NamedValues], part_of: Mapping[str, str], label: str, named: Callable[[int], str] = "row {}".format
) -> SourceTable:
    """One row for every step of every line; `named` says which line of the file the k-th one is."""
    names = dict.fromkeys(name for line in lines for name in line)
    lengths = [_steps(line, part_of, f"{label}: {named(row)}") for row, line in enumerate(lines)]
    starts = [0, *accumulate(lengths)]

    def place(row: int) -> str:
        line = bisect_right(starts, row) - 1
        return f"step {row - starts[line]} of {named(line)}"

    unknown = [name for name in names if name not in part_of and _of_steps(name, lines, lengths)]
    per_step = {*unknown, *(name for name, part in part_of.items() if part in _OF_STEPS)}
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for row, (line, steps) in enumerate(zip(lines, lengths, strict=True)):
        for name in names:
            columns[name] += _spread(line.get(name), steps, name, part_of.get(name), per_step, f"{label}: {named(row)}")
    notes = [f"Every line is an episode: {len(lines)} episodes, {sum(lengths)} steps."]
    notes += [note for name in names for note in _summed(columns, name, part_of.get(name), label, place)]
    notes += _add_keys(columns, part_of, lengths, lines)
    return arrays_table(label, columns, notes=tuple(notes), longest=max(lengths), place=place, placed=starts[-1])


def _steps(line: NamedValues, part_of: Mapping[str, str], where: str) -> int:
    """The number of steps of a line, on which its lists have to agree."""
    lists = {n: len(v) for n, v in line.items() if isinstance(v, list) and part_of.get(n) in _OF_STEPS}
    if len(set(lists.values())) != 1 or not next(iter(lists.values())):
        lengths = ", ".join(f"{one_line(name)} {count}" for name, count in lists.items()) or "no list at all"
        raise InvalidInput(
            f"{where} is an episode whose lists differ in length or are empty ({lengths}). Every step needs one entry in "
            "each of them."
        )
    return next(iter(lists.values()))


def _of_steps(name: str, lines: list[NamedValues], lengths: list[int]) -> bool:
    """Whether an unknown list has one entry per step: only lists whose length varies with the episode tell."""
    if len(set(lengths)) < 2:
        return False
    return all(
        isinstance(line.get(name), list) and len(line[name]) == steps
        for line, steps in zip(lines, lengths, strict=True)
    )


def _spread(value: Any, steps: int, name: str, part: str | None, per_step: Collection[str], where: str) -> list[Any]:
    """A value of an episode as one for each of its steps."""
    last = part in ("rewards", "terminations", "truncations")
    if isinstance(value, list) and (name in per_step or part in ("observations", "next_observations")):
        if len(value) != steps:
            raise InvalidInput(
                f"{where} has {len(value)} entries in {one_line(name)} for {steps} steps. Every step needs one entry."
            )
        return value
    if last and value is not None:
        return [*([type(value)(0)] * (steps - 1)), value]  # paid, or true, at the last step
    return [value] * steps


def _summed(
    columns: dict[str, list[Any]], name: str, part: str | None, label: str, place: Callable[[int], str]
) -> Iterator[str]:
    """Lists of tokens inside of steps: the logarithm of a step's probability is the sum of theirs."""
    nested = [row for row, value in enumerate(columns[name]) if isinstance(value, list)] if part in _ONE_NUMBER else []
    if not nested:
        return
    if part == "behavior_action_probs":
        raise InvalidInput(
            f"{label}: {place(nested[0])} has a list in {one_line(name)}, where one number is needed: the probability of the "
            "whole step, the product over its tokens. Give the logarithms of the tokens' probabilities in its place, which are "
            "summed (behavior_log_probs, target_log_probs), or one number per step."
        )
    for row in nested:
        if not columns[name][row] or not all(isinstance(token, int | float) for token in columns[name][row]):
            raise InvalidInput(
                f"{label}: {place(row)} has a list in {one_line(name)} that is empty or holds something other than numbers. "
                "Every token needs the logarithm of its probability."
            )
        columns[name][row] = math.fsum(columns[name][row])
    yield f"{one_line(name)} holds lists inside of {len(nested)} steps: their entries, one per token, were summed."


def _add_keys(
    columns: dict[str, list[Any]], part_of: Mapping[str, str], lengths: list[int], lines: list[NamedValues]
) -> Iterator[str]:
    """Episode ids, steps and ends, where the lines do not say them."""
    present = {part for name, part in part_of.items() if name in columns}
    if "episode_ids" not in present:
        columns["episode_ids"] = [row for row, steps in enumerate(lengths) for _ in range(steps)]
    if "timesteps" not in present:
        columns["timesteps"] = [step for steps in lengths for step in range(steps)]
    if not present & {"terminations", "truncations"}:
        columns["terminations"] = [step == steps - 1 for steps in lengths for step in range(steps)]
        paid_once = all(
            not isinstance(line.get(name), list) for line in lines for name in part_of if part_of[name] == "rewards"
        )
        ends = "Every episode is taken to end with its last step, as no column says that it was cut off."
        yield ends if paid_once else ValidityNote(f"{ends} If some were, the interval is not valid: give `truncated`.")
    elif "terminations" not in present:
        name = next(name for name, part in part_of.items() if part == "truncations" and name in columns)
        last = [step == steps - 1 for steps in lengths for step in range(steps)]
        columns["terminations"] = [end and not cut for end, cut in zip(last, columns[name], strict=True)]
        yield "Episodes that were not truncated terminated with their last step."
