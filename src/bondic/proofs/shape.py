"""Which kind of value belongs where in a certificate: fields that are there are checked before any of them is used."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from bondic.proofs.certificate import FORMAT, Certificate
from bondic.proofs.limits import MOST_DRAWS, check_arrays, check_counts, check_values, refuse
from bondic.terms import MOST_STEPS


def _number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _not_nan(value: Any) -> bool:
    return type(value) in (int, float) and not math.isnan(value)


def _whole(value: Any) -> bool:
    return type(value) is int and abs(value) <= MOST_STEPS


def _seed(value: Any) -> bool:
    return type(value) is int and value >= 0


def _flag(value: Any) -> bool:
    return type(value) is bool


def _text(value: Any) -> bool:
    return type(value) is str


def _pair(kind: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: type(value) is list and len(value) == 2 and all(map(kind, value))


def _or_none(kind: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or kind(value)


def _draws(value: Any) -> bool:
    return _whole(value) and 1 <= value <= MOST_DRAWS


def _start_draws(value: Any) -> bool:
    return _whole(value) and 1 <= value <= 100 * MOST_DRAWS


def _object(value: Any) -> bool:
    return type(value) is dict


def _stored(value: Any) -> bool:
    return type(value) is dict and set(value) == {"array"}


FIELDS: tuple[tuple[str, Callable[[Any], bool]], ...] = (
    ("alpha", _number),
    ("budget.*", _number),
    ("side", _text),
    ("problem.log_hash", _text),
    ("problem.rows", _pair(_whole)),
    ("problem.seed", _seed),
    ("problem.answers.next", _or_none(_stored)),
    ("problem.answers.initial", _or_none(_stored)),
    ("problem.initial.observations", _or_none(_stored)),
    ("problem.initial.weights", _stored),
    ("problem.initial.kind", _text),
    ("problem.initial.from_log", _flag),
    ("problem.streamed", _or_none(_object)),
    ("problem.streamed?.batch_rows", _whole),
    ("problem.streamed?.draws", _draws),
    ("problem.asked?.draws", _draws),
    ("problem.asked?.initial_draws", _or_none(_start_draws)),
    ("ends.*.claim.bound", _number),
    ("ends.*.claim.rounding", _number),
    ("ends.*.claim.uses_log", _flag),
    ("ends.*.claim.parts.*.name", _text),
    ("ends.*.claim.parts.*.role", _text),
    ("ends.*.claim.parts.*.size", _pair(_number)),
    ("rejection.claim.rejected", _flag),
    ("rejection.claim.p_value", _number),
    ("rejection.claim.minimal_radius", _not_nan),
    ("rejection.tests.*.claim.rejected", _flag),
    ("rejection.tests.*.claim.p_value", _number),
    ("rejection.tests.*.claim.minimal_radius", _not_nan),
    ("claims.low", _number),
    ("claims.high", _number),
    ("claims.status", _text),
)
"""`*` stands for every key or entry, a name with `?` may be missing or null."""

NEEDED = (
    "problem.log_hash",
    "problem.initial.weights",
    "problem.initial.observations",
    "problem.initial.kind",
)
"""Looked at before a certificate is verified."""


def check_certificate(certificate: Certificate) -> None:
    """Sizes, texts and kinds of values; VerificationError with the place when one does not belong there."""
    body = certificate.body
    refuse(type(body) is not dict, "The certificate is damaged: it is not a list of named values.")
    stated = body.get("format")
    refuse(stated != FORMAT, f"This is a certificate of format {stated!r}, and {FORMAT!r} is read: {_way_out(body)}.")
    check_values(body)
    check_arrays(certificate.arrays)
    check_counts(body)
    for path, kind in FIELDS:
        for value in _values(body, path.split("."), path):
            if not kind(value):
                refuse(True, f"The certificate is damaged: {value!r} does not belong at {path}.")
    for path in NEEDED:
        refuse(not list(_values(body, path.split("."), path)), f"The certificate is damaged: it lacks {path}.")
    for name in _array_names(body):
        known = isinstance(name, str) and name in certificate.arrays
        refuse(not known, f"The certificate lacks the array {name!r}.")


def _way_out(body: dict[str, Any]) -> str:
    """What to do with a certificate of another format: the version that wrote it can verify it."""
    versions = information.get("versions") if isinstance(information := body.get("information"), dict) else None
    writer = versions.get("bondic") if isinstance(versions, dict) else None
    if not isinstance(writer, str):
        return "make it again with this version"
    return f"it was written by bondic {writer}; verify it with that version, or make it again with this one"


def _values(node: Any, parts: list[str], path: str) -> Iterator[Any]:
    """The values at a path; a missing name has none."""
    if not parts:
        yield node
        return
    name = parts[0].removesuffix("?")
    if name == "*" and type(node) is list:
        node = dict(enumerate(node))
    refuse(type(node) is not dict, f"The certificate is damaged: a {type(node).__name__} stands on the way to {path}.")
    found = list(node.values()) if name == "*" else [node[name]] if name in node else []
    for value in found:
        if not (parts[0].endswith("?") and value is None):
            yield from _values(value, parts[1:], path)


def _array_names(body: Any) -> Iterator[Any]:
    stack = [body]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if "array" in node:
                yield node["array"]
            stack += node.values()
        elif isinstance(node, list):
            stack += node
