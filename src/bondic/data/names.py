"""Which columns of a table hold what: the usual names, one list column or several numbered ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from bondic.core.errors import InvalidInput, one_line
from bondic.errors import did_you_mean, shown

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
CLOCKS = (
    "timestamp", "timestamps", "time_stamp", "time", "date", "datetime", "date_time", "ts", "t", "event_time", "event_timestamp",
    "created_at", "logged_at",
)  # fmt: skip
"""Names that say time, whatever their case."""
_KEY = re.compile(r"(.*_)?(id|uuid|index|row)|user|customer|visitor|session|unnamed: 0")
OF_AN_EXPERIMENT = {"actions": ("arm",), "rewards": ("outcome",)}
"""Names that are taken where nothing else is in the table but keys, times and propensities."""
OF_ALL_ACTIONS = ("next_action_probs", "initial_action_probs", "logged_action_probs")
"""The target policy's probabilities of all actions at s'_i, at s_0 and at s_i: a list, or numbered columns."""
MAY_BE_ABSENT = (
    "observations", "terminations", "truncations", "episode_ids", "timesteps", "behavior_action_probs", "behavior_log_probs",
    "target_action_probs", "target_log_probs",
)  # fmt: skip
"""Parts that can be stated to be absent, whatever the columns are called: {part: None}, PART=none."""
PART_OF = {alias: part for part, aliases in ALIASES.items() for alias in aliases}
"""The part that a column of this name is usually taken for."""
REQUIRED = ("observations", "actions", "rewards", "next_observations", "terminations")
DONE_NAMES = ("dones", "done", "terminals", "terminal")
"""Names under which logs often mix both kinds of episode end."""


def is_key(column: str) -> bool:
    """Whether the name of a column says that it holds ids, or times."""
    return column.lower() in CLOCKS or _KEY.fullmatch(column.lower()) is not None


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
