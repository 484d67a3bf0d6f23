"""Vowpal Wabbit's contextual bandit logs, plain or .gz: cb_adf blocks (`shared |...`, `0:cost:prob |...`), or cb lines.

A block of cb_adf is one decision: a line for every action that was possible, the taken one labeled. The action is then its
line's place in the block, from 0. Of features those of the `shared` line (of cb: of the line) become observations, one column
for each; features of actions are not read. reward = -cost.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bondic.data.io.table import SourceTable, arrays_table
from bondic.errors import InvalidInput, one_line

SUFFIXES = (".vw", ".vw.gz")
_MOST_FEATURES = 1024
_SHARED = "shared"


@dataclass(frozen=True)
class _Decision:
    """What a block says."""

    line: int  # where it begins, from 1
    action: int
    cost: float
    prob: float
    features: dict[str, float]
    choices: int  # 0: not said


def read_vowpal(path: Path) -> SourceTable:
    label = one_line(path.name)
    lines = _lines(path, label)
    grouped = any(not line for _, line in lines[:-1]) or any(line.startswith(_SHARED) for _, line in lines)
    found = [_decision(block, label, alone=not grouped) for block in _blocks(lines, grouped)]
    if not found:
        raise InvalidInput(f"{label} holds no example.")
    names = sorted({name for item in found for name in item.features})
    arrays = {
        "actions": np.array([item.action for item in found]),
        "rewards": np.array([0.0 - item.cost for item in found]),
        "behavior_action_probs": np.array([item.prob for item in found]),
    }
    notes = [
        f"{label} is a contextual bandit log of Vowpal Wabbit: every example is an episode of one step. Costs became rewards: "
        "reward = -cost, and the reward range is that of -cost."
    ]
    if found[0].choices:
        sizes = {item.choices for item in found}
        many = f"{min(sizes)}" if len(sizes) == 1 else f"{min(sizes)} to {max(sizes)}"
        notes.append(
            f"Actions are places within their block, from 0 on, among {many} choices; their features are not read."
        )
    if len(names) > _MOST_FEATURES:
        notes.append(f"{len(names)} different features are too many for columns: they are not read as observations.")
        names = []
    features = {name: np.array([item.features.get(name, 0.0) for item in found]) for name in names}
    if not names and len(found[0].features) == 0:
        features = {"constant": np.zeros(len(found))}  # nothing was observed before the action
    groups = {"observations": tuple(features)} if features else {}
    return arrays_table(label, {**features, **arrays}, groups=groups, notes=tuple(notes), one_step=True)


def _lines(path: Path, label: str) -> list[tuple[int, str]]:
    """All lines with their numbers, from 1."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            return [(number, line.decode("utf-8").strip()) for number, line in enumerate(file, start=1)]
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as problem:
        raise InvalidInput(f"{label} cannot be read ({one_line(problem, 200)}). Write the file again.") from problem


def _blocks(lines: list[tuple[int, str]], grouped: bool) -> Iterator[list[tuple[int, str]]]:
    """Lines that belong together: blocks between empty lines, or single lines where nothing groups them."""
    block: list[tuple[int, str]] = []
    for number, line in lines:
        starts = not line or line.startswith(_SHARED)  # a block may follow another without an empty line
        if block and (starts or not grouped):
            yield block
            block = []
        if line:
            block.append((number, line))
    if block:
        yield block


def _decision(block: list[tuple[int, str]], label: str, *, alone: bool) -> _Decision:
    first, opening = block[0]
    shared = opening.startswith(_SHARED)
    lines = block[1:] if shared else block
    labeled = [(place, number, line) for place, (number, line) in enumerate(lines) if _label_words(line)]
    if len(labeled) != 1:
        what = "no action is labeled" if not labeled else f"{len(labeled)} actions are labeled"
        raise InvalidInput(
            f"{label}: in the example at line {first} {what}. The taken action needs action:cost:probability, the others "
            "nothing. Never drop an example because of its cost: that breaks the guarantee."
        )
    place, number, line = labeled[0]
    action, cost, prob = _label(_label_words(line)[0], number, label)
    features = _features(opening, first, label) if shared or alone else {}
    if not alone:
        return _Decision(first, place, cost, prob, features, len(lines))
    if action < 1:
        raise InvalidInput(
            f"{label}: line {number} has action {action}; without other lines beside it actions are numbered 1, 2, ..."
        )
    return _Decision(first, action - 1, cost, prob, features, 0)


def _label_words(line: str) -> list[str]:
    """What stands before the features, without a tag."""
    return [word for word in line.partition("|")[0].split() if not word.startswith("'")]


def _label(text: str, number: int, label: str) -> tuple[int, float, float]:
    pieces = text.split(":")
    try:
        action, cost, prob = int(pieces[0]), float(pieces[1]), float(pieces[2])
    except (ValueError, IndexError) as problem:
        raise InvalidInput(
            f"{label}: line {number} has the label {one_line(text)!r}; action:cost:probability is needed, such as "
            "0:1.5:0.25. Without the probability the log cannot be weighed."
        ) from problem
    return action, cost, prob


def _features(line: str, number: int, label: str) -> dict[str, float]:
    """Features by namespace and name; one without a value has 1, and a namespace may scale its own."""
    out: dict[str, float] = {}
    for part in line.split("|")[1:]:
        words = part.split()
        space, scale = ("", 1.0) if part[:1] in ("", " ", "\t") or not words else _valued(words.pop(0), number, label)
        for word in words:
            name, value = _valued(word, number, label)
            key = f"{space}^{name}" if space else name
            out[key] = out.get(key, 0.0) + scale * value
    return out


def _valued(word: str, number: int, label: str) -> tuple[str, float]:
    name, sign, value = word.rpartition(":")
    try:
        return (name, float(value)) if sign else (word, 1.0)
    except ValueError as problem:
        raise InvalidInput(
            f"{label}: line {number} has the feature {one_line(word)!r}, whose value is no number."
        ) from problem
