"""`--with KEY=VALUE`: the fields of a baseline, or of the method from propensities, that are numbers, words or lists of them."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from bondic.baselines.registry import BASELINES
from bondic.errors import InvalidInput, did_you_mean, one_line
from bondic.methods.propensities import NAME as PROPENSITIES
from bondic.methods.propensities import Propensities

_METHODS: dict[str, tuple[Any, set[str]]] = {
    **{name: (short.method, {"side", *short.fixed}) for name, short in BASELINES.items()},
    PROPENSITIES: (Propensities, {"side", "pilot"}),
    "auto": (Propensities, {"side", "pilot", "value", "planned"}),
}
"""Methods with fields of their own, and those of them that have an option or that the short name stands for."""


_BY_NAME = (
    "none by --with; sequential and dual have --side, --pilot, --radius, --planned-rows, --value-bandwidth, and dual --gauge, "
    "--misspecification, --weight-bandwidth"
)


def _keys(name: str) -> dict[str, Any]:
    """Fields of the method that can be written as a text, with their types.

    Not those with an option of their own, nor what the short name stands for: another value is another method.
    """
    if name not in _METHODS:
        return {}
    kind, taken = _METHODS[name]
    hints = get_type_hints(kind)
    return {
        field.name: hints[field.name] for field in fields(kind) if field.name not in taken and _forms(hints[field.name])
    }


def own_options(name: str, items: Sequence[str]) -> dict[str, Any]:
    """The options that this method has, as arguments of make_baseline."""
    keys, out = _keys(name), {}
    for item in sorted(items, key=lambda item: _split(item)[0] is not None):  # what is said of one method goes last
        method, key, text = _split(item)
        if key in keys and method in (None, name):
            out[key] = _value(keys[key], text, item, name)
    return out


def refuse_unknown_options(methods: Iterable[str], items: Sequence[str]) -> None:
    """Before any long work: a key that none of the methods has, one given twice, a value that does not fit."""
    chosen = list(_METHODS) if "all" in (listed := list(methods)) else [name for name in listed if name in _METHODS]
    seen = set()
    for item in items:
        method, key, _ = _split(item)
        if (method, key) in seen:
            raise InvalidInput(f"--with {one_line(item)}: `{one_line(key)}` is given twice.")
        seen.add((method, key))
        if not any(key in _keys(name) for name in chosen if method in (None, name)):
            known = "; ".join(f"{name}: {', '.join(_keys(name)) or 'none'}" for name in chosen)
            near = did_you_mean(key, {option for name in chosen for option in _keys(name)})
            raise InvalidInput(
                f"--with {one_line(item)}: none of the methods has an option `{one_line(key)}`.{near} Options that they have: "
                f"{known or _BY_NAME}."
            )
    for name in chosen:
        own_options(name, items)


def _split(item: str) -> tuple[str | None, str, str]:
    """ "tis.steps=50" -> ("tis", "steps", "50"); "steps=50" -> (None, "steps", "50")."""
    key, sign, text = item.partition("=")
    method, dot, last = key.strip().rpartition(".")
    if not sign or not last.strip() or not text.strip():
        raise InvalidInput(f"--with {one_line(item)}: write KEY=VALUE, or METHOD.KEY=VALUE for one of several methods.")
    return (method if dot else None), last.replace("-", "_"), text.strip()


def _forms(hint: Any) -> list[tuple[str, Callable[[str], Any]]]:
    """What values of this type look like, and how a text becomes one; empty for types that cannot be written as a text."""
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    found = [_one_of(get_args(part)) if get_origin(part) is Literal else _FORMS.get(part) for part in parts]
    return [form for form in found if form is not None] if None not in found else []


def _one_of(words: tuple[str, ...]) -> tuple[str, Callable[[str], Any]]:
    return "one of " + ", ".join(words), lambda text: words[words.index(text)]


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
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


def _value(hint: Any, text: str, item: str, name: str) -> Any:
    key, forms = _split(item)[1], _forms(hint)
    for _, read in forms:
        with suppress(ValueError):
            found = read(text)
            break
    else:
        words = " or ".join(words for words, _ in forms)
        raise InvalidInput(
            f"--with {one_line(item)}: `{key}` of {name} is {words}. Where methods differ, write METHOD.KEY=VALUE."
        )
    least = 0 if key == "seed" else 1
    if isinstance(found, int) and found < least:
        raise InvalidInput(f"--with {one_line(item)}: `{key}` of {name} is at least {least}.")
    return found
