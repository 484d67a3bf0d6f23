"""Vowpal Wabbit's contextual bandit logs, plain or .gz: cb_adf blocks (`shared |...`, `0:cost:prob |...`), or cb lines.

A block of cb_adf is one decision: a line for every possible action, the taken one labeled; the action is its line's place in the
block, from 0. Features of the `shared` line (of cb: of the line) are observed, those of actions are not read. reward = -cost.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

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
    lines = [line.strip() for line in text.rstrip().splitlines()]
    alone = all(lines) and not any(line.startswith("shared") for line in lines)
    blocks: list[list[tuple[int, str]]] = [[]]
    for number, line in enumerate(lines, start=1):
        if alone or not line or line.startswith("shared"):
            blocks.append([])
        blocks[-1] += [(number, line)] if line else []
    if not any(blocks):
        raise InvalidInput(f"{label} holds no example.")
    actions, rewards, probs, contexts = zip(*(_decision(block, label, alone) for block in blocks if block), strict=True)
    names = sorted({name for context in contexts for name in context})  # none: the context is constant
    if len(names) > 1024:
        raise InvalidInput(
            f"{label} has {len(names)} features, too many for columns of observations: keep those that matter."
        )
    observed = {name: [context.get(name, 0.0) for context in contexts] for name in names or ["constant"]}
    told = {"actions": actions, "rewards": rewards, "behavior_action_probs": probs}
    note = (
        f"{label} is a contextual bandit log of Vowpal Wabbit: every example is an episode of one step. Costs became rewards: "
        "reward = -cost, and the reward range is that of -cost."
    )
    places = () if alone else ("Actions are places within their block, from 0 on; their features are not read.",)
    groups = {"observations": tuple(observed)}
    return arrays_table(label, {**observed, **told}, groups=groups, notes=(note, *places), one_step=True)


def _decision(block: list[tuple[int, str]], label: str, alone: bool) -> tuple[int, float, float, dict[str, float]]:
    """(action, reward, probability, features) of one example."""
    first, opening = block[0]
    shared = opening.startswith("shared")
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
        features = _features(opening) if shared or alone else {}
    except ValueError as problem:
        raise InvalidInput(
            f"{label}: line {number} has the label {one_line(text)!r} (action:cost:probability is needed: 0:1.5:0.25), or a "
            f"feature of line {first} is no number ({one_line(problem)})."
        ) from problem
    if alone and action < 1:
        raise InvalidInput(f"{label}: line {number} has action {action}; single lines have actions numbered 1, 2, ...")
    return (int(action) - 1 if alone else places[0]), 0.0 - cost, prob, features


def _features(line: str) -> dict[str, float]:
    """Features by namespace and name; one without a value has 1, and a namespace may scale its own."""
    out: dict[str, float] = {}
    for part in line.split("|")[1:]:
        words = [(name, float(value)) if sign else (word, 1.0) for word in part.split()
                 for name, sign, value in [word.rpartition(":")]]  # fmt: skip
        space, scale = ("", 1.0) if part[:1] in ("", " ", "\t") or not words else words.pop(0)
        for name, value in words:
            key = f"{space}^{name}" if space else name
            out[key] = out.get(key, 0.0) + scale * value
    return out
