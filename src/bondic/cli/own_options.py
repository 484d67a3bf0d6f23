"""`--with KEY=VALUE`: the fields of a baseline that are numbers, words or lists of numbers."""

from __future__ import annotations

import math
import types
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from bondic.baselines.registry import BASELINES
from bondic.errors import InvalidInput, one_line


def _keys(name: str) -> dict[str, Any]:
    """Fields of the method that can be written as a text, with their types.

    Not `side`, which has an option of its own, nor what the short name stands for: another value is another method.
    """
    if name not in BASELINES:
        return {}
    kind: Any = BASELINES[name].method
    hints, taken = get_type_hints(kind), {"side", *BASELINES[name].fixed}
    return {
        field.name: hints[field.name] for field in fields(kind) if field.name not in taken and _words(hints[field.name])
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
    chosen = list(BASELINES) if "all" in (listed := list(methods)) else [name for name in listed if name in BASELINES]
    seen = set()
    for item in items:
        method, key, _ = _split(item)
        if (method, key) in seen:
            raise InvalidInput(f"--with {one_line(item)}: `{one_line(key)}` is given twice.")
        seen.add((method, key))
        if not any(key in _keys(name) for name in chosen if method in (None, name)):
            known = "; ".join(f"{name}: {', '.join(_keys(name)) or 'none'}" for name in chosen)
            raise InvalidInput(
                f"--with {one_line(item)}: none of the methods has an option `{one_line(key)}`. Options of the baselines "
                f"among them: {known or 'no baseline was chosen, and dual has options of the command line'}."
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


def _words(hint: Any) -> str:
    """What a value of this type looks like; empty for types that cannot be written as a text."""
    if get_origin(hint) in (Union, types.UnionType):
        parts = [_words(part) for part in get_args(hint)]
        return " or ".join(parts) if all(parts) else ""
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if hint == tuple[int, ...]:
        return "whole numbers with commas between them"
    return {int: "a whole number", float: "a number", type(None): "none"}.get(hint, "")


def _value(hint: Any, text: str, item: str, name: str) -> Any:
    found = _parse(hint, text)
    key = _split(item)[1]
    least = 0 if key == "seed" else 1
    if isinstance(found, int) and found < least:
        raise InvalidInput(f"--with {one_line(item)}: `{key}` of {name} is at least {least}.")
    if found is _NOT:
        raise InvalidInput(
            f"--with {one_line(item)}: `{key}` of {name} is {_words(hint)}. Where "
            "methods differ, write METHOD.KEY=VALUE."
        )
    return found


_NOT = object()


def _parse(hint: Any, text: str) -> Any:
    """The value, or _NOT if the text is none of this type."""
    if get_origin(hint) in (Union, types.UnionType):
        found = (_parse(part, text) for part in get_args(hint))
        return next((value for value in found if value is not _NOT), _NOT)
    if get_origin(hint) is Literal:
        return text if text in get_args(hint) else _NOT
    if hint is type(None):
        return None if text.lower() == "none" else _NOT
    try:
        if hint is int:
            return int(text)
        if hint is float:
            return float(text) if math.isfinite(float(text)) else _NOT
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        return _NOT
