"""The columns of a table that hold the parts of a transition; an outcome is never part of the state before it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from bondic.core.errors import InvalidInput, one_line
from bondic.data.io.proposals import ReadColumn, not_found, options
from bondic.data.names import ALIASES, DONE_NAMES, OF_AN_EXPERIMENT, REQUIRED, given_columns, is_key, match_one
from bondic.errors import ValidityNote, shown

_ONE_OR_ALL = ("target_probs", "target_action_probs")
"""Numbered, or as lists, these are π(. | s_i); a single number per row is π(a_i | s_i)."""


@dataclass(frozen=True)
class ColumnMap:
    """For every part of a transition the table columns that hold it; several columns are its dimensions in order."""

    columns: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...] = ()
    stateless: bool = False  # there is no state: decisions are made in one situation
    single: bool = False  # nor is there anything that tells episodes: every row is one

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(column for group in self.columns.values() for column in group)


def find_columns(
    present: Iterable[str],
    stated: Mapping[str, str | Iterable[str]] | None = None,
    *,
    required: Iterable[str] = REQUIRED,
    skip: Collection[str] = (),
    look: ReadColumn | None = None,
) -> ColumnMap:
    """Match the columns of a table with the parts of a transition; `stated` settles what the names do not.

    Parts in `skip` are not looked for. `look` reads a column, for proposals.
    """
    names, stateless = list(present), False
    found: dict[str, tuple[str, ...]] = {}
    for part, value in dict(stated or {}).items():
        found[part] = given_columns(part, value, names)
    taken = {column for group in found.values() for column in group}
    for part, aliases in ALIASES.items():
        lone = _ONE_OR_ALL if part == "logged_action_probs" else ()
        free = [name for name in names if name.lower() not in lone]
        if part not in found and part not in skip and (group := match_one(part, aliases, free, taken)):
            found[part] = group
            taken |= set(group)
    if {"target_action_probs", "target_log_probs"} & set(found):
        required = {"rewards"} & set(required)  # nothing else is needed of a policy that is known by these columns
    elif stateless := "observations" not in found and ("observations" in skip or _experiment(names, found, taken)):
        required = [part for part in required if part != "observations"]
    single = stateless and "terminations" not in skip and not {*_OF_EPISODES} & {*found}
    missing = [part for part in required if part not in found and not (single and part == "terminations")]
    if missing:
        raise InvalidInput(not_found(missing, found, names, taken, skip, look))
    _refuse_shared(found)
    return ColumnMap(found, _notes(found), stateless, single)


_OF_EPISODES = ("next_observations", "terminations", "truncations", "episode_ids", "timesteps")


def _experiment(names: list[str], found: dict[str, tuple[str, ...]], taken: set[str]) -> bool:
    """Whether the table holds actions, rewards, propensities, ids and times, and nothing else; `found` is filled in."""
    more = {part: match_one(part, also, names, taken) for part, also in OF_AN_EXPERIMENT.items() if part not in found}
    used = taken.union(*more.values())
    if {*_OF_EPISODES} & {*found} or not all(more.values()) or not all(name in used or is_key(name) for name in names):
        return False
    found.update(more)
    return True


_APART = (
    ("observations", "rewards", "The outcome is"),
    ("observations", "actions", "What was decided is"),
    ("observations", "terminations", "The end is"),
    ("actions", "rewards", "The outcome is"),
)
"""Parts that share no column, and what is not known before the decision."""


def _refuse_shared(found: Mapping[str, tuple[str, ...]]) -> None:
    for kept, other, later in _APART:
        both = [name for name in found.get(kept, ()) if name in found.get(other, ())]
        if not both:
            continue
        why = f"{later} not known before the decision: with it the interval is wrong."
        rest = [
            name
            for name in found[kept]
            if not any(name in found.get(part, ()) for first, part, _ in _APART if first == kept)
        ]
        way = (
            f"leave it out, columns={{'{kept}': {one_line(repr(rest), 400)}}} ({options({kept: ','.join(map(one_line, rest))})})"
            if rest
            else f"name another one for `{kept}` or for `{other}`"
        )
        raise InvalidInput(
            f"Column {shown(both)} is given for `{kept}` and for `{other}`. {why} Way out: {way}. If it is right (a value of the "
            "step before, say), store a copy under a name of its own."
        )


def _notes(parts: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    if "terminations" not in parts:
        return ()
    ends = parts["terminations"][0].lower()
    if ends in DONE_NAMES and "truncations" not in parts:
        return (
            ValidityNote(
                f"Column {parts['terminations'][0]} is read as terminations: nothing follows, and the value after it is 0. If "
                "it also marks episodes that were merely cut off, the interval is not valid; name a column for terminations "
                "and one for truncations."
            ),
        )
    return ()
