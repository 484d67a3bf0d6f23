"""Which columns of a table hold what: the usual names, one list column or several numbered ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from bondic.core.errors import InvalidInput, one_line
from bondic.errors import ValidityNote, did_you_mean, shown

ALIASES: dict[str, tuple[str, ...]] = {
    "observations": ("observations", "observation", "obs", "states", "state", "s"),
    "actions": ("actions", "action", "a"),
    "rewards": ("rewards", "reward", "r"),
    "next_observations": ("next_observations", "next_observation", "next_obs", "next_states", "next_state", "s_next"),
    "terminations": ("terminations", "termination", "terminated", "terminals", "terminal", "dones", "done"),
    "truncations": ("truncations", "truncation", "truncated", "timeouts", "timeout"),
    "episode_ids": ("episode_ids", "episode_id", "episodes", "episode", "trajectory_id", "patient_id"),
    "timesteps": ("timesteps", "timestep", "time_step", "steps", "step", "t"),
    "behavior_action_probs": (
        "behavior_action_probs", "behavior_probs", "behavior_prob", "behaviour_action_probs", "behavior_propensity", "pscore",
        "propensity", "propensities", "propensity_score",
    ),
    "behavior_log_probs": (
        "behavior_log_probs", "behavior_log_prob", "behavior_logprobs", "behavior_logprob", "logprobs_behavior",
        "logprob_behavior", "logprobs", "logprob", "log_probs", "log_prob",
    ),
    "next_action_probs": ("next_action_probs", "next_probs", "target_next_probs", "target_next_action_probs"),
    "initial_action_probs": (
        "initial_action_probs", "initial_probs", "target_initial_probs", "target_initial_action_probs",
    ),
    "logged_action_probs": ("logged_action_probs", "target_probs", "target_action_probs"),
    "target_action_probs": (
        "target_action_probs", "target_action_prob", "target_probs", "target_prob", "target_propensity",
    ),
    "target_log_probs": (
        "target_log_probs", "target_log_prob", "target_logprobs", "target_logprob", "logprobs_target", "logprob_target",
    ),
}  # fmt: skip
OF_ALL_ACTIONS = ("next_action_probs", "initial_action_probs", "logged_action_probs")
"""The target policy's probabilities of all actions at s'_i, at s_0 and at s_i: a list, or numbered columns."""
_ONE_OR_ALL = ("target_probs", "target_action_probs")
"""Numbered, or as lists, these are π(. | s_i); a single number per row is π(a_i | s_i)."""
MAY_BE_ABSENT = (
    "terminations", "truncations", "episode_ids", "timesteps", "behavior_action_probs", "behavior_log_probs",
    "target_action_probs", "target_log_probs",
)  # fmt: skip
"""Parts that can be stated to be absent, whatever the columns are called: {part: None}, PART=none."""
PART_OF = {alias: part for part, aliases in ALIASES.items() for alias in aliases}
"""The part that a column of this name is usually taken for."""
REQUIRED = ("observations", "actions", "rewards", "next_observations", "terminations")
DONE_NAMES = ("dones", "done", "terminals", "terminal")
"""Names under which logs often mix both kinds of episode end."""


@dataclass(frozen=True)
class ColumnMap:
    """For every part of a transition the table columns that hold it; several columns are its dimensions in order."""

    columns: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(column for group in self.columns.values() for column in group)


def find_columns(
    present: Iterable[str],
    stated: Mapping[str, str | Iterable[str]] | None = None,
    *,
    required: Iterable[str] = REQUIRED,
    skip: Collection[str] = (),
) -> ColumnMap:
    """Match the columns of a table with the parts of a transition; `stated` settles what the names do not.

    Parts in `skip` are not looked for.
    """
    names = list(present)
    found: dict[str, tuple[str, ...]] = {}
    for part, value in dict(stated or {}).items():
        found[part] = given_columns(part, value, names)
    taken = {column for group in found.values() for column in group}
    for part, aliases in ALIASES.items():
        single = _ONE_OR_ALL if part == "logged_action_probs" else ()
        free = [name for name in names if name.lower() not in single]
        if part not in found and part not in skip and (group := match_one(part, aliases, free, taken)):
            found[part] = group
            taken |= set(group)
    if {"target_action_probs", "target_log_probs"} & set(found):
        required = {"rewards"} & set(required)  # nothing else is needed of a policy that is known by these columns
    missing = [part for part in required if part not in found]
    if missing:
        raise InvalidInput(_not_found(missing, found, names, taken, skip))
    return ColumnMap(found, _notes(found))


def _not_found(
    missing: list[str],
    parts: Mapping[str, tuple[str, ...]],
    names: list[str],
    taken: Collection[str],
    skip: Collection[str],
) -> str:
    """Every part without a column, how it is named, and which columns it may be."""
    first = ALIASES[missing[0]]
    listed = ", ".join(f"'{part}': {'[...]' if part == 'observations' else '...'}" for part in missing)
    options = _options({part: "NAME,..." if part == "observations" else "NAME" for part in missing})
    text = (
        f"No column for {', '.join(f'`{part}`' for part in missing)} among {shown(names) or 'no columns'}. Name "
        f"{'it' if len(missing) == 1 else 'them'}: columns={{{listed}}} ({options})."
    )
    logs = any(
        "logp" in name.lower() for name in names
    )  # of a language model: what was done is known by its probabilities
    proposed = {} if logs else propose(missing, parts, names, taken, skip)
    if proposed:
        python = ", ".join(
            f"'{part}': {(group[0] if len(group) == 1 else list(group))!r}" for part, group in proposed.items()
        )
        told = _options({part: ",".join(map(one_line, group)) for part, group in proposed.items()})
        text += f" Perhaps columns={{{one_line(python, _LONGEST)}}} ({told})?"
    else:
        text += f" Usual names: {', '.join(first[:4])}, or numbered ones such as {first[0]}_0, {first[0]}_1."
        text += _resembling(missing[0], names, taken)
    if "terminations" in missing:
        text += (
            " That nothing ever terminates is stated by columns={'terminations': None} (--columns terminations=none), that every "
            "row ends by one_step=True (--one-step)."
        )
    return text if proposed else text + _of_probabilities(missing, parts, names, taken)


_LONGEST = 400


def _options(words: Mapping[str, str]) -> str:
    return " ".join(f"--columns {part}={name}" for part, name in words.items())


_PIECES = {
    "logged_action_probs": ("pi", "policy", "new", "target", "prob", "probs"),
    "episode_ids": ("id", "session", "run", "trajectory", "patient", "visit", "user", "episode"),
    "timesteps": ("step", "turn", "hour", "day", "tick", "round", "time"),
    "behavior_action_probs": ("prob", "propens"),
    "terminations": ("done", "end", "final", "last", "terminal"),
    "rewards": ("reward", "outcome", "click", "payoff", "profit", "revenue", "return", "score"),
    "actions": ("act", "treatment", "arm", "choice", "decision", "item", "banner", "move", "dose", "offer", "price"),
}
"""How words in the names of columns often begin, in the order in which columns are given away; proposed, never taken."""
_MOST_STATES = 8
"""Columns left over that are proposed as the state."""
_SEVERAL = 3


def propose(
    missing: Collection[str],
    parts: Mapping[str, tuple[str, ...]],
    names: Iterable[str],
    taken: Collection[str],
    skip: Collection[str] = (),
) -> dict[str, tuple[str, ...]]:
    """Columns that the missing parts, and keys of rows, may be in: a guess for a message. Numbered ones go together, x_*."""
    free, guessed = _patterns([name for name in names if name not in taken]), dict[str, tuple[str, ...]]()
    for part, pieces in _PIECES.items():
        if part in parts or (part in REQUIRED and part not in missing):
            continue
        fits = [
            name
            for name in free
            if name.endswith("*") == (part in OF_ALL_ACTIONS)
            and any(word.startswith(piece) for word in re.split(r"[^a-z]+", name.lower()) for piece in pieces)
        ]
        if len(fits) == 1:
            guessed[part] = (fits[0],)
            free.remove(fits[0])
    following = tuple(name for name in free if name.lower().startswith("next"))
    states = tuple(name for name in free if name not in following)
    if "observations" in missing and 0 < len(states) <= _MOST_STATES:
        guessed["observations"] = states
        if following:
            guessed["next_observations"] = following
    unused = {*skip, *(("episode_ids",) if "timesteps" in skip else ())}  # keys of rows that are episodes of their own
    return (
        {part: guessed[part] for part in ALIASES if part in guessed.keys() - unused} if {*missing} & {*guessed} else {}
    )


def _patterns(names: list[str]) -> list[str]:
    """The same names, with x_* in place of x_0, x_1, x_2, ..."""
    stems = [re.sub(r"\d+$", "*", name) for name in names]
    several = {stem for stem in stems if stem.endswith("*") and stems.count(stem) >= _SEVERAL}
    return list(dict.fromkeys(stem if stem in several else name for stem, name in zip(stems, names, strict=True)))


_TELLING = {
    "behavior_log_probs": ("old", "behav", "logging", "sampl"),
    "target_log_probs": ("new", "target", "eval"),
    "rewards": ("score", "return", "payoff", "grade", "rating"),
}
"""What a log of probabilities needs, with pieces of names that say which column it may be."""


def _of_probabilities(
    missing: Collection[str], parts: Mapping[str, tuple[str, ...]], names: list[str], taken: Collection[str]
) -> str:
    """What is missing of a log that has neither states nor actions, but the probabilities of what was done."""
    if not {"observations", "actions"} & set(missing):
        return ""
    free = [name for name in names if name not in taken]
    named = []
    for part, pieces in _TELLING.items():
        if part in parts or part.replace("log", "action") in parts:
            continue
        fits = [name for name in free if any(piece in name.lower().split(".")[-1] for piece in pieces)]
        if part != "rewards":
            fits = [name for name in fits if "prob" in name.lower() or "logp" in name.lower()]
        named.append((part, one_line(fits[0]) if len(fits) == 1 else "NAME"))
    return (
        " With LoggedTarget() (--policy logged) observations and actions are not needed; missing are then "
        f"{', '.join(f'`{part}`' for part, _ in named)}: {' '.join(f'--columns {part}={name}' for part, name in named)}."
    )


def _resembling(part: str, names: list[str], taken: Collection[str]) -> str:
    """A column whose name is nearly one of the usual ones."""
    free = [name for name in names if name not in taken]
    return next((hint for alias in ALIASES[part] if len(alias) > 2 and (hint := did_you_mean(alias, free))), "")


def held_by(column: str) -> str | None:
    """The part that a column of this name is usually taken for."""
    return PART_OF.get(str(column).lower())


def unknown_part(part: str, known: Iterable[str]) -> str:
    """The words for a part that there is not: a usual name of a column stands for the part that it holds."""
    listed, meant = tuple(known), held_by(part)
    near = did_you_mean(part, listed) if meant is None else f" Did you mean `{meant}`?"
    return f"`{one_line(part)}` is not a part of a transition.{near} The parts are {', '.join(listed)}."


def match_one(part: str, aliases: Iterable[str], names: list[str], taken: Collection[str] = ()) -> tuple[str, ...]:
    """The columns under one of these names, none if there are none; two answers are refused."""
    lower = {name.lower(): name for name in names}
    matches = {alias: group for alias in aliases if (group := _matches(alias, names, lower, taken))}
    if len(matches) > 1:
        raise InvalidInput(
            f"`{part}` could be any of the columns {shown(group[0] for group in matches.values())}. Say which: "
            f"columns={{'{part}': ...}} (--columns {part}=NAME)."
        )
    return next(iter(matches.values()), ())


def given_columns(part: str, value: str | Iterable[str], names: list[str]) -> tuple[str, ...]:
    """The columns of these names; `*` and `?` stand for any letters, and numbered columns come in the order of their numbers."""
    requested = (value,) if isinstance(value, str) else tuple(value)
    found = [column for word in requested for column in _spelled(word, names)]
    group = tuple(dict.fromkeys(found))
    absent = [column for column in group if column not in names]
    if absent or not group:
        raise InvalidInput(
            f"`{part}` is stated to be in column {shown(absent) or '(none)'}, but the table has "
            f"{shown(names)}.{did_you_mean(absent[0], names) if absent else ''}"
        )
    return group


def _spelled(word: str, names: list[str]) -> list[str]:
    """The word itself, or the columns that it is a pattern of."""
    if word in names or not set(word) & set("*?"):
        return [word]
    pattern = re.compile(re.escape(word).replace(r"\*", ".*").replace(r"\?", "."), re.DOTALL)
    return sorted(filter(pattern.fullmatch, names), key=natural) or [word]


def natural(name: str) -> list[tuple[int, int | str]]:
    """Numbers inside names count as numbers: part-2 before part-10."""
    return [(0, int(piece)) if piece.isdecimal() else (1, piece) for piece in re.split(r"(\d+)", name) if piece]


def _matches(alias: str, names: list[str], lower: dict[str, str], taken: Collection[str]) -> tuple[str, ...]:
    """The column of this name, or its numbered columns alias_0, alias_1, ... (also alias0, alias[0], alias.0)."""
    if alias in lower:
        return () if lower[alias] in taken else (lower[alias],)
    pattern = re.compile(rf"{re.escape(alias)}[_.\[]?(\d+)\]?", re.IGNORECASE)
    numbered = sorted((int(hit[1]), name) for name in names if name not in taken and (hit := pattern.fullmatch(name)))
    if not numbered:
        return ()
    numbers = [number for number, _ in numbered]
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))) or numbers[0] > 1:
        raise InvalidInput(
            f"The numbered columns {shown(name for _, name in numbered)} have gaps or copies: their order is the order "
            "of the dimensions, starting at 0 or 1."
        )
    return tuple(name for _, name in numbered)


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
