"""Vowpal Wabbit's contextual bandit logs, plain or .gz: cb_adf blocks (`shared |...`, `0:cost:prob |...`), or cb lines.

A block of cb_adf is one decision: a line for every possible action, the taken one labeled; the action is its line's place in the
block, from 0. Features of the `shared` line (of cb: of the line) are observed, those of actions are not read. reward = -cost.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

from bondic.core.errors import InvalidInput, one_line
from bondic.data.io.arrow import arrays_table
from bondic.data.io.table import SourceTable

SUFFIXES = (".vw", ".vw.gz")


def read_vowpal(path: Path) -> SourceTable:
    label = one_line(path.name)
    try:
        text = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as problem:
        raise InvalidInput(f"{label} cannot be read ({one_line(problem, 200)}). Write the file again.") from problem
    if not (lines := [line.strip() for line in text.rstrip().splitlines()]):
        raise InvalidInput(f"{label} holds no example.")
    single = all(lines) and not any(line.startswith("shared") for line in lines)
    blocks: list[list[tuple[int, str]]] = [[]]
    for number, line in enumerate(lines, start=1):
        if single or not line or line.startswith("shared"):
            blocks.append([])
        blocks[-1] += [(number, line)] if line else []
    actions, rewards, probs, contexts = zip(*(_decision(b, label, single) for b in blocks if b), strict=True)
    names = sorted({name for context in contexts for name in context}) or ["constant"]
    columns: dict[str, Any] = {name: [context.get(name, 0.0) for context in contexts] for name in names}
    columns |= {"actions": actions, "rewards": rewards, "behavior_action_probs": probs}
    if len(names) > 1024:
        raise InvalidInput(f"{label} has {len(names)} features, too many for columns of observations.")
    notes = [f"{label}, of Vowpal Wabbit: every example is an episode of one step; reward = -cost, also in its range."]
    notes += [] if single else ["Actions are places within their block, from 0 on; their features are not read."]
    return arrays_table(label, columns, groups={"observations": tuple(names)}, notes=tuple(notes), one_step=True)


def _decision(block: list[tuple[int, str]], label: str, single: bool) -> tuple[int, float, float, dict[str, float]]:
    """(action, reward, probability, features) of one example."""
    (first, opening), shared = block[0], block[0][1].startswith("shared")
    labels = [[word for word in line.partition("|")[0].split() if word[0] != "'"] for _, line in block[shared:]]
    places = [place for place, words in enumerate(labels) if words]
    if len(places) != 1:
        raise InvalidInput(
            f"{label}: in the example at line {first} {len(places) or 'no'} action{'s are' if places else ' is'} labeled. The "
            "taken action needs action:cost:probability, the others nothing. Never drop an example because of its cost."
        )
    number, text = block[shared:][places[0]][0], labels[places[0]][0]
    try:
        action, cost, prob = (kind(piece) for kind, piece in zip((int, float, float), text.split(":"), strict=True))
        features = _features(opening) if shared or single else {}
    except ValueError as problem:
        raise InvalidInput(
            f"{label}: line {number} has the label {one_line(text)!r} (action:cost:probability is needed: 0:1.5:0.25), or a "
            f"feature of line {first} is no number ({one_line(problem)})."
        ) from problem
    if single and action < 1:
        raise InvalidInput(f"{label}: line {number} has action {action}; single lines have actions numbered 1, 2, ...")
    return (int(action) - 1 if single else places[0]), 0.0 - cost, prob, features


def _features(line: str) -> dict[str, float]:
    """Features by namespace and name; one without a value has 1, and a namespace may scale its own."""
    out: dict[str, float] = {}
    for part in line.split("|")[1:]:
        words = [word.rpartition(":") if ":" in word else (word, "", "1") for word in part.split()]
        space, _, scale = words.pop(0) if part[:1].strip() and words else ("", "", "1")
        for name, _, value in words:
            key = f"{space}^{name}" if space else name
            out[key] = out.get(key, 0.0) + float(scale) * float(value)
    return out
