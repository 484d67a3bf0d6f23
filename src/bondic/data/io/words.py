"""What is stated about reading a log, in the words of the command line and of result.json: both ways."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bondic.core.errors import InvalidInput
from bondic.data.io.encode import Categorical, Missing
from bondic.data.io.parts import Given, known_actions
from bondic.data.names import MAY_BE_ABSENT

UNWRITTEN = "unwritten"
"""Under this name: the options for whose values the command line has no words (a column's name with a comma in it)."""


def reading_words(
    *,
    columns: Given | None = None,
    missing: Missing = None,
    categorical: Categorical | Mapping[str, Categorical] | None = None,
    categories: Mapping[str, Sequence[str]] | None = None,
    actions: Sequence[str | int] | int | None = None,
    one_step: bool = False,
) -> dict[str, Any]:
    """Arguments of `read_log` as options of the command; those that say nothing are left out. Values are known to be sound."""
    stated = {part: None if names is None else _names(names) for part, names in (columns or {}).items()}
    columns_words = tuple(f"{part}={'none' if names is None else ','.join(names)}" for part, names in stated.items())
    fills = {name: float(value) for name, value in missing.items()} if isinstance(missing, Mapping) else missing
    missing_words = _missing_words(fills)
    listed = {name: list(values) for name, values in (categories or {}).items()}
    listed_words = tuple(f"{name}={','.join(values)}" for name, values in listed.items())
    words = {
        "columns": (columns_words, _same(columns_of, columns_words, stated)),
        "missing": (missing_words, _same(missing_of, missing_words, fills or None)),
        "text": (categorical, categorical is None or isinstance(categorical, str)),
        "categories": (listed_words, _same(categories_of, listed_words, listed)),
        "actions": (known_actions(actions), True),
        "one_step": (one_step, True),
    }
    unwritten = tuple(name for name, (_, exact) in words.items() if not exact)
    written = {name: value for name, (value, exact) in words.items() if exact and value}
    return {**written, UNWRITTEN: unwritten} if unwritten else written


def _names(given: Any) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _missing_words(fills: Any) -> tuple[str, ...]:
    if isinstance(fills, Mapping):
        return tuple(f"{name}={value!r}" for name, value in fills.items())
    return () if fills is None else (str(fills),)


def _same(parse: Any, words: tuple[str, ...], meant: Any) -> bool:
    """Whether the words are read as what was meant."""
    try:
        found = parse(words)
    except InvalidInput:
        return False
    if parse is columns_of:
        found = {part: None if names is None else _names(names) for part, names in found.items()}
    return bool(found == meant)


def columns_of(items: tuple[str, ...]) -> dict[str, str | list[str] | None]:
    """("observations=x,y", "terminations=none") -> {"observations": ["x", "y"], "terminations": None}."""
    out: dict[str, str | list[str] | None] = {}
    for item in items:
        part, sign, names = (word.strip() for word in item.partition("="))
        if not sign or not part or not names:
            raise InvalidInput(f"--columns {item}: write PART=COLUMN, or PART=COLUMN,COLUMN,... for several.")
        if part in out:
            raise InvalidInput(f"--columns {part} is given twice. Name all its columns at once: PART=COLUMN,COLUMN,...")
        group = [name.strip() for name in names.split(",")]
        absent = part in MAY_BE_ABSENT and names.lower() == "none"
        out[part] = None if absent else group[0] if len(group) == 1 else group
    return out


def categories_of(items: tuple[str, ...]) -> dict[str, list[str]]:
    """("color=red,blue",) -> {"color": ["red", "blue"]}."""
    out: dict[str, list[str]] = {}
    for item in items:
        name, sign, values = (word.strip() for word in item.partition("="))
        if not sign or not name or name in out:
            raise InvalidInput(f"--text {item}: write COLUMN=FIRST,SECOND,... once for every column.")
        out[name] = [value.strip() for value in values.split(",")]
    return out


def missing_of(items: tuple[str, ...]) -> Any:
    """("indicator",) -> "indicator"; ("bmi=25",) -> {"bmi": 25.0}; () -> None."""
    if items in ((), ("indicator",)):
        return items[0] if items else None
    out: dict[str, float] = {}
    for item in items:
        name, sign, value = (word.strip() for word in item.rpartition("="))  # names may hold "=": values never do
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not sign or not name or not math.isfinite(number) or name in out:
            raise InvalidInput(
                f"--missing {item}: write `indicator` alone, or COLUMN=NUMBER once for every column with gaps."
            )
        out[name] = number
    return out
