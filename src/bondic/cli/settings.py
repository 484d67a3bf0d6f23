"""`--with KEY=VALUE`: settings of a method that are numbers, words or lists of them; experts have all of them in Python.

A key is a field of the method, of the propensities that the default may use, or of `Choices`.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from bondic.cli.options import SETTINGS, split_setting
from bondic.core.errors import InvalidInput, one_line
from bondic.errors import did_you_mean
from bondic.extensions import added_methods
from bondic.methods.propensities import NAME as PROPENSITIES
from bondic.methods.propensities import Propensities

TUNED: dict[str, Any] = {"weight_bandwidth": float, "value_bandwidth": float}
"""Those that are fields of `Choices`."""
_PILOT: dict[str, Any] = {"pilot": int | float}
_GAUGES = Literal["half", "range", "paper", "finite", "self-normalized", "plug-in"]
_DUAL: dict[str, Any] = {**_PILOT, **TUNED, "gauge": _GAUGES, "misspecification": float}
_OWN: dict[str, dict[str, Any]] = {
    "auto": _DUAL,
    "dual": _DUAL,
    "sequential": {**_PILOT, "value_bandwidth": float},
    "table": _PILOT,
    "groups": {**_PILOT, "count": int},
    PROPENSITIES: {},
}
_DRAWS: dict[str, Any] = {"draws": int, "seed": int}
"""Of the question, whatever the method is."""
ABOUT_PROPENSITIES = {field.name for field in fields(Propensities)} - {"side", "pilot", "planned_rows"}
"""What may be stated to the default about them."""


def _keys(name: str) -> dict[str, Any]:
    """Fields of the method that can be written as a text, with their types.

    Not those with a setting of their own, nor what the short name stands for: another value is another method.
    """
    if name in ("auto", PROPENSITIES):
        hints = get_type_hints(Propensities)
        taken = {"side"} if name == PROPENSITIES else set(hints) - ABOUT_PROPENSITIES
    elif name in _OWN:
        return _OWN[name]
    else:
        found = added_methods()[name]
        hints, taken = get_type_hints(found.method), {"side", *found.fixed}
        hints = {field.name: hints[field.name] for field in fields(found.method)}
    return {**_OWN.get(name, {}), **{key: kind for key, kind in hints.items() if key not in taken and _forms(kind)}}


def own_options(name: str, items: Sequence[str]) -> dict[str, Any]:
    """The settings that this method has, as its arguments."""
    return _settings_of(name, _keys(name), items)


def drawing_options(items: Sequence[str]) -> dict[str, Any]:
    """How many actions are drawn from a continuous policy, and the seed, where they are stated."""
    return _settings_of("the question", _DRAWS, [item for item in items if split_setting(item)[0] is None])


def _settings_of(name: str, keys: dict[str, Any], items: Sequence[str]) -> dict[str, Any]:
    out = {}
    for item in sorted(items, key=lambda item: split_setting(item)[0] is not None):  # what names one method goes last
        method, key, text = split_setting(item)
        if key in keys and method in (None, name):
            out[key] = _value(keys[key], key, text, item, name)
    return out


def refuse_unknown_options(methods: Iterable[str], items: Sequence[str]) -> None:
    """Before any long work: a key that none of the methods has, one given twice, a value that does not fit."""
    every = dict.fromkeys((*_OWN, *added_methods()))
    chosen = list(every) if "all" in (listed := list(methods)) else [name for name in listed if name in every]
    seen = set()
    for item in items:
        method, key, _ = split_setting(item)
        if (method, key) in seen:
            raise InvalidInput(f"--with {one_line(item)}: `{one_line(key)}` is given twice.")
        seen.add((method, key))
        known = [name for name in chosen if method in (None, name) and key in _keys(name)]
        if not known and not (method is None and key in {**_DRAWS, **SETTINGS}):
            own = "; ".join(f"{name}: {', '.join(_keys(name)) or 'none'}" for name in chosen)
            near = did_you_mean(key, {*SETTINGS, *(option for name in chosen for option in _keys(name))})
            raise InvalidInput(
                f"--with {one_line(item)}: none of the methods has an option `{one_line(key)}`.{near} Options that they have: "
                f"{own}; of every method: {', '.join(SETTINGS)}; the draws of a policy: {', '.join(_DRAWS)}."
            )
    for name in chosen:
        own_options(name, items)
    drawing_options(items)


def _forms(hint: Any) -> list[tuple[str, Callable[[str], Any]]]:
    """What values of this type look like, and how a text becomes one; empty for types that cannot be written as a text."""
    either = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    parts = sorted(either, key=lambda part: part is not int)  # 500 is a whole number before it is a number
    found = [_one_of(get_args(part)) if get_origin(part) is Literal else _FORMS.get(part) for part in parts]
    return [form for form in found if form is not None] if None not in found else []


def _one_of(words: tuple[str, ...]) -> tuple[str, Callable[[str], Any]]:
    return "one of " + ", ".join(words), lambda text: words[words.index(text)]


def _finite(text: str) -> float:
    above, sign, below = text.partition("/")  # 1/34
    value = float(above) / (float(below) or math.nan) if sign else float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _none(text: str) -> None:
    if text.lower() != "none":
        raise ValueError(text)


_FORMS: dict[Any, tuple[str, Callable[[str], Any]]] = {
    int: ("a whole number", int),
    float: ("a number", _finite),
    type(None): ("none", _none),
    tuple[int, ...]: ("whole numbers with commas between them", lambda text: tuple(map(int, text.split(",")))),
}
"""Every text that does not fit is a ValueError."""


def _value(hint: Any, key: str, text: str, item: str, name: str) -> Any:
    forms = _forms(hint)
    for _, read in forms:
        with suppress(ValueError):
            found = read(text)
            break
    else:
        words = " or ".join(words for words, _ in forms)
        raise InvalidInput(
            f"--with {one_line(item)}: `{key}` of {name} is {words}. Where methods differ, write METHOD.KEY=VALUE."
        )
    least = 0 if key in ("seed", "pilot") else 1
    if isinstance(found, int) and found < least:
        raise InvalidInput(f"--with {one_line(item)}: `{key}` of {name} is at least {least}.")
    return found
